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

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from shuffledp.accounting import pairs
from shuffledp.accounting.conventions import over_eps
from shuffledp.accounting.laws.decoys import log_mean_over_decoys
from shuffledp.accounting.laws.mixture import RandomTrials
from shuffledp.accounting.laws.multinomial import log_chernoff_bound
from shuffledp.accounting.one_round.certified import weak_adversary_log_delta
from shuffledp.accounting.setting import LARGEST_EPS0, Setting
from shuffledp.arrays import Floats, Integers
from shuffledp.errors import InputError

# With more terms, numbers of uniform reports are taken in so many blocks.
_MOST_TERMS, _BLOCKS = 1e6, 16


@dataclass(frozen=True)
class BudgetGroups:
    """Users in groups of equal budget.

    Attributes
    ----------
    values
        Budget of each group, at least 0 (0: a user whose report carries nothing).
    counts
        Users in each group, at least 1.
    """

    values: Floats
    counts: Integers

    @classmethod
    def of(cls, budgets: "ArrayLike | BudgetGroups") -> "BudgetGroups":
        """Group a list of budgets, one per user; groups are returned as they are.

        Raises
        ------
        InputError
            If there is no user, a budget is negative or above 350, or a count is not positive.
        """
        if isinstance(budgets, cls):
            groups = cls(np.asarray(budgets.values, np.float64), np.asarray(budgets.counts))
        else:
            groups = cls(*np.unique(np.asarray(budgets, np.float64), return_counts=True))
        wrong = groups.values[~((groups.values >= 0.0) & (groups.values <= LARGEST_EPS0))]
        if wrong.size:
            raise InputError(
                f"budgets must be at least 0 and at most {LARGEST_EPS0:g} (got {wrong[0]})"
            )
        if groups.values.size == 0 or groups.values.shape != groups.counts.shape:
            raise InputError(
                f"budgets must name at least one user, and a count per group (got "
                f"{groups.values.size} values, {groups.counts.size} counts)"
            )
        if groups.counts.min() < 1:
            raise InputError(f"counts must be at least 1 (got {groups.counts.min()})")
        return groups

    @classmethod
    def of_counts(cls, values: ArrayLike, counts: ArrayLike) -> "BudgetGroups":
        """Group budgets that are given with how many users have each, in order of budget.

        Raises as `of`.
        """
        distinct, place = np.unique(np.asarray(values, np.float64), return_inverse=True)
        many = np.zeros(distinct.size, np.int64)
        np.add.at(many, place.ravel(), np.asarray(counts, np.int64))
        return cls.of(cls(distinct, many))

    def setting(self, eps0: float, k: int) -> Setting:
        """As many users, all with one budget."""
        return Setting(int(self.counts.sum()), k, float(eps0))

    def without(self, group: int) -> "BudgetGroups":
        """Return the others of one user of the given group."""
        counts = self.counts.copy()
        counts[group] -= 1
        return BudgetGroups(self.values[counts > 0], counts[counts > 0])


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


def _split(
    budgets: "ArrayLike | BudgetGroups", target: int | None
) -> tuple[float, BudgetGroups, BudgetGroups]:
    """Budget of the target, everybody, and the other users."""
    groups = BudgetGroups.of(budgets)
    given = groups.values if isinstance(budgets, BudgetGroups) else np.asarray(budgets, np.float64)
    if target is None:
        target = int(np.argmax(given))
    if not 0 <= target < given.size:
        raise InputError(
            f"target must be the index of a user or group, 0..{given.size - 1} (got {target})"
        )
    budget = float(given[target])
    return budget, groups, groups.without(int(np.flatnonzero(groups.values == budget)[0]))


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
    budget, _, others = _split(budgets, target)
    log_odds = np.log(k) - _log_expm1(others.values)
    return _divergence(eps, budget, log_odds, others, k)


def personalised_lead(eps: float, groups: BudgetGroups, k: int, group: int) -> float:
    """About `personalised_log_delta` of a member of a group, at once."""
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
    """
    budget, groups, others = _split(budgets, target)
    if target is None:
        others = groups.without(int(np.argmin(groups.values)))
    log_odds = -_log_expm1(others.values)
    return _divergence(eps, budget, log_odds, others, 2)


def largest_budget_log_delta(eps: ArrayLike, budgets: "ArrayLike | BudgetGroups", k: int) -> Floats:
    """Natural log of delta as if all users had the largest budget: a guarantee, but a loose one.

    Never below `personalised_log_delta`. Parameters and errors as there.
    """
    groups = BudgetGroups.of(budgets)
    return weak_adversary_log_delta(eps, groups.setting(groups.values.max(), k))


def smallest_budget_log_delta(
    eps: ArrayLike, budgets: "ArrayLike | BudgetGroups", k: int
) -> Floats:
    """Natural log of delta as if all users had the smallest budget: NOT a guarantee.

    What one could hope for at best: never above `personalised_log_delta`. Parameters and errors
    as there; the smallest budget must be positive.
    """
    groups = BudgetGroups.of(budgets)
    return weak_adversary_log_delta(eps, groups.setting(groups.values.min(), k))


def mu_gdp(budgets: "ArrayLike | BudgetGroups", target: int | None = None) -> float:
    """Paper D's ``mu = sqrt(2 / sum 1/(1+exp(eps_i)))`` over the others: approximate, NOT a bound.

    Theorem 3 of paper D has it up to an unspecified C/sqrt(n-1), which the paper then drops. For
    n=1000, all budgets 4, delta=1e-6 it gives eps=1.449 where a data set needs 1.691.

    Returns
    -------
    mu; inf if there is no other user. Errors as for `personalised_log_delta`.
    """
    others = _split(budgets, target)[2]
    weight = float(others.counts @ expit(-others.values))
    return float(np.sqrt(2.0 / weight)) if weight > 0.0 else np.inf


@dataclass(frozen=True)
class BudgetLaw:
    """One row of paper D's Table 3: a law of budgets, clipped to ``low..high``."""

    kind: str
    first: float
    second: float
    low: float
    high: float


BUDGET_LAWS = {
    "Uniform 1": BudgetLaw("uniform", 0.05, 1.0, 0.05, 1.0),
    "Uniform 2": BudgetLaw("uniform", 0.01, 2.0, 0.01, 2.0),
    "Gauss 1": BudgetLaw("normal", 0.5, 0.2, 0.05, 1.0),
    "Gauss 2": BudgetLaw("normal", 1.0, 0.2, 0.01, 2.0),
    "Gauss 3": BudgetLaw("normal", 1.0, 0.5, 0.01, 2.0),
}


def sample_budgets(name: str, n: int, rng: np.random.Generator) -> Floats:
    """Draw n budgets from a law of paper D's Table 3.

    Values outside the range become the nearest boundary, as the paper says. It does not say
    whether the second number of its N(m, s) is the standard deviation (taken here) or, as its
    caption's N(mu, sigma^2) would have it, the variance.

    Raises
    ------
    InputError
        If the name is not one of `BUDGET_LAWS`, or n is not positive.
    """
    if name not in BUDGET_LAWS:
        raise InputError(f"name must be one of {sorted(BUDGET_LAWS)} (got {name!r})")
    if n < 1:
        raise InputError(f"n must be at least 1 user (got n={n})")
    law = BUDGET_LAWS[name]
    draw = rng.uniform if law.kind == "uniform" else rng.normal
    return np.clip(draw(law.first, law.second, size=n), law.low, law.high)
