"""Whole numbers for a two-way table, such as of trips, that keep the sums of rows and columns."""

from typing import Any, Final

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow

from shuffledp.numerics.arrays import Floats, Integers

_MAX_ROUNDS: Final = 300
_CLOSE: Final = 1e-3  # records by which sums may differ before numbers are rounded


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
    found: Floats = np.take_along_axis(candidates, last[:, None], axis=1)[:, 0]
    return found


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
