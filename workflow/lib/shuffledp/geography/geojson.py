"""Shapes in GeoJSON files: JSON, read as such, in WGS84, and nothing else."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import shapely
from shapely.errors import ShapelyError
from shapely.geometry import shape

from shuffledp.errors import InputError

_WGS84: Final = re.compile(r"(.*:)?(CRS84|EPSG:{1,2}4326)")
_WITHIN: Final = {"FeatureCollection": "features", "GeometryCollection": "geometries"}
_AREAS: Final = ("Polygon", "MultiPolygon")
_LINES: Final = ("LineString", "MultiLineString")
_TEXTS: Final = ("name", "attribution")


@dataclass(frozen=True)
class Shape:
    """One geometry that is no collection, x = longitude and y = latitude in degrees.

    Parameters
    ----------
    geometry
        A shapely geometry of two dimensions.
    properties
        Of the feature that it is of.
    """

    geometry: Any
    properties: Mapping[str, Any]


def read_shapes(path: Path, key: str) -> list[Shape]:
    """Read every shape of a file, in its order.

    The file is parsed here and handed to no library that knows other formats: some of these name
    further files and addresses, which would be opened.

    Parameters
    ----------
    path
        GeoJSON: a geometry, a feature or a collection of either.
    key
        The configuration's, with which messages begin.

    Raises
    ------
    InputError
        If the file is missing, is not GeoJSON or is not in WGS84. The message names it.
    """
    where = f"{key}: {path}"
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"), parse_constant=_refuse)
    except OSError as error:
        raise InputError(f"{where} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not GeoJSON ({error})") from error
    if not isinstance(document, dict) or "type" not in document:
        raise InputError(f"{where} is not GeoJSON: it has no type")
    try:
        _check_crs(document, where)
        return list(_shapes(document, {}))
    except InputError:
        raise
    except (
        *(LookupError, TypeError, AttributeError, ValueError, ShapelyError),
        *(OverflowError, RecursionError),
    ) as error:
        raise InputError(f"{where} is not GeoJSON: it is malformed ({error!r:.200})") from error


def read_basemap(path: Path) -> list[Shape]:
    """Read a base map.

    Parameters
    ----------
    path
        GeoJSON. Polygons are districts on land, or what their property ``kind`` says, ``water``
        or ``park``. Lines are rivers, points with a name are places. Optional properties: ``name``,
        and ``attribution``, which has to be printed with the map.

    Returns
    -------
    Shapes with the properties ``kind`` (district, park, water, river or place), ``name`` and
    ``attribution`` (missing: an empty text), in the order of the file. What is of no kind is left
    out.

    Raises
    ------
    InputError
        If the file is missing, is no GeoJSON, or holds no polygon or line, or an invalid one.
    """
    shown = [
        Shape(
            found.geometry,
            {"kind": kind, **{key: _text(found.properties.get(key)) for key in _TEXTS}},
        )
        for found in read_shapes(path, "basemap")
        if (kind := _kind(found))
    ]
    if all(each.properties["kind"] == "place" for each in shown):
        raise InputError(f"basemap: {path} holds no polygon or line")
    for each in shown:
        if each.geometry.is_empty or not each.geometry.is_valid:
            reason = shapely.is_valid_reason(each.geometry)
            raise InputError(f"basemap: {path} holds an invalid shape ({reason}): mend it in a GIS")
    return shown


def find_shape(shapes: Sequence[Any], longitude: float, latitude: float) -> int | None:
    """Index of the first geometry that holds a point, its edge included; None if none does.

    Parameters
    ----------
    shapes
        Geometries in degrees.
    longitude, latitude
        Of the point, in degrees.
    """
    held = np.flatnonzero(shapely.intersects_xy(np.asarray(shapes), longitude, latitude))
    return int(held[0]) if held.size else None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def _check_crs(document: Mapping[str, Any], where: str) -> None:
    # RFC 7946 knows WGS84 only; files of the older standard may name another system, or a link.
    given = document.get("crs")
    name = "CRS84" if given is None else str(given.get("properties", {}).get("name", given))
    if not _WGS84.fullmatch(name):
        name = " ".join(name.split())
        raise InputError(f"{where} is in {name:.200}: convert it to WGS84 longitude and latitude")


def _shapes(node: Mapping[str, Any], properties: Mapping[str, Any]) -> Iterator[Shape]:
    kind = node["type"]
    if kind in _WITHIN:
        for child in node[_WITHIN[kind]]:
            yield from _shapes(child, properties)
    elif kind == "Feature":
        if node["geometry"] is not None:
            yield from _shapes(node["geometry"], dict(node.get("properties") or {}))
    else:
        yield Shape(shapely.force_2d(shape(node)), properties)


def _kind(found: Shape) -> str:
    """Empty for what a base map does not show."""
    shape, said = found.geometry.geom_type, found.properties.get("kind")
    if shape in _AREAS:
        return str(said) if said in ("water", "park") else "district"
    if shape in _LINES:
        return "river"
    return "place" if shape == "Point" and _text(found.properties.get("name")) else ""


def _text(value: object) -> str:
    # JSON can write halves of signs, which nothing can show.
    return "" if value is None else str(value).encode(errors="replace").decode()
