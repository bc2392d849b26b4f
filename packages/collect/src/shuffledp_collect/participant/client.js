// A device in JavaScript: it stores the envelope of a record, then sends it until it is counted.
// Experimental ES module for browsers and Node 20; it depends only on the modules beside it.

import { Refused, bytesOf, hex, sha256 } from "./campaign.js";
import { drawMessages, shuffled, systemRandom } from "./draw.js";
import { joined, seal } from "./hpke.js";

export { Refused, parseCampaign } from "./campaign.js";

const TICKET = /^([0-9a-f]{64})\.([0-9a-f]{32})(?:\.([1-9][0-9]{0,4}))?$/;
const TOKEN_BYTES = 16;
const NONCE_BYTES = 16;
const SEALED_BYTES = 52;
const ANSWER_LIMIT = 30000; // milliseconds until an answer counts as lost
const LATER = [408, 425, 429]; // answers after which the same envelope may be sent again
// Answers of the mixer after which this device sends nothing more in the round.
const ENDS = { 204: "counted", 409: "used", 410: "closed" };

/**
 * Return ticket and round of a text NAME.TICKET or NAME.TICKET.ROUND; the default round is 1.
 *
 * Throws Refused if the text has another form, or names another campaign.
 */
export function readTicket(text, campaign) {
  const found = TICKET.exec(text.trim());
  if (found === null) {
    throw new Refused("the link has no ticket: after # there must be NAME.TICKET, or NAME.TICKET.ROUND");
  }
  if (found[1] !== campaign.name) {
    throw new Refused("the ticket belongs to another campaign, or the campaign was edited");
  }
  const round = Number(found[3] ?? 1);
  checkRound(campaign, round);
  return { ticket: bytesOf(found[2]), round };
}

function checkRound(campaign, round) {
  const last = campaign.rounds.length;
  if (!Number.isInteger(round) || round < 1 || round > last) {
    throw new Refused(`the campaign has rounds 1 to ${last}, got ${round}`);
  }
}

const numbered = (round) => Uint8Array.of(round >>> 24, round >>> 16, round >>> 8, round);

/** Return the token with which the holder of a ticket takes part in a round, once. */
async function makeToken(campaign, round, ticket) {
  const secret = joined("shuffledp token 1", bytesOf(campaign.name), numbered(round), ticket);
  return (await sha256(secret)).slice(0, TOKEN_BYTES);
}

/**
 * Return the envelope of one report: token, nonce and sealed messages, always of one length.
 *
 * Cells are numbered from 0 and rounds from 1; a ticket has 16 bytes. Throws Refused if there is no
 * such cell or round. Each call draws other random bytes: to send a report again, send the same
 * envelope.
 */
export async function makeEnvelope(campaign, round, ticket, cell) {
  checkRound(campaign, round);
  if (!Number.isInteger(cell) || cell < 0 || cell >= campaign.cells.count) {
    throw new Refused(`the campaign has cells 0 to ${campaign.cells.count - 1}, got ${cell}`);
  }
  const key = bytesOf(campaign.rounds[round - 1]);
  const info = joined("shuffledp message 1", bytesOf(campaign.name), numbered(round));
  const sealed = [];
  for (const message of drawMessages(campaign, cell, systemRandom)) {
    sealed.push(await seal(key, info, message));
  }
  // The place of a message must not tell a mixer which one has the record.
  const token = await makeToken(campaign, round, ticket);
  // The mixer recognises the same envelope by its nonce.
  const envelope = joined(token, systemRandom(NONCE_BYTES), ...shuffled(sealed, systemRandom));
  if (envelope.length !== TOKEN_BYTES + NONCE_BYTES + SEALED_BYTES * campaign.slots) {
    throw new Error("the envelope has a wrong length");
  }
  return envelope;
}

/**
 * State of one browser: an envelope until it is answered, and the rounds it took part in.
 *
 * IndexedDB keeps two windows from both storing a report of one round.
 */
export class Device {
  /** Return "counted", "closed", "used" (the ticket, elsewhere), "waiting" or null. */
  async state(campaign, round) {
    const found = await stored("readonly", (rounds) => rounds.get(keyOf(campaign, round)));
    return found === undefined ? null : (found.ended ?? "waiting");
  }

  /** Return the number of rounds of a campaign in which this browser reported. */
  async tookPart(campaign) {
    const range = IDBKeyRange.bound([campaign.name, 0], [campaign.name, Infinity]);
    const all = await stored("readonly", (rounds) => rounds.getAll(range));
    return all.filter(({ ended }) => ended === undefined || ended === "counted").length;
  }

  /**
   * Store an envelope, to be sent by `send`.
   *
   * Throws Refused if this browser took part in the round: a second report would weaken the promise.
   */
  async report(campaign, round, ticket, cell) {
    const envelope = await makeEnvelope(campaign, round, ticket, cell);
    try {
      await stored("readwrite", (rounds) => rounds.add({ envelope }, keyOf(campaign, round)));
    } catch (error) {
      if (error.name !== "ConstraintError") throw error;
      throw new Refused(`this browser already took part in round ${round}`);
    }
  }

