// Draw like device.py and tables.py, bit for bit: with integers only, and without logarithms.
// `client.js` does not let anybody choose the random bytes.

import { hex } from "./campaign.js";

const PLAIN = 4;

/** Return random bytes of the operating system. */
export const systemRandom = (count) => crypto.getRandomValues(new Uint8Array(count));

/** Return `first` plus the number of thresholds that are at most 128 random bits. */
function drawFrom(table, random) {
  const drawn = hex(random(16));
  let [low, high] = [0, table.thresholds.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (drawn < table.thresholds[middle]) high = middle;
    else low = middle + 1;
  }
  return table.first + low;
}

/** Draw a uniform integer below a limit of at most 2^32, by rejection. */
function drawBelow(limit, random) {
  const accepted = 2 ** 32 - (2 ** 32 % limit);
  for (;;) {
    const drawn = random(4).reduce((before, byte) => 256 * before + byte, 0);
    if (drawn < accepted) return drawn % limit;
  }
}

/** Return the things in a uniformly random order. */
export function shuffled(things, random) {
  const made = [...things];
  for (let last = made.length - 1; last > 0; last--) {
    const other = drawBelow(last + 1, random);
    [made[last], made[other]] = [made[other], made[last]];
  }
  return made;
}

/** Return a message's 4 bytes: 0 is blank, 1 + 2 cell a plus, 2 + 2 cell a minus. */
function message(value) {
  const made = new Uint8Array(PLAIN);
  new DataView(made.buffer).setUint32(0, value);
  return made;
}

const plus = (cell) => message(1 + 2 * cell);
const minus = (cell) => message(2 + 2 * cell);

function dummies(campaign, random) {
  const made = [];
  for (const { sign, number, size } of campaign.device) {
    for (let clumps = drawFrom(number, random); clumps > 0; clumps--) {
      const cell = drawBelow(campaign.cells.count, random);
      for (let left = drawFrom(size, random); left > 0; left--) {
        if (sign !== "minus") made.push(plus(cell));
        if (sign !== "plus") made.push(minus(cell));
      }
    }
  }
  return made;
}

/** Draw the messages of a report before they are sealed, blanks included. */
export function drawMessages(campaign, cell, random) {
  let drawn;
  do drawn = [plus(cell), ...dummies(campaign, random)];
  while (drawn.length > campaign.slots);
  while (drawn.length < campaign.slots) drawn.push(message(0));
  return drawn;
}
