"""Read separated text, plain or compressed, as batches of typed rows."""

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
import pyarrow.csv
from numpy.typing import NDArray
from tqdm import tqdm

from shuffledp.errors import InputError
from shuffledp.geography.row_conversion import MISSING, REQUIRED, TYPES, Batch, in_range, sift
from shuffledp.geography.sources import COLUMNS, Layout, key_of
from shuffledp.numerics.arrays import Integers

logger = logging.getLogger(__name__)

BLOCK_BYTES: Final = 4 << 20
_AHEAD = 3
_OVERLONG = b"\0\n"

_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PAR1": "parquet",
    b"PK\x03\x04": "zip",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "spreadsheet",  # of Excel before 2007
}
_SUFFIXES = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}


class CheckinError(InputError):
    """A check-in file cannot be used as it is; the message names the file and says what to do."""


def file_kind(source: Path) -> str:
    """Tell what a file is by its first bytes: `text`, `parquet`, `gzip`, `bz2`, `xz` or `zstd`.

    The name does not decide: a proxy may have unpacked the file and kept its name.

    Raises
    ------
    CheckinError
        If the file is missing, unreadable, empty, a web page, a spreadsheet or a zip archive.
    """
    try:
        with source.open("rb") as stream:
            start = stream.read(64)
    except OSError as error:
        raise CheckinError(f"{source} cannot be read ({error.strerror})") from error
    if not start:
        raise CheckinError(f"{source} is empty")
    kind = next((kind for magic, kind in _MAGIC.items() if start.startswith(magic)), "text")
    if kind == "spreadsheet" or (kind == "zip" and _holds_a_spreadsheet(source)):
        raise CheckinError(
            f"{source} is a spreadsheet: save the sheet of check-ins as CSV and name that file"
        )
    if kind == "zip":
        raise CheckinError(f"{source} is a zip archive: unpack it and name the file inside")
    if kind == "text":
        check_text(source, start)
    expected = _SUFFIXES.get(source.suffix, kind)
    if kind != expected:
        logger.warning("%s is named as %s but is %s: read as what it is", source, expected, kind)
    return kind


def _holds_a_spreadsheet(archive: Path) -> bool:
    try:
        with ZipFile(archive) as files:
            names = files.namelist()
    except BadZipFile:  # its list stands at the end, which is missing
        return archive.suffix.lower() in (".xlsx", ".xlsm", ".ods")
    return "xl/workbook.xml" in names or {"mimetype", "content.xml"} <= set(names)


_JSON: Final = re.compile(rb"(\xef\xbb\xbf)?\s*(\[\s*)?\{\s*(\"|$)")


def check_text(source: Path, start: bytes) -> None:
    """Refuse a file by the first bytes of its text.

    Raises
    ------
    CheckinError
        If it is a web page, XML, JSON or UTF-16.
    """
    if source.suffix in (".geojson", ".json") or _JSON.match(start):
        raise CheckinError(
            f"{source} is JSON, not a table: a source is separated text or parquet with columns of "
            "latitude and longitude. Convert it, GeoJSON points for example with `ogr2ogr -f CSV "
            "-lco GEOMETRY=AS_XY points.csv FILE`, whose X is the longitude and Y the latitude"
        )
    if start.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
        raise CheckinError(
            f"{source} is a web page or XML, not a table: the server may have answered with an "
            "error page; delete it, check the address and fetch it again"
        )
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise CheckinError(f"{source} is UTF-16 text: convert it to UTF-8")


def text_blocks(source: Path, size: int = BLOCK_BYTES) -> Generator[bytes]:
    """Yield the decompressed lines of a file in blocks of about `size` bytes.

    Every block ends with a line feed, also the last. A byte order mark is left out. A line longer
    than a block comes as one NUL byte, which no reader takes for a row, so that a damaged file
    costs no memory. Decompression runs in a thread, one step ahead of the caller.

    Raises
    ------
    CheckinError
        If the file is one that `file_kind` refuses, or is truncated or damaged.
    """
    kind = file_kind(source)
    items: queue.Queue[_Item] = queue.Queue(_AHEAD)
    stop = threading.Event()
    reader = threading.Thread(
        target=_read_ahead, args=(source, kind, size, items, stop), daemon=True, name="read-ahead"
    )
    total = source.stat().st_size
    reader.start()
    try:
        with tqdm(
            total=total, desc=source.name, unit="B", unit_scale=True, disable=None, leave=False
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
            for block in _whole_lines(stream.read, size):
                if not put(_Item(block, raw.tell())):
                    return
    except (OSError, EOFError, lzma.LZMAError) as caught:
        error = caught
    put(_Item(error=error))


def _decompressed(raw: IO[bytes], kind: str) -> Any:
    if kind == "text":
        return raw
    if kind == "xz":
        return lzma.open(raw)
    # Arrow's inflate is a third faster than the standard library's.
    return pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), kind)


