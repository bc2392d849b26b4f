"""Files of other layouts and clocks, against Python's own reading of their times."""

import csv
import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from shuffledp.geography.checkins import SNAP, crop_checkins, layout_from_config
from shuffledp.geography.regions import Box, Region

UTC = datetime.UTC
TOKYO = Region("tokyo", Box(south=35.6, north=35.8, west=139.6, east=139.9))
# Other names, order and separator; quotation marks, a decimal comma in a column that is not read.
LAYOUT = layout_from_config(
    {
        "format": "csv",
        "separator": ";",
        "columns": {"latitude": "緯度", "longitude": "経度", "time": "local time", "user": "who"},
    }
)
OFFSET = [
    "2012-04-04T03:00:09+09:00",
    "2012-04-03 23:59:59.25+09:00",
    "2012-02-29T08:59:59+0900",
    "2011-12-31T23:30:00-03:30",
    "2012-04-03T18:00:09Z",
]
NAIVE = ["2012-04-04T03:00:09", "2012-04-03 23:59:59.25", "2012-02-29 00:00:00", "2012-12-31"]


def utc(text):
    """Read a time by itself; without a zone it is taken as UTC."""
    moment = datetime.datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


def cropped(source, layout):
    out = source.with_name("out.parquet")
    tally = crop_checkins(source, layout, TOKYO, out, max_malformed_share=0, metadata={})
    return pq.read_table(out).to_pylist(), tally


def write_csv(path: Path, times):
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, delimiter=";", quoting=csv.QUOTE_NONNUMERIC)
        writer.writerow(["note", "経度", "who", "local time", "緯度"])
        for number, time in enumerate(times):
            writer.writerow(["1,5; é", 139.7, 100 + number, time, 35.7])


@pytest.mark.parametrize(
    "times",
    [[OFFSET[0]] * 40, OFFSET, NAIVE, OFFSET + NAIVE, [*NAIVE, "", *OFFSET]],
    ids=["one offset", "offsets", "naive", "offsets and naive", "some missing"],
)
def test_times_of_a_file_with_other_columns(tmp_path, times):
    source = tmp_path / "check-ins.csv"
    write_csv(source, times)
    rows, tally = cropped(source, LAYOUT)
    assert (tally.read, tally.kept) == (len(times), len(times))
    assert [row["time"] for row in rows] == [utc(text) if text else None for text in times]
    assert [row["user"] for row in rows] == list(range(100, 100 + len(times)))
    assert {(row["latitude"], row["longitude"]) for row in rows} == {(35.7, 139.7)}


def test_the_same_moment_however_it_is_written(tmp_path):
    """SNAP, local time with an offset and parquet with a named zone agree."""
    moment = datetime.datetime(2012, 4, 3, 18, 0, 9, tzinfo=UTC)
    snap, table, parquet = (tmp_path / name for name in ("a.txt", "b.csv", "c.parquet"))
    snap.write_text("100\t2012-04-03T18:00:09Z\t35.7\t139.7\t1\n")
    write_csv(table, ["2012-04-04T03:00:09+09:00"])
    pq.write_table(
        pa.table(
            {
                "緯度": [35.7],
                "経度": [139.7],
                "who": [100],
                "local time": pa.array([moment], pa.timestamp("s", tz="Asia/Tokyo")),
            }
        ),
        parquet,
    )
    named = layout_from_config({"format": "parquet", "columns": dict(LAYOUT.columns)})
    for source, layout in ((snap, SNAP), (table, LAYOUT), (parquet, named)):
        ((row,), _) = cropped(source, layout)
        assert (row["time"], row["user"]) == (moment, 100)


def test_parquet_times_without_a_zone_are_utc_too(tmp_path):
    local = datetime.datetime(2012, 4, 4, 3, 0, 9)
    source = tmp_path / "x.parquet"
    columns = {"y": [35.7], "x": [139.7], "t": pa.array([local], pa.timestamp("ns"))}
    pq.write_table(pa.table(columns), source)
    layout = layout_from_config(
        {"format": "parquet", "columns": {"latitude": "y", "longitude": "x", "time": "t"}}
    )
    ((row,), _) = cropped(source, layout)
    assert row["time"] == local.replace(tzinfo=UTC)
