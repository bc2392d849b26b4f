"use strict";
// Two maps side by side on one colour scale, the truth and a release, with the values of one cell.

// The first one is the default: with little noise, truth and estimate look the same.
const VIEWS = [
  ["error", "Error of the private map (estimate minus truth)"],
  ["estimate", "The private map"],
  ["known", "Cells that the private map shows to be occupied (above two standard errors)"],
];

/** Return where an error is on the scale from 0 to 1. The square root makes small errors visible. */
function errorAt(share) {
  return 0.5 + Math.sign(share) * Math.sqrt(Math.abs(share)) / 2;
}

/** Return the colour of an error, for t from 0 to 1: purple for too few, orange for too many. It is safe for the colour-blind. */
function errorColour(t) {
  return isDark() ? d3.piecewise(d3.interpolateLab, ["#cdb4ff", "#6f55a8", "#23262b", "#96591b", "#ffbf73"])(t) : d3.interpolatePuOr(t);
}

function mountMaps(home) {
  let choice, region, project, shapes, chosen = 0, top;
  const controls = element("div", { class: "controls" });
  const view = select(controls, "map-view", "Map on the right", VIEWS, () => update());
  const names = element("datalist", { id: "map-cells" });
  const cell = element("input", { id: "map-cell", type: "text", list: names.id, autocomplete: "off" });
  controls.append(element("div", {}, element("label", { for: cell.id, text: "Cell (name or number)" }), cell, names));
  cell.addEventListener("focus", () => {
    if (!names.children.length) names.append(...region.map.name.map((_, i) => element("option", { value: nameOf(i) })));
  });
  for (const event of ["input", "change"]) cell.addEventListener(event, () => {
    const typed = cell.value.trim().toLowerCase();
    const [first, ...others] = d3.range(region.map.name.length).filter((i) => [String(i), nameOf(i).toLowerCase()].includes(typed));
    const isOne = first !== undefined && !others.length;
    cell.setAttribute("aria-invalid", String(!isOne));
    if (isOne && first !== chosen) choose(first, null, true);
  });
  const period = select(controls, "map-window", "Window of time", [], () => update());
  const zoom = zoomBox(controls, () => redraw());
  const noise = element("p", { class: "noise", id: "map-noise", hidden: "" });
  const readout = element("p", { class: "readout", id: "map-readout", "aria-live": "polite" });
  const left = element("figure", {}, element("figcaption", { id: "truth-title" }));
  const right = element("figure", {}, element("figcaption", { id: "map-title" }));
  const legend = element("div", { class: "legend" });
  const attribution = element("p", { class: "note" });
  const noMap = element("p", { class: "note", hidden: "" });
  const body = element("div", {}, noise, element("div", { class: "panels" }, left, right), controls, legend, readout);
  home.append(noMap, body);
  downloads(body, () => `map ${region.title} ${choice.mechanism} ${choice.promise} n ${choice.n}`.replaceAll(" ", "-"), table, () => [panels[1].svg, captions()]);
  body.append(attribution);
  let panels = [];

  /** Return the released map as a table, without the true counts. */
  function table() {
    const shown = release();
    return [["cell", "id", "name", "district", "estimate", "standard_error"],
      ...shown.estimate.map((value, i) => [i, region.map.id[i], region.map.name[i], region.map.district[i], value, shown.error[i]])];
  }

  /** Return the caption of a saved map, which includes the attribution of the base map. */
  function captions() {
    const ends = [...legend.querySelectorAll(".ticks span")].map((one) => one.textContent).filter(Boolean);
    const scale = view.value === "error" ? "purple: too few, orange: too many" : `from ${ends[0]} (${isDark() ? "dark" : "light"}) to ${number.format(top)} (${isDark() ? "light" : "dark"}), logarithmic`;
    return [`${region.title}, ${number.format(choice.n)} ${region.plural}. ${document.getElementById("map-title").textContent}. A simulated release.`,
      `${region.plural} per cell: ${scale}. ${[...legend.querySelectorAll(".keys li")].map((one) => one.textContent).join(" ")}`, attribution.textContent];
  }

  /** Return the width of a map in pixels, zoomed until a finger can hit a single cell if the box is ticked. */
  function wide(frame) {
    const room = frame.clientWidth || 500;
    return zoom.checked ? Math.max(ZOOM * room, shapes.finger) : room;
  }

  const next = (toEast, toNorth) => neighbourOf(shapes.boxes, chosen, toEast, toNorth);

  /** Return the name of a cell, and the district around it unless that has the same name. */
  function nameOf(i) {
    const { name, district } = region.map;
    return [name[i], district[i] === name[i] ? "" : district[i]].filter(Boolean).join(", ");
  }

  function panel(figure, id, label) {
    const map = cellMap(figure, id, label, { ...region.map, project, outlines: shapes.outlines }, { choose, chosen: () => chosen, next, wide });
    // Both maps scroll together.
    map.frame.addEventListener("scroll", () => {
      for (const { frame } of panels) {
        if (frame !== map.frame && Math.abs(frame.scrollLeft - map.frame.scrollLeft) + Math.abs(frame.scrollTop - map.frame.scrollTop) > 1)
          frame.scrollTo(map.frame.scrollLeft, map.frame.scrollTop);
      }
    });
    // The address stores a cell that was clicked, but not every cell under the pointer.
    map.cells.addEventListener("click", () => cell.dispatchEvent(new Event("change", { bubbles: true })));
    return map;
  }

  /** Return the name of the chosen window of time for a title, empty if there is only one. */
  function windowed() {
    return region.map.windows.length > 1 ? ` in all windows; shown: ${period.value}` : "";
  }

  /** Return the values of the cells in the chosen window of time. */
  function ofWindow(values) {
    const k = region.map.name.length;
    const first = k * (period.selectedIndex < 0 ? 0 : period.selectedIndex);
    return values.slice(first, first + k);
  }

  /** Return the chosen release, with its values and the truth in the chosen window, if there is one. */
  function release() {
    const found = region.map.releases.find(isPlan(choice));
    return found && { ...found, estimate: ofWindow(found.estimate), error: ofWindow(found.error), truth: ofWindow(region.map.truth[found.n]) };
  }

  /** Return a sentence with the values of a cell. */
  function describe(i) {
    const shown = release();
    const estimate = shown.estimate[i];
    const halfWidth = 2 * shown.error[i];
    const known = estimate > halfWidth ? "" : " The cell may be empty.";
    return `Cell ${i} (${nameOf(i)}): truth ${number.format(shown.truth[i])}, estimate ${number.format(estimate)} ± ${number.format(halfWidth)} (two standard errors: about 95 % of such intervals contain the truth), from ${number.format(Math.max(0, estimate - halfWidth))} to ${number.format(Math.max(0, estimate + halfWidth))}.${known}`;
  }

  /** Return the lines of a cell's tooltip. */
  function tipLines(i) {
    const shown = release();
    return [nameOf(i), `${number.format(shown.estimate[i])} ± ${number.format(2 * shown.error[i])}`, `truth ${number.format(shown.truth[i])}`];
  }

  /** Choose a cell, and show its tooltip on one map. While somebody is typing, do not change the field. */
  function choose(i, at = null, typing = false) {
    for (const one of panels) {
      mark(one, chosen, i);
      if (one === at) showTip(one, i, tipLines(i));
      else one.tip.hidden = true;
    }
    chosen = i;
    if (!typing) {
      cell.value = i;
      cell.setAttribute("aria-invalid", "false");
    }
    readout.textContent = describe(i);
  }

  function update() {
    const shown = release();
    if (!shown) return;
    const { truth } = shown;
    top = roundTop(Math.max(10, d3.max(truth), d3.max(shown.estimate)));
    const scale = d3.scaleLog([1, top], [0, 1]).clamp(true);
    const colour = (value) => countColour(scale(value));
    const largestError = d3.max(shown.estimate, (e, i) => Math.abs(e - truth[i])) || 1;
    const unit = region.plural;
    const [one, two] = panels;
    const scaled = (value, hatch) => (value > 0 ? colour(value) : hatch);
    const paint = (panel, i, fill) => {
      const cell = panel.cells.children[i];
      cell.setAttribute("fill", fill);
      cell.setAttribute("pointer-events", "all");
      cell.setAttribute("aria-label", describe(i));
    };
    truth.forEach((value, i) => paint(one, i, scaled(value, one.hatch)));
    shown.estimate.forEach((value, i) => {
      const fill = {
        estimate: () => scaled(value, two.hatch),
        error: () => errorColour(errorAt((value - truth[i]) / largestError)),
        known: () => (value > 2 * shown.error[i] ? colour(value) : two.hatch),
      }[view.value]();
      paint(two, i, fill);
    });
    const keys = element("ul", { class: "keys" });
    legend.replaceChildren(element("div", { text: `${unit} per cell, ${view.value === "error" ? "the truth" : "on both maps"}; logarithmic scale` }), ...ramp(countColour, decadeTicks(scale, top)));
    if (view.value === "error") {
      legend.append(element("div", { text: `error (${unit}): purple for too few, orange for too many; square-root scale` }), ...ramp(errorColour, [-1, -0.25, 0, 0.25, 1].map((share) => [errorAt(share), number.format(share * largestError).replace("-", "−")])));
      keys.append(key(one.hatch, `on the left: no ${region.plural.replace(/s$/, "")}`));
    } else {
      const why = view.value === "known" ? "not known (estimate below two standard errors; the cell need not be empty)" : "estimated as 0 or below (the cell need not be empty)";
      keys.append(key(two.hatch, `on the left: no ${region.plural.replace(/s$/, "")}; on the right: ${why}`));
    }
    legend.append(keys);
    document.getElementById("truth-title").textContent = `The truth: ${region.title}, ${number.format(shown.n)} ${unit}${windowed()}`;
    document.getElementById("map-title").textContent = `${VIEWS.find(([v]) => v === view.value)[1]}: ${shown.label}, eps = ${roundedUp(shown.eps)}${windowed()}`;
    const plan = region.plans.find(isPlan(choice));
    noise.hidden = !plan?.noise;
    noise.textContent = plan?.noise ? "This map is mostly noise: the typical error per cell exceeds the average count of a cell." : "";
    document.getElementById("map-shown").textContent = plan?.shown ?? "";
    choose(chosen);
  }

  function redraw() {
    if (!region.map || !release()) return;
    panels = [];
    panels = [panel(left, "map-left", "Cells of the true map"), panel(right, "map-right", "Cells of the released map")];
    update();
    if (!zoom.checked) return;
    const { cells, frame } = panels[0];
    const [box, around] = [cells.children[chosen].getBoundingClientRect(), frame.getBoundingClientRect()];
    for (const each of panels) each.frame.scrollTo(box.left - around.left - around.width / 2, box.top - around.top - around.height / 2);
  }

  function show(newChoice) {
    const regionChanged = newChoice.region !== region;
    choice = newChoice;
    region = choice.region;
    const available = region.map && release();
    const wasVisible = !body.hidden;
    noMap.hidden = Boolean(available);
    body.hidden = !available;
    if (!available) {
      noMap.textContent = region.map
        ? "There is no map for this choice: the mechanism cannot meet the target, or the page has no room for this n."
        : "There is no map here because the grid has too many cells for one page. The figures of the run include maps.";
      return;
    }
    if (regionChanged || !panels.length) {
      project = projection(region.map.cells.flat());
      shapes = shapesOf(region.map.cells, project);
      fill(period, region.map.windows.map((name) => [name, name]));
      period.parentElement.hidden = region.map.windows.length < 2;
      chosen = d3.maxIndex(release().truth);
      names.replaceChildren();
      attribution.textContent = region.map.attribution ? `Base map: ${region.map.attribution}` : "";
    }
    if (regionChanged || !panels.length || !wasVisible) redraw();
    else update();
  }
  legend.after(element("p", { id: "map-shown" }));
  return { show, redraw };
}
