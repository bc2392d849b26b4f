"""Read records from separated text and JSON lines.

In a file that keeps the rules of RFC 4180, records do not depend on each other. A file that breaks
them is refused as a whole, and so is one in which stray quotation marks may hide records.
"""

import csv
import json
import logging
import lzma
import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import tzinfo
from itertools import chain, pairwise
from pathlib import Path
from typing import IO, Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from isal import igzip, isal_zlib
from numpy.typing import NDArray
from tqdm import tqdm

from shuffledp.data.records import (
    MAX_DESCRIBED,
    Batch,
    CheckinError,
    find_columns,
    make_batch,
    with_constants,
)
from shuffledp.data.sources import COORDINATES, TO_COORDINATES, UNIX_UNITS, Layout, TextFormat
from shuffledp.numerics.arrays import Integers

logger = logging.getLogger(__name__)
T = TypeVar("T")

BLOCK_BYTES: Final = 4 << 20
MAX_RECORD_BYTES: Final = 32 << 20
START_BYTES: Final = 1 << 16
"""Size of the beginning of a file, by which its kind is recognised."""

_MAX_JSON_LINES: Final = 1000  # that tell the names of the fields
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_END: Final = object()
_SEPARATORS: Final = {";": '";"', "\t": '"\\t"', ",": '","', "|": '"|"'}
_QUOTING_REMEDY: Final = (
    "write the file again as RFC 4180 says (marks within a field are doubled, not preceded by a "
    "backslash) or as parquet, or, "
    "if marks are ordinary characters in it, set quoting: none"
)


@dataclass(frozen=True)
class _Block:
    """Complete records of a text file, and where fields in quotation marks begin and end.

    `data` ends with a line feed; `line` is the number of its first line.
    """

    data: bytes
    line: int
    opened: Integers
    closed: Integers

    def line_at(self, position: int) -> int:
        """Return the number of the line of the file in which a position is."""
        return self.line + self.data[:position].count(b"\n")

    def without(self, start: int) -> "_Block":
        """Return the block without its first bytes, which are complete records."""
        opened, closed = (each[each >= start] - start for each in (self.opened, self.closed))
        return _Block(self.data[start:], self.line_at(start), opened, closed)

    def unquoted(self, character: str) -> Integers:
        """Return the positions of a character outside of quoted fields."""
        positions = np.flatnonzero(np.frombuffer(self.data, np.uint8) == ord(character))
        return positions[~_inside(positions, self.opened, self.closed)]

    def records(self, separator: str) -> "_Records":
        ends = self.unquoted("\n")
        starts = np.append(0, ends[:-1] + 1)
        returns = self.unquoted("\r")
        at_end = np.isin(returns + 1, ends)
        stops = ends - np.isin(ends - 1, returns)
        fields = 1 + np.diff(np.searchsorted(self.unquoted(separator), ends), prepend=0)
        broken = np.zeros(len(ends), dtype=bool)
        broken[np.searchsorted(ends, returns[~at_end])] = True
        used = (stops > starts) | broken
        return _Records(starts[used], ends[used] + 1, fields[used], broken[used])


@dataclass(frozen=True)
class _Records:
    """Begin, end and number of fields of each record, and whether it has a stray return."""

    starts: Integers
    ends: Integers
    fields: Integers
    broken: NDArray[np.bool_]

    def select(self, chosen: NDArray[np.bool_]) -> "_Records":
        return _Records(*(each[chosen] for each in vars(self).values()))


def _inside(positions: Integers, opened: Integers, closed: Integers) -> NDArray[np.bool_]:
    return np.searchsorted(opened, positions) > np.searchsorted(closed, positions)


