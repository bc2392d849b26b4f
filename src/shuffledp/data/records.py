"""Convert records to canonical columns, and say what is wrong with those that do not count.

Whether a record counts, and as what, depends on that record alone: `publishing` relies on this.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from numpy.typing import NDArray

from shuffledp.data import values
from shuffledp.data.layers import point_coordinates
from shuffledp.data.sources import COLUMNS, COORDINATES, TO_COORDINATES, UNIX_UNITS, Layout
from shuffledp.data.systems import to_degrees
from shuffledp.errors import InputError, one_line, shortened
from shuffledp.numerics.arrays import Floats

MAX_DESCRIBED: Final = 5  # malformed records that are described
_MIN_PLACED_SHARE: Final = 0.01  # of the records; below it the columns must be wrong
_HIVE_MISSING: Final = "__HIVE_DEFAULT_PARTITION__"


class CheckinError(InputError):
    """A file of records cannot be used as it is; the message names the file and the remedy."""


@dataclass(frozen=True)
class Frame:
    """A table of records in memory, written as Parquet, and its name.

    ``points`` says whether its columns latitude and longitude are those of its geometries.
    """

    name: str
    parquet: pa.Buffer
    points: bool = False

    def __str__(self) -> str:
        return f"the table {self.name}"


def frame_of(data: Any, name: str | None, *, points: bool = False) -> Frame:
    """Return a table of pandas, geopandas, polars or Arrow as a frame.

    With `points`, a table of geopandas gets columns ``latitude`` and ``longitude`` (WGS 84) of its
    points, empty where a point is missing. Raises `InputError` without a name, for other data, and
    for columns with several types.
    """
    if not name or not isinstance(name, str):
        raise InputError(
            "a table in memory needs a name, by which the ledger recognises it: give name=…, and "
            "the same name for the same records"
        )
    is_geographic = hasattr(data, "geometry") and hasattr(data, "crs")
    try:
        if is_geographic:
            data = _without_geometry(data, points)
        if hasattr(data, "to_parquet") and hasattr(data, "iloc"):  # pandas
            table = pa.Table.from_pandas(data, preserve_index=False)
        else:
            table = pa.table(data)
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"the table {name} cannot be read ({one_line(str(error))}): it must be a table of "
            "pandas, geopandas, polars or Arrow, with one type in each column"
        ) from error
    return Frame(name, sink.getvalue(), is_geographic and points)


def _without_geometry(data: Any, points: bool) -> Any:
    """Return a table of geopandas as one of pandas, with the coordinates of its points if asked."""
    import pandas as pd

    table = pd.DataFrame(data.drop(columns=data.geometry.name))
    if not points:
        return table
    shapes = (data.geometry if data.crs is None else data.to_crs(4326).geometry).to_numpy()
    kinds = shapely.get_type_id(shapes[~shapely.is_empty(shapes)])
    if not np.isin(kinds, (shapely.GeometryType.MISSING, shapely.GeometryType.POINT)).all():
        raise ValueError("its geometries must be points")
    longitude, latitude = point_coordinates(shapes).T
    return table.assign(latitude=latitude, longitude=longitude)


@dataclass(frozen=True)
class Batch:
    """Records that were read together.

    ``rows``, a `pyarrow.Table`, has the well-formed records that have a position (or a place), in
    order, with the canonical columns that the layout maps and the coordinates. ``malformed`` is the
    number of malformed records, ``faults`` has place and reason of the first few, and ``symptoms``
    counts signs of what may be wrong with the layout. ``unplaced`` is the number of records without
    a position.
    """

    rows: Any
    malformed: int = 0
    unplaced: int = 0
    faults: tuple[tuple[str, str], ...] = ()
    symptoms: Mapping[str, int] = field(default_factory=dict)


# --- Columns --------------------------------------------------------------------------------


def find_columns(
    source: Path | Frame, layout: Layout, names: Sequence[str], keys: Mapping[str, str]
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the position of each canonical column, and the values of those that are folders' keys.

    `names` are those of the file's columns from left to right. Raises `CheckinError` if a name is
    missing or not unique, or a position is beyond the last column.
    """
    positions: dict[str, int] = {}
    constant: dict[str, str] = {}
    for name in COLUMNS:
        column = layout.columns.get(name)
        if column is None:
            continue
        if isinstance(column, str):
            if column not in names and column in keys:
                constant[name] = keys[column]
                continue
            if column not in names:
                raise CheckinError(
                    f"{source} has no column {column!r} (columns.{name}){names_hint(names)}"
                )
            if names.count(column) > 1:
                raise CheckinError(
                    f"{source} has several columns {column!r}: set columns.{name} to the position"
                )
            column = names.index(column)
        if column >= len(names):
            raise CheckinError(
                f"{source} has {len(names)} columns, but columns.{name} is position {column} "
                f"counted from 0: check the position and separator, got {layout.text.separator!r}"
            )
        positions[name] = column
    return positions, constant


