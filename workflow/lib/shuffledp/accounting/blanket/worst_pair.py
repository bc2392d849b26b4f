"""The worst pair of records, where there are too many to evaluate each.

Every pair has cheap upper bounds: what leaks without a shuffler; Chernoff's, of all pairs by one
product of matrices; the tilted law on a coarse grid, many pairs at a time (`screen`). Only pairs
above the worst so far are evaluated. The bounds are certified, so that none is missed.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from shuffledp.accounting.blanket.atoms import Atoms, log_chernoff, log_saddle_point, with_apart
from shuffledp.accounting.blanket.coarse_mean_excess import Grid, Tilted
from shuffledp.accounting.blanket.mean_excess import log_mean_excess_high
from shuffledp.numerics.arrays import UNIT, Bools, Floats, Integers

# Laws whose atoms agree to 2^-40, relative, are one: symmetric matrices have many such pairs.
_BITS = 40
# Relative error of values and masses, in units of rounding: those of three entries and of e.
_UNITS = 16.0
# Up to so many pairs all are evaluated with no screen, and the most that are after one. If more
# are left, the largest of their bounds stands.
_FEW, _EVALUATED = 20, 128
# Entries at a time.
_AT_ONCE = 2**18
# Of pairs with what all others hold so many are kept.
_KEPT = 16


def difference(first: Floats, second: Floats, shared: Floats, eps: float, sign: float) -> Atoms:
    """Law of ``G = (R(y|x0) - e R(y|x1)) / w(y)`` with mass w(y).

    Parameters
    ----------
    first, second
        ``R(.|x0)`` and ``R(.|x1)``, each entry right to 2 units of rounding.
    shared
        w, as right. Where it is 0, the positive part of the difference is `Atoms.apart`.
    eps
        Central budget.
    sign
        To which side that is rounded: up (1) or down (-1).
    """
    used = shared > 0.0
    gain, error = gains(first, second, eps)
    apart = _apart(gain[~used] + sign * error[~used], sign)
    mass = shared[used]
    return Atoms(gain[used] / mass, mass, _UNITS, error[used] / mass, float(apart))


def widened(law: Atoms) -> Atoms:
    """Of all laws whose `keys` agree with it."""
    more = 2.0 ** (54 - _BITS)
    return replace(law, units=law.units + more, apart=law.apart * (1.0 + more * UNIT))


def gains(first: Floats, second: Floats, eps: float) -> tuple[Floats, Floats]:
    """``R(y|x0) - e R(y|x1)`` and how wrong it may be: 2 units of each entry, 2 of e, and its own.

    Where the first is 0 the sign is certain.

    Parameters
    ----------
    first, second
        ``R(.|x0)`` and ``R(.|x1)``, broadcast together.
    eps
        Central budget.
    """
    gain = (first - second) - np.expm1(eps) * second
    error = 16.0 * UNIT * (first + np.exp(eps) * second)
    return gain, np.where(first > 0.0, error, 0.0)


def _apart(gains: Floats, sign: float) -> Floats:
    total = np.maximum(gains, 0.0).sum(axis=-1)
    return np.asarray(total * (1.0 + sign * (gains.shape[-1] + 8.0) * UNIT))


def distances(rows: Floats, others: Floats) -> Floats:
    """How far apart each two rows are, by squares of differences over what others report."""
    # What they never do tells the two apart for certain.
    scaled = rows / np.sqrt(np.maximum(others, UNIT * rows.max(axis=0)))
    squares = (scaled**2).sum(axis=1)
    return np.asarray(squares[:, None] + squares - 2.0 * scaled @ scaled.T)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Ordered pairs of different records that are neighbours.

    Attributes
    ----------
    rows
        Chances of each report, shape ``(records, reports)``, each right to 2 units of rounding.
    near
        Which pairs are meant, shape ``(records, records)``; symmetric. None for all.
    """

    rows: Floats
    near: Bools | None = None

    @cached_property
    def among(self) -> Bools:
        """Which pairs these are; no record is a neighbour of itself."""
        count = len(self.rows)
        found = np.ones((count, count), bool) if self.near is None else self.near.copy()
        np.fill_diagonal(found, False)
        return found

    @property
    def size(self) -> int:
        """How many there are."""
        return int(self.among.sum())

    def law(self, pair: Integers, eps: float) -> Atoms:
        """G of a pair, and of all pairs that agree with it."""
        first, second = self.rows[pair]
        return widened(difference(first, second, self.rows.min(axis=0), eps, 1.0))

    def telling(self, horizon: float) -> Integers:
        """Pairs, some dozens at most; one of them is likely to be about the worst at an eps.

        Parameters
        ----------
        horizon
            Largest eps of interest.
        """
        count = len(self.rows)
        if self.size <= _FEW:
            return np.argwhere(self.among)
        tables = [self.local(share * horizon)[0] for share in (0.0, 0.02, 0.1, 0.3, 0.6, 0.9)]
        found = set[int]()
        for table in (*tables, distances(self.rows, self.rows.min(axis=0))):
            table[~self.among] = -np.inf
            found |= set(np.argpartition(table.ravel(), -2)[-2:].tolist())
        pairs = np.stack(np.divmod(np.array(sorted(found)), count), axis=1)
        return np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)

    def held(self, telling: Integers) -> Integers:
        """Pairs, and a record that all others may hold with which each tells much.

        Parameters
        ----------
        telling
            Pairs of rows that may be the worst, as `telling` finds them.

        Returns
        -------
        Rows ``(x0, x1, x2)``, some dozens.
        """
        count = len(self.rows)
        best, found = np.full(len(telling), -np.inf), np.zeros(len(telling), np.int64)
        tops, pairs = np.empty(count), np.empty((count, 2), np.int64)
        for held, others in enumerate(self.rows):
            table = distances(self.rows, others)
            table[~self.among] = -np.inf
            own = table[telling[:, 0], telling[:, 1]]
            best, found = np.maximum(best, own), np.where(own > best, held, found)
            pairs[held] = np.divmod(int(table.argmax()), count)
            tops[held] = table[tuple(pairs[held])]
        most = np.argsort(-tops, kind="stable")[:_KEPT]
        triples = np.concatenate(
            [np.column_stack([telling, found]), np.column_stack([pairs[most], most])]
        )
        return np.unique(np.concatenate([triples, triples[:, [1, 0, 2]]]), axis=0)

    def log_lead(self, eps: float, n: int, telling: Integers) -> float:
        """About `log_high`, at once.

        Parameters
        ----------
        eps
            At least 0.
        n
            Number of users, at least 1.
        telling
            Pairs of rows that may be the worst, as `telling` finds them.
        """
        at = self._leading(eps, n, telling)
        return log_saddle_point(self.law(telling[at], eps), n)

    def _leading(self, eps: float, n: int, telling: Integers) -> int:
        return int(np.argmax([log_saddle_point(self.law(pair, eps), n) for pair in telling]))

    def local(self, eps: float) -> tuple[Floats, Floats]:
        """Delta of each pair without a shuffler, and how much of it is apart; both rounded up.

        Shape ``(records, records)`` each.
        """
        lost = self.rows.min(axis=0) == 0.0
        total, apart = np.empty((2, len(self.rows), len(self.rows)))
        for x, first in enumerate(self.rows):
            gain, error = gains(first, self.rows, eps)
            total[x] = _apart(gain + error, 1.0)
            apart[x] = _apart((gain + error)[:, lost], 1.0)
        return total, apart

    def log_high(self, eps: float, n: int, telling: Integers) -> float:
        """Log of the largest mean excess of n copies of the G of a pair, rounded up.

        A progress bar on a terminal where it takes more than a second.

        Parameters
        ----------
        eps
            Central budget.
        n
            Number of copies.
        telling
            Pairs to look at first.
        """
        at = self._leading(eps, n, telling)
        first = self.law(telling[at], eps)
        worst = log_mean_excess_high(first, n)
        if self.size <= _FEW:
            few = np.delete(telling, at, axis=0)
            bounds = np.array([log_chernoff(self.law(pair, eps), n) for pair in few])
            return self._evaluated(few, bounds, worst, eps, n)
        tilted = Tilted.of(first, n)
        bounds = self._bounds(tilted, eps)
        bounds[tuple(telling[at])] = -np.inf
        pairs, bounds = self._merged(np.argwhere(bounds > worst), bounds[bounds > worst], eps)
        for grid in tilted.grids if tilted else ():
            bounds = np.minimum(bounds, self._screened(pairs, grid, eps))
            pairs, bounds = pairs[bounds > worst], bounds[bounds > worst]
        return self._evaluated(pairs, bounds, worst, eps, n)

    def _bounds(self, tilted: Tilted | None, eps: float) -> Floats:
        """Of all pairs at once, shape ``(records, records)``."""
        local, apart = self.local(eps)
        if tilted:
            chernoff = tilted.log_chernoff(self.rows, self.rows.min(axis=0), eps)
            local = np.minimum(local, np.exp(np.minimum(chernoff, 1.0)) + apart)
        with np.errstate(divide="ignore"):
            bounds = np.log(local * (1.0 + 2048.0 * UNIT))
        bounds[~self.among] = -np.inf
        return np.asarray(bounds)

    def _evaluated(
        self, pairs: Integers, bounds: Floats, worst: float, eps: float, n: int
    ) -> float:
        """The largest of what is known and the values of the pairs, likely ones first."""
        order = np.argsort(-bounds, kind="stable")
        chosen = order[:_EVALUATED]
        for at in tqdm(chosen, desc="worst pairs", leave=False, disable=None, delay=1.0):
            if bounds[at] > worst:
                worst = max(worst, log_mean_excess_high(self.law(pairs[at], eps), n))
        return max(worst, float(bounds[order[_EVALUATED:]].max(initial=-np.inf)))

    def _merged(self, pairs: Integers, bounds: Floats, eps: float) -> tuple[Integers, Floats]:
        """One pair of all those whose laws agree."""
        codes = [keys(*self._values(part, eps)) for part in self._parts(pairs)]
        if not codes:
            return pairs, bounds
        _, first = np.unique(np.concatenate(codes), axis=0, return_index=True)
        return pairs[first], bounds[first]

    def _screened(self, pairs: Integers, grid: Grid, eps: float) -> Floats:
        """Bounds of pairs by a grid."""
        found = []
        with tqdm(
            total=len(pairs), desc="pairs of records", leave=False, disable=None, delay=1.0
        ) as bar:
            for part in self._parts(pairs):
                values, masses, apart = self._values(part, eps)
                logs = grid.log_mean_excess(values, masses, _UNITS + 2.0 ** (54 - _BITS))
                found.append([with_apart(*each) for each in zip(logs, apart, strict=True)])
                bar.update(len(part))
        return np.concatenate([[], *found])

    def _parts(self, pairs: Integers) -> list[Integers]:
        size = max(_AT_ONCE // self.rows.shape[1], 1)
        return [pairs[at : at + size] for at in range(0, len(pairs), size)]

    def _values(self, pairs: Integers, eps: float) -> tuple[Floats, Floats, Floats]:
        """Values of G, moved up, shape ``(pairs, atoms)``; their masses; and what is apart."""
        shared = self.rows.min(axis=0)
        used = shared > 0.0
        gain, error = gains(self.rows[pairs[:, 0]], self.rows[pairs[:, 1]], eps)
        apart = _apart((gain + error)[:, ~used], 1.0) * (1.0 + 2.0 ** (1 - _BITS))
        values = (gain[:, used] + error[:, used]) / shared[used]
        return values, shared[used], apart


def keys(values: Floats, masses: Floats, apart: Floats) -> Integers:
    """Two numbers of each law, the same whatever the order of its atoms; shape ``(laws, 2)``.

    Parameters
    ----------
    values, masses
        Of the atoms, shape ``(laws, atoms)``; masses of all laws may be the same.
    apart
        A number of each law that must agree, too.
    """
    held, extra = _code(masses), _code(apart)
    found = []
    for factor in (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93):
        mixed = _mixed(_mixed(_code(values), factor) + held, factor).sum(axis=1, dtype=np.uint64)
        found.append(mixed + _mixed(extra, factor))
    return np.stack(found, axis=1).view(np.int64)


def _code(numbers: Floats) -> NDArray[np.uint64]:
    """The leading bits of each number, as one whole number."""
    mantissa, exponent = np.frexp(numbers)
    leading = np.round(mantissa * 2.0**_BITS).astype(np.int64)
    return (leading + (exponent.astype(np.int64) << (_BITS + 2))).view(np.uint64)


def _mixed(numbers: NDArray[np.uint64], factor: int) -> NDArray[np.uint64]:
    """Numbers that look drawn at random, the same for the same."""
    for shift in (32, 29):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(32))
