"""Read delimited text, plain or compressed, as batches of typed rows."""

import csv
import logging
import lzma
import queue
import re
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any, Final
from zipfile import BadZipFile, ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from isal import igzip, isal_zlib
from numpy.typing import NDArray
from tqdm import tqdm

from shuffledp.errors import InputError
from shuffledp.geography.row_conversion import (
    MISSING,
    REQUIRED,
    TYPES,
    Batch,
    all_in_range,
    convert_rows,
    in_degrees,
    to_time,
)
from shuffledp.geography.sources import COLUMNS, COORDINATES, UNIX_SECONDS, Layout, key_of
from shuffledp.numerics.arrays import Integers

logger = logging.getLogger(__name__)

BLOCK_BYTES: Final = 4 << 20
_MAX_BLOCKS_AHEAD = 3
_OVERLONG_LINE = b"\0\n"
_MARK: Final = b"\xef\xbb\xbf"  # byte order mark

_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PAR1": "parquet",
    b"PK\x03\x04": "zip",
    b"SQLite format 3\0": "SQLite",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "spreadsheet",  # Excel before 2007
}
_SUFFIXES = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}


class CheckinError(InputError):
    """A check-in file cannot be used as it is; the message names the file and the remedy."""


def file_kind(source: Path) -> str:
    """Return the format of a file: `text`, `parquet`, `gzip`, `bz2`, `xz` or `zstd`.

    The first bytes decide, not the name: a proxy may have unpacked the file without renaming it.
    Raises `CheckinError` if the file is missing, unreadable, empty, a web page, a spreadsheet or a
    zip archive.
    """
    try:
        with source.open("rb") as stream:
            start = stream.read(64)
    except OSError as error:
        raise CheckinError(f"{source} cannot be read ({error.strerror})") from error
    if not start:
        raise CheckinError(f"{source} is empty")
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "text")
    if kind == "spreadsheet" or (kind == "zip" and _is_spreadsheet(source)):
        raise CheckinError(
            f"{source} is a spreadsheet: save the sheet of check-ins as CSV and use that file"
        )
    if kind == "zip":
        raise CheckinError(
            f"{source} is a zip archive: unpack it and use the file inside (in a configuration, "
            "set format: geo if it has a shapefile)"
        )
    if kind == "SQLite":
        raise CheckinError(
            f"{source} is SQLite: export it as CSV (in a configuration, set format: geo if it is a "
            "GeoPackage)"
        )
    if kind == "text":
        check_text(source, start)
    expected = _SUFFIXES.get(source.suffix, kind)
    if kind != expected:
        logger.warning("%s is named as %s, but contains and is read as %s", source, expected, kind)
    return kind


def _is_spreadsheet(archive: Path) -> bool:
    try:
        with ZipFile(archive) as files:
            names = files.namelist()
    except BadZipFile:  # the list of files is at the end, which is missing
        return archive.suffix.lower() in (".xlsx", ".xlsm", ".ods")
    return "xl/workbook.xml" in names or {"mimetype", "content.xml"} <= set(names)


_JSON: Final = re.compile(rb"(\xef\xbb\xbf)?\s*(\[\s*)?\{\s*(\"|$)")


def check_text(source: Path, start: bytes) -> None:
    """Check by its first bytes that a file is a table in UTF-8.

    Raises `CheckinError` if it is a web page, XML, JSON or UTF-16.
    """
    if source.suffix in (".geojson", ".json") or _JSON.match(start):
        raise CheckinError(
            f"{source} is JSON, not a table: convert it to separated text or parquet with columns "
            "of latitude and longitude (in a configuration, set format: geo if it is GeoJSON of "
            "points)"
        )
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        raise CheckinError(
            f"{source} is a web page or XML, not a table: the server may have answered with an "
            "error page; delete the file, check the address and run again"
        )
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise CheckinError(f"{source} is UTF-16 text: convert it to UTF-8")