def _quoted_fields(data: bytes, separator: str) -> tuple[Integers, Integers]:
    """Return the positions of the quotation marks that open and that close fields.

    A field is quoted if it begins with a mark; it ends at the next mark that is not doubled. The
    data begin outside of a field. Other marks are ordinary characters.
    """
    marks = np.flatnonzero(np.frombuffer(data, np.uint8) == ord('"'))
    if not len(marks):
        return marks, marks
    first = np.flatnonzero(np.diff(marks, prepend=-2) > 1)  # of each run of adjacent marks
    last = np.append(first[1:], len(marks)) - 1
    begin, end = marks[first], marks[last]
    before = np.frombuffer(data, np.uint8)[np.maximum(begin - 1, 0)]
    at_start = (begin == 0) | (before == ord(separator)) | (before == ord("\n"))
    # A run of an even number of marks is an empty field, or doubled marks. One of an odd number
    # opens a field where a field may begin, otherwise closes the field it is in, if any. So after
    # an odd run, a field is open if the runs since the last one elsewhere were odd in number.
    odd = (last - first) % 2 == 0
    toggles = np.cumsum(at_start[odd])
    since = toggles - np.maximum.accumulate(np.where(at_start[odd], 0, toggles))
    is_open = np.append(False, since % 2 == 1)  # before each odd run, and at the end
    opens, closes = at_start[odd] & ~is_open[:-1], is_open[:-1]
    empty = ~odd & at_start & ~is_open[np.cumsum(odd)]
    return (
        np.sort(np.append(begin[odd][opens], begin[empty])),
        np.sort(np.append(end[odd][closes], end[empty])),
    )


def _blocks(source: Path, pieces: Iterable[bytes], text: TextFormat) -> Iterator[_Block]:
    """Divide text into blocks of complete records.

    Byte order marks at the beginning of a line are dropped, because the file may consist of several
    that were joined. Raises `CheckinError` if the text breaks the rules of quotation marks.
    """
    remainder, line = b"", 1
    for piece, following in pairwise(chain(pieces, [b""])):
        is_last = not following
        data = _without_marks(remainder + piece + b"\n" * is_last)
        opened = closed = np.empty(0, np.int64)
        if text.quoting == "none" or b'"' not in data:
            cut = data.rfind(b"\n") + 1
        else:
            opened, closed = _quoted_fields(data, text.separator)
            ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
            ends = ends[~_inside(ends, opened, closed)]
            cut = int(ends[-1]) + 1 if len(ends) else 0
            opened, closed = opened[opened < cut], closed[closed < cut]
        remainder = data[cut:]
        if cut:
            block = _Block(data[:cut], line, opened, closed)
            _check_quotes(source, block, text.separator)
            yield block
            line += int(np.count_nonzero(np.frombuffer(block.data, np.uint8) == ord("\n")))
        if len(remainder) > MAX_RECORD_BYTES or (is_last and remainder):
            reason = "has a quotation mark that is not closed"
            if b'"' not in remainder or text.quoting == "none":
                reason = f"has more than {MAX_RECORD_BYTES:,} bytes: it is no text of records"
            elif not is_last:
                reason += f" within {MAX_RECORD_BYTES:,} bytes"
            raise CheckinError(f"{source}, line {line} {reason}; {_QUOTING_REMEDY}")


def _without_marks(data: bytes) -> bytes:
    if BYTE_ORDER_MARK[0] not in data:  # the usual case, in little time
        return data
    return re.sub(rb"(^|\n)(?:" + BYTE_ORDER_MARK + rb")+", rb"\1", data)


def _check_quotes(source: Path, block: _Block, separator: str) -> None:
    """Check that a separator or a line end follows each quotation mark that closes a field."""
    buffer = np.frombuffer(block.data, np.uint8)
    after = buffer[block.closed + 1]
    line_end = after == ord("\n")
    returns = np.flatnonzero(after == ord("\r"))
    line_end[returns] = buffer[block.closed[returns] + 2] == ord("\n")
    wrong = block.closed[~(line_end | (after == ord(separator)))]
    if len(wrong):
        raise CheckinError(
            f"{source}, line {block.line_at(int(wrong[0]))} has text after the quotation mark that "
            f"closes a field; {_QUOTING_REMEDY}"
        )


def text_batches(
    source: Path, layout: Layout, zone: tzinfo, keys: Mapping[str, str], progress: bool
) -> Iterator[Batch]:
    """Yield the records of a text file, in batches of tens of thousands.

    Empty lines are skipped. A record must have as many fields as the header or, without a header,
    as most of the first thousand records.
    """
    text = layout.text if layout.format == "csv" else TextFormat("\x1f", False, quoting="none")
    with closing(_ahead(_blocks(source, pieces_of(source, progress=progress), text))) as blocks:
        first = next(blocks, None)
        if first is None or not first.data.strip(b"\r\n"):
            raise CheckinError(f"{source} contains no rows")
        make = _JsonReader if layout.format == "json" else _TextReader
        reader = make(source, layout, zone, keys, first)
        rest = (reader.batch(block) for block in blocks)
        with closing(_ahead(rest)) as batches:
            yield reader.batch(reader.first)
            yield from batches


