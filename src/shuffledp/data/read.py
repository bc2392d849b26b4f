"""Read records from files of any format that is read, or folders of them."""

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, tzinfo
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote
from zipfile import BadZipFile, ZipFile

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tqdm import tqdm

from shuffledp.data import values
from shuffledp.data.layers import POINTS, point_coordinates, read_layer
from shuffledp.data.records import (
    Batch,
    CheckinError,
    Frame,
    find_columns,
    make_batch,
    with_constants,
)
from shuffledp.data.sources import Layout
from shuffledp.data.text import BYTE_ORDER_MARK, START_BYTES, pieces_of, text_batches
from shuffledp.errors import InputError, is_out_of_memory, one_line
from shuffledp.pipeline.files import TEXT_NAME, parts
from shuffledp.pipeline.tables import CHECKED

logger = logging.getLogger(__name__)

_BATCH_ROWS: Final = 1 << 16  # more rows would need new memory for every batch


def read_records(
    source: Path | Frame, layout: Layout, zone: tzinfo = UTC, *, progress: bool = True
) -> Iterator[tuple[Path | Frame, Batch]]:
    """Yield the records of a file, folder or table, in order, each batch with what it is from.

    Dates without a time are days of the time zone. Unless `progress` is false, a terminal shows a
    progress bar. Raises `CheckinError` if a file is missing, empty, damaged, not of the layout's
    format, or lacks a column.
    """
    if isinstance(source, Frame):
        for batch in _parquet_batches(source, layout, zone, {}, progress):
            yield source, batch
        return
    for part in source_parts(source, layout):
        folders = [each.partition("=") for each in part.relative_to(source).parts[:-1]]
        keys = {unquote(key): unquote(value) for key, _, value in folders}
        kind = kind_of(part)
        if layout.format == "geo" and kind in ("geo", "parquet"):
            batches = _point_batches(part, layout, zone)
        elif kind != layout.format:
            raise CheckinError(f"{part} is {kind}, but format is {layout.format}: change it")
        elif kind == "parquet":
            batches = _parquet_batches(part, layout, zone, keys, progress)
        else:
            batches = text_batches(part, layout, zone, keys, progress)
        for batch in batches:
            yield part, batch


# --- Files ----------------------------------------------------------------------------------

_MAGIC: Final = {
    b"PAR1": "parquet",
    b"PK\x03\x04": "zip",
    b"SQLite format 3\0": "geo",
    b"fgb\x03": "geo",
    b"\0\0\x27\x0a": "geo",  # a shapefile
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "spreadsheet",  # Excel before 2007
    b"ARROW1": "Arrow (Feather)",
    b"ORC": "ORC",
}
_GEOJSON: Final = re.compile(
    rb'"type"\s*:\s*"(FeatureCollection|Feature|(Multi)?(Point|LineString|Polygon)|Topology)"'
)


def kind_of(source: Path) -> str:
    """Return the format of a file as in a `Layout`: csv, json, parquet or geo.

    Its content decides, not its name. Raises `CheckinError` if the file is missing, unreadable or
    empty, or in a format that is not read; the message says how to convert it.
    """
    if source.exists() and not source.is_file():
        raise CheckinError(f"{source} cannot be read: it is not a regular file")
    with closing(pieces_of(source, START_BYTES)) as pieces:
        start = next(pieces, b"")
    if not start:
        raise CheckinError(f"{source} is empty")
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "text")
    if kind == "zip":
        kind = _kind_of_zip(source)
    if kind == "spreadsheet":
        raise CheckinError(f"{source} is a spreadsheet: save the sheet of records as CSV")
    if kind in ("geo", "parquet"):
        with source.open("rb") as stream:
            if stream.read(4) != start[:4]:
                raise CheckinError(f"{source} is packed, and only text may be: unpack it")
        return kind
    if kind != "text":
        raise CheckinError(f"{source} is {kind}: write it as Parquet or CSV")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise CheckinError(
            f"{source} is UTF-16 text: convert it, for example by iconv -f UTF-16 -t UTF-8 "
            f"{source.name} > utf8.csv"
        )
    if b"\0" in start[:512]:
        raise CheckinError(f"{source} is binary, and in no format that is read: write it as CSV")
    start = start.removeprefix(BYTE_ORDER_MARK).lstrip()
    if start.startswith(b"<"):
        raise CheckinError(
            f"{source} is a web page or XML, not a table. If a server answered with an error page, "
            "delete the file and check the address; if it is GPX, KML or GML, convert it, for "
            f"example by ogr2ogr records.gpkg {source.name}"
        )
    if re.match(rb"\[\s*\{", start):
        raise CheckinError(
            f"{source} is a JSON array: convert it to one object a line, for example by "
            f"jq -c '.[]' {source.name} > records.jsonl"
        )
    if start.startswith(b"\x1e"):
        return "geo"
    return _json_kind(start) if re.match(rb'\{\s*("|\}|$)', start) else "csv"


