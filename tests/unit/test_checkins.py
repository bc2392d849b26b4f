"""Check-ins are read, validated and cropped, from files written here and from the real ones."""

import bz2
import datetime
import gzip
import io
import lzma
import math
import os
from pathlib import Path
from zipfile import ZipFile

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from real_data import GOWALLA, needs_gowalla
from shuffledp.errors import InputError
from shuffledp.geography.checkins import (
    SNAP,
    CheckinError,
    Layout,
    Tally,
    crop_checkins,
    layout_from_config,
    read_batches,
)
from shuffledp.geography.regions import Box, Region
from shuffledp.geography.sources import source_layout
from shuffledp.geography.text_files import BLOCK_BYTES, text_blocks
from shuffledp.geography.windows import windows_from_config

PARIS = Region("paris", Box(south=48.8286, north=48.8798, west=2.2855, east=2.3909))
WORLD = Region("world", Box(south=-90, north=90, west=-180, east=180))
HERE = "7\t2010-07-25T11:40:18Z\t48.86\t2.33\t15"
UTC = datetime.UTC
BY_NAME = {"latitude": "lat", "longitude": "lon"}
NAMED = layout_from_config({"columns": BY_NAME})


def crop(tmp_path, content, **options):
    """Crop a file of these bytes or text; return the rows as dictionaries, and the tally."""
    table, tally = crop_table(tmp_path, content, **options)
    return table.to_pylist(), tally


def crop_table(
    tmp_path, content, *, layout=SNAP, region=PARIS, share=0.0, name="checkins.txt", windows=None
):
    source = tmp_path / name
    source.write_bytes(content.encode() if isinstance(content, str) else content)
    destination = tmp_path / "out" / "cropped.parquet"
    tally = crop_checkins(
        source,
        layout,
        region,
        destination,
        max_malformed_share=share,
        metadata={"a": "b"},
        windows=windows,
    )
    assert [path.name for path in destination.parent.iterdir()] == [destination.name]
    return pq.read_table(destination), tally


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


def test_borders_belong_to_the_region(tmp_path, capfd):
    text = "1\t\t48.8286\t2.2855\t\n2\t\t48.8798\t2.3909\t\n3\t\t48.87980000001\t2.39\t\n"
    rows, _ = crop(tmp_path, text)
    assert [row["user"] for row in rows] == [1, 2]
    assert capfd.readouterr() == ("", ""), "there is no progress bar without a terminal"


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


PACKERS = {
    "checkins.txt": bytes,
    "checkins.txt.gz": gzip.compress,
    "checkins.txt.bz2": bz2.compress,
    "checkins.txt.xz": lzma.compress,
    "checkins.txt.zst": lambda data: pa.Codec("zstd").compress(data).to_pybytes(),
}


@pytest.mark.parametrize("name", PACKERS)
def test_one_or_more_packed_parts_in_a_file(tmp_path, name):
    part = PACKERS[name](f"{HERE}\n".encode())
    for number in (1, 2):
        rows, _ = crop(tmp_path, part * number, name=name)
        assert len(rows) == number


def test_zeros_after_the_last_packed_part_are_padding(tmp_path):
    rows, _ = crop(tmp_path, gzip.compress(f"{HERE}\n".encode()) + bytes(512), name="padded.gz")
    assert len(rows) == 1


def test_the_contents_and_not_the_name_decide_the_packing(tmp_path, caplog):
    rows, _ = crop(tmp_path, f"{HERE}\n", name="unpacked_on_the_way.txt.gz")
    assert len(rows) == 1
    assert "is named as gzip, but contains and is read as text" in caplog.text
    rows, _ = crop(tmp_path, gzip.compress(f"{HERE}\n".encode()), name="packed.txt")
    assert len(rows) == 1