# Matches a coordinate, with a decimal point or comma, in what should be names of columns.
_COORDINATE: Final = re.compile(r"\d\.\d{2}|(?<!\w)\d{1,3},\d{4}")
_MAX_SHOWN_NAMES: Final = 20


def names_hint(names: Sequence[str]) -> str:
    """Return the end of a message that lists the columns, unless they are personal values."""
    if _COORDINATE.search(",".join(names)):
        return (
            ": its first line is a row, not the names of the columns: set header: false and give "
            "columns by position"
        )
    shown = ", ".join(repr(shortened(name, 60)) for name in names[:_MAX_SHOWN_NAMES])
    return f"; its columns are {shown}{', ...' * (len(names) > _MAX_SHOWN_NAMES)}"


def with_constants(
    columns: Mapping[str, Any], constant: Mapping[str, str], rows: int
) -> dict[str, Any]:
    """Return columns, with those that have the same text in all rows of a folder."""
    texts = {
        name: pa.repeat(
            pa.scalar(None if text == _HIVE_MISSING else text.encode(), pa.binary()), rows
        )
        for name, text in constant.items()
    }
    return {**columns, **texts}


# --- Records --------------------------------------------------------------------------------

_LIMITS: Final = (90.0, 180.0)  # of latitude and longitude, in degrees
_AIS_UNAVAILABLE: Final = (91.0, 181.0)
_MAX_METRES: Final = 2.1e7  # of coordinates in projected systems; larger ones are degrees times 1e7
_MAX_COUNT: Final = 1e15
_EXPECTED: Final = {
    "time": "an ISO 8601 time (set time_format, or remove columns.time if it is not needed)",
    "latitude": "a number from -90 to 90",
    "longitude": "a number from -180 to 180",
    "to_latitude": "a number from -90 to 90",
    "to_longitude": "a number from -180 to 180",
    "location": "an integer (remove columns.location if it is not needed)",
    "count": "a whole number, at least 0",
}
_DECIMAL_HINT: Final = ': write decimals with a point, or set decimal: "," (text only)'
_DECIMAL_COMMA: Final = re.compile(r"\s*[+-]?\d+,\d+\s*")
_MILLISECONDS: Final = re.compile(r"1\d{12}")


def make_batch(
    columns: Mapping[str, Any],
    place: Callable[[int], str],
    layout: Layout,
    zone: tzinfo,
    dropped: Sequence[tuple[str, str]] = (),
    refused: int = 0,
    symptoms: Mapping[str, int] | None = None,
) -> Batch:
    """Convert columns, and leave out records that are malformed or have no position.

    `columns` are Arrow arrays of any convertible type by their canonical names. `place` describes
    where a row is in the file. `refused` is the number of records that are malformed already, and
    `dropped` has place and reason of the first of them. A record without a position, which is no
    damage, has a coordinate that is missing (or both as 91 and 181, by which ships say so), or no
    place. Raises `ColumnTypeError` if a column cannot be converted.
    """
    found = Counter(symptoms or {})
    fields = {name: values.plain(column) for name, column in columns.items()}
    converted, bad = dict[str, Any](), dict[str, NDArray[np.bool_]]()
    for name, column in fields.items():
        try:
            converted[name], malformed = _converted(column, name, layout, zone)
        except values.ColumnTypeError as error:
            raise values.ColumnTypeError(
                f"columns.{name} names a column of type {error}"
            ) from error
        if malformed.any():
            bad[name] = malformed
    unplaced = np.zeros(len(next(iter(fields.values()))), dtype=bool)
    for pair in (COORDINATES, TO_COORDINATES):
        if pair[0] in converted:
            unplaced |= _check_positions(converted, bad, layout, found, pair)
    for name in ("place", "to_place"):
        if name in converted and not layout.blank_places:
            unplaced |= ~converted[name].is_valid().to_numpy(zero_copy_only=False)
    if "count" in converted:
        number = _floats(converted["count"])
        bad["count"] = ~((number >= 0) & (number <= _MAX_COUNT))
    wrong = np.logical_or.reduce([np.zeros_like(unplaced), *bad.values()]) & ~unplaced
    described = [
        (place(int(row)), _describe(fields, bad, int(row), layout))
        for row in np.flatnonzero(wrong)[:MAX_DESCRIBED]
    ]
    described = sorted([*described, *dropped], key=lambda each: int(each[0].rsplit(" ", 1)[1]))
    kept = ~(wrong | unplaced)
    result = pa.table(converted)
    return Batch(
        result if kept.all() else result.filter(pa.array(kept)),
        refused + int(wrong.sum()),
        int(unplaced.sum()),
        tuple(described[:MAX_DESCRIBED]),
        found,
    )