  /**
   * Send the waiting envelope once; return its state and the answer of the mixer.
   *
   * While the state is "waiting", send again: `patient` says whether waiting alone may help.
   */
  async send(campaign, round) {
    const key = keyOf(campaign, round);
    const found = await stored("readonly", (rounds) => rounds.get(key));
    if (found === undefined) throw new Refused(`there is no report of round ${round} to send`);
    if (found.ended) return { state: found.ended, words: "", patient: false };
    const { status, words } = await post(campaign, round, found.envelope);
    if (status in ENDS) {
      await stored("readwrite", (rounds) => rounds.put({ ended: ENDS[status] }, key));
    }
    const refused = status >= 400 && status < 500 && !LATER.includes(status);
    return { state: ENDS[status] ?? "waiting", words, patient: !refused };
  }
}

async function post(campaign, round, envelope) {
  const address = `${campaign.address.replace(/\/+$/, "")}/v1/${campaign.name}/${round}`;
  try {
    const answer = await fetch(address, {
      method: "POST",
      body: envelope,
      // A type that a browser sends to another origin without a preflight request.
      headers: { "Content-Type": "text/plain" },
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      referrerPolicy: "no-referrer",
      signal: AbortSignal.timeout(ANSWER_LIMIT),
    });
    return { status: answer.status, words: await wordsOf(answer) };
  } catch {
    return { status: 503, words: "nobody answers" };
  }
}

/** Return the beginning of the mixer's answer, however long it is. */
async function wordsOf(answer) {
  if (answer.body === null) return "";
  const reader = answer.body.getReader();
  const { value = new Uint8Array() } = await reader.read();
  await reader.cancel();
  return new TextDecoder().decode(value.subarray(0, 200)).replace(/[^ -~]/g, " ").trim();
}

const keyOf = (campaign, round) => [campaign.name, round];

/** Return the result of one request to the table of rounds, once it is on disk. */
async function stored(mode, ask) {
  const database = await new Promise((resolve, reject) => {
    const opening = indexedDB.open("shuffledp", 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore("rounds");
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });
  try {
    return await new Promise((resolve, reject) => {
      const change = database.transaction("rounds", mode, { durability: "strict" });
      const request = ask(change.objectStore("rounds"));
      change.oncomplete = () => resolve(request.result);
      change.onabort = () => reject(change.error ?? request.error);
    });
  } finally {
    database.close();
  }
}

/**
 * Return the cells of a campaign from the bytes of its GeoJSON file, in order: `name`, `polygons`
 * (lists of rings of [longitude, latitude]) and `west`, `south`, `east`, `north` of each.
 *
 * Throws Refused if the file is not the one of the campaign, or cannot be read.
 */
export async function readCells(bytes, campaign) {
  if (hex(await sha256(bytes)) !== campaign.cells.sha256) {
    throw new Refused("the map is not the one of the campaign");
  }
  let cells;
  try {
    // Like Python, skip a byte order mark.
    cells = shapesOf(JSON.parse(new TextDecoder().decode(bytes)), {}).map(cellOf);
  } catch (error) {
    throw new Refused(`the map cannot be read (${error.message})`);
  }
  if (cells.length !== campaign.cells.count) throw new Refused("the map has another number of cells");
  return cells;
}

function shapesOf(node, properties) {
  const within = { FeatureCollection: "features", GeometryCollection: "geometries" }[node.type];
  if (within) return node[within].flatMap((child) => shapesOf(child, properties));
  if (node.type !== "Feature") return [[node, properties]];
  return node.geometry === null ? [] : shapesOf(node.geometry, node.properties ?? {});
}

export function cellOf([{ type, coordinates }, { name }]) {
  const polygons = { Polygon: [coordinates], MultiPolygon: coordinates }[type];
  if (!polygons) throw new Error(`it contains a ${type}`);
  let [west, south, east, north] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const [x, y] of polygons.flat(2)) {
    if (!Number.isFinite(x) || !Number.isFinite(y)) throw new Error("a coordinate is not a number");
    [west, east] = [Math.min(west, x), Math.max(east, x)];
    [south, north] = [Math.min(south, y), Math.max(north, y)];
  }
  return { name: typeof name === "string" ? name.trim() : "", polygons, west, south, east, north };
}

/** Return the index of the first cell that contains a point, its border included, or null. */
export function cellAt(cells, longitude, latitude) {
  const found = cells.findIndex((cell) =>
    longitude >= cell.west && longitude <= cell.east &&
    latitude >= cell.south && latitude <= cell.north &&
    cell.polygons.some((rings) => holds(rings, longitude, latitude)));
  return found < 0 ? null : found;
}

/** Whether a ray from the point crosses the rings an odd number of times, or the point is on one. */
function holds(rings, x, y) {
  let inside = false;
  for (const ring of rings) {
    for (let index = 1; index < ring.length; index++) {
      const [[ax, ay], [bx, by]] = [ring[index - 1], ring[index]];
      const side = (bx - ax) * (y - ay) - (by - ay) * (x - ax);
      const beside = x >= Math.min(ax, bx) && x <= Math.max(ax, bx);
      if (side === 0 && beside && y >= Math.min(ay, by) && y <= Math.max(ay, by)) return true;
      if (ay > y !== by > y && (by > ay ? side > 0 : side < 0)) inside = !inside;
    }
  }
  return inside;
}
