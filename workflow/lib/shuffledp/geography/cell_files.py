"""Write tables of cells as GeoParquet and GeoJSON, without GDAL."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from shuffledp.pipeline.columns import Column, described
from shuffledp.pipeline.files import replacing
from shuffledp.pipeline.tables import CHECKED, PACKED

if TYPE_CHECKING:  # it is slow to load
    import geopandas as gpd


def write_geoparquet(
    table: "gpd.GeoDataFrame",
    destination: Path,
    metadata: Mapping[str, str],
    columns: Mapping[str, Column] | None = None,
) -> None:
    """Write cells as GeoParquet with units and descriptions of the columns.

    Parameters
    ----------
    table
        Cells in WGS 84.
    destination
        Path of the file, which appears only when it is complete.
    metadata
        Key-value metadata in addition to the keys of GeoParquet.
    columns
        Columns that are not in `pipeline.columns.COLUMNS`.
    """
    with replacing(destination) as temporary:
        # geopandas writes the key `geo` but accepts no others, so the file is written twice. It is
        # read by path, because Arrow's threads can outlive the interpreter with a Python file.
        table.to_parquet(temporary, index=False, **PACKED)
        rows = pq.read_table(temporary, use_threads=False, **CHECKED)
        keys = dict(rows.schema.metadata)
        keys.update({key.encode(): value.encode() for key, value in sorted(metadata.items())})
        schema = described(rows.schema.with_metadata(keys), columns)
        pq.write_table(rows.cast(schema), temporary, **PACKED)


def write_geojson(
    table: "gpd.GeoDataFrame", destination: Path, members: Mapping[str, Any] | None = None
) -> None:
    """Write cells as GeoJSON; the file appears only when it is complete.

    Parameters
    ----------
    table
        Cells in WGS 84.
    destination
        Path of the file.
    members
        Further members of the collection of features, which GeoJSON calls foreign.
    """
    # geopandas makes the document itself, so that no driver is needed.
    document = table.to_geo_dict(drop_id=True)
    document = {"type": document.pop("type"), **(members or {}), **document}
    with replacing(destination) as temporary:
        temporary.write_text(json.dumps(document), encoding="utf-8")
