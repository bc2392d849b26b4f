"""Histograms that are given to the command in a file."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from shuffledp.arrays import Integers
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


def _csv(source: Path) -> list[Any]:
    try:
        with source.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            names = list(reader.fieldnames or [])
            if _COLUMN not in names:
                raise _refuse_columns(source, names)
            return [row[_COLUMN] for row in reader]
    except (UnicodeDecodeError, csv.Error):
        raise InputError(f"{source} is no csv file; parquet files end in .parquet") from None


def _parquet(source: Path) -> list[Any]:
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
            names = file.schema_arrow.names
            if _COLUMN not in names:
                raise _refuse_columns(source, names)
            counts: list[Any] = file.read(columns=[_COLUMN])[_COLUMN].to_pylist()
            return counts
    except pa.ArrowInvalid:
        raise InputError(f"{source} is damaged, or no parquet file") from None
