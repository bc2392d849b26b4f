"""Divide a period into windows of time, and find the window of each record."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from itertools import pairwise
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers

MAX_WINDOWS: Final = 10_000
_KEYS: Final = ("period", "every", "profile", "time_zone")
_ONE_DAY: Final = timedelta(days=1)
_ONE_HOUR: Final = 3_600_000_000  # microseconds
_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
_WEEKDAYS: Final = (
    "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday",
)  # fmt: skip
_HOURS: Final = tuple(f"{hour:02}:00" for hour in range(24))


@dataclass(frozen=True)
class Windows:
    """Consecutive windows of time, or a profile of the day or week over a period.

    The name of each window is its year, quarter, month or first day, or the local beginning of its
    hour with its offset from UTC. ``edges``, shape ``(windows + 1,)``, has the beginning of each
    window, and the end of the last one, in microseconds since 1970 (UTC). A window contains its
    beginning but not its end. ``zone`` is the time zone of the days.

    With a ``profile``, windows are the hours of the day, the days of the week or the hours of the
    week, by local time, and ``edges`` are the two ends of the period. An hour that occurs twice
    when summer time ends is one hour of a profile, but two windows of an hour.
    """

    names: tuple[str, ...]
    edges: Integers
    zone: tzinfo = UTC
    profile: str | None = None

    def __len__(self) -> int:
        return len(self.names)

    def locate(self, times: Any) -> Integers:
        """Return the number of the window of each time, -1 for none.

        The times are Arrow timestamps in microseconds (UTC); a missing one is in no window.
        """
        known = times.is_valid().to_numpy(zero_copy_only=False)
        instants = times.cast("int64").fill_null(0).to_numpy()
        number: Integers = np.searchsorted(self.edges, instants, side="right") - 1
        number[(number == len(self.edges) - 1) | ~known] = -1
        if self.profile is not None:
            inside = number >= 0
            number[inside] = self._parts(instants[inside])
        return number

    def _parts(self, instants: Integers) -> Integers:
        """Return the number of the part of the profile that contains each instant."""
        import pyarrow as pa
        import pyarrow.compute as pc

        local = pa.array(instants, pa.timestamp("us", str(self.zone)))
        hour, weekday = (
            part(local).to_numpy().astype(np.int64) for part in (pc.hour, pc.day_of_week)
        )
        by_profile = {"hour": hour, "weekday": weekday, "weekday-hour": 24 * weekday + hour}
        return np.asarray(by_profile[str(self.profile)])

    def calendar(self, length: str) -> tuple[str, ...]:
        """Return the day, week, month, quarter or year that contains each window, as text.

        A week is seven days from the first day of the period. Raises `InputError` if a window does
        not lie in one, and for windows of a profile.
        """
        if self.profile is not None:
            raise InputError(f"a profile has no level {length}: its windows are in all of them")
        starts, ends = (
            [datetime.fromtimestamp(edge // 1_000_000, self.zone).date() for edge in edges.tolist()]
            for edges in (self.edges[:-1], self.edges[1:] - 1)
        )
        names = []
        for name, start, end in zip(self.names, starts, ends, strict=True):
            if _name(start, length, starts[0]) != _name(end, length, starts[0]):
                raise InputError(
                    f"a level must contain whole windows, but the window {name} lies in more than "
                    f"one {length}: leave out this level, or choose shorter windows"
                )
            names.append(_name(start, length, starts[0]))
        return tuple(names)


def windows_from_config(spec: Mapping[str, Any]) -> Windows | None:
    """Return the windows that a region's configuration describes, None if it has no period.

    Its keys are `period`, with the dates `from` and `to`, both included, as text such as
    2010-01-31; `every`: `hour`, `day`, `week` (of seven days from the first one), `month`,
    `quarter` or `year`, by default one window; or instead `profile`: `hour`, `weekday` or
    `weekday-hour`; and `time_zone`: a name of the IANA database such as Europe/Paris, by default
    UTC. Raises `InputError` if a date or time zone does not exist, the period does not consist of
    whole windows, or there are more than 10,000 windows. The message names the key.
    """
    if "period" not in spec:
        for key in _KEYS[1:]:
            if key in spec:
                raise InputError(f"{key} needs a period: {{from: date, to: date}}, got none")
        return None
    first, last = (_date(key, spec["period"][key]) for key in ("from", "to"))
    if last < first:
        raise InputError(f"period.to must not be before period.from, got {last} and {first}")
    try:
        zone = ZoneInfo(spec.get("time_zone", "UTC"))
    except (ValueError, OSError, KeyError) as error:
        raise InputError(
            "time_zone must be a name of the IANA database, such as Europe/Paris, "
            f"got {spec['time_zone']!r}"
        ) from error
    every, profile = spec.get("every"), spec.get("profile")
    if every is not None and profile is not None:
        raise InputError("every and profile would count a record twice: give one of them")
    days = _first_days(first, last + _ONE_DAY, "day" if every == "hour" else every)
    edges = np.array([day_begins(day, zone) for day in days], dtype=np.int64)
    if profile is not None:
        parts = {
            "hour": _HOURS,
            "weekday": _WEEKDAYS,
            "weekday-hour": tuple(f"{day} {hour}" for day in _WEEKDAYS for hour in _HOURS),
        }
        return Windows(parts[profile], edges, zone, profile)
    if every == "hour":
        return _hours(edges, zone)
    names = [day.isoformat() if every is None else _name(day, every, first) for day in days[:-1]]
    return Windows(tuple(names), edges, zone)


def _hours(edges: Integers, zone: tzinfo) -> Windows:
    """Return the hours of days; the last one of a day is shorter if the clock is set by less."""
    starts = np.concatenate([np.arange(*pair, _ONE_HOUR) for pair in pairwise(edges.tolist())])
    if len(starts) > MAX_WINDOWS:
        raise InputError(f"period has more than {MAX_WINDOWS:,} hours: choose longer windows")
    local = [datetime.fromtimestamp(start // 1_000_000, zone) for start in starts.tolist()]
    names = tuple(each.isoformat(timespec="minutes") for each in local)
    return Windows(names, np.append(starts, edges[-1]), zone)


def _name(day: date, length: str, first: date) -> str:
    """Return the name of the window of a length that contains a day."""
    if length == "year":
        return f"{day.year:04}"
    if length == "quarter":
        return f"{day.year:04}-Q{(day.month + 2) // 3}"
    if length == "month":
        return day.isoformat()[:7]
    return (day - (day - first) % (7 * _ONE_DAY) if length == "week" else day).isoformat()


def day_begins(day: date, zone: tzinfo) -> int:
    """Return when a day begins in a time zone, in microseconds since 1970 (UTC)."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=zone)
    try:
        midnight = midnight.astimezone(UTC)
    except OverflowError:  # the first or the last day that Python knows
        midnight = midnight.replace(tzinfo=UTC)
    return round(midnight.timestamp()) * 1_000_000