class _TextReader:
    """Parse blocks of a text file whose first block tells its columns."""

    def __init__(
        self, source: Path, layout: Layout, zone: tzinfo, keys: Mapping[str, str], first: _Block
    ) -> None:
        self._source, self._layout, self._zone = source, layout, zone
        self._separator = layout.text.separator
        self.first = first = self._without_excel_line(first)
        if first.data.count(b"\n") <= 2 and first.data.count(b"\r") > first.data.count(b"\r\n") + 1:
            raise CheckinError(
                f"{source} has carriage returns for line ends: convert them, for example by "
                f"tr '\\r' '\\n' < {source.name} > lines.csv"
            )
        records = first.records(self._separator)
        if not len(records.starts):
            raise CheckinError(f"{source} contains no rows")
        if layout.text.header:
            end = int(records.ends[0])
            names = self._names(first.data[int(records.starts[0]) : end])
            self._width = len(names)
            self._check_quoted_lines(first)
            self.first = first.without(end)
        else:
            # One damaged line must not decide how many fields a record has.
            self._width = int(np.bincount(records.fields[:1000]).argmax())
            names = [""] * self._width
        try:
            self._positions, self._constant = find_columns(source, layout, names, keys)
        except CheckinError as error:
            raise CheckinError(f"{error}{self._header_hint(first)}") from None

    def _check_quoted_lines(self, block: _Block) -> None:
        """Check that no field with line breaks hides a record, as it does after a stray mark.

        Such a field ends at a mark that opens a field of another record, which follows a separator
        or a line break; or at one within an unquoted field of a record whose line begins in the
        field.
        """
        if not len(block.opened) or self._layout.text.quoting != "strict":
            return
        buffer, separator = np.frombuffer(block.data, np.uint8), self._separator.encode()
        breaks = np.flatnonzero(buffer == ord("\n"))
        first, last = np.searchsorted(breaks, block.opened), np.searchsorted(breaks, block.closed)
        several = np.flatnonzero(first < last)
        suspect = np.isin(buffer[block.closed[several] - 1], [*separator, *b"\r\n"])
        for index in several[~suspect].tolist():
            for position in breaks[first[index] : last[index]].tolist():
                line_end = block.data.index(b"\n", position + 1)
                if block.data.count(separator, position, line_end) >= self._width - 1:
                    suspect[several == index] = True
                    break
        if suspect.any():
            line = block.line_at(int(block.opened[several[suspect]][0]))
            raise CheckinError(
                f"{self._source}, line {line} has a field with line breaks that may hide records: "
                "a line in it has as many separators as a record, or its closing mark follows a "
                "separator or a line break, as after a stray quotation mark. If a program wrote "
                "the file as RFC 4180 says, set quoting: rfc4180; otherwise "
                f"{_QUOTING_REMEDY}"
            )

    def _without_excel_line(self, block: _Block) -> _Block:
        """Drop a first line such as ``sep=;``, by which Excel knows the separator."""
        match = re.match(rb'"?sep=(.)"?\r?\n', block.data)
        if not match:
            return block
        if match[1] != self._separator.encode():
            raise CheckinError(
                f"{self._source} says in its first line that its separator is "
                f"{match[1].decode(errors='replace')!r}: set separator to it"
            )
        return block.without(match.end())

    def _names(self, record: bytes) -> list[str]:
        try:
            text = record.decode()
        except UnicodeDecodeError:
            text = record.decode("latin-1")
        return [name.strip() for name in self._fields(text.rstrip("\r\n"), self._separator)]

    def _fields(self, line: str, separator: str) -> list[str]:
        if self._layout.text.quoting == "none":
            return line.split(separator)
        try:
            return next(csv.reader([line], delimiter=separator), [])
        except csv.Error:  # such as a carriage return, or an endless field
            return []

    def _header_hint(self, block: _Block) -> str:
        """Return the end of a message that names a likely cause of a missing column."""
        lines = block.data[:START_BYTES].decode(errors="replace").split("\n")
        for separator, in_yaml in _SEPARATORS.items():
            fields = self._fields(lines[0].rstrip("\r"), separator)
            if separator != self._separator and len(fields) >= len(self._layout.columns):
                return f"; its fields seem to be separated differently: set separator: {in_yaml}"
        wanted = {str(column) for column in self._layout.columns.values()}
        for number, line in enumerate(lines[1:100], start=2):
            if wanted <= {name.strip() for name in self._fields(line, self._separator)}:
                return (
                    f"; line {number} has them: remove the lines before it, for example by "
                    f"tail -n +{number} {self._source.name} > records.csv"
                )
        return ""

    def batch(self, block: _Block) -> Batch:
        """Return the records of a block."""
        self._check_quoted_lines(block)
        data, symptoms, dropped = block.data, dict[str, int](), list[tuple[str, str]]()
        returns = b"\r" in data and data.count(b"\r") != data.count(b"\r\n")
        table = None if returns else self._parsed(data)
        records: _Records | None = None
        refused = 0
        if table is None:
            every = block.records(self._separator)
            usable = (every.fields == self._width) & ~every.broken
            refused = int((~usable).sum())
            for index in np.flatnonzero(~usable)[:MAX_DESCRIBED].tolist():
                reason = f"the row has {every.fields[index]} fields instead of {self._width}"
                if every.broken[index]:
                    reason = "a carriage return is inside the line"
                dropped.append((f"line {block.line_at(int(every.starts[index]))}", reason))
            for name, more in (("wider", 1), ("narrower", -1)):
                symptoms[name] = int((every.fields == self._width + more).sum())
            records = every.select(usable)
            bounds = zip(records.starts.tolist(), records.ends.tolist(), strict=True)
            table = self._parsed(b"".join(data[start:end] for start, end in bounds))
        if table is None or (records is not None and len(records.starts) != table.num_rows):
            raise CheckinError(
                f"{self._source} cannot be divided into records after line {block.line}; "
                f"{_QUOTING_REMEDY}"
            )

        def place(row: int) -> str:
            found = block.records(self._separator) if records is None else records
            return f"line {block.line_at(int(found.starts[row]))}"

        columns = {name: table[f"f{each}"] for name, each in self._positions.items()}
        columns = with_constants(
            _decimal_points(columns, self._layout), self._constant, table.num_rows
        )
        return make_batch(columns, place, self._layout, self._zone, dropped, refused, symptoms)

    def _parsed(self, data: bytes) -> Any:
        """Return the columns as binary texts; None if Arrow refuses a record."""
        fields = {f"f{position}": pa.binary() for position in range(self._width)}
        mapped = [f"f{position}" for position in self._positions.values()] or ["f0"]
        if re.fullmatch(rb"[\r\n]*+", data):
            return pa.table({name: pa.array([], pa.binary()) for name in mapped})
        quoted = self._layout.text.quoting != "none"
        try:
            return pyarrow.csv.read_csv(
                pa.py_buffer(data),
                read_options=pyarrow.csv.ReadOptions(
                    column_names=list(fields), block_size=len(data) + 1, use_threads=False
                ),
                parse_options=pyarrow.csv.ParseOptions(
                    delimiter=self._separator,
                    quote_char='"' if quoted else False,
                    newlines_in_values=quoted,
                ),
                convert_options=pyarrow.csv.ConvertOptions(
                    column_types=fields,
                    include_columns=mapped,
                    strings_can_be_null=False,
                    check_utf8=False,
                ),
            )
        except pa.ArrowInvalid:
            return None


