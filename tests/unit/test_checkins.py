"""Reading, validating and cropping check-ins, against files written here and the real ones."""

import bz2
import datetime
import gzip
import hashlib
import io
import lzma
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from real_data import GOWALLA, needs_gowalla
from shuffledp.geography.checkins import (
    SNAP,
    CheckinError,
    Layout,
    Tally,
    crop_checkins,
    file_sha256,
    layout_from_config,
)
from shuffledp.geography.regions import Box, Region
from shuffledp.geography.sources import source_layout
from shuffledp.geography.text_files import BLOCK_BYTES, file_kind, text_blocks

PARIS = Region("paris", Box(south=48.8286, north=48.8798, west=2.2855, east=2.3909))
WORLD = Region("world", Box(south=-90, north=90, west=-180, east=180))
HERE = "7\t2010-07-25T11:40:18Z\t48.86\t2.33\t15"
UTC = datetime.UTC
NAMED = layout_from_config({"columns": {"latitude": "lat", "longitude": "lon"}})


def crop(tmp_path, content, *, layout=SNAP, region=PARIS, share=0.0, name="checkins.txt"):
    """Crop a file of these bytes or text; return the rows as dictionaries, and the tally."""
    source = tmp_path / name
    source.write_bytes(content.encode() if isinstance(content, str) else content)
    destination = tmp_path / "out" / "cropped.parquet"
    tally = crop_checkins(
        source, layout, region, destination, max_malformed_share=share, metadata={"a": "b"}
    )
    assert [path.name for path in destination.parent.iterdir()] == [destination.name]
    return pq.read_table(destination).to_pylist(), tally


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.glob("*")}


def refusal(tmp_path, content, **options) -> str:
    """Return the message with which a file is refused, having checked that nothing is written."""
    before = contents(tmp_path / "out")
    with pytest.raises(CheckinError) as caught:
        crop(tmp_path, content, **options)
    assert contents(tmp_path / "out") == before
    message = str(caught.value)
    assert str(tmp_path / options.get("name", "checkins.txt")) in message
    return message


def test_columns_types_and_metadata(tmp_path):
    rows, tally = crop(tmp_path, f"{HERE}\n9\t2010-01-01T00:00:00Z\t50.0\t2.33\t16\n")
    time = datetime.datetime(2010, 7, 25, 11, 40, 18, tzinfo=UTC)
    assert rows == [{"user": 7, "time": time, "latitude": 48.86, "longitude": 2.33, "location": 15}]
    assert tally == Tally(read=2, malformed=0, outside=1, kept=1)
    schema = pq.read_schema(tmp_path / "out" / "cropped.parquet")
    assert schema.equals(
        pa.schema(
            [
                pa.field("user", pa.int64()),
                pa.field("time", pa.timestamp("us", tz="UTC")),
                pa.field("latitude", pa.float64(), nullable=False),
                pa.field("longitude", pa.float64(), nullable=False),
                pa.field("location", pa.int64()),
            ]
        )
    )
    assert schema.metadata[b"a"] == b"b"
    group = pq.ParquetFile(tmp_path / "out" / "cropped.parquet").metadata.row_group(0)
    assert {group.column(i).compression for i in range(5)} == {"ZSTD"}


def test_borders_belong_to_the_region(tmp_path):
    text = "1\t\t48.8286\t2.2855\t\n2\t\t48.8798\t2.3909\t\n3\t\t48.87980000001\t2.39\t\n"
    rows, _ = crop(tmp_path, text)
    assert [row["user"] for row in rows] == [1, 2]


@needs_gowalla
def test_real_check_ins_of_paris(tmp_path):
    source = GOWALLA / "paris_checkins.txt.gz"
    out = tmp_path / "x.parquet"
    tally = crop_checkins(source, SNAP, PARIS, out, max_malformed_share=0, metadata={})
    assert tally == Tally(read=17_496, malformed=0, outside=6_306, kept=11_190)  # its README
    rows = [line.split("\t") for line in gzip.decompress(source.read_bytes()).decode().splitlines()]
    inside = [
        r for r in rows if 48.8286 <= float(r[2]) <= 48.8798 and 2.2855 <= float(r[3]) <= 2.3909
    ]
    table = pq.read_table(out)
    assert table["user"].to_pylist() == [int(row[0]) for row in inside]
    assert table["latitude"].to_pylist() == [float(row[2]) for row in inside]
    assert table["longitude"].to_pylist() == [float(row[3]) for row in inside]
    assert table["location"].to_pylist() == [int(row[4]) for row in inside]
    written = [time.strftime("%Y-%m-%dT%H:%M:%SZ") for time in table["time"].to_pylist()]
    assert written == [row[1] for row in inside]


@needs_gowalla
def test_real_check_ins_of_san_francisco(tmp_path):
    layout = Layout("csv", ",", True, {name: name for name in ("user", "latitude", "longitude")})
    region = Region("sf", Box(south=37.7228, north=37.7946, west=-122.5153, east=-122.3789))
    out = tmp_path / "x.parquet"
    source = GOWALLA / "san_francisco_points.csv.gz"
    tally = crop_checkins(source, layout, region, out, max_malformed_share=0, metadata={})
    assert tally == Tally(read=123_094, malformed=0, outside=0, kept=123_094)  # its README
    table = pq.read_table(out)
    assert table["user"].null_count == 1_090
    assert table["time"].null_count == table["location"].null_count == 123_094


PACKERS = {
    "checkins.txt": bytes,
    "checkins.txt.gz": gzip.compress,
    "checkins.txt.bz2": bz2.compress,
    "checkins.txt.xz": lzma.compress,
    "checkins.txt.zst": lambda data: pa.Codec("zstd").compress(data).to_pybytes(),
}


