"""Paper D's Algorithms 2 and 3: estimates from users with personal budgets, and their variance.

Users of equal budget form a group g with a share ``f_g`` of the n users. Every estimator is a
weighted sum ``sum_g w_g t_g``, where ``t_g`` is an unbiased estimate of the mean of group g. With
``w_g = f_g`` it is unbiased for all data; with other weights only if the groups have equal means,
that is, if records do not depend on budgets.

Algorithm 2 estimates a mean: user i reports the record plus ``Lap(D / eps_i)``, where D is the
width of the records' range. Algorithm 3 estimates the share of ones from binary reports. Here it is
generalised to histograms by k-RR: a user of group g reports the true cell with probability
``q_g + s_g`` and each other cell with ``q_g``, where ``q_g = 1/(e^eps_g+k-1)`` and
``s_g = (e^eps_g-1)/(e^eps_g+k-1)``. With k = 2 this is Algorithm 3. If c_g is the histogram of a
group's reports, an estimate is ``sum_g a_g (c_g - n_g q_g)`` with *factors* ``a_g``, which has
the weights ``w_g = a_g n_g s_g``. Estimates sum to 1 over the cells and may be negative.

If reports reveal their budget, any factors are possible; a user is then hidden only among users of
the same budget. Otherwise all factors are equal (`pooled_factors`), as in Algorithm 3. No estimate
from reports that do not reveal their budget is unbiased for all data, unless all budgets are equal:
for k = 2 the mean of any of them is a symmetric polynomial in the users' probabilities of reporting
1, affine in each. To be the sum of the records, it must have degree 1, but then a record's weight
is proportional to s_g.
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
    return _normalised(groups.counts * (groups.values > 0.0))


def precision_weights(variances: ArrayLike) -> Floats:
    """Return the weights of least variance, inverse to the variances of the groups' estimates.

    The variance of a group with budget 0 is infinite.
    """
    with np.errstate(divide="ignore"):
        return _normalised(1.0 / np.asarray(variances, np.float64))


def pooled_weights(groups: BudgetGroups, k: int) -> Floats:
    """Return the weight of each group with `pooled_factors`: ``n_g s_g``, scaled to sum to 1."""
    return _normalised(groups.counts * _channel(groups, k)[1])


def _normalised(weights: ArrayLike) -> Floats:
    weights = np.asarray(weights, np.float64)
    total = weights.sum()
    if not total > 0.0:
        raise InputError("budgets must not all be 0: the reports would not depend on the records")
    return np.asarray(weights / total)


def bias(weights: Floats, group_means: ArrayLike, groups: BudgetGroups) -> float:
    """Return the bias ``sum_g (w_g - f_g) v_g``, where ``v_g`` is the mean record of group g."""
    shares = groups.counts / groups.counts.sum()
    return float((weights - shares) @ np.asarray(group_means, np.float64))


def mean_variances(groups: BudgetGroups, width: float) -> Floats:
    """Return the variance of each group's mean Laplace report, given records in a range of `width`.

    It is infinite for a budget of 0.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(2.0 * (width / groups.values) ** 2 / groups.counts)


# --- Histograms by k-RR ---------------------------------------------------------------------------


def weight_factors(weights: Floats, groups: BudgetGroups, k: int) -> Floats:
    """Return the factors that have these weights, 0 for groups of weight 0."""
    signal = groups.counts * _channel(groups, k)[1]
    return np.divide(weights, signal, out=np.zeros(weights.size), where=weights > 0.0)


def pooled_factors(groups: BudgetGroups, k: int) -> Floats:
    """Return equal factors: those of an estimate from the reports of all groups together.

    Users of budget 0 add noise, because their reports cannot be told apart from those of others.
    """
    signal = groups.counts * _channel(groups, k)[1]
    _normalised(signal)  # raises InputError if all budgets are 0
    return np.full(signal.size, 1.0 / signal.sum())


def estimate_cells(reports: ArrayLike, groups: BudgetGroups, factors: Floats) -> Floats:
    """Return shares of the cells, ``(..., k)``, from each group's histogram, ``(..., g, k)``."""
    reports = np.asarray(reports, np.float64)
    false = groups.counts * _channel(groups, reports.shape[-1])[0]
    return np.asarray(np.swapaxes(reports - false[:, np.newaxis], -1, -2) @ factors)


def cell_moments(shares: ArrayLike, groups: BudgetGroups, factors: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of each cell's estimate, shape ``(k,)``, given the records.

    ``shares`` of the cells in each group's records have the shape ``(g, k)``.
    """
    shares = np.asarray(shares, np.float64)
    slope = _channel(groups, shares.shape[-1])[1]
    return (factors * groups.counts * slope) @ shares, factors**2 @ count_variances(shares, groups)


def cell_variances(groups: BudgetGroups, k: int) -> Floats:
    """Return the mean variance over the k cells of each group's estimate; infinite for budget 0.

    It does not depend on the data. For k = 2 it is the variance of each cell.
    """
    everywhere = np.full((groups.values.size, k), 1.0 / k)
    with np.errstate(divide="ignore"):
        signal = groups.counts * _channel(groups, k)[1]
        return np.asarray(count_variances(everywhere, groups).mean(axis=-1) / signal**2)


def count_variances(shares: ArrayLike, groups: BudgetGroups) -> Floats:
    """Return the variance of each group's count of reports in each cell, shape ``(g, k)``."""
    shares = np.asarray(shares, np.float64)
    false, slope = _channel(groups, shares.shape[-1])
    other, true = false[:, np.newaxis], (false + slope)[:, np.newaxis]
    per_report = shares * true * (1.0 - true) + (1.0 - shares) * other * (1.0 - other)
    return np.asarray(groups.counts[:, np.newaxis] * per_report)


def _channel(groups: BudgetGroups, k: int) -> tuple[Floats, Floats]:
    """Return ``q_g`` and ``s_g``; unlike in `setting.probabilities`, a budget may be 0."""
    false = 1.0 / (np.expm1(groups.values) + k)
    return false, np.expm1(groups.values) * false
