"""Input that is meant to mislead the command or a job, or to keep it busy."""

import gzip
import io
import os
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shuffledp import input_files
from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.setting import Setting
from shuffledp.cli import main
from shuffledp.data import text as text_reader
from shuffledp.data.checkins import crop_checkins
from shuffledp.data.regions import region_from_config
from shuffledp.data.sources import layout_from_config
from shuffledp.errors import InputError, one_line
from shuffledp.figures.map_panels import backdrop
from shuffledp.numerics.number_parsing import number

SETTING = ["--n", "100", "--k", "3", "--eps0", "1"]
COMPARE = ["compare", "--eps", "1", "--delta", "1e-6", "--mechanism", "gaussian", "--histogram"]


def run(capsys, *arguments):
    """Run the command; return its status and its single line of standard error."""
    try:
        status = main(list(arguments))
    except SystemExit as stopped:
        status = stopped.code
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert len(err) < 1_500
    return status, err


@pytest.mark.parametrize(
    "text", ["1_0", "٣", "0x64", "1e", "", ".", "1 0", "１", "1e9999999999", "1e999999999"]
)
def test_numbers_in_unusual_notation_are_refused(text):
    with pytest.raises(ValueError, match="number"):
        number(text)
    assert number(" +1.5e-3 ") == 1.5e-3


def test_messages_are_one_readable_line(capsys, tmp_path):
    assert one_line("a\n\x1b[2Jb") == "a \\x1b[2Jb"
    assert len(one_line("x" * 10**6)) < 200
    assert len(one_line("word " * 10**5)) <= 1_000
    path = tmp_path / "m.csv"
    path.write_text(",".join(["0.5"] * 5000 + ["x" * 10**5]) + "\n")
    _, err = run(capsys, "matrix", str(path), "--n", "9", "--eps", "1")
    assert "line 1: report 5000 must be a number" in err


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_pipes_and_devices_are_refused(capsys, tmp_path, suffix):
    pipe = tmp_path / f"pipe{suffix}"
    os.mkfifo(pipe)
    (tmp_path / f"zero{suffix}").symlink_to("/dev/zero")
    for source in (pipe, tmp_path / f"zero{suffix}", tmp_path):
        status, err = run(capsys, *COMPARE, str(source))
        assert status == 2
        assert "not a regular file" in err


def test_a_file_with_too_many_rows_is_not_loaded(capsys, tmp_path, monkeypatch):
    path = tmp_path / "rows.parquet"
    # A constant column is tiny in the file, but takes 8 bytes per row in memory.
    rows = pa.chunked_array([pa.array(np.ones(1_000_000, np.int64))] * 3)
    pq.write_table(pa.table({"count": rows}), path)
    assert path.stat().st_size < 100_000
    status, err = run(capsys, *COMPARE, str(path))
    assert status == 2
    assert "3,000,000 rows" in err
    monkeypatch.setattr(input_files, "MAX_VALUES", 3)
    for name, text in (("c.csv", "count\n" + "1\n" * 4), ("m.csv", "1,0\n0,1\n")):
        (tmp_path / name).write_text(text)
    assert "4 rows" in run(capsys, *COMPARE, str(tmp_path / "c.csv"))[1]
    words = ["matrix", str(tmp_path / "m.csv"), "--n", "9", "--eps", "1"]
    assert "2 rows" in run(capsys, *words)[1]


# --- Hostile files ----------------------------------------------------------------------


def square(east="3", more=""):
    ring = f"[[2,48],[{east},48],[{east},49],[2,49],[2,48]]"
    return f'{{"type": "Polygon", "coordinates": [{ring}]{more}}}'


def virtual(address):
    """Return a file that GDAL would take for a reference to a map elsewhere."""
    layer = f"<OGRVRTLayer name='a'><SrcDataSource>{address}</SrcDataSource></OGRVRTLayer>"
    return f"<OGRVRTDataSource>{layer}</OGRVRTDataSource>"