@pytest.mark.parametrize("name", [name for name in PACKERS if name != "checkins.txt"])
def test_truncated_and_damaged_files(tmp_path, name):
    random = np.random.default_rng(1).uniform(48.83, 48.87, 20_000)
    data = PACKERS[name]("".join(f"1\t\t{x}\t2.3\t1\n" for x in random).encode())
    for cut in (data[:-3], data[: len(data) // 2], data[:40]):
        assert "is truncated or damaged" in refusal(tmp_path, cut, name=name)
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 0x10
    if name != "checkins.txt.zst":  # zstd's checksum is optional, and not written here
        message = refusal(tmp_path, bytes(flipped), name=name)
        assert "is truncated or damaged" in message and "fetch it again" in message


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
    # The empty line is counted as a line but not as a row.
    assert f"{tmp_path / 'checkins.txt'}, line 4: {reason}" in caplog.text
    # A value may identify somebody, and logs are handed on.
    for value in row.split(b"\t"):
        if len(value) > 3:
            assert value.decode(errors="replace") not in caplog.text
    message = refusal(tmp_path, content, share=0.24)
    assert "1 of 4 rows are malformed, more than max_malformed_share=0.24 allows" in message
    assert f"line 4: {reason}" in message


# --- Budgets ------------------------------------------------------------------------------------

CHOICES = source_layout({"columns": BY_NAME}, "b")


def choice(value):
    """Return a csv file whose second row, on line 4, has this budget."""
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
        *((value, "budget is not") for value in ("NaN", "inf", "1e-10", "20.1", "low", "0x2")),
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


# --- Sound rows ---------------------------------------------------------------------------------

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
}


@pytest.mark.parametrize("beside", [HERE, "7.0\t2010-07-25 11:40:18\t48.86\t +2.33\t15", "bad"])
@pytest.mark.parametrize("kind", SOUND)
def test_unusual_but_sound_rows_whatever_is_beside_them(tmp_path, kind, beside):
    text, expected = SOUND[kind]
    rows, tally = crop(tmp_path, f"{HERE}\n{text}\n{beside}\n", share=0.4)
    assert tally == Tally(read=3, malformed=beside == "bad", outside=0, kept=3 - (beside == "bad"))
    assert rows[0]["location"] == 15
    assert {name: rows[1][name] for name in expected} == expected


OFFSET = [
    "2012-04-04T03:00:09+09:00",
    "2012-04-03 23:59:59.25+09:00",
    "2012-02-29T08:59:59+0900",
    "2011-12-31T23:30:00-03:30",
    "2012-04-03T18:00:09Z",
]
NAIVE = ["2012-04-04T03:00:09", "2012-04-03 23:59:59.25", "2012-02-29 00:00:00", "2012-12-31"]


def utc(text):
    """Return what Python's own parser reads; a time without a zone is in UTC."""
    moment = datetime.datetime.fromisoformat(text)
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "times",
    [[OFFSET[0]] * 40, OFFSET, NAIVE, [*NAIVE, "", *OFFSET]],
    ids=["one offset", "offsets", "naive", "offsets, naive and missing"],
)
def test_times_agree_with_pythons_parser(tmp_path, times):
    """The file has names outside ASCII, quotation marks and a decimal comma in an unread column."""
    names = {"latitude": "緯度", "longitude": "経度", "time": "local time", "user": "who"}
    layout = layout_from_config({"separator": ";", "columns": names})
    lines = [f'"1,5; é";2.33;{100 + i};"{time}";48.86' for i, time in enumerate(times)]
    text = "\n".join(["note;経度;who;local time;緯度", *lines])
    rows, tally = crop(tmp_path, text, layout=layout)
    assert (tally.read, tally.kept) == (len(times), len(times))
    assert [row["time"] for row in rows] == [utc(text) if text else None for text in times]
    assert [row["user"] for row in rows] == list(range(100, 100 + len(times)))
    assert {(row["latitude"], row["longitude"]) for row in rows} == {(48.86, 2.33)}


USERS = [
    "bob", "Bob", "Zoë", "Zoé", "東", "7.5", "1e1", "inf", "a b", "-", "0x", "9223372036854775808",
    "18446744073709551615", "-9223372036854775809", "1" * 40,
    "00000000-0000-0000-0000-00000000001f", "0000000000000000000000000000001f",
    "5eb63bbbe01eeed093cb22bb8f5acdc3", "31", "7",
]  # fmt: skip


def first_positions(values):
    """Return for each value where an equal one is first: equal patterns mean equal identities."""
    return [values.index(value) for value in values]


