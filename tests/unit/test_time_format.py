"""Times are read in the format that a layout names, alike from text and Parquet."""

import datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shuffledp.errors import InputError
from shuffledp.geography.checkins import CheckinError, crop_checkins, layout_from_config
from shuffledp.geography.regions import Box, Region
from shuffledp.geography.row_conversion import to_time

UTC = datetime.UTC
WORLD = Region("world", Box(south=-90, north=90, west=-180, east=180))
COLUMNS = {"time": "t", "latitude": "lat", "longitude": "lon"}


def utc(*parts):
    return datetime.datetime(*parts, tzinfo=UTC)


def layout(time_format, kind="csv", **others):
    return layout_from_config(
        {"format": kind, "columns": COLUMNS, "time_format": time_format, **others}
    )


def read(source, chosen, share=0.0):
    """Return the times of all rows."""
    out = source.with_name("out.parquet")
    crop_checkins(source, chosen, WORLD, out, max_malformed_share=share, metadata={})
    return pq.read_table(out)["time"].to_pylist()


def text_file(folder, times, separator=","):
    path = folder / "taps.csv"
    rows = [separator.join([time, "1", "2"]) for time in times]
    path.write_text("\n".join([separator.join(["t", "lat", "lon"]), *rows]) + "\n")
    return path


def parquet_file(folder, times):
    path = folder / "taps.parquet"
    column = pa.array(times)
    pq.write_table(
        pa.table({"t": column, "lat": [1.0] * len(column), "lon": [2.0] * len(column)}), path
    )
    return path


FORMATS = [
    ("%d/%m/%Y %H:%M", "31/12/2024 23:59", utc(2024, 12, 31, 23, 59)),
    ("%m/%d/%y %I:%M %p", "12/31/24 11:59 PM", utc(2024, 12, 31, 23, 59)),
    ("%Y%m%d", "20241231", utc(2024, 12, 31)),
    ("%Y-%j", "2024-366", utc(2024, 12, 31)),
    ("%d %b %Y %H:%M:%S.%f", "31 Dec 2024 23:59:58.25", utc(2024, 12, 31, 23, 59, 58, 250_000)),
    ("%d.%m.%Y %H:%M %z", "01.01.2025 01:59 +0200", utc(2024, 12, 31, 23, 59)),
    ("unix", "1735689599", utc(2024, 12, 31, 23, 59, 59)),
    ("unix", "1735689599.25", utc(2024, 12, 31, 23, 59, 59, 250_000)),
    ("unix", "-1", utc(1969, 12, 31, 23, 59, 59)),
]


@pytest.mark.parametrize(("time_format", "written", "meant"), FORMATS)
def test_text_and_parquet_are_read_alike(tmp_path, time_format, written, meant):
    missing = [written, "", "NA", f" {written} "]
    expected = [meant, None, None, meant]
    assert read(text_file(tmp_path, missing), layout(time_format)) == expected
    assert read(parquet_file(tmp_path, missing), layout(time_format, "parquet")) == expected


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1_735_689_599, None], pa.int64()),
        pa.array([1_735_689_599, None], pa.uint32()),
        pa.array([1_735_689_599.0, np.nan], pa.float64()),
        pa.array(["1735689599", None]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_unix_seconds_may_have_any_type_of_numbers(tmp_path, column):
    meant = utc(2024, 12, 31, 23, 59, 59)
    assert read(parquet_file(tmp_path, column), layout("unix", "parquet")) == [meant, None]


def test_unix_seconds_may_have_a_decimal_comma(tmp_path):
    path = tmp_path / "taps.csv"
    path.write_text("t;lat;lon\n1735689599,5;1,5;2\n")
    meant = utc(2024, 12, 31, 23, 59, 59, 500_000)
    assert read(path, layout("unix", separator=";", decimal=",")) == [meant]


@pytest.mark.parametrize("other", ["", "1735689599,5;here;2\n"])
@pytest.mark.parametrize("bad", ["1735689599.5", "NAN"])
def test_a_time_is_malformed_whatever_other_rows_say(tmp_path, bad, other):
    path = tmp_path / "taps.csv"
    path.write_text(f"t;lat;lon\n1735689599,5;1,5;2\n{bad};1,5;2\n{other}")
    meant = utc(2024, 12, 31, 23, 59, 59, 500_000)
    assert read(path, layout("unix", separator=";", decimal=","), share=0.9) == [meant]


@given(
    st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1)),
    st.sampled_from(["%d/%m/%Y %H:%M:%S.%f", "%Y%m%d%H%M%S%f", "%I:%M:%S.%f %p, %d %B %Y"]),
)
def test_what_python_writes_is_read_to_the_microsecond(time, time_format):
    values, bad = to_time(pa.array([time.strftime(time_format)]), time_format)
    assert not bad.any() and values.to_pylist() == [time.replace(tzinfo=UTC)]
    seconds = (time.replace(tzinfo=UTC) - utc(1970, 1, 1)).total_seconds()
    values, bad = to_time(pa.array([repr(seconds)]), "unix")
    assert not bad.any() and values.to_pylist() == [time.replace(tzinfo=UTC)]


