"""Read the cells of a histogram from a file of polygons or points; refuse polygons that overlap.

The files may come from strangers; `layers` says how each format is read safely.
"""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import shapely
from numpy.typing import NDArray

from shuffledp.data.layers import MAX_BYTES, POINTS, POLYGONS, Layer, listed, read_layer
from shuffledp.data.sources import LENGTHS
from shuffledp.data.systems import WGS84, degrees_from, epsg_code
from shuffledp.data.values import canonical
from shuffledp.errors import InputError, did_you_mean, one_line, shortened
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.files import file_sha256

if TYPE_CHECKING:  # it is slow to load, and few of the processes of a run need it
    import geopandas as gpd

_EDGE_PARTS: Final = 1000  # in which edges as long as the whole are divided
MAX_OVERLAP_SHARE: Final = 1e-3  # of the area of the smaller polygon
_NAME_PROPERTIES: Final = ("name", "NAME", "Name", "stop_name")
_POINT_IDS: Final = ("id", "stop_id")  # of points, unless another property is named
_COORDINATE_COLUMNS: Final = (
    ("latitude", "lat", "stop_lat"),
    ("longitude", "lon", "lng", "stop_lon"),
)
_MAX_HEADER_BYTES: Final = 100_000
_DEGREES_SLACK: Final = 1e-6  # tolerance for rounding beyond 180 or 90 degrees


@dataclass(frozen=True)
class Polygons:
    """Polygons with unique ids and names.

    ``table`` has one row for each polygon in the order of the file, with the columns ``id`` (text,
    unique), ``name`` (text, not empty) and ``geometry`` (valid, not empty, two-dimensional; x =
    longitude and y = latitude in degrees, WGS 84). ``shapes`` are the geometries in the system of
    the file, whose EPSG code is ``epsg``, None for WGS 84: polygons that fit together in one system
    need not do so in another, because only their vertices are converted. ``bounds`` are west,
    south, east and north, in degrees, of a box that contains all points of the shapes. ``groups``
    has the values of further properties, one text for each polygon.

    Instead of polygons, there may be points, such as stops; ``points`` says so.
    """

    table: "gpd.GeoDataFrame"
    shapes: NDArray[np.object_]
    epsg: int | None
    bounds: tuple[float, float, float, float]
    groups: Mapping[str, list[str]]
    points: bool = False


def read_polygons(
    path: Path,
    *,
    name: str | None = None,
    identifier: str | None = None,
    groups: Sequence[str] = (),
    points: bool = False,
) -> Polygons:
    """Read polygons with unique ids and names; an unchanged file is read only once.

    The file is one for `layers.read_layer`. If `points` are accepted instead, it may also be a CSV
    file with columns of latitude and longitude, such as stops.txt of GTFS. `groups` are properties
    to read besides; every polygon must have them. `name` is the property to use as name; without
    it, one called ``name``, ``NAME``, ``Name`` or ``stop_name`` is used if there is any. A polygon
    without a value has its id as name. `identifier` is the property to use as id; without it, ids
    are the numbers of the features from 1 (for points, one called ``id`` or ``stop_id``). Features
    with the same id and name are parts of one polygon.

    Markup in texts is kept as it is; whitespace in them, such as a line break, becomes one space.
    Polygons may have gaps between them, and overlap by at most `MAX_OVERLAP_SHARE` of the smaller
    one.

    Raises `InputError` if the file cannot be read, has no polygon, or lacks the property `name` or
    `identifier`, or a polygon one of the `groups`; if a polygon is empty, invalid, out of range,
    across the 180th meridian or without an id, or an id or name has control characters or is not a
    text or number; if two polygons have the same id but different names, or overlap. The message is
    one line and begins with the path.
    """
    return _read(path, _checksum(path), name, identifier, tuple(groups), points)


def _checksum(path: Path) -> str:
    """Return the checksum of a file, or an empty text if it will be refused unread."""
    try:
        if path.is_file() and path.stat().st_size <= MAX_BYTES:
            return file_sha256(path)
    except OSError:
        pass
    return ""


