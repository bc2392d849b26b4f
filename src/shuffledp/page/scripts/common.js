"use strict";
// Elements, controls, number formats, charts and downloads for all parts of the page.

// "negative" omits the sign of a number that rounds to 0.
const number = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1, signDisplay: "negative" });

/** Create an element with attributes and children; attribute `text` is its text. */
function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") node.textContent = value;
    else if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

/** Append a labelled select to `home` and return the select; `options` are [value, label] pairs. */
function select(home, id, label, options, changed) {
  const control = element("select", { id });
  fill(control, options);
  control.addEventListener("change", changed);
  home.append(element("div", {}, element("label", { for: id, text: label }), control));
  return control;
}

/** Replace the options of a select, and keep the chosen one if it is still offered. */
function fill(control, options) {
  const before = control.value;
  control.replaceChildren(...options.map(([value, label]) => element("option", { value, text: label })));
  if (options.some(([value]) => String(value) === before)) control.value = before;
}

/** Return a table that is stored as columns as rows. */
function rowsOf(columns) {
  const names = Object.keys(columns);
  return columns[names[0]].map((_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])));
}

function unique(values) {
  return [...new Set(values)];
}

/** Format a number with at most `digits` digits, as "1.2e-3" below 0.001 or from 1e7. */
function brief(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e7)) return value.toExponential(digits - 1).replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(digits)));
}

/** Format an eps with three digits, rounded up so that it never overstates privacy. */
function roundedUp(value) {
  if (value === 0) return "0";
  const step = 10 ** (Math.floor(Math.log10(value)) - 2);
  let rounded = Number((Math.ceil(value / step) * step).toPrecision(3));
  if (rounded < value) rounded = Number((rounded + step).toPrecision(3));
  return String(rounded);
}

/** Format a tick label from log10 of delta: 10⁻⁶. */
function powerOfTen(exponent) {
  const raised = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹", ".": "·" };
  return exponent === 0 ? "1" : "10" + [...String(exponent)].map((c) => raised[c] ?? c).join("");
}

/** Draw a Plot chart into a container at its current width. */
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
  // The chart is one image with one name; its marks have no role and therefore must not have names.
  chart.setAttribute("role", "img");
  for (const mark of chart.querySelectorAll("[aria-label]")) {
    mark.dataset.mark = mark.getAttribute("aria-label");
    mark.removeAttribute("aria-label");
  }
  container.replaceChildren(chart);
  return chart;
}

/** Label only 1, 10, 100, ... on a logarithmic axis of counts. */
function decades(value) {
  return /^10*$/.test(String(value)) ? number.format(value) : "";
}

const DASHES = { "-": null, "--": "7 4", "-.": "8 3 2 3", ":": "2 3" };

/** Replace black by the colour of the text, which is visible in dark mode, too. */
function inked(colour) {
  return colour === "#000000" ? "var(--ink)" : colour;
}

/** The numbers that the command line accepts. The function Number would also accept 0x64 and 0b1. */
const NUMBER = /^[ \t]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]{1,5})?[ \t]*$/i;

/** Return the decimal logarithm of a text with a number in (0, 1), even of 1e-400, which no float represents; else NaN. */
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

const STEPS = 12; // per interval between two points of a guarantee

/** Return an upper bound between the points of a guarantee, for a line that steps to the right.
 *
 * Counterpart of `shuffledp.figures.bounds.guarantee_steps`. `points` are [eps, log10 delta] with
 * increasing eps; the logarithm is null where delta is 0.
 */
function guaranteeSteps(points) {
  const steps = [];
  const bounds = points.map(([, log10], i) => Math.max(log10 ?? -Infinity, points[i + 1]?.[1] ?? -Infinity));
  points.forEach(([eps], i) => {
    const [left, next] = [bounds[i], points[i + 1]];
    if (!next || left === -Infinity) {
      steps.push([eps, left]);
      return;
    }
    const ratio = 10 ** (Math.min(left, bounds[i + 1]) - left);
    for (let j = 0; j < STEPS; j++) {
      const x = eps + (j / STEPS) * (next[0] - eps);
      const weight = Math.expm1(x - eps) / Math.expm1(next[0] - eps);
      steps.push([x, left + Math.log10(1 - weight + weight * ratio)]);
    }
  });
  return steps.filter(([, log10]) => log10 > -Infinity);
}

/** Return whether the page is in dark mode. */
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

const LINE = 20; // height in pixels of a line in the caption of a saved image

/** Wrap a text into lines of at most `room` pixels. */
function wrapped(context, text, room) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (context.measureText(longer).width <= room) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** Save a drawing as it appears, at twice its resolution, above a caption of several paragraphs. */
function saveImage(name, svg, caption) {
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
    const lines = caption.filter(Boolean).flatMap((text) => wrapped(context, text, width - 20));
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

/** Append buttons that save `table()`, rows with a header, as CSV and `drawing()`, [svg, caption], as PNG. `name()` names the files. */
function downloads(home, name, table, drawing) {
  const row = element("div", { class: "downloads" });
  const button = (text, act) => {
    const control = element("button", { type: "button", text });
    control.addEventListener("click", act);
    row.append(control);
  };
  button("Save as CSV", () => save(`${name()}.csv`, "text/csv", csv(table())));
  if (drawing) button("Save as PNG", () => saveImage(`${name()}.png`, ...drawing()));
  home.append(row);
}

const SVG = "http://www.w3.org/2000/svg";

function svgElement(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}
