"""Bounds on delta of a report that is hidden among a random number of decoys.

A *decoy* is a report that does not depend on its user's record. Let w be a probability law such
that the density of user i's report is at least ``kappa_i w`` for every record. Then user i's report
is a decoy, drawn from w, with probability kappa_i (a privacy blanket). Assume that the adversary
learns which of the other users are not decoys, and their reports. By Bayes' theorem

    delta <= E_M[(1/M) E(G_1 + ... + G_M)_+],   G = (R(y|x0) - e R(y|x1)) / w(y),  y ~ w,

where M - 1 is the number of decoys, x0 and x1 are the two possible records of one user, the target,
R is the law of the target's report, and ``e`` the exponential of the central budget.

**The mean over M.** Let delta_m be the target's delta among m indistinguishable reports, including
its own. It does not increase with m, because an adversary who sees m reports could add a decoy.
M - 1 follows a Poisson-binomial law. Its values are grouped into blocks, and every value is given
the delta of the smallest value in its block, so the result is an upper bound. The law of M is
tilted to where most of the mean lies. Outside a truncation window, the probability is bounded by
Chernoff's inequality, and delta_m by its value at the smallest m.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy
from scipy.special import expit, log_expit, logsumexp

from shuffledp.accounting.blanket.atoms import Atoms, excess, log_saddle_point
from shuffledp.accounting.blanket.mean_excess import log_mean_excess_high
from shuffledp.accounting.laws.mixture import RandomTrials
from shuffledp.accounting.laws.poisson_binomial import poisson_binomial
from shuffledp.numerics.arrays import UNIT, Floats, Integers

# Relative tolerance of searches for eps, comparable to the error that the blocks cause.
XTOL: Final = 1e-5
# Approximate probability of the first and of the last block under the tilted law.
_OUTER_MASS = 1e-5
# Smallest width of a block relative to m; the relative change of eps is a quarter of it.
_MIN_BLOCK_WIDTH = 2e-3
# Tails below this share of the total are bounded by their probability alone.
_LOG_NEGLIGIBLE = np.log(1e-7)
_MAX_TILT = 700.0


def stretch(low: float, high: float) -> float:
    """Return ``high / low``, rounded up."""
    return 1.0 if low == high else high / low * (1.0 + 8.0 * UNIT)


def _log_moments(others: RandomTrials, tilt: float) -> Floats:
    """Return the log of ``E[exp(-tilt B)]`` for one variable of each group."""
    rates = expit(others.log_odds)
    with np.errstate(divide="ignore"):
        return np.asarray(
            np.where(
                abs(tilt) < 0.5,
                np.log1p(rates * np.expm1(-np.clip(tilt, -0.5, 0.5))),
                np.logaddexp(log_expit(-others.log_odds), log_expit(others.log_odds) - tilt),
            )
        )


def _mean(others: RandomTrials, tilt: float) -> float:
    return float(others.counts @ expit(others.log_odds - tilt))


def _log_tail(others: RandomTrials, count: float, *, above: bool) -> float:
    """Return Chernoff's bound on the log probability of at least (or at most) ``count`` decoys."""
    sign = -1.0 if above else 1.0
    if sign * (_mean(others, 0.0) - count) <= 0.0:
        return 0.0
    if sign * (_mean(others, sign * _MAX_TILT) - count) >= 0.0:
        tilt = sign * _MAX_TILT
    else:
        # Every tilt gives a bound, so the root need not be exact.
        tilt = scipy.optimize.brentq(
            lambda t: _mean(others, t) - count, 0.0, sign * _MAX_TILT, xtol=1e-6
        )
    log_moment = float(others.counts @ _log_moments(others, tilt))
    # The 1 covers rounding, even for very many users.
    return min(tilt * count + log_moment + 1.0, 0.0)


def _tilt(others: RandomTrials, estimate: Callable[[int], float]) -> float:
    """Return approximately the slope of -log delta_m where most of the mean over M lies."""
    tilt, m = 0.0, 1.0 + _mean(others, 0.0)
    for _ in range(5):
        step = np.ceil(0.01 * m)
        here, ahead = estimate(int(m)), estimate(int(m + step))
        tilt = max((here - ahead) / step, 0.0) if here > -np.inf and ahead > -np.inf else 0.0
        tilt = min(tilt, _MAX_TILT)
        m = 1.0 + _mean(others, tilt)
    return float(tilt)


def _starts(mass: Floats, blocks: int) -> Integers:
    """Return the starts of blocks whose density is proportional to the square root of ``mass``.

    This nearly minimises the total error, because the error of a block is about its mass times its
    width.
    """
    cumulative = np.cumsum(np.sqrt(mass))
    if not cumulative.size:
        return np.zeros(0, np.int64)
    return np.searchsorted(cumulative, np.linspace(0.0, cumulative[-1], blocks + 1)[:-1])


