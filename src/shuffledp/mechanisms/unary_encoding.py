"""Unary encoding: report one bit per cell, each flipped independently.

A report supports the cells whose bit is 1. Sources: Wang et al., "Locally differentially private
protocols for frequency estimation" (2017); symmetric encoding is the basic RAPPOR of Erlingsson,
Pihur and Korolova (2014).
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from shuffledp.errors import InputError
from shuffledp.mechanisms.local import LocalParameters, ShuffledOne, ShuffledRandomiser
from shuffledp.mechanisms.randomiser import IndependentSupport, check_budget, check_cells


@dataclass(frozen=True)
class UnaryEncoding(IndependentSupport):
    """Unary encoding in which the bit of another cell than the user's is 1 with probability q.

    The odds of the bit of the user's cell are those of q times exp(eps0). Raises `InputError`
    unless 0 < q < 1 and eps0 is positive and supported.
    """

    k: int
    eps0: float
    q: float

    def __post_init__(self) -> None:
        check_cells(self.k)
        check_budget(self.eps0)
        if not 0.0 < self.q < 1.0:
            raise InputError(f"unary encoding needs 0 < q < 1, got q={self.q:g}")

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
    return UnaryEncoding(k, eps0, float(1.0 / (np.exp(eps0) + 1.0)))


def symmetric(k: int, eps0: float) -> UnaryEncoding:
    """Return basic RAPPOR, ``p = 1 - q = sqrt(E) / (sqrt(E) + 1)``, with ``E = exp(eps0)``."""
    check_budget(eps0)
    return UnaryEncoding(k, eps0, float(1.0 / (np.exp(0.5 * eps0) + 1.0)))


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
        """Return the randomiser for k cells; raise `InputError` unless 0 < p < 1."""
        p, eps0 = parameters.p, parameters.eps0
        if not 0.0 < p < 1.0:
            raise InputError(f"unary encoding needs 0 < p < 1, got p={p:g}")
        return UnaryEncoding(k, eps0, float(expit(logit(p) - eps0)))


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
