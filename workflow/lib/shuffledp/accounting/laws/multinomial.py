"""The law of a weighted sum of multinomial counts: its mean excess over 0, enclosed.

    (1/n) E[(a n1 - b n2 - c n3 - d n4)_+],   (n1, ..., n4) ~ Mult(n; p1, ..., p4).

The sum runs over s = n1 + n2 and n2, with n3 in closed form; where n3 cannot turn the sign the
sum over n2 is closed as well, so that a value costs of the order of sqrt(n (p1 + p2)) terms. The
windows follow the law tilted by exp(lambda A): by x_+ <= exp(lambda x) / (e lambda) what they
leave out is at most M(lambda)^n / (e lambda n) times its tilted probability. That is computed and
added to the upper end. Derivation: docs/accounting.md.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from shuffledp.accounting.conventions import Side
from shuffledp.accounting.laws.binomial import (
    LogIntervals,
    log_cdf,
    log_excess,
    log_pmf,
    log_pmf_error,
    log_pmf_run,
    log_pmf_run_error,
    log_sf,
)
from shuffledp.arrays import Floats
from shuffledp.roots import brentq

# Half-width of every window in tilted standard deviations: leaves out about 1e-20, or, where sums
# are coarse because they would be long, 1e-5.
_WIDTH = 9.3
_COARSE_WIDTH = 4.5
_MARGIN = 20.0  # for the Poisson-like tails of small counts
_UNIT = 2.0**-53
# Relative error, in units of rounding, of the probabilities (a product, sum or quotient of numbers
# that are right to four units each) and of what is computed from the four weights.
_INPUTS = 20.0
# Chernoff's bound and tilted probabilities, n roundings at worst: they weigh what is left out.
_LEFT_OUT_ROUNDING = 1e-3
# Above this n, neighbouring values of s are bracketed together (relative width of a bucket).
_EXACT_N = 1_000_000
_BUCKET = 4e-6
_CHUNK = 200_000
# With more than twice as many terms neighbouring n2 are taken together, until so many are left: the
# fewer, the deeper delta lies, where a few units of its log are some 1e-5 of eps.
_TERMS = 1_000_000
_FAR_TERMS, _FAR = 250_000, -1e5


@dataclass(frozen=True)
class WeightedSum:
    """``A = a n1 - b n2 - c n3 - d n4`` over a multinomial of ``n`` trials.

    Every probability is given, though they add up to 1, and every count has its weight, though
    one could be taken out: what is small must not come from a difference of what is large.

    Attributes
    ----------
    n
        Number of trials, at least 1.
    p1, p2, p3, p4
        Cell probabilities, ``p1 > 0`` and ``p2 > 0``.
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
        """What one report in cell 1 rather than 2 makes."""
        return self.a + self.b

    def off(self, *terms: Floats) -> Floats:
        """Absolute error of a sum of weighted counts with these terms."""
        size = np.sum([np.abs(term) for term in terms], axis=0)
        return np.asarray(_UNIT * (self.units + _INPUTS + 16.0) * size)


@dataclass(frozen=True)
class LogInterval:
    """Natural logarithms of two numbers that enclose the true one."""

    low: float
    high: float


ZERO = LogInterval(-np.inf, -np.inf)


def _tilt(weighted: WeightedSum) -> tuple[float, Floats, float]:
    """Log of Chernoff's bound on ``E[A_+]/n``, the tilted probabilities, and lambda."""
    weights = np.array([weighted.a, -weighted.b, -weighted.c, -weighted.d])
    probabilities = np.array([weighted.p1, weighted.p2, weighted.p3, weighted.p4])
    keep = probabilities > 0
    log_p = np.log(np.where(keep, probabilities, 1.0))

    def tilted(lam: float) -> tuple[float, Floats]:
        exponents = np.where(keep, log_p + lam * weights, -np.inf)
        total = float(logsumexp(exponents))
        return total, np.exp(exponents - total)

    def slope(log_lam: float) -> float:
        lam = np.exp(log_lam)
        return float(weighted.n * (tilted(lam)[1] @ weights) - 1.0 / lam)

    # At exp(low) < 1/(a n) the slope is negative; it turns positive as the law narrows to n1.
    low = -np.log(weighted.a * weighted.n) - 1.0
    high = low + 3.0
    while slope(high) < 0.0 and high < low + 700.0:
        high += 3.0
    lam = float(np.exp(brentq(slope, low, high, xtol=1e-6)))
    total, law = tilted(lam)
    return float(weighted.n * total - 1.0 - np.log(lam) - np.log(weighted.n)), law, lam


