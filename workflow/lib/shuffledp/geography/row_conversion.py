"""Convert rows of check-ins to the canonical types, and describe the malformed ones."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shuffledp.errors import InputError
from shuffledp.geography.sources import BUDGET, COORDINATES, key_of
from shuffledp.numerics.arrays import Floats, Integers

MISSING: Final = ("", "NA", "NaN", "nan", "NULL", "null", "None", r"\N")
"""How the usual programs write a missing value."""

TIME: Final = pa.timestamp("us", tz="UTC")

Converted: TypeAlias = tuple[Any, NDArray[np.bool_]]

_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
# Where a column has gaps pandas writes 17 as 17.0; Arrow takes 0x11 for 17.
_WHOLE = r"^\s*([+-]?\d+(\.0*)?|0[xX][0-9a-fA-F]{1,16})\s*$"
_PROBE: Final = 16
_LARGEST = str(2**63 - 1)
_TIME = (
    r"^\s*\d{4}-\d\d-\d\d"
    r"([T ]\d\d(:\d\d(:\d\d(\.\d{1,9})?)?)?\s?(Z|[+-]\d\d(:?\d\d)?)?)?\s*$"
)


class ColumnTypeError(InputError):
    """A column's type, such as a list, cannot be what its name says."""


def to_float(column: Any) -> Converted:
    """Convert text or numbers to float64; infinite values and NaN count as faults."""
    if _is_text(column.type):
        at_once = _at_once(column, pa.float64())
        if at_once is not None and np.isfinite(at_once.drop_null().to_numpy()).all():
            return at_once, np.zeros(len(column), dtype=bool)
        given, text, bad = _matching(column, _NUMBER)
        column = pc.cast(pc.ascii_ltrim(text, "+"), pa.float64())
    elif _is_number(column.type):
        given, bad = pc.is_valid(column), np.zeros(len(column), dtype=bool)
        column = pc.cast(column, pa.float64(), safe=False)
    else:
        raise ColumnTypeError(f"{column.type} where numbers were expected")
    infinite = ~np.isfinite(column.to_numpy(zero_copy_only=False))
    return column, bad | (infinite & given.to_numpy(zero_copy_only=False))


def to_whole(column: Any) -> Converted:
    """Convert text or numbers to int64; a number that is not whole or beyond 2**63-1 is a fault."""
    if pa.types.is_signed_integer(column.type):
        return pc.cast(column, pa.int64()), np.zeros(len(column), dtype=bool)
    if not _is_text(column.type):
        if not _is_number(column.type):
            raise ColumnTypeError(f"{column.type} where whole numbers were expected")
        # NaN is how a float column says "none".
        column = pc.cast(pc.if_else(_is_nan(column), None, column), pa.string())
    at_once = _at_once(column, pa.int64())
    if at_once is not None:
        return at_once, np.zeros(len(column), dtype=bool)
    _, text, bad = _matching(column, _WHOLE)
    text = pc.ascii_ltrim(pc.replace_substring_regex(text, r"\.0*$", ""), "+")
    digits = pc.ascii_ltrim(pc.ascii_ltrim(text, "-"), "0")
    length = pc.binary_length(digits)
    fits = pc.or_kleene(
        pc.less(length, len(_LARGEST)),
        pc.and_kleene(pc.equal(length, len(_LARGEST)), pc.less_equal(digits, _LARGEST)),
    )
    beyond = ~pc.fill_null(fits, True).to_numpy(zero_copy_only=False)
    return pc.cast(pc.if_else(fits, text, None), pa.int64()), bad | beyond


