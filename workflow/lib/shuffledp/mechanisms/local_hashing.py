"""Shuffled local hashing: a report is a function and k-RR of its value, g values are free."""

from dataclasses import dataclass

import numpy as np

from shuffledp.mechanisms.local import LocalParameters, ShuffledRandomiser
from shuffledp.randomisers.local_hashing import LocalHashing

_MOST_VALUES = 2**40


@dataclass(frozen=True)
class HashingParameters(LocalParameters):
    """Local budget, and number g of values of a function."""

    g: int


class ShuffledHashing(ShuffledRandomiser[HashingParameters]):
    """Functions into the best number g of values. See `Mechanism`."""

    name = "local-hashing"
    label = "local hashing, best g"

    def __init__(self) -> None:
        super().__init__("#999933", ">")

    def places(self, k: int) -> tuple[float, float]:
        """Logarithm of g."""
        del k
        return float(np.log(2.0)), float(np.log(_MOST_VALUES))

    def member(self, eps0: float, place: float) -> HashingParameters:
        """The whole g that is nearest."""
        return HashingParameters(eps0, round(float(np.exp(place))))

    def randomiser(self, k: int, parameters: HashingParameters) -> LocalHashing:
        """Of k cells."""
        return LocalHashing(k, parameters.eps0, parameters.g)
