"""Choices for a published map, in six parts: source, cells, levels, windows, protection, ledger."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, TypeAlias

from shuffledp.accounting.contributions import Unit
from shuffledp.data.sources import COLUMNS, TO_COORDINATES
from shuffledp.errors import InputError
from shuffledp.publishing.counting import MAX_MALFORMED_SHARE
from shuffledp.publishing.noise import MechanismName

Number: TypeAlias = float | Decimal | str
Column: TypeAlias = str | int


def exact_number(name: str, value: Number) -> Decimal:
    """Return a number as written."""
    try:
        exact = Decimal(repr(float(value)) if isinstance(value, float) else str(value))
    except InvalidOperation:
        raise InputError(f"{name} must be a number, got {value!r}") from None
    if not exact.is_finite():
        raise InputError(f"{name} must be finite, got {value}")
    # The ledger recognises 1.0 and 1 as one number, and 0 and -0.
    if exact.is_zero():
        return Decimal(0)
    return Decimal(format(exact.normalize(), "f"))


@dataclass(frozen=True)
class Source:
    """Records, and what their columns mean.

    Parameters
    ----------
    data
        A path: text, JSON lines or Parquet with a column for each argument below, a folder of such
        files, or points of a geographic format (without `latitude` and `longitude`); docs/data.md
        lists all. Or a table of pandas, geopandas, polars or Arrow. Without any column: counts,
        with columns ``cell`` (the cell's id) and ``count``.
    name
        Name by which the ledger recognises a table of records in memory.
    latitude, longitude, user, time, place
        Columns: names, or positions from 0 if a file has no header. Instead of coordinates, `place`
        may have the id of each record's cell.
    to_latitude, to_longitude, to_place
        Columns of where trips end, if records are trips; the columns above are then of where they
        begin. Trips between each pair of cells are counted.
    separator, decimal, quoting
        How a text file is written, as in `TextFormat`.
    crs
        EPSG code of the coordinates, if they are not degrees in WGS 84.
    time_format
        How times are written if not in ISO 8601: ``unix``, ``unix-ms``, ``unix-us`` or ``unix-ns``
        for numbers since 1970, or a format of `datetime.strptime` such as ``%d/%m/%Y %H:%M``.
    user_type
        ``number``: identifiers that are the same number, such as 7, 007 and 7.0, are one user;
        ``text``: users are compared as written.
    max_malformed_share
        Largest share of malformed records, from 0 to 1; a file with more is refused.
    """

    data: Any
    name: str | None = None
    latitude: Column | None = None
    longitude: Column | None = None
    user: Column | None = None
    time: Column | None = None
    place: Column | None = None
    to_latitude: Column | None = None
    to_longitude: Column | None = None
    to_place: Column | None = None
    separator: str = ","
    decimal: str = "."
    quoting: str = "strict"
    crs: str | None = None
    time_format: str | None = None
    user_type: str = "number"
    max_malformed_share: float = MAX_MALFORMED_SHARE

    @property
    def columns(self) -> dict[str, Column]:
        """Columns that are named, by what they mean."""
        named = {each: getattr(self, each, None) for each in COLUMNS}
        return {each: column for each, column in named.items() if column is not None}

    @property
    def flows(self) -> bool:
        """Whether records are trips."""
        return not {*TO_COORDINATES, "to_place"}.isdisjoint(self.columns)


@dataclass(frozen=True)
class MapCells:
    """Cells of a map.

    Parameters
    ----------
    kind
        ``h3:RESOLUTION``, ``metres:SIZE``, ``shape:ROWSxCOLUMNS``, ``step:DEGREESxDEGREES``, or the
        path of a file of polygons, or of points such as stops: a geographic format, or CSV with
        columns of an id, latitude and longitude. Points need the column `place` of the records.
    box, outline
        Region of the cells: south, north, west and east in degrees, or a GeoJSON file. One is
        needed except for a file of polygons or points, and for hexagons of a sparse map.
    name, identifier
        Properties of the polygons or points that hold their names and ids.
    elsewhere
        Whether one more cell, with the id ``elsewhere``, counts the records that lie in no other
        cell, or whose `place` is empty or no cell. Records with a missing coordinate do not count.
    flows
        For a preview: whether trips between pairs of cells are counted. A map is one of trips if
        its `Source` says where they end.
    """

    kind: str | Path
    box: Sequence[float] | None = None
    outline: str | Path | None = None
    name: str | None = None
    identifier: str | None = None
    elsewhere: bool = False
    flows: bool = False


@dataclass(frozen=True)
class Levels:
    """Coarser areas and longer times that get noisy counts of their own, so that their sums do too.

    Parameters
    ----------
    shares
        The share of the budget of each level by its name; the rest is for the cells or windows.
        With share 0, a level gets sums of finer counts, which cost nothing.
        Levels of areas: ``total``, a property of the polygons or points, ``h3:RESOLUTION`` above
        hexagons, ``metres:SIZE``, ``shape:ROWSxCOLUMNS`` or ``step:DEGREESxDEGREES`` above such
        cells. Levels of time: ``day``, ``week``, ``month``, ``quarter``, ``year`` and ``period``.
        Every area of a level must lie in one area of the next coarser level. With levels of both
        kinds, all combinations are counted, and the shares of a combination are multiplied.
    errors
        Instead of shares: the standard deviation, in records, wanted for the areas of each level,
        and of ``cells`` if there are levels of areas, of ``windows`` if there are levels of time.
        Shares are chosen for which the largest ratio of an error to the wanted one is smallest.
    """

    shares: Mapping[str, Number] = field(default_factory=dict)
    errors: Mapping[str, Number] = field(default_factory=dict)


@dataclass(frozen=True)
class Period:
    """Days that count, and the windows into which they are divided.

    Parameters
    ----------
    first, last
        First and last day, such as ``2024-01-01``.
    every
        ``hour``, ``day``, ``week``, ``month``, ``quarter`` or ``year`` for a map of each.
    profile
        Instead of `every`: ``hour``, ``weekday`` or ``weekday-hour`` for a map of each hour of the
        day, day of the week or hour of the week, over the whole period.
    time_zone
        Where a day begins: a name of the IANA database.
    times
        What times without an offset from UTC are: ``local``, so that a day begins at 00:00 of the
        times as written, or ``utc``. Needed for such times in another `time_zone` than UTC, and
        published. Dates without a time are days in every time zone.
    """

    first: str
    last: str
    every: str | None = None
    profile: str | None = None
    time_zone: str = "UTC"
    times: str | None = None

    @property
    def clock(self) -> str | None:
        """Return what times without an offset are, None if every time must have one."""
        return "utc" if self.times is None and self.time_zone == "UTC" else self.times


@dataclass(frozen=True)
class Protection:
    """The unit that is protected, and the guarantee for it.

    Parameters
    ----------
    unit
        ``record``, or ``user`` for all records of one user.
    eps, delta
        Guarantee for adding or removing one unit. Delta must be positive for Gaussian noise, and if
        `sparse`.
    sparse
        Whether only counts above 0 get noise, and are published if they reach a threshold, which
        delta sets. This is for millions of cells, or pairs of them, nearly all of which are empty.
    mechanism
        ``laplace`` or ``gaussian``; by default the one with less noise, or Laplace if delta is 0.
    records_per_user
        Largest number of records of a user that count, drawn at random (default 1; unit user only).
    distinct
        Whether a user counts at most once in each cell of each window (unit user only).
    per_window
        Whether `records_per_user` holds for each window instead of the whole period, which needs
        more noise.
    """

    unit: Unit
    eps: Number
    delta: Number = 0
    mechanism: MechanismName | None = None
    records_per_user: int | None = None
    distinct: bool = False
    per_window: bool = False
    sparse: bool = False


@dataclass(frozen=True)
class Ledger:
    """File that records all publications about the same people.

    Parameters
    ----------
    path
        The file; the first publication creates it.
    total, total_delta
        Eps of all publications together, and delta of all their thresholds (`sparse`), set by the
        first one. The defaults are its own, so that nothing else can be published.
    again
        Whether to pay once more for a map that was published before, because it is lost or the
        records or cells have changed. Without it, the earlier map is returned; no record is read.
    """

    path: str | Path
    total: Number | None = None
    total_delta: Number | None = None
    again: bool = False
