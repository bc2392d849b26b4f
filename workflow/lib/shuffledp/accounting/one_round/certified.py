"""Certified lower and upper bounds on delta of one round of shuffled k-randomised response.

Neighbours differ in one record (replacement); the unit is one report. ``upper`` holds for every
data set, even against an adversary who learns which of the other users randomised; ``lower`` is the
exact divergence of the full histogram for an explicit data set.
"""

from dataclasses import dataclass

import numpy as np

from shuffledp.accounting import pairs
from shuffledp.accounting.conventions import over_eps_of_one_round
from shuffledp.accounting.laws.multinomial import log_chernoff_bound, tilted_shares
from shuffledp.accounting.one_round import hidden_user, two_cells, two_groups
from shuffledp.accounting.pairs import hockey_stick
from shuffledp.accounting.setting import Setting

# With three cells and up to this many users, the argument of one hidden user narrows the interval.
# Its gain falls like 1/n, and its cost grows like n.
MAX_HIDDEN_USER_N = 2_000


def hides_one(setting: Setting) -> bool:
    """Return whether `upper_log_delta` uses the argument of one hidden user."""
    return setting.k == 3 and 2 <= setting.n <= MAX_HIDDEN_USER_N


def _one_hidden_log_delta(eps: float, setting: Setting, weak: float) -> float:
    """Return the upper bound for k = 3.

    Either all others hold the third cell, or one of them is hidden in x0 or x1.
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

    It holds for every data set of k-RR, and with k = 2 for every shuffled eps0-LDP randomiser
    (`clones`). It is rounded up, and includes the truncated mass. Parameters, shape and errors as
    for `upper_log_delta`. Source: docs/accounting.md; paper C's Theorem 10, corrected.
    """
    return min(hockey_stick(pairs.weak_adversary(setting), eps, "upper").high, 0.0)


@over_eps_of_one_round
def upper_log_delta(eps: float, setting: Setting) -> float:
    """Return the natural log of a delta that holds for every data set of n users (a guarantee).

    It is `weak_adversary_log_delta`, sharpened where more is known: for k = 2 all data sets are
    counts, which are searched (`two_cells`); for k = 3 and n up to 2,000 the adversary does not
    learn whether one of the others randomised (`hidden_user`). It is for the replacement of one
    report.

    Parameters
    ----------
    eps
        At least 0, any shape.
    setting
        One round.

    Returns
    -------
    Logarithms shaped like ``eps``; -inf where ``eps >= eps0``. For n up to a million the relative
    error of delta is at most 1e-9; for larger n, eps at a delta is at most some 1e-6 (relative) too
    large.

    Raises
    ------
    InputError
        If an eps is negative or NaN.
    """
    if setting.k == 2:
        return two_cells.worst(eps, setting).ends.high
    weak = float(weak_adversary_log_delta(eps, setting))
    if hides_one(setting) and weak > -np.inf:
        return min(_one_hidden_log_delta(eps, setting, weak), 0.0)
    return weak


@dataclass(frozen=True)
class Attained:
    """The log delta of some data set, and the numbers of others who hold x0, x1 and x2."""

    log_delta: float
    x0: int
    x1: int
    x2: int


def attained(eps: float, setting: Setting) -> Attained:
    """Return the data set behind `lower_log_delta` and its delta, rounded down.

    eps is at least 0, and the setting has one round.
    """
    others = setting.n - 1
    if setting.k == 2:
        worst = two_cells.worst(eps, setting)
        return Attained(worst.ends.low, worst.count, others - worst.count, 0)
    if eps >= setting.eps0:
        return Attained(-np.inf, 0, 0, others)
    found = [Attained(hockey_stick(pairs.third_cell(setting), eps, "lower").low, 0, 0, others)]
    for make, where in ((pairs.same_cell, (others, 0, 0)), (pairs.other_cell, (0, others, 0))):
        pair = make(setting)
        # It is mostly far below, which its Chernoff bound shows without computing it.
        if log_chernoff_bound(pair.weighted_sum(eps)) > found[0].log_delta:
            found.append(Attained(hockey_stick(pair, eps, "lower").low, *where))
    if two_groups.feasible(setting):
        value, x0, x1 = two_groups.best(eps, setting)
        found.append(Attained(value, x0, x1, others - x0 - x1))
    return max(found, key=lambda each: each.log_delta)


@over_eps_of_one_round
def lower_log_delta(eps: float, setting: Setting) -> float:
    """Return the natural log of a delta that some data set attains; no guarantee can be smaller.

    It is the largest exact divergence of the full histogram among data sets in which all other
    users agree (docs/accounting.md), and, for few users, in which some hold the target's cell and
    the rest one third cell (`two_groups`). For k = 2, where every data set is a count, it is the
    largest over the counts that a search visits. It is rounded down, without the truncated mass.
    Parameters, shape and errors as for `upper_log_delta`.
    """
    return attained(eps, setting).log_delta
