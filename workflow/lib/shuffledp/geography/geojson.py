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

WGS84: Final = "EPSG:4326"
_WGS84: Final = re.compile(r"(.*:)?(CRS84|EPSG:{1,2}4326)")
_AREAS: Final = ("Polygon", "MultiPolygon")
_LINES: Final = ("LineString", "MultiLineString")
_TEXT_PROPERTIES: Final = ("name", "attribution")


@dataclass(frozen=True)
class Shape:
    """A two-dimensional shapely geometry with the properties of its GeoJSON feature.

    Unless a function says otherwise, it is not a collection, and x is the longitude and y the
    latitude in degrees.
    """

    geometry: Any
    properties: Mapping[str, Any]


def read_shapes(path: Path, key: str) -> list[Shape]:
    """Read all shapes of a GeoJSON file in order; each geometry of a collection is a shape.

    `key` is the key of the configuration with which error messages begin. Raises `InputError` if
    the file is missing, not GeoJSON, or not in WGS84.
    """
    where = f"{key}: {path}"
    features, crs = read_features(path, where)
    # RFC 7946 allows only WGS84; files of the older standard may name another system or link to it.
    if not _WGS84.fullmatch(crs):
        raise InputError(f"{where} is in {crs:.200}: convert it to longitude and latitude in WGS84")
    return [
        Shape(geometry, feature.properties)
        for feature in features
        for geometry in _parts(feature.geometry)
    ]


def read_features(path: Path, where: str) -> tuple[list[Shape], str]:
    """Read all features of a file, in their order, and the name of its reference system.

    No library for geographic formats parses the file, because some formats refer to other files and
    addresses, which the library would open.

    The file is GeoJSON: a geometry, a feature or a collection of features. A geometry is None if
    its feature has none, and may be a collection; its coordinates are as in the file. The name of
    the system is as in the file, on one line, or ``OGC:CRS84`` if the file has none. Error messages
    begin with `where`, which names the file. Raises `InputError` if the file is missing or not
    GeoJSON.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"), parse_constant=_refuse)
    except OSError as error:
        raise InputError(f"{where} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not GeoJSON ({error})") from error
    if not isinstance(document, dict) or "type" not in document:
        raise InputError(f"{where} is not GeoJSON: it has no type")
    try:
        return list(_features(document)), _crs(document)
    except (
        *(LookupError, TypeError, AttributeError, ValueError, ShapelyError),
        *(OverflowError, RecursionError),
    ) as error:
        raise InputError(f"{where} is not GeoJSON: it is malformed ({error!r:.200})") from error


def read_basemap(path: Path) -> list[Shape]:
    """Read the shapes of a base map from GeoJSON, in the order of the file.

    Polygons are districts on land unless their property ``kind`` is ``water`` or ``park``. Lines
    are rivers, and points with a name are places. Other shapes are left out. Each result has the
    properties ``kind`` (district, park, water, river or place), ``name`` and ``attribution``, which
    must be printed with the map; the last two are empty if missing. Raises `InputError` if the file
    is missing, not GeoJSON, or has no polygon or line, or an invalid one.
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


def _crs(document: Mapping[str, Any]) -> str:
    crs = document.get("crs")
    name = "OGC:CRS84" if crs is None else str(crs.get("properties", {}).get("name", crs))
    return " ".join(name.split())


def _features(node: Mapping[str, Any]) -> Iterator[Shape]:
    kind = node["type"]
    if kind == "FeatureCollection":
        for child in node["features"]:
            yield from _features(child)
    elif kind == "Feature":
        geometry = node["geometry"]
        yield Shape(
            None if geometry is None else shapely.force_2d(shape(geometry)),
            dict(node.get("properties") or {}),
        )
    else:
        yield Shape(shapely.force_2d(shape(node)), {})


def _parts(geometry: Any) -> list[Any]:
    """Return the geometries of a nested collection as a flat list, empty for None."""
    if geometry is None:
        return []
    if geometry.geom_type != "GeometryCollection":
        return [geometry]
    return [part for child in geometry.geoms for part in _parts(child)]


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
