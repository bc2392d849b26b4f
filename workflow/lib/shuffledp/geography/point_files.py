"""Read files of points, such as GeoJSON, as batches of typed rows.

The files may come from strangers; `layer_files` says how each format is read safely.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import shapely

from shuffledp.errors import InputError
from shuffledp.geography.layer_files import read_points
from shuffledp.geography.row_conversion import HEXADECIMAL, Batch, convert_rows
from shuffledp.geography.sources import Layout, key_of
from shuffledp.geography.text_files import CheckinError, column_positions

_BATCH_ROWS: Final = 1 << 17
_NO_POINT: Final = "it has no point"


def point_batches(source: Path, layout: Layout) -> Iterator[Batch]:
    """Yield the features of a file of points in order, in batches of up to 131,072.

    A feature without a point, or with coordinates that are not finite or out of range, is a
    malformed row. The whole file is in memory. Raises `CheckinError` if the file cannot be read
    (see `layer_files.read_points`), a feature is not a point, or a property that the layout maps is
    missing or has values that are neither texts nor numbers.
    """
    mapped: dict[str, str] = {}  # properties of the file by canonical names

    def select(properties: Sequence[str]) -> list[str]:
        positions = column_positions(source, layout, list(properties))
        mapped.update({name: properties[position] for name, position in positions.items()})
        return list(mapped.values())

    try:
        layer, crs = read_points(source, select)
    except InputError as error:
        raise CheckinError(str(error)) from error
    try:
        layout = replace(layout, crs=crs)
    except InputError as error:
        raise CheckinError(f"{source} declares {crs}: {error}") from error
    points = layer.geometries
    missing = shapely.is_missing(points) | shapely.is_empty(points)
    coordinates = np.full((len(points), 2), np.nan)
    coordinates[~missing] = shapely.get_coordinates(points[~missing])
    columns = {
        "latitude": pa.array(coordinates[:, 1]),
        "longitude": pa.array(coordinates[:, 0]),
        **{name: _texts(source, name, layer.properties[column]) for name, column in mapped.items()},
    }
    table, number = pa.table(columns), np.arange(1, len(points) + 1)
    for start in range(0, len(points), _BATCH_ROWS):
        rows = slice(start, start + _BATCH_ROWS)
        absent, present = missing[rows], pa.array(~missing[rows])
        faults = dict.fromkeys(number[rows][absent].tolist(), _NO_POINT)
        part = table.slice(start, _BATCH_ROWS).filter(present)
        yield convert_rows(part, number[rows][~absent], faults, layout)


def _texts(source: Path, name: str, values: Sequence[Any]) -> Any:
    """Return the values of a property as they would be written in a text file."""
    texts: list[bytes | None] = []
    for number, value in enumerate(values, start=1):
        if isinstance(value, bool) or not isinstance(
            value, str | bytes | int | float | Decimal | date | None
        ):
            raise CheckinError(
                f"{source}: {key_of(name)} of feature {number} must be a text or number, got a "
                f"value of type {type(value).__name__}"
            )
        texts.append(_text(value))
    return pa.array(texts, pa.binary())


def _text(value: str | bytes | float | Decimal | date | None) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, bytes):  # an identifier, as in `row_conversion.hexadecimal`
        return (HEXADECIMAL + value.hex()).encode() if value else b""
    if isinstance(value, float) and value.is_integer():
        return str(int(value)).encode()  # programs for tables write integers as 75101.0
    text = value.isoformat() if isinstance(value, date) else str(value)
    return text.encode(errors="surrogatepass")  # JSON may have half of a surrogate pair
