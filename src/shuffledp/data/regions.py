"""Define regions of the earth by a bounding box or an outline, and read their base maps."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import shapely
from numpy.typing import NDArray

from shuffledp.data.systems import epsg_code
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats

if TYPE_CHECKING:  # it is slow to load, and regions with a box do not need it
    from shuffledp.data.layers import Shape

_MAX_OUTLINE_WIDTH: Final = 180.0  # degrees of longitude
_AREAS: Final = ("Polygon", "MultiPolygon")
_LINES: Final = ("LineString", "MultiLineString")
_TEXT_PROPERTIES: Final = ("name", "attribution")


@dataclass(frozen=True)
class Box:
    """A box of latitudes and longitudes in degrees (WGS84), including its border.

    Raises `InputError` if an edge is not a number in range, or opposite edges are swapped.
    """

    south: float
    north: float
    west: float
    east: float

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            limit = 90 if field.name in ("south", "north") else 180
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or abs(value) > limit:
                raise InputError(
                    f"box.{field.name} must be a number of degrees from -{limit} to {limit}, "
                    f"got {value!r}"
                )
        for low, high in (("south", "north"), ("west", "east")):
            if not getattr(self, low) < getattr(self, high):
                raise InputError(
                    f"box.{low} must be below box.{high}, got {low}={getattr(self, low)}, "
                    f"{high}={getattr(self, high)}: swap the two; a box across the 180th "
                    "meridian must be split into two regions"
                )

    def contains(self, latitude: Floats, longitude: Floats) -> NDArray[np.bool_]:
        """Return for each point whether it is in the box or on its border."""
        inside: NDArray[np.bool_] = latitude >= self.south
        inside &= latitude <= self.north
        inside &= longitude >= self.west
        inside &= longitude <= self.east
        return inside

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """The edges in the order of shapely: west, south, east and north."""
        return self.west, self.south, self.east, self.north

    @classmethod
    def from_bounds(cls, bounds: Iterable[float]) -> "Box":
        """Return the box with these edges in the order of `bounds`."""
        west, south, east, north = map(float, bounds)
        return cls(south=south, north=north, west=west, east=east)


@dataclass(frozen=True)
class Region:
    """A named part of the earth with its bounding box.

    The outline is a polygon or multipolygon, x = longitude and y = latitude; None if the box is the
    region.
    """

    name: str
    box: Box
    outline: Any = None

    def contains(self, latitude: Floats, longitude: Floats) -> NDArray[np.bool_]:
        """Return for each point whether it is in the region or on its border."""
        inside = self.box.contains(latitude, longitude)
        if self.outline is not None and inside.any():
            # Only points in the box are tested against the outline, which is far slower.
            shapely.prepare(self.outline)
            inside[inside] = shapely.intersects_xy(
                self.outline, longitude[inside], latitude[inside]
            )
        return inside


def region_from_config(name: str, spec: Mapping[str, Any]) -> Region:
    """Return the region that a block of the configuration describes.

    It has either `box`, with `south`, `north`, `west` and `east` in degrees, or `outline`, the path
    of a GeoJSON file (polygon, multipolygon, feature or feature collection, WGS84). Without either,
    the region is the bounding box of the polygons of the first of its `grids` that has `cells`.
    Raises `InputError` if both are given, or neither and no grid has `cells`; a key is missing or
    unknown; the box is invalid; or the file is missing, is not GeoJSON, has no valid polygon, or
    spans more than 180 degrees of longitude. The message names region and key.
    """
    polygons = [key for key, grid in spec.get("grids", {}).items() if "cells" in grid]
    if ("box" in spec) == ("outline" in spec) and ("box" in spec or not polygons):
        keys = "both" if "box" in spec else "neither"
        raise InputError(
            f"regions.{name} must have either box or outline, unless a grid has cells, got {keys}"
        )
    try:
        if "box" in spec:
            box = spec["box"]
            if not isinstance(box, Mapping) or set(box) != {field.name for field in fields(Box)}:
                raise InputError(f"box must have the keys south, north, west and east, got {box!r}")
            return Region(name, Box(**box))
        if "outline" not in spec:
            return Region(name, _box_of_polygons(polygons[0], spec["grids"][polygons[0]]["cells"]))
        outline = read_outline(Path(spec["outline"]))
        box = Box.from_bounds(outline.bounds)
        if (width := box.east - box.west) > _MAX_OUTLINE_WIDTH:  # it is cut at the 180th meridian
            raise InputError(
                f"outline: {spec['outline']} spans {width:g} degrees of longitude "
                f"(west={box.west:g}, east={box.east:g}), and so would its grid: if it lies across "
                "the 180th meridian, split it into two regions there; if the region is really this "
                "wide, use box"
            )
        return Region(name, box, outline)
    except InputError as error:
        raise InputError(f"regions.{name}.{error}") from error


def grid_spec(region: str, grids: Mapping[str, Any], grid: str) -> Any:
    """Return the configuration of the grid that a target of Snakemake names.

    Raises `InputError` if the region has no grid of this name.
    """
    if grid not in grids:
        raise InputError(
            f"regions.{region}.grids has no {grid}, which this target needs (grids: "
            f"{', '.join(grids)}): ask for one of these, or add it"
        )
    return grids[grid]


def _box_of_polygons(grid: str, spec: Mapping[str, Any]) -> Box:
    from shuffledp.data.polygons import read_polygons

    try:
        # The same arguments as for the cells, so that the file is read once.
        polygons = read_polygons(
            Path(spec["path"]), name=spec.get("name"), identifier=spec.get("id")
        )
    except InputError as error:
        raise InputError(f"grids.{grid}: {error}") from error
    return Box.from_bounds(polygons.bounds)


def read_outline(path: Path) -> Any:
    """Return the union of the polygons of a GeoJSON file, in longitude and latitude.

    Raises `InputError` if the file is missing, is not GeoJSON, or has no polygon or an invalid one.
    """
    where = f"outline: {path}"
    shapes = [each.geometry for each in read_shapes(path, "outline")]
    polygons = [each for each in shapes if each.geom_type in _AREAS]
    if not polygons:
        kinds = ", ".join(sorted({each.geom_type for each in shapes})) or "nothing"
        raise InputError(f"{where} contains no Polygon or MultiPolygon (it has {kinds})")
    for polygon in polygons:
        if polygon.is_empty or not polygon.is_valid:
            reason = "it is empty" if polygon.is_empty else shapely.is_valid_reason(polygon)
            raise InputError(f"{where} has an invalid polygon ({reason}): repair it in a GIS")
    return shapely.union_all(polygons)


# --- Shapes in GeoJSON ----------------------------------------------------------------------


def read_shapes(path: Path, key: str) -> "list[Shape]":
    """Read all shapes of a GeoJSON file in order; each geometry of a collection is one.

    `key` is the key of the configuration with which error messages begin. Raises `InputError` if
    the file is missing, not GeoJSON, or not in WGS 84.
    """
    from shuffledp.data.layers import Shape, read_features

    where = f"{key}: {path}"
    features, crs = read_features(path, where)
    try:
        in_degrees = epsg_code(crs) is None
    except InputError:
        in_degrees = False
    if not in_degrees:
        raise InputError(f"{where} is in {crs:.200}: convert it to longitude and latitude in WGS84")
    return [
        Shape(geometry, feature.properties)
        for feature in features
        for geometry in _parts(feature.geometry)
    ]


def _parts(geometry: Any) -> list[Any]:
    """Return the geometries of a nested collection as a flat list, empty for None."""
    if geometry is None:
        return []
    if geometry.geom_type != "GeometryCollection":
        return [geometry]
    return [part for child in geometry.geoms for part in _parts(child)]


def read_basemap(path: Path) -> "list[Shape]":
    """Read the shapes of a base map from GeoJSON, in the order of the file.

    Polygons are districts on land unless their property ``kind`` is ``water`` or ``park``. Lines
    are rivers, and points with a name are places. Other shapes are left out. Each result has the
    properties ``kind`` (district, park, water, river or place), ``name`` and ``attribution``, which
    must be printed with the map; the last two are empty if missing. Raises `InputError` if the file
    is missing, not GeoJSON, or has no polygon or line, or an invalid one.
    """
    from shuffledp.data.layers import Shape

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


def _kind(shape: "Shape") -> str:
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
