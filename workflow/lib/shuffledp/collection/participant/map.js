// The map of cells: one path for all, one for the chosen one; by finger, mouse or arrow keys.

import { cellAt } from "./client.js";

const WIDTH = 1000;
const ARROWS = { ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

/** Draw cells in an SVG element; `choose` is told the index of what is chosen. */
export function drawMap(svg, cells, choose) {
  const west = cells.reduce((least, cell) => Math.min(least, cell.west), Infinity);
  const south = cells.reduce((least, cell) => Math.min(least, cell.south), Infinity);
  const east = cells.reduce((most, cell) => Math.max(most, cell.east), -Infinity);
  const north = cells.reduce((most, cell) => Math.max(most, cell.north), -Infinity);
  // A degree of longitude is shorter than one of latitude, as in the middle of the map.
  const narrow = Math.cos(((south + north) / 2) * (Math.PI / 180));
  const scale = WIDTH / ((east - west) * narrow);
  const across = (longitude) => (longitude - west) * narrow * scale;
  const down = (latitude) => (north - latitude) * scale;
  const outline = ({ polygons }) => polygons.flat().map((ring) =>
    `M${ring.map(([x, y]) => `${across(x).toFixed(2)},${down(y).toFixed(2)}`).join("L")}Z`).join("");
  const middle = ({ west, south, east, north }) => [narrow * (west + east) / 2, (south + north) / 2];
  const [all, one] = svg.querySelectorAll("path");
  let chosen = null;

  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${(down(south)).toFixed(2)}`);
  for (const path of [all, one]) path.setAttribute("fill-rule", "evenodd");
  all.setAttribute("d", cells.map(outline).join(""));

  function pick(index) {
    if (index === null) return;
    chosen = index;
    one.setAttribute("d", outline(cells[index]));
    choose(index);
  }

  /** The nearest cell in a quarter of the compass, by their middles. */
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
