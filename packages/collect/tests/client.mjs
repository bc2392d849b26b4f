// Does what tests ask of the JavaScript client in a folder: jobs as JSON on standard input, answers
// as JSON.

import { createPrivateKey, createPublicKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const folder = pathToFileURL(`${process.argv[2]}/`);
const [client, { drawMessages, systemRandom }, hpke] = await Promise.all(
  ["client.js", "draw.js", "hpke.js"].map((name) => import(new URL(name, folder))),
);
const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));
const hex = (some) => Buffer.from(some).toString("hex");
const campaigns = new Map();

async function campaignOf(text) {
  if (!campaigns.has(text)) campaigns.set(text, await client.parseCampaign(bytes(text)));
  return campaigns.get(text);
}

const jobs = {
  async parse({ campaign }) {
    return (await client.parseCampaign(bytes(campaign))).name;
  },
  async ticket({ campaign, text }) {
    const { ticket, round } = client.readTicket(text, await campaignOf(campaign));
    return [hex(ticket), round];
  },
  async envelope({ campaign, round, ticket, cell }) {
    const secret = new Uint8Array(Buffer.from(ticket, "hex"));
    return hex(await client.makeEnvelope(await campaignOf(campaign), round, secret, cell));
  },
  async draw({ campaign, cell, stream }) {
    const given = Buffer.from(stream, "hex");
    let used = 0;
    const random = (count) => new Uint8Array(given.subarray(used, (used += count)));
    const drawn = drawMessages(await campaignOf(campaign), cell, random);
    return [drawn.map(hex), used];
  },
  async messages({ campaign, cell, times }) {
    const found = await campaignOf(campaign);
    return Array.from({ length: times }, () => drawMessages(found, cell, systemRandom).map(hex));
  },
  async envelopes({ campaign, round, reports }) {
    const [found, made] = [await campaignOf(campaign), []];
    for (const [ticket, cell] of reports) {
      const secret = new Uint8Array(Buffer.from(ticket, "hex"));
      made.push(hex(await client.makeEnvelope(found, round, secret, cell)));
    }
    return made;
  },
  async drawn({ campaign, cells }) {
    const found = await campaignOf(campaign);
    return hex(Buffer.concat(cells.flatMap((cell) => drawMessages(found, cell, systemRandom))));
  },
  async schedule({ recipient, info, scalar }) {
    const secret = Buffer.from(scalar, "hex");
    const prefix = Buffer.from("302e020100300506032b656e04220420", "hex");
    const privateKey = createPrivateKey({ key: Buffer.concat([prefix, secret]), format: "der", type: "pkcs8" });
    const jwk = createPublicKey(privateKey).export({ format: "jwk" });
    const [mine, theirs] = await Promise.all([
      crypto.subtle.importKey("pkcs8", Buffer.concat([prefix, secret]), "X25519", false, ["deriveBits"]),
      crypto.subtle.importKey("jwk", jwk, "X25519", true, []),
    ]);
    const bytesIn = (text) => new Uint8Array(Buffer.from(text, "hex"));
    const made = await hpke.keySchedule(
      bytesIn(recipient), bytesIn(info), { publicKey: theirs, privateKey: mine });
    return Object.values(made).map(hex);
  },
  async cells({ campaign, cells, points }) {
    const found = await client.readCells(bytes(cells), await campaignOf(campaign));
    return [found.map(({ name }) => name), points.map(([x, y]) => client.cellAt(found, x, y))];
  },
  async names() {
    return [Object.keys(client).sort(), client.makeEnvelope.length];
  },
};

const answers = [];
for (const { job, ...given } of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    answers.push({ found: await jobs[job](given) });
  } catch (error) {
    if (!(error instanceof client.Refused)) throw error;
    answers.push({ refused: error.message });
  }
}
console.log(JSON.stringify(answers));
