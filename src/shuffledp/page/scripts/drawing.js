"use strict";
// Maps whose cells can be chosen one by one, with mouse, finger or keyboard.

const WIDTH = 1000; // width of the cells in units of the drawing
const MARGIN = 25;
const NAME_SIZE = 11; // pixels
const GLYPH = 0.58; // mean width of a character, as a share of its size
const KM_PER_DEGREE = 111.32;
const ZOOM = 2.5;
const FINGER = 28; // pixels: smallest cell that a finger can hit

/** Return a projection of degrees to the drawing, with the aspect ratio that is right in the middle. `rings` are flat lists of coordinates. */
function projection(rings) {
  const longitudes = rings.flatMap((ring) => ring.filter((_, i) => i % 2 === 0));
  const latitudes = rings.flatMap((ring) => ring.filter((_, i) => i % 2 === 1));
  const [west, east] = d3.extent(longitudes);
  const [south, north] = d3.extent(latitudes);
  const across = Math.cos(((south + north) / 2) * (Math.PI / 180));
  const scale = WIDTH / ((east - west) * across);
  return {
    width: WIDTH + 2 * MARGIN,
    height: (north - south) * scale + 2 * MARGIN,
    km: scale / KM_PER_DEGREE,
    point: ([x, y]) => [MARGIN + (x - west) * across * scale, MARGIN + (north - y) * scale],
  };
}

function pathOf(points, project, closed) {
  return "M" + points.map((p) => project.point(p).map((v) => v.toFixed(1)).join(",")).join("L") + (closed ? "Z" : "");
}

function pairs(flat) {
  return d3.range(0, flat.length, 2).map((i) => [flat[i], flat[i + 1]]);
}

/**
 * Return the `outlines` of cells as paths, their `boxes` on the drawing (western, northern, eastern and southern end), and the
 * width in pixels of a map on which a `finger` can hit a cell. `cells` are lists of rings, which are flat lists of coordinates.
 */
function shapesOf(cells, project) {
  const boxes = cells.map((rings) => {
    const points = rings.flatMap(pairs).map(project.point);
    return [...[0, 1].map((at) => d3.min(points, (p) => p[at])), ...[0, 1].map((at) => d3.max(points, (p) => p[at]))];
  });
  return {
    boxes,
    outlines: cells.map((rings) => rings.map((ring) => pathOf(pairs(ring), project, true)).join("")),
    finger: (FINGER * project.width) / d3.median(boxes, ([west, , east]) => east - west),
  };
}

/** Return the nearest cell in a direction of the compass, by the middles of the cells, or -1. */
function neighbourOf(boxes, chosen, toEast, toNorth) {
  const middle = ([west, north, east, south]) => [(west + east) / 2, -(north + south) / 2];
  const [x, y] = middle(boxes[chosen]);
  const far = boxes.map((box, i) => {
    const [dx, dy] = [middle(box)[0] - x, middle(box)[1] - y];
    const [along, aside] = [dx * toEast + dy * toNorth, Math.abs(dx * toNorth) + Math.abs(dy * toEast)];
    return i !== chosen && along > 0 && along >= aside ? Math.hypot(dx, dy) : Infinity;
  });
  const nearest = d3.minIndex(far);
  return far[nearest] < Infinity ? nearest : -1;
}

/** Return the colour of a count, for t from 0 to 1. Large counts are dark on white and light on black. */
function countColour(t) {
  return d3.interpolateYlGnBu(isDark() ? 0.92 - 0.87 * t : 0.16 + 0.84 * t);
}

