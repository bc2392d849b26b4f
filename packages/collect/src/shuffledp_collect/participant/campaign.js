// Parse a campaign as campaign.py writes it, and refuse whatever is unknown or altered.

/** An error whose message is shown to the participant. */
export class Refused extends Error {}

const LARGEST_FILE = 2 ** 26;
const NUMBER = /^(?:[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,3})?|inf)$/;

export const hex = (bytes) =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Return the bytes of hexadecimal digits that were checked before. */
export const bytesOf = (digits) =>
  Uint8Array.from(digits.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));

export const sha256 = async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

function wrong(where, words) {
  throw new Refused(`this is not a campaign: ${where || "the file"} ${words}`);
}

// Functions that refuse the same values as campaign.schema.json.

const integer = (least, most) => (value, where) => {
  if (!Number.isInteger(value) || value < least || value > most) {
    wrong(where, `must be a whole number from ${least} to ${most}`);
  }
};

const text = (least, most, pattern = /^/) => (value, where) => {
  const right = typeof value === "string" && value.isWellFormed() && pattern.test(value);
  const size = right ? Array.from(value).length : -1;
  if (size < least || size > most) wrong(where, "is not a text of the expected form");
};

const exactly = (...values) => (value, where) => {
  if (!values.includes(value)) wrong(where, `must be ${values.join(" or ")}`);
};

const orNull = (check) => (value, where) => value === null || check(value, where);

const list = (least, most, check) => (value, where) => {
  if (!Array.isArray(value) || value.length < least || value.length > most) {
    wrong(where, `must be a list of ${least} to ${most}`);
  }
  value.forEach((each, index) => check(each, `${where}.${index}`));
};

const object = (shape, others = null) => (value, where) => {
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    wrong(where, "must be an object");
  }
  for (const name of Object.keys(shape)) {
    if (!Object.hasOwn(value, name)) wrong(where, `lacks ${name}`);
  }
  for (const [name, each] of Object.entries(value)) {
    const check = Object.hasOwn(shape, name) ? shape[name] : others;
    if (check === null) wrong(where, `has ${name}, which is unknown`);
    check(each, where ? `${where}.${name}` : name);
  }
};

/** Accept a number as text, if it is written as Python writes it. */
function number(value, where) {
  text(1, 40, NUMBER)(value, where);
  if (value !== "inf" && value !== written(Number(value))) wrong(where, "is not in canonical form");
}

function written(value) {
  if (Number.isInteger(value) && value <= 2 ** 53) return String(value);
  const [digits, exponent] = value.toExponential().split("e").map((part) => part.replace("+", ""));
  if (exponent < -4 || exponent >= 16) {
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${digits}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  return Number.isInteger(value) ? `${value}.0` : String(value);
}

const digest = text(64, 64, /^[0-9a-f]{64}$/);

const table = (value, where) => {
  object({
    first: integer(-65536, 1000000),
    thresholds: list(0, 65536, text(32, 32, /^[0-9a-f]{32}$/)),
  })(value, where);
  if (value.thresholds.some((each, index, all) => index > 0 && each < all[index - 1])) {
    wrong(where, "has decreasing thresholds");
  }
};

const campaign = object({
  version: exactly(2),
  title: text(1, 200),
  question: text(1, 500),
  cells: object({ count: integer(2, 1000000), sha256: digest }),
  mechanism: text(0, 40),
  parameters: object({}, number),
  people: integer(1, 1e10),
  at_least: integer(1, 1e10),
  colluding: integer(0, 1e10),
  slots: integer(1, 4000),
  device: list(
    0, 3, object({ sign: exactly("plus", "minus", "pair"), number: table, size: table }),
  ),
  mixer: orNull(table),
  analyst: orNull(table),
  promise: object({
    neighbours: exactly("replacement"),
    unit: text(0, 200),
    delta: number,
    eps: object({
      analyst: orNull(number),
      shuffler: orNull(number),
      public: orNull(number),
      both: orNull(number),
    }),
  }),
  rounds: list(1, 10000, digest),
  address: text(1, 500, /^https?:\/\/[!-~]+$/),
});

const unit = (rounds) =>
  rounds === 1 ? "one record of one respondent" : `all ${rounds} records of one respondent`;

/** Return canonical JSON (RFC 8785) as text. */
function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`).join(",")}}`;
}

function parsed(bytes) {
  try {
    const found = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    return [JSON.parse(found), found];
  } catch {
    return wrong("", "is not JSON");
  }
}

function frozen(value) {
  if (value !== null && typeof value === "object") Object.values(Object.freeze(value)).forEach(frozen);
  return value;
}

/** Whether an envelope to an address is encrypted, or does not leave this machine. */
function safe(address) {
  try {
    const { protocol, hostname } = new URL(address);
    return protocol === "https:" || ["127.0.0.1", "localhost", "[::1]"].includes(hostname);
  } catch {
    return false;
  }
}

/**
 * Return the campaign in a file's bytes, with its name: the SHA-256 of these bytes.
 *
 * Throws Refused if the file is not canonical, is of another version, has an unknown key or value,
 * or sends envelopes over http beyond the loopback interface. A page cannot derive the promise
 * from the tables. The issuer does (`shuffledp-collect campaign check`), and each ticket contains
 * the name of the campaign.
 */
export async function parseCampaign(bytes) {
  if (bytes.length > LARGEST_FILE) wrong("", `has more than ${LARGEST_FILE} bytes`);
  const [found, source] = parsed(bytes);
  campaign(found, "");
  if (canonical(found) !== source) wrong("", "is not the canonical JSON of this version");
  if (found.promise.unit !== unit(found.rounds.length)) wrong("promise.unit", "is not the expected text");
  if (found.at_least > found.people || found.colluding >= found.at_least) {
    wrong("", "must have people >= at_least > colluding");
  }
  if (!safe(found.address)) wrong("address", "must begin with https://");
  return frozen({ ...found, name: hex(await sha256(bytes)) });
}
