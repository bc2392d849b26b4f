"""Text files, plain or compressed, as blocks of whole lines read ahead by a thread."""

import logging
import lzma
import queue
import re
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final
from zipfile import BadZipFile, ZipFile

import pyarrow as pa
from tqdm import tqdm

from shuffledp.errors import InputError

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
