"""A folder of files is one source, with a fixed order and a checksum."""

import datetime
import gzip
import hashlib
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from needs import needs
from shuffledp.errors import InputError
from shuffledp.geography.checkins import CheckinError, Layout, Tally, crop_checkins
from shuffledp.geography.regions import Box, Region
from shuffledp.pipeline.files import file_sha256, verified_sha256
from waiting import run

TOWN = Region("town", Box(south=48.0, north=48.1, west=2.0, east=2.1))
COLUMNS = {"user": "who", "time": "when", "latitude": "y", "longitude": "x"}
LAYOUT = Layout("parquet", ",", True, COLUMNS)
START = datetime.datetime(2010, 1, 1, tzinfo=datetime.UTC)


def part(path, first, latitudes, **replaced):
    """Write a file whose rows are users first, first + 1, ... at these latitudes."""
    rows = len(latitudes)
    columns = {
        "x": pa.array([2.05] * rows),
        "y": pa.array(latitudes, pa.float64()),
        "who": pa.array(range(first, first + rows), pa.int64()),
        "when": pa.array([START] * rows, pa.timestamp("us", tz="UTC")),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    columns |= replaced
    pq.write_table(
        pa.table({name: data for name, data in columns.items() if data is not None}), path
    )


@pytest.fixture
def folder(tmp_path):
    """Write five rows to two files and none to a third, not in the order of their names."""
    path = tmp_path / "check-ins of é"
    part(path / "b.parquet", 30, [48.03, 10.0])
    part(path / "a.parquet", 10, [48.01, 48.02, 48.09])
    part(path / "a-empty.parquet", 0, [])
    return path


def crop(tmp_path, source, *, layout=LAYOUT, share=0.0):
    out = tmp_path / "out.parquet"
    tally = crop_checkins(source, layout, TOWN, out, max_malformed_share=share, metadata={})
    return pq.read_table(out)["user"].to_pylist(), tally


def refusal(tmp_path, source, **options):
    with pytest.raises(CheckinError) as caught:
        crop(tmp_path, source, **options)
    assert not (tmp_path / "out.parquet").exists()
    return str(caught.value)


def test_files_are_read_by_name_as_one_table(tmp_path, folder):
    users, tally = crop(tmp_path, folder)
    assert users == [10, 11, 12, 30]
    assert tally == Tally(read=5, malformed=0, outside=1, kept=4)
    part(folder / "B.parquet", 50, [48.05])
    part(folder / "a-10.parquet", 60, [48.05])
    part(folder / "a-9.parquet", 70, [48.05])
    users, _ = crop(tmp_path, folder)
    assert users == [50, 60, 70, 10, 11, 12, 30], "by code point, whatever the locale"


def test_the_same_bytes_as_from_one_file(tmp_path, folder):
    random = np.random.default_rng(4)
    latitudes = random.uniform(47.9, 48.2, 300_000).tolist()
    part(tmp_path / "whole.parquet", 100, latitudes)
    shutil.rmtree(folder)
    for number, start in enumerate(range(0, 300_000, 70_000)):
        part(folder / f"{number}.parquet", 100 + start, latitudes[start : start + 70_000])
    contents = []
    for source in (folder, tmp_path / "whole.parquet"):
        users, tally = crop(tmp_path, source)
        assert tally.kept == sum(48 <= y <= 48.1 for y in latitudes) == len(users)
        contents.append((tmp_path / "out.parquet").read_bytes())
    assert contents[0] == contents[1]


def test_other_files_in_the_folder_are_ignored(tmp_path, folder, caplog):
    for name in ("_SUCCESS", ".b.parquet.crc", ".hidden.parquet", "notes.txt"):
        (folder / name).write_text("no parquet")
    (folder / ".cache").mkdir()
    users, _ = crop(tmp_path, folder)
    assert users == [10, 11, 12, 30]
    assert "only files *.parquet are read; ignored notes.txt" in caplog.text


def test_malformed_rows_name_their_file(tmp_path, folder, caplog):
    part(folder / "c.parquet", 40, [48.0, None, 48.0])
    _, tally = crop(tmp_path, folder, share=0.2)
    assert tally == Tally(read=8, malformed=1, outside=1, kept=6)
    assert f"{folder}, c.parquet, row 2: latitude is missing" in caplog.text
    (tmp_path / "out.parquet").unlink()
    assert "the first is c.parquet, row 2" in refusal(tmp_path, folder)


def test_empty_folders(tmp_path, folder):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "is a folder without files *.parquet" in refusal(tmp_path, empty)
    (empty / "part.csv").write_text("y,x\n48,2\n")
    assert "is a folder without files *.parquet" in refusal(tmp_path, empty)
    shutil.copy(folder / "a-empty.parquet", empty)
    assert "contains no rows" in refusal(tmp_path, empty)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"y": pa.array(["48.0"])}, "'y' (string) for columns.latitude"),
        ({"when": pa.array([START.replace(tzinfo=None)])}, "'when' (timestamp[us]) for columns.ti"),
        ({"who": pa.array([1], pa.int32())}, "'who' (int32) for columns.user"),
        ({"who": None}, "c.parquet has no column 'who' (columns.user)"),
    ],
)
def test_mixed_schemas(tmp_path, folder, columns, message):
    part(folder / "c.parquet", 40, [48.0], **columns)
    assert message in refusal(tmp_path, folder)


