"""Histograms by k-RR from users with personal budgets.

Users of equal budget form a group g. They report the true cell with probability ``q_g + s_g`` and
each other cell with ``q_g``, where ``q_g = 1/(e^eps_g+k-1)`` and
``s_g = (e^eps_g-1)/(e^eps_g+k-1)``. With k = 2 this is paper D's Algorithm 3 (`frequency`).

If reports reveal their budget, the reports of each group are inverted separately (`by_group`) and
combined with weights from `combination`; a user is then hidden only among users of the same budget.
Otherwise there is one estimate, `pooled`, whose mean is that of the groups' estimates with
`pooled_weights`. Estimates are shares of the cells, shape ``(..., k)``, which sum to 1 and may be
negative. An `InputError` says that all budgets are 0.
"""

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.numerics.arrays import Floats
from shuffledp.papers.paper_d.algorithms.combination import combine, normalised, precision_weights
from shuffledp.personalised.groups import BudgetGroups


def by_group(reports: ArrayLike, groups: BudgetGroups, weights: ArrayLike) -> Floats:
    """Return the estimate from reports that reveal their budget, inverted group by group.

    The reports are a histogram for each group, shape ``(..., g, k)``, and the groups have the
    budgets of all users. Weights are those of the groups, shape ``(g,)``, 0 for a group of budget
    0. With `combination.share_weights` the estimate is unbiased for all data.
    """
    reports = np.asarray(reports, np.float64)
    false, slope = _channel(groups, reports.shape[-1])
    shares = reports / groups.counts[:, np.newaxis]
    with np.errstate(divide="ignore", invalid="ignore"):
        inverted = (shares - false[:, np.newaxis]) / slope[:, np.newaxis]
    return combine(np.swapaxes(inverted, -1, -2), weights)


def pooled(reports: ArrayLike, groups: BudgetGroups) -> Floats:
    """Return the estimate from the reports of all groups together, by inverting their mean channel.

    It is unbiased only if users' cells do not depend on their budgets; `frequency.pooled` explains
    why no estimate from these reports, a histogram of shape ``(..., k)``, is unbiased otherwise.
    """
    reports = np.asarray(reports, np.float64)
    pooled_weights(groups, reports.shape[-1])
    false, slope = _channel(groups, reports.shape[-1])
    return np.asarray((reports - groups.counts @ false) / (groups.counts @ slope))


def pooled_weights(groups: BudgetGroups, k: int) -> Floats:
    """Return the weight of each group in the mean of `pooled`: ``n_g s_g``, scaled to sum to 1."""
    return normalised(groups.counts * _channel(groups, k)[1])


def least_variance_weights(groups: BudgetGroups, k: int) -> Floats:
    """Return weights inverse to the total variance, over the cells, of each group's estimate.

    This total does not depend on the data.
    """
    everywhere = np.full((groups.values.size, k), 1.0 / k)
    return precision_weights(variances(everywhere, groups).sum(axis=-1))


def variances(shares: ArrayLike, groups: BudgetGroups) -> Floats:
    """Return the variance of each group's estimate of each cell; infinite for budget 0.

    ``shares`` of the cells in each group's records have the shape ``(g, k)`` of the result.
    """
    noise, slope = _noise(shares, groups)
    with np.errstate(divide="ignore"):
        return np.asarray(noise / (groups.counts * slope)[:, np.newaxis] ** 2)


def pooled_variance(shares: ArrayLike, groups: BudgetGroups) -> Floats:
    """Return the variance of each cell of `pooled`, given the records, shape ``(k,)``.

    Users of budget 0 add noise, because their reports cannot be told apart from those of others.
    """
    noise, slope = _noise(shares, groups)
    return np.asarray(noise.sum(axis=0) / (groups.counts @ slope) ** 2)


def _noise(shares: ArrayLike, groups: BudgetGroups) -> tuple[Floats, Floats]:
    """Return the variance of each group's count of reports in each cell, and ``s_g``.

    A report that is in a cell with probability r has the variance ``r (1 - r)`` there.
    """
    shares = np.asarray(shares, np.float64)
    false, slope = _channel(groups, shares.shape[-1])
    other, true = false[:, np.newaxis], (false + slope)[:, np.newaxis]
    per_report = shares * true * (1.0 - true) + (1.0 - shares) * other * (1.0 - other)
    return groups.counts[:, np.newaxis] * per_report, slope


def _channel(groups: BudgetGroups, k: int) -> tuple[Floats, Floats]:
    """Return ``q_g`` and ``s_g``; unlike `krr.probabilities`, a budget may be 0."""
    false = 1.0 / (np.expm1(groups.values) + k)
    return false, np.expm1(groups.values) * false
