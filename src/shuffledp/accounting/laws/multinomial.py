"""Certified ends of the mean positive part of a weighted sum of multinomial counts.

    (1/n) E[A_+],   A = a n1 - b n2 - c n3 - d n4,   (n1, ..., n4) ~ Mult(n; p1, ..., p4).

This is the hockey-stick divergence of a `Pair`; the code calls it the *mean excess* (unconditional,
unlike that of statistics). The sum runs over n2 and s = n1 + n2, with n3 in closed form. Where n3
cannot change the sign of A, the sum over n2 has a closed form as well. About sqrt(n (p1 + p2))
values of s remain, each with about sqrt(n) (c - d) / (a + b) values of n2. Truncation windows are
chosen under the law tilted by exp(lambda A). Since x_+ <= exp(lambda x) / (e lambda), what they
leave out is at most E[exp(lambda A)] / (e lambda n) times its tilted probability; it is bounded and
added to the upper end. Derivation: docs/accounting.md.
"""

from dataclasses import dataclass, replace
from math import exp, inf, log
from operator import mul

import numpy as np
import scipy

from shuffledp.accounting.conventions import Side
from shuffledp.accounting.laws.binomial import (
    log_cdf_rough_bound,
    log_pmf_error,
    log_pmf_run,
    log_pmf_run_error,
    log_tail_rough_bound,
)
from shuffledp.accounting.laws.conditional import (
    MULTINOMIAL_INPUT_UNITS,
    WINDOW_MARGIN,
    Truncation,
    WeightedSum,
    conditional_excess,
)
from shuffledp.numerics.arrays import UNIT, Floats, log_sum_exp

# Half-width of truncation windows in tilted standard deviations. They omit a tilted probability of
# about 1e-20, or 1e-5 for coarse sums, which are used if there would be too many terms.
WINDOW_DEVIATIONS = 9.3
COARSE_WINDOW_DEVIATIONS = 4.5
# Error of the log of the part left out, due to at most n roundings in Chernoff's bound and in the
# tilted probabilities.
LEFT_OUT_LOG_ERROR = 1e-3
# Above this n, neighbouring values of s are grouped into buckets of this relative width.
MAX_EXACT_N = 1_000_000
RELATIVE_BUCKET_WIDTH = 4e-6
TERMS_AT_ONCE = 200_000
# Sums of more than twice this many terms are reduced to it by grouping neighbouring n2.
# For log delta below FAR_LOG_DELTA fewer terms suffice, because an error of a few nats in log delta
# then changes eps by only about 1e-5 (relative).
MAX_TERMS = 1_000_000
MAX_FAR_TERMS, FAR_LOG_DELTA = 250_000, -1e5


@dataclass(frozen=True)
class LogInterval:
    """Natural logarithms of two numbers that enclose the true one."""

    low: float
    high: float


ZERO = LogInterval(-np.inf, -np.inf)


def _tilt(weighted: WeightedSum) -> tuple[float, Floats, float]:
    """Return Chernoff's bound on ``log(E[A_+]/n)``, the tilted probabilities, and lambda."""
    # Plain floats are ten times faster than arrays of four numbers.
    weights = (weighted.a, -weighted.b, -weighted.c, -weighted.d)
    probabilities = (weighted.p1, weighted.p2, weighted.p3, weighted.p4)
    log_p = [log(p) if p > 0.0 else None for p in probabilities]

    def tilted(lam: float) -> tuple[float, list[float]]:
        exponents = [
            -inf if p is None else p + lam * w for p, w in zip(log_p, weights, strict=True)
        ]
        top = max(exponents)
        terms = [exp(exponent - top) for exponent in exponents]
        total = sum(terms)
        return top + log(total), [term / total for term in terms]

    def slope(log_lam: float) -> float:
        lam = float(np.exp(log_lam))
        return float(weighted.n * sum(map(mul, tilted(lam)[1], weights)) - 1.0 / lam)

    # At lambda < 1/(a n) the slope is negative; it turns positive as the law concentrates on n1.
    low = -log(weighted.a * weighted.n) - 1.0
    high = low + 3.0
    while slope(high) < 0.0 and high < low + 700.0:
        high += 3.0
    lam = float(np.exp(scipy.optimize.brentq(slope, low, high, xtol=1e-6)))
    total, law = tilted(lam)
    return weighted.n * total - 1.0 - log(lam) - log(weighted.n), np.array(law), lam