@pytest.mark.parametrize("name", PACKERS)
def test_packed_files(tmp_path, name):
    rows, _ = crop(tmp_path, PACKERS[name](f"{HERE}\n".encode() * 3), name=name)
    assert len(rows) == 3


@pytest.mark.parametrize("name", ["checkins.txt.gz", "checkins.txt.bz2", "checkins.txt.zst"])
def test_several_packed_parts_in_one_file(tmp_path, name):
    pack = PACKERS[name]
    rows, _ = crop(tmp_path, pack(f"{HERE}\n".encode()) + pack(f"{HERE}\n".encode()), name=name)
    assert len(rows) == 2


def test_contents_decide_not_the_name(tmp_path, caplog):
    rows, _ = crop(tmp_path, f"{HERE}\n", name="unpacked_on_the_way.txt.gz")
    assert len(rows) == 1
    assert "is named as gzip, but contains and is read as text" in caplog.text
    rows, _ = crop(tmp_path, gzip.compress(f"{HERE}\n".encode()), name="packed.txt")
    assert len(rows) == 1


@pytest.mark.parametrize("name", [name for name in PACKERS if name != "checkins.txt"])
def test_truncated_and_damaged_files(tmp_path, name):
    random = np.random.default_rng(1).uniform(48.83, 48.87, 20_000)
    data = PACKERS[name]("".join(f"1\t\t{x}\t2.3\t1\n" for x in random).encode())
    for broken in (data[:-3], data[: len(data) // 2], data[:40]):
        assert "is truncated or damaged" in refusal(tmp_path, broken, name=name)
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 0x10
    if name != "checkins.txt.zst":  # its checksum is optional, and not written here
        assert "is truncated or damaged" in refusal(tmp_path, bytes(flipped), name=name)


def test_damaged_checksum_of_gzip(tmp_path):
    data = gzip.compress(f"{HERE}\n".encode() * 1000)
    message = refusal(tmp_path, data[:-8] + b"\0\0\0\0" + data[-4:], name="x.gz")
    assert "is truncated or damaged" in message
    assert "fetch it again" in message


def test_blocks_keep_every_byte_and_every_line(tmp_path):
    source = tmp_path / "lines.txt"
    random = np.random.default_rng(2)
    lines = [b"x" * int(size) for size in random.integers(0, 60, 500)]
    for end in (b"\n", b""):
        source.write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines) + end)
        for size in (64, 100, 1000, BLOCK_BYTES):
            blocks = list(text_blocks(source, size))
            assert b"".join(blocks) == b"\n".join(lines) + b"\n"
            assert all(block.endswith(b"\n") for block in blocks)
            assert max(map(len, blocks)) <= 2 * size + 64


def test_endless_line_costs_no_memory(tmp_path):
    source = tmp_path / "lines.txt"
    source.write_bytes(b"first\n" + b"0" * 5000 + b"\nlast\n" + b"1" * 5000)
    blocks = list(text_blocks(source, 100))
    assert b"".join(blocks).split(b"\n")[0] == b"first"
    assert b"".join(blocks).count(b"\0\n") == 2
    assert b"\nlast\n" in b"".join(blocks)
    assert max(map(len, blocks)) <= 200


def test_abandoned_reading_ends_its_thread(tmp_path):
    import threading

    source = tmp_path / "lines.txt"
    source.write_bytes(b"line\n" * 10_000)
    before = threading.active_count()
    blocks = text_blocks(source, 100)
    next(blocks)
    blocks.close()
    assert threading.active_count() == before


