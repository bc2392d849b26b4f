"use strict";
// Intervals of sums on a map with levels, as in shuffledp.publishing: chains.py and noise.py.

const MISS = 0.05; // probability that an interval misses the true value
const SMOOTHING = 0.01; // of the standard deviation: reach of a variable that is added to the noise
const MIN_SMOOTHING = 0.002; // records
const UNIFORMS = 8; // of which that variable is the sum
const REST = 1e-3; // of MISS, for each of two probabilities that are bounded only
const DIGITS = 4; // significant digits in which weights of noises differ

const zeros = (size) => new Float64Array(size);

/** A chain of nested groups: `groups` has the group of each leaf for every level, finest first. */
class Chain {
  constructor(groups, weights) {
    this.groups = groups;
    this.weights = weights;
    this.sizes = groups.map((group) => d3.max(group) + 1);
    this.parents = groups.slice(1).map((coarser, l) => {
      const parent = new Int32Array(this.sizes[l]);
      groups[l].forEach((group, leaf) => { parent[group] = coarser[leaf]; });
      return parent;
    });
    this.variances = [zeros(this.sizes[0]).fill(1 / weights[0])];
    this.parents.forEach((parent, l) => {
      const below = this.sums(parent, this.variances[l], this.sizes[l + 1]);
      this.variances.push(below.map((total) => 1 / (weights[l + 1] + 1 / total)));
    });
  }

  sums(group, values, size) {
    const result = zeros(size);
    values.forEach((value, i) => { result[group[i]] += value; });
    return result;
  }

  /** Return how much each noisy sum contributes to the estimate of a weighted sum of leaves. */
  influence(target) {
    const upward = [Float64Array.from(target, (value) => value / this.weights[0])];
    const below = [];
    this.parents.forEach((parent, l) => {
      below.push(this.sums(parent, upward[l], this.sizes[l + 1]));
      upward.push(below[l].map((sum, i) => sum * (1 - this.weights[l + 1] * this.variances[l + 1][i])));
    });
    let solved = upward.at(-1);
    for (let l = this.parents.length - 1; l >= 0; l--) {
      const parent = this.parents[l];
      const total = this.sums(parent, this.variances[l], this.sizes[l + 1]);
      const coarser = solved;
      solved = upward[l].map((value, i) => value + (this.variances[l][i] / total[parent[i]]) * (coarser[parent[i]] - below[l][parent[i]]));
    }
    return this.groups.map((group, l) => this.sums(group, solved, this.sizes[l]).map((value) => value * this.weights[l]));
  }
}

/** Return [absolute weight, number] pairs of the weights other than 0, rounded up. */
function distinct(weights) {
  const counts = new Map();
  for (const weight of weights) {
    if (Math.abs(weight) < 1e-12) continue;
    const unit = 10 ** (Math.floor(Math.log10(Math.abs(weight))) + 1 - DIGITS);
    const rounded = Math.ceil(Math.abs(weight) / unit - 1e-6) * unit;
    counts.set(rounded, (counts.get(rounded) ?? 0) + 1);
  }
  return [...counts];
}

function noiseVariance(scale) {
  if (data.law.mechanism === "gaussian") {
    if (scale > 2) return scale * scale;
    const weights = d3.range(0, 40).map((z) => Math.exp(-0.5 * (z / scale) ** 2));
    return (2 * d3.sum(weights, (weight, z) => weight * z * z)) / (2 * d3.sum(weights) - 1);
  }
  const theta = Math.exp(-1 / scale);
  return (2 * theta) / (1 - theta) ** 2;
}

/** Return the log of the characteristic function of one noise at t. */
function logCharacteristic(scale, t) {
  if (data.law.mechanism === "laplace") {
    const theta = Math.exp(-1 / scale);
    return -Math.log1p((2 * theta * (1 - Math.cos(t))) / (1 - theta) ** 2);
  }
  if (scale < 1) {
    const weights = d3.range(0, 40).map((z) => (z ? 2 : 1) * Math.exp(-0.5 * (z / scale) ** 2));
    return Math.log(d3.sum(weights, (weight, z) => weight * Math.cos(t * z)) / d3.sum(weights));
  }
  const turn = Math.abs(t - 2 * Math.PI * Math.round(t / (2 * Math.PI)));
  const others = d3.sum([-1, 1], (k) => Math.exp(-0.5 * scale * scale * ((2 * Math.PI * k + turn) ** 2 - turn * turn)));
  return -0.5 * (scale * turn) ** 2 + Math.log1p(others);
}

/** Return an upper bound on the log of the moment generating function of one noise at s. */
function logMoment(scale, s) {
  if (data.law.mechanism === "gaussian") return 0.5 * (scale * s) ** 2;
  const theta = Math.exp(-1 / scale);
  return s < 1 / scale ? -Math.log1p((-theta * (2 * Math.cosh(s) - 2)) / (1 - theta) ** 2) : Infinity;
}

/** Return the half-width of the 95 % interval of a sum of noises: [scale, weight, number] triples. */
function halfWidthOf(parts) {
  if (!parts.length) return 0;
  const sd = Math.sqrt(d3.sum(parts, ([scale, weight, times]) => times * weight * weight * noiseVariance(scale)));
  const smoothing = Math.max(SMOOTHING * sd, MIN_SMOOTHING);
  const widest = d3.max(parts, ([scale, weight]) => scale * weight);
  const tilts = d3.range(1, 25).map((i) => (data.law.mechanism === "laplace" ? (0.98 * i) / 25 / widest : i / (4 * sd)));
  const bounds = tilts.map((tilt) => (d3.sum(parts, ([scale, weight, times]) => times * logMoment(scale, weight * tilt)) + Math.log(2 / (REST * MISS))) / tilt);
  const reach = d3.min(bounds) + smoothing;
  const step = Math.PI / reach;
  const last = (UNIFORMS / smoothing) * (4 * Math.PI * REST * MISS) ** (-1 / UNIFORMS);
  const terms = d3.range(1, Math.ceil(last / step) + 1).map((j) => {
    const t = j * step;
    const x = (smoothing * t) / UNIFORMS;
    const log = d3.sum(parts, ([scale, weight, times]) => times * logCharacteristic(scale, weight * t));
    return (((2 / Math.PI) * step) / t) * (Math.sin(x) / x) ** UNIFORMS * Math.exp(log);
  });
  let [low, high] = [0, reach];
  while (high - low > 1e-3 * (high + MIN_SMOOTHING)) {
    const middle = (low + high) / 2;
    let inside = middle / reach;
    terms.forEach((term, j) => { inside += term * Math.sin((j + 1) * step * middle); });
    if (inside >= 1 - MISS * (1 - 4 * REST)) high = middle;
    else low = middle;
  }
  return high + smoothing;
}

/**
 * Return the half-width for weights of windows and of cells, whose products are those of the counts; for trips, of the cells where
 * they begin and of those where they end. Scales belong to a level of each axis, those of the last axis in turn.
 */
function levelsHalfWidth(...targets) {
  const parts = targets.map((target, axis) => {
    const groups = axis ? data.law.groups.map((group) => group ?? d3.range(target.length)) : data.times.map(({ group }) => group);
    return new Chain(groups, data.law.weights[axis]).influence(target).map(distinct);
  });
  const combined = d3.cross(...parts.map((levels) => d3.range(levels.length))).flatMap((levels, at) =>
    d3.cross(...levels.map((level, axis) => parts[axis][level])).map((pairs) =>
      [data.law.scales[at], pairs.reduce((product, [weight]) => product * weight, 1), pairs.reduce((product, [, times]) => product * times, 1)]));
  return halfWidthOf(combined);
}
