"""Convert rows of check-ins to canonical types, and describe malformed rows."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shuffledp.errors import InputError, shortened
from shuffledp.geography.sources import (
    BUDGET,
    COORDINATES,
    IDENTIFIER,
    MAX_BUDGET,
    MIN_POSITIVE_BUDGET,
    UNIX_SECONDS,
    Layout,
    degrees_from,
    key_of,
)
from shuffledp.numerics.arrays import Floats, Integers

HEXADECIMAL: Final = r"\x"
"""Beginning of the text of a binary identifier."""

MISSING: Final = ("", "NA", "NaN", "nan", "NULL", "null", "None", r"\N")
"""Texts that common programs write for a missing value."""

TIME: Final = pa.timestamp("us", tz="UTC")

Converted: TypeAlias = tuple[Any, NDArray[np.bool_]]
"""A converted Arrow array, null for missing and invalid fields, and a mask of the invalid ones."""

_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
# pandas writes 17 as 17.0 in a column with missing values, and Arrow reads 0x11 as 17.
_INTEGER = r"^\s*([+-]?\d+(\.0*)?|0[xX][0-9a-fA-F]{1,16})\s*$"
_PROBED_FIELDS: Final = 16
_MAX_INT64 = str(2**63 - 1)
_TIME = (
    r"^\s*\d{4}-\d\d-\d\d"
    r"([T ]\d\d(:\d\d(:\d\d(\.\d{1,9})?)?)?\s?(Z|[+-]\d\d(:?\d\d)?)?)?\s*$"
)
# Printable ASCII with a digit: pandas would read `now` and `today` as times.
_TEXT_WITH_DIGIT: Final = r"^[\t -~]*[0-9][\t -~]*$"
# Range of the seconds of the years 1 to 9999. Milliseconds of times since 1980 are out of range.
_FIRST_SECOND: Final = -62_135_596_800.0
_END_OF_SECONDS: Final = 253_402_300_800.0


class ColumnTypeError(InputError):
    """A column has a type, such as a list, that cannot be converted."""


def to_float(column: Any) -> Converted:
    """Convert text or numbers to float64; infinity and NaN are valid, but in no range."""
    none_bad = np.zeros(len(column), dtype=bool)
    if _is_number(column.type):
        return pc.cast(column, pa.float64(), safe=False), none_bad
    if not _is_text(column.type):
        raise ColumnTypeError(f"{column.type} where numbers were expected")
    directly = _cast_directly(column, pa.float64())
    if directly is not None:
        return directly, none_bad
    _, text, bad = _matching(column, _NUMBER)
    return pc.cast(pc.ascii_ltrim(text, "+"), pa.float64()), bad


def to_integer(column: Any) -> Converted:
    """Convert text or numbers to int64; fractions and numbers beyond 2**63-1 are invalid."""
    if pa.types.is_signed_integer(column.type):
        return pc.cast(column, pa.int64()), np.zeros(len(column), dtype=bool)
    if not _is_text(column.type):
        if not _is_number(column.type):
            raise ColumnTypeError(f"{column.type} where integers were expected")
        # A column of floats marks missing values by NaN.
        column = pc.cast(pc.if_else(_is_nan(column), None, column), pa.string())
    directly = _cast_directly(column, pa.int64())
    if directly is not None:
        return directly, np.zeros(len(column), dtype=bool)
    _, text, bad = _matching(column, _INTEGER)
    text = pc.ascii_ltrim(pc.replace_substring_regex(text, r"\.0*$", ""), "+")
    digits = pc.ascii_ltrim(pc.ascii_ltrim(text, "-"), "0")
    length = pc.binary_length(digits)
    fits = pc.or_kleene(
        pc.less(length, len(_MAX_INT64)),
        pc.and_kleene(pc.equal(length, len(_MAX_INT64)), pc.less_equal(digits, _MAX_INT64)),
    )
    too_large = ~pc.fill_null(fits, True).to_numpy(zero_copy_only=False)
    return pc.cast(pc.if_else(fits, text, None), pa.int64()), bad | too_large


def to_identifier(column: Any) -> Converted:
    """Convert identifiers of any type to int64, so that they can be compared; all are valid.

    Integers up to 2**63-1 keep their value, however they are written. Other identifiers become
    64-bit fingerprints. The probability that two of N distinct identifiers collide is below
    N**2 / 2**65: 3 in a million for ten million identifiers.
    """
    integers, other = to_integer(column)
    if not other.any():
        return integers, other
    if not _is_text(column.type):
        column = pc.cast(column, pa.string())
    raw, present = _present(column)
    encoded = raw.filter(pa.array(other)).dictionary_encode()
    values = np.array(pc.fill_null(integers, 0))
    values[other] = _fingerprints(encoded.dictionary.to_pylist())[np.array(encoded.indices)]
    blank = pc.fill_null(pc.match_substring_regex(raw, r"^\s*$"), True)
    identified = pc.and_not(present, blank).to_numpy(zero_copy_only=False)
    return pa.array(values, mask=~identified), np.zeros(len(other), dtype=bool)


def to_text(column: Any) -> Converted:
    """Convert identifiers of any type to their bytes as written; all are valid."""
    if not _is_text(column.type):
        column = pc.cast(column, pa.string())
    raw, present = _present(column)
    return pc.if_else(present, raw, None), np.zeros(len(column), dtype=bool)


def hexadecimal(column: Any) -> Any:
    r"""Convert binary identifiers to texts such as ``\x00ff``; other columns stay as they are.

    White space around a text does not matter, but every byte of a binary identifier does.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    if not any(test(column.type) for test in tests):
        return column
    encoded = column.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    texts = [HEXADECIMAL + value.hex() if value else "" for value in values]
    return pa.array(texts, pa.string()).take(encoded.indices)