MALFORMED = {
    "too few fields": ("7\t2010-07-25T11:40:18Z\t48.86\t2.33", "the row has 4 fields instead of 5"),
    "too many fields": (f"{HERE}\t1", "the row has 6 fields instead of 5"),
    "no number": ("7\t\tnorth\t2.33\t1", "latitude is not a number from -90 to 90"),
    "decimal comma": ("7\t\t48,86\t2.33\t1", "latitude is not"),
    "missing latitude": ("7\t\t\t2.33\t1", "latitude is missing"),
    "missing longitude": ("7\t\t48.86\t\t1", "longitude is missing"),
    "NaN": ("7\t\tNaN\t2.33\t1", "latitude is not"),
    "NA": ("7\t\t48.86\tNA\t1", "longitude is not"),
    "infinite": ("7\t\tinf\t2.33\t1", "latitude is not"),
    "overflow": ("7\t\t1e999\t2.33\t1", "latitude is not"),
    "hexadecimal": ("7\t\t0x30\t2.33\t1", "latitude is not"),
    "too far north": ("7\t\t90.0001\t2.33\t1", "latitude is not a number from -90"),
    "too far west": ("7\t\t48.86\t-180.5\t1", "longitude is not a number from -180"),
    "time": ("7\tyesterday\t48.86\t2.33\t1", "time is not an ISO 8601 time"),
    "day": ("7\t2010-02-30T00:00:00Z\t48.86\t2.33\t1", "time is not"),
    "epoch": ("7\t1280058018\t48.86\t2.33\t1", "time is not"),
    "location": ("7\t\t48.86\t2.33\tee8b88dea22411", "location is not"),
    "bytes": (b"7\t\t48.8\xff\t2.33\t1", r"latitude is not"),
    "NUL": (b"7\t\t48.86\t2.33\t1\0", "the line has a NUL byte"),
    "carriage return": (b"7\t\t48.86\r\t2.33\t1", "a carriage return is inside the line"),
    "outside the region": ("7\tyesterday\t10.0\t2.33\t1", "time is not"),
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_malformed_rows_are_counted_and_described(tmp_path, kind, caplog):
    row, reason = MALFORMED[kind]
    row = row if isinstance(row, bytes) else row.encode()
    content = b"\n".join([HERE.encode(), b"", HERE.encode(), row, HERE.encode()])
    rows, tally = crop(tmp_path, content, share=0.25)
    assert tally == Tally(read=4, malformed=1, outside=0, kept=3)
    assert [row["user"] for row in rows] == [7, 7, 7]
    # The empty line is no row, but it is a line.
    assert f"{tmp_path / 'checkins.txt'}, line 4: {reason}" in caplog.text
    # A value may be somebody's, and logs are handed on.
    for value in row.split(b"\t"):
        if len(value) > 3:
            assert value.decode(errors="replace") not in caplog.text
    message = refusal(tmp_path, content, share=0.24)
    assert "1 of 4 rows are malformed, more than max_malformed_share=0.24 allows" in message
    assert f"line 4: {reason}" in message


# --- Budgets ------------------------------------------------------------------------------------

CHOICES = source_layout({"format": "csv", "columns": {"latitude": "lat", "longitude": "lon"}}, "b")


def choice(value):
    """A csv file whose second row, line 4, has this budget."""
    return f"lat,lon,b\n48.86,2.33,0\n\n48.86,2.33,{value}\n50,2.33,2\n48.86,2.33,20\n"


@pytest.mark.parametrize("value", ["0.5", " +5e-1", "1e-9", "0", '"20"'])
def test_budgets_are_read_as_they_are(tmp_path, value):
    rows, _ = crop(tmp_path, choice(value), layout=CHOICES)
    assert [row["budget"] for row in rows] == [0.0, float(value.strip('"')), 20.0]
    field = pq.read_schema(tmp_path / "out" / "cropped.parquet").field("budget")
    assert field.equals(pa.field("budget", pa.float64(), nullable=False))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("-1", "budget is not 0 or a number from 1e-09 to 20 (budgets.column)"),
        ("", "budget is missing"),
        ("NaN", "budget is not"),
        ("inf", "budget is not"),
        ("1e-10", "budget is not"),
        ("20.1", "budget is not"),
        ("low", "budget is not"),
        ("0x2", "budget is not"),
    ],
)
def test_an_unusable_budget_is_a_malformed_row(tmp_path, value, reason, caplog):
    rows, tally = crop(tmp_path, choice(value), layout=CHOICES, share=0.25)
    assert tally == Tally(read=4, malformed=1, outside=1, kept=2)
    assert [row["budget"] for row in rows] == [0.0, 20.0]
    message = refusal(tmp_path, choice(value), layout=CHOICES)
    assert (
        f"1 of 4 rows are malformed, more than "
        f"max_malformed_share=0.0 allows; the first is line 4: {reason}" in message
    )
    assert f"line 4: {reason}" in caplog.text


def test_budgets_stand_in_a_column_by_position_or_of_parquet(tmp_path):
    tabs = {"format": "csv", "separator": "\t", "header": False}
    layout = source_layout(tabs | {"columns": {"latitude": 1, "longitude": 2}}, 0)
    rows, _ = crop(tmp_path, "2\t48.86\t2.33\n0.5\t48.86\t2.33\n", layout=layout)
    assert [row["budget"] for row in rows] == [2.0, 0.5]
    with_more = f"{HERE}\t1.5\n"
    (row,), _ = crop(tmp_path, with_more, layout=source_layout("snap", 5))
    assert (row["user"], row["budget"]) == (7, 1.5)

    layout = source_layout({"format": "parquet", "columns": dict(CHOICES.columns)}, "b")
    for budgets, expected in (
        (pa.array([1, 0, 20]), [1.0, 0.0, 20.0]),
        (pa.array(["1", "2", "0.5"]), [1.0, 2.0, 0.5]),
        (pa.array([0.1, math.nan, 2.0]), None),
        (pa.array([0.1, None, 2.0]), None),
        (pa.array([True, False, True]), "bool where numbers were expected"),
    ):
        table = pa.table({"lat": [48.86] * 3, "lon": [2.33] * 3, "b": budgets})
        stream = pa.BufferOutputStream()
        pq.write_table(table, stream)
        content = stream.getvalue().to_pybytes()
        if isinstance(expected, list):
            rows, _ = crop(tmp_path, content, layout=layout)
            assert [row["budget"] for row in rows] == expected
        elif expected is None:
            assert "the first is row 2: budget is " in refusal(tmp_path, content, layout=layout)
        else:
            message = refusal(tmp_path, content, layout=layout)
            assert f"budgets.column names a column of type {expected}" in message


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("eps", "has no column 'eps' (budgets.column); its columns are 'lat', 'lon', 'b'"),
        (3, "has 3 columns, but budgets.column is position 3 counted from 0"),
    ],
)
def test_a_column_of_budgets_that_is_not_there_is_named(tmp_path, column, message):
    layout = source_layout({"columns": {"latitude": "lat", "longitude": "lon"}}, column)
    assert message in refusal(tmp_path, choice(1), layout=layout)


# --- Rows that are sound ------------------------------------------------------------------------

