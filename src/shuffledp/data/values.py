"""Convert columns of any type to numbers, times and identifiers.

How a value is converted depends on nothing but the value, the type of its column and the layout:
`publishing` relies on this. Where a cheap conversion of a whole column fails, the strict one that
follows gives the same result for every value that the cheap one accepts.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, timedelta, tzinfo
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shuffledp.data.sources import UNIX_UNITS
from shuffledp.data.windows import day_begins
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers

MISSING: Final = ("", "NA", "NaN", "nan", "NULL", "null", "None", r"\N")
"""Texts that common programs write for a missing value."""

TIME: Final = pa.timestamp("us", tz="UTC")
Converted: TypeAlias = tuple[Any, NDArray[np.bool_]]
"""A converted Arrow array, null for missing and malformed values, and a mask of the latter."""

_NUMBER: Final = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
# Arrow reads 0x11 as 17.
_INTEGER: Final = r"^\s*([+-]?\d+(\.0*)?|0[xX][0-9a-fA-F]{1,16})\s*$"
_MAX_INT64: Final = str(2**63 - 1)
_ABS_MIN_INT64: Final = str(2**63)
# Extended and basic form, and the forms of GDAL (2024/03/01) and BigQuery (UTC at the end).
_ISO: Final = (
    r"^\s*(?P<date>\d{4}-\d\d-\d\d|\d{4}/\d\d/\d\d|\d{8})"
    r"(?P<clock>[T ]\d\d(?::?\d\d(?::?\d\d(?:[.,](?P<fraction>\d{1,9}))?)?)?)?"
    r"(?P<zone> ?(?:[Zz]|UTC|[+-]\d\d(?::?\d\d)?))?\s*$"
)
# Printable ASCII with a digit: pandas would read `now` and `today` as times.
_TEXT_WITH_DIGIT: Final = r"^[\t -~]*[0-9][\t -~]*$"
_CLOCK_DIRECTIVE: Final = re.compile(r"%[HIMSfXcpzT]")
_EPOCH: Final = date(1970, 1, 1)
_DAY: Final = 86_400_000_000  # microseconds
_UNITS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0.001}  # microseconds
_DATE_LENGTH: Final = len("2024-03-01")
# Range of the years 1 to 9999, in microseconds. Milliseconds since 1980 are out of it as seconds.
_FIRST_TIME: Final = -62_135_596_800_000_000
_END_OF_TIMES: Final = 253_402_300_800_000_000
# Patterns and replacements that give identifiers one form.
_BLANKS: Final = (r"^[ \t-\r]+|[ \t-\r]+$", "")
_NUMBER_FORMS: Final = (r"^(-?)0*([0-9]+)(?:\.0*)?$", r"\1\2")


# Integers that a program rounded to a float, and wrote with an exponent or a decimal point.
_ROUNDED: Final = r"^-?(\d+\.\d+[eE][+]?\d+|\d+[eE][+]\d+|[1-9]\d{16,}\.0*)$"


class ColumnTypeError(InputError):
    """A column has a type, such as a list, that cannot be converted, or values that are lost."""


def to_number(column: Any) -> Converted:
    """Convert text or numbers to float64; NaN and infinity in columns of numbers stay as they are.

    Decimals, and the shortest ones that floats of less precision stand for, become the nearest
    float, so that equal decimals are equal numbers.
    """
    none = np.zeros(len(column), dtype=bool)
    if pa.types.is_decimal(column.type) or column.type in (pa.float16(), pa.float32()):
        column = pc.cast(column, pa.string())
    if not _is_text(column.type):
        if not _is_number(column.type):
            raise _wrong_type(column, "numbers")
        return pc.cast(column, pa.float64(), safe=False), none
    for texts in _attempts(column):
        try:
            numbers = pc.cast(pc.cast(texts, pa.string()), pa.float64())
        except pa.ArrowInvalid:
            continue
        # Arrow reads words for infinity and NaN, of which the strict conversion accepts none.
        if np.isfinite(numbers.drop_null().to_numpy()).all():
            return numbers, none
    texts, bad = _matching(column, _NUMBER)
    return pc.cast(texts, pa.float64()), bad


def to_integer(column: Any) -> Converted:
    """Convert text or numbers to int64; fractions and numbers beyond 2**63-1 are malformed."""
    none = np.zeros(len(column), dtype=bool)
    if pa.types.is_signed_integer(column.type):
        return pc.cast(column, pa.int64()), none
    if not _is_text(column.type):
        if not _is_number(column.type):
            raise _wrong_type(column, "integers")
        if pa.types.is_floating(column.type):
            return _whole_floats(column)
        column = pc.cast(column, pa.string())
    for texts in _attempts(column):
        try:
            return pc.cast(pc.cast(texts, pa.string()), pa.int64()), none
        except pa.ArrowInvalid:
            continue
    texts, bad = _matching(column, _INTEGER)
    texts = pc.ascii_ltrim(pc.replace_substring_regex(texts, r"\.0*$", ""), "+")
    digits = pc.ascii_ltrim(texts, "-0")
    length = pc.binary_length(digits)
    fits = pc.or_kleene(
        pc.less(length, len(_MAX_INT64)),
        pc.and_kleene(pc.equal(length, len(_MAX_INT64)), pc.less_equal(digits, _MAX_INT64)),
    )
    smallest = pc.and_kleene(pc.equal(digits, _ABS_MIN_INT64), pc.starts_with(texts, "-"))
    fits = pc.or_kleene(fits, smallest)
    too_large = ~pc.fill_null(fits, True).to_numpy(zero_copy_only=False)
    return pc.cast(pc.if_else(fits, texts, None), pa.int64()), bad | too_large


def _whole_floats(column: Any) -> Converted:
    """Convert floats to int64; NaN stands for a missing value."""
    numbers = pc.fill_null(pc.cast(column, pa.float64()), np.nan).to_numpy(zero_copy_only=False)
    whole = (numbers == np.floor(numbers)) & (np.abs(numbers) < 2.0**63)
    integers = pa.array(np.where(whole, numbers, 0.0).astype(np.int64), mask=~whole)
    return integers, ~(whole | np.isnan(numbers))


# --- Identifiers ----------------------------------------------------------------------------


def to_identifier(
    column: Any, *, as_written: bool = False, missing: Sequence[str] = MISSING
) -> Converted:
    """Convert identifiers of users or cells to one form, in which equal ones are equal.

    Texts that are a number without a sign, with zeros before it or after a point (``7``, ``007``
    and ``7.0``), are this number; also with a minus. All others are compared as written, ``+7`` and
    ``7e0`` among them. Blanks around a text do not matter. With `as_written`, texts are only
    trimmed. The texts `missing` become null. The result is an array of int64 for a column of
    integers, otherwise a dictionary of binary texts. Raises `ColumnTypeError` if a column of floats
    has integers so large that different ones are the same float.
    """
    none = np.zeros(len(column), dtype=bool)
    kind = column.type
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return pc.cast(column, pa.int64()), none
    if pa.types.is_floating(kind):
        return _float_identifiers(column), none
    if not _is_text(kind):
        if pa.types.is_nested(kind):
            raise _wrong_type(column, "identifiers")
        column = pc.cast(column, pa.string())
    return canonical(column, as_written=as_written, missing=missing), none


def canonical(column: Any, *, as_written: bool = False, missing: Sequence[str] = MISSING) -> Any:
    """Return texts as a dictionary of their canonical forms, as `to_identifier` says."""
    encoded = pc.dictionary_encode(pc.cast(column, pa.binary()))
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    texts = pc.replace_substring_regex(encoded.dictionary, *_BLANKS)
    if not as_written and pc.any(pc.match_substring_regex(texts, _ROUNDED)).as_py():
        raise ColumnTypeError(
            "text with numbers such as 4.11111E+15, of which different ones may be rounded to the "
            "same: write identifiers as integers, or set user_type: text if they are written so"
        )
    if not as_written:
        texts = pc.replace_substring_regex(texts, *_NUMBER_FORMS)
        texts = pc.replace_substring_regex(texts, "^-0$", "0")
    index = encoded.indices
    absent = _is_missing(texts, missing)
    index = pc.if_else(absent.take(index), None, index)
    return pa.DictionaryArray.from_arrays(index, pc.if_else(absent, None, texts))


def _float_identifiers(column: Any) -> Any:
    numbers = pc.fill_null(pc.cast(column, pa.float64()), np.nan).to_numpy(zero_copy_only=False)
    limit = 2.0 ** {16: 11, 32: 24, 64: 53}[column.type.bit_width]
    if (np.abs(numbers) >= limit).any():
        raise ColumnTypeError(
            f"{column.type} with numbers of {limit:.0f} or more, of which different ones are the "
            "same float: write identifiers as integers or text"
        )
    integers, fractional = _whole_floats(column)
    if not fractional.any():
        return integers
    fractions = pc.cast(pc.if_else(_is_missing(column), None, column), pa.string())
    return canonical(pc.coalesce(pc.cast(integers, pa.string()), fractions))


def hexadecimal(column: Any) -> Any:
    r"""Convert binary identifiers, such as UUIDs, to texts such as ``\x00ff``.

    Columns of other types stay as they are. Blanks around a text do not matter, but every byte of a
    binary identifier does.
    """
    column = plain(column)
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    if not any(test(column.type) for test in tests):
        return column
    encoded = pc.dictionary_encode(column)
    texts = ["\\x" + value.hex() if value else "" for value in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


# --- Times ----------------------------------------------------------------------------------


def to_time(
    column: Any, time_format: str | None = None, zone: tzinfo = UTC, clock: str | None = "utc"
) -> Converted:
    """Convert text, timestamps, dates or numbers to microseconds in UTC.

    `time_format` and `clock` are as in a `Layout`: without a format, text is ISO 8601 and numbers
    are refused. A local time is converted as if it were UTC. A date without a time is the beginning
    of that day in `zone`. Raises `InputError` for times that `clock` excludes.
    """
    kind = column.type
    none = np.zeros(len(column), dtype=bool)
    if pa.types.is_null(kind):
        return pc.cast(column, TIME), none
    if time_format in UNIX_UNITS and (_is_number(kind) or _is_text(kind)):
        _check_offsets(clock, missing=False, present=True)
        return _unix_times(column, UNIX_UNITS[time_format])
    if time_format is None and pa.types.is_timestamp(kind):
        _check_offsets(clock, missing=kind.tz is None, present=kind.tz is not None)
        raw = pc.fill_null(pc.cast(column, pa.int64()), 0).to_numpy(zero_copy_only=False)
        return _times_of_unit(raw, _valid(column), _UNITS[kind.unit])
    if time_format is None and pa.types.is_date(kind):
        present = _valid(column)
        days = pc.fill_null(pc.cast(pc.cast(column, pa.date32()), pa.int32()), 0).to_numpy()
        known = present & (days >= _FIRST_TIME // _DAY) & (days < _END_OF_TIMES // _DAY)
        return _instants(_day_starts(np.where(known, days, 0), zone), known), present & ~known
    if not _is_text(kind):
        expected = "times"
        if time_format is not None:
            expected += f" in the format {time_format!r} (correct or remove time_format)"
        elif _is_number(kind):
            expected += " (for numbers since 1970 set time_format to unix, unix-ms, ...)"
        raise _wrong_type(column, expected)
    if time_format is None:
        return _iso_times(column, zone, clock)
    has_clock = _CLOCK_DIRECTIVE.search(time_format) is not None
    _check_offsets(
        clock, missing=has_clock and "%z" not in time_format, present="%z" in time_format
    )
    texts, bad = _matching(column, _TEXT_WITH_DIGIT)
    times, known = _parsed_times(texts, time_format)
    bad |= ~known & _valid(texts)
    if not has_clock:
        times = _day_starts(np.where(known, times, 0) // _DAY, zone)
    return _instants(times, known), bad


def _check_offsets(clock: str | None, *, missing: bool, present: bool) -> None:
    if clock is None and missing:
        raise InputError(
            "times without an offset from UTC may be local times or UTC: say which, by --times "
            "local or --times utc"
        )
    if clock == "local" and present:
        raise InputError(
            "times with an offset from UTC, and numbers since 1970, are not local times as "
            "written: leave out --times local, and name the time zone of the days by --time-zone"
        )


def _instants(microseconds: Integers, known: NDArray[np.bool_]) -> Any:
    return pc.cast(pa.array(microseconds, pa.int64(), mask=~known), TIME)


def _day_starts(days: Integers, zone: tzinfo) -> Integers:
    """Return the beginnings of days, which are numbers of days since 1970."""
    unique, index = np.unique(days, return_inverse=True)
    starts = [day_begins(_EPOCH + timedelta(int(day)), zone) for day in unique]
    return np.array(starts, dtype=np.int64)[index]


def _unix_times(column: Any, unit: float) -> Converted:
    """Convert numbers since 1970 whose unit, in microseconds, is given."""
    present = ~_is_missing(column).to_numpy(zero_copy_only=False)
    integers, inexact = to_integer(column)
    raw = pc.fill_null(integers, 0).to_numpy(zero_copy_only=False)
    if not inexact.any():
        return _times_of_unit(raw, present, unit)
    # Numbers with decimals, and too large ones.
    numbers, _ = to_number(column.filter(pa.array(inexact)))
    exact = numbers.to_numpy(zero_copy_only=False) * unit
    possible = (exact >= _FIRST_TIME) & (exact < _END_OF_TIMES)
    times, bad = _times_of_unit(raw, present & ~inexact, unit)
    merged = pc.fill_null(times.cast(pa.int64()), 0).to_numpy(zero_copy_only=False).copy()
    merged[inexact] = np.rint(np.where(possible, exact, 0.0)).astype(np.int64)
    known = _valid(times)
    known[inexact] = possible
    bad[inexact] = ~possible
    return _instants(merged, known & present), bad & present


def _times_of_unit(raw: Integers, present: NDArray[np.bool_], unit: float) -> Converted:
    """Convert integers since 1970 in a unit, given in microseconds; fractions are rounded down."""
    if unit < 1:
        times = raw // round(1 / unit)
    else:
        largest = _END_OF_TIMES // int(unit)
        times = np.clip(raw, -largest, largest) * int(unit)
    known = present & (times >= _FIRST_TIME) & (times < _END_OF_TIMES)
    return _instants(times, known), present & ~known


def _iso_times(column: Any, zone: tzinfo, clock: str | None) -> Converted:
    for texts in _attempts(column):
        shortest = pc.min(pc.binary_length(texts)).as_py() or 0
        # Arrow takes a date without a time for its midnight.
        for kind in (TIME, pa.timestamp("us")) if shortest > _DATE_LENGTH else (TIME,):
            try:
                cast = pc.cast(pc.cast(texts, pa.string()), kind)
            except pa.ArrowInvalid:
                continue
            times = to_time(cast, None, zone, clock)[0]
            if (pc.min(times.cast(pa.int64())).as_py() or 0) >= _FIRST_TIME:
                return times, np.zeros(len(column), dtype=bool)
    texts, bad = _matching(column, _ISO)
    parts = pc.extract_regex(texts, _ISO)
    written = {
        name: pc.fill_null(pc.struct_field(parts, name), "")
        for name in ("date", "clock", "fraction", "zone")
    }

    def digits(name: str, start: int, stop: int) -> Integers:
        """Return some of the digits of a part as integers; a digit that it lacks is 0."""
        text = pc.utf8_rpad(pc.replace_substring_regex(written[name], "[^0-9]", ""), 9, "0")
        numbers = pc.cast(pc.utf8_slice_codeunits(text, start, stop), pa.int64())
        return np.asarray(numbers.to_numpy(zero_copy_only=False))

    year, month, day = digits("date", 0, 4), digits("date", 4, 6), digits("date", 6, 8)
    hour, minute, second = digits("clock", 0, 2), digits("clock", 2, 4), digits("clock", 4, 6)
    hours_east, minutes_east = digits("zone", 0, 2), digits("zone", 2, 4)
    first_day = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    local_day = first_day.astype("datetime64[D]") + (day - 1)
    known = _valid(texts) & (year > 0) & (month > 0) & (month < 13) & (day > 0)
    known &= local_day.astype("datetime64[M]") == first_day
    known &= (hour < 24) & (minute < 60) & (second < 60) & (hours_east < 24) & (minutes_east < 60)
    west = pc.match_substring(written["zone"], "-").to_numpy(zero_copy_only=False)
    offset = np.where(west, -1, 1) * (hours_east * 60 + minutes_east)
    times = ((hour * 60 + minute - offset) * 60 + second) * 1_000_000 + digits("fraction", 0, 6)
    days = local_day.astype(np.int64)
    times += days * _DAY
    dates = known & (pc.binary_length(written["clock"]).to_numpy() == 0)
    offsets = known & (pc.binary_length(written["zone"]).to_numpy() > 0)
    missing = (known & ~dates & ~offsets).any()
    _check_offsets(clock, missing=bool(missing), present=bool(offsets.any()))
    times[dates] = _day_starts(days[dates], zone)
    return _instants(times, known), bad | (_valid(texts) & ~known)


def _parsed_times(texts: Any, time_format: str) -> tuple[Integers, NDArray[np.bool_]]:
    """Parse texts with pandas; return microseconds, and which texts have the format."""
    import pandas as pd

    series = pd.Series(texts.to_numpy(zero_copy_only=False), dtype=object).str.strip()

    def parsed(texts: Any) -> Any:
        return pd.to_datetime(texts, errors="coerce", utc=True, format=time_format)

    times = parsed(series)
    fine = times.dt.unit == "ns"
    known = times.notna().to_numpy().copy()
    microseconds = times.dt.as_unit("us").astype("int64").to_numpy().copy()
    if fine:
        # For the sake of one text with nanoseconds, pandas refuses all dates before 1677 and after
        # 2262. What it refused is parsed again by itself.
        refused = series[~known & series.notna().to_numpy()]
        for text in refused.unique():
            alone = parsed(pd.Series([text])).dt.as_unit("us")
            if alone.notna()[0]:
                rows = refused.index[refused == text]
                known[rows], microseconds[rows] = True, alone.astype("int64")[0]
    return microseconds, known


# --- Texts ----------------------------------------------------------------------------------


def plain(column: Any) -> Any:
    """Return a column without dictionary, extension type and views, which few functions accept."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string_view(column.type):
        return column.cast(pa.large_string())
    return column.cast(pa.large_binary()) if pa.types.is_binary_view(column.type) else column