def _whole_lines(read: Callable[[int], bytes], size: int) -> Iterator[bytes]:
    rest = b""
    first = True
    overlong = False
    while piece := read(size):
        if first:
            piece = piece.removeprefix(b"\xef\xbb\xbf")
            first = False
        cut = piece.rfind(b"\n") + 1
        if cut == 0:
            overlong = overlong or len(rest) + len(piece) > size
            rest = b"" if overlong else rest + piece
            continue
        if overlong:
            start = piece.find(b"\n") + 1
            yield _OVERLONG + piece[start:cut]
            overlong = False
        else:
            yield rest + piece[:cut]
        rest = piece[cut:]
    if overlong:
        yield _OVERLONG
    elif rest:
        yield rest + b"\n"


_OPEN: Final = (
    "a quotation mark that is not closed in its line; a quoted field may hold no line break: take "
    "it out, or give the file as parquet"
)
_SEPARATORS: Final = {";": '";"', "\t": '"\\t"', ",": '","', "|": '"|"'}
# A coordinate, with a point or a comma, among what should be names of columns.
_COORDINATE: Final = re.compile(r"\d\.\d{2}|(?<!\w)\d{1,3},\d{4}")
_MOST_NAMES: Final = 20  # columns in a message
_LONGEST_NAME: Final = 60  # characters
_PARSERS: Final = 2  # threads; as many are busy while a third decompresses


def text_batches(source: Path, layout: Layout) -> Iterator[Batch]:
    """Yield the rows of a text file in order, some ten thousand at a time.

    Empty lines are no rows and are passed over. The fields of a line are as many as the header has,
    or, without one, as most of the first thousand lines have.

    Raises
    ------
    CheckinError
        If the file is missing, empty, damaged, not a table, or lacks a column of the layout.
    """
    with closing(text_blocks(source)) as blocks, ThreadPoolExecutor(_PARSERS) as pool:
        first = next(blocks, b"")
        reader = _open(source, layout, first)
        header = first.find(b"\n") + 1 if layout.header else 0
        pending: deque[tuple[bytes, Future[Any]]] = deque()
        for block in chain([first[header:]], blocks):
            pending.append((block, pool.submit(reader.read_strictly, block)))
            if len(pending) > _PARSERS:
                yield reader.finish(*pending.popleft())
        for block, table in pending:
            yield reader.finish(block, table)


def column_positions(source: Path, layout: Layout, names: list[str]) -> dict[str, int]:
    """Find the layout's columns among the names of a file's columns, in canonical order.

    Parameters
    ----------
    source
        The file, named in errors.
    layout
        Its columns by name or by position from 0.
    names
        Names of the file's columns from left to right; for a file without a header anything, as
        many as it has columns.

    Returns
    -------
    Position from 0 of each canonical name that the layout has.

    Raises
    ------
    CheckinError
        If a name is not there or not unique, or a position is beyond the last column.
    """
    positions: dict[str, int] = {}
    for name in COLUMNS:
        column = layout.columns.get(name)
        if column is None:
            continue
        if isinstance(column, str):
            if column not in names:
                raise CheckinError(
                    f"{source} has no column {column!r} ({key_of(name)}){_there(names)}"
                )
            if names.count(column) > 1:
                raise CheckinError(
                    f"{source} has several columns {column!r} ({key_of(name)}): give the position"
                )
            column = names.index(column)
        if column >= len(names):
            raise CheckinError(
                f"{source} has {len(names)} columns, and {key_of(name)} is position {column} "
                f"counted from 0: check it and the separator (got {layout.separator!r})"
            )
        positions[name] = column
    return positions


def _there(names: Sequence[str]) -> str:
    """End of a message: which columns there are, unless they are somebody's values."""
    if _COORDINATE.search(",".join(names)):
        return ": its first line is a row, not names: set header: false, and columns by position"
    shown = ", ".join(repr(name[:_LONGEST_NAME]) for name in names[:_MOST_NAMES])
    return f"; its columns are {shown}{', ...' * (len(names) > _MOST_NAMES)}"


def _open(source: Path, layout: Layout, block: bytes) -> "_BlockReader":
    """Find out from a file's first block how many fields its rows have and which ones count."""
    check_text(source, block[:64])
    if not block.strip(b"\r\n"):
        raise CheckinError(f"{source} holds no rows")
    if block.count(b"\n") == 1 and block.count(b"\r") > 1:
        raise CheckinError(f"{source} ends its lines with carriage returns: convert to line feeds")
    text = block[: 1 << 16].decode("utf-8", errors="replace")
    records = [_fields(line, layout.separator) for line in text.split("\n")[:1000]]
    if layout.header:
        names = [name.strip() for name in records[0]]
    else:
        # A single damaged first line must not decide how many fields a row has.
        widths = np.bincount([len(record) for record in records])
        widths[0] = 0
        names = [""] * int(widths.argmax())
    try:
        positions = column_positions(source, layout, names)
    except CheckinError as error:
        raise CheckinError(f"{error}{_other_separator(text, layout)}") from None
    return _BlockReader(source, layout, len(names), positions)


