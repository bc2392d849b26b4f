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
  if (value === 0) return "0";
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

/** What the command reads as a number (`shuffledp.cli.words`): Number would also take 0x64 and 0b1. */
const NUMBER = /^[ \t]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,5})?[ \t]*$/i;

/** Decimal logarithm of what was typed, also of 1e-400, which no float holds; NaN if it is no number in (0, 1). */
function log10Of(text) {
  if (!NUMBER.test(text) || text.includes("-") && text.trim().startsWith("-")) return NaN;
  const [mantissa, exponent = "0"] = text.trim().toLowerCase().replace("+", "").split("e");
  const [whole, part = ""] = mantissa.split(".");
  const digits = (whole + part).replace(/^0+/, "");
  if (!digits) return NaN;
  const zeros = (whole + part).length - digits.length;
  const log10 = Math.log10(Number(`0.${digits.slice(0, 17)}`)) + whole.length - zeros + Number(exponent);
  return log10 < 0 ? log10 : NaN;
}

const STEPS = 12; // between two points of a guarantee

/** Points of a guarantee and, between them, what they prove: `shuffledp.figures.bounds.guarantee_steps`.
 *
 * `points` are [eps, log10 delta], eps increasing, null for a delta of 0. To be drawn as steps to the right.
 */
function guaranteeSteps(points) {
  const made = [];
  const at = points.map(([, log10], i) => Math.max(log10 ?? -Infinity, points[i + 1]?.[1] ?? -Infinity));
  points.forEach(([eps], i) => {
    const [left, next] = [at[i], points[i + 1]];
    if (!next || left === -Infinity) {
      made.push([eps, left]);
      return;
    }
    const ratio = 10 ** (Math.min(left, at[i + 1]) - left);
    for (let j = 0; j < STEPS; j++) {
      const x = eps + (j / STEPS) * (next[0] - eps);
      const way = Math.expm1(x - eps) / Math.expm1(next[0] - eps);
      made.push([x, left + Math.log10(1 - way + way * ratio)]);
    }
  });
  return made.filter(([, log10]) => log10 > -Infinity);
}

/** Whether light is drawn on black. */
function isDark() {
  return matchMedia("screen and (prefers-color-scheme: dark)").matches;
}

function save(name, type, text) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function csv(rows) {
  const quoted = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
  return rows.map((row) => row.map(quoted).join(",") + "\n").join("");
}

const LINE = 20; // pixels, of the words under a picture

/** Words of at most so many pixels a line. */
function wrapped(context, text, room) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (context.measureText(longer).width <= room) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** Saves a drawing as it looks now, twice as fine, with lines of words under it. */
function saveImage(name, svg, words) {
  const { width, height } = svg.getBoundingClientRect();
  const copy = svg.cloneNode(true);
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const style = svgElement("style", {});
  style.textContent = document.querySelector("style").textContent + "svg text { font-family: sans-serif; }";
  copy.prepend(style);
  const image = new Image();
  image.onload = () => {
    const canvas = element("canvas", { width: 2 * width });
    const context = canvas.getContext("2d");
    const font = "13px sans-serif";
    context.font = font;
    const lines = words.filter(Boolean).flatMap((text) => wrapped(context, text, width - 20));
    canvas.height = 2 * (height + LINE * (lines.length + 0.5));
    context.scale(2, 2);
    const { backgroundColor, color } = getComputedStyle(document.body);
    context.fillStyle = backgroundColor;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0, width, height);
    context.fillStyle = color;
    context.font = font;
    lines.forEach((text, i) => context.fillText(text, 10, height + LINE * (i + 0.9)));
    canvas.toBlob((blob) => save(name, "image/png", blob));
  };
  image.src = "data:image/svg+xml," + encodeURIComponent(new XMLSerializer().serializeToString(copy));
}

/** Buttons that save `table()`, rows with a head, and `drawing()`, an svg and lines of words; `name()` begins the files' names. */
function downloads(home, name, table, drawing) {
  const row = element("div", { class: "downloads" });
  const button = (text, act) => {
    const made = element("button", { type: "button", text });
    made.addEventListener("click", act);
    row.append(made);
  };
  button("Save as CSV", () => save(`${name()}.csv`, "text/csv", csv(table())));
  if (drawing) button("Save as PNG", () => saveImage(`${name()}.png`, ...drawing()));
  home.append(row);
}

const SVG = "http://www.w3.org/2000/svg";

function svgElement(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
