"""Mean positive part of a weighted sum of multinomial counts with a random number of trials.

`multinomial` is for a fixed number of trials, this module for personal budgets or users' dummies:
the number m of uniform reports has a Poisson-binomial law, and n1 and n2 of them fall into the
first two cells. The sum runs over m and s = n1 + n2; n2, which is binomial given s, is summed in
closed form. The ranges of m and s are chosen under the law tilted by exp(lambda A), where A is the
weighted sum. As in `multinomial`, what they leave out is bounded by means of its tilted probability
and added to the upper end.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from scipy.special import expit, logsumexp

from shuffledp.accounting.conventions import Side
from shuffledp.accounting.laws.binomial import (
    LogIntervals,
    log_cdf_upper,
    log_pmf,
    log_pmf_error,
    log_tail_ends,
    log_tail_upper,
)
from shuffledp.accounting.laws.excess import log_excess
from shuffledp.accounting.laws.multinomial import LogInterval
from shuffledp.accounting.laws.poisson_binomial import poisson_binomial
from shuffledp.numerics.arrays import UNIT, Floats, Integers

# Half-width of truncation windows of s: tilted standard deviations, beyond which the mass is about
# 1e-20, plus a number of counts for the Poisson-like tails of small means.
WINDOW_DEVIATIONS, WINDOW_MARGIN = 9.3, 20.0
# Relative error of tilted probabilities, in units of rounding.
TILTED_INPUT_UNITS = 8.0
# Allowance for rounding in the log of the part left out; it may be generous, because that part is
# negligible.
LEFT_OUT_LOG_ERROR = 1e-3
# If the tilted probability of all cells but the first two is below this, all reports are taken to
# be in these two.
NEGLIGIBLE_PROBABILITY = 1e-30
# Number of pairs (m, s) processed at once.
ELEMENTS_AT_ONCE = 1_000_000


@dataclass(frozen=True)
class RandomTrials:
    """A random number of trials: 1 plus the successes of independent users or dummies.

    Attributes
    ----------
    log_odds, counts
        Log odds of success (inf for certainty), and the numbers of users or dummies with these
        odds, of the same shape.
    """

    log_odds: Floats
    counts: Integers


@dataclass(frozen=True)
class Mixture:
    """Arguments of ``sum_m Pr[m] (1 / m) E[(a n1 - b n2 - c (m - n1 - n2))_+ | m]``.

    Attributes
    ----------
    trials
        Law of m.
    p, p3
        Probability of each of the first two cells, and of all other cells together.
    a, b, c
        Weights; ``a`` and ``b`` are positive, ``c`` is at least 0.
    units
        Relative error of each weight, in units of rounding.
    """

    trials: RandomTrials
    p: float
    p3: float
    a: float
    b: float
    c: float
    units: float = 4.0


@dataclass(frozen=True)
class _Tilt:
    """Law of (m, n1 + n2) tilted by ``exp(lam A)``, where A is the weighted sum."""

    lam: float
    log_total: float  # log E exp(lam A)
    log_pair: float  # log of the mean of exp(lam a) and exp(-lam b)
    rates: Floats  # probability of success of each of the other users
    co_rates: Floats  # 1 - rates, computed without cancellation
    rho: float  # probability that a uniform report falls into one of the first two cells
    rest: float  # 1 - rho, computed without cancellation
    log_others: Floats  # log E exp(lam A) of each of the other users
    # Size of the terms of `_log_mean_exp` for one uniform report, to which its rounding error is
    # proportional: E |expm1(min(lam w, 1))| for the report's weight w, capped at 1.
    moment_terms: float


def _log_mean_exp(p: Floats, x: Floats) -> float:
    """Return ``log sum p exp(x)``, accurate relative to its size even for small x."""
    if np.abs(x).max() < 1.0:
        return float(np.log1p(p @ np.expm1(x)))
    return float(logsumexp(x, b=p))


def _tilt(mixture: Mixture) -> _Tilt:
    third = mixture.p3 > 0.0
    weights = np.array([mixture.a, -mixture.b, -mixture.c])[: 3 if third else 2]
    p = np.array([mixture.p, mixture.p, mixture.p3])[: weights.size]
    log_odds, counts = mixture.trials.log_odds, mixture.trials.counts

    def tilted(lam: float) -> tuple[float, Floats, Floats]:
        """Return the log moment of one report, its tilted law, and the tilted rates."""
        log_report = _log_mean_exp(p, lam * weights)
        return log_report, p * np.exp(lam * weights - log_report), expit(log_odds + log_report)

    def slope(log_lam: float) -> float:
        """Return the derivative of ``log(E exp(lam A) / lam)`` with respect to lam."""
        lam = np.exp(log_lam)
        _, law, rates = tilted(lam)
        return float((1.0 + counts @ rates) * (law @ weights) - 1.0 / lam)

    low = -np.log(mixture.a * (1.0 + counts.sum())) - 1.0
    high = low + 3.0
    while slope(high) < 0.0 and high < low + 700.0:
        high += 3.0
    lam = float(np.exp(scipy.optimize.brentq(slope, low, high, xtol=1e-6)))
    log_report, law, rates = tilted(lam)
    untilted_rates = expit(log_odds)
    with np.errstate(divide="ignore"):
        log_others = np.where(
            log_report < 1.0,
            np.log1p(untilted_rates * np.expm1(min(log_report, 1.0))),
            np.logaddexp(np.log1p(-untilted_rates), np.log(untilted_rates) + log_report),
        )
    return _Tilt(
        lam=lam,
        log_total=float(log_report + counts @ log_others),
        log_pair=_log_mean_exp(np.array([0.5, 0.5]), lam * weights[:2]),
        rates=rates,
        co_rates=expit(-(log_odds + log_report)),
        rho=float(min(law[0] + law[1], 1.0)) if third else 1.0,
        rest=float(law[2]) if third else 0.0,
        log_others=log_others,
        moment_terms=min(float(p @ np.abs(np.expm1(np.minimum(lam * weights, 1.0)))), 1.0),
    )


def _binomial_rows(m: Floats, rho: float, rest: float) -> tuple[Floats, Floats, Floats]:
    """Return s around its mean, log Pr[Bin(m, rho) = s], and the mass left out, for each m.

    Products of ratios of consecutive probabilities, from the middle outwards, are ten times faster
    than `log_pmf`.
    """
    if rest < NEGLIGIBLE_PROBABILITY:
        return m[:, None], np.zeros((m.size, 1)), m * rest
    half = int(WINDOW_DEVIATIONS * np.sqrt(m[-1] * rho * rest) + WINDOW_MARGIN)
    middle = np.floor(m * rho)
    offset = np.arange(-half, half + 1.0)
    s = middle[:, None] + offset
    odds = rho / rest
    up, down = s[:, half:-1], s[:, half:0:-1]
    rising = np.maximum(m[:, None] - up, 0.0) / np.maximum(up + 1.0, 1.0) * odds
    falling = np.maximum(down, 0.0) / (np.maximum(m[:, None] - down, 0.0) + 1.0) / odds
    with np.errstate(divide="ignore"):
        log_ratio = np.log(
            np.hstack(
                [
                    np.cumprod(falling, axis=1)[:, ::-1],
                    np.ones((m.size, 1)),
                    np.cumprod(rising, axis=1),
                ]
            )
        )
    outside = np.exp(log_cdf_upper(s[:, 0] - 1.0, m, rho, rest)) + np.exp(
        log_tail_upper(s[:, -1] + 1.0, m, rho, rest)
    )
    return s, log_ratio + log_pmf(middle, m, rho, rest)[:, None], outside


def _log_rows(
    mixture: Mixture, tilt: _Tilt, m: Floats, side: Side | None
) -> tuple[LogIntervals, Floats]:
    """Return ``log(E[A_+ | m] / E[exp(lam A) | m])`` for each m, and the tilted mass left out.

    The interval covers the rounding of thresholds and tails; `_rounding` covers the rest. For
    ``side="upper"`` the lower end is -inf, which halves the time.

    Given m and s, ``A = (a + b) (y - n2)``. ``E[(y - n2)_+ | s]`` is linear between integers y; its
    coefficients are taken from a small table.
    """
    a, b, c = mixture.a, mixture.b, mixture.c
    s, log_weight, outside = _binomial_rows(m, tilt.rho, tilt.rest)
    clipped = np.clip(s, 0.0, m[:, None])
    alpha = a + b
    # A > 0 where n2 is below the threshold y. With n1 instead of n2, the distance of the threshold
    # s - y from the next integer would lose many digits when exp(eps) is large and y small.
    in_third = m[:, None] - clipped
    y = (a * clipped - c * in_third) / alpha
    n2 = np.ceil(y) - 1.0
    s_values = np.arange(clipped.min(), clipped.max() + 1.0)
    row = (clipped - s_values[0]).astype(np.int64)
    max_y = np.ceil((a * s_values - c * (m[0] - s_values)) / alpha)
    column = (max_y[row] - n2).astype(np.int64)
    # The first column is for thresholds that rounding may have moved across an integer.
    thresholds = (s_values - max_y)[:, None] + np.arange(-1.0, column.max() + 1.0)
    scale = s_values[:, None] * tilt.log_pair
    tails = log_tail_ends(thresholds, s_values[:, None], 0.5, 0.5, 0.0)
    excess = log_excess(thresholds, s_values[:, None], 0.5, 0.5, input_units=0.0)
    at, gap = (row, column + 1), y - n2
    gap_error = UNIT * (mixture.units + 16.0) * (a * clipped + c * in_third) / alpha
    with np.errstate(divide="ignore"):
        log_gap = np.log(gap)
        log_crossed = np.log(np.maximum(gap + gap_error - 1.0, 0.0)) + tails.high[row, column]
    high = np.logaddexp(np.logaddexp(excess.high[at], log_gap + tails.high[at]), log_crossed)

    def summed(log_term: Floats) -> Floats:
        terms = log_weight + log_term - scale[row, 0] + tilt.lam * c * in_third
        terms = np.where(clipped == s, terms, -np.inf)
        return np.asarray(logsumexp(terms, axis=1) + np.log(alpha))

    if side == "upper":
        return LogIntervals(np.full(m.size, -np.inf), summed(high)), outside
    with np.errstate(divide="ignore"):
        log_gap_low = np.log(np.maximum(gap - gap_error, 0.0))
        positive = excess.low[at] > -np.inf
        ratio = np.exp(
            np.where(positive, tails.high[at] - np.where(positive, excess.low[at], 0.0), 0.0)
        )
        lost_share = np.where(positive, np.minimum(gap_error * ratio, 1.0), 1.0)
        low = np.where(
            gap > gap_error,
            np.logaddexp(excess.low[at], log_gap_low + tails.low[at]),
            excess.low[at] + np.log1p(-lost_share),
        )
    return LogIntervals(summed(low), summed(high)), outside


def _rounding(mixture: Mixture, tilt: _Tilt, m: Floats, log_value: float) -> float:
    """Return a bound on the remaining rounding error of the log mean excess.

    In the law of m, the factor of each user has an error of 16 units of rounding, and 8 more per
    unit of its exponent. The factor of each report has an error of 8 units, and 8 more per unit of
    its exponents. Convolutions and the ratios of a row multiply positive numbers, with one unit per
    term; sums are pairwise.
    """
    counts, max_reports = mixture.trials.counts, float(m[-1])
    users = 16.0 * counts.sum() + 8.0 * float(counts @ np.abs(tilt.log_others))
    exponents = (
        abs(tilt.log_total) / max(max_reports, 1.0) + abs(tilt.log_pair) + tilt.lam * mixture.c
    )
    reports = 8.0 * max_reports * (1.0 + exponents + tilt.moment_terms)
    half = WINDOW_DEVIATIONS * np.sqrt(max_reports * tilt.rho * tilt.rest) + WINDOW_MARGIN
    terms = 40.0 * half + 32.0 * m.size
    middle = np.floor(max_reports * tilt.rho)
    start = float(log_pmf_error(middle, max_reports, tilt.rho, tilt.rest, TILTED_INPUT_UNITS))
    return float(start + UNIT * (users + reports + terms + 200.0 + 8.0 * abs(log_value)))


def log_mixture_excess(mixture: Mixture, side: Side | None = None) -> LogInterval:
    """Return a certified interval around the log of the sum in `Mixture`.

    With ``side="upper"`` the lower end is -inf. The relative width is about 1e-8 for a million
    users. The cost is of the order of ``n sqrt(1/k)`` arithmetic operations, and one evaluation of
    special functions for each pair of a value of ``n1 + n2`` and a threshold: 10 s at n = 1e6 and
    k = 3.
    """
    tilt = _tilt(mixture)
    window = poisson_binomial(tilt.rates, mixture.trials.counts, tilt.co_rates)
    m = window.start + 1.0 + np.arange(window.mass.size, dtype=np.float64)
    width = 2.0 * (WINDOW_DEVIATIONS * np.sqrt(m[-1] * tilt.rho * tilt.rest) + WINDOW_MARGIN)
    rows = max(1, int(ELEMENTS_AT_ONCE / width))
    parts = [_log_rows(mixture, tilt, m[i : i + rows], side) for i in range(0, m.size, rows)]
    outside = np.concatenate([part[1] for part in parts])

    def summed(ends: list[Floats]) -> float:
        with np.errstate(divide="ignore"):
            return float(logsumexp(np.log(window.mass) + np.concatenate(ends) - np.log(m)))

    low, high = summed([part[0].low for part in parts]), summed([part[0].high for part in parts])
    with np.errstate(divide="ignore"):
        # A_+ <= exp(lam A) / (e lam), and 1/m <= 1.
        left_out = np.log(window.missing + window.mass @ (outside / m)) - 1.0 - np.log(tilt.lam)
    high = float(np.logaddexp(high, left_out + LEFT_OUT_LOG_ERROR))
    slack = _rounding(mixture, tilt, m, tilt.log_total + high)
    return LogInterval(float(tilt.log_total + low - slack), float(tilt.log_total + high + slack))
