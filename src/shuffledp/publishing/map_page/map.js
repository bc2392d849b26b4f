"use strict";
// A published map: estimates with intervals, sums of chosen cells, and differences of windows.

const data = JSON.parse(document.getElementById("data").textContent);
const map = data.map;
const several = data.windows.length > 1;
const VIEWS = [["estimate", "Estimate"], ["noisy", "Noisy count, right on average"]];

/** Return the half-width of the 95 % interval of a sum of noisy counts; that of a larger sum is valid, too. */
function halfWidth(counts) {
  return data.sums.find(([number]) => number >= counts)[1];
}

function range(value, width, lowest) {
  return `${number.format(Math.max(lowest, value - width))} to ${number.format(Math.max(lowest, value + width))}`;
}

function mountMap(home) {
  const project = projection(map.cells.flat());
  const { outlines, boxes, finger } = shapesOf(map.cells, project);
  const picked = new Set();
  let panel, shown = 0, chosen = d3.maxIndex(data.estimate[0]);

  const controls = element("div", { class: "controls" });
  const view = select(controls, "map-view", "What the map shows", VIEWS, () => update());
  const times = several && select(controls, "map-window", data.every ?? "Window", data.windows.map((name, i) => [i, name]), () => {
    shown = Number(times.value);
    update();
  });
  const other = several && select(controls, "map-other", "Compare with", [["", "nothing"], ...data.windows.map((name, i) => [i, name])], () => choose(chosen));
  const zoom = zoomBox(controls, () => redraw());
  const title = element("figcaption", {});
  const figure = element("figure", { class: "single" }, title);
  const legend = element("div", { class: "legend" });
  const readout = element("p", { class: "readout", id: "map-readout", "aria-live": "polite" });
  const pick = element("button", { type: "button", text: "Add this cell to a sum" });
  const clear = element("button", { type: "button", text: "Clear the sum" });
  const sum = element("p", { class: "readout", id: "map-sum", "aria-live": "polite" });
  home.append(controls, figure, legend, readout, element("div", { class: "downloads" }, pick, clear), sum);
  pick.addEventListener("click", () => {
    if (!picked.delete(chosen)) picked.add(chosen);
    choose(chosen);
  });
  clear.addEventListener("click", () => {
    picked.clear();
    choose(chosen);
  });
  downloads(home, () => data.title.replaceAll(/[^\p{L}\p{N}]+/gu, "-"), cellTable, () => [panel.svg, [`${data.title}. ${title.textContent}. ${data.promise.join(" ")}`, legend.innerText.replaceAll(/\s+/g, " ")]]);

  function wide(frame) {
    const room = frame.clientWidth || 500;
    return zoom.checked ? Math.max(ZOOM * room, finger) : room;
  }

  const next = (toEast, toNorth) => neighbourOf(boxes, chosen, toEast, toNorth);

  /** Return a sentence about the difference of two windows, if one is compared: noise of twice as many counts. */
  function compared(cells) {
    if (!other || other.value === "" || Number(other.value) === shown) return "";
    const total = (at) => d3.sum(cells, (i) => data.noisy[at][i]);
    const difference = total(shown) - total(Number(other.value));
    return ` Difference from ${data.windows[Number(other.value)]}: ${number.format(difference)}; 95 % interval ${range(difference, halfWidth(2 * cells.length), -Infinity)}.`;
  }

  function wordsOf(i) {
    const noisy = data.noisy[shown][i];
    return `${map.name[i]}: estimate ${number.format(data.estimate[shown][i])}; 95 % interval ${range(noisy, data.one, 0)}, with all cells together ${range(noisy, data.joint, 0)}.${noisy > data.one ? "" : " The cell may be empty."}`;
  }

  function showSum() {
    const cells = [...picked].sort((a, b) => a - b);
    const total = d3.sum(cells, (i) => data.noisy[shown][i]);
    sum.textContent = cells.length
      ? `Sum of ${cells.length} cells (${cells.slice(0, 20).map((i) => map.name[i]).join("; ")}${cells.length > 20 ? "; …" : ""}): ${number.format(total)}; 95 % interval ${range(total, halfWidth(cells.length), 0)}.${compared(cells)} Choose what you add before you look at the numbers: the interval of a sum that was picked because it is large is too low.`
      : "No cell is added to a sum.";
    [...panel.cells.children].forEach((cell, i) => { cell.style.stroke = picked.has(i) ? "var(--chosen)" : ""; });
  }

  function choose(i, at = null) {
    mark(panel, chosen, i);
    if (at) showTip(panel, i, [map.name[i], number.format(data.estimate[shown][i]), range(data.noisy[shown][i], data.one, 0)]);
    else panel.tip.hidden = true;
    chosen = i;
    readout.textContent = wordsOf(i) + compared([i]);
    pick.textContent = picked.has(i) ? "Remove this cell from the sum" : "Add this cell to a sum";
    showSum();
  }

  function update() {
    const top = roundTop(Math.max(10, d3.max(data[view.value], (counts) => d3.max(counts))));
    const drawn = data[view.value].flatMap((counts, w) => counts.filter((value, i) => value > 0 && data.noisy[w][i] > data.one));
    const bottom = roundBottom(Math.min(top / 10, d3.min(drawn) ?? 1));
    const scale = d3.scaleLog([bottom, top], [0, 1]).clamp(true);
    const values = data[view.value][shown];
    [...panel.cells.children].forEach((cell, i) => {
      const sure = values[i] > 0 && data.noisy[shown][i] > data.one;
      cell.setAttribute("fill", sure ? countColour(scale(values[i])) : panel.hatch);
      cell.setAttribute("pointer-events", "all");
      cell.setAttribute("aria-label", wordsOf(i));
    });
    legend.replaceChildren(element("div", { text: "records per cell, logarithmic scale" }), ...ramp(countColour, decadeTicks(scale, top, bottom)),
      element("ul", { class: "keys" }, key(panel.hatch, "may be empty: the 95 % interval includes 0")));
    title.textContent = [VIEWS.find(([v]) => v === view.value)[1], several && data.windows[shown]].filter(Boolean).join(", ");
    choose(chosen);
  }

  function redraw() {
    panel = cellMap(figure, "map-cell", "Cells of the map", { project, outlines }, { choose, chosen: () => chosen, next, wide });
    update();
    const [box, around] = [panel.cells.children[chosen].getBoundingClientRect(), panel.frame.getBoundingClientRect()];
    if (zoom.checked) panel.frame.scrollTo(box.left - around.left - around.width / 2, box.top - around.top - around.height / 2);
  }

  redraw();
  let width = globalThis.innerWidth;
  globalThis.addEventListener("resize", () => {
    if (globalThis.innerWidth !== width) { width = globalThis.innerWidth; redraw(); }
  });
  matchMedia("screen and (prefers-color-scheme: dark)").addEventListener("change", redraw);
}

/** Return the table of map.csv. */
function cellTable() {
  const ends = (noisy) => [data.one, data.joint].flatMap((width) => [Math.max(0, noisy - width), Math.max(0, noisy + width)]);
  const rows = data.windows.flatMap((name, w) =>
    map.name.map((cell, i) => [...(several ? [name] : []), i, map.id[i], cell, data.noisy[w][i], data.estimate[w][i], ...ends(data.noisy[w][i])]));
  return [[...(several ? ["window"] : []), "cell", "id", "name", "noisy_count", "estimate", "low", "high", "joint_low", "joint_high"], ...rows];
}

mountMap(document.getElementById("map-body"));
