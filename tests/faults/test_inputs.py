"""A damaged file gives a clear error or the right table, never a traceback or a wrong one."""

import bisect
import gzip

import numpy as np
import pyarrow.parquet as pq
import pytest
from workflow.conftest import BOX, checkin_lines

from faults.damage import TEXT
from faults.reader import read
from shuffledp.data.checkins import crop_checkins
from shuffledp.data.grid import grid_checkins
from shuffledp.data.regions import Box, Region
from shuffledp.data.sources import SNAP, layout_from_config
from shuffledp.errors import InputError
from shuffledp.pipeline.tables import read_counts

ROWS = ("\n".join(checkin_lines(400)) + "\n").encode()
REGION = Region("town", Box(**BOX))
NAMES = ["u", "t", "lat", "lon", "loc"]
COLUMNS = ["user", "time", "latitude", "longitude", "location"]
NAMED = layout_from_config({"columns": dict(zip(COLUMNS, NAMES, strict=True))})
SHAPE = (3, 4)
FOREIGN = (b"PAR1", b"PK\x03\x04", b"\xff\xfe", b"\xfe\xff")


def expected(data, separator, share):
    """Return the rows in the region and how many are read and malformed, or None if refused."""
    if (
        data.startswith(FOREIGN)
        or b"\0" in data[:512]
        or data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<")
    ):
        return None
    try:
        rows = read(data, separator, NAMES if separator == "," else None)
    except KeyError:
        return None
    read_rows = len(rows.good) + rows.malformed + rows.unplaced
    inside = [
        row
        for row in rows.good
        if BOX["south"] <= row[2] <= BOX["north"] and BOX["west"] <= row[3] <= BOX["east"]
    ]
    guessed = separator != "," and 2 * rows.malformed >= read_rows
    few = 100 * len(rows.good) < read_rows
    if not inside or rows.malformed > share * read_rows or guessed or few:
        return None
    return inside, read_rows, rows.malformed


def cell_counts(rows):
    """Count the check-ins of each cell by bisection."""
    counts = [0] * (SHAPE[0] * SHAPE[1])
    y, x = (
        [low + (high - low) * i / cells for i in range(1, cells)]
        for low, high, cells in (
            (BOX["south"], BOX["north"], SHAPE[0]),
            (BOX["west"], BOX["east"], SHAPE[1]),
        )
    )
    for row in rows:
        counts[bisect.bisect(y, row[2]) * SHAPE[1] + bisect.bisect(x, row[3])] += 1
    return counts


def check_against_reader(folder, written, data, separator, share):
    """Crop and count a file, and compare the result with the reader in plain Python."""
    source, cropped, grid = (
        folder / name for name in ("in.txt", "cropped.parquet", "grid.parquet")
    )
    source.write_bytes(written)
    right_answer = None if data is None else expected(data, separator, share)
    layout = NAMED if separator == "," else SNAP
    try:
        tally = crop_checkins(
            source, layout, REGION, cropped, max_malformed_share=share, metadata={}
        )
    except InputError as error:
        assert right_answer is None, f"refused, but it can be read: {error}"
        assert str(source) in str(error)
        assert "\n" not in str(error)
        assert sorted(path.name for path in folder.iterdir()) == ["in.txt"]
        return "refused"
    assert right_answer is not None, "accepted, but it must be refused"
    rows, read_rows, malformed = right_answer
    table = pq.read_table(cropped)
    users, *others = (table[name].to_pylist() for name in COLUMNS)
    assert list(zip(*others, strict=True)) == [row[1:] for row in rows]
    check_users(users, [row[0] for row in rows])
    assert (tally.read, tally.malformed, tally.kept) == (read_rows, malformed, len(rows))
    grid_checkins(cropped, REGION, {"shape": list(SHAPE)}, grid, {})
    assert read_counts(grid).tolist() == cell_counts(rows)
    cropped.unlink()
    grid.unlink()
    return "right"


def check_users(users, expected_users):
    """Compare numbers exactly; other identifiers need only be alike where they should be."""
    assert list(map(users.index, users)) == list(map(expected_users.index, expected_users))
    for user, expected_user in zip(users, expected_users, strict=True):
        assert user == expected_user if not isinstance(expected_user, bytes) else user is not None


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_damaged_text(tmp_path, first):
    outcomes = []
    for seed in range(first, first + 50):
        random = np.random.default_rng(seed)
        kind = list(TEXT)[seed % len(TEXT)]
        separator = "," if random.random() < 0.4 else "\t"
        data = ROWS
        if separator == ",":
            data = b"u,t,lat,lon,loc\n" + data.replace(b"\t", b",")
        data = TEXT[kind](data, random, separator.encode())
        if separator == ",":  # tests/unit/test_text.py has another oracle of quoted fields
            data = data.replace(b'"', b"'")
        share = float(random.choice([0.0, 0.01, 1.0]))
        outcomes.append(check_against_reader(tmp_path, data, data, separator, share))
    assert {"right", "refused"} == set(outcomes), "both must be met"


def test_gzip_that_ends_early_or_has_a_wrong_check_value_is_refused(tmp_path):
    packed = gzip.compress(ROWS, mtime=0)
    for damaged in (packed[:-20], packed[:-8] + bytes(4) + packed[-4:], packed + b"more"):
        assert check_against_reader(tmp_path, damaged, None, "\t", 0.01) == "refused"
    twice = packed + gzip.compress(b"", mtime=0)
    assert check_against_reader(tmp_path, twice, ROWS, "\t", 0.01) == "right"
