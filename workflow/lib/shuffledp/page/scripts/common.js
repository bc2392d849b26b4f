"use strict";
// What all parts share: elements, controls, numbers in words, and charts of one look.

// What rounds to 0 has no sign.
const number = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1, signDisplay: "negative" });

/** An element with attributes and children; attribute `text` is its text. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") made.textContent = value;
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

/** A labelled select; `options` are [value, words] pairs. Returns the select; its parent is appended to `home`. */
function select(home, id, label, options, changed) {
  const made = element("select", { id });
  fill(made, options);
  made.addEventListener("change", changed);
  home.append(element("div", {}, element("label", { for: id, text: label }), made));
  return made;
}

/** Gives a select other options; what was chosen stays, if it is still there. */
function fill(made, options) {
  const before = made.value;
  made.replaceChildren(...options.map(([value, words]) => element("option", { value, text: words })));
  if (options.some(([value]) => String(value) === before)) made.value = before;
}

/** Rows of a table that came as columns. */
function rowsOf(columns) {
  const names = Object.keys(columns);
  return columns[names[0]].map((_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])));
}

function unique(values) {
  return [...new Set(values)];
}

/** 0.00123 as "1.2e-3" where short, in at most `digits` digits. */
function brief(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e7)) return value.toExponential(digits - 1).replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(digits)));
}

/** Rounded up in three digits: an eps that says no more privacy than there is. */
function roundedUp(value) {
  const step = 10 ** (Math.floor(Math.log10(value)) - 2);
  let words = Number((Math.ceil(value / step) * step).toPrecision(3));
  if (words < value) words = Number((words + step).toPrecision(3));
  return String(words);
}

/** log10 of delta as a tick: 10⁻⁶. */
function powerOfTen(exponent) {
  const raised = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹", ".": "·" };
  return exponent === 0 ? "1" : "10" + [...String(exponent)].map((c) => raised[c] ?? c).join("");
}

/** Draws a Plot chart into a container at its present width. */
function draw(container, label, options) {
  const width = Math.max(280, Math.min(container.clientWidth || 640, 860));
  const chart = Plot.plot({
    width,
    height: Math.round(Math.min(420, 200 + 0.25 * width)),
    marginLeft: 58,
    marginBottom: 42,
    style: { fontSize: "13px", fontFamily: "inherit", background: "transparent" },
    ariaLabel: label,
    ...options,
  });
  // One picture with one name: what Plot names within it has no role, so no name is allowed there.
  chart.setAttribute("role", "img");
  for (const mark of chart.querySelectorAll("[aria-label]")) {
    mark.dataset.mark = mark.getAttribute("aria-label");
    mark.removeAttribute("aria-label");
  }
  container.replaceChildren(chart);
  return chart;
}

/** Ticks of a logarithmic axis of counts: 1, 10, 100, ... alone. */
function decades(value) {
  return /^10*$/.test(String(value)) ? number.format(value) : "";
}

const DASHES = { "-": null, "--": "7 4", "-.": "8 3 2 3", ":": "2 3" };

/** Colours that are black on paper follow the ink, so that they show in the dark. */
function inked(colour) {
  return colour === "#000000" ? "var(--ink)" : colour;
}
