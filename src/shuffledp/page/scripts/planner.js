"use strict";

/*
 * The planner computes parameters and errors of each mechanism at a target.
 *
 * Delta of shuffled k-RR and of dummies by users is a mean E[(S)_+], where S is a sum of independent
 * terms. The bound used here is explained in docs/accounting.md, "In the page". It is never below the
 * mean, mostly less than 0.1 % above it, and at most about 1 %. Parameters are rounded to the safe side.
 */
const { planFor, mountPlanner } = (() => {
  const DIGITS = 5; // significant digits of a parameter
  const TOLERANCE = 1e-6; // relative error of a parameter before it is rounded
  // Standard deviation of the smoothing noise times the tilt; half its square is added to log delta.
  const SMOOTHING = 0.03;
  const NOISE_WIDTHS = 5; // end of the sum, in widths of the Fourier transform of the noise
  const LAW_WIDTHS = 8; // distance of periodic copies of the law, in widths of the law
  const ROUNDING = 1e-6; // allowance in log delta, larger than the effect of rounding
  const GRID_ROUNDING = 1e-3; // allowance in log delta for the accountant's grid of losses
  const TRUNCATION_SHARE = 0.1; // share of the delta of several rounds that truncation of dummies at 0 may use
  // Range of sigma of discrete Gaussian noise, and the largest one for which delta is summed.
  const [SMALLEST_SIGMA, LARGEST_SIGMA, LARGEST_SUMMED_SIGMA] = [2, 1e4, 256];

  /** Return the log of an upper bound on E[(S)_+], where S is the sum of `terms` independent terms.
   *
   * `atoms` are [value, probability] of a term, which is 0 otherwise. The largest value is positive.
   * If Chernoff's bound is at most `enough`, it is returned, because the sum would be long.
   */
  function logMeanExcess(terms, atoms, enough) {
    const unit = Math.max(...atoms.map(([value]) => value));
    const scaled = atoms.map(([value, probability]) => [value / unit, probability]);

    const moments = (tilt) => {
      let [excess, first, second] = [0, 0, 0];
      for (const [value, probability] of scaled) {
        excess += probability * Math.expm1(tilt * value);
        const weight = probability * value * Math.exp(tilt * value);
        first += weight;
        second += weight * value;
      }
      return { excess, mean: first / (1 + excess), square: second / (1 + excess) };
    };

    // Any tilt gives a bound; the saddle point gives the best one.
    const beyond = (tilt) => terms * moments(tilt).mean - 2 / tilt > 0;
    let tilt = 1;
    while (beyond(tilt)) tilt /= 2;
    while (!beyond(2 * tilt)) tilt *= 2;
    tilt = crossing((x) => !beyond(x), tilt, 2 * tilt, 1e-4);

    const { excess, mean, square } = moments(tilt);
    const logMoment = terms * Math.log1p(excess) + Math.log(unit);
    const chernoff = logMoment - 1 - Math.log(tilt);
    if (chernoff <= enough) return chernoff;

    const parts = scaled.map(([value, probability]) => ({
      half: value / 2,
      excess: probability * Math.expm1(tilt * value),
      grown: 2 * probability * Math.exp(tilt * value),
    }));
    const width = Math.sqrt(terms * (square - mean * mean) + 2 / tilt ** 2);
    const step = (2 * Math.PI) / (LAW_WIDTHS * width);
    const noise = SMOOTHING / tilt;
    const last = Math.ceil(NOISE_WIDTHS / noise / step);
    let sum = 1;
    for (let j = 1; j <= last; j++) {
      const t = j * step;
      let [real, imaginary] = [0, 0]; // parts of the moment minus 1
      for (const { half, excess, grown } of parts) {
        const sine = Math.sin(t * half);
        real += excess - grown * sine * sine;
        imaginary += grown * sine * Math.cos(t * half);
      }
      const size = 0.5 * Math.log1p(2 * real + real * real + imaginary * imaginary);
      const log = terms * (size - Math.log1p(excess)) - (noise * t) ** 2 / 2;
      const turned = terms * Math.atan2(imaginary, 1 + real) + noise * noise * tilt * t;
      const turn = turned - 2 * Math.atan2(t, tilt);
      sum += (2 * Math.exp(log) * Math.cos(turn)) / (1 + (t / tilt) ** 2);
    }
    const rest = (2 * tilt ** 2 * Math.exp(-((noise * last * step) ** 2) / 2)) / (last * step * step);
    const largest = logMoment + SMOOTHING ** 2 / 2 - 2 * Math.log(tilt);
    return largest + Math.log(((sum + rest) * step) / (2 * Math.PI));
  }

  /** Return whether shuffled k-RR meets a target (docs/accounting.md, "The bound for every data set"). */
  function krrKeeps({ n, k, eps, logDelta }, eps0) {
    if (eps0 <= eps) return true;
    const [E, e] = [Math.exp(eps0), Math.exp(eps)];
    const q = 1 / (Math.expm1(eps0) + k);
    const atoms = [
      [E - e, q],
      [-Math.expm1(eps + eps0), q],
      [-Math.expm1(eps), (k - 2) * q],
    ];
    const enough = logDelta + Math.log(n) - ROUNDING;
    return logMeanExcess(n, atoms, enough) <= enough;
  }

  /** Return whether reports among dummies meet a target. Each of `chances` adds a dummy to a cell with probability q. */
  function dummiesKeep({ eps, logDelta }, chances, q) {
    const atoms = [
      [1, q],
      [-Math.exp(eps), q],
    ];
    const enough = logDelta + Math.log((chances + 1) * q) - ROUNDING;
    return logMeanExcess(chances + 1, atoms, enough) <= enough;
  }

  /** Return the log of the delta of normal noise, from the two tails of the law by Simpson's rule. */
  function logDeltaGaussian(eps, sigma) {
    const mu = Math.SQRT2 / sigma;
    const x = eps / mu - mu / 2;
    const [steps, end] = [2000, 12 + Math.max(-x, 0)];
    let sum = 0;
    for (let j = 1; j <= steps; j++) {
      const t = (j * end) / steps;
      const weight = j === steps ? 1 : j % 2 ? 4 : 2;
      sum -= weight * Math.exp(-t * (x + t / 2)) * Math.expm1(-mu * t);
    }
    return Math.log((sum * end) / steps / 3 / Math.sqrt(2 * Math.PI)) - (x * x) / 2 + ROUNDING;
  }

  /** Return the log of the delta of two-sided geometric noise over rounds; the loss of a round is at most `budget`. */
  function logDeltaGeometric({ eps, rounds }, budget) {
    // The total loss is net * budget, where rounds + net is binomial with 2 * rounds trials.
    const logOdds = -budget / 2; // of a loss of -budget / 2 instead of budget / 2 in one cell
    let logMass = -2 * rounds * Math.log1p(Math.exp(logOdds));
    let sum = 0;
    for (let failures = 0; failures <= rounds; failures++) {
      const above = (rounds - failures) * budget - eps;
      if (above <= 0) break;
      sum -= Math.exp(logMass) * Math.expm1(-above);
      logMass += Math.log((2 * rounds - failures) / (failures + 1)) + logOdds;
    }
    return Math.log(sum) + ROUNDING;
  }

  /** Return the log of the delta of discrete Gaussian noise over rounds; sigma is at least SMALLEST_SIGMA.
   *
   * The total loss is D / sigma^2, where D - rounds is the sum of 2 * rounds noises. Up to a share that
   * is far below the smallest delta, the sum is a discrete Gaussian with 2 * rounds times the variance.
   */
  function logDeltaDiscreteGaussian({ eps, rounds }, sigma) {
    if (sigma > LARGEST_SUMMED_SIGMA) {
      // The sum over integers differs from the integral by less than this share. The accountant rounds
      // losses up to a grid for such a sigma, for which GRID_ROUNDING allows.
      const difference = 0.5 * (eps / (2 * rounds) + 1 / sigma ** 2) ** 2;
      return logDeltaGaussian(eps, sigma / Math.sqrt(rounds)) + difference + GRID_ROUNDING;
    }
    const deviation = sigma * Math.sqrt(2 * rounds);
    const first = Math.floor(eps * sigma ** 2) + 1;
    const last = Math.max(first, rounds) + 14 * deviation;
    const start = ((first - rounds) / deviation) ** 2 / 2;
    let sum = 0;
    for (let d = first; d <= last; d++) {
      sum -= Math.exp(start - ((d - rounds) / deviation) ** 2 / 2) * Math.expm1(eps - d / sigma ** 2);
    }
    return Math.log(sum / deviation / Math.sqrt(2 * Math.PI)) - start + ROUNDING;
  }

  /** Return the fewest dummies nu per cell with which truncation at 0 meets a target over rounds.
   *
   * `logDelta` is the log of the delta without truncation. `law(nu)` has the probabilities, without
   * truncation, of exactly 0 dummies (`none`) and of fewer (`cut`).
   */
  function fewestDummies(target, logDelta, law) {
    const keeps = (nu) => {
      const { none, cut } = law(nu);
      // All probabilities grow by 1 / (1 - cut), and 0 dummies in the other cell reveal the record.
      const finite = logDelta - 2 * target.rounds * Math.log1p(-cut);
      return Math.exp(finite - target.logDelta) + (target.rounds * none) / (1 - cut) / Math.exp(target.logDelta) <= 1;
    };
    return smallestWhole(keeps, 0);
  }

  /** Return the log of the delta of dummies by the shuffler, as `shuffledp.accounting.geometric` does at its budget. */
  function logDeltaShuffler(eps, nu) {
    const theta = Math.exp(-eps / 2);
    const below = -Math.expm1((-eps / 2) * nu);
    return (-eps / 2) * nu + Math.log((1 - theta) / (1 + theta * below)) + ROUNDING;
  }

  /** Bisect between `met`, which meets a condition, and `failed`, which does not. Return a point that meets it. */
  function crossing(meets, met, failed, tolerance) {
    while (Math.abs(failed - met) > tolerance * Math.abs(met)) {
      const middle = (met + failed) / 2;
      if (meets(middle)) met = middle;
      else failed = middle;
    }
    return met;
  }

  /** Return the smallest integer from `start` on that meets a monotone condition. */
  function smallestWhole(meets, start) {
    let [below, step] = [start - 1, 1];
    while (!meets(below + step)) {
      below += step;
      step *= 2;
    }
    let number = below + step;
    while (number - below > 1) {
      const middle = Math.floor((below + number) / 2);
      if (meets(middle)) number = middle;
      else below = middle;
    }
    return number;
  }

  const rounded = (whole) => (value) => {
    const unit = 10 ** (Math.floor(Math.log10(value)) + 1 - DIGITS);
    return Number((whole(value / unit) * unit).toPrecision(DIGITS));
  };
  const up = rounded(Math.ceil);
  const down = rounded(Math.floor);

  /** Return the smallest number that meets a condition, rounded up. `met` is a number that meets it. */
  function smallest(meets, met) {
    let failed = met / 2;
    while (meets(failed)) failed /= 2;
    return up(crossing(meets, 2 * failed, failed, TOLERANCE));
  }

  /** Return the largest number that meets a condition, rounded down. `met` is a number that meets it. */
  function largest(meets, met) {
    while (meets(2 * met)) met *= 2;
    return down(crossing(meets, met, 2 * met, TOLERANCE));
  }

  /** Return moments of the two-sided geometric law with budget eps, centred at nu and truncated at 0 if nu is finite. */
  function geometricMoments(eps, nu) {
    const theta = Math.exp(-eps / 2);
    const rest = -Math.expm1(-eps / 2);
    const odds = theta / rest;
    const off = nu === Infinity ? 0 : theta ** (nu + 1) / (1 + theta);
    const start = nu === Infinity ? 0 : nu + 1 + odds;
    const shift = (off * start) / (1 - off);
    const variance = ((2 * odds) / rest - off * (odds / rest + start ** 2)) / (1 - off) - shift ** 2;
    const first = Math.floor(shift) + 1;
    const above = (theta ** first * (first - shift + odds)) / (1 + theta) / (1 - off);
    return { mean: nu + shift, deviation: Math.sqrt(variance), absolute: 2 * above };
  }

  /** Return the mean absolute error of the noise of both servers, as a sum over the shuffler's dummies. */
  function bothAbsolute(eps, nu, mean) {
    const theta = Math.exp(-eps / 2);
    const odds = theta / -Math.expm1(-eps / 2);
    const last = nu + Math.ceil(80 / eps); // the rest has a probability of exp(-40)
    let [sum, total] = [0, 0];
    for (let dummies = 0; dummies <= last; dummies++) {
      const weight = theta ** Math.abs(dummies - nu);
      const apart = Math.abs(dummies - mean);
      const first = Math.floor(apart) + 1;
      total += weight;
      sum += weight * (apart + (2 * theta ** first * (first - apart + odds)) / (1 + theta));
    }
    return sum / total;
  }

  /** Return moments of discrete Gaussian noise, truncated below -nu if nu is finite. */
  function gaussianMoments(sigma, nu) {
    const end = Math.ceil(14 * sigma);
    let [total, first, second] = [0, 0, 0];
    for (let z = -Math.min(nu, end); z <= end; z++) {
      const weight = Math.exp(-((z / sigma) ** 2) / 2);
      total += weight;
      first += weight * z;
      second += weight * z * z;
    }
    const mean = first / total;
    let absolute = 0;
    for (let z = -Math.min(nu, end); z <= end; z++) absolute += Math.exp(-((z / sigma) ** 2) / 2) * Math.abs(z - mean);
    return { mean, variance: second / total - mean * mean, absolute: absolute / total };
  }

  /** Return geometric noise of the shuffler that meets a target: its budget per round and dummies nu. */
  function geometricDummies(target) {
    const { eps, rounds, logDelta } = target;
    if (rounds === 1) return { budget: eps, nu: smallestWhole((value) => logDeltaShuffler(eps, value) <= logDelta, 0) };
    const keeps = (value) => logDeltaGeometric(target, value) <= logDelta + Math.log1p(-TRUNCATION_SHARE);
    const budget = largest(keeps, eps / rounds);
    const theta = Math.exp(-budget / 2);
    const law = (nu) => ({ none: ((1 - theta) / (1 + theta)) * theta ** nu, cut: theta ** (nu + 1) / (1 + theta) });
    return { budget, nu: fewestDummies(target, logDeltaGeometric(target, budget), law) };
  }

  /** Return the plan of both servers with discrete Laplace noise. */
  function geometricServers(target) {
    const { budget, nu } = geometricDummies(target);
    const [shuffler, analyst] = [geometricMoments(budget, nu), geometricMoments(budget, Infinity)];
    return {
      parameters: `eps=${budget}, nu=${nu}`,
      noise: "discrete Laplace",
      deviation: Math.hypot(shuffler.deviation, analyst.deviation),
      absolute: () => bothAbsolute(budget, nu, shuffler.mean),
      mean: shuffler.mean,
    };
  }

  /** Return the plan of both servers with discrete Gaussian noise of at most `most`, or null if there is none. */
  function gaussianServers(target, most) {
    const enough = target.logDelta + Math.log1p(-TRUNCATION_SHARE);
    const keeps = (sigma) => logDeltaDiscreteGaussian(target, sigma) <= enough;
    const end = Math.min(most, LARGEST_SIGMA);
    if (end < SMALLEST_SIGMA || !keeps(end)) return null;
    const sigma = keeps(SMALLEST_SIGMA) ? SMALLEST_SIGMA : up(crossing(keeps, end, SMALLEST_SIGMA, TOLERANCE));
    const weight = (z) => Math.exp(-((z / sigma) ** 2) / 2);
    const whole = sigma * Math.sqrt(2 * Math.PI);
    const law = (nu) => ({
      none: weight(nu) / whole,
      // Ratios of consecutive probabilities fall, so the tail is below a geometric series.
      cut: Math.min(weight(nu + 1) / whole / -Math.expm1(-(2 * nu + 3) / (2 * sigma * sigma)), 0.5),
    });
    const nu = fewestDummies(target, logDeltaDiscreteGaussian(target, sigma), law);
    const [shuffler, analyst] = [gaussianMoments(sigma, nu), gaussianMoments(sigma, Infinity)];
    const deviation = Math.sqrt(shuffler.variance + analyst.variance);
    return {
      parameters: `sigma=${sigma}, nu=${nu}`,
      noise: "discrete Gaussian",
      deviation,
      absolute: () => gaussianMoments(deviation, Infinity).absolute,
      mean: nu + shuffler.mean,
    };
  }

  /** Return the mean absolute value of a normal error. */
  const normal = (deviation) => deviation * Math.sqrt(2 / Math.PI);

  const MECHANISMS = {
    gaussian({ eps, logDelta, rounds }) {
      // Over rounds the noise is that of one round times the square root of their number.
      const keeps = (value) => logDeltaGaussian(eps, value / Math.sqrt(rounds)) <= logDelta;
      let met = 1;
      while (!keeps(met)) met *= 2;
      const sigma = smallest(keeps, met);
      return { parameters: `sigma=${sigma}`, deviation: sigma, absolute: normal(sigma) };
    },
    "discrete-laplace"(target) {
      const { eps, rounds, logDelta } = target;
      const budget = rounds === 1 ? eps : largest((value) => logDeltaGeometric(target, value) <= logDelta, eps / rounds);
      const { deviation, absolute } = geometricMoments(budget, Infinity);
      return { parameters: `eps=${budget}`, deviation, absolute };
    },
    "shuffler-dummies"(target) {
      const { n, k } = target;
      const { budget, nu } = geometricDummies(target);
      const { mean, deviation, absolute } = geometricMoments(budget, nu);
      return { parameters: `eps=${budget}, nu=${nu}`, deviation, absolute, messages: 1 + (k * mean) / n };
    },
    "two-servers"(target) {
      const { n, k } = target;
      const geometric = geometricServers(target);
      const gaussian = gaussianServers(target, geometric.deviation / Math.SQRT2);
      const plan = gaussian !== null && gaussian.deviation < geometric.deviation ? gaussian : geometric;
      return { ...plan, absolute: plan.absolute(), messages: 1 + (k * plan.mean) / n };
    },
    "user-dummies"(target) {
      const { n, k } = target;
      const meets = (dummies, chances) => dummiesKeep(target, n * chances, dummies / chances / k);
      const chances = smallestWhole((r) => meets(r, r), 1);
      const dummies = Math.min(smallest((value) => meets(value, chances), chances), chances);
      const q = dummies / chances / k;
      const deviation = Math.sqrt(n * chances * q * (1 - q));
      return {
        parameters: `dummies=${dummies}, chances=${chances}`,
        deviation,
        absolute: normal(deviation),
        messages: 1 + dummies,
        moved: 1 + chances,
      };
    },
    krr(target) {
      const { n, k, eps } = target;
      const meets = (eps0) => krrKeeps(target, eps0);
      let met = eps;
      while (meets(2 * met)) met *= 2;
      const eps0 = Math.max(down(crossing(meets, met, 2 * met, TOLERANCE)), eps);
      const q = 1 / (Math.expm1(eps0) + k);
      const [p, apart] = [Math.exp(eps0) * q, Math.expm1(eps0) * q];
      const deviation = Math.sqrt(n * ((p * (1 - p)) / k + (1 - 1 / k) * q * (1 - q))) / apart;
      return {
        parameters: `eps0=${eps0}`,
        deviation,
        absolute: normal(deviation),
        localEps0: eps0,
        moved: 1 / apart,
      };
    },
  };

  // Mechanisms whose delta over several rounds is computed here.
  const REPEATED = ["gaussian", "discrete-laplace", "shuffler-dummies", "two-servers"];

  /** Return parameters and predicted errors of each mechanism at (eps, delta), the best first.
   *
   * `n`, `k` and `rounds` are integers in the ranges of `data`; eps is positive, delta between 0 and
   * 1, for all rounds together. For several rounds there are plans of `REPEATED` only. The errors are
   * those of `shuffledp compare` for the unbiased estimate of a uniform histogram: the standard
   * deviation per cell in records, and the expected total variation distance. `localEps0` is null
   * where a message reveals the record, `noise` names a shape that was chosen, and `moved` is the
   * largest number of records by which one user's messages change a cell.
   */
  function planFor(data, { n, k, eps, delta, rounds }) {
    const target = { n, k, eps, logDelta: Math.log(delta), rounds };
    const offered = data.mechanisms.filter(({ mechanism }) => rounds === 1 || REPEATED.includes(mechanism));
    const plans = offered.map(({ mechanism, label, title, kind }) => {
      const plan = MECHANISMS[mechanism](target);
      return {
        mechanism,
        label,
        title,
        kind,
        parameters: plan.parameters,
        noise: plan.noise ?? null,
        moved: plan.moved ?? 1,
        cellError: plan.deviation,
        distance: (0.5 * k * plan.absolute) / n,
        messages: plan.messages ?? 1,
        localEps0: plan.localEps0 ?? null,
      };
    });
    return plans.sort((one, other) => one.distance - other.distance);
  }

  const significant = (value) => value.toLocaleString("en-US", { minimumSignificantDigits: 3, maximumSignificantDigits: 3 });
  const hundredths = (value) => value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });

  /** Format a share from its complement, as `shuffledp.page.sentences.percent` does. */
  function percent(complement) {
    if (complement >= 0.01) return `${Math.ceil(1000 * (1 - complement)) / 10} %`;
    return complement > 1e-15 ? `all but one in ${Math.ceil(1 / complement).toLocaleString("en-US")}` : "all";
  }

  const COLUMNS = [
    ["Error per cell (records)", "number", (plan) => significant(plan.cellError)],
    ["Share to be moved", "number", (plan) => (plan.distance > 1 ? "all (only noise)" : `${significant(100 * plan.distance)} %`)],
    ["Ten dishonest users move a cell by", "number", (plan) => significant(10 * plan.moved)],
    ["Parameters", "", (plan) => (plan.noise === null ? plan.parameters : `${plan.parameters} (${plan.noise})`)],
    ["Messages per user", "number", (plan) => hundredths(plan.messages)],
    ["Local budget of a record's messages, eps0", "number", (plan) => (plan.localEps0 === null ? "none: it reveals the record" : hundredths(plan.localEps0))],
  ];

  /** Return a table of the plans, in parts by kind of trust; `groups` maps each kind to its heading. */
  function table(plans, groups, caption) {
    const heads = [["Mechanism", ""], ...COLUMNS];
    const row = (plan) => element("tr", {},
      element("th", { scope: "row", text: plan.title }),
      ...COLUMNS.map(([title, kind, shown]) => element("td", { class: kind, text: shown(plan), "data-head": title })));
    const parts = Object.entries(groups).map(([kind, text]) => [text, plans.filter((plan) => plan.kind === kind)]).filter(([, rows]) => rows.length);
    return element("table", { class: "cards" },
      element("caption", { text: caption }),
      element("thead", {}, element("tr", {}, ...heads.map(([title, kind]) => element("th", { scope: "col", class: kind, text: title })))),
      ...parts.map(([text, rows]) => element("tbody", {},
        element("tr", { class: "group" }, element("th", { scope: "rowgroup", colspan: heads.length, text })), ...rows.map(row))));
  }

  /** Return the number in a text, which may have commas between thousands; NaN if it is not a number. */
  function numberIn(text) {
    const plain = /^\s*[0-9]{1,3}(,[0-9]{3})+\s*$/.test(text) ? text.replaceAll(",", "") : text;
    return NUMBER.test(plain) ? Number(plain) : NaN;
  }

  /** Return a message on what is wrong with a field's text; empty if it is a whole number in range. */
  function complaint(name, text, { min, max }) {
    const value = numberIn(text);
    if (Number.isInteger(value) && value >= min && value <= max) return "";
    const received = text.trim() === "" ? "nothing" : text.trim();
    return `${name} must be a whole number from ${number.format(min)} to ${number.format(max)}, got ${received}.`;
  }

  /** Mount the planner in an element; `data` is from `shuffledp.page.data.planner_data`. */
  function mountPlanner(home, data) {
    const controls = element("form", { class: "controls" });
    const field = (name, label) => {
      const input = element("input", { id: `planner-${name}`, type: "text", inputmode: "numeric", size: "12", autocomplete: "off", value: data.start[name] });
      input.addEventListener("input", show);
      controls.append(element("div", {}, element("label", { for: input.id, text: label }), input));
      return input;
    };
    const choice = (name, label, format) => {
      const control = select(controls, `planner-${name}`, label, data[name].map((value) => [value, format(value)]), show);
      control.value = String(data.start[name]);
      return control;
    };
    const fields = {
      n: field("n", "Users n, one record each"),
      k: field("k", "Cells k"),
      rounds: field("rounds", "Rounds: maps of the same users"),
      eps: choice("eps", "Guarantee: eps", String),
      delta: choice("delta", "Guarantee: delta", (value) => value.toExponential()),
    };
    const error = element("p", { class: "error", id: "planner-error", "aria-live": "polite" });
    const noise = element("p", { class: "noise", id: "planner-noise", "aria-live": "assertive" });
    const best = element("div", { class: "readout", id: "planner-best", "aria-live": "polite" });
    const answer = element("div", { class: "answer" });
    controls.addEventListener("submit", (event) => event.preventDefault());
    home.replaceChildren(controls, error, noise, best, answer);
    let previous = null;
    const rows = () => [...answer.querySelectorAll("tr")].map((row) => [...row.children].map((cell) => cell.textContent));
    downloads(home, () => "planner", rows);

    function show() {
      const wrong = {
        n: complaint("Users n", fields.n.value, data.n),
        k: complaint("Cells k", fields.k.value, data.k),
        rounds: complaint("Rounds", fields.rounds.value, data.rounds),
      };
      for (const [name, message] of Object.entries(wrong)) {
        fields[name].setAttribute("aria-invalid", String(message !== ""));
        fields[name].setAttribute("aria-describedby", error.id);
      }
      error.textContent = wrong.n || wrong.k || wrong.rounds;
      best.hidden = noise.hidden = error.textContent !== "";
      answer.replaceChildren();
      if (error.textContent) return;

      const target = Object.fromEntries(Object.entries(fields).map(([name, control]) => [name, numberIn(control.value)]));
      const { n, k, eps, delta, rounds } = target;
      const plans = planFor(data, target);
      const bestOf = (kind) => plans.find((plan) => plan.kind === kind);
      const apart = plans.filter((plan) => plan.kind === "apart").sort((one, other) => one.messages > 2 && other.messages <= 2 ? 1 : 0)[0];
      const withError = (plan) => `${plan.label}, with a typical error per cell of ${significant(plan.cellError)} records`;
      const alone = bestOf("local");
      const noisy = () => (k - 1) / (k - 1 + Math.exp(alone.localEps0));
      const maps = rounds === 1 ? "one map" : `each of ${number.format(rounds)} maps`;
      best.replaceChildren(
        element("p", { text: `For ${maps}, with a guarantee for ${rounds === 1 ? "the record" : `all ${number.format(rounds)} records`} of a user:` }),
        element("ul", {},
          element("li", { text: `If one curator may hold all records: ${withError(bestOf("curator"))}. A single record is the truth, and the curator sees it.` }),
          element("li", { text: `If the shuffler and the analyst do not collude: ${withError(apart)}. A single report is the truth, to whoever decrypts it and knows its sender.` }),
          element("li", {
            text: alone
              ? `If even both together may see only noisy reports: ${withError(alone)}. A single report is noisy: ${percent(noisy())} of the reports are the truth.`
              : "If users add the noise, or if even both together may see only noisy reports: use the command below. Over many rounds such mechanisms may have a smaller error, but dishonest users move their maps further.",
          })));
      noise.hidden = plans[0].cellError <= n / k;
      noise.textContent = noise.hidden ? "" : `This map would be only noise. The best mechanism is ${withError(plans[0])}, and a cell has ${significant(n / k)} on average. Use fewer cells or more users.`;
      const caption = `Mechanisms at eps = ${eps} and delta = ${delta.toExponential()} for ${number.format(n)} users in ${number.format(k)} cells, ${maps}`;
      const note = "Predictions for users spread evenly over the cells, before projection. Nothing is interpolated: the page computes a certified " +
        `bound for exactly these numbers and rounds parameters to the safe side, which makes an error at most ${100 * data.loss} % larger. ` +
        "This command prints all digits and the other mechanisms:";
      const command = `shuffledp compare --n ${n} --k ${k} --eps ${eps} --delta ${delta.toExponential()}${rounds === 1 ? "" : ` --rounds ${rounds}`}`;
      answer.append(
        element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Mechanisms at your target" }, table(plans, data.groups, caption)),
        element("p", { class: "note", text: note }),
        element("pre", {}, element("code", { id: "planner-command", text: command })));
    }
    show();

    /** Start from the choice for the whole page; an eps or delta that the planner does not offer is ignored. */
    function begin({ region, n, promise }) {
      const chosen = JSON.stringify([region.title, n, promise]);
      if (chosen === previous) return;
      previous = chosen;
      fields.n.value = n;
      fields.k.value = region.k;
      const guarantee = region.promises.find((one) => one.promise === promise);
      for (const name of ["eps", "delta"]) if (data[name].includes(guarantee?.[name])) fields[name].value = String(guarantee[name]);
      show();
    }
    return { show: begin, redraw() {} };
  }

  return { planFor, mountPlanner };
})();
