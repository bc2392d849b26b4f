"""An invented town of 12 cells, and releases of its users."""

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely

from shuffledp.studies.releases import release_sweep

COUNTS = np.array([0, 3, 50, 7, 90, 1, 0, 120, 60, 33, 25, 11])
PLACE = {"region": "town", "grid": "3x4"}


def town_cells(**columns):
    """Return three rows of four cells, each a hundredth of a degree wide."""
    row, column = np.divmod(np.arange(12), 4)
    west, south = 2.0 + 0.01 * column, 60.0 + 0.01 * row
    geometry = shapely.box(west, south, west + 0.01, south + 0.01)
    return gpd.GeoDataFrame(columns, geometry=geometry, crs=4326)


def release_tables(sweep, samples, mechanisms, repetitions, **more):
    """Return the releases of a sweep and their utility."""
    names = {"seed": 7, **PLACE, **more}
    parts = release_sweep(samples, sweep, repetitions, mechanisms, **names)
    return [pd.concat(each, ignore_index=True) for each in zip(*parts, strict=True)]
