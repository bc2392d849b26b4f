"""Local randomisers with finitely many records and reports, given as a stochastic matrix."""

from dataclasses import dataclass, field
from functools import cached_property
from math import fsum

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.blanket.atoms import Atoms
from shuffledp.accounting.blanket.worst_pair import HiddenSlots, Pairs, difference
from shuffledp.accounting.setting import LARGEST_EPS0
from shuffledp.errors import InputError
from shuffledp.mechanisms.randomiser import Randomiser
from shuffledp.numerics.arrays import UNIT, Floats, Integers

# Largest accepted deviation of the sum of a row from 1.
ROW_SUM_TOLERANCE = 1e-9
# Smallest accepted positive entry. Floats that are much smaller lose digits.
SMALLEST_PROBABILITY = 1e-280


@dataclass(frozen=True, eq=False)
class MatrixRandomiser(Randomiser):
    """A randomiser given by the probability of each report (column) for each record (row).

    Rows must sum to 1 within 1e-9. Each row is divided by its exact sum, and certified bounds hold
    for the resulting matrix. Entries may be 0, in which case eps0 may be infinite. Rows may be
    equal.

    Attributes
    ----------
    rows
        Probabilities, shape ``(records, reports)``.
    k, eps0
        Number of records, and local budget.

    Raises
    ------
    InputError
        If an entry is negative, NaN, or positive but below 1e-280; if a row does not sum to 1, or a
        column has no positive entry; or if positive probabilities of a report differ by a factor
        of more than exp(300).
    """

    rows: Floats
    k: int = field(init=False)
    eps0: float = field(init=False)
    # Pairs of distinct rows.
    _pairs: Pairs = field(init=False, repr=False)

    def __post_init__(self) -> None:
        entries = np.array(self.rows, np.float64, ndmin=2)
        _check_entries(entries)
        rows = entries / np.array([[fsum(row)] for row in entries])
        _check_ratios(rows)
        rows.setflags(write=False)
        _, first = np.unique(entries, axis=0, return_index=True)
        pairs = Pairs(rows[np.sort(first)])
        for name, value in (("rows", rows), ("k", len(rows)), ("_pairs", pairs)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "eps0", self.horizon if self._purity[0] else np.inf)

    @cached_property
    def _purity(self) -> tuple[bool, float]:
        """Whether eps0 is finite, and the largest finite ratio of a report's probabilities."""
        rows = self._pairs.rows
        smallest = np.where(rows > 0.0, rows, np.inf).min(axis=0)
        return bool((rows > 0.0).all()), float((rows.max(axis=0) / smallest).max())

    @cached_property
    def horizon(self) -> float:
        """Largest log-ratio of positive probabilities of a report, rounded up."""
        if len(self._pairs.rows) == 1:
            return 0.0
        log_ratio = float(np.log(self._purity[1]))
        return log_ratio + UNIT * (8.0 + 4.0 * log_ratio)  # relative error of an entry: 2 units

    @cached_property
    def _distinguishable(self) -> Integers:
        """Pairs that are easy to distinguish, one of them probably near the worst."""
        return self._pairs.distinguishable(self.horizon)

    @cached_property
    def _triples(self) -> Integers:
        """Records x0, x1 and that of all others, for which delta is probably large."""
        return self._pairs.with_others_record(self._distinguishable)

    def log_blanket(self, eps: float, n: int) -> float:
        """Return the privacy blanket's upper bound on log delta for the worst pair of records."""
        return self._pairs.log_high(eps, n, self._distinguishable)

    def log_hidden(self, eps: float, n: int, kappa: float, ceiling: float) -> float:
        """Return the bound of docs/hidden-slot.md for the worst pair of records and data set."""
        slots = HiddenSlots(self._pairs, eps, n, kappa)
        return slots.log_high(ceiling, self._triples) if slots.is_applicable else ceiling

    def log_blanket_estimate(self, eps: float, n: int) -> float:
        return self._pairs.log_high_estimate(eps, n, self._distinguishable)[0]

    def homogeneous_laws(self, eps: float) -> tuple[Atoms, ...]:
        """Return the laws of G for a few dozen triples: x0, x1 and the record of all others."""
        rows = self._pairs.rows
        return tuple(
            difference(rows[x0], rows[x1], rows[x2], eps, -1.0) for x0, x1, x2 in self._triples
        )

    def observe(self, counts: ArrayLike, rng: np.random.Generator) -> Floats:
        """Draw the number of reports of each column, with one multinomial draw for each record."""
        drawn = rng.multinomial(np.asarray(counts, np.int64), self.rows)
        return np.asarray(drawn.sum(axis=0), np.float64)

    @cached_property
    def _inverse(self) -> Floats:
        if np.linalg.matrix_rank(self.rows) < self.k:
            raise InputError(
                "the rows of the matrix must be linearly independent for an unbiased estimate, got "
                f"rank {np.linalg.matrix_rank(self.rows)} for {self.k} records"
            )
        return np.asarray(np.linalg.pinv(self.rows.T), np.float64)

    def estimate(self, observed: ArrayLike, n: int) -> Floats:
        """Return unbiased shares by least squares; raise `InputError` if rows are dependent."""
        return np.asarray(np.asarray(observed, np.float64) / n @ self._inverse.T)

    def variance(self, shares: ArrayLike, n: float) -> Floats:
        """Return the variance of each share; raise `InputError` like `estimate`."""
        shares = np.asarray(shares, np.float64)
        mean_square = shares @ (self.rows @ (self._inverse**2).T)
        own = self.rows @ self._inverse.T  # the identity up to rounding
        return np.asarray((mean_square - shares @ own**2) / n)


def _check_entries(rows: Floats) -> None:
    if rows.ndim != 2 or rows.shape[0] < 2 or rows.shape[1] < 2:
        raise InputError(
            f"a randomiser's matrix needs at least 2 records and 2 reports, got shape {rows.shape}"
        )
    if not (rows >= 0.0).all():
        x, y = np.argwhere(~(rows >= 0.0))[0]
        raise InputError(
            f"probabilities must be at least 0, got {rows[x, y]:g} for record {x}, report {y}"
        )
    error = np.abs(rows.sum(axis=1) - 1.0)
    if not (error <= ROW_SUM_TOLERANCE).all():
        x = int(np.argmax(~(error <= ROW_SUM_TOLERANCE)))
        raise InputError(
            f"each row must sum to 1 within {ROW_SUM_TOLERANCE:g}, got {rows[x].sum():.12g} for "
            f"record {x}"
        )
    if (empty := np.flatnonzero(~rows.any(axis=0))).size:
        raise InputError(
            f"report {empty[0]} has probability 0 for every record: leave out that column"
        )
    if (small := (rows > 0.0) & (rows < SMALLEST_PROBABILITY)).any():
        x, y = np.argwhere(small)[0]
        raise InputError(
            f"probabilities must be 0 or at least {SMALLEST_PROBABILITY:g}, got {rows[x, y]:g} for "
            f"record {x}, report {y}"
        )


def _check_ratios(rows: Floats) -> None:
    smallest = np.where(rows > 0.0, rows, np.inf).min(axis=0)
    log_ratio = float(np.log(rows.max(axis=0) / smallest).max())
    if log_ratio > LARGEST_EPS0:
        raise InputError(
            f"positive probabilities of a report must differ by a factor of at most "
            f"exp({LARGEST_EPS0:g}), got exp({log_ratio:g})"
        )
