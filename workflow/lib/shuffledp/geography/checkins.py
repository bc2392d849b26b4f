"""Check-ins of a region out of a file of any layout: read, validated and written as parquet."""

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from shuffledp.errors import InputError
from shuffledp.geography.parquet_files import parquet_batches, source_parts
from shuffledp.geography.regions import Region
from shuffledp.geography.row_conversion import REQUIRED, SHOWN, TYPES, Batch, Fault
from shuffledp.geography.sources import BUDGET, COORDINATES, SNAP, Layout, layout_from_config
from shuffledp.geography.text_files import CheckinError, file_kind, text_batches
from shuffledp.numerics.arrays import Floats
from shuffledp.pipeline.columns import CONTENTS, TRUE, described
from shuffledp.pipeline.files import file_sha256, replacing
from shuffledp.pipeline.tables import PACKED

__all__ = [
    "SNAP",
    "CheckinError",
    "Layout",
    "Tally",
    "crop_checkins",
    "file_sha256",
    "layout_from_config",
    "read_batches",
]

logger = logging.getLogger(__name__)

_GROUP_ROWS: Final = 1 << 18  # fixed, so that the bytes do not depend on how the source was read


@dataclass(frozen=True)
class Tally:
    """Rows of a source: `read` = `malformed` + `outside` the region + `kept`."""

    read: int = 0
    malformed: int = 0
    outside: int = 0
    kept: int = 0

    def __str__(self) -> str:
        return (
            f"{self.read:,} rows read: {self.malformed:,} malformed, "
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
) -> Tally:
    """Write the check-ins of a region, in the order of the source, as one parquet file.

    Parameters
    ----------
    source : Path
        Text, plain or packed with gzip, bzip2, xz or zstd, or parquet, or a folder of parquet files
        that are read one after the other, by name.
    layout : Layout
        Where the columns stand. Those it does not map are null in the output.
    region : Region
    destination : Path
        Columns user (int64, by `row_conversion.to_identifier`), time (microseconds, UTC), latitude,
        longitude (float64, degrees), location (int64), and budget (float64) if the layout maps it.
        It appears only if all went well.
    max_malformed_share : float
        Largest tolerated share of malformed rows among those read, from 0 to 1. Malformed is a row
        with the wrong number of fields, with coordinates or a budget that are missing, no numbers
        or out of range, or with a time or location that is given but unreadable, inside the region
        or not.
        Missing users, times and locations are null, and empty lines are no rows.
    metadata : Mapping[str, str]
        Written into the file's key-value metadata.

    Raises
    ------
    CheckinError
        If the file is missing, damaged, not a table of this layout, has too many malformed rows, or
        no row in the region; also if it looks as if latitude and longitude were exchanged.
    InputError
        If max_malformed_share is not from 0 to 1.
    """
    if not 0 <= max_malformed_share <= 1:
        raise InputError(f"max_malformed_share must be from 0 to 1 (got {max_malformed_share})")
    survey = _Survey(source, layout, region, part=source)
    with replacing(destination) as temporary:
        with _GroupWriter(temporary, layout, metadata) as writer:
            for part in source_parts(source, layout):
                survey.part = part
                for batch in read_batches(part, layout):
                    writer.write(survey.crop(batch))
        survey.check(max_malformed_share)
    logger.info("%s in %s: %s", source, region.name, survey.tally)
    return survey.tally


def read_batches(source: Path, layout: Layout) -> Iterator[Batch]:
    """Yield the rows of a file in order, some ten thousand at a time.

    Raises
    ------
    CheckinError
        If the file is missing, empty, damaged, not of the layout's format, or lacks a column.
    """
    parquet = file_kind(source) == "parquet"
    if parquet != (layout.format == "parquet"):
        found = "a parquet file" if parquet else "not a parquet file"
        raise CheckinError(f"{source} is {found}: format must match (got {layout.format})")
    yield from (parquet_batches if parquet else text_batches)(source, layout)