@pytest.mark.parametrize("beside", ["8", "bad row"])
def test_any_identifier_tells_users_apart(tmp_path, beside):
    written = [*USERS, *USERS[::-1], beside, ""]
    text = "".join(f"{user}\t\t48.86\t2.33\t1\n" for user in written)
    malformed = "7\t\tnowhere\t2.33\t1\n" if beside == "bad row" else ""
    rows, tally = crop(tmp_path, f"{text}{malformed}", share=0.1)
    users = [row["user"] for row in rows]
    assert tally.malformed == bool(malformed)
    assert first_positions(users) == first_positions(written)
    assert users[-1] is None
    assert users[USERS.index("31")] == 31
    # Neither other rows nor the order change an identifier, so regions and files are comparable.
    again, _ = crop(tmp_path, "".join(f"{u}\t\t48.86\t2.33\t1\n" for u in USERS[::-1]))
    assert [row["user"] for row in again][::-1] == users[: len(USERS)]


@pytest.mark.parametrize(
    ("written", "positions"),
    [
        (["Zoë".encode("latin-1"), "Zoé".encode("latin-1"), "Zoë".encode("latin-1")], [0, 1, 0]),
        ([b"bob", b" bob ", b"ann"], [0, 0, 2]),
        ([b" ", b"", b"ann"], [0, 0, 2]),
    ],
    ids=["not UTF-8", "blanks around a user", "blank users"],
)
def test_bytes_and_blanks_of_identifiers(tmp_path, written, positions):
    rows, _ = crop(tmp_path, b"".join(user + b"\t\t48.86\t2.33\t1\n" for user in written))
    assert first_positions([row["user"] for row in rows]) == positions
    assert (rows[0]["user"] is None) == (not written[0].strip())


TABBED = Layout("csv", "\t", True, {"latitude": "lat", "longitude": "lon"})


@pytest.mark.parametrize(
    ("content", "layout", "longitudes", "malformed"),
    [
        (f"\N{ZERO WIDTH NO-BREAK SPACE}{HERE}\r\n\r\n{HERE}\r\n\n{HERE}", SNAP, [2.33] * 3, 0),
        ("8Z\t48.86\n" + f"{HERE}\n" * 3, SNAP, [2.33] * 3, 1),
        (
            'name,"lon",lat\n"Café, bar",2.33,"48.86"\n"a ""b""",2.34,48.85\n',
            NAMED,
            [2.33, 2.34],
            0,
        ),
        ('name,lon,lat\n"a"b,2.33,48.86\nx"y,2.34,48.85', NAMED, [2.33, 2.34], 0),
        ('name,lon,lat\n"a"b,2.33,48.86\nx"y,2.34,48.85\nx,2,no', NAMED, [2.33, 2.34], 1),
        ('n\tlat\tlon\n5" pipe\t48.86\t2.33\n', TABBED, [2.33], 0),
        ("x;y\n2.33;48.86\n", Layout("csv", ";", True, {"latitude": 1, "longitude": 0}), [2.33], 0),
    ],
    ids=[
        *("line ends and byte order mark", "damaged first line", "quoted fields"),
        *("odd quotation marks", "odd quotation marks and a malformed row"),
        *("quotation marks between tabs", "positions with a header"),
    ],
)
def test_forms_of_text(tmp_path, content, layout, longitudes, malformed):
    rows, tally = crop(tmp_path, content, layout=layout, share=0.4)
    assert [row["longitude"] for row in rows] == longitudes
    assert tally.malformed == malformed


def test_unmapped_columns_are_null_and_never_malformed(tmp_path):
    layout = Layout("csv", "\t", False, {"latitude": 2, "longitude": 3})
    rows, _ = crop(tmp_path, b"bob\t\xff\t48.86\t2.33\tx\n", layout=layout)
    assert rows == [
        {"user": None, "time": None, "latitude": 48.86, "longitude": 2.33, "location": None}
    ]


