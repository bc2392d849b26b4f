"use strict";
// The papers' numbers, to filter by paper and verdict.

function mountReproduction(home, reproduction) {
  const controls = element("div", { class: "controls" });
  const any = (words) => [["", words]];
  const papers = unique(reproduction.rows.map((r) => r.paper));
  const paper = select(controls, "values-paper", "Paper", [...any("all"), ...papers.map((p) => [p, p])], update);
  const verdict = select(controls, "values-verdict", "Verdict", [...any("all"), ...reproduction.verdicts.map((v) => [v, v])], update);
  const count = element("p", { id: "values-count", "aria-live": "polite" });
  const body = element("tbody", {});
  const heads = ["Paper, table", "Quantity", "Where", "Printed", "By the printed formula", "Right, or certified", "Verdict", "Why"];
  const table = element("table", {}, element("caption", { text: "Printed numbers beside recomputed ones" }),
    element("thead", {}, element("tr", {}, ...heads.map((text, i) => element("th", { scope: "col", class: i > 2 && i < 6 ? "number" : null, text })))), body);
  home.append(controls, count, element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of the papers' numbers" }, table));

  function where(row) {
    const named = ["bound", "mechanism", "region"].map((name) => row[name]).filter((v) => v !== null);
    const given = ["n", "k", "eps0", "eps", "delta"].filter((name) => row[name] !== null).map((name) => `${name} = ${brief(row[name], 6)}`);
    return [...named, ...given].join(", ");
  }

  /** As many digits as the paper prints, and three at least: 123,094 is no 123,000. */
  function digits(row) {
    return Math.max(3, brief(row.published, 6).replace(/e.*|\D/g, "").replace(/^0+/, "").length);
  }

  function right(row) {
    if (row.lower !== null && row.upper !== null) return [`${brief(row.lower)} to`, element("br"), brief(row.upper)];
    return [brief(row.correct, digits(row))];
  }

  function line(row) {
    const why = element("td", {});
    row.errata.forEach((name) => why.append(element("a", { href: `#errata-${name}`, text: name }), " "));
    if (row.note) why.append(row.note);
    return element("tr", {}, element("th", { scope: "row", text: [row.paper, row.table].filter((v) => v !== null).join(", ") }),
      ...[row.quantity, where(row)].map((text) => element("td", { text })),
      ...[[brief(row.published, 6)], [brief(row.as_printed, digits(row))], right(row)].map((parts) => element("td", { class: "number" }, ...parts)),
      element("td", { text: row.verdict }), why);
  }

  function update() {
    const rows = reproduction.rows.filter((r) => (!paper.value || r.paper === paper.value) && (!verdict.value || r.verdict === verdict.value));
    body.replaceChildren(...rows.map(line));
    count.textContent = `${rows.length} of ${reproduction.rows.length} numbers`;
  }
  update();
}
