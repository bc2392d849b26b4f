"""Histograms, matrices and budgets that are given to the command in a file."""

import csv
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp.accounting.setting import LARGEST_EPS0, Setting
from shuffledp.cli import words
from shuffledp.errors import InputError, is_out_of_memory
from shuffledp.numerics import number_parsing
from shuffledp.numerics.arrays import Floats, Integers

_COLUMN = "count"
# Of a file that is read; as Python's objects they take half a gigabyte.
LARGEST_ROWS = 2_000_000


def read_histogram(source: Path) -> Integers:
    """Users per cell, shape ``(rows,)``: the column ``count`` of a csv or parquet file.

    A grid file of the pipeline is one. A file whose name does not end in ``.parquet`` is read as
    csv with a header.

    Raises
    ------
    InputError
        If the file cannot be read or has no such column, a value is not a whole number of users,
        or there is nobody.
    """
    needed = {_COLUMN: "the number of users of each cell"}
    counts = _whole_numbers(source, _COLUMN, read_columns(source, needed)[_COLUMN])
    if not counts.any():
        raise InputError(f"{source}: the column {_COLUMN} counts nobody")
    return counts


def histogram(source: str | None, n: int | None, k: int | None) -> tuple[int, Floats]:
    """Number of users, and shares of the cells: of a file, or uniform over k cells.

    Parameters
    ----------
    source
        As `read_histogram`; None for a uniform one.
    n, k
        Users and cells, where they are given; cells that the file does not have are empty.

    Raises
    ------
    InputError
        As `read_histogram`; if n or k is out of range, or there are fewer cells than in the file.
    """
    if source is None:
        if n is None or k is None:
            raise InputError("--n and --k are needed, or a --histogram that has them")
        Setting(n, k, 1.0)  # checks them, before an array of k cells is made
        return n, np.full(k, 1.0 / k)
    counts = read_histogram(Path(source))
    n, k = int(counts.sum()) if n is None else n, counts.size if k is None else k
    if k < counts.size:
        raise InputError(
            f"k must be at least the number of cells of {source}, {counts.size} (got k={k})"
        )
    Setting(n, k, 1.0)
    return n, np.pad(counts, (0, k - counts.size)) / counts.sum()


def _numbers(values: Sequence[Any]) -> Floats:
    """NaN for what is none."""

    def number(value: Any) -> float:
        try:
            return _number(value)
        except (TypeError, ValueError, OverflowError):
            return np.nan

    return np.array([number(value) for value in values], np.float64)


def _number(value: Any) -> float:
    return number_parsing.number(value) if isinstance(value, str) else float(value)


def _regular(source: Path) -> Path:
    """A pipe or a device may have no end, or never begin."""
    if not stat.S_ISREG(source.stat().st_mode):
        raise InputError(f"{source} is no regular file: give one, of its final length")
    return source


def _require_rows(source: Path, rows: int, columns: int = 1) -> None:
    if rows > LARGEST_ROWS or rows * columns > LARGEST_ROWS:
        values = f"{rows:,} rows" if columns == 1 else f"{rows:,} rows of {columns:,} columns"
        raise InputError(
            f"{source} has {values}: at most {LARGEST_ROWS:,} values can be read (a column "
            f"{_COLUMN} says how many users a row stands for)"
        )


def _whole_numbers(source: Path, column: str, values: Sequence[Any]) -> Integers:
    counts = _numbers(values)
    if not (np.all(counts >= 0.0) and np.all(counts == np.floor(counts)) and counts.sum() < 1e18):
        raise InputError(
            f"{source}: every value of the column {column} must be a whole number of users, at "
            "least 0"
        )
    return counts.astype(np.int64)


@dataclass(frozen=True)
class Budgets:
    """Budgets of users, as a file has them: shape ``(rows,)`` each.

    Attributes
    ----------
    eps, delta
        Local budget; delta is 0 where the file has none.
    counts
        How many users have it.
    """

    eps: Floats
    delta: Floats
    counts: Integers

    def deltas_of(self, budgets: Floats) -> Floats:
        """Mean delta of the users of each budget; the budgets in order, all that there are."""
        place = np.searchsorted(budgets, self.eps)
        sums = np.bincount(place, self.delta * self.counts, budgets.size)
        return np.asarray(sums / np.bincount(place, self.counts, budgets.size))


