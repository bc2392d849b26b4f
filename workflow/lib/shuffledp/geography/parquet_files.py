"""Read a parquet file or a folder of them as batches of typed rows."""

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
from shuffledp.geography.row_conversion import Batch, ColumnTypeError, convert_rows
from shuffledp.geography.sources import Layout, key_of
from shuffledp.geography.text_files import CheckinError, column_positions, file_kind
from shuffledp.pipeline.files import parts
from shuffledp.pipeline.tables import CHECKED

logger = logging.getLogger(__name__)

_BATCH_ROWS: Final = 1 << 16


def source_parts(source: Path, layout: Layout) -> list[Path]:
    """Return the files of a source: the file itself, or those of a folder in order of their names.

    Only files ``*.parquet`` of a folder are read. The columns that the layout maps must have the
    same name and type in each of them, so that an unrelated file is noticed.

    Raises
    ------
    CheckinError
        If the source is a folder but the layout's format is not parquet; if the folder contains no
        parquet file, or another folder (a partition, whose name would be lost, or a table format
        that keeps outdated files); or if a file is not parquet, or lacks a column of the layout, or
        its name or type differs from the other files.
    """
    if not source.is_dir():
        return [source]
    if layout.format != "parquet":
        raise CheckinError(
            f"{source} cannot be read as {layout.format}: it is a folder, and only folders of "
            "parquet files are read: set format: parquet"
        )
    _check_entries(source)
    files = parts(source)
    known: dict[str, tuple[str, Path]] = {}
    for part in files:
        for name, column in _columns(part, layout).items():
            expected, first = known.setdefault(name, (column, part))
            if column != expected:
                raise CheckinError(
                    f"{part} has {column} for {key_of(name)}, but {first} has {expected}: "
                    "all files of a folder must have the same schema; write them again with one"
                )
    return files


def parquet_batches(source: Path, layout: Layout, progress: bool = True) -> Iterator[Batch]:
    """Yield the rows of a parquet file in order, in batches of tens of thousands.

    Raises
    ------
    CheckinError
        If the file is damaged, lacks a column of the layout, or a column has a wrong type.
    """
    first = 1
    with _reading(source), pq.ParquetFile(source, **CHECKED) as file:
        names = file.schema_arrow.names
        positions = column_positions(source, layout, names)
        columns = [names[position] for position in positions.values()]
        hidden = None if progress else True
        rows = file.metadata.num_rows
        with tqdm(total=rows, desc=source.name, disable=hidden, leave=False) as bar:
            for part in file.iter_batches(_BATCH_ROWS, columns=columns):
                table = pa.table([part[column] for column in columns], names=list(positions))
                yield convert_rows(table, np.arange(first, first + len(part)), {})
                first += len(part)
                bar.update(len(part))


def _check_entries(folder: Path) -> None:
    visible = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    for entry in visible:
        if entry.is_dir():
            raise CheckinError(
                f"{folder} contains the folder {entry.name!r}, which would not be read: "
                "put all parquet files directly in one folder, or use the folder inside"
            )
    others = [entry.name for entry in visible if entry.suffix != ".parquet"]
    if len(others) == len(visible):
        raise CheckinError(f"{folder} is a folder without files *.parquet")
    # Some writers leave markers such as _SUCCESS.
    ignored = [name for name in others if not name.startswith("_")]
    if ignored:
        logger.warning(
            "%s: only files *.parquet are read; ignored %s", folder, ", ".join(ignored[:5])
        )


def _columns(part: Path, layout: Layout) -> dict[str, str]:
    """Return name and type, in the file, of each column that the layout maps.

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