def log_mean_over_decoys(
    others: RandomTrials,
    log_delta: Callable[[int], float],
    estimate: Callable[[int], float],
    blocks: int,
) -> float:
    """Return an upper bound on log ``E[delta_m]``, where ``m - 1`` is the number of decoys.

    `others` has the log odds that each other user is a decoy. `log_delta` is a non-increasing
    function that returns an upper bound on log delta_m for an integer m >= 1; its cheap
    approximation `estimate` determines only the windows and blocks. `blocks` is the approximate
    largest number of blocks. With 8 blocks, the loss of accuracy equals that of having fewer decoys
    by a third of their standard deviation.
    """
    tilt = _tilt(others, estimate)
    rates, co_rates = expit(others.log_odds - tilt), expit(tilt - others.log_odds)
    window = poisson_binomial(rates, others.counts, co_rates)
    moments = _log_moments(others, tilt)
    log_moment = float(others.counts @ moments)
    first, size = window.start + 1, window.mass.size
    m = first + np.arange(size, dtype=np.float64)
    cumulative = np.cumsum(window.mass)
    low, high = np.searchsorted(cumulative, [_OUTER_MASS, cumulative[-1] - _OUTER_MASS])
    min_width = max(int(_MIN_BLOCK_WIDTH * m[min(low, size - 1)]), 1)
    inner = low + _starts(window.mass[low:high], min(blocks, -(-int(high - low) // min_width)))
    starts = np.unique(np.concatenate([[0], inner, [high]]).clip(0, size - 1))
    ends = np.append(starts[1:], size) - 1
    with np.errstate(divide="ignore"):
        log_mass = np.log(window.mass) + tilt * (m - 1.0) + log_moment
        log_missing = np.log(window.missing) + log_moment
    deltas = np.array([log_delta(int(m[start])) for start in starts])
    parts = [
        float(np.logaddexp.reduceat(log_mass, starts)[i] + deltas[i]) for i in range(starts.size)
    ]
    # Mass that the computed law lacks could be anywhere in the window.
    parts.append(float((log_missing + tilt * (m[ends] - 1.0) + deltas).max()))
    total = float(logsumexp(parts))

    edge, step = first - 1, size
    while edge >= 1:
        log_probability = _log_tail(others, edge - 1.0, above=False)
        if log_probability < total + _LOG_NEGLIGIBLE:
            parts.append(log_probability)
            break
        smallest = max(edge - step, 1)
        parts.append(log_probability + log_delta(smallest))
        edge, step = smallest - 1, 2 * step
    if (edge := first + size) <= 1 + others.counts.sum():
        parts.append(_log_tail(others, edge - 1.0, above=True) + log_delta(edge))
    total = float(logsumexp(parts))
    users = 16.0 * float(others.counts.sum()) + 8.0 * float(others.counts @ np.abs(moments))
    largest = tilt * float(m[-1]) + abs(log_moment)
    return total + UNIT * (users + 32.0 * size + 8.0 * (largest + abs(total)) + 200.0)


# Number of blocks of M; each needs a Fourier transform.
_BLOCKS = 8
# Tolerance of log delta in a transform, comparable to the error that the blocks cause.
_SPLITTING_LOG_TOLERANCE = 1e-3
# Smaller values of G than minus this multiple of the largest G are increased: no sum that contains
# one of them is positive.
_MAX_NEGATIVE_RATIO = 1e100


@dataclass(frozen=True, eq=False)
class Target:
    """The law of G for a target and its two records, as a function of the central eps.

    ``log_first`` and ``log_second`` are the logs of ``R(y|x0) / w(y)`` and ``R(y|x1) / w(y)`` at
    each atom, accurate up to rounding. The masses are the probabilities of the atoms, and each has
    a relative error of ``units`` units of rounding.
    """

    log_first: Floats
    log_second: Floats
    masses: Floats
    units: float

    def atoms(self, eps: float) -> Atoms:
        """Return the law of G at a central budget, with values of G rounded up."""
        # Exponents are products of two rounded factors.
        exponents = 8.0 * (eps + float(np.abs(self.log_first).max()))
        # If the two terms of G nearly cancel, rounded exponents change G by a large factor.
        values = excess(self.log_first, self.log_second, eps - exponents * UNIT)
        # Increasing G is safe. Here it hardly changes the result, and keeps squares finite.
        if (top := float(values.max())) > 0.0:
            values = np.maximum(values, -_MAX_NEGATIVE_RATIO * top)
        return Atoms(values, self.masses, self.units + exponents)


def decoy_trials(log_kappa: Floats, counts: Integers) -> RandomTrials:
    """Return the trials in which users of each group are decoys, with probabilities kappa < 1."""
    return RandomTrials(log_kappa - np.log(-np.expm1(log_kappa)), counts)


def log_delta_among_decoys(eps: float, target: Target, others: RandomTrials) -> float:
    """Return an upper bound on the natural log of the target's delta.

    ``others`` has the log odds that each other user is a decoy.
    """
    atoms = target.atoms(eps)

    def log_delta(m: int) -> float:
        return min(log_mean_excess_high(atoms, m, _SPLITTING_LOG_TOLERANCE), 0.0)

    if log_delta(1) == -np.inf:  # no G is positive
        return -np.inf

    def estimate(m: int) -> float:
        return log_saddle_point(atoms, m)

    return min(log_mean_over_decoys(others, log_delta, estimate, _BLOCKS), 0.0)


def approximate_log_delta(eps: float, target: Target, others: RandomTrials) -> float:
    """Return a cheap approximation of `log_delta_among_decoys`."""
    rates = 1.0 / (1.0 + np.exp(-others.log_odds))
    return log_saddle_point(target.atoms(eps), 1 + int(others.counts @ rates))
