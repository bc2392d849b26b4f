"use strict";
// Certified delta against eps for the chosen mechanism, and all bounds on shuffled randomised response.

function mountPrivacy(home) {
  let choice, region, rows;
  const controls = element("div", { class: "controls" });
  const target = element("input", { id: "privacy-delta", type: "text", inputmode: "decimal", size: "8", autocomplete: "off" });
  controls.append(element("div", {}, element("label", { for: "privacy-delta", text: "Certified eps at delta" }), target));
  target.addEventListener("input", () => update());
  const answer = element("p", { class: "readout", id: "privacy-answer", "aria-live": "polite" });
  const own = element("div", { class: "chart", id: "own-chart" });
  const ownNote = element("p", { class: "note", id: "own-note" });
  const ownPart = element("div", {}, own, ownNote);
  downloads(ownPart, () => `privacy-${region.title}-${choice.mechanism}`, () => [["eps", "log10_delta"], ...guaranteeSteps(ownPoints() ?? [])], () => [own.querySelector("svg"), [`${region.title}: ${answer.textContent}`, ownNote.textContent]]);
  const summary = element("summary", { text: "For referees: all bounds on shuffled randomised response, at a given eps0" });
  const details = element("details", { id: "bounds" }, summary);
  const budgets = element("div", { class: "controls" });
  const budget = select(budgets, "privacy-eps0", "Local budget of a report, eps0", [], () => update());
  const krr = element("p", { class: "readout", id: "bounds-answer", "aria-live": "polite" });
  const chart = element("div", { class: "chart", id: "privacy-chart" });
  const shown = element("fieldset", {}, element("legend", { text: "Bounds" }));
  const note = element("p", { class: "note" });
  const people = element("div", { class: "chart", id: "people-chart" });
  const peopleNote = element("p", { class: "note", id: "people-note" });
  details.append(element("p", { text: "A single report has the local budget eps0; the shuffled reports together have (eps, delta)." }), budgets, krr, chart,
    element("div", { class: "controls" }, shown), note, element("h3", { text: "How many people are needed for each eps0?" }), people, peopleNote);
  details.addEventListener("toggle", () => { if (details.open) update(); });
  home.append(controls, answer, ownPart, details);

  /** Offer the bounds of the region. */
  function offerBounds() {
    shown.replaceChildren(shown.firstChild);
    for (const [name, bound] of Object.entries(region.privacy.bounds)) {
      const box = element("input", { type: "checkbox", value: name });
      box.checked = true;
      box.addEventListener("change", () => update());
      const line = { x1: 0, x2: 36, y1: 12, y2: 12, stroke: inked(bound.colour), "stroke-width": 2.5 };
      if (DASHES[bound.line]) line["stroke-dasharray"] = DASHES[bound.line];
      const swatch = svgElement("svg", { class: "swatch", width: 36, height: 24, "aria-hidden": "true" }, svgElement("line", line));
      const label = element("span", {}, element(bound.kind === "as printed" ? "s" : "span", { text: name }), ` (${bound.worth}): ${bound.about}`);
      shown.append(element("label", {}, box, swatch, label));
    }
  }

  /** Return the smallest eps of a table whose certified delta is small enough, without interpolation. */
  function readOff(curve, log10) {
    const met = curve.filter((r) => r.log10_delta !== null && r.log10_delta <= log10).map((r) => r.eps);
    return met.length ? d3.min(met) : null;
  }

  /** Return the points of the chosen mechanism's certified curve, or null. */
  function ownPoints() {
    return region.plans.find(isPlan(choice))?.curve ?? null;
  }

  function promised() {
    return region.promises.find((one) => one.promise === choice.promise);
  }

  /** Return log10 of the typed delta, or null if the text is not a delta. */
  function typedDelta() {
    const log10 = log10Of(target.value);
    target.setAttribute("aria-invalid", String(Number.isNaN(log10)));
    return Number.isNaN(log10) ? null : log10;
  }

  /** Show the certified eps at the typed delta, and the command that prints all digits. */
  function readOut(home, met, setting, command) {
    // The command answers for one record only.
    const [run, exact, promise] = region.replaced ? ["", ".", ` The replacement of ${region.replaced} is protected.`] : [` Run ${command}`, `; for the exact one run ${command}`, ""];
    const typed = target.value.trim(); // rounding the text could state a smaller delta
    if (typedDelta() === null) home.textContent = "delta must be a number between 0 and 1, such as 1e-6.";
    else if (met === null) home.textContent = `No eps of this table has a certified delta of ${typed}.${run}`;
    else home.textContent = `Certified: eps = ${roundedUp(met.eps)} at delta = ${typed}, for ${setting}. ${met.exact ? "" : `This is the next larger eps of the table${exact}`}${promise}`;
  }

  function ownCurve() {
    const points = ownPoints();
    ownPart.hidden = answer.hidden = !points;
    if (!points) return;
    const plan = region.plans.find(isPlan(choice));
    const log10 = typedDelta();
    const steps = guaranteeSteps(points);
    const { eps, delta } = promised();
    const goal = log10Of(String(delta)); // parsed like the typed delta
    // The promised eps holds at the promised delta and at larger ones. Where delta is 0, any target is met.
    const kept = log10 === null ? [] : [...points.filter(([, y]) => y === null || y <= log10), ...(log10 >= goal ? [[eps]] : [])];
    const met = d3.min(kept, ([x]) => x) ?? null;
    const lowest = Math.min(-9, log10 ?? -9, goal) - 2;
    const lastEps = points[points.length - 1][0];
    const stroke = inked(region.looks[choice.mechanism].colour);
    draw(own, `certified delta against eps of ${plan.label} for n = ${choice.n}, k = ${region.k}`, {
      x: { label: "eps", domain: [0, lastEps] },
      y: { label: "delta, logarithmic", domain: [lowest, 0], tickFormat: powerOfTen, ticks: 7 },
      marks: [
        Plot.gridY({ ticks: 7, stroke: "currentColor", strokeOpacity: 0.15 }),
        Plot.line(steps, { x: "0", y: "1", stroke, strokeWidth: 2.5, curve: "step-after", clip: true }),
        Plot.ruleY(log10 === null ? [] : [log10], { stroke: "currentColor", strokeDasharray: "3 3" }),
        Plot.dot([[eps, goal]], { fill: stroke, stroke: "var(--paper)", r: 6 }),
        Plot.text([[eps, goal]], { text: ["guaranteed"], dx: 9, dy: -9, textAnchor: "start", fill: "currentColor", stroke: "var(--paper)", strokeWidth: 4 }),
      ],
    });
    const command = `shuffledp epsilon --n ${choice.n} --k ${region.k} --mechanism ${choice.mechanism} --parameters "${plan.parameters}" --delta ${target.value.trim()}`;
    readOut(answer, met === null ? null : { eps: met, exact: log10 === goal && met === eps }, `${plan.label} with ${number.format(choice.n)} ${region.plural} in ${region.k} cells`, command);
    ownNote.textContent = `The line is a guarantee for ${plan.label} with ${plan.parameters}: certified upper bounds at ${points.length} points and, as steps, what follows from them in between. ` +
      (points.some(([, y]) => y === null) ? "Delta is 0 where the line ends. " : "") + "Only those who must be trusted learn more.";
  }

  /** Draw certified eps against n for each eps0, as steps: what is certified for n people holds for more. */
  function drawPeople() {
    const all = rowsOf(region.privacy.sizes).filter((r) => r.bound === "upper").sort((a, b) => a.n - b.n);
    const budgets = unique(all.map((r) => r.eps0));
    const symbols = ["circle", "square", "triangle", "diamond", "star", "wye"];
    const at = (r) => symbols[budgets.indexOf(r.eps0) % symbols.length];
    const ends = budgets.map((eps0) => all.filter((r) => r.eps0 === eps0).at(-1));
    const who = region.replaced ? region.plural : "people";
    draw(people, `certified eps against the number of ${who} at delta = ${region.privacy.delta}`, {
      marginRight: 70,
      insetBottom: 14, // room above the axis for the last label
      x: { label: `${who}, n (one report each)`, type: "log", tickFormat: decades },
      y: { label: "certified eps", type: "log", tickFormat: (v) => brief(v, 2), ticks: 6 },
      symbol: { range: symbols },
      marks: [
        Plot.gridY({ stroke: "currentColor", strokeOpacity: 0.15 }),
        Plot.lineY(all, { x: "n", y: "eps", z: "eps0", stroke: "currentColor", strokeWidth: 1.6, curve: "step-after" }),
        Plot.dot(all, { x: "n", y: "eps", symbol: at, fill: "var(--paper)", stroke: "currentColor", r: 3.5 }),
        Plot.text(ends, { x: "n", y: "eps", text: (r) => `eps0 = ${r.eps0}`, textAnchor: "start", dx: 8 }),
      ],
    });
    const shownAt = (r) => `${number.format(r.n)} ${who} for eps = ${brief(r.eps)}`;
    const lines = budgets.map((eps0) => {
      const requested = all.filter((r) => r.eps0 === eps0 && [0.1, 0.5, 1, 2].includes(r.eps));
      return `eps0 = ${eps0}: ${requested.length ? requested.sort((a, b) => b.eps - a.eps).map(shownAt).join(", ") : "none of 0.1, 0.5, 1 and 2"}.`;
    });
    peopleNote.textContent = `At delta = ${brief(region.privacy.delta)} and k = ${region.k} cells, the smallest number of ${who} for which an eps is certified. ${lines.join(" ")}`;
  }

  function update() {
    ownCurve();
    if (details.open) drawBounds();
  }

  /** Draw the chosen bounds on shuffled randomised response. */
  function drawBounds() {
    drawPeople();
    const n = choice.n;
    const eps0 = Number(budget.value);
    const here = rows.filter((r) => r.n === n && r.eps0 === eps0);
    const chosen = [...shown.querySelectorAll("input:checked")].map((box) => box.value);
    const log10 = typedDelta();
    const lowest = Math.min(-12, log10 === null ? -12 : log10 - 2);
    const reached = rowsOf(region.privacy.reached).find((r) => r.n === n && r.eps0 === eps0);
    const goal = log10Of(String(region.privacy.delta)); // parsed like the typed delta
    if (reached) here.push({ ...reached, bound: "upper", log10_delta: goal });
    here.sort((a, b) => a.eps - b.eps);
    const rowsFor = (name) => here.filter((r) => r.bound === name && r.log10_delta !== null);
    const points = (name) => rowsFor(name).map((r) => [r.eps, r.log10_delta]);
    const marks = [Plot.gridY({ ticks: 7, stroke: "currentColor", strokeOpacity: 0.15 })];
    const fine = n === d3.max(region.n);
    if (chosen.includes("upper") && chosen.includes("lower")) {
      const low = new Map(rowsFor("lower").map((r) => [r.eps, r.log10_delta]));
      const band = rowsFor("upper").filter((r) => low.has(r.eps));
      marks.push(Plot.ruleX(band, { x: "eps", y1: (r) => Math.max(lowest, low.get(r.eps)), y2: (r) => Math.max(lowest, r.log10_delta), stroke: "currentColor", strokeOpacity: 0.4, strokeWidth: 3 }));
    }
    for (const name of chosen) {
      const { colour, line, guarantee } = region.privacy.bounds[name];
      const stroke = inked(colour);
      const curve = guarantee ? guaranteeSteps(points(name)) : points(name);
      // Few points prove little in between and are drawn without a line.
      if (fine) marks.push(Plot.line(curve, { x: "0", y: "1", stroke, strokeWidth: name === "upper" ? 2.5 : 1.8, strokeDasharray: DASHES[line], clip: true, curve: guarantee ? "step-after" : "linear" }));
      else marks.push(Plot.dot(points(name), { x: "0", y: "1", fill: stroke, r: 3.5, clip: true }));
    }
    if (log10 !== null) marks.push(Plot.ruleY([log10], { stroke: "currentColor", strokeDasharray: "3 3" }));
    const exact = reached && log10 === goal ? reached.eps : null;
    const eps = exact ?? (log10 === null ? null : readOff(rowsFor("upper"), log10));
    if (eps !== null) marks.push(Plot.dot([[eps, log10]], { fill: "currentColor", r: 5 }));
    const visible = here.filter((r) => r.log10_delta !== null && r.log10_delta > lowest);
    draw(chart, `delta against eps for n = ${n}, k = ${region.k}, eps0 = ${eps0}`, {
      x: { label: "eps", domain: [0, Math.max(d3.max(visible, (r) => r.eps) ?? eps0, eps ?? 0)], nice: false },
      y: { label: "delta, logarithmic", domain: [lowest, 0], tickFormat: powerOfTen, ticks: 7 },
      marks,
    });
    const command = `shuffledp epsilon --n ${n} --k ${region.k} --eps0 ${eps0} --delta ${target.value.trim()}`;
    readOut(krr, eps === null ? null : { eps, exact: exact !== null }, `n = ${number.format(n)} ${region.plural}, k = ${region.k} cells and eps0 = ${eps0}`, command);
    const below = chosen.flatMap((name) => {
      const largest = d3.max(rowsFor(name), (r) => r.log10_delta);
      return largest > lowest ? [] : `${name} is below the plot: its delta nowhere exceeds ${powerOfTen(Math.ceil(largest))}. `;
    });
    note.textContent = below.join("") + (fine ? "" : "At this n the run has only the marked points. ") +
      "The line of a guarantee is nowhere below the certified delta. Only a guarantee may be promised. The bound that is struck out is the formula as printed in the paper: it claims more privacy than there is.";
  }

  function show(newChoice) {
    const regionChanged = newChoice.region !== region;
    choice = newChoice;
    region = choice.region;
    if (regionChanged) {
      rows = rowsOf(region.privacy.curves);
      fill(budget, unique(rows.map((r) => r.eps0)).map((e) => [e, e]));
      target.value = brief(promised().delta, 6);
      offerBounds();
      details.open = !region.plans.length;
    }
    update();
  }
  return { show, redraw: () => update() };
}
