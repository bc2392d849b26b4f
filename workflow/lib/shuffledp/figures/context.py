"""Where a figure on a map takes place."""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NotRequired, TypedDict, Unpack

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely

from shuffledp.figures.basemap import backdrop, legible
from shuffledp.geography.grid import read_corners
from shuffledp.numerics.arrays import Floats
from shuffledp.pipeline.tables import read_tables


class MapFiles(TypedDict):
    """Files of the grid, and of what lies round it if there is anything."""

    cells: Path
    basemap: NotRequired[Path]
    outline: NotRequired[Path]


@dataclass(frozen=True)
class MapContext:
    """A grid with its surroundings, and what the figure is called.

    Attributes
    ----------
    cells
        The grid: ``count`` where the truth is shown, and column ``geometry``, WGS 84 degrees, where
        the corners were not read by themselves.
    title
        Of the figure.
    layers
        Base map and outline, as `shuffledp.figures.basemap.backdrop` returns them; none by default.
    unit
        What a record is: ``one check-in`` or ``one user``.
    """

    cells: pd.DataFrame
    title: str
    layers: gpd.GeoDataFrame = field(default_factory=backdrop)
    unit: str = "one check-in"

    @classmethod
    def read(cls, title: str, unit: str, **files: Unpack[MapFiles]) -> "MapContext":
        """Read grid and surroundings from their files.

        Parameters
        ----------
        title, unit
            As in `MapContext`.
        files
            Of the grid, and of a base map and an outline if there are any.
        """
        layers = backdrop(files.get("basemap"), files.get("outline"))
        made = cls(read_tables([files["cells"]], ["count"]), title, layers, unit)
        vars(made)["corners"] = read_corners(files["cells"])  # what the property would cache
        return made

    @cached_property
    def corners(self) -> Floats:
        """Vertices of the cells in degrees, ``(k, vertices, 2)``: a grid's cells are all alike."""
        points: Floats = shapely.get_coordinates(self.cells["geometry"].to_numpy())
        return points.reshape(len(self.cells), -1, 2)

    @cached_property
    def around(self) -> gpd.GeoDataFrame:
        """Of the layers, those that are legible at the width of the grid."""
        return legible(self.layers, float(np.ptp(self.corners[..., 0])))
