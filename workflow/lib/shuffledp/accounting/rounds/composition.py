"""Composition of shuffled k-RR over rounds with fresh randomness: same users, same n, k and eps0.

The loss distribution of one round is rounded up (`upper`, the weak adversary's dominating pair) or
down (`lower`, an explicit data set) on a grid and convolved with itself by FFT. Before that it is
tilted by ``exp(lambda loss)``, lambda at the saddle point of the wanted eps, and the result is
tilted back: the rounding of the Fourier transform, some 1e-13 of the total mass, then counts
relative to Chernoff's bound on delta instead of relative to 1.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp

from shuffledp.accounting import calibrate, pairs
from shuffledp.accounting.conventions import Side, over_eps, over_log_delta
from shuffledp.accounting.laws.binomial import log_pmf, log_pmf_error
from shuffledp.accounting.laws.multinomial import LogInterval, log_chernoff_bound
from shuffledp.accounting.one_round import certified
from shuffledp.accounting.pairs import Pair
from shuffledp.accounting.rounds.convolution import (
    LOG_TAIL,
    self_convolve,
    sum_window,
    transform_error,
)
from shuffledp.accounting.rounds.outcomes import DEEPEST, DEPTH
from shuffledp.accounting.rounds.privacy_loss import (
    LossDistribution,
    default_step,
    pooled_down,
    rounded_down,
    rounded_up,
)
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT, Floats
from shuffledp.numerics.roots import brentq

# Rounding down is of first order in the step at gaps between atoms, so its steps are finer.
_FINER = 8
# What the windows of a round leave out may be this share of delta (a log); windows come in depths
# of multiples of _DEEPER.
_SHARE, _DEEPER = -26.0, 24.0
# Points of a transform, for the lower end; it takes a second.
_MOST_POINTS = 4_000_000
# How far Chernoff's bound is above the log of a hockey-stick divergence, at most or so.
_CHERNOFF = 8.0


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


def _finite(loss: LossDistribution) -> tuple[Floats, Floats]:
    """The finite losses that occur, and the logs of their probabilities."""
    used = loss.mass > 0.0
    return loss.losses[used], np.log(loss.mass[used])


def _tilt(losses: Floats, log_mass: Floats, eps: float, rounds: int) -> tuple[float, float]:
    # At the largest loss itself the tilt would be infinite.
    largest = float(losses[-1]) * (1.0 - 1e-9)
    return _saddle_point(losses, log_mass, min(eps / rounds, largest))


def _tilted(loss: LossDistribution, lam: float, log_moment: float) -> Floats:
    """Probabilities of the grid points under the tilted law."""
    losses, log_mass = _finite(loss)
    tilted = np.zeros_like(loss.mass)
    tilted[loss.mass > 0.0] = np.exp(log_mass + lam * losses - log_moment)
    # Denormal numbers upset the transform's bounds; what this drops is nothing beside the tail.
    tilted[tilted < 1e-100] = 0.0
    return tilted


def log_chernoff(loss: LossDistribution, eps: float, rounds: int) -> float:
    """Chernoff's bound on the log of the part of the divergence that finite losses make.

    Parameters
    ----------
    loss, eps, rounds
        As for `log_hockey_stick`.
    """
    losses, log_mass = _finite(loss)
    if eps >= rounds * float(losses[-1]):
        return -np.inf
    lam, log_moment = _tilt(losses, log_mass, eps, rounds)
    return min(rounds * log_moment - lam * eps, 0.0)


def log_hockey_stick(loss: LossDistribution, eps: float, rounds: int) -> LogInterval:
    """Enclose the log of the hockey-stick divergence of ``rounds`` independent rounds.

    Certified: the interval holds the rounding of the transform, what its window leaves out, and the
    errors that the loss distribution states. If all losses are right to an error, eps moves by at
    most as much per round; if P's and Q's masses are, log delta does. An infinite loss has its own
    term.

    Parameters
    ----------
    loss
        Law of one round.
    eps
        Total, at least 0.
    rounds
        Number of rounds, at least 1.
    """
    with np.errstate(divide="ignore"):
        infinite = float(np.log(-np.expm1(rounds * np.log1p(-loss.infinite))))
    losses, log_mass = _finite(loss)
    lost = rounds * loss.loss_error + 8.0 * UNIT * (1.0 + eps)
    if eps - lost >= rounds * float(losses[-1]):
        return LogInterval(infinite, infinite)
    lam, log_moment = _tilt(losses, log_mass, eps, rounds)
    tilted = _tilted(loss, lam, log_moment)
    offset, convolved = self_convolve(tilted, rounds)
    index = rounds * loss.start + offset + np.arange(convolved.size, dtype=np.float64)
    norm = float(np.linalg.norm(tilted)) * np.sqrt(np.ceil(tilted.size / convolved.size))
    transform = transform_error(convolved.size, rounds, norm)
    # Any sum, also one outside the window, weighs at most as much as the best distance does.
    heaviest = (lam / (1.0 + lam)) ** lam / (1.0 + lam)
    outside = 2.0 * float(np.exp(LOG_TAIL)) * heaviest * float(rounds > 1)
    exponents = float(np.abs(log_mass).max()) + lam * float(np.abs(losses[[0, -1]]).max())
    relative = rounds * (loss.mass_error + 4.0 * UNIT * (exponents + abs(log_moment) + 8.0))

    def at(eps: float, sign: float) -> float:
        """An end: the log of the divergence at an eps, the errors added or taken away."""
        distance = loss.step * index - eps
        above = distance > 0.0
        weights = np.exp(-lam * distance[above]) * -np.expm1(-distance[above])
        value = float(np.sum(weights * convolved[above]))
        error = float(np.linalg.norm(weights)) * transform + outside
        scale = rounds * log_moment - lam * eps
        with np.errstate(divide="ignore"):
            end = np.log(max(value, 0.0) + error) if sign > 0 else np.log(max(value - error, 0.0))
        end += scale + sign * (relative + 8.0 * UNIT * (abs(scale) + 8.0))
        return float(np.logaddexp(end, infinite))

    return LogInterval(at(eps + lost, -1.0), at(max(eps - lost, 0.0), 1.0))


def _two_cell_loss(pair: Pair, n: int, step: float) -> LossDistribution:
    """Loss of a pair of two cells, rounded down: one count says everything."""
    p1, p2, _, _ = pair.probabilities
    half = 9.3 * np.sqrt(n * p1 * p2) + 20.0
    count = np.arange(max(np.floor(n * p1 - half), 0.0), min(n * p1 + half, n) + 1.0)
    counts = np.stack([count, n - count]) / n
    first, second = (np.exp(ratios[:2]) @ counts for ratios in (pair.log_first, pair.log_second))
    base = np.exp(log_pmf(count, n, p1, p2))
    units = (pair._units(0.0) + 16.0) * UNIT
    error = float(log_pmf_error(count, n, p1, p2, 8.0).max()) + units
    return pooled_down(np.log(first / second), base * first, 0.0, step, (error, 2.0 * units))


@lru_cache(maxsize=16)
def single_round(
    setting: Setting, side: Side, discretisation: float | None = None, depth: float = DEPTH
) -> tuple[LossDistribution, ...]:
    """Loss distributions of one round: the dominating one, or those of explicit data sets.

    Parameters
    ----------
    setting
        Users, cells and budget; its rounds are not looked at.
    side, discretisation
        As for `composed_log_delta`.
    depth
        How much the windows of the upper side leave out (`rounded_up`).
    """
    weak = pairs.weak_adversary(setting)
    if side == "upper":
        return (rounded_up(weak, discretisation or default_step(weak), depth),)
    step = discretisation or default_step(weak) / _FINER
    if setting.k == 2:
        alike = (pairs.other_cell(setting), pairs.same_cell(setting))
        return tuple(_two_cell_loss(pair, setting.n, step) for pair in alike)
    return (rounded_down(pairs.third_cell(setting), step),)


def deep_enough(
    one: Callable[[float], LossDistribution], eps: float, rounds: int, share: float = _SHARE
) -> float:
    """Upper end of the log of the hockey-stick divergence of ``rounds`` rounds.

    Parameters
    ----------
    one
        Dominating law of one round by the depth of its windows, which is doubled or so until what
        they leave out is nothing beside the result, or is no less than before.
    eps, rounds
        As for `log_hockey_stick`.
    share
        What they leave out may be this share of the result (a log).
    """
    depth, guessed, before = DEPTH, False, np.inf
    while True:
        loss = one(depth)
        with np.errstate(divide="ignore"):
            infinite = float(np.log(-np.expm1(rounds * np.log1p(-loss.infinite))))
        # Chernoff's bound tells the depth, some units off, without a transform.
        inside = log_chernoff(loss, eps, rounds) - _CHERNOFF
        # Delta may not fall to 0. But a probability of 1 only says that windows are too shallow.
        deepest = depth >= DEEPEST or before <= loss.infinite < 1.0
        if guessed or infinite <= inside + share or deepest:
            inside = log_hockey_stick(replace(loss, infinite=0.0), eps, rounds).high
        missing = infinite - inside - share
        if infinite == -np.inf or missing <= 0.0 or deepest:
            return float(np.logaddexp(inside, infinite))
        needed = 2.0 * depth if inside == -np.inf else depth + missing
        depth, guessed = min(_DEEPER * np.ceil(needed / _DEEPER), DEEPEST), True
        before = loss.infinite


def _coarse_enough(loss: LossDistribution, eps: float, rounds: int) -> LossDistribution:
    """The law rounded down further if its sum would take a transform of too many points."""
    losses, log_mass = _finite(loss)
    if eps >= rounds * float(losses[-1]):
        return loss
    lam, log_moment = _tilt(losses, log_mass, eps, rounds)
    low, high = sum_window(_tilted(loss, lam, log_moment), rounds)
    factor = np.ceil((high - low) / _MOST_POINTS)
    if factor <= 1.0:
        return loss
    errors = (loss.mass_error, loss.loss_error)
    mass = loss.mass[loss.mass > 0.0]
    return pooled_down(losses, mass, loss.infinite, float(factor) * loss.step, errors)


def _check(side: Side, discretisation: float | None) -> None:
    if side not in ("upper", "lower"):
        raise InputError(f'side must be "upper" or "lower" (got {side!r})')
    if discretisation is not None and not (discretisation > 0.0 and np.isfinite(discretisation)):
        raise InputError(f"discretisation must be positive and finite (got {discretisation!r})")


def dominated_log_delta(eps: float, setting: Setting, discretisation: float | None = None) -> float:
    """Natural log of delta after ``setting.rounds`` rounds against the weak adversary, rounded up.

    With k = 2 it holds for every shuffled eps0-LDP randomiser (`one_round.clones`).

    Parameters
    ----------
    eps
        Total over the rounds, at least 0.
    setting, discretisation
        As for `composed_log_delta`.

    Returns
    -------
    At most 0; -inf from ``rounds * eps0`` on.
    """
    if eps >= setting.budget:
        return -np.inf
    rounds, once = setting.rounds, replace(setting, rounds=1)

    def one(depth: float) -> LossDistribution:
        return single_round(once, "upper", discretisation, depth)[0]

    return min(deep_enough(one, eps, rounds), 0.0)


@over_eps
def composed_log_delta(
    eps: float, setting: Setting, side: Side, discretisation: float | None = None
) -> float:
    """Natural log of delta after ``setting.rounds`` releases by the same users, eps0 each time.

    ``"upper"`` holds for every data set, and for rounds chosen in view of earlier ones;
    ``"lower"`` is reached by some data set (all others in a third cell; for k = 2, all others in
    one cell). Both are certified: discretisation, windows and rounding are on the safe side.
    What the windows leave out is some 1e-11 of delta; below 1e-280 or so, where windows end,
    ``"upper"`` is that of basic composition.

    Parameters
    ----------
    eps
        Total over the rounds, at least 0, any shape.
    setting
        What is released.
    side
        ``"upper"`` (pessimistic) or ``"lower"`` (optimistic).
    discretisation
        Distance of the grid's losses; by default about 1/128 (upper) and 1/1024 (lower) of the
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
    if side == "upper":
        high = dominated_log_delta(eps, setting, discretisation)
        # Each round (eps / rounds, delta)-DP: less far out only, where the windows end.
        if np.log(rounds) + 2.0 * _chernoff(eps / rounds, once) - 30.0 < high:
            simple = np.log(rounds) + float(certified.upper_log_delta(eps / rounds, once))
            high = min(high, float(simple))
        return high
    parts = single_round(once, side, discretisation)
    coarse = (_coarse_enough(part, eps, rounds) for part in parts)
    low = max(log_hockey_stick(part, eps, rounds).low for part in coarse)
    # Whoever sees all rounds sees one of them. For k = 2 this searches all data sets, in seconds.
    if (rounds == 1 or setting.k > 2) and _chernoff(eps, once) + 1.0 > low:
        low = max(low, float(certified.lower_log_delta(eps, once)))
    return low


