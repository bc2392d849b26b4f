"use strict";
// Delta against eps: the certified band, and what else is asked for.

function mountPrivacy(home, regions) {
  let region, rows;
  const controls = element("div", { class: "controls" });
  const size = select(controls, "privacy-n", "Records, n", [], () => update());
  const budget = select(controls, "privacy-eps0", "Budget of a report, eps0", [], () => update());
  const target = element("input", { id: "privacy-delta", type: "text", inputmode: "decimal", size: "8", autocomplete: "off" });
  controls.append(element("div", {}, element("label", { for: "privacy-delta", text: "Read eps off at delta" }), target));
  target.addEventListener("input", () => update());
  const chart = element("div", { class: "chart", id: "privacy-chart" });
  const shown = element("fieldset", {}, element("legend", { text: "Bounds" }));
  const answer = element("p", { class: "readout", id: "privacy-answer", "aria-live": "polite" });
  const note = element("p", { class: "note" });
  const people = element("div", { class: "chart", id: "people-chart" });
  const peopleNote = element("p", { class: "note", id: "people-note" });
  home.append(controls, answer, chart, element("div", { class: "controls" }, shown), note,
    element("h3", { text: "How many people do I need?" }), people, peopleNote);

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

  /** Certified eps against n, a line for each eps0. */
  function crowd() {
    const all = rowsOf(region.privacy.sizes).filter((r) => r.bound === "upper").sort((a, b) => a.n - b.n);
    const budgets = unique(all.map((r) => r.eps0));
    const symbols = ["circle", "square", "triangle", "diamond", "star", "wye"];
    const at = (r) => symbols[budgets.indexOf(r.eps0) % symbols.length];
    const ends = budgets.map((eps0) => all.filter((r) => r.eps0 === eps0).at(-1));
    draw(people, `certified eps against the number of people at delta = ${region.privacy.delta}`, {
      marginRight: 70,
      x: { label: "people, n (one report each)", type: "log", tickFormat: decades },
      y: { label: "certified central budget eps", type: "log", tickFormat: (v) => brief(v, 2), ticks: 6 },
      symbol: { range: symbols },
      marks: [
        Plot.gridY({ stroke: "currentColor", strokeOpacity: 0.15 }),
        Plot.lineY(all, { x: "n", y: "eps", z: "eps0", stroke: "currentColor", strokeWidth: 1.6 }),
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
    crowd();
    const n = Number(size.value);
    const eps0 = Number(budget.value);
    const here = rows.filter((r) => r.n === n && r.eps0 === eps0);
    const wanted = [...shown.querySelectorAll("input:checked")].map((box) => box.value);
    const delta = Number(target.value);
    const right = delta > 0 && delta < 1;
    target.setAttribute("aria-invalid", String(!right));
    const log10 = right ? Math.log10(delta) : null;
    const least = Math.min(-12, right ? log10 - 2 : -12);
    const reached = rowsOf(region.privacy.reached).find((r) => r.n === n && r.eps0 === eps0);
    const goal = Math.log10(region.privacy.delta);
    if (reached) here.push({ ...reached, bound: "upper", log10_delta: goal });
    here.sort((a, b) => a.eps - b.eps);
    const of = (name) => here.filter((r) => r.bound === name && r.log10_delta !== null);
    const marks = [Plot.gridY({ stroke: "currentColor", strokeOpacity: 0.15 })];
    const fine = n === d3.max(region.n);
    if (wanted.includes("upper") && wanted.includes("lower")) {
      const low = new Map(of("lower").map((r) => [r.eps, r.log10_delta]));
      const band = of("upper").filter((r) => low.has(r.eps));
      marks.push(Plot.areaY(band, { x: "eps", y1: (r) => Math.max(least, low.get(r.eps)), y2: (r) => Math.max(least, r.log10_delta), fill: "currentColor", fillOpacity: 0.15 }));
    }
    for (const name of wanted) {
      const { colour, line } = region.privacy.bounds[name];
      const stroke = inked(colour);
      const curve = of(name);
      marks.push(Plot.line(curve, { x: "eps", y: "log10_delta", stroke, strokeWidth: name === "upper" ? 2.5 : 1.8, strokeDasharray: DASHES[line], clip: true }));
      if (!fine) marks.push(Plot.dot(curve, { x: "eps", y: "log10_delta", fill: stroke, r: 3, clip: true }));
    }
    if (right) marks.push(Plot.ruleY([log10], { stroke: "currentColor", strokeDasharray: "3 3" }));
    const guarantee = readOff(of("upper"), right ? log10 : 0);
    const exact = reached && right && Math.abs(log10 - goal) < 1e-9 ? reached.eps : null;
    const eps = exact ?? guarantee;
    if (right && eps !== null) marks.push(Plot.dot([[eps, log10]], { fill: "currentColor", r: 5 }));
    const visible = here.filter((r) => r.log10_delta !== null && r.log10_delta > least);
    draw(chart, `delta against eps for n = ${n}, k = ${region.k}, eps0 = ${eps0}`, {
      x: { label: "central budget eps", domain: [0, Math.max(d3.max(visible, (r) => r.eps) ?? eps0, eps ?? 0)], nice: false },
      y: { label: "delta", domain: [least, 0], tickFormat: powerOfTen, ticks: 7 },
      marks,
    });
    if (!right) answer.textContent = "delta must be a number between 0 and 1, such as 1e-6.";
    else {
      // As it was typed: in fewer digits it could claim a smaller delta.
      const typed = target.value.trim();
      const command = `shuffledp epsilon --n ${n} --k ${region.k} --eps0 ${eps0} --delta ${typed}`;
      if (eps === null) answer.textContent = `No eps of this table has a certified delta of ${typed}: ask ${command}`;
      else answer.textContent = `Certified: eps = ${roundedUp(eps)} at delta = ${typed}, for n = ${number.format(n)} ${region.plural}, k = ${region.k} cells and eps0 = ${eps0}. ${exact !== null ? "" : `It is the next larger eps of the table; the exact one: ${command}`}`;
    }
    const below = wanted.flatMap((name) => {
      const largest = d3.max(of(name), (r) => r.log10_delta);
      return largest > least ? [] : `${name} is below the picture: its delta is nowhere above ${powerOfTen(Math.ceil(largest))}. `;
    });
    note.textContent = below.join("") + (fine ? "" : "At this n the run has the marked points only; lines join them. ") +
      "Only what is called a guarantee may be promised. What is struck out is the papers' formula as it was printed: it claims more privacy than there is.";
  }

  function show(index) {
    region = regions[index];
    rows = rowsOf(region.privacy.curves);
    const sizes = unique(rows.map((r) => r.n)).sort((a, b) => b - a);
    fill(size, sizes.map((n) => [n, number.format(n)]));
    size.value = sizes[0];
    fill(budget, unique(rows.map((r) => r.eps0)).map((e) => [e, e]));
    target.value = brief(region.privacy.delta, 6);
    choices();
    update();
  }
  return { show, redraw: () => update() };
}
