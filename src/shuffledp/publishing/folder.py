"""Write the folder of a published map, and compute its checksum."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pandas as pd

from shuffledp.data.cell_files import write_geojson
from shuffledp.figures.published_map import draw_published_map
from shuffledp.pipeline.files import file_sha256, flush
from shuffledp.pipeline.tables import PACKED
from shuffledp.publishing.deployments_registry import registry_record
from shuffledp.publishing.design import Design
from shuffledp.publishing.page import fits_on_page, render_map
from shuffledp.publishing.shapes import as_polygons
from shuffledp.publishing.statement import in_words, promise

if TYPE_CHECKING:  # it is slow to load
    import geopandas as gpd


MAX_DRAWN_CELLS: Final = 500_000  # for map.png; more are smaller than a pixel


Tables: TypeAlias = Mapping[tuple[int, int], pd.DataFrame]


def map_table(design: Design, values: pd.DataFrame) -> "gpd.GeoDataFrame":
    """Return the table of a map: one row for each cell of each window.

    `values` is a table of `shuffledp.publishing.estimates.estimates`. The columns are window (only
    with windows), cell, id, name, without levels noisy_count (raw, by the name that programs for
    earlier maps know), those of `values`, the area of each level above the cell, and geometry.
    """
    import geopandas as gpd

    cells, windows = design.histogram.cells, design.histogram.windows
    times = 1 if windows is None else len(windows)
    table = cells.table.iloc[np.tile(np.arange(len(cells)), times)]
    named = {} if windows is None else {"window": np.repeat(windows.names, len(cells))}
    named |= {name: table[name].to_numpy() for name in ("cell", "id", "name")}
    if not design.measurements.several:
        named["noisy_count"] = values["raw"].to_numpy()
    named |= {name: values[name].to_numpy() for name in values.columns}
    for level in design.measurements.areas.levels[1:]:
        named[level.name] = np.tile(np.array(level.ids, dtype=object)[level.group], times)
    return gpd.GeoDataFrame(named, geometry=table.geometry.to_numpy(), crs=cells.table.crs)


def levels_table(design: Design, tables: Tables) -> pd.DataFrame:
    """Return the counts of all levels above the cells and windows, a row for each.

    The columns are level (of areas), every (level of time) and window (only with windows), id,
    name, and those of `shuffledp.publishing.estimates.estimates`.
    """
    measurements, windows = design.measurements, design.histogram.windows
    parts = []
    for (t, s), values in tables.items():
        if (t, s) == (0, 0):
            continue
        time, area = measurements.times.levels[t], measurements.areas.levels[s]
        named: dict[str, Any] = {"level": area.name}
        if windows is not None:
            named |= {"every": time.name, "window": np.repeat(time.names, len(area))}
        named |= {"id": np.tile(area.ids, len(time)), "name": np.tile(area.names, len(time))}
        parts.append(values.assign(**named)[[*named, *values.columns]])
    return pd.concat(parts, ignore_index=True)


def write_files(folder: Path, design: Design, tables: Tables, statement: Mapping[str, Any]) -> None:
    """Write all files of a publication to an empty folder.

    They are map.csv, map.parquet (GeoParquet), with levels levels.csv, statement.json,
    statement.yaml, statement.md and, unless there are too many cells, map.png, map.html and
    map.geojson.
    """
    cells, windows = design.histogram.cells, design.histogram.windows
    table = map_table(design, tables[0, 0])
    table.drop(columns="geometry").to_csv(folder / "map.csv", index=False)
    table.to_parquet(folder / "map.parquet", index=False, **PACKED)
    if design.measurements.several:
        levels_table(design, tables).to_csv(folder / "levels.csv", index=False)
    text = json.dumps(statement, indent=2, ensure_ascii=False)
    (folder / "statement.json").write_text(text + "\n", encoding="utf-8")
    (folder / "statement.md").write_text(in_words(statement), encoding="utf-8")
    (folder / "statement.yaml").write_text(registry_record(statement), encoding="utf-8")
    k, names = len(cells), ("",) if windows is None else windows.names
    if fits_on_page(k, sum(len(each) for each in tables.values()) // k):
        write_geojson(table, folder / "map.geojson")
        page = render_map(design, tables, statement)
        (folder / "map.html").write_text(page, encoding="utf-8")
    drawn = k - cells.elsewhere
    if k <= MAX_DRAWN_CELLS:
        shape = (len(names), k)
        shapes = table.iloc[:drawn]
        draw_published_map(
            folder / "map.png",
            shapes.set_geometry(as_polygons(shapes.geometry)),
            table["estimate"].to_numpy(dtype=np.float64).reshape(shape)[:, :drawn],
            (table["low"] == 0).to_numpy().reshape(shape)[:, :drawn],
            names,
            statement["title"],
            f"Every count has random noise. {promise(statement)[0]}",
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