def _check_positions(
    converted: dict[str, Any],
    bad: dict[str, NDArray[np.bool_]],
    layout: Layout,
    found: Counter[str],
    pair: tuple[str, str],
) -> NDArray[np.bool_]:
    """Convert coordinates to degrees and mark malformed ones; return which records have none.

    `pair` are the names of latitude and longitude.
    """
    latitude, longitude = (_floats(converted[name]) for name in pair)
    none = np.zeros(len(latitude), dtype=bool)
    if layout.epsg is None and _within(latitude, 90.0) and _within(longitude, 180.0):
        return none
    unreadable = np.logical_or(*(bad.get(name, none) for name in pair))
    unplaced: NDArray[np.bool_] = (np.isnan(latitude) | np.isnan(longitude)) & ~unreadable
    if layout.epsg is not None:
        latitude, longitude = to_degrees(layout.epsg, x=longitude, y=latitude)
    else:
        unplaced |= (latitude == _AIS_UNAVAILABLE[0]) & (longitude == _AIS_UNAVAILABLE[1])
    checked = ~(unreadable | unplaced)
    for name, degrees, limit in zip(pair, (latitude, longitude), _LIMITS, strict=True):
        bad[name] = bad.get(name, none) | (checked & ~(np.abs(degrees) <= limit))
        converted[name] = pa.array(degrees)
    if layout.epsg is None:
        wrong = bad[pair[0]] | bad[pair[1]]
        found.update(_symptoms(latitude[wrong], longitude[wrong]))
    return unplaced


def _within(degrees: Floats, limit: float) -> bool:
    """Return whether all degrees are in range; NaN is not."""
    return not len(degrees) or bool(-limit <= degrees.min() and degrees.max() <= limit)


def _converted(column: Any, name: str, layout: Layout, zone: tzinfo) -> values.Converted:
    if name == "time":
        return values.to_time(column, layout.time_format, zone, layout.clock)
    if name == "user":
        return values.to_identifier(column, as_written=layout.user_type == "text")
    if name in ("place", "to_place"):
        return values.to_identifier(column, missing=("",))  # NA is the code of Namibia
    return (values.to_integer if name in ("location", "count") else values.to_number)(column)


def _floats(column: Any) -> Floats:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _symptoms(latitude: Floats, longitude: Floats) -> Counter[str]:
    """Count signs of what may be wrong with malformed coordinates."""
    largest = np.maximum(np.abs(latitude), np.abs(longitude))
    signs = {
        "swapped": (np.abs(longitude) <= 90) & (np.abs(latitude) <= 180) & (np.abs(latitude) > 90),
        "wide": (np.abs(latitude) <= 90) & (longitude > 180) & (longitude <= 360),
        "projected": (largest > 360) & (largest <= _MAX_METRES),
        "e7": (largest > _MAX_METRES) & (np.abs(latitude) <= 9e8) & (np.abs(longitude) <= 1.8e9),
    }
    return Counter({name: int(sign.sum()) for name, sign in signs.items() if sign.any()})


def _describe(
    fields: Mapping[str, Any], bad: Mapping[str, NDArray[np.bool_]], row: int, layout: Layout
) -> str:
    """Describe a malformed record without its values, which may be personal: logs are kept."""
    # Coordinates come first: a malformed one may reveal that line 1 has the names of the columns.
    name = next(
        name for name in sorted(bad, key=lambda each: each not in COORDINATES) if bad[name][row]
    )
    value = fields[name][row].as_py()
    if value is None or value in ("", b""):
        return f"{name} is missing"
    text = value.decode("utf-8", errors="replace") if isinstance(value, bytes) else str(value)
    if name == "time" and layout.time_format is not None:
        return f"time {_fault_of_format(text, layout.time_format)}"
    in_crs = layout.crs is not None and name in (*COORDINATES, *TO_COORDINATES)
    expected = f"a coordinate of {layout.crs}" if in_crs else _EXPECTED[name]
    comma = name not in ("time", "count") and _DECIMAL_COMMA.fullmatch(text)
    return f"{name} is not {expected}{_DECIMAL_HINT if comma else ''}"


