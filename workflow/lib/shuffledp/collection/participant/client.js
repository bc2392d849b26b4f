// A device in JavaScript: an envelope of a record, written down, then sent until it is answered.
// Experimental. An ES module without dependencies but those beside it; for browsers and Node 20.

import { Refused, bytesOf, hex, sha256 } from "./campaign.js";
import { drawMessages, shuffled, systemRandom } from "./draw.js";
import { Aes128Gcm, CipherSuite, DhkemX25519HkdfSha256, HkdfSha256 } from "./hpke.js";

export { Refused, parseCampaign } from "./campaign.js";

const TICKET = /^([0-9a-f]{64})\.([0-9a-f]{32})(?:\.([1-9][0-9]{0,4}))?$/;
const TOKEN_BYTES = 16;
const SEALED_BYTES = 52;
const ANSWER_LIMIT = 30000; // milliseconds until an answer counts as lost
const LATER = [408, 425, 429]; // it did not come in time, or there are too many
// Answers of the mixer that end a round for this device.
const ENDS = { 204: "counted", 409: "used", 410: "closed" };

/**
 * Ticket and round of a text NAME.TICKET or NAME.TICKET.ROUND; the round is 1 where it has none.
 *
 * Throws Refused if it is none, or of another campaign: one that was altered has another name.
 */
export function readTicket(text, campaign) {
  const found = TICKET.exec(text.trim());
  if (found === null) {
    throw new Refused("the link has no ticket: after # there must be NAME.TICKET, or NAME.TICKET.ROUND");
  }
  if (found[1] !== campaign.name) {
    throw new Refused("the ticket is of another campaign, or the campaign was altered");
  }
  const round = Number(found[3] ?? 1);
  checkRound(campaign, round);
  return { ticket: bytesOf(found[2]), round };
}

function checkRound(campaign, round) {
  const last = campaign.rounds.length;
  if (!Number.isInteger(round) || round < 1 || round > last) {
    throw new Refused(`the campaign has rounds 1 to ${last} (got ${round})`);
  }
}

function joined(...parts) {
  const bytes = parts.map((part) => (typeof part === "string" ? new TextEncoder().encode(part) : part));
  const made = new Uint8Array(bytes.reduce((size, each) => size + each.length, 0));
  bytes.reduce((start, each) => (made.set(each, start), start + each.length), 0);
  return made;
}

const numbered = (round) => Uint8Array.of(round >>> 24, round >>> 16, round >>> 8, round);

/** What lets the holder of a ticket take part in a round, once. */
async function makeToken(campaign, round, ticket) {
  const secret = joined("shuffledp token 1", bytesOf(campaign.name), numbered(round), ticket);
  return (await sha256(secret)).slice(0, TOKEN_BYTES);
}

/**
 * Token and sealed messages of one report, always of one length.
 *
 * The cell is from 0 on, the round from 1 on, the ticket 16 bytes. Throws Refused if there is no
 * such cell or round. The bytes are random anew in each call: send the same ones again.
 */
export async function makeEnvelope(campaign, round, ticket, cell) {
  checkRound(campaign, round);
  if (!Number.isInteger(cell) || cell < 0 || cell >= campaign.cells.count) {
    throw new Refused(`there are cells 0 to ${campaign.cells.count - 1} (got ${cell})`);
  }
  const suite = new CipherSuite({
    kem: new DhkemX25519HkdfSha256(), kdf: new HkdfSha256(), aead: new Aes128Gcm(),
  });
  const key = bytesOf(campaign.rounds[round - 1]);
  const recipientPublicKey = await suite.kem.deserializePublicKey(key);
  const info = joined("shuffledp message 1", bytesOf(campaign.name), numbered(round));
  const sealed = [];
  for (const message of drawMessages(campaign, cell, systemRandom)) {
    const { enc, ct } = await suite.seal({ recipientPublicKey, info }, message);
    sealed.push(joined(new Uint8Array(enc), new Uint8Array(ct)));
  }
  // Nor can a mixer tell by its place which message has the record, and keep that alone.
  const token = await makeToken(campaign, round, ticket);
  const envelope = joined(token, ...shuffled(sealed, systemRandom));
  if (envelope.length !== TOKEN_BYTES + SEALED_BYTES * campaign.slots) {
    throw new Error("an envelope has another length than it must have");
  }
  return envelope;
}

