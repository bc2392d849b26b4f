"""Describe sources of check-ins: their kinds, column layouts and budgets."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from shuffledp.errors import InputError, one_line, shortened

COORDINATES: Final = ("latitude", "longitude")
BUDGET: Final = "budget"
IDENTIFIER: Final = "identifier"
"""The user as written, because publications must not confuse users with equal fingerprints."""

UNIX_SECONDS: Final = "unix"
"""The `time_format` of times that are numbers of seconds since 1970 (UTC)."""

_REFERENCE_TIME: Final = datetime(2031, 12, 30, 23, 58, 59, 123456, UTC)
"""All its parts differ, so that a format that loses or confuses one of them is noticed."""

COLUMNS: Final = ("user", IDENTIFIER, "time", *COORDINATES, "location", BUDGET)
FORMATS: Final = ("csv", "parquet", "geo")

MIN_POSITIVE_BUDGET: Final = 1e-9
"""Smallest local budget in a file, apart from 0. The configuration's schema repeats both limits."""

MAX_BUDGET: Final = 20.0
"""Largest local budget in a file."""


@dataclass(frozen=True)
class SourceKind:
    """The configuration keys of a kind of source, and whether its rows and users are real.

    Attributes
    ----------
    required_keys, optional_keys
        Keys that the configuration of such a source must have and may have, besides ``kind``.
    real_rows
        Whether each row is a real check-in with its position. Made-up rows are not drawn as dots.
    real_users
        Whether rows identify users. If not, users can neither be counted nor be the unit.
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
class Layout:
    """Format of a check-in file, and which of its columns are the canonical ones.

    Parameters
    ----------
    format : str
        `csv` for any separated text, plain or compressed; `parquet`; or `geo` for points in
        GeoJSON, a GeoPackage, a shapefile, plain or zipped, or GeoParquet.
    separator : str
        One character. With a tab, quotation marks are ordinary characters; with any other separator
        a field may be quoted, but may not contain a line break. Only used for csv.
    header : bool
        Whether the first line has the names of the columns. Only used for csv.
    columns : Mapping[str, str | int]
        Maps a canonical name of `COLUMNS` to the name of the column in the file, or to its position
        counted from 0. Only latitude and longitude are required. For geo, it maps to the names of
        properties, and latitude and longitude are those of the points.
    decimal : str
        Decimal mark of numbers in text: a point or a comma. Only used for csv.
    crs : str or None
        EPSG code of the reference system that the coordinates are in, such as ``EPSG:2154``, if
        they are not degrees in WGS 84. Longitude is then the easting and latitude the northing.
        For geo, each file declares its own.
    time_format : str or None
        How times are written: a format of `datetime.strptime`, such as ``%d/%m/%Y %H:%M``, for
        text; ``unix`` for numbers of seconds since 1970 (UTC), with or without decimals; None for
        ISO 8601 or columns of timestamps. Without ``%z``, times are in UTC.

    Raises
    ------
    InputError
        If a value is invalid. The message names the key.
    """

    format: str
    separator: str
    header: bool
    columns: Mapping[str, str | int]
    decimal: str = "."
    crs: str | None = None
    time_format: str | None = None

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise InputError(f"format must be csv, parquet or geo, got {self.format!r}")
        if not isinstance(self.header, bool):
            raise InputError(f"header must be true or false, got {self.header!r}")
        self._check_separator()
        if self.decimal not in (".", ",") or self.decimal == self.separator:
            raise InputError(
                'decimal must be "." or ",", and different from separator, '
                f"got decimal {self.decimal!r} and separator {self.separator!r}"
            )
        if self.crs is not None:
            degrees_from(self.crs)
        if self.time_format is not None:
            _check_time_format(self.time_format)
        self._check_columns()
        if self.time_format is not None and "time" not in self.columns:
            raise InputError(
                f"time_format needs columns.time, the column of times, got {self.time_format!r}"
            )

    def _check_separator(self) -> None:
        separator = self.separator
        valid = isinstance(separator, str) and len(separator) == 1 and separator.isascii()
        if not valid or separator.isalnum() or separator in "\"'.+-\r\n\0":
            raise InputError(
                "separator must be one character that no number contains, such as a comma, a "
                f'semicolon or a tab, which YAML writes "\\t", got {separator!r}'
            )

    def _check_columns(self) -> None:
        if not isinstance(self.columns, Mapping):
            raise InputError(
                f"columns must map names to columns of the file, got {self.columns!r}, "
                "for example {latitude: lat, longitude: lon}"
            )
        geo = self.format == "geo"
        has_names = self.header or self.format != "csv"
        for key, value in self.columns.items():
            if key not in COLUMNS:
                raise InputError(f"columns.{key} is not a known column: use {', '.join(COLUMNS)}")
            if geo and (key in COORDINATES or not isinstance(value, str)):
                raise InputError(
                    f"{key_of(key)} must be the name of a property, got {value!r}: with format "
                    "geo, latitude and longitude are those of the points"
                )
            is_position = isinstance(value, int) and not isinstance(value, bool) and value >= 0
            if not is_position and not (isinstance(value, str) and value):
                raise InputError(
                    f"{key_of(key)} must be the column's name or its position counted from 0, "
                    f"got {value!r}"
                )
            if isinstance(value, str) and not has_names:
                raise InputError(
                    f"{key_of(key)} must be a position counted from 0, got {value!r}: with "
                    "header: false no column has a name"
                )
        for key in COORDINATES:
            if key not in self.columns and not geo:
                raise InputError(f"columns.{key} is missing: latitude and longitude are required")
        if len(set(self.columns.values())) < len(self.columns):
            raise InputError(
                "each entry of columns must name a different column of the file, "
                f"got {dict(self.columns)}"
            )


def _check_time_format(time_format: object) -> None:
    """Check that a format determines the date and, down to its smallest unit, the time of day."""
    reason = "it has no directive such as %Y"
    if time_format == UNIX_SECONDS:
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
        "time_format must be unix, for seconds since 1970, or a format with year, month and day, "
        f"such as '%d/%m/%Y %H:%M:%S', whose hours are %H or %I with %p, got {time_format!r}: "
        f"{reason}"
    )


@cache
def degrees_from(crs: str) -> Any:
    """Return the `pyproj.Transformer` from a reference system to degrees, easting first.

    Conversions of unknown accuracy are not used. Others may be off by some metres, because PROJ's
    correction grids are not downloaded.

    Raises
    ------
    InputError
        If it is not the EPSG code of a projected or geographic system that can be converted.
    """
    from pyproj import CRS, Transformer
    from pyproj.exceptions import ProjError

    try:
        code = re.fullmatch(r"EPSG:(\d{1,6})", crs)
        system = CRS.from_epsg(int(code[1])) if code else None
        if system is not None and (system.is_projected or system.is_geographic):
            return Transformer.from_crs(system, 4326, always_xy=True, allow_ballpark=False)
    except ProjError:
        pass
    raise InputError(
        "crs must be the EPSG code of a projected or geographic system that can be converted to "
        f"WGS 84, such as EPSG:2154, got {crs!r}"
    )


def key_of(name: str) -> str:
    """Return the key of the configuration that maps a canonical column."""
    return "budgets.column" if name == BUDGET else f"columns.{name}"


SNAP: Final = Layout(
    format="csv",
    separator="\t",
    header=False,
    columns={"user": 0, "time": 1, "latitude": 2, "longitude": 3, "location": 4},
)
"""Layout of SNAP's loc-gowalla.

