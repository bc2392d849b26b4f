"""Hadamard response: report a column of a Hadamard matrix, probably with +1 in the user's row.

The source is Acharya, Sun and Zhang, "Hadamard response" (2019). Here all cells are in one block,
which is their scheme for small eps0; for large eps0 they use about e^eps0 blocks, each with its own
matrix. The matrix is Sylvester's with K columns, where K is the smallest power of 2 above k. Cell x
has row x + 1, because row 0 consists of +1 only. Whatever eps0 is, a report supports about half of
the cells, so the error of a cell's estimated count is at least about sqrt(n).
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
    """Hadamard response on k cells; raises `InputError` if k or eps0 is out of range."""

    k: int
    eps0: float

    def __post_init__(self) -> None:
        check_cells(self.k)
        check_budget(self.eps0)

    @property
    def columns(self) -> int:
        """Number K of possible reports."""
        return 1 << int(self.k).bit_length()

    @property
    def share(self) -> float:
        return 0.5

    @property
    def patterns(self) -> Mapping[Pattern, float]:
        """Probabilities for the cells of rows 1, 2 and 3; row 3 is the product of rows 1 and 2."""
        if self.k == 2:
            return {(i, j, 0): 0.25 for i in (0, 1) for j in (0, 1)}
        return {(i, j, int(i == j)): 0.25 for i in (0, 1) for j in (0, 1)}

    @property
    def full_support_probability(self) -> float:
        """Probability under nu of column 0, the only one that is +1 in all rows."""
        return 1.0 / self.columns

    def observe(self, counts: ArrayLike, rng: np.random.Generator) -> Floats:
        """Draw the number of reports that support each cell, with ``k K`` draws.

        A report is uniform either on the columns with +1 in the user's row or on all columns.
        """
        counts = np.asarray(counts, np.int64)
        rows = _signs(self.k, self.columns) > 0
        # With probability 2 p - 1 the report is uniform on the columns with +1; p = E / (E + 1).
        informative = rng.binomial(counts, np.tanh(0.5 * self.eps0))
        uniform = np.full(self.columns, 1.0 / self.columns)
        reports = rng.multinomial(int((counts - informative).sum()), uniform)
        for row, users in zip(rows, informative, strict=True):
            reports = reports + rng.multinomial(users, row * (2.0 / self.columns))
        return np.asarray(rows @ reports, np.float64)


def _signs(k: int, columns: int) -> Floats:
    """Return rows 1..k of Sylvester's matrix: +1 if row and column share an even number of bits."""
    shared = np.bitwise_count(np.arange(1, k + 1)[:, None] & np.arange(columns))
    return np.asarray(1.0 - 2.0 * (shared % 2), np.float64)


class ShuffledHadamard(ShuffledOne):
    """Mechanism that shuffles Hadamard responses; a report is one of K columns."""

    name = "hadamard"

    def randomiser(self, k: int, parameters: LocalParameters) -> HadamardResponse:
        """Return the Hadamard response for k cells."""
        return HadamardResponse(k, parameters.eps0)