def log_chernoff_bound(weighted: WeightedSum) -> float:
    """Upper bound on `log_mean_excess` in no time, too large by a few units at most."""
    if weighted.a <= 0.0:
        return -np.inf
    return _tilt(weighted)[0]


def tilted_shares(weighted: WeightedSum) -> Floats:
    """Shares of the four counts where ``E[A_+]`` accumulates, shape (4,); needs ``a > 0``."""
    return _tilt(weighted)[1]


@dataclass(frozen=True)
class _Grain:
    """How finely the sum is taken.

    Attributes
    ----------
    width
        Half-width of the windows, in standard deviations.
    stride
        How many n2 are taken together.
    tilted_rho, tilted_pi
        Shares of n2 in ``n1 + n2`` and of n3 in ``n3 + n4`` under the tilted law.
    """

    width: float
    stride: int
    tilted_rho: float
    tilted_pi: float

    def window(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        half = self.width * np.sqrt(variance) + _MARGIN
        return np.floor(mean - half), np.ceil(mean + half)


def _conditional_excess(
    weighted: WeightedSum, s: Floats, trials: Floats, shift: Floats, grain: _Grain, side: Side
) -> tuple[LogIntervals, Floats, Floats]:
    """Log of ``E[A_+ | s]``, ``A = a n1 - b n2 - c n3 - d (trials - n3) - shift``, by element of s.

    Given s, ``n2 ~ Bin(s, p2 / (p1 + p2))`` and ``n3 ~ Bin(trials, p3 / (p3 + p4))``. A is
    positive where n2 is below ``y(n3) = (a s - (c - d) n3 - d trials - shift) / (a + b)``; written
    so, nothing cancels as eps nears eps0.

    Returns the value (rounded to the side where n2 are taken together), the largest tilted
    probability left out, and the largest relative amount neglected where n3 was taken to be unable
    to turn the sign; both make the value smaller.
    """
    both, alpha, slope = weighted.p1 + weighted.p2, weighted.alpha, weighted.c - weighted.d
    rho1, rho2 = weighted.p1 / both, weighted.p2 / both
    other = weighted.p3 + weighted.p4
    pi, co_pi = (weighted.p3 / other, weighted.p4 / other) if other > 0 else (0.0, 1.0)
    mean3 = trials * pi
    base = weighted.a * s - weighted.d * trials - shift

    def below(n3: Floats) -> Floats:
        return (base - slope * n3) / alpha

    def closed(last2: Floats | None = None) -> LogIntervals:
        """Sum over n2 up to last2 (as far as A is positive), n3 at its mean: in terms of n1."""
        beside = (slope * mean3, weighted.d * trials, shift)
        if weighted.a > weighted.b:
            # s - y from its own terms: next to a, b may be below the last digit.
            least = (weighted.b * s + slope * mean3 + weighted.d * trials + shift) / alpha
            start = np.floor(least) + 1.0 if last2 is None else s - last2
            gap, off = start - least, weighted.off(weighted.b * s, *beside)
        else:
            y = below(mean3)
            last2 = np.ceil(y) - 1.0 if last2 is None else last2
            least, start, gap = s - y, s - last2, y - last2
            off = weighted.off(weighted.a * s, *beside)
        excess = log_excess(least, s, rho1, rho2, start, gap, off / alpha, _INPUTS)
        return LogIntervals(np.log(alpha) + excess.low, np.log(alpha) + excess.high)

    if slope == 0.0 or pi == 0.0 or co_pi == 0.0:
        none = np.full_like(s, -np.inf)
        return closed(), none, none
    tilted_mean = trials * grain.tilted_pi
    low3 = np.maximum(grain.window(tilted_mean, tilted_mean * (1.0 - grain.tilted_pi))[0], 0.0)
    high3 = np.minimum(grain.window(mean3, mean3 * co_pi)[1], trials)
    left_out = log_cdf(low3 - 1.0, trials, grain.tilted_pi)
    with np.errstate(divide="ignore"):
        neglected = log_excess(high3, trials, pi, co_pi).high
        neglected = neglected - np.log((high3 - mean3).clip(1e-300))
    # From the first n2 on, n3 can make A negative; before the last, it cannot always do so.
    first = np.clip(np.ceil(below(high3)), 0.0, s + 1.0)
    last = np.clip(np.ceil(below(low3)) + 1.0, first, s + 1.0)
    # Far out, all of these n2 but a window about the tilted mean can be left out, too.
    tilted2 = s * grain.tilted_rho
    low2, high2 = grain.window(tilted2, tilted2 * (1.0 - grain.tilted_rho))
    far = low2 > first
    below_window = closed(first - 1.0)
    first, last = np.where(far, low2, first), np.where(far, np.minimum(last, high2 + 1.0), last)
    outside2 = np.logaddexp(
        log_cdf(low2 - 1.0, s, grain.tilted_rho), log_sf(high2 + 1.0, s, grain.tilted_rho)
    )
    left_out = np.where(far, np.logaddexp(left_out, outside2), left_out)
    partial = _excess_by_n2(weighted, s, trials, shift, (first, last), grain.stride, side)
    low, high = (
        np.logaddexp(part, np.where(far, -np.inf, rest))
        for part, rest in ((partial.low, below_window.low), (partial.high, below_window.high))
    )
    return LogIntervals(low, high), left_out, neglected


def _excess_by_n2(
    weighted: WeightedSum,
    s: Floats,
    trials: Floats,
    shift: Floats,
    between: tuple[Floats, Floats],
    stride: int,
    side: Side,
) -> LogIntervals:
    """Log of ``E[A_+ 1{first <= n2 < last} | s]``, by element of s, n3 in closed form.

    Several n2 together count with their first one's excess and their largest probability (upper),
    or with their last one's and their smallest: the excess falls with n2, the law is log-concave.
    """
    first, last = between
    both, other = weighted.p1 + weighted.p2, weighted.p3 + weighted.p4
    pi, co_pi = weighted.p3 / other, weighted.p4 / other
    slope = weighted.c - weighted.d
    steps = np.arange(0, max(int((last - first).max()), 0), stride, dtype=np.float64)
    if not steps.size:
        none = np.full_like(s, -np.inf)
        return LogIntervals(none, none)
    n2 = first[:, None] + steps
    row, column = np.nonzero(n2 < last[:, None])
    n2 = n2[row, column]
    shares = (weighted.p2 / both, weighted.p1 / both)
    if stride == 1:
        at = n2
    else:
        end = np.minimum(n2 + stride, last[row]) - 1.0
        members = np.log(end - n2 + 1.0)
        if side == "upper":
            at = np.clip(np.floor((s[row] + 1.0) * shares[0]), n2, end)
        else:
            at = np.where(log_pmf(n2, s[row], *shares) < log_pmf(end, s[row], *shares), n2, end)
        n2 = n2 if side == "upper" else end
    log_mass = log_pmf(at, s[row], *shares)
    error = log_pmf_error(at, s[row], *shares, _INPUTS)
    if stride > 1:
        log_mass += members
    terms = (weighted.a * (s[row] - n2), weighted.b * n2, weighted.d * trials[row], shift[row])
    off = weighted.off(*terms)
    with np.errstate(over="ignore"):
        # At a z3 of -1 as far below, A is never positive.
        z3 = np.maximum((terms[0] - terms[1] - terms[2] - terms[3]) / slope, -1.0)
        off = np.where(z3 > -1.0, off / slope + 2.0 * _UNIT * np.abs(z3), 0.0)
    last3 = np.ceil(z3) - 1.0
    excess = log_excess(
        trials[row] - z3,
        trials[row],
        co_pi,
        pi,
        trials[row] - last3,
        z3 - last3,
        off,
        _INPUTS,
    )
    log_mass += np.log(slope)

    def summed(end: Floats) -> Floats:
        table = np.full((s.size, steps.size), -np.inf)
        table[row, column] = end
        return np.asarray(logsumexp(table, axis=1))

    return LogIntervals(
        summed(log_mass - error + excess.low), summed(log_mass + error + excess.high)
    )


@dataclass(frozen=True)
class _Rows:
    """Values of s, the logs of their probabilities, and bounds of the errors of these."""

    s: Floats
    log_mass: Floats
    error: Floats

    def __getitem__(self, part: slice) -> "_Rows":
        return _Rows(self.s[part], self.log_mass[part], self.error[part])


def _rows(weighted: WeightedSum, first: float, last: float) -> _Rows:
    s = np.arange(first, last + 1.0)
    both, other = weighted.p1 + weighted.p2, weighted.p3 + weighted.p4
    log_mass = log_pmf_run(int(first), s.size, weighted.n, both, other)
    error = log_pmf_error(s, weighted.n, both, other, _INPUTS)
    error = np.where(log_mass > -np.inf, error + log_pmf_run_error(log_mass, _INPUTS), 0.0)
    return _Rows(s, log_mass, error)


def _bracket(
    weighted: WeightedSum, rows: _Rows, width: int, grain: _Grain
) -> tuple[float, float, float, float]:
    """Contribution of the given values of s, in buckets of ``width``: low, high, what is left out.

    Within a bucket the terms common to all its s are kept. For the upper end the others' noise is
    added in full without its (non-positive) drift, for the lower end they are replaced by their
    mean (Jensen); E[(.)_+] is monotone in the drift and increasing in the convex order.
    """
    s = rows.s
    starts = np.arange(0, s.size, width)
    rounding = width * _UNIT * (4.0 + float(np.abs(rows.log_mass).max())) if width > 1 else 0.0
    least = np.logaddexp.reduceat(rows.log_mass - rows.error, starts) - rounding
    most = np.logaddexp.reduceat(rows.log_mass + rows.error, starts) + rounding
    bottom = s[starts]
    top = np.append(s[starts[1:] - 1], s[-1])
    spread = top - bottom
    drift = (weighted.p1 * weighted.a - weighted.p2 * weighted.b) / (weighted.p1 + weighted.p2)
    other = weighted.p3 + weighted.p4
    drift3 = -(weighted.c * weighted.p3 + weighted.d * weighted.p4) / other if other > 0 else 0.0
    trials = weighted.n - top
    upper, left_out, neglected = _conditional_excess(
        weighted, top, trials, spread * min(drift, 0.0), grain, "upper"
    )
    if width == 1 and grain.stride == 1:
        lower = upper
    else:
        lower, _, _ = _conditional_excess(
            weighted, bottom, trials, -spread * min(drift, drift3), grain, "lower"
        )
    return (
        float(logsumexp(least + lower.low)),
        float(logsumexp(most + upper.high)),
        float(left_out.max()),
        float(neglected.max()),
    )


def log_mean_excess(weighted: WeightedSum) -> LogInterval:
    """Enclose ``log(E[(a n1 - b n2 - c n3 - d n4)_+] / n)``.

    For ``n`` up to a million it is as wide as rounding makes it, some 1e-11; above, values of s
    are bracketed together, which widens the interval by some 1e-6 relative in epsilon. Costs of
    the order of ``sqrt(n (p1 + p2))`` special functions.
    """
    if weighted.a <= 0.0:
        return ZERO
    chernoff, law, lam = _tilt(weighted)
    share, rest = min(float(law[0] + law[1]), 1.0), float(law[2] + law[3])
    tilted_pi = float(law[2]) / rest if rest > 0 else 0.0

    def range_of_s(grain: _Grain) -> tuple[float, float]:
        low, high = grain.window(np.array(weighted.n * share), np.array(weighted.n * share * rest))
        return max(float(low), 0.0), min(float(high), float(weighted.n))

    def bucket(first: float) -> int:
        return 1 if weighted.n <= _EXACT_N else max(1, int(_BUCKET * first))

    grain = _Grain(_WIDTH, 1, float(law[1] / (law[0] + law[1])), tilted_pi)
    first, last = range_of_s(grain)
    width = bucket(first)
    most = _TERMS if chernoff > _FAR else _FAR_TERMS
    if (last - first) / width * _columns(weighted, grain) > 2 * most:
        grain = replace(grain, width=_COARSE_WIDTH)
        first, last = range_of_s(grain)
        width = bucket(first)
        terms = (last - first + 1.0) / width * _columns(weighted, grain)
        grain = replace(grain, stride=int(np.ceil(terms / most)))
    outside = np.logaddexp(
        log_cdf(first - 1.0, weighted.n, share, rest), log_sf(last + 1.0, weighted.n, share, rest)
    )
    rows = _rows(weighted, first, last)
    # Rows of the two-dimensional sum are limited so that memory stays small.
    count = width * max(1, _CHUNK * grain.stride // _columns(weighted, grain))
    parts = [
        _bracket(weighted, rows[i : i + count], width, grain) for i in range(0, rows.s.size, count)
    ]
    lows, highs, left_out, neglected = zip(*parts, strict=True)
    missing = np.logaddexp(outside, max(left_out)) + chernoff + np.log(weighted.n)
    missing += _inflation(weighted, share, rest, lam, width - 1) + _LEFT_OUT_ROUNDING
    neglect = np.log1p(np.exp(max(neglected) + _LEFT_OUT_ROUNDING))
    upper = np.logaddexp(logsumexp(highs) + neglect, missing)
    lower, upper = logsumexp(lows) - np.log(weighted.n), upper - np.log(weighted.n)
    if upper == -np.inf:
        return ZERO
    slack = _sum_rounding(weighted, float(upper))
    return LogInterval(float(lower - slack), float(upper + slack))


def _sum_rounding(weighted: WeightedSum, log_value: float) -> float:
    """What adding logarithms and sums of exponentials round, given the errors of their terms.

    Sums are pairwise, of fewer than 2^30 terms, thrice nested: less than 64 units each. Partial
    sums of logarithms are not larger than the result and the largest factors above 1; lesser terms
    may be, but weigh less by more.
    """
    factors = abs(np.log(weighted.alpha)) + abs(np.log(weighted.c - weighted.d or 1.0))
    factors += np.log(weighted.n)
    return float(_UNIT * (200.0 + 8.0 * (abs(log_value) + factors)))


def _inflation(weighted: WeightedSum, share: float, rest: float, lam: float, spread: int) -> float:
    """Log of how much a bucket's tilted moment can exceed that of its members.

    The bucket has up to ``spread`` terms of n1 and n2, without their drift, in place of terms of
    n3 and n4; each exchange multiplies the moment by the ratio of theirs.
    """
    if spread == 0 or rest == 0.0:
        return 0.0
    both, other = weighted.p1 + weighted.p2, weighted.p3 + weighted.p4
    drift = (weighted.p1 * weighted.a - weighted.p2 * weighted.b) / both
    ratio = np.log(share / both) - np.log(rest / other)
    return float(spread * max(ratio - lam * min(drift, 0.0), 0.0))


def _columns(weighted: WeightedSum, grain: _Grain) -> int:
    """About how many n2 per s need the law of n3."""
    if weighted.p3 == 0.0:
        return 1
    pi = weighted.p3 / (weighted.p3 + weighted.p4)
    half = grain.width * np.sqrt(weighted.n * pi * (1.0 - pi)) + _MARGIN
    turned = 4.0 * half * (weighted.c - weighted.d) / (weighted.a + weighted.b)
    return int(turned) + 8