@pytest.mark.parametrize("bad", ['"open,2.33,48.86', 'x"a,"b,2.33,48.86', 'a,2.33,"48.86'])
def test_an_open_quotation_mark_spoils_only_its_line(tmp_path, bad, caplog):
    lines = ["name,lon,lat", "a,2.33,48.86", bad, "b,2.34,48.85", '"c",2.35,48.84']
    rows, tally = crop(tmp_path, "\n".join(lines), layout=NAMED, share=0.5)
    assert tally == Tally(read=4, malformed=1, outside=0, kept=3)
    assert [row["longitude"] for row in rows] == [2.33, 2.34, 2.35]
    assert "line 3: a quotation mark is not closed" in caplog.text


def test_line_numbers_reach_across_blocks(tmp_path):
    row = f"{HERE}\n".encode()
    count = 2 * BLOCK_BYTES // len(row) + 1000
    content = row * count + b"7\t\tnowhere\t2.33\t1\n" + b"\n" + row
    assert f"line {count + 1}: latitude is not" in refusal(tmp_path, content)
    message = refusal(tmp_path, row + b"\n" + content)
    assert f"line {count + 3}: latitude is not" in message


def test_row_groups_of_a_large_crop(tmp_path):
    rows = 300_000
    _, tally = crop_table(tmp_path, "".join(f"{i}\t\t48.86\t2.33\t\n" for i in range(rows)))
    assert tally.kept == rows
    with pq.ParquetFile(tmp_path / "out" / "cropped.parquet") as file:
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        assert sizes == [2**18, rows - 2**18]
        assert file.read()["user"].to_pylist() == list(range(rows))


# --- Whole files that are refused ---------------------------------------------------------------


def zipped(*names):
    packed = io.BytesIO()
    with ZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr(name, "x" * 200)
    return packed.getvalue()


JSON = b'{"type": "FeatureCollection", "features": [{"type": "Feature"}]}'
TWO_LINES = ["lon,name,lat", *['2.33,"two\nlines",48.86', "2.33,one,48.86"] * 5]


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"", ["is empty"]),
        (b"\n\n\n", ["contains no rows"]),
        (gzip.compress(b"", mtime=0), ["contains no rows"]),
        (b"<!DOCTYPE html><html></html>", ["is a web page"]),
        (b"\xef\xbb\xbf\n  <?xml version='1.0'?>", ["is a web page or XML"]),
        (gzip.compress(b"<html></html>", mtime=0), ["is a web page or XML"]),
        (f"{HERE}\n".encode("utf-16"), ["is UTF-16"]),
        (b"7\t\t48.86\t2.33\t1\r" * 9, ["has carriage returns for line ends"]),
        (os.urandom(5000).replace(b"\n", b" "), ["checkins.txt"]),
        *((json, ["is JSON, not a table"])
          for json in (JSON, b"{\n" + JSON[1:], b"\xef\xbb\xbf [" + JSON + b"]")),
        (zipped("[Content_Types].xml", "xl/workbook.xml"), ["is a spreadsheet: save"]),
        (zipped("mimetype", "content.xml"), ["is a spreadsheet: save"]),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(512), ["is a spreadsheet: save"]),
        (zipped("checkins.csv"), ["is a zip archive: unpack it"]),
        ("a\tb\tc\td\te\n", ["all its rows are malformed"]),
        (f"user\ttime\tlatitude\tlongitude\tlocation\n{HERE}\n", ["set header: true"]),
        ("7\tyesterday\t48.86\t2.33\t1\n" * 5,
         ["line 1: time is not an ISO 8601 time (set time_format, or remove columns.time"]),
        *((f"7\t\t{point}\t1\n" * 5, ["seem to be projected, such as UTM metres",
                                       "set crs to the EPSG code of their reference system"])
          for point in ("4649776\t500000", "500000\t4649776", "-6253000\t260000.5")),
        (f"{HERE}\n7\t\t91\t2.33\t1\n", ["1 of 2 rows are malformed"]),
        ("7\t\t2.33\t48.86\t1\n" * 5 + "7\t\t1.0\t1.0\t1\n",
         ["but 5 with latitude and longitude swapped",
          "set columns.latitude to 3 and columns.longitude to 2"]),
        ("7\t\t10.5\t20.5\t1\n7\t\t-11.5\t21.5\t1\n",
         ["no check-in in region paris (latitude 48.8286 to 48.8798",
          "within latitude -12 to 11, longitude 20 to 22"]),
    ],
)  # fmt: skip
def test_files_that_hold_no_check_ins_in_paris(tmp_path, content, parts):
    message = refusal(tmp_path, content, share=float(parts[0].startswith("all its rows")))
    assert [part for part in parts if part not in message] == []
    for advice, kind in [("header", "set header"), ("projected", "seem to be projected")]:
        assert (advice in message) == (kind in message), "no other remedy is suggested"