SOUND = {
    "empty user": ("\t2010-07-25T11:40:18Z\t48.86\t2.33\t1", {"user": None}),
    "no time": ("7\t\t48.86\t2.33\t1", {"time": None, "user": 7}),
    "NA": ("NA\tNA\t48.86\t2.33\tNA", {"user": None, "time": None, "location": None}),
    "float user": ("17.0\t\t48.86\t2.33\t0.0", {"user": 17, "location": 0}),
    "negative user": ("-3\t\t48.86\t2.33\t-4.", {"user": -3, "location": -4}),
    "largest user": ("9223372036854775807.0\t\t48.86\t2.33\t", {"user": 2**63 - 1}),
    "leading zeros": ("000000000000000000000000017.0\t\t48.86\t2.33\t", {"user": 17}),
    "hexadecimal user": ("0x1F\t\t48.86\t2.33\t", {"user": 31}),
    "spaces": (" 7 \t\t 48.86 \t 2.33\t 1", {"user": 7, "latitude": 48.86, "longitude": 2.33}),
    "signs": ("+7\t\t+48.86\t+2.33\t+1", {"user": 7, "latitude": 48.86, "longitude": 2.33}),
    "exponent": ("7\t\t4.886e1\t.233E+1\t1", {"latitude": 48.86, "longitude": 2.33}),
    "time without zone": (
        "7\t2010-07-25 11:40:18\t48.86\t2.33\t1",
        {"time": datetime.datetime(2010, 7, 25, 11, 40, 18, tzinfo=UTC)},
    ),
    "time with offset": (
        "7\t2010-07-25T11:40:18.5+02:00\t48.86\t2.33\t1",
        {"time": datetime.datetime(2010, 7, 25, 9, 40, 18, 500_000, tzinfo=UTC)},
    ),
    "day": (
        "7\t2010-07-25\t48.86\t2.33\t1",
        {"time": datetime.datetime(2010, 7, 25, tzinfo=UTC)},
    ),
}


@pytest.mark.parametrize("beside", [HERE, "7.0\t2010-07-25 11:40:18\t48.86\t +2.33\t15", "bad"])
@pytest.mark.parametrize("kind", SOUND)
def test_unusual_but_sound_rows_whatever_is_beside_them(tmp_path, kind, beside):
    text, expected = SOUND[kind]
    rows, tally = crop(tmp_path, f"{HERE}\n{text}\n{beside}\n", share=0.4)
    assert tally == Tally(read=3, malformed=beside == "bad", outside=0, kept=3 - (beside == "bad"))
    assert rows[0]["location"] == 15
    assert {name: rows[1][name] for name in expected} == expected


USERS = [
    "bob", "Bob", "Zoë", "Zoé", "東", "7.5", "1e1", "inf", "a b", "-", "0x", "9223372036854775808",
    "18446744073709551615", "-9223372036854775809", "1" * 40,
    "00000000-0000-0000-0000-00000000001f", "0000000000000000000000000000001f",
    "5eb63bbbe01eeed093cb22bb8f5acdc3", "31", "7",
]  # fmt: skip


def _alike(numbers):
    """Which of them are the same, whatever they are."""
    return [numbers.index(number) for number in numbers]


@pytest.mark.parametrize("beside", ["8", "bad row"])
def test_any_identifier_tells_users_apart(tmp_path, beside):
    asked = [*USERS, *USERS[::-1], beside, ""]
    text = "".join(f"{user}\t\t48.86\t2.33\t1\n" for user in asked)
    spoiled = "7\t\tnowhere\t2.33\t1\n" if beside == "bad row" else ""
    rows, tally = crop(tmp_path, f"{text}{spoiled}", share=0.1)
    users = [row["user"] for row in rows]
    assert tally.malformed == bool(spoiled)
    assert _alike(users) == _alike(asked)
    assert users[-1] is None
    assert users[USERS.index("31")] == 31
    # Neither what is beside them nor the order changes them: regions and files can be compared.
    again, _ = crop(tmp_path, "".join(f"{u}\t\t48.86\t2.33\t1\n" for u in USERS[::-1]))
    assert [row["user"] for row in again][::-1] == users[: len(USERS)]


def test_users_outside_utf_8_are_told_apart(tmp_path):
    latin = ["Zoë", "Zoé", "Zoë"]
    text = "".join(f"{user}\t\t48.86\t2.33\t1\n" for user in latin).encode("latin-1")
    rows, _ = crop(tmp_path, text)
    assert _alike([row["user"] for row in rows]) == [0, 1, 0]


def test_the_blanks_around_a_user_do_not_count(tmp_path):
    asked = ["bob", " bob ", " ", "ann"]
    rows, _ = crop(tmp_path, "".join(f"{user}\t\t48.86\t2.33\t1\n" for user in asked))
    users = [row["user"] for row in rows]
    assert users[0] == users[1] != users[3]
    assert users[2] is None, "a blank is nobody"


def test_line_ends_byte_order_mark_and_missing_last_line_feed(tmp_path):
    text = "\N{ZERO WIDTH NO-BREAK SPACE}" + f"{HERE}\r\n\r\n{HERE}\r\n\n{HERE}"
    rows, tally = crop(tmp_path, text)
    assert tally == Tally(read=3, malformed=0, outside=0, kept=3)
    assert [row["location"] for row in rows] == [15, 15, 15]


def test_unmapped_columns_are_null_and_never_malformed(tmp_path):
    layout = Layout("csv", "\t", False, {"latitude": 2, "longitude": 3})
    rows, _ = crop(tmp_path, b"bob\t\xff\t48.86\t2.33\tx\n", layout=layout)
    assert rows == [
        {"user": None, "time": None, "latitude": 48.86, "longitude": 2.33, "location": None}
    ]


def test_header_quotes_and_column_order(tmp_path):
    text = 'name,"lon",lat\n"Café, bar",2.33,"48.86"\n"say ""hi""",2.34,48.85\n'
    rows, tally = crop(tmp_path, text, layout=NAMED)
    assert [(row["latitude"], row["longitude"]) for row in rows] == [(48.86, 2.33), (48.85, 2.34)]
    assert tally.read == 2


def test_positions_with_a_header(tmp_path):
    layout = Layout("csv", ";", True, {"latitude": 1, "longitude": 0})
    rows, _ = crop(tmp_path, "x;y\n2.33;48.86\n", layout=layout)
    assert len(rows) == 1


