"""The exact delta of data sets with two groups: some others hold x0, the rest one third cell.

For eps near eps0, such data sets leak more than those in which all others hold one cell. Their
likelihood ratio is not linear in the counts, so the law of the histogram is built user by user,
which is feasible for few users. The k - 3 cells that nobody holds are merged into one.
"""

from functools import lru_cache

import numpy as np

from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.numerics.arrays import UNIT, Floats

# Largest number of additions of a user, times outcomes of the law, which take about a second.
MAX_ADDITIONS = 30_000_000


def _outcomes(setting: Setting) -> int:
    return int(setting.n**2 if setting.k == 3 else setting.n**3)


def feasible(setting: Setting) -> bool:
    """Return whether there are few enough users: at most 74 for three cells, 31 for more cells."""
    return setting.k >= 3 and _outcomes(setting) * setting.n**2 <= MAX_ADDITIONS


def _with_user(law: Floats, chances: tuple[float, float, float, float]) -> Floats:
    """Return the law of the counts of x0, x1 (and the third cell) after one more report.

    The last probability is that of a report outside the counted cells.
    """
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
    """Return the laws of the histogram for targets in x0 and x1, for 0, ..., n - 1 others in x0."""
    p, q = probabilities(setting.eps0, setting.k)
    rest = (setting.k - 3) * q
    x0, x1, x2 = (p, q, q, rest), (q, p, q, rest), (q, q, p, rest)
    third = np.ones((1,) * (2 if setting.k == 3 else 3))
    laws = []
    for held in range(setting.n - 1, -1, -1):
        law = third
        for _ in range(held):
            law = _with_user(law, x0)
        laws.append((_with_user(law, x0), _with_user(law, x1)))
        third = _with_user(third, x2)
    return tuple(reversed(laws))


def best(eps: float, setting: Setting) -> tuple[float, int, int]:
    """Return the largest log delta over these data sets, rounded down, and the data set.

    Parameters
    ----------
    eps
        At least 0.
    setting
        A `feasible` setting of one round.

    Returns
    -------
    The log of delta (-inf if rounding leaves no digit), and the numbers of others who hold x0 and
    x1. The reverse direction is the same with x0 and x1 exchanged.

    Notes
    -----
    A probability is a sum of products of n + 1 factors. Its relative error is a few units of
    rounding per factor, and the error of P - e Q is relative to P.
    """
    largest = (0.0, 0, 0)
    for users, (first, second) in enumerate(_laws(setting)):
        for law, other, where in ((first, second, (users, 0)), (second, first, (0, users))):
            excess = law - np.exp(eps) * other
            above = excess > 0.0
            error = 16.0 * UNIT * (setting.n + 1.0) * float(law[above].sum())
            largest = max(largest, (float(excess[above].sum()) - error, *where))
    value, x0, x1 = largest
    return float(np.log(value)) if value > 0.0 else -np.inf, x0, x1
