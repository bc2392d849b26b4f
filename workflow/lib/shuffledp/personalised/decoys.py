"""Bound the delta of a report that is hidden among a random number of decoys.

Let w be a law, and let the density of user i's report be at least ``kappa_i w`` whatever the record
is. Then user i's report is a decoy, drawn from w, with probability kappa_i. Reveal which of the
other users are not decoys, and what these reported. By Bayes' theorem

    delta <= E_M[(1/M) E(G_1 + ... + G_M)_+],   G = (R(y|x0) - e R(y|x1)) / w(y),  y ~ w,

where M - 1 is the number of decoys, R the law of the target's report, x0 and x1 the target's two
records, and ``e = exp`` of the central budget.

**The mean over M.** delta_m is the target's delta among m reports that look alike, its own
included. It does not grow with m, because an adversary who sees m reports could add a decoy. M - 1
follows a Poisson-binomial law. Its values are taken in blocks, each at the delta of its smallest
value, which makes the result an upper bound. The law of M is tilted to where the mean accumulates;
what lies outside its window is bounded by Chernoff's inequality, and by the delta at the end of the
window beyond which it lies.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import expit, log_expit, logsumexp

from shuffledp.accounting.blanket.atoms import Atoms, excess, log_saddle_point
from shuffledp.accounting.blanket.mean_excess import log_mean_excess_high
from shuffledp.accounting.laws.mixture import RandomTrials
from shuffledp.accounting.laws.poisson_binomial import poisson_binomial
from shuffledp.numerics.arrays import UNIT, Floats, Integers
from shuffledp.numerics.roots import brentq

XTOL: Final = 1e-5
"""Of eps, relative, where a search for it ends: the blocks of decoys cost as much."""

# Of the tilted probability, what the first and the last block hold.
_OUTER = 1e-5
# Blocks need not be narrower, relative to m: eps moves by a quarter of it.
_NARROWEST = 2e-3
# A part that is less than this of the whole needs no closer look.
_NEGLIGIBLE = np.log(1e-7)
_LARGEST_TILT = 700.0


def stretch(low: float, high: float) -> float:
    """``high / low``, rounded up."""
    return 1.0 if low == high else high / low * (1.0 + 8.0 * UNIT)


def _log_moments(others: RandomTrials, tilt: float) -> Floats:
    """Log of ``E[exp(-tilt B)]`` of one variable of each group."""
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
    """Chernoff's bound on the log of ``Pr[sum >= count]``, or ``Pr[sum <= count]``."""
    sign = -1.0 if above else 1.0
    if sign * (_mean(others, 0.0) - count) <= 0.0:
        return 0.0
    if sign * (_mean(others, sign * _LARGEST_TILT) - count) >= 0.0:
        tilt = sign * _LARGEST_TILT
    else:
        # Any tilt gives a bound: the root need not be exact.
        tilt = brentq(lambda t: _mean(others, t) - count, 0.0, sign * _LARGEST_TILT, xtol=1e-6)
    log_moment = float(others.counts @ _log_moments(others, tilt))
    # One for what rounding can do, where all users are many.
    return min(tilt * count + log_moment + 1.0, 0.0)


def _tilt(others: RandomTrials, lead: Callable[[int], float]) -> float:
    """How fast the log of delta falls with m where its mean accumulates, about."""
    tilt, m = 0.0, 1.0 + _mean(others, 0.0)
    for _ in range(5):
        step = np.ceil(0.01 * m)
        now, then = lead(int(m)), lead(int(m + step))
        tilt = max((now - then) / step, 0.0) if now > -np.inf and then > -np.inf else 0.0
        tilt = min(tilt, _LARGEST_TILT)
        m = 1.0 + _mean(others, tilt)
    return float(tilt)


def _starts(mass: Floats, blocks: int) -> Integers:
    """Where blocks begin so that together they lose least: by the root of the density.

    A block loses its mass times its width, about.
    """
    cumulative = np.cumsum(np.sqrt(mass))
    if not cumulative.size:
        return np.zeros(0, np.int64)
    return np.searchsorted(cumulative, np.linspace(0.0, cumulative[-1], blocks + 1)[:-1])