def _fingerprints(identifiers: list[bytes]) -> NDArray[np.int64]:
    import pandas as pd

    trimmed = np.empty(len(identifiers), dtype=object)
    trimmed[:] = [identifier.strip() for identifier in identifiers]
    return pd.util.hash_array(trimmed, categorize=False).view(np.int64)


def to_time(column: Any, time_format: str | None = None) -> Converted:
    """Convert text, timestamps or numbers to microseconds in UTC, the default time zone.

    `time_format` is as in a `Layout`: with None, text is ISO 8601 and numbers are refused.
    """
    none_bad = np.zeros(len(column), dtype=bool)
    if time_format is not None:
        return _to_time_of_format(column, time_format)
    if pa.types.is_timestamp(column.type):
        if column.type.tz is None:
            column = pc.assume_timezone(column, "UTC")
        return pc.cast(column, TIME, safe=False), none_bad
    if pa.types.is_date(column.type):
        return pc.assume_timezone(pc.cast(column, pa.timestamp("us")), "UTC"), none_bad
    if pa.types.is_null(column.type):
        return pc.cast(column, TIME), none_bad
    if not _is_text(column.type):
        hint = ": set time_format: unix if they are seconds" if _is_number(column.type) else ""
        raise ColumnTypeError(f"{column.type} where times were expected{hint}")
    for kind in (TIME, pa.timestamp("us")):
        directly = _cast_directly(column, kind)
        if directly is not None:
            return to_time(directly)
    return _parsed_times(column, _TIME, "ISO8601")


def _to_time_of_format(column: Any, time_format: str) -> Converted:
    if time_format == UNIX_SECONDS and (_is_number(column.type) or _is_text(column.type)):
        seconds, bad = to_float(column)
        values = seconds.to_numpy(zero_copy_only=False)  # NaN if missing or bad
        # In a column of numbers, NaN is a missing value; as a text, it is not a number of seconds.
        missing = np.isnan(values) if _is_number(column.type) else seconds.is_null().to_numpy(False)
        valid = (values >= _FIRST_SECOND) & (values < _END_OF_SECONDS)
        microseconds = np.rint(np.where(valid, values, 0.0) * 1e6).astype(np.int64)
        return pc.cast(pa.array(microseconds, mask=~valid), TIME), bad | ~(valid | missing)
    if pa.types.is_null(column.type):
        return pc.cast(column, TIME), np.zeros(len(column), dtype=bool)
    if not _is_text(column.type):
        raise ColumnTypeError(
            f"{column.type} where times in the format {time_format!r} were expected: correct or "
            "remove time_format"
        )
    return _parsed_times(column, _TEXT_WITH_DIGIT, time_format)