def log_chernoff_bound(weighted: WeightedSum) -> float:
    """Return Chernoff's bound on `log_mean_excess`, cheap but too large by a few nats."""
    if weighted.a <= 0.0:
        return -np.inf
    return _tilt(weighted)[0]


def tilted_shares(weighted: WeightedSum) -> Floats:
    """Return the tilted probabilities of the four categories.

    They are close to the categories' shares in the outcomes that contribute most to E[A_+].
    """
    return _tilt(weighted)[1]


@dataclass(frozen=True)
class _Rows:
    """Values of s, the logs of their probabilities, and bounds on the errors of these logs."""

    s: Floats
    log_mass: Floats
    error: Floats

    def __getitem__(self, block: slice) -> "_Rows":
        return _Rows(self.s[block], self.log_mass[block], self.error[block])


def _rows(weighted: WeightedSum, first: float, last: float) -> _Rows:
    s = np.arange(first, last + 1.0)
    both, other = weighted.p1 + weighted.p2, weighted.p3 + weighted.p4
    log_mass = log_pmf_run(int(first), s.size, weighted.n, both, other)
    error = log_pmf_error(s, weighted.n, both, other, MULTINOMIAL_INPUT_UNITS)
    error = np.where(
        log_mass > -np.inf, error + log_pmf_run_error(log_mass, MULTINOMIAL_INPUT_UNITS), 0.0
    )
    return _Rows(s, log_mass, error)


def _bucket_contribution(
    weighted: WeightedSum, rows: _Rows, width: int, limits: Truncation, side: Side | None
) -> tuple[float, float, float, float]:
    """Return the contribution of values of s that are grouped into buckets of ``width``.

    The results are the lower and upper end, the tilted probability outside the windows, and the
    relative error of replacing A_+ by A (`conditional_excess`); all are natural logs. An end that
    is not required may be infinite.

    Let s range from s_min to s_max in a bucket. In each of its outcomes at least s_min reports are
    in categories 1 and 2, and at least n - s_max in 3 and 4. Each remaining report is replaced: for
    the upper end by one in 1 and 2, whose mean contribution to A is raised to 0 if negative; for
    the lower end by the smaller of the two groups' mean contributions (Jensen). E[A_+] increases
    with the mean and in the convex order.
    """
    s = rows.s
    starts = np.arange(0, s.size, width)
    steepest = float(np.abs(rows.log_mass[rows.log_mass > -np.inf]).max(initial=0.0))
    rounding = width * UNIT * (4.0 + steepest) if width > 1 else 0.0
    low_log_mass = np.logaddexp.reduceat(rows.log_mass - rows.error, starts) - rounding
    high_log_mass = np.logaddexp.reduceat(rows.log_mass + rows.error, starts) + rounding
    bottom = s[starts]
    top = np.append(s[starts[1:] - 1], s[-1])
    spread = top - bottom
    drift = (weighted.p1 * weighted.a - weighted.p2 * weighted.b) / (weighted.p1 + weighted.p2)
    other = weighted.p3 + weighted.p4
    drift3 = -(weighted.c * weighted.p3 + weighted.d * weighted.p4) / other if other > 0 else 0.0
    trials = weighted.n - top
    single = width == 1 and limits.stride == 1
    low, high, left_out, neglected = -np.inf, np.inf, s[:0], s[:0]
    if side != "lower" or single:
        upper, left_out, neglected = conditional_excess(
            weighted, top, trials, spread * min(drift, 0.0), limits, "upper"
        )
        high = float(log_sum_exp(high_log_mass + upper.high))
    if single:
        low = float(log_sum_exp(low_log_mass + upper.low))
    elif side != "upper":
        lower, _, _ = conditional_excess(
            weighted, bottom, trials, -spread * min(drift, drift3), limits, "lower"
        )
        low = float(log_sum_exp(low_log_mass + lower.low))
    return low, high, left_out.max(initial=-np.inf), neglected.max(initial=-np.inf)


