"use strict";
// Assemble the page. Place, guarantee, mechanism and n are chosen once for all parts. The address
// stores the choices.

const data = JSON.parse(document.getElementById("data").textContent);

/** Mount the controls for the whole page; `changed` receives the choice that all parts show. */
function mountChoice(home, regions, changed) {
  const controls = element("div", { class: "controls" }, element("p", { text: "For the whole page:" }));
  const place = select(controls, "region", "Place", regions.map((r) => [r.title, r.title]), () => choose(true));
  const promise = select(controls, "promise", "Guarantee", [], () => choose());
  const mechanism = select(controls, "mechanism", "Mechanism", [], () => choose());
  const size = select(controls, "n", "Number of records, n", [], () => choose());
  place.parentElement.hidden = regions.length < 2;
  controls.append(element("a", { id: "view-link", href: "#", text: "Link to this view" }));
  home.append(controls);

  function offer(region) {
    fill(promise, unique(region.promises.map((p) => p.promise)).map((p) => [p, p]));
    fill(size, region.n.map((n) => [n, `${number.format(n)} ${region.plural}`]).reverse());
    const names = unique([...region.plans, ...(region.map?.releases ?? [])].map((r) => r.mechanism));
    fill(mechanism, names.map((name) => [name, region.looks[name]?.label ?? name]));
  }

  function choose(newRegion = false) {
    const index = Math.max(0, regions.findIndex((r) => r.title === place.value));
    const region = regions[index];
    if (newRegion) {
      offer(region);
      promise.value = region.start.promise;
      size.value = region.start.n;
      if (region.start.mechanism) mechanism.value = region.start.mechanism;
      else if ([...mechanism.options].some((one) => one.value === "krr")) mechanism.value = "krr";
    }
    changed({ index, region, promise: promise.value, n: Number(size.value), mechanism: mechanism.value });
  }
  return () => choose(true);
}

function isPlan(choice) {
  return (one) => one.n === choice.n && one.promise === choice.promise && one.mechanism === choice.mechanism;
}

/** Show the answer and the table of mechanisms for the choice, and return the table. */
function showAnswer(choice) {
  const { region } = choice;
  const plan = region.plans.find(isPlan(choice));
  const table = region.tables.find((t) => t.n === choice.n && t.promise === choice.promise);
  for (const part of document.querySelectorAll(".place")) {
    part.hidden = part.dataset.region !== String(choice.index);
    if (part.hidden || !table) continue;
    const say = (name, act) => part.querySelectorAll(`[data-says=${name}]`).forEach(act);
    const answer = plan ?? { verdict: `No: ${region.looks[choice.mechanism].label} cannot meet this target.`, label: region.looks[choice.mechanism].label, noise: true };
    for (const name of ["verdict", "label", "accuracy", "trust", "single"]) say(name, (one) => { one.textContent = answer[name] ?? "–"; });
    say("verdict", (one) => one.classList.toggle("noise", answer.noise));
    const isBest = choice.mechanism === table.recommended;
    const best = region.looks[table.recommended]?.label;
    say("chosen", (one) => { one.textContent = isBest ? `Recommended for one map of ${region.title}` : `Chosen for one map of ${region.title}${best ? `, where ${best} is recommended` : ""}`; });
    say("strength", (one) => { one.textContent = table.strength; });
    say("mechanisms", (one) => {
      one.caption.textContent = table.caption;
      one.replaceChildren(one.caption, one.tHead, ...table.groups.map((group) => element("tbody", {},
        element("tr", { class: "group" }, element("th", { scope: "rowgroup", colspan: table.heads.length, text: group.trust })),
        ...group.rows.map(([label, ...cells]) => element("tr", {}, element("th", { scope: "row", text: label }), ...cells.map((text, i) => element("td", { text, "data-head": table.heads[i + 1] })))))));
    });
  }
  return table;
}

/** Store the choices in the address, and restore them from an address. */
function keepAddress() {
  const touched = new Set();
  const controls = () => [...document.querySelectorAll("#story select, main select, main input:is([type=text], #map-zoom)")];
  const valueOf = (one) => (one.type === "checkbox" ? String(one.checked) : one.value);
  let anchor = "";
  const fragment = (kept) => [anchor, new URLSearchParams(controls().filter(kept).map((one) => [one.id, valueOf(one)])).toString()].filter(Boolean).join("&");
  // The link has all visible controls; the address has those that were changed.
  const link = () => document.getElementById("view-link")?.setAttribute("href", `#${fragment((one) => one.checkVisibility())}`);
  const write = () => {
    const chosen = fragment((one) => touched.has(one.id));
    history.replaceState(null, "", chosen ? `#${chosen}` : location.pathname + location.search);
    link();
  };
  const note = (event) => {
    if (!event.target.id || !controls().includes(event.target)) return;
    touched.add(event.target.id);
    write();
  };
  const read = () => {
    const parts = location.hash.slice(1).split("&");
    anchor = parts[0].includes("=") ? "" : parts.shift() ?? "";
    const choices = new URLSearchParams(parts.join("&"));
    for (const one of controls()) {
      if (!choices.has(one.id)) continue;
      const value = choices.get(one.id);
      if (one.tagName === "SELECT" && ![...one.options].some((o) => o.value === value)) continue;
      const folded = one.closest("details");
      if (folded) folded.open = true;
      if (one.type === "checkbox") one.checked = value === "true";
      else one.value = value;
      one.dispatchEvent(new Event(one.type === "text" ? "input" : "change", { bubbles: true }));
    }
    const target = anchor && document.getElementById(anchor);
    if (target && target.tagName === "DETAILS") target.open = true;
    if (target) target.scrollIntoView({ behavior: "instant", block: "start" });
    if (touched.size) write();
    link();
  };
  document.addEventListener("change", note);
  document.addEventListener("input", note);
  document.addEventListener("toggle", link, true);
  // A pointer or key may have chosen another cell since.
  for (const event of ["pointerover", "focus"]) document.getElementById("view-link")?.addEventListener(event, link);
  window.addEventListener("hashchange", read);
  read();
}

function start() {
  if (data.regions.length) {
    const planner = mountPlanner(document.getElementById("planner-body"), data.planner);
    const parts = [
      mountMaps(document.getElementById("maps-body")),
      mountPrivacy(document.getElementById("privacy-body")),
      mountUtility(document.getElementById("utility-body")),
      planner,
    ];
    let table, choice;
    const choose = mountChoice(document.getElementById("story"), data.regions, (chosen) => {
      table = showAnswer(chosen);
      choice = chosen;
      document.getElementById("choices").hidden = !table;
      parts.forEach((part) => part.show(chosen));
    });
    choose();
    downloads(document.getElementById("choices-downloads"), () => `mechanisms ${choice.region.title}`, () => [[...table.heads, "Trust"], ...table.groups.flatMap((group) => group.rows.map((row) => [...row, group.trust]))]);
    const redraw = () => parts.forEach((part) => part.redraw());
    let width = window.innerWidth;
    window.addEventListener("resize", () => {
      if (window.innerWidth !== width) { width = window.innerWidth; redraw(); }
    });
    matchMedia("screen and (prefers-color-scheme: dark)").addEventListener("change", redraw);
  }
  if (data.reproduction) mountReproduction(document.getElementById("reproduction-body"), data.reproduction);
  keepAddress();
}

start();
