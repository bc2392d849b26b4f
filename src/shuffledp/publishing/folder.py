"""Write the folder of a published map, and compute its checksum."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pandas as pd
import shapely

from shuffledp.data.cells import AllHexagons
from shuffledp.data.grid import write_geojson
from shuffledp.errors import InputError
from shuffledp.figures.published_map import draw_published_map
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.files import file_sha256, flush
from shuffledp.pipeline.tables import PACKED
from shuffledp.publishing.design import Design
from shuffledp.publishing.levels import FlowLevel
from shuffledp.publishing.page import as_polygons, fits_on_page, render_map
from shuffledp.publishing.statement import in_words, promise, registry_record

if TYPE_CHECKING:  # it is slow to load
    import geopandas as gpd


_ENDS: Final = ("origin", "destination")
MAX_DRAWN_CELLS: Final = 500_000  # for map.png; more are smaller than a pixel


Tables: TypeAlias = Mapping[tuple[int, int], pd.DataFrame]


def map_table(design: Design, values: pd.DataFrame) -> "gpd.GeoDataFrame":
    """Return the table of a map: one row for each cell of each window.

    `values` is a table of `shuffledp.publishing.estimates`, whose index numbers the counts; a
    sparse one lacks some. The columns are window (only with windows), cell, id, name, without
    levels noisy_count (raw, by the name that programs for earlier maps know), those of `values`,
    the area of each level above the cell, and geometry. A map of trips has a row for each pair of
    cells instead, with the columns origin, destination, origin_name and destination_name, and a
    line between their middles.
    """
    import geopandas as gpd

    cells, windows = design.histogram.cells, design.histogram.windows
    window, area = np.divmod(values.index.to_numpy(), design.histogram.areas)
    named: dict[str, Any] = {}
    if windows is not None:
        named["window"] = np.array(windows.names)[window]
    if design.histogram.flows:
        shown, at = np.unique(np.divmod(area, len(cells)), return_inverse=True)
        places, ends = cells.rows(shown), at.reshape(2, -1)
        for column, suffix in (("id", ""), ("name", "_name")):
            texts = places[column].to_numpy()
            named |= {f"{each}{suffix}": texts[at] for each, at in zip(_ENDS, ends, strict=True)}
        geometry = _lines_between(places.geometry, *ends)
    else:
        table = cells.rows(area)
        named |= {name: table[name].to_numpy() for name in ("cell", "id", "name")}
        if not design.measurements.several:
            named["noisy_count"] = values["raw"].to_numpy()
        geometry = table.geometry.to_numpy()
    named |= {name: values[name].to_numpy() for name in values.columns}
    for level in () if design.histogram.flows else design.measurements.areas.levels[1:]:
        named[level.name] = np.array(level.ids, dtype=object)[level.group][area]
    result = gpd.GeoDataFrame(named, geometry=geometry, crs=cells.table.crs)
    # Texts have the type of texts, even if a sparse map shows none.
    texts = [name for name in result.columns if result[name].dtype == object]
    return result.astype(dict.fromkeys(texts, "str"))


def _lines_between(geometry: Any, begin: Integers, end: Integers) -> Any:
    """Return straight lines, each from the middle of one shape to that of another.

    `begin` and `end` are the numbers of the shapes. A line is missing if one of the two shapes has
    no geometry.
    """
    middles = shapely.centroid(np.asarray(geometry))
    known = ~shapely.is_missing(middles)
    xy = np.zeros((len(middles), 2))
    xy[known] = shapely.get_coordinates(middles[known])
    lines = shapely.linestrings(np.stack([xy[begin], xy[end]], axis=1))
    lines[~(known[begin] & known[end])] = None
    return lines


def levels_table(design: Design, tables: Tables) -> pd.DataFrame:
    """Return the counts of all levels above the cells and windows, a row for each.

    The columns are level (of areas), every (level of time) and window (only with windows), id and
    name, or origin and destination of trips, and those of
    `shuffledp.publishing.estimates.estimates`.
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
        if isinstance(area, FlowLevel):
            begin, end = np.divmod(np.tile(np.arange(len(area)), len(time)), len(area.end))
            named["origin"] = np.array(area.start.ids, dtype=object)[begin]
            named["destination"] = np.array(area.end.ids, dtype=object)[end]
        else:
            named |= {"id": np.tile(area.ids, len(time)), "name": np.tile(area.names, len(time))}
        parts.append(values.assign(**named)[[*named, *values.columns]])
    return pd.concat(parts, ignore_index=True)


