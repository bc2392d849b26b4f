"""Unary encoding: report a bit for each cell, each flipped independently.

Wang et al., "Locally differentially private protocols for frequency estimation" (2017);
symmetric encoding is the basic RAPPOR of Erlingsson, Pihur and Korolova (2014).
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
    """The bit of the own cell is 1 with probability p, every other with q < p, both inside (0, 1).

    Its eps0, ``log(p (1 - q) / (q (1 - p)))`` of the two floats, is rounded up. Raises `InputError`
    if p and q are no such numbers.
    """

    k: int
    p: float
    q: float
    eps0: float = field(init=False)
    eps0_error: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_cells(self.k)
        if not 0.0 < self.q < self.p < 1.0:
            raise InputError(
                f"unary encoding needs 0 < q < p < 1: a report must say something, and not "
                f"everything (got p={self.p:g}, q={self.q:g})"
            )
        logs = np.array([np.log(self.p), -np.log1p(-self.p), np.log1p(-self.q), -np.log(self.q)])
        # Each of them is right to 2 units, each of three sums to one more.
        error = 8.0 * UNIT * float(np.abs(logs).sum())
        object.__setattr__(self, "eps0", float(logs.sum()) + error)
        object.__setattr__(self, "eps0_error", 2.0 * error)
        check_budget(self.eps0)

    @property
    def share(self) -> float:
        return self.q


def optimised(k: int, eps0: float) -> UnaryEncoding:
    """Return OUE, with the least variance for an empty cell: ``p = 1/2, q = 1/(E + 1)``."""
    check_budget(eps0)
    return UnaryEncoding(k, 0.5, float(1.0 / (np.exp(eps0) + 1.0)))


def symmetric(k: int, eps0: float) -> UnaryEncoding:
    """Return basic RAPPOR, ``p = 1 - q = sqrt(E) / (sqrt(E) + 1)``, with p < 1 as a float."""
    check_budget(eps0)
    half = float(np.exp(0.5 * eps0))
    return UnaryEncoding(k, min(half / (half + 1.0), 1.0 - 2.0**-53), 1.0 / (half + 1.0))


@dataclass(frozen=True)
class UnaryParameters(LocalParameters):
    """Local budget, and probability p that the own bit is 1."""

    p: float


class ShuffledUnaryEncoding(ShuffledRandomiser[UnaryParameters]):
    """Unary encoding with the best p. See `Mechanism`."""

    name = "unary-encoding"
    form = UnaryParameters

    def places(self, k: int) -> tuple[float, float]:
        """Return the range of the log odds of p."""
        del k
        return -8.0, 8.0

    def member(self, eps0: float, place: float) -> UnaryParameters:
        """Return the parameters with p of these log odds."""
        return UnaryParameters(eps0, float(expit(place)))

    def randomiser(self, k: int, parameters: UnaryParameters) -> UnaryEncoding:
        """Return the randomiser for k cells; other bits have odds lower by exp(eps0)."""
        p = parameters.p
        return UnaryEncoding(k, p, float(expit(logit(p) - parameters.eps0)))


class ShuffledOUE(ShuffledOne):
    """The own bit is 1 with probability 1/2: best for an empty cell at a local budget.

    Optimised local hashing has the same error. See `Mechanism`.
    """

    name = "oue"

    def randomiser(self, k: int, parameters: LocalParameters) -> UnaryEncoding:
        """Return OUE for k cells."""
        return optimised(k, parameters.eps0)


class ShuffledRappor(ShuffledOne):
    """All bits are flipped with the same probability. See `Mechanism`."""

    name = "rappor"

    def randomiser(self, k: int, parameters: LocalParameters) -> UnaryEncoding:
        """Return symmetric unary encoding for k cells."""
        return symmetric(k, parameters.eps0)
