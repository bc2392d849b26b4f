"""Composition of rounds of shuffled k-RR with the same users, n, k and eps0.

The loss distribution of one round is discretised on a grid and convolved with itself (`sums`). For
the upper end it is that of the weak adversary's dominating pair, rounded up. For the lower end it
is that of an explicit data set, rounded down.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from shuffledp.accounting import calibrate, pairs
from shuffledp.accounting.conventions import Side, over_eps, over_log_delta
from shuffledp.accounting.laws.binomial import log_pmf, log_pmf_error
from shuffledp.accounting.laws.multinomial import log_chernoff_bound
from shuffledp.accounting.one_round import certified
from shuffledp.accounting.pairs import Pair
from shuffledp.accounting.rounds.outcome_bundles import DEPTH
from shuffledp.accounting.rounds.privacy_loss import (
    Loss,
    LossDistribution,
    default_step,
    loss_of_pair,
    pooled_down,
    rounded_down,
    rounded_up,
)
from shuffledp.accounting.rounds.sums import (
    Rounds,
    coarse_enough,
    deep_enough,
    log_chernoff,
    log_hockey_stick,
)
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT, quotient_down

# The grid of the lower end is finer by this factor, because at gaps between atoms the error of
# rounding down is of first order in the step.
LOWER_GRID_REFINEMENT = 8


def _two_cell_loss(pair: Pair, n: int, step: float) -> LossDistribution:
    """Return the loss of a pair with two cells, which is a function of one count, rounded down."""
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
    """Return the dominating loss distribution of one round, or those of explicit data sets.

    Parameters
    ----------
    setting
        Setting whose number of rounds is not used.
    side, discretisation
        See `composed_log_delta`.
    depth
        Depth of the windows of the upper side (`rounded_up`).
    """
    weak = pairs.weak_adversary(setting)
    if side == "upper":
        return (rounded_up(weak, discretisation or default_step(weak), depth),)
    step = discretisation or default_step(weak) / LOWER_GRID_REFINEMENT
    if setting.k == 2:
        uniform_pairs = (pairs.other_cell(setting), pairs.same_cell(setting))
        return tuple(_two_cell_loss(pair, setting.n, step) for pair in uniform_pairs)
    return (rounded_down(pairs.third_cell(setting), step),)


def loss_of(setting: Setting) -> Loss:
    """Return the loss of a round against the weak adversary, and the losses of explicit data sets.

    There are two data sets for k = 2, otherwise one. In the setting all users are honest and
    report, and there are no dummies.
    """
    once = replace(setting, rounds=1)

    def loss_of_data_set(index: int) -> Callable[[float], list[LossDistribution]]:
        return lambda step: [single_round(once, "lower", step)[index]]

    down = tuple(map(loss_of_data_set, range(2 if once.k == 2 else 1)))
    return replace(loss_of_pair(pairs.weak_adversary(once)), down=down)


def _check(side: Side, discretisation: float | None) -> None:
    if side not in ("upper", "lower"):
        raise InputError(f'side must be "upper" or "lower" (got {side!r})')
    if discretisation is not None and not (discretisation > 0.0 and np.isfinite(discretisation)):
        raise InputError(f"discretisation must be positive and finite (got {discretisation!r})")


def dominated_log_delta(eps: float, setting: Setting, discretisation: float | None = None) -> float:
    """Return the log delta of all rounds against the weak adversary, rounded up.

    With k = 2 it holds for every shuffled eps0-LDP randomiser (`papers.literature.clones`).

    Parameters
    ----------
    eps
        Central budget of all rounds, at least 0.
    setting, discretisation
        See `composed_log_delta`.

    Returns
    -------
    At most 0; -inf from ``rounds * eps0`` on.
    """
    if eps >= setting.budget:
        return -np.inf
    rounds, once = setting.rounds, replace(setting, rounds=1)

    def rounds_at(depth: float) -> Rounds:
        return [(single_round(once, "upper", discretisation, depth)[0], rounds)]

    return min(deep_enough(rounds_at, eps), 0.0)


@over_eps
def composed_log_delta(
    eps: float, setting: Setting, side: Side, discretisation: float | None = None
) -> float:
    """Return a certified bound of log delta of all rounds, each with budget eps0.

    The upper bound holds for every data set, also if records depend on the outcomes of earlier
    rounds. The lower bound is attained by a data set in which all others hold a third cell, or, for
    k = 2, one cell. Discretisation, windows and rounding are on the safe side. The windows leave
    out about 1e-11 of delta; below about 1e-280, where windows cannot be deeper, the upper bound is
    that of basic composition.

    Parameters
    ----------
    eps
        Central budget of all rounds, at least 0, any shape.
    setting
        Setting of each round, and the number of rounds.
    side
        ``"upper"`` (pessimistic) or ``"lower"`` (optimistic).
    discretisation
        Distance of grid points. By default it is about 1/128 (upper) or 1/1024 (lower) of the
        standard deviation of one round's loss, which changes eps by about 1e-5 of itself.

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
        # Basic composition is smaller only for tiny deltas, for which windows are too shallow.
        share = quotient_down(eps, rounds)
        if np.log(rounds) + 2.0 * _chernoff(share, once) - 30.0 < high:
            basic = np.log(rounds) + float(certified.upper_log_delta(share, once))
            high = min(high, float(basic))
        return high
    parts = single_round(once, side, discretisation)
    coarse = (coarse_enough([(part, rounds)], eps) for part in parts)
    low = max(log_hockey_stick(part, eps).low for part in coarse)
    # The view of all rounds includes that of one. For k = 2 its search takes seconds and is
    # skipped.
    if (rounds == 1 or setting.k > 2) and _chernoff(eps, once) + 1.0 > low:
        low = max(low, float(certified.lower_log_delta(eps, once)))
    return low


def _chernoff(eps: float, once: Setting) -> float:
    """Return Chernoff's bound on one round's log delta, whose rounding error is less than 1."""
    if eps >= once.eps0:
        return -np.inf
    return min(log_chernoff_bound(pairs.weak_adversary(once).weighted_sum(eps)), 0.0)


def ceiling(eps: float, setting: Setting) -> float:
    """Return Chernoff's bound on log delta of all rounds, neglecting mass outside the windows."""
    if eps >= setting.budget:
        return -np.inf
    (loss,) = single_round(replace(setting, rounds=1), "upper")
    return log_chernoff([(loss, setting.rounds)], eps)


@over_log_delta
def composed_epsilon(
    log_delta: float, setting: Setting, side: Side, discretisation: float | None = None
) -> float:
    """Return a certified bound of the smallest eps of all rounds at a log delta.

    Parameters
    ----------
    log_delta
        Natural log of delta, at most 0, any shape.
    setting, side, discretisation
        See `composed_log_delta`.

    Returns
    -------
    Numbers in ``[0, rounds * eps0]`` shaped like ``log_delta``, rounded up or down by the side.

    Raises
    ------
    InputError
        If a parameter is outside its range.
    """
    return calibrate.guided_epsilon(
        lambda eps: float(composed_log_delta(eps, setting, side, discretisation)),
        log_delta,
        setting.budget,
        side,
        lambda eps: ceiling(eps, setting),
    )
