"""Mean excess over a random number of uniform reports, that number being Poisson-binomial.

What `multinomial` is to users who are all alike, for users who differ. The sum runs over the
number m of uniform reports and s = n1 + n2, within windows that follow the law tilted by
exp(lambda A); n1, binomial given s, is summed in closed form. By x_+ <= exp(lambda x)/(e lambda)
what the windows leave out is bounded by its tilted probability and added to the upper end.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logsumexp

from shuffledp.accounting.laws.binomial import log_cdf, log_excess, log_pmf, log_sf
from shuffledp.accounting.laws.multinomial import LogInterval
from shuffledp.accounting.laws.poisson_binomial import poisson_binomial
from shuffledp.arrays import Floats, Integers
from shuffledp.roots import brentq

# Half-width of the windows of s in tilted standard deviations: leaves out about 1e-20.
_WIDTH = 9.3
_MARGIN = 20.0  # for the Poisson-like tails of small counts
# Relative error of the floating-point evaluation; agreement with exact values is a hundred times
# better (tests).
_ROUNDING = 2e-10
_CHUNK = 1_000_000


@dataclass(frozen=True)
class RandomTrials:
    """One trial more than there are successes among independent others (Poisson-binomial).

    Attributes
    ----------
    log_odds, counts
        Log odds (inf: certainty) of success, and how many of the others have them.
    """

    log_odds: Floats
    counts: Integers


@dataclass(frozen=True)
class Mixture:
    """``sum_m Pr[m] (1 / m) E[(a n1 - b n2 - c (m - n1 - n2))_+ | m]`` over a random m.

    Attributes
    ----------
    trials
        Law of m.
    p, p3
        Probability of each of the two cells that are compared, and of all the others.
    a, b, c
        Weights, positive but for ``c``, which may be 0.
    """

    trials: RandomTrials
    p: float
    p3: float
    a: float
    b: float
    c: float


@dataclass(frozen=True)
class _Tilt:
    """Law of (m, n1 + n2) tilted by ``exp(lam A)``, A the excess, and Chernoff's bound."""

    lam: float
    log_total: float  # log E exp(lam A)
    log_pair: float  # log of the mean of exp(lam a) and exp(-lam b)
    rates: Floats
    rho: float  # a uniform report falls into one of the two cells
    rest: float  # or not: more exact than 1 - rho


def _log_mean_exp(p: Floats, x: Floats) -> float:
    """``log sum p exp(x)``, right relative to itself (it is multiplied by n) where x is small."""
    if np.abs(x).max() < 1.0:
        return float(np.log1p(p @ np.expm1(x)))
    return float(logsumexp(x, b=p))


def _tilt(mixture: Mixture) -> _Tilt:
    third = mixture.p3 > 0.0
    weights = np.array([mixture.a, -mixture.b, -mixture.c])[: 3 if third else 2]
    p = np.array([mixture.p, mixture.p, mixture.p3])[: weights.size]
    log_odds, counts = mixture.trials.log_odds, mixture.trials.counts

    def tilted(lam: float) -> tuple[float, Floats, Floats]:
        total = _log_mean_exp(p, lam * weights)
        return total, p * np.exp(lam * weights - total), expit(log_odds + total)

    def slope(log_lam: float) -> float:
        lam = np.exp(log_lam)
        _, law, rates = tilted(lam)
        return float((1.0 + counts @ rates) * (law @ weights) - 1.0 / lam)

    low = -np.log(mixture.a * (1.0 + counts.sum())) - 1.0
    high = low + 3.0
    while slope(high) < 0.0 and high < low + 700.0:
        high += 3.0
    lam = float(np.exp(brentq(slope, low, high, xtol=1e-6)))
    total, law, rates = tilted(lam)
    rates_before = expit(log_odds)
    with np.errstate(divide="ignore"):
        others = np.where(
            total < 1.0,
            np.log1p(rates_before * np.expm1(min(total, 1.0))),
            np.logaddexp(np.log1p(-rates_before), np.log(rates_before) + total),
        )
    return _Tilt(
        lam=lam,
        log_total=float(total + counts @ others),
        log_pair=_log_mean_exp(np.array([0.5, 0.5]), lam * weights[:2]),
        rates=rates,
        rho=float(min(law[0] + law[1], 1.0)) if third else 1.0,
        rest=float(law[2]) if third else 0.0,
    )