def read_budgets(source: Path) -> Budgets:
    """The columns ``eps``, and, where there are, ``count`` and ``delta``, of a file.

    Rows whose count is 0 are left out.

    Raises
    ------
    InputError
        If the file cannot be read or has no such column, a value is out of range, or there is
        nobody.
    """
    needed = {"eps": "the local budget of each user, or of count users"}
    found = read_columns(source, needed, optional=(_COLUMN, "delta"))
    eps = _numbers(found["eps"])
    delta = _numbers(found.get("delta", [0.0] * eps.size))
    counts = _whole_numbers(source, _COLUMN, found.get(_COLUMN, [1] * eps.size))
    for name, values, right in (
        ("eps", eps, (eps >= 0.0) & (eps <= LARGEST_EPS0)),
        ("delta", delta, (delta >= 0.0) & (delta < 1.0)),
    ):
        wrong = np.flatnonzero(~right)
        if wrong.size:
            limits = f"0 <= eps <= {LARGEST_EPS0:g}" if name == "eps" else "0 <= delta < 1"
            first = words.shortened(repr(found[name][wrong[0]]))
            raise InputError(
                f"{source}: every {name} must be a number with {limits} (row {wrong[0] + 1} has "
                f"{first}; {wrong.size} of {values.size} rows are wrong)"
            )
    used = counts > 0
    if not used.any():
        raise InputError(f"{source} has nobody in it")
    return Budgets(eps[used], delta[used], counts[used])


def read_pairs(source: Path) -> Integers:
    """The columns ``record`` and ``neighbour`` of a file, shape ``(rows, 2)``.

    Raises
    ------
    InputError
        If the file cannot be read, has no such column or no row, or a value is no whole number.
    """
    needed = {"record": "the number of a record, from 0", "neighbour": "that of a neighbour"}
    found = read_columns(source, needed)
    pairs = np.stack([_numbers(found[name]) for name in needed], axis=1)
    if not pairs.size:
        raise InputError(f"{source} names no pair")
    if not (np.abs(pairs) < LARGEST_ROWS).all() or (pairs != np.floor(pairs)).any():
        raise InputError(f"{source}: every record and neighbour must be a whole number")
    return pairs.astype(np.int64)


def read_places(source: Path) -> Floats:
    """The columns ``latitude`` and ``longitude`` of a file, in degrees, shape ``(rows, 2)``.

    Raises
    ------
    InputError
        If the file cannot be read, has no such column, or a value is out of range.
    """
    limits = {"latitude": 90.0, "longitude": 360.0}
    found = read_columns(source, dict.fromkeys(limits, "of each record, in degrees"))
    places = np.stack([_numbers(found[name]) for name in limits], axis=1)
    for (name, most), values in zip(limits.items(), places.T, strict=True):
        wrong = np.flatnonzero(~(np.abs(values) <= most))
        if wrong.size:
            first = words.shortened(repr(found[name][wrong[0]]))
            raise InputError(
                f"{source}: every {name} must be a number from {-most:g} to {most:g} (row "
                f"{wrong[0] + 1} has {first})"
            )
    return places


def read_columns(
    source: Path, needed: Mapping[str, str], optional: Sequence[str] = ()
) -> dict[str, list[Any]]:
    """Columns of a csv file with a header, or of a parquet file, by name.

    Parameters
    ----------
    source
        A file whose name does not end in ``.parquet`` is read as csv.
    needed
        Names of columns that must be there, and what they hold.
    optional
        Names of those that may.

    Raises
    ------
    InputError
        If the file cannot be read, or a column is missing.
    """
    try:
        read = _parquet if source.suffix == ".parquet" else _csv
        return read(_regular(source), needed, optional)
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror or error}") from None


def _chosen(
    source: Path, names: Sequence[str], needed: Mapping[str, str], optional: Sequence[str]
) -> list[str]:
    for name, meaning in needed.items():
        if name not in names:
            raise InputError(
                f"{source} has no column {name}, {meaning} (columns: {', '.join(names) or 'none'})"
            )
    return [*needed, *(name for name in optional if name in names)]


