"""Certified lower and upper bounds on delta of one round of shuffled k-randomised response.

Neighbours differ in one record (replacement), and the unit is one record. The upper bound holds for
every data set, even against an adversary who learns which of the other users randomised. The lower
bound is the exact divergence of the histogram for an explicit data set.
"""

from dataclasses import dataclass

import numpy as np

from shuffledp.accounting import pairs
from shuffledp.accounting.conventions import over_eps_of_one_round
from shuffledp.accounting.laws.multinomial import log_chernoff_bound, tilted_shares
from shuffledp.accounting.one_round import hidden_user, two_cells, two_groups
from shuffledp.accounting.pairs import hockey_stick
from shuffledp.accounting.setting import Setting

# With three cells and up to this many users, the upper bound assumes that one other user is hidden
# from the adversary. Its gain falls like 1/n, and its cost grows like n.
MAX_HIDDEN_USER_N = 2_000


def hides_one_user(setting: Setting) -> bool:
    """Return whether `upper_log_delta` uses `hidden_user`."""
    return setting.k == 3 and 2 <= setting.n <= MAX_HIDDEN_USER_N


def _one_hidden_log_delta(eps: float, setting: Setting, weak: float) -> float:
    """Return the upper bound for k = 3.

    It is the maximum over the cases that all others hold the third cell, or that at least one of
    them holds x0, or x1.
    """
    shares = tilted_shares(pairs.weak_adversary(setting).weighted_sum(eps))
    candidates = [hockey_stick(pairs.third_cell(setting), eps, "upper").high]
    for forward in (True, False):
        loss = hidden_user.log_loss(eps, setting, shares, forward=forward)
        candidates.append(weak + np.log1p(-np.exp(loss - weak)) if loss < weak else weak)
    return min(max(candidates), weak)


@over_eps_of_one_round
def weak_adversary_log_delta(eps: float, setting: Setting) -> float:
    """Return log delta against an adversary who learns which of the other users randomised.

    It holds for every data set of k-RR and, with k = 2, for every shuffled eps0-LDP randomiser
    (`papers.literature.clones`). It is rounded up and includes the truncated mass. Parameters,
    return value and errors are those of `upper_log_delta`.

    Source: docs/accounting.md; paper C's Theorem 10, corrected.
    """
    return min(hockey_stick(pairs.weak_adversary(setting), eps, "upper").high, 0.0)


@over_eps_of_one_round
def upper_log_delta(eps: float, setting: Setting) -> float:
    """Return an upper bound of log delta for every data set of n users (a guarantee).

    Neighbours differ by the replacement of one record. The bound is `weak_adversary_log_delta`,
    with two exceptions: for k = 2 all data sets are searched (`two_cells`), and for k = 3 and n up
    to 2,000 the adversary does not learn whether one of the others randomised (`hidden_user`).

    Parameters
    ----------
    eps
        Central budget, at least 0, any shape.
    setting
        Setting of one round.

    Returns
    -------
    Natural logarithms shaped like ``eps``; -inf where ``eps >= eps0``. For n up to a million the
    relative error of delta is at most 1e-9. For larger n, the eps of a given delta is too large by
    at most about 1e-6 (relative).

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
class Attained:
    """A data set's log delta, and how many of the other users hold x0, x1 and x2."""

    log_delta: float
    x0: int
    x1: int
    x2: int


def attained(eps: float, setting: Setting) -> Attained:
    """Return the data set of `lower_log_delta` and its log delta, rounded down."""
    others = setting.n - 1
    if setting.k == 2:
        worst = two_cells.worst_count(eps, setting)
        return Attained(worst.ends.low, worst.count, others - worst.count, 0)
    if eps >= setting.eps0:
        return Attained(-np.inf, 0, 0, others)
    candidates = [Attained(hockey_stick(pairs.third_cell(setting), eps, "lower").low, 0, 0, others)]
    for make, where in ((pairs.same_cell, (others, 0, 0)), (pairs.other_cell, (0, others, 0))):
        pair = make(setting)
        # Mostly this data set leaks far less, which its Chernoff bound shows cheaply.
        if log_chernoff_bound(pair.weighted_sum(eps)) > candidates[0].log_delta:
            candidates.append(Attained(hockey_stick(pair, eps, "lower").low, *where))
    if two_groups.feasible(setting):
        value, x0, x1 = two_groups.best(eps, setting)
        candidates.append(Attained(value, x0, x1, others - x0 - x1))
    return max(candidates, key=lambda each: each.log_delta)


@over_eps_of_one_round
def lower_log_delta(eps: float, setting: Setting) -> float:
    """Return a log delta that some data set attains, rounded down; no guarantee can be smaller.

    It is the largest exact divergence of the histogram among data sets in which all other users
    hold one cell (docs/accounting.md) and, for few users, in which some hold the target's cell and
    the rest one third cell (`two_groups`). For k = 2 it is the largest over the data sets that a
    search visits. Truncated mass is left out. Parameters, return value and errors are those of
    `upper_log_delta`.
    """
    return attained(eps, setting).log_delta
