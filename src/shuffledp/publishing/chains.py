"""Least squares for sums of nested groups: every group is measured, and the results add up.

A chain divides the leaves of one axis, cells or windows, into ever coarser groups. Each level has
noisy sums of its groups with one weight, the inverse of their variance. Weighted least squares give
estimates of the leaves in two passes (Hay, Rastogi, Miklau and Suciu, VLDB 2010): upwards, the
noisy sum of a group is combined with the sum of its children; downwards, the difference between a
group and the sum of its children is divided among them in proportion to their variances.

For two axes whose levels are measured in all combinations, with weights that are products, the
normal equations are a Kronecker product, so that one axis after the other is solved. `Pairs` has
two axes of its own: where trips begin and where they end.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import Any, Final, TypeAlias

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats, Integers

_SIGNIFICANT: Final = 12  # digits in which weights of noises differ
_MAX_ROUNDS: Final = 300  # in which the table with given sums is approached
_CLOSE: Final = 1e-3  # records by which sums may differ before numbers are rounded


@dataclass(frozen=True)
class Chain:
    """Nested groups of leaves, and a weight of each level.

    ``groups`` has for each level, finest first, the number of the group of each leaf, shape
    ``(leaves,)``; that of the first level is ``arange(leaves)``. Numbers begin with 0, and every
    group of a level lies in one group of the next level. ``weights`` are positive, or 0 for a level
    above the first that is not measured.
    """

    groups: tuple[Integers, ...]
    weights: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.groups)

    @cached_property
    def sizes(self) -> tuple[Integers, ...]:
        """Number of leaves of each group of each level."""
        return tuple(np.bincount(group) for group in self.groups)

    @cached_property
    def parents(self) -> tuple[Integers, ...]:
        """Group of the next level that contains each group, for all levels but the last."""
        found = []
        for finer, coarser in pairwise(self.groups):
            parent = np.empty(int(finer.max()) + 1, dtype=np.int64)
            parent[finer] = coarser
            if (parent[finer] != coarser).any():
                raise InputError("groups of one level are not contained in those of the next")
            found.append(parent)
        return tuple(found)

    @cached_property
    def _variances(self) -> tuple[Floats, ...]:
        """Variance of each group's estimate from itself and its descendants."""
        variances = [np.full(self.sizes[0].size, 1.0 / self.weights[0])]
        for parent, weight in zip(self.parents, self.weights[1:], strict=True):
            variances.append(1.0 / (weight + 1.0 / np.bincount(parent, variances[-1])))
        return tuple(variances)

    def sums(self, level: int, values: Floats) -> Floats:
        """Return the sums over the groups of a level; `values` has shape ``(leaves, ...)``."""
        return _sums(self.groups[level], values, self.sizes[level].size)

    def solve(self, noisy: Sequence[Floats]) -> Floats:
        """Return the least-squares estimates of the leaves, shape ``(leaves, ...)``.

        `noisy` has the noisy sums of each level, shape ``(groups of the level, ...)``. The
        estimates of groups are the sums of those of their leaves.
        """
        variances, parents = self._variances, self.parents
        upward, below = [np.asarray(noisy[0], dtype=np.float64)], []
        for level, parent in enumerate(parents, 1):
            below.append(_sums(parent, upward[-1], variances[level].size))
            share = _like(self.weights[level] * variances[level], below[-1])
            upward.append(below[-1] + share * (noisy[level] - below[-1]))
        estimates = upward[-1]
        for level in range(len(parents) - 1, -1, -1):
            parent = parents[level]
            total = np.bincount(parent, variances[level])
            share = _like(variances[level] / total[parent], upward[level])
            estimates = upward[level] + share * (estimates - below[level])[parent]
        return estimates

    @cached_property
    def variances(self) -> tuple[Floats, ...]:
        """Variances of the estimates of each level's groups, if weights are inverse variances."""
        found = [self._variances[-1]]
        for level in range(len(self.parents) - 1, -1, -1):
            parent, own = self.parents[level], self._variances[level]
            total = np.bincount(parent, own)
            # The estimate is z + (own / total) (x - s), with x of the parent and s of all children.
            moved = (own / total[parent]) ** 2 * (found[-1] - total)[parent]
            found.append(own + moved)
        return tuple(reversed(found))

    def influence(self, target: Floats) -> list[Floats]:
        """Return how much each noisy sum contributes to the estimate of a sum of leaves.

        `target` is the weight of each leaf in the sum, shape ``(leaves, ...)``. The result has an
        array for each level, shape ``(groups of the level, ...)``.
        """
        # The estimator is S = M^-1 A^T W with A = I at the finest level, and M is symmetric, so
        # that W A (M^-1 target) is the transpose of S times target.
        zeros = [np.zeros((size.size, *target.shape[1:])) for size in self.sizes[1:]]
        solved = self.solve([target / self.weights[0], *zeros])
        return [w * self.sums(level, solved) for level, w in enumerate(self.weights)]

    def distinct_influence(self, level: int, group: int) -> list[tuple[Floats, Floats]]:
        """Return `distinct` of the influence of each level on the estimate of one group."""
        return [distinct(each) for each in self.influence((self.groups[level] == group) * 1.0)]

    def whole_numbers(self, estimates: Floats) -> Integers:
        """Return non-negative integers close to estimates, whose sums are close to those of groups.

        From the coarsest level downwards, the children of a group get the non-negative numbers with
        its sum that are closest to their estimates (in the sense of least squares), rounded so that
        the sum stays the same. `estimates` has shape ``(leaves,)``.
        """
        total = np.maximum(np.rint(self.sums(len(self) - 1, estimates)), 0.0)
        for level in range(len(self) - 2, -1, -1):
            total = _divided(self.parents[level], self.sums(level, estimates), total)
        return total.astype(np.int64)

    @cached_property
    def classes(self) -> tuple[tuple[Integers, Integers], ...]:
        """Groups of each level whose estimates have the same law up to a permutation of the noise.

        For each level: the number of the class of each group, and one group of each class. Two
        groups are in one class if the chain below them, and all ancestors, look alike.
        """
        shapes = [np.zeros(self.sizes[0].size, dtype=np.int64)]
        for parent in self.parents:
            each, times = np.unique(_paired(parent, shapes[-1]), return_counts=True)
            owner, shape = np.divmod(each, shapes[-1].max() + 1)
            ends = np.flatnonzero(np.diff(owner)) + 1
            children = zip(np.split(shape, ends), np.split(times, ends), strict=True)
            known: dict[bytes, int] = {}
            kinds = [known.setdefault(np.stack(child).tobytes(), len(known)) for child in children]
            shapes.append(np.array(kinds))
        found = [shapes[-1]]
        for shape, parent in zip(shapes[-2::-1], self.parents[::-1], strict=True):
            found.append(np.unique(_paired(shape, found[-1][parent]), return_inverse=True)[1])
        return tuple((label, np.unique(label, return_index=True)[1]) for label in reversed(found))


