"""Histograms and matrices that are given to the command in a file."""

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp.arrays import Floats, Integers
from shuffledp.errors import InputError

_COLUMN = "count"


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
    try:
        values = _parquet(source) if source.suffix == ".parquet" else _csv(source)
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror or error}") from None
    try:
        counts = np.array([float(value) for value in values])
    except (TypeError, ValueError):
        counts = np.array([np.nan])
    if not (np.all(counts >= 0.0) and np.all(counts == np.floor(counts)) and counts.sum() < 1e18):
        raise InputError(
            f"{source}: every value of the column {_COLUMN} must be a whole number of users, at "
            "least 0"
        )
    if not counts.any():
        raise InputError(f"{source}: the column {_COLUMN} counts nobody")
    return counts.astype(np.int64)


def _refuse_columns(source: Path, names: Sequence[str]) -> InputError:
    return InputError(
        f"{source} has no column {_COLUMN}, the number of users of each cell (columns: "
        f"{', '.join(names) or 'none'})"
    )


@contextmanager
def _csv_reading(source: Path) -> Iterator[Any]:
    try:
        with source.open(encoding="utf-8-sig", newline="") as file:
            yield file
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{source} is no csv file; parquet files end in .parquet") from None


def _csv(source: Path) -> list[Any]:
    with _csv_reading(source) as file:
        reader = csv.DictReader(file)
        names = list(reader.fieldnames or [])
        if _COLUMN not in names:
            raise _refuse_columns(source, names)
        return [row[_COLUMN] for row in reader]


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
        with pq.ParquetFile(source) as file:
            yield file
    except pa.ArrowInvalid:
        raise InputError(f"{source} is damaged, or no parquet file") from None


def _parquet(source: Path) -> list[Any]:
    with _parquet_reading(source) as file:
        names = file.schema_arrow.names
        if _COLUMN not in names:
            raise _refuse_columns(source, names)
        counts: list[Any] = file.read(columns=[_COLUMN])[_COLUMN].to_pylist()
        return counts


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
        lines = _parquet_lines(source) if source.suffix == ".parquet" else _csv_lines(source)
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
            rows.append([float(value) for value in line])
        except (TypeError, ValueError):
            raise InputError(
                f"{source}: every value must be a probability (got {line} for record {number - 1})"
            ) from None
    return np.array(rows, np.float64)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _csv_lines(source: Path) -> list[Any]:
    with _csv_reading(source) as file:
        lines = [line for line in csv.reader(file) if line]
    return lines[1:] if lines and not any(map(_is_number, lines[0])) else lines


def _parquet_lines(source: Path) -> list[Any]:
    with _parquet_reading(source) as file:
        return [list(row.values()) for row in file.read().to_pylist()]
