"""Crop records of any layout to a region, and write them as Parquet."""

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shuffledp.data.read import read_records
from shuffledp.data.records import CheckinError, Survey, swap_remedy
from shuffledp.data.regions import Region
from shuffledp.data.sources import COORDINATES, Layout
from shuffledp.data.users import UserNumbers
from shuffledp.data.values import TIME
from shuffledp.data.windows import Windows
from shuffledp.errors import InputError
from shuffledp.pipeline.columns import CONTENTS, TRUE, described
from shuffledp.pipeline.files import replacing
from shuffledp.pipeline.tables import PACKED

logger = logging.getLogger(__name__)

_TYPES: Final = {
    "user": pa.int64(),
    "time": TIME,
    "latitude": pa.float64(),
    "longitude": pa.float64(),
    "location": pa.int64(),
}
_GROUP_ROWS: Final = 1 << 18  # fixed, so that the output does not depend on the input's batches


@dataclass(frozen=True)
class Tally:
    """Numbers of rows: ``read == malformed + unplaced + outside + kept``.

    Unplaced rows have no position; those outside lie outside the region, or in none of the windows.
    """

    read: int = 0
    malformed: int = 0
    unplaced: int = 0
    outside: int = 0
    kept: int = 0

    def __str__(self) -> str:
        unplaced = f"{self.unplaced:,} without a position, " if self.unplaced else ""
        return (
            f"{self.read:,} rows read: {self.malformed:,} malformed, {unplaced}"
            f"{self.outside:,} outside, {self.kept:,} kept"
        )


def crop_checkins(
    source: Path,
    layout: Layout,
    region: Region,
    destination: Path,
    *,
    max_malformed_share: float,
    metadata: Mapping[str, str],
    windows: Windows | None = None,
) -> Tally:
    """Write the check-ins of a region, in the order of the source, as one parquet file.

    The source is a file or folder that `read.read_records` reads, and the layout describes its
    columns. Given windows of time, only check-ins in one of them are written. `metadata` are added
    to the file's key-value metadata. Raises `CheckinError` if the source is missing, damaged or not
    a table of this layout, has too many malformed rows, or has no row in the region and windows;
    `InputError` if `max_malformed_share` is out of range or the layout names places instead of
    coordinates.

    The destination has columns user (int64, by `users.UserNumbers`), time (microseconds, UTC),
    latitude, longitude (float64, degrees) and location (int64), null if the layout does not map
    them or a value is missing. It appears only if everything succeeds.

    `max_malformed_share` is the largest tolerated share of malformed rows among all rows read, from
    0 to 1. A row is malformed if it has the wrong number of fields, or if a value cannot be read or
    is out of range. A row without a position is among the rows read, but not malformed.
    """
    if not 0 <= max_malformed_share <= 1:
        raise InputError(f"max_malformed_share must be from 0 to 1, got {max_malformed_share}")
    if "place" in layout.columns:
        raise InputError("columns.place is for publications: a run needs latitude and longitude")
    survey, crop = Survey(source, layout), _Crop(region, windows)
    zone = UTC if windows is None else windows.zone
    types = [pa.field(name, kind, name not in COORDINATES) for name, kind in _TYPES.items()]
    keys = {CONTENTS: TRUE, **metadata}
    schema = described(pa.schema(types, metadata=dict(sorted(keys.items()))))

    def kept_rows() -> Iterator[Any]:
        for part, batch in read_records(source, layout, zone):
            for place, reason in survey.add(part, batch):
                logger.warning("%s, %s: %s", source, place, reason)
            rows = crop.rows_inside(batch.rows)
            for each in schema:
                if each.name not in rows.column_names:
                    rows = rows.append_column(each.name, pa.nulls(len(rows), each.type))
            yield pa.table([rows[name] for name in schema.names], schema=schema)

    with replacing(destination) as temporary:
        with pq.ParquetWriter(temporary, schema, **PACKED) as writer:
            for rows in _in_groups(kept_rows()):
                writer.write_table(rows, row_group_size=_GROUP_ROWS)
        survey.check(max_malformed_share)
        if not crop.kept:
            raise CheckinError(crop.empty_message(source, layout))
    tally = Tally(survey.read, survey.malformed, survey.unplaced, crop.outside, crop.kept)
    logger.info("%s in %s: %s", source, region.name, tally)
    return tally


class _Crop:
    """Select rows of a region and period, and explain why there are none."""

    def __init__(self, region: Region, windows: Windows | None) -> None:
        self._region, self._windows = region, windows
        self._users = UserNumbers()
        self.outside = self.kept = 0
        self._swapped_inside = 0  # rows in the region if latitude and longitude are swapped
        self._south_west, self._north_east = np.full(2, np.inf), np.full(2, -np.inf)

    def rows_inside(self, rows: Any) -> Any:
        latitude, longitude = (rows[name].to_numpy() for name in COORDINATES)
        inside = self._region.contains(latitude, longitude)
        kept = rows.take(pa.array(np.flatnonzero(inside)))
        if self._windows is not None:
            kept = kept.filter(pa.array(self._windows.locate(kept["time"]) >= 0))
        self.kept += kept.num_rows
        self.outside += rows.num_rows - kept.num_rows
        if len(inside) and not self.kept:
            self._swapped_inside += int(self._region.contains(longitude, latitude).sum())
            positions = np.array([latitude, longitude])
            self._south_west = np.minimum(self._south_west, positions.min(axis=1))
            self._north_east = np.maximum(self._north_east, positions.max(axis=1))
        if "user" in kept.column_names:
            number, known = self._users.number(kept["user"])
            users = pa.array(number, mask=~known)
            kept = kept.set_column(kept.column_names.index("user"), "user", users)
        return kept

    def empty_message(self, source: Path, layout: Layout) -> str:
        region, box = self._region, self._region.box
        text = (
            f"{source} has no check-in in region {region.name} (latitude {box.south} to "
            f"{box.north}, longitude {box.west} to {box.east})"
        )
        if self._windows is not None:
            text += " within the period"
        if self._swapped_inside:
            return (
                f"{text}, but {self._swapped_inside} with latitude and longitude swapped: "
                f"{swap_remedy(layout)}"
            )
        (south, west), (north, east) = self._south_west.tolist(), self._north_east.tolist()
        if south > north:
            return f"{text}: all its rows are malformed or without a position"
        # Whole degrees, because the exact extent would reveal positions of people.
        return (
            f"{text}: its rows are within latitude {math.floor(south)} to {math.ceil(north)}, "
            f"longitude {math.floor(west)} to {math.ceil(east)}"
        )


def _in_groups(tables: Iterator[Any]) -> Iterator[Any]:
    """Join tables, and yield all rows in tables of whole row groups, the last of which is rest."""
    pending, size = list[Any](), 0
    for table in tables:
        pending.append(table)
        size += table.num_rows
        if size >= _GROUP_ROWS:
            rows = pa.concat_tables(pending)
            complete = size // _GROUP_ROWS * _GROUP_ROWS
            yield rows.slice(0, complete)
            pending, size = [rows.slice(complete)], size - complete
    if size:
        yield pa.concat_tables(pending)
