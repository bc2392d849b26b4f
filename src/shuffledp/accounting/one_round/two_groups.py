"""Delta of data sets with two groups of other users: one in cell x0, one in a third cell.

For eps near eps0, such data sets have a larger delta than those in which all other users hold the
same cell. Their likelihood ratio is not linear in the counts, so the law of the histogram is
computed by adding one user at a time, which is feasible for few users. The k - 3 cells that nobody
holds are merged into one.
"""

from functools import lru_cache

import numpy as np

from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.numerics.arrays import UNIT, Floats

# Largest total number of updates of histogram entries; this takes about a second.
MAX_UPDATES = 30_000_000


def _max_histograms(setting: Setting) -> int:
    return int(setting.n**2 if setting.k == 3 else setting.n**3)


def feasible(setting: Setting) -> bool:
    """Return whether there are few enough users: at most 74 for three cells, 31 for more cells."""
    return setting.k >= 3 and _max_histograms(setting) * setting.n**2 <= MAX_UPDATES


def _with_user(law: Floats, chances: tuple[float, float, float, float]) -> Floats:
    """Return the law of the counts after one more report.

    The counts are those of x0 and x1 for k = 3, and also of the third cell for k > 3. ``chances``
    are the probabilities of reporting x0, x1, the third cell and any other cell.
    """
    # The count of the last cell follows from the others, so that a report there changes no axis.
    added = np.pad(law, [(0, 1)] * law.ndim) * chances[-1 if law.ndim == 3 else 2]
    for axis in range(law.ndim):
        shifted = [slice(None)] * law.ndim
        shifted[axis] = slice(1, None)
        added[tuple(shifted)] += (
            np.pad(law, [(0, 0 if i == axis else 1) for i in range(law.ndim)]) * chances[axis]
        )
    return added


@lru_cache(maxsize=4)
def _laws(setting: Setting) -> tuple[tuple[Floats, Floats], ...]:
    """Return the histogram's laws with the target in x0 and in x1, for 0..n-1 others in x0."""
    p, q = probabilities(setting.eps0, setting.k)
    rest = (setting.k - 3) * q
    # The chances of the report of a user in x0, in x1 and in the third cell.
    from_x0, from_x1, from_third = (p, q, q, rest), (q, p, q, rest), (q, q, p, rest)
    law_of_third = np.ones((1,) * (2 if setting.k == 3 else 3))
    laws = []
    for others_in_x0 in range(setting.n - 1, -1, -1):
        law = law_of_third
        for _ in range(others_in_x0):
            law = _with_user(law, from_x0)
        laws.append((_with_user(law, from_x0), _with_user(law, from_x1)))
        law_of_third = _with_user(law_of_third, from_third)
    return tuple(reversed(laws))


def best(eps: float, setting: Setting) -> tuple[float, int, int]:
    """Return the largest log delta over these data sets, rounded down, and where it is attained.

    Returns
    -------
    The log of delta (-inf if it is below the rounding error), and the numbers of other users who
    hold x0 and x1. One of these is 0: others in x1 instead of x0 give the reverse direction.

    Notes
    -----
    A probability is a sum of products of n factors. Its relative error is a few units of rounding
    per factor, and the error of ``P - e^eps Q`` is relative to P.
    """
    largest = (0.0, 0, 0)
    for users, (law_x0, law_x1) in enumerate(_laws(setting)):
        for law_p, law_q, counts in ((law_x0, law_x1, (users, 0)), (law_x1, law_x0, (0, users))):
            excess = law_p - np.exp(eps) * law_q
            positive = excess > 0.0
            error = 16.0 * UNIT * (setting.n + 1.0) * float(law_p[positive].sum())
            largest = max(largest, (float(excess[positive].sum()) - error, *counts))
    value, x0, x1 = largest
    return float(np.log(value)) if value > 0.0 else -np.inf, x0, x1