def text_blocks(source: Path, size: int = BLOCK_BYTES, progress: bool = True) -> Generator[bytes]:
    """Yield the decompressed lines of a file in blocks of about `size` bytes.

    Every block, including the last, ends with a line feed. Byte order marks at the beginning of a
    line are dropped, because the file may consist of several that were joined. A line longer than a
    block is replaced by one NUL byte, which no reader takes for a row, so that a damaged file needs
    little memory. Decompression runs ahead of the caller in a thread. Raises `CheckinError` if
    `file_kind` rejects the file, or it is truncated or damaged.
    """
    kind = file_kind(source)
    items: queue.Queue[_Item] = queue.Queue(_MAX_BLOCKS_AHEAD)
    stop = threading.Event()
    reader = threading.Thread(
        target=_read_ahead, args=(source, kind, size, items, stop), daemon=True, name="read-ahead"
    )
    total = source.stat().st_size
    reader.start()
    try:
        with tqdm(
            total=total,
            desc=source.name,
            unit="B",
            unit_scale=True,
            disable=None if progress else True,
            leave=False,
        ) as bar:
            while (item := items.get()).block:
                bar.update(item.position - bar.n)
                yield item.block
            if item.error is not None:
                raise CheckinError(
                    f"{source} is truncated or damaged ({item.error}): delete it and fetch it again"
                ) from item.error
    finally:
        stop.set()
        reader.join()


@dataclass(frozen=True)
class _Item:
    block: bytes = b""
    position: int = 0
    error: Exception | None = None


def _read_ahead(
    source: Path, kind: str, size: int, items: "queue.Queue[_Item]", stop: threading.Event
) -> None:
    def put(item: _Item) -> bool:
        while not stop.is_set():
            try:
                items.put(item, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    error: Exception | None = None
    try:
        with source.open("rb") as raw, _decompressed(raw, kind) as stream:
            for block in _complete_lines(stream.read, size):
                if not put(_Item(_without_marks(block), raw.tell())):
                    return
    except (OSError, EOFError, lzma.LZMAError, isal_zlib.error) as caught:
        error = caught
    put(_Item(error=error))


def _decompressed(raw: IO[bytes], kind: str) -> Any:
    if kind == "text":
        return raw
    if kind == "gzip":
        return igzip.open(raw)
    if kind == "xz":
        return lzma.open(raw)
    return pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), kind)


def _complete_lines(read: Callable[[int], bytes], size: int) -> Iterator[bytes]:
    remainder = b""
    overlong = False
    while piece := read(size):
        cut = piece.rfind(b"\n") + 1
        if cut == 0:
            overlong = overlong or len(remainder) + len(piece) > size
            remainder = b"" if overlong else remainder + piece
            continue
        start = piece.find(b"\n") + 1
        # Whether a line is too long must not depend on where blocks begin, that is, on other lines.
        if overlong or len(remainder) + start - 1 > size:
            yield _OVERLONG_LINE + piece[start:cut]
            overlong = False
        else:
            yield remainder + piece[:cut]
        remainder = piece[cut:]
    if overlong:
        yield _OVERLONG_LINE
    elif remainder:
        yield remainder + b"\n"


def _without_marks(block: bytes) -> bytes:
    """Drop byte order marks at the beginning of lines, as Arrow would at that of a block."""
    if _MARK[0] not in block:  # the usual case, in little time
        return block
    while block.startswith(_MARK):
        block = block.removeprefix(_MARK)
    while b"\n" + _MARK in block:
        block = block.replace(b"\n" + _MARK, b"\n")
    return block


_UNCLOSED_QUOTE: Final = (
    "a quotation mark is not closed in its line; a quoted field must not contain a line break: "
    "remove the break, or convert the file to parquet"
)
_SEPARATORS: Final = {";": '";"', "\t": '"\\t"', ",": '","', "|": '"|"'}
# Matches a coordinate, with a decimal point or comma, in what should be names of columns.
_COORDINATE: Final = re.compile(r"\d\.\d{2}|(?<!\w)\d{1,3},\d{4}")
_MAX_SHOWN_NAMES: Final = 20
_MAX_NAME_CHARACTERS: Final = 60
# Translates each byte that is not ASCII to a question mark.
_IN_ASCII: Final = bytes(range(128)) + b"?" * 128
_PARSER_THREADS: Final = 2  # a third thread decompresses as fast as two can parse


