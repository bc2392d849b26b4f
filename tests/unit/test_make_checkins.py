"""The made check-ins have the shape of the real ones, and are the same every time."""

import gzip
import statistics
import subprocess
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from shuffledp.geography.checkins import SNAP, Tally, crop_checkins
from shuffledp.geography.regions import Box, Region
from shuffledp.geography.text_files import CheckinError

MAKER = Path(__file__).parents[2] / "benchmarks" / "make_checkins.py"
ROWS = 20_000


def make(path, seed, *more):
    command = [sys.executable, MAKER, path, "--rows", str(ROWS), "--seed", str(seed), *more]
    subprocess.run(command, check=True, timeout=300)
    return path.read_bytes()


def test_made_check_ins(tmp_path):
    data = make(tmp_path / "a.txt.gz", 1)
    assert data == make(tmp_path / "b.txt.gz", 1)
    assert data != make(tmp_path / "c.txt.gz", 2)
    assert not list(tmp_path.glob("*.unfinished"))
    assert 15 < len(data) / ROWS < 18, "the real file has 16.4 bytes for each row"

    rows = [line.split("\t") for line in gzip.decompress(data).decode().splitlines()]
    world = Region("world", Box(-90, 90, -180, 180))
    out = tmp_path / "out.parquet"
    tally = crop_checkins(
        tmp_path / "a.txt.gz", SNAP, world, out, max_malformed_share=0, metadata={}
    )
    assert tally == Tally(read=ROWS, malformed=0, outside=0, kept=ROWS)

    users = [int(row[0]) for row in rows]
    assert users == sorted(users)
    newest_first = [(user, row[1]) for user, row in zip(users, rows, strict=True)]
    assert all(a[0] < b[0] or a[1] >= b[1] for a, b in pairwise(newest_first))
    assert all("2009-02" <= row[1][:7] <= "2010-10" for row in rows)

    sizes = sorted(Counter(users).values())
    assert 40 < statistics.mean(sizes) < 80
    assert max(sizes) > 20 * statistics.median(sizes), "few users have most of the check-ins"
    assert len({(row[0], row[2], row[3]) for row in rows}) < 0.6 * ROWS, "people come back"

    latitude, longitude = np.array([row[2:4] for row in rows], dtype=float).T
    halves = Counter(zip((latitude > 10).tolist(), (longitude > 0).tolist(), strict=True))
    assert min(halves[quarter] for quarter in halves) > ROWS / 50
    assert len(halves) == 4, "the whole world"
    index = np.array(users)
    near = 0
    for user in range(users[-1] + 1):
        own = index == user
        y, x = latitude[own], longitude[own]
        near += ((abs(y - np.median(y)) < 0.3) & (abs(x - np.median(x)) < 0.6)).sum()
    assert near > 0.8 * ROWS, "most check-ins are near home"


def test_the_largest_city_lies_where_it_is_wished(tmp_path):
    there = Region("there", Box(-34.4, -33.4, 17.9, 18.9))
    file, out = tmp_path / "a.txt.gz", tmp_path / "out.parquet"

    def kept(*options):
        make(file, 1, *options)
        return crop_checkins(file, SNAP, there, out, max_malformed_share=0, metadata={}).kept

    with pytest.raises(CheckinError, match="no check-in in region there"):
        kept()
    assert kept("--city", "-33.9", "18.4") > 100
