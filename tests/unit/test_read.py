"""Files of any format and folders of them are read as one source, in a fixed order."""

import bz2
import datetime
import gzip
import hashlib
import lzma
import os
import shutil

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from needs import needs
from reading import BY_NAME, HERE, NAMED, PARIS, UTC, crop, first_positions, read, refusal, write
from waiting import run

from shuffledp.data.checkins import Tally
from shuffledp.data.records import CheckinError
from shuffledp.data.sources import SNAP, layout_from_config
from shuffledp.errors import InputError
from shuffledp.pipeline.files import file_sha256, verified_sha256

MAPPED = {"user": "who", "time": "when", **BY_NAME}
PARQUET = layout_from_config({"format": "parquet", "columns": MAPPED})
MOMENT = datetime.datetime(2010, 7, 25, 11, 40, 18, tzinfo=UTC)
PACKERS = {
    "a.txt.gz": gzip.compress,
    "a.txt.bz2": bz2.compress,
    "a.txt.xz": lzma.compress,
    "a.txt.zst": lambda data: pa.Codec("zstd").compress(data).to_pybytes(),
}


@pytest.mark.parametrize("name", PACKERS)
def test_a_packed_file_is_read_and_a_damaged_one_is_refused(tmp_path, name):
    part, path = PACKERS[name](f"{HERE}\n".encode()), tmp_path / name
    for content, rows in ((part, 1), (part * 2, 2), (f"{HERE}\n", 1)):
        assert len(read(write(path, content), SNAP)[0]) == rows, "whatever the name says"
    random = np.random.default_rng(1).uniform(48.83, 48.87, 20_000)
    data = PACKERS[name]("".join(f"1\t\t{x}\t2.3\t1\n" for x in random).encode())
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 0x10
    for bad in (data[:-3], data[: len(data) // 2], data[:40], bytes(flipped)):
        if bad != flipped or "zst" not in name:  # zstd's checksum is optional, and not written here
            assert "is truncated or damaged" in refusal(write(path, bad), SNAP)


def test_lines_of_json_have_fields_by_name_or_path(tmp_path):
    lines = [
        '{"who": "7", "at": {"lat": 48.86, "lon": "2.33"}, "when": "2010-07-25T11:40:18Z"}',
        '{"at": {"lon": 2.34, "lat": 48.85}, "who": 007.0}',
        '{"at": {"lon": 2.34, "lat": 4.885e1}, "who": 7.0, "when": null}',
        '\n{"who": 1e30, "at": {"lat": 1, "lon": 2}}\r',
        '{"who": 8, "at": {"lat": true, "lon": 2}}',
        '{"who": 9, "at": {"lat": NaN, "lon": 2}}',
        "[1]",
    ]
    columns = {**MAPPED, "latitude": "at.lat", "longitude": "at.lon"}
    source = write(tmp_path / "exports" / "a.jsonl", "\n".join(lines))
    rows, survey = read(source, format="json", columns=columns)
    assert [row["user"] for row in rows] == [b"7", b"7", b"1e30"]
    assert [(row["time"], row["latitude"]) for row in rows[:2]] == [(MOMENT, 48.86), (None, 48.85)]
    assert (survey.read, survey.malformed, survey.unplaced) == (7, 3, 1)
    reasons = ["line is not JSON", "field is neither a text nor a number", "is not a JSON object"]
    assert [place for place, _ in survey.faults] == ["line 2", "line 6", "line 8"]
    assert all(part in fault for part, (_, fault) in zip(reasons, survey.faults, strict=True))
    assert read(source.parent, format="json", columns=columns)[0] == rows


# --- Parquet ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("user", "time"),
    [
        (pa.array([7, None], pa.int32()), pa.array([MOMENT, None], pa.timestamp("ns", "UTC"))),
        (pa.array([7, None], pa.uint64()), pa.array([MOMENT, None], pa.timestamp("s"))),
        (pa.array([7.0, np.nan]), pa.array([MOMENT, None], pa.timestamp("ms", "Europe/Paris"))),
        (pa.array(["7.0", None]).dictionary_encode(),
         pa.array(["2010-07-25 11:40:18", None], pa.large_string())),
        (pa.array(["7", ""], pa.string_view()), pa.array(["2010-07-25T11:40:18Z", ""])),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [pa.float64(), pa.string(), pa.decimal128(8, 4)])
def test_columns_may_have_any_type_and_be_nested(tmp_path, user, time, kind):
    y, x = (pa.array([each, each]).cast(kind) for each in ("48.8600", "2.3300"))
    at = pa.StructArray.from_arrays([x, user], ["deg", "who"])
    source = write(tmp_path / "a.parquet", {"extra": [0, 0], "lat": y, "when": time, "at.a": at})
    pq.write_table(pq.read_table(source).rename_columns(["extra", "lat", "when", "at"]), source)
    columns = {**MAPPED, "longitude": "at.deg", "user": "at.who"}
    rows, tally = crop(source, layout_from_config({"format": "parquet", "columns": columns}))
    assert tally == Tally(read=2, kept=2)
    assert [(row["user"], row["time"]) for row in rows] == [(7, MOMENT), (None, None)]
    assert {(row["latitude"], row["longitude"]) for row in rows} == {(48.86, 2.33)}
    with pytest.raises(CheckinError, match=r"no column 'at\.lat'"):
        read(source, format="parquet", columns={**columns, "latitude": "at.lat"})


def scattered(rows):
    """Return check-ins in and around Paris, some malformed or without a position, of every kind."""
    random = np.random.default_rng(5)
    y, x = random.uniform(48.7, 49.0, rows), random.uniform(2.2, 2.5, rows)
    y[random.random(rows) < 0.01] = 91
    x[random.random(rows) < 0.01] = np.nan
    missing = random.random(rows) < 0.1
    times = pa.array(random.integers(0, 2**50, rows), pa.timestamp("us"), mask=missing)
    columns = {"lat": pa.array(y, mask=random.random(rows) < 0.01), "lon": x, "when": times}
    columns["p"] = pa.array(random.integers(0, 99, rows), pa.int16(), mask=missing)
    return pa.table(columns | {"who": [f"user {each}" for each in random.integers(0, 500, rows)]})


@pytest.mark.parametrize("group_rows", [7, 5_000, 400_000])
def test_parquet_agrees_with_duckdb_whatever_its_row_groups(tmp_path, group_rows):
    made = scattered(2_000 if group_rows < 100 else 300_000)
    pq.write_table(made, tmp_path / "a.parquet", row_group_size=group_rows)
    layout = layout_from_config({"format": "parquet", "columns": {**MAPPED, "location": "p"}})
    _, tally = crop(tmp_path / "a.parquet", layout, share=0.5)
    box = PARIS.box
    inside = f"lat BETWEEN {box.south} AND {box.north} AND lon BETWEEN {box.west} AND {box.east}"
    # The file would not do: by its statistics, which ignore NaN, DuckDB takes NaN for valid there.
    database = duckdb.connect()
    database.register("made", made)
    query = f'SELECT lat, lon, epoch_us("when"), p, who FROM made WHERE {inside}'
    *expected, users = zip(*database.sql(query).fetchall(), strict=True)
    counted = "count(*) FILTER (lat IS NULL OR isnan(lon)), count(*) FILTER (lat = 91 AND lon < 9)"
    ((unplaced, wrong),) = database.sql(f"SELECT {counted} FROM made").fetchall()
    outside = len(made) - wrong - unplaced - len(users)
    assert tally == Tally(len(made), wrong, unplaced, outside, len(users))
    assert min(wrong, unplaced) > 0.005 * len(made) and len(users) > 0.05 * len(made)
    rows = pq.read_table(tmp_path / "out" / "cropped.parquet")
    names = ["latitude", "longitude", "time", "location"]
    own = [rows[name].cast(pa.int64()) if name == "time" else rows[name] for name in names]
    assert [tuple(column.to_pylist()) for column in own] == expected
    assert first_positions(rows["user"].to_pylist()) == first_positions(users)


# --- Folders ------------------------------------------------------------------------------------


def part(path, first, latitudes, **replaced):
    """Write a file whose rows are users first, first + 1, ... at these latitudes."""
    rows = len(latitudes)
    columns = {"lat": pa.array(latitudes, pa.float64()), "lon": pa.array([2.33] * rows)}
    columns |= {"who": pa.array(range(first, first + rows)), "when": pa.array([MOMENT] * rows)}
    columns["who"] = columns["who"].cast(pa.int64())
    return write(path, {name: each for name, each in (columns | replaced).items() if len(each)})


@pytest.fixture
def folder(tmp_path):
    """Write five rows to two files, not in the order of their names."""
    path = tmp_path / "check-ins of é"
    part(path / "b.parquet", 30, [48.83, 10.0])
    part(path / "a.parquet", 10, [48.84, 48.85, 48.86])
    return path


def users(source):
    return [row["user"] for row in read(source, PARQUET)[0]]


def test_files_of_a_folder_are_read_by_name_whatever_else_there_is(folder, caplog):
    for name, first in (("B", 50), ("a-10", 60), ("a-9", 70)):
        part(folder / f"{name}.parquet", first, [48.85])
    for name in ("_SUCCESS", ".b.parquet.crc", ".hidden.parquet", "notes.md", ".cache/c.parquet"):
        write(folder / name, "no parquet")
    assert users(folder) == [50, 60, 70, 10, 11, 12, 30, 31], "by code point, whatever the locale"
    assert "notes.md is not read" in caplog.text


def test_a_folder_gives_the_same_bytes_as_one_file(tmp_path, caplog):
    latitudes = np.random.default_rng(4).uniform(48.8, 48.9, 300_000)
    latitudes[200_000] = 99
    whole = part(tmp_path / "whole.parquet", 0, latitudes)
    for start in range(0, 300_000, 70_000):
        part(tmp_path / "a" / f"{start:06}.parquet", start, latitudes[start : start + 70_000])
    cropped = []
    for source in (tmp_path / "a", whole):
        kept = crop(source, PARQUET, share=0.1)[1].kept
        assert kept == ((latitudes >= 48.8286) & (latitudes <= 48.8798)).sum()
        cropped.append((tmp_path / "out" / "cropped.parquet").read_bytes())
    assert cropped[0] == cropped[1] and "whole.parquet, row 200001: latitude is not" in caplog.text


def test_keys_of_hive_partitions_are_columns(folder):
    (folder / "b.parquet").unlink()
    for key in ("007.0", "__HIVE_DEFAULT_PARTITION__", "a%20b"):
        part(folder / "year=2010" / f"who={key}" / "a.parquet", 0, [48.0], who=[])
    assert users(folder) == [10, 11, 12, b"7", None, b"a b"]
    part(folder / "b.parquet", 40, [48.0], who=[])
    with pytest.raises(CheckinError, match=r"b\.parquet has no column 'who' \(columns\.user\)"):
        users(folder)


def test_a_folder_of_text_is_read_by_path(tmp_path):
    folder = tmp_path / "exports"
    write(folder / "b.csv", "lon,lat,who\n2.33,48.85,3\n")
    write(folder / "a.csv.gz", gzip.compress(b"who,lat,lon\n1,48.85,2.33\n2,10,2.33\n"))
    write(folder / "month=2010-01" / "a.txt", "lon,lat,who\n2.33,48.85,4\n2.33,north,5\n")
    write(folder / "empty.csv", "lon,lat,who\n")
    layout = layout_from_config({"columns": {"user": "who", **BY_NAME}})
    rows, survey = read(folder, layout)
    assert [row["user"] for row in rows] == [b"1", b"2", b"3", b"4"]
    assert (survey.read, survey.malformed) == (5, 1)
    assert "the first is month=2010-01/a.txt, line 3: latitude is not" in refusal(folder, layout)


def test_folders_that_are_not_as_the_layout_says_are_refused(tmp_path, folder):
    assert "files are parquet: set format: parquet" in refusal(folder, NAMED)
    part(folder / "B.parquet", 0, [1.0], lat=pa.array([[1.0]]))
    assert "columns.latitude names a column of type list" in refusal(folder, PARQUET)
    (folder / "B.parquet").unlink()
    (folder / "B.parquet").symlink_to(folder / "gone.parquet")
    assert "B.parquet cannot be read (No such file" in refusal(folder, PARQUET)
    (folder / "B.parquet").unlink()
    empty = write(tmp_path / "empty" / "part.csv", "lat,lon\n48,2\n").parent
    assert "is a folder without files *.parquet" in refusal(empty, PARQUET)
    (folder / "b.parquet").write_bytes((folder / "b.parquet").read_bytes()[:-20])
    assert "b.parquet cannot be read as parquet" in refusal(folder, PARQUET)
    (folder / "b.parquet").write_text("48.0,2.0\n")
    assert "b.parquet is csv, but format is parquet" in refusal(folder, PARQUET)
    (folder / "year=2010" / "_delta_log").mkdir(parents=True)
    assert "year=2010 contains the folder '_delta_log'" in refusal(folder, PARQUET)


@pytest.mark.skipif(not shutil.which("sha256sum"), reason=needs("machine", "no sha256sum"))
@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_the_checksum_agrees_with_sha256sum_and_every_change_changes_it(folder, algorithm):
    for name in ("_SUCCESS", ".hidden.parquet", "B é.parquet"):
        (folder / name).touch()
    listing = run(["sh", "-c", f"LC_ALL=C {algorithm}sum *.parquet"], 300, cwd=folder).stdout
    assert listing.count("\n") == 3
    verified_sha256(folder, f"{algorithm}:{hashlib.new(algorithm, listing.encode()).hexdigest()}")
    seen = [file_sha256(folder)]
    (folder / "b.parquet").rename(folder / "c.parquet")
    seen.append(file_sha256(folder))
    part(folder / "c.parquet", 31, [48.03, 10.0])
    os.utime(folder / "a.parquet", (0, 0))
    assert len({*seen, file_sha256(folder)}) == 3
    with pytest.raises(InputError, match=f"sha256 is .*, not {seen[0]} as configured"):
        verified_sha256(folder, f"sha256:{seen[0]}")