def write_files(
    folder: Path,
    design: Design,
    tables: Tables,
    statement: Mapping[str, Any],
    pictures: Sequence[str] = (),
) -> None:
    """Write all files of a publication to an empty folder.

    They are map.csv, map.parquet (GeoParquet), with levels levels.csv, for trips places.parquet,
    statement.json, statement.yaml, statement.md and, unless there are too many cells, map.png (of
    departures if records are trips), map.html and map.geojson. A sparse map has no picture and no
    page. `pictures` are further formats, such as svg.
    """
    cells, windows = design.histogram.cells, design.histogram.windows
    table = map_table(design, tables[0, 0])
    table.drop(columns="geometry").to_csv(folder / "map.csv", index=False)
    table.to_parquet(folder / "map.parquet", index=False, **PACKED)
    if len(tables) > 1:
        levels_table(design, tables).to_csv(folder / "levels.csv", index=False)
    text = json.dumps(statement, indent=2, ensure_ascii=False)
    (folder / "statement.json").write_text(text + "\n", encoding="utf-8")
    (folder / "statement.md").write_text(in_words(statement), encoding="utf-8")
    (folder / "statement.yaml").write_text(registry_record(statement), encoding="utf-8")
    if design.histogram.flows:
        if isinstance(cells, AllHexagons):  # only those of pairs that are shown
            ends = np.divmod(tables[0, 0].index.to_numpy() % design.histogram.areas, len(cells))
            listed = cells.rows(np.unique(ends))
        else:
            listed = cells.table.assign(**cells.groups)
        places = listed[["id", "name", *cells.groups, "geometry"]]
        places.to_parquet(folder / "places.parquet", index=False, **PACKED)
    if design.threshold is not None:
        return
    k, names = len(cells), ("",) if windows is None else windows.names
    drawn, title = tables[0, 0], statement["title"]
    if design.histogram.flows:
        departures = [level.name for level in design.measurements.areas.levels].index("departures")
        drawn, title = tables[0, departures], f"{title}: departures"
    if fits_on_page(k, sum(len(each) for each in tables.values()) // k):
        write_geojson(table, folder / "map.geojson")
        page = render_map(design, tables, statement)
        (folder / "map.html").write_text(page, encoding="utf-8")
    known = k - cells.elsewhere
    if k <= MAX_DRAWN_CELLS:
        shape = (len(names), k)
        shapes = cells.table.iloc[:known]
        draw_published_map(
            [folder / f"map.{kind}" for kind in ("png", *pictures)],
            shapes.set_geometry(as_polygons(shapes.geometry)),
            drawn["estimate"].to_numpy(dtype=np.float64).reshape(shape)[:, :known],
            (drawn["low"] == 0).to_numpy().reshape(shape)[:, :known],
            names,
            title,
            f"Every count has random noise. {promise(statement)[0]}"
            + (f" {statement['unit']['bound']}" if statement["unit"]["records_per_user"] else "")
            + (" Records elsewhere are not drawn." if cells.elsewhere else ""),
        )


def check_new(output: Path, remedy: str = "") -> None:
    """Raise `InputError` if a path exists already; `remedy` ends the message."""
    if output.exists() or output.is_symlink():
        raise InputError(f"{output} exists and is never overwritten: give another --output{remedy}")


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
