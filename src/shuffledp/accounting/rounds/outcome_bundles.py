"""Outcomes of one round of shuffled k-RR, grouped into bundles with bounds on their losses.

The notation is that of `SymmetricForm`: n1, ..., n4 are the counts of the pair's categories, B is
their multinomial law, ``s = n1 + n2``, ``u = n1 - n2`` and ``D = a s + b n3 + c``. The privacy loss
``log(P/Q)`` is ``log((D + g u) / (D - g u))``, so replacing u by -u changes its sign. Given s, u is
a sum of s fair coins of value +1 or -1.

A bundle consists of the outcomes in a range of u, a range of n3 and, where s is large, a range of
s; D lies in a known range. For all s in a bundle, u has the law for the largest of them (upper
bounds) or for the smallest (lower bounds). For upper bounds, bundles of different s and n3 with
nearly the same D are then joined.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.sparse import csr_array

from shuffledp.accounting.conventions import Side
from shuffledp.accounting.laws.binomial import (
    log_cdf_ends,
    log_pmf,
    log_pmf_error,
    log_pmf_with_error,
    log_tail_ends,
)
from shuffledp.accounting.pairs import Pair, SymmetricForm, symmetric_form
from shuffledp.numerics.arrays import UNIT, Floats, Integers

# By Bernstein's inequality, a truncation window of depth d omits a probability of exp(-d) per side.
# At depths beyond MAX_DEPTH that probability would nearly underflow.
DEFAULT_DEPTH, MAX_DEPTH = 46.0, 690.0
# Relative range of D within a bundle of n3, and of s within a bundle of s. Each of them changes eps
# by about 1e-5 (relative).
MAX_RELATIVE_RANGE_OF_D: Final[Mapping[Side, float]] = {"upper": 2e-3, "lower": 4e-3}
RELATIVE_BUNDLE_WIDTH_OF_S = 1e-4
# Range of D within joined bundles, relative to the smallest H; it changes eps by about 1e-7.
RELATIVE_WIDTH_OF_D = 2.5e-4
# Largest ratio of D to H with which bundles are joined.
MAX_RATIO_OF_JOINED = 1000.0
MAX_ELEMENTS_AT_ONCE = 1_000_000
# Relative error of the pair's probabilities and their ratios, in units of rounding (`UNIT`).
INPUT_UNITS = 20.0
# A difference of two tails with a larger relative error is treated as left-out probability.
LOST_RELATIVE_ERROR = 1e-3
# Number of bundles of u per grid step.
BUNDLES_PER_STEP = 4.0


# Losses of outcomes and their probabilities under P, and bounds on the floating-point errors of the
# probabilities (relative) and of the losses (absolute).
Atoms = tuple[Floats, Floats, float, float]


def _loss(gu: Floats, denominator: Floats) -> Floats:
    """Return ``log((D + g u) / (D - g u))`` from ``g u`` and ``denominator = D - g u``."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log1p(2.0 * gu / np.maximum(denominator, 0.0))
    return np.where(gu > 0.0, value, 0.0)


