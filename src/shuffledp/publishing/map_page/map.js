"use strict";
// A published map: levels, estimates with intervals, sums of chosen areas, and differences of times.

const data = JSON.parse(document.getElementById("data").textContent);
const FLOWS = ["Trips from", "Trips to", "Departures", "Arrivals"];
const VIEWS = [["estimate", "Estimate"], ["count", data.law ? "Count, right on average" : "Noisy count, right on average"]];
const TIMES = { windows: data.every ?? "Window", day: "Day", week: "Week from", month: "Month", quarter: "Quarter", year: "Year", period: "Period", hour: "Hour from" };

/** Return the ends of an interval, whole numbers, of a value that is at least `lowest`. */
function ends(value, width, lowest) {
  const nearest = Math.max(lowest, Math.round(value));
  return [Math.min(nearest, Math.max(lowest, Math.ceil(value - width))), Math.max(nearest, Math.floor(value + width))];
}

function range(value, width, lowest) {
  return ends(value, width, lowest).map((end) => number.format(end)).join(" to ");
}

/** Return the numbers of trips from or to a place, of departures or of arrivals, for each place. */
function flowValues([pairs, ...margins], mode, anchor) {
  if (mode > 1) return margins[mode - 2];
  const k = data.areas[0].id.length;
  const ofPlace = (row) => d3.range(k).map((i) => row[mode ? i * k + anchor : anchor * k + i]);
  return Object.fromEntries(Object.entries(pairs).map(([key, rows]) => [key, rows.map((row) => (row.length ? ofPlace(row) : row))]));
}