def _fault_of_format(text: str, time_format: str) -> str:
    """Describe a time by its form, in which every digit is a 9 and every letter an A."""
    form = shortened(repr(re.sub(r"[^\W\d_]", "A", re.sub(r"\d", "9", text))))
    if time_format in UNIX_UNITS:
        hint = ""
        if time_format == "unix" and _MILLISECONDS.fullmatch(text.strip()):
            hint = ": it seems to be in milliseconds, set time_format: unix-ms"
        return (
            f"is not a number since 1970 in the years 1 to 9999 ({time_format}; got {form}){hint}"
        )
    return f"is not in the time_format {time_format!r}, got the form {form}"


@dataclass
class Survey:
    """Count the records of a source, and raise the errors that are known at the end."""

    source: Path | Frame
    layout: Layout
    read: int = 0
    malformed: int = 0
    unplaced: int = 0
    faults: list[tuple[str, str]] = field(default_factory=list)
    symptoms: Counter[str] = field(default_factory=Counter)

    def add(self, part: Path | Frame, batch: Batch) -> list[tuple[str, str]]:
        """Count a batch of a file, and return the faults that are the first of the source."""
        self.read += batch.rows.num_rows + batch.malformed + batch.unplaced
        self.malformed += batch.malformed
        self.unplaced += batch.unplaced
        self.symptoms.update(batch.symptoms)
        where = ""
        if isinstance(part, Path) and isinstance(self.source, Path) and part != self.source:
            where = f"{part.relative_to(self.source)}, "
        new = [(where + place, reason) for place, reason in batch.faults]
        new = new[: MAX_DESCRIBED - len(self.faults)]
        self.faults += new
        return new

    def check(self, max_malformed_share: float) -> None:
        """Raise `CheckinError` if there were no records, or too few with a readable position."""
        if not self.read:
            raise CheckinError(f"{self.source} contains no rows")
        # Without a header, records decide how many fields are right. If fewer than half of them are
        # malformed, no other number of fields can be right after one record more.
        guessed = self.layout.format == "csv" and not self.layout.text.header
        half = guessed and 2 * self.malformed >= self.read
        if half or self.malformed > max_malformed_share * self.read:
            place, reason = self.faults[0]
            raise CheckinError(
                f"{self.source}: {self.malformed} of {self.read} rows are malformed, more than "
                f"max_malformed_share={max_malformed_share} allows; the first is {place}: {reason}"
                f"{self._hint()}"
            )
        if self.read - self.malformed - self.unplaced < _MIN_PLACED_SHARE * self.read:
            what = "a place" if "place" in self.layout.columns else "a latitude and longitude"
            raise CheckinError(f"{self.source}: hardly any record has {what}: check the columns")

    def _hint(self) -> str:
        swapped = "" if "place" in self.layout.columns else swap_remedy(self.layout)
        hints = {
            "swapped": f"Latitude and longitude seem to be swapped: {swapped}",
            "projected": "The coordinates seem to be projected, such as UTM metres: set crs to the "
            "EPSG code of their reference system",
            "e7": "The coordinates seem to be degrees times ten million (E7): divide them by 1e7",
            "wide": "Longitudes seem to run from 0 to 360: subtract 360 from those above 180",
            "wider": "Rows have one field more than the header: if these are row names, which R "
            "writes, write with row.names = FALSE, or put a name for them before the header; if "
            "rows end with a separator, put one at the end of the header",
            "narrower": "Rows have one field less than the header: if the header ends with a "
            "separator that rows do not have, remove it from the first line",
        }
        for name, hint in hints.items():
            if self.layout.format == "geo" and name != "swapped":
                continue  # each file declares its reference system
            if 2 * self.symptoms[name] > self.malformed:
                return f". {hint}"
        place, reason = self.faults[0]
        text = self.layout.text
        if self.layout.format != "csv" or text.header or not place.endswith("line 1"):
            return ""
        if reason.startswith(COORDINATES):
            return ". If line 1 contains the names of the columns, set header: true"
        return (
            ". If the first lines are no records, remove them, for example by "
            f"tail -n +7 {self.source.name} > records.csv if these are six"
        )


def swap_remedy(layout: Layout) -> str:
    """Return what to do if latitude and longitude are swapped."""
    if layout.format == "geo":
        return "write longitudes before latitudes, or check the region's box or outline"
    latitude, longitude = (layout.columns[name] for name in COORDINATES)
    return (
        f"set columns.latitude to {longitude!r} and columns.longitude to {latitude!r}, "
        "or check the region's box or outline (GeoJSON has longitude before latitude)"
    )