def _chernoff(eps: float, once: Setting) -> float:
    """At least the log of one round's delta, but for rounding, which is below 1."""
    if eps >= once.eps0:
        return -np.inf
    return min(log_chernoff_bound(pairs.weak_adversary(once).weighted_sum(eps)), 0.0)


def ceiling(eps: float, setting: Setting) -> float:
    """About the log of delta after all rounds, at once: Chernoff's bound, but for the windows."""
    if eps >= setting.budget:
        return -np.inf
    (loss,) = single_round(replace(setting, rounds=1), "upper")
    return log_chernoff(loss, eps, setting.rounds)


@over_log_delta
def composed_epsilon(
    log_delta: float, setting: Setting, side: Side, discretisation: float | None = None
) -> float:
    """Smallest total eps for a given log delta.

    Parameters
    ----------
    log_delta
        Natural logs of delta, at most 0, any shape.
    setting, side, discretisation
        As for `composed_log_delta`.

    Returns
    -------
    Numbers in ``[0, rounds * eps0]`` shaped like ``log_delta``, rounded towards the side that
    keeps the promise.

    Raises
    ------
    InputError
        If a parameter is outside its range.
    """
    return calibrate.led_epsilon(
        lambda eps: float(composed_log_delta(eps, setting, side, discretisation)),
        log_delta,
        setting.budget,
        side,
        lambda eps: ceiling(eps, setting),
    )