def parquet(columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def zipped(*names):
    packed = io.BytesIO()
    with ZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr(name, "x" * 200)
    return packed.getvalue()


LINK = '"crs": {"type": "link", "properties": {"href": "http://127.0.0.1:1/wkt"}}'
MAPS = [
    ("a virtual map of an address", virtual("/vsicurl/http://127.0.0.1:1/a"), "is not GeoJSON"),
    ("a linked system", f'{{"type": "FeatureCollection", "features": [], {LINK}}}', "convert it"),
    ("a number of 5,000 digits", square("9" * 5000), "is not GeoJSON"),
    ("a coordinate that is infinite", square("1e999"), "has an invalid shape"),
    ("a kind that moves the cursor", '{"type": "\\u001b[2J\\n"}', "it is malformed"),
    ("a system of a million letters", square(more=', "crs": {"a": "%s"}' % ("x" * 10**6)), "is in"),
    ("an empty map", '{"type": "FeatureCollection", "features": []}', "contains no polygon or l"),
]
CHECKINS = [
    ("NULs", b"lat,lon\n" + b"1,2\n" * 200 + bytes(5000) + b"\n1\n" * 30, "instead of 2"),
    ("a formula", b"lat,lon\n=cmd|'/C calc'!A0,2\n", "latitude is not a number"),
    ("100,000 columns", b",".join(b"c%d" % i for i in range(10**5)) + b"\n", "its columns are"),
    ("a footer that is too long", b"PAR1" + bytes(80) + b"\xff\xff\xff\x7fPAR1", "as parquet"),
    ("a name that is no text", parquet({"lat": [1.0]}).replace(b"lat", b"l\xfft"), "as parquet"),
    ("nothing, packed", gzip.compress(b"", mtime=0), "is empty"),
    ("XML", gzip.compress(b"\xef\xbb\xbf\n  <?xml version='1.0'?>", mtime=0), "is a web page or"),
    ("UTF-16", "lat,lon\n1,2\n".encode("utf-16"), "is UTF-16"),
    ("carriage returns", b"lat,lon\r1,2\r3,4\r", "has carriage returns for line ends"),
    ("an array of JSON", b'[{"lat": 1, "lon": 2}]', "is a JSON array: convert it to one object a"),
    ("a spreadsheet", zipped("xl/workbook.xml"), "is a spreadsheet: save"),
    ("an archive", zipped("checkins.csv"), "unpack it"),
    ("lists for numbers", parquet({"lat": [[48.5]], "lon": [{"a": 1}]}), "where numbers were"),
]


def map_is_read(path, _):
    backdrop(path)


def checkins_are_read(path, content):
    layout = {
        "format": "parquet" if content[:4] == b"PAR1" else "csv",
        "columns": {"latitude": "lat", "longitude": "lon"},
    }
    region = region_from_config("r", {"box": {"south": 48, "north": 49, "west": 2, "east": 3}})
    target = path.with_name("out.parquet")
    crop_checkins(
        path, layout_from_config(layout), region, target, max_malformed_share=0.1, metadata={}
    )


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        pytest.param(read, content, message, id=f"{read.__name__.split('_')[0]}: {name}")
        for read, files in ((map_is_read, MAPS), (checkins_are_read, CHECKINS))
        for name, content, message in files
    ],
)
def test_a_hostile_file_is_refused_in_one_clear_line(tmp_path, read, content, message):
    path = tmp_path / "input"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as refused:
        read(path, path.read_bytes())
    line = str(refused.value)
    assert str(path) in line
    assert message in line
    assert line.isprintable()
    assert len(line) < 700 + len(str(path))
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ('1,2,"' + "a\n" * 5000, "line 2 has a quotation mark that is not closed within 1,000 b"),
        ("1,2," + "a" * 10_000, "line 2 has more than 1,000 bytes: it is no text of records"),
    ],
)
def test_a_record_without_end_costs_little_memory(tmp_path, monkeypatch, record, message):
    monkeypatch.setattr(text_reader, "MAX_RECORD_BYTES", 1000)
    monkeypatch.setattr(text_reader.pieces_of, "__defaults__", (100,))
    (tmp_path / "a.csv").write_text("lat,lon,note\n" + record)
    with pytest.raises(InputError, match=message):
        checkins_are_read(tmp_path / "a.csv", b"")


def test_a_name_that_is_not_text_does_not_stop_a_map(tmp_path):
    path = tmp_path / "map.geojson"
    path.write_text(
        f'{{"type": "Feature", "properties": {{"name": "\\ud800"}}, "geometry": {square()}}}'
    )
    assert backdrop(path)["name"].tolist() == ["?"]


def test_the_smallest_and_largest_budgets_are_answered(capsys):
    """Once the grid of a round had steps of 0, or the scale of a tail was infinite."""
    assert main(["fdp", "--n", "1", "--k", "4", "--eps0", "1e-200", "--rounds", "2"]) == 0
    assert capsys.readouterr().err == ""
    curve = BOUNDS["single-bin"].curve(Setting(100, 4, 300.0))
    assert 0.0 < curve.epsilon(np.log(1e-6)).lower <= 300.0
    assert curve.log_delta(5.857933154483458).lower <= 0.0
