"""Any randomiser with finitely many reports, given as a stochastic matrix."""

from dataclasses import dataclass, field
from functools import cached_property
from math import fsum

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.blanket.atoms import Atoms
from shuffledp.accounting.blanket.worst_pair import Pairs, difference, distances
from shuffledp.accounting.setting import LARGEST_EPS0
from shuffledp.errors import InputError
from shuffledp.mechanisms.randomiser import Randomiser
from shuffledp.numerics.arrays import UNIT, Floats, Integers

# How far a row's sum may be from 1.
TOLERANCE = 1e-9
# Less than this is not far from where floats lose digits.
LEAST = 1e-280


@dataclass(frozen=True, eq=False)
class MatrixRandomiser(Randomiser):
    """Rows are records, columns reports: the probability of each report given each record.

    A row may sum to 1 within 1e-9. What is certified is the matrix whose rows are the given floats
    over their exact sums. An entry may be 0: then eps0 is infinite. Two rows may be the same.

    Raises
    ------
    InputError
        If an entry is negative, no number or below 1e-280, a row does not sum to 1, a column
        cannot be reported, or positive chances of a report differ by more than exp(350).
    """

    rows: Floats
    k: int = field(init=False)
    eps0: float = field(init=False)
    # One index of each different row, as given.
    _different: Integers = field(init=False, repr=False)

    def __post_init__(self) -> None:
        given = np.array(self.rows, np.float64, ndmin=2)
        _check_entries(given)
        rows = given / np.array([[fsum(row)] for row in given])
        rows.setflags(write=False)
        different = np.sort(np.unique(given, axis=0, return_index=True)[1])
        for name, value in (("rows", rows), ("k", len(rows)), ("_different", different)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "eps0", self.horizon if rows.all() else np.inf)

    @cached_property
    def horizon(self) -> float:
        """The largest log-ratio of positive chances of a report, rounded up."""
        if self._different.size == 1:
            return 0.0
        least = np.where(self.rows > 0.0, self.rows, np.inf).min(axis=0)
        found = float(np.log(self.rows.max(axis=0) / least).max())
        found += UNIT * (8.0 + 4.0 * found)  # each entry is right to 2 units
        if found > LARGEST_EPS0:
            raise InputError(
                f"the chances of a report may differ by a factor of at most exp({LARGEST_EPS0:g}), "
                f"or be 0 (got exp({found:g}))"
            )
        return found

    @cached_property
    def _pairs(self) -> tuple[Pairs, Integers]:
        """Of different records; and some that tell much."""
        pairs = Pairs(self.rows[self._different])
        return pairs, pairs.telling(self.horizon)

    def log_blanket(self, eps: float, n: int) -> float:
        """Of the worst pair of records."""
        pairs, telling = self._pairs
        return pairs.log_high(eps, n, telling)

    def log_lead(self, eps: float, n: int) -> float:
        pairs, telling = self._pairs
        return pairs.log_lead(eps, n, telling)

    def alike(self, eps: float) -> tuple[Atoms, ...]:
        """All others hold some record; the target one of the two that are furthest apart."""
        apart = distances(self.rows)
        pair = np.unravel_index(int(apart.argmax()), apart.shape)
        return tuple(
            difference(self.rows[x], self.rows[y], held, eps, -1.0)
            for x, y in (pair, pair[::-1])
            for held in self.rows
        )

    def observe(self, counts: ArrayLike, rng: np.random.Generator) -> Floats:
        """Reports of each column: a multinomial draw for each record."""
        drawn = rng.multinomial(np.asarray(counts, np.int64), self.rows)
        return np.asarray(drawn.sum(axis=0), np.float64)

    @cached_property
    def _inverse(self) -> Floats:
        if np.linalg.matrix_rank(self.rows) < self.k:
            raise InputError(
                "the rows of the matrix are linearly dependent: no estimate tells all records "
                f"apart (rank {np.linalg.matrix_rank(self.rows)}, {self.k} records)"
            )
        return np.asarray(np.linalg.pinv(self.rows.T), np.float64)

    def estimate(self, observed: ArrayLike, n: int) -> Floats:
        """Shares by least squares; raises `InputError` if the rows are linearly dependent."""
        return np.asarray(np.asarray(observed, np.float64) / n @ self._inverse.T)

    def variance(self, shares: ArrayLike, n: float) -> Floats:
        """A record's reports are one draw of its row; raises as `estimate`."""
        shares = np.asarray(shares, np.float64)
        mean_square = shares @ (self.rows @ (self._inverse**2).T)
        own = self.rows @ self._inverse.T  # the identity, but for rounding
        return np.asarray((mean_square - shares @ own**2) / n)


def _check_entries(rows: Floats) -> None:
    if rows.ndim != 2 or rows.shape[0] < 2 or rows.shape[1] < 2:
        raise InputError(
            f"a randomiser's matrix needs at least 2 records and 2 reports (got shape {rows.shape})"
        )
    if not (rows >= 0.0).all():
        x, y = np.argwhere(~(rows >= 0.0))[0]
        raise InputError(
            f"probabilities must be at least 0 (got {rows[x, y]:g} for record {x}, report {y})"
        )
    off = np.abs(rows.sum(axis=1) - 1.0)
    if not (off <= TOLERANCE).all():
        x = int(np.argmax(~(off <= TOLERANCE)))
        raise InputError(
            f"each row must sum to 1 within {TOLERANCE:g} (got {rows[x].sum():.12g} for record {x})"
        )
    if (empty := np.flatnonzero(~rows.any(axis=0))).size:
        raise InputError(
            f"no record can lead to report {empty[0]}: leave that column out of the matrix"
        )
    if (small := (rows > 0.0) & (rows < LEAST)).any():
        x, y = np.argwhere(small)[0]
        raise InputError(
            f"probabilities must be 0 or at least {LEAST:g} (got {rows[x, y]:g} for record {x}, "
            f"report {y})"
        )