def to_identifier(column: Any) -> Converted:
    """Convert identifiers of any kind to int64, so that they can be compared; none is a fault.

    Whole numbers up to 2**63-1 stay what they are, however they are written. Of any other
    identifier there is a fingerprint of 64 bits. Two of N distinct ones agree with a probability
    below N**2 / 2**65, which is 3 in a million for ten million.
    """
    if pa.types.is_fixed_size_binary(column.type):  # as parquet has UUIDs
        column = pc.cast(column, pa.binary())
    whole, other = to_whole(column)
    if not other.any():
        return whole, other
    if not _is_text(column.type):
        column = pc.cast(column, pa.string())
    raw, given = _given(column)
    encoded = raw.filter(pa.array(other)).dictionary_encode()
    values = np.array(pc.fill_null(whole, 0))
    values[other] = _fingerprints(encoded.dictionary.to_pylist())[np.array(encoded.indices)]
    blank = pc.fill_null(pc.match_substring_regex(raw, r"^\s*$"), True)
    known = pc.and_not(given, blank).to_numpy(zero_copy_only=False)
    return pa.array(values, mask=~known), np.zeros(len(other), dtype=bool)


def _fingerprints(identifiers: list[bytes]) -> NDArray[np.int64]:
    import pandas as pd

    trimmed = np.empty(len(identifiers), dtype=object)
    trimmed[:] = [identifier.strip() for identifier in identifiers]
    return pd.util.hash_array(trimmed, categorize=False).view(np.int64)


def to_time(column: Any) -> Converted:
    """Convert ISO 8601 text or timestamps to UTC in microseconds; without a zone they are UTC."""
    none_bad = np.zeros(len(column), dtype=bool)
    if pa.types.is_timestamp(column.type):
        if column.type.tz is None:
            column = pc.assume_timezone(column, "UTC")
        return pc.cast(column, TIME, safe=False), none_bad
    if pa.types.is_date(column.type):
        return pc.assume_timezone(pc.cast(column, pa.timestamp("us")), "UTC"), none_bad
    if pa.types.is_null(column.type):
        return pc.cast(column, TIME), none_bad
    if not _is_text(column.type):
        raise ColumnTypeError(f"{column.type} where times were expected")
    for kind in (TIME, pa.timestamp("us")):
        at_once = _at_once(column, kind)
        if at_once is not None:
            return to_time(at_once)
    import pandas as pd

    given, text, bad = _matching(column, _TIME)
    series = pd.Series(text.to_numpy(zero_copy_only=False), dtype=object).str.strip()
    times = pd.to_datetime(series, errors="coerce", utc=True, format="ISO8601").dt.as_unit("us")
    # The pattern lets through days that no calendar has.
    bad |= times.isna().to_numpy() & given.to_numpy(zero_copy_only=False)
    return pa.Array.from_pandas(times, type=TIME), bad


def _at_once(column: Any, kind: Any) -> Any:
    """Return the column as another type, or None if a field has to be looked at."""
    raw, given = _given(column)
    known = pc.if_else(given, raw, None)
    try:
        # A cast that fails does so slowly, for each of its fields: a few of them often tell.
        pc.cast(pc.cast(known[:_PROBE], pa.string()), kind)
        return pc.cast(pc.cast(known, pa.string()), kind)
    except pa.ArrowInvalid:
        return None


def _matching(column: Any, pattern: str) -> tuple[Any, Any, NDArray[np.bool_]]:
    """Return which fields are given, the text of those that match, and which do not match."""
    raw, given = _given(column)
    matches = pc.and_(given, pc.fill_null(pc.match_substring_regex(raw, pattern), False))
    # Only ASCII matches, so the cast to text cannot fail.
    text = pc.ascii_trim_whitespace(pc.cast(pc.if_else(matches, raw, None), pa.string()))
    return given, text, pc.and_not(given, matches).to_numpy(zero_copy_only=False)


def _given(column: Any) -> tuple[Any, Any]:
    """Return the bytes of text, and which fields are not missing."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    raw = pc.cast(column, pa.binary())
    missing = pc.is_in(raw, pa.array([text.encode() for text in MISSING], pa.binary()))
    return raw, pc.and_not(pc.is_valid(raw), missing)


def _is_nan(column: Any) -> Any:
    if pa.types.is_floating(column.type):
        return pc.fill_null(pc.is_nan(column), True)
    return pc.is_null(column)


def _is_text(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    binary = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return any(test(kind) for test in tests + binary)


def _is_number(kind: Any) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    return any(test(kind) for test in tests)


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
