"""Certified lower and upper bounds on delta of one round of shuffled k-randomised response.

Neighbouring data sets differ in one record, that of the distinguished user, the target: it is in
cell x0 or in cell x1. The upper bound holds for every data set; for k >= 4 or, with many users,
k = 3, it holds even against an adversary who also learns which other users reported a uniformly
random cell (paper C's "weak adversary"). The lower bound is the hockey-stick divergence of the
histogram for an explicit data set.
"""

from dataclasses import dataclass

import numpy as np

from shuffledp.accounting import pairs
from shuffledp.accounting.conventions import over_eps_of_one_round
from shuffledp.accounting.laws.multinomial import log_chernoff_bound, tilted_shares
from shuffledp.accounting.one_round import hidden_user, two_cells, two_groups
from shuffledp.accounting.pairs import hockey_stick
from shuffledp.accounting.setting import Setting

# For k = 3 and up to this many users, one other user is hidden from the adversary (`hidden_user`).
# That lowers delta by a share that falls like 1/n, at a cost that grows like n.
MAX_HIDDEN_USER_N = 2_000


def hides_one_user(setting: Setting) -> bool:
    """Return whether `upper_log_delta` uses `hidden_user`."""
    return setting.k == 3 and 2 <= setting.n <= MAX_HIDDEN_USER_N


def _one_hidden_log_delta(eps: float, setting: Setting, weak: float) -> float:
    """Return the upper bound for k = 3; ``weak`` is log delta against the weak adversary.

    It is the maximum over three cases: all other users hold the third cell, at least one of them
    holds x0, or at least one of them holds x1.
    """
    shares = tilted_shares(pairs.weak_adversary(setting).weighted_sum(eps))
    candidates = [hockey_stick(pairs.all_hold_third_cell(setting), eps, "upper").high]
    for forward in (True, False):
        reduction = hidden_user.log_reduction(eps, setting, shares, forward=forward)
        candidates.append(weak + np.log1p(-np.exp(reduction - weak)) if reduction < weak else weak)
    return min(max(candidates), weak)


@over_eps_of_one_round
def weak_adversary_log_delta(eps: float, setting: Setting) -> float:
    """Return log delta against the weak adversary, rounded up.

    This bound holds for every data set of k-RR. Its value for k = 2 also bounds every other
    eps0-LDP randomiser that all users share, for any number of cells (`papers.literature.clones`).
    Parameters, return value and errors are those of `upper_log_delta`.

    Source: docs/accounting.md; paper C's Theorem 10, corrected.
    """
    return min(hockey_stick(pairs.weak_adversary(setting), eps, "upper").high, 0.0)


@over_eps_of_one_round
def upper_log_delta(eps: float, setting: Setting) -> float:
    """Return an upper bound on log delta that holds for every data set of n users.

    It is `weak_adversary_log_delta`, with two exceptions: for k = 2 all data sets are searched
    (`two_cells`), and for k = 3 and n up to 2,000 the adversary does not learn whether the report
    of one particular other user is uniform (`hidden_user`).

    Parameters
    ----------
    eps
        Central budget, at least 0, any shape.
    setting
        Setting of one round.

    Returns
    -------
    Natural logarithms shaped like ``eps``; -inf where ``eps >= eps0``. For k > 2 and n up to a
    million, rounding increases delta by at most 1e-9 (relative), unless there are so many terms
    that `laws.multinomial` groups them. For larger n, the eps of a given delta is too large by at
    most about 1e-6 (relative). For k = 2 see `two_cells.worst_count`.

    Raises
    ------
    InputError
        If an eps is negative or NaN.
    """
    if setting.k == 2:
        return two_cells.worst_count(eps, setting).ends.high
    weak = float(weak_adversary_log_delta(eps, setting))
    if hides_one_user(setting) and weak > -np.inf:
        return min(_one_hidden_log_delta(eps, setting, weak), 0.0)
    return weak


@dataclass(frozen=True)
class AttainingDataSet:
    """Log delta of a data set, and its numbers of other users in x0, x1 and a third cell x2."""

    log_delta: float
    x0: int
    x1: int
    x2: int


def attaining_data_set(eps: float, setting: Setting) -> AttainingDataSet:
    """Return `lower_log_delta` together with a data set that attains it."""
    others = setting.n - 1
    if setting.k == 2:
        worst = two_cells.worst_count(eps, setting)
        return AttainingDataSet(worst.ends.low, worst.count, others - worst.count, 0)
    if eps >= setting.eps0:
        return AttainingDataSet(-np.inf, 0, 0, others)
    third = hockey_stick(pairs.all_hold_third_cell(setting), eps, "lower").low
    candidates = [AttainingDataSet(third, 0, 0, others)]
    for make, counts in ((pairs.all_hold_x0, (others, 0, 0)), (pairs.all_hold_x1, (0, others, 0))):
        pair = make(setting)
        # Usually the delta of this data set is much smaller, which Chernoff's bound shows cheaply.
        if log_chernoff_bound(pair.weighted_sum(eps)) > candidates[0].log_delta:
            candidates.append(AttainingDataSet(hockey_stick(pair, eps, "lower").low, *counts))
    if two_groups.feasible(setting):
        value, x0, x1 = two_groups.best(eps, setting)
        candidates.append(AttainingDataSet(value, x0, x1, others - x0 - x1))
    return max(candidates, key=lambda candidate: candidate.log_delta)


@over_eps_of_one_round
def lower_log_delta(eps: float, setting: Setting) -> float:
    """Return a lower bound on log delta: that of an explicit data set, rounded down.

    It is the largest log delta of the histogram over the data sets in which all other users hold
    the same cell (docs/accounting.md) and, for few users, those in which some hold x0 and the rest
    a third cell, or some hold x1 and the rest a third cell (`two_groups`). For k = 2 it is the
    largest one found by a search over data sets. Parameters, return value and errors are those of
    `upper_log_delta`.
    """
    return attaining_data_set(eps, setting).log_delta
