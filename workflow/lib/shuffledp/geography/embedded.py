"""Check-ins laid inside rectangles of known counts, in place of a file of real ones.

The repository ships counts, never check-ins. What `lay_checkins` writes is a file like SNAP's, so
that the stages after it run unchanged, with the histograms of the real check-ins on the grids that
the counts were made for. On other grids the histogram is only roughly that of the city.
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
# Whose check-ins the counts of a city are; the counts themselves do not tell.
PEOPLE: Final = {"paris": 1_026, "san_francisco": 5_564}
_DECIMALS: Final = 10  # as many as SNAP's
_MARGIN: Final = 0.05  # of a rectangle's side kept free at each edge
_THINNEST: Final = 1e-8  # degrees; a thinner one has no room for ten decimals off its edges
_LARGEST: Final = 10**9  # check-ins in a rectangle; more is a slip, not a city
_TIME: Final = "2010-01-01T00:00:00Z"


def lay_checkins(counts: Path, destination: Path, *, seed: int) -> int:
    """Write a file in SNAP's format with as many check-ins in each rectangle as counted.

    Parameters
    ----------
    counts : Path
        CSV with columns south, west, north, east (degrees) and count.
    destination : Path
        Tab-separated and packed with gzip. The positions are uniform and strictly inside the
        rectangles, their order is random; every check-in has its own user, all have the same time,
        the location is the rectangle's line number counted from 0. The same seed gives the same
        bytes.
    seed : int

    Returns
    -------
    int
        The number of check-ins.

    Raises
    ------
    InputError
        If the file of counts is not one, naming file and line.
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
        raise InputError(f"{path} holds no rectangles")
    return np.array([row[:4] for row in rows]), np.array([row[4] for row in rows], dtype=np.int64)


def _rectangle(path: Path, line: int, row: list[str]) -> tuple[Any, ...]:
    try:
        south, west, north, east = map(float, row[:4])
        count = int(row[4])
    except (ValueError, IndexError) as error:
        raise InputError(f"{path}, line {line} must hold four numbers and a count") from error
    # Comparisons with NaN are false, so each is one that has to hold.
    thick = north - south >= _THINNEST and east - west >= _THINNEST
    on_earth = south >= -90 and north <= 90 and west >= -180 and east <= 180
    if len(row) != 5 or not 1 <= count <= _LARGEST or not (thick and on_earth):
        raise InputError(
            f"{path}, line {line} must hold south < north, west < east in degrees and a "
            f"count of at least 1 and at most {_LARGEST} (got {','.join(row)})"
        )
    return south, west, north, east, count
