"""Parquet tables with fixed column types, the run's parameters inside, written whole or not."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from shuffledp.arrays import Integers
from shuffledp.errors import InputError
from shuffledp.files import replacing

# Keys about the file itself, and the code, of which equal results may come from different ones.
_NO_PARAMETERS: Final = ("geo", "pandas", "ARROW:schema", "library")
GROUP_ROWS: Final = 1 << 20  # Arrow's own default: rows that are packed together

_FLOAT, _COUNT, _NAME = pa.float64(), pa.int64(), pa.string()

PRIVACY = pa.schema(
    [
        ("n", _COUNT),
        ("k", _COUNT),
        ("eps0", _FLOAT),
        ("eps", _FLOAT),
        ("bound", _NAME),
        ("delta", _FLOAT),
        ("log10_delta", _FLOAT),
    ]
)
PERSONS = pa.schema(
    [
        ("unit", _NAME),
        ("checkins", _COUNT),
        ("n", _COUNT),
        ("k", _COUNT),
        ("eps0", _FLOAT),
        ("eps", _FLOAT),
        ("delta", _FLOAT),
    ]
)
BUDGETS = pa.schema([("budget", _FLOAT), ("cell", _COUNT), ("count", _COUNT)])
SAMPLES = pa.schema([("n", _COUNT), ("cell", _COUNT), ("count", _COUNT)])
RELEASES = pa.schema(
    [
        ("n", _COUNT),
        ("eps0", _FLOAT),
        ("eps", _FLOAT),
        ("log10_delta", _FLOAT),
        ("calibration", _NAME),
        ("mechanism", _NAME),
        ("estimator", _NAME),
        ("repetition", _COUNT),
        ("cell", _COUNT),
        ("estimate", _FLOAT),
    ]
)
UTILITY = pa.schema(
    [
        ("n", _COUNT),
        ("eps0", _FLOAT),
        ("eps", _FLOAT),
        ("delta", _FLOAT),
        ("log10_delta", _FLOAT),
        ("calibration", _NAME),
        ("mechanism", _NAME),
        ("estimator", _NAME),
        ("repetition", _COUNT),
        ("tv_distance", _FLOAT),
    ]
)
INDIVIDUAL = pa.schema(
    [
        ("n", _COUNT),
        ("eps0", _FLOAT),
        ("eps", _FLOAT),
        ("log10_delta", _FLOAT),
        ("calibration", _NAME),
        ("mechanism", _NAME),
        ("estimator", _NAME),
        ("repetition", _COUNT),
        ("cell", _COUNT),
        ("error", _FLOAT),
    ]
)
TARGETS = pa.schema(
    [
        ("n", _COUNT),
        ("eps", _FLOAT),
        ("delta", _FLOAT),
        ("colluding", _COUNT),
        ("response_rate", _FLOAT),
        ("mechanism", _NAME),
        ("estimator", _NAME),
        ("repetition", _COUNT),
        ("tv_distance", _FLOAT),
        ("expected_tv_distance", _FLOAT),
        ("cell_error", _FLOAT),
        ("expected_cell_error", _FLOAT),
        ("parameters", _NAME),
        ("local_eps0", _FLOAT),
        ("messages", _FLOAT),
        ("reason", _NAME),
    ]
)
TARGET_ESTIMATES = pa.schema(
    [
        ("n", _COUNT),
        ("eps", _FLOAT),
        ("delta", _FLOAT),
        ("mechanism", _NAME),
        ("cell", _COUNT),
        ("estimate", _FLOAT),
        ("standard_error", _FLOAT),
    ]
)
CERTAINTY = pa.schema(
    [
        ("region", _NAME),
        ("grid", _NAME),
        ("calibration", _NAME),
        ("mechanism", _NAME),
        ("estimator", _NAME),
        ("eps0", _FLOAT),
        ("eps", _FLOAT),
        ("n", _COUNT),
        ("repetition", _COUNT),
        ("cell", _COUNT),
        ("count", _COUNT),
        ("estimate", _FLOAT),
        ("error", _FLOAT),
        ("standard_error", _FLOAT),
        ("known", pa.bool_()),
    ]
)
CURVES = pa.schema(
    [("panel", _NAME), ("curve", _NAME), ("kind", _NAME), ("x", _FLOAT), ("y", _FLOAT)]
)


def write_table(
    table: pd.DataFrame, schema: pa.Schema, destination: Path, metadata: Mapping[str, str]
) -> None:
    """Write a table as zstd parquet with exactly the schema's columns.

    ``metadata`` goes into the file's key-value metadata. The file appears under its name only
    when it is complete.
    """
    write_parts([table], schema, destination, metadata)


def write_parts(
    parts: Iterable[pd.DataFrame],
    schema: pa.Schema,
    destination: Path,
    metadata: Mapping[str, str],
) -> None:
    """Write a table that comes in parts, of which one row group at a time is held in memory.

    The bytes are those that `write_table` would write of all parts put together; arguments as
    there.
    """
    pending = schema.empty_table()
    keyed = schema.with_metadata(dict(sorted(metadata.items())))
    with (
        replacing(destination) as temporary,
        pq.ParquetWriter(temporary, keyed, compression="zstd") as writer,
    ):
        for part in parts:
            rows = pa.Table.from_pandas(part[schema.names], schema=schema, preserve_index=False)
            pending = pa.concat_tables([pending, rows.replace_schema_metadata()])
            while pending.num_rows > GROUP_ROWS:
                writer.write_table(pending.slice(0, GROUP_ROWS).combine_chunks(), GROUP_ROWS)
                pending = pending.slice(GROUP_ROWS)
        writer.write_table(pending.combine_chunks(), GROUP_ROWS)


def write_csv(table: pd.DataFrame, destination: Path) -> None:
    """Write a small table for people, whole or not at all."""
    with replacing(destination) as temporary:
        table.to_csv(temporary, index=False)


@contextmanager
def reading(source: Path) -> Iterator[None]:
    """Name the file and the remedy if a result of an earlier job turns out to be damaged.

    Raises
    ------
    InputError
        In place of what Arrow says of a file that is no whole parquet.
    """
    try:
        yield
    except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno:
            raise  # the file is missing or may not be read, not damaged
        raise InputError(
            f"{source} is damaged ({error!r}): delete it and run again, it will be made anew"
        ) from error


def read_tables(
    sources: Sequence[Path], columns: list[str] | None = None, **equal: float | str
) -> pd.DataFrame:
    """Read one or more tables of the same schema, in the order given.

    With ``name=value`` only the rows where that column has that value.
    """
    filters = [(name, "==", value) for name, value in equal.items()] or None
    tables = []
    for path in sources:
        with reading(path):
            # No partitioning: a folder of the path may be called like one.
            one = pq.read_table(path, columns=columns, filters=filters, partitioning=None)
            tables.append(one.replace_schema_metadata())
    table: pd.DataFrame = pa.concat_tables(tables).to_pandas()
    return table


def read_parts(sources: Sequence[Path], multiple: int) -> Iterator[pd.DataFrame]:
    """Read tables of the same schema in parts of about a row group, in the order given.

    Parameters
    ----------
    sources
        Parquet files.
    multiple
        Rows that belong together, such as the cells of one release. No part ends within them.
    """
    size = max(GROUP_ROWS // multiple, 1) * multiple
    for path in sources:
        with reading(path), pq.ParquetFile(path) as file:
            for batch in file.iter_batches(size, use_threads=False):
                yield batch.to_pandas()


def read_metadata(source: Path) -> dict[str, str]:
    """Key-value metadata of a parquet file."""
    with reading(source):
        found = pq.read_schema(source).metadata or {}
        return {key.decode(): value.decode() for key, value in found.items()}


def run_metadata(source: Path, *parameters: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """A job's parameters as JSON, beside those that its input was made with."""
    given = {key: json.dumps(value, sort_keys=True) for items in parameters for key, value in items}
    every = read_metadata(source) | given
    return {key: value for key, value in every.items() if key not in _NO_PARAMETERS}


def read_counts(grid: Path) -> Integers:
    """Check-ins per cell of a grid file, shape ``(k,)``, row-major from the south-west."""
    with reading(grid):
        counts: Integers = pq.read_table(grid, columns=["count"])["count"].to_numpy()
    return counts