def text_batches(source: Path, layout: Layout, progress: bool = True) -> Iterator[Batch]:
    """Yield the rows of a text file in order, in batches of tens of thousands.

    Empty lines are skipped. A row must have as many fields as the header or, without a header, as
    most of the first thousand lines. Raises `CheckinError` if the file is missing, empty, damaged,
    not a table, or lacks a column of the layout.
    """
    with (
        closing(text_blocks(source, progress=progress)) as blocks,
        ThreadPoolExecutor(_PARSER_THREADS) as pool,
    ):
        first = next(blocks, b"")
        reader = _reader_for(source, layout, first)
        header = first.find(b"\n") + 1 if layout.header else 0
        pending: deque[tuple[bytes, Future[Any]]] = deque()
        for block in chain([first[header:]], blocks):
            pending.append((block, pool.submit(reader.read_strictly, block)))
            if len(pending) > _PARSER_THREADS:
                yield reader.finish(*pending.popleft())
        for block, table in pending:
            yield reader.finish(block, table)


def column_positions(source: Path, layout: Layout, names: list[str]) -> dict[str, int]:
    """Return the position of each column of a layout in a file, in canonical order.

    The layout locates columns by name or by position from 0. `names` are those of the file's
    columns from left to right or, for a file without a header, any texts, one for each column.
    Raises `CheckinError`, which names the source, if a name is missing or not unique, or a position
    is beyond the last column.
    """
    positions: dict[str, int] = {}
    for name in COLUMNS:
        column = layout.columns.get(name)
        if column is None:
            continue
        if isinstance(column, str):
            if column not in names:
                raise CheckinError(
                    f"{source} has no column {column!r} ({key_of(name)}){_names_hint(names)}"
                )
            if names.count(column) > 1:
                raise CheckinError(
                    f"{source} has several columns {column!r}: set {key_of(name)} to the position"
                )
            column = names.index(column)
        if column >= len(names):
            raise CheckinError(
                f"{source} has {len(names)} columns, but {key_of(name)} is position {column} "
                f"counted from 0: check the position and separator, got {layout.separator!r}"
            )
        positions[name] = column
    return positions


def _names_hint(names: Sequence[str]) -> str:
    """Return the end of a message that lists the columns, unless they are personal values."""
    if _COORDINATE.search(",".join(names)):
        return (
            ": its first line is a row, not the names of the columns: set header: false and give "
            "columns by position"
        )
    shown = ", ".join(repr(name[:_MAX_NAME_CHARACTERS]) for name in names[:_MAX_SHOWN_NAMES])
    return f"; its columns are {shown}{', ...' * (len(names) > _MAX_SHOWN_NAMES)}"


def _reader_for(source: Path, layout: Layout, block: bytes) -> "_BlockReader":
    """Return a reader for a file, whose first block tells how many fields a row has."""
    check_text(source, block[:64])
    if not block.strip(b"\r\n"):
        raise CheckinError(f"{source} contains no rows")
    if block.count(b"\n") == 1 and block.count(b"\r") > 1:
        raise CheckinError(
            f"{source} has carriage returns for line ends: convert them to line feeds"
        )
    text = block[: 1 << 16].decode("utf-8", errors="replace")
    records = [_fields(line, layout.separator) for line in text.split("\n")[:1000]]
    if layout.header:
        names = [name.strip() for name in records[0]]
    else:
        # One damaged line must not decide how many fields a row has.
        widths = np.bincount([len(record) for record in records])
        widths[0] = 0
        names = [""] * int(widths.argmax())
    try:
        positions = column_positions(source, layout, names)
    except CheckinError as error:
        raise CheckinError(f"{error}{_separator_hint(text, layout)}") from None
    return _BlockReader(source, layout, len(names), positions)


def _separator_hint(text: str, layout: Layout) -> str:
    """Return the end of a message that suggests another separator, if the first line has one."""
    line = text.partition("\n")[0]
    for separator, in_yaml in _SEPARATORS.items():
        if separator != layout.separator and len(_fields(line, separator)) >= len(layout.columns):
            return f"; its fields seem to be separated differently: set `separator: {in_yaml}`"
    return ""


def _fields(line: str, separator: str) -> list[str]:
    line = line.removesuffix("\r")
    if separator == "\t":
        return line.split(separator) if line else []
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return []