# Planning a run needs the same polygons several times, and large ones take seconds to check.
@lru_cache(maxsize=16)
def _read(
    path: Path,
    _checksum: str,
    name: str | None,
    identifier: str | None,
    groups: tuple[str, ...],
    or_points: bool,
) -> Polygons:
    import geopandas as gpd

    automatic = _NAME_PROPERTIES if name is None else (name,)
    wanted = [*automatic, *([identifier] if identifier else []), *groups]
    layer = (
        _layer(path, [*wanted, *_POINT_IDS]) if or_points else read_layer(path, POLYGONS, wanted)
    )
    shapes = layer.geometries
    if not len(shapes):
        raise InputError(f"{path} contains no polygons")
    points = _are_points(path, shapes)
    if points and identifier is None:
        identifier = next((each for each in _POINT_IDS if each in layer.names), None)
    likely = [*layer.names, *LENGTHS, "total"]  # levels that need no property
    for required in (identifier, name, *groups):
        if required is not None and required not in layer.names:
            raise InputError(
                f"{path} has no property {required!r}{did_you_mean(required, likely)}; its "
                f"properties are {listed(layer.names)}"
            )
    ids = [str(number) for number in range(1, len(shapes) + 1)]
    if identifier is not None:
        ids = _texts(path, identifier, layer.properties[identifier])
    names = ids
    if named := next((each for each in automatic if each in layer.names), None):
        texts = _texts(path, named, layer.properties[named])
        names = [text or own_id for text, own_id in zip(texts, ids, strict=True)]
    grouped = {each: _group(path, each, layer) for each in groups}
    epsg = None if layer.crs is None else epsg_code(layer.crs)
    _check_geometries(path, shapes, names)
    if identifier is not None:
        ids, names, first, shapes = _merged(path, identifier, ids, names, shapes, grouped)
        grouped = {each: [texts[number] for number in first] for each, texts in grouped.items()}
        _are_points(path, shapes)
    if not points:
        _check_overlaps(path, shapes, names)
    finer = shapes = degrees = _on_one_side(shapes)
    if epsg is not None:
        degrees = finer = _on_one_side(_in_degrees(path, shapes, epsg))
        if degrees_from(epsg).source_crs.is_projected:  # edges are curves in degrees
            west, south, east, north = shapely.total_bounds(shapes)
            size = max(east - west, north - south)
            split = shapely.segmentize(shapes, size / _EDGE_PARTS)
            finer = _on_one_side(_in_degrees(path, split, epsg))
    _check_degrees(path, finer, names)
    table = gpd.GeoDataFrame({"id": ids, "name": names}, geometry=degrees, crs=WGS84)
    west, south, east, north = shapely.total_bounds(finer)
    # Between two vertices, an edge bulges by much less than the whole is wide.
    slack = 0.0 if epsg is None else max(east - west, north - south) / _EDGE_PARTS
    bounds = (
        max(west - slack, -180.0),
        max(south - slack, -90.0),
        min(east + slack, 180.0),
        min(north + slack, 90.0),
    )
    return Polygons(table, shapes, epsg, bounds, grouped, points)


def _are_points(path: Path, geometries: NDArray[np.object_]) -> bool:
    is_point = shapely.get_type_id(geometries) == shapely.GeometryType.POINT
    if is_point.any() and not is_point.all():
        raise InputError(
            f"{path} has points beside polygons, or two points with one id: write points to a "
            "file of their own, and give each an id of its own (--cell-id)"
        )
    return bool(is_point.all())


def _group(path: Path, name: str, layer: Layer) -> list[str]:
    texts = _texts(path, name, layer.properties[name])
    if "" in texts:
        raise InputError(f"{path}: feature {texts.index('') + 1} has no {name!r}: add it")
    return texts


def _layer(path: Path, wanted: Sequence[str]) -> Layer:
    """Read a file of a geographic format, or points in a CSV file."""
    if path.is_file():
        with path.open("rb") as file:
            start = file.readline(_MAX_HEADER_BYTES)
        columns = [
            next((name for name in names if re.search(rb"\b%s\b" % name.encode(), start)), None)
            for names in _COORDINATE_COLUMNS
        ]
        if None not in columns and b"{" not in start:
            latitude, longitude = map(str, columns)
            return _points_of_text(path, latitude, longitude, wanted)
    return read_layer(path, (*POLYGONS, *POINTS), wanted)