@dataclass(frozen=True)
class Pairs:
    """Pairs of a leaf of two chains, such as where a trip begins and where it ends.

    Levels are all combinations of a level of each chain, those with the finest level of the first
    chain first; their weights are the products of those of both. Leaves, and the groups of a level,
    are numbered likewise. Methods are those of a `Chain`.
    """

    first: Chain
    second: Chain

    def __len__(self) -> int:
        return len(self.first) * len(self.second)

    @cached_property
    def sizes(self) -> tuple[Integers, ...]:
        """Number of leaves of each group of each level."""
        both = product(self.first.sizes, self.second.sizes)
        return tuple(np.multiply.outer(a, b).ravel() for a, b in both)

    def sums(self, level: int, values: Floats) -> Floats:
        """Return the sums over the groups of a level; `values` has shape ``(leaves, ...)``."""
        i, j = divmod(level, len(self.second))
        table = self._table(values, (0, 0))
        by_first = self.first.sums(i, table)
        return _flat(_swapped(self.second.sums(j, _swapped(by_first))))

    def solve(self, noisy: Sequence[Floats]) -> Floats:
        """Return the least-squares estimates of the leaves, shape ``(leaves, ...)``."""
        m = len(self.second)
        solved = [
            _swapped(
                self.second.solve(
                    [_swapped(self._table(noisy[i * m + j], (i, j))) for j in range(m)]
                )
            )
            for i in range(len(self.first))
        ]
        return _flat(self.first.solve(solved))

    def influence(self, target: Floats) -> list[Floats]:
        """Return how much each noisy sum contributes to the estimate of a sum of leaves."""
        by_second = self.second.influence(_swapped(self._table(target, (0, 0))))
        columns = [self.first.influence(_swapped(each)) for each in by_second]
        return [_flat(columns[j][i]) for i in range(len(self.first)) for j in range(len(columns))]

    def distinct_influence(self, level: int, group: int) -> list[tuple[Floats, Floats]]:
        """Return `distinct` of the influence of each level on the estimate of one group."""
        i, j = divmod(level, len(self.second))
        own, other = divmod(group, self.second.sizes[j].size)
        both = product(
            self.first.distinct_influence(i, own), self.second.distinct_influence(j, other)
        )
        return [
            (np.multiply.outer(a, b).ravel(), np.multiply.outer(m, n).ravel())
            for (a, m), (b, n) in both
        ]

    def whole_numbers(self, estimates: Floats) -> Integers:
        """Return non-negative integers close to estimates, whose sums are close to those of groups.

        Those of the leaves of each chain are found first, and then pairs with these sums.
        """
        table = self._table(estimates, (0, 0))
        rows = self.first.whole_numbers(table.sum(axis=1))
        columns = self.second.whole_numbers(table.sum(axis=0)).astype(np.float64)
        # Chains whose coarsest levels differ may have different totals.
        one = np.zeros(len(columns), dtype=np.int64)
        columns = _divided(one, columns, np.array([float(rows.sum())]))
        return whole_table(table, rows, columns.astype(np.int64)).ravel()

    @cached_property
    def classes(self) -> tuple[tuple[Integers, Integers], ...]:
        """Groups of each level whose estimates have the same law, as in a `Chain`."""
        found = []
        for (a, _), (b, _) in product(self.first.classes, self.second.classes):
            label = np.add.outer(a * (b.max() + 1), b).ravel()
            found.append(np.unique(label, return_index=True, return_inverse=True)[1:][::-1])
        return tuple(found)

    def _table(self, values: Floats, levels: tuple[int, int]) -> Floats:
        rows = self.first.sizes[levels[0]].size
        columns = self.second.sizes[levels[1]].size
        return np.reshape(values, (rows, columns, *np.shape(values)[1:]))


