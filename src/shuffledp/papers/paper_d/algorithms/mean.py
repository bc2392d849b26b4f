"""Paper D's Algorithm 2: the mean of records of users with personal budgets, by Laplace noise.

User i reports ``x_i + Lap(D / eps_i)``, where D is the width of the range to which records are
clipped. The mean of the reports, weighted by `combination.share_weights`, is unbiased for every
data set.
"""

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats
from shuffledp.personalised.groups import BudgetGroups


def clip(records: ArrayLike, low: float, high: float) -> tuple[Floats, int]:
    """Return the records clipped to a range, and the number of records outside it.

    It is an `InputError` if the range is empty or a record is NaN.
    """
    if not low < high:
        raise InputError(f"the range of the records must have low < high, got {low}..{high}")
    values = np.asarray(records, np.float64)
    if np.isnan(values).any():
        raise InputError("records must be numbers, got nan")
    outside = int(np.count_nonzero((values < low) | (values > high)))
    return np.clip(values, low, high), outside


def variances(groups: BudgetGroups, width: float) -> Floats:
    """Return the variance of each group's mean report, given the records; infinite for budget 0.

    ``width`` is that of the range of the records.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(2.0 * (width / groups.values) ** 2 / groups.counts)
