"""Lay grids of cells over regions, and count check-ins in their cells."""

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import shapely

from shuffledp.errors import InputError
from shuffledp.geography.regions import WGS84, Box, Region, squares_meeting, transformer
from shuffledp.geography.sources import BUDGET, COORDINATES
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.pipeline.columns import CONTENTS, TRUE, described
from shuffledp.pipeline.files import replacing
from shuffledp.pipeline.tables import CHECKED, PACKED, reading

if TYPE_CHECKING:  # it is slow to load, and few of the processes of a run need it
    import geopandas as gpd

logger = logging.getLogger(__name__)

MAX_CELLS: Final = 1_000_000
_MAX_CELLS_COUNTED_EXACTLY: Final = 100_000  # counting a million polygons takes ten seconds
_MAX_UTM_WIDTH: Final = 12.0  # degrees of longitude; UTM distorts lengths in wider regions
_EDGE_TOLERANCE: Final = 1e-9  # share of a cell by which decimal edges may be rounded


@dataclass(frozen=True)
class GridTally:
    """Numbers of check-ins inside (`kept`) and outside (`dropped`) the cells."""

    kept: int
    dropped: int

    def __str__(self) -> str:
        return f"{self.kept:,} check-ins counted, {self.dropped:,} outside the grid"


@dataclass(frozen=True)
class Lattice:
    """Rectangular cells between edges; the outer border belongs to the lattice.

    Parameters
    ----------
    y_edges, x_edges : array, (rows + 1,) and (columns + 1,)
        Ascending; degrees of latitude and longitude, or metres north and east if there is a `crs`.
    crs : pyproj.CRS or None
        The projected system of the edges.
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
        point on the last edge to the last cell.
        """
        y, x = latitude, longitude
        if self.crs is not None:
            project = transformer(WGS84, self.crs)
            x, y = project.transform(longitude, latitude)
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

    Parameters
    ----------
    region : Region
    spec : Mapping
        Exactly one of
        `shape: [rows, columns]`, which divides the box evenly;
        `step: [dlat, dlon]` in degrees, from the south-west corner, partial strips dropped;
        `metres: size`, squares in the UTM zone of the box's centre, which cover the smallest UTM
        rectangle around the box from its south-west corner. Squares outside the box, whose sides
        are slanted in UTM, are dropped by `grid_cells`.

    Raises
    ------
    InputError
        If there is not exactly one key, a value is not positive, the cells are fewer than 2 or more
        than 1,000,000, or the box is too wide for one UTM zone.
    """
    if not isinstance(spec, Mapping) or len(spec) != 1 or not set(spec) <= set(_LATTICE_MAKERS):
        received = ", ".join(map(str, spec)) or "none" if isinstance(spec, Mapping) else repr(spec)
        raise InputError(
            f"a grid of {region.name} must have exactly one of shape: [rows, columns], "
            f"step: [dlat, dlon] and metres: size (got {received})"
        )
    ((kind, value),) = spec.items()
    return _LATTICE_MAKERS[kind](region.box, value)


def grid_cells(region: Region, spec: Mapping[str, Any]) -> "gpd.GeoDataFrame":
    """Return the cells of a grid, row-major from the south-west.

    Cells that do not meet the region are left out, and the others are numbered.

    Returns
    -------
    GeoDataFrame
        Columns cell (int64, 0 to k-1), row and column (int32, from the south-west), geometry
        (polygons in WGS84 degrees).

    Raises
    ------
    InputError
        As for `make_lattice`, and if fewer than 2 cells meet the outline.
    """
    return _cells(region, make_lattice(region, spec))


def cell_count(region: Region, spec: Mapping[str, Any]) -> int:
    """Return the number k of cells of a grid; it takes at most about two seconds.

    A lattice of more than 100,000 cells is counted in full, including cells outside the region.
    Parameters and errors are those of `grid_cells`.
    """
    lattice = make_lattice(region, spec)
    cells = math.prod(lattice.shape)
    if (region.outline is None and lattice.crs is None) or cells > _MAX_CELLS_COUNTED_EXACTLY:
        return cells
    return len(_cells(region, lattice))


def count_checkins(
    region: Region, spec: Mapping[str, Any], checkins: Path
) -> "tuple[gpd.GeoDataFrame, GridTally]":
    """Count the check-ins in each cell of a grid.

    The file has columns latitude and longitude in degrees. The cells are those of `grid_cells`,
    with a column count (int64).

    Raises
    ------
    InputError
        As for `grid_cells`, and if no check-in is in a cell.
    """
    lattice = make_lattice(region, spec)
    cells = _cells(region, lattice)
    counts = np.zeros(len(cells), dtype=np.int64)
    read = 0
    for cell, _ in _locate_checkins(lattice, cells, checkins):
        counts += np.bincount(cell[cell >= 0], minlength=len(cells))
        read += len(cell)
    kept = int(counts.sum())
    if not kept:
        raise InputError(
            f"none of the {read} check-ins of {checkins} is in a cell of the grid {dict(spec)} of "
            f"{region.name}: they are outside its cells (step leaves out partial cells at the "
            "region's edge), or were cropped to another region"
        )
    tally = GridTally(kept=kept, dropped=read - kept)
    logger.info("%s, %s: k=%d cells, %s", region.name, dict(spec), len(cells), tally)
    cells["count"] = counts
    return cells, tally


def count_budgets(region: Region, spec: Mapping[str, Any], checkins: Path) -> pd.DataFrame:
    """Count the check-ins with each budget in each cell of a grid.

    The file has a column budget in addition to those for `count_checkins`. The result has columns
    budget, cell and count, in order of budget and cell, with positive counts.

    Raises
    ------
    InputError
        As for `grid_cells`.
    """
    lattice = make_lattice(region, spec)
    parts = [
        # The absolute value merges 0 and -0, which would be two budgets.
        pd.DataFrame({BUDGET: np.abs(batch[BUDGET].to_numpy()), "cell": cell})[cell >= 0]
        for cell, batch in _locate_checkins(lattice, _cells(region, lattice), checkins, BUDGET)
    ]
    counted = pd.concat(parts).groupby([BUDGET, "cell"], sort=True).size()
    return counted.rename("count").reset_index()


def grid_checkins(
    checkins: Path,
    region: Region,
    spec: Mapping[str, Any],
    destination: Path,
    metadata: Mapping[str, str],
) -> GridTally:
    """Count the check-ins in each cell of a grid and write the cells as GeoParquet.

    The columns are those of `count_checkins`. The destination appears only if everything succeeds;
    its key-value metadata are `metadata` and the keys of GeoParquet.

    Raises
    ------
    InputError
        As for `count_checkins`.
    """
    cells, tally = count_checkins(region, spec, checkins)
    with replacing(destination) as temporary:
        # geopandas writes the key `geo` but accepts no others, so the file is written twice. It is
        # read by path, because Arrow's threads can outlive the interpreter with a Python file.
        cells.to_parquet(temporary, index=False, **PACKED)
        table = pq.read_table(temporary, use_threads=False, **CHECKED)
        keys = dict(table.schema.metadata)
        added = {CONTENTS: TRUE, **metadata}
        keys.update({key.encode(): value.encode() for key, value in sorted(added.items())})
        schema = described(table.schema.with_metadata(keys))
        pq.write_table(table.cast(schema), temporary, **PACKED)
    return tally


def read_cells(source: Path) -> "gpd.GeoDataFrame":
    """Read the cells that `grid_checkins` wrote: number, row, column, outline (WGS84) and count."""
    import geopandas as gpd

    with reading(source):
        return gpd.read_parquet(source, **CHECKED)


def read_corners(source: Path) -> Floats:
    """Read the vertices of the cells that `grid_checkins` wrote: ``(k, vertices, 2)``, in degrees.

    Shapely polygons would need five times the memory.
    """
    with reading(source):
        column = pq.read_table(source, columns=["geometry"], **CHECKED)["geometry"]
    # In well-known binary each cell is a header of 13 bytes and the same number of vertices.
    cells = np.array(column.to_numpy(), dtype=bytes)
    points: Floats = cells.view(np.uint8).reshape(len(cells), -1)[:, 13:].copy().view("<f8")
    return points.reshape(len(cells), -1, 2)


def _locate_checkins(
    lattice: Lattice, cells: "gpd.GeoDataFrame", checkins: Path, *columns: str
) -> Iterator[tuple[Integers, Any]]:
    """Yield the cell of each check-in, -1 for none, and the batch with the requested columns."""
    # The last entry maps the number -1.
    cell_of = np.full(math.prod(lattice.shape) + 1, -1)
    cell_of[cells["row"].to_numpy() * lattice.shape[1] + cells["column"].to_numpy()] = cells["cell"]
    with reading(checkins), pq.ParquetFile(checkins, **CHECKED) as file:
        for batch in file.iter_batches(columns=[*COORDINATES, *columns]):
            yield cell_of[lattice.locate(*(batch[name].to_numpy() for name in COORDINATES))], batch


def _cells(region: Region, lattice: Lattice) -> "gpd.GeoDataFrame":
    polygons = lattice.polygons()
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
        number = number[squares_meeting(region.box, lattice.crs, lattice.y_edges, lattice.x_edges)]
    import geopandas as gpd

    row, column = np.divmod(number, lattice.shape[1])
    return gpd.GeoDataFrame(
        {
            "cell": np.arange(len(number), dtype=np.int64),
            "row": row.astype(np.int32),
            "column": column.astype(np.int32),
        },
        geometry=polygons[number],
        crs=WGS84,
    )


def _interval_of(edges: Floats, values: Floats) -> Integers:
    index = np.searchsorted(edges, values, side="right") - 1
    index[values == edges[-1]] -= 1
    index[index == len(edges) - 1] = -1
    return index


def _by_shape(box: Box, value: object) -> Lattice:
    rows, columns = _pair("shape", value, "[rows, columns], integers >= 1", int)
    _check_cells(rows, columns, f"shape: {value}")
    return Lattice(
        np.linspace(box.south, box.north, rows + 1), np.linspace(box.west, box.east, columns + 1)
    )


def _by_step(box: Box, value: object) -> Lattice:
    dlat, dlon = _pair("step", value, "[dlat, dlon], positive numbers of degrees", int | float)
    rows = math.floor(min((box.north - box.south) / dlat + _EDGE_TOLERANCE, 1e15))
    columns = math.floor(min((box.east - box.west) / dlon + _EDGE_TOLERANCE, 1e15))
    _check_cells(rows, columns, f"step: {value}")
    return Lattice(
        _stepped(box.south, box.north, dlat, rows), _stepped(box.west, box.east, dlon, columns)
    )


def _stepped(start: float, stop: float, step: float, cells: int) -> Floats:
    edges = start + np.arange(cells + 1, dtype=np.float64) * step
    if abs(edges[-1] - stop) < _EDGE_TOLERANCE * step:
        edges[-1] = stop
    return edges


def _by_metres(box: Box, value: object) -> Lattice:
    if not _is_positive(value):
        raise InputError(f"metres must be a positive number (got {value!r})")
    size = float(value)  # type: ignore[arg-type]
    crs = _utm_zone(box)
    project = transformer(WGS84, crs)
    west, south, east, north = project.transform_bounds(
        box.west, box.south, box.east, box.north, densify_pts=1000
    )
    rows = math.ceil(min((north - south) / size, 1e15))
    columns = math.ceil(min((east - west) / size, 1e15))
    _check_cells(rows, columns, f"metres: {value}")
    return Lattice(south + np.arange(rows + 1) * size, west + np.arange(columns + 1) * size, crs)


_LATTICE_MAKERS: Final = {"shape": _by_shape, "step": _by_step, "metres": _by_metres}


def _utm_zone(box: Box) -> Any:
    if box.east - box.west > _MAX_UTM_WIDTH:
        raise InputError(
            f"metres needs a region at most {_MAX_UTM_WIDTH:g} degrees of longitude wide (got "
            f"{box.east - box.west:g}): use shape or step"
        )
    import geopandas as gpd

    middle = shapely.Point((box.west + box.east) / 2, (box.south + box.north) / 2)
    try:
        return gpd.GeoSeries([middle], crs=WGS84).estimate_utm_crs()
    except RuntimeError as error:
        raise InputError(
            f"metres needs a region in a UTM zone, latitude -80 to 84 (got {middle.y:g}): "
            "use shape or step"
        ) from error


def _pair(key: str, value: object, accepted: str, types: type | UnionType) -> tuple[Any, Any]:
    if isinstance(value, list | tuple) and len(value) == 2:
        first, second = value
        if all(_is_positive(number, types) for number in value):
            return first, second
    raise InputError(f"{key} must be {accepted} (got {value!r})")


def _is_positive(value: object, types: type | UnionType = int | float) -> bool:
    number = isinstance(value, types) and not isinstance(value, bool)
    return number and 0 < value < math.inf  # type: ignore[operator]


def _check_cells(rows: int, columns: int, spec: str) -> None:
    if not 2 <= rows * columns <= MAX_CELLS:
        raise InputError(
            f"a grid must have from 2 to {MAX_CELLS:,} cells (got {rows} x {columns} by {spec})"
        )
