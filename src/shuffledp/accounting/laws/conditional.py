"""Mean positive part of a weighted sum of four multinomial counts, given the sum n1 + n2."""

from dataclasses import dataclass

import numpy as np

from shuffledp.accounting.conventions import Side
from shuffledp.accounting.laws.binomial import (
    LogIntervals,
    log_cdf_rough_bound,
    log_excess_bound,
    log_pmf,
    log_pmf_with_error,
    log_tail_rough_bound,
)
from shuffledp.accounting.laws.excess import log_excess
from shuffledp.numerics.arrays import UNIT, Floats, log_sum_exp

# Counts added to each end of a truncation window, for the Poisson-like tails of small counts.
WINDOW_MARGIN = 20.0
# Relative error, in units of rounding, of probabilities (products, sums or quotients of numbers
# accurate to four units each) and of quantities computed from the four weights.
MULTINOMIAL_INPUT_UNITS = 20.0


@dataclass(frozen=True)
class WeightedSum:
    """``A = a n1 - b n2 - c n3 - d n4``, where the counts are multinomial with ``n`` trials.

    All four probabilities and weights are stored, because small numbers must not be computed as
    differences of large ones.

    Attributes
    ----------
    n
        Number of trials, at least 1.
    p1, p2, p3, p4
        Probabilities of the categories, ``p1 > 0`` and ``p2 > 0``.
    a, b, c, d
        Weights, ``a + b > 0`` and ``c >= d >= 0``.
    units
        Relative error of each weight, in units of rounding.
    """

    n: int
    p1: float
    p2: float
    p3: float
    p4: float
    a: float
    b: float
    c: float
    d: float
    units: float = 4.0

    @property
    def alpha(self) -> float:
        """Increase of A if one report moves from category 2 to 1."""
        return self.a + self.b

    def sum_error(self, *terms: Floats) -> Floats:
        """Return a bound on the absolute error of a sum of weighted counts, given its terms."""
        size = np.sum([np.abs(term) for term in terms], axis=0)
        return np.asarray(UNIT * (self.units + MULTINOMIAL_INPUT_UNITS + 16.0) * size)


