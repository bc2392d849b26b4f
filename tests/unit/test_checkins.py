"""Check-ins are validated and cropped, from files written here and from the real ones."""

import datetime
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reading import BY_NAME, HERE, NAMED, UTC, WORLD, crop, refusal, write

from shuffledp.data.checkins import Tally
from shuffledp.data.sources import SNAP, layout_from_config
from shuffledp.data.windows import windows_from_config


def test_columns_types_and_metadata_of_a_crop(tmp_path, capfd):
    source = write(tmp_path / "a.txt", f"{HERE}\n9\t\t50.0\t2.33\t16\n8\t\t48.8286\t2.3909\t\n")
    rows, tally = crop(source, SNAP)
    time = datetime.datetime(2010, 7, 25, 11, 40, 18, tzinfo=UTC)
    here = {"user": 7, "time": time, "latitude": 48.86, "longitude": 2.33, "location": 15}
    border = {"user": 8, "time": None, "latitude": 48.8286, "longitude": 2.3909, "location": None}
    assert rows == [here, border] and tally == Tally(read=3, outside=1, kept=2)
    schema = pq.read_schema(tmp_path / "out" / "cropped.parquet")
    types = [pa.int64(), pa.timestamp("us", "UTC"), pa.float64(), pa.float64(), pa.int64()]
    assert (schema.names, schema.types) == (list(here), types)
    assert [field.nullable for field in schema] == [True, True, False, False, True]
    assert schema.metadata[b"a"] == b"b"
    assert capfd.readouterr() == ("", ""), "there is no progress bar without a terminal"


MALFORMED = [
    ("7\t2010-07-25T11:40:18Z\t48.86\t2.33", "the row has 4 fields instead of 5"),
    ("7\t\t48.86\r\t2.33\t1", "a carriage return is inside the line"),
    ("7\t\t48,8612\t2.33\t1", "latitude is not a number from -90 to 90: write decimals with a"),
    ("7\tyesterday\t10.0\t2.33\t1", "time is not an ISO 8601 time"),
    ("7\t\t48.86\t2.33\tee8b88dea22411", "location is not an integer"),
]


@pytest.mark.parametrize(("row", "reason"), MALFORMED)
def test_malformed_rows_are_counted_and_described_without_values(tmp_path, row, reason, caplog):
    source = write(tmp_path / "a.txt", "\n".join([HERE, "", HERE, row, HERE]))
    _, tally = crop(source, SNAP, share=0.25)
    assert tally == Tally(read=4, malformed=1, kept=3)
    assert f"{source}, line 4: {reason}" in caplog.text, "empty lines are counted as lines alone"
    assert not any(value in caplog.text for value in row.split("\t") if len(value) > 3)
    message = refusal(source, SNAP, share=0.24)
    assert "1 of 4 rows are malformed, more than max_malformed_share=0.24 allows" in message
    assert f"the first is line 4: {reason}" in message


@pytest.mark.parametrize("position", ["\t2.33", "48.86\t", "NaN\tNaN", "NA\t2.33", "91\t181.0"])
def test_a_row_without_a_position_is_not_malformed(tmp_path, position, caplog):
    row = f"7\tyesterday\t{position}\t1\n"
    rows, tally = crop(write(tmp_path / "a.txt", f"{HERE}\n" + row * 98), SNAP)
    assert tally == Tally(read=99, unplaced=98, kept=1) and len(rows) == 1
    assert str(tally) == "99 rows read: 0 malformed, 98 without a position, 0 outside, 1 kept"
    message = refusal(write(tmp_path / "a.txt", f"{HERE}\n" + row * 100), SNAP)
    assert "hardly any record has a latitude and longitude: check the columns" in message


# --- Reference systems --------------------------------------------------------------------------


def test_coordinates_may_be_in_another_reference_system(tmp_path, caplog):
    """By its definition, EPSG:3035 begins at 52 degrees north and 10 degrees east."""
    columns = {"lat": ["3210000", "", "north", "1e12"], "lon": ["4321000"] * 4}
    text = "lat,lon\n" + "".join(f"{each},4321000\n" for each in columns["lat"])
    for kind, content in (("csv", text), ("parquet", columns)):
        layout = layout_from_config({"format": kind, "columns": BY_NAME, "crs": "EPSG:3035"})
        rows, tally = crop(write(tmp_path / f"a.{kind}", content), layout, WORLD, share=0.9)
        assert tally == Tally(read=4, malformed=2, unplaced=1, kept=1)
        assert (rows[0]["latitude"], rows[0]["longitude"]) == pytest.approx((52, 10), abs=1e-8)
        assert "latitude is not a coordinate of EPSG:3035" in caplog.text