function mountMap(home) {
  const project = projection(data.areas.flatMap(({ cells }) => cells.flat()));
  const shapes = data.areas.map(({ cells }) => shapesOf(cells, project));
  const picked = new Set();
  let panel, level = data.opens, time = 0, shown = 0, chosen = 0, anchor = 0;
  const drawn = () => shapes[data.flows ? 0 : level];
  const areas = () => data.areas[data.flows ? 0 : level];
  const anchored = () => data.flows && level < 2;
  const values = () => (data.flows ? flowValues(data.values[time], level, anchor) : data.values[time][level]);
  const label = () => (anchored() ? `${FLOWS[level]} ${areas().names[anchor]}` : data.flows ? FLOWS[level] : areas().label);
  const names = () => data.times[time].windows;
  const several = () => names().length > 1;
  const half = (w, i) => values().half[w]?.[i] ?? values().half[w] ?? values().half;
  const widthsOf = (group, wanted) => Float64Array.from(group, (g) => (wanted(g) ? 1 : 0));

  const controls = element("div", { class: "controls" });
  const view = select(controls, "map-view", "What the map shows", VIEWS, () => update());
  const choices = data.flows ? FLOWS.map((text, i) => [i, i < 2 ? `${text} a place` : text]) : data.areas.map(({ label }, i) => [i, label]);
  const levels = choices.length > 1 && select(controls, "map-level", data.flows ? "Trips" : "Areas", choices, () => {
    level = Number(levels.value);
    if (place) place.parentElement.hidden = !anchored();
    picked.clear();
    chosen = d3.maxIndex(values().estimate[shown]);
    redraw();
  });
  if (levels) levels.value = level;
  const place = data.flows && select(controls, "map-place", "Place", areas().names.map((name, i) => [i, name]), () => {
    anchor = Number(place.value);
    update();
  });
  if (place) place.parentElement.hidden = !anchored();
  const lengths = data.times.length > 1 && select(controls, "map-length", "Times", data.times.map(({ name }, i) => [i, TIMES[name]]), () => {
    time = Number(lengths.value);
    shown = 0;
    listTimes();
    update();
  });
  const times = data.windows.length > 1 && select(controls, "map-window", data.every ?? "Window", [], () => {
    shown = Number(times.value);
    update();
  });
  const other = data.windows.length > 1 && select(controls, "map-other", "Difference, below, from", [], () => choose(chosen));
  const zoom = zoomBox(controls, () => redraw());
  const title = element("figcaption", {});
  const figure = element("figure", { class: "single" }, title);
  const legend = element("div", { class: "legend" });
  const readout = element("p", { class: "readout", id: "map-readout", "aria-live": "polite" });
  const pick = element("button", { type: "button", text: "Add this area to a sum" });
  const draw = element("button", { type: "button", text: "Draw an area to sum" });
  const clear = element("button", { type: "button", text: "Clear the sum" });
  const sum = element("p", { class: "readout", id: "map-sum", "aria-live": "polite" });
  home.append(controls, figure, legend, readout, element("div", { class: "downloads" }, pick, draw, clear), sum);
  pick.addEventListener("click", () => {
    if (!picked.delete(chosen)) picked.add(chosen);
    choose(chosen);
  });
  draw.addEventListener("click", () => {
    sum.textContent = "Press and drag to draw a closed line on the map: all areas whose middle lies in it are added to the sum.";
    drawLine(panel, (line) => {
      drawn().boxes.forEach(([west, north, east, south], i) => {
        if (d3.polygonContains(line, [(west + east) / 2, (north + south) / 2])) picked.add(i);
      });
      choose(chosen);
    });
  });
  clear.addEventListener("click", () => {
    picked.clear();
    choose(chosen);
  });
  downloads(home, () => [data.title, data.law && label(), data.law && data.windows[0] && data.times[time].name].filter(Boolean).join(" ").replaceAll(/[^\p{L}\p{N}]+/gu, "-"), cellTable,
    () => [[panel.svg, legend.firstChild], `${data.title}. ${title.textContent}. ${data.promise.join(" ")}`]);

  function listTimes() {
    if (!times) return;
    home.querySelector("label[for=map-window]").textContent = TIMES[data.times[time].name];
    const options = names().map((text, value) => element("option", { value, text }));
    times.replaceChildren(...options);
    other.replaceChildren(element("option", { value: "", text: "nothing" }), ...options.map((option) => option.cloneNode(true)));
  }

  function wide(frame) {
    const room = frame.clientWidth || 500;
    return zoom.checked ? Math.max(ZOOM * room, drawn().finger) : room;
  }

  const next = (toEast, toNorth) => neighbourOf(drawn().boxes, chosen, toEast, toNorth);

  /** Return the half-width of the interval of a sum of areas at a time, or of a difference of two times. */
  function halfWidth(cells, minus = null) {
    if (!data.law) {
      const counts = cells.length * (minus === null ? 1 : 2);
      return data.sums.find(([size]) => size >= counts)[1];
    }
    const ofWindows = widthsOf(data.times[time].group, (t) => t === shown);
    data.times[time].group.forEach((t, w) => { if (t === minus) ofWindows[w] -= 1; });
    const all = new Set(cells);
    const group = areas().group ?? d3.range(areas().id.length);
    const added = widthsOf(group, (g) => all.has(g));
    if (!data.flows) return levelsHalfWidth(ofWindows, added);
    const others = widthsOf(group, (g) => level > 1 || g === anchor);
    return level === 1 || level === 2 ? levelsHalfWidth(ofWindows, added, others) : levelsHalfWidth(ofWindows, others, added);
  }

  /** Return a sentence about the difference of two times, if one is compared. */
  function compared(cells) {
    if (!other || other.value === "" || Number(other.value) === shown) return "";
    const total = (at) => d3.sum(cells, (i) => values().count[at][i]);
    const minus = Number(other.value);
    const difference = total(shown) - total(minus);
    return ` Difference from ${names()[minus]}: ${number.format(difference)}; 95 % interval ${range(difference, halfWidth(cells, minus), -Infinity)}.`;
  }

  function mayBeEmpty(w, i) {
    return ends(values().count[w][i], half(w, i), 0)[0] === 0;
  }

  function wordsOf(i) {
    const count = values().count[shown][i];
    const joint = data.joint ? `, with all cells together ${range(count, data.joint, 0)}` : "";
    const shownNow = view.value === "count" ? `count ${number.format(count)}` : `estimate ${number.format(values().estimate[shown][i])}`;
    return `${areas().names[i]}: ${shownNow}; 95 % interval ${range(count, half(shown, i), 0)}${joint}.${mayBeEmpty(shown, i) ? " It may be empty." : ""}`;
  }

  function showSum() {
    const cells = [...picked].sort((a, b) => a - b);
    const total = d3.sum(cells, (i) => values().count[shown][i]);
    sum.textContent = cells.length
      ? `Sum of ${cells.length} area${cells.length > 1 ? "s" : ""} (${cells.slice(0, 20).map((i) => areas().names[i]).join("; ")}${cells.length > 20 ? "; …" : ""}): ${number.format(total)}; 95 % interval ${range(total, halfWidth(cells), 0)}.${compared(cells)} Choose what you add before you look at the numbers: the interval of a sum that was picked because it is large is too low.`
      : "No area is added to a sum.";
    [...panel.cells.children].forEach((cell, i) => { cell.style.stroke = picked.has(i) ? "var(--chosen)" : ""; });
  }

  function choose(i, at = null) {
    mark(panel, chosen, i);
    if (at) showTip(panel, i, [areas().names[i], number.format(values()[view.value][shown][i]), range(values().count[shown][i], half(shown, i), 0)]);
    else panel.tip.hidden = true;
    chosen = i;
    readout.textContent = wordsOf(i) + compared([i]);
    pick.textContent = picked.has(i) ? "Remove this area from the sum" : "Add this area to a sum";
    showSum();
  }

  function update() {
    const all = values()[view.value];
    const top = roundTop(Math.max(10, d3.max(all, (counts) => d3.max(counts))));
    const drawn = all.flatMap((counts, w) => counts.filter((value, i) => value > 0 && !mayBeEmpty(w, i)));
    const bottom = roundBottom(Math.min(top / 10, d3.min(drawn) ?? 1));
    const scale = d3.scaleLog([bottom, top], [0, 1]).clamp(true);
    [...panel.cells.children].forEach((cell, i) => {
      const sure = all[shown][i] > 0 && !mayBeEmpty(shown, i);
      cell.classList.toggle("unsure", !sure);
      cell.setAttribute("fill", sure ? countColour(scale(all[shown][i])) : panel.hatch);
      cell.setAttribute("pointer-events", "all");
      cell.setAttribute("aria-label", wordsOf(i));
    });
    legend.replaceChildren(legendOf(`${data.flows ? "trips" : "records"} per ${level && !data.flows ? "area" : "cell"}, logarithmic scale`, countColour, decadeTicks(scale, top, bottom), panel.hatch, "may be empty: the 95 % interval includes 0"));
    title.textContent = [VIEWS.find(([v]) => v === view.value)[1], choices.length > 1 && label(), names()[shown]].filter(Boolean).join(", ");
    choose(chosen);
  }

  function redraw() {
    panel = cellMap(figure, "map-cell", "Cells of the map", { project, outlines: drawn().outlines }, { choose, chosen: () => chosen, next, wide });
    areas().id.forEach((id, i) => { if (id === "elsewhere") nameCell(panel, drawn().boxes[i], areas().names[i]); });
    panel.svg.classList.toggle("areas", level > 0 && !data.flows);
    update();
    const [box, around] = [panel.cells.children[chosen].getBoundingClientRect(), panel.frame.getBoundingClientRect()];
    if (zoom.checked) panel.frame.scrollTo(box.left - around.left - around.width / 2, box.top - around.top - around.height / 2);
  }

  /** Return the table of the areas and times that are shown. */
  function cellTable() {
    const { count, estimate, raw } = values();
    const timed = data.windows[0] !== "";
    const where = data.law ? ["level", ...(timed ? ["every", "window"] : []), ...(data.flows ? ["origin", "destination"] : ["id", "name"])] : [...(timed ? ["window"] : []), "cell", "id", "name", "noisy_count"];
    const rows = names().flatMap((name, w) => areas().names.map((area, i) => {
      const own = areas().id[i];
      const other = anchored() ? areas().id[anchor] : "total";
      const [origin, destination] = level === 0 || level === 3 ? [other, own] : [own, other];
      const known = { origin, destination, level: data.flows ? ["pairs", "pairs", "departures", "arrivals"][level] : areas().name, every: data.times[time].name, window: name, cell: i, id: areas().id[i], name: area, noisy_count: count[w][i] };
      return [...where.map((column) => known[column]), data.law ? raw?.[w][i] : count[w][i], count[w][i], estimate[w][i],
        ...ends(count[w][i], half(w, i), 0), ...(data.joint ? ends(count[w][i], data.joint, 0) : [])];
    }));
    return [[...where, "raw", "count", "estimate", "low", "high", ...(data.joint ? ["joint_low", "joint_high"] : [])], ...rows];
  }

  listTimes();
  chosen = d3.maxIndex(values().estimate[0]);
  redraw();
  let width = globalThis.innerWidth;
  globalThis.addEventListener("resize", () => {
    if (globalThis.innerWidth !== width) { width = globalThis.innerWidth; redraw(); }
  });
  matchMedia("screen and (prefers-color-scheme: dark)").addEventListener("change", redraw);
}

mountMap(document.getElementById("map-body"));
