"""Read the cells of a histogram from a file of polygons, and refuse polygons that overlap.

The files may come from strangers; `layer_files` says how each format is read safely.
"""

import math
import unicodedata
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import shapely
from numpy.typing import NDArray

from shuffledp.errors import InputError, did_you_mean, shortened
from shuffledp.geography.geojson import WGS84
from shuffledp.geography.layer_files import MAX_BYTES, listed, read_polygon_layer
from shuffledp.pipeline.files import file_sha256

if TYPE_CHECKING:  # it is slow to load, and few of the processes of a run need it
    import geopandas as gpd

MAX_OVERLAP_SHARE: Final = 1e-3  # of the area of the smaller polygon
_NAME_PROPERTIES: Final = ("name", "NAME", "Name")
_DEGREES_SLACK: Final = 1e-6  # tolerance for rounding beyond 180 or 90 degrees


def read_polygons(
    path: Path, *, name: str | None = None, identifier: str | None = None
) -> "gpd.GeoDataFrame":
    """Read polygons with unique ids and names; an unchanged file is read only once.

    The file is one for `layer_files.read_polygon_layer`. Coordinates in another reference system
    are converted vertex by vertex if the file declares it by an EPSG code. `name` is the property
    to use as name; without it, one called ``name``, ``NAME`` or ``Name`` is used if there is any. A
    polygon without a value has its id as name. `identifier` is the property to use as id; without
    it, ids are the numbers of the features from 1.

    The result has one row for each polygon in the order of the file, with the columns ``id`` (text,
    unique), ``name`` (text, not empty) and ``geometry`` (valid, not empty, two-dimensional; x =
    longitude and y = latitude in degrees, WGS 84). Markup in texts is kept as it is; whitespace in
    them, such as a line break, becomes one space. Polygons may have gaps between them, and overlap
    by at most `MAX_OVERLAP_SHARE` of the smaller one.

    Raises `InputError` if the file cannot be read (see `layer_files.read_polygon_layer`), has no
    polygon, or lacks the property `name` or `identifier`; if a polygon is empty, invalid, out of
    range or without an id, or an id or name has control characters or is not a text or number; if
    two polygons have the same id or overlap. The message is one line and begins with the path.
    """
    return _read(path, _checksum(path), name, identifier).copy()


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
    path: Path, _checksum: str, name: str | None, identifier: str | None
) -> "gpd.GeoDataFrame":
    import geopandas as gpd

    chosen: dict[str, str] = {}  # property of the file for each column

    def select(properties: Sequence[str]) -> list[str]:
        automatic = next((each for each in _NAME_PROPERTIES if each in properties), None)
        for column, wanted in (("id", identifier), ("name", name or automatic)):
            if wanted is None:
                continue
            if wanted not in properties:
                raise InputError(
                    f"{path} has no property {wanted!r}{did_you_mean(wanted, properties)}; its "
                    f"properties are {listed(properties)}"
                )
            chosen[column] = wanted
        return list(dict.fromkeys(chosen.values()))

    layer = read_polygon_layer(path, select)
    count = len(layer.geometries)
    if not count:
        raise InputError(f"{path} contains no polygons")
    ids = [str(number) for number in range(1, count + 1)]
    if "id" in chosen:
        ids = _texts(path, chosen["id"], layer.properties[chosen["id"]])
        _check_ids(path, chosen["id"], ids)
    names = ids
    if "name" in chosen:
        texts = _texts(path, chosen["name"], layer.properties[chosen["name"]])
        names = [text or own_id for text, own_id in zip(texts, ids, strict=True)]
    _check_geometries(path, layer.geometries, names)
    _check_overlaps(path, layer.geometries, names)
    return gpd.GeoDataFrame({"id": ids, "name": names}, geometry=layer.geometries, crs=WGS84)


def _texts(path: Path, column: str, values: Sequence[Any]) -> list[str]:
    """Return the values of a property as texts, empty where they are missing."""
    texts = []
    for number, value in enumerate(values, start=1):
        if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal | None):
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


def _text(value: str | int | float | Decimal | None) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # programs for tables write integers as 75101.0
    return " ".join(str(value).split())


def _check_ids(path: Path, column: str, ids: Sequence[str]) -> None:
    first: dict[str, int] = {}
    for number, own_id in enumerate(ids, start=1):
        if not own_id:
            raise InputError(
                f"{path}: feature {number} has no {column!r}, which is the id: add it, or choose "
                "another property"
            )
        if own_id in first:
            raise InputError(
                f"{path}: {column!r} must be unique to be the id, got {shortened(repr(own_id))} "
                f"for features {first[own_id]} and {number}: merge them, or choose another property"
            )
        first[own_id] = number


def _check_geometries(path: Path, geometries: NDArray[np.object_], names: Sequence[str]) -> None:
    for index in np.flatnonzero(
        shapely.is_missing(geometries) | shapely.is_empty(geometries)
    ).tolist():
        raise InputError(f"{path}: polygon {_shown(names[index])} is empty: draw it, or remove it")
    west, south, east, north = shapely.bounds(geometries).T
    width, height = 180 + _DEGREES_SLACK, 90 + _DEGREES_SLACK
    inside = (west >= -width) & (east <= width) & (south >= -height) & (north <= height)
    for index in np.flatnonzero(~inside).tolist():
        raise InputError(
            f"{path}: polygon {_shown(names[index])} must be within longitude -180 to 180 and "
            f"latitude -90 to 90, got {west[index]:g} to {east[index]:g} and {south[index]:g} to "
            f"{north[index]:g}: declare the reference system that the file is in, or convert it"
        )
    for index in np.flatnonzero(~shapely.is_valid(geometries)).tolist():
        reason = shapely.is_valid_reason(geometries[index])
        raise InputError(
            f"{path}: polygon {_shown(names[index])} is invalid ({reason}, longitude and latitude)"
            ": repair it in a GIS"
        )


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