Structure: TypeAlias = Chain | Pairs


def _swapped(table: Floats) -> Floats:
    return np.swapaxes(table, 0, 1)


def _flat(table: Floats) -> Floats:
    return np.reshape(table, (-1, *table.shape[2:]))


def distinct(influence: Floats) -> tuple[Floats, Floats]:
    """Return the absolute values other than 0, and how many there are of each."""
    values = np.abs(influence[influence != 0.0])
    scale = 10.0 ** (_SIGNIFICANT - 1 - np.floor(np.log10(values)))
    values, times = np.unique(np.rint(values * scale) / scale, return_counts=True)
    return values, times.astype(np.float64)


def _paired(first: Integers, second: Integers) -> Integers:
    return np.asarray(first * (second.max() + 1) + second)


def _sums(group: Integers, values: Floats, groups: int) -> Floats:
    if values.ndim == 1:
        return np.asarray(np.bincount(group, values, groups), dtype=np.float64)
    result = np.zeros((groups, *values.shape[1:]), dtype=values.dtype)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    result[group[order[starts]]] = np.add.reduceat(values[order], starts, axis=0)
    return result


def _like(values: Floats, array: Floats) -> Floats:
    """Return values of the first axis in a shape that is multiplied with an array."""
    return values.reshape(-1, *[1] * (array.ndim - 1))


def divided(times: Chain, estimates: Floats, totals: Integers) -> Integers:
    """Divide whole numbers of the coarsest level of times among the windows.

    `estimates` has shape ``(windows, cells)``, `totals` ``(times, cells)``.
    """
    cells = estimates.shape[1]
    whole = totals.astype(np.float64)
    for level in range(len(times) - 2, -1, -1):
        parent = np.add.outer(times.parents[level] * cells, np.arange(cells)).ravel()
        finer = times.sums(level, estimates)
        whole = _divided(parent, finer.ravel(), whole.ravel()).reshape(finer.shape)
    return whole.astype(np.int64)


