"""Divide a period into windows of time, and find the window of each record."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers

MAX_WINDOWS: Final = 10_000
_KEYS: Final = ("period", "every", "time_zone")
_ONE_DAY: Final = timedelta(days=1)


@dataclass(frozen=True)
class Windows:
    """Consecutive windows of time.

    The name of each window is its month, or its first day. ``edges``, shape ``(windows + 1,)``, has
    the beginning of each window, and the end of the last one, in microseconds since 1970 (UTC). A
    window contains its beginning but not its end. ``zone`` is the time zone of the days.
    """

    names: tuple[str, ...]
    edges: Integers
    zone: tzinfo = UTC

    def __len__(self) -> int:
        return len(self.names)

    def locate(self, times: Any) -> Integers:
        """Return the number of the window of each time, -1 for none.

        The times are Arrow timestamps in microseconds (UTC); a missing one is in no window.
        """
        known = times.is_valid().to_numpy(zero_copy_only=False)
        instants = times.cast("int64").fill_null(0).to_numpy()
        number: Integers = np.searchsorted(self.edges, instants, side="right") - 1
        number[(number == len(self)) | ~known] = -1
        return number


def windows_from_config(spec: Mapping[str, Any]) -> Windows | None:
    """Return the windows that a region's configuration describes, None if it has no period.

    Its keys are `period`, with the dates `from` and `to`, both included, as text such as
    2010-01-31; `every`: `day`, `week` (of seven days from the first one) or `month`, by default one
    window; and `time_zone`: a name of the IANA database such as Europe/Paris, by default UTC.
    Raises `InputError` if a date or time zone does not exist, the period does not consist of whole
    windows, or there are more than 10,000 windows. The message names the key.
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
    days = _first_days(first, last + _ONE_DAY, spec.get("every"))
    edges = [day_begins(day, zone) for day in days]
    names = [day.isoformat()[: 7 if spec.get("every") == "month" else 10] for day in days[:-1]]
    return Windows(tuple(names), np.array(edges, dtype=np.int64), zone)


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
    if every == "month" and first.day != 1:
        raise InputError(f"period.from must be the first day of a month, got {first}")
    if days[-1] != end:
        last = days[-2] - _ONE_DAY
        raise InputError(
            f"period must consist of whole windows of a {every}: end it on "
            f"{f'{last} or ' if last >= first else ''}{days[-1] - _ONE_DAY}, got {end - _ONE_DAY}"
        )
    return days


def _after(day: date, every: str) -> date:
    """Return the first day of the window after the one that begins on a day."""
    if every == "month":
        return (day.replace(day=1) + timedelta(days=31)).replace(day=1)
    return day + {"day": _ONE_DAY, "week": 7 * _ONE_DAY}[every]
