"""Local randomisers with finitely many records and reports, given as a stochastic matrix."""

from dataclasses import dataclass, field
from functools import cached_property
from math import fsum

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.blanket.atoms import Atoms
from shuffledp.accounting.blanket.worst_data_set import HiddenSlots
from shuffledp.accounting.blanket.worst_pair import Pairs, difference
from shuffledp.accounting.setting import LARGEST_EPS0
from shuffledp.errors import InputError
from shuffledp.mechanisms.randomiser import Randomiser
from shuffledp.numerics.arrays import UNIT, Bools, Floats, Integers

# Largest accepted deviation of the sum of a row from 1.
ROW_SUM_TOLERANCE = 1e-9
EARTH_RADIUS_KM = 6371.0088
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
    near
        Pairs of records between which the target's record may change, shape ``(pairs, 2)``, in
        either order; by default all pairs. The records of other users are not restricted.
    k, eps0
        Number of records, and local budget for neighbouring records.

    Raises
    ------
    InputError
        If an entry is negative, NaN, or positive but below 1e-280; if a row does not sum to 1, or a
        column has no positive entry; if positive probabilities of a report differ by a factor of
        more than exp(300); or if ``near`` is empty or is not an array of pairs of records.
    """

    rows: Floats
    near: Integers | None = None
    k: int = field(init=False)
    eps0: float = field(init=False)
    # Distinct rows, and which of them are neighbours.
    _pairs: Pairs = field(init=False, repr=False)

    def __post_init__(self) -> None:
        entries = np.array(self.rows, np.float64, ndmin=2)
        _check_entries(entries)
        rows = entries / np.array([[fsum(row)] for row in entries])
        _check_ratios(rows)
        rows.setflags(write=False)
        _, first, inverse = np.unique(entries, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)
        distinct_index = np.argsort(order)[inverse.ravel()]
        near = None if self.near is None else _adjacency(self.near, distinct_index, order.size)
        pairs = Pairs(rows[first[order]], near)
        for name, value in (("rows", rows), ("k", len(rows)), ("_pairs", pairs)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "eps0", self.horizon if self._purity[0] else np.inf)

    @cached_property
    def _purity(self) -> tuple[bool, float]:
        """Whether eps0 is finite, and the largest finite ratio of a report's probabilities."""
        rows, pure, largest = self._pairs.rows, True, 0.0
        positive = np.where(rows > 0.0, rows, np.inf)
        for first, near in zip(rows, self._pairs.adjacency, strict=True):
            if near.any():
                pure = pure and not (first[(rows[near] == 0.0).any(axis=0)] > 0.0).any()
                largest = max(largest, float((first / positive[near].min(axis=0)).max()))
        return pure, largest

    @cached_property
    def horizon(self) -> float:
        """Largest log-ratio of positive probabilities of a report for neighbours, rounded up."""
        largest = self._purity[1]
        if largest == 0.0:  # no neighbours have different rows
            return 0.0
        log_ratio = max(float(np.log(largest)), 0.0)
        return log_ratio + UNIT * (8.0 + 4.0 * log_ratio)  # relative error of an entry: 2 units

    @cached_property
    def _distinguishable(self) -> Integers:
        """Pairs of neighbours that are easy to distinguish, one of them probably near the worst."""
        return self._pairs.distinguishable(self.horizon)

    @cached_property
    def _triples(self) -> Integers:
        """Neighbours x0, x1 and the record of all others, for which delta is probably large."""
        return self._pairs.with_others_record(self._distinguishable)

    def log_blanket(self, eps: float, n: int) -> float:
        """Return the privacy blanket's upper bound on log delta for the worst pair of records."""
        return self._pairs.log_high(eps, n, self._distinguishable)

    def log_hidden(self, eps: float, n: int, kappa: float, ceiling: float) -> float:
        """Return the bound of docs/hidden-slot.md for the worst pair of records and data set."""
        slots = HiddenSlots(self._pairs, eps, n, kappa)
        return slots.log_high(ceiling, self._triples) if slots.is_applicable else ceiling

    def log_blanket_estimate(self, eps: float, n: int) -> float:
        return self._pairs.log_blanket_estimate(eps, n, self._distinguishable)

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


def pairs_within(places: ArrayLike, distance: float) -> Integers:
    """Return the pairs of places whose great-circle distance is at most ``distance`` km.

    Places are latitudes and longitudes in degrees, shape ``(places, 2)``. Pairs are indices of
    places, the smaller index first, shape ``(pairs, 2)``.
    """
    latitude, longitude = np.radians(np.asarray(places, np.float64)).T
    apart = np.sin(0.5 * (latitude[:, None] - latitude)) ** 2
    across = np.sin(0.5 * (longitude[:, None] - longitude)) ** 2
    half = np.sqrt(apart + np.cos(latitude)[:, None] * np.cos(latitude) * across)
    # The tolerance for rounding is safe, because it can only add neighbours.
    near = (
        2.0 * EARTH_RADIUS_KM * np.arcsin(np.minimum(half, 1.0)) <= distance * (1.0 + 1e-9) + 1e-6
    )
    return np.argwhere(np.triu(near, 1))


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


def _adjacency(near: ArrayLike, distinct_index: Integers, distinct: int) -> Bools:
    """Return the adjacency matrix of distinct rows: whether any of their records are neighbours.

    ``distinct_index`` is the index of each record's row among the ``distinct`` rows.
    """
    pairs = np.array(near)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not pairs.size:
        raise InputError(f"neighbours must have shape (pairs, 2), pairs >= 1, got {pairs.shape}")
    invalid = (pairs != np.floor(pairs)) | ~((pairs >= 0) & (pairs < distinct_index.size))
    if invalid.any():
        raise InputError(
            f"records of neighbours must be integers from 0 to {distinct_index.size - 1}, got "
            f"{pairs[invalid][0]:g} in pair {int(np.argwhere(invalid)[0, 0])}"
        )
    adjacency = np.zeros((distinct, distinct), bool)
    first, second = distinct_index[pairs.astype(np.int64).T]
    adjacency[first, second] = adjacency[second, first] = True
    return adjacency
