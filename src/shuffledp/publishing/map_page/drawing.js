"use strict";
// Elements, controls, downloads, and a map whose cells can be chosen with mouse, finger or keyboard.

// "negative" omits the sign of a number that rounds to 0.
const number = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1, signDisplay: "negative" });

/** Create an element with attributes and children; attribute `text` is its text. */
function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") node.textContent = value;
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

/** Append a labelled select to `home` and return the select; `options` are [value, label] pairs. */
function select(home, id, label, options, changed) {
  const control = element("select", { id }, ...options.map(([value, text]) => element("option", { value, text })));
  control.addEventListener("change", changed);
  home.append(element("div", {}, element("label", { for: id, text: label }), control));
  return control;
}

/** Return whether the page is in dark mode. */
function isDark() {
  return matchMedia("screen and (prefers-color-scheme: dark)").matches;
}

function save(name, type, text) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function csv(rows) {
  const quoted = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
  return rows.map((row) => row.map(quoted).join(",") + "\n").join("");
}

const LINE = 20; // height in pixels of a line in the caption of a saved image

/** Wrap a text into lines of at most `room` pixels. */
function wrapped(context, text, room) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (context.measureText(longer).width <= room) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** Save drawings as they appear, one below the other, at twice their resolution, above a caption. */
function saveImage(name, drawings, caption) {
  const style = svgElement("style", {});
  style.textContent = document.querySelector("style").textContent;
  const sizes = drawings.map((svg) => svg.getBoundingClientRect());
  const width = d3.max(sizes, (size) => size.width);
  let height = 0;
  const copies = drawings.map((svg, i) => {
    const copy = svg.cloneNode(true);
    for (const [key, value] of Object.entries({ x: 0, y: height, width: sizes[i].width, height: sizes[i].height })) copy.setAttribute(key, value);
    height += sizes[i].height + LINE / 2;
    return copy;
  });
  const image = new Image();
  const whole = svgElement("svg", { width, height, "font-family": "sans-serif" }, style, ...copies);
  image.onload = () => {
    const canvas = element("canvas", { width: 2 * width });
    const context = canvas.getContext("2d");
    const font = "13px sans-serif";
    context.font = font;
    const lines = wrapped(context, caption, width - 20);
    canvas.height = 2 * (height + LINE * (lines.length + 0.5));
    context.scale(2, 2);
    const { backgroundColor, color } = getComputedStyle(document.body);
    context.fillStyle = backgroundColor;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0, width, height);
    context.fillStyle = color;
    context.font = font;
    lines.forEach((text, i) => context.fillText(text, 10, height + LINE * (i + 0.9)));
    canvas.toBlob((blob) => save(name, "image/png", blob));
  };
  image.src = "data:image/svg+xml," + encodeURIComponent(new XMLSerializer().serializeToString(whole));
}

/** Append buttons that save `table()`, rows with a header, as CSV and `drawing()`, [drawings, caption], as PNG. `name()` names the files. */
function downloads(home, name, table, drawing) {
  const row = element("div", { class: "downloads" });
  const button = (text, act) => {
    const control = element("button", { type: "button", text });
    control.addEventListener("click", act);
    row.append(control);
  };
  button("Save as CSV", () => save(`${name()}.csv`, "text/csv", csv(table())));
  button("Save as PNG", () => saveImage(`${name()}.png`, ...drawing()));
  home.append(row);
}

const SVG = "http://www.w3.org/2000/svg";