@pytest.mark.parametrize("bad", ['"open,2.33,48.86', 'x"a,"b,2.33,48.86', 'a,2.33,"48.86'])
def test_quotation_mark_left_open_spoils_its_line_only(tmp_path, bad, caplog):
    lines = ["name,lon,lat", "a,2.33,48.86", bad, "b,2.34,48.85", '"c",2.35,48.84']
    rows, tally = crop(tmp_path, "\n".join(lines), layout=NAMED, share=0.5)
    assert tally == Tally(read=4, malformed=1, outside=0, kept=3)
    assert [row["longitude"] for row in rows] == [2.33, 2.34, 2.35]
    assert "line 3: a quotation mark is not closed" in caplog.text


def test_a_line_break_in_a_quoted_field_is_refused_in_words(tmp_path):
    rows = ["lon,name,lat", *['2.33,"two\nlines",48.86', "2.33,one,48.86"] * 5]
    message = refusal(tmp_path, "\n".join(rows), layout=NAMED, share=0.01)
    assert "10 of 15 rows are malformed" in message
    assert "line 2: a quotation mark is not closed in its line; a quoted field must " in message
    assert "not contain a line break: remove the break, or convert the file to parquet" in message


@pytest.mark.parametrize("lines", [[], ["x,2.33,no number"]])
def test_odd_quotation_marks_are_read_alike_beside_sound_and_malformed_rows(tmp_path, lines):
    text = "\n".join(["name,lon,lat", '"a"b,2.33,48.86', 'x"y,2.34,48.85', *lines])
    rows, tally = crop(tmp_path, text, layout=NAMED, share=0.5)
    assert [row["longitude"] for row in rows] == [2.33, 2.34]
    assert tally.malformed == len(lines)


def test_quotation_marks_are_ordinary_in_tab_separated_text(tmp_path):
    layout = Layout("csv", "\t", True, {"latitude": "lat", "longitude": "lon"})
    rows, tally = crop(tmp_path, 'n\tlat\tlon\n5" pipe\t48.86\t2.33\n', layout=layout)
    assert (len(rows), tally.malformed) == (1, 0)


def test_damaged_first_line_does_not_decide_the_number_of_fields(tmp_path):
    rows, tally = crop(tmp_path, "8Z\t48.86\n" + f"{HERE}\n" * 3, share=0.25)
    assert (len(rows), tally.malformed) == (3, 1)


def test_line_numbers_reach_across_blocks(tmp_path):
    row = f"{HERE}\n".encode()
    count = 2 * BLOCK_BYTES // len(row) + 1000
    content = row * count + b"7\t\tnowhere\t2.33\t1\n" + b"\n" + row
    assert f"line {count + 1}: latitude is not" in refusal(tmp_path, content)
    message = refusal(tmp_path, row + b"\n" + content)
    assert f"line {count + 3}: latitude is not" in message


@pytest.mark.slow
def test_bytes_do_not_depend_on_the_packing(tmp_path):
    random = np.random.default_rng(3)
    points = random.uniform([48.82, 2.28], [48.89, 2.40], (200_000, 2)).tolist()
    text = "".join(
        f"{i}\t\t{x:.7f}\t{y:.7f}\t{i % 9}\n" for i, (x, y) in enumerate(points)
    ).encode()
    digests = set()
    for name, pack in PACKERS.items():
        if name.endswith(("txt", "gz", "zst")):
            crop(tmp_path, pack(text), name=name)
            digests.add(file_sha256(tmp_path / "out" / "cropped.parquet"))
    assert len(digests) == 1


def test_row_groups_of_a_large_crop(tmp_path):
    rows = 300_000
    text = "".join(f"{i}\t\t48.86\t2.33\t\n" for i in range(rows))
    source, out = tmp_path / "x", tmp_path / "y.parquet"
    source.write_text(text)
    crop_checkins(source, SNAP, PARIS, out, max_malformed_share=0, metadata={})
    with pq.ParquetFile(out) as file:
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert sizes == [2**18, rows - 2**18]
    assert pq.read_table(out)["user"].to_pylist() == list(range(rows))


def test_swapped_coordinates_out_of_range(tmp_path):
    region = Region("sf", Box(south=37.7228, north=37.7946, west=-122.5153, east=-122.3789))
    message = refusal(tmp_path, "7\t\t-122.45\t37.75\t1\n" * 5, region=region)
    assert "Latitude and longitude seem to be swapped" in message
    assert "set columns.latitude to 3 and columns.longitude to 2" in message


def test_swapped_coordinates_in_range(tmp_path):
    message = refusal(tmp_path, "7\t\t2.33\t48.86\t1\n" * 5 + "7\t\t1.0\t1.0\t1\n")
    assert "but 5 with latitude and longitude swapped" in message
    assert "set columns.latitude to 3 and columns.longitude to 2" in message


def test_empty_crop_tells_where_the_data_are(tmp_path):
    message = refusal(tmp_path, "7\t\t10.5\t20.5\t1\n7\t\t-11.5\t21.5\t1\n")
    assert "no check-in in region paris (latitude 48.8286 to 48.8798" in message
    assert "within latitude -12 to 11, longitude 20 to 22" in message


def test_all_rows_malformed_but_tolerated(tmp_path):
    assert "all its rows are malformed" in refusal(tmp_path, "a\tb\tc\td\te\n", share=1)


def test_forgotten_header(tmp_path):
    message = refusal(tmp_path, f"user\ttime\tlatitude\tlongitude\tlocation\n{HERE}\n")
    assert "set header: true" in message


