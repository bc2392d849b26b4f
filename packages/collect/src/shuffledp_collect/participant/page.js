// The participant's page: check campaign and ticket, let a place be chosen, send one report.

import { Device, Refused, cellAt, cellOf, parseCampaign, readCells, readTicket } from "./client.js";
import { drawMap } from "./map.js";

const FIRST_PAUSE = 500; // milliseconds
const LONGEST_PAUSE = 30000;
const WEAK_EPS = 5; // an eps beyond which little is promised

const part = (id) => document.getElementById(id);
const pausing = (time) => new Promise((resolve) => setTimeout(resolve, time));
const count = (value) => value.toLocaleString("en");

async function main() {
  if (window.top !== window) throw new Refused("this page must not be shown inside another");
  if (!window.isSecureContext) throw new Refused("this page must come by https");
  await crypto.subtle.generateKey("X25519", false, ["deriveBits"]).catch(() => {
    throw new Refused("this browser is too old: it cannot seal a report (it lacks X25519)");
  });
  const campaign = await parseCampaign(await fetched("campaign.json"));
  const { ticket, round } = readTicket(window.location.hash.slice(1), campaign);
  const device = new Device();
  showPromise(campaign);
  let state;
  try {
    state = await device.state(campaign, round);
  } catch {
    throw new Refused("this browser does not let the page store anything, and the report must be stored");
  }
  part("again").addEventListener("click", () => guarded(send(device, campaign, round)));
  if (state === null) await ask(device, campaign, ticket, round);
  else if (state === "waiting") await send(device, campaign, round);
  else await showEnd(device, campaign, round, state, false);
}

async function fetched(name) {
  const answer = await fetch(name, { credentials: "omit", cache: "no-cache" }).catch(() => null);
  if (!answer?.ok) throw new Refused(`${name} cannot be loaded`);
  return new Uint8Array(await answer.arrayBuffer());
}

async function ask(device, campaign, ticket, round) {
  const cells = await readCells(await fetched("cells.geojson"), campaign);
  const around = JSON.parse(part("around").textContent);
  const districts = around.layers.filter((layer) => ["district", "park"].includes(layer.kind) && layer.name)
    .map(({ name, paths }) => cellOf([{ type: "Polygon", coordinates: paths }, { name }]));
  const named = (index) => {
    const { name, west, south, east, north } = cells[index];
    const district = districts[cellAt(districts, (west + east) / 2, (south + north) / 2)]?.name;
    return name || (district ? `cell ${index} in ${district}` : `cell ${index}`);
  };
  let chosen = null;
  part("question").textContent = campaign.question;
  part("ask").hidden = false;
  part("source").textContent = `Map: ${around.attribution}`;
  part("source").hidden = !around.attribution;
  drawMap(part("map"), { closer: part("closer"), farther: part("farther") }, cells, around, (index) => {
    chosen = index;
    const { west, south, east, north } = cells[index];
    part("choice").textContent =
      `Your choice: ${named(index)}, around ${degrees((south + north) / 2, "north", "south")}, ` +
      `${degrees((west + east) / 2, "east", "west")}.`;
    part("send").textContent = `Send the report: ${named(index)}`;
    part("send").disabled = false;
  });
  part("send").addEventListener("click", () => {
    part("ask").hidden = true;
    part("ask").replaceChildren(); // nobody who looks at the page later sees the place
    show("Sealing", "Your report is drawn and sealed.");
    guarded(device.report(campaign, round, ticket, chosen).then(() => send(device, campaign, round)));
  });
}

const degrees = (value, above, below) => `${Math.abs(value).toFixed(3)}° ${value < 0 ? below : above}`;