def test_a_period_without_check_ins_is_named(tmp_path):
    windows = windows_from_config({"period": {"from": "2011-01-01", "to": "2011-12-31"}})
    assert "within the period" in refusal(tmp_path, f"{HERE}\n", windows=windows)
    assert "within the period" not in refusal(tmp_path, "7\t\t10.5\t20.5\t1\n")


def test_a_damaged_spreadsheet_is_recognised_by_its_name(tmp_path):
    damaged = zipped("xl/workbook.xml")[:150]
    assert "is a spreadsheet: save" in refusal(tmp_path, damaged, name="a.xlsx")


def test_swapped_coordinates_out_of_range(tmp_path):
    region = Region("sf", Box(south=37.7228, north=37.7946, west=-122.5153, east=-122.3789))
    message = refusal(tmp_path, "7\t\t-122.45\t37.75\t1\n" * 5, region=region)
    assert "Latitude and longitude seem to be swapped" in message
    assert "set columns.latitude to 3 and columns.longitude to 2" in message


SEMICOLONS = Layout("csv", ";", True, BY_NAME)


@pytest.mark.parametrize(
    ("text", "layout", "part"),
    [
        ("lat,lon\n", NAMED, "contains no rows"),
        ("y,x\n1,2\n", NAMED, "no column 'lat' (columns.latitude); its columns are 'y', 'x'"),
        ("lat,lon,lat\n1,2,3\n", NAMED,
         "several columns 'lat': set columns.latitude to the position"),
        ("1,2\n", Layout("csv", ",", False, {"latitude": 0, "longitude": 5}),
         "has 2 columns, but columns.longitude is position 5"),
        (choice(1), source_layout({"columns": BY_NAME}, "eps"),
         "has no column 'eps' (budgets.column); its columns are 'lat', 'lon', 'b'"),
        (choice(1), source_layout({"columns": BY_NAME}, 3),
         "has 3 columns, but budgets.column is position 3 counted from 0"),
        ("\n".join(TWO_LINES), NAMED, "10 of 15 rows are malformed, more than "
         "max_malformed_share=0.0 allows; the first is line 2: a quotation mark is not closed in "
         "its line; a quoted field must not contain a line break: remove the break, or convert "
         "the file to parquet"),
        ("id;lat;lon\n1;48.8;2.3\n", NAMED, 'set `separator: ";"`'),
        ("id\tlat\tlon\n1\t48.8\t2.3\n", NAMED, 'set `separator: "\\t"`'),
        ("id,lat,lon\n1,48.8,2.3\n", SEMICOLONS, 'set `separator: ","`'),
        ("1;48.8;2.3\n", Layout("csv", ",", False, {"latitude": 1, "longitude": 2}),
         'set `separator: ";"`'),
        ("lat;lon\n48,8;2,3\n48,9;2,4\n", SEMICOLONS,
         "write decimals with a point, or set decimal: "),
        ("a,b,c\n1,2,3\n", NAMED, "are 'a', 'b', 'c'"),
        ("4711,2012-04-04T03:00:09Z,48.861234,2.337654\n", NAMED,
         ": its first line is a row, not the names of the columns"),
        ("4711;48,861234;2,337654\n", NAMED, "set header: false and give columns by position; its "
         'fields seem to be separated differently: set `separator: ";"`'),
    ],
)  # fmt: skip
def test_text_that_is_not_as_the_layout_says(tmp_path, text, layout, part):
    message = refusal(tmp_path, text, layout=layout)
    assert part in message and "\n" not in message
    assert ("set `separator" in message) == ("set `separator" in part)
    assert "4711" not in message and "861234" not in message, "values of a row are personal"


