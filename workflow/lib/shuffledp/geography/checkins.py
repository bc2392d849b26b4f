"""Read and validate check-ins of any layout, and write those of a region as parquet."""

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
from shuffledp.geography.point_files import point_batches
from shuffledp.geography.regions import Region
from shuffledp.geography.row_conversion import (
    MAX_DESCRIBED_ROWS,
    REQUIRED,
    TYPES,
    Batch,
    MalformedRow,
)
from shuffledp.geography.sources import (
    BUDGET,
    COORDINATES,
    IDENTIFIER,
    SNAP,
    Layout,
    layout_from_config,
)
from shuffledp.geography.text_files import CheckinError, file_kind, text_batches
from shuffledp.geography.windows import Windows
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

_ROW_NAMES: Final = {"csv": "line", "parquet": "row", "geo": "feature"}
_GROUP_ROWS: Final = 1 << 18  # fixed, so that the output does not depend on the input's batches


@dataclass(frozen=True)
class Tally:
    """Numbers of rows: `read` = `malformed` + `outside` the region or all windows + `kept`."""

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
    windows: Windows | None = None,
) -> Tally:
    """Write the check-ins of a region, in the order of the source, as one parquet file.

    The layout describes the columns of the source. Given windows of time, only check-ins in one of
    them are written. `metadata` are added to the file's key-value metadata. Raises `CheckinError`
    if the source is missing, damaged or not a table of this layout, has too many malformed rows, or
    has no row in the region and windows; `InputError` if `max_malformed_share` is out of range.

    Parameters
    ----------
    source : Path
        Text, plain or compressed with gzip, bzip2, xz or zstd; parquet; a folder of such files (see
        `source_parts`), which are read in the order of their paths; or points (`point_files`).
    destination : Path
        Columns user (int64, by `row_conversion.to_identifier`), time (microseconds, UTC), latitude,
        longitude (float64, degrees) and location (int64), null if the layout does not map them; and
        identifier (binary) and budget (float64) if it does. The file appears only if everything
        succeeds.
    max_malformed_share : float
        Largest tolerated share of malformed rows among all rows read, from 0 to 1. A row is
        malformed if it has the wrong number of fields, if a coordinate or the budget is missing,
        not a number or out of range, or if its time or location cannot be read. Missing users,
        times and locations become null, and empty lines are not rows.
    """
    if not 0 <= max_malformed_share <= 1:
        raise InputError(f"max_malformed_share must be from 0 to 1, got {max_malformed_share}")
    survey = _Survey(source, layout, region, windows, part=source)
    with replacing(destination) as temporary:
        with _GroupWriter(temporary, layout, metadata) as writer:
            for part in source_parts(source, layout):
                survey.part = part
                for batch in read_batches(part, layout):
                    writer.write(survey.crop(batch))
        survey.check(max_malformed_share)
    logger.info("%s in %s: %s", source, region.name, survey.tally)
    return survey.tally


def read_batches(source: Path, layout: Layout, *, progress: bool = True) -> Iterator[Batch]:
    """Yield the rows of a file in order, in batches of tens or hundreds of thousands.

    Unless `progress` is false, a terminal shows a progress bar (except for files of points). Raises
    `CheckinError` if the file is missing, empty, damaged, not of the layout's format, or lacks a
    column.
    """
    if layout.format == "geo":
        yield from point_batches(source, layout)
        return
    parquet = file_kind(source) == "parquet"
    if parquet != (layout.format == "parquet"):
        format_there = "parquet" if parquet else "text"
        raise CheckinError(f"{source} is {format_there}, but format is {layout.format}: change it")
    yield from (parquet_batches if parquet else text_batches)(source, layout, progress)


