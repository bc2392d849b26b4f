"use strict";
// The page of a collected round: the map of estimates, and tables that can be saved.

const data = JSON.parse(document.getElementById("data").textContent);

const VIEWS = [
  ["estimate", "Estimate, right on average"],
  ["projected", "Nearest possible numbers"],
  ["sure", "Where somebody surely is"],
];

function nameOf(i) {
  return [`Cell ${i}`, data.places[i]].filter(Boolean).join(", ");
}

function interval(i, suffix = "") {
  return `${number.format(data.columns[`low${suffix}`][i])} to ${number.format(data.columns[`high${suffix}`][i])}`;
}

function mountMap(home) {
  const { cells, attribution } = data.map;
  const { estimate, projected, low, standard_error: error } = data.columns;
  const project = projection(cells.flat());
  const { outlines, boxes, finger } = shapesOf(cells, project);
  let chosen = d3.maxIndex(estimate), panel;

  const controls = element("div", { class: "controls" });
  const view = select(controls, "map-view", "What the map shows", VIEWS, () => update());
  const zoom = zoomBox(controls, () => redraw());
  const title = element("figcaption", {});
  const figure = element("figure", { class: "single" }, title);
  const legend = element("div", { class: "legend" });
  const readout = element("p", { class: "readout", id: "map-readout", "aria-live": "polite" });
  const source = element("p", { class: "note", text: attribution ? `Base map: ${attribution}` : "" });
  home.append(controls, figure, legend, readout);
  downloads(home, () => `${data.title} round ${data.round}`.replaceAll(/[^\p{L}\p{N}]+/gu, "-"), cellTable, () => [panel.svg, captions()]);
  home.append(source);

  /** Return the captions of a saved picture. */
  function captions() {
    return [`${data.title}, round ${data.round}: ${title.textContent}. ${legend.innerText.replaceAll(/\s+/g, " ")}`, source.textContent];
  }

  function wide(frame) {
    const room = frame.clientWidth || 500;
    return zoom.checked ? Math.max(ZOOM * room, finger) : room;
  }

  const next = (toEast, toNorth) => neighbourOf(boxes, chosen, toEast, toNorth);

  function wordsOf(i) {
    const alone = low[i] > 0 ? "Taken alone somebody is there; among so many cells that is not sure." : "Perhaps nobody is there.";
    const somebody = data.sure[i] ? "Somebody is surely there." : alone;
    return `${nameOf(i)}: estimate ${number.format(estimate[i])} people, standard error ${number.format(error[i])}. ${data.coverage} interval ${interval(i)}; with all cells together ${interval(i, "_all")}. ${somebody}`;
  }

  function choose(i, at = null) {
    mark(panel, chosen, i);
    if (at) showTip(panel, i, [nameOf(i), `${number.format(estimate[i])} people`, interval(i)]);
    else panel.tip.hidden = true;
    chosen = i;
    readout.textContent = wordsOf(i);
  }

  function update() {
    const top = roundTop(Math.max(10, d3.max(estimate)));
    const scale = d3.scaleLog([1, top], [0, 1]).clamp(true);
    const values = view.value === "projected" ? projected : estimate;
    const coloured = (i) => (view.value === "sure" ? data.sure[i] : values[i] > 0);
    [...panel.cells.children].forEach((cell, i) => {
      cell.setAttribute("fill", coloured(i) ? countColour(scale(values[i])) : panel.hatch);
      cell.setAttribute("pointer-events", "all");
      cell.setAttribute("aria-label", wordsOf(i));
    });
    const why = {
      estimate: "estimated as 0 or below, which is not known to be empty",
      projected: "nearest possible number is 0, which is not known to be empty",
      sure: `not known: the interval of ${data.coverage} for all cells together begins at 0`,
    }[view.value];
    legend.replaceChildren(element("div", { text: `people per cell, logarithmic scale; standard error ${number.format(d3.median(error))}` }), ...ramp(countColour, decadeTicks(scale, top)),
      element("ul", { class: "keys" }, key(panel.hatch, why)));
    title.textContent = `${VIEWS.find(([v]) => v === view.value)[1]}: ${number.format(data.respondents)} people`;
    choose(chosen);
  }

  function redraw() {
    panel = cellMap(figure, "map-cell", "Cells of the map", { ...data.map, project, outlines }, { choose, chosen: () => chosen, next, wide });
    update();
    const [box, around] = [panel.cells.children[chosen].getBoundingClientRect(), panel.frame.getBoundingClientRect()];
    if (zoom.checked) panel.frame.scrollTo(box.left - around.left - around.width / 2, box.top - around.top - around.height / 2);
  }

  redraw();
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) { width = window.innerWidth; redraw(); }
  });
  matchMedia("screen and (prefers-color-scheme: dark)").addEventListener("change", redraw);
}

/** Return the table that `shuffledp-collect estimate` prints, with the names of the cells. */
function cellTable() {
  const names = Object.keys(data.columns);
  return [["cell", "place", ...names, "surely_somebody"],
    ...data.places.map((place, i) => [i, place, ...names.map((name) => data.columns[name][i]), data.sure[i] ? 1 : 0])];
}

function start() {
  if (data.map) mountMap(document.getElementById("map-body"));
  for (const [id, name, table] of [
    ["cells-downloads", "cells", cellTable],
    ["regions-downloads", "regions", () => [data.region_heads, ...data.regions]],
  ]) {
    const home = document.getElementById(id);
    if (home) downloads(home, () => `${name} of round ${data.round}`.replaceAll(" ", "-"), table);
  }
}

start();
