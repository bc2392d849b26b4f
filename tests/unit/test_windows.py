"""Windows of time cover their period, and every record is in the window of its local day."""

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp.data.windows import windows_from_config
from shuffledp.errors import InputError


def period(start, end, **keys):
    return {"period": {"from": start, "to": end}, **keys}


@given(
    first=st.dates(date(1995, 1, 1), date(2030, 1, 1)),
    number=st.integers(1, 60),
    every=st.sampled_from(["day", "week"]),
    zone=st.sampled_from(["UTC", "Europe/Paris", "America/Los_Angeles", "Asia/Kolkata"]),
    seconds=st.lists(st.integers(-(10**6), 40 * 10**6), min_size=1, max_size=20),
)
def test_days_and_weeks_are_those_of_the_local_calendar(first, number, every, zone, seconds):
    length = {"day": 1, "week": 7}[every]
    last = first + timedelta(days=number * length - 1)
    spec = period(first.isoformat(), last.isoformat(), every=every, time_zone=zone)
    windows = windows_from_config(spec)
    assert len(windows) == number
    start = pd.Timestamp(first, tz=zone)
    instants = [start.tz_convert("UTC") + pd.Timedelta(seconds=each) for each in seconds]
    days = [(each.tz_convert(zone).date() - first).days for each in instants]
    expected = [day // length if 0 <= day < number * length else -1 for day in days]
    assert windows.locate(pa.array(instants, pa.timestamp("us", "UTC"))).tolist() == expected


def test_a_period_without_windows_is_one():
    windows = windows_from_config(period("2010-01-05", "2010-02-03"))
    assert windows.names == ("2010-01-05",)
    before, after = (datetime(2010, 2, day, tzinfo=ZoneInfo("UTC")) for day in (3, 4))
    times = pa.array([before, after, None], pa.timestamp("us", "UTC"))
    assert windows.locate(times).tolist() == [0, -1, -1]
    assert windows_from_config({"box": {}}) is None


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"every": "week"}, "every needs a period"),
        (period("2010-02-30", "2010-03-01"), r"period.from must be a date .*got '2010-02-30'"),
        (period("2010-01-01", "2010-01-10", every="week"),
         r"whole windows of a week: end it on 2010-01-07 or 2010-01-14, got 2010-01-10"),
        (period("2010-01-15", "2010-02-28", every="month"), "must be the first day of a month"),
        (period("1900-01-01", "2000-01-01", every="day"), "more than 10,000 windows"),
        (period("2010-01-01", "2010-01-02", time_zone="Mars"), "time_zone must be a name of the"),
    ],
)  # fmt: skip
def test_wrong_periods(spec, message):
    with pytest.raises(InputError, match=message):
        windows_from_config(spec)
