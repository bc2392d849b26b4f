// The map of cells, to be used by finger, mouse or arrow keys: one path for all cells and one for
// the chosen one, over a base map of districts, water, rivers and their names if the page has one.

import { cellAt } from "./client.js";

const WIDTH = 1000;
const CLOSEST = 256;
const NAME_SIZE = 13; // pixels
const GLYPH = 0.58; // mean width of a character, as a share of its size
const SVG = "http://www.w3.org/2000/svg";
const ARROWS = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

/**
 * Draw cells in an SVG element with two buttons; call `choose` with the index of a chosen cell.
 * `around` has the layers and names of the base map.
 */
export function drawMap(svg, { closer, farther }, cells, around, choose) {
  const west = cells.reduce((least, cell) => Math.min(least, cell.west), Infinity);
  const south = cells.reduce((least, cell) => Math.min(least, cell.south), Infinity);
  const east = cells.reduce((most, cell) => Math.max(most, cell.east), -Infinity);
  const north = cells.reduce((most, cell) => Math.max(most, cell.north), -Infinity);
  // The length of a degree of longitude relative to latitude, in the middle of the map.
  const narrow = Math.cos(((south + north) / 2) * (Math.PI / 180));
  const scale = WIDTH / ((east - west) * narrow);
  const across = (longitude) => (longitude - west) * narrow * scale;
  const down = (latitude) => (north - latitude) * scale;
  const line = (points) =>
    `M${points.map(([x, y]) => `${across(x).toFixed(2)},${down(y).toFixed(2)}`).join("L")}`;
  const outline = ({ polygons }) => polygons.flat().map((ring) => `${line(ring)}Z`).join("");
  const middle = ({ west, south, east, north }) => [narrow * (west + east) / 2, (south + north) / 2];
  const [under, all, one, names] = svg.children;
  const height = down(south);
  let chosen = null;
  let view = { times: 1, x: 0, y: 0 }; // magnification, and north-western corner

  for (const path of [all, one]) path.setAttribute("fill-rule", "evenodd");
  all.setAttribute("d", cells.map(outline).join(""));

  const rivers = around.layers.filter((layer) => layer.kind === "river");
  const areas = around.layers.filter((layer) => layer.kind !== "river");
  for (const { kind, paths } of [...areas, ...rivers]) {
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", kind);
    path.setAttribute("fill-rule", "evenodd");
    path.setAttribute("d", paths.map(line).join(""));
    under.append(path);
  }

  /** Write the names that fit into the visible part, the largest district first. */
  function nameAll() {
    const screen = svg.getScreenCTM();
    if (screen === null) return; // the map was removed
    const size = NAME_SIZE / screen.a;
    const { x: left, y: above, width, height: high } = svg.viewBox.baseVal;
    const taken = [];
    names.replaceChildren();
    for (const { kind, name: words, at } of around.names) {
      const [[x1, y1], [x2, y2]] = at.map(([x, y]) => [across(x), down(y)]);
      const [x, y, room] = [(x1 + x2) / 2, (y1 + y2) / 2, words.length * GLYPH * size];
      const box = [x - room / 2, y - size, x + room / 2, y + size];
      const inside = box[0] > left && box[1] > above && box[2] < left + width && box[3] < above + high;
      const free = taken.every((o) => o[2] < box[0] || box[2] < o[0] || o[3] < box[1] || box[3] < o[1]);
      if (!inside || !free || Math.hypot(x2 - x1, y2 - y1) < room) continue;
      taken.push(box);
      const text = document.createElementNS(SVG, "text");
      const turn = kind === "river" ? (Math.atan2(y2 - y1, x2 - x1) * 180) / Math.PI : 0;
      text.setAttribute("class", kind);
      text.setAttribute("font-size", size.toFixed(3));
      text.setAttribute("transform", `translate(${x.toFixed(3)} ${(y + size * 0.35).toFixed(3)}) rotate(${turn.toFixed(1)})`);
      text.textContent = words;
      names.append(text);
    }
  }

  /** Show a part of the map; centre the chosen cell if it would be at the edge. */
  function look(times, centre) {
    const [wide, high] = [WIDTH / times, height / times];
    let [x, y] = [view.x + WIDTH / view.times / 2, view.y + height / view.times / 2];
    if (chosen !== null) {
      const cell = cells[chosen];
      const [a, b] = [across((cell.west + cell.east) / 2), down((cell.south + cell.north) / 2)];
      if (centre || Math.abs(a - x) > 0.4 * wide || Math.abs(b - y) > 0.4 * high) [x, y] = [a, b];
    }
    const within = (start, size, whole) => Math.min(Math.max(start - size / 2, 0), whole - size);
    view = { times, x: within(x, wide, WIDTH), y: within(y, high, height) };
    svg.setAttribute("viewBox", [view.x, view.y, wide, high].map((each) => each.toFixed(3)).join(" "));
    nameAll();
    // Not `disabled`, so that the pressed button keeps the focus.
    closer.setAttribute("aria-disabled", times >= CLOSEST);
    farther.setAttribute("aria-disabled", times <= 1);
  }

  function pick(index) {
    if (index === null) return;
    chosen = index;
    one.setAttribute("d", outline(cells[index]));
    look(view.times, false);
    choose(index);
  }

  /** Return the nearest cell in a direction of the compass, by the middles of the cells. */
  function beyond([toEast, toNorth]) {
    const from = chosen === null ? [narrow * (west + east) / 2, (south + north) / 2] : middle(cells[chosen]);
    let [best, nearest] = [null, Infinity];
    cells.forEach((cell, index) => {
      const [x, y] = middle(cell);
      const [dx, dy] = [x - from[0], y - from[1]];
      const [along, aside] = [dx * toEast + dy * toNorth, Math.abs(dx * toNorth - dy * toEast)];
      const distance = dx * dx + dy * dy;
      const ahead = chosen === null || (index !== chosen && along > 0 && along >= aside);
      if (ahead && distance < nearest) [best, nearest] = [index, distance];
    });
    return best;
  }

  look(1, false);
  window.addEventListener("resize", nameAll);
  closer.addEventListener("click", () => look(Math.min(2 * view.times, CLOSEST), true));
  farther.addEventListener("click", () => look(Math.max(view.times / 2, 1), true));
  svg.addEventListener("click", (event) => {
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    pick(cellAt(cells, west + x / (narrow * scale), north - y / scale));
  });
  svg.addEventListener("keydown", (event) => {
    if (!(event.key in ARROWS) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    pick(beyond(ARROWS[event.key]));
  });
}
