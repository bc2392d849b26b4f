"use strict";
// Maps of cells that are read one by one: with mouse, finger or keys. Shared by all pages.

const WIDTH = 1000; // of the cells, in the drawing's own unit
const MARGIN = 25;
const NAME_SIZE = 11; // pixels
const GLYPH = 0.58; // mean width of a character, as a share of its size
const KM_PER_DEGREE = 111.32;
const ZOOM = 2.5;
const FINGER = 28; // pixels

/** Screen coordinates of degrees: true proportions in the middle of the region. `rings` are flat. */
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
  const made = [];
  for (let i = 0; i < flat.length; i += 2) made.push([flat[i], flat[i + 1]]);
  return made;
}

/** Many are dark on white and light on black: t from 0 to 1. */
function countColour(t) {
  return d3.interpolateYlGnBu(isDark() ? 0.92 - 0.87 * t : 0.16 + 0.84 * t);
}

/** Names that have room, a scale and north, in letters of the same size at any width. */
function labels(svg, { project, names }, pixels) {
  const size = (NAME_SIZE * project.width) / pixels;
  const strip = 2.2 * size;
  svg.setAttribute("viewBox", `0 0 ${project.width} ${(project.height + strip).toFixed(0)}`);
  svg.style.width = `${pixels}px`;
  const group = svgElement("g", { "aria-hidden": "true", "font-size": size.toFixed(1) });
  const text = (x, y, words, attributes = {}) => group.append(svgElement("text", { x: x.toFixed(1), y: y.toFixed(1), ...attributes }, words));
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
  const most = (0.3 * WIDTH) / project.km;
  const length = d3.max([1, 2, 5].flatMap((f) => [0.01, 0.1, 1, 10, 100, 1000].map((d) => f * d)).filter((km) => km <= most));
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
 * A map in a figure, in place of the one before. `drawing` has its projection, what lies round the
 * cells (`layers`, `names`) and the `outlines` of cells; `acts` choose a cell by its number, know the
 * `chosen` one, the `next` one in the direction of a key, and how many pixels `wide` the map is.
 */
function cellMap(figure, id, label, drawing, acts) {
  const svg = svgElement("svg", { class: "map" });
  const hatch = svgElement("pattern", { id: `${id}-hatch`, width: 8, height: 8, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svgElement("line", { x1: 0, y1: 0, x2: 0, y2: 8, class: "hatch", "stroke-width": 2 }));
  svg.append(svgElement("defs", {}, hatch));
  const under = svgElement("g", { "aria-hidden": "true" });
  const over = svgElement("g", { "aria-hidden": "true" });
  // Rivers over borders, which often run along them.
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
  const made = { svg, cells, frame, tip, hatch: `url(#${id}-hatch)` };
  const seen = (event) => {
    const i = [...cells.children].indexOf(event.target);
    if (i >= 0) acts.choose(i, made);
  };
  cells.addEventListener("pointerover", seen);
  cells.addEventListener("click", seen);
  cells.addEventListener("focus", () => acts.choose(acts.chosen(), made));
  cells.addEventListener("blur", () => { tip.hidden = true; });
  svg.addEventListener("pointerleave", () => { tip.hidden = true; });
  cells.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = acts.next(...step);
    if (next >= 0) acts.choose(next, made);
  });
  return made;
}

/** A box that makes the map larger: zoomed so that a finger meets one cell. */
function zoomBox(home, changed) {
  const box = element("input", { type: "checkbox", id: "map-zoom" });
  box.addEventListener("change", changed);
  home.append(element("div", { class: "tick" }, box, element("label", { for: "map-zoom", text: "Zoom in" })));
  return box;
}

/** Mark another cell as the chosen one. */
function mark({ cells }, before, now) {
  cells.children[before]?.classList.remove("chosen");
  cells.children[before]?.setAttribute("aria-selected", "false");
  cells.children[now].classList.add("chosen");
  cells.children[now].setAttribute("aria-selected", "true");
  cells.setAttribute("aria-activedescendant", cells.children[now].id);
}

/** The reading at the cell itself, in lines. */
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

/** A bar of colours with names at some places between 0 and 1. */
function ramp(colour, ticks) {
  const stops = d3.range(0, 1.001, 0.1).map(colour).join(", ");
  const names = element("div", { class: "ticks" }, ...ticks.map(([at, text]) => element("span", { text, style: `left: ${(100 * at).toFixed(1)}%` })));
  return [element("div", { class: "bar", style: `background: linear-gradient(to right, ${stops})` }), names];
}

function key(fill, words) {
  const icon = svgElement("svg", { width: 22, height: 14, "aria-hidden": "true" }, svgElement("rect", { width: 22, height: 14, fill, stroke: "currentColor" }));
  return element("li", {}, icon, words);
}

/** The next of 10, 20, 50, 100, ...: where a scale of colours ends. */
function roundTop(value) {
  const power = 10 ** Math.floor(Math.log10(value) + 1e-9);
  return [1, 2, 5, 10].map((f) => f * power).find((v) => v >= value);
}

/** Places and names on a bar of counts: powers of ten, and the end, which is round. */
function decadeTicks(scale, top) {
  const ticks = d3.range(0, Math.log10(top) + 1e-9).map((d) => [scale(10 ** d), number.format(10 ** d)]);
  return /^10*$/.test(String(top)) ? ticks : [...ticks, [1, number.format(top)]];
}