def log_mean_excess(weighted: WeightedSum, side: Side | None = None) -> LogInterval:
    """Return a certified interval around ``log(E[(a n1 - b n2 - c n3 - d n4)_+] / n)``.

    If only one ``side`` is required, the other end may be infinite, which saves up to half of the
    time. For ``n`` up to a million the width of the interval is due to rounding, about 1e-11,
    unless values of n2 are grouped to limit the number of terms. For larger n, values of s are
    grouped, which changes eps by about 1e-6 (relative).
    """
    if weighted.a <= 0.0:
        return ZERO
    chernoff, law, lam = _tilt(weighted)
    share, rest = min(float(law[0] + law[1]), 1.0), float(law[2] + law[3])
    tilted_pi = float(law[2]) / rest if rest > 0 else 0.0

    def range_of_s(limits: Truncation) -> tuple[float, float]:
        low, high = limits.window(np.array(weighted.n * share), np.array(weighted.n * share * rest))
        return max(float(low), 0.0), min(float(high), float(weighted.n))

    def bucket(first: float) -> int:
        return 1 if weighted.n <= MAX_EXACT_N else max(1, int(RELATIVE_BUCKET_WIDTH * first))

    limits = Truncation(WINDOW_DEVIATIONS, 1, float(law[1] / (law[0] + law[1])), tilted_pi)
    first, last = range_of_s(limits)
    width = bucket(first)
    max_terms = MAX_TERMS if chernoff > FAR_LOG_DELTA else MAX_FAR_TERMS
    if (last - first) / width * _columns(weighted, limits) > 2 * max_terms:
        limits = replace(limits, half_width=COARSE_WINDOW_DEVIATIONS)
        first, last = range_of_s(limits)
        width = bucket(first)
        terms = (last - first + 1.0) / width * _columns(weighted, limits)
        limits = replace(limits, stride=int(np.ceil(terms / max_terms)))
    outside = np.logaddexp(
        log_cdf_rough_bound(first - 1.0, weighted.n, share, rest),
        log_tail_rough_bound(last + 1.0, weighted.n, share, rest),
    )
    rows = _rows(weighted, first, last)
    # Rows of the two-dimensional sum are processed in blocks to save memory.
    count = width * max(1, TERMS_AT_ONCE * limits.stride // _columns(weighted, limits))
    parts = [
        _bucket_contribution(weighted, rows[i : i + count], width, limits, side)
        for i in range(0, rows.s.size, count)
    ]
    lows, highs, left_out, neglected = zip(*parts, strict=True)
    missing = np.logaddexp(outside, max(left_out)) + chernoff + np.log(weighted.n)
    missing += _inflation(weighted, share, rest, lam, width - 1) + LEFT_OUT_LOG_ERROR
    neglect = np.log1p(np.exp(max(neglected) + LEFT_OUT_LOG_ERROR))
    upper = np.logaddexp(log_sum_exp(np.array(highs)) + neglect, missing)
    lower, upper = log_sum_exp(np.array(lows)) - np.log(weighted.n), upper - np.log(weighted.n)
    if upper == -np.inf:
        return ZERO
    return LogInterval(
        float(lower - _sum_rounding(weighted, float(lower))),
        float(upper + _sum_rounding(weighted, float(upper))),
    )


def _sum_rounding(weighted: WeightedSum, log_value: float) -> float:
    """Return the rounding error of adding logarithms and summing exponentials.

    Three nested pairwise sums of fewer than 2^30 terms have an error below 64 units each. For terms
    of the order of the result, partial sums of logarithms are at most as large as the result plus
    the logs of the largest factors. For much smaller terms they are larger, but these terms are so
    small that their errors are smaller, too.
    """
    factors = abs(np.log(weighted.alpha)) + abs(np.log(weighted.c - weighted.d or 1.0))
    factors += np.log(weighted.n)
    return float(UNIT * (200.0 + 8.0 * (abs(log_value) + factors)))


def _inflation(weighted: WeightedSum, share: float, rest: float, lam: float, spread: int) -> float:
    """Return the log of the largest ratio of a bucket's ``E[exp(lam A)]`` to that of a member.

    In the bucket, up to ``spread`` reports in categories 3 and 4 are replaced by others in 1 and 2,
    whose mean is raised. Each replacement multiplies the moment by the ratio of their moments.
    """
    if spread == 0 or rest == 0.0:
        return 0.0
    both, other = weighted.p1 + weighted.p2, weighted.p3 + weighted.p4
    drift = (weighted.p1 * weighted.a - weighted.p2 * weighted.b) / both
    ratio = np.log(share / both) - np.log(rest / other)
    return float(spread * max(ratio - lam * min(drift, 0.0), 0.0))


def _columns(weighted: WeightedSum, limits: Truncation) -> int:
    """Return the approximate number of values of n2 per s for which n3 can change the sign of A."""
    if weighted.p3 == 0.0:
        return 1
    pi = weighted.p3 / (weighted.p3 + weighted.p4)
    half = limits.half_width * np.sqrt(weighted.n * pi * (1.0 - pi)) + WINDOW_MARGIN
    changed = 4.0 * half * (weighted.c - weighted.d) / (weighted.a + weighted.b)
    return int(changed) + 8
