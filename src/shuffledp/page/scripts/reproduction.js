"use strict";
// A table of the papers' numbers that can be filtered by paper and verdict.

function mountReproduction(home, reproduction) {
  const controls = element("div", { class: "controls" });
  const papers = unique(reproduction.rows.map((r) => r.paper));
  const paper = select(controls, "values-paper", "Paper", [["", "all"], ...papers.map((p) => [p, p])], update);
  const verdict = select(controls, "values-verdict", "Verdict", [["", "all"], ...reproduction.verdicts.map((v) => [v, v])], update);
  const count = element("p", { id: "values-count", "aria-live": "polite" });
  const body = element("tbody", {});
  const heads = ["Paper, table", "Quantity", "Setting", "Printed", "By the printed formula", "Correct or certified", "Verdict", "Reason"];
  const table = element("table", {}, element("caption", { text: "Printed and recomputed numbers" }),
    element("thead", {}, element("tr", {}, ...heads.map((text, i) => element("th", { scope: "col", class: i > 2 && i < 6 ? "number" : null, text })))), body);
  home.append(controls, count, element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table of the papers' numbers" }, table));

  /** Return the setting of a number in words. */
  function setting(row) {
    const named = ["bound", "mechanism", "region"].map((name) => row[name]).filter((v) => v !== null);
    const values = ["n", "k", "eps0", "eps", "delta"].filter((name) => row[name] !== null).map((name) => `${name} = ${brief(row[name], 6)}`);
    return [...named, ...values].join(", ");
  }

  /** Return the number of digits that the paper prints, but at least three. */
  function digits(row) {
    return Math.max(3, brief(row.published, 6).replace(/e.*|\D/g, "").replace(/^0+/, "").length);
  }

  /** Return the certified interval or, without one, the correct number. */
  function correct(row) {
    if (row.lower !== null && row.upper !== null) return [`${brief(row.lower)} to`, element("br"), brief(row.upper)];
    return [brief(row.correct, digits(row))];
  }

  function line(row) {
    const why = element("td", {});
    row.errata.forEach((name) => why.append(element("a", { href: `#errata-${name}`, text: name }), " "));
    if (row.note) why.append(row.note);
    return element("tr", {}, element("th", { scope: "row", text: [row.paper, row.table].filter((v) => v !== null).join(", ") }),
      ...[row.quantity, setting(row)].map((text) => element("td", { text })),
      ...[[brief(row.published, 6)], [brief(row.as_printed, digits(row))], correct(row)].map((parts) => element("td", { class: "number" }, ...parts)),
      element("td", { text: row.verdict }), why);
  }

  function update() {
    const rows = reproduction.rows.filter((r) => (!paper.value || r.paper === paper.value) && (!verdict.value || r.verdict === verdict.value));
    body.replaceChildren(...rows.map(line));
    count.textContent = `${rows.length} of ${reproduction.rows.length} numbers`;
  }
  update();
}