@dataclass(frozen=True)
class Truncation:
    """Truncation windows of the sums over n2 and n3, and grouping of n2.

    Attributes
    ----------
    half_width
        Half-width of the windows, in standard deviations.
    stride
        Number of neighbouring values of n2 that are grouped.
    tilted_rho, tilted_pi
        Shares of n2 in ``n1 + n2`` and of n3 in ``n3 + n4``, under the law of the counts tilted by
        ``exp(lambda A)`` (docs/accounting.md).
    """

    half_width: float
    stride: int
    tilted_rho: float
    tilted_pi: float

    def window(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return the first and last count of a window, for counts with this mean and variance."""
        half = self.half_width * np.sqrt(variance) + WINDOW_MARGIN
        return np.floor(mean - half), np.ceil(mean + half)


def conditional_excess(
    weighted: WeightedSum, s: Floats, trials: Floats, shift: Floats, limits: Truncation, side: Side
) -> tuple[LogIntervals, Floats, Floats]:
    """Return ``log E[A_+ | s]`` for each s, where ``s = n1 + n2``.

    ``A = a n1 - b n2 - c n3 - d (trials - n3) - shift``. Given s, ``n2 ~ Bin(s, p2 / (p1 + p2))``
    and ``n3 ~ Bin(trials, p3 / (p3 + p4))``. A is positive where n2 is below
    ``y(n3) = (a s - (c - d) n3 - d trials - shift) / (a + b)``. This form is free of cancellation
    as eps approaches eps0.

    Parameters
    ----------
    weighted
        The weights and probabilities; its number of trials is not used.
    s
        Values of ``n1 + n2``, integers >= 0, shape ``(m,)``.
    trials
        ``n3 + n4`` for each s, the number of trials of n3, shape ``(m,)``.
    shift
        The last term of A for each s, shape ``(m,)``.
    limits
        Truncation windows, and the number of neighbouring values of n2 that are grouped.
    side
        Whether grouping of n2 rounds the value up ("upper") or down ("lower").

    Returns
    -------
    Three natural logs for each s, of shape ``(m,)``: the value, with both ends; an upper bound on
    the probability that is left out, under the tilted law of `Truncation`; and an upper bound on
    the relative error of replacing A_+ by A for those n2 at which A is positive for every n3 in its
    window. Both errors make the value smaller.
    """
    both, alpha, slope = weighted.p1 + weighted.p2, weighted.alpha, weighted.c - weighted.d
    rho1, rho2 = weighted.p1 / both, weighted.p2 / both
    other = weighted.p3 + weighted.p4
    pi, co_pi = (weighted.p3 / other, weighted.p4 / other) if other > 0 else (0.0, 1.0)
    mean3 = trials * pi
    base = weighted.a * s - weighted.d * trials - shift

    def y_at(n3: Floats) -> Floats:
        return (base - slope * n3) / alpha

    def closed_form(last2: Floats | None = None) -> LogIntervals:
        """Return ``log E[A 1{n2 <= last2} | s]`` (default: all n2 with A > 0)."""
        # A is linear in n3, so n3 is replaced by its mean.
        other_terms = (slope * mean3, weighted.d * trials, shift)
        if weighted.a > weighted.b:
            # s - y is not computed as a difference, because b may be below the last digit of a.
            threshold = (weighted.b * s + slope * mean3 + weighted.d * trials + shift) / alpha
            start = np.floor(threshold) + 1.0 if last2 is None else s - last2
            gap, error = start - threshold, weighted.sum_error(weighted.b * s, *other_terms)
        else:
            y = y_at(mean3)
            last2 = np.ceil(y) - 1.0 if last2 is None else last2
            threshold, start, gap = s - y, s - last2, y - last2
            error = weighted.sum_error(weighted.a * s, *other_terms)
        excess = log_excess(
            threshold, s, rho1, rho2, start, gap, error / alpha, MULTINOMIAL_INPUT_UNITS
        )
        return LogIntervals(np.log(alpha) + excess.low, np.log(alpha) + excess.high)

    if slope == 0.0 or pi == 0.0 or co_pi == 0.0:
        no_mass = np.full_like(s, -np.inf)
        return closed_form(), no_mass, no_mass
    tilted_mean = trials * limits.tilted_pi
    low3 = np.maximum(limits.window(tilted_mean, tilted_mean * (1.0 - limits.tilted_pi))[0], 0.0)
    high3 = np.minimum(limits.window(mean3, mean3 * co_pi)[1], trials)
    left_out = log_cdf_rough_bound(low3 - 1.0, trials, limits.tilted_pi, 1.0 - limits.tilted_pi)
    neglected = log_excess_bound(high3, trials, pi, co_pi)
    neglected -= np.log((high3 - mean3).clip(1e-300))
    # For n2 < first, A is positive for all n3 in the window; for n2 >= stop, for none of them.
    first = np.clip(np.ceil(y_at(high3)), 0.0, s + 1.0)
    stop = np.clip(np.ceil(y_at(low3)) + 1.0, first, s + 1.0)
    # If a window around the tilted mean begins after first or ends before stop - 1, all n2 beyond
    # that end are left out as well.
    tilted2 = s * limits.tilted_rho
    low2, high2 = limits.window(tilted2, tilted2 * (1.0 - limits.tilted_rho))
    cut_below, cut_above = low2 > first, high2 + 1.0 < stop
    below_first = closed_form(first - 1.0)
    first, stop = np.where(cut_below, low2, first), np.where(cut_above, high2 + 1.0, stop)
    stop = np.maximum(first, stop)
    share2 = (limits.tilted_rho, 1.0 - limits.tilted_rho)
    if cut_below.any():
        outside = log_cdf_rough_bound(low2 - 1.0, s, *share2)
        left_out = np.where(cut_below, np.logaddexp(left_out, outside), left_out)
    if cut_above.any():
        outside = log_tail_rough_bound(high2 + 1.0, s, *share2)
        left_out = np.where(cut_above, np.logaddexp(left_out, outside), left_out)
    by_n2 = _excess_by_n2(weighted, s, trials, shift, (first, stop), limits.stride, side)
    low, high = (
        np.logaddexp(inside, np.where(cut_below, -np.inf, below))
        for inside, below in ((by_n2.low, below_first.low), (by_n2.high, below_first.high))
    )
    return LogIntervals(low, high), left_out, neglected


def _excess_by_n2(
    weighted: WeightedSum,
    s: Floats,
    trials: Floats,
    shift: Floats,
    n2_range: tuple[Floats, Floats],
    stride: int,
    side: Side,
) -> LogIntervals:
    """Return ``log E[A_+ 1{first <= n2 < stop} | s]`` for each s, with n3 in closed form.

    For the upper side, all values of n2 in a group are given the excess of the first of them and
    the largest probability; for the lower side, the excess of the last and the smallest
    probability. The excess falls with n2, and a log-concave law is smallest at an end of the group.
    """
    first, stop = n2_range
    both, other = weighted.p1 + weighted.p2, weighted.p3 + weighted.p4
    pi, co_pi = weighted.p3 / other, weighted.p4 / other
    slope = weighted.c - weighted.d
    steps = np.arange(0, max(int((stop - first).max()), 0), stride, dtype=np.float64)
    if not steps.size:
        no_mass = np.full_like(s, -np.inf)
        return LogIntervals(no_mass, no_mass)
    n2 = first[:, None] + steps
    row, column = np.nonzero(n2 < stop[:, None])
    n2 = n2[row, column]
    shares = (weighted.p2 / both, weighted.p1 / both)
    if stride == 1:
        mass_at = n2
    else:
        end = np.minimum(n2 + stride, stop[row]) - 1.0
        members = np.log(end - n2 + 1.0)
        if side == "upper":
            mass_at = np.clip(np.floor((s[row] + 1.0) * shares[0]), n2, end)
        else:
            mass_at = np.where(
                log_pmf(n2, s[row], *shares) < log_pmf(end, s[row], *shares), n2, end
            )
        n2 = n2 if side == "upper" else end
    log_mass, error = log_pmf_with_error(mass_at, s[row], *shares, MULTINOMIAL_INPUT_UNITS)
    if stride > 1:
        log_mass += members
    terms = (weighted.a * (s[row] - n2), weighted.b * n2, weighted.d * trials[row], shift[row])
    weight_error = weighted.sum_error(*terms)
    with np.errstate(over="ignore"):
        # A is positive where n3 < z3, so never for z3 <= 0. Values below -1 may be huge: clip them.
        z3 = np.maximum((terms[0] - terms[1] - terms[2] - terms[3]) / slope, -1.0)
        weight_error = np.where(z3 > -1.0, weight_error / slope + 2.0 * UNIT * np.abs(z3), 0.0)
    last3 = np.ceil(z3) - 1.0
    excess = log_excess(
        trials[row] - z3,
        trials[row],
        co_pi,
        pi,
        trials[row] - last3,
        z3 - last3,
        weight_error,
        MULTINOMIAL_INPUT_UNITS,
    )
    log_mass += np.log(slope)

    def summed(end: Floats) -> Floats:
        table = np.full((s.size, steps.size), -np.inf)
        table[row, column] = end
        return log_sum_exp(table, axis=1)

    return LogIntervals(
        summed(log_mass - error + excess.low), summed(log_mass + error + excess.high)
    )