def _parsed_times(column: Any, pattern: str, time_format: str) -> Converted:
    """Convert texts with pandas; those that do not match a pattern are invalid."""
    import pandas as pd

    present, text, bad = _matching(column, pattern)
    series = pd.Series(text.to_numpy(zero_copy_only=False), dtype=object).str.strip()

    def parsed(texts: Any) -> Any:
        return pd.to_datetime(texts, errors="coerce", utc=True, format=time_format)

    times = parsed(series)
    if times.dt.unit == "ns":
        # For the sake of one text with nanoseconds, pandas refuses all dates before 1677 and after
        # 2262. What it refused is parsed again by itself.
        refused = series[times.isna() & series.notna()]
        alone = {each: parsed(pd.Series([each])).dt.as_unit("us")[0] for each in refused.unique()}
        times = times.dt.as_unit("us")
        times[refused.index] = refused.map(alone)
    times = times.dt.as_unit("us")
    # The pattern also matches dates that do not exist, such as 30 February.
    bad |= times.isna().to_numpy() & present.to_numpy(zero_copy_only=False)
    return pa.Array.from_pandas(times, type=TIME), bad


def _cast_directly(column: Any, kind: Any) -> Any:
    """Return the column cast to another type, or None if Arrow cannot cast a field."""
    raw, present = _present(column)
    known = pc.if_else(present, raw, None)
    try:
        # A cast that fails is slow, because each field raises, so the first fields are tried first.
        pc.cast(pc.cast(known[:_PROBED_FIELDS], pa.string()), kind)
        return pc.cast(pc.cast(known, pa.string()), kind)
    except pa.ArrowInvalid:
        return None


def _matching(column: Any, pattern: str) -> tuple[Any, Any, NDArray[np.bool_]]:
    """Return which fields are present, the text of those that match, and which do not match."""
    raw, present = _present(column)
    matches = pc.and_(present, pc.fill_null(pc.match_substring_regex(raw, pattern), False))
    # The patterns match only ASCII, so the cast to text cannot fail.
    text = pc.ascii_trim_whitespace(pc.cast(pc.if_else(matches, raw, None), pa.string()))
    return present, text, pc.and_not(present, matches).to_numpy(zero_copy_only=False)


def _present(column: Any) -> tuple[Any, Any]:
    """Return the fields as bytes, and which of them are present."""
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
    IDENTIFIER: pa.binary(),
    "time": TIME,
    "latitude": pa.float64(),
    "longitude": pa.float64(),
    "location": pa.int64(),
    BUDGET: pa.float64(),
}
"""Arrow types of the canonical columns, in the order of the output."""

REQUIRED: Final = (*COORDINATES, BUDGET)
"""Columns that must have a value in every row if the layout maps them."""

MAX_DESCRIBED_ROWS: Final = 5
"""Number of malformed rows that are described in the log."""

_MAX_DEGREES: Final = 360.0  # some files have longitudes up to 360; no degrees are larger
_REL_TOL_OF_CONVERSION: Final = 1e-6  # to another reference system and back
_LIMITS: Final = {"latitude": 90, "longitude": 180}
_CONVERTERS: Final[Mapping[str, Callable[[Any], Converted]]] = {
    "user": to_identifier,
    IDENTIFIER: to_text,
    "latitude": to_float,
    "longitude": to_float,
    "location": to_integer,
    BUDGET: to_float,
}
_EXPECTED: Final = {
    "time": "an ISO 8601 time (set time_format, or remove columns.time if it is not needed)",
    "latitude": "a number from -90 to 90",
    "longitude": "a number from -180 to 180",
    "location": "an integer (remove columns.location if it is not needed)",
    BUDGET: f"0 or a number from {MIN_POSITIVE_BUDGET:g} to {MAX_BUDGET:g} (budgets.column)",
}
_DECIMAL_HINT: Final = ': write decimals with a point, or set decimal: "," (text only)'
_DECIMAL_COMMA: Final = re.compile(r"\s*[+-]?\d+,\d+\s*")


@dataclass(frozen=True)
class MalformedRow:
    """Number of a malformed line, row or feature, counted from 1, and what is wrong with it."""

    line: int
    reason: str