def _decimal_points(columns: dict[str, Any], layout: Layout) -> dict[str, Any]:
    """Replace decimal commas by points, and make numbers with a point malformed."""
    if layout.text.decimal == ".":
        return columns
    if "user" in columns:  # 7,0 is 7
        whole = pc.replace_substring_regex(columns["user"], r"^(\s*-?\d+),(0*\s*)$", r"\1.\2")
        columns = columns | {"user": whole}
    numbers = {*COORDINATES, *TO_COORDINATES} | (
        {"time"} if layout.time_format in UNIX_UNITS else set()
    )
    return columns | {
        name: pc.replace_substring(pc.replace_substring(columns[name], ".", "?"), ",", ".")
        for name in numbers & set(columns)
    }


class _JsonReader:
    """Parse blocks of JSON lines."""

    def __init__(
        self, source: Path, layout: Layout, zone: tzinfo, keys: Mapping[str, str], first: _Block
    ) -> None:
        self._layout, self._zone, self.first = layout, zone, first
        # A field may be missing in some lines. The path to a nested one counts as a name.
        lines = [line for line in first.data.split(b"\n", _MAX_JSON_LINES) if line.strip()]
        records = [record for record, _ in map(_json_record, lines[:_MAX_JSON_LINES]) if record]
        if not records:
            raise CheckinError(
                f"{source} is JSON, but has no object in a line of its own: convert it, for "
                f"example by jq -c '.[]' {source.name} > records.jsonl for a list of objects"
            )
        names = list(dict.fromkeys(name for record in records for name in record))
        names += [
            column
            for column in layout.columns.values()
            if isinstance(column, str)
            and column not in names
            and any(_json_field(record, column) is not None for record in records)
        ]
        positions, self._constant = find_columns(source, layout, names, keys)
        self._paths = {name: names[position] for name, position in positions.items()}

    def batch(self, block: _Block) -> Batch:
        """Return the records of a block."""
        columns: dict[str, list[bytes | None]] = {name: [] for name in self._paths}
        numbers, dropped, refused = list[int](), list[tuple[str, str]](), 0
        for number, line in enumerate(block.data.split(b"\n"), start=block.line):
            if not line.strip():
                continue
            record, reason = _json_record(line)
            fields = [] if record is None else [
                _json_field(record, path) for path in self._paths.values()
            ]  # fmt: skip
            if record is None or any(isinstance(each, list) for each in fields):
                refused += 1
                if refused <= MAX_DESCRIBED:
                    reason = reason or "a field is neither a text nor a number"
                    dropped.append((f"line {number}", reason))
                continue
            numbers.append(number)
            for name, value in zip(columns, fields, strict=True):
                columns[name].append(value)
        texts = {name: pa.array(each, pa.binary()) for name, each in columns.items()}
        return make_batch(
            with_constants(texts, self._constant, len(numbers)),
            lambda row: f"line {numbers[row]}",
            self._layout,
            self._zone,
            dropped,
            refused,
        )


