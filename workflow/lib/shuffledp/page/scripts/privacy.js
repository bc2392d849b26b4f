"use strict";
// Delta against eps: the certified band, and what else is asked for.

function mountPrivacy(home) {
  let story, region, rows;
  const controls = element("div", { class: "controls" });
  const target = element("input", { id: "privacy-delta", type: "text", inputmode: "decimal", size: "8", autocomplete: "off" });
  controls.append(element("div", {}, element("label", { for: "privacy-delta", text: "Read eps off at delta" }), target));
  target.addEventListener("input", () => update());
  const answer = element("p", { class: "readout", id: "privacy-answer", "aria-live": "polite" });
  const own = element("div", { class: "chart", id: "own-chart" });
  const ownNote = element("p", { class: "note", id: "own-note" });
  const ownPart = element("div", {}, own, ownNote);
  downloads(ownPart, () => `privacy-${region.title}-${story.mechanism}`, () => [["eps", "log10_delta"], ...guaranteeSteps(ownPoints() ?? [])], () => [own.querySelector("svg"), [`${region.title}: ${answer.textContent}`, ownNote.textContent]]);
  const summary = element("summary", { text: "For the referee: every bound on shuffled randomised response, at a given eps0" });
  const details = element("details", { id: "bounds" }, summary);
  const budgets = element("div", { class: "controls" });
  const budget = select(budgets, "privacy-eps0", "Budget of a report, eps0", [], () => update());
  const krr = element("p", { class: "readout", id: "bounds-answer", "aria-live": "polite" });
  const chart = element("div", { class: "chart", id: "privacy-chart" });
  const shown = element("fieldset", {}, element("legend", { text: "Bounds" }));
  const note = element("p", { class: "note" });
  const people = element("div", { class: "chart", id: "people-chart" });
  const peopleNote = element("p", { class: "note", id: "people-note" });
  details.append(element("p", { text: "A report alone has the local budget eps0; the shuffled reports together have (eps, delta)." }), budgets, krr, chart,
    element("div", { class: "controls" }, shown), note, element("h3", { text: "How many people does an eps0 need?" }), people, peopleNote);
  details.addEventListener("toggle", () => { if (details.open) update(); });
  home.append(controls, answer, ownPart, details);

  function choices() {
    shown.replaceChildren(shown.firstChild);
    for (const [name, bound] of Object.entries(region.privacy.bounds)) {
      const box = element("input", { type: "checkbox", value: name });
      box.checked = true;
      box.addEventListener("change", () => update());
      const line = { x1: 0, x2: 36, y1: 12, y2: 12, stroke: inked(bound.colour), "stroke-width": 2.5 };
      if (DASHES[bound.line]) line["stroke-dasharray"] = DASHES[bound.line];
      const swatch = svgElement("svg", { class: "swatch", width: 36, height: 24, "aria-hidden": "true" }, svgElement("line", line));
      const words = element("span", {}, element(bound.kind === "as printed" ? "s" : "span", { text: name }), ` (${bound.worth}): ${bound.about}`);
      shown.append(element("label", {}, box, swatch, words));
    }
  }

  /** Smallest eps of the table at which a guarantee is at most delta: never read between points. */
  function readOff(curve, log10) {
    const met = curve.filter((r) => r.log10_delta !== null && r.log10_delta <= log10).map((r) => r.eps);
    // A curve that ends has a delta of 0 there.
    return met.length ? d3.min(met) : null;
  }

  /** Points of the certified curve of the mechanism that is chosen. */
  function ownPoints() {
    return region.plans.find(isPlan(story))?.curve ?? null;
  }

  function promised() {
    return region.promises.find((one) => one.promise === story.promise);
  }

  /** What is typed, as a log of delta; null if it is no delta. */
  function asked() {
    const log10 = log10Of(target.value);
    target.setAttribute("aria-invalid", String(Number.isNaN(log10)));
    return Number.isNaN(log10) ? null : log10;
  }

  /** Certified eps at what is typed, and the command that has all digits. */
  function readOut(home, met, who, command) {
    const typed = target.value.trim(); // in fewer digits it could claim a smaller delta
    if (asked() === null) home.textContent = "delta must be a number between 0 and 1, such as 1e-6.";
    else if (met === null) home.textContent = `No eps of this table has a certified delta of ${typed}: ask ${command}`;
    else home.textContent = `Certified: eps = ${roundedUp(met.eps)} at delta = ${typed}, for ${who}. ${met.exact ? "" : `It is the next larger eps of the table; the exact one: ${command}`}`;
  }

  function ownCurve() {
    const points = ownPoints();
    ownPart.hidden = answer.hidden = !points;
    if (!points) return;
    const plan = region.plans.find(isPlan(story));
    const log10 = asked();
    const steps = guaranteeSteps(points);
    const { eps, delta } = promised();
    const goal = log10Of(String(delta)); // as what is typed is read
    // What is promised is kept. Where delta is 0 every target is met.
    const kept = log10 === null ? [] : [...points.filter(([, y]) => y === null || y <= log10), ...(log10 >= goal ? [[eps]] : [])];
    const met = d3.min(kept, ([x]) => x) ?? null;
    const least = Math.min(-9, log10 ?? -9, goal) - 2;
    const ends = points[points.length - 1][0];
    const stroke = inked(region.looks[story.mechanism].colour);
    draw(own, `certified delta against eps of ${plan.label} for n = ${story.n}, k = ${region.k}`, {
      x: { label: "eps", domain: [0, ends] },
      y: { label: "delta, logarithmic", domain: [least, 0], tickFormat: powerOfTen, ticks: 7 },
      marks: [
        Plot.gridY({ ticks: 7, stroke: "currentColor", strokeOpacity: 0.15 }),
        Plot.line(steps, { x: "0", y: "1", stroke, strokeWidth: 2.5, curve: "step-after", clip: true }),
        Plot.ruleY(log10 === null ? [] : [log10], { stroke: "currentColor", strokeDasharray: "3 3" }),
        Plot.dot([[eps, goal]], { fill: stroke, stroke: "var(--paper)", r: 6 }),
        Plot.text([[eps, goal]], { text: ["promised"], dx: 9, dy: -9, textAnchor: "start", fill: "currentColor", stroke: "var(--paper)", strokeWidth: 4 }),
      ],
    });
    const command = `shuffledp epsilon --n ${story.n} --k ${region.k} --mechanism ${story.mechanism} --parameters "${plan.parameters}" --delta ${target.value.trim()}`;
    readOut(answer, met === null ? null : { eps: met, exact: log10 === goal && met === eps }, `${plan.label} with ${number.format(story.n)} ${region.plural} in ${region.k} cells`, command);
    ownNote.textContent = `A guarantee: the accountant's upper ends at ${points.length} points, and between them what these prove, as steps. Of ${plan.label} with ${plan.parameters}. ` +
      (points.some(([, y]) => y === null) ? "Where the line ends delta is 0. " : "") + "Nobody else than those whom it asks to trust learns more.";
  }

  /** Certified eps against n, steps for each eps0: what n people have, more have. */
  function crowd() {
    const all = rowsOf(region.privacy.sizes).filter((r) => r.bound === "upper").sort((a, b) => a.n - b.n);
    const budgets = unique(all.map((r) => r.eps0));
    const symbols = ["circle", "square", "triangle", "diamond", "star", "wye"];
    const at = (r) => symbols[budgets.indexOf(r.eps0) % symbols.length];
    const ends = budgets.map((eps0) => all.filter((r) => r.eps0 === eps0).at(-1));
    draw(people, `certified eps against the number of people at delta = ${region.privacy.delta}`, {
      marginRight: 70,
      insetBottom: 14, // room for the last name, above the axis
      x: { label: "people, n (one report each)", type: "log", tickFormat: decades },
      y: { label: "certified eps", type: "log", tickFormat: (v) => brief(v, 2), ticks: 6 },
      symbol: { range: symbols },
      marks: [
        Plot.gridY({ stroke: "currentColor", strokeOpacity: 0.15 }),
        Plot.lineY(all, { x: "n", y: "eps", z: "eps0", stroke: "currentColor", strokeWidth: 1.6, curve: "step-after" }),
        Plot.dot(all, { x: "n", y: "eps", symbol: at, fill: "var(--paper)", stroke: "currentColor", r: 3.5 }),
        Plot.text(ends, { x: "n", y: "eps", text: (r) => `eps0 = ${r.eps0}`, textAnchor: "start", dx: 8 }),
      ],
    });
    const shownAt = (r) => `${number.format(r.n)} people for eps = ${brief(r.eps)}`;
    const lines = budgets.map((eps0) => {
      const asked = all.filter((r) => r.eps0 === eps0 && [0.1, 0.5, 1, 2].includes(r.eps));
      return `eps0 = ${eps0}: ${asked.length ? asked.sort((a, b) => b.eps - a.eps).map(shownAt).join(", ") : "none of 0.1, 0.5, 1, 2"}.`;
    });
    peopleNote.textContent = `At delta = ${brief(region.privacy.delta)} and k = ${region.k} cells, the fewest people that certify an eps. ${lines.join(" ")}`;
  }

  function update() {
    ownCurve();
    if (details.open) bounds();
  }

  function bounds() {
    crowd();
    const n = story.n;
    const eps0 = Number(budget.value);
    const here = rows.filter((r) => r.n === n && r.eps0 === eps0);
    const wanted = [...shown.querySelectorAll("input:checked")].map((box) => box.value);
    const log10 = asked();
    const least = Math.min(-12, log10 === null ? -12 : log10 - 2);
    const reached = rowsOf(region.privacy.reached).find((r) => r.n === n && r.eps0 === eps0);
    const goal = log10Of(String(region.privacy.delta)); // as what is typed is read: the same where it is the same
    if (reached) here.push({ ...reached, bound: "upper", log10_delta: goal });
    here.sort((a, b) => a.eps - b.eps);
    const of = (name) => here.filter((r) => r.bound === name && r.log10_delta !== null);
    const points = (name) => of(name).map((r) => [r.eps, r.log10_delta]);
    const marks = [Plot.gridY({ ticks: 7, stroke: "currentColor", strokeOpacity: 0.15 })];
    const fine = n === d3.max(region.n);
    if (wanted.includes("upper") && wanted.includes("lower")) {
      const low = new Map(of("lower").map((r) => [r.eps, r.log10_delta]));
      const band = of("upper").filter((r) => low.has(r.eps));
      marks.push(Plot.ruleX(band, { x: "eps", y1: (r) => Math.max(least, low.get(r.eps)), y2: (r) => Math.max(least, r.log10_delta), stroke: "currentColor", strokeOpacity: 0.4, strokeWidth: 3 }));
    }
    for (const name of wanted) {
      const { colour, line, guarantee } = region.privacy.bounds[name];
      const stroke = inked(colour);
      const curve = guarantee ? guaranteeSteps(points(name)) : points(name);
      // A few points prove little between them: elsewhere they stand alone.
      if (fine) marks.push(Plot.line(curve, { x: "0", y: "1", stroke, strokeWidth: name === "upper" ? 2.5 : 1.8, strokeDasharray: DASHES[line], clip: true, curve: guarantee ? "step-after" : "linear" }));
      else marks.push(Plot.dot(points(name), { x: "0", y: "1", fill: stroke, r: 3.5, clip: true }));
    }
    if (log10 !== null) marks.push(Plot.ruleY([log10], { stroke: "currentColor", strokeDasharray: "3 3" }));
    const exact = reached && log10 === goal ? reached.eps : null;
    const eps = exact ?? (log10 === null ? null : readOff(of("upper"), log10));
    if (eps !== null) marks.push(Plot.dot([[eps, log10]], { fill: "currentColor", r: 5 }));
    const visible = here.filter((r) => r.log10_delta !== null && r.log10_delta > least);
    draw(chart, `delta against eps for n = ${n}, k = ${region.k}, eps0 = ${eps0}`, {
      x: { label: "eps", domain: [0, Math.max(d3.max(visible, (r) => r.eps) ?? eps0, eps ?? 0)], nice: false },
      y: { label: "delta, logarithmic", domain: [least, 0], tickFormat: powerOfTen, ticks: 7 },
      marks,
    });
    const command = `shuffledp epsilon --n ${n} --k ${region.k} --eps0 ${eps0} --delta ${target.value.trim()}`;
    readOut(krr, eps === null ? null : { eps, exact: exact !== null }, `n = ${number.format(n)} ${region.plural}, k = ${region.k} cells and eps0 = ${eps0}`, command);
    const below = wanted.flatMap((name) => {
      const largest = d3.max(of(name), (r) => r.log10_delta);
      return largest > least ? [] : `${name} is below the picture: its delta is nowhere above ${powerOfTen(Math.ceil(largest))}. `;
    });
    note.textContent = below.join("") + (fine ? "" : "At this n the run has the marked points only: nothing is drawn between them. ") +
      "Of a guarantee the line is what its points prove: nowhere below the certified delta. Only what is called a guarantee may be promised. What is struck out is the papers' formula as it was printed: it claims more privacy than there is.";
  }

  function show(told) {
    const other = told.region !== region;
    story = told;
    region = told.region;
    if (other) {
      rows = rowsOf(region.privacy.curves);
      fill(budget, unique(rows.map((r) => r.eps0)).map((e) => [e, e]));
      target.value = brief(promised().delta, 6);
      choices();
      details.open = !region.plans.length;
    }
    update();
  }
  return { show, redraw: () => update() };
}