@dataclass(frozen=True)
class Batch:
    """Rows that were read together.

    ``checked``, a `pyarrow.Table`, has the well-formed rows, in order, with the canonical columns
    that the layout maps, except those that ``rest`` returns. Latitude and longitude are always
    among them. ``rest`` is None or a function of positions in ``checked`` that reads and converts
    the other columns of the rows there; none of their values is malformed. It works until the next
    batch is read.

    ``malformed`` is the number of malformed rows, which are not in ``checked``; ``described`` has
    the first few of them. ``swapped`` is the number of those that would be in range with latitude
    and longitude swapped, and ``projected`` of those with coordinates too large for degrees.
    """

    checked: Any
    malformed: int = 0
    described: tuple[MalformedRow, ...] = ()
    swapped: int = 0
    projected: int = 0
    rest: Callable[[Integers], Any] | None = None

    def select(self, chosen: NDArray[np.bool_]) -> Any:
        """Return the chosen rows of `checked`, with every canonical column of the layout."""
        positions = np.flatnonzero(chosen)
        rows = self.checked.take(pa.array(positions))
        if self.rest is not None:
            others = self.rest(positions)
            for name in others.column_names:
                rows = rows.append_column(name, others[name])
        return rows

    @cached_property
    def table(self) -> Any:
        """All well-formed rows, in order, with every canonical column that the layout maps."""
        if self.rest is None:
            return self.checked
        return self.select(np.ones(self.checked.num_rows, dtype=bool))


def in_range(values: Floats, name: str) -> NDArray[np.bool_]:
    """Return which values are in the range of the required column `name`; NaN is not."""
    valid: NDArray[np.bool_]
    if name == BUDGET:
        valid = (values == 0.0) | ((values >= MIN_POSITIVE_BUDGET) & (values <= MAX_BUDGET))
    else:
        valid = np.abs(values) <= _LIMITS[name]
    return valid


def all_in_range(values: Floats, name: str) -> bool:
    """Return whether every value is in range, for coordinates much faster than by `in_range`."""
    if name == BUDGET or not len(values):
        return bool(in_range(values, name).all())
    limit = _LIMITS[name]
    return bool(-limit <= values.min() and values.max() <= limit)  # both NaN if a value is


def never_malformed(name: str, kind: Any, layout: Layout) -> bool:
    """Return whether every value of an Arrow type is valid in a canonical column."""
    if name == "time":
        return layout.time_format is None and bool(
            pa.types.is_timestamp(kind) or pa.types.is_date(kind)
        )
    return name == "user" or (name == "location" and bool(pa.types.is_signed_integer(kind)))


def convert_valid(table: Any) -> Any:
    """Convert the columns of a table for which `never_malformed` is true."""
    return pa.table(
        {
            name: _converted(table[name].combine_chunks(), name, None)[0]
            for name in table.column_names
        }
    )


def in_degrees(latitude: Any, longitude: Any, crs: str) -> tuple[Any, Any]:
    """Convert float64 columns of northings and eastings to latitudes and longitudes (WGS 84).

    A point that cannot be converted becomes infinite or NaN, which is out of range. So does one far
    outside the system's area that wraps around to another place: converting it back reveals that.
    """
    north, east = (each.to_numpy(zero_copy_only=False) for each in (latitude, longitude))
    transformer = degrees_from(crs)
    degrees = np.array(transformer.transform(east, north))
    back = np.array(transformer.transform(*degrees, direction="INVERSE"))
    original = np.array([east, north])
    tolerance = _REL_TOL_OF_CONVERSION * np.maximum(1.0, np.abs(original))
    with np.errstate(invalid="ignore"):  # a difference of infinities
        degrees[:, ~(np.abs(back - original) <= tolerance).all(axis=0)] = np.nan
    return pa.array(degrees[1]), pa.array(degrees[0])


