"""Composition of shuffled k-RR over rounds with fresh randomness: same users, same n, k and eps0.

The loss distribution of one round is rounded up (`upper`, the weak adversary's dominating pair) or
down (`lower`, an explicit data set) on a grid and convolved with itself by `dp_accounting`. Before
that it is tilted by ``exp(lambda loss)``, lambda at the saddle point of the wanted eps, and the
result is tilted back: the rounding of the Fourier transform, some 1e-13 of the total mass, then
counts relative to Chernoff's bound on delta instead of relative to 1.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import scipy
from scipy.special import logsumexp

from shuffledp.accounting import calibrate, pairs
from shuffledp.accounting.conventions import Side, over_eps, over_log_delta
from shuffledp.accounting.laws.binomial import log_pmf
from shuffledp.accounting.laws.multinomial import LogInterval
from shuffledp.accounting.one_round import certified
from shuffledp.accounting.pairs import Pair
from shuffledp.accounting.rounds.privacy_loss import (
    LossDistribution,
    default_step,
    pooled_down,
    rounded_down,
    rounded_up,
)
from shuffledp.accounting.setting import Setting
from shuffledp.arrays import Floats
from shuffledp.errors import InputError
from shuffledp.roots import brentq

# Probability, under the tilted law, that dp_accounting may cut off or wrap around.
_TAIL = 1e-17
# Relative error of every probability of one round, from floating point. If P and Q are right to
# this, eps moves by at most twice and log delta by at most once as much per round.
_ROUNDING = 1e-11
_HALF_ULP = 2.0**-53
# Rounding down is of first order in the step at gaps between atoms, so its steps are finer.
_FINER = 16


def transform_error(size: int, rounds: int, norm: float) -> float:
    """Bound of the Euclidean norm of the rounding error of an FFT convolution power.

    Parameters
    ----------
    size
        Length of the transforms.
    rounds
        Power, at least 1.
    norm
        Euclidean norm of the sequence; its entries are non-negative and add up to at most 1.

    A forward and an inverse transform lose ``8 log2(size) u`` each, relative in norm (Higham,
    "Accuracy and stability of numerical algorithms", Theorem 24.2, with some reserve), a power
    ``8 rounds u``; a relative error of a number of modulus at most 1 grows ``rounds``-fold.
    """
    return float((rounds + 1) * (8.0 * np.log2(size) + 8.0) * _HALF_ULP * norm)


def _saddle_point(losses: Floats, log_mass: Floats, mean: float) -> tuple[float, float]:
    """Tilt lambda >= 0 under which the loss has the given mean, and ``log E[exp(lambda L)]``."""

    def excess(lam: float) -> float:
        exponents = log_mass + lam * losses
        weights = np.exp(exponents - exponents.max())
        return float(weights @ losses / weights.sum()) - mean

    lam = 0.0
    if excess(0.0) < 0.0:
        high = 1.0 / float(losses[-1])
        while excess(high) < 0.0:
            high *= 2.0
        lam = float(brentq(excess, 0.0, high, rtol=1e-4))
    return lam, float(logsumexp(log_mass + lam * losses))


def log_hockey_stick(loss: LossDistribution, eps: float, rounds: int) -> LogInterval:
    """Enclose the log of the hockey-stick divergence of ``rounds`` independent rounds.

    Certified but for the loss distribution itself: the interval holds the rounding of the
    transform and what `dp_accounting` cuts off. Relative width some 1e-10, whatever the size of
    the result; an infinite loss has its own term, exact.

    Parameters
    ----------
    loss
        Law of one round.
    eps
        Total, at least 0.
    rounds
        Number of rounds, at least 1.

    Raises
    ------
    InputError
        If the package dp-accounting is not installed: it is an extra of ours.
    """
    try:
        from dp_accounting.pld.common import self_convolve  # type: ignore[import-untyped]
    except ModuleNotFoundError as missing:
        raise InputError(
            "several rounds need the package dp-accounting: pip install 'shuffledp[rounds]'"
        ) from missing

    with np.errstate(divide="ignore"):
        infinite = float(np.log(-np.expm1(rounds * np.log1p(-loss.infinite))))
    used = loss.mass > 0.0
    losses, log_mass = loss.losses[used], np.log(loss.mass[used])
    largest = float(losses[-1])
    if eps >= rounds * largest:
        return LogInterval(infinite, infinite)
    # At the largest loss itself the tilt would be infinite.
    lam, log_moment = _saddle_point(losses, log_mass, min(eps / rounds, largest * (1.0 - 1e-9)))
    tilted = np.zeros_like(loss.mass)
    tilted[used] = np.exp(log_mass + lam * losses - log_moment)
    # Denormal numbers upset the transform's bounds; what this drops is nothing beside _TAIL.
    tilted[tilted < 1e-100] = 0.0
    offset, convolved = self_convolve(tilted, rounds, _TAIL)
    index = rounds * loss.start + offset + np.arange(len(convolved), dtype=np.float64)
    distance = loss.step * index - eps
    above = distance > 0.0
    weights = np.exp(-lam * distance[above]) * -np.expm1(-distance[above])
    value = float(np.sum(weights * convolved[above]))
    size = scipy.fft.next_fast_len(max(len(convolved), tilted.size))
    norm = float(np.linalg.norm(tilted))
    error = float(np.linalg.norm(weights)) * transform_error(size, rounds, norm)
    error += 2.0 * _TAIL * float(weights.max(initial=0.0))
    scale = rounds * log_moment - lam * eps
    with np.errstate(divide="ignore"):
        low, high = np.log(max(value - error, 0.0)), np.log(max(value, 0.0) + error)
    return LogInterval(
        float(np.logaddexp(low + scale, infinite)), float(np.logaddexp(high + scale, infinite))
    )


def _two_cell_loss(pair: Pair, n: int, step: float) -> LossDistribution:
    """Loss of a pair of two cells, rounded down: one count says everything."""
    p1, p2, _, _ = pair.probabilities
    half = 9.3 * np.sqrt(n * p1 * p2) + 20.0
    count = np.arange(max(np.floor(n * p1 - half), 0.0), min(n * p1 + half, n) + 1.0)
    counts = np.stack([count, n - count]) / n
    first, second = (np.exp(ratios[:2]) @ counts for ratios in (pair.log_first, pair.log_second))
    base = np.exp(log_pmf(count, n, p1, p2))
    return pooled_down(np.log(first / second), base * first, 0.0, step)


@lru_cache(maxsize=16)
def single_round(
    setting: Setting, side: Side, discretisation: float | None = None
) -> tuple[LossDistribution, ...]:
    """Loss distributions of one round: the dominating one, or those of explicit data sets.

    Parameters
    ----------
    setting
        Users, cells and budget; its rounds are not looked at.
    side, discretisation
        As for `composed_log_delta`.
    """
    weak = pairs.weak_adversary(setting)
    if side == "upper":
        return (rounded_up(weak, discretisation or default_step(weak)),)
    step = discretisation or default_step(weak) / _FINER
    if setting.k == 2:
        alike = (pairs.other_cell(setting), pairs.same_cell(setting))
        return tuple(_two_cell_loss(pair, setting.n, step) for pair in alike)
    return (rounded_down(pairs.third_cell(setting), step),)


def _check(side: Side, discretisation: float | None) -> None:
    if side not in ("upper", "lower"):
        raise InputError(f'side must be "upper" or "lower" (got {side!r})')
    if discretisation is not None and not (discretisation > 0.0 and np.isfinite(discretisation)):
        raise InputError(f"discretisation must be positive and finite (got {discretisation!r})")


@over_eps
def composed_log_delta(
    eps: float, setting: Setting, side: Side, discretisation: float | None = None
) -> float:
    """Natural log of delta after ``setting.rounds`` releases by the same users, eps0 each time.

    ``"upper"`` holds for every data set, and for rounds chosen in view of earlier ones;
    ``"lower"`` is reached by some data set (all others in a third cell; for k = 2, all others in
    one cell). Both are certified: discretisation, windows and rounding are on the safe side.
    ``"upper"`` does not fall below ``rounds * exp(eps0) * 1e-19`` or so, the probability of what
    the windows leave out, before it becomes -inf at ``rounds * eps0``.

    Parameters
    ----------
    eps
        Total over the rounds, at least 0, any shape.
    setting
        What is released.
    side
        ``"upper"`` (pessimistic) or ``"lower"`` (optimistic).
    discretisation
        Distance of the grid's losses; by default about 1/128 (upper) and 1/2048 (lower) of the
        standard deviation of one round's, for which eps changes by some 1e-5 of itself.

    Returns
    -------
    Logarithms shaped like ``eps``; -inf where ``eps >= rounds * eps0``.

    Raises
    ------
    InputError
        If a parameter is outside its range.

    Source: docs/accounting.md; paper C, Theorem 7, with the joint law of both counts.
    """
    _check(side, discretisation)
    if eps >= setting.budget:
        return -np.inf
    rounds, once = setting.rounds, replace(setting, rounds=1)
    parts = single_round(once, side, discretisation)
    shift = 2.0 * rounds * _ROUNDING
    if side == "upper":
        high = log_hockey_stick(parts[0], max(eps - shift, 0.0), rounds).high
        return min(high + rounds * _ROUNDING, 0.0)
    low = max(log_hockey_stick(part, eps + shift, rounds).low for part in parts)
    low -= rounds * _ROUNDING
    # Whoever sees all rounds sees one of them. For k = 2 this searches all data sets, in seconds.
    if rounds == 1 or setting.k > 2:
        low = max(low, float(certified.lower_log_delta(eps, once)))
    return low


@over_log_delta
def composed_epsilon(
    log_delta: float, setting: Setting, side: Side, discretisation: float | None = None
) -> float:
    """Smallest total eps for a given log delta; parameters and errors as `composed_log_delta`.

    Returns
    -------
    Numbers in ``[0, rounds * eps0]`` shaped like ``log_delta``, rounded towards the side that
    keeps the promise.
    """
    return calibrate.epsilon(
        lambda eps: float(composed_log_delta(eps, setting, side, discretisation)),
        log_delta,
        setting.budget,
        side,
    )
