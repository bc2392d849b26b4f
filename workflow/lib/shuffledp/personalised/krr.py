"""Bounds on delta of shuffled k-RR with personal budgets (paper D).

User i runs a randomiser with budget eps_i and reports once; a report does not say whose it is, nor
which budget made it. Neighbours differ in the record of one user, the target, who has budget
``eps_t``. Let ``E = exp(eps_t)`` and ``e = exp(eps)``.

k-RR reports the true cell, except that with probability ``gamma_i = k/(exp(eps_i)+k-1)`` it reports
a uniform cell. Reveal which of the *other* users did so, and the reports of the rest. With m-1 such
users the uniform reports and the target's form a histogram h of m reports, whose law is
``Mult(h; m, 1/k) (k/m) sum_c R(c) h_c``, R being the target's channel. Hence, with
``q = 1/(E+k-1)`` and the Poisson-binomial law of the m-1,

    delta = sum_m Pr[m-1] (k q / m) E[((E-1)(n1 - e n2) - (e-1) m)_+ | m].

For equal budgets ``Pr[m-1] k q / m = Bin(n, gamma)(m) / n``: the weak adversary of equal users.

The target with the largest budget is the worst. Compare targets with budgets A < B, every other
user alike, of whom m are uniform with probability pi_m. Let ``N_m`` be the signed measure (law of
the histogram given the target's truth x0, minus e times given x1) and ``U_m`` the law of m uniform
reports. For the target B, histograms of size m have the signed measure ``x N_m - (e-1) y U_m`` with
``x = (1-gB) ((1-gA) pi_{m-1} + gA pi_{m-2})`` and ``y = gB ((1-gA) pi_{m-1} + gA pi_{m-2})``; for
the target A exchange gA and gB. As gA >= gB, x is larger and y smaller for B, and the mass of
``(x N_m - (e-1) y U_m)_+`` grows with x and falls with y. Nor can delta grow when another user's
budget falls: anyone who sees the histogram could add a uniform report to it.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from shuffledp.accounting import pairs
from shuffledp.accounting.conventions import over_eps
from shuffledp.accounting.curve import SearchHints, UpperCurve
from shuffledp.accounting.laws.mixture import RandomTrials
from shuffledp.accounting.laws.multinomial import log_chernoff_bound
from shuffledp.accounting.registry import upper_curve
from shuffledp.accounting.setting import Setting
from shuffledp.numerics.arrays import Floats
from shuffledp.personalised import binary
from shuffledp.personalised.decoys import XTOL, log_mean_over_decoys
from shuffledp.personalised.groups import BudgetGroups, split_target

# With more terms than this, the numbers of uniform reports are divided into this many blocks.
MAX_TERMS, BLOCKS = 1e6, 16


@over_eps
def divergence_log_delta(
    eps: float, target: float, log_odds: Floats, others: BudgetGroups, k: int
) -> float:
    """Return the log divergence of a k-RR target among uniform reports of the other users.

    Parameters
    ----------
    eps
        At least 0, any shape.
    target
        Budget of the target.
    log_odds
        Log odds that a user of each group of the others sends a uniform report.
    others
        Groups of all users but the target.
    k
        Number of cells, at least 2.
    """
    if eps >= target:
        return -np.inf
    setting = Setting(1 + int(others.counts.sum()), k, target)
    trials = RandomTrials(log_odds, others.counts)
    pair = pairs.personalised(setting, trials)
    if _terms(trials, k) <= MAX_TERMS:
        return min(pairs.hockey_stick(pair, eps, "upper").high, 0.0)

    def log_delta(m: int) -> float:
        return min(pairs.hockey_stick(replace(pair, trials=m), eps, "upper").high, 0.0)

    def estimate(m: int) -> float:
        return log_chernoff_bound(replace(pair, trials=m).weighted_sum(eps))

    return min(log_mean_over_decoys(trials, log_delta, estimate, BLOCKS), 0.0)


def _terms(others: RandomTrials, k: int) -> float:
    """Return the approximate number of terms of the exact sum: values of m times n1 + n2."""
    rates = expit(others.log_odds)
    mean, variance = others.counts @ rates, others.counts @ (rates * (1.0 - rates))
    return float((20.0 * np.sqrt(variance) + 80.0) * (20.0 * np.sqrt(2.0 * mean / k) + 40.0))


def log_expm1(x: Floats) -> Floats:
    """Return ``log(exp(x) - 1)`` without overflow, -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(x + np.log(-np.expm1(-x)))


