"""Subset selection: report a set of m cells that is likely to contain the user's cell.

Wang et al., "Mutual information optimally local private discrete distribution estimation" (2016);
Ye and Barg, "Optimal schemes for discrete distribution estimation under locally differential
privacy" (2018).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.errors import InputError
from shuffledp.mechanisms.local import LocalParameters, ShuffledRandomiser
from shuffledp.mechanisms.randomiser import Pattern, SupportRandomiser, check_budget, check_cells
from shuffledp.numerics.arrays import Floats


@dataclass(frozen=True)
class SubsetSelection(SupportRandomiser):
    """Subset selection of ``size`` out of k cells with local budget eps0.

    A set that contains the user's cell is exp(eps0) times as likely as one that does not. Raises
    `InputError` if the size is not in ``1..k-1`` or another parameter is out of range.
    """

    k: int
    eps0: float
    size: int
    interchangeable = True

    def __post_init__(self) -> None:
        check_cells(self.k)
        check_budget(self.eps0)
        if not (1 <= self.size <= self.k - 1 and self.size == int(self.size)):
            raise InputError(
                f"m, the size of a subset, must be an integer from 1 to k - 1 = {self.k - 1} "
                f"(got m={self.size})"
            )

    @property
    def share(self) -> float:
        return self.size / self.k

    @property
    def patterns(self) -> Mapping[Pattern, float]:
        """Return probabilities of patterns for cells drawn without replacement."""
        thirds = (0, 1) if self.k > 2 else (0,)
        chances = {}
        for pattern in [(i, j, m) for i in (0, 1) for j in (0, 1) for m in thirds]:
            left, size, chance = self.k, self.size, 1.0
            for inside in pattern if self.k > 2 else pattern[:2]:
                chance *= (size if inside else left - size) / left
                left, size = left - 1, size - inside
            if chance > 0.0:
                chances[pattern] = chance
        return chances

    def observe(self, counts: ArrayLike, rng: np.random.Generator) -> Floats:
        """Draw the observations cell by cell, with ``k^2 m`` binomial draws.

        For each cell, users are grouped by their own cell and by how many cells they still have to
        name.
        """
        counts = np.asarray(counts, np.int64)
        own = rng.binomial(counts, self.support_probabilities[0])
        # Users by own cell and by the number of other cells they still have to name, from 1 on.
        users = np.zeros((self.k, self.size), np.int64)
        users[:, -1] = counts - own
        if self.size > 1:
            users[:, -2] = own
        named = own.astype(np.float64)
        for cell, chance in enumerate(_chances(self.k, self.size)):
            takers = rng.binomial(users, chance)
            named[cell] += takers.sum()
            users -= takers
            users[:, :-1] += takers[:, 1:]
        return named


@lru_cache(maxsize=4)
def _chances(k: int, size: int) -> Floats:
    """Return the probability to name a cell, shape ``(k, k, size)``.

    The axes are the cell, the user's own cell, and the number of cells still to name minus 1.
    """
    cell, own, still = np.ogrid[:k, :k, 1 : size + 1]
    left = k - cell - (own > cell)  # other cells not yet passed
    return np.asarray(np.where(cell == own, 0.0, np.minimum(still / left, 1.0)), np.float64)


@dataclass(frozen=True)
class SubsetParameters(LocalParameters):
    """Local budget, and number m of cells in a report."""

    m: int


class ShuffledSubsets(ShuffledRandomiser[SubsetParameters]):
    """Mechanism that shuffles reports of subset selection with the best m >= 2; m = 1 is k-RR."""

    name = "subset-selection"
    form = SubsetParameters

    def shape_range(self, k: int) -> tuple[float, float]:
        """Return the range of log m."""
        return float(np.log(2.0)), float(np.log(max(k - 1, 2)))

    def member(self, eps0: float, shape: float) -> SubsetParameters:
        """Return the parameters with the nearest integer m."""
        return SubsetParameters(eps0, round(float(np.exp(shape))))

    def randomiser(self, k: int, parameters: SubsetParameters) -> SubsetSelection:
        """Return the randomiser for k >= 3 cells."""
        return SubsetSelection(k, parameters.eps0, parameters.m)
