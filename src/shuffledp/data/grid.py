"""Count check-ins in the cells of a region; write and read tables of cells."""

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from shuffledp.data.cells import MAX_CELLS, Cells, make_cells
from shuffledp.data.regions import Region
from shuffledp.data.sources import COORDINATES
from shuffledp.data.users import bounded_records
from shuffledp.data.windows import Windows
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.columns import CONTENTS, IN_RECORDS, TRUE, Column, described
from shuffledp.pipeline.files import replacing
from shuffledp.pipeline.tables import CHECKED, PACKED, reading

if TYPE_CHECKING:  # it is slow to load, and few of the processes of a run need it
    import geopandas as gpd

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class GridTally:
    """Numbers of check-ins that were counted and that were not.

    ``kept`` is the number of check-ins that count, ``dropped`` that of those outside the cells, and
    ``beyond`` that of those in the cells that do not count because of the bound per user.
    """

    kept: int
    dropped: int
    beyond: int = 0

    def __str__(self) -> str:
        text = f"{self.kept:,} check-ins counted, {self.dropped:,} outside the grid"
        return f"{text}, {self.beyond:,} beyond the bound per user" if self.beyond else text


def count_checkins(
    region: Region,
    spec: Mapping[str, Any],
    checkins: Path,
    windows: Windows | None = None,
    *,
    records_per_user: int | None = None,
    distinct: bool = False,
) -> "tuple[gpd.GeoDataFrame, GridTally]":
    """Count the check-ins in each cell of a grid, in each window of time.

    The file has columns latitude and longitude in degrees, and time if there are windows. The cells
    are those of `make_cells`, with a column count (int64). With windows, the histogram has a cell
    for each window and place, window by window, and a column window with the window's name.

    At most `records_per_user` check-ins of each user count, and if `distinct` at most one in each
    cell (and window). They are the first ones in the file that lie in a cell, so the file must be
    in random order, as `shuffle_checkins` writes it. By default all check-ins count. Raises
    `InputError` as `shuffledp.data.cells.make_cells` does, if no check-in is in a cell, or if
    cells times windows are more than 1,000,000.
    """
    cells = make_cells(region, spec)
    table = cells.table if windows is None else _in_every_window(cells, windows)
    counts = np.zeros(len(table), dtype=np.int64)
    read, bounded = 0, records_per_user is not None
    places, users = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    further = {"time": windows is not None, "user": bounded}
    columns = [*COORDINATES, *(name for name, needed in further.items() if needed)]
    with reading(checkins), pq.ParquetFile(checkins, **CHECKED) as file:
        for batch in file.iter_batches(columns=columns):
            cell = cells.locate(*(batch[name].to_numpy() for name in COORDINATES))
            if windows is not None:
                window = windows.locate(batch["time"])
                cell = np.where((cell >= 0) & (window >= 0), window * len(cells) + cell, -1)
            read += len(cell)
            if bounded:
                places.append(cell[cell >= 0])
                users.append(batch["user"].to_numpy()[cell >= 0])
            else:
                counts += np.bincount(cell[cell >= 0], minlength=len(table))
    inside = int(counts.sum())
    if records_per_user is not None:
        place = np.concatenate(places)
        inside, order = place.size, np.arange(place.size)
        counted = bounded_records(
            np.concatenate(users), place, order, records_per_user, distinct=distinct
        )
        counts = np.bincount(place[counted], minlength=len(table))
    kept = int(counts.sum())
    if not kept:
        raise InputError(
            f"none of the {read} check-ins of {checkins} is in a cell of the grid {dict(spec)} of "
            f"{region.name}: they are outside its cells (step leaves out partial cells at the "
            "region's edge), or were cropped to another region"
        )
    tally = GridTally(kept=kept, dropped=read - inside, beyond=inside - kept)
    logger.info("%s, %s: k=%d cells, %s", region.name, dict(spec), len(table), tally)
    return table.assign(count=counts), tally


def grid_checkins(
    checkins: Path,
    region: Region,
    spec: Mapping[str, Any],
    destination: Path,
    metadata: Mapping[str, str],
    windows: Windows | None = None,
    *,
    records_per_user: int | None = None,
    distinct: bool = False,
) -> GridTally:
    """Count the check-ins in each cell of a grid and write the cells as GeoParquet.

    The columns are those of `count_checkins`, which also raises `InputError`. The destination
    appears only if everything succeeds; its key-value metadata are `metadata` and the keys of
    GeoParquet.
    """
    cells, tally = count_checkins(
        region, spec, checkins, windows, records_per_user=records_per_user, distinct=distinct
    )
    write_geoparquet(cells, destination, {CONTENTS: TRUE, **metadata})
    return tally


def _in_every_window(cells: Cells, windows: Windows) -> "gpd.GeoDataFrame":
    """Repeat the table of cells for each window, and number all rows consecutively."""
    number = len(cells) * len(windows)
    if number > MAX_CELLS:
        raise InputError(
            f"a histogram has at most {MAX_CELLS:,} cells, got {len(cells):,} cells x "
            f"{len(windows):,} windows: take larger cells or longer windows"
        )
    table = cells.table.iloc[np.tile(np.arange(len(cells)), len(windows))].reset_index(drop=True)
    table["cell"] = np.arange(number, dtype=np.int64)
    table.insert(1, "window", np.repeat(windows.names, len(cells)))
    return table


# --- Files of cells -----------------------------------------------------------------------------


def read_cells(source: Path) -> "gpd.GeoDataFrame":
    """Read the table of cells and counts that `grid_checkins` wrote."""
    import geopandas as gpd

    with reading(source):
        return gpd.read_parquet(source, **CHECKED)


def windows_of(cells: Path) -> list[str]:
    """Return the names of the windows of time of cells that `grid_checkins` wrote, if any."""
    with reading(cells):
        if "window" not in pq.read_schema(cells).names:
            return []
        table = pq.read_table(cells, columns=["window"], **CHECKED)
    return list(dict.fromkeys(table["window"].to_pylist()))


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
        # read by its path: Arrow's threads could use a file object after the interpreter ended.
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
