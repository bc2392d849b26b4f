"""Take records from tables in memory: pandas, geopandas, polars, Arrow."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from shuffledp.data.sources import COORDINATES
from shuffledp.errors import InputError, one_line


@dataclass(frozen=True)
class Frame:
    """A table of records in memory, written as Parquet, and its name.

    ``points`` says whether its columns latitude and longitude are those of its geometries.
    """

    name: str
    parquet: pa.Buffer
    points: bool = False

    def __str__(self) -> str:
        return f"the table {self.name}"


def frame_of(data: Any, name: str | None, *, points: bool = False) -> Frame:
    """Return a table of pandas, geopandas, polars or Arrow as a frame.

    With `points`, a table of geopandas gets columns ``latitude`` and ``longitude`` (WGS 84) of its
    points, empty where a point is missing. Raises `InputError` without a name, for other data, and
    for columns with several types.
    """
    if not name or not isinstance(name, str):
        raise InputError(
            "a table in memory needs a name, by which the ledger recognises it: give name=…, and "
            "the same name for the same records"
        )
    is_geographic = hasattr(data, "geometry") and hasattr(data, "crs")
    try:
        if is_geographic:
            data = _without_geometry(data, points)
        if hasattr(data, "to_parquet") and hasattr(data, "iloc"):  # pandas
            table = pa.Table.from_pandas(data, preserve_index=False)
        else:
            table = pa.table(data)
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
    except (pa.ArrowException, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"the table {name} cannot be read ({one_line(str(error))}): it must be a table of "
            "pandas, geopandas, polars or Arrow, with one type in each column"
        ) from error
    return Frame(name, sink.getvalue(), is_geographic and points)


def _without_geometry(data: Any, points: bool) -> Any:
    """Return a table of geopandas as one of pandas, with the coordinates of its points if asked."""
    import pandas as pd

    table = pd.DataFrame(data.drop(columns=data.geometry.name))
    if not points:
        return table
    shapes = (data.geometry if data.crs is None else data.to_crs(4326).geometry).to_numpy()
    missing = shapely.is_missing(shapes) | shapely.is_empty(shapes)
    if (shapely.get_type_id(shapes[~missing]) != shapely.GeometryType.POINT).any():
        raise ValueError("its geometries must be points")
    coordinates = np.full((len(shapes), 2), np.nan)
    coordinates[~missing] = shapely.get_coordinates(shapes[~missing])
    return table.assign(**dict(zip(COORDINATES, coordinates.T[::-1], strict=True)))
