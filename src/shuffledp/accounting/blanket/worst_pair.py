"""Privacy-blanket bound of a randomiser with many records: the maximum over all pairs of records.

Every pair (x0, x1) has cheap upper bounds: its delta without a shuffler, Chernoff's bound, which
takes one matrix product for all pairs, and the mean excess on a coarse grid (`coarse_mean_excess`).
Only pairs whose bounds exceed the largest value so far are evaluated. The bounds are certified, so
the worst pair is never missed. ``R(y|x)`` is the probability of report y for record x.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from shuffledp.accounting.blanket.atoms import (
    Atoms,
    add_exclusive_delta,
    log_chernoff,
    log_saddle_point,
)
from shuffledp.accounting.blanket.coarse_mean_excess import Grid, Tilted
from shuffledp.accounting.blanket.mean_excess import log_mean_excess_high
from shuffledp.numerics.arrays import UNIT, Bools, Floats, Integers

# Pairs whose laws agree to 2^-40 (relative) are merged. Symmetric matrices have many such pairs.
KEY_BITS = 40
# Relative error of values and masses, in units of rounding, due to three entries and exp(eps).
ENTRY_UNITS = 16.0
# Up to this number of pairs, all are evaluated without coarse bounds.
MAX_PAIRS_WITHOUT_BOUNDS = 20
# Largest number of evaluated pairs. If more remain, the largest of their bounds is used.
MAX_EVALUATED_PAIRS = 128
# Number of matrix entries processed at once.
ENTRIES_AT_ONCE = 2**18
# Number of additional triples in `with_others_record`.
KEPT_TRIPLES = 16


def difference(first: Floats, second: Floats, shared: Floats, eps: float, sign: float) -> Atoms:
    """Return the law of ``G = (R(y|x0) - exp(eps) R(y|x1)) / w(y)``, where y has mass w(y).

    Parameters
    ----------
    first, second
        ``R(.|x0)`` and ``R(.|x1)``, shape ``(reports,)``, accurate to 2 units of rounding.
    shared
        w, equally accurate. Reports with ``w(y) = 0`` contribute the positive part of the
        difference to `Atoms.exclusive_delta`.
    eps
        Central budget.
    sign
        Direction in which `exclusive_delta` is rounded: up (1) or down (-1).
    """
    used = shared > 0.0
    gain, error = gains(first, second, eps)
    exclusive_delta = _exclusive_delta(gain[~used] + sign * error[~used], sign)
    mass = shared[used]
    return Atoms(gain[used] / mass, mass, ENTRY_UNITS, error[used] / mass, float(exclusive_delta))


def widened(law: Atoms) -> Atoms:
    """Return the law with its errors enlarged to cover all laws that have the same `keys`."""
    extra_units = 2.0 ** (54 - KEY_BITS)
    return replace(
        law,
        units=law.units + extra_units,
        exclusive_delta=law.exclusive_delta * (1.0 + extra_units * UNIT),
    )


def gains(first: Floats, second: Floats, eps: float) -> tuple[Floats, Floats]:
    """Return ``R(y|x0) - exp(eps) R(y|x1)`` and its absolute error.

    ``first`` and ``second`` are ``R(.|x0)`` and ``R(.|x1)``, and are broadcast. The error covers 2
    units of rounding of each entry and of exp(eps), and the rounding of the difference. Where the
    first entry is 0, the error is set to 0: the difference is certainly not positive.
    """
    gain = (first - second) - np.expm1(eps) * second
    error = 16.0 * UNIT * (first + np.exp(eps) * second)
    return gain, np.where(first > 0.0, error, 0.0)


def _exclusive_delta(gains: Floats, sign: float) -> Floats:
    total = np.maximum(gains, 0.0).sum(axis=-1)
    return np.asarray(total * (1.0 + sign * (gains.shape[-1] + 8.0) * UNIT))


def distances(rows: Floats, others: Floats) -> Floats:
    """Return squared distances of all pairs of rows, weighted by the inverse of ``others``.

    They estimate how well two records can be distinguished among reports with the law ``others``.
    """
    # Reports that the others never send get a huge weight: they distinguish rows with certainty.
    scaled = rows / np.sqrt(np.maximum(others, UNIT * rows.max(axis=0)))
    squares = (scaled**2).sum(axis=1)
    return np.asarray(squares[:, None] + squares - 2.0 * scaled @ scaled.T)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Ordered pairs of different records that are neighbours.

    Attributes
    ----------
    rows
        Probabilities of the reports for each record, shape ``(records, reports)``, accurate to 2
        units of rounding.
    near
        Symmetric table of neighbours, shape ``(records, records)``; None if all are neighbours.
    """

    rows: Floats
    near: Bools | None = None

    @cached_property
    def adjacency(self) -> Bools:
        """Table of neighbours with a false diagonal, shape ``(records, records)``."""
        count = len(self.rows)
        table = np.ones((count, count), bool) if self.near is None else self.near.copy()
        np.fill_diagonal(table, False)
        return table

    @property
    def size(self) -> int:
        """Number of pairs."""
        return int(self.adjacency.sum())

    def law(self, pair: Integers, eps: float) -> Atoms:
        """Return the law of G for a pair, with errors that cover all pairs with the same `keys`."""
        first, second = self.rows[pair]
        return widened(difference(first, second, self.rows.min(axis=0), eps, 1.0))

    def distinguishable(self, horizon: float) -> Integers:
        """Return a few dozen pairs, shape ``(pairs, 2)``; one is probably close to the worst.

        ``horizon`` is the largest eps of interest.
        """
        count = len(self.rows)
        if self.size <= MAX_PAIRS_WITHOUT_BOUNDS:
            return np.argwhere(self.adjacency)
        tables = [self.local(share * horizon)[0] for share in (0.0, 0.02, 0.1, 0.3, 0.6, 0.9)]
        flat_indices = set[int]()
        for table in (*tables, distances(self.rows, self.rows.min(axis=0))):
            table[~self.adjacency] = -np.inf
            flat_indices |= set(np.argpartition(table.ravel(), -2)[-2:].tolist())
        pairs = np.stack(np.divmod(np.array(sorted(flat_indices)), count), axis=1)
        return np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)

    def with_others_record(self, distinguishable: Integers) -> Integers:
        """Return a few dozen triples for which delta is probably large, one in each row.

        A triple ``(x0, x1, x2)`` is a pair and the record that all other users hold. The argument
        is the result of the method `distinguishable`, whose pairs are included.
        """
        count = len(self.rows)
        best, best_record = (
            np.full(len(distinguishable), -np.inf),
            np.zeros(len(distinguishable), np.int64),
        )
        largest, pairs = np.empty(count), np.empty((count, 2), np.int64)
        for record, others in enumerate(self.rows):
            table = distances(self.rows, others)
            table[~self.adjacency] = -np.inf
            current = table[distinguishable[:, 0], distinguishable[:, 1]]
            best_record = np.where(current > best, record, best_record)
            best = np.maximum(best, current)
            pairs[record] = np.divmod(int(table.argmax()), count)
            largest[record] = table[tuple(pairs[record])]
        kept = np.argsort(-largest, kind="stable")[:KEPT_TRIPLES]
        triples = np.concatenate(
            [np.column_stack([distinguishable, best_record]), np.column_stack([pairs[kept], kept])]
        )
        return np.unique(np.concatenate([triples, triples[:, [1, 0, 2]]]), axis=0)

    def log_blanket_estimate(self, eps: float, n: int, distinguishable: Integers) -> float:
        """Return a cheap estimate of `log_high`, without a guarantee."""
        at = self._leading(eps, n, distinguishable)
        return log_saddle_point(self.law(distinguishable[at], eps), n)

    def _leading(self, eps: float, n: int, distinguishable: Integers) -> int:
        return int(
            np.argmax([log_saddle_point(self.law(pair, eps), n) for pair in distinguishable])
        )

    def local(self, eps: float) -> tuple[Floats, Floats]:
        """Return the delta of each pair without a shuffler, and its `Atoms.exclusive_delta`.

        Both are rounded up and have shape ``(records, records)``.
        """
        not_shared = self.rows.min(axis=0) == 0.0
        total, exclusive_delta = np.empty((2, len(self.rows), len(self.rows)))
        for x, first in enumerate(self.rows):
            gain, error = gains(first, self.rows, eps)
            total[x] = _exclusive_delta(gain + error, 1.0)
            exclusive_delta[x] = _exclusive_delta((gain + error)[:, not_shared], 1.0)
        return total, exclusive_delta

    def log_high(self, eps: float, n: int, distinguishable: Integers) -> float:
        """Return an upper bound on the log mean excess of n copies of G for every pair.

        This is the blanket bound on log delta of n users. The pairs of ``distinguishable`` are
        evaluated first. A progress bar appears on a terminal after a second.
        """
        at = self._leading(eps, n, distinguishable)
        first = self.law(distinguishable[at], eps)
        worst = log_mean_excess_high(first, n)
        if self.size <= MAX_PAIRS_WITHOUT_BOUNDS:
            remaining = np.delete(distinguishable, at, axis=0)
            bounds = np.array([log_chernoff(self.law(pair, eps), n) for pair in remaining])
            return self._evaluated(remaining, bounds, worst, eps, n)
        tilted = Tilted.from_law(first, n)
        bounds = self._bounds(tilted, eps)
        bounds[tuple(distinguishable[at])] = -np.inf
        pairs, bounds = self._merged(np.argwhere(bounds > worst), bounds[bounds > worst], eps)
        for grid in tilted.grids if tilted else ():
            bounds = np.minimum(bounds, self._grid_bounds(pairs, grid, eps))
            pairs, bounds = pairs[bounds > worst], bounds[bounds > worst]
        return self._evaluated(pairs, bounds, worst, eps, n)

    def _bounds(self, tilted: Tilted | None, eps: float) -> Floats:
        """Return cheap upper bounds on the log mean excess, shape ``(records, records)``."""
        local, exclusive_delta = self.local(eps)
        if tilted:
            chernoff = tilted.log_chernoff(self.rows, self.rows.min(axis=0), eps)
            local = np.minimum(local, np.exp(np.minimum(chernoff, 1.0)) + exclusive_delta)
        with np.errstate(divide="ignore"):
            bounds = np.log(local * (1.0 + 2048.0 * UNIT))
        bounds[~self.adjacency] = -np.inf
        return np.asarray(bounds)

    def _evaluated(
        self, pairs: Integers, bounds: Floats, worst: float, eps: float, n: int
    ) -> float:
        """Return the maximum of ``worst`` and upper bounds for the pairs, largest bounds first."""
        order = np.argsort(-bounds, kind="stable")
        chosen = order[:MAX_EVALUATED_PAIRS]
        for at in tqdm(chosen, desc="worst pairs", leave=False, disable=None, delay=1.0):
            if bounds[at] > worst:
                worst = max(worst, log_mean_excess_high(self.law(pairs[at], eps), n))
        return max(worst, float(bounds[order[MAX_EVALUATED_PAIRS:]].max(initial=-np.inf)))

    def _merged(self, pairs: Integers, bounds: Floats, eps: float) -> tuple[Integers, Floats]:
        """Return one pair, and its bound, for each set of pairs with the same law."""
        codes = [keys(*self._values(block, eps)) for block in self._blocks(pairs)]
        if not codes:
            return pairs, bounds
        _, first = np.unique(np.concatenate(codes), axis=0, return_index=True)
        return pairs[first], bounds[first]

    def _grid_bounds(self, pairs: Integers, grid: Grid, eps: float) -> Floats:
        """Return upper bounds on the log mean excess of pairs, computed on a grid."""
        bounds = []
        with tqdm(
            total=len(pairs), desc="pairs of records", leave=False, disable=None, delay=1.0
        ) as bar:
            for block in self._blocks(pairs):
                values, masses, exclusive_delta = self._values(block, eps)
                logs = grid.log_mean_excess(values, masses, ENTRY_UNITS + 2.0 ** (54 - KEY_BITS))
                bounds.append(
                    [add_exclusive_delta(*each) for each in zip(logs, exclusive_delta, strict=True)]
                )
                bar.update(len(block))
        return np.concatenate([[], *bounds])

    def _blocks(self, pairs: Integers) -> list[Integers]:
        size = max(ENTRIES_AT_ONCE // self.rows.shape[1], 1)
        return [pairs[at : at + size] for at in range(0, len(pairs), size)]

    def _values(self, pairs: Integers, eps: float) -> tuple[Floats, Floats, Floats]:
        """Return values of G, rounded up, shape ``(pairs, atoms)``; masses; `exclusive_delta`."""
        shared = self.rows.min(axis=0)
        used = shared > 0.0
        gain, error = gains(self.rows[pairs[:, 0]], self.rows[pairs[:, 1]], eps)
        exclusive_delta = _exclusive_delta((gain + error)[:, ~used], 1.0) * (
            1.0 + 2.0 ** (1 - KEY_BITS)
        )
        values = (gain[:, used] + error[:, used]) / shared[used]
        return values, shared[used], exclusive_delta


def keys(values: Floats, masses: Floats, exclusive_delta: Floats) -> Integers:
    """Return two hash values of each law, independent of the order of atoms, shape ``(laws, 2)``.

    Values and masses of the atoms have shape ``(laws, atoms)``, or the laws share their masses.
    """
    mass_codes, delta_codes = _code(masses), _code(exclusive_delta)
    hashes = []
    for factor in (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93):
        mixed = _mixed(_mixed(_code(values), factor) + mass_codes, factor).sum(
            axis=1, dtype=np.uint64
        )
        hashes.append(mixed + _mixed(delta_codes, factor))
    return np.stack(hashes, axis=1).view(np.int64)


def _code(numbers: Floats) -> NDArray[np.uint64]:
    """Return `KEY_BITS` leading bits and the exponent of each number as one integer."""
    mantissa, exponent = np.frexp(numbers)
    leading = np.round(mantissa * 2.0**KEY_BITS).astype(np.int64)
    return (leading + (exponent.astype(np.int64) << (KEY_BITS + 2))).view(np.uint64)


def _mixed(numbers: NDArray[np.uint64], factor: int) -> NDArray[np.uint64]:
    """Return a multiplicative hash of each number."""
    for shift in (32, 29):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(32))
