"""Privacy loss distributions of the pairs behind shuffled k-RR, on a grid, rounded up or down.

Of a pair in its `SymmetricForm` the loss log(P/Q) depends on u and, weakly, on the single number D,
and -u mirrors u.

Both roundings are second order in the step and certified:

* up: an atom of loss between two grid points becomes two atoms on them with the same total P and
  Q. The original is a post-processing of the result, so every hockey-stick divergence grows, for
  any number of rounds. Outcomes that are left out count as infinite loss.
* down: atoms are pooled such that P and Q of the pool stand in a ratio on the grid. The result is
  a post-processing of the original. Outcomes that are left out are missing.

The same two ideas bundle values of n3, whose D lies in a known range, neighbouring u, and
neighbouring large s: u is then the sum of as many fair coins as the largest s of a bundle has (up),
or the smallest (down).

Floating point is bounded as it goes: by how much masses and losses may be wrong is part of the
result, and `composition` takes it into account.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from shuffledp.accounting.conventions import Side
from shuffledp.accounting.laws.binomial import (
    log_cdf_ends,
    log_pmf,
    log_pmf_error,
    log_sf_ends,
)
from shuffledp.accounting.pairs import Pair, SymmetricForm, symmetric_form
from shuffledp.arrays import Floats

# Windows leave out exp(-DEPTH) on each side, by Bernstein's inequality; deeper ones on demand, down
# to where a float ends.
DEPTH, DEEPEST = 46.0, 690.0
# Relative range of D within a bundle of n3, and of s within a bundle of s: some 1e-5 of epsilon
# each.
_RANGE = 4e-3
_BUNDLE = 1e-4
_CHUNK = 1_000_000
_UNIT = 2.0**-53
# Relative error of the cell probabilities, in units of rounding.
_INPUTS = 8.0
_LOST = 1e-3  # relative error from which on a difference of two tails counts as lost
# Grid steps per standard deviation of the loss, and bundles of u per grid step.
_RESOLUTION = 128
_BUNDLES = 4.0
# Pools are formed from cells this many times narrower than a grid step.
_CELLS = 4


def default_step(pair: Pair) -> float:
    """Return a step for which rounding changes epsilon by some 1e-5 of itself.

    Near its centre the loss sits close to the multiples of ``g / n``: a step that divides
    this puts them on the grid.

    Raises
    ------
    ValueError
        If the two laws of the pair do not mirror each other.
    """
    form = symmetric_form(pair)
    largest = np.log((form.weight_s + form.gain) / max(form.weight_s - form.gain, 1e-3))
    wanted = min(form.deviation, largest / 8.0) / _RESOLUTION
    spacing = form.gain / form.n
    return float(spacing / np.ceil(spacing / wanted) if spacing > wanted else wanted)


@dataclass(frozen=True)
class LossDistribution:
    """Law under P of the privacy loss, on the points ``step * (start + i)``.

    Attributes
    ----------
    step
        Distance of grid points, in units of the loss (natural log).
    start
        Index of the first grid point.
    mass
        Probabilities under P; they add up to at most ``1 - infinite``.
    infinite
        Probability of an infinite loss.
    mass_error, loss_error
        What floating point did: the masses are right to this relative error, the losses to this
        absolute one.
    """

    step: float
    start: int
    mass: Floats
    infinite: float
    mass_error: float = 0.0
    loss_error: float = 0.0

    @property
    def losses(self) -> Floats:
        """The grid points."""
        return self.step * (self.start + np.arange(self.mass.size, dtype=np.float64))


# --- Enumeration of the outcomes ----------------------------------------------------------------


@dataclass(frozen=True)
class Bundles:
    """Outcomes with ``u >= 0`` in bundles; those with ``u = 0`` count half, as do their mirrors.

    Attributes
    ----------
    low, loss, high
        Smallest loss of a bundle, the loss of all of it as one outcome, its largest loss.
    mass
        Probability under P.
    mass_error, loss_error
        As for `LossDistribution`.
    """

    low: Floats
    loss: Floats
    high: Floats
    mass: Floats
    mass_error: float
    loss_error: float

    def pooled(self) -> tuple[Floats, Floats]:
        """Loss and mass of every bundle as one outcome, which it dominates."""
        return self.loss, self.mass

    def spread(self) -> list[tuple[Floats, Floats]]:
        """Losses and masses at the ends of every bundle: they dominate it.

        All of a bundle that reaches an infinite loss is put there.
        """
        share = np.where(np.isinf(self.high), 1.0, _share(self.low, self.loss, self.high))
        upper = self.mass * share
        return [(self.low, self.mass - upper), (self.high, upper)]


def _loss(gu: Floats, less: Floats) -> Floats:
    """The loss where ``D - g u`` is ``less``, which may not come from a difference."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log1p(2.0 * gu / np.maximum(less, 0.0))
    return np.where(gu > 0.0, value, 0.0)


