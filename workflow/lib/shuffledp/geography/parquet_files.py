"""Read a parquet file or a folder of them as batches of typed rows."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from shuffledp.errors import is_out_of_memory
from shuffledp.geography.row_conversion import (
    TYPES,
    Batch,
    ColumnTypeError,
    convert_rows,
    convert_valid,
    hexadecimal,
    never_malformed,
)
from shuffledp.geography.sources import IDENTIFIER, Layout, key_of
from shuffledp.geography.text_files import CheckinError, column_positions, file_kind
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.files import parts
from shuffledp.pipeline.tables import CHECKED

logger = logging.getLogger(__name__)

# Larger batches are faster, but every column of a run is read if one of its rows is selected.
_MIN_RUN_ROWS: Final = 1 << 17
_MAX_BATCH_ROWS: Final = 1 << 20


def source_parts(source: Path, layout: Layout) -> list[Path]:
    """Return the files of a source: the file itself, or those of a folder in order of their paths.

    Files ``*.parquet`` of a folder are read, or, with format csv, ``*.csv``, ``*.tsv`` and
    ``*.txt``, plain or packed. They may be in folders named ``key=value`` (hive partitions). The
    columns that the layout maps must have the same name and type in each parquet file, so that an
    unrelated file is noticed. Raises `CheckinError` if the folder has no file of the layout's
    format, contains a folder that is not named ``key=value`` (such as one of a table format that
    keeps outdated files), or format is geo; or if a file is not parquet although the layout says
    so, lacks a column of the layout, or has it under another name or with another type than the
    other files.
    """
    if not source.is_dir():
        return [source]
    if layout.format == "geo":
        raise CheckinError(f"{source} is a folder: with format: geo, a source is one file")
    _check_folders(source)
    files = parts(source)
    is_parquet = bool(files) and files[0].suffix == ".parquet"
    if not files or is_parquet != (layout.format == "parquet"):
        names = "*.parquet" if layout.format == "parquet" else "*.csv, *.tsv or *.txt"
        remedy = "; its files are parquet: set format: parquet" if is_parquet else ""
        raise CheckinError(f"{source} cannot be read: it is a folder without files {names}{remedy}")
    _warn_of_others(source, files)
    known: dict[str, tuple[str, Path]] = {}
    for part in files if is_parquet else []:
        for name, column in _columns(part, layout).items():
            expected, first = known.setdefault(name, (column, part))
            if column != expected:
                raise CheckinError(
                    f"{part} has {column} for {key_of(name)}, but {first} has {expected}: "
                    "all files of a folder must have the same schema; write them again with one"
                )
    return files


def parquet_batches(source: Path, layout: Layout, progress: bool = True) -> Iterator[Batch]:
    """Yield the rows of a parquet file in order, in batches of hundreds of thousands.

    Only columns that decide whether a row is malformed are read for every row. The others are read
    for row groups in which a row is selected, and converted for the selected rows. Row groups are
    not skipped by their statistics, which ignore NaN, because every malformed row is counted.
    Raises `CheckinError` if the file is damaged, lacks a column of the layout, or a column has a
    wrong type.
    """
    with _reading(source), pq.ParquetFile(source, **CHECKED) as file:
        schema = file.schema_arrow
        positions = column_positions(source, layout, schema.names)
        late = {
            name: schema.names[position]
            for name, position in positions.items()
            if never_malformed(name, schema.types[position], layout)
        }
        early = {name: schema.names[positions[name]] for name in positions if name not in late}
        first = 1
        hidden = None if progress else True
        size = file.metadata.num_rows
        with tqdm(total=size, desc=source.name, disable=hidden, leave=False) as bar:
            for groups in _runs(file.metadata):
                others = _LateColumns(source, file, groups, late)
                start = 0
                for part in _read(file, groups, early):
                    rest = partial(others.convert, start) if late else None
                    lines = range(first, first + part.num_rows)
                    yield convert_rows(part, lines, {}, layout, rest)
                    start += part.num_rows
                    first += part.num_rows
                    bar.update(part.num_rows)


def _runs(metadata: Any) -> Iterator[list[int]]:
    """Yield runs of consecutive row groups; all but the last have `_MIN_RUN_ROWS` rows or more."""
    run: list[int] = []
    rows = 0
    for group in range(metadata.num_row_groups):
        run.append(group)
        rows += metadata.row_group(group).num_rows
        if rows >= _MIN_RUN_ROWS:
            yield run
            run, rows = [], 0
    if run:
        yield run


def _read(file: Any, groups: list[int], columns: Mapping[str, str]) -> Iterator[Any]:
    """Yield tables of some row groups; `columns` maps canonical names to names in the file."""
    # Threads for so few rows take longer to start than they save.
    parts = file.iter_batches(
        _MAX_BATCH_ROWS, row_groups=groups, columns=[*columns.values()], use_threads=False
    )
    for part in parts:
        fields = [_plain(part[column], name) for name, column in columns.items()]
        yield pa.table(fields, names=list(columns))


def _plain(column: Any, name: str) -> Any:
    """Convert a column of text views, from which Arrow cannot select rows, and binary identifiers.

    Binary identifiers, such as UUIDs, become hexadecimal texts, because white space around a text
    does not matter, but every byte of a binary identifier does.
    """
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_string_view(column.type) or pa.types.is_binary_view(column.type):
        text = pa.types.is_string_view(column.type)
        column = column.cast(pa.large_string() if text else pa.large_binary())
    return hexadecimal(column) if name in ("user", IDENTIFIER) else column


class _LateColumns:
    """Columns of some row groups that are read when a row is first requested."""

    def __init__(
        self, source: Path, file: Any, groups: list[int], columns: Mapping[str, str]
    ) -> None:
        self._source = source
        self._parts = _read(file, groups, columns)
        self._part = pa.table({name: pa.array([], TYPES[name]) for name in columns})
        self._end = 0  # number of rows read so far, including those of the current part

    def convert(self, start: int, rows: Integers) -> Any:
        """Return the converted columns of the rows with numbers `start + rows` in these groups.

        These numbers ascend within a call and from one call to the next.
        """
        wanted = start + rows
        selected = []
        with _reading(self._source):
            while len(wanted):
                if wanted[0] >= self._end:
                    self._part = next(self._parts)
                    self._end += self._part.num_rows
                    continue
                here = int(np.searchsorted(wanted, self._end))
                first = self._end - self._part.num_rows
                selected.append(self._part.take(pa.array(wanted[:here] - first)))
                wanted = wanted[here:]
            return convert_valid(pa.concat_tables(selected or [self._part.slice(0, 0)]))


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


def _warn_of_others(folder: Path, files: list[Path]) -> None:
    # Some writers leave markers such as _SUCCESS.
    others = {file for file in folder.rglob("[!._]*") if not file.is_dir()} - {*files}
    names = sorted(str(file.relative_to(folder)) for file in others)
    if names:
        kind = "*.parquet" if files[0].suffix == ".parquet" else "*.csv, *.tsv and *.txt"
        logger.warning("%s: only files %s are read; ignored %s", folder, kind, ", ".join(names[:5]))


def _columns(part: Path, layout: Layout) -> dict[str, str]:
    """Return the name and type that each column of the layout has in a file.

    Columns of type null are left out: they have no values, and may have a type in other files.
    """
    if file_kind(part) != "parquet":
        raise CheckinError(f"{part} is not a parquet file")
    with _reading(part):
        schema = pq.read_schema(part)
    positions = column_positions(part, layout, schema.names)
    return {
        name: f"{schema.names[position]!r} ({schema.types[position]})"
        for name, position in positions.items()
        if not pa.types.is_null(schema.types[position])
    }


@contextmanager
def _reading(source: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, ColumnTypeError) as error:
        if is_out_of_memory(error):
            raise
        message = " ".join(str(error).split())  # Arrow's messages have line breaks
        raise CheckinError(f"{source} cannot be read as parquet ({message})") from error