/** Add the names that fit, a scale bar and a north arrow; the size of letters does not depend on the width. */
function labels(svg, { project, names }, pixels) {
  const size = (NAME_SIZE * project.width) / pixels;
  const strip = 2.2 * size;
  svg.setAttribute("viewBox", `0 0 ${project.width} ${(project.height + strip).toFixed(0)}`);
  svg.style.width = `${pixels}px`;
  const group = svgElement("g", { "aria-hidden": "true", "font-size": size.toFixed(1) });
  const text = (x, y, content, attributes = {}) => group.append(svgElement("text", { x: x.toFixed(1), y: y.toFixed(1), ...attributes }, content));
  const taken = [];
  for (const { kind, name, at } of names) {
    const [[x1, y1], [x2, y2]] = at.map(project.point);
    const [x, y, needed] = [(x1 + x2) / 2, (y1 + y2) / 2, name.length * GLYPH * size];
    const box = { x0: x - needed / 2, x1: x + needed / 2, y0: y - size * 0.6, y1: y + size * 0.6 };
    const hidden = taken.some((o) => o.x0 < box.x1 && box.x0 < o.x1 && o.y0 < box.y1 && box.y0 < o.y1);
    if (hidden || Math.hypot(x2 - x1, y2 - y1) < needed || box.x0 < 0 || box.x1 > project.width) continue;
    taken.push(box);
    const turn = kind === "river" ? { class: "river-name", transform: `rotate(${((Math.atan2(y2 - y1, x2 - x1) * 180) / Math.PI).toFixed(1)} ${x.toFixed(1)} ${y.toFixed(1)})` } : {};
    text(x, y + size * 0.35, name, { "text-anchor": "middle", ...turn });
  }
  const longest = (0.3 * WIDTH) / project.km;
  const length = d3.max([1, 2, 5].flatMap((f) => [0.01, 0.1, 1, 10, 100, 1000].map((d) => f * d)).filter((km) => km <= longest));
  const low = project.height + strip * 0.55;
  const end = MARGIN + length * project.km;
  group.append(svgElement("path", { class: "scale", d: `M${MARGIN},${low - size * 0.35}V${low}H${end.toFixed(1)}V${low - size * 0.35}` }));
  text(end + size * 0.5, low + size * 0.2, length < 1 ? `${1000 * length} m` : `${length} km`);
  const x = project.width - MARGIN - size;
  group.append(svgElement("path", { class: "scale", d: `M${x},${low + size * 0.3}V${low - size * 1.1}l${-size * 0.35},${size * 0.45}m${size * 0.35},${-size * 0.45}l${size * 0.35},${size * 0.45}` }));
  text(x - size * 1.4, low + size * 0.2, "N");
  svg.append(group);
}

/**
 * Put a map into a figure, in place of an earlier one. `drawing` has the projection, the
 * surroundings of the cells (`layers`, `names`) and the `outlines` of the cells. `acts` has functions:
 * `choose` chooses a cell by its number, `chosen` returns the chosen one, `next` returns its
 * neighbour in a direction, and `wide` returns the width of the map in pixels.
 */
function cellMap(figure, id, label, drawing, acts) {
  const svg = svgElement("svg", { class: "map" });
  const hatch = svgElement("pattern", { id: `${id}-hatch`, width: 8, height: 8, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svgElement("line", { x1: 0, y1: 0, x2: 0, y2: 8, class: "hatch", "stroke-width": 2 }));
  svg.append(svgElement("defs", {}, hatch));
  const under = svgElement("g", { "aria-hidden": "true" });
  const over = svgElement("g", { "aria-hidden": "true" });
  // Rivers are drawn over borders, which often follow them.
  for (const layer of d3.sort(drawing.layers, (one) => one.kind === "river")) {
    const area = layer.kind !== "river";
    const d = layer.paths.map((p) => pathOf(p, drawing.project, area)).join("");
    if (["district", "park", "water"].includes(layer.kind))
      under.append(svgElement("path", { d, class: layer.kind, "fill-rule": "evenodd" }));
    over.append(svgElement("path", { d, class: { river: "river", outline: "outline" }[layer.kind] ?? "border" }));
  }
  const cells = svgElement("g", { role: "listbox", tabindex: "0", "aria-label": label });
  drawing.outlines.forEach((d, i) => {
    cells.append(svgElement("path", { d, class: "cell", "fill-rule": "evenodd", role: "option", id: `${id}-${i}`, "aria-selected": "false" }));
  });
  svg.append(under, cells, over);
  const frame = element("div", { class: "mapframe" }, svg);
  const tip = element("div", { class: "tip", "aria-hidden": "true", hidden: "" });
  frame.append(tip);
  figure.querySelector(".mapframe")?.remove();
  figure.append(frame);
  labels(svg, drawing, acts.wide(frame));
  const map = { svg, cells, frame, tip, hatch: `url(#${id}-hatch)` };
  const chooseTarget = (event) => {
    const i = [...cells.children].indexOf(event.target);
    if (i >= 0) acts.choose(i, map);
  };
  cells.addEventListener("pointerover", chooseTarget);
  cells.addEventListener("click", chooseTarget);
  cells.addEventListener("focus", () => acts.choose(acts.chosen(), map));
  cells.addEventListener("blur", () => { tip.hidden = true; });
  svg.addEventListener("pointerleave", () => { tip.hidden = true; });
  cells.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = acts.next(...step);
    if (next >= 0) acts.choose(next, map);
  });
  return map;
}

