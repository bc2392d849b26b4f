"use strict";
// Puts the parts together: one place is chosen for the whole page.

const data = JSON.parse(document.getElementById("data").textContent);

function start() {
  if (data.regions.length) {
    const parts = [
      mountMaps(document.getElementById("maps-body"), data.regions),
      mountPrivacy(document.getElementById("privacy-body"), data.regions),
      mountUtility(document.getElementById("utility-body"), data.regions),
    ];
    mountPlanner(document.getElementById("planner-body"), data.planner);
    const place = document.getElementById("region");
    const show = () => {
      const index = place ? Number(place.value) : 0;
      document.querySelectorAll(".place").forEach((part) => { part.hidden = part.dataset.region !== String(index); });
      parts.forEach((part) => part.show(index));
    };
    place?.addEventListener("change", show);
    show();
    let width = window.innerWidth;
    window.addEventListener("resize", () => {
      if (window.innerWidth !== width) { width = window.innerWidth; parts.forEach((part) => part.redraw()); }
    });
  }
  if (data.reproduction) mountReproduction(document.getElementById("reproduction-body"), data.reproduction);
  const open = () => {
    const found = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (found && found.tagName === "DETAILS") found.open = true;
  };
  window.addEventListener("hashchange", open);
  open();
}

start();
