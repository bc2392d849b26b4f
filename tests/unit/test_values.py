"""Values are converted to numbers, times and identifiers, each by itself."""

import datetime
import re
from functools import partial
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from effort import examples
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st
from reading import BY_NAME, UTC, refusal, write

from shuffledp.data.sources import UNIX_UNITS, layout_from_config
from shuffledp.data.users import UserNumbers
from shuffledp.data.values import to_identifier, to_integer, to_number, to_time
from shuffledp.errors import InputError

NEW_YORK = ZoneInfo("America/New_York")
MAPPED = {"time": "t", **BY_NAME}
utc = partial(datetime.datetime, tzinfo=UTC)


def texts(*values):
    return pa.array([x if x is None else x.encode() for x in values], pa.binary())


CONVERSIONS = {
    "number": (to_number, ["1.5", "-7", "1e2"]),
    "integer": (to_integer, ["1", "-7"]),
    "identifier": (to_identifier, ["1", "12", "-3"]),
    "time": (partial(to_time, zone=NEW_YORK), ["2024-03-01T12:00:00Z"]),
    "naive time": (partial(to_time, zone=NEW_YORK), ["2024-03-01 12:00:00"]),
    **{unit: (partial(to_time, time_format=unit), ["1735689599"]) for unit in UNIX_UNITS},
}
ODD = ["0.5", "+0.5", " 0.5 ", ".5", "5.", "1e400", "-1e-400", "0x1F", "nan", "NAN", "inf", "1_0",
       "٣", "007", "7.0", "9" * 19, str(2**63 - 1), "1e", "1d5", "5\0", "", "NA", "\t7\n", "now",
       "2024-03-01", "20240301", "2024/03/01", "2024-03-01T24:00:00", "2024-03-01T12",
       "2024-03-01T12:00:00+0530", "2024-02-30T12:00:00Z", "2024-03-01T12:00:00.123456789",
       "2024-03-01T12:00:60Z", "0000-01-01T00:00:00Z", "2024-03-01 12:00:00 UTC"]  # fmt: skip
WRITTEN = st.sampled_from(ODD) | st.text("0123456789+-.:eTZ x/", max_size=12)


@settings(max_examples=examples(500))
@given(st.sampled_from(list(CONVERSIONS)), st.lists(WRITTEN, min_size=1, max_size=4))
@example("integer", [str(-(2**63))])
@example("number", ["NAN"])
def test_a_value_is_converted_alike_whatever_is_beside_it(kind, written):
    convert, plain = CONVERSIONS[kind]

    def converted(*values):
        """Return each value and whether it is malformed; times as integers, for odd years."""
        try:
            result, bad = convert(texts(*values))
        except InputError:  # of an identifier that is rounded
            reject()
        result = result.cast(pa.int64()) if pa.types.is_timestamp(result.type) else result
        return list(zip(map(repr, result.to_pylist()), bad.tolist(), strict=True))

    each = [converted(value)[0] for value in written]
    assert converted(*written, *plain) == [*each, *converted(*plain)]
    for beside in (plain, ["x"], ["2024-03-01"]):
        assert [converted(value, *beside)[0] for value in written] == each