def test_missing_file_and_directory(tmp_path):
    for source in (tmp_path / "none.txt", tmp_path):
        with pytest.raises(CheckinError, match="cannot be read"):
            crop_checkins(source, SNAP, PARIS, tmp_path / "o", max_malformed_share=0, metadata={})


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
    "user",
    [
        pa.array([2**64 - 1, 2**64 - 2, 2**64 - 1], pa.uint64()),
        pa.array([7.5, 7.0, 7.5]),
        pa.array(BYTES, pa.binary(16)),
        pa.array(BYTES, pa.binary()),
        pa.array(["ann", "bob", "ann"]).dictionary_encode(),
        pa.array(["ann", "bob", "ann"], pa.large_string()),
        pa.array(["ann", None, "ann"], pa.string_view()),
    ],
)
def test_any_identifier_of_a_parquet_file(tmp_path, user):
    columns = {"u": user, "t": pa.nulls(3), "y": [48.86] * 3, "x": [2.33] * 3}
    rows, _ = parquet(tmp_path, columns)
    assert first_positions([row["user"] for row in rows]) == [0, 1, 0]


def test_an_identifier_is_the_same_user_in_text_and_in_parquet(tmp_path):
    columns = {"u": pa.array([2**64 - 1], pa.uint64()), "t": pa.nulls(1), "y": [48.86], "x": [2.33]}
    binary, _ = parquet(tmp_path, columns)
    text, _ = crop(tmp_path, f"{2**64 - 1}\t\t48.86\t2.33\t1\n")
    assert binary[0]["user"] == text[0]["user"]


def scattered(rows):
    """Return check-ins in and around Paris, some of them malformed, in columns of every kind."""
    random = np.random.default_rng(5)
    y, x = random.uniform(48.7, 49.0, rows), random.uniform(2.2, 2.5, rows)
    y[random.random(rows) < 0.01] = 91
    x[random.random(rows) < 0.01] = math.nan
    missing = random.random(rows) < 0.1
    return pa.table(
        {
            "u": pa.array([f"user {number}" for number in random.integers(0, 500, rows)]),
            "t": pa.array(random.integers(0, 2**50, rows), pa.timestamp("us"), mask=missing),
            "y": pa.array(y, mask=random.random(rows) < 0.01),
            "x": pa.array(x),
            "p": pa.array(random.integers(0, 99, rows), pa.int16(), mask=missing),
        }
    )


@pytest.mark.parametrize("group_rows", [7, 5_000, 150_000, 400_000])
def test_parquet_agrees_with_duckdb_whatever_its_row_groups(tmp_path, group_rows):
    rows = 2_000 if group_rows < 100 else 300_000
    source = tmp_path / "checkins.parquet"
    made = scattered(rows)
    pq.write_table(made, source, row_group_size=group_rows)
    layout = Layout("parquet", ",", True, {**PARQUET.columns, "location": "p"})
    options = {"layout": layout, "name": source.name, "share": 0.5}
    columns, tally = crop_table(tmp_path, source.read_bytes(), **options)
    valid = "y BETWEEN -90 AND 90 AND x BETWEEN -180 AND 180"  # NaN is above all numbers
    inside = f"y BETWEEN {PARIS.box.south} AND {PARIS.box.north}"
    inside += f" AND x BETWEEN {PARIS.box.west} AND {PARIS.box.east}"
    # The file would not do: by its statistics, which ignore NaN, DuckDB takes NaN for valid there.
    database = duckdb.connect()
    database.register("made", made)
    where = f"FROM made WHERE {valid}"
    expected = database.sql(f"SELECT y, x, epoch_us(t), p, u {where} AND {inside}").fetchall()
    usable = database.sql(f"SELECT count(*) {where}").fetchall()[0][0]
    kept = len(expected)
    assert tally == Tally(rows, malformed=rows - usable, outside=usable - kept, kept=kept)
    assert tally.malformed > 0.02 * rows and kept > 0.05 * rows
    times = columns["time"].cast(pa.int64()).to_pylist()
    own = zip(columns["latitude"].to_pylist(), columns["longitude"].to_pylist(), times, strict=True)
    assert list(own) == [row[:3] for row in expected]
    assert columns["location"].to_pylist() == [row[3] for row in expected]
    users = [row[4] for row in expected]
    assert first_positions(columns["user"].to_pylist()) == first_positions(users)
    whole = pa.concat_tables([batch.table for batch in read_batches(source, layout)])
    assert whole.num_rows == usable
    inside = PARIS.contains(whole["latitude"].to_numpy(), whole["longitude"].to_numpy())
    assert (
        whole.filter(pa.array(inside))
        .select(columns.column_names)
        .equals(columns.cast(whole.select(columns.column_names).schema))
    )


