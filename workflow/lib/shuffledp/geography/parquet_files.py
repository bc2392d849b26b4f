"""Parquet, one file or a folder of them, as batches of typed rows."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from shuffledp.errors import is_out_of_memory
from shuffledp.geography.row_conversion import Batch, ColumnTypeError, sift
from shuffledp.geography.sources import Layout, key_of
from shuffledp.geography.text_files import CheckinError, column_positions, file_kind
from shuffledp.pipeline.files import parts
from shuffledp.pipeline.tables import CHECKED

logger = logging.getLogger(__name__)

_BATCH_ROWS: Final = 1 << 16


def source_parts(source: Path, layout: Layout) -> list[Path]:
    """Files of a source in the order in which they are read: itself, or a folder's by name.

    Of a folder the files ``*.parquet`` count. Those that the layout maps of their columns must have
    the same names and types in each, so that a stray file does not pass for a part.

    Raises
    ------
    CheckinError
        If a folder is not to be read as parquet, holds no such file or another folder (partitions,
        whose names would be lost, or a table format that keeps outdated files), or if a file lacks
        a column of the layout, has one of another name or type than the others, or is no
        parquet file.
    """
    if not source.is_dir():
        return [source]
    if layout.format != "parquet":
        raise CheckinError(
            f"{source} cannot be read as {layout.format}: it is a folder, and only folders of "
            "parquet files are read (format: parquet)"
        )
    _check_entries(source)
    files = parts(source)
    known: dict[str, tuple[str, Path]] = {}
    for part in files:
        for name, found in _columns(part, layout).items():
            expected, first = known.setdefault(name, (found, part))
            if found != expected:
                raise CheckinError(
                    f"{part} has {found} for {key_of(name)}, and {first} has {expected}: "
                    "the files of a folder must agree; write them anew with one schema"
                )
    return files


def parquet_batches(source: Path, layout: Layout) -> Iterator[Batch]:
    """Yield the rows of a parquet file in order, some ten thousand at a time.

    Raises
    ------
    CheckinError
        If the file is damaged, lacks a column of the layout, or has one of an unusable type.
    """
    first = 1
    with _reading(source), pq.ParquetFile(source, **CHECKED) as file:
        names = file.schema_arrow.names
        positions = column_positions(source, layout, names)
        columns = [names[position] for position in positions.values()]
        with tqdm(total=file.metadata.num_rows, desc=source.name, disable=None, leave=False) as bar:
            for part in file.iter_batches(_BATCH_ROWS, columns=columns):
                table = pa.table([part[column] for column in columns], names=list(positions))
                yield sift(table, np.arange(first, first + len(part)), {})
                first += len(part)
                bar.update(len(part))


def _check_entries(folder: Path) -> None:
    visible = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    for entry in visible:
        if entry.is_dir():
            raise CheckinError(
                f"{folder} holds the folder {entry.name!r}, which would not be read: "
                "put all parquet files directly in one folder, or name the folder inside"
            )
    others = [entry.name for entry in visible if entry.suffix != ".parquet"]
    if len(others) == len(visible):
        raise CheckinError(f"{folder} is a folder without any file *.parquet")
    # Writers leave markers such as _SUCCESS behind.
    ignored = [name for name in others if not name.startswith("_")]
    if ignored:
        logger.warning("%s: only *.parquet is read, not %s", folder, ", ".join(ignored[:5]))


def _columns(part: Path, layout: Layout) -> dict[str, str]:
    """Name and type of each column that the layout maps, as the file has it.

    Those of type null hold nothing, whatever the other files say they are, and are left out.
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
        words = " ".join(str(error).split())  # Arrow breaks its lines
        raise CheckinError(f"{source} cannot be read as parquet ({words})") from error
