"""Any randomiser with finitely many reports, given as a stochastic matrix."""

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

# Largest deviation of a row's sum from 1.
ROW_SUM_TOLERANCE = 1e-9
# Mean radius of the Earth.
EARTH_RADIUS_KM = 6371.0088
# Smaller probabilities are near the range where floats lose digits.
SMALLEST_PROBABILITY = 1e-280


@dataclass(frozen=True, eq=False)
class MatrixRandomiser(Randomiser):
    """A randomiser given by the probability of each report (column) for each record (row).

    A row may sum to 1 within 1e-9; certified is the matrix whose rows are the given floats divided
    by their exact sums. If an entry is 0, eps0 is infinite. Two rows may be the same.

    Attributes
    ----------
    rows
        Shape ``(records, reports)``.
    near
        Pairs of records that are neighbours, in both orders, shape ``(pairs, 2)``; by default all.
        The records of other users are not restricted.
    k, eps0
        Number of records, and the local budget for neighbours.

    Raises
    ------
    InputError
        If an entry is negative, no number or below 1e-280, a row does not sum to 1, a column
        cannot be reported, or positive chances of a report differ by more than exp(350); if a pair
        is none of two records, or there are no pairs.
    """

    rows: Floats
    near: Integers | None = None
    k: int = field(init=False)
    eps0: float = field(init=False)
    # Neighbours whose rows differ.
    _pairs: Pairs = field(init=False, repr=False)

    def __post_init__(self) -> None:
        given = np.array(self.rows, np.float64, ndmin=2)
        _check_entries(given)
        rows = given / np.array([[fsum(row)] for row in given])
        _check_ratios(rows)
        rows.setflags(write=False)
        _, first, same = np.unique(given, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(first)
        place = np.argsort(order)[same.ravel()]
        near = None if self.near is None else _table(self.near, place, order.size)
        pairs = Pairs(rows[first[order]], near)
        for name, value in (("rows", rows), ("k", len(rows)), ("_pairs", pairs)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "eps0", self.horizon if self._told[0] else np.inf)

    @cached_property
    def _told(self) -> tuple[bool, float]:
        """Whether no report excludes a neighbour, and the largest finite ratio of neighbours."""
        rows, pure, largest = self._pairs.rows, True, 0.0
        positive = np.where(rows > 0.0, rows, np.inf)
        for first, near in zip(rows, self._pairs.among, strict=True):
            if near.any():
                pure = pure and not (first[(rows[near] == 0.0).any(axis=0)] > 0.0).any()
                largest = max(largest, float((first / positive[near].min(axis=0)).max()))
        return pure, largest

    @cached_property
    def horizon(self) -> float:
        """The largest log-ratio of positive probabilities of neighbours, rounded up."""
        largest = self._told[1]
        if largest == 0.0:  # there are no neighbours, or their rows are equal
            return 0.0
        found = max(float(np.log(largest)), 0.0)
        return found + UNIT * (8.0 + 4.0 * found)  # each entry is accurate to 2 units

    @cached_property
    def _telling(self) -> Integers:
        """Pairs of different records that are easy to distinguish."""
        return self._pairs.telling(self.horizon)

    @cached_property
    def _held(self) -> Integers:
        """Pairs of records, each with the record that all other users hold."""
        return self._pairs.held(self._telling)

    def log_blanket(self, eps: float, n: int) -> float:
        """Return the bound for the worst pair of records."""
        return self._pairs.log_high(eps, n, self._telling)

    def log_hidden(self, eps: float, n: int, kappa: float, ceiling: float) -> float:
        """Return the bound for the worst pair and data set; exposed users send the shared law."""
        slots = HiddenSlots(self._pairs, eps, n, kappa)
        return slots.log_high(ceiling, self._held) if slots.possible else ceiling

    def log_lead(self, eps: float, n: int) -> float:
        return self._pairs.log_lead(eps, n, self._telling)

    def alike(self, eps: float) -> tuple[Atoms, ...]:
        """Return laws where all others hold one record, for triples that are easy to tell apart."""
        rows = self._pairs.rows
        return tuple(
            difference(rows[x0], rows[x1], rows[x2], eps, -1.0) for x0, x1, x2 in self._held
        )

    def observe(self, counts: ArrayLike, rng: np.random.Generator) -> Floats:
        """Draw the number of reports of each column, by a multinomial draw for each record."""
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
        """Return shares by least squares; raises `InputError` if rows are linearly dependent."""
        return np.asarray(np.asarray(observed, np.float64) / n @ self._inverse.T)

    def variance(self, shares: ArrayLike, n: float) -> Floats:
        """Return the variance of each share; raises as `estimate`."""
        shares = np.asarray(shares, np.float64)
        mean_square = shares @ (self.rows @ (self._inverse**2).T)
        own = self.rows @ self._inverse.T  # the identity up to rounding
        return np.asarray((mean_square - shares @ own**2) / n)


def pairs_within(places: ArrayLike, distance: float) -> Integers:
    """Return pairs of places within a great-circle distance on a sphere.

    Parameters
    ----------
    places
        Latitudes and longitudes in degrees, shape ``(places, 2)``.
    distance
        In km, at least 0.

    Returns
    -------
    Indices of places, the smaller first, shape ``(pairs, 2)``.
    """
    latitude, longitude = np.radians(np.asarray(places, np.float64)).T
    apart = np.sin(0.5 * (latitude[:, None] - latitude)) ** 2
    across = np.sin(0.5 * (longitude[:, None] - longitude)) ** 2
    half = np.sqrt(apart + np.cos(latitude)[:, None] * np.cos(latitude) * across)
    # A tolerance for rounding, since additional neighbours are on the safe side.
    near = (
        2.0 * EARTH_RADIUS_KM * np.arcsin(np.minimum(half, 1.0)) <= distance * (1.0 + 1e-9) + 1e-6
    )
    return np.argwhere(np.triu(near, 1))


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
    if not (off <= ROW_SUM_TOLERANCE).all():
        x = int(np.argmax(~(off <= ROW_SUM_TOLERANCE)))
        raise InputError(
            f"each row must sum to 1 within {ROW_SUM_TOLERANCE:g} (got {rows[x].sum():.12g} for "
            f"record {x})"
        )
    if (empty := np.flatnonzero(~rows.any(axis=0))).size:
        raise InputError(
            f"no record can lead to report {empty[0]}: leave that column out of the matrix"
        )
    if (small := (rows > 0.0) & (rows < SMALLEST_PROBABILITY)).any():
        x, y = np.argwhere(small)[0]
        raise InputError(
            f"probabilities must be 0 or at least {SMALLEST_PROBABILITY:g} (got {rows[x, y]:g} for "
            f"record {x}, report {y})"
        )


def _check_ratios(rows: Floats) -> None:
    least = np.where(rows > 0.0, rows, np.inf).min(axis=0)
    found = float(np.log(rows.max(axis=0) / least).max())
    if found > LARGEST_EPS0:
        raise InputError(
            f"the chances of a report may differ by a factor of at most exp({LARGEST_EPS0:g}), "
            f"or be 0 (got exp({found:g}))"
        )


def _table(near: ArrayLike, place: Integers, different: int) -> Bools:
    """Return the table of neighbours among different rows; equal rows count as one record.

    Parameters
    ----------
    near
        Pairs of records, shape ``(pairs, 2)``.
    place
        Index of each record's row among the different rows.
    different
        Number of different rows.
    """
    pairs = np.array(near)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not pairs.size:
        raise InputError(f"neighbours are pairs of records, at least one (got shape {pairs.shape})")
    wrong = (pairs != np.floor(pairs)) | ~((pairs >= 0) & (pairs < place.size))
    if wrong.any():
        raise InputError(
            f"records are numbered from 0 to {place.size - 1} (got {pairs[wrong][0]:g} in pair "
            f"{int(np.argwhere(wrong)[0, 0])})"
        )
    found = np.zeros((different, different), bool)
    one, other = place[pairs.astype(np.int64).T]
    found[one, other] = found[other, one] = True
    return found
