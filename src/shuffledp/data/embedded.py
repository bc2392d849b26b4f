"""Generate check-ins from how many there were in each rectangle, which the repository contains.

The repository contains no check-ins. `lay_checkins` writes a file in SNAP's format for the later
stages. On the grids for which the counts were made, the histograms equal those of the
real check-ins; on other grids they are approximations.
"""

import csv
import gzip
import io
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.csv

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.pipeline.files import replacing

COUNT_COLUMNS: Final = ("south", "west", "north", "east", "count")
_DECIMALS: Final = 10  # as in SNAP's files
_MARGIN: Final = 0.05  # share of a rectangle's side that is left empty at each edge
_MIN_SIDE: Final = 1e-8  # degrees; positions inside have ten decimals
_MAX_COUNT: Final = 10**9  # check-ins in a rectangle; more must be a mistake in the file
_TIME: Final = "2010-01-01T00:00:00Z"


def lay_checkins(counts: Path, destination: Path, *, seed: int) -> int:
    """Write a file in SNAP's format with the counted number of check-ins in each rectangle.

    The counts are a CSV file with columns south, west, north, east (degrees) and count. The result
    is tab-separated text, compressed with gzip. Positions are uniform and strictly inside the
    rectangles, in random order. Every check-in has a user of its own, all have the same time, and
    the location is the rectangle's index in the file, from 0. The same seed gives the same bytes.
    The number of check-ins is returned. Raises `InputError`, which names the file and if possible
    the line, if the file of counts is invalid.
    """
    rectangles, number = _read_rectangles(counts)
    random = np.random.default_rng(seed)
    location = random.permutation(np.repeat(np.arange(len(number)), number))
    south, west, north, east = rectangles[location].T
    table = pa.table(
        {
            "user": np.arange(len(location)),
            "time": pa.array([_TIME] * len(location)),
            "latitude": _between(south, north, random),
            "longitude": _between(west, east, random),
            "location": location,
        }
    )
    text = io.BytesIO()
    options = pyarrow.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    pyarrow.csv.write_csv(table, text, options)
    with replacing(destination) as temporary:
        temporary.write_bytes(gzip.compress(text.getbuffer(), compresslevel=1, mtime=0))
    return len(location)


def _between(low: Floats, high: Floats, random: np.random.Generator) -> Floats:
    share = _MARGIN + (1 - 2 * _MARGIN) * random.random(len(low))
    return np.round(low + share * (high - low), _DECIMALS)


def _read_rectangles(path: Path) -> tuple[Floats, Integers]:
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.reader(stream)
            if tuple(next(reader, ())) != COUNT_COLUMNS:
                raise InputError(f"{path}, line 1 must be {','.join(COUNT_COLUMNS)}")
            rows = [_rectangle(path, line, row) for line, row in enumerate(reader, start=2)]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is not a CSV file in UTF-8 ({error})") from error
    if not rows:
        raise InputError(f"{path} contains no rectangles")
    return np.array([row[:4] for row in rows]), np.array([row[4] for row in rows], dtype=np.int64)


def _rectangle(path: Path, line: int, row: list[str]) -> tuple[Any, ...]:
    try:
        south, west, north, east = map(float, row[:4])
        count = int(row[4])
    except (ValueError, IndexError) as error:
        raise InputError(
            f"{path}, line {line} must have four numbers and a count, got {','.join(row)}"
        ) from error
    # Comparisons with NaN are false, so these conditions hold only for valid rows.
    large_enough = north - south >= _MIN_SIDE and east - west >= _MIN_SIDE
    on_earth = south >= -90 and north <= 90 and west >= -180 and east <= 180
    if len(row) != 5 or not 1 <= count <= _MAX_COUNT or not (large_enough and on_earth):
        raise InputError(
            f"{path}, line {line} must have south < north and west < east in degrees of the earth, "
            f"and a count from 1 to {_MAX_COUNT}, and nothing else, got {','.join(row)}"
        )
    return south, west, north, east, count
