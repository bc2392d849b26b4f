"""Typed rows of check-ins, with the malformed ones told apart and described."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shuffledp.geography.convert import (
    TIME,
    ColumnTypeError,
    Converted,
    to_float,
    to_identifier,
    to_time,
    to_whole,
)
from shuffledp.geography.layout import BUDGET, COORDINATES, key_of
from shuffledp.numerics.arrays import Floats, Integers

TYPES: Final = {
    "user": pa.int64(),
    "time": TIME,
    "latitude": pa.float64(),
    "longitude": pa.float64(),
    "location": pa.int64(),
    BUDGET: pa.float64(),
}
"""Arrow types of the canonical columns, in the order in which they are written."""

REQUIRED: Final = (*COORDINATES, BUDGET)
"""Columns that are given in every row, if they are read at all."""

LEAST_BUDGET: Final = 1e-9
"""Smallest local budget that is not 0; the schema of the configuration has both limits too."""

SHOWN: Final = 5
"""How many malformed rows are described."""

_LARGEST_BUDGET: Final = 20.0
_LARGEST_DEGREES: Final = 360.0  # of longitude, where it is counted from 0
_LIMITS: Final = {"latitude": 90, "longitude": 180}
_CONVERTERS: Final[Mapping[str, Callable[[Any], Converted]]] = {
    "user": to_identifier,
    "time": to_time,
    "latitude": to_float,
    "longitude": to_float,
    "location": to_whole,
    BUDGET: to_float,
}
_EXPECTED: Final = {
    "time": "an ISO 8601 time (without columns.time it is not read)",
    "latitude": "a number from -90 to 90",
    "longitude": "a number from -180 to 180",
    "location": "a whole number (without columns.location it is not read)",
    BUDGET: f"0 or a number from {LEAST_BUDGET:g} to {_LARGEST_BUDGET:g} (budgets.column)",
}
_DECIMAL_COMMA: Final = re.compile(r"\s*[+-]?\d+,\d+\s*")


@dataclass(frozen=True)
class Fault:
    """A malformed row: its line (or row of a parquet file), counted from 1, and what is wrong."""

    line: int
    reason: str


@dataclass(frozen=True)
class Batch:
    """Rows read in one go.

    Parameters
    ----------
    table : pyarrow.Table
        The well-formed rows, in order, with those of the canonical columns that the layout maps.
    malformed : int
        Rows that are malformed and not in `table`.
    faults : tuple of Fault
        The first few of the malformed rows.
    exchanged : int
        Malformed rows that would be in range with latitude and longitude exchanged.
    projected : int
        Malformed rows whose coordinates are numbers too large for degrees.
    """

    table: Any
    malformed: int = 0
    faults: tuple[Fault, ...] = ()
    exchanged: int = 0
    projected: int = 0


def in_range(values: Floats, name: str) -> NDArray[np.bool_]:
    """Tell which values are possible as `name`, one of `REQUIRED`; NaN is not."""
    possible: NDArray[np.bool_]
    if name == BUDGET:
        possible = (values == 0.0) | ((values >= LEAST_BUDGET) & (values <= _LARGEST_BUDGET))
    else:
        possible = np.abs(values) <= _LIMITS[name]
    return possible


def sift(table: Any, lines: Integers, faults: Mapping[int, str]) -> Batch:
    """Convert the columns of a table and leave the malformed rows out.

    Parameters
    ----------
    table : pyarrow.Table
        Canonical columns of any type that can be converted.
    lines : array
        The line number of each row.
    faults : Mapping[int, str]
        Line numbers and reasons of malformed rows that did not make it into the table.

    Raises
    ------
    ColumnTypeError
        If a column's type cannot be what its name says, such as a list.
    """
    good = np.ones(table.num_rows, dtype=bool)
    reasons = dict(sorted(faults.items())[:SHOWN])
    columns: dict[str, Any] = dict.fromkeys(table.column_names)  # in this order
    # Coordinates first: a line of names is told from a row by them.
    for name in sorted(columns, key=lambda name: name not in COORDINATES):
        given = table[name].combine_chunks()
        columns[name], bad = _converted(given, name)
        for row in np.flatnonzero(bad & good)[:SHOWN]:
            reasons[int(lines[row])] = _fault(given[row], name)
        good &= ~bad
    exchanged, projected = _exchangeable(columns, good), _projected(columns)
    shown = tuple(Fault(line, reasons[line]) for line in sorted(reasons)[:SHOWN])
    sound = pa.table(columns)
    malformed = len(faults) + int((~good).sum())
    if not good.all():
        sound = sound.filter(pa.array(good))
    return Batch(sound, malformed, shown, exchanged, projected)


def _converted(column: Any, name: str) -> Converted:
    try:
        values, bad = _CONVERTERS[name](column)
    except ColumnTypeError as error:
        raise ColumnTypeError(f"{key_of(name)} names a column of {error}") from error
    if name in REQUIRED:
        bad = ~in_range(values.to_numpy(zero_copy_only=False), name)
    return values, bad


def _exchangeable(columns: Mapping[str, Any], good: NDArray[np.bool_]) -> int:
    latitude, longitude = (columns[name].to_numpy(zero_copy_only=False) for name in COORDINATES)
    fits = in_range(longitude, "latitude") & in_range(latitude, "longitude")
    return int((fits & ~in_range(latitude, "latitude") & ~good).sum())


def _projected(columns: Mapping[str, Any]) -> int:
    latitude, longitude = (columns[name].to_numpy(zero_copy_only=False) for name in COORDINATES)
    largest = np.maximum(np.abs(latitude), np.abs(longitude))  # NaN if one is no number
    return int(((largest > _LARGEST_DEGREES) & np.isfinite(largest)).sum())


def _fault(field: Any, name: str) -> str:
    """Say what is wrong without the value: logs are kept and shown, and it may be somebody's."""
    given = field.as_py()
    if given is None or given in ("", b""):
        return f"{name} is missing"
    text = given.decode("utf-8", errors="replace") if isinstance(given, bytes) else str(given)
    comma = ": write decimals with a point, not a comma" if _DECIMAL_COMMA.fullmatch(text) else ""
    return f"{name} is not {_EXPECTED[name]}{comma}"
