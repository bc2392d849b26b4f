"""Paper D's Algorithm 2: the mean of numbers of users with budgets of their own, by Laplace noise.

User i reports ``x_i + Lap(D / eps_i)``, D being the width of the range that records are clipped to.
The mean of the reports is unbiased whatever the data; that is `groups.share_weights`.
"""

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT, Floats
from shuffledp.papers.paper_d.algorithms.combination import budgets_of
from shuffledp.personalised.groups import BudgetGroups


def clip(records: ArrayLike, low: float, high: float) -> tuple[Floats, int]:
    """Records moved to the nearest end of their range, and how many were outside it.

    Parameters
    ----------
    records
        Numbers, of any shape.
    low, high
        Ends of the range, low < high.

    Raises
    ------
    InputError
        If the range is empty, or a record is not a number.
    """
    if not low < high:
        raise InputError(f"the range of the records must have low < high (got {low}..{high})")
    values = np.asarray(records, np.float64)
    if np.isnan(values).any():
        raise InputError("records must be numbers (got nan)")
    outside = int(np.count_nonzero((values < low) | (values > high)))
    return np.clip(values, low, high), outside


def randomise(
    records: ArrayLike, budgets: ArrayLike, uniforms: ArrayLike, low: float, high: float
) -> Floats:
    """Reports of users, before they are shuffled.

    A user with budget 0 would need noise without end, and reports nothing: NaN.

    Parameters
    ----------
    records
        One number of each user, shape ``(n,)``; clipped to the range first.
    budgets
        Of each user, at least 0.
    uniforms
        Independent numbers uniform on ``[0, 1)``, one for each user.
    low, high
        Range of the records. Their distance is the sensitivity.

    Notes
    -----
    The last bits of a sum of two floating-point numbers tell something of both (Mironov 2012). In
    a collection, round reports to a lattice far coarser than a float's before they leave the user.

    Raises
    ------
    InputError
        As `clip`, and if budgets are not one for each record.
    """
    values, _ = clip(records, low, high)
    eps = budgets_of(budgets, values.size)
    centred = np.asarray(uniforms, np.float64) - 0.5
    # The least distance of such a number from 0 or 1 that is not 0: no noise is infinite.
    depth = np.log(np.maximum(1.0 - 2.0 * np.abs(centred), 2.0 * UNIT))
    scale = (high - low) / np.where(eps > 0.0, eps, np.nan)
    return np.asarray(values - scale * np.sign(centred) * depth)


def variances(groups: BudgetGroups, width: float) -> Floats:
    """Variance of each group's mean report, given the records; infinite for budget 0.

    Parameters
    ----------
    groups
        Budgets of all users.
    width
        Of the range of the records.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(2.0 * (width / groups.values) ** 2 / groups.counts)
