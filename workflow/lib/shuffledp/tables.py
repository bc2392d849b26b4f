"""Parquet tables with fixed column types, the run's parameters inside, written whole or not."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

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
RELEASES = pa.schema(
    [
        ("n", _COUNT),
        ("eps0", _FLOAT),
        ("eps", _FLOAT),
        ("log10_delta", _FLOAT),
        ("calibration", _NAME),
        ("mechanism", _NAME),
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
        ("repetition", _COUNT),
        ("cell", _COUNT),
        ("error", _FLOAT),
    ]
)


def write_table(
    table: pd.DataFrame, schema: pa.Schema, destination: Path, metadata: Mapping[str, str]
) -> None:
    """Write a table as zstd parquet with exactly the schema's columns.

    ``metadata`` goes into the file's key-value metadata. The file appears under its name only
    when it is complete.
    """
    arrow = pa.Table.from_pandas(table[schema.names], schema=schema, preserve_index=False)
    arrow = arrow.replace_schema_metadata(dict(sorted(metadata.items())))
    destination.parent.mkdir(parents=True, exist_ok=True)
    partial = destination.with_name(f".{destination.name}.{os.getpid()}.partial")
    try:
        pq.write_table(arrow, partial, compression="zstd")
        partial.replace(destination)
    finally:
        partial.unlink(missing_ok=True)


def read_tables(sources: Sequence[Path], columns: list[str] | None = None) -> pd.DataFrame:
    """Read one or more tables of the same schema, in the order given."""
    return pa.concat_tables([pq.read_table(path, columns=columns) for path in sources]).to_pandas()


def read_metadata(source: Path) -> dict[str, str]:
    """Key-value metadata of a parquet file."""
    found = pq.read_schema(source).metadata or {}
    return {key.decode(): value.decode() for key, value in found.items()}
