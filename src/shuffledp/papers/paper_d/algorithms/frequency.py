"""Paper D's Algorithm 3: the share of ones among users with personal budgets, by binary RR.

User i reports the true record with probability ``p_i = e^eps_i / (1 + e^eps_i)``, else its
opposite, with probability ``q_i = 1 - p_i``. Users of equal budget form a group g.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from shuffledp.numerics.arrays import Floats
from shuffledp.papers.paper_d.algorithms.combination import combine, normalised
from shuffledp.personalised.groups import BudgetGroups


def pooled(ones: ArrayLike, groups: BudgetGroups) -> Floats:
    """Return paper D's estimate from the shuffled reports alone, ``(A - B) / (n - 2B)``.

    It is unbiased only if records do not depend on budgets, because it weights the groups by
    `pooled_weights` and not by their shares. Unless all budgets are equal, no estimate from these
    reports alone is unbiased for all data. The mean of any of them is a symmetric polynomial in the
    users' probabilities of reporting 1, affine in each. To be the sum of the records, it must have
    degree 1, but then a record's weight is proportional to p_g - q_g. An unbiased estimate needs
    reports that reveal their budget.

    A is the number of reports that are 1, any shape, and B its expectation if all records are 0.
    It is an `InputError` if all budgets are 0.
    """
    pooled_weights(groups)
    expected = float(groups.counts @ expit(-groups.values))
    n = int(groups.counts.sum())
    return np.asarray((np.asarray(ones, np.float64) - expected) / (n - 2.0 * expected))


def pooled_weights(groups: BudgetGroups) -> Floats:
    """Return the weights of the groups in `pooled`: ``n_g (p_g - q_g)``, scaled to sum to 1."""
    return normalised(groups.counts * _slope(groups))


def by_group(shares: ArrayLike, groups: BudgetGroups, weights: ArrayLike) -> Floats:
    """Return the share of ones from reports that reveal their budget, inverted group by group.

    ``shares`` of ones among each group's reports have the shape ``(..., g)``, the result ``(...)``.
    With the weights of `combination.share_weights` the estimate is unbiased for all data.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        inverted = (np.asarray(shares, np.float64) - expit(-groups.values)) / _slope(groups)
    return combine(inverted, weights)


def variances(groups: BudgetGroups) -> Floats:
    """Return the variance of each group's estimate, given the records; infinite for budget 0.

    A report has variance ``p_g q_g`` for either record, so the result does not depend on the data.
    """
    noise = expit(groups.values) * expit(-groups.values)
    with np.errstate(divide="ignore"):
        return np.asarray(noise / (groups.counts * _slope(groups) ** 2))


def _slope(groups: BudgetGroups) -> Floats:
    """Return ``p_g - q_g``."""
    return np.tanh(0.5 * groups.values)
