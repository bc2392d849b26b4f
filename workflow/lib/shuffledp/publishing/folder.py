"""Write the folder of a published map, and compute its checksum."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from shuffledp.geography.cells import Cells
from shuffledp.geography.windows import Windows
from shuffledp.pipeline.files import file_sha256, flush
from shuffledp.pipeline.tables import PACKED

if TYPE_CHECKING:  # it is slow to load
    import geopandas as gpd

MAX_PAGE_CELLS: Final = 20_000
"""Largest number of cells for which map.html and map.geojson are written."""


def map_table(cells: Cells, windows: Windows | None, values: pd.DataFrame) -> "gpd.GeoDataFrame":
    """Return the table of a map: one row for each cell of each window.

    Parameters
    ----------
    cells, windows
        What was counted.
    values
        Result of `shuffledp.publishing.estimates.estimates`, windows one after another.

    Returns
    -------
    GeoDataFrame
        Columns window (only with windows), cell, id, name, those of `values`, and geometry.
    """
    import geopandas as gpd

    times = 1 if windows is None else len(windows)
    row = np.tile(np.arange(len(cells)), times)
    table = cells.table.iloc[row]
    named = {} if windows is None else {"window": np.repeat(windows.names, len(cells))}
    named |= {name: table[name].to_numpy() for name in ("cell", "id", "name")}
    named |= {name: values[name].to_numpy() for name in values.columns}
    return gpd.GeoDataFrame(named, geometry=table.geometry.to_numpy(), crs=cells.table.crs)


def write_tables(table: "gpd.GeoDataFrame", statement: Mapping[str, Any], folder: Path) -> None:
    """Write map.csv, map.parquet (GeoParquet), statement.json and, for small maps, map.geojson."""
    table.drop(columns="geometry").to_csv(folder / "map.csv", index=False)
    table.to_parquet(folder / "map.parquet", index=False, **PACKED)
    if table["cell"].max() < MAX_PAGE_CELLS:
        # geopandas writes the text itself, so that no driver is needed.
        (folder / "map.geojson").write_text(table.to_json(drop_id=True), encoding="utf-8")
    text = json.dumps(statement, indent=2, ensure_ascii=False)
    (folder / "statement.json").write_text(text + "\n", encoding="utf-8")


def flush_folder(folder: Path) -> None:
    """Wait until the disk has all files of a folder."""
    for path in sorted(folder.iterdir()):
        flush(path)
    flush(folder)


def folder_sha256(folder: Path) -> str:
    """Return the SHA-256 of the names and contents of a folder's files, as hexadecimal.

    It is the checksum of what ``LC_ALL=C sha256sum *`` prints there.

    Raises
    ------
    OSError
        If a file cannot be read, or the folder contains another folder.
    """
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir(), key=lambda path: path.name.encode()):
        digest.update(f"{file_sha256(path)}  {path.name}\n".encode())
    return digest.hexdigest()
