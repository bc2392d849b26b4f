"""Shuffled k-RR and clones when users have budgets of their own (paper D).

User i runs a randomiser with budget eps_i and reports once; a report does not say whose it is, nor
which budget made it. Neighbours differ in the record of one user, the target, who has budget
``eps_t``: ``E = exp(eps_t)``, ``e = exp(eps)``.

k-RR tells the truth except with probability ``gamma_i = k/(exp(eps_i)+k-1)``, when it reports a
uniform cell. Reveal which of the *other* users did so, and what the rest reported. With m-1 of
them the uniform reports and the target's form a histogram h of m reports, whose law is
``Mult(h; m, 1/k) (k/m) sum_c R(c) h_c``, R being the target's channel. Hence, with
``q = 1/(E+k-1)`` and the Poisson-binomial law of the m-1,

    delta = sum_m Pr[m-1] (k q / m) E[((E-1)(n1 - e n2) - (e-1) m)_+ | m].

For equal budgets ``Pr[m-1] k q / m = Bin(n, gamma)(m) / n``: the weak adversary of equal users.

The target with the largest budget is the worst. Compare targets with budgets A < B, every other
user alike, of whom m are uniform with probability pi_m. Let ``N_m`` be the signed measure (law of
the histogram given the target's truth x0, minus e times given x1) and ``U_m`` the law of m uniform
reports. Of the target B the histograms of size m are seen with ``x N_m - (e-1) y U_m``, where
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
from shuffledp.accounting.one_round.certified import weak_adversary_log_delta
from shuffledp.accounting.registry import upper_curve
from shuffledp.accounting.setting import Setting
from shuffledp.numerics.arrays import Floats
from shuffledp.personalised import binary
from shuffledp.personalised.decoys import XTOL, log_mean_over_decoys
from shuffledp.personalised.groups import BudgetGroups, among

# With more terms, numbers of uniform reports are taken in so many blocks.
_MOST_TERMS, _BLOCKS = 1e6, 16


@over_eps
def _divergence(eps: float, target: float, log_odds: Floats, others: BudgetGroups, k: int) -> float:
    if eps >= target:
        return -np.inf
    setting = Setting(1 + int(others.counts.sum()), k, target)
    trials = RandomTrials(log_odds, others.counts)
    pair = pairs.personalised(setting, trials)
    if _terms(trials, k) <= _MOST_TERMS:
        return min(pairs.hockey_stick(pair, eps, "upper").high, 0.0)

    def log_delta(m: int) -> float:
        return min(pairs.hockey_stick(replace(pair, trials=m), eps, "upper").high, 0.0)

    def lead(m: int) -> float:
        return log_chernoff_bound(replace(pair, trials=m).weighted_sum(eps))

    return min(log_mean_over_decoys(trials, log_delta, lead, _BLOCKS), 0.0)


def _terms(others: RandomTrials, k: int) -> float:
    """About how many terms the exact sum has: values of m times those of n1 + n2."""
    rates = expit(others.log_odds)
    mean, variance = others.counts @ rates, others.counts @ (rates * (1.0 - rates))
    return float((20.0 * np.sqrt(variance) + 80.0) * (20.0 * np.sqrt(2.0 * mean / k) + 40.0))


def _log_expm1(x: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(x + np.log(-np.expm1(-x)))


def personalised_log_delta(
    eps: ArrayLike, budgets: "ArrayLike | BudgetGroups", k: int, target: int | None = None
) -> Floats:
    """Natural log of a delta of shuffled k-RR with a budget per user (a DP guarantee).

    Exact divergence seen by the weak adversary, who also learns which of the other users
    randomised; rounded up, truncated mass added. Holds for every data set, replacement of one
    report, budgets known to all; not if a report can be told by its budget. With equal budgets it
    is that of `pairs.weak_adversary`.

    Parameters
    ----------
    eps
        Any shape, at least 0.
    budgets
        One per user, or groups of users. Distinct values cost little; a hundred thousand
        different ones are feasible.
    k
        Number of cells, at least 2.
    target
        Index into ``budgets`` of the user (or of a member of the group) whose record changes: the
        guarantee that this user gets. By default the worst, which is that of the largest budget
        (proof in the module's docstring): the mechanism's guarantee.

    Returns
    -------
    Logarithms shaped like ``eps``; -inf where eps is at least the target's budget. Relative error
    of delta some 3e-9 for a million users.

    Raises
    ------
    InputError
        If eps, a budget, a count, k or target is outside its range.
    """
    budget, _, others = among(budgets, target)
    cells = Setting(1, k).k  # which refuses what is no number of cells
    log_odds = np.log(cells) - _log_expm1(others.values)
    return _divergence(eps, budget, log_odds, others, cells)


def personalised_lead(eps: float, groups: BudgetGroups, k: int, group: int) -> float:
    """About `personalised_log_delta` of a member of a group, at once.

    Parameters
    ----------
    eps
        At least 0.
    groups, group
        Everybody, in order of their budgets; whose record changes.
    k
        Number of values, at least 2.
    """
    budget = float(groups.values[group])
    if eps >= budget:
        return -np.inf
    others = groups.without(group)
    decoys = others.counts @ expit(np.log(k) - _log_expm1(others.values))
    setting = Setting(1 + int(others.counts.sum()), k, budget)
    pair = pairs.personalised(setting, RandomTrials(np.zeros(0), np.zeros(0, np.int64)))
    return log_chernoff_bound(replace(pair, trials=1 + round(decoys)).weighted_sum(eps))


def personalised_clones_log_delta(
    eps: ArrayLike, budgets: "ArrayLike | BudgetGroups", target: int | None = None
) -> Floats:
    """Natural log of paper D's clones delta, weights corrected; a guarantee on a condition only.

    The others are decoys with probability ``exp(-eps_i)`` each, the target is 2-RR with its own
    budget; exact, rounded up. Proved if every other user's randomiser satisfies
    ``R_i(x) >= exp(-eps_i) (R_t(x0) + R_t(x1)) / 2`` for all x, R_t being the target's: it does
    when all are 2-RR, or all are the same. LDP alone does not give it, since R_t and R_i are then
    unrelated, and k-RR with k >= 3 and unequal budgets violates it: there data sets leak more
    than this value. Randomisers with no relation to each other get no amplification at all.

    Parameters, return value and errors as for `personalised_log_delta`. By default the value
    covers every target: largest budget, and without the decoy of the smallest.

    Source: paper D, Theorem 1 with delta_i = 0; eqs. (7), (8) and Lemma 2 corrected.

    Parameters
    ----------
    eps, budgets, target
        As for `personalised_log_delta`.
    """
    budget, groups, others = among(budgets, target)
    if target is None:
        others = groups.without(int(np.argmin(groups.values)))
    log_odds = -_log_expm1(others.values)
    return _divergence(eps, budget, log_odds, others, 2)


def largest_budget_log_delta(eps: ArrayLike, budgets: "ArrayLike | BudgetGroups", k: int) -> Floats:
    """Natural log of delta as if all users had the largest budget: a guarantee, but a loose one.

    Never below `personalised_log_delta` from exp(-700) on. Parameters and errors as there.

    Parameters
    ----------
    eps, budgets, k
        As there.
    """
    groups = BudgetGroups.of(budgets)
    return weak_adversary_log_delta(eps, groups.setting(groups.values.max(), k))


def curve(groups: BudgetGroups, group: int, k: int) -> UpperCurve:
    """Delta over eps of a member of a group, upper end only.

    Parameters
    ----------
    groups, group
        Everybody, in order of budget; whose record changes.
    k
        Number of cells.
    """
    budget = float(groups.values[group])
    if groups.values.size == 1 and budget:  # of users who are alike more is known
        curve = upper_curve(groups.setting(budget, k))
        return replace(curve, hints=replace(curve.hints, xtol=XTOL))

    def upper(eps: float) -> float:
        weak = float(personalised_log_delta(eps, groups, k, group))
        # With two cells all data sets can be searched.
        return weak if k > 2 else min(weak, binary.worst(eps, budget, others, weak).high)

    def lead(eps: float) -> float:
        if k > 2:
            return personalised_lead(eps, groups, k, group)
        return binary.lead(eps, budget, others)

    others = groups.without(group)
    return UpperCurve(budget, upper=upper, hints=SearchHints(lead=lead, xtol=XTOL))
