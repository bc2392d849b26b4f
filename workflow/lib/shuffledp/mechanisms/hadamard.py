"""Hadamard response: report a column of a Hadamard matrix, one with +1 in the own row more often.

Acharya, Sun and Zhang, "Hadamard response" (2019), with one block, their scheme for a small eps0:
for a large one theirs has about e^eps0 blocks of cells, each with a matrix of its own. Of K
columns, the smallest power of 2 above k; cell x has row x + 1 of Sylvester's matrix, since row 0 is
all +1. A report speaks for half of the cells, whatever eps0 is: the error of a cell is at least
sqrt(n), nearly.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.mechanisms.local import LocalParameters, ShuffledOne
from shuffledp.mechanisms.randomiser import Pattern, SupportRandomiser, check_budget, check_cells
from shuffledp.numerics.arrays import Floats


@dataclass(frozen=True)
class HadamardResponse(SupportRandomiser):
    """k cells with local budget eps0; raises `InputError` if one is out of range."""

    k: int
    eps0: float

    def __post_init__(self) -> None:
        check_cells(self.k)
        check_budget(self.eps0)

    @property
    def columns(self) -> int:
        """Number K of reports."""
        return 1 << int(self.k).bit_length()

    @property
    def share(self) -> float:
        return 0.5

    @property
    def patterns(self) -> Mapping[Pattern, float]:
        """The third row is the product of the other two: the cells of rows 1, 2 and 3."""
        if self.k == 2:
            return {(i, j, 0): 0.25 for i in (0, 1) for j in (0, 1)}
        return {(i, j, int(i == j)): 0.25 for i in (0, 1) for j in (0, 1)}

    @property
    def everywhere(self) -> float:
        """Only column 0 is +1 in all rows: the rows of powers of 2 are among them."""
        return 1.0 / self.columns

    def observe(self, counts: ArrayLike, rng: np.random.Generator) -> Floats:
        """Cell after cell: its holders' columns are uniform on the support, or uniform on all.

        Costs ``k K`` draws.
        """
        counts = np.asarray(counts, np.int64)
        rows = _signs(self.k, self.columns) > 0
        # With probability 1 - 2 (1 - p) the report is uniform on the support.
        telling = rng.binomial(counts, np.tanh(0.5 * self.eps0))
        anywhere = np.full(self.columns, 1.0 / self.columns)
        reports = rng.multinomial(int((counts - telling).sum()), anywhere)
        for row, holders in zip(rows, telling, strict=True):
            reports = reports + rng.multinomial(holders, row * (2.0 / self.columns))
        return np.asarray(rows @ reports, np.float64)


def _signs(k: int, columns: int) -> Floats:
    """Rows 1..k of Sylvester's matrix: +1 where row and column share an even number of bits."""
    shared = np.bitwise_count(np.arange(1, k + 1)[:, None] & np.arange(columns))
    return np.asarray(1.0 - 2.0 * (shared % 2), np.float64)


class ShuffledHadamard(ShuffledOne):
    """A report is one of about 2k columns. See `Mechanism`."""

    name = "hadamard"

    def randomiser(self, k: int, parameters: LocalParameters) -> HadamardResponse:
        """Return the Hadamard response for k cells."""
        return HadamardResponse(k, parameters.eps0)
