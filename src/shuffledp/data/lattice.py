"""Lay lattices of rectangular cells over regions."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import UnionType
from typing import Any, Final

import numpy as np
import shapely

from shuffledp.data.regions import Box, Region, transformer
from shuffledp.data.systems import WGS84
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats, Integers

MAX_CELLS: Final = 1_000_000
_MAX_UTM_WIDTH: Final = 12.0  # degrees of longitude; UTM distorts lengths in wider regions
# Tolerance for a step that is rounded, such as 0.3333333333, as a share of a cell.
_EDGE_TOLERANCE: Final = Fraction(1, 10**9)
_MANY: Final = Fraction(10**15)


@dataclass(frozen=True)
class Lattice:
    """Rectangular cells between ascending edges; the outer border belongs to the lattice.

    The edges of rows and columns are degrees of latitude and longitude, or metres north and east in
    the projected system `crs` (a `pyproj.CRS`) if there is one.
    """

    y_edges: Floats
    x_edges: Floats
    crs: Any = None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self.y_edges) - 1, len(self.x_edges) - 1

    def locate(self, latitude: Floats, longitude: Floats) -> Integers:
        """Return the row-major number of the cell of each point, -1 outside the lattice.

        As in `numpy.histogram`, a point on an edge belongs to the cell north or east of it, but a
        point on the last edge to the last cell. In a projected system, points outside the lattice
        belong to the cell nearest to them, so the caller must leave out those outside the region.
        """
        y, x = latitude, longitude
        if self.crs is not None:
            project = transformer(WGS84, self.crs)
            x, y = project.transform(longitude, latitude)
            # The sides of a region's box are curves in this system. They can bulge some cm beyond
            # the edges, which enclose 1,000 points of each side.
            x = np.clip(x, self.x_edges[0], self.x_edges[-1])
            y = np.clip(y, self.y_edges[0], self.y_edges[-1])
        row = _interval_of(self.y_edges, y)
        column = _interval_of(self.x_edges, x)
        number: Integers = np.where((row >= 0) & (column >= 0), row * self.shape[1] + column, -1)
        return number

    def polygons(self) -> Any:
        """Return the cells as an array of polygons in degrees, row-major from the south-west."""
        south, west = np.meshgrid(self.y_edges[:-1], self.x_edges[:-1], indexing="ij")
        north, east = np.meshgrid(self.y_edges[1:], self.x_edges[1:], indexing="ij")
        corners = [(west, south), (east, south), (east, north), (west, north), (west, south)]
        rings = np.stack([np.stack([x.ravel(), y.ravel()], axis=-1) for x, y in corners], axis=1)
        if self.crs is not None:
            project = transformer(self.crs, WGS84)
            rings = np.stack(project.transform(rings[..., 0], rings[..., 1]), axis=-1)
        return shapely.polygons(rings)


def make_lattice(region: Region, spec: Mapping[str, Any]) -> Lattice:
    """Return the lattice of a grid over the box of a region.

    The grid is `shape: [rows, columns]`, which divides the box evenly; `step: [dlat, dlon]` in
    degrees, from the south-west corner, partial strips dropped; or `metres: size`, squares in the
    UTM zone of the box's centre, which cover the smallest UTM rectangle around the box from its
    south-west corner. Some of these squares lie outside the box, whose sides are slanted in UTM.
    Raises `InputError` if a value is not positive, the cells are fewer than 2 or more than
    1,000,000, or the box is too wide for one UTM zone.
    """
    ((kind, value),) = spec.items()
    return LATTICE_MAKERS[kind](region.box, value)


def _interval_of(edges: Floats, values: Floats) -> Integers:
    """Return the number of the interval of each value; -1 outside the edges, and for NaN."""
    inside = (values >= edges[0]) & (values <= edges[-1])
    values, last = np.where(inside, values, edges[0]), edges.size - 2
    # Edges are about evenly spaced, so a division finds the interval or one next to it.
    position = (values - edges[0]) * ((last + 1) / (edges[-1] - edges[0]))
    index: Integers = np.minimum(position, last).astype(np.int64)
    index -= values < edges[index]
    index += (values >= edges[index + 1]) & (index < last)
    wrong = (values < edges[index]) | (values >= edges[index + 1]) & (index < last)
    if wrong.any():
        found = np.searchsorted(edges, values[wrong], side="right") - 1
        index[wrong] = np.minimum(found, last)
    index[~inside] = -1
    return index


def _by_shape(box: Box, value: object) -> Lattice:
    rows, columns = _pair("shape", value, "[rows, columns], integers >= 1", int)
    _check_cells(rows, columns, f"shape: {value}")
    return Lattice(
        _edges(box.south, _exact(box.north) - _exact(box.south), rows, rows),
        _edges(box.west, _exact(box.east) - _exact(box.west), columns, columns),
    )


def _by_step(box: Box, value: object) -> Lattice:
    dlat, dlon = _pair("step", value, "[dlat, dlon], positive numbers of degrees", int | float)
    rows, columns = (
        math.floor(min((_exact(stop) - _exact(start)) / _exact(step) + _EDGE_TOLERANCE, _MANY))
        for start, stop, step in ((box.south, box.north, dlat), (box.west, box.east, dlon))
    )
    _check_cells(rows, columns, f"step: {value}")
    return Lattice(
        _stepped(box.south, box.north, dlat, rows), _stepped(box.west, box.east, dlon, columns)
    )


def _exact(number: float) -> Fraction:
    """Return a number as it is written in decimals, not as the float next to it."""
    return Fraction(repr(float(number)))


def _edges(start: float, size: Fraction, parts: int, cells: int) -> Floats:
    """Return ``start + size * i / parts`` for i from 0 to `cells`, each rounded once.

    A coordinate with the same decimals as an edge is the same float, and so lies on the edge.
    """
    first, step = _exact(start), size / parts
    # Integer arithmetic is much faster than that of fractions, and its division is exact, too.
    scale = math.lcm(first.denominator, step.denominator)
    origin, width = int(first * scale), int(step * scale)
    return np.array([(origin + width * i) / scale for i in range(cells + 1)])


def _stepped(start: float, stop: float, step: float, cells: int) -> Floats:
    edges = _edges(start, _exact(step), 1, cells)
    if abs(edges[-1] - stop) < _EDGE_TOLERANCE * step:
        edges[-1] = stop
    return edges


def _by_metres(box: Box, value: object) -> Lattice:
    if not _is_positive(value):
        raise InputError(f"metres must be a positive number, got {value!r}")
    size = float(value)  # type: ignore[arg-type]
    crs = _utm_zone(box)
    project = transformer(WGS84, crs)
    west, south, east, north = project.transform_bounds(*box.bounds, densify_pts=1000)
    rows = math.ceil(min((north - south) / size, 1e15))
    columns = math.ceil(min((east - west) / size, 1e15))
    _check_cells(rows, columns, f"metres: {value}")
    return Lattice(south + np.arange(rows + 1) * size, west + np.arange(columns + 1) * size, crs)


LATTICE_MAKERS: Final = {"shape": _by_shape, "step": _by_step, "metres": _by_metres}


def _utm_zone(box: Box) -> Any:
    if box.east - box.west > _MAX_UTM_WIDTH:
        raise InputError(
            f"metres needs a region at most {_MAX_UTM_WIDTH:g} degrees of longitude wide, got "
            f"{box.east - box.west:g}: use shape or step"
        )
    import geopandas as gpd

    middle = shapely.Point((box.west + box.east) / 2, (box.south + box.north) / 2)
    try:
        return gpd.GeoSeries([middle], crs=WGS84).estimate_utm_crs()
    except RuntimeError as error:
        raise InputError(
            f"metres needs a region in a UTM zone, latitude -80 to 84, got {middle.y:g}: "
            "use shape or step"
        ) from error


def _pair(key: str, value: object, accepted: str, types: type | UnionType) -> tuple[Any, Any]:
    if isinstance(value, list | tuple) and len(value) == 2:
        first, second = value
        if all(_is_positive(number, types) for number in value):
            return first, second
    raise InputError(f"{key} must be {accepted}, got {value!r}")


def _is_positive(value: object, types: type | UnionType = int | float) -> bool:
    number = isinstance(value, types) and not isinstance(value, bool)
    return number and 0 < value < math.inf  # type: ignore[operator]


def _check_cells(rows: int, columns: int, spec: str) -> None:
    if not 2 <= rows * columns <= MAX_CELLS:
        raise InputError(
            f"a grid must have from 2 to {MAX_CELLS:,} cells, got {rows} x {columns} by {spec}"
        )
