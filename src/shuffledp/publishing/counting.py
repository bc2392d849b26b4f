"""Count records per cell and window, with a bound on the records of each user that count.

Nothing here writes, logs or prints a number of records of a file that is accepted. The records of a
user that count are drawn at random, independently of other users and of the order of the file.
"""

import os
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shuffledp.accounting.contributions import Contributions
from shuffledp.data.cells import Cells
from shuffledp.data.checkins_per_user import bounded_records
from shuffledp.data.frames import Frame
from shuffledp.data.read import read_records
from shuffledp.data.records import CheckinError, Survey
from shuffledp.data.sources import COORDINATES, TO_COORDINATES, Layout
from shuffledp.data.users import UserNumbers
from shuffledp.data.windows import Windows
from shuffledp.errors import shortened
from shuffledp.numerics.arrays import Integers

MAX_MALFORMED_SHARE: Final = 0.01
"""Default of the share of malformed records above which a file is refused."""

_BUFFER_RECORDS: Final = 1 << 22
_GROUPS: Final = 32  # into which users are divided, to save memory


@dataclass(frozen=True)
class Histogram:
    """Cells, windows of time if any, and the bound on contributions.

    The histogram has shape ``(windows * areas,)``, all areas of the first window first. Areas are
    cells; for `flows`, pairs of the cells where a trip begins and ends, those of the first cell
    first.
    """

    cells: Cells
    windows: Windows | None
    contributions: Contributions
    flows: bool = False

    @property
    def areas(self) -> int:
        """Number of cells, or of pairs of them."""
        return len(self.cells) ** (2 if self.flows else 1)

    @property
    def size(self) -> int:
        """Number of counts."""
        return self.areas * (1 if self.windows is None else len(self.windows))


def count_records(
    source: Path | Frame,
    layout: Layout,
    histogram: Histogram,
    max_malformed_share: float = MAX_MALFORMED_SHARE,
) -> Integers:
    """Count the records of a file or folder.

    Records outside the cells or windows do not count, nor do records without a position, with the
    name of an unknown place, or without a user if users are protected. The result has shape
    ``(histogram.size,)``.

    A `CheckinError` is raised if the file cannot be read, too many of its records are malformed, or
    no record lies in a cell. The message depends on the records: it is for the data holder only.
    """
    areas = histogram.areas
    counts = np.zeros(histogram.size, dtype=np.int64)
    bounded: _Bounded | None = None
    if histogram.contributions.unit == "user":
        bounded = _Bounded(histogram.size, areas, histogram.contributions)
    survey = Survey(source, layout)
    zone = UTC if histogram.windows is None else histogram.windows.zone
    for part, batch in read_records(source, layout, zone, progress=False):
        survey.add(part, batch)
        rows = batch.rows
        place = _located(histogram.cells, rows, "place", COORDINATES)
        kept = place >= 0
        if histogram.flows:
            end = _located(histogram.cells, rows, "to_place", TO_COORDINATES)
            kept &= end >= 0
            place = place * len(histogram.cells) + end
        if histogram.windows is not None:
            window = histogram.windows.locate(rows["time"])
            kept &= window >= 0
            place = window * areas + place
        if bounded is not None:
            bounded.add(place[kept], rows["user"].filter(pa.array(kept)))
        else:
            counts += np.bincount(place[kept], minlength=histogram.size)
    survey.check(max_malformed_share)
    if bounded is not None:
        counts = bounded.counts()
    if not counts.any():
        hint = "are latitude and longitude swapped?"
        if "place" in layout.columns:
            hint = _ids_hint(histogram.cells)
        raise CheckinError(
            f"{source}: no record lies in a cell"
            + (" within the period" if histogram.windows else "")
            + f": check the columns ({hint}), the cells and the dates"
        )
    return counts


def _located(cells: Cells, rows: Any, place: str, coordinates: tuple[str, str]) -> Integers:
    """Return the cell that each record names, or that contains its coordinates; -1 for none."""
    if place in rows.column_names:
        return cells.numbers(rows[place])
    return cells.locate(*(rows[name].to_numpy() for name in coordinates))