def test_unreadable_times_are_not_taken_for_a_forgotten_header(tmp_path):
    message = refusal(tmp_path, "7\tyesterday\t48.86\t2.33\t1\n" * 5)
    assert (
        "line 1: time is not an ISO 8601 time (remove columns.time if it is not needed)" in message
    )
    assert "header" not in message


@pytest.mark.parametrize("point", ["4649776\t500000", "500000\t4649776", "-6253000\t260000.5"])
def test_projected_coordinates_are_named(tmp_path, point):
    message = refusal(tmp_path, f"7\t\t{point}\t1\n" * 5)
    assert "seem to be projected, such as UTM metres" in message
    assert "degrees of latitude and longitude (WGS 84, EPSG:4326)" in message
    assert "header" not in message


def test_one_number_that_is_out_of_range_is_not_taken_for_a_projection(tmp_path):
    assert "projected" not in refusal(tmp_path, f"{HERE}\n7\t\t91\t2.33\t1\n")


POINTS = b'{"type": "FeatureCollection", "features": [{"type": "Feature"}]}'


@pytest.mark.parametrize(
    "content", [POINTS, b"{\n" + POINTS[1:], b"\xef\xbb\xbf [" + POINTS + b"]"]
)
def test_points_as_json_are_refused_with_the_way_to_a_table(tmp_path, content):
    message = refusal(tmp_path, content)
    assert "is JSON, not a table" in message and "ogr2ogr -f CSV" in message
    assert "header" not in message


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "is empty"),
        (b"\n\n\n", "contains no rows"),
        (b"<!DOCTYPE html><html></html>", "is a web page"),
        (b"\xef\xbb\xbf\n  <?xml version='1.0'?>", "is a web page or XML"),
        (gzip.compress(b"<html></html>", mtime=0), "is a web page or XML"),
        (gzip.compress(b"", mtime=0), "contains no rows"),
        (b"PK\x03\x04" + b"\0" * 100, "is a zip archive"),
        (f"{HERE}\n".encode("utf-16"), "is UTF-16"),
        (b"7\t\t48.86\t2.33\t1\r" * 9, "has carriage returns for line ends"),
        (b"1,2\n", "has 1 columns, and columns.user is position 0"[:13]),
        (os.urandom(5000).replace(b"\n", b" "), "checkins.txt"),
    ],
)
def test_files_that_are_no_tables(tmp_path, content, part):
    assert part in refusal(tmp_path, content)


def test_header_only(tmp_path):
    assert "contains no rows" in refusal(tmp_path, "lat,lon\n", layout=NAMED)


def test_missing_file_and_directory(tmp_path):
    for source in (tmp_path / "none.txt", tmp_path):
        with pytest.raises(CheckinError, match="cannot be read"):
            crop_checkins(source, SNAP, PARIS, tmp_path / "o", max_malformed_share=0, metadata={})


def test_missing_column_lists_those_there(tmp_path):
    message = refusal(tmp_path, "y,x\n1,2\n", layout=NAMED)
    assert "no column 'lat' (columns.latitude); its columns are 'y', 'x'" in message
    message = refusal(tmp_path, "lat,lon,lat\n1,2,3\n", layout=NAMED)
    assert "several columns 'lat': set columns.latitude to the position" in message
    layout = Layout("csv", ",", False, {"latitude": 0, "longitude": 5})
    message = refusal(tmp_path, "1,2\n", layout=layout)
    assert "has 2 columns, but columns.longitude is position 5" in message


@pytest.mark.parametrize("share", [-0.1, 1.1, math.nan])
def test_share_out_of_range(tmp_path, share):
    with pytest.raises(ValueError, match="max_malformed_share must be from 0 to 1"):
        crop_checkins(tmp_path, SNAP, PARIS, tmp_path / "o", max_malformed_share=share, metadata={})


PARQUET = Layout(
    "parquet", ",", True, {"user": "u", "time": "t", "latitude": "y", "longitude": "x"}
)


def parquet(tmp_path, columns, **options):
    source = tmp_path / "made.parquet"
    pq.write_table(pa.table(columns), source)
    return crop(tmp_path, source.read_bytes(), layout=PARQUET, name="checkins.parquet", **options)


MOMENT = datetime.datetime(2010, 7, 25, 11, 40, 18, tzinfo=UTC)


@pytest.mark.parametrize(
    ("user", "time"),
    [
        (pa.array([7, None], pa.int32()), pa.array([MOMENT, None], pa.timestamp("ns", "UTC"))),
        (pa.array([7, None], pa.uint64()), pa.array([MOMENT, None], pa.timestamp("s"))),
        (pa.array([7.0, math.nan]), pa.array([MOMENT, None], pa.timestamp("ms", "Europe/Paris"))),
        (pa.array(["7", ""]), pa.array(["2010-07-25T11:40:18Z", ""])),
        (
            pa.array(["7.0", None]).dictionary_encode(),
            pa.array(["2010-07-25 11:40:18", None], pa.large_string()),
        ),
    ],
)
@pytest.mark.parametrize("kind", [pa.float64(), pa.string(), pa.decimal128(8, 4)])
def test_parquet_types(tmp_path, user, time, kind):
    y = pa.array(["48.8600", "48.8500"]).cast(kind)
    x = pa.array(["2.3300", "2.3400"]).cast(kind)
    rows, tally = parquet(tmp_path, {"x": x, "extra": [0, 0], "y": y, "u": user, "t": time})
    assert tally == Tally(read=2, malformed=0, outside=0, kept=2)
    assert [row["user"] for row in rows] == [7, None]
    assert [row["time"] for row in rows] == [MOMENT, None]
    assert [row["latitude"] for row in rows] == [48.86, 48.85]


