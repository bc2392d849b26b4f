"""What several of paper B's figures show: names of curves, orders, B's reconstructed eq. (9)."""

from typing import Final

import numpy as np

from shuffledp.accounting.setting import Setting
from shuffledp.numerics.arrays import Floats

ORDERS: Final = np.unique(np.round(np.geomspace(2.0, 131072.0, 120)))

UPPER: Final = "certified upper bound"
FIRST: Final = "Girgis et al., Theorem 3.1"
ERLINGSSON: Final = "Erlingsson et al., Rényi (Girgis et al., eq. 9, reconstructed)"

WORST: Final = (
    "The certified curves are those of 2-RR: the upper one bounds every eps0-LDP randomiser, the "
    "lower one is reached by data sets whose other users all agree. "
)
EQUATION_9: Final = (
    "Their eq. (9), missing from the available text, is reconstructed as 2 l exp(4 eps0) "
    "(exp(eps0) - 1)^2 / n from what the text says of it. "
)


def below_budget(eps: Floats, budget: Floats) -> Floats:
    """Eps where it is smaller than the local budgets added up, else NaN: then it says nothing."""
    return np.where(eps < budget, eps, np.nan)


def erlingsson_rdp(order: Floats, setting: Setting) -> Floats:
    """RDP that B compares with in eq. (9): ``2 l E^4 (E-1)^2 / n``, E = exp(eps0); any order l.

    Reconstructed, because the formula is missing from the available text. The text says that it is
    E^4 times B's Corollary 3.2, and that this is 4 E times Corollary 3.5, the quadratic term of
    Theorem 3.4: ``l (E-1)^2 / (2 n E)``.
    """
    n, eps0 = setting.n, setting.eps0
    return np.asarray(2.0 * order * np.exp(4.0 * eps0) * np.expm1(eps0) ** 2 / n)