def _divided(parent: Integers, values: Floats, totals: Floats) -> Floats:
    """Return non-negative integers close to `values` whose sums over each parent are `totals`."""
    order = np.lexsort((-values, parent))
    sorted_parent, sorted_values = parent[order], values[order]
    starts = np.flatnonzero(np.diff(sorted_parent, prepend=-1))
    sizes = np.diff(np.append(starts, order.size))
    # A shift of all values of a group changes nothing, and smaller numbers lose fewer digits.
    sorted_values = sorted_values - np.repeat(np.add.reduceat(sorted_values, starts) / sizes, sizes)
    rank = np.arange(order.size) - np.repeat(starts, sizes)
    running = np.cumsum(sorted_values)
    running -= np.repeat(running[starts] - sorted_values[starts], sizes)
    # Projection on a simplex: subtract the threshold of the largest number of positive entries.
    threshold = (running - totals[sorted_parent]) / (rank + 1.0)
    last = np.maximum.reduceat(np.where(sorted_values > threshold, rank, 0), starts)
    kept = np.maximum(sorted_values - np.repeat(threshold[starts + last], sizes), 0.0)
    floor = np.floor(kept)
    missing = np.rint(totals[sorted_parent[starts]] - np.add.reduceat(floor, starts))
    # The entries with the largest remainders are rounded up.
    by_remainder = np.lexsort((-(kept - floor), sorted_parent))
    floor[by_remainder] += rank < np.repeat(missing, sizes)
    result: Floats = np.empty_like(floor)
    result[order] = floor
    return result


# --- Two-way tables ---------------------------------------------------------------------------


def whole_table(estimates: Floats, rows: Integers, columns: Integers) -> Integers:
    """Return non-negative integers close to estimates, with the given sums of rows and columns.

    `estimates` has shape ``(r, c)``, `rows` ``(r,)`` and `columns` ``(c,)``; both are not negative
    and have the same sum. The closest table of real numbers (least squares) is rounded up or down
    by a network flow.
    """
    closest = _closest(estimates, rows.astype(np.float64), columns.astype(np.float64))
    slack = 0
    while True:
        low = np.maximum(np.floor(closest) - slack, 0.0).astype(np.int64)
        room = (np.ceil(closest) + slack).astype(np.int64) - low
        missing = rows - low.sum(axis=1), columns - low.sum(axis=0)
        if min(each.min() for each in missing) >= 0:
            added = _flow(room, *missing)
            if added.sum() == missing[0].sum():
                return np.asarray(low + added, dtype=np.int64)
        # Sums are not reached because the table is not quite the closest one.
        slack = 2 * slack + 1


def _closest(estimates: Floats, rows: Floats, columns: Floats) -> Floats:
    """Return the non-negative table with these sums that is closest to estimates.

    It is ``max(estimates - u_i - v_j, 0)``. For given v, each u follows from the sum of its row,
    and so on in turn, which maximises the dual function of one block after the other.
    """
    across, down = np.zeros(len(rows)), np.zeros(len(columns))
    for _ in range(_MAX_ROUNDS):
        across = _excess(estimates - down, rows)
        down = _excess((estimates - across[:, None]).T, columns)
        table: Floats = np.maximum(estimates - across[:, None] - down, 0.0)
        if np.abs(table.sum(axis=1) - rows).max() < _CLOSE:
            break
    return table


def _excess(values: Floats, totals: Floats) -> Floats:
    """Return t for each row such that the sum of ``max(values - t, 0)`` is its total."""
    falling = -np.sort(-values, axis=1)
    number = np.arange(1, values.shape[1] + 1)
    candidates = (np.cumsum(falling, axis=1) - totals[:, None]) / number
    last = np.maximum((falling > candidates).sum(axis=1) - 1, 0)
    return np.asarray(np.take_along_axis(candidates, last[:, None], axis=1)[:, 0])


def _flow(room: Integers, rows: Integers, columns: Integers) -> Integers:
    """Return the largest table of at most `room` whose sums are at most those given."""
    r, c = room.shape
    begin, end = np.nonzero(room)
    source, sink = r + c, r + c + 1
    tails = np.concatenate([begin, np.full(r, source), r + np.arange(c)])
    heads = np.concatenate([r + end, np.arange(r), np.full(c, sink)])
    capacity: Any = np.concatenate([room[begin, end], rows, columns]).astype(np.int32)
    graph = coo_array((capacity, (tails, heads)), shape=(r + c + 2, r + c + 2)).tocsr()
    flow = maximum_flow(graph, source, sink).flow
    return np.asarray(flow[:r, r : r + c].todense(), dtype=np.int64)