def _json_kind(start: bytes) -> str:
    text = start.decode(errors="replace")
    try:
        first, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):  # it is longer than the beginning of the file
        return "geo" if _GEOJSON.search(start) or b"\n" not in start else "json"
    return "geo" if _GEOJSON.match(json.dumps({"type": first.get("type")}).encode(), 1) else "json"


def _kind_of_zip(archive: Path) -> str:
    try:
        with ZipFile(archive) as files:
            names = files.namelist()
    except BadZipFile:  # the list of files is at the end, which is missing
        return "spreadsheet" if archive.suffix.lower() in (".xlsx", ".xlsm", ".ods") else "geo"
    if "xl/workbook.xml" in names or {"mimetype", "content.xml"} <= set(names):
        return "spreadsheet"
    if any(name.lower().endswith(".shp") for name in names):
        return "geo"
    raise CheckinError(
        f"{archive} is a zip archive without a shapefile: unpack it, for example by unzip "
        f"{archive.name}, and use the file inside"
    )


def kind_of_source(source: Path) -> str:
    """Return the format of a file, or of the files that are read in a folder."""
    files = parts(source) if source.is_dir() else [source]
    return kind_of(files[0]) if files else "csv"


def has_geometries(source: Path) -> bool:
    """Return whether a file is GeoParquet."""
    try:
        if source.is_dir():
            source = parts(source)[0]
        return b"geo" in (pq.read_metadata(source).metadata or {})
    except (pa.ArrowException, OSError):
        return False


def source_parts(source: Path, layout: Layout) -> list[Path]:
    """Return the files of a source: the file itself, or those of a folder in order of their paths.

    `pipeline.files.parts` says which files of a folder are read. Raises `CheckinError` if there are
    none of the layout's format, or the folder contains one that is not named ``key=value`` (hive
    partitions), such as one of a table format that keeps outdated files.
    """
    if not source.is_dir():
        return [source]
    if layout.format == "geo":
        raise CheckinError(f"{source} is a folder: with points, a source is one file")
    _check_folders(source)
    files = parts(source)
    is_parquet = bool(files) and files[0].suffix.lower() == ".parquet"
    if not files or is_parquet != (layout.format == "parquet"):
        names = "*.parquet" if layout.format == "parquet" else "*.csv, *.tsv, *.txt or *.jsonl"
        remedy = "; its files are parquet: set format: parquet" if is_parquet else ""
        raise CheckinError(f"{source} cannot be read: it is a folder without files {names}{remedy}")
    visible = [
        file
        for file in source.rglob("*")
        if not file.is_dir()
        and not any(name.startswith((".", "_")) for name in file.relative_to(source).parts)
    ]
    if is_parquet:
        for file in visible:
            if TEXT_NAME.fullmatch(file.name):
                raise CheckinError(
                    f"{source} has Parquet and {file.name}: put the files of one format in a folder"
                )
        _check_identifiers(files, layout)
    # Some writers leave empty parts, and others than records.
    for what, ignored in (
        ("is empty", [file for file in files if file.is_file() and not file.stat().st_size]),
        ("is not read", [file for file in visible if file not in files]),
    ):
        for file in sorted(ignored)[:5]:
            logger.warning("%s: %s %s", source, file.relative_to(source), what)
    files = [file for file in files if not file.is_file() or file.stat().st_size]
    if not files:
        raise CheckinError(f"{source} has only empty files")
    return files