In loc-brightkite, `location` is not an integer, so that its rows are malformed in this layout.
"""


def layout_from_config(spec: Mapping[str, Any]) -> Layout:
    """Return the layout that a block of the configuration describes.

    Its keys are `columns` (required unless format is geo), `format` (default csv), `separator`
    (default a comma), `header` (default true), `decimal` (default a point), `crs` (default WGS 84)
    and `time_format` (default ISO 8601): see `Layout`.

    Raises
    ------
    InputError
        If a key is unknown or missing, or `Layout` rejects a value.
    """
    keys = {field.name for field in fields(Layout)}
    for key in spec:
        if key not in keys:
            raise InputError(f"{key} is not a key of a layout: use {', '.join(sorted(keys))}")
    if spec.get("format") == "geo":
        for key in sorted({"separator", "header", "decimal", "crs"} & set(spec)):
            raise InputError(f"{key} has no meaning for format geo: remove it, got {spec[key]!r}")
    if "columns" not in spec and spec.get("format") != "geo":
        raise InputError("columns is missing: for example {latitude: lat, longitude: lon}")
    return Layout(**{"format": "csv", "separator": ",", "header": True, "columns": {}, **spec})


def source_layout(spec: str | Mapping[str, Any], budget_column: str | int | None = None) -> Layout:
    """Return the layout of a source.

    `spec` is ``snap`` or a block for `layout_from_config`. `budget_column` is the name or position
    of the column with personal budgets; with None, no budgets are read.

    Raises
    ------
    InputError
        If the layout is invalid, or already maps the column of the budgets.
    """
    layout = SNAP if isinstance(spec, str) else layout_from_config(spec)
    if budget_column is None:
        return layout
    return replace(layout, columns={**layout.columns, BUDGET: budget_column})