BAD = [
    ("%d/%m/%Y", "2024-12-31", "time is not in the time_format '%d/%m/%Y'"),
    ("%d/%m/%Y", "31.12.2024", ", got the form '99.99.9999'"),
    ("%d/%m/%Y", "30/02/2024", ", got the form '99/99/9999'"),
    ("%d/%m/%Y", "31/12/2024 23:59", ", got the form '99/99/9999 99:99'"),
    ("%d %b %Y", "now", ", got the form 'AAA'"),
    ("%d %b %Y", "today", ", got the form 'AAAAA'"),
    ("unix", "1735689599000", "time is not a number of seconds in the years 1 to 9999"),
    ("unix", "inf", "(time_format: unix; got 'AAA')"),
    ("unix", "2024-12-31", "(time_format: unix; got '9999-99-99')"),
]  # fmt: skip


@pytest.mark.parametrize(("time_format", "written", "reason"), BAD)
def test_a_bad_time_is_named_with_file_and_row_but_without_its_digits(
    tmp_path, time_format, written, reason
):
    good = utc(2024, 12, 31)
    times = [good.strftime(time_format) if "%" in time_format else "1735603200", written]
    for path, kind, place in [
        (text_file(tmp_path, times), "csv", "line 3"),
        (parquet_file(tmp_path, times), "parquet", "row 2"),
    ]:
        with pytest.raises(CheckinError) as refused:
            read(path, layout(time_format, kind))
        message = str(refused.value)
        assert message.startswith(f"{path}: 1 of 2 rows are malformed")
        assert f"the first is {place}: " in message and reason in message
        assert message.isprintable() and written not in message.replace(time_format, "")
        assert read(path, layout(time_format, kind), share=0.5) == [good]


@pytest.mark.parametrize(
    "time_format",
    [
        *("", "ISO8601", "mixed", "seconds", "%H:%M", "%m/%Y", "%d/%m/%Y %I:%M"),
        *("%d/%m/%Y %H:%M %Z", "%Q", "%", 7, True, "%s", "%d/%m/%Y %M"),
    ],
)
def test_a_format_that_loses_the_day_or_the_hour_is_refused(time_format):
    with pytest.raises(InputError, match=r"^time_format must be unix"):
        layout(time_format)


def test_a_format_may_end_with_the_hour():
    assert layout("%d/%m/%Y %H").time_format == "%d/%m/%Y %H"


def test_a_format_needs_a_column_of_times():
    with pytest.raises(InputError, match=r"^time_format needs columns\.time"):
        layout_from_config({"columns": {"latitude": 1, "longitude": 2}, "time_format": "unix"})


@pytest.mark.parametrize(
    ("column", "time_format", "reason"),
    [
        (pa.array([datetime.datetime(2024, 1, 1)]), "unix", "timestamp[us] where times in"),
        (pa.array([datetime.datetime(2024, 1, 1)]), "%Y-%m-%d", "correct or remove time_format"),
        (pa.array([1_735_689_599]), "%Y-%m-%d", "int64 where times in the format '%Y-%m-%d'"),
        (pa.array([1_735_689_599]), None, "set time_format: unix if they are seconds"),
    ],
)
def test_a_column_of_another_type_is_refused(tmp_path, column, time_format, reason):
    with pytest.raises(CheckinError) as refused:
        read(parquet_file(tmp_path, column), layout(time_format, "parquet"))
    assert reason in str(refused.value) and "columns.time" in str(refused.value)