def _check_identifiers(files: list[Path], layout: Layout) -> None:
    """Check that users are binary in all files or in none: 7 and the byte of a 7 are two users."""
    first: dict[bool, Path] = {}
    for file in files:
        try:
            schema = pq.read_schema(file)
        except (pa.ArrowException, OSError):  # reading will say why
            continue
        if layout.columns.get("user") in schema.names:
            kind = schema.field(layout.columns["user"]).type
            first.setdefault(pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind), file)
    if len(first) == 2:
        raise CheckinError(
            f"{first[True]} has binary users, and {first[False]} others: write them with one type"
        )


def _check_folders(folder: Path) -> None:
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or not entry.is_dir():
            continue
        if "=" not in entry.name or entry.is_symlink():
            raise CheckinError(
                f"{folder} contains the folder {entry.name!r}, which would not be read: put all "
                "files directly in one folder or in folders named key=value, or use the folder "
                "inside"
            )
        _check_folders(entry)


# --- Parquet --------------------------------------------------------------------------------


def _parquet_batches(
    source: Path | Frame, layout: Layout, zone: tzinfo, keys: Mapping[str, str], progress: bool
) -> Iterator[Batch]:
    try:
        # Spark writes the end of time as a timestamp that nanoseconds cannot hold.
        with pq.ParquetFile(
            source if isinstance(source, Path) else pa.BufferReader(source.parquet),
            coerce_int96_timestamp_unit="us",
            pre_buffer=False,
            **CHECKED,
        ) as file:
            schema = file.schema_arrow
            names = list(schema.names)
            # The path to a nested field counts as the name of a column.
            nested = [
                column
                for column in layout.columns.values()
                if isinstance(column, str) and column not in names and _is_path(schema, column)
            ]
            names += nested
            positions, constant = find_columns(source, layout, names, keys)
            paths = {name: names[position] for name, position in positions.items()}
            for path in paths.values():
                if names.count(path) > 1:
                    raise CheckinError(
                        f"{source} has several columns {path!r}: write it with different names"
                    )
            bar = tqdm(
                total=file.metadata.num_rows, desc=source.name, disable=None if progress else True,
                leave=False,
            )  # fmt: skip
            with bar:
                first = 1
                # Threads for so few rows take longer to start than they save.
                for part in file.iter_batches(
                    _BATCH_ROWS, columns=list(dict.fromkeys(paths.values())), use_threads=False
                ):
                    columns = {name: _field(part, name, path) for name, path in paths.items()}
                    yield make_batch(
                        with_constants(columns, constant, part.num_rows),
                        partial(_numbered, "row", first),
                        layout,
                        zone,
                    )
                    first += part.num_rows
                    bar.update(part.num_rows)
    except (pa.ArrowException, OSError, UnicodeDecodeError, values.ColumnTypeError) as error:
        if is_out_of_memory(error):
            raise
        raise CheckinError(
            f"{source} cannot be read as parquet ({one_line(str(error))})"
        ) from error


def _numbered(what: str, first: int, row: int) -> str:
    return f"{what} {first + row}"


def _is_path(schema: Any, path: str) -> bool:
    first, *rest = path.split(".")
    if first not in schema.names or not rest:
        return False
    kind = schema.field(first).type
    for name in rest:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return False
        kind = kind.field(name).type
    return True


def _field(part: Any, name: str, path: str) -> Any:
    first, *rest = path.split(".")
    column = part[path] if path in part.schema.names else pc.struct_field(part[first], rest)
    return values.hexadecimal(column) if name in ("user", "place", "to_place") else column


# --- Points ---------------------------------------------------------------------------------


def _point_batches(source: Path, layout: Layout, zone: tzinfo) -> Iterator[Batch]:
    try:
        layer = read_layer(source, POINTS, [str(column) for column in layout.columns.values()])
    except InputError as error:
        raise CheckinError(str(error)) from error
    positions, _ = find_columns(source, layout, layer.names, {})
    coordinates = point_coordinates(layer.geometries)
    columns = {name: layer.properties[layer.names[each]] for name, each in positions.items()}
    columns |= {"latitude": pa.array(coordinates[:, 1]), "longitude": pa.array(coordinates[:, 0])}
    layout = replace(layout, crs=layer.crs)
    try:
        for start in range(0, len(coordinates), _BATCH_ROWS):
            yield make_batch(
                {name: column.slice(start, _BATCH_ROWS) for name, column in columns.items()},
                partial(_numbered, "feature", start + 1),
                layout,
                zone,
            )
    except values.ColumnTypeError as error:
        raise CheckinError(f"{source}: {error}") from error
