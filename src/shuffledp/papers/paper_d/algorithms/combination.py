"""Weighted combinations of estimates, one for each group of users with equal budgets.

Every estimator of a mean or a frequency here is ``sum_g w_g t_g``, where ``t_g`` is an unbiased
estimate of the mean of group g. If the weights are the groups' shares ``f_g`` of the users, the
estimator is unbiased for all data. With other weights it is unbiased only if the groups have equal
means, that is, if records do not depend on budgets.
"""

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats
from shuffledp.personalised.groups import BudgetGroups


def share_weights(groups: BudgetGroups) -> Floats:
    """Return the groups' shares of the users: weights that are unbiased for all data.

    Reports of users with budget 0 do not depend on their records. Their weight is 0, and the
    estimate is of the mean of the other users.
    """
    return normalised(groups.counts * (groups.values > 0.0))


def precision_weights(variances: ArrayLike) -> Floats:
    """Return the weights of least variance, inverse to the variances of the groups' estimates.

    The variance of a group with budget 0 is infinite.
    """
    with np.errstate(divide="ignore"):
        return normalised(1.0 / np.asarray(variances, np.float64))


def combine(estimates: ArrayLike, weights: ArrayLike) -> Floats:
    """Return the weighted sum of estimates, ``(..., g)``, over the groups.

    The estimate of a group of weight 0 is ignored and may be NaN.
    """
    weights = np.asarray(weights, np.float64)
    used = weights > 0.0
    return np.asarray(np.asarray(estimates, np.float64)[..., used] @ weights[used])


def bias(weights: ArrayLike, group_values: ArrayLike, groups: BudgetGroups) -> float:
    """Return the bias ``sum_g (w_g - f_g) v_g``.

    ``w_g`` is the weight of group g, ``f_g`` its share of the users and ``v_g`` the mean of its
    records.
    """
    shares = groups.counts / groups.counts.sum()
    return float((np.asarray(weights, np.float64) - shares) @ np.asarray(group_values, np.float64))


def variance(weights: ArrayLike, variances: ArrayLike) -> Floats:
    """Return the variance of the combined estimate, from those of the groups, ``(g, ...)``.

    The variance of a group of weight 0 is ignored.
    """
    weights, variances = np.asarray(weights, np.float64), np.asarray(variances, np.float64)
    used = weights > 0.0
    return np.asarray(weights[used] ** 2 @ variances[used])


def normalised(weights: ArrayLike) -> Floats:
    """Return the weights scaled to sum to 1.

    Raises `InputError` if all weights are 0.
    """
    weights = np.asarray(weights, np.float64)
    total = weights.sum()
    if not total > 0.0:
        raise InputError("budgets must not all be 0: the reports would not depend on the records")
    return np.asarray(weights / total)
