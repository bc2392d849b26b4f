"""Outlines of cells as arrays, which need far less memory than polygons."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.parquet as pq
import shapely
from matplotlib.path import Path as Outline
from numpy.typing import NDArray

from shuffledp.numerics.arrays import Bools, Floats, Integers
from shuffledp.pipeline.tables import CHECKED, reading

_WKB_HEADER: Final = 13  # bytes before the vertices of a polygon with one ring


@dataclass(frozen=True)
class CellShapes:
    """Outlines of k cells, each of one or more closed rings.

    `points` are the vertices of all rings, x = longitude and y = latitude in degrees, shape
    ``(vertices, 2)``; the last vertex of a ring is its first. `starts` has the index of the first
    vertex of each ring, then the number of all vertices, shape ``(rings + 1,)``. `cell_of_ring` is
    the number of the cell of each ring, ascending, shape ``(rings,)``. `middles` has a point inside
    each cell, shape ``(k, 2)``.
    """

    points: Floats
    starts: Integers
    cell_of_ring: Integers
    middles: Floats

    @classmethod
    def from_polygons(cls, polygons: Any) -> "CellShapes":
        """Return the outlines of an array of polygons and multipolygons."""
        parts, cell_of_part = shapely.get_parts(polygons, return_index=True)
        rings, part_of_ring = shapely.get_rings(parts, return_index=True)
        sizes = shapely.get_num_coordinates(rings)
        middles = shapely.centroid(polygons)
        outside = ~shapely.contains(polygons, middles)
        middles[outside] = shapely.point_on_surface(polygons[outside])
        return cls(
            shapely.get_coordinates(rings),
            np.concatenate([[0], np.cumsum(sizes)]),
            cell_of_part[part_of_ring],
            shapely.get_coordinates(middles),
        )

    @classmethod
    def read(cls, cells: Path, rows: slice | None = None) -> "CellShapes":
        """Read the outlines of cells that `shuffledp.data.grid.grid_checkins` wrote.

        Rectangles are read as arrays, because polygons would need five times the memory.
        """
        with reading(cells):
            rectangles = "row" in pq.read_schema(cells).names
            column = pq.read_table(cells, columns=["geometry"], **CHECKED)["geometry"]
        column = column.to_numpy()[rows or slice(None)]
        if not rectangles:
            return cls.from_polygons(shapely.from_wkb(column))
        # In well-known binary each rectangle is a header and five vertices.
        flat = np.array(column, dtype=bytes).view(np.uint8).reshape(len(column), -1)
        points = flat[:, _WKB_HEADER:].copy().view("<f8").reshape(len(column), 5, 2)
        return cls(
            points.reshape(-1, 2),
            np.arange(len(column) + 1) * 5,
            np.arange(len(column)),
            points[:, :-1].mean(axis=1),
        )

    def __len__(self) -> int:
        return len(self.middles)

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, south, east and north limits of all cells in degrees."""
        (west, south), (east, north) = self.points.min(axis=0), self.points.max(axis=0)
        return float(west), float(south), float(east), float(north)

    @property
    def sizes(self) -> Floats:
        """Width and height of each cell in degrees, shape ``(k, 2)``."""
        first = np.searchsorted(self.cell_of_ring, np.arange(len(self)))
        starts = self.starts[first]
        largest = np.maximum.reduceat(self.points, starts)
        smallest = np.minimum.reduceat(self.points, starts)
        extent: Floats = largest - smallest
        return extent

    def outline(self, mask: Bools) -> Outline:
        """Return one path that joins all cells of a mask of shape ``(k,)``."""
        kept = np.repeat(mask[self.cell_of_ring], np.diff(self.starts))
        return Outline(self.points[kept], self._codes()[kept])

    def outlines(self, mask: Bools) -> list[Outline]:
        """Return a path for each cell of a mask of shape ``(k,)``."""
        codes = self._codes()
        ends = self.starts[np.searchsorted(self.cell_of_ring, np.arange(len(self) + 1))]
        return [
            Outline(self.points[ends[i] : ends[i + 1]], codes[ends[i] : ends[i + 1]])
            for i in np.flatnonzero(mask)
        ]

    def _codes(self) -> NDArray[np.uint8]:
        """Return matplotlib's code of each vertex."""
        codes = np.full(len(self.points), Outline.LINETO, dtype=np.uint8)
        codes[self.starts[:-1]] = Outline.MOVETO
        codes[self.starts[1:] - 1] = Outline.CLOSEPOLY
        return codes