/** Send the waiting envelope, always the same, until it is answered. */
async function send(device, campaign, round) {
  part("again").hidden = true;
  show("Sending", "Your report is sealed and stored. It is being sent.");
  for (let pause = FIRST_PAUSE; ; pause = Math.min(2 * pause, LONGEST_PAUSE)) {
    const { state, words, patient } = await device.send(campaign, round);
    if (state !== "waiting") return showEnd(device, campaign, round, state, true);
    const later = "You may close this page: open the same link later, and the same report is sent.";
    if (!patient) {
      show("Not counted", `The mixer says: ${words}. ${later}`);
      part("again").hidden = false;
      return undefined;
    }
    show("Not counted yet", `${words}. The same report is sent again. ${later}`);
    await pausing(pause);
  }
}

async function showEnd(device, campaign, round, state, now) {
  const rounds = campaign.rounds.length;
  const many = await device.tookPart(campaign);
  const taken = rounds > 1 ? ` You took part in ${count(many)} of ${count(rounds)} rounds.` : "";
  if (state === "counted") {
    const words = now ? "Thank you. Your report is counted." : "This browser took part, and its report is counted.";
    show("Counted", `${words}${taken} You may close this page.`);
  } else if (state === "closed") {
    show("This round is closed", `Your report came too late and is not counted.${taken}`);
  } else {
    show("Not counted", "Another report came with this ticket, from another browser or device. Only one counts.");
  }
}

function show(title, words) {
  const fresh = part("answer").hidden;
  part("answer").hidden = false;
  part("answer-title").textContent = title;
  part("answer-words").textContent = words;
  if (fresh) part("answer-title").focus();
}

/** Round up to three digits: an eps is never shown too small. */
function above(value) {
  const scale = 10 ** (2 - Math.floor(Math.log10(value)));
  return Number((Math.ceil(value * scale) / scale).toPrecision(3));
}

function learns(eps, nothing) {
  if (eps === null || eps === "inf") return nothing;
  const value = Number(eps);
  if (value === 0) return "Nothing about your place.";
  const hardly = value > WEAK_EPS ? " This is a weak promise." : "";
  return (
    "Your report can make one place, against any other, at most " +
    `${count(above(Math.exp(value)))} times as likely to them as before (eps ${count(above(value))}).${hardly}`
  );
}

function showPromise(campaign) {
  const { promise, rounds, at_least: fewest, colluding, title } = campaign;
  document.title = title;
  part("title").textContent = title;
  part("name").textContent = campaign.name;
  const open = "They could learn your place: nothing is promised.";
  for (const [who, eps, nothing] of [
    ["The analyst, who opens the reports", promise.eps.analyst, open],
    ["The mixer, who also sees the published map", promise.eps.shuffler, open],
    ["Everybody, from the published map", promise.eps.public, open],
    ["Analyst and mixer, if they join hands", promise.eps.both, "They could see your place."],
  ]) {
    const entry = document.createElement("div");
    entry.append(document.createElement("dt"), document.createElement("dd"));
    entry.firstChild.textContent = who;
    entry.lastChild.textContent = learns(eps, nothing);
    part("views").append(entry);
  }
  const all = rounds.length > 1 ? ` This is for all ${count(rounds.length)} rounds together.` : "";
  const against = colluding > 0
    ? `, of whom ${count(colluding)} may work against you`
    : ", all of them honest";
  part("limits").textContent =
    `This holds whatever they knew before, but for a chance of 1 in ${count(Math.floor(1 / Number(promise.delta)))} ` +
    `(delta).${all} It needs at least ${count(fewest)} people in a round${against}. ` +
    "A mixer that counts honestly does not hand over a round with fewer.";
  part("promise").hidden = false;
}

/** Show on the page whatever goes wrong. */
function guarded(work) {
  return work.catch((error) => {
    part("fault").textContent = error instanceof Refused
      ? `Nothing is sent: ${error.message}.`
      : `Something went wrong (${error.message}). Load the page again: a report that waits is sent.`;
    part("ask").hidden = true;
    part("answer").hidden = true;
  });
}

window.addEventListener("hashchange", () => window.location.reload()); // another ticket, or round
guarded(main());
