"""Unary encoding: report a bit for each cell, each flipped on its own.

Wang et al., "Locally differentially private protocols for frequency estimation" (2017);
symmetric encoding is the basic RAPPOR of Erlingsson, Pihur and Korolova (2014).
"""

from dataclasses import dataclass, field

import numpy as np

from shuffledp.errors import InputError
from shuffledp.randomisers.protocol import IndependentSupport, check_budget, check_cells


@dataclass(frozen=True)
class UnaryEncoding(IndependentSupport):
    """The bit of the own cell is 1 with probability p, every other with q < p, both inside (0, 1).

    Raises `InputError` if that does not hold.
    """

    k: int
    p: float
    q: float
    eps0: float = field(init=False)

    def __post_init__(self) -> None:
        check_cells(self.k)
        if not 0.0 < self.q < self.p < 1.0:
            raise InputError(
                f"unary encoding needs 0 < q < p < 1: a report must say something, and not "
                f"everything (got p={self.p:g}, q={self.q:g})"
            )
        eps0 = np.log(self.p) - np.log1p(-self.p) + np.log1p(-self.q) - np.log(self.q)
        object.__setattr__(self, "eps0", float(eps0))
        check_budget(self.eps0)

    @property
    def share(self) -> float:
        return self.q


def optimised(k: int, eps0: float) -> UnaryEncoding:
    """OUE, of least variance for an empty cell at a local budget: ``p = 1/2, q = 1/(E + 1)``."""
    check_budget(eps0)
    return UnaryEncoding(k, 0.5, float(1.0 / (np.exp(eps0) + 1.0)))


def symmetric(k: int, eps0: float) -> UnaryEncoding:
    """Basic RAPPOR: ``p = 1 - q = sqrt(E) / (sqrt(E) + 1)``; p is at most the float before 1."""
    check_budget(eps0)
    half = float(np.exp(0.5 * eps0))
    return UnaryEncoding(k, min(half / (half + 1.0), 1.0 - 2.0**-53), 1.0 / (half + 1.0))
