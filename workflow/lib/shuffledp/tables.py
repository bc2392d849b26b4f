"""Parquet tables with fixed column types, the run's parameters inside, written whole or not."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shuffledp.files import replacing

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
    arrow = pa.Table.from_pandas(table[schema.names], schema=schema, preserve_index=False)
    arrow = arrow.replace_schema_metadata(dict(sorted(metadata.items())))
    with replacing(destination) as temporary:
        pq.write_table(arrow, temporary, compression="zstd")


def read_tables(sources: Sequence[Path], columns: list[str] | None = None) -> pd.DataFrame:
    """Read one or more tables of the same schema, in the order given."""
    table: pd.DataFrame = pa.concat_tables(
        [pq.read_table(path, columns=columns) for path in sources]
    ).to_pandas()
    return table


def read_metadata(source: Path) -> dict[str, str]:
    """Key-value metadata of a parquet file."""
    found = pq.read_schema(source).metadata or {}
    return {key.decode(): value.decode() for key, value in found.items()}


def run_metadata(source: Path, *parameters: Iterable[tuple[str, Any]]) -> dict[str, str]:
    """A run's parameters as JSON, with the checksum of the source its input came from."""
    given = {key: json.dumps(value) for items in parameters for key, value in items}
    return {"source_sha256": read_metadata(source)["source_sha256"]} | given


def read_counts(grid: Path) -> NDArray[np.int64]:
    """Check-ins per cell of a grid file, shape ``(k,)``, row-major from the south-west."""
    counts: NDArray[np.int64] = pq.read_table(grid, columns=["count"])["count"].to_numpy()
    return counts
