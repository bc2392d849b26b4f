"""Groups of users with equal budgets: each estimated by itself, then combined by weights.

Every estimator of a mean or a frequency here is ``sum_g w_g t_g``, where ``t_g`` is unbiased for
the mean of group g, alone. The weights decide the rest. With the groups' shares ``f_g`` as weights
it is unbiased whatever the data. With any others it is so only if the groups' means are alike,
that is, if budgets say nothing about records.
"""

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats
from shuffledp.personalised.groups import BudgetGroups


def budgets_of(budgets: ArrayLike, records: int) -> Floats:
    """Budgets as an array, one for each record.

    Raises
    ------
    InputError
        If there are none, their number is not that of the records, or one is negative, infinite
        or not a number. A budget of 0 is one.
    """
    values = np.asarray(budgets, np.float64)
    if values.shape != (records,) or not records:
        raise InputError(
            f"budgets must be one number for each record (got {values.size} budgets, {records} "
            "records)"
        )
    wrong = values[~((values >= 0.0) & np.isfinite(values))]
    if wrong.size:
        raise InputError(f"budgets must be at least 0 and finite (got {wrong[0]})")
    return values


def share_weights(groups: BudgetGroups) -> Floats:
    """Weights of an estimate that is unbiased whatever the data: the groups' shares of the users.

    Users of budget 0 report nothing about their records. Their weight is 0, and the others' grow:
    the estimate is then of the mean of the others.
    """
    return normalised(groups.counts * (groups.values > 0.0))


def precision_weights(variances: ArrayLike) -> Floats:
    """Weights of the least variance: each group's is inverse to that of its own estimate.

    Parameters
    ----------
    variances
        Of each group's estimate, shape ``(g,)``; infinite for a group that reports nothing.
    """
    with np.errstate(divide="ignore"):
        return normalised(1.0 / np.asarray(variances, np.float64))


def combine(estimates: ArrayLike, weights: ArrayLike) -> Floats:
    """Weighted sum over the groups; what a group of weight 0 has, even NaN, does not count.

    Parameters
    ----------
    estimates
        Of each group, shape ``(..., g)``.
    weights
        Shape ``(g,)``.

    Returns
    -------
    Shape ``(...)``.
    """
    weights = np.asarray(weights, np.float64)
    used = weights > 0.0
    return np.asarray(np.asarray(estimates, np.float64)[..., used] @ weights[used])


def bias(weights: ArrayLike, group_values: ArrayLike, groups: BudgetGroups) -> float:
    """Expected error ``sum_g (w_g - f_g) v_g``, v_g being the mean of group g's records.

    Parameters
    ----------
    weights, group_values
        ``w_g`` and ``v_g``, shape ``(groups,)``.
    groups
        Of which ``f_g`` is the share of the users.
    """
    shares = groups.counts / groups.counts.sum()
    return float((np.asarray(weights, np.float64) - shares) @ np.asarray(group_values, np.float64))


def variance(weights: ArrayLike, variances: ArrayLike) -> Floats:
    """Variance of the combined estimate, from those of the groups' estimates.

    Parameters
    ----------
    weights
        Shape ``(g,)``.
    variances
        Shape ``(g, ...)``; those of a group of weight 0 do not count.

    Returns
    -------
    Shape ``(...)``.
    """
    weights, variances = np.asarray(weights, np.float64), np.asarray(variances, np.float64)
    used = weights > 0.0
    return np.asarray(weights[used] ** 2 @ variances[used])


def normalised(weights: ArrayLike) -> Floats:
    """Weights scaled to sum 1.

    Raises
    ------
    InputError
        If all are 0.
    """
    weights = np.asarray(weights, np.float64)
    total = weights.sum()
    if not total > 0.0:
        raise InputError("budgets must not all be 0: the reports then say nothing of the records")
    return np.asarray(weights / total)