def _attempts(column: Any) -> Iterator[Any]:
    """Yield a column of texts as it is, then with null for missing values.

    Casts of whole columns are tried on the first before the second is computed.
    """
    column = pc.cast(column, pa.binary())
    yield column
    yield pc.if_else(_is_missing(column), None, column)


def _matching(column: Any, pattern: str) -> Converted:
    """Return trimmed texts that match a pattern in ASCII, and which of those present do not."""
    column = pc.cast(column, pa.binary())
    present = pc.invert(_is_missing(column))
    matches = pc.and_(present, pc.fill_null(pc.match_substring_regex(column, pattern), False))
    texts = pc.cast(pc.if_else(matches, column, None), pa.string())
    bad = pc.and_not(present, matches).to_numpy(zero_copy_only=False)
    return pc.ascii_trim_whitespace(texts), bad


def _is_missing(column: Any, texts: Sequence[str] = MISSING) -> Any:
    """Return which values are null, NaN or a text for a missing value."""
    if pa.types.is_floating(column.type):
        return pc.fill_null(pc.is_nan(column), True)
    if not _is_text(column.type):
        return pc.is_null(column)
    missing = pa.array([text.encode() for text in texts], pa.binary())
    return pc.or_(pc.is_null(column), pc.is_in(pc.cast(column, pa.binary()), missing))


def _valid(column: Any) -> NDArray[np.bool_]:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False))


def _wrong_type(column: Any, expected: str) -> ColumnTypeError:
    return ColumnTypeError(f"{column.type} where {expected} were expected")


def _is_text(kind: Any) -> bool:
    tests = (pa.types.is_string, pa.types.is_large_string)
    return any(test(kind) for test in (*tests, pa.types.is_binary, pa.types.is_large_binary))


def _is_number(kind: Any) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
    return any(test(kind) for test in tests)