@dataclass
class _Survey:
    """Statistics of the rows read so far: their tally, and hints for error messages."""

    source: Path
    layout: Layout
    region: Region
    windows: Windows | None
    part: Path  # the file that is being read: the source, or one in its folder
    tally: Tally = Tally()
    described: list[tuple[str, MalformedRow]] = field(default_factory=list)
    swapped: int = 0  # malformed rows that would be valid with latitude and longitude swapped
    projected: int = 0  # malformed rows whose coordinates are too large for degrees
    swapped_inside: int = 0  # rows that would be in the region with the two swapped
    extent: tuple[float, float, float, float] = (math.inf, -math.inf, math.inf, -math.inf)

    def crop(self, batch: Batch) -> Any:
        latitude, longitude = (batch.checked[name].to_numpy() for name in COORDINATES)
        inside = self.region.contains(latitude, longitude)
        rows = batch.select(inside)
        if self.windows is not None:
            rows = rows.filter(pa.array(self.windows.locate(rows["time"]) >= 0))
        kept = int(rows.num_rows)
        self.tally = Tally(
            read=self.tally.read + len(inside) + batch.malformed,
            malformed=self.tally.malformed + batch.malformed,
            outside=self.tally.outside + len(inside) - kept,
            kept=self.tally.kept + kept,
        )
        self.swapped += batch.swapped
        self.projected += batch.projected
        for row in batch.described[: MAX_DESCRIBED_ROWS - len(self.described)]:
            place = self._place(row)
            self.described.append((place, row))
            logger.warning("%s, %s: %s", self.source, place, row.reason)
        if len(inside) and not self.tally.kept:
            self.swapped_inside += int(self.region.contains(longitude, latitude).sum())
            self._extend(latitude, longitude)
        return rows

    def check(self, max_malformed_share: float) -> None:
        tally = self.tally
        if not tally.read:
            raise CheckinError(f"{self.source} contains no rows")
        if tally.malformed > max_malformed_share * tally.read:
            raise CheckinError(self._malformed_message(max_malformed_share))
        if not tally.kept:
            raise CheckinError(self._empty_message())

    def _malformed_message(self, limit: float) -> str:
        tally, (place, first) = self.tally, self.described[0]
        text = (
            f"{self.source}: {tally.malformed} of {tally.read} rows are malformed, more than "
            f"max_malformed_share={limit} allows; the first is {place}: {first.reason}"
        )
        if 2 * self.swapped > tally.malformed:
            text += f". Latitude and longitude seem to be swapped: {self._swap_remedy()}"
        elif 2 * self.projected > tally.malformed and self.layout.format != "geo":
            text += (
                ". The coordinates seem to be projected, such as UTM metres: set crs to the EPSG "
                "code of their reference system"
            )
        elif self._looks_like_header(first):
            text += ". If line 1 contains the names of the columns, set header: true"
        return text

    def _looks_like_header(self, first: MalformedRow) -> bool:
        """Return whether the first malformed row may contain the names of the columns."""
        headless = self.layout.format == "csv" and not self.layout.header
        return headless and first.line == 1 and first.reason.startswith(COORDINATES)

    def _empty_message(self) -> str:
        region, box = self.region, self.region.box
        south, north, west, east = self.extent
        text = (
            f"{self.source} has no check-in in region {region.name} (latitude {box.south} to "
            f"{box.north}, longitude {box.west} to {box.east})"
        )
        if self.windows is not None:
            text += " within the period"
        if self.swapped_inside:
            return (
                f"{text}, but {self.swapped_inside} with latitude and longitude swapped: "
                f"{self._swap_remedy()}"
            )
        if self.tally.malformed == self.tally.read:
            return f"{text}: all its rows are malformed"
        # Whole degrees, because the exact extent would reveal positions of people.
        return (
            f"{text}: its rows are within latitude {math.floor(south)} to {math.ceil(north)}, "
            f"longitude {math.floor(west)} to {math.ceil(east)}"
        )

    def _swap_remedy(self) -> str:
        if self.layout.format == "geo":
            return "write longitudes before latitudes, or check the region's box or outline"
        columns = self.layout.columns
        latitude, longitude = (columns[name] for name in COORDINATES)
        return (
            f"set columns.latitude to {longitude!r} and columns.longitude to {latitude!r}, "
            "or check the region's box or outline (GeoJSON has longitude before latitude)"
        )

    def _place(self, row: MalformedRow) -> str:
        place = f"{_ROW_NAMES[self.layout.format]} {row.line}"
        if self.part == self.source:
            return place
        return f"{self.part.relative_to(self.source)}, {place}"

    def _extend(self, latitude: Floats, longitude: Floats) -> None:
        south, north, west, east = self.extent
        self.extent = (
            min(south, float(latitude.min())),
            max(north, float(latitude.max())),
            min(west, float(longitude.min())),
            max(east, float(longitude.max())),
        )


class _GroupWriter:
    """Write tables as parquet in row groups of a fixed size."""

    def __init__(self, path: Path, layout: Layout, metadata: Mapping[str, str]) -> None:
        fields = [
            pa.field(name, kind, name not in REQUIRED)
            for name, kind in TYPES.items()
            if name not in (BUDGET, IDENTIFIER) or name in layout.columns
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
            table[field.name]
            if field.name in table.column_names
            else pa.nulls(len(table), field.type)
            for field in self._schema
        ]
        self._pending.append(pa.table(columns, schema=self._schema))
        self._rows += table.num_rows
        self._flush(_GROUP_ROWS)

    def _flush(self, min_rows: int) -> None:
        if self._rows < min_rows:
            return
        rows = pa.concat_tables(self._pending)
        complete = self._rows if min_rows < _GROUP_ROWS else self._rows // _GROUP_ROWS * _GROUP_ROWS
        self._writer.write_table(rows.slice(0, complete), row_group_size=_GROUP_ROWS)
        self._pending = [rows.slice(complete)]
        self._rows -= complete
