"""Shuffled subset selection: a report names m cells, m is free."""

from dataclasses import dataclass

import numpy as np

from shuffledp.mechanisms.local import LocalParameters, ShuffledRandomiser
from shuffledp.randomisers.subset_selection import SubsetSelection


@dataclass(frozen=True)
class SubsetParameters(LocalParameters):
    """Local budget, and number m of cells that a report names."""

    m: int


class ShuffledSubsets(ShuffledRandomiser[SubsetParameters]):
    """Sets of the best number m of cells, at least 2: of one, it is k-RR. See `Mechanism`."""

    name = "subset-selection"
    label = "subset selection, best m"

    def __init__(self) -> None:
        super().__init__("#882255", "v")

    def places(self, k: int) -> tuple[float, float]:
        """Logarithm of m."""
        return float(np.log(2.0)), float(np.log(max(k - 1, 2)))

    def member(self, eps0: float, place: float) -> SubsetParameters:
        """The whole m that is nearest."""
        return SubsetParameters(eps0, round(float(np.exp(place))))

    def randomiser(self, k: int, parameters: SubsetParameters) -> SubsetSelection:
        """Of k cells, at least 3."""
        return SubsetSelection(k, parameters.eps0, parameters.m)
