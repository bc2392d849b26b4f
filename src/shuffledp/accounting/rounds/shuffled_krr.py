"""Composition of rounds of shuffled k-RR with the same users, n, k and eps0.

The privacy loss distribution of one round is rounded to a grid and convolved with itself (`sums`).
For the upper end it is that of a dominating pair, rounded up: the pair of paper C's weak adversary,
who sees more than the analyst (`pairs.weak_adversary`). For the lower end it is that of an explicit
data set, rounded down.
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
from shuffledp.accounting.rounds.outcome_bundles import DEFAULT_DEPTH
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
    coarsened_for_transform,
    log_chernoff,
    log_hockey_stick,
    upper_log_hockey_stick,
)
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT, quotient_down

# The grid of the lower end is finer by this factor, because the error of rounding down is of first
# order in the step where atoms are more than a step apart.
LOWER_GRID_REFINEMENT = 8


def _two_cell_loss(pair: Pair, n: int, step: float) -> LossDistribution:
    """Return the loss distribution of a pair for k = 2, rounded down.

    Its outcomes are the counts of the first cell. Those that are more than 9.3 standard deviations
    plus 20 from the mean are left out.
    """
    p1, p2, _, _ = pair.probabilities
    half_width = 9.3 * np.sqrt(n * p1 * p2) + 20.0
    count = np.arange(max(np.floor(n * p1 - half_width), 0.0), min(n * p1 + half_width, n) + 1.0)
    counts = np.stack([count, n - count]) / n
    first, second = (np.exp(logs[:2]) @ counts for logs in (pair.log_ratios_p, pair.log_ratios_q))
    base = np.exp(log_pmf(count, n, p1, p2))
    weight_error = (pair._units(0.0) + 16.0) * UNIT
    error = float(log_pmf_error(count, n, p1, p2, 8.0).max()) + weight_error
    return pooled_down(np.log(first / second), base * first, 0.0, step, (error, 2.0 * weight_error))


@lru_cache(maxsize=16)
def loss_distributions(
    setting: Setting, side: Side, step: float | None = None, depth: float = DEFAULT_DEPTH
) -> tuple[LossDistribution, ...]:
    """Return the loss distributions of one round of a setting, for `composed_log_delta`.

    The upper side has one distribution, which dominates that of every data set; a probability of
    about ``exp(-depth)`` is counted as infinite loss (`rounded_up`). The lower side has those of
    particular data sets.
    """
    weak = pairs.weak_adversary(setting)
    if side == "upper":
        return (rounded_up(weak, step or default_step(weak), depth),)
    step = step or default_step(weak) / LOWER_GRID_REFINEMENT
    if setting.k == 2:
        data_sets = (pairs.all_hold_x1(setting), pairs.all_hold_x0(setting))
        return tuple(_two_cell_loss(pair, setting.n, step) for pair in data_sets)
    return (rounded_down(pairs.all_hold_third_cell(setting), step),)


def loss_of(setting: Setting) -> Loss:
    """Return the loss of one round: an upper bound, and losses of explicit data sets.

    The upper bound is against the weak adversary. There are two explicit data sets for k = 2,
    otherwise one. The setting must have no dummies, and all its users must be honest and report.
    """
    once = replace(setting, rounds=1)

    def loss_of_data_set(index: int) -> Callable[[float], list[LossDistribution]]:
        return lambda step: [loss_distributions(once, "lower", step)[index]]

    down = tuple(map(loss_of_data_set, range(2 if once.k == 2 else 1)))
    return replace(loss_of_pair(pairs.weak_adversary(once)), down=down)


def _check(side: Side, step: float | None) -> None:
    if side not in ("upper", "lower"):
        raise InputError(f'side must be "upper" or "lower", got side={side!r}')
    if step is not None and not (step > 0.0 and np.isfinite(step)):
        raise InputError(f"step must be positive and finite, got {step!r}")


def dominating_log_delta(eps: float, setting: Setting, step: float | None = None) -> float:
    """Return an upper bound on log delta of all rounds, against the weak adversary.

    Its value for k = 2 also bounds every other eps0-LDP randomiser that all users share, for any
    number of cells (`papers.literature.clones`). It is at most 0, and -inf if
    ``eps >= rounds * eps0``. For the arguments see `composed_log_delta`.
    """
    if eps >= setting.budget:
        return -np.inf
    rounds, once = setting.rounds, replace(setting, rounds=1)

    def rounds_at(depth: float) -> Rounds:
        return [(loss_distributions(once, "upper", step, depth)[0], rounds)]

    return min(upper_log_hockey_stick(rounds_at, eps), 0.0)


@over_eps
def composed_log_delta(
    eps: float, setting: Setting, side: Side, step: float | None = None
) -> float:
    """Return a certified upper or lower bound on log delta of all rounds together.

    The upper bound holds for every data set, even if records depend on the outcomes of earlier
    rounds. The lower bound is that of a data set in which all other users hold a third cell (for
    k = 2, all hold x0 or all hold x1, whichever gives more). Where `certified.lower_log_delta`,
    which tries more data sets, is larger, that is the result; this is not tried for several rounds
    with k = 2. Both bounds include the errors of the grid, truncation and rounding. Truncation
    increases the upper bound by at most about 1e-11 (relative); for deltas below about 1e-280,
    where that is impossible, the bound is that of basic composition. The lower bound omits a
    probability of about 1e-20 in each round, so it may be far too small where delta is below that.

    Parameters
    ----------
    eps
        Central budget of all rounds, at least 0, any shape.
    setting
        Setting of k-RR; in each of its rounds the local budget is eps0.
    side
        ``"upper"`` (pessimistic) or ``"lower"`` (optimistic).
    step
        Distance between grid points. By default it is about 1/128 (upper) or 1/1024 (lower) of the
        standard deviation of one round's loss, which changes eps by a relative error of about 1e-5.

    Returns
    -------
    Logarithms shaped like ``eps``; -inf where ``eps >= rounds * eps0``.

    Raises
    ------
    InputError
        If a parameter is outside its range.

    Source: docs/accounting.md; paper C, Theorem 7, with the joint law of the counts of x0 and x1.
    """
    _check(side, step)
    if eps >= setting.budget:
        return -np.inf
    rounds, once = setting.rounds, replace(setting, rounds=1)
    if side == "upper":
        high = dominating_log_delta(eps, setting, step)
        # Basic composition is smaller only for tiny deltas, for which truncation omits too much.
        # Whether it may be smaller is decided with a lower estimate of one round's delta, exp(-30)
        # times the square of Chernoff's bound.
        eps_per_round = quotient_down(eps, rounds)
        if np.log(rounds) + 2.0 * _chernoff(eps_per_round, once) - 30.0 < high:
            basic = np.log(rounds) + float(certified.upper_log_delta(eps_per_round, once))
            high = min(high, float(basic))
        return high
    laws = loss_distributions(once, side, step)
    coarsened = (coarsened_for_transform([(law, rounds)], eps) for law in laws)
    low = max(log_hockey_stick(each, eps).low for each in coarsened)
    # The view of all rounds includes that of one round, so its lower end holds too. The search for
    # that end takes seconds for k = 2, and is skipped there if there are several rounds. The 1
    # covers the rounding error of Chernoff's bound.
    if (rounds == 1 or setting.k > 2) and _chernoff(eps, once) + 1.0 > low:
        low = max(low, float(certified.lower_log_delta(eps, once)))
    return low


def _chernoff(eps: float, once: Setting) -> float:
    """Return Chernoff's upper bound on log delta of one round, with a rounding error below 1."""
    if eps >= once.eps0:
        return -np.inf
    return min(log_chernoff_bound(pairs.weak_adversary(once).weighted_sum(eps)), 0.0)


def chernoff_estimate(eps: float, setting: Setting) -> float:
    """Approximate log delta of all rounds by Chernoff's bound, ignoring truncated outcomes."""
    if eps >= setting.budget:
        return -np.inf
    (loss,) = loss_distributions(replace(setting, rounds=1), "upper")
    return log_chernoff([(loss, setting.rounds)], eps)


@over_log_delta
def composed_epsilon(
    log_delta: float, setting: Setting, side: Side, step: float | None = None
) -> float:
    """Return a certified upper or lower bound on eps of all rounds, shaped like ``log_delta``.

    For the other arguments see `composed_log_delta`.
    """
    return calibrate.guided_epsilon(
        lambda eps: float(composed_log_delta(eps, setting, side, step)),
        log_delta,
        setting.budget,
        side,
        lambda eps: chernoff_estimate(eps, setting),
    )
