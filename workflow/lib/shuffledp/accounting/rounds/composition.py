"""Composition of shuffled k-RR over rounds with fresh randomness: same users, same n, k and eps0.

The loss distribution of one round is rounded up (`upper`, the weak adversary's dominating pair) or
down (`lower`, an explicit data set) on a grid and convolved with itself by `dp_accounting`. Before
that it is tilted by ``exp(lambda loss)``, lambda at the saddle point of the wanted eps, and the
result is tilted back: the rounding of the Fourier transform, some 1e-13 of the total mass, then
counts relative to Chernoff's bound on delta instead of relative to 1.
"""

from functools import lru_cache
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from shuffledp.accounting import calibrate
from shuffledp.accounting.laws.binomial import log_pmf
from shuffledp.accounting.laws.multinomial import LogInterval
from shuffledp.accounting.one_round import certified
from shuffledp.accounting.rounds.privacy_loss import (
    LossDistribution,
    pooled_down,
    rounded_down,
    rounded_up,
    third_cell_pair,
    weak_pair,
)
from shuffledp.arrays import Floats
from shuffledp.errors import InputError
from shuffledp.roots import brentq

Side = Literal["upper", "lower"]

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


def _two_cell_loss(eps0: float, n: int, step: float, *, same: bool) -> LossDistribution:
    """Loss for k = 2 when all others hold the target's cell (same) or the other one."""
    p = 1.0 / (1.0 + np.exp(-eps0))
    others = p if same else 1.0 - p
    half = 9.3 * np.sqrt(n * p * (1.0 - p)) + 20.0
    count = np.arange(max(np.floor(n * others - half), 0.0), min(n * others + half, n) + 1.0)
    # The law of n reports like the others' dominates both; likelihoods relative to it are linear.
    ratio = count / (n * others)
    rest = (n - count) / (n * (1.0 - others))
    base = np.exp(log_pmf(count, n, others))
    first, second = p * ratio + (1.0 - p) * rest, (1.0 - p) * ratio + p * rest
    return pooled_down(np.log(first / second), base * first, 0.0, step)


@lru_cache(maxsize=16)
def single_round(
    eps0: float, n: int, k: int, side: Side, discretisation: float | None
) -> tuple[LossDistribution, ...]:
    """Loss distributions of one round: the dominating one, or those of explicit data sets.

    Parameters
    ----------
    eps0, n, k, side, discretisation
        As for `composed_log_delta`.
    """
    pair = weak_pair(eps0, n, k)
    if side == "upper":
        return (rounded_up(pair, discretisation or pair.default_step),)
    step = discretisation or pair.default_step / _FINER
    if k == 2:
        return tuple(_two_cell_loss(eps0, n, step, same=same) for same in (False, True))
    return (rounded_down(third_cell_pair(eps0, n, k), step),)


def _check(eps: float, rounds: float, side: str, discretisation: float | None) -> None:
    if not eps >= 0.0:
        raise ValueError(f"eps must be at least 0 (got eps={eps})")
    if side not in ("upper", "lower"):
        raise ValueError(f'side must be "upper" or "lower" (got {side!r})')
    if not (rounds >= 1 and rounds == int(rounds)):
        raise ValueError(f"rounds must be an integer of at least 1 (got {rounds!r})")
    if discretisation is not None and not (discretisation > 0.0 and np.isfinite(discretisation)):
        raise ValueError(f"discretisation must be positive and finite (got {discretisation!r})")


def _log_delta(
    eps: float,
    eps0: float,
    n: int,
    k: int,
    rounds: int,
    side: Side,
    discretisation: float | None,
) -> float:
    parts = single_round(eps0, n, k, side, discretisation)
    if eps >= rounds * eps0:
        return -np.inf
    shift = 2.0 * rounds * _ROUNDING
    if side == "upper":
        high = log_hockey_stick(parts[0], max(eps - shift, 0.0), rounds).high
        return min(high + rounds * _ROUNDING, 0.0)
    low = max(log_hockey_stick(part, eps + shift, rounds).low for part in parts)
    low -= rounds * _ROUNDING
    # Whoever sees all rounds sees one of them. For k = 2 this searches all data sets, in seconds.
    if rounds == 1 or k > 2:
        low = max(low, float(certified.lower_log_delta(eps, eps0, n, k)))
    return low


def composed_log_delta(
    eps: ArrayLike,
    eps0: ArrayLike,
    n: ArrayLike,
    k: ArrayLike,
    rounds: ArrayLike,
    side: Side,
    discretisation: float | None = None,
) -> Floats:
    """Natural log of delta after ``rounds`` releases by the same n users, eps0 each time.

    ``"upper"`` holds for every data set, and for rounds chosen in view of earlier ones;
    ``"lower"`` is reached by some data set (all others in a third cell; for k = 2, all others in
    one cell). Both are certified: discretisation, windows and rounding are on the safe side.
    ``"upper"`` does not fall below ``rounds * exp(eps0) * 1e-19`` or so, the probability of what
    the windows leave out, before it becomes -inf at ``rounds * eps0``.

    Parameters
    ----------
    eps, eps0, n, k, rounds
        Broadcast together. Total ``eps >= 0``, ``eps0 > 0``, ``n >= 1``, ``k >= 2``,
        ``rounds >= 1``.
    side
        ``"upper"`` (pessimistic) or ``"lower"`` (optimistic).
    discretisation
        Distance of the grid's losses; by default about 1/128 (upper) and 1/2048 (lower) of the
        standard deviation of one round's, for which eps changes by some 1e-5 of itself.

    Returns
    -------
    Logarithms; -inf where ``eps >= rounds * eps0``.

    Raises
    ------
    ValueError
        If a parameter is outside its range.

    Source: docs/accounting.md; paper C, Theorem 7, with the joint law of both counts.
    """

    def one(eps: float, eps0: float, n: int, k: int, rounds: int) -> float:
        _check(eps, rounds, side, discretisation)
        return _log_delta(eps, float(eps0), int(n), int(k), int(rounds), side, discretisation)

    return np.asarray(np.vectorize(one, otypes=[np.float64])(eps, eps0, n, k, rounds))


def composed_epsilon(
    log_delta: ArrayLike,
    eps0: ArrayLike,
    n: ArrayLike,
    k: ArrayLike,
    rounds: ArrayLike,
    side: Side,
    discretisation: float | None = None,
) -> Floats:
    """Smallest total eps for a given log delta; parameters and errors as `composed_log_delta`.

    Returns
    -------
    Numbers in ``[0, rounds * eps0]``, rounded towards the side that keeps the promise.
    """

    def one(log_delta: float, eps0: float, n: int, k: int, rounds: int) -> float:
        _check(0.0, rounds, side, discretisation)
        return calibrate.epsilon(
            lambda eps: float(composed_log_delta(eps, eps0, n, k, rounds, side, discretisation)),
            float(log_delta),
            float(rounds * eps0),
            round_up=side == "upper",
        )

    return np.asarray(np.vectorize(one, otypes=[np.float64])(log_delta, eps0, n, k, rounds))