class _BlockReader:
    """Parse a block fast if all its rows are well-formed, and field by field otherwise.

    Both ways give the same result for a row that the fast one accepts. So whether a row counts, and
    as what, never depends on other rows: `publishing` relies on this.
    """

    def __init__(
        self, source: Path, layout: Layout, width: int, positions: Mapping[str, int]
    ) -> None:
        self._source = source
        self._layout = layout
        self._quoted = layout.separator != "\t"
        self._width = width
        self._names = {f"f{position}": name for name, position in positions.items()}
        self._types = {
            field: TYPES[name] if name != "time" or layout.time_format is None else pa.binary()
            for field, name in self._names.items()
        }
        self._strict = True
        self._line = 2 if layout.header else 1

    def read_strictly(self, block: bytes) -> Any:
        """Return the table of a block, or None if a row needs the lenient reader."""
        if not self._strict or self._has_irregular_line(block):
            return None
        try:
            table = self._parse(block, self._types)
        except pa.ArrowInvalid:
            return None
        if self._layout.crs is not None:
            table = _with_degrees(table, self._layout.crs)
        if self._layout.time_format is not None:
            texts = table["time"].combine_chunks()
            if self._layout.decimal == "," and self._layout.time_format == UNIX_SECONDS:
                texts = _with_point(texts)
            times, bad = to_time(texts, self._layout.time_format)
            if bad.any():
                return None
            table = table.set_column(table.column_names.index("time"), "time", times)
        for name in REQUIRED:
            if name not in table.column_names:
                continue
            column = table[name]
            if column.null_count or not all_in_range(column.to_numpy(), name):
                return None
        return table

    def _has_irregular_line(self, block: bytes) -> bool:
        """Return whether `_find_faults` could refuse a line that Arrow accepts, alone or joined."""
        # Looking for a byte takes a tenth of the time of counting it.
        if b"\0" in block or (b"\r" in block and block.count(b"\r") != block.count(b"\r\n")):
            return True
        if not self._quoted or b'"' not in block:
            return False
        buffer = np.frombuffer(block, dtype=np.uint8)
        ends = np.flatnonzero(buffer == ord("\n"))
        return len(_irregularly_quoted(buffer, ends, self._layout.separator)) > 0

    def finish(self, block: bytes, strict: Future[Any]) -> Batch:
        """Return the rows of the next block; `strict` is the result of `read_strictly`."""
        table = strict.result()
        if table is not None:
            self._line += table.num_rows
            return Batch(table)
        batch, lines = self._read_leniently(block, self._line)
        self._line += lines
        # If rows are well-formed but not in strict form (users like 17.0, times without a zone),
        # every later block would fail the strict reading, too.
        self._strict = self._strict and batch.malformed > 0
        return batch

    def _read_leniently(self, block: bytes, first_line: int) -> tuple[Batch, int]:
        lines, faults = _find_faults(block, self._layout.separator if self._quoted else None)
        usable = np.flatnonzero(lines)

        def on_invalid(row: Any) -> str:
            fields = f"the row has {row.actual_columns} fields instead of {row.expected_columns}"
            faults[int(usable[row.number - 1])] = fields
            return "skip"

        types = dict.fromkeys(self._names, pa.binary())
        parsable = _selected(block, lines)
        try:
            parsable.decode()
        except UnicodeDecodeError:
            # Arrow passes invalid rows to the handler as text, which must be UTF-8. They are found
            # in a copy in ASCII and left out, so that the bytes of other rows remain as written.
            self._parse(parsable.translate(_IN_ASCII), types, on_invalid)
            lines[np.fromiter(faults, dtype=np.int64)] = False
            parsable, usable = _selected(block, lines), np.flatnonzero(lines)
        table = self._parse(parsable, types, on_invalid)
        rows = np.setdiff1d(usable, np.fromiter(faults, dtype=np.int64), assume_unique=True)
        if table.num_rows != len(rows):
            raise CheckinError(
                f"{self._source} cannot be split into rows between lines {first_line} and "
                f"{first_line + len(lines)}: check its quotation marks"
            )
        numbered = {first_line + index: reason for index, reason in faults.items()}
        if self._layout.decimal == ",":
            table = _with_points(table, self._layout)
        return convert_rows(table, first_line + rows, numbered, self._layout), len(lines)

    def _parse(self, block: bytes, types: Mapping[str, Any], on_invalid: Any = None) -> Any:
        names = [f"f{position}" for position in range(self._width)]
        if not block:
            return pa.table({name: pa.array([], types[f]) for f, name in self._names.items()})
        table = pyarrow.csv.read_csv(
            pa.py_buffer(block),
            read_options=pyarrow.csv.ReadOptions(
                column_names=names, block_size=len(block) + 1, use_threads=False
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self._layout.separator,
                quote_char='"' if self._quoted else False,
                # An empty line becomes a row without values, so that rows and lines correspond.
                ignore_empty_lines=False,
                invalid_row_handler=on_invalid,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=types,
                include_columns=list(self._names),
                null_values=MISSING,
                strings_can_be_null=False,
                decimal_point=self._layout.decimal,
                check_utf8=False,
            ),
        )
        return table.rename_columns(list(self._names.values()))


