"use strict";
// Two maps side by side, the truth and a release, on one colour scale; cells are read out.

const VIEWS = [
  ["estimate", "The private map"],
  ["error", "How wrong the private map is (estimate minus truth)"],
  ["known", "Where the private map shows somebody (above two standard errors)"],
];
const WIDTH = 1000; // of the cells, in the drawing's own unit
const MARGIN = 25;
const NAME_SIZE = 11; // pixels
const GLYPH = 0.58; // mean width of a character, as a share of its size
const KM_PER_DEGREE = 111.32;
const ZOOM = 2.5;
const FINGER = 28; // pixels

/** Screen coordinates of degrees: true proportions in the middle of the region. */
function projection(corners) {
  const longitudes = corners.flatMap((c) => c.filter((_, i) => i % 2 === 0));
  const latitudes = corners.flatMap((c) => c.filter((_, i) => i % 2 === 1));
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

/** Too few is purple, too many orange, right as the paper: told apart without red and green. */
function errorColour(t) {
  return isDark() ? d3.piecewise(d3.interpolateLab, ["#cdb4ff", "#6f55a8", "#23262b", "#96591b", "#ffbf73"])(t) : d3.interpolatePuOr(t);
}

/** The next of 10, 20, 50, 100, ...: where a scale of colours ends. */
function roundTop(value) {
  const power = 10 ** Math.floor(Math.log10(value) + 1e-9);
  return [1, 2, 5, 10].map((f) => f * power).find((v) => v >= value);
}

function mountMaps(home) {
  let story, region, project, chosen = 0, zoomed = false, top;
  const controls = element("div", { class: "controls" });
  const view = select(controls, "map-view", "Map beside the truth", VIEWS, () => update());
  const zoom = element("button", { type: "button", id: "map-zoom", "aria-pressed": "false", text: "Zoom in" });
  zoom.addEventListener("click", () => {
    zoomed = !zoomed;
    zoom.setAttribute("aria-pressed", String(zoomed));
    redraw();
  });
  controls.append(element("div", {}, zoom));
  const noise = element("p", { class: "noise", id: "map-noise", hidden: "" });
  const readout = element("p", { class: "readout", id: "map-readout", "aria-live": "polite" });
  const left = element("figure", {}, element("figcaption", { id: "truth-title" }));
  const right = element("figure", {}, element("figcaption", { id: "map-title" }));
  const legend = element("div", { class: "legend" });
  const attribution = element("p", { class: "note" });
  const none = element("p", { class: "note", hidden: "" });
  const body = element("div", {}, controls, noise, element("div", { class: "panels" }, left, right), legend, readout);
  home.append(none, body);
  downloads(body, () => `map ${region.title} ${story.mechanism} ${story.promise} n ${story.n}`.replaceAll(" ", "-"), table, () => [panels[1].svg, captions()]);
  body.append(attribution);
  let panels = [];

  /** Of the released map alone: what it was made from is not in the file. */
  function table() {
    const shown = release();
    return [["cell", "row_from_south", "column_from_west", "district", "estimate", "standard_error"],
      ...shown.estimate.map((value, i) => [i, region.map.row[i] + 1, region.map.column[i] + 1, region.map.district[i], value, shown.error[i]])];
  }

  /** What the saved picture says under the map: whoever passes it on has to name the base map's source. */
  function captions() {
    const ends = [...legend.querySelectorAll(".ticks span")].map((one) => one.textContent).filter(Boolean);
    const scale = view.value === "error" ? "purple too few, orange too many" : `from ${ends[0]} (${isDark() ? "dark" : "light"}) to ${number.format(top)} (${isDark() ? "light" : "dark"}), logarithmic`;
    return [`${region.title}, ${number.format(story.n)} ${region.plural}. ${document.getElementById("map-title").textContent}. A simulated release.`,
      `${region.plural} per cell: ${scale}. ${[...legend.querySelectorAll(".keys li")].map((one) => one.textContent).join(" ")}`, attribution.textContent];
  }

  /** Pixels that a map is wide: zoomed so that a finger meets one cell. */
  function wide(frame) {
    const room = frame.clientWidth || 500;
    return zoomed ? Math.max(ZOOM * room, FINGER * (1 + d3.max(region.map.column))) : room;
  }

  /** Names that have room, a scale and north, in letters of the same size at any width. */
  function labels(svg, pixels) {
    const size = (NAME_SIZE * project.width) / pixels;
    const strip = 2.2 * size;
    svg.setAttribute("viewBox", `0 0 ${project.width} ${(project.height + strip).toFixed(0)}`);
    svg.style.width = `${pixels}px`;
    const group = svgElement("g", { "aria-hidden": "true", "font-size": size.toFixed(1) });
    const text = (x, y, words, attributes = {}) => group.append(svgElement("text", { x: x.toFixed(1), y: y.toFixed(1), ...attributes }, words));
    const taken = [];
    for (const { kind, name, at } of region.map.names) {
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

  function panel(figure, id, label) {
    const svg = svgElement("svg", { class: "map" });
    const hatch = svgElement("pattern", { id: `${id}-hatch`, width: 8, height: 8, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svgElement("line", { x1: 0, y1: 0, x2: 0, y2: 8, class: "hatch", "stroke-width": 2 }));
    svg.append(svgElement("defs", {}, hatch));
    const under = svgElement("g", { "aria-hidden": "true" });
    const over = svgElement("g", { "aria-hidden": "true" });
    // Rivers over borders, which often run along them.
    for (const layer of d3.sort(region.map.layers, (one) => one.kind === "river")) {
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
    const frame = element("div", { class: "mapframe" }, svg);
    const tip = element("div", { class: "tip", "aria-hidden": "true", hidden: "" });
    frame.append(tip);
    figure.querySelector(".mapframe")?.remove();
    figure.append(frame);
    labels(svg, wide(frame));
    const made = { svg, cells, frame, tip, hatch: `url(#${id}-hatch)` };
    const seen = (event) => {
      const i = [...cells.children].indexOf(event.target);
      if (i >= 0) choose(i, made);
    };
    cells.addEventListener("pointerover", seen);
    cells.addEventListener("click", seen);
    cells.addEventListener("focus", () => choose(chosen, made));
    cells.addEventListener("blur", () => { tip.hidden = true; });
    svg.addEventListener("pointerleave", () => { tip.hidden = true; });
    cells.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (!step) return;
      event.preventDefault();
      const row = region.map.row[chosen] + step[0];
      const column = region.map.column[chosen] + step[1];
      const next = region.map.row.findIndex((r, i) => r === row && region.map.column[i] === column);
      if (next >= 0) choose(next, made);
    });
    // Both show the same part of the city.
    frame.addEventListener("scroll", () => {
      for (const other of panels) {
        if (other.frame !== frame && Math.abs(other.frame.scrollLeft - frame.scrollLeft) + Math.abs(other.frame.scrollTop - frame.scrollTop) > 1)
          other.frame.scrollTo(frame.scrollLeft, frame.scrollTop);
      }
    });
    return made;
  }

  function release() {
    return region.map.releases.find(isPlan(story));
  }

  function wordsOf(i) {
    const shown = release();
    const estimate = shown.estimate[i];
    const wide = 2 * shown.error[i];
    const place = region.map.district[i] ? `, ${region.map.district[i]}` : "";
    const known = estimate > wide ? "" : " So nobody may be there at all.";
    return `Cell ${i} (row ${region.map.row[i] + 1} from the south, column ${region.map.column[i] + 1} from the west${place}): truth ${number.format(region.map.truth[shown.n][i])}, estimate ${number.format(estimate)} ± ${number.format(wide)} (two standard errors: some 95 % of such intervals hold the truth), from ${number.format(Math.max(0, estimate - wide))} to ${number.format(Math.max(0, estimate + wide))}.${known}`;
  }

  /** The reading at the cell itself. */
  function showTip({ svg, frame, tip, cells }, i) {
    const shown = release();
    const [box, around] = [cells.children[i].getBoundingClientRect(), frame.getBoundingClientRect()];
    const place = [region.map.district[i], `cell ${i}`].filter(Boolean).join(", ");
    tip.replaceChildren(place, element("br"), `${number.format(shown.estimate[i])} ± ${number.format(2 * shown.error[i])}`, element("br"), `truth ${number.format(region.map.truth[shown.n][i])}`);
    tip.hidden = false;
    const half = tip.offsetWidth / 2;
    const x = box.left + box.width / 2 - around.left;
    const below = box.top - around.top < tip.offsetHeight + 8;
    tip.classList.toggle("below", below);
    tip.style.left = `${Math.max(half, Math.min(x, around.width - half)) + frame.scrollLeft}px`;
    tip.style.top = `${(below ? box.bottom : box.top) - around.top + frame.scrollTop}px`;
    svg.dataset.tip = tip.textContent;
  }

  function choose(i, at = null) {
    for (const one of panels) {
      const before = one.cells.children[chosen];
      before?.classList.remove("chosen");
      before?.setAttribute("aria-selected", "false");
      const now = one.cells.children[i];
      now.classList.add("chosen");
      now.setAttribute("aria-selected", "true");
      one.cells.setAttribute("aria-activedescendant", now.id);
      if (one === at) showTip(one, i);
      else one.tip.hidden = true;
    }
    chosen = i;
    readout.textContent = wordsOf(i);
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

  function update() {
    const shown = release();
    if (!shown) return;
    const truth = region.map.truth[shown.n];
    top = roundTop(Math.max(10, d3.max(truth), d3.max(shown.estimate)));
    const scale = d3.scaleLog([1, top], [0, 1]).clamp(true);
    const colour = (value) => countColour(scale(value));
    const wrong = d3.max(shown.estimate, (e, i) => Math.abs(e - truth[i])) || 1;
    const unit = region.plural;
    const [one, two] = panels;
    const scaled = (value, hatch) => (value > 0 ? colour(value) : hatch);
    const paint = (panel, i, fill) => {
      const cell = panel.cells.children[i];
      cell.setAttribute("fill", fill);
      cell.setAttribute("pointer-events", "all");
      cell.setAttribute("aria-label", wordsOf(i));
    };
    truth.forEach((value, i) => paint(one, i, scaled(value, one.hatch)));
    shown.estimate.forEach((value, i) => {
      const fill = {
        estimate: () => scaled(value, two.hatch),
        error: () => errorColour(0.5 + (value - truth[i]) / wrong / 2),
        known: () => (value > 2 * shown.error[i] ? colour(value) : two.hatch),
      }[view.value]();
      paint(two, i, fill);
    });
    const keys = element("ul", { class: "keys" });
    const round = d3.range(0, Math.log10(top) + 1e-9).map((d) => [scale(10 ** d), number.format(10 ** d)]);
    if (!/^10*$/.test(String(top))) round.push([1, number.format(top)]);
    legend.replaceChildren(element("div", { text: `${unit} per cell, ${view.value === "error" ? "the truth" : "on both maps"}; logarithmic scale` }), ...ramp(countColour, round));
    if (view.value === "error") {
      legend.append(element("div", { text: `error, ${unit}: purple too few, orange too many; linear scale` }), ...ramp(errorColour, [[0, `−${number.format(wrong)}`], [0.5, "0"], [1, number.format(wrong)]]));
      keys.append(key(one.hatch, `truth: no ${region.unit.replace("one ", "")}`));
    } else {
      const why = view.value === "known" ? "not known: below two standard errors, which is not zero" : "estimated as 0 or below, which is not known to be empty";
      keys.append(key(two.hatch, `truth: no ${region.unit.replace("one ", "")}; beside it: ${why}`));
    }
    legend.append(keys);
    document.getElementById("truth-title").textContent = `The truth: ${region.title}, ${number.format(shown.n)} ${unit}`;
    document.getElementById("map-title").textContent = `${VIEWS.find(([v]) => v === view.value)[1]}: ${shown.label}, eps = ${roundedUp(shown.eps)}`;
    const plan = region.plans.find(isPlan(story));
    noise.hidden = !plan?.noise;
    noise.textContent = plan?.noise ? "This map would be mostly noise: a cell's number is farther off than what a cell holds on average." : "";
    document.getElementById("map-shown").textContent = plan?.shown ?? "";
    choose(chosen);
  }

  function redraw() {
    if (!region.map || !release()) return;
    panels = [];
    panels = [panel(left, "map-left", "Cells of the true map"), panel(right, "map-right", "Cells of the released map")];
    update();
    if (!zoomed) return;
    const { cells, frame } = panels[0];
    const [box, around] = [cells.children[chosen].getBoundingClientRect(), frame.getBoundingClientRect()];
    for (const each of panels) each.frame.scrollTo(box.left - around.left - around.width / 2, box.top - around.top - around.height / 2);
  }

  function show(told) {
    const other = told.region !== region;
    story = told;
    region = told.region;
    const there = region.map && release();
    const before = !body.hidden;
    none.hidden = Boolean(there);
    body.hidden = !there;
    if (!there) {
      none.textContent = region.map
        ? "There is no map of this choice: the mechanism cannot keep the promise, or the page has no room for this n."
        : "No map here: the grid has too many cells for one page. The figures of the run have maps.";
      return;
    }
    if (other || !panels.length) {
      project = projection(region.map.corners);
      chosen = d3.maxIndex(region.map.truth[story.n]);
      attribution.textContent = region.map.attribution ? `Base map: ${region.map.attribution}` : "";
    }
    if (other || !panels.length || !before) redraw();
    else update();
  }
  legend.after(element("p", { id: "map-shown" }));
  return { show, redraw };
}