def _other_separator(text: str, layout: Layout) -> str:
    """End of a message about missing columns: the separator that the first line seems to have."""
    line = text.partition("\n")[0]
    for other, written in _SEPARATORS.items():
        if other != layout.separator and len(_fields(line, other)) >= len(layout.columns):
            return f"; it looks separated by another character: set `separator: {written}`"
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
    """Reads a block in one go if all its rows are well-formed, and field by field if not."""

    def __init__(
        self, source: Path, layout: Layout, width: int, positions: Mapping[str, int]
    ) -> None:
        self._source = source
        self._separator = layout.separator
        self._quoted = layout.separator != "\t"
        self._width = width
        self._names = {f"f{position}": name for name, position in positions.items()}
        self._strict = True
        self._line = 2 if layout.header else 1

    def read_strictly(self, block: bytes) -> Any:
        """Return a block's table, or None if it has a row that must be looked at."""
        if not self._strict:
            return None
        try:
            table = self._parse(block, {field: TYPES[name] for field, name in self._names.items()})
        except pa.ArrowInvalid:
            return None
        for name in REQUIRED:
            if name not in table.column_names:
                continue
            column = table[name]
            if column.null_count or not in_range(column.to_numpy(), name).all():
                return None
        # A quotation mark left open takes in the lines that follow; a carriage return ends a row.
        if table.num_rows != block.count(b"\n"):
            return None
        return table

    def finish(self, block: bytes, strict: Future[Any]) -> Batch:
        """Return the rows of the next block, given what the strict reading made of it."""
        table = strict.result()
        if table is not None:
            self._line += table.num_rows
            return Batch(table)
        batch, lines = self._read_leniently(block, self._line)
        self._line += lines
        # Where all rows are well-formed, but not in the strict forms (users like 17.0, times
        # without a zone), there is no point in trying every block twice.
        self._strict = self._strict and batch.malformed > 0
        return batch

    def _read_leniently(self, block: bytes, first_line: int) -> tuple[Batch, int]:
        lines, faults = _survey(block, self._separator if self._quoted else None)
        usable = np.flatnonzero(lines)
        # Arrow shows the handler an odd row as text, and gives up if it is not UTF-8. Written out,
        # other bytes still tell users apart.
        sound = _selected(block, lines).decode(errors="backslashreplace").encode()

        def on_invalid(row: Any) -> str:
            fields = f"{row.actual_columns} fields where there should be {row.expected_columns}"
            faults[int(usable[row.number - 1])] = fields
            return "skip"

        table = self._parse(sound, dict.fromkeys(self._names, pa.binary()), on_invalid)
        rows = np.setdiff1d(usable, np.fromiter(faults, dtype=np.int64), assume_unique=True)
        if table.num_rows != len(rows):
            raise CheckinError(
                f"{self._source} cannot be split into rows between lines {first_line} and "
                f"{first_line + len(lines)}: check its quotation marks"
            )
        numbered = {first_line + index: reason for index, reason in faults.items()}
        return sift(table, first_line + rows, numbered), len(lines)

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
                delimiter=self._separator,
                quote_char='"' if self._quoted else False,
                # As a row without values an empty line is noticed, and lines stay countable.
                ignore_empty_lines=False,
                invalid_row_handler=on_invalid,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=types,
                include_columns=list(self._names),
                null_values=MISSING,
                strings_can_be_null=False,
                check_utf8=False,
            ),
        )
        return table.rename_columns(list(self._names.values()))


def _survey(block: bytes, quoting: str | None) -> tuple[NDArray[np.bool_], dict[int, str]]:
    """Tell which lines can be parsed, and why others cannot; empty ones are neither.

    Parameters
    ----------
    block : bytes
        Whole lines.
    quoting : str or None
        The separator if fields may be quoted.
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

    refuse(returns[~before_end], "a carriage return within the line")
    refuse(np.flatnonzero(buffer == 0), "a NUL byte or an endless line")
    if quoting is not None:
        quotes = np.flatnonzero(buffer == ord('"'))
        for index in np.unique(np.searchsorted(ends, quotes)).tolist():
            if _left_open(block[starts[index] : stops[index]].decode("latin-1"), quoting):
                refuse(starts[index : index + 1], _OPEN)
    return usable, faults


def _left_open(line: str, separator: str) -> bool:
    """Tell whether a quoted field would go on in the next line."""
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
