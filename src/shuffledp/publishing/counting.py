"""Count records per cell and window, with a bound on the records of each user that count.

Nothing here writes, logs or prints a number of records of a file that is accepted. The records of a
user that count are drawn at random, independently of other users and of the order of the file.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shuffledp.accounting.contributions import Contributions
from shuffledp.data.cells import Cells
from shuffledp.data.read import read_records
from shuffledp.data.records import CheckinError, Frame, Survey
from shuffledp.data.sources import COORDINATES, TO_COORDINATES, Layout
from shuffledp.data.users import UserNumbers, bounded_records
from shuffledp.data.windows import Windows
from shuffledp.errors import shortened
from shuffledp.numerics.arrays import Integers

MAX_MALFORMED_SHARE: Final = 0.01
"""Default of the share of malformed records above which a file is refused."""

_BUFFER_RECORDS: Final = 1 << 22
_MAX_LISTED: Final = 4_000_000  # counts in memory, including those that are 0
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

    def filled(self, places: Integers, counts: Integers) -> Integers:
        """Return all counts, shape ``(size,)``, from those above 0 and their numbers."""
        every = np.zeros(self.size, dtype=np.int64)
        every[places] = counts
        return every


def count_records(
    source: Path | Frame,
    layout: Layout,
    histogram: Histogram,
    max_malformed_share: float = MAX_MALFORMED_SHARE,
) -> tuple[Integers, Integers]:
    """Count the records of a file or folder.

    Records outside the cells or windows do not count, nor do records without a position, with the
    name of an unknown place, or without a user if users are protected. The result has the numbers
    of the counts above 0, in ascending order, and these counts.

    A `CheckinError` is raised if the file cannot be read, too many of its records are malformed, or
    no record lies in a cell. The message depends on the records: it is for the data holder only.
    """
    areas = histogram.areas
    counts = _Every(histogram.size) if histogram.size <= _MAX_LISTED else _Occurring()
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
            counts.add(place[kept])
    survey.check(max_malformed_share)
    if bounded is not None:
        for places in bounded.places():
            counts.add(places)
    found = counts.above_zero()
    if not found[0].size:
        hint = "are latitude and longitude swapped?"
        if "place" in layout.columns:
            hint = _ids_hint(histogram.cells)
        raise CheckinError(
            f"{source}: no record lies in a cell"
            + (" within the period" if histogram.windows else "")
            + f": check the columns ({hint}), the cells and the dates"
        )
    return found


def _located(cells: Cells, rows: Any, place: str, coordinates: tuple[str, str]) -> Integers:
    """Return the cell that each record names, or that contains its coordinates; -1 for none."""
    if place in rows.column_names:
        return cells.numbers(rows[place])
    return cells.locate(*(rows[name].to_numpy() for name in coordinates))


def read_counts(
    source: Path | Frame, layout: Layout, histogram: Histogram
) -> tuple[Integers, Integers]:
    """Read counts from a file whose layout has the columns place (a cell's id) and count.

    Cells that the file does not name have a count of 0. `histogram` has no windows. The result is
    that of `count_records`. Raises `CheckinError` if the file cannot be read, a row is
    malformed, names no cell, or names one that an earlier row names.
    """
    parts = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    survey = Survey(source, layout)
    for part, batch in read_records(source, layout, progress=False):
        survey.add(part, batch)
        if batch.unplaced:
            raise CheckinError(f"{source} has counts without the id of a cell: add it")
        place = histogram.cells.numbers(batch.rows["place"])
        if (place < 0).any():
            first = batch.rows["place"][int(np.flatnonzero(place < 0)[0])].as_py()
            text = first.decode(errors="replace") if isinstance(first, bytes) else str(first)
            raise CheckinError(
                f"{source}: the column {layout.columns['place']} has {shortened(repr(text))}, "
                f"which is not the id of a cell; {_ids_hint(histogram.cells)}"
            )
        parts.append((place, batch.rows["count"].to_numpy()))
    survey.check(0)
    places, counts = map(np.concatenate, zip(*parts, strict=True))
    distinct, first, times = np.unique(places, return_index=True, return_counts=True)
    if (times > 1).any():
        twice = histogram.cells.rows(distinct[times > 1][:1])["id"].iloc[0]
        raise CheckinError(
            f"{source}: the column {layout.columns['place']} has {twice!r} twice: add up their "
            "counts"
        )
    above = counts[first] > 0
    return distinct[above], counts[first][above]


def _ids_hint(cells: Cells) -> str:
    """Return how the ids of cells are written, and how those of polygons are chosen."""
    shown = ", ".join(repr(each) for each in cells.rows(np.arange(2))["id"])
    return (
        f"the ids of the cells are such as {shown} (--cell-id names the property of polygons or "
        "points that contains them)"
    )


class _Every:
    """Counts of all places."""

    def __init__(self, size: int) -> None:
        self._counts = np.zeros(size, dtype=np.int64)

    def add(self, places: Integers) -> None:
        self._counts += np.bincount(places, minlength=len(self._counts))

    def above_zero(self) -> tuple[Integers, Integers]:
        """Return the places that have records, in ascending order, and their counts."""
        places = np.flatnonzero(self._counts)
        return places, self._counts[places]


class _Occurring:
    """Counts of the places that have records; the others take no memory."""

    def __init__(self) -> None:
        self._parts: list[tuple[Integers, Integers]] = []
        self._size = 0

    def add(self, places: Integers) -> None:
        self._parts.append(np.unique(places, return_counts=True))
        self._size += len(self._parts[-1][0])
        if self._size > max(_BUFFER_RECORDS, 2 * len(self._parts[0][0])):
            self._parts = [self.above_zero()]
            self._size = len(self._parts[0][0])

    def above_zero(self) -> tuple[Integers, Integers]:
        """Return the places that have records, in ascending order, and their counts."""
        if not self._parts:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        places, counts = map(np.concatenate, zip(*self._parts, strict=True))
        distinct, index = np.unique(places, return_inverse=True)
        return distinct, np.bincount(index, weights=counts).astype(np.int64)


class _Bounded:
    """Count at most m records of each user, the m with the smallest random priorities.

    The priorities of all records are independent and uniform, so that the records of a user that
    count are a uniform sample. Users are divided into groups, because a reduction takes several
    times the memory of the records that it reduces.
    """

    def __init__(self, size: int, cells: int, contributions: Contributions) -> None:
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

    def places(self) -> Iterator[Integers]:
        """Yield the places of the records that count."""
        return (group.places() for group in self._groups)


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
        return np.asarray(self._kept[1])

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