def _date(key: str, value: object) -> date:
    try:
        day = date.fromisoformat(str(value))
    except ValueError:
        raise InputError(f"period.{key} must be a date such as 2010-01-31, got {value!r}") from None
    if not 2 <= day.year <= 9998:  # its neighbours must be dates in every time zone
        raise InputError(f"period.{key} must be in the years 2 to 9998, got {day}")
    return day


def _first_days(first: date, end: date, every: str | None) -> list[date]:
    """Return the first day of each window, and the day after the last one."""
    if every is None:
        return [first, end]
    days = [first]
    while days[-1] < end:
        days.append(_after(days[-1], every))
        if len(days) > MAX_WINDOWS + 1:
            raise InputError(f"period has more than {MAX_WINDOWS:,} windows: choose longer ones")
    if every in _MONTHS and (first.day != 1 or (first.month - 1) % _MONTHS[every]):
        raise InputError(f"period.from must be the first day of a {every}, got {first}")
    if days[-1] != end:
        last = days[-2] - _ONE_DAY
        raise InputError(
            f"period must consist of whole windows of a {every}: end it on "
            f"{f'{last} or ' if last >= first else ''}{days[-1] - _ONE_DAY}, got {end - _ONE_DAY}"
        )
    return days


def _after(day: date, every: str) -> date:
    """Return the first day of the window after the one that begins on a day."""
    if every in _MONTHS:
        year, month = divmod(12 * day.year + day.month - 1 + _MONTHS[every], 12)
        return date(year, month + 1, 1)
    return day + {"day": _ONE_DAY, "week": 7 * _ONE_DAY}[every]