def share_above(low: Floats, value: Floats, high: Floats) -> Floats:
    """Return the share of an atom's mass that moves to ``high`` if the atom is split in two.

    The rest moves to ``low``. The atom is at ``value``, ``low <= value <= high``. The split keeps
    the total probability under P and under Q. The share is 0 where ``low`` equals ``high``.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.expm1(low - value) / np.expm1(low - high)
    return np.where(high > low, share, 0.0).clip(0.0, 1.0)


@dataclass(frozen=True)
class _Rows:
    """Sums over each bundle of s (rows) and of n3 (columns).

    ``coins`` is the number of fair coins whose sum is u in a row, and ``H = D - g coins``, so that
    ``D - g u = H + g (coins - u)`` needs no difference of large numbers. ``total`` and ``moment``
    are the sums of B and of B H, ``error`` is their relative error, and ``low`` and ``high`` bound
    H. ``left_out`` bounds B's probability outside all bundles.
    """

    coins: Floats
    total: Floats
    moment: Floats
    low: Floats
    high: Floats
    left_out: float
    error: float


def _bernstein_deviation(variance: float, depth: float) -> float:
    """Return a deviation from the mean that a sum of Bernoulli variables rarely exceeds.

    The probability is at most ``exp(-depth)`` on each side, by Bernstein's inequality.
    """
    return float(depth / 3.0 + np.sqrt(depth * depth / 9.0 + 2.0 * variance * depth))


@dataclass(frozen=True)
class _Intervals:
    """Probabilities of intervals, their relative error, and the most that any row leaves out."""

    probability: Floats
    error: float
    lost: float


def _interval_probabilities(
    edges: Floats, n: Floats, p: float, q: float, middle: int
) -> _Intervals:
    """Return ``Pr[edges_j < Bin(n, p) <= edges_{j+1}]``, each as a difference of the nearer tails.

    ``middle`` is the index of the edge at the mean. Probabilities below the rounding error of a
    much larger tail are returned as 0 and counted as ``lost``.
    """
    left = log_cdf_ends(edges[:, : middle + 1], n, p, q, INPUT_UNITS)
    right = log_tail_ends(edges[:, middle:] + 1.0, n, p, q, INPUT_UNITS)

    def between(inner: tuple[Floats, Floats], outer: tuple[Floats, Floats]) -> Floats:
        """Return the tail from the end nearer to the mean minus the tail from the other end."""
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
    precise = high - low < LOST_RELATIVE_ERROR * (high + low)
    error = ((high - low) / np.where(precise, low + high, 1.0))[precise].max(initial=0.0)
    return _Intervals(
        probability=np.where(precise, 0.5 * (low + high), 0.0),
        error=float(error),
        lost=float(np.where(precise, 0.0, high).sum(axis=1).max()),
    )


@dataclass(frozen=True)
class _ThirdCounts:
    """Bundles of n3 for each s (rows).

    A bundle reaches from one edge (excluded) to the next (included). ``probability`` is that of the
    bundle given s, ``moment`` the expectation of n3 restricted to it, and ``error`` the relative
    error of both. ``left_out`` bounds the probability outside all bundles.
    """

    edges: Floats
    probability: Floats
    moment: Floats
    left_out: float
    error: float


def _third_counts(form: SymmetricForm, side: Side, s: Floats, depth: float) -> _ThirdCounts:
    trials = (form.n - s)[:, None]
    rest = form.p3 + form.p4
    # Probabilities of the third and the fourth category, given that a report is in one of them.
    third, fourth = (form.p3 / rest, form.p4 / rest) if rest > 0.0 else (0.0, 1.0)
    if third == 0.0:
        edges = np.broadcast_to([-1.0, 0.0], (s.size, 2))
        return _ThirdCounts(edges, np.ones_like(trials), np.zeros_like(trials), 0.0, 0.0)
    half_width = np.ceil(_bernstein_deviation(float(trials.max()) * third * fourth, depth))
    # Bundles become wider with the depth, so that their number does not grow.
    relative = MAX_RELATIVE_RANGE_OF_D[side] * depth / DEFAULT_DEPTH
    width = max(1.0, np.floor(relative * 2.0 * form.n / form.weight_3))
    if 2.0 * half_width <= width:
        # One bundle covers the whole window.
        mean = trials * third
        edges = np.clip(
            np.hstack([np.floor(mean) - half_width - 1.0, np.ceil(mean) + half_width]), -1.0, trials
        )
        outside = 2.0 * float(np.exp(-depth))
        error = UNIT * (INPUT_UNITS + 2.0) + float(form.n) * outside
        return _ThirdCounts(edges, np.ones_like(trials), mean, outside, error)
    middle = int(np.ceil(half_width / width))
    steps = width * np.arange(-middle, middle + 1)
    edges = np.clip(np.floor(trials * third) + steps, -1.0, trials)
    intervals = _interval_probabilities(edges, trials, third, fourth, middle)
    # For X ~ Bin(m, p), E[X; a < X <= b] = m p Pr[a - 1 < Bin(m - 1, p) <= b - 1].
    trials_minus_1 = np.maximum(trials - 1.0, 0.0)
    moments = _interval_probabilities(edges - 1.0, trials_minus_1, third, fourth, middle)
    below = log_cdf_ends(edges[:, :1], trials, third, fourth, INPUT_UNITS).high
    above = log_tail_ends(edges[:, -1:] + 1.0, trials, third, fourth, INPUT_UNITS).high
    outside = float((np.exp(below) + np.exp(above)).max())
    return _ThirdCounts(
        edges,
        intervals.probability,
        trials * third * moments.probability,
        outside + intervals.lost + float(trials.max()) * third * moments.lost,
        max(intervals.error, moments.error) + UNIT * (INPUT_UNITS + 4.0),
    )


def _rows(form: SymmetricForm, side: Side, depth: float) -> _Rows:
    share, rest = 2.0 * form.q, form.p3 + form.p4
    half_width = _bernstein_deviation(form.n * share * rest, depth)
    first = max(np.floor(form.n * share - half_width), 0.0)
    last = min(np.ceil(form.n * share + half_width), float(form.n))
    s = np.arange(first, last + 1.0)
    width = max(1, int(RELATIVE_BUNDLE_WIDTH_OF_S * depth / DEFAULT_DEPTH * first))
    starts = np.arange(0, s.size, width)
    coins = np.append(s[starts[1:] - 1], s[-1]) if side == "upper" else s[starts]
    third = _third_counts(form, side, s, depth)
    excess_s = s - np.repeat(coins, np.diff(np.append(starts, s.size)))
    base = (form.weight_difference * s + form.gain * excess_s + form.constant)[:, None]
    mass = np.exp(log_pmf(s, form.n, share, rest))[:, None]
    error = float(log_pmf_error(s, form.n, share, rest, INPUT_UNITS).max())
    outside = np.exp(log_cdf_ends(first - 1.0, form.n, share, rest, INPUT_UNITS).high) + np.exp(
        log_tail_ends(last + 1.0, form.n, share, rest, INPUT_UNITS).high
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
        error=error + third.error + UNIT * (width + form.units + 12.0),
    )


@dataclass(frozen=True)
class _Joined:
    """Bundles of s and n3 (cells) with nearly the same D, joined.

    ``number`` is that of the joined bundle of each cell, row by row. For each joined bundle, ``h``
    and ``coins`` are those of one of its cells; D lies between ``h + g coins + below`` and ``h + g
    coins + above``, so that D - g u needs no difference of large numbers. ``error`` bounds the
    rounding errors of h, below and above, relative to D - g u.
    """

    number: Integers
    h: Floats
    coins: Floats
    below: Floats
    above: Floats
    error: float


def _join(coins: Floats, low: Floats, high: Floats, gain: float, side: Side) -> _Joined:
    """Join cells, whose H lies between ``low`` and ``high``, and which have ``coins`` by row."""
    all_coins = np.broadcast_to(coins[:, None], low.shape).ravel()
    low, high = low.ravel(), high.ravel()
    d = low + gain * all_coins
    order = np.argsort(d, kind="stable")
    # Relative to D - g u, which is at least H, range and rounding errors of D stay small.
    least, most = float(low.min()), float(d.max())
    joins = side == "upper" and least * MAX_RATIO_OF_JOINED > most
    width = RELATIVE_WIDTH_OF_D * least if joins else 0.0
    step = np.floor((d[order] - d[order[0]]) / width) if width > 0.0 else np.arange(d.size)
    is_first = np.append(True, np.diff(step) > 0.0)
    first = np.flatnonzero(is_first)
    number = np.empty(d.size, np.int64)
    number[order] = np.cumsum(is_first) - 1
    cell = order[first]
    shift = gain * (all_coins - all_coins[cell][number])
    below, above = (each - low[cell][number] + shift for each in (low, high))
    return _Joined(
        number,
        low[cell],
        all_coins[cell],
        np.minimum.reduceat(below[order], first),
        np.maximum.reduceat(above[order], first),
        16.0 * UNIT * most / least if joins else 0.0,
    )


def _coin_sums(coins: Floats, u: Floats) -> tuple[Floats, float]:
    """Return the probability that the sum of ``coins`` (rows) is u (columns), and its error.

    The relative error is at most the second result. Where coins grow by 2, the last row, which
    underflows least, is multiplied by ratios with at most five roundings each.
    """
    by_ratio = coins.size > 2 and bool((np.diff(coins, axis=0) == 2.0).all())
    computed = coins[-1:] if by_ratio else coins
    heads = np.minimum((computed + u) / 2.0, computed)
    value, errors = log_pmf_with_error(heads, computed, 0.5, 0.5, 0.0)
    pmf, error = np.where(u <= computed, np.exp(value), 0.0), float(errors.max())
    if not by_ratio:
        return pmf, error
    # It is 0 where the coins equal u, and so are the rows with fewer coins.
    more = coins[:0:-1]
    ratios = (more - u) * (more + u) / (more * (more - 1.0))
    pmf = np.abs(np.cumprod(np.vstack([pmf, ratios]), axis=0))[::-1]
    return pmf, error + 5.0 * UNIT * coins.size


def _bundles(
    form: SymmetricForm, rows: _Rows, side: Side, largest_u: float, step: float
) -> Iterator[Atoms]:
    # Given s, u takes every second value: 2 half_u, plus 1 if s is odd.
    half_u = np.arange(largest_u // 2 + 1, dtype=np.float64)
    # The loss is about 2 g u / D with D about 2 n, so it changes by this between neighbouring u.
    loss_per_half_u = 2.0 * form.gain / form.n
    bundle_size = max(1, int(step / BUNDLES_PER_STEP / loss_per_half_u)) if step > 0.0 else 1
    starts = np.arange(0, half_u.size, bundle_size)
    ends = np.append(starts[1:], half_u.size) - 1
    columns = rows.total.shape[1]
    rows_at_once = max(1, MAX_ELEMENTS_AT_ONCE // (half_u.size + starts.size * columns))
    even, odd = (np.flatnonzero(rows.coins % 2.0 == parity) for parity in (0.0, 1.0))
    for part in (
        same[i : i + rows_at_once]
        for same in (even, odd)
        for i in range(0, same.size, rows_at_once)
    ):
        coins = rows.coins[part, None]
        u = 2.0 * half_u + coins[0] % 2.0
        pmf, pmf_error = _coin_sums(coins, u)
        pmf *= np.where(u > 0.0, 1.0, 0.5)
        # Sums over u, for each s, of its probability, of u, and of coins - u.
        pmf, pmf_u, pmf_rest = (
            np.add.reduceat(pmf * each, starts, axis=1)
            for each in (1.0, u, np.maximum(coins - u, 0.0))
        )
        joined = _join(coins[:, 0], rows.low[part], rows.high[part], form.gain, side)
        at = np.arange(part.size).repeat(columns), joined.number
        total, moment = (
            csr_array((each[part].ravel(), at), (part.size, joined.h.size)).T
            for each in (rows.total, rows.moment)
        )
        # Sums of B, of B u and of B (D - g u), by joined bundle and u.
        sum_b, sum_u = total @ pmf, total @ pmf_u
        sum_rest = moment @ pmf + form.gain * (total @ pmf_rest)
        mass = (sum_rest + 2.0 * form.gain * sum_u) / (2.0 * form.n)
        keep = mass > 0.0
        first, last = u[starts], u[ends]
        mass, mass_error = mass[keep], rows.error + pmf_error
        mass_error += UNIT * (bundle_size + part.size + columns + 12.0)
        middle = _loss(form.gain * sum_u[keep], sum_rest[keep])
        # The errors of the means of u and D are at most twice `mass_error` times their ranges.
        # Relative to the mean of D - g u, this bounds the error of the loss.
        ranges = 6.0 * form.gain * (last - first) + 2.0 * (joined.above - joined.below)[:, None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            relative_ranges = (ranges * sum_b / sum_rest)[keep]
        relative_ranges = relative_ranges[np.isfinite(relative_ranges)]
        loss_error = mass_error * float(relative_ranges.max(initial=0.0)) + UNIT * (
            2.0 * form.units + 48.0
        )
        loss_error += 2.0 * joined.error
        if side == "lower":
            yield middle, mass, mass_error, loss_error
            continue
        smallest, largest = (
            _loss(
                np.broadcast_to(form.gain * u, keep.shape)[keep],
                (form.gain * (joined.coins[:, None] - u) + (joined.h + beyond)[:, None])[keep],
            )
            for u, beyond in ((first, joined.above), (last, joined.below))
        )
        middle = np.clip(middle, smallest, largest)
        # The whole mass of a bundle that contains an infinite loss is moved to the infinite loss.
        share = share_above(smallest, middle, largest)
        upper = mass * np.where(np.isinf(largest), 1.0, share)
        yield smallest, mass - upper, mass_error, loss_error
        yield largest, upper, mass_error, loss_error


def bundles(
    pair: Pair, side: Side, step: float = 0.0, depth: float = DEFAULT_DEPTH
) -> tuple[Iterator[Atoms], float]:
    """Return atoms of a pair's loss with ``u >= 0``, and an upper bound on P's mass outside them.

    Those with ``u = 0`` have half their probability.

    Parameters
    ----------
    pair
        Pair with a symmetric form (`symmetric_form`).
    side
        ``"lower"``: each bundle is pooled into one atom. ``"upper"``: it is split into two atoms,
        with its smallest and its largest loss, which may be infinite.
    step
        Neighbouring u are bundled if their losses differ by a small fraction of this; 0 disables
        bundling over u.
    depth
        Truncation windows leave out a probability of about ``exp(-depth)``.
    """
    form = symmetric_form(pair)
    rows = _rows(form, side, depth)
    max_coins = float(rows.coins[-1])
    largest_u = min(np.ceil(2.0 * _bernstein_deviation(max_coins / 4.0, depth)), max_coins)
    outside = rows.left_out
    if largest_u < max_coins:
        outside += 2.0 * float(np.exp(-depth))
    return _bundles(form, rows, side, largest_u, step), form.largest_density_ratio * outside