def test_row_groups_without_a_row_in_the_region_are_read_no_further_than_needed(tmp_path):
    columns = {"u": pa.array(range(6)), "t": pa.nulls(6), "x": [2.33] * 6}
    table = pa.table({**columns, "y": [48.86, 48.86, 10.0, math.nan, 48.86, 48.86]})
    source = tmp_path / "made.parquet"
    rows = np.concatenate([np.tile([start, start + 1], 70_000) for start in (0, 2, 4)])
    options = {"use_dictionary": False, "write_page_checksum": True}
    pq.write_table(table.take(rows), source, row_group_size=140_000, **options)
    data = bytearray(source.read_bytes())
    column = pq.read_metadata(source).row_group(1).column(0)
    data[column.data_page_offset + column.total_compressed_size // 2] ^= 0x10
    options = {"layout": PARQUET, "name": "checkins.parquet", "share": 0.2}
    rows, tally = crop_table(tmp_path, bytes(data), **options)
    assert tally == Tally(420_000, malformed=70_000, outside=70_000, kept=280_000)
    assert rows["user"].to_pylist() == [0, 1] * 70_000 + [4, 5] * 70_000
    damaged = refusal(tmp_path, bytes(data), region=WORLD, **options)
    assert "cannot be read as parquet" in damaged


COMMAS = layout_from_config({"separator": ";", "decimal": ",", "columns": BY_NAME})


@pytest.mark.parametrize("beside", ["", "1;48,86;east\n"])
def test_decimal_commas(tmp_path, beside, caplog):
    text = "id;lat;lon\n1;48,86;2,33\n1;48,85;2,34\n"
    rows, tally = crop(tmp_path, text + beside, layout=COMMAS, share=0.5)
    assert tally.kept == 2
    assert [(row["latitude"], row["longitude"]) for row in rows] == [(48.86, 2.33), (48.85, 2.34)]
    _, tally = crop(tmp_path, text + "1;48.86;2,33\n" + beside, layout=COMMAS, share=0.9)
    assert tally.malformed == 1 + bool(beside)
    assert "line 4: latitude is not a number" in caplog.text


# The coordinates of a projection's origin, in metres and in degrees, follow from its definition.
ORIGINS = {
    "EPSG:2154": ((6_600_000.0, 700_000.0), (46.5, 3.0)),
    "EPSG:32631": ((0.0, 500_000.0), (0.0, 3.0)),
    "EPSG:3857": ((0.0, 0.0), (0.0, 0.0)),
    "EPSG:3035": ((3_210_000.0, 4_321_000.0), (52.0, 10.0)),
}


@pytest.mark.parametrize("kind", ["strict text", "lenient text", "parquet"])
@pytest.mark.parametrize("crs", ORIGINS)
def test_coordinates_in_another_reference_system(tmp_path, crs, kind):
    (north, east), expected = ORIGINS[crs]
    if kind == "parquet":
        buffer = io.BytesIO()
        pq.write_table(pa.table({"lat": [north, None, math.inf], "lon": [east] * 3}), buffer)
        content, layout = buffer.getvalue(), {"format": "parquet", "columns": BY_NAME, "crs": crs}
    else:
        content = f"lat,lon\n{north},{east}\n".encode()
        content += f",{east}\ninf,{east}\n".encode() if kind == "lenient text" else b""
        layout = {"columns": BY_NAME, "crs": crs}
    rows, tally = crop(
        tmp_path, content, layout=layout_from_config(layout), region=WORLD, share=0.9, name="x"
    )
    assert (tally.kept, tally.read) == (1, 1 if kind == "strict text" else 3)
    assert (rows[0]["latitude"], rows[0]["longitude"]) == pytest.approx(expected, abs=1e-8)


def test_malformed_coordinates_of_another_system_are_described(tmp_path, caplog):
    layout = layout_from_config(
        {"columns": {"latitude": "n", "longitude": "e"}, "crs": "EPSG:2154"}
    )
    content = "n,e\n6600000,700000\n6600000,\nnorth,700000\n"
    crop(tmp_path, content, layout=layout, region=WORLD, share=0.9)
    assert "line 3: longitude is missing" in caplog.text
    assert "line 4: latitude is not a coordinate of EPSG:2154" in caplog.text


@pytest.mark.parametrize(
    ("crs", "north", "east"), [("EPSG:32631", 1e12, 5e5), ("EPSG:3857", 0, 3e7)]
)
def test_a_point_that_wraps_around_the_earth_is_malformed(tmp_path, crs, north, east):
    layout = layout_from_config({"columns": {"latitude": "n", "longitude": "e"}, "crs": crs})
    content = f"n,e\n0,500000\n{north},{east}\n"
    _, tally = crop(tmp_path, content, layout=layout, region=WORLD, share=0.9)
    assert tally == Tally(read=2, malformed=1, outside=0, kept=1)


@pytest.mark.parametrize("crs", ["2154", "EPSG:999999", "EPSG:5773", "EPSG:4978", "+proj=utm"])
def test_systems_that_are_not_of_points_on_a_map(crs):
    with pytest.raises(InputError, match="crs must be the EPSG code of a projected or geographic"):
        layout_from_config({"columns": BY_NAME, "crs": crs})


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


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "columns is missing"),
        ({"columns": BY_NAME, "delimiter": ","}, "delimiter is not a key of a layout"),
        ({"columns": BY_NAME, "format": "json"}, "format must be csv, parquet or geo"),
        ({"columns": BY_NAME, "header": "yes"}, "header must be true or false"),
        ({"columns": BY_NAME, "separator": "tab"}, "separator must be one character"),
        ({"columns": BY_NAME, "separator": "."}, "separator must be one character"),
        ({"columns": BY_NAME, "separator": ""}, "separator must be one character"),
        ({"columns": {"latitude": "lat"}}, "columns.longitude is missing"),
        ({"columns": {**BY_NAME, "lat": 1}}, "columns.lat is not a known column"),
        ({"columns": {**BY_NAME, "user": -1}}, "columns.user must be the column's name or its"),
        (
            {"columns": {**BY_NAME, "user": True}},
            "columns.user must be the column's name or its",
        ),
        (
            {"columns": {**BY_NAME, "user": 1.5}},
            "columns.user must be the column's name or its",
        ),
        (
            {"columns": {**BY_NAME, "user": "lat"}},
            "each entry of columns must name a different column",
        ),
        ({"columns": BY_NAME, "header": False}, "columns.latitude must be a position"),
        ({"columns": ["lat", "lon"]}, "columns must map names"),
    ],
)
def test_wrong_layouts(spec, message):
    with pytest.raises(ValueError, match=message):
        layout_from_config(spec)


def test_layouts_of_the_configuration():
    spec = {"separator": "\t", "header": False, "columns": dict(SNAP.columns)}
    assert layout_from_config(spec) == SNAP
    assert layout_from_config({"columns": BY_NAME}) == Layout("csv", ",", True, BY_NAME)


def test_a_defect_while_reading_parquet_is_not_blamed_on_the_file(tmp_path, monkeypatch):
    def broken(*_):
        raise TypeError("no such operand")

    source = tmp_path / "checkins.parquet"
    pq.write_table(pa.table({"y": [48.86], "x": [2.33]}), source)
    monkeypatch.setattr("shuffledp.geography.parquet_files.convert_rows", broken)
    layout = Layout("parquet", ",", True, {"latitude": "y", "longitude": "x"})
    with pytest.raises(TypeError, match="no such operand"):
        crop_checkins(source, layout, PARIS, tmp_path / "o", max_malformed_share=0, metadata={})