def _with_degrees(table: Any, crs: str) -> Any:
    degrees = in_degrees(table["latitude"], table["longitude"], crs)
    for name, values in zip(COORDINATES, degrees, strict=True):
        table = table.set_column(table.column_names.index(name), name, values)
    return table


def _with_points(table: Any, layout: Layout) -> Any:
    """Replace decimal commas by points, and make numbers with a point invalid."""
    numbers = [*REQUIRED, *(["time"] if layout.time_format == UNIX_SECONDS else [])]
    for index, name in enumerate(table.column_names):
        if name in numbers:
            table = table.set_column(index, name, _with_point(table[name]))
    return table


def _with_point(texts: Any) -> Any:
    return pc.replace_substring(pc.replace_substring(texts, ".", "?"), ",", ".")


def _find_faults(block: bytes, quoting: str | None) -> tuple[NDArray[np.bool_], dict[int, str]]:
    """Return which lines can be parsed, and why others cannot; empty lines are in neither.

    `quoting` is the separator if fields may be quoted, None otherwise.
    """
    buffer = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(buffer == ord("\n"))
    starts = np.concatenate(([0], ends[:-1] + 1))
    returns = np.flatnonzero(buffer == ord("\r"))
    before_end = buffer[returns + 1] == ord("\n")
    stops = ends.copy()
    stops[np.searchsorted(ends, returns[before_end])] -= 1
    usable = stops > starts
    faults: dict[int, str] = {}

    def refuse(positions: Integers, reason: str) -> None:
        refused = np.unique(np.searchsorted(ends, positions))
        faults.update(dict.fromkeys(refused.tolist(), reason))
        usable[refused] = False

    refuse(returns[~before_end], "a carriage return is inside the line")
    refuse(np.flatnonzero(buffer == 0), "the line has a NUL byte or is too long")
    if quoting is not None:
        for index in _irregularly_quoted(buffer, ends, quoting).tolist():
            if _has_unclosed_quote(block[starts[index] : stops[index]].decode("latin-1"), quoting):
                refuse(starts[index : index + 1], _UNCLOSED_QUOTE)
    return usable, faults


def _irregularly_quoted(buffer: NDArray[np.uint8], ends: Integers, separator: str) -> Integers:
    """Return the lines in which a quotation mark is not where RFC 4180 has it.

    In a regular line, quotation marks come in pairs. The first of a pair begins a field, or follows
    the second of another pair; the second ends a field, or precedes the first of another pair.
    """
    quotes = np.flatnonzero(buffer == ord('"'))
    line = np.searchsorted(ends, quotes)
    rank = np.arange(len(quotes)) - np.searchsorted(line, line)
    before = np.where(quotes == 0, ord("\n"), buffer[quotes - 1])
    opening = np.isin(before, [ord(separator), ord("\n"), ord('"')])
    closing = np.isin(buffer[quotes + 1], [ord(separator), *b'\r\n"'])
    unpaired = (rank % 2 == 0) & (np.append(line[1:], -1) != line)
    return np.unique(line[~np.where(rank % 2 == 0, opening, closing) | unpaired])


def _has_unclosed_quote(line: str, separator: str) -> bool:
    """Return whether a quoted field would continue in the next line."""
    reader = csv.reader([line, ""], delimiter=separator)
    try:
        next(reader)
    except csv.Error:
        return True
    return reader.line_num > 1


def _selected(block: bytes, lines: NDArray[np.bool_]) -> bytes:
    if lines.all():
        return block
    buffer = np.frombuffer(block, dtype=np.uint8)
    ends = np.flatnonzero(buffer == ord("\n"))
    lengths = np.diff(ends, prepend=-1)
    return buffer[np.repeat(lines, lengths)].tobytes()
