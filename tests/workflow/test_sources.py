"""Two sources of different layouts serve one run, and a changed folder is read again."""

import csv
import os
import random
import re

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shuffledp.pipeline.files import file_sha256
from shuffledp.pipeline.tables import read_metadata

pytestmark = pytest.mark.workflow
PORT = {"south": 10.0, "north": 10.1, "west": -20.1, "east": -20.0}
HILL = {"south": -33.5, "north": -33.4, "west": 70.0, "east": 70.2}


def _points(box, rows, seed):
    rng = random.Random(seed)
    return [
        (rng.uniform(box["south"], box["north"]), rng.uniform(box["west"], box["east"]))
        for _ in range(rows)
    ]


def _write_part(path, points):
    y, x = zip(*points, strict=True)
    pq.write_table(pa.table({"lng": x, "lat": y, "uid": [str(i) for i in range(len(y))]}), path)


@pytest.fixture
def two_sources(clone):
    """Let port read a semicolon-separated file in local time, and hill three parquet files."""
    with (clone.path / "port check-ins.csv").open("w", newline="") as stream:
        writer = csv.writer(stream, delimiter=";")
        writer.writerow(["when", "longitude", "latitude", "comment"])
        for number, (y, x) in enumerate(_points(PORT, 700, 1) + _points(HILL, 50, 2)):
            writer.writerow([f"2011-01-01T{number % 24:02d}:30:00-01:00", x, y, "a;b"])
    folder = clone.path / "hill check-ins"
    folder.mkdir()
    for number in range(3):
        _write_part(folder / f"part-{number}.parquet", _points(HILL, 300, 10 + number))
    (folder / "_SUCCESS").touch()
    text = {"format": "csv", "separator": ";"}
    text["columns"] = {"latitude": "latitude", "longitude": "longitude", "time": "when"}
    columns = {"latitude": "lat", "longitude": "lng", "user": "uid"}
    parquet = {"format": "parquet", "columns": columns}
    clone.config["sources"] = {
        "file": {"kind": "file", "path": "port check-ins.csv", "layout": text},
        "folder": {"kind": "file", "path": "hill check-ins/", "layout": parquet},
    }
    clone.config["source"] = "file"
    grids = {"shape": {"shape": [3, 4]}}
    clone.config["regions"] = {
        "port": {"box": PORT, "grids": grids, "n": ["all"]},
        "hill": {"box": HILL, "grids": grids, "n": ["all"], "source": "folder"},
    }
    return clone


TARGETS = ["results/checkins/port.parquet", "results/checkins/hill.parquet"]


def _read(clone):
    """Run, and return the message, which regions were read, and how many check-ins each has."""
    result = clone.run(*TARGETS)
    text = result.stdout + result.stderr
    regions = set(re.findall(r"output: results/checkins/(\w+)\.parquet", text))
    return text, regions, [pq.read_metadata(clone.path / target).num_rows for target in TARGETS]


@pytest.mark.slow
def test_two_sources_of_different_layouts_in_one_run(two_sources):
    clone = two_sources
    folder = clone.path / "hill check-ins"
    text, regions, rows = _read(clone)
    assert regions == {"port", "hill"}
    assert rows == [700, 900]
    assert "port check-ins.csv in port: 750 rows read: 0 malformed, 50 outside, 700 kept" in text
    assert "hill check-ins in hill: 900 rows read: 0 malformed, 0 outside, 900 kept" in text
    port, hill = (pd.read_parquet(clone.path / target) for target in TARGETS)
    assert str(port["time"].min()) == "2011-01-01 01:30:00+00:00"
    assert port["user"].isna().all()
    assert hill["user"].tolist() == [*range(300)] * 3
    assert read_metadata(clone.path / TARGETS[1])["source_sha256"] == file_sha256(folder)

    # A file changed in place leaves the folder's own time as it was.
    _write_part(folder / "part-1.parquet", _points(HILL, 200, 20))
    assert _read(clone)[1:] == ({"hill"}, [700, 800])
    # Only the list of names changes: nothing in the folder is newer than the check-ins.
    (folder / "part-0.parquet").unlink()
    os.utime(folder, (0, 0))
    assert _read(clone)[1:] == ({"hill"}, [700, 500])