def test_parquet_malformed_rows(tmp_path, caplog):
    columns = {
        "u": [1.0, 2.5, 3.0, 4.0, 5.0],
        "t": pa.nulls(5),
        "y": [48.86, 48.86, math.nan, 91.0, 48.86],
        "x": [2.33, 2.33, 2.33, 2.33, None],
    }
    _, tally = parquet(tmp_path, columns, share=0.8)
    assert tally == Tally(read=5, malformed=3, outside=0, kept=2)
    assert "row 3: latitude is" in caplog.text
    assert "row 5: longitude is missing" in caplog.text


BYTES = [bytes(range(16)), b"\xff" * 16, bytes(range(16))]


@pytest.mark.parametrize(
    ("user", "alike"),
    [
        (pa.array([2**64 - 1, 2**64 - 2, 2**64 - 1], pa.uint64()), [0, 1, 0]),
        (pa.array([7.5, 7.0, 7.5]), [0, 1, 0]),
        (pa.array(BYTES, pa.binary(16)), [0, 1, 0]),
        (pa.array(BYTES, pa.binary()), [0, 1, 0]),
        (pa.array(["ann", "bob", "ann"]).dictionary_encode(), [0, 1, 0]),
        (pa.array(["ann", "bob", "ann"], pa.large_string()), [0, 1, 0]),
        (pa.array(["ann", None, "ann"], pa.string_view()), [0, 1, 0]),
    ],
)
def test_any_identifier_of_a_parquet_file(tmp_path, user, alike):
    columns = {"u": user, "t": pa.nulls(3), "y": [48.86] * 3, "x": [2.33] * 3}
    rows, _ = parquet(tmp_path, columns)
    assert _alike([row["user"] for row in rows]) == alike


def test_an_identifier_is_the_same_user_in_text_and_in_parquet(tmp_path):
    columns = {"u": pa.array([2**64 - 1], pa.uint64()), "t": pa.nulls(1), "y": [48.86], "x": [2.33]}
    binary, _ = parquet(tmp_path, columns)
    text, _ = crop(tmp_path, f"{2**64 - 1}\t\t48.86\t2.33\t1\n")
    assert binary[0]["user"] == text[0]["user"]


def test_parquet_that_cannot_be_read(tmp_path):
    good = tmp_path / "good.parquet"
    pq.write_table(pa.table({"y": [[1.0]], "x": [1.0]}), good)
    layout = Layout("parquet", ",", True, {"latitude": "y", "longitude": "x"})
    message = refusal(tmp_path, good.read_bytes(), layout=layout)
    assert "columns.latitude names a column of type list" in message
    message = refusal(tmp_path, good.read_bytes()[:-10], layout=layout)
    assert "cannot be read as parquet" in message
    assert "is parquet, but format is csv: change it" in refusal(tmp_path, good.read_bytes())
    assert "is text, but format is parquet: change it" in refusal(
        tmp_path, f"{HERE}\n", layout=layout
    )
    message = refusal(tmp_path, good.read_bytes(), layout=PARQUET)
    assert "no column 'u'" in message


GOOD = {"latitude": "lat", "longitude": "lon"}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "columns is missing"),
        ({"columns": GOOD, "delimiter": ","}, "delimiter is not a key of a layout"),
        ({"columns": GOOD, "format": "json"}, "format must be csv or parquet"),
        ({"columns": GOOD, "header": "yes"}, "header must be true or false"),
        ({"columns": GOOD, "separator": "tab"}, "separator must be one character"),
        ({"columns": GOOD, "separator": "."}, "separator must be one character"),
        ({"columns": GOOD, "separator": ""}, "separator must be one character"),
        ({"columns": {"latitude": "lat"}}, "columns.longitude is missing"),
        ({"columns": {**GOOD, "lat": 1}}, "columns.lat is not a known column"),
        ({"columns": {**GOOD, "user": -1}}, "columns.user must be the column's name or its pos"),
        ({"columns": {**GOOD, "user": True}}, "columns.user must be the column's name or its pos"),
        ({"columns": {**GOOD, "user": 1.5}}, "columns.user must be the column's name or its pos"),
        (
            {"columns": {**GOOD, "user": "lat"}},
            "each entry of columns must name a different column",
        ),
        ({"columns": GOOD, "header": False}, "columns.latitude must be a position"),
        ({"columns": ["lat", "lon"]}, "columns must map names"),
    ],
)
def test_wrong_layouts(spec, message):
    with pytest.raises(ValueError, match=message):
        layout_from_config(spec)


def test_layouts_of_the_configuration():
    spec = {"separator": "\t", "header": False, "columns": dict(SNAP.columns)}
    assert layout_from_config(spec) == SNAP
    assert layout_from_config({"columns": GOOD}) == Layout("csv", ",", True, GOOD)


def test_file_sha256(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"abc" * 1_000_000)
    assert file_sha256(path) == hashlib.sha256(b"abc" * 1_000_000).hexdigest()