@settings(max_examples=examples(300))
@given(st.floats().map(repr) | WRITTEN)
def test_a_number_is_what_python_reads_or_malformed(written):
    numbers, (bad,) = to_number(texts(written))
    if re.fullmatch(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", written, re.ASCII):
        assert not bad and numbers.to_pylist() == [float(written)]
    else:
        assert numbers.to_pylist() == [None] and bad == (written not in ("", "NA", "nan"))


def test_integers_may_be_written_in_several_ways():
    written = ["17.0", "-4.", "+1", "0x1F", "0" * 30 + "17", f"{2**63 - 1}.0", "NA"]
    malformed = ["1.5", "1e3", "ee8b88", "9223372036854775808", "0x1" + "0" * 16]
    integers, bad = to_integer(texts(*written, *malformed))
    assert integers.to_pylist() == [17, -4, 1, 31, 17, 2**63 - 1, None, *[None] * 5]
    assert bad.tolist() == [False] * 7 + [True] * 5
    for column in (pa.array([17, 2**62], pa.uint64()), pa.array([17.0, 2.0**62, np.nan])):
        integers, bad = to_integer(column)
        assert integers.to_pylist()[:2] == [17, 2**62] and not bad.any()


# --- Identifiers --------------------------------------------------------------------------------

SPELLINGS = [
    *(["7", "007", "7.0", "7.", "07.000", " 7 ", "7\r"], ["-7", "-07", "-7.0"], ["+7"], ["7e0"]),
    *(["1" * 19, "0" + "1" * 19], ["1" * 20], ["7.5"], ["0x7"], ["７"], ["-"]),
    *(["A7"], ["a7"], ["Zoë"], [".0"]),
]


def users_of(column, **options):
    return UserNumbers().number(to_identifier(column, **options)[0])[0].tolist()


def test_cards_written_as_7_or_7_point_0_or_007_are_one_user():
    written = [each for spellings in SPELLINGS for each in spellings]
    of = dict(zip(written, users_of(texts(*written)), strict=True))
    groups = [{of[each] for each in spellings} for spellings in SPELLINGS]
    assert [len(group) for group in groups] == [1] * len(groups)
    assert len(set.union(*groups)) == len(groups) and (of["7"], of["-7"]) == (7, -7)
    for column in (texts("007"), texts("7.0", "x"), pa.array([7.0]), pa.array([7, 8.5]),
                   pa.array([7], pa.uint64()), pa.array([7], pa.decimal128(5, 2))):  # fmt: skip
        assert users_of(column)[0] == 7, "whatever the other users and the type of the column"
    numbers = users_of(texts("7", "007", "7.0", " 7 "), as_written=True)
    assert numbers[0] == numbers[3] and len(set(numbers)) == 3
    _, known = UserNumbers().number(to_identifier(texts("7", "", " ", "NA", r"\N", None))[0])
    assert known.tolist() == [True] + [False] * 5


@pytest.mark.parametrize(("dtype", "limit"), [("f8", 2**53), ("f4", 2**24), ("f2", 2**11)])
def test_identifiers_that_floats_cannot_tell_apart_are_refused(dtype, limit):
    for beside in (np.nan, 0.5):
        assert users_of(pa.array(np.array([limit - 1, beside], dtype)))[0] == limit - 1
    for large in (limit, -limit, np.inf):
        with pytest.raises(InputError, match="write identifiers as integers or text"):
            to_identifier(pa.array(np.array([1, large], dtype)))
    for rounded in ("4.11111E+15", "1e+16", "12345678901234567.0"):
        with pytest.raises(InputError, match="set user_type: text if they are written so"):
            to_identifier(texts("7", rounded))
        assert len(set(users_of(texts("7", rounded), as_written=True))) == 2


# --- Times --------------------------------------------------------------------------------------

DAYS = st.sampled_from(["%Y-%m-%d", "%Y/%m/%d", "%Y%m%d"])
CLOCKS = st.sampled_from(["%H", "%H:%M", "%H%M", "%H:%M:%S", "%H%M%S"])
ZONES = st.sampled_from(["", "Z", " UTC", "+05:30", "-0330", "+09"])
MOMENTS = st.datetimes(datetime.datetime(1000, 1, 1), datetime.datetime(9998, 1, 1))


@settings(max_examples=examples(300))
@given(MOMENTS, DAYS, st.sampled_from("T "), CLOCKS, ZONES, st.sampled_from(",."),
       st.integers(0, 9), st.booleans())  # fmt: skip
def test_iso_times_agree_with_pythons_parser(moment, day, gap, clock, zone, mark, digits, beside):
    fraction = mark + f"{moment.microsecond:06}789"[:digits] if digits and "%S" in clock else ""
    written = moment.strftime(day + gap + clock) + fraction + zone
    expected = datetime.datetime.fromisoformat(written.replace("/", "-").replace(" UTC", "Z"))
    expected = expected if expected.tzinfo else expected.replace(tzinfo=UTC)
    times, bad = to_time(texts(*["2024-03-01"] * beside, written), None, NEW_YORK)
    assert not bad.any() and times.to_pylist()[-1] == expected


LAST = utc(2024, 12, 31, 23, 59, 59)
FORMATS = [
    ("%d/%m/%Y %H:%M:%S", ["31/12/2024 23:59:59", "", "NA", " 31/12/2024 23:59:59 "]),
    ("%d %b %Y %H:%M:%S.%f %z", ["01 Jan 2025 01:59:59.0 +0200"]),
    ("unix", ["1735689599", "1735689599.0", " 1735689599", "NaN"]),
    ("unix-ms", ["1735689599000", "1735689599000.0"]),
    ("unix-ms", [1_735_689_599_000.0, float("nan")]),
    ("unix-us", [1_735_689_599_000_000, None]),
    ("unix-ns", ["1735689599000000999", "1735689599000000000.0"]),
]


@pytest.mark.parametrize(("time_format", "written"), FORMATS)
def test_times_are_read_in_the_format_of_the_layout(time_format, written):
    times, bad = to_time(pa.array(written), time_format)
    missing = [each in ("", "NA", "NaN", None) or each != each for each in written]
    assert times.to_pylist() == [None if each else LAST for each in missing] and not bad.any()


BAD = [
    ("%d/%m/%Y", "31/12/2024 23:59", "is not in the time_format '%d/%m/%Y', got the form '99/99/"),
    ("%d %b %Y", "today", ", got the form 'AAAAA'"),
    ("unix", "1735689599000", "to be in milliseconds, set time_format: unix-ms"),
    ("unix-ms", "inf", "in the years 1 to 9999 (unix-ms; got 'AAA')"),
]


@pytest.mark.parametrize(("time_format", "written", "reason"), BAD)
def test_a_bad_time_is_described_by_its_form(tmp_path, time_format, written, reason):
    layout = layout_from_config({"columns": MAPPED, "time_format": time_format})
    message = refusal(write(tmp_path / "a.csv", f"t,lat,lon\n,1,2\n{written},1,2\n"), layout)
    assert "the first is line 3: time " in message and reason in message
    assert written not in message.replace(time_format, "")


def test_days_and_times_beyond_the_calendar_are_malformed():
    dates = pa.array([4_000_000, 0], pa.int32()).cast(pa.date32())
    for column in (dates, pa.array([2**60, 0], pa.timestamp("s"))):
        times, bad = to_time(column)
        assert times[1].as_py() == utc(1970, 1, 1) and bad.tolist() == [True, False]
