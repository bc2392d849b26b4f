"""The generated check-ins resemble the real ones, and are the same every time."""

import gzip
import statistics
from collections import Counter
from pathlib import Path

from waiting import run_python

from shuffledp.data.checkins import Tally, crop_checkins
from shuffledp.data.regions import Box, Region
from shuffledp.data.sources import SNAP

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "make_checkins.py"
ROWS = 20_000


def make(path, seed, *options):
    assert run_python(SCRIPT, path, "--rows", ROWS, "--seed", seed, *options).returncode == 0
    return path.read_bytes()


def test_generated_check_ins(tmp_path):
    data = make(tmp_path / "a.txt.gz", 1)
    assert data == make(tmp_path / "b.txt.gz", 1)
    assert data != make(tmp_path / "c.txt.gz", 2)
    assert not list(tmp_path.glob("*.unfinished"))
    assert 15 < len(data) / ROWS < 18, "the real file has 16.4 bytes per row"
    out = tmp_path / "out.parquet"
    world = Region("world", Box(-90, 90, -180, 180))
    options = {"max_malformed_share": 0, "metadata": {}}
    tally = crop_checkins(tmp_path / "a.txt.gz", SNAP, world, out, **options)
    assert tally == Tally(read=ROWS, kept=ROWS)
    rows = [line.split("\t") for line in gzip.decompress(data).decode().splitlines()]
    sizes = sorted(Counter(row[0] for row in rows).values())
    assert 40 < statistics.mean(sizes) < 80
    assert max(sizes) > 20 * statistics.median(sizes), "few users have most of the check-ins"
    assert len({(row[0], row[2], row[3]) for row in rows}) < 0.6 * ROWS, "users return to places"
    assert len({(float(y) > 10, float(x) > 0) for _, _, y, x, _ in rows}) == 4, "the whole world"


def test_the_largest_city_lies_where_it_is_wanted(tmp_path):
    make(tmp_path / "a.txt.gz", 1, "--city", "-33.9", "18.4")
    town = Region("town", Box(-34.4, -33.4, 17.9, 18.9))
    options = {"max_malformed_share": 0, "metadata": {}}
    out = tmp_path / "out.parquet"
    assert crop_checkins(tmp_path / "a.txt.gz", SNAP, town, out, **options).kept > 100
