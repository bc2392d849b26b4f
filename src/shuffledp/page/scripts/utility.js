"use strict";
// Distances against n, distances against eps, and ratios to another mechanism.

// Only the last kind needs no targets.
const KINDS = [
  ["n", "Share to be moved, against n"],
  ["ratio", "Ratio to another mechanism"],
  ["eps", "Share to be moved, against eps"],
];

function mountUtility(home) {
  let choice, region;
  const controls = element("div", { class: "controls" });
  const kind = select(controls, "utility-kind", "Show", [], () => update());
  const budget = select(controls, "utility-eps0", "Local budget of a report, eps0", [], () => update());
  const reference = select(controls, "utility-reference", "Reference", [], () => update());
  const estimator = select(controls, "utility-estimator", "Estimate", [["raw", "raw (unbiased)"], ["projected", "projected to a distribution"]], () => update());
  const chart = element("div", { class: "chart", id: "utility-chart" });
  const table = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Numbers in the chart" });
  const note = element("p", { class: "note" });
  home.append(controls, chart, note, element("details", {}, element("summary", { text: "Numbers in the chart" }), table));
  const tableRows = () => [...table.querySelectorAll("tr")].map((row) => [...row.children].map((cell) => cell.textContent));
  downloads(home, () => `accuracy-${region.title}`, tableRows, () => [chart.querySelector("svg"), ["From top to bottom: " + [...chart.querySelectorAll(".keys li")].map((one) => one.textContent).join("; "), note.textContent]]);

  function targets() {
    const { eps } = region.promises.find((one) => one.promise === choice.promise);
    const rows = rowsOf(region.targets).filter((r) => r.eps === eps && r.estimator === estimator.value);
    return rows.map((r) => ({ x: r.n, mechanism: r.mechanism, low: r.p10, value: r.tv_distance, high: r.p90 }));
  }

  function ratios() {
    const rows = targets();
    const base = new Map(rows.filter((r) => r.mechanism === reference.value).map((r) => [r.x, r.value]));
    return rows.filter((r) => base.has(r.x)).map((r) => ({ ...r, value: r.value / base.get(r.x), low: null, high: null }));
  }

  function sweep() {
    const eps0 = Number(budget.value);
    const n = choice.n;
    const rows = rowsOf(region.sweep).filter((r) => r.n === n && r.eps0 === eps0 && r.estimator === estimator.value);
    const flat = rows.filter((r) => r.calibration === "none");
    const varied = rows.filter((r) => r.calibration !== "none");
    const ends = d3.extent(varied, (r) => r.eps);
    const level = flat.flatMap((r) => ends.map((eps) => ({ ...r, eps })));
    return [...varied, ...level].map((r) => ({ x: r.eps, mechanism: r.mechanism, low: r.low, value: r.median, high: r.high })).sort((a, b) => a.x - b.x);
  }

  function look(mechanism) {
    return region.looks[mechanism];
  }

  function offerChoices() {
    fill(budget, unique(region.sweep.eps0).map((e) => [e, e]));
    if (region.targets) fill(reference, unique(region.targets.mechanism).map((m) => [m, look(m).label]));
  }

  function update() {
    reference.parentElement.hidden = kind.value !== "ratio";
    budget.parentElement.hidden = kind.value !== "eps";
    const rows = { n: targets, ratio: ratios, eps: sweep }[kind.value]();
    const drawn = unique(rows.map((r) => r.mechanism));
    const logarithmic = kind.value !== "eps" || d3.min(rows, (r) => r.x) > 0;
    const xLabel = kind.value === "eps" ? "eps" : `${region.plural}, n`;
    const colour = { domain: drawn, range: drawn.map((m) => inked(look(m).colour)) };
    const symbol = { domain: drawn, range: drawn.map((m) => look(m).symbol) };
    const yLabel = kind.value === "ratio" ? `share to be moved, relative to ${look(reference.value)?.label}` : "share to be moved";
    const shown = drawn.includes(choice.mechanism) ? choice.mechanism : null;
    const marks = [
      Plot.gridY({ ticks: 6, stroke: "currentColor", strokeOpacity: 0.15 }),
      Plot.areaY(rows.filter((r) => r.low !== null), { x: "x", y1: "low", y2: "high", z: "mechanism", fill: "mechanism", fillOpacity: 0.15 }),
      Plot.lineY(rows, { x: "x", y: "value", z: "mechanism", stroke: "mechanism", strokeWidth: 1.4 }),
      Plot.lineY(rows.filter((r) => r.mechanism === shown), { x: "x", y: "value", z: "mechanism", stroke: "mechanism", strokeWidth: 4 }),
      Plot.dot(rows, { x: "x", y: "value", stroke: "mechanism", symbol: "mechanism", fill: "var(--paper)", r: 4 }),
    ];
    const rightmost = drawn.map((m) => rows.filter((r) => r.mechanism === m).at(-1));
    draw(chart, `${yLabel} against ${xLabel}`, {
      marginRight: 20,
      x: { label: xLabel, type: logarithmic ? "log" : "linear", tickFormat: (v) => (/^0*[125]0*$/.test(String(v).replace(".", "")) ? v < 1 ? brief(v, 1) : number.format(v) : "") },
      y: kind.value === "ratio"
        ? { label: yLabel, domain: [0, Math.max(1.1, d3.max(rows, (r) => r.value))], ticks: 6 }
        : { label: yLabel, type: "log", tickFormat: (v) => brief(v, 2), ticks: 6 },
      color: colour,
      symbol,
      marks,
    });
    const legend = element("ul", { class: "keys" }, ...rightmost.sort((a, b) => b.value - a.value).map((r) => {
      const icon = svgElement("svg", { width: 26, height: 14, viewBox: "-13 -7 26 14", "aria-hidden": "true" },
        svgElement("line", { x1: -13, x2: 13, y1: 0, y2: 0, stroke: inked(look(r.mechanism).colour), "stroke-width": 2 }),
        svgElement("path", { d: d3.symbol(SYMBOLS[look(r.mechanism).symbol], 50)(), fill: "var(--paper)", stroke: inked(look(r.mechanism).colour), "stroke-width": 1.5 }));
      return element("li", {}, icon, `${look(r.mechanism).label}: ${brief(r.value)} at the right end`);
    }));
    chart.append(legend);
    const setting = [kind.value === "eps" ? `n = ${number.format(choice.n)}, eps0 = ${budget.value} for shuffled k-RR` : choice.promise, estimator.selectedOptions[0]?.text];
    note.textContent = `${[region.title, ...setting].join("; ")}. ` + { n: "Mean over the repetitions; the shaded band is the 10 % to 90 % range.", ratio: "Ratio of the means over the repetitions; a mechanism above 1 is worse.", eps: "Median over the repetitions and quartiles. The line of shuffled k-RR is level because its noise depends only on eps0. The other mechanisms must meet its delta at each eps. At a large eps this delta is far below any value in use: what the others lose there is no advantage of the shuffle model in practice." }[kind.value] +
      (kind.value !== "ratio" && d3.max(rows, (r) => r.value) > 1 ? " A distance above 1 means only noise: a raw estimate can be farther from the truth than any map." : "");
    showNumbers(rows, xLabel, yLabel);
  }

  function showNumbers(rows, xLabel, yLabel) {
    const place = kind.value === "eps" ? (x) => brief(x, 4) : number.format;
    const head = element("tr", {}, ...["Mechanism", xLabel, yLabel].map((text) => element("th", { scope: "col", text })));
    const lines = rows.map((r) => element("tr", {}, element("th", { scope: "row", text: look(r.mechanism).label }), element("td", { text: place(r.x) }), element("td", { text: brief(r.value, 4) })));
    table.replaceChildren(element("table", {}, element("caption", { text: `${region.title}: ${yLabel}` }), element("thead", {}, head), element("tbody", {}, ...lines)));
  }

  function show(newChoice) {
    const regionChanged = newChoice.region !== region;
    choice = newChoice;
    region = choice.region;
    if (regionChanged) {
      fill(kind, KINDS.slice(region.targets ? 0 : -1));
      offerChoices();
      if (region.targets) reference.value = region.targets.mechanism.includes("gaussian") ? "gaussian" : region.targets.mechanism[0];
    }
    update();
  }
  return { show, redraw: () => update() };
}

const SYMBOLS = {
  circle: d3.symbolCircle, square: d3.symbolSquare, diamond: d3.symbolDiamond, diamond2: d3.symbolDiamond2,
  triangle: d3.symbolTriangle, triangle2: d3.symbolTriangle2, star: d3.symbolStar, plus: d3.symbolPlus,
  times: d3.symbolTimes, wye: d3.symbolWye, asterisk: d3.symbolAsterisk, hexagon: d3.symbolSquare2,
};
