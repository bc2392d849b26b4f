"""Divide regions into cells: rectangles, H3 hexagons, or the polygons of a file.

The configuration of a grid has one key: `shape`, `step` or `metres` for rectangles, `h3` for
hexagons, or `cells` for polygons (`polygons`).
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import shapely
from numpy.typing import NDArray

from shuffledp.data.regions import Box, Region, region_from_config
from shuffledp.data.systems import WGS84, degrees_from
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats, Integers

if TYPE_CHECKING:  # it is slow to load, and few of the processes of a run need it
    import geopandas as gpd

ELSEWHERE: Final = "elsewhere"
"""Id of the cell for everything outside all other cells."""

MAX_CELLS: Final = 1_000_000
_MAX_UTM_WIDTH: Final = 12.0  # degrees of longitude; UTM distorts lengths in wider regions
# Tolerance for a step that is rounded, such as 0.3333333333, as a share of a cell.
_EDGE_TOLERANCE: Final = Fraction(1, 10**9)
_MANY: Final = Fraction(10**15)
_MAX_CELLS_COUNTED_EXACTLY: Final = 100_000  # counting a million polygons takes ten seconds
_MAX_RESOLUTION: Final = 15
_BASE_CELLS: Final = 122
_BASE_CELL_BIT: Final = 45  # bit of a hexagon's index at which the number of its base cell begins
_MAX_HEXADECIMAL_DIGITS: Final = 16  # of a hexagon's index, which has 18 decimal digits
_NEAR_DEGREES: Final = 0.01  # by which a position may move if it is converted and back
_MAX_HEXAGON_WIDTH: Final = 90.0  # degrees of longitude
_MEAN_RADIUS_KM: Final = 6371.0
_KM_PER_DEGREE: Final = math.radians(_MEAN_RADIUS_KM)
_MAX_STRIP_DEGREES: Final = 45.0


@dataclass(frozen=True)
class Cells:
    """Cells that do not overlap, numbered from 0 to k-1.

    ``table`` has one row for each cell, in order. Its columns are cell (int64), id and name (text),
    row and column (int32, from the south-west; rectangles only) and geometry (WGS 84 degrees).
    ``locate`` is a function of latitude and longitude, arrays of shape ``(n,)`` in degrees, that
    returns the number of the cell that contains each point, -1 for none. ``canonical_id``
    normalises the spelling of an id. ``bounds`` is a box that contains every point of the cells;
    None if the bounds of the table's geometries do. ``groups`` has further properties of polygons:
    one text for each cell. ``elsewhere`` says whether the last cell, which has no geometry,
    contains everything that no other cell does.
    """

    table: "gpd.GeoDataFrame"
    locate: Callable[[Floats, Floats], Integers]
    canonical_id: Callable[[bytes], bytes] = bytes
    bounds: Box | None = None
    groups: Mapping[str, list[str]] = field(default_factory=dict)
    elsewhere: bool = False

    def __len__(self) -> int:
        return len(self.table)

    @property
    def total(self) -> int:
        """Number of cells; below ``len(self)`` if some numbers stand for none (`AllHexagons`)."""
        return len(self)

    def rows(self, numbers: Integers) -> "gpd.GeoDataFrame":
        """Return the rows of the table of cells with these numbers."""
        return self.table.iloc[numbers]

    def with_elsewhere(self) -> "Cells":
        """Return the cells and one more, for positions and names (even none) of no other cell."""
        import geopandas as gpd
        import pandas as pd

        if ELSEWHERE in set(self.table["id"]):
            raise InputError(f"a cell has the id {ELSEWHERE!r} already: leave out --elsewhere")
        row = {"cell": [len(self)], "id": [ELSEWHERE], "name": ["Elsewhere"], "geometry": [None]}
        last = gpd.GeoDataFrame(row, geometry="geometry", crs=self.table.crs)
        table = pd.concat([self.table.drop(columns=["row", "column"], errors="ignore"), last])

        def locate(latitude: Floats, longitude: Floats) -> Integers:
            cell = self.locate(latitude, longitude)
            return np.where(cell < 0, len(self), cell)

        groups = {name: [*texts, ELSEWHERE] for name, texts in self.groups.items()}
        return replace(
            self, table=table.reset_index(drop=True), locate=locate, groups=groups, elsewhere=True
        )

    def in_hilbert_order(self) -> Integers:
        """Return the numbers of the cells in an order in which neighbours are close."""
        drawn = self.table.geometry.iloc[: len(self) - self.elsewhere]
        order = np.argsort(drawn.hilbert_distance().to_numpy(), kind="stable")
        return np.append(order, len(self) - 1) if self.elsewhere else order

    def numbers(self, identifiers: Any) -> Integers:
        """Return the number of the cell with each id; where there is none, elsewhere or -1.

        `identifiers` are a result of `values.to_identifier`, so that 7, 007 and 7.0 are one id.
        """
        import pyarrow as pa

        if isinstance(identifiers, pa.ChunkedArray):
            identifiers = identifiers.combine_chunks()
        encoded = identifiers.dictionary_encode()
        texts = [
            each if isinstance(each, bytes) else b"%d" % (each or 0)
            for each in encoded.dictionary.to_pylist()
        ]
        named = [self.canonical_id(text) for text in texts]
        unknown = len(self) - 1 if self.elsewhere else -1
        found = (unknown if (number := self._number(each)) is None else number for each in named)
        numbers = np.array([*found, unknown], np.int64)  # the last one is for a missing id
        index = encoded.indices.fill_null(len(named)).to_numpy(zero_copy_only=False)
        return np.asarray(numbers[index])

    def _number(self, identifier: bytes) -> int | None:
        return self._cell_of_id.get(identifier)

    @cached_property
    def _cell_of_id(self) -> dict[bytes, int]:
        import pyarrow as pa

        from shuffledp.data.values import canonical

        ids = canonical(pa.array(self.table["id"].tolist(), pa.string()), missing=()).to_pylist()
        return {self.canonical_id(each): cell for cell, each in enumerate(ids)}


def make_cells(region: Region, spec: Mapping[str, Any]) -> Cells:
    """Return the cells of a grid, whose `spec` has exactly one of these keys.

    `shape`, `step` or `metres` stands for rectangles of a lattice that meet the region, row by row
    from the south-west (`make_lattice`). Only points in the region count. As in
    `numpy.histogram`, a point on an edge belongs to the cell north or east of it.

    `h3: resolution` from 0 to 15 stands for hexagons whose centre is in the region, in the order of
    their index. All points of a hexagon count, including those outside the region; on borders, the
    library h3 decides.

    `cells: {path, name, id}` stands for the polygons of a file that overlap the region, not only
    touch it, in the order of the file (`polygons.read_polygons`). All points of a polygon count. A
    point on a common border belongs to the polygon that comes first. A published map has two more
    keys: `groups`, properties to read, and `points`, whether the file may have points instead. No
    position lies in a point; records name it by its id.

    Raises `InputError` if there is not exactly one key, its value is invalid, or the cells are
    fewer than 2 or more than 1,000,000.
    """
    kind = _kind(region, spec)
    if kind == "h3":
        return _hexagon_cells(region, spec[kind])
    if kind == "cells":
        return _polygon_cells(region, spec[kind])
    return _lattice_cells(region, make_lattice(region, spec))


def cell_count(region: Region, spec: Mapping[str, Any]) -> int:
    """Return the number k of cells of a grid, or an upper bound if there are many rectangles.

    A lattice of more than 100,000 rectangles counts as a whole, including those outside the region,
    so that counting takes at most two seconds. Parameters and errors are those of `make_cells`.
    """
    if _kind(region, spec) not in LATTICE_MAKERS:
        return len(make_cells(region, spec))
    lattice = make_lattice(region, spec)
    cells = math.prod(lattice.shape)
    if (region.outline is None and lattice.crs is None) or cells > _MAX_CELLS_COUNTED_EXACTLY:
        return cells
    return len(_lattice_numbers(region, lattice, lattice.polygons()))


def cropping_region(name: str, spec: Mapping[str, Any]) -> Region:
    """Return a region that contains every point that any grid of `spec` may count.

    Hexagons and polygons extend beyond the region that they meet. Parameters are those of
    `region_from_config`.
    """
    region = region_from_config(name, spec)
    grids = [
        grid for grid in spec.get("grids", {}).values() if not set(grid) <= set(LATTICE_MAKERS)
    ]
    bounds = [
        cells.table.total_bounds if cells.bounds is None else cells.bounds.bounds
        for cells in (make_cells(region, grid) for grid in grids)
    ]
    if not bounds:
        return region
    corners = np.array([region.box.bounds, *bounds])
    south_west, north_east = corners[:, :2].min(axis=0), corners[:, 2:].max(axis=0)
    return Region(name, Box.from_bounds([*south_west, *north_east]))


def _kind(region: Region, spec: Mapping[str, Any]) -> str:
    kinds = {*LATTICE_MAKERS, "h3", "cells"}
    if not isinstance(spec, Mapping) or len(spec) != 1 or not set(spec) <= kinds:
        received = ", ".join(map(str, spec)) or "none" if isinstance(spec, Mapping) else repr(spec)
        raise InputError(
            f"a grid of {region.name} must have exactly one of shape: [rows, columns], "
            f"step: [dlat, dlon], metres: size, h3: resolution and cells: {{path: file}}, "
            f"got {received}"
        )
    return next(iter(spec))


def _require_cells(region: Region, cells: int, what: str) -> None:
    if not 2 <= cells <= MAX_CELLS:
        raise InputError(
            f"a map must have from 2 to {MAX_CELLS:,} cells, but {cells:,} {what} {region.name}"
        )


# --- Rectangles -----------------------------------------------------------------------------


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
            project = _transformer(WGS84, self.crs)
            x, y = project.transform(longitude, latitude)
            # The sides of a region's box are curves in this system. The edges enclose 1,000 points
            # of each side, between which it can bulge some cm beyond them.
            x = np.clip(x, self.x_edges[0], self.x_edges[-1])
            y = np.clip(y, self.y_edges[0], self.y_edges[-1])
        row = _interval_of(self.y_edges, y)
        column = _interval_of(self.x_edges, x)
        return np.where((row >= 0) & (column >= 0), row * self.shape[1] + column, -1)

    def polygons(self) -> Any:
        """Return the cells as an array of polygons in degrees, row-major from the south-west."""
        west, south, east, north = self._bounds()
        corners = [(west, south), (east, south), (east, north), (west, north), (west, south)]
        rings = np.stack([np.stack([x, y], axis=-1) for x, y in corners], axis=1)
        if self.crs is not None:
            project = _transformer(self.crs, WGS84)
            rings = np.stack(project.transform(rings[..., 0], rings[..., 1]), axis=-1)
        return shapely.polygons(rings)

    def meets(self, box: Box) -> NDArray[np.bool_]:
        """Return for each cell, row-major, whether it may meet a box, in a projected system.

        The sides of the box are curves in the projection. Each is replaced by 1,000 chords, and
        cells count as well if their distance is at most 1e-6 times the lattice's diagonal. That
        exceeds the distance between chord and curve, which is below 4e-8 of the side's length.
        """
        project = _transformer(WGS84, self.crs)
        corners = shapely.get_coordinates(shapely.box(*box.bounds))
        steps = np.linspace(0.0, 1.0, 1000, endpoint=False)[:, None]
        sides = [start + steps * (stop - start) for start, stop in pairwise(corners)]
        shape = shapely.Polygon(np.column_stack(project.transform(*np.concatenate(sides).T)))
        slack = 1e-6 * math.hypot(np.ptp(self.y_edges), np.ptp(self.x_edges))
        shapely.prepare(shape)
        return np.asarray(shapely.dwithin(shape, shapely.box(*self._bounds()), slack))

    def _bounds(self) -> list[Floats]:
        """Return the west, south, east and north edges of the cells, row-major."""
        south, west = np.meshgrid(self.y_edges[:-1], self.x_edges[:-1], indexing="ij")
        north, east = np.meshgrid(self.y_edges[1:], self.x_edges[1:], indexing="ij")
        return [each.ravel() for each in (west, south, east, north)]


def _transformer(source: Any, target: Any) -> Any:
    """Return the `pyproj.Transformer` of positions, x first, from one reference system to another.

    It loads pyproj, which takes long and which lattices in degrees do not need.
    """
    from pyproj import Transformer

    return Transformer.from_crs(source, target, always_xy=True)


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
    _require_cells_of_lattice(rows, columns, f"shape: {value}")
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
    _require_cells_of_lattice(rows, columns, f"step: {value}")
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
    project = _transformer(WGS84, crs)
    west, south, east, north = project.transform_bounds(*box.bounds, densify_pts=1000)
    rows = math.ceil(min((north - south) / size, 1e15))
    columns = math.ceil(min((east - west) / size, 1e15))
    _require_cells_of_lattice(rows, columns, f"metres: {value}")
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


def _require_cells_of_lattice(rows: int, columns: int, spec: str) -> None:
    if not 2 <= rows * columns <= MAX_CELLS:
        raise InputError(
            f"a grid must have from 2 to {MAX_CELLS:,} cells, got {rows} x {columns} by {spec}"
        )


def _lattice_cells(region: Region, lattice: Lattice) -> Cells:
    import geopandas as gpd

    polygons = lattice.polygons()
    number = _lattice_numbers(region, lattice, polygons)
    row, column = (part.astype(np.int32) for part in np.divmod(number, lattice.shape[1]))
    table = gpd.GeoDataFrame(
        {
            "cell": np.arange(len(number)),
            "id": [f"{r}-{c}" for r, c in zip(row + 1, column + 1, strict=True)],
            "name": [f"row {r}, column {c}" for r, c in zip(row + 1, column + 1, strict=True)],
            "row": row,
            "column": column,
        },
        geometry=polygons[number],
        crs=WGS84,
    )
    # Index -1, for points outside the lattice, refers to the last entry.
    cell_of = np.full(math.prod(lattice.shape) + 1, -1)
    cell_of[number] = np.arange(len(number))

    def locate(latitude: Floats, longitude: Floats) -> Integers:
        cell: Integers = cell_of[lattice.locate(latitude, longitude)]
        if region.outline is not None or lattice.crs is not None:
            cell[~region.contains(latitude, longitude)] = -1
        return cell

    return Cells(table, locate)


def _lattice_numbers(region: Region, lattice: Lattice, polygons: Any) -> Integers:
    """Return the row-major numbers of the rectangles that meet a region."""
    number = np.arange(len(polygons))
    if region.outline is not None:
        shapely.prepare(region.outline)
        number = number[shapely.intersects(region.outline, polygons)]
        if len(number) < 2:
            raise InputError(
                f"a grid needs at least 2 cells, but {len(number)} meet the outline of "
                f"{region.name}: make the cells smaller"
            )
    elif lattice.crs is not None:
        number = number[lattice.meets(region.box)]
    return number


# --- H3 hexagons ----------------------------------------------------------------------------


def _hexagons_of(latitude: Floats, longitude: Floats, resolution: int) -> Integers:
    """Return the index of the hexagon that contains each position."""
    import h3.api.numpy_int as h3

    points = zip(latitude.tolist(), longitude.tolist(), strict=True)
    return np.array([h3.latlng_to_cell(lat, lng, resolution) for lat, lng in points], np.int64)


def _resolution(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_RESOLUTION:
        return value
    raise InputError(f"h3 must be a resolution from 0 to {_MAX_RESOLUTION}, got {value!r}")


def _resolution_for(region: Region, value: object) -> int:
    import h3

    resolution = _resolution(value)
    box = region.box
    if box.east - box.west > _MAX_HEXAGON_WIDTH:
        raise InputError(
            f"h3 needs a region at most {_MAX_HEXAGON_WIDTH:g} degrees of longitude wide, got "
            f"{box.east - box.west:g}: use shape or step"
        )
    # The exact area of a box on a sphere.
    area = (
        _MEAN_RADIUS_KM**2
        * math.radians(box.east - box.west)
        * (math.sin(math.radians(box.north)) - math.sin(math.radians(box.south)))
    )
    expected = area / h3.average_hexagon_area(resolution)
    if region.outline is None and expected > 2 * MAX_CELLS:
        raise InputError(
            f"h3: {resolution} gives {region.name} about {expected:,.0f} cells, more than "
            f"{MAX_CELLS:,}: choose a lower resolution"
        )
    return resolution


def _hexagon_cells(region: Region, value: object) -> Cells:
    import geopandas as gpd
    import h3.api.numpy_int as h3

    resolution = _resolution_for(region, value)
    index = _hexagons(region, resolution)
    _require_cells(region, len(index), f"hexagons of resolution {resolution} have their centre in")
    identifiers = [h3.int_to_str(cell) for cell in index.tolist()]
    rings = [[(lng, lat) for lat, lng in h3.cell_to_boundary(cell)] for cell in index.tolist()]
    if any(max(ring)[0] - min(ring)[0] > 180 for ring in rings):
        raise InputError(
            f"h3: hexagons of {region.name} lie across the 180th meridian: end the region before it"
        )
    columns = {"cell": np.arange(len(index)), "id": identifiers, "name": identifiers}
    shapes = [shapely.Polygon(ring) for ring in rings]
    table = gpd.GeoDataFrame(columns, geometry=shapes, crs=WGS84)

    def locate(latitude: Floats, longitude: Floats) -> Integers:
        hexagon = _hexagons_of(latitude, longitude, resolution)
        position = np.minimum(np.searchsorted(index, hexagon), len(index) - 1)
        return np.where(index[position] == hexagon, position, -1)

    return Cells(table, locate, _canonical_hexagon)


@dataclass(frozen=True)
class AllHexagons(Cells):
    """All hexagons of the earth of a resolution, which are not listed: the table has no rows.

    The number of a hexagon is its base cell and its digits, as a number of base 7; it depends on no
    record. Around pentagons, some numbers stand for no hexagon. `rows` makes the rows of the
    hexagons with the given numbers.
    """

    resolution: int = field(kw_only=True)

    def __len__(self) -> int:
        return int(_BASE_CELLS * 7**self.resolution)

    @property
    def total(self) -> int:
        import h3

        return int(h3.get_num_cells(self.resolution))

    def rows(self, numbers: Integers) -> "gpd.GeoDataFrame":
        import geopandas as gpd
        import h3.api.numpy_int as h3

        distinct, index = np.unique(numbers, return_inverse=True)
        hexagons = _hexagon_of_number(distinct, self.resolution).tolist()
        names = np.array([h3.int_to_str(each) for each in hexagons], dtype=object)
        shapes = np.array([_hexagon_shape(h3.cell_to_boundary(each)) for each in hexagons], object)
        columns = {"cell": numbers, "id": names[index], "name": names[index]}
        return gpd.GeoDataFrame(columns, geometry=shapes[index], crs=WGS84)

    def _number(self, identifier: bytes) -> int | None:
        import h3.api.numpy_int as h3

        if not re.fullmatch(rb"[0-9a-f]{15}", identifier):
            return None
        index = int(identifier, 16)
        if not h3.is_valid_cell(index) or h3.get_resolution(index) != self.resolution:
            return None
        return int(_number_of_hexagon(np.array([index]), self.resolution)[0])


def all_hexagons(resolution: object) -> AllHexagons:
    """Return all hexagons of a resolution; raise `InputError` unless it is from 0 to 15."""
    import geopandas as gpd

    level = _resolution(resolution)

    def locate(latitude: Floats, longitude: Floats) -> Integers:
        return _number_of_hexagon(_hexagons_of(latitude, longitude, level), level)

    columns = {"cell": np.empty(0, np.int64), "id": [], "name": []}
    table = gpd.GeoDataFrame(columns, geometry=[], crs=WGS84)
    return AllHexagons(table, locate, _canonical_hexagon, resolution=level)


def _number_of_hexagon(hexagons: Integers, resolution: int) -> Integers:
    """Return base cell and digits of indices of hexagons as one number, digits in base 7."""
    number: Integers = (hexagons >> _BASE_CELL_BIT) & 0x7F
    for digit in range(1, resolution + 1):
        number = 7 * number + ((hexagons >> (3 * (_MAX_RESOLUTION - digit))) & 7)
    return number


def _hexagon_of_number(numbers: Integers, resolution: int) -> Integers:
    """Return the indices of hexagons, the inverse of `_number_of_hexagon`."""
    rest = numbers
    hexagons = np.full(len(numbers), (1 << 59) | (resolution << 52))  # 1: an index of a cell
    for digit in range(_MAX_RESOLUTION, resolution, -1):
        hexagons |= 7 << (3 * (_MAX_RESOLUTION - digit))  # digits that are not used
    for digit in range(resolution, 0, -1):
        rest, last = np.divmod(rest, 7)
        hexagons |= last << (3 * (_MAX_RESOLUTION - digit))
    hexagons |= rest << _BASE_CELL_BIT
    return hexagons


def _hexagon_shape(boundary: Any) -> Any:
    """Return the polygon of a hexagon, cut at the 180th meridian."""
    ring = np.array(boundary)[:, ::-1]
    if np.ptp(ring[:, 0]) < 180.0:
        return shapely.Polygon(ring)
    ring[:, 0] += np.where(ring[:, 0] < 0.0, 360.0, 0.0)
    whole = shapely.make_valid(shapely.Polygon(ring))  # around a pole the ring crosses itself
    east = shapely.intersection(whole, shapely.box(0.0, -90.0, 180.0, 90.0))
    west = shapely.intersection(whole, shapely.box(180.0, -90.0, 360.0, 90.0))
    return shapely.union(east, shapely.transform(west, lambda xy: xy - [360.0, 0.0]))


def _canonical_hexagon(identifier: bytes) -> bytes:
    """Return an index of a hexagon, written in hexadecimal or in decimals, in lower-case hex."""
    if identifier.isdigit() and len(identifier) > _MAX_HEXADECIMAL_DIGITS:
        return b"%x" % int(identifier)
    return identifier.lower().removeprefix(b"0x").lstrip(b"0")


def _hexagons(region: Region, resolution: int) -> Integers:
    """Return the indices of the hexagons with their centre in a region, ascending."""
    import h3.api.numpy_int as h3

    # Candidates are enumerated in a wider box; our own test then decides on the border.
    edge = 2.0 * h3.average_hexagon_edge_length(resolution) / _KM_PER_DEGREE
    box = region.box
    widest = max(abs(box.south), abs(box.north))
    margin = edge / max(math.cos(math.radians(min(widest + edge, 89.0))), 1e-2)
    south, north = max(box.south - edge, -90.0), min(box.north + edge, 90.0)
    west, east = max(box.west - margin, -180.0), min(box.east + margin, 180.0)
    # h3 takes a polygon of 180 degrees or more for one across the 180th meridian.
    meridians = np.linspace(west, east, 1 + math.ceil((east - west) / _MAX_STRIP_DEGREES))
    strips = [
        h3.h3shape_to_cells(
            h3.LatLngPoly([(south, left), (south, right), (north, right), (north, left)]),
            resolution,
        )
        for left, right in pairwise(meridians.tolist())
    ]
    candidates = np.unique(np.concatenate(strips)).astype(np.int64)
    centres = np.array([h3.cell_to_latlng(cell) for cell in candidates.tolist()]).reshape(-1, 2)
    return np.asarray(candidates[region.contains(centres[:, 0], centres[:, 1])])


# --- Polygons of a file ---------------------------------------------------------------------


def _polygon_cells(region: Region, spec: Mapping[str, Any]) -> Cells:
    from shuffledp.data.polygons import read_polygons

    keys = {"path", "name", "id", "groups", "points"}
    if not isinstance(spec, Mapping) or "path" not in spec or not set(spec) <= keys:
        raise InputError(
            f"cells must be {{path: file, name: property, id: property}}, of which only path is "
            f"required, got {spec!r}"
        )
    polygons = read_polygons(
        Path(spec["path"]),
        name=spec.get("name"),
        identifier=spec.get("id"),
        groups=spec.get("groups", ()),
        points=spec.get("points", False),
    )
    area = shapely.box(*region.box.bounds) if region.outline is None else region.outline
    shapely.prepare(area)
    in_degrees = polygons.table.geometry.to_numpy()
    meeting = shapely.intersects(area, in_degrees)
    if not polygons.points:
        meeting &= ~shapely.touches(area, in_degrees)
    table = polygons.table[meeting].reset_index(drop=True)
    groups = {
        name: np.array(texts, dtype=object)[meeting].tolist()
        for name, texts in polygons.groups.items()
    }
    _require_cells(region, len(table), f"found in {spec['path']} for")
    table.insert(0, "cell", np.arange(len(table)))
    shapes = polygons.shapes[meeting]  # in the reference system of the file
    tree = shapely.STRtree(shapes)
    shapely.prepare(shapes)

    def locate(latitude: Floats, longitude: Floats) -> Integers:
        if polygons.points:
            raise InputError(
                f"{spec['path']} has points instead of areas, so no coordinates lie in them: give "
                "--place, the column with the id of each record's point"
            )
        x, y = longitude, latitude
        if polygons.epsg is not None:
            transformer = degrees_from(polygons.epsg)
            x, y = transformer.transform(longitude, latitude, direction="INVERSE")
        point, polygon = tree.query(shapely.points(x, y))
        inside = shapely.intersects_xy(shapes[polygon], x[point], y[point])
        point, polygon = point[inside], polygon[inside]
        if polygons.epsg is not None:
            # A point far away may be converted to a position in a polygon, but not back again.
            back = transformer.transform(x[point], y[point])
            moved = np.abs([longitude[point], latitude[point]] - np.array(back)).max(axis=0)
            point, polygon = point[moved < _NEAR_DEGREES], polygon[moved < _NEAR_DEGREES]
        cell = np.full(len(latitude), len(table))
        np.minimum.at(cell, point, polygon)
        cell[cell == len(table)] = -1
        return cell

    edges = table.total_bounds if polygons.epsg is None else polygons.bounds
    bounds = None if polygons.points else Box.from_bounds(edges)
    return Cells(table, locate, bounds=bounds, groups=groups)