# --- Whole files that are refused ---------------------------------------------------------------

SEMICOLONS = layout_from_config({"separator": ";", "columns": BY_NAME})
SWAPPED = "seem to be swapped: set columns.latitude to 3 and columns.longitude to 2"
REFUSED = [
    ("y,x\n1,2\n", NAMED, "no column 'lat' (columns.latitude); its columns are 'y', 'x'"),
    ("lat,lon,lat\n1,2,3\n", NAMED, "columns 'lat': set columns.latitude to the position"),
    ("id;lat;lon\n1;48.8;2.3\n", NAMED, 'set separator: ";"'),
    ("sep=;\nlat;lon\n1;2\n", NAMED, "its separator is ';': set separator to it"),
    ("lat;lon\n48,8;2,3\n", SEMICOLONS, "write decimals with a point, or set decimal: "),
    ("4711,48.861234,2.337654\n", NAMED, ": its first line is a row, not the names of the columns"),
    ("Export\n\nlat,lon\n48.86,2.33\n", NAMED, "line 3 has them: remove the lines before it"),
    (f"user\ttime\tlatitude\tlongitude\tlocation\n{HERE}\n", SNAP, "set header: true"),
    ("7\t\t500000\t4649776\t1\n", SNAP, "seem to be projected, such as UTM metres: set crs to the"),
    ("7\t\t40.7\t286.1\t1\n" * 5, SNAP, "seem to run from 0 to 360: subtract 360"),
    ("7\t\t-122.45\t37.75\t1\n" * 5, SNAP, SWAPPED),
    ("7\t\t2.33\t48.86\t1\n", SNAP, "but 1 with latitude and longitude swapped: set columns.lat"),
]


@pytest.mark.parametrize(("text", "layout", "remedy"), REFUSED)
def test_text_that_is_not_as_the_layout_says_is_refused(tmp_path, text, layout, remedy):
    message = refusal(write(tmp_path / "a.txt", text), layout)
    assert remedy in message
    for advice in ("set separator", "set header: t", "projected", "swapped", "0 to 360", "E7"):
        assert (advice in message) == (advice in remedy), "no other remedy is suggested"
    assert "4711" not in message and "861234" not in message, "values of a row are personal"


def test_a_period_without_check_ins_and_a_share_out_of_range_are_refused(tmp_path):
    windows = windows_from_config({"period": {"from": "2011-01-01", "to": "2011-12-31"}})
    source = write(tmp_path / "a.txt", f"{HERE}\n")
    assert "within the period" in refusal(source, SNAP, windows=windows)
    for share in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="max_malformed_share must be from 0 to 1"):
            crop(source, SNAP, share=share)


WRONG = [
    *(({"columns": {**BY_NAME, **more}}, message) for more, message in (
        ({"lat": 1}, "columns.lat is not a known column"),
        ({"user": -1}, "columns.user must be the column's name or its position"),
        ({"user": "lat"}, "each entry of columns must name a different"))),
    *(({"columns": BY_NAME, **more}, message) for more, message in (
        ({"delimiter": ","}, "delimiter is not a key of a layout"),
        ({"format": "json", "separator": ","}, "separator has no meaning for"),
        ({"header": False}, "columns.latitude must be a position"),
        ({"separator": "tab"}, "separator must be one character"),
        ({"quoting": "all"}, "quoting must be one of strict, rfc4180, none"),
        ({"user_type": "uuid"}, "user_type must be one of number, text"),
        ({"decimal": ",", "quoting": "none"}, "decimal must be different from"),
        ({"time_format": "unix"}, "time_format needs columns.time"))),
    *(({"columns": BY_NAME, "crs": crs}, "crs") for crs in ("2154x", "EPSG:5773", "+proj=utm")),
    *(({"columns": {**BY_NAME, "time": "t"}, "time_format": each}, "time_format must be unix")
      for each in ("", "ISO8601", "%H:%M", "%m/%Y", "%d/%m/%Y %I:%M", "%Q", "%", 7, True,
                   "%d/%m/%Y %H:%M %Z", "%s", "%d/%m/%Y %M")),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "message"), WRONG)
def test_wrong_layouts_are_refused(spec, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        layout_from_config(spec)