/** Append a check box that enlarges the map, so that a finger can hit a single cell. */
function zoomBox(home, changed) {
  const box = element("input", { type: "checkbox", id: "map-zoom" });
  box.addEventListener("change", changed);
  home.append(element("div", { class: "tick" }, box, element("label", { for: "map-zoom", text: "Zoom in" })));
  return box;
}

/** Move the mark of the chosen cell. */
function mark({ cells }, before, now) {
  cells.children[before]?.classList.remove("chosen");
  cells.children[before]?.setAttribute("aria-selected", "false");
  cells.children[now].classList.add("chosen");
  cells.children[now].setAttribute("aria-selected", "true");
  cells.setAttribute("aria-activedescendant", cells.children[now].id);
}

/** Show lines of text in a tooltip at a cell. */
function showTip({ svg, frame, tip, cells }, i, lines) {
  const [box, around] = [cells.children[i].getBoundingClientRect(), frame.getBoundingClientRect()];
  tip.replaceChildren(...lines.flatMap((line, i) => (i ? [element("br"), line] : [line])));
  tip.hidden = false;
  const half = tip.offsetWidth / 2;
  const x = box.left + box.width / 2 - around.left;
  const below = box.top - around.top < tip.offsetHeight + 8;
  tip.classList.toggle("below", below);
  tip.style.left = `${Math.max(half, Math.min(x, around.width - half)) + frame.scrollLeft}px`;
  tip.style.top = `${(below ? box.bottom : box.top) - around.top + frame.scrollTop}px`;
  svg.dataset.tip = tip.textContent;
}

/** Return a colour bar; `ticks` are [position from 0 to 1, label] pairs. */
function ramp(colour, ticks) {
  const stops = d3.range(0, 1.001, 0.1).map(colour).join(", ");
  const labels = element("div", { class: "ticks" }, ...ticks.map(([at, text]) => element("span", { text, style: `left: ${(100 * at).toFixed(1)}%` })));
  return [element("div", { class: "bar", style: `background: linear-gradient(to right, ${stops})` }), labels];
}

/** Return a legend entry with a filled rectangle. */
function key(fill, label) {
  const icon = svgElement("svg", { width: 22, height: 14, "aria-hidden": "true" }, svgElement("rect", { width: 22, height: 14, fill, stroke: "currentColor" }));
  return element("li", {}, icon, label);
}

/** Return the smallest of 1, 2 or 5 times a power of ten that is at least `value`. */
function roundTop(value) {
  const power = 10 ** Math.floor(Math.log10(value) + 1e-9);
  return [1, 2, 5, 10].map((f) => f * power).find((v) => v >= value);
}

/** Return the largest of 1, 2 or 5 times a power of ten that is at most `value`, and at least 1. */
function roundBottom(value) {
  if (value < 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value) + 1e-9);
  return [5, 2, 1].map((f) => f * power).find((v) => v <= value);
}

/** Return the ticks of a colour bar of counts: both ends, and powers of ten between them. */
function decadeTicks(scale, top, bottom = 1) {
  const decades = d3.range(Math.ceil(Math.log10(bottom) - 1e-9), Math.log10(top) + 1e-9).map((d) => 10 ** d);
  const values = decades[0] === bottom ? decades : [bottom, ...decades];
  const ticks = values.map((value) => [scale(value), number.format(value)]);
  return /^10*$/.test(String(top)) ? ticks : [...ticks, [1, number.format(top)]];
}
