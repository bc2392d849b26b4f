"""Put true counts and estimates beside the cells, for use in a GIS."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pandas as pd

from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.columns import IN_RECORDS, Column

if TYPE_CHECKING:  # it is slow to load
    import geopandas as gpd


def cell_map(
    cells: "gpd.GeoDataFrame", counts: Integers, releases: pd.DataFrame
) -> "gpd.GeoDataFrame":
    """Return cells with their true count and each mechanism's estimate.

    Parameters
    ----------
    cells
        Result of `shuffledp.geography.grid.read_cells`.
    counts
        True number of records in each cell.
    releases
        One release of each mechanism, with the columns of `pipeline.tables.RELEASES`; estimates are
        shares of the records.

    Returns
    -------
    GeoDataFrame
        The cells with ``count``, and a column with the name of each mechanism, in records.
    """
    table = cells.assign(count=counts)
    for name, release in releases.groupby("mechanism", sort=False):
        estimates = release.sort_values("cell")["estimate"].to_numpy()
        table[name] = int(counts.sum()) * estimates
    geometry = table.pop("geometry")
    return table.assign(geometry=geometry).set_geometry("geometry", crs=cells.crs)


def estimate_columns(mechanisms: Iterable[str]) -> Mapping[str, Column]:
    """Return the description of the column of each mechanism in a `cell_map`."""
    column = IN_RECORDS["estimate"]
    return {
        name: Column(column.type, column.unit, f"{column.description} by mechanism {name}")
        for name in mechanisms
    }