def _share(low: Floats, value: Floats, high: Floats) -> Floats:
    """Share of P's mass that goes to `high`, the rest to `low`, to keep the mass of Q."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.expm1(low - value) / np.expm1(low - high)
    return np.where(high > low, share, 0.0).clip(0.0, 1.0)


@dataclass(frozen=True)
class _Rows:
    """Per bundle of s: its coins, the sums of B and B H over its n3-bundles, and the range of H.

    ``H = D - g coins``, so that ``D - g u = H + g (coins - u)`` without a difference. ``error`` is
    the relative one of the sums.
    """

    coins: Floats
    total: Floats
    moment: Floats
    low: Floats
    high: Floats
    left_out: float
    error: float


def _reach(variance: float, depth: float) -> float:
    """What a sum of independent 0s and 1s is off its mean, to one side, by chance exp(-depth)."""
    return float(depth / 3.0 + np.sqrt(depth * depth / 9.0 + 2.0 * variance * depth))


@dataclass(frozen=True)
class _Intervals:
    """Probabilities of intervals, their relative error, and the largest of those that are lost."""

    probability: Floats
    error: float
    lost: float


def _interval_probabilities(edges: Floats, n: Floats, p: float, middle: int) -> _Intervals:
    """``Pr[edges_j < Bin(n, p) <= edges_{j+1}]``, from the nearer tail (`middle`: the mean).

    Next to a much larger tail a probability is lost in its rounding: it comes out as 0.
    """
    left = log_cdf_ends(edges[:, : middle + 1], n, p, inputs=_INPUTS)
    right = log_sf_ends(edges[:, middle:] + 1.0, n, p, inputs=_INPUTS)

    def between(inner: tuple[Floats, Floats], outer: tuple[Floats, Floats]) -> Floats:
        """The nearer end of each interval less its farther one."""
        return np.hstack(
            [
                np.exp(inner[0][:, 1:]) - np.exp(outer[0][:, :-1]),
                np.exp(inner[1][:, :-1]) - np.exp(outer[1][:, 1:]),
            ]
        )

    lows, highs = (left.low, right.low), (left.high, right.high)
    empty = edges[:, 1:] == edges[:, :-1]
    low = np.where(empty, 0.0, between(lows, highs).clip(0.0))
    high = np.where(empty, 0.0, between(highs, lows).clip(0.0))
    known = high - low < _LOST * (high + low)
    error = ((high - low) / np.where(known, low + high, 1.0))[known].max(initial=0.0)
    return _Intervals(
        probability=np.where(known, 0.5 * (low + high), 0.0),
        error=float(error),
        lost=float(np.where(known, 0.0, high).sum(axis=1).max()),
    )


@dataclass(frozen=True)
class _ThirdCounts:
    """Bundles of n3 given s: edges (lower excluded), probabilities and ``E[n3; .]``, by row of s.

    ``left_out`` bounds the probability outside; ``error`` is the relative one of the sums.
    """

    edges: Floats
    probability: Floats
    moment: Floats
    left_out: float
    error: float


def _third_counts(form: SymmetricForm, s: Floats, depth: float) -> _ThirdCounts:
    trials = (form.n - s)[:, None]
    pi = min(form.p3 / (1.0 - 2.0 * form.q), 1.0)
    if pi == 0.0:
        edges = np.broadcast_to([-1.0, 0.0], (s.size, 2))
        return _ThirdCounts(edges, np.ones_like(trials), np.zeros_like(trials), 0.0, 0.0)
    half = np.ceil(_reach(float(trials.max()) * pi * (1.0 - pi), depth))
    # Deep windows are wide: they get as many bundles as others.
    width = max(1.0, np.floor(_RANGE * depth / DEPTH * 2.0 * form.n / form.weight_3))
    if 2.0 * half <= width:
        # One bundle holds all but what is left out.
        mean = trials * pi
        edges = np.clip(
            np.hstack([np.floor(mean) - half - 1.0, np.ceil(mean) + half]), -1.0, trials
        )
        outside = 2.0 * float(np.exp(-depth))
        error = _UNIT * (_INPUTS + 2.0) + float(form.n) * outside
        return _ThirdCounts(edges, np.ones_like(trials), mean, outside, error)
    middle = int(np.ceil(half / width))
    steps = width * np.arange(-middle, middle + 1)
    edges = np.clip(np.floor(trials * pi) + steps, -1.0, trials)
    chances = _interval_probabilities(edges, trials, pi, middle)
    fewer = np.maximum(trials - 1.0, 0.0)
    moments = _interval_probabilities(edges - 1.0, fewer, pi, middle)
    below = log_cdf_ends(edges[:, :1], trials, pi, inputs=_INPUTS).high
    above = log_sf_ends(edges[:, -1:] + 1.0, trials, pi, inputs=_INPUTS).high
    outside = float((np.exp(below) + np.exp(above)).max())
    return _ThirdCounts(
        edges,
        chances.probability,
        trials * pi * moments.probability,
        outside + chances.lost + float(trials.max()) * pi * moments.lost,
        max(chances.error, moments.error) + _UNIT * (_INPUTS + 4.0),
    )


def _rows(form: SymmetricForm, side: Side, depth: float) -> _Rows:
    share, rest = 2.0 * form.q, 1.0 - 2.0 * form.q
    half = _reach(form.n * share * (1.0 - share), depth)
    first = max(np.floor(form.n * share - half), 0.0)
    last = min(np.ceil(form.n * share + half), float(form.n))
    s = np.arange(first, last + 1.0)
    width = max(1, int(_BUNDLE * depth / DEPTH * first))
    starts = np.arange(0, s.size, width)
    coins = np.append(s[starts[1:] - 1], s[-1]) if side == "upper" else s[starts]
    third = _third_counts(form, s, depth)
    beside = s - np.repeat(coins, np.diff(np.append(starts, s.size)))
    base = (form.weight_less * s + form.gain * beside + form.constant)[:, None]
    mass = np.exp(log_pmf(s, form.n, share, rest))[:, None]
    error = float(log_pmf_error(s, form.n, share, rest, _INPUTS).max())
    outside = np.exp(log_cdf_ends(first - 1.0, form.n, share, inputs=_INPUTS).high) + np.exp(
        log_sf_ends(last + 1.0, form.n, share, inputs=_INPUTS).high
    )
    return _Rows(
        coins=coins,
        total=np.add.reduceat(mass * third.probability, starts),
        moment=np.add.reduceat(
            mass * (base * third.probability + form.weight_3 * third.moment), starts
        ),
        low=np.minimum.reduceat(base + form.weight_3 * (third.edges[:, :-1] + 1.0), starts),
        high=np.maximum.reduceat(base + form.weight_3 * third.edges[:, 1:], starts),
        left_out=float(outside) + third.left_out,
        error=error + third.error + _UNIT * (width + form.units + 12.0),
    )


def _bundles(form: SymmetricForm, rows: _Rows, largest: float, step: float) -> Iterator[Bundles]:
    counts = np.arange(largest // 2 + 1, dtype=np.float64)
    # Neighbouring u whose losses differ by a fraction of a step: the loss is 2 g u / D, D about 2n.
    per_count = 2.0 * form.gain / form.n
    together = max(1, int(step / _BUNDLES / per_count)) if step > 0.0 else 1
    starts = np.arange(0, counts.size, together)
    ends = np.append(starts[1:], counts.size) - 1
    at_once = max(1, _CHUNK // (counts.size + starts.size * rows.total.shape[1]))
    for i in range(0, rows.coins.size, at_once):
        part = slice(i, i + at_once)
        coins = rows.coins[part, None]
        u = 2.0 * counts + coins % 2.0
        heads = (coins + u) / 2.0
        pmf = np.exp(log_pmf(heads, coins, 0.5)) * np.where(u > 0.0, 1.0, 0.5)
        inside = np.broadcast_to(heads <= coins, u.shape)
        error = np.where(inside, log_pmf_error(np.minimum(heads, coins), coins, 0.5, 0.5, 0.0), 0.0)
        wrong = float(error.max()) + _UNIT * (together + 4.0)
        pmf_u = np.add.reduceat(pmf * u, starts, axis=1)
        pmf = np.add.reduceat(pmf, starts, axis=1)
        first, last = (u[:, edge, None] for edge in (starts, ends))
        with np.errstate(invalid="ignore"):
            middle = np.clip((pmf_u / pmf)[:, :, None], first, last)
        total, moment = rows.total[part, None, :], rows.moment[part, None, :]
        low, high = rows.low[part, None, :], rows.high[part, None, :]
        mean = np.clip(moment / np.where(total > 0.0, total, 1.0), low, high)
        coins = coins[:, :, None]
        of_coins = moment + form.gain * coins * total
        mass = (pmf[:, :, None] * of_coins + form.gain * pmf_u[:, :, None] * total) / (2.0 * form.n)
        keep = mass > 0.0

        def less(of_rest: Floats, u: Floats, coins: Floats = coins) -> Floats:
            return of_rest + form.gain * (coins - u)

        smallest, own, largest_loss = (
            np.broadcast_to(_loss(form.gain * u, less(rest, u)), keep.shape)[keep]
            for u, rest in ((first, high), (middle, mean), (last, low))
        )
        mass_error = rows.error + wrong
        # Means of u and of H are off by that share of their ranges, twice; with `less` as the
        # smaller of the loss's two terms, this is what its logarithm moves by.
        ranges = 6.0 * form.gain * (last - first) + 2.0 * (high - low)
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = np.broadcast_to(ranges / less(mean, middle), keep.shape)[keep]
        moved = moved[np.isfinite(moved)]
        loss_error = mass_error * float(moved.max(initial=0.0)) + _UNIT * (2.0 * form.units + 32.0)
        yield Bundles(smallest, own, largest_loss, mass[keep], mass_error, loss_error)


def bundles(
    pair: Pair, side: Side, step: float = 0.0, depth: float = DEPTH
) -> tuple[Iterator[Bundles], float]:
    """Outcomes of the pair, to be spread (upper) or pooled; bound of P's mass that is left out.

    Parameters
    ----------
    pair, side
        As for `rounded_up` and `rounded_down`.
    step
        Losses that differ by a fraction of it may be bundled; 0 for none.
    depth
        Windows leave out about ``exp(-depth)``.
    """
    form = symmetric_form(pair)
    rows = _rows(form, side, depth)
    most = float(rows.coins[-1])
    largest = min(np.ceil(2.0 * _reach(most / 4.0, depth)), most)
    outside = rows.left_out
    if largest < most:
        outside += 2.0 * float(np.exp(-depth))
    return _bundles(form, rows, largest, step), form.largest_weight * outside


# --- Rounding -----------------------------------------------------------------------------------


class Tally:
    """Sums of weights by index, and the relative error of adding them up."""

    def __init__(self, size: int = 1) -> None:
        self.total: Floats = np.zeros(size)
        self._most, self._parts = 0, 0

    def add(self, index: Floats, weights: Floats) -> None:
        """Add to the sums at these indices, whole numbers of at least 0."""
        at = index.astype(np.int64)
        tally = np.asarray(np.bincount(at, weights, minlength=self.total.size), np.float64)
        tally[: self.total.size] += self.total
        self.total = tally
        self._most = max(self._most, int(np.bincount(at).max(initial=0)))
        self._parts += 1

    @property
    def error(self) -> float:
        """Every addition rounds once."""
        return _UNIT * (self._most + self._parts)


def rounded_up(pair: Pair, step: float, depth: float = DEPTH) -> LossDistribution:
    """Loss distribution on a grid that dominates the pair's, for any number of rounds.

    What windows leave out, about ``exp(-depth)``, counts as infinite loss.
    """
    parts, left_out = bundles(pair, "upper", step, depth)
    tally, infinite, largest = Tally(), left_out, 0.0
    mass_error = loss_error = 0.0
    for part in parts:
        mass_error = max(mass_error, part.mass_error)
        loss_error = max(loss_error, part.loss_error)
        for losses, masses in part.spread():
            finite = np.isfinite(losses)
            infinite += float(masses[~finite].sum())
            loss, mass = losses[finite], masses[finite]
            index = np.floor(loss / step)
            above = loss - index * step
            upper = mass * _share(np.zeros_like(loss), above, np.full_like(loss, step))
            tally.add(index, mass - upper)
            tally.add(index + 1.0, upper)
            largest = max(largest, float(loss.max(initial=0.0)))
    half = tally.total
    mirror = half * np.exp(-step * np.arange(half.size))
    mass = np.concatenate([mirror[:0:-1], [2.0 * half[0]], half[1:]])
    # With a large budget shallow windows may leave out all: then nothing is said.
    return LossDistribution(
        step=step,
        start=1 - half.size,
        mass=mass,
        infinite=min(infinite * (1.0 + mass_error + tally.error), 1.0),
        mass_error=mass_error + tally.error + 8.0 * _UNIT * (1.0 + largest),
        loss_error=loss_error + 8.0 * _UNIT * largest,
    )


def rounded_down(pair: Pair, step: float) -> LossDistribution:
    """Loss distribution on a grid that the pair's dominates, for any number of rounds."""
    cell = step / _CELLS
    one, two, infinite = Tally(), Tally(), 0.0
    mass_error = loss_error = 0.0
    for part in bundles(pair, "lower", step)[0]:
        mass_error = max(mass_error, part.mass_error)
        loss_error = max(loss_error, part.loss_error)
        loss, mass = part.pooled()
        endless = np.isinf(loss)
        infinite += float(mass[endless].sum())
        loss, mass = loss[~endless], mass[~endless]
        index = np.floor(loss / cell)
        one.add(index, mass)
        two.add(index, mass * np.exp(-loss))
    keep = two.total > 0.0
    first, second = one.total[keep], two.total[keep]
    loss = np.maximum(np.log(first / second), 0.0)
    tallied = one.error + two.error + 8.0 * _UNIT * (1.0 + float(loss.max(initial=0.0)))
    return pooled_down(
        np.concatenate([-loss[::-1], loss]),
        np.concatenate([second[::-1], first]),
        infinite,
        step,
        (mass_error + tallied, loss_error + tallied + 2.0 * cell * mass_error),
    )


