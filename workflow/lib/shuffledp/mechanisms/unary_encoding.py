"""Shuffled unary encoding: a report is a bit for each cell, p is free."""

from dataclasses import dataclass

from scipy.special import expit, logit

from shuffledp.mechanisms.local import LocalParameters, ShuffledRandomiser
from shuffledp.randomisers.unary_encoding import UnaryEncoding


@dataclass(frozen=True)
class UnaryParameters(LocalParameters):
    """Local budget, and probability p that the own bit is 1."""

    p: float


class ShuffledUnaryEncoding(ShuffledRandomiser[UnaryParameters]):
    """Unary encoding with the best p. See `Mechanism`."""

    name = "unary-encoding"
    label = "unary encoding, best p"

    def __init__(self) -> None:
        super().__init__("#332288", "p")

    def places(self, k: int) -> tuple[float, float]:
        """Log odds of p."""
        del k
        return -8.0, 8.0

    def member(self, eps0: float, place: float) -> UnaryParameters:
        """The p of these log odds."""
        return UnaryParameters(eps0, float(expit(place)))

    def randomiser(self, k: int, parameters: UnaryParameters) -> UnaryEncoding:
        """Of k cells; another bit is 1 with odds that are exp(eps0) times lower."""
        p = parameters.p
        return UnaryEncoding(k, p, float(expit(logit(p) - parameters.eps0)))
