"""Describe sources of check-ins: their kinds and column layouts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from shuffledp.data.systems import degrees_from, epsg_code
from shuffledp.errors import InputError, one_line, shortened

COORDINATES: Final = ("latitude", "longitude")
TO_COORDINATES: Final = ("to_latitude", "to_longitude")  # where a trip ends
_REFERENCE_TIME: Final = datetime(2031, 12, 30, 23, 58, 59, 123456, UTC)
"""All its parts differ, so that a format that loses or confuses one of them is noticed."""

UNIX_UNITS: Final = {"unix": 1_000_000, "unix-ms": 1_000, "unix-us": 1, "unix-ns": 0.001}
"""Formats of times that are numbers since 1970 (UTC), with their unit in microseconds."""

COLUMNS: Final = (
    *("user", "time", *COORDINATES, "place", *TO_COORDINATES, "to_place", "location", "count"),
)
FORMATS: Final = ("csv", "json", "parquet", "geo")
QUOTING: Final = ("strict", "rfc4180", "none")
USER_TYPES: Final = ("number", "text")
LENGTHS: Final = ("hour", "day", "week", "month", "quarter", "year")
"""Lengths of the windows of a period."""

CLOCKS: Final = ("local", "utc")  # what times without an offset are
PROFILES: Final = ("hour", "weekday", "weekday-hour")
"""Profiles of the day and week over a period."""


@dataclass(frozen=True)
class SourceKind:
    """The keys of the configuration of a kind of source besides ``kind``, and what is real.

    ``real_rows`` says whether each row is a real check-in with its position (made-up rows are not
    drawn as dots), ``real_users`` whether rows identify users. If they do not, users can neither be
    counted nor be the unit.
    """

    required_keys: frozenset[str]
    optional_keys: frozenset[str]
    real_rows: bool
    real_users: bool


SOURCE_KINDS: Final = MappingProxyType(
    {
        # Counts of rectangles; positions and users are made up.
        "embedded": SourceKind(frozenset(), frozenset(), real_rows=False, real_users=False),
        "download": SourceKind(
            frozenset({"url", "layout"}), frozenset({"checksum"}), real_rows=True, real_users=True
        ),
        "file": SourceKind(
            frozenset({"path", "layout"}), frozenset({"checksum"}), real_rows=True, real_users=True
        ),
    }
)


@dataclass(frozen=True)
class TextFormat:
    r"""How a text file divides into records and fields.

    Raises `InputError` if a value is invalid. The message names the key.

    Parameters
    ----------
    separator : str
        One character.
    header : bool
        Whether the first record has the names of the columns.
    decimal : str
        Decimal mark of numbers: a point or a comma.
    quoting : str
        ``strict``: fields may be quoted as in RFC 4180, but no line within a quoted field may have
        as many separators as a record, because two stray quotation marks would make a field of the
        records between them; ``rfc4180``: it may; ``none``: quotation marks are ordinary
        characters, and a line is a record.
    """

    separator: str = ","
    header: bool = True
    decimal: str = "."
    quoting: str = "strict"

    def __post_init__(self) -> None:
        separator = self.separator
        valid = isinstance(separator, str) and len(separator) == 1 and separator.isascii()
        if not valid or separator.isalnum() or separator in "\"'.+-\r\n\0":
            raise InputError(
                "separator must be one character that no number contains, such as a comma, a "
                f'semicolon or a tab, which YAML writes "\\t", got {separator!r}'
            )
        if not isinstance(self.header, bool):
            raise InputError(f"header must be true or false, got {self.header!r}")
        if self.decimal not in (".", ","):
            raise InputError(f'decimal must be "." or ",", got {self.decimal!r}')
        if self.quoting not in QUOTING:
            raise InputError(f"quoting must be one of {', '.join(QUOTING)}, got {self.quoting!r}")
        if self.decimal == separator and self.quoting == "none":
            raise InputError(
                "decimal must be different from separator if fields are not quoted, got "
                f"{separator!r} for both"
            )


@dataclass(frozen=True)
class Layout:
    """Format of a file of records, and which of its columns are the canonical ones.

    Raises `InputError` if a value is invalid. The message names the key.

    Parameters
    ----------
    format : str
        ``csv`` for separated text; ``json`` for JSON lines, one object a line; ``parquet``; or
        ``geo`` for points (`layers`). Text may be packed with gzip, bzip2, xz or zstd.
    columns : Mapping[str, str | int]
        Maps a canonical name of `COLUMNS` to the name of the column in the file, or to its position
        counted from 0. A name with points may be the path to a nested field, and the key of a
        folder named ``key=value`` is a column. For geo, it maps to the names of properties, and
        latitude and longitude are those of the points.
    text : TextFormat
        Only used for csv.
    crs : str or None
        EPSG code of the reference system that the coordinates are in, such as ``EPSG:2154``, if
        they are not degrees in WGS 84. Longitude is then the easting and latitude the northing.
        For geo, each file declares its own.
    time_format : str or None
        How times are written: a format of `datetime.strptime`, such as ``%d/%m/%Y %H:%M``, for
        text; ``unix``, ``unix-ms``, ``unix-us`` or ``unix-ns`` for numbers of seconds or their
        parts since 1970 (UTC); None for ISO 8601 or columns of times and dates.
    clock : str or None
        What times without an offset from UTC are: ``utc``; ``local``, in which case no time may
        have an offset; or None if every time must have one.
    blank_places : bool
        Whether a record without the id of a place counts, somewhere else.
    user_type : str
        ``number``: identifiers that are the same number are one user, as `values.to_identifier`
        says; ``text``: users are compared as written.
    """

    format: str
    columns: Mapping[str, str | int]
    text: TextFormat = TextFormat()
    crs: str | None = None
    time_format: str | None = None
    clock: str | None = "utc"
    blank_places: bool = False
    user_type: str = "number"

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InputError(f"format must be one of {', '.join(FORMATS)}, got {self.format!r}")
        if self.user_type not in USER_TYPES:
            raise InputError(
                f"user_type must be one of {', '.join(USER_TYPES)}, got {self.user_type!r}"
            )
        if self.crs is not None:
            try:
                if (code := epsg_code(self.crs)) is not None:
                    degrees_from(code)
            except InputError as error:
                raise InputError(f"crs: {error}") from error
        if self.time_format is not None:
            _check_time_format(self.time_format)
        self._check_columns()
        if self.time_format is not None and "time" not in self.columns:
            raise InputError(
                f"time_format needs columns.time, the column of times, got {self.time_format!r}"
            )

    @property
    def epsg(self) -> int | None:
        """EPSG code of the coordinates, None if they are degrees in WGS 84."""
        return None if self.crs is None else epsg_code(self.crs)

    def _check_columns(self) -> None:
        if not isinstance(self.columns, Mapping):
            raise InputError(
                f"columns must map names to columns of the file, got {self.columns!r}, "
                "for example {latitude: lat, longitude: lon}"
            )
        geo = self.format == "geo"
        has_names = self.text.header or self.format != "csv"
        for key, value in self.columns.items():
            if key not in COLUMNS:
                raise InputError(f"columns.{key} is not a known column: use {', '.join(COLUMNS)}")
            if geo and (key in (*COORDINATES, *TO_COORDINATES) or not isinstance(value, str)):
                raise InputError(
                    f"columns.{key} must be the name of a property, got {value!r}: with format "
                    "geo, latitude and longitude are those of the points"
                )
            if self.format == "json" and not isinstance(value, str):
                raise InputError(f"columns.{key} must be a name in JSON lines, got {value!r}")
            is_position = isinstance(value, int) and not isinstance(value, bool) and value >= 0
            if not is_position and not (isinstance(value, str) and value):
                raise InputError(
                    f"columns.{key} must be the column's name or its position counted from 0, "
                    f"got {value!r}"
                )
            if isinstance(value, str) and not has_names:
                raise InputError(
                    f"columns.{key} must be a position counted from 0, got {value!r}: with "
                    "header: false no column has a name"
                )
        for key in COORDINATES:
            if key not in self.columns and not geo and "place" not in self.columns:
                raise InputError(f"columns.{key} is missing: latitude and longitude are required")
        for pair in (COORDINATES, TO_COORDINATES):
            latitude, longitude = (self.columns.get(name) for name in pair)
            if latitude is None or latitude != longitude:
                continue
            raise InputError(
                f"one column cannot be latitude and longitude, got {latitude!r} for both: split it "
                "into two, for example by pandas: t[['lon', 'lat']] = "
                f"t[{latitude!r}].str.extract(r'([-.\\d]+)[ ,]+([-.\\d]+)') for POINT (lon lat)"
            )
        if len(set(self.columns.values())) < len(self.columns):
            raise InputError(
                "each entry of columns must name a different column of the file, "
                f"got {dict(self.columns)}"
            )


def _check_time_format(time_format: object) -> None:
    """Check that a format determines the date and, down to its smallest unit, the time of day."""
    reason = "it has no directive such as %Y"
    if time_format in UNIX_UNITS:
        return
    if isinstance(time_format, str) and "%" in time_format:
        import pandas as pd

        try:
            text = _REFERENCE_TIME.strftime(time_format)
            parsed = pd.to_datetime(text, format=time_format, utc=True)
        except (ValueError, KeyError, re.error) as error:
            reason = one_line(str(error))
        else:
            units = ("D", "h", "min", "s", "us")
            reference = pd.Timestamp(_REFERENCE_TIME)
            if "%Z" not in time_format and any(parsed == reference.floor(unit) for unit in units):
                return
            reason = f"it reads the time written as {shortened(text)} as {parsed:%Y-%m-%d %H:%M:%S}"
            if "%Z" in time_format:
                reason = "names of time zones are ambiguous; offsets are %z"
    raise InputError(
        f"time_format must be {', '.join(UNIX_UNITS)} (numbers since 1970), or a format "
        "with year, month and day, such as '%d/%m/%Y %H:%M:%S', whose hours are %H or %I with %p, "
        f"got {time_format!r}: {reason}"
    )


SNAP: Final = Layout(
    "csv",
    {"user": 0, "time": 1, "latitude": 2, "longitude": 3, "location": 4},
    TextFormat("\t", header=False, quoting="none"),
)
"""Layout of SNAP's loc-gowalla.