def convert_rows(
    table: Any,
    lines: Sequence[int] | Integers,
    faults: Mapping[int, str],
    layout: Layout,
    rest: Callable[[Integers], Any] | None = None,
) -> Batch:
    """Convert the columns of a table and drop the malformed rows.

    The `pyarrow.Table` has canonical columns of any convertible type; `lines` has the line number
    of each row, and `faults` has reasons by line number for malformed rows that could not be parsed
    into the table. The layout has the reference system of the coordinates, and the format of the
    times. `rest` returns canonical columns that the table lacks, for the rows at some positions in
    it. Raises `ColumnTypeError` if a column has a type, such as a list, that cannot be converted.
    """
    good = np.ones(table.num_rows, dtype=bool)
    reasons = dict(sorted(faults.items())[:MAX_DESCRIBED_ROWS])
    fields = {name: table[name].combine_chunks() for name in table.column_names}
    columns, faulty = {}, {}
    for name, column in fields.items():
        columns[name], faulty[name] = _converted(column, name, layout.time_format)
    if layout.crs is not None:
        _convert_to_degrees(columns, layout.crs)
    # Coordinates come first: an invalid one may reveal that line 1 has the names of the columns.
    for name in sorted(columns, key=lambda name: name not in COORDINATES):
        bad = faulty[name]
        if name in REQUIRED:  # a faulty number is null, which is in no range
            values = columns[name].to_numpy(zero_copy_only=False)
            if all_in_range(values, name):
                continue
            bad = ~in_range(values, name)
        for row in np.flatnonzero(bad & good)[:MAX_DESCRIBED_ROWS]:
            reasons[int(lines[row])] = _describe_fault(fields[name][row], name, layout)
        good &= ~bad
    described = tuple(
        MalformedRow(line, reasons[line]) for line in sorted(reasons)[:MAX_DESCRIBED_ROWS]
    )
    valid_rows = pa.table(columns)
    if good.all():
        return Batch(valid_rows, len(faults), described, rest=rest)
    valid_rows = valid_rows.filter(pa.array(good))
    malformed = len(faults) + int((~good).sum())
    swapped, projected = _count_swapped(columns, good), _count_projected(columns)
    if rest is None:
        return Batch(valid_rows, malformed, described, swapped, projected)
    positions = np.flatnonzero(good)
    return Batch(
        valid_rows, malformed, described, swapped, projected, lambda rows: rest(positions[rows])
    )


def _converted(column: Any, name: str, time_format: str | None) -> Converted:
    try:
        if name == "time":
            return to_time(column, time_format)
        values, bad = _CONVERTERS[name](column)
    except ColumnTypeError as error:
        raise ColumnTypeError(f"{key_of(name)} names a column of type {error}") from error
    return values, bad


def _convert_to_degrees(columns: dict[str, Any], crs: str) -> None:
    """Replace coordinates by degrees.

    If only one of the two is missing or not finite, the other becomes 0, so that it is not blamed.
    """
    finite = {
        name: np.isfinite(columns[name].to_numpy(zero_copy_only=False)) for name in COORDINATES
    }
    degrees = in_degrees(columns["latitude"], columns["longitude"], crs)
    complete = np.logical_and(*finite.values())
    for name, values in zip(COORDINATES, degrees, strict=True):
        incomplete = np.where(finite[name], 0.0, np.nan)
        columns[name] = pa.array(np.where(complete, values.to_numpy(), incomplete))


def _count_swapped(columns: Mapping[str, Any], good: NDArray[np.bool_]) -> int:
    latitude, longitude = (columns[name].to_numpy(zero_copy_only=False) for name in COORDINATES)
    fits = in_range(longitude, "latitude") & in_range(latitude, "longitude")
    return int((fits & ~in_range(latitude, "latitude") & ~good).sum())


def _count_projected(columns: Mapping[str, Any]) -> int:
    latitude, longitude = (columns[name].to_numpy(zero_copy_only=False) for name in COORDINATES)
    largest = np.maximum(np.abs(latitude), np.abs(longitude))  # NaN if a coordinate is missing
    return int(((largest > _MAX_DEGREES) & np.isfinite(largest)).sum())


def _describe_fault(field: Any, name: str, layout: Layout) -> str:
    """Describe an invalid field without its value, which may be personal: logs are kept."""
    value = field.as_py()
    if value is None or value in ("", b""):
        return f"{name} is missing"
    text = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)
    if name == "time" and layout.time_format is not None:
        return f"time {_fault_of_format(text, layout.time_format)}"
    in_crs = layout.crs is not None and name in COORDINATES
    expected = f"a coordinate of {layout.crs}" if in_crs else _EXPECTED[name]
    comma = _DECIMAL_COMMA.fullmatch(text)
    return f"{name} is not {expected}{_DECIMAL_HINT if comma else ''}"


def _fault_of_format(text: str, time_format: str) -> str:
    """Describe a time by its form, in which every digit is a 9 and every letter an A."""
    form = shortened(repr(re.sub(r"[^\W\d_]", "A", re.sub(r"\d", "9", text))))
    if time_format == UNIX_SECONDS:
        return f"is not a number of seconds in the years 1 to 9999 (time_format: unix; got {form})"
    return f"is not in the time_format {time_format!r}, got the form {form}"