/**
 * What a browser keeps: an envelope until it is answered, and which rounds it took part in.
 *
 * In IndexedDB, where two windows cannot both write a report of one round.
 */
export class Device {
  /** "counted", "closed" or "used" (the ticket, elsewhere) of a round; "waiting"; or null. */
  async state(campaign, round) {
    const found = await stored("readonly", (rounds) => rounds.get(keyOf(campaign, round)));
    return found === undefined ? null : (found.ended ?? "waiting");
  }

  /** Rounds of a campaign in which this browser reported. */
  async tookPart(campaign) {
    const range = IDBKeyRange.bound([campaign.name, 0], [campaign.name, Infinity]);
    const all = await stored("readonly", (rounds) => rounds.getAll(range));
    return all.filter(({ ended }) => ended === undefined || ended === "counted").length;
  }

  /**
   * Write an envelope down, to be sent by `send`.
   *
   * Throws Refused if this browser took part in the round: another report would have less than the
   * promise.
   */
  async report(campaign, round, ticket, cell) {
    const envelope = await makeEnvelope(campaign, round, ticket, cell);
    try {
      await stored("readwrite", (rounds) => rounds.add({ envelope }, keyOf(campaign, round)));
    } catch (error) {
      if (error.name !== "ConstraintError") throw error;
      throw new Refused(`this browser took part in round ${round}`);
    }
  }

  /**
   * Send the waiting envelope once: its state afterwards, and what the mixer said.
   *
   * While it is "waiting" send again, the same: `patient` says whether that may help without
   * anybody doing something.
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
      // A type that a browser sends to another address without asking there first.
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

/** The beginning of what the mixer says, however much it sends. */
async function wordsOf(answer) {
  if (answer.body === null) return "";
  const reader = answer.body.getReader();
  const { value = new Uint8Array() } = await reader.read();
  await reader.cancel();
  return new TextDecoder().decode(value.subarray(0, 200)).replace(/[^ -~]/g, " ").trim();
}

const keyOf = (campaign, round) => [campaign.name, round];

/** What one request to the table of rounds gives, once it is on disk. */
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
 * The cells of a campaign from the bytes of its GeoJSON file, in their order: `name`, `polygons`
 * (lists of rings of [longitude, latitude]) and `west`, `south`, `east`, `north` of each.
 *
 * Throws Refused if the file is not the one of the campaign, or has no such cells.
 */
export async function readCells(bytes, campaign) {
  if (hex(await sha256(bytes)) !== campaign.cells.sha256) {
    throw new Refused("the map is not the one of the campaign");
  }
  let cells;
  try {
    // As Python reads it, which skips a mark of the order of bytes.
    cells = shapesOf(JSON.parse(new TextDecoder().decode(bytes)), {}).map(cellOf);
  } catch (error) {
    throw new Refused(`the map cannot be read (${error.message})`);
  }
  if (cells.length !== campaign.cells.count) throw new Refused("the map has other cells");
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
  if (!polygons) throw new Error(`there is a ${type}`);
  let [west, south, east, north] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const [x, y] of polygons.flat(2)) {
    if (!Number.isFinite(x) || !Number.isFinite(y)) throw new Error("a point is no point");
    [west, east] = [Math.min(west, x), Math.max(east, x)];
    [south, north] = [Math.min(south, y), Math.max(north, y)];
  }
  return { name: typeof name === "string" ? name.trim() : "", polygons, west, south, east, north };
}

/** Index of the first cell that holds a point, its border included; or null. */
export function cellAt(cells, longitude, latitude) {
  const found = cells.findIndex((cell) =>
    longitude >= cell.west && longitude <= cell.east &&
    latitude >= cell.south && latitude <= cell.north &&
    cell.polygons.some((rings) => holds(rings, longitude, latitude)));
  return found < 0 ? null : found;
}

/** Whether a ray from the point crosses the rings an odd number of times, or it lies on one. */
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