def _points_of_text(path: Path, latitude: str, longitude: str, wanted: Sequence[str]) -> Layer:
    import pandas as pd

    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False, encoding="utf-8-sig")
        degrees = [table[name].astype(float).to_numpy() for name in (longitude, latitude)]
    except (ValueError, KeyError, OSError) as error:  # also errors of pandas and of decoding
        raise InputError(
            f"{path} cannot be read as points: it must be CSV in UTF-8 with commas, and numbers in "
            f"its columns {latitude} and {longitude} ({one_line(str(error))})"
        ) from error
    if not all(np.isfinite(each).all() for each in degrees):
        raise InputError(f"{path} has points without {latitude} or {longitude}: add them")
    properties = {
        name: pa.array([text or None for text in table[name]], pa.string())
        for name in dict.fromkeys(wanted)
        if name in table.columns
    }
    return Layer(shapely.points(*degrees), list(table.columns), properties, None)


def _in_degrees(path: Path, shapes: NDArray[np.object_], epsg: int) -> NDArray[np.object_]:
    try:
        transformer = degrees_from(epsg)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return np.asarray(shapely.transform(shapes, transformer.transform, interleaved=False))


def _texts(path: Path, column: str, values: Any) -> list[str]:
    """Return the values of a property as texts, empty where they are missing."""
    texts = []
    for number, value in enumerate(values.to_pylist(), start=1):
        if isinstance(value, bool) or not isinstance(
            value, str | bytes | int | float | Decimal | None
        ):
            raise InputError(
                f"{path}: {column!r} of feature {number} must be a text or number, got "
                f"{shortened(repr(value))}"
            )
        text = _text(value)
        if any(unicodedata.category(character) in ("Cc", "Cs") for character in text):
            raise InputError(
                f"{path}: {column!r} of feature {number} contains control characters, got "
                f"{shortened(ascii(text))}: remove them"
            )
        texts.append(text)
    return texts


def _text(value: str | bytes | int | float | Decimal | None) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # programs for tables write integers as 75101.0
    if isinstance(value, bytes):
        value = value.decode(errors="surrogateescape")
    return " ".join(str(value).split())


def _merged(
    path: Path,
    column: str,
    ids: list[str],
    names: list[str],
    geometries: NDArray[np.object_],
    groups: Mapping[str, list[str]],
) -> tuple[list[str], list[str], list[int], NDArray[np.object_]]:
    """Merge features with the same id, which are compared as those of records are.

    Return ids, names, the number of the first feature of each id, and the merged geometries.
    """
    keys = canonical(pa.array(ids, pa.string()), missing=("",)).to_pylist()
    parts: dict[bytes, list[int]] = {}
    for number, key in enumerate(keys):
        if key is None:
            raise InputError(
                f"{path}: feature {number + 1} has no {column!r}, which is the id: add it, or "
                "choose another property"
            )
        parts.setdefault(key, []).append(number)
    merged_names = []
    for numbers in parts.values():
        named = list(dict.fromkeys(names[each] for each in numbers if names[each] != ids[each]))
        if len(named) > 1:
            raise InputError(
                f"{path}: {column!r} must be unique to be the id, got "
                f"{shortened(repr(ids[numbers[0]]))} for {_shown(named[0])} and "
                f"{_shown(named[1])}: choose another property, or merge them, for example by "
                f"geopandas: table.dissolve({column!r})"
            )
        merged_names.append(named[0] if named else ids[numbers[0]])
        for group, texts in groups.items():
            if len({texts[each] for each in numbers}) > 1:
                raise InputError(
                    f"{path}: features with {column!r} {shortened(repr(ids[numbers[0]]))} differ "
                    f"in {group!r}: give them one value"
                )
    if len(parts) == len(ids):
        return ids, names, list(range(len(ids))), geometries
    merged = [shapely.union_all(geometries[numbers]) for numbers in parts.values()]
    first = [numbers[0] for numbers in parts.values()]
    return [ids[number] for number in first], merged_names, first, np.array(merged, dtype=object)


def _check_geometries(path: Path, geometries: NDArray[np.object_], names: Sequence[str]) -> None:
    for index in np.flatnonzero(
        shapely.is_missing(geometries) | shapely.is_empty(geometries)
    ).tolist():
        raise InputError(f"{path}: polygon {_shown(names[index])} is empty: draw it, or remove it")
    for index in np.flatnonzero(~shapely.is_valid(geometries)).tolist():
        reason = shapely.is_valid_reason(geometries[index])
        raise InputError(
            f"{path}: polygon {_shown(names[index])} is invalid ({reason}, x and y)"
            ": repair it in a GIS"
        )


