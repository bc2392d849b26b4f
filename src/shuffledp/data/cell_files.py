"""Write tables of cells, with counts or estimates, as GeoParquet and GeoJSON, without GDAL."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow.parquet as pq

from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.columns import IN_RECORDS, Column, described
from shuffledp.pipeline.files import replacing
from shuffledp.pipeline.tables import CHECKED, PACKED

if TYPE_CHECKING:  # it is slow to load
    import geopandas as gpd


def cell_map(
    cells: "gpd.GeoDataFrame", counts: Integers, releases: pd.DataFrame
) -> "gpd.GeoDataFrame":
    """Return cells with their true ``count`` and a column of estimates for each mechanism.

    `releases` has one release of each mechanism and the columns of `pipeline.tables.RELEASES`. Its
    estimates are shares of all records; in the result they are numbers of records.
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


def write_geoparquet(
    table: "gpd.GeoDataFrame",
    destination: Path,
    metadata: Mapping[str, str],
    columns: Mapping[str, Column] | None = None,
) -> None:
    """Write cells in WGS 84 as GeoParquet; the file appears only when it is complete.

    `metadata` is added to the keys of GeoParquet. Each column has a unit and a description, from
    `columns` or `pipeline.columns.COLUMNS`.
    """
    with replacing(destination) as temporary:
        # geopandas writes the key `geo` but accepts no others, so the file is written twice. It is
        # read by its path: Arrow's threads could use a Python file after the interpreter ended.
        table.to_parquet(temporary, index=False, **PACKED)
        rows = pq.read_table(temporary, use_threads=False, **CHECKED)
        keys = dict(rows.schema.metadata)
        keys.update({key.encode(): value.encode() for key, value in sorted(metadata.items())})
        schema = described(rows.schema.with_metadata(keys), columns)
        pq.write_table(rows.cast(schema), temporary, **PACKED)


def write_geojson(
    table: "gpd.GeoDataFrame", destination: Path, members: Mapping[str, Any] | None = None
) -> None:
    """Write cells in WGS 84 as GeoJSON; the file appears only when it is complete.

    `members` are additional members of the feature collection (foreign members in GeoJSON).
    """
    # geopandas makes the document itself, so that no driver is needed.
    document = table.to_geo_dict(drop_id=True)
    document = {"type": document.pop("type"), **(members or {}), **document}
    with replacing(destination) as temporary:
        temporary.write_text(json.dumps(document), encoding="utf-8")