def pooled_down(
    losses: Floats, masses: Floats, infinite: float, step: float, errors: tuple[float, float]
) -> LossDistribution:
    """Pool atoms such that every pool's loss is on the grid.

    Atoms below a grid point take in as much of the atoms above it as makes up for them. Where
    that would reach further than one step (a gap, or the top), the atoms are rounded down instead.

    Parameters
    ----------
    losses, masses
        Atoms in ascending order of the loss, with positive probabilities under P.
    infinite
        Probability of an infinite loss.
    step
        Distance of grid points.
    errors
        Relative error of the masses and absolute error of the losses.
    """
    start = int(np.floor(losses[0] / step))
    pools = np.zeros(int(np.floor(losses[-1] / step)) - start + 3)
    values, left = losses.tolist(), masses.tolist()
    i = 0
    while i < len(values):
        target = int(np.ceil(values[i] / step))
        point = step * target
        if values[i] >= point:
            pools[target - start] += left[i]
            i += 1
            continue
        below = deficit = 0.0
        while i < len(values) and values[i] < point:
            below += left[i]
            deficit += left[i] * np.expm1(point - values[i])
            i += 1
        reached, above = i, 0.0
        while reached < len(values) and values[reached] < point + step:
            surplus = -np.expm1(point - values[reached])
            if surplus * left[reached] > deficit:
                break
            above += left[reached]
            deficit -= surplus * left[reached]
            reached += 1
        if reached == len(values) or values[reached] >= point + step:
            pools[target - 1 - start] += below
            continue
        taken = deficit / -np.expm1(point - values[reached])
        pools[target - start] += below + above + taken
        left[reached] -= taken
        i = reached
    # Sums of a pool's atoms round once for each; wrong masses move a pool's loss within its range.
    most = int(np.bincount(np.floor(losses / step).astype(np.int64) - start).max())
    added = _UNIT * (2.0 * most + 32.0)
    reach = max(abs(float(losses[0])), abs(float(losses[-1])))
    mass_error, loss_error = errors[0] + added, errors[1] + added
    loss_error += 4.0 * step * mass_error + 8.0 * _UNIT * (1.0 + reach)
    return LossDistribution(step, start, pools, infinite, mass_error, loss_error)