def read_counts(source: Path | Frame, layout: Layout, histogram: Histogram) -> Integers:
    """Read counts from a file whose layout has the columns place (a cell's id) and count.

    Cells that the file does not name have a count of 0. `histogram` has no windows. The result has
    shape ``(histogram.size,)``. Raises `CheckinError` if the file cannot be read, a row is
    malformed, names no cell, or names one that an earlier row names.
    """
    counts = np.zeros(histogram.size, dtype=np.int64)
    named = np.zeros(histogram.size, dtype=bool)
    survey = Survey(source, layout)
    for part, batch in read_records(source, layout, progress=False):
        survey.add(part, batch)
        if batch.unplaced:
            raise CheckinError(f"{source} has counts without the id of a cell: add it")
        place = histogram.cells.numbers(batch.rows["place"])
        number, times = np.unique(place, return_counts=True)
        if len(number) and number[0] < 0:
            first = batch.rows["place"][int(np.flatnonzero(place < 0)[0])].as_py()
            text = first.decode(errors="replace") if isinstance(first, bytes) else str(first)
            raise CheckinError(
                f"{source}: the column {layout.columns['place']} has {shortened(repr(text))}, "
                f"which is not the id of a cell; {_ids_hint(histogram.cells)}"
            )
        if named[number].any() or (times > 1).any():
            cell = number[named[number] | (times > 1)][0]
            raise CheckinError(
                f"{source}: the column {layout.columns['place']} has "
                f"{histogram.cells.table['id'].iloc[cell]!r} twice: add up their counts"
            )
        named[number] = True
        counts[place] = batch.rows["count"].to_numpy()
    survey.check(0)
    return counts


def _ids_hint(cells: Cells) -> str:
    """Return how the ids of cells are written, and how those of polygons are chosen."""
    shown = ", ".join(repr(each) for each in cells.table["id"].iloc[:2])
    return (
        f"the ids of the cells are such as {shown} (--cell-id names the property of polygons or "
        "points that contains them)"
    )


class _Bounded:
    """Count at most m records of each user, the m with the smallest random priorities.

    The priorities of all records are independent and uniform, so that the records of a user that
    count are a uniform sample. Users are divided into groups, because a reduction takes several
    times the memory of the records that it reduces.
    """

    def __init__(self, size: int, cells: int, contributions: Contributions) -> None:
        self._size = size
        window = cells if contributions.windows > 1 else size  # counts that share a bound
        self._groups = [_Users(window, contributions) for _ in range(_GROUPS)]
        self._users = UserNumbers()
        self._priorities = _random_integers

    def add(self, place: Integers, users: Any) -> None:
        user, known = self._users.number(users)
        priority = self._priorities(int(known.sum()))
        number = user[known] % _GROUPS
        order = np.argsort(number, kind="stable")
        ends = np.searchsorted(number[order], np.arange(1, _GROUPS))
        records = user[known][order], place[known][order], priority[order]
        for group, *part in zip(
            self._groups, *(np.split(each, ends) for each in records), strict=True
        ):
            group.add(*part)

    def counts(self) -> Integers:
        counts = np.zeros(self._size, dtype=np.int64)
        for group in self._groups:
            counts += np.bincount(group.places(), minlength=self._size)
        return counts


def _random_integers(size: int) -> NDArray[np.uint64]:
    """Return independent integers of 64 bits from the operating system."""
    return np.frombuffer(os.urandom(8 * size), np.uint64)


class _Users:
    """Keep at most m records of each of some users.

    With `distinct`, only the record with the smallest priority is kept of several in one cell. When
    the buffer is full, records that can no longer be among the m are dropped. This changes no
    result, because m records with smaller priorities remain.
    """

    def __init__(self, window: int, contributions: Contributions) -> None:
        self._window = window
        self._contributions = contributions
        self._kept: tuple[Any, ...] = tuple(
            np.empty(0, kind) for kind in (np.int64, np.int64, np.uint64)
        )
        self._pending: list[tuple[Any, ...]] = []
        self._records = 0

    def add(self, user: Integers, place: Integers, priority: Any) -> None:
        self._pending.append((user, place, priority))
        self._records += priority.size
        if self._records > max(_BUFFER_RECORDS // _GROUPS, self._kept[0].size // 2):
            self._reduce()

    def places(self) -> Integers:
        """Return the place of each record that counts."""
        self._reduce()
        places: Integers = self._kept[1]
        return places

    def _reduce(self) -> None:
        parts = zip(self._kept, *self._pending, strict=True)
        user, place, priority = (np.concatenate(part) for part in parts)
        self._pending, self._records = [], 0
        kept = bounded_records(
            user,
            place,
            priority,
            self._contributions.records_per_user,
            distinct=self._contributions.distinct,
            group=place // self._window,
        )
        self._kept = user[kept], place[kept], priority[kept]
