"""Bounds on delta of shuffled k-RR with personal budgets (paper D).

User i reports once, by k-RR over k cells with local budget eps_i. The analyst sees the histogram of
all reports, which reveals neither the sender nor the budget of a report. Neighbouring data sets
differ in the record of one user, the target, which is x0 or x1. The target has budget ``eps_t``.
Let ``E = exp(eps_t)`` and ``e = exp(eps)``, with eps the central budget.

k-RR reports a uniform cell with probability ``gamma_i = k/(exp(eps_i)+k-1)``, and otherwise the
true cell. The weak adversary also learns which of the *other* users sent a uniform report, and the
reports of the rest. If m-1 users did, their reports and the target's form a histogram h of m
reports with the law ``Mult(h; m, 1/k) (k/m) sum_c R(c) h_c``, where R is the law of the target's
report. Let n1 and n2 be the counts of x0 and x1 in a multinomial histogram of m uniform reports.
With ``q = 1/(E+k-1)`` and a Poisson-binomial number m-1 of users,

    delta = sum_m Pr[m-1] (k q / m) E[((E-1)(n1 - e n2) - (e-1) m)_+ | m].

For equal budgets ``Pr[m-1] k q / m = Bin(n, gamma)(m) / n``, as in `pairs.weak_adversary`.

**The target with the largest budget is the worst.** Let A < B be the budgets of two users, gA >= gB
their gamma, and pi_m the probability that m of all other users send uniform reports. Let ``N_m`` be
the law of the histogram if the target reports x0 truthfully, minus e times that for x1, and ``U_m``
the law of m uniform reports. If B is the target, histograms of size m have the signed measure
``x N_m - (e-1) y U_m`` with ``x = (1-gB) ((1-gA) pi_{m-1} + gA pi_{m-2})`` and
``y = gB ((1-gA) pi_{m-1} + gA pi_{m-2})``; if A is the target, gA and gB are exchanged. Since
gA >= gB, x is larger and y smaller for B, and the mass of ``(x N_m - (e-1) y U_m)_+`` increases in
x and decreases in y. Delta does not increase either if another user's budget decreases, because an
adversary who sees the histogram could add a uniform report to it.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from shuffledp.accounting import pairs
from shuffledp.accounting.conventions import over_eps
from shuffledp.accounting.curve import SearchHints, UpperCurve
from shuffledp.accounting.krr import upper_curve
from shuffledp.accounting.laws.mixture import RandomTrials
from shuffledp.accounting.laws.multinomial import log_chernoff_bound
from shuffledp.accounting.setting import Setting
from shuffledp.numerics.arrays import Floats
from shuffledp.personalised import binary
from shuffledp.personalised.decoys import XTOL, log_mean_over_decoys
from shuffledp.personalised.groups import BudgetGroups, split_target

# If the exact sum has more terms, the values of m are grouped into `BLOCKS` blocks.
MAX_TERMS, BLOCKS = 1e6, 16


@over_eps
def divergence_log_delta(
    eps: float, target: float, log_odds: Floats, others: BudgetGroups, k: int
) -> float:
    """Return an upper bound on log delta of a k-RR target among uniform reports of the others.

    ``eps`` may have any shape, ``target`` is the target's local budget, and ``log_odds`` are those
    of a uniform report for a user of each group of the others.
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
    """Return an upper bound on log delta of shuffled k-RR with personal budgets.

    The bound is the exact delta against the weak adversary, who also learns which other users sent
    uniform reports. It is rounded up, and truncated mass is added. It holds for every data set,
    under replacement of one record, even if all budgets are public, but not if a report reveals its
    budget. With equal budgets it equals that of `pairs.weak_adversary`. It is -inf where eps is at
    least the target's budget. The relative error of delta is about 3e-9 for a million users.

    The central budget eps is at least 0, of any shape, and there are k cells. `budgets` are the
    local budgets of users or groups of users; a hundred thousand distinct values are feasible.
    `target` is the index into them of the user (or group) whose record changes and for whom the
    bound holds. By default this is a user with the largest budget; the bound then holds for every
    user (see the module's docstring).
    """
    budget, _, others = split_target(budgets, target)
    cells = Setting(1, k).k  # raises InputError if k is out of range
    log_odds = np.log(cells) - log_expm1(others.values)
    return divergence_log_delta(eps, budget, log_odds, others, cells)


def approximate_log_delta(eps: float, groups: BudgetGroups, k: int, group: int) -> float:
    """Return a cheap approximation of `personalised_log_delta` for a member of a group."""
    budget = float(groups.values[group])
    if eps >= budget:
        return -np.inf
    others = groups.without(group)
    decoys = others.counts @ expit(np.log(k) - log_expm1(others.values))
    setting = Setting(1 + int(others.counts.sum()), k, budget)
    pair = pairs.personalised(setting, RandomTrials(np.zeros(0), np.zeros(0, np.int64)))
    return log_chernoff_bound(replace(pair, trials=1 + round(decoys)).weighted_sum(eps))


def curve(
    groups: BudgetGroups,
    group: int,
    target_log_delta: float = 0.0,
    first: int | None = None,
    *,
    k: int,
) -> UpperCurve:
    """Return an upper bound on delta, for every data set and a target in the given group.

    It also holds for smaller budgets. ``groups`` has all users in order of budget.
    """
    del target_log_delta, first
    budget = float(groups.values[group])
    if groups.values.size == 1 and budget:  # equal budgets have a sharper bound
        equal = upper_curve(groups.setting(budget, k))
        return replace(equal, hints=replace(equal.hints, xtol=XTOL))

    def upper(eps: float) -> float:
        weak = float(personalised_log_delta(eps, groups, k, group))
        # With two cells, a search over all data sets gives a smaller bound.
        return weak if k > 2 else min(weak, binary.worst(eps, budget, others, weak).high)

    def estimate(eps: float) -> float:
        if k > 2:
            return approximate_log_delta(eps, groups, k, group)
        return binary.estimate(eps, budget, others)

    others = groups.without(group)
    return UpperCurve(budget, upper=upper, hints=SearchHints(estimate=estimate, xtol=XTOL))