@contextmanager
def csv_reading(source: Path) -> Iterator[Any]:
    """An open text file; an `InputError` if it is none that has an end, or holds no text."""
    try:
        with _regular(source).open(encoding="utf-8-sig", newline="") as file:
            yield file
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{source} is no csv file; parquet files end in .parquet") from None


def _csv(source: Path, needed: Mapping[str, str], optional: Sequence[str]) -> dict[str, list[Any]]:
    with csv_reading(source) as file:
        reader = csv.DictReader(file)
        chosen = _chosen(source, list(reader.fieldnames or []), needed, optional)
        columns: dict[str, list[Any]] = {name: [] for name in chosen}
        for rows, row in enumerate(reader, 1):
            _require_rows(source, rows)
            for name, values in columns.items():
                values.append(row[name])
    return columns


@contextmanager
def _parquet_reading(source: Path) -> Iterator[Any]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError as missing:
        raise InputError(
            f"{source}: parquet files are read with pyarrow: pip install pyarrow, or give a csv "
            "file"
        ) from missing
    try:
        with pq.ParquetFile(source, page_checksum_verification=True) as file:
            yield file
    except InputError:
        raise
    # Whatever bytes do to pyarrow's reader: lengths that nobody has, names that are no text.
    except (pa.ArrowException, OSError, ValueError, MemoryError, KeyError, IndexError) as error:
        if is_out_of_memory(error):
            raise InputError(f"{source} is damaged, or needs more memory than there is") from None
        if isinstance(error, OSError) and error.errno:
            raise  # it may not or cannot be read; it is not damaged
        raise InputError(f"{source} is damaged, or no parquet file") from None


def _parquet(
    source: Path, needed: Mapping[str, str], optional: Sequence[str]
) -> dict[str, list[Any]]:
    with _parquet_reading(source) as file:
        chosen = _chosen(source, file.schema_arrow.names, needed, optional)
        columns: dict[str, list[Any]] = _values(source, file, chosen).to_pydict()
    return columns


def _values(source: Path, file: Any, columns: Sequence[str]) -> Any:
    """Columns of numbers as a table; what its metadata claim is checked before it is read."""
    import pyarrow as pa

    for name in columns:
        kind = file.schema_arrow.field(name).type
        numeric = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_null)
        if not any(of(kind) for of in numeric):
            raise InputError(f"{source}: the column {name} must hold numbers (got {kind})")
    metadata = file.metadata
    parts = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    _require_rows(source, max(metadata.num_rows, sum(parts)), len(columns))
    return file.read(columns=list(columns), use_threads=False)


def read_matrix(source: Path) -> Floats:
    """Numbers of a csv or parquet file, shape ``(rows, columns)``.

    A first line of csv that holds no number names the columns. A file whose name does not end in
    ``.parquet`` is read as csv.

    Raises
    ------
    InputError
        If the file cannot be read or is empty, lines differ in length, or a value is no number.
    """
    try:
        read = _parquet_lines if source.suffix == ".parquet" else _csv_lines
        lines = read(_regular(source))
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror or error}") from None
    if not lines:
        raise InputError(f"{source} holds no numbers: give a line for each record")
    rows = []
    for number, line in enumerate(lines, 1):
        if len(line) != len(lines[0]):
            raise InputError(
                f"{source}: every record must have as many probabilities as the first, "
                f"{len(lines[0])} (got {len(line)} for record {number - 1})"
            )
        try:
            rows.append([_number(value) for value in line])
        except (TypeError, ValueError):
            raise InputError(
                f"{source}: every value must be a probability (got "
                f"{words.shortened(str(line))} for record {number - 1})"
            ) from None
    return np.array(rows, np.float64)


def _is_number(text: str) -> bool:
    try:
        number_parsing.number(text)
    except ValueError:
        return False
    return True


def _csv_lines(source: Path) -> list[Any]:
    with csv_reading(source) as file:
        lines = []
        for line in csv.reader(file):
            if line:
                lines.append(line)
                _require_rows(source, len(lines), len(line))
    return lines[1:] if lines and not any(map(_is_number, lines[0])) else lines


def _parquet_lines(source: Path) -> list[Any]:
    with _parquet_reading(source) as file:
        table = _values(source, file, file.schema_arrow.names)
        return list(map(list, zip(*table.to_pydict().values(), strict=True)))