def log_mean_over_decoys(
    others: RandomTrials,
    log_delta: Callable[[int], float],
    lead: Callable[[int], float],
    blocks: int,
) -> float:
    """Upper bound on the log of ``E[delta_m]``, ``m - 1`` the successes among the others.

    Parameters
    ----------
    others
        Log odds with which each of them is a decoy.
    log_delta
        Natural log of delta_m, or more, for a whole number m of at least 1; non-increasing.
    lead
        Cheap and about ``log_delta``: where to look.
    blocks
        How many blocks of m, at most about. A block's delta is that of its smallest m: with 8 the
        result's is that of a third of a standard deviation fewer decoys, on average.
    """
    tilt = _tilt(others, lead)
    rates, co_rates = expit(others.log_odds - tilt), expit(tilt - others.log_odds)
    window = poisson_binomial(rates, others.counts, co_rates)
    moments = _log_moments(others, tilt)
    log_moment = float(others.counts @ moments)
    first, size = window.start + 1, window.mass.size
    m = first + np.arange(size, dtype=np.float64)
    cumulative = np.cumsum(window.mass)
    low, high = np.searchsorted(cumulative, [_OUTER, cumulative[-1] - _OUTER])
    narrowest = max(int(_NARROWEST * m[min(low, size - 1)]), 1)
    inner = low + _starts(window.mass[low:high], min(blocks, -(-int(high - low) // narrowest)))
    starts = np.unique(np.concatenate([[0], inner, [high]]).clip(0, size - 1))
    ends = np.append(starts[1:], size) - 1
    with np.errstate(divide="ignore"):
        log_mass = np.log(window.mass) + tilt * (m - 1.0) + log_moment
        log_missing = np.log(window.missing) + log_moment
    deltas = np.array([log_delta(int(m[start])) for start in starts])
    parts = [
        float(np.logaddexp.reduceat(log_mass, starts)[i] + deltas[i]) for i in range(starts.size)
    ]
    # What the window's law lacks may lie anywhere within it.
    parts.append(float((log_missing + tilt * (m[ends] - 1.0) + deltas).max()))
    total = float(logsumexp(parts))

    edge, step = first - 1, size
    while edge >= 1:
        chance = _log_tail(others, edge - 1.0, above=False)
        if chance < total + _NEGLIGIBLE:
            parts.append(chance)
            break
        smallest = max(edge - step, 1)
        parts.append(chance + log_delta(smallest))
        edge, step = smallest - 1, 2 * step
    if (edge := first + size) <= 1 + others.counts.sum():
        parts.append(_log_tail(others, edge - 1.0, above=True) + log_delta(edge))
    total = float(logsumexp(parts))
    users = 16.0 * float(others.counts.sum()) + 8.0 * float(others.counts @ np.abs(moments))
    largest = tilt * float(m[-1]) + abs(log_moment)
    return total + UNIT * (users + 32.0 * size + 8.0 * (largest + abs(total)) + 200.0)


# Of M: each costs a transform, which need not be finer than they are.
_BLOCKS, _SPLITTING = 8, 1e-3
# Of the largest G: with so small a one among them no sum is positive.
_FARTHEST_BELOW = 1e100


@dataclass(frozen=True, eq=False)
class Target:
    """G's law but for the central eps.

    Attributes
    ----------
    log_first, log_second
        Logs of ``R(y|x0) / w(y)`` and ``R(y|x1) / w(y)`` at each atom, right to their rounding.
    masses
        Of the atoms.
    units
        Relative error of each mass, in units of rounding.
    """

    log_first: Floats
    log_second: Floats
    masses: Floats
    units: float

    def atoms(self, eps: float) -> Atoms:
        """G at a central eps."""
        # Exponents are products of two rounded factors.
        exponents = 8.0 * (eps + float(np.abs(self.log_first).max()))
        # Where the two terms nearly cancel, what exponents lose is no small part of G.
        values = excess(self.log_first, self.log_second, eps - exponents * UNIT)
        # A larger G is on the safe side; so far down it changes nothing, and squares are floats.
        if (top := float(values.max())) > 0.0:
            values = np.maximum(values, -_FARTHEST_BELOW * top)
        return Atoms(values, self.masses, self.units + exponents)


def decoy_trials(log_kappa: Floats, counts: Integers) -> RandomTrials:
    """Others who are decoys with chances below 1, given by their logs, and how many have each."""
    return RandomTrials(log_kappa - np.log(-np.expm1(log_kappa)), counts)


def log_delta_among_decoys(eps: float, target: Target, others: RandomTrials) -> float:
    """Natural log of the target's delta, rounded up.

    Parameters
    ----------
    eps
        Central budget, at least 0.
    target
        Law of its ratios, for its worst records.
    others
        Log odds with which each of them is a decoy.
    """
    atoms = target.atoms(eps)

    def of(m: int) -> float:
        return min(log_mean_excess_high(atoms, m, _SPLITTING), 0.0)

    if of(1) == -np.inf:  # no G is positive
        return -np.inf
    return min(log_mean_over_decoys(others, of, lambda m: log_saddle_point(atoms, m), _BLOCKS), 0.0)


def approximate_log_delta(eps: float, target: Target, others: RandomTrials) -> float:
    """About `log_delta`, at once.

    Parameters
    ----------
    eps
        At least 0.
    target
        Laws of the report of whose record changes.
    others
        Whether each of the others is a decoy.
    """
    chances = 1.0 / (1.0 + np.exp(-others.log_odds))
    return log_saddle_point(target.atoms(eps), 1 + int(others.counts @ chances))