In loc-brightkite, `location` is not an integer, so that its rows are malformed in this layout.
"""


def layout_from_config(spec: Mapping[str, Any]) -> Layout:
    """Return the layout that a block of the configuration describes.

    Its keys are `format` (default csv) and the other parameters of `TextFormat` and `Layout`, which
    has the defaults. Raises `InputError` if a key is unknown or missing, or `TextFormat` or
    `Layout` rejects a value.
    """
    text_keys = {field.name for field in fields(TextFormat)}
    keys = {field.name for field in fields(Layout)} - {"text"}
    for key in spec:
        if key not in text_keys | keys:
            known = ", ".join(sorted(text_keys | keys))
            raise InputError(f"{key} is not a key of a layout: use {known}")
    kind = spec.get("format", "csv")
    unused = text_keys if kind in ("json", "parquet", "geo") else set()
    for key in sorted((unused | ({"crs"} if kind == "geo" else set())) & set(spec)):
        raise InputError(f"{key} has no meaning for format {kind}: remove it, got {spec[key]!r}")
    if "columns" not in spec and kind != "geo":
        raise InputError("columns is missing: for example {latitude: lat, longitude: lon}")
    text = TextFormat(**{key: spec[key] for key in text_keys & set(spec)})
    rest = {key: spec[key] for key in keys & set(spec)}
    return Layout(**{"format": "csv", "columns": {}, "text": text, **rest})


def source_layout(spec: str | Mapping[str, Any]) -> Layout:
    """Return the layout of a source: ``snap``, or a block for `layout_from_config`."""
    return SNAP if isinstance(spec, str) else layout_from_config(spec)
