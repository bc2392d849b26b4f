"use strict";
// Puts the parts together. Place, promise, mechanism and n are chosen once for all of them, and the
// address keeps whatever was chosen.

const data = JSON.parse(document.getElementById("data").textContent);

/** The controls at the top; `changed` is told what is chosen. */
function mountStory(home, regions, changed) {
  const controls = element("div", { class: "controls" }, element("p", { text: "Choose for all:" }));
  const place = select(controls, "region", "Place", regions.map((r) => [r.title, r.title]), () => choose(true));
  const promise = select(controls, "promise", "Promise", [], () => choose());
  const mechanism = select(controls, "mechanism", "How it is hidden", [], () => choose());
  const size = select(controls, "n", "How many, n", [], () => choose());
  place.parentElement.hidden = regions.length < 2;
  controls.append(element("a", { id: "view-link", href: "#", text: "Link to this view" }));
  home.append(controls);

  function offer(region) {
    fill(promise, unique(region.promises.map((p) => p.promise)).map((p) => [p, p]));
    fill(size, region.n.map((n) => [n, `${number.format(n)} ${region.plural}`]).reverse());
    const names = unique([...region.plans, ...(region.map?.releases ?? [])].map((r) => r.mechanism));
    fill(mechanism, names.map((name) => [name, region.looks[name]?.label ?? name]));
  }

  function choose(other = false) {
    const index = Math.max(0, regions.findIndex((r) => r.title === place.value));
    const region = regions[index];
    if (other) {
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

function isPlan(story) {
  return (one) => one.n === story.n && one.promise === story.promise && one.mechanism === story.mechanism;
}

/** The answer and the table of a place, in the words of its plans. */
function showAnswer(story) {
  const { region } = story;
  const plan = region.plans.find(isPlan(story));
  const table = region.tables.find((t) => t.n === story.n && t.promise === story.promise);
  for (const part of document.querySelectorAll(".place")) {
    part.hidden = part.dataset.region !== String(story.index);
    if (part.hidden || !table) continue;
    const say = (name, act) => part.querySelectorAll(`[data-says=${name}]`).forEach(act);
    const words = plan ?? { verdict: `No: ${region.looks[story.mechanism].label} cannot keep this promise.`, label: region.looks[story.mechanism].label, noise: true };
    for (const name of ["verdict", "label", "accuracy", "trust", "single"]) say(name, (one) => { one.textContent = words[name] ?? "–"; });
    say("verdict", (one) => one.classList.toggle("noise", words.noise));
    const own = story.mechanism === table.recommended;
    const best = region.looks[table.recommended]?.label;
    say("chosen", (one) => { one.textContent = own ? `Recommended for ${region.title}` : `Chosen for ${region.title}${best ? `, where ${best} is recommended` : ""}`; });
    say("strength", (one) => { one.textContent = table.strength; });
    say("caption", (one) => { one.textContent = table.caption; });
    say("choices", (one) => one.replaceChildren(...table.choices.map((text) => element("li", { text }))));
    say("rows", (one) => one.replaceChildren(...table.rows.map(([label, ...cells]) => element("tr", {},
      element("th", { scope: "row", text: label }), ...cells.map((text, i) => element("td", { text, "data-head": table.heads[i + 1] }))))));
  }
  return table;
}

/** Keeps in the address what somebody chose, and chooses what an address says. */
function keepAddress() {
  const touched = new Set();
  const controls = () => [...document.querySelectorAll("#story select, main select, main input:is([type=text], #map-zoom)")];
  const valueOf = (one) => (one.type === "checkbox" ? String(one.checked) : one.value);
  let anchor = "";
  const words = (kept) => [anchor, new URLSearchParams(controls().filter(kept).map((one) => [one.id, valueOf(one)])).toString()].filter(Boolean).join("&");
  // The link has all that is seen; the address what was chosen.
  const link = () => document.getElementById("view-link")?.setAttribute("href", `#${words((one) => one.checkVisibility())}`);
  const write = () => {
    const chosen = words((one) => touched.has(one.id));
    history.replaceState(null, "", chosen ? `#${chosen}` : location.pathname + location.search);
    link();
  };
  const note = (event) => {
    if (!event.target.id || !controls().includes(event.target)) return;
    touched.add(event.target.id);
    write();
  };
  const read = () => {
    const words = location.hash.slice(1).split("&");
    anchor = words[0].includes("=") ? "" : words.shift() ?? "";
    const asked = new URLSearchParams(words.join("&"));
    for (const one of controls()) {
      if (!asked.has(one.id)) continue;
      const value = asked.get(one.id);
      if (one.tagName === "SELECT" && ![...one.options].some((o) => o.value === value)) continue;
      const folded = one.closest("details");
      if (folded) folded.open = true;
      if (one.type === "checkbox") one.checked = value === "true";
      else one.value = value;
      one.dispatchEvent(new Event(one.type === "text" ? "input" : "change", { bubbles: true }));
    }
    const found = anchor && document.getElementById(anchor);
    if (found && found.tagName === "DETAILS") found.open = true;
    if (found) found.scrollIntoView({ behavior: "instant", block: "start" });
    if (touched.size) write();
    link();
  };
  document.addEventListener("change", note);
  document.addEventListener("input", note);
  document.addEventListener("toggle", link, true);
  // A pointer or a key may have gone to another cell since.
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
    let table, told;
    const choose = mountStory(document.getElementById("story"), data.regions, (story) => {
      table = showAnswer(story);
      told = story;
      document.getElementById("choices").hidden = !table;
      parts.forEach((part) => part.show(story));
    });
    choose();
    downloads(document.getElementById("choices-downloads"), () => `mechanisms ${told.region.title}`, () => [table.heads, ...table.rows]);
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
