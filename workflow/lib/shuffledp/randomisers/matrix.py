"""Any randomiser with finitely many reports, given as a stochastic matrix."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.blanket.atoms import Atoms, excess
from shuffledp.arrays import Floats
from shuffledp.errors import InputError
from shuffledp.randomisers.protocol import Randomiser, check_budget

# How far a row's sum may be from 1.
TOLERANCE = 1e-9
# Laws whose atoms agree to 2^-40, relative, are one: symmetric matrices have many such pairs.
_BITS = 40


@dataclass(frozen=True, eq=False)
class MatrixRandomiser(Randomiser):
    """Rows are records, columns reports: the probability of each report given each record.

    Rows that sum to 1 within 1e-9 are scaled to do so.

    Raises
    ------
    InputError
        If an entry is negative or no number, a row does not sum to 1, a column cannot be reported,
        or eps0 is infinite, 0 or above 350.
    """

    rows: Floats
    k: int = field(init=False)
    eps0: float = field(init=False)

    def __post_init__(self) -> None:
        rows = np.array(self.rows, np.float64, ndmin=2)
        _check_entries(rows)
        rows = rows / rows.sum(axis=1, keepdims=True)
        rows.setflags(write=False)
        eps0 = np.log(rows.max(axis=0) / rows.min(axis=0)).max()
        for name, value in (("rows", rows), ("k", len(rows)), ("eps0", float(eps0))):
            object.__setattr__(self, name, value)
        check_budget(self.eps0)

    def blanket(self, eps: float) -> tuple[Atoms, ...]:
        """A law for each ordered pair of records, each law once."""
        least = self.rows.min(axis=0)
        log_ratios = np.log(self.rows / least)
        return self._distinct(
            (excess(log_ratios[x], log_ratios[y], eps), least)
            for x in range(self.k)
            for y in range(self.k)
            if x != y
        )

    def alike(self, eps: float) -> tuple[Atoms, ...]:
        """All others hold some record; the target one of the two that are furthest apart."""
        logs = np.log(self.rows)
        scaled = self.rows / np.sqrt(self.rows.min(axis=0))
        squares = (scaled**2).sum(axis=1)
        apart = squares[:, None] + squares - 2.0 * scaled @ scaled.T
        pair = np.unravel_index(int(apart.argmax()), apart.shape)
        return self._distinct(
            (excess(logs[x] - logs[held], logs[y] - logs[held], eps), self.rows[held])
            for x, y in (pair, pair[::-1])
            for held in range(self.k)
        )

    def _distinct(self, laws: Iterable[tuple[Floats, Floats]]) -> tuple[Atoms, ...]:
        units = 2.0 ** (54 - _BITS) + 64.0 + 4.0 * self.eps0
        found: dict[bytes, Atoms] = {}
        for values, masses in laws:
            order = np.lexsort((masses, values))
            together = np.stack([values[order], masses[order]])
            mantissa, exponent = np.frexp(together)
            key = np.round(mantissa * 2.0**_BITS).tobytes() + exponent.tobytes()
            if key not in found:
                found[key] = Atoms(together[0], together[1], units)
        return tuple(found.values())

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
    if (rows == 0.0).any():
        x, y = np.argwhere(rows == 0.0)[0]
        raise InputError(
            f"eps0 is infinite: record {x} never leads to report {y}, but others do; "
            "every entry must be positive"
        )
