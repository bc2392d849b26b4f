"""Read the shapes of GeoJSON files in WGS84."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import shapely
from shapely.errors import ShapelyError
from shapely.geometry import shape

from shuffledp.errors import InputError

_WGS84: Final = re.compile(r"(.*:)?(CRS84|EPSG:{1,2}4326)")
_COLLECTIONS: Final = {"FeatureCollection": "features", "GeometryCollection": "geometries"}
_AREAS: Final = ("Polygon", "MultiPolygon")
_LINES: Final = ("LineString", "MultiLineString")
_TEXT_PROPERTIES: Final = ("name", "attribution")


@dataclass(frozen=True)
class Shape:
    """A single geometry with properties; x is the longitude and y the latitude in degrees.

    Parameters
    ----------
    geometry
        A two-dimensional shapely geometry, not a collection.
    properties
        Properties of the GeoJSON feature.
    """

    geometry: Any
    properties: Mapping[str, Any]


def read_shapes(path: Path, key: str) -> list[Shape]:
    """Read all shapes of a file, in their order.

    No library for geographic formats parses the file, because some formats refer to other files and
    addresses, which the library would open.

    Parameters
    ----------
    path
        GeoJSON: a geometry, a feature or a collection of either.
    key
        Key of the configuration, which error messages state first.

    Raises
    ------
    InputError
        If the file is missing, not GeoJSON, or not in WGS84.
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
    """Read the shapes of a base map.

    Parameters
    ----------
    path
        GeoJSON. Polygons are districts on land unless their property ``kind`` is ``water`` or
        ``park``. Lines are rivers, and points with a name are places. Optional properties are
        ``name`` and ``attribution``, which must be printed with the map.

    Returns
    -------
    Shapes with the properties ``kind`` (district, park, water, river or place), ``name`` and
    ``attribution`` (empty if missing), in the order of the file. Other shapes are left out.

    Raises
    ------
    InputError
        If the file is missing, not GeoJSON, or has no polygon or line, or an invalid one.
    """
    shown = [
        Shape(
            each.geometry,
            {"kind": kind, **{key: _text(each.properties.get(key)) for key in _TEXT_PROPERTIES}},
        )
        for each in read_shapes(path, "basemap")
        if (kind := _kind(each))
    ]
    if all(each.properties["kind"] == "place" for each in shown):
        raise InputError(f"basemap: {path} contains no polygon or line")
    for each in shown:
        if each.geometry.is_empty or not each.geometry.is_valid:
            reason = shapely.is_valid_reason(each.geometry)
            raise InputError(f"basemap: {path} has an invalid shape ({reason}): repair it in a GIS")
    return shown


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _check_crs(document: Mapping[str, Any], where: str) -> None:
    # RFC 7946 allows only WGS84; files of the older standard may name another system or link to it.
    crs = document.get("crs")
    name = "CRS84" if crs is None else str(crs.get("properties", {}).get("name", crs))
    if not _WGS84.fullmatch(name):
        name = " ".join(name.split())
        raise InputError(
            f"{where} is in {name:.200}: convert it to longitude and latitude in WGS84"
        )


def _shapes(node: Mapping[str, Any], properties: Mapping[str, Any]) -> Iterator[Shape]:
    kind = node["type"]
    if kind in _COLLECTIONS:
        for child in node[_COLLECTIONS[kind]]:
            yield from _shapes(child, properties)
    elif kind == "Feature":
        if node["geometry"] is not None:
            yield from _shapes(node["geometry"], dict(node.get("properties") or {}))
    else:
        yield Shape(shapely.force_2d(shape(node)), properties)


def _kind(shape: Shape) -> str:
    """Return the kind of a shape on a base map, empty if the map does not show it."""
    geometry_type, kind = shape.geometry.geom_type, shape.properties.get("kind")
    if geometry_type in _AREAS:
        return str(kind) if kind in ("water", "park") else "district"
    if geometry_type in _LINES:
        return "river"
    return "place" if geometry_type == "Point" and _text(shape.properties.get("name")) else ""


def _text(value: object) -> str:
    # JSON may contain half of a surrogate pair, which cannot be encoded.
    return "" if value is None else str(value).encode(errors="replace").decode()