def personalised_log_delta(
    eps: ArrayLike, budgets: "ArrayLike | BudgetGroups", k: int, target: int | None = None
) -> Floats:
    """Return the natural log of delta of shuffled k-RR with a budget per user (a DP guarantee).

    The value is the exact divergence in the view of the weak adversary, who also learns which other
    users randomised; it is rounded up, and truncated mass is added. It holds for every data set,
    for replacement of one report, with budgets known to all, but not if a report reveals its
    budget. With equal budgets it equals that of `pairs.weak_adversary`.

    Parameters
    ----------
    eps
        Any shape, at least 0.
    budgets
        One per user, or groups of users. A hundred thousand distinct values are feasible.
    k
        Number of cells, at least 2.
    target
        Index into ``budgets`` of the user (or group) whose record changes: the result is this
        user's guarantee. By default a user with the largest budget, which is the worst (proof in
        the module's docstring): the result is the mechanism's guarantee.

    Returns
    -------
    Logarithms with the shape of ``eps``; -inf where eps is at least the target's budget. The
    relative error of delta is about 3e-9 for a million users.

    Raises
    ------
    InputError
        If eps, a budget, a count, k or target is outside its range.
    """
    budget, _, others = split_target(budgets, target)
    cells = Setting(1, k).k  # raises InputError if k is out of range
    log_odds = np.log(cells) - log_expm1(others.values)
    return divergence_log_delta(eps, budget, log_odds, others, cells)


def approximate_log_delta(eps: float, groups: BudgetGroups, k: int, group: int) -> float:
    """Return a cheap approximation of `personalised_log_delta` for a member of a group.

    Parameters
    ----------
    eps
        Central budget, at least 0.
    groups, group
        All users, in order of budget, and the group of the target.
    k
        Number of cells, at least 2.
    """
    budget = float(groups.values[group])
    if eps >= budget:
        return -np.inf
    others = groups.without(group)
    decoys = others.counts @ expit(np.log(k) - log_expm1(others.values))
    setting = Setting(1 + int(others.counts.sum()), k, budget)
    pair = pairs.personalised(setting, RandomTrials(np.zeros(0), np.zeros(0, np.int64)))
    return log_chernoff_bound(replace(pair, trials=1 + round(decoys)).weighted_sum(eps))


def curve(groups: BudgetGroups, group: int, k: int) -> UpperCurve:
    """Return an upper bound on delta over eps for a member of a group.

    Parameters
    ----------
    groups, group
        All users, in order of budget, and the group of the target.
    k
        Number of cells.
    """
    budget = float(groups.values[group])
    if groups.values.size == 1 and budget:  # equal budgets have a sharper bound
        equal = upper_curve(groups.setting(budget, k))
        return replace(equal, hints=replace(equal.hints, xtol=XTOL))

    def upper(eps: float) -> float:
        weak = float(personalised_log_delta(eps, groups, k, group))
        # With two cells, all data sets can be searched.
        return weak if k > 2 else min(weak, binary.worst(eps, budget, others, weak).high)

    def estimate(eps: float) -> float:
        if k > 2:
            return approximate_log_delta(eps, groups, k, group)
        return binary.estimate(eps, budget, others)

    others = groups.without(group)
    return UpperCurve(budget, upper=upper, hints=SearchHints(estimate=estimate, xtol=XTOL))
