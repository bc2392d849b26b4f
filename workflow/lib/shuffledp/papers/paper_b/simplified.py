"""Paper B's simplified bounds: Corollaries 3.2 and 3.5, and Remark 3.

``E = exp(eps0)``; l is the order. The formulas of the corollaries are missing from the available
text, and reconstructed from what it says: their ratio is about 4 E, 3.5 is Theorem 3.4 without its
higher moments, 3.2 is Theorem 3.1 with all but the quadratic term at most as large as that one,
under a condition whose text is garbled: ``l^4 E^5 < n / 9``.
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.papers.literature.renyi import shuffled_rdp_upper
from shuffledp.accounting.setting import Setting
from shuffledp.numerics.arrays import Floats

# Shares below the mean at which Chernoff's bound is taken.
SHORTFALLS: Final = np.geomspace(0.002, 0.98, 60)


def corollary_3_2(order: ArrayLike, setting: Setting) -> Floats:
    """Upper bound ``log(1 + C(l,2) 4 (E-1)^2 / n) / (l - 1)``; inf outside its condition.

    It follows from Theorem 3.1 for large n only, which the paper says in its proof: at small
    eps0 the tail ``exp(eps0 l - (n-1)/(8E))`` may be the larger (docs/errata.md, B6).

    Parameters
    ----------
    order
        Whole orders from 2 on, any shape.
    setting
        One round of it; the number of cells plays no part.
    """
    orders = np.asarray(order, np.float64)
    holds = 4.0 * np.log(orders) + 5.0 * setting.eps0 < np.log(setting.n / 9.0)
    value = _quadratic(orders, 4.0 * np.expm1(setting.eps0) ** 2 / setting.n)
    return np.where(holds, value, np.inf)


def corollary_3_5(order: ArrayLike, setting: Setting) -> Floats:
    """Lower bound ``log(1 + C(l,2) (E-1)^2 / (n E)) / (l - 1)``; parameters as `corollary_3_2`."""
    E = np.exp(setting.eps0)
    return _quadratic(np.asarray(order, np.float64), (E - 1.0) ** 2 / (setting.n * E))


def remark_3(order: ArrayLike, setting: Setting) -> Floats:
    """Theorem 3.1 at the best of `SHORTFALLS` for each order; parameters as `corollary_3_2`.

    The remark's own share is missing from the available text. The leading term becomes up to half
    of that of Theorem 3.1, whose share is a half; terms of higher order gain more.
    """
    found = [shuffled_rdp_upper(order, setting, float(share)) for share in SHORTFALLS]
    return np.asarray(np.min(found, axis=0))


def _quadratic(orders: Floats, variance: float) -> Floats:
    return np.asarray(np.log1p(orders * (orders - 1.0) / 2.0 * variance) / (orders - 1.0))
