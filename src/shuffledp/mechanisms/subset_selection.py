"""Subset selection: report a set of m cells that is likely to contain the user's cell.

Sources: Wang et al., "Mutual information optimally local private discrete distribution estimation"
(2016); Ye and Barg, "Optimal schemes for discrete distribution estimation under locally
differential privacy" (2018). A report supports the cells in its set; m = 1 is k-RR.
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
    """Subset selection of m = ``size`` out of k cells with local budget eps0.

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
                f"m, the size of a subset, must be an integer from 1 to k - 1 = {self.k - 1}, "
                f"got m={self.size}"
            )

    @property
    def share(self) -> float:
        return self.size / self.k

    @property
    def report_bytes(self) -> int:
        """Length of a list of cells, or of one bit for each cell if that is shorter."""
        return min(4 * self.size, -(-self.k // 8))

    @property
    def patterns(self) -> Mapping[Pattern, float]:
        """Probabilities of the patterns, for m cells drawn without replacement."""
        thirds = (0, 1) if self.k > 2 else (0,)
        probabilities = {}
        for pattern in [(i, j, m) for i in (0, 1) for j in (0, 1) for m in thirds]:
            left, size, probability = self.k, self.size, 1.0
            for inside in pattern if self.k > 2 else pattern[:2]:
                probability *= (size if inside else left - size) / left
                left, size = left - 1, size - inside
            if probability > 0.0:
                probabilities[pattern] = probability
        return probabilities

    def observe(self, counts: ArrayLike, rng: np.random.Generator) -> Floats:
        """Draw the number of reports that support each cell, with ``k^2 m`` binomial draws.

        The cells are drawn one after the other. Users are grouped by their own cell and by the
        number of other cells that their report still lacks.
        """
        counts = np.asarray(counts, np.int64)
        own = rng.binomial(counts, self.support_probabilities[0])
        # Users by own cell (row) and by the number of other cells lacking, minus 1 (column).
        users = np.zeros((self.k, self.size), np.int64)
        users[:, -1] = counts - own
        if self.size > 1:
            users[:, -2] = own
        support = own.astype(np.float64)
        for cell, probability in enumerate(_inclusion_probabilities(self.k, self.size)):
            includes = rng.binomial(users, probability)
            support[cell] += includes.sum()
            users -= includes
            users[:, :-1] += includes[:, 1:]
        return support


@lru_cache(maxsize=4)
def _inclusion_probabilities(k: int, size: int) -> Floats:
    """Return the probability that a report includes a cell, shape ``(k, k, size)``.

    The axes are the cell, the user's own cell, and the number of other cells lacking minus 1.
    """
    cell, own, lacking = np.ogrid[:k, :k, 1 : size + 1]
    left = k - cell - (own > cell)  # other cells that have not been drawn yet
    return np.asarray(np.where(cell == own, 0.0, np.minimum(lacking / left, 1.0)), np.float64)


@dataclass(frozen=True)
class SubsetParameters(LocalParameters):
    """Local budget, and number m of cells in a report."""

    m: int


class ShuffledSubsets(ShuffledRandomiser[SubsetParameters]):
    """Mechanism that shuffles reports of subset selection; `calibrate` chooses the best m >= 2."""

    name = "subset-selection"
    form = SubsetParameters

    def shape_range(self, k: int) -> tuple[float, float]:
        """Return the range of shapes, which are values of log m."""
        return float(np.log(2.0)), float(np.log(max(k - 1, 2)))

    def member(self, eps0: float, shape: float) -> SubsetParameters:
        """Return the parameters with the nearest integer m."""
        return SubsetParameters(eps0, round(float(np.exp(shape))))

    def randomiser(self, k: int, parameters: SubsetParameters) -> SubsetSelection:
        """Return the randomiser for k >= 3 cells."""
        return SubsetSelection(k, parameters.eps0, parameters.m)