@dataclass
class _Survey:
    """What has been seen of a source so far: the tally, and what explains an empty crop."""

    source: Path
    layout: Layout
    region: Region
    part: Path  # the file of the source that is being read
    tally: Tally = Tally()
    faults: list[tuple[str, Fault]] = field(default_factory=list)
    out_of_range: int = 0
    projected: int = 0
    elsewhere: int = 0
    extent: tuple[float, float, float, float] = (math.inf, -math.inf, math.inf, -math.inf)

    def crop(self, batch: Batch) -> Any:
        latitude, longitude = (batch.table[name].to_numpy() for name in COORDINATES)
        inside = self.region.contains(latitude, longitude)
        kept = int(inside.sum())
        self.tally = Tally(
            read=self.tally.read + len(inside) + batch.malformed,
            malformed=self.tally.malformed + batch.malformed,
            outside=self.tally.outside + len(inside) - kept,
            kept=self.tally.kept + kept,
        )
        self.out_of_range += batch.exchanged
        self.projected += batch.projected
        for fault in batch.faults[: SHOWN - len(self.faults)]:
            place = self._place(fault)
            self.faults.append((place, fault))
            logger.warning("%s, %s: %s", self.source, place, fault.reason)
        if len(inside) and not self.tally.kept:
            self.elsewhere += int(self.region.contains(longitude, latitude).sum())
            self._extend(latitude, longitude)
        return batch.table.filter(pa.array(inside))

    def check(self, max_malformed_share: float) -> None:
        tally = self.tally
        if not tally.read:
            raise CheckinError(f"{self.source} holds no rows")
        if tally.malformed > max_malformed_share * tally.read:
            raise CheckinError(self._too_many(max_malformed_share))
        if not tally.kept:
            raise CheckinError(self._empty())

    def _too_many(self, limit: float) -> str:
        tally, (place, first) = self.tally, self.faults[0]
        text = (
            f"{self.source}: {tally.malformed} of {tally.read} rows are malformed, above "
            f"max_malformed_share={limit}; the first is {place}: {first.reason}"
        )
        if 2 * self.out_of_range > tally.malformed:
            text += f". Latitude and longitude seem to be exchanged: {self._exchange()}"
        elif 2 * self.projected > tally.malformed:
            text += (
                ". The coordinates look projected, such as UTM metres: degrees of latitude and "
                "longitude (WGS 84) are expected; reproject them to EPSG:4326 first"
            )
        elif self._named(first):
            text += ". If line 1 names the columns, set header: true"
        return text

    def _named(self, first: Fault) -> bool:
        """Tell whether the first fault is what a line of names would have."""
        headless = self.layout.format == "csv" and not self.layout.header
        return headless and first.line == 1 and first.reason.startswith(COORDINATES)

    def _empty(self) -> str:
        region, box = self.region, self.region.box
        south, north, west, east = self.extent
        text = (
            f"{self.source} has no check-in in region {region.name} (latitude {box.south} to "
            f"{box.north}, longitude {box.west} to {box.east})"
        )
        if self.elsewhere:
            return (
                f"{text}, but {self.elsewhere} with latitude and longitude exchanged: "
                f"{self._exchange()}"
            )
        if not self.tally.malformed < self.tally.read:
            return f"{text}: all its rows are malformed"
        # Whole degrees: the edges are where somebody was.
        return (
            f"{text}: its rows are within latitude {math.floor(south)} to {math.ceil(north)}, "
            f"longitude {math.floor(west)} to {math.ceil(east)}"
        )

    def _exchange(self) -> str:
        columns = self.layout.columns
        latitude, longitude = (columns[name] for name in COORDINATES)
        return (
            f"set columns.latitude to {longitude!r} and columns.longitude to {latitude!r}, "
            "or check the region's box or outline (GeoJSON has longitude before latitude)"
        )

    def _place(self, fault: Fault) -> str:
        place = f"{'row' if self.layout.format == 'parquet' else 'line'} {fault.line}"
        return place if self.part == self.source else f"{self.part.name}, {place}"

    def _extend(self, latitude: Floats, longitude: Floats) -> None:
        south, north, west, east = self.extent
        self.extent = (
            min(south, float(latitude.min())),
            max(north, float(latitude.max())),
            min(west, float(longitude.min())),
            max(east, float(longitude.max())),
        )


class _GroupWriter:
    """Writes tables as parquet in row groups of a fixed size."""

    def __init__(self, path: Path, layout: Layout, metadata: Mapping[str, str]) -> None:
        fields = [
            pa.field(name, kind, name not in REQUIRED)
            for name, kind in TYPES.items()
            if name != BUDGET or name in layout.columns
        ]
        keys = {CONTENTS: TRUE, **metadata}
        self._schema = described(pa.schema(fields, metadata=dict(sorted(keys.items()))))
        self._writer = pq.ParquetWriter(path, self._schema, **PACKED)
        self._pending: list[Any] = []
        self._rows = 0

    def __enter__(self) -> "_GroupWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._flush(1)
        self._writer.close()

    def write(self, table: Any) -> None:
        if not table.num_rows:
            return
        columns = [
            table[one.name] if one.name in table.column_names else pa.nulls(len(table), one.type)
            for one in self._schema
        ]
        self._pending.append(pa.table(columns, schema=self._schema))
        self._rows += table.num_rows
        self._flush(_GROUP_ROWS)

    def _flush(self, least: int) -> None:
        if self._rows < least:
            return
        rows = pa.concat_tables(self._pending)
        whole = self._rows if least < _GROUP_ROWS else self._rows // _GROUP_ROWS * _GROUP_ROWS
        self._writer.write_table(rows.slice(0, whole), row_group_size=_GROUP_ROWS)
        self._pending = [rows.slice(whole)]
        self._rows -= whole