def test_order_and_unmapped_columns_may_differ(tmp_path, folder):
    part(folder / "c.parquet", 40, [48.0], extra=pa.array(["x"]))
    table = pq.read_table(folder / "c.parquet")
    pq.write_table(table.select(["when", "y", "extra", "x", "who"]), folder / "c.parquet")
    users, _ = crop(tmp_path, folder)
    assert users == [10, 11, 12, 30, 40]
    by_position = Layout("parquet", ",", True, {"latitude": 1, "longitude": 0})
    (tmp_path / "out.parquet").unlink()
    message = refusal(tmp_path, folder, layout=by_position)
    assert "has 'when' (timestamp[us, tz=UTC]) for columns.longitude" in message


def test_damaged_and_foreign_files(tmp_path, folder):
    whole = (folder / "b.parquet").read_bytes()
    (folder / "b.parquet").write_bytes(whole[:-20])
    assert "b.parquet cannot be read as parquet" in refusal(tmp_path, folder)
    (folder / "b.parquet").write_text("48.0,2.0\n")
    assert "b.parquet is not a parquet file" in refusal(tmp_path, folder)
    (folder / "b.parquet").unlink()
    (folder / "b.parquet").symlink_to(folder / "gone.parquet")
    assert "b.parquet cannot be read (No such file" in refusal(tmp_path, folder)


def test_hive_partitions_are_read_by_path(tmp_path, folder):
    part(folder / "year=2011" / "a.parquet", 60, [48.05])
    part(folder / "year=2010" / "a.parquet", 50, [48.05, 91.0])
    (folder / "year=2010" / "_SUCCESS").touch()
    users, tally = crop(tmp_path, folder, share=0.2)
    assert users == [10, 11, 12, 30, 50, 60]
    assert tally == Tally(read=8, malformed=1, outside=1, kept=6)
    (tmp_path / "out.parquet").unlink()
    assert "the first is year=2010/a.parquet, row 2" in refusal(tmp_path, folder)


CSV = Layout("csv", ",", True, {"user": "who", "latitude": "y", "longitude": "x"})


def test_a_folder_of_text_is_read_by_path(tmp_path):
    folder = tmp_path / "exports"
    (folder / "month=2010-01").mkdir(parents=True)
    (folder / "b.csv").write_text("x,y,who\n2.05,48.05,3\n")
    (folder / "a.csv.gz").write_bytes(gzip.compress(b"who,y,x\n1,48.05,2.05\n2,10,2.05\n"))
    (folder / "month=2010-01" / "a.txt").write_text("x,y,who\n2.05,48.05,4\n2.05,north,5\n")
    (folder / "empty.csv").write_text("x,y,who\n")
    users, tally = crop(tmp_path, folder, layout=CSV, share=0.2)
    assert users == [1, 3, 4]
    assert tally == Tally(read=5, malformed=1, outside=1, kept=3)
    (tmp_path / "out.parquet").unlink()
    message = refusal(tmp_path, folder, layout=CSV)
    assert "the first is month=2010-01/a.txt, line 3" in message


def test_other_folders_and_another_format_are_refused(tmp_path, folder):
    message = refusal(tmp_path, folder, layout=CSV)
    assert "without files *.csv, *.tsv or *.txt; its files are parquet: set format" in message
    part(folder / "year=2010" / "old" / "c.parquet", 40, [48.0])
    assert "year=2010 contains the folder 'old'" in refusal(tmp_path, folder)
    shutil.rmtree(folder / "year=2010")
    (folder / "_delta_log").mkdir()
    assert "contains the folder '_delta_log'" in refusal(tmp_path, folder)


def test_coordinates_in_single_precision(tmp_path):
    folder = tmp_path / "single"
    y = pa.array([48.05, 91.0, None, 47.9, 48.1], pa.float32())
    part(folder / "a.parquet", 1, [0.0] * 5, y=y, x=pa.array([2.05] * 5, pa.float32()))
    users, tally = crop(tmp_path, folder, share=0.5)
    assert users == [1, 5]  # the single nearest to 48.1 is 48.099998
    assert tally == Tally(read=5, malformed=2, outside=1, kept=2)
    latitudes = pq.read_table(tmp_path / "out.parquet")["latitude"].to_pylist()
    assert latitudes == [float(np.float32(48.05)), float(np.float32(48.1))]


@pytest.mark.skipif(not shutil.which("sha256sum"), reason=needs("machine", "no sha256sum"))
@pytest.mark.parametrize("algorithm", ["sha256", "md5"])
def test_the_checksum_agrees_with_sha256sum_and_md5sum(folder, algorithm):
    (folder / "_SUCCESS").touch()
    (folder / ".hidden.parquet").touch()
    part(folder / "B é.parquet", 50, [48.05])
    command = ["sh", "-c", f"LC_ALL=C {algorithm}sum *.parquet"]
    listing = run(command, 300, cwd=folder).stdout
    assert listing.count("\n") == 4
    expected = hashlib.new(algorithm, listing.encode()).hexdigest()
    verified_sha256(folder, f"{algorithm}:{expected}")
    if algorithm == "sha256":
        assert file_sha256(folder) == expected


def test_every_change_changes_the_checksum(folder):
    seen = [file_sha256(folder)]
    (folder / "b.parquet").rename(folder / "c.parquet")
    seen.append(file_sha256(folder))
    part(folder / "c.parquet", 31, [48.03, 10.0])
    seen.append(file_sha256(folder))
    (folder / "a-empty.parquet").unlink()
    seen.append(file_sha256(folder))
    assert len(set(seen)) == len(seen)
    with pytest.raises(InputError, match=f"sha256 is {seen[-1]}, not {seen[0]} as configured"):
        verified_sha256(folder, f"sha256:{seen[0]}")
    os.utime(folder / "c.parquet", (0, 0))
    assert file_sha256(folder) == seen[-1], "times do not count"
