"""Write the folder of a published map, and compute its checksum."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from shuffledp.data.cell_files import write_geojson
from shuffledp.data.cells import Cells
from shuffledp.data.windows import Windows
from shuffledp.figures.published_map import draw_published_map
from shuffledp.pipeline.files import file_sha256, flush
from shuffledp.pipeline.tables import PACKED
from shuffledp.publishing.noise import Noise
from shuffledp.publishing.page import fits_on_page, render_map
from shuffledp.publishing.statement import in_words, promise

if TYPE_CHECKING:  # it is slow to load
    import geopandas as gpd


MAX_DRAWN_CELLS: Final = 500_000  # for map.png; more are smaller than a pixel


def map_table(cells: Cells, windows: Windows | None, values: pd.DataFrame) -> "gpd.GeoDataFrame":
    """Return the table of a map: one row for each cell of each window.

    `values` is the result of `shuffledp.publishing.estimates.estimates`, windows one after another.
    The columns are window (only with windows), cell, id, name, those of `values`, and geometry.
    """
    import geopandas as gpd

    times = 1 if windows is None else len(windows)
    row = np.tile(np.arange(len(cells)), times)
    table = cells.table.iloc[row]
    named = {} if windows is None else {"window": np.repeat(windows.names, len(cells))}
    named |= {name: table[name].to_numpy() for name in ("cell", "id", "name")}
    named |= {name: values[name].to_numpy() for name in values.columns}
    return gpd.GeoDataFrame(named, geometry=table.geometry.to_numpy(), crs=cells.table.crs)


def write_files(
    folder: Path,
    table: "gpd.GeoDataFrame",
    windows: Sequence[str],
    noise: Noise,
    statement: Mapping[str, Any],
) -> None:
    """Write all files of a publication to an empty folder.

    They are map.csv, map.parquet (GeoParquet), statement.json, statement.md and, unless there are
    too many cells, map.png, map.html and map.geojson. `table` is the result of `map_table`.
    `windows` are names; a map without windows has one, whose name is empty.
    """
    table.drop(columns="geometry").to_csv(folder / "map.csv", index=False)
    table.to_parquet(folder / "map.parquet", index=False, **PACKED)
    k = len(table) // len(windows)
    if fits_on_page(k, len(windows)):
        write_geojson(table, folder / "map.geojson")
        page = render_map(table, windows, noise, statement)
        (folder / "map.html").write_text(page, encoding="utf-8")
    text = json.dumps(statement, indent=2, ensure_ascii=False)
    (folder / "statement.json").write_text(text + "\n", encoding="utf-8")
    (folder / "statement.md").write_text(in_words(statement), encoding="utf-8")
    if k <= MAX_DRAWN_CELLS:
        shape = (len(windows), k)
        warning = statement.get("warning")
        draw_published_map(
            folder / "map.png",
            table.iloc[:k],
            table["estimate"].to_numpy(dtype=np.float64).reshape(shape),
            (table["low"] == 0).to_numpy().reshape(shape),
            windows,
            statement["title"],
            " ".join(
                [*filter(None, [warning]), "Every count has random noise.", promise(statement)[0]]
            ),
        )


def flush_folder(folder: Path) -> None:
    """Wait until the disk has all files of a folder."""
    for path in sorted(folder.iterdir()):
        flush(path)
    flush(folder)


def folder_sha256(folder: Path) -> str:
    """Return the SHA-256 of the names and contents of a folder's files, as hexadecimal.

    It is the checksum of what ``LC_ALL=C sha256sum *`` prints there. Hidden files, such as the time
    stamp that Snakemake adds to a folder, do not count. An `OSError` is raised if a file cannot be
    read, or the folder contains another folder.
    """
    digest = hashlib.sha256()
    shown = (path for path in folder.iterdir() if not path.name.startswith("."))
    for path in sorted(shown, key=lambda path: path.name.encode()):
        digest.update(f"{file_sha256(path)}  {path.name}\n".encode())
    return digest.hexdigest()
