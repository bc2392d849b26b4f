"use strict";
// Two maps side by side, the truth and a release, on one colour scale; cells are read out.

const SVG = "http://www.w3.org/2000/svg";
const VIEWS = [
  ["estimate", "What was estimated"],
  ["error", "How wrong it is (estimate minus truth)"],
  ["known", "Where it shows somebody (above two standard errors)"],
];

function svgElement(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Screen coordinates of degrees: true proportions in the middle of the region. */
function projection(corners) {
  const longitudes = corners.flatMap((c) => c.filter((_, i) => i % 2 === 0));
  const latitudes = corners.flatMap((c) => c.filter((_, i) => i % 2 === 1));
  const [west, east] = d3.extent(longitudes);
  const [south, north] = d3.extent(latitudes);
  const across = Math.cos(((south + north) / 2) * (Math.PI / 180));
  const scale = 1000 / ((east - west) * across);
  const margin = 25;
  return {
    width: 1000 + 2 * margin,
    height: (north - south) * scale + 2 * margin,
    point: ([x, y]) => [margin + (x - west) * across * scale, margin + (north - y) * scale],
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

function mountMaps(home, regions) {
  let region, project, chosen = 0;
  const controls = element("div", { class: "controls" });
  const promise = select(controls, "map-promise", "Promise kept by all", [], () => update(true));
  const mechanism = select(controls, "map-mechanism", "Mechanism", [], () => update());
  const size = select(controls, "map-n", "Records, n", [], () => update(true));
  const view = select(controls, "map-view", "Map beside the truth", VIEWS, () => update());
  const readout = element("p", { class: "readout", id: "map-readout", "aria-live": "polite" });
  const left = element("figure", {}, element("figcaption", { id: "truth-title" }));
  const right = element("figure", {}, element("figcaption", { id: "map-title" }));
  const legend = element("div", { class: "legend" });
  const attribution = element("p", { class: "note" });
  const none = element("p", { class: "note", hidden: "" });
  const body = element("div", {}, controls, element("div", { class: "panels" }, left, right), legend, readout, attribution);
  home.append(none, body);
  let panels = [];

  function panel(figure, id, label) {
    const svg = svgElement("svg", { class: "map", viewBox: `0 0 ${project.width} ${project.height.toFixed(0)}` });
    const hatch = svgElement("pattern", { id: `${id}-hatch`, width: 8, height: 8, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svgElement("line", { x1: 0, y1: 0, x2: 0, y2: 8, class: "hatch", "stroke-width": 2 }));
    svg.append(svgElement("defs", {}, hatch));
    const under = svgElement("g", { "aria-hidden": "true" });
    const over = svgElement("g", { "aria-hidden": "true" });
    for (const layer of region.map.layers) {
      const area = layer.kind !== "river";
      const d = layer.paths.map((p) => pathOf(p, project, area)).join("");
      if (layer.kind === "district" || layer.kind === "water")
        under.append(svgElement("path", { d, class: layer.kind, "fill-rule": "evenodd" }));
      over.append(svgElement("path", { d, class: { river: "river", outline: "outline" }[layer.kind] ?? "border" }));
    }
    const cells = svgElement("g", { role: "listbox", tabindex: "0", "aria-label": label });
    region.map.corners.forEach((corners, i) => {
      cells.append(svgElement("path", { d: pathOf(pairs(corners), project, true), class: "cell", role: "option", id: `${id}-${i}`, "aria-selected": "false" }));
    });
    svg.append(under, cells, over);
    figure.querySelector("svg")?.remove();
    figure.append(svg);
    const seen = (event) => {
      const i = [...cells.children].indexOf(event.target);
      if (i >= 0) choose(i);
    };
    cells.addEventListener("pointerover", seen);
    cells.addEventListener("click", seen);
    cells.addEventListener("focus", () => choose(chosen));
    cells.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      const row = region.map.row[chosen] + step[0];
      const column = region.map.column[chosen] + step[1];
      const next = region.map.row.findIndex((r, i) => r === row && region.map.column[i] === column);
      if (next >= 0) choose(next);
    });
    return { svg, cells, hatch: `url(#${id}-hatch)` };
  }

  function release() {
    return region.map.releases.find((r) => r.n === Number(size.value) && r.promise === promise.value && r.mechanism === mechanism.value);
  }

  function words(i) {
    const shown = release();
    const estimate = shown.estimate[i];
    const wide = 2 * shown.error[i];
    const place = region.map.district[i] ? `, ${region.map.district[i]}` : "";
    const known = estimate > wide ? "" : " So nobody may be there at all.";
    return `Cell ${i} (row ${region.map.row[i] + 1} from the south, column ${region.map.column[i] + 1} from the west${place}): truth ${number.format(region.map.truth[shown.n][i])}, estimate ${number.format(estimate)} ± ${number.format(wide)} (two standard errors: some 95 % of such intervals hold the truth), from ${number.format(Math.max(0, estimate - wide))} to ${number.format(Math.max(0, estimate + wide))}.${known}`;
  }

  function choose(i) {
    for (const { cells } of panels) {
      const before = cells.children[chosen];
      before?.classList.remove("chosen");
      before?.setAttribute("aria-selected", "false");
      const now = cells.children[i];
      now.classList.add("chosen");
      now.setAttribute("aria-selected", "true");
      cells.setAttribute("aria-activedescendant", now.id);
    }
    chosen = i;
    readout.textContent = words(i);
  }

  function ramp(colour, ends) {
    const stops = d3.range(0, 1.001, 0.1).map(colour).join(", ");
    const names = element("div", { class: "ends" }, ...ends.map((text) => element("span", { text })));
    return [element("div", { class: "bar", style: `background: linear-gradient(to right, ${stops})` }), names];
  }

  function key(fill, words) {
    const icon = svgElement("svg", { width: 22, height: 14, "aria-hidden": "true" }, svgElement("rect", { width: 22, height: 14, fill, stroke: "currentColor" }));
    return element("li", {}, icon, words);
  }

  function update(other = false) {
    if (other) offer();
    const shown = release();
    const truth = region.map.truth[shown.n];
    const top = Math.max(10, d3.max(truth), d3.max(shown.estimate));
    const colour = d3.scaleSequentialLog([1, top], d3.interpolateCividis).clamp(true);
    const wrong = d3.max(shown.estimate, (e, i) => Math.abs(e - truth[i])) || 1;
    // As in the figures. They are told apart without red and green.
    const signed = d3.scaleDiverging([-wrong, 0, wrong], (t) => d3.interpolatePuOr(t));
    const unit = region.plural;
    const [one, two] = panels;
    const scaled = (value, hatch) => (value > 0 ? colour(value) : hatch);
    truth.forEach((value, i) => {
      const cell = one.cells.children[i];
      cell.setAttribute("fill", value > 0 ? colour(value) : "none");
      cell.setAttribute("pointer-events", "all");
      cell.setAttribute("aria-label", words(i));
    });
    shown.estimate.forEach((value, i) => {
      const cell = two.cells.children[i];
      const fill = {
        estimate: () => scaled(value, two.hatch),
        error: () => signed(value - truth[i]),
        known: () => (value > 2 * shown.error[i] ? colour(value) : two.hatch),
      }[view.value]();
      cell.setAttribute("fill", fill);
      cell.setAttribute("pointer-events", "all");
      cell.setAttribute("aria-label", words(i));
    });
    const keys = element("ul", { class: "keys" });
    legend.replaceChildren(element("div", { text: `${unit} per cell, ${view.value === "error" ? "the truth" : "on both maps"}` }), ...ramp((t) => colour(top ** t), ["1", number.format(Math.round(Math.sqrt(top))), number.format(Math.round(top))]));
    keys.append(key("none", `truth: no ${region.unit.replace("one ", "")}`));
    if (view.value === "error") {
      legend.append(element("div", { text: `error, ${unit}: purple too few, orange too many` }), ...ramp((t) => signed((2 * t - 1) * wrong), [`−${number.format(wrong)}`, "0", number.format(wrong)]));
    } else {
      const why = view.value === "known" ? "not known: below two standard errors, which is not zero" : "estimated as 0 or below, which is not known to be empty";
      keys.append(key(two.hatch, why));
    }
    legend.append(keys);
    document.getElementById("truth-title").textContent = `The truth: ${region.title}, ${number.format(shown.n)} ${unit}`;
    document.getElementById("map-title").textContent = `${shown.label}, eps = ${roundedUp(shown.eps)}: ${VIEWS.find(([v]) => v === view.value)[1].toLowerCase()}`;
    choose(chosen);
  }

  /** What there is, given the promise and n that are chosen. */
  function offer() {
    const all = region.map.releases;
    fill(promise, unique(all.map((r) => r.promise)).map((p) => [p, p]));
    fill(size, unique(all.map((r) => r.n)).map((n) => [n, number.format(n)]));
    const there = all.filter((r) => r.n === Number(size.value) && r.promise === promise.value);
    fill(mechanism, there.map((r) => [r.mechanism, r.label]));
  }

  function show(index) {
    region = regions[index];
    none.hidden = Boolean(region.map);
    body.hidden = !region.map;
    if (!region.map) {
      none.textContent = "No map here: the grid has too many cells for one page. The figures of the run have maps.";
      return;
    }
    project = projection(region.map.corners);
    chosen = d3.maxIndex(region.map.truth[region.map.releases[0].n]);
    panels = [panel(left, "map-left", "Cells of the true map"), panel(right, "map-right", "Cells of the released map")];
    offer();
    const best = region.map.releases.find((r) => r.mechanism === "krr");
    if (best) mechanism.value = best.mechanism;
    // The largest eps is the promise that the answers on top are about.
    promise.value = d3.greatest(region.map.releases.filter((r) => r.promise.startsWith("eps =")), (r) => r.eps)?.promise ?? promise.value;
    attribution.textContent = region.map.attribution ? `Base map: ${region.map.attribution}` : "";
    update(true);
  }
  return { show, redraw() {} }; // drawings that scale by themselves
}
