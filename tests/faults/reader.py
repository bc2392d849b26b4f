"""Check-ins read row by row in plain Python, following the documentation.

This is the oracle of the tests on damaged files. It shares neither code nor a parsing library
with the package, which reads whole blocks with Arrow.
"""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from statistics import multimode

MISSING = {b"", b"NA", b"NaN", b"nan", b"NULL", b"null", b"None", rb"\N"}
NUMBER = re.compile(rb"(-?)0*(\d+)(\.0*)?")
ROUNDED = re.compile(rb"-?(\d+\.\d+[eE][+]?\d+|\d+[eE][+]\d+|[1-9]\d{16,}\.0*)")
TIME = re.compile(
    rb"(\d{4}-\d\d-\d\d|\d{4}/\d\d/\d\d|\d{8})"
    rb"([T ]\d\d(?::?\d\d(?::?\d\d(?:[.,](\d{1,9}))?)?)?)?( ?(?:[Zz]|UTC|[+-]\d\d(?::?\d\d)?))?"
)
BLANKS = b" \t\n\v\f\r"


@dataclass
class Rows:
    """Hold well-formed rows as (user, time, latitude, longitude, location) and count the others."""

    good: list[tuple] = field(default_factory=list)
    malformed: int = 0
    unplaced: int = 0


def _number(text: bytes) -> float:
    text = text.strip(b" \t\n\v\f\r")
    if not text or set(text) - set(b"0123456789+-.eE"):
        raise ValueError
    return float(text)


def _degrees(text: bytes, limit: float) -> float:
    value = _number(text)
    if not abs(value) <= limit:
        raise ValueError
    return value


def _whole(text: bytes) -> int | None:
    if text in MISSING:
        return None
    text = text.strip(b" \t\n\v\f\r")
    sign = -1 if text.startswith(b"-") else 1
    digits = text.removeprefix(b"-" if sign < 0 else b"+")
    if digits[:2].lower() == b"0x" and digits == text:
        if not 0 < len(digits[2:]) <= 16:
            raise ValueError
        value = int(digits[2:], 16)
        return value - (value >> 63 << 64)
    whole, _, decimals = digits.partition(b".")
    if not whole.isdigit() or decimals.strip(b"0"):
        raise ValueError
    if int(whole) >= 2**63 + (sign < 0):
        raise ValueError
    return sign * int(whole)


def _user(text: bytes) -> int | bytes | None:
    """Return a number, or else the text, because users are only compared."""
    text = text.strip(BLANKS)
    if text in MISSING:
        return None
    if ROUNDED.fullmatch(text):
        raise KeyError("rounded numbers identify no users")
    match = NUMBER.fullmatch(text)
    if match is None:
        return text
    number = int(match[1] + match[2])
    return number if abs(number) < 10**18 else b"%d" % number


def _time(text: bytes) -> datetime | None:
    if text in MISSING:
        return None
    match = TIME.fullmatch(text.strip(BLANKS))
    if match is None:
        raise ValueError
    digits = re.sub(rb"\D", b"", match[1]).decode()
    clock = re.sub(rb"\D", b"", (match[2] or b"").split(b".")[0].split(b",")[0]).decode()
    time = datetime.strptime(digits + clock.ljust(6, "0"), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    zone = re.sub(rb"\D", b"", match[4] or b"").decode().ljust(4, "0")
    hours, minutes = int(zone[:2]), int(zone[2:])
    if hours > 23 or minutes > 59:
        raise ValueError
    fraction = int((match[3] or b"").decode().ljust(6, "0")[:6])
    east = timedelta(hours=hours, minutes=minutes) * (-1 if b"-" in (match[4] or b"") else 1)
    return time - (east if clock else timedelta()) + timedelta(microseconds=fraction)


def _row(user: bytes, time: bytes, latitude: bytes, longitude: bytes, location: bytes) -> tuple:
    return (
        _user(user),
        _time(time),
        _degrees(latitude, 90),
        _degrees(longitude, 180),
        _whole(location),
    )


def _place(fields: list[bytes]) -> bool:
    """Return whether a row has a position; raise ValueError if it cannot be read."""
    values = [None if text in MISSING else _number(text) for text in fields]
    return None not in values and values != [91, 181]


def read(data: bytes, separator: str, names: list[str] | None = None) -> Rows:
    """Read five columns: by their names in the first line, or in SNAP's order without one.

    No field begins with a quotation mark. Raises KeyError if a column is not there, or identifiers
    are rounded.
    """
    lines = [line.removesuffix(b"\r") for line in data.split(b"\n")]
    lines = [re.sub(rb"^(\xef\xbb\xbf)+", b"", line) for line in lines]
    order, mark = list(range(5)), separator.encode()
    if names:
        while lines and not lines[0]:
            lines.pop(0)
        header = [name.strip().decode("latin-1") for name in lines.pop(0).split(mark)]
        width = len(header)
        if any(header.count(name) != 1 for name in names):
            raise KeyError(names)
        order = [header.index(name) for name in names]
    else:
        widths = [line.count(mark) + 1 for line in lines if line]
        # Of the numbers of fields that are most frequent, the smallest.
        width = min(multimode(widths[:1000])) if widths else 0
        if 0 < width < len(order):
            raise KeyError(width)
    rows = Rows()
    for line in filter(None, lines):
        try:
            fields = line.split(mark)
            if len(fields) != width or b"\r" in line:
                raise ValueError
            chosen = [fields[place] for place in order]
            if _place(chosen[2:4]):
                rows.good.append(_row(*chosen))
            else:
                rows.unplaced += 1
        except ValueError:
            rows.malformed += 1
    return rows
