"""Count records per cell and window, with a bound on the records of each user that count.

Nothing here writes, logs or prints a number of records. The records of a user that count are drawn
at random, independently of other users and of the order of the file.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shuffledp.accounting.contributions import Contributions
from shuffledp.errors import InputError
from shuffledp.geography.cells import Cells
from shuffledp.geography.checkins import CheckinError, read_batches
from shuffledp.geography.checkins_per_user import bounded_records
from shuffledp.geography.layer_files import is_layer
from shuffledp.geography.parquet_files import source_parts
from shuffledp.geography.row_conversion import MISSING
from shuffledp.geography.sources import COORDINATES, IDENTIFIER, Layout
from shuffledp.geography.text_files import file_kind
from shuffledp.geography.windows import Windows
from shuffledp.numerics import number_parsing
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.tables import CHECKED

MAX_MALFORMED_SHARE: Final = 0.01  # share of malformed rows above which a file is refused
_CANONICAL_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,17}", re.ASCII)
_FIRST_NUMBER: Final = 2 * 10**18  # of the first user in the table; above all canonical integers
_MISSING: Final = -(2**63)
_BUFFER_RECORDS: Final = 1 << 22
_GROUPS: Final = 32  # into which users are divided, to save memory


@dataclass(frozen=True)
class Histogram:
    """Cells, windows of time if any, and the bound on contributions.

    The histogram has shape ``(windows * cells,)``, all cells of the first window first.
    """

    cells: Cells
    windows: Windows | None
    contributions: Contributions

    @property
    def size(self) -> int:
        """Number of counts."""
        return len(self.cells) * (1 if self.windows is None else len(self.windows))


def record_layout(
    source: Path,
    columns: Mapping[str, str | int],
    separator: str,
    time_format: str | None = None,
) -> Layout:
    """Return the layout of a file of records, or of a folder of parquet files.

    `columns` are those of latitude and longitude (none for a file of points), and optionally of
    identifier and time: all by name, or all by position in a file without a header.
    """
    if is_layer(source):
        return Layout("geo", ",", True, columns, time_format=time_format)
    parquet = source.is_dir() or file_kind(source) == "parquet"
    positions = [isinstance(column, int) for column in columns.values()]
    if any(positions) and not all(positions):
        raise InputError(
            "columns must be all names, or all positions in a file without a header, got "
            f"{', '.join(str(column) for column in columns.values())}"
        )
    kind = "parquet" if parquet else "csv"
    return Layout(kind, separator, not any(positions), columns, time_format=time_format)


def count_records(source: Path, layout: Layout, histogram: Histogram) -> Integers:
    """Count the records of a file or folder.

    Records outside the cells or windows do not count, nor do records without a user if users are
    protected. The result has shape ``(histogram.size,)``.

    A `CheckinError` is raised if the file cannot be read, more than 1 % of its rows are malformed,
    or no record lies in a cell. The message depends on the records: it is for the data holder only.
    """
    cells = len(histogram.cells)
    counts = np.zeros(histogram.size, dtype=np.int64)
    bounded: _Bounded | None = None
    if histogram.contributions.unit == "user":
        bounded = _Bounded(histogram.size, cells, histogram.contributions)
    for rows in _rows(source, layout):
        latitude, longitude = (rows[name].to_numpy() for name in COORDINATES)
        place = histogram.cells.locate(latitude, longitude)
        kept = place >= 0
        if histogram.windows is not None:
            window = histogram.windows.locate(rows["time"])
            kept &= window >= 0
            place = window * cells + place
        if bounded is None:
            counts += np.bincount(place[kept], minlength=histogram.size)
        else:
            bounded.add(place[kept], rows.filter(pa.array(kept)))
    if bounded is not None:
        counts = bounded.counts()
    if not counts.any():
        raise CheckinError(
            f"{source}: no record lies in a cell"
            + (" within the period" if histogram.windows else "")
            + ": check the columns (are latitude and longitude swapped?), the cells and the dates"
        )
    return counts


def _rows(source: Path, layout: Layout) -> Iterator[Any]:
    read = malformed = 0
    first = ""
    for part in source_parts(source, layout):
        for batch in read_batches(part, layout, progress=False):
            read += batch.table.num_rows + batch.malformed
            malformed += batch.malformed
            if batch.described and not first:
                row = batch.described[0]
                first = f"row {row.line} of {part.name}: {row.reason}"
            yield batch.table
    if malformed > MAX_MALFORMED_SHARE * read:
        raise CheckinError(
            f"{source}: more than {MAX_MALFORMED_SHARE:.0%} of the rows are malformed; the first "
            f"is {first}"
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

    def add(self, place: Integers, rows: Any) -> None:
        user, known = self._users.number(rows[IDENTIFIER])
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


class UserNumbers:
    """Assign numbers to users by their identifiers as written, without collisions.

    Fingerprints could collide, and two users who share m records are protected half as well. White
    space around an identifier does not matter. Integers of up to 18 digits in their usual
    form are their own numbers; all others are kept in a table, about 200 bytes each.
    """

    def __init__(self) -> None:
        self._numbers: dict[str | bytes, int] = {}

    def number(self, identifiers: Any) -> tuple[Integers, Any]:
        """Return the number of the user of each record, and which records have one.

        `identifiers` is a binary pyarrow array, null where an identifier is missing.
        """
        encoded = pc.dictionary_encode(identifiers)
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        numbers = _canonical(encoded.dictionary)
        if numbers is None:
            numbers = [self._number(each) for each in encoded.dictionary.to_pylist()]
        # A missing identifier gets the last entry.
        table = np.array([*numbers, _MISSING], dtype=np.int64)
        index = encoded.indices.fill_null(len(numbers)).to_numpy(zero_copy_only=False)
        number = table[index]
        return number, number != _MISSING

    def _number(self, identifier: bytes) -> int:
        try:
            text = identifier.decode().strip()
        except UnicodeDecodeError:  # from a text file in another encoding
            key = identifier.strip()
            return self._numbers.setdefault(key, _FIRST_NUMBER + len(self._numbers))
        if text in MISSING:
            return _MISSING
        if _CANONICAL_INTEGER.fullmatch(text):
            return int(text)
        return self._numbers.setdefault(text, _FIRST_NUMBER + len(self._numbers))


def _canonical(identifiers: Any) -> Any:
    """Return identifiers as integers if all have the form of `_CANONICAL_INTEGER`, else None."""
    try:
        texts = pc.cast(identifiers, pa.string())
    except pa.ArrowInvalid:  # bytes that are not UTF-8
        return None
    if not pc.all(pc.match_substring_regex(texts, rf"^({_CANONICAL_INTEGER.pattern})$")).as_py():
        return None
    return pc.cast(texts, pa.int64()).to_numpy()


def read_counts(source: Path, histogram: Histogram) -> Integers:
    """Read the counts of a csv or parquet file with columns ``cell`` (the cell's id) and ``count``.

    Cells that the file does not name have a count of 0. `histogram` has no windows. The result has
    shape ``(histogram.size,)``.
    """
    columns = _text_columns(source)
    number = {name: cell for cell, name in enumerate(histogram.cells.table["id"])}
    counts = np.zeros(histogram.size, dtype=np.int64)
    named = set[str]()
    for name, count in columns.itertuples(index=False):
        cell = str(name).strip()
        if cell not in number:
            raise InputError(
                f"{source}: the column cell has {cell!r}, which is not the id of a cell: "
                "--cell-id names the property of the polygons that contains the ids"
            )
        if cell in named:
            raise InputError(f"{source}: the column cell has {cell!r} twice: add up their counts")
        named.add(cell)
        try:
            counts[number[cell]] = number_parsing.whole(str(count))
        except ValueError:
            counts[number[cell]] = -1
        if counts[number[cell]] < 0:
            raise InputError(
                f"{source}: the count of {cell!r} must be a whole number of records, at least 0"
            )
    return counts


def _text_columns(source: Path) -> pd.DataFrame:
    names = ["cell", "count"]
    try:
        if source.suffix == ".parquet":
            return pd.read_parquet(source, columns=names, **CHECKED)
        return pd.read_csv(source, usecols=names, dtype=str, keep_default_na=False)[names]
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror or error}") from None
    except (ValueError, pa.ArrowException):
        raise InputError(
            f"{source} is not a table with columns cell and count: for records, give --latitude "
            "and --longitude"
        ) from None