def test_no_progress_bar_without_a_terminal(tmp_path):
    (tmp_path / "x").write_text(f"{HERE}\n")
    code = (
        "import sys; from pathlib import Path; from shuffledp.geography.checkins import *\n"
        "from shuffledp.geography.regions import *\n"
        "crop_checkins(Path(sys.argv[1]), SNAP, Region('w', Box(-90, 90, -180, 180)), "
        "Path(sys.argv[1] + '.parquet'), max_malformed_share=0, metadata={})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "x")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert (done.stdout, done.stderr) == ("", "")


def reference(text: str) -> tuple[list[tuple[float, float, int | str | None]], int]:
    """Read rows of latitude;longitude;user one by one: the kept ones and how many are malformed."""
    kept, malformed = [], 0
    for line in text.split("\n"):
        if not line:
            continue
        try:
            latitude, longitude, user = line.split(";")
            y, x = float(latitude), float(longitude)
            if not (abs(y) <= 90 and abs(x) <= 180):
                raise ValueError
        except ValueError:
            malformed += 1
            continue
        whole = re.fullmatch(r"([+-]?\d+)(\.0*)?", user)
        # pandas writes a missing user as nan.
        kept.append((y, x, int(whole[1]) if whole else user if user not in ("", "nan") else None))
    return kept, malformed


FIELD = st.one_of(
    st.floats(-200, 200).map(repr),
    st.integers(-200, 200).map(str),
    st.sampled_from(["", "nan", "inf", "-", ".", "1.", "-.5", "1e1", "1e", "x", "1 2", "--1"]),
)
LINE = st.one_of(
    st.tuples(FIELD, FIELD, st.sampled_from(["", "1", "2.0", "2.5", "x"])).map(";".join),
    st.lists(FIELD, max_size=5).map(";".join),
)


@pytest.mark.slow
@settings(
    deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@example(lines=["0.0;0.0;nan"])
@given(lines=st.lists(LINE, max_size=30))
def test_agrees_with_reading_row_by_row(tmp_path, lines):
    text = "\n".join(["10;20;30", "10;20;31", *lines])
    layout = Layout("csv", ";", False, {"latitude": 0, "longitude": 1, "user": 2})
    source, out = tmp_path / "x", tmp_path / "y.parquet"
    # Enough rows of three fields for the width not to be in doubt.
    source.write_text("10;20;30\n" * 40 + text)
    tally = crop_checkins(source, layout, WORLD, out, max_malformed_share=1, metadata={})
    kept, malformed = reference(text)
    rows = pq.read_table(out).slice(40).to_pylist()
    places, users = [row[:2] for row in kept], [row[2] for row in kept]
    assert [(row["latitude"], row["longitude"]) for row in rows] == places
    found = [row["user"] for row in rows]
    assert _alike(found) == _alike(users)
    numbers = [user if isinstance(user, int) else None for user in users]
    assert [None if isinstance(u, str) else f for u, f in zip(users, found, strict=True)] == numbers
    assert tally.malformed == malformed


def test_a_defect_while_reading_parquet_is_not_the_files_fault(tmp_path, monkeypatch):
    def broken(table, lines, faults):
        raise TypeError("no such operand")

    source = tmp_path / "checkins.parquet"
    pq.write_table(pa.table({"y": [48.86], "x": [2.33]}), source)
    monkeypatch.setattr("shuffledp.geography.parquet_files.convert_rows", broken)
    layout = Layout("parquet", ",", True, {"latitude": "y", "longitude": "x"})
    with pytest.raises(TypeError, match="no such operand"):
        crop_checkins(source, layout, PARIS, tmp_path / "o", max_malformed_share=0, metadata={})


def _zipped(*names):
    packed = io.BytesIO()
    with ZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr(name, "x" * 200)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("data", "name", "message"),
    [
        (_zipped("[Content_Types].xml", "xl/workbook.xml"), "a.xlsx", "is a spreadsheet: save"),
        (_zipped("[Content_Types].xml", "xl/workbook.xml"), "a.csv", "is a spreadsheet: save"),
        (_zipped("mimetype", "content.xml"), "a.ods", "is a spreadsheet: save"),
        (_zipped("xl/workbook.xml")[:150], "a.xlsx", "is a spreadsheet: save"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512), "a.xls", "is a spreadsheet: save"),
        (_zipped("checkins.csv"), "a.zip", "is a zip archive: unpack it"),
    ],
)
def test_a_spreadsheet_is_to_be_saved_as_text(tmp_path, data, name, message):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(CheckinError, match=message):
        file_kind(tmp_path / name)


BY_NAME = {"latitude": "lat", "longitude": "lon"}


@pytest.mark.parametrize(
    ("text", "spec", "message"),
    [
        ("id;lat;lon\n1;48.8;2.3\n", {"columns": BY_NAME}, 'set `separator: ";"`'),
        ("id\tlat\tlon\n1\t48.8\t2.3\n", {"columns": BY_NAME}, 'set `separator: "\\\\t"`'),
        (
            "id,lat,lon\n1,48.8,2.3\n",
            {"columns": BY_NAME, "separator": ";"},
            'set `separator: ","`',
        ),
        (
            "1;48.8;2.3\n",
            {"columns": {"latitude": 1, "longitude": 2}, "header": False},
            'set `separator: ";"`',
        ),
        (
            "lat;lon\n48,8;2,3\n48,9;2,4\n",
            {"columns": BY_NAME, "separator": ";"},
            "latitude is not a number .*: write decimals with a point, not a comma",
        ),
        ("a,b,c\n1,2,3\n", {"columns": BY_NAME}, r"has no column 'lat' .* are 'a', 'b', 'c'$"),
        (
            "4711,2012-04-04T03:00:09Z,48.861234,2.337654\n",
            {"columns": BY_NAME},
            r"has no column 'lat' .*: its first line is a row, not the names of the columns",
        ),
        ("4711;48,861234;2,337654\n", {"columns": BY_NAME}, "its first line is a row"),
    ],
)
def test_foreign_text_is_refused_with_the_remedy(tmp_path, text, spec, message):
    (tmp_path / "in.csv").write_text(text)
    with pytest.raises(CheckinError, match=message) as refused:
        crop_checkins(
            tmp_path / "in.csv", layout_from_config(spec), WORLD, tmp_path / "out",
            max_malformed_share=0.1, metadata={},
        )  # fmt: skip
    assert "\n" not in str(refused.value)
    assert "4711" not in str(refused.value) and "861234" not in str(refused.value)
