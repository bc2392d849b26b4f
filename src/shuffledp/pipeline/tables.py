"""Write and read Parquet tables with fixed columns and the run's parameters as metadata."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from shuffledp.errors import InputError, is_out_of_memory
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.columns import CONTENTS, IN_RECORDS, PUBLIC, SIMULATED, TRUE, schema_of
from shuffledp.pipeline.files import replacing

# Keys of metadata that are not parameters of a job: those about the file itself, and the
# fingerprint of the code, which may change without the table.
_NOT_PARAMETERS: Final = ("geo", "pandas", "ARROW:schema", "code", CONTENTS)
GROUP_ROWS: Final = 1 << 17  # rows of a row group; readers of one release skip the others
# Options for writing and for reading every Parquet file.
PACKED: Final[Mapping[str, Any]] = {"compression": "zstd", "write_page_checksum": True}
CHECKED: Final[Mapping[str, Any]] = {"page_checksum_verification": True}
_FORMAT: Final = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=False, **CHECKED)
)

# Some bounds depend on the true counts; a table of only other bounds is marked `PUBLIC`.
PRIVACY = schema_of("n", "k", "eps0", "eps", "bound", "delta", "log10_delta", contents=TRUE)
SAMPLES = schema_of("n", "cell", "count", contents=TRUE)

_POINT: Final = ("n", "eps0", "eps", "delta", "log10_delta", "calibration", "mechanism")
_RELEASE: Final = (*_POINT, "estimator", "repetition")
RELEASES = schema_of(*_RELEASE, "cell", "estimate", "standard_error", contents=SIMULATED)
UTILITY = schema_of(
    *_RELEASE,
    *("tv_distance", "expected_tv_distance", "cell_error", "expected_cell_error"),
    *("colluding", "response_rate", "parameters", "local_eps0", "messages", "reason"),
    contents=TRUE,
)
# Distances of synthetic data.
DISTANCES = schema_of(*_RELEASE, "tv_distance", contents=PUBLIC)
CERTAINTY = schema_of(
    *("region", "grid", "calibration", "mechanism", "estimator", "eps0", "eps", "n", "repetition"),
    *("cell", "count", "estimate", "error", "standard_error", "known"),
    contents=TRUE,
    other=IN_RECORDS,
)
CURVES = schema_of("panel", "curve", "kind", "x", "y", contents=PUBLIC)


@contextmanager
def writing(
    schema: pa.Schema, destination: Path, metadata: Mapping[str, str]
) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Write a Parquet table that may exceed the memory, with exactly the schema's columns.

    The context manager yields a function that appends the rows of a data frame. `metadata` is added
    to that of the schema. The bytes do not depend on how the rows are divided into parts. The file
    appears only when it is complete.
    """
    keys = {k.decode(): v.decode() for k, v in schema.metadata.items()} | dict(metadata)
    keyed = schema.with_metadata(dict(sorted(keys.items())))
    pending = keyed.empty_table()

    def add(part: pd.DataFrame) -> None:
        nonlocal pending
        rows = pa.Table.from_pandas(part[schema.names], keyed.remove_metadata(), False)
        pending = pa.concat_tables([pending, rows.cast(keyed)])
        while pending.num_rows > GROUP_ROWS:
            writer.write_table(pending.slice(0, GROUP_ROWS).combine_chunks(), GROUP_ROWS)
            pending = pending.slice(GROUP_ROWS)

    with (
        replacing(destination) as temporary,
        pq.ParquetWriter(temporary, keyed, **PACKED) as writer,
    ):
        yield add
        writer.write_table(pending.combine_chunks(), GROUP_ROWS)


def write_table(
    table: pd.DataFrame, schema: pa.Schema, destination: Path, metadata: Mapping[str, str]
) -> None:
    """Write the schema's columns of a whole table, with the same bytes as by `writing`."""
    with writing(schema, destination, metadata) as add:
        add(table)


def write_csv(table: pd.DataFrame, destination: Path) -> None:
    """Write a table as CSV; the file appears only when it is complete."""
    with replacing(destination) as temporary:
        table.to_csv(temporary, index=False)


@contextmanager
def reading(source: Path) -> Iterator[None]:
    """Replace Arrow's error about a damaged file by one that names the file and the remedy.

    Raises `InputError` if the block fails because `source` is not a complete Parquet file.
    """
    try:
        yield
    except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
        # Arrow does not set the number of the error about a missing file.
        missing = isinstance(error, FileNotFoundError) or getattr(error, "errno", None)
        if missing or is_out_of_memory(error):
            raise  # the file is missing or unreadable, which does not mean that it is damaged
        raise InputError(
            f"{source} is damaged ({error!r}): delete it and run again to make it anew"
        ) from error


def read_tables(
    sources: Sequence[Path],
    columns: list[str] | None = None,
    **equal: float | str | range | list[int],
) -> pd.DataFrame:
    """Read one or more tables of the same schema, one after the other.

    By default all columns are read. ``name=value`` selects the rows where that column has that
    value, or one of a list. Only one row group at a time is in memory beside the selected rows.
    """
    conditions = [
        ds.field(name).isin(value) if isinstance(value, range | list) else ds.field(name) == value
        for name, value in equal.items()
    ]
    condition = reduce(and_, conditions) if conditions else None
    tables = []
    for path in sources:
        with reading(path):
            table = ds.dataset(path, format=_FORMAT).to_table(
                columns=columns, filter=condition, batch_readahead=1, fragment_readahead=1
            )
            tables.append(table.replace_schema_metadata())
    whole = pa.concat_tables(tables)
    # Arrow frees its memory column by column during the conversion if nothing else refers to it.
    del tables, table
    frame: pd.DataFrame = whole.to_pandas(split_blocks=True, self_destruct=True)
    pa.default_memory_pool().release_unused()
    return frame


def read_metadata(source: Path) -> dict[str, str]:
    """Return the key-value metadata of a parquet file."""
    with reading(source):
        metadata = pq.read_schema(source).metadata or {}
        return {key.decode(): value.decode() for key, value in metadata.items()}


def contents_of(sources: Iterable[Path]) -> str:
    """Return the mark of a file made from other files: the strictest of their marks.

    A table without a known mark counts as true data; base maps and outlines are public.
    """
    order = (PUBLIC, SIMULATED, TRUE)
    strictest = PUBLIC
    for source in sources:
        marks = read_metadata(source) if source.suffix == ".parquet" else {}
        mark = marks.get(CONTENTS, TRUE if source.suffix in (".parquet", ".csv") else PUBLIC)
        strictest = max(strictest, mark if mark in order else TRUE, key=order.index)
    return strictest


def run_metadata(source: Path, *parameters: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """Return a job's parameters as JSON, together with those of the jobs that made its input."""
    own = {key: json.dumps(value, sort_keys=True) for items in parameters for key, value in items}
    merged = read_metadata(source) | own
    return {key: value for key, value in merged.items() if key not in _NOT_PARAMETERS}


def read_counts(grid: Path) -> Integers:
    """Return the number of check-ins in each cell of a grid file, in the order of the cells."""
    return read_tables([grid], ["count"])["count"].to_numpy()
