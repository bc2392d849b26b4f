"""Bounds and approximations of the literature for users with personal budgets eps_i.

They are echoes (Liu et al.), mu-GDP (paper D) and clones (Feldman, McMillan and Talwar). The
target is the user whose record differs between the two data sets.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from shuffledp.accounting import calibrate
from shuffledp.accounting.rounds.tradeoff import gdp_epsilon
from shuffledp.papers.literature.clones import clones_log_delta
from shuffledp.personalised.groups import BudgetGroups, split_target


def mu_gdp(
    budgets: "ArrayLike | BudgetGroups", target: int | None = None, deltas: ArrayLike = 0.0
) -> float:
    """Return paper D's ``mu = sqrt(2 / sum (1-delta_i)/(1+exp(eps_i)))``: NOT a bound.

    The sum is over all users but the target. Theorem 3 of paper D has an error term C/sqrt(n-1)
    with an unspecified C, which the paper then drops. For n=1000, all budgets 4 and delta=1e-6, mu
    gives eps=1.449, but there is a data set whose eps is 1.691. The result is inf if there is no
    other user. ``deltas`` are the mean delta_i of each group. See
    `personalised.krr_reports.personalised_log_delta` for the other parameters and errors.
    """
    _, groups, others = split_target(budgets, target)
    kept = np.broadcast_to(1.0 - np.asarray(deltas), groups.values.shape)
    kept = kept[np.isin(groups.values, others.values)]
    weight = float(others.counts @ (kept * expit(-others.values)))
    return float(np.sqrt(2.0 / weight)) if weight > 0.0 else np.inf


def mu_gdp_epsilon(
    log_delta: float, groups: BudgetGroups, deltas: ArrayLike = 0.0, largest: float = 0.0
) -> float:
    """Return the eps of paper D's mu-GDP at a natural log of delta: an approximation, NOT a bound.

    If users have deltas of their own, it is not even an approximation: the true delta may be larger
    by their sum (docs/errata.md, D7). The target has the largest budget; the result is inf if it is
    the only user. `deltas` are the mean delta_i of each group, and `largest` is the largest delta_i
    of all users. Source: paper D, Theorem 3 without its error term, and Fact 2.
    """
    # The approximated delta is 1 - largest times the delta of mu-GDP.
    gdp_log_delta = log_delta - float(np.log1p(-largest))
    if gdp_log_delta >= 0.0:
        return 0.0
    mu = mu_gdp(groups, deltas=deltas)
    return gdp_epsilon(mu, gdp_log_delta) if mu < np.inf else np.inf


def echoes_epsilon(log_delta: float, groups: BudgetGroups) -> float | None:
    """Return the eps of Laplace reports by "echoes" (Liu et al. 2023), as its authors compute it.

    Paper D compares with this bound; its proof has not been checked for this project. If fewer than
    ``16 log(4/delta)`` echoes are expected, the bound does not apply and the result is None. The
    groups are all users, in increasing order of budget.
    """
    values, counts = groups.values, groups.counts
    with np.errstate(invalid="ignore"):
        shape = np.where(values > 0.0, -np.expm1(-values) / values, 1.0)
    # Mean over j of shape_j exp(-max(eps_i, eps_j)), split into j <= i and j > i.
    up_to = np.cumsum(counts * shape)
    beyond = np.cumsum((counts * shape * np.exp(-values))[::-1])[::-1]
    mean = (up_to * np.exp(-values) + np.append(beyond[1:], 0.0)) / counts.sum()
    others = counts.copy()
    others[-1] -= 1
    echoes = float(others @ (mean / shape))
    log_term = np.log(4.0) - log_delta
    if echoes < 16.0 * log_term:
        return None
    ratio = np.tanh(values[-1] / 2.0)
    return float(np.log1p(ratio * (8.0 * np.sqrt(log_term / echoes) + 8.0 / echoes)))


def approximate_epsilon(log_delta: float, groups: BudgetGroups, deltas: float) -> float | None:
    """Return an upper bound on the eps of any shuffled (eps_i, delta_i)-LDP randomisers.

    The randomisers may be chosen adaptively. `log_delta` is the natural log of the target delta,
    `groups` has the budgets of all users, and `deltas` is the sum of their delta_i. Delta is that
    of clones at the largest budget, plus ``(exp(eps) + 1) (1 + exp(-eps_max) / 2)`` times this sum,
    which bounds the change in the law of all reports if each randomiser is replaced by a pure LDP
    one. The result is None if the second term alone exceeds the target delta. Source: Feldman,
    McMillan and Talwar, "Hiding among the clones" (2021), Theorem 3.8.
    """
    largest = float(groups.values.max())
    setting = groups.setting(largest, 2)
    with np.errstate(divide="ignore"):
        log_replacement = float(np.log(deltas) + np.log1p(0.5 * np.exp(-largest)))

    def total_log_delta(eps: float) -> float:
        replaced = log_replacement + float(np.logaddexp(eps, 0.0))
        clones = -np.inf if eps >= largest else float(clones_log_delta(eps, setting))
        return float(np.logaddexp(clones, replaced))

    eps = 0.0
    while log_replacement + np.logaddexp(eps, 0.0) < log_delta:
        remaining = log_delta + np.log(
            -np.expm1(log_replacement + np.logaddexp(eps, 0.0) - log_delta)
        )
        eps = calibrate.epsilon(
            lambda eps: float(clones_log_delta(eps, setting)), float(remaining), largest, "upper"
        )
        if total_log_delta(eps) <= log_delta:
            return eps
        eps *= 1.0 + 1e-9
    return None