def _check_degrees(path: Path, geometries: NDArray[np.object_], names: Sequence[str]) -> None:
    west, south, east, north = shapely.bounds(geometries).T
    width, height = 180 + _DEGREES_SLACK, 90 + _DEGREES_SLACK
    inside = (west >= -width) & (east <= width) & (south >= -height) & (north <= height)
    for index in np.flatnonzero(~inside).tolist():
        raise InputError(
            f"{path}: polygon {_shown(names[index])} must be within longitude -180 to 180 and "
            f"latitude -90 to 90, got {west[index]:g} to {east[index]:g} and {south[index]:g} to "
            f"{north[index]:g}: declare the reference system that the file is in, or convert it"
        )
    owner, ring, crossing = _crossing_edges(geometries)
    for index in owner[ring[:-1][crossing]][:1].tolist():
        raise InputError(
            f"{path}: polygon {_shown(names[index])} lies across the 180th meridian: cut it there, "
            f"for example by ogr2ogr -t_srs EPSG:4326 -wrapdateline cut.gpkg {path.name}"
        )


def _crossing_edges(
    geometries: NDArray[np.object_],
) -> tuple[Integers, Integers, NDArray[np.bool_]]:
    """Return the polygon of each ring, the ring of each vertex, and which edges cross 180 degrees.

    An edge that spans more than half of the earth lies across the 180th meridian instead, unless
    both its ends are on it, as those of Antarctica.
    """
    polygons, owner = shapely.get_parts(geometries, return_index=True)
    rings, polygon = shapely.get_rings(polygons, return_index=True)
    points, ring = shapely.get_coordinates(rings, return_index=True)
    start, end = points[:-1, 0], points[1:, 0]
    on_meridian = (np.abs(start) >= 180) & (np.abs(end) >= 180)
    crossing = (np.abs(end - start) > 180) & ~on_meridian & (ring[1:] == ring[:-1])
    return owner[polygon], ring, crossing


def _on_one_side(geometries: NDArray[np.object_]) -> NDArray[np.object_]:
    """Write the 180th meridian as 180 or -180 according to the side on which a ring lies."""
    _, ring, crossing = _crossing_edges(geometries)
    if not crossing.any():
        return geometries
    points = shapely.get_coordinates(geometries)
    longitude = points[:, 0]
    on_meridian = np.abs(np.abs(longitude) - 180) < _DEGREES_SLACK
    sides = [
        np.bincount(ring, ~on_meridian & (longitude * sign > 0), ring[-1] + 1) for sign in (1, -1)
    ]
    side = np.where(sides[1] == 0, 1, np.where(sides[0] == 0, -1, 0))[ring]
    crossed = np.isin(ring, ring[:-1][crossing]) & on_meridian & (side != 0)
    points[crossed, 0] = 180.0 * side[crossed]
    return np.asarray(shapely.set_coordinates(geometries.copy(), points))


def _check_overlaps(path: Path, geometries: NDArray[np.object_], names: Sequence[str]) -> None:
    # If two polygons overlap, one has an edge that does not match its neighbour's. Usually few
    # polygons have any, and finding those is faster than intersecting all neighbours.
    unshared = np.flatnonzero(~shapely.is_empty(shapely.coverage_invalid_edges(geometries)))
    left, right = shapely.STRtree(geometries).query(geometries[unshared], predicate="intersects")
    pairs = np.unique(np.sort(np.column_stack((unshared[left], right)), axis=1), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    first, second = geometries[pairs].T
    smaller = np.minimum(shapely.area(first), shapely.area(second))
    share = shapely.area(shapely.intersection(first, second)) / smaller
    for index in np.flatnonzero(share > MAX_OVERLAP_SHARE).tolist():
        one, other = (_shown(names[polygon]) for polygon in pairs[index])
        raise InputError(
            f"{path}: polygons {one} and {other} overlap by {100 * share[index]:.3g} % of the "
            f"smaller one, more than {100 * MAX_OVERLAP_SHARE:g} %, so a point would be in two "
            "cells: cut one of them"
        )


def _shown(name: str) -> str:
    return shortened(repr(name))