function svgElement(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const WIDTH = 1000; // width of the cells in units of the drawing
const MARGIN = 25;
const FONT_SIZE = 11; // pixels
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

function pairs(flat) {
  return d3.range(0, flat.length, 2).map((i) => [flat[i], flat[i + 1]]);
}

function pathOf(points) {
  return `M${points.map((point) => point.map((value) => value.toFixed(1)).join(",")).join("L")}Z`;
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
    outlines: cells.map((rings) => rings.map((ring) => pathOf(pairs(ring).map(project.point))).join("")),
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

/** Add a scale bar and a north arrow; the size of letters does not depend on the width. */
function addScale(svg, project, pixels) {
  const size = (FONT_SIZE * project.width) / pixels;
  const strip = 2.2 * size;
  svg.setAttribute("viewBox", `0 0 ${project.width} ${(project.height + strip).toFixed(0)}`);
  svg.style.width = `${pixels}px`;
  const group = svgElement("g", { "aria-hidden": "true", "font-size": size.toFixed(1) });
  const text = (x, y, content) => group.append(svgElement("text", { x: x.toFixed(1), y: y.toFixed(1) }, content));
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
 * Put a map into a figure, in place of an earlier one. `project` is the projection, `outlines` are
 * those of the cells. `acts` has functions: `choose` chooses a cell by its number, `chosen` returns
 * the chosen one, `next` returns its neighbour in a direction, and `wide` returns the width of the
 * map in pixels.
 */
function cellMap(figure, id, label, { project, outlines }, acts) {
  const svg = svgElement("svg", { class: "map" });
  const hatch = svgElement("pattern", { id: `${id}-hatch`, width: 8, height: 8, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    svgElement("line", { x1: 0, y1: 0, x2: 0, y2: 8, class: "hatch", "stroke-width": 2 }));
  const cells = svgElement("g", { role: "listbox", tabindex: "0", "aria-label": label });
  outlines.forEach((d, i) => {
    cells.append(svgElement("path", { d, class: "cell", "fill-rule": "evenodd", role: "option", id: `${id}-${i}`, "aria-selected": "false" }));
  });
  svg.append(svgElement("defs", {}, hatch), cells);
  const frame = element("div", { class: "mapframe" }, svg);
  const tip = element("div", { class: "tip", "aria-hidden": "true", hidden: "" });
  frame.append(tip);
  figure.querySelector(".mapframe")?.remove();
  figure.append(frame);
  addScale(svg, project, acts.wide(frame));
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

/** Write a name beside a box, which is not where the cell is. */
function nameCell({ svg }, [, north, east, south], name) {
  const size = svg.querySelector("g[font-size]").getAttribute("font-size");
  svg.append(svgElement("text", { x: east + size / 2, y: (north + south) / 2 + size / 3, "font-size": size }, name));
}

/** Let the next drag on a map draw a closed line, and call `done` with its vertices, in the map's coordinates. */
function drawLine({ svg }, done) {
  const line = svgElement("path", { class: "drawn" });
  const points = [];
  const add = (event) => {
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    points.push([x, y]);
    line.setAttribute("d", `M${points.join("L")}Z`);
  };
  svg.classList.add("drawing");
  svg.addEventListener("pointerdown", (down) => {
    down.preventDefault();
    svg.setPointerCapture(down.pointerId);
    svg.append(line);
    add(down);
    svg.addEventListener("pointermove", add);
    svg.addEventListener("pointerup", () => {
      svg.removeEventListener("pointermove", add);
      svg.classList.remove("drawing");
      line.remove();
      done(points);
    }, { once: true });
  }, { once: true });
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
function showTip({ frame, tip, cells }, i, lines) {
  const [box, around] = [cells.children[i].getBoundingClientRect(), frame.getBoundingClientRect()];
  tip.replaceChildren(...lines.flatMap((line, i) => (i ? [element("br"), line] : [line])));
  tip.hidden = false;
  const half = tip.offsetWidth / 2;
  const x = box.left + box.width / 2 - around.left;
  const below = box.top - around.top < tip.offsetHeight + 8;
  tip.classList.toggle("below", below);
  tip.style.left = `${Math.max(half, Math.min(x, around.width - half)) + frame.scrollLeft}px`;
  tip.style.top = `${(below ? box.bottom : box.top) - around.top + frame.scrollTop}px`;
}

/** Return a legend as a drawing: a colour bar with `ticks`, [position from 0 to 1, label] pairs, and the meaning of a hatch. */
function legendOf(title, colour, ticks, hatch, meaning) {
  const width = 400;
  const stops = d3.range(0, 1.001, 0.1).map((t) => svgElement("stop", { offset: t, "stop-color": colour(t) }));
  const label = (x, y, text, anchor = "start") => svgElement("text", { x, y, "text-anchor": anchor }, text);
  return svgElement("svg", { class: "scalebar", viewBox: `-1 0 ${width + 2} 84`, role: "img", "aria-label": `${title}: ${ticks.map(([, text]) => text).join(", ")}. Hatched: ${meaning}` },
    svgElement("defs", {}, svgElement("linearGradient", { id: "ramp" }, ...stops)),
    label(0, 14, title),
    svgElement("rect", { x: 0, y: 22, width, height: 14, fill: "url(#ramp)", stroke: "currentColor" }),
    ...ticks.map(([at, text]) => label(at * width, 52, text, at < 0.05 ? "start" : at > 0.95 ? "end" : "middle")),
    svgElement("rect", { x: 0, y: 64, width: 22, height: 14, fill: hatch, stroke: "currentColor" }),
    label(30, 76, meaning));
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
function decadeTicks(scale, top, bottom) {
  const decades = d3.range(Math.ceil(Math.log10(bottom) - 1e-9), Math.log10(top) + 1e-9).map((d) => 10 ** d);
  const between = decades.filter((value) => scale(value) > 0.12 && scale(value) < 0.85);
  return [bottom, ...between, top].map((value) => [scale(value), number.format(value)]);
}
