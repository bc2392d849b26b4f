"""The exact delta of data sets of two groups: a other users hold x0, the rest one third cell.

As eps approaches eps0, such a mixture leaks more than a data set in which all others agree. Its
likelihood ratio is not linear in the counts, so the law of the histogram is built user by user,
which is possible for few users. The k - 3 cells that nobody holds count as one.
"""

from functools import lru_cache

import numpy as np

from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.numerics.arrays import UNIT, Floats

# Additions of a user to a law, times the outcomes of the law, that take a second.
MAX_ADDITIONS = 30_000_000


def _outcomes(setting: Setting) -> int:
    return int(setting.n**2 if setting.k == 3 else setting.n**3)


def feasible(setting: Setting) -> bool:
    """Return whether there are few enough users: up to 74, with four or more cells up to 31."""
    return setting.k >= 3 and _outcomes(setting) * setting.n**2 <= MAX_ADDITIONS


def _with_user(law: Floats, chances: tuple[float, float, float, float]) -> Floats:
    """Return the law of the counts of x0, x1 (and the third cell) after one more report.

    The last probability is that of a report in none of the counted cells.
    """
    added = np.pad(law, [(0, 1)] * law.ndim) * chances[-1 if law.ndim == 3 else 2]
    for axis in range(law.ndim):
        moved = [slice(None)] * law.ndim
        moved[axis] = slice(1, None)
        added[tuple(moved)] += (
            np.pad(law, [(0, 0 if i == axis else 1) for i in range(law.ndim)]) * chances[axis]
        )
    return added


@lru_cache(maxsize=4)
def _laws(setting: Setting) -> tuple[tuple[Floats, Floats], ...]:
    """Return the laws of the histogram if the target holds x0 and x1, for a = 0, ..., n - 1."""
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
    """Return the largest log delta over a = 0, ..., n - 1, rounded down, and its data set.

    Parameters
    ----------
    eps
        At least 0.
    setting
        One round of a `feasible` setting.

    Returns
    -------
    The log of delta (-inf where no digit is left), and the numbers of others who hold x0 and x1.
    The reverse direction is the same with x0 and x1 exchanged.

    Notes
    -----
    A probability is a sum of products of n + 1 factors. Its relative error is some units for each
    factor, and the error of P - e Q is relative to P.
    """
    found = (0.0, 0, 0)
    for held, (first, second) in enumerate(_laws(setting)):
        for law, other, where in ((first, second, (held, 0)), (second, first, (0, held))):
            excess = law - np.exp(eps) * other
            above = excess > 0.0
            error = 16.0 * UNIT * (setting.n + 1.0) * float(law[above].sum())
            found = max(found, (float(excess[above].sum()) - error, *where))
    value, x0, x1 = found
    return float(np.log(value)) if value > 0.0 else -np.inf, x0, x1