def _json_record(line: bytes) -> tuple[dict[str, Any] | None, str]:
    """Return an object with its numbers as they are written, or None and what is wrong."""
    try:
        record = json.loads(line, parse_float=_Number, parse_int=_Number, parse_constant=_Number)
    except (ValueError, RecursionError):
        return None, "the line is not JSON"
    return (record, "") if isinstance(record, dict) else (None, "the line is not a JSON object")


class _Number(str):
    """A number as it is written."""


def _json_field(record: Mapping[str, Any], path: str) -> Any:
    """Return a field as a binary text, None if it is missing, or an empty list if it is neither."""
    value: Any = record.get(path)
    if path not in record:
        value = record
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
    if value is None:
        return None
    return value.encode(errors="surrogatepass") if isinstance(value, str) else []


# --- Bytes ----------------------------------------------------------------------------------

_MAGIC: Final = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bz2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
_SUFFIXES: Final = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}


def pieces_of(source: Path, size: int = BLOCK_BYTES, *, progress: bool = False) -> Generator[bytes]:
    """Yield the bytes of a file, decompressed if its first bytes say that they are packed.

    A proxy may have unpacked the file without renaming it. Raises `CheckinError` if the file is
    missing, unreadable, truncated or damaged.
    """
    try:
        with source.open("rb") as raw:
            start = raw.read(16)
            raw.seek(0)
            packing = next((each for magic, each in _MAGIC.items() if start.startswith(magic)), "")
            named = _SUFFIXES.get(source.suffix, packing)
            if packing != named and progress:
                logger.warning("%s is named as %s, but is %s", source, named, packing or "text")
            with (
                _unpacked(raw, packing) as stream,
                tqdm(
                    total=source.stat().st_size, desc=source.name, unit="B", unit_scale=True,
                    disable=None if progress else True, leave=False,
                ) as bar,
            ):  # fmt: skip
                while piece := stream.read(size):
                    bar.update(raw.tell() - bar.n)
                    yield piece
    except (OSError, EOFError, lzma.LZMAError, isal_zlib.error) as error:
        reason = getattr(error, "strerror", None)
        if reason:
            raise CheckinError(f"{source} cannot be read ({reason})") from error
        raise CheckinError(
            f"{source} is truncated or damaged ({error}): delete it and fetch it again"
        ) from error


def _unpacked(raw: IO[bytes], packing: str) -> Any:
    if packing == "gzip":
        return igzip.open(raw)
    if packing == "xz":
        return lzma.open(raw)
    if packing in ("bz2", "zstd"):
        return pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), packing)
    return raw


def _ahead(items: Iterator[T]) -> Generator[T]:
    """Yield items while a thread computes the next one."""
    with ThreadPoolExecutor(1) as pool:
        item = pool.submit(next, items, _END)
        while (ready := item.result()) is not _END:
            item = pool.submit(next, items, _END)
            yield ready  # type: ignore[misc]