def _binomial_rows(m: Floats, rho: float, rest: float) -> tuple[Floats, Floats, Floats]:
    """For each m: values of s about its mean, log Pr[Bin(m, rho) = s], probability left out.

    The ratios of neighbours are multiplied up from the row's middle, ten times faster than a
    `log_pmf` per entry.
    """
    if rho == 1.0:
        return m[:, None], np.zeros((m.size, 1)), m * rest
    half = int(_WIDTH * np.sqrt(m[-1] * rho * (1.0 - rho)) + _MARGIN)
    middle = np.floor(m * rho)
    offset = np.arange(-half, half + 1.0)
    s = middle[:, None] + offset
    odds = rho / (1.0 - rho)
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
    outside = np.exp(log_cdf(s[:, 0] - 1.0, m, rho)) + np.exp(log_sf(s[:, -1] + 1.0, m, rho))
    return s, log_ratio + log_pmf(middle, m, rho)[:, None], outside


def _log_rows(mixture: Mixture, tilt: _Tilt, m: Floats) -> tuple[Floats, Floats]:
    """Log of ``E[A_+ | m] / E[exp(lam A) | m]`` for each m, and the tilted probability left out.

    Given m and s, ``A = alpha (y - n2)``; of ``E[(y - n2)_+ | s]`` everything but the factor of
    the fraction of y depends on the integer part of y only, and comes from a small table.
    """
    a, b, c = mixture.a, mixture.b, mixture.c
    s, log_weight, outside = _binomial_rows(m, tilt.rho, tilt.rest)
    clipped = np.clip(s, 0.0, m[:, None])
    alpha = a + b
    # A > 0 where n2 = s - n1 stays below this. In terms of n1 the threshold would be the difference
    # of two numbers that agree to many digits when exp(eps) is large.
    rest = m[:, None] - clipped
    y = (a * clipped - c * rest) / alpha
    n2 = np.ceil(y) - 1.0
    values = np.arange(clipped.min(), clipped.max() + 1.0)
    row = (clipped - values[0]).astype(np.int64)
    largest = np.ceil((a * values - c * (m[0] - values)) / alpha)
    column = (largest[row] - n2).astype(np.int64)
    points = (values - largest)[:, None] + np.arange(column.max() + 1.0)
    scale = values[:, None] * tilt.log_pair
    steps = log_sf(points, values[:, None], 0.5) - scale
    linear = log_excess(points, values[:, None], 0.5) - scale
    with np.errstate(divide="ignore"):
        excess = np.logaddexp(linear[row, column], np.log(y - n2) + steps[row, column])
    terms = np.where(clipped == s, log_weight + excess + tilt.lam * c * rest, -np.inf)
    return logsumexp(terms, axis=1) + np.log(alpha), outside


def log_mixture_excess(mixture: Mixture) -> LogInterval:
    """Enclose the log of the mixture's mean excess, to 1e-9 relative.

    Costs of the order of ``n sqrt(1/k)`` arithmetic operations, and as many special functions as
    there are values of ``n1 + n2`` times thresholds: 10 s at n = 1e6, k = 3.
    """
    tilt = _tilt(mixture)
    window = poisson_binomial(tilt.rates, mixture.trials.counts)
    m = window.start + 1.0 + np.arange(window.mass.size, dtype=np.float64)
    width = 2.0 * (_WIDTH * np.sqrt(m[-1] * tilt.rho * (1.0 - tilt.rho)) + _MARGIN)
    rows = max(1, int(_CHUNK / width))
    parts = [_log_rows(mixture, tilt, m[i : i + rows]) for i in range(0, m.size, rows)]
    log_rows = np.concatenate([part[0] for part in parts])
    outside = np.concatenate([part[1] for part in parts])
    with np.errstate(divide="ignore"):
        low = float(logsumexp(np.log(window.mass) + log_rows - np.log(m)))
        # A_+ <= exp(lam A) / (e lam), and 1/m <= 1.
        left_out = np.log(window.missing + window.mass @ (outside / m)) - 1.0 - np.log(tilt.lam)
    common = tilt.log_total
    high = float(np.logaddexp(low, left_out))
    slack = _ROUNDING * (1.0 + 1e-3 * abs(common + low))
    return LogInterval(float(common + low - slack), float(common + high + slack))
