"""Unary encoding: report one bit per cell, each flipped independently.

A report supports the cells whose bit is 1. Sources: Wang et al., "Locally differentially private
protocols for frequency estimation" (2017); symmetric encoding is the basic RAPPOR of Erlingsson,
Pihur and Korolova (2014).
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import expit, logit

from shuffledp.errors import InputError
from shuffledp.mechanisms.local import LocalParameters, ShuffledOne, ShuffledRandomiser
from shuffledp.mechanisms.randomiser import IndependentSupport, check_budget, check_cells
from shuffledp.numerics.arrays import UNIT


@dataclass(frozen=True)
class UnaryEncoding(IndependentSupport):
    """Unary encoding in which the bit of the user's cell is 1 with probability p, others with q.

    eps0 is ``log(p (1 - q) / (q (1 - p)))``, rounded up. Raises `InputError` unless 0 < q < p < 1.
    """

    k: int
    p: float
    q: float
    eps0: float = field(init=False)
    eps0_error: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_cells(self.k)
        if not 0.0 < self.q < self.p < 1.0:
            raise InputError(f"unary encoding needs 0 < q < p < 1, got p={self.p:g}, q={self.q:g}")
        logs = np.array([np.log(self.p), -np.log1p(-self.p), np.log1p(-self.q), -np.log(self.q)])
        # Each log has an error of up to 2 units of rounding, and each of three sums adds one unit.
        error = 8.0 * UNIT * float(np.abs(logs).sum())
        object.__setattr__(self, "eps0", float(logs.sum()) + error)
        object.__setattr__(self, "eps0_error", 2.0 * error)
        check_budget(self.eps0)

    @property
    def share(self) -> float:
        return self.q

    @property
    def report_bytes(self) -> int:
        """Length of one bit for each cell."""
        return -(-self.k // 8)


def optimised(k: int, eps0: float) -> UnaryEncoding:
    """Return OUE, ``p = 1/2, q = 1/(exp(eps0) + 1)``, with the least variance for empty cells."""
    check_budget(eps0)
    return UnaryEncoding(k, 0.5, float(1.0 / (np.exp(eps0) + 1.0)))


def symmetric(k: int, eps0: float) -> UnaryEncoding:
    """Return basic RAPPOR, ``p = 1 - q = sqrt(E) / (sqrt(E) + 1)``, with ``E = exp(eps0)``."""
    check_budget(eps0)
    root = float(np.exp(0.5 * eps0))
    return UnaryEncoding(k, min(root / (root + 1.0), 1.0 - 2.0**-53), 1.0 / (root + 1.0))


@dataclass(frozen=True)
class UnaryParameters(LocalParameters):
    """Local budget, and probability p that the bit of the user's cell is 1."""

    p: float


class ShuffledUnaryEncoding(ShuffledRandomiser[UnaryParameters]):
    """Mechanism that shuffles reports of unary encoding; `calibrate` chooses the best p."""

    name = "unary-encoding"
    form = UnaryParameters

    def shape_range(self, k: int) -> tuple[float, float]:
        """Return the range of shapes, which are log odds of p."""
        del k
        return -8.0, 8.0

    def member(self, eps0: float, shape: float) -> UnaryParameters:
        """Return the parameters for which p has the log odds ``shape``."""
        return UnaryParameters(eps0, float(expit(shape)))

    def randomiser(self, k: int, parameters: UnaryParameters) -> UnaryEncoding:
        """Return the randomiser for k cells; the odds of q are those of p divided by exp(eps0)."""
        p = parameters.p
        return UnaryEncoding(k, p, float(expit(logit(p) - parameters.eps0)))


class ShuffledOUE(ShuffledOne):
    """Mechanism that shuffles reports of optimised unary encoding (OUE), with p = 1/2."""

    name = "oue"

    def randomiser(self, k: int, parameters: LocalParameters) -> UnaryEncoding:
        """Return OUE for k cells."""
        return optimised(k, parameters.eps0)


class ShuffledRappor(ShuffledOne):
    """Mechanism that shuffles reports of basic RAPPOR, which flips all bits equally often."""

    name = "rappor"

    def randomiser(self, k: int, parameters: LocalParameters) -> UnaryEncoding:
        """Return symmetric unary encoding for k cells."""
        return symmetric(k, parameters.eps0)
