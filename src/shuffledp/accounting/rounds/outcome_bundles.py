"""Outcomes of one round of shuffled k-RR, joined to fewer with bounds on their losses.

The notation is that of `SymmetricForm`: n1, ..., n4 are the counts of the pair's categories, B is
their multinomial law, ``s = n1 + n2``, ``u = n1 - n2`` and ``D = a s + b n3 + c``. The privacy loss
``log(P/Q)`` is ``log((D + g u) / (D - g u))``, so replacing u by -u changes its sign. Given s, u is
a sum of s fair coins of value +1 or -1 and independent of n3.

P and Q are sums of B, B D and B u. So for upper bounds, outcomes are split onto neighbouring nodes
in D and in u such that these sums are unchanged, and for lower bounds, those in the same bin of D
and u are pooled. Where s is large, neighbouring s form a bundle, in which u has the law for the
largest s (upper bounds) or for the smallest (lower bounds).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array

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
# At depths beyond MAX_DEPTH, probabilities within the window of a neighbouring s could underflow.
DEFAULT_DEPTH, MAX_DEPTH = 46.0, 650.0
# Distance between nodes of D that all s share, relative to the smallest H (`_Cells`); range of D in
# other cells, relative to its mean; and range of s within a bundle, relative to s. They change eps
# by less than 1e-6, by about 1e-5 and by about 1e-5.
RELATIVE_WIDTH_OF_NODES, RELATIVE_WIDTH_OF_D, RELATIVE_WIDTH_OF_S = 1e-3, 2e-3, 1e-4
# All s have the same nodes of D where D is at most this multiple of H.
MAX_RATIO_OF_SHARED = 1000.0
# With at most so many outcomes with different losses, each of them is kept.
MAX_KEPT = 300_000
MAX_ELEMENTS_AT_ONCE = 1_000_000
# Relative error of the pair's probabilities and their ratios, in units of rounding (`UNIT`).
INPUT_UNITS = 20.0
# A difference of two tails with a larger relative error is treated as left-out probability.
LOST_RELATIVE_ERROR = 1e-3
# Number of nodes or bins of u per grid step.
NODES_PER_STEP = 4.0


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


def _bernstein_deviation(variance: float, depth: float) -> float:
    """Return a deviation from the mean that a sum of Bernoulli variables rarely exceeds.

    The probability is at most ``exp(-depth)`` on each side, by Bernstein's inequality.
    """
    return float(depth / 3.0 + np.sqrt(depth * depth / 9.0 + 2.0 * variance * depth))


def _largest_u(coins: float, depth: float) -> float:
    """Return a number that the sum of fair coins exceeds with probability at most exp(-depth)."""
    return float(np.ceil(2.0 * _bernstein_deviation(coins / 4.0, depth)))


@dataclass(frozen=True)
class _ThirdCounts:
    """Intervals of n3 for each s (rows), from one edge (excluded) to the next (included).

    ``probability`` is that of the interval given s, ``moment`` the expectation of n3 restricted to
    it, and ``error`` the relative error of both; both are 0 where one of them is less precise.
    ``left_out`` bounds the probability outside the other intervals.
    """

    edges: Floats
    probability: Floats
    moment: Floats
    left_out: float
    error: float


def _third_counts(
    trials: Floats, p: float, q: float, reach: float, stride: float, depth: float
) -> _ThirdCounts:
    """Return intervals of ``stride`` values of ``X ~ Bin(m, p)`` within ``reach`` of its mean.

    ``trials`` are consecutive numbers m, in descending order (rows).
    """
    if 2.0 * reach <= stride:
        # One interval covers the whole window. E[X; X > x] is m p Pr[X' >= x] for X' ~ Bin(m - 1,
        # p), so the moment lacks at most the same share as the probability.
        mean = (p * trials)[:, None]
        edges = np.hstack([np.floor(mean) - reach - 1.0, np.ceil(mean) + reach])
        left_out = 2.0 * float(np.exp(-depth)) if reach > 0.0 else 0.0
        return _ThirdCounts(
            np.clip(edges, -1.0, trials[:, None]),
            np.ones_like(mean),
            mean,
            left_out,
            UNIT * (INPUT_UNITS + 2.0) + left_out,
        )
    # In a block of rows, means differ by at most about a standard deviation.
    size = max(1, int(min(np.sqrt(trials[0] * q / p), trials.size)))
    first = trials[::size, None, None]
    m = np.maximum(first - np.arange(float(size))[:, None], 0.0)
    last = m[:, -1:]
    middle = np.ceil((reach + 0.5 * p * size + 2.0) / stride)
    x = np.floor(p * (first - 0.5 * size)) + stride * np.arange(-middle, middle + 1.0)
    x = np.clip(x, -1.0, first)

    # Let f_m be the probabilities of X. From m to m - 1, Pr[X <= x] grows by p f_{m-1}(x), and
    # Pr[X > x] falls by it; f_{m-1}(x) is f_m(x) (m - x) / (m q). So tails are required only in
    # the first and in the last row.
    log_mass, mass_error = log_pmf_with_error(x.clip(0.0), first, p, q, 0.0)
    mass = np.where(x >= 0.0, np.exp(log_mass), 0.0)
    with np.errstate(divide="ignore"):
        ratios = np.maximum(m[:, :-1] - x, 0.0) / (np.maximum(m[:, :-1], 1.0) * q)
    f = np.cumprod(np.concatenate([mass, ratios], axis=1), axis=1)
    below_ends = log_cdf_ends(x, first, p, q, 0.0)
    above_ends = log_tail_ends(x + 1.0, last, p, q, 0.0)
    below = np.cumsum(np.concatenate([np.exp(below_ends.high), p * f[:, 1:]], axis=1), axis=1)
    above = np.concatenate([p * f[:, 1:], np.exp(above_ends.high)], axis=1)[:, ::-1]
    above = np.cumsum(above, axis=1)[:, ::-1]
    with np.errstate(invalid="ignore"):
        widths = [np.nan_to_num(ends.high - ends.low) for ends in (below_ends, above_ends)]
    error: Floats = np.maximum.reduce([mass_error, *widths])
    error += UNIT * 8.0 * (size + 8.0)
    empty = x[:, :, 1:] == x[:, :, :-1]

    def between(below: Floats, above: Floats, g: Floats) -> tuple[Floats, Floats]:
        """Return differences of the nearer tails, which were computed with a term g, and errors."""
        value = np.where(
            below[:, :, 1:] <= 0.5,
            below[:, :, 1:] - below[:, :, :-1],
            np.where(
                above[:, :, :-1] <= 0.5,
                above[:, :, :-1] - above[:, :, 1:],
                1.0 - below[:, :, :-1] - above[:, :, 1:],
            ),
        )
        value = np.where(empty, 0.0, value.clip(0.0))
        at_edge = error * (np.minimum(below, above) + g)
        return value, np.where(empty, 0.0, at_edge[:, :, 1:] + at_edge[:, :, :-1])

    probability, probability_error = between(below, above, np.zeros_like(f))
    outside = (below[:, :, 0] + above[:, :, -1]) * (1.0 + LOST_RELATIVE_ERROR)
    # E[X; X <= x] is m p times Pr[X <= x] - g, where g is f_m(x) (m - x) / m, or 0 if x is 0, and
    # E[X; X > x] is m p times Pr[X > x] + g.
    mean, g = p * m, f * np.maximum(m - x, 0.0) / np.maximum(m, 1.0)
    positive = x > 0.0
    moment, moment_error = between(
        np.where(positive, (below - g).clip(0.0), 0.0), above + g, np.where(positive, 3.0 * g, 0.0)
    )
    # Differences below the rounding error of much larger tails are lost.
    parts = ((probability, probability_error), (moment, moment_error))
    precise = np.all([rounding <= LOST_RELATIVE_ERROR * value for value, rounding in parts], axis=0)
    relative = max(
        float((rounding / np.where(value > 0.0, value, 1.0))[precise].max(initial=0.0))
        for value, rounding in parts
    )
    lost = np.where(precise, 0.0, probability + probability_error).sum(axis=2)
    # Errors of p and q change all probabilities of an interval by nearly the same factor, which is
    # largest at the ends.
    ends = x[:, :, [0, -1]]
    input_error = max(
        float(log_pmf_error(ends.clip(0.0, m), m, p, q, INPUT_UNITS).max()) for m in (first, last)
    )

    def rows(values: Floats) -> Floats:
        """Return one row for each m, without those that only complete the last block."""
        return values.reshape(-1, *values.shape[2:])[: trials.size]

    return _ThirdCounts(
        rows(np.broadcast_to(x, below.shape)),
        rows(np.where(precise, probability, 0.0)),
        rows(np.where(precise, mean * moment, 0.0)),
        float(rows(outside + lost).max()),
        relative + input_error + UNIT * (INPUT_UNITS + 24.0),
    )


@dataclass(frozen=True)
class _Sums:
    """Values of s, and bundles of consecutive ones.

    ``starts`` are the indices at which bundles begin, ``bundle`` is the index of the bundle of each
    s, and ``coins`` the number of fair coins whose sum is u in a bundle. ``mass`` has the
    probabilities of s and ``error`` their relative error; ``left_out`` bounds that of other s.
    """

    s: Floats
    starts: Integers
    bundle: Integers
    coins: Floats
    mass: Floats
    left_out: float
    error: float


def _sums(form: SymmetricForm, side: Side, depth: float) -> _Sums:
    share, rest = 2.0 * form.q, form.p3 + form.p4
    half_width = _bernstein_deviation(form.n * share * rest, depth)
    first = max(np.floor(form.n * share - half_width), 0.0)
    last = min(np.ceil(form.n * share + half_width), float(form.n))
    s = np.arange(first, last + 1.0)
    size = max(1, int(RELATIVE_WIDTH_OF_S * depth / DEFAULT_DEPTH * first))
    if 2.0 * _largest_u(last, depth) > first:
        size = 1  # only where u is far below s, `D - g u` stays positive for the coins of a bundle
    starts = np.arange(0, s.size, size)
    error = float(log_pmf_error(s, form.n, share, rest, INPUT_UNITS).max())
    outside = np.exp(log_cdf_ends(first - 1.0, form.n, share, rest, INPUT_UNITS).high) + np.exp(
        log_tail_ends(last + 1.0, form.n, share, rest, INPUT_UNITS).high
    )
    return _Sums(
        s,
        starts,
        np.repeat(np.arange(starts.size), np.diff(np.append(starts, s.size))),
        np.append(s[starts[1:] - 1], s[-1]) if side == "upper" else s[starts],
        np.exp(log_pmf(s, form.n, share, rest)),
        float(outside),
        error + UNIT * (size + 4.0),
    )


@dataclass(frozen=True)
class _Nodes:
    """Nodes of D, and the two between which D lies, for each s (rows) and interval of n3 (columns).

    ``H = D - g coins``, so ``D - g u = H + g (coins - u)`` needs no difference of large numbers.

    Attributes
    ----------
    h, coins
        H of each node, for this number of coins. If all s share the nodes, it is 0, so H is D.
    lower, upper
        Indices of the two nodes.
    lower_h, gap
        H of the lower node for the coins of s, and the distance between the two.
    """

    h: Floats
    coins: Floats
    lower: Floats
    upper: Floats
    lower_h: Floats
    gap: Floats


def _shared_nodes(low: Floats, high: Floats, coins: Floats, width: float) -> _Nodes:
    """Return nodes at multiples of ``width``; D lies between ``low`` and ``high``.

    ``coins`` are those of each s, times g.
    """
    lower = np.floor(low / width)
    upper = np.maximum(np.ceil(high / width), lower + 1.0)
    start = lower.min()
    h = width * np.arange(start, upper.max() + 1.0)
    gap = width * (upper - lower)
    return _Nodes(h, np.zeros_like(h), lower - start, upper - start, width * lower - coins, gap)


def _own_nodes(low: Floats, high: Floats, sums: _Sums) -> _Nodes:
    """Return two nodes for each bundle of s and interval, the smallest and the largest H."""
    low, high = (
        np.minimum.reduceat(low, sums.starts),
        np.maximum.reduceat(high, sums.starts),
    )
    columns = low.shape[1]
    lower = 2.0 * (sums.bundle[:, None] * columns + np.arange(columns))
    return _Nodes(
        np.stack([low, high], axis=-1).ravel(),
        np.repeat(sums.coins, 2 * columns),
        lower,
        lower + 1.0,
        low[sums.bundle],
        (high - low)[sums.bundle],
    )


@dataclass(frozen=True)
class _Cells:
    """Outcomes by node of D or, for lower bounds, by bin of D (rows) and by bundle of s (columns).

    Attributes
    ----------
    coins
        Number of fair coins whose sum is u, for each bundle of s.
    total, moment
        Sums of B and, for lower bounds, of B H.
    nodes, is_shared
        Nodes of D, and whether all s share them.
    least
        Lower bound on H.
    left_out
        Upper bound on B's probability outside all cells.
    error, error_of_h
        Relative errors of ``total`` and, for lower bounds, ``moment``; and of H.
    """

    coins: Floats
    total: csc_array
    moment: csc_array
    nodes: _Nodes
    is_shared: bool
    least: float
    left_out: float
    error: float
    error_of_h: float


def _cells(form: SymmetricForm, side: Side, depth: float) -> _Cells:
    sums = _sums(form, side, depth)
    own = form.gain * sums.coins[sums.bundle]
    trials = form.n - sums.s
    # H where n3 is 0.
    h_0 = form.weight_difference * sums.s + (form.gain * sums.s - own) + form.constant
    # Given s, n3 is binomial with probability `third`.
    rest, weight_3 = form.p3 + form.p4, form.weight_3
    third, fourth = (form.p3 / rest, form.p4 / rest) if rest > 0.0 else (0.0, 1.0)
    variance = float(trials[0]) * third * fourth
    reach = float(np.ceil(_bernstein_deviation(variance, depth))) if variance > 0.0 else 0.0
    least = float((h_0 + weight_3 * (np.floor(trials * third) - reach).clip(0.0)).min())
    mean = h_0 + own + weight_3 * trials * third
    most = float(mean.max()) + weight_3 * reach
    # Nodes and cells become wider with the depth, so that their number does not grow.
    deeper = depth / DEFAULT_DEPTH
    width = RELATIVE_WIDTH_OF_NODES * deeper * least
    stride = np.floor(RELATIVE_WIDTH_OF_D * deeper * 2.0 * form.n / max(weight_3, 1.0))
    cells = sums.starts.size * max(2.0 * reach / max(stride, 1.0), 1.0)
    # About ten standard deviations of u are kept.
    shared = (
        least * MAX_RATIO_OF_SHARED > most
        and cells * 10.0 * float(np.sqrt(sums.s[-1])) > MAX_KEPT
        and (most - float(mean.min())) / width < cells
    )
    if shared:
        stride = np.floor(width / max(weight_3, 1e-9))
    third_counts = _third_counts(trials, third, fourth, reach, max(float(stride), 1.0), depth)
    edges = third_counts.edges
    low = h_0[:, None] + weight_3 * np.minimum(edges[:, :-1] + 1.0, trials[:, None])
    high = h_0[:, None] + weight_3 * np.maximum(edges[:, 1:], edges[:, :-1] + 1.0)
    own = own[:, None]
    nodes = (
        _shared_nodes(low + own, high + own, own, width) if shared else _own_nodes(low, high, sums)
    )
    mass = sums.mass[:, None]
    total = mass * third_counts.probability
    moment = mass * (h_0[:, None] * third_counts.probability + weight_3 * third_counts.moment)
    columns = np.broadcast_to(sums.bundle[:, None], total.shape)

    def by_node(values: Floats, node: Floats) -> csc_array:
        at = node.astype(np.int64).ravel(), columns.ravel()
        return csc_array((values.ravel(), at), (nodes.h.size, sums.coins.size))

    cancelled = 16.0 * UNIT * most / least if shared else 0.0
    # Relative error of the mean of H in a cell, ``moment / total``.
    error_of_mean = 2.0 * third_counts.error + 16.0 * UNIT + cancelled
    error, error_of_h = sums.error + third_counts.error, cancelled
    if side == "upper":
        # Less mass is moved up, by the error of the mean and of this difference. Mass that stays at
        # a smaller D adds to (P - alpha Q)_+ if alpha > 1; if alpha < 1, it lowers the total
        # probability, and with it (P - alpha Q)_+, by at most the error of the mean (relative).
        least_moment = moment * (1.0 - error_of_mean) - 8.0 * UNIT * nodes.gap * total
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = (least_moment - nodes.lower_h * total) / nodes.gap
        moved = np.where(nodes.gap > 0.0, moved, 0.0).clip(0.0, total)
        by_h = by_node(total - moved, nodes.lower) + by_node(moved, nodes.upper)
        error += error_of_mean
    else:
        by_h = by_node(total, nodes.lower)
        error_of_h += error_of_mean
    return _Cells(
        sums.coins,
        by_h,
        by_node(moment, nodes.lower),
        nodes,
        shared,
        least,
        sums.left_out + third_counts.left_out,
        error + UNIT * (form.units + 12.0),
        error_of_h + UNIT * (form.units + 8.0),
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
    form: SymmetricForm, cells: _Cells, side: Side, largest_u: float, step: float
) -> Iterator[Atoms]:
    # The loss is about 2 g u / D with D about 2 n, so it changes by this between neighbouring u.
    loss_per_half_u = 2.0 * form.gain / form.n
    stride = max(1, int(step / NODES_PER_STEP / loss_per_half_u)) if step > 0.0 else 1
    # A node beyond all coins still has a positive D - g u. Without nodes between 0 and the largest
    # u the losses are within a fraction of the step anyway.
    stride = min(stride, max(1, int(cells.least / (4.0 * form.gain))), max(1, int(largest_u // 2)))
    # Given s, u takes every second value: 2 half_u, plus 1 if s is odd.
    half_u = np.arange(stride * np.ceil(largest_u // 2 / stride) + 1.0)
    starts = np.arange(0, half_u.size, stride)
    nodes = cells.nodes
    nodes_per_s = 0 if cells.is_shared else nodes.h.size // cells.coins.size
    at_once = max(1, MAX_ELEMENTS_AT_ONCE // (half_u.size + starts.size * nodes_per_s))
    even, odd = (np.flatnonzero(cells.coins % 2.0 == parity) for parity in (0.0, 1.0))
    for part in (
        same[i : i + at_once] for same in (even, odd) for i in range(0, same.size, at_once)
    ):
        coins = cells.coins[part, None]
        u = 2.0 * half_u + coins[0] % 2.0
        pmf, pmf_error = _coin_sums(coins, u)
        pmf *= np.where(u > 0.0, 1.0, 0.5)
        total = cells.total[:, part].tocsr()
        used = np.flatnonzero(np.diff(total.indptr))
        total = total[used]
        # The probabilities of u fall, so at least half of a group's mass stays at its first u, and
        # the error of the difference at most doubles.
        mass_error = cells.error + pmf_error
        mass_error += UNIT * (4.0 * stride + part.size + nodes_per_s + 32.0)
        loss_error = UNIT * (2.0 * form.units + 48.0)
        if side == "upper":
            if stride > 1:
                # Split onto the nodes at `starts`.
                moved = np.add.reduceat(pmf * (half_u % stride / stride), starts, axis=1)
                pmf = np.add.reduceat(pmf, starts, axis=1) - moved
                pmf[:, 1:] += moved[:, :-1]
            sum_b = total @ pmf
            keep = sum_b > 0.0
            gu = np.broadcast_to(form.gain * u[starts], keep.shape)[keep]
            rest = nodes.h[used, None] + form.gain * (nodes.coins[used, None] - u[starts])
            mass = sum_b[keep] * (rest[keep] + 2.0 * gu) / (2.0 * form.n)
            loss = _loss(gu, rest[keep])
        else:
            # Sums over u, for each s, of its probability, of u, and of coins - u.
            pmf, pmf_u, pmf_rest = (
                np.add.reduceat(pmf * each, starts, axis=1)
                for each in (1.0, u, np.maximum(coins - u, 0.0))
            )
            sum_b, sum_u = total @ pmf, total @ pmf_u
            sum_rest = cells.moment[:, part].tocsr()[used] @ pmf + form.gain * (total @ pmf_rest)
            mass = (sum_rest + 2.0 * form.gain * sum_u) / (2.0 * form.n)
            keep = mass > 0.0
            mass, loss = mass[keep], _loss(form.gain * sum_u[keep], sum_rest[keep])
            # The errors of the means of u and D are at most twice `mass_error` times their ranges.
            # Relative to the mean of D - g u, this bounds the error of the loss.
            ranges = 12.0 * form.gain * (stride - 1.0) + 2.0 * float(nodes.gap.max())
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                relative_ranges = (ranges * sum_b / sum_rest)[keep]
            finite = np.isfinite(relative_ranges)
            loss_error += mass_error * float(relative_ranges[finite].max(initial=0.0))
        # A relative error of H, which is at most D - g u, changes a loss L by at most this error
        # times min(1, exp(L) - 1).
        largest = float(loss[np.isfinite(loss)].max(initial=0.0))
        loss_error += cells.error_of_h * min(1.0, float(np.expm1(min(largest, 1.0))))
        yield loss, mass, mass_error + cells.error_of_h, loss_error


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
        ``"lower"``: outcomes are pooled. ``"upper"``: they are split; losses may be infinite.
    step
        Neighbouring u are joined if their losses differ by a small fraction of this; 0 disables it.
    depth
        Truncation windows leave out a probability of about ``exp(-depth)``.
    """
    form = symmetric_form(pair)
    cells = _cells(form, side, depth)
    max_coins = float(cells.coins[-1])
    largest_u = min(_largest_u(max_coins, depth), max_coins)
    outside = cells.left_out
    if largest_u < max_coins:
        outside += 2.0 * float(np.exp(-depth))
    return _bundles(form, cells, side, largest_u, step), form.largest_density_ratio * outside
