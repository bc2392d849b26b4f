"""Paper D's Algorithm 3: the share of ones among users with budgets of their own, by binary RR.

User i reports the record with probability ``p_i = e^eps_i / (1 + e^eps_i)``, else its opposite.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.papers.paper_d.algorithms.combination import budgets_of, combine, normalised
from shuffledp.personalised.groups import BudgetGroups


def randomise(records: ArrayLike, budgets: ArrayLike, uniforms: ArrayLike) -> Integers:
    """Reports of users, before they are shuffled.

    Parameters
    ----------
    records
        0 or 1 of each user, shape ``(n,)``.
    budgets
        Of each user, at least 0; with 0 the report is a fair coin.
    uniforms
        Independent numbers uniform on ``[0, 1)``, one for each user.

    Raises
    ------
    InputError
        If a record is not 0 or 1, or budgets are not one for each.
    """
    records = np.asarray(records)
    wrong = records[~np.isin(records, (0, 1))]
    if wrong.size:
        raise InputError(f"records must be 0 or 1 (got {wrong[0]})")
    truthful = np.asarray(uniforms) < expit(budgets_of(budgets, records.size))
    return np.asarray(np.where(truthful, records, 1 - records), dtype=np.int64)


def pooled(ones: ArrayLike, groups: BudgetGroups) -> Floats:
    """Paper D's estimate from the shuffled reports alone, ``(A - B) / (n - 2B)``.

    It is unbiased only if budgets say nothing about records: its weights are not the groups'
    shares (`pooled_weights`). No estimate from these reports alone is, unless all budgets are
    equal. Its mean is a symmetric polynomial of the users' chances of a 1, affine in each. To be
    the sum of the records it must have degree 1, and then weighs each record by its p_g - q_g. So
    reports must tell their budget.

    Parameters
    ----------
    ones
        Number A of reports that are 1, any shape.
    groups
        Budgets of all users, of which B is the expected number of ones if all records are 0.

    Raises
    ------
    InputError
        If all budgets are 0.
    """
    pooled_weights(groups)
    expected = float(groups.counts @ expit(-groups.values))
    n = int(groups.counts.sum())
    return np.asarray((np.asarray(ones, np.float64) - expected) / (n - 2.0 * expected))


def pooled_weights(groups: BudgetGroups) -> Floats:
    """Weights with which `pooled` takes the groups: ``n_g (p_g - q_g)``, scaled to sum 1."""
    return normalised(groups.counts * _slope(groups))


def by_group(shares: ArrayLike, groups: BudgetGroups, weights: ArrayLike) -> Floats:
    """Estimate from reports that tell their budget: each group inverted, then combined.

    Parameters
    ----------
    shares
        Share of ones among each group's reports, shape ``(..., g)``.
    groups
        Budgets of all users.
    weights
        Of each group, shape ``(g,)``. With `groups.share_weights` it is unbiased whatever the data.

    Returns
    -------
    Estimates of the share of ones among the records, shape ``(...)``.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        inverted = (np.asarray(shares, np.float64) - expit(-groups.values)) / _slope(groups)
    return combine(inverted, weights)


def variances(groups: BudgetGroups) -> Floats:
    """Variance of each group's own estimate, given the records; infinite for budget 0.

    A report has variance ``p_g q_g`` whatever the record, so the data do not matter.
    """
    noise = expit(groups.values) * expit(-groups.values)
    with np.errstate(divide="ignore"):
        return np.asarray(noise / (groups.counts * _slope(groups) ** 2))


def _slope(groups: BudgetGroups) -> Floats:
    """``p_g - q_g``."""
    return np.tanh(0.5 * groups.values)
