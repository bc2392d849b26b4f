"""Check-ins read row by row in plain Python, following the documentation.

This is the oracle of the tests on damaged files. It shares neither code nor a parsing library
with the package, which reads whole blocks with Arrow.
"""

import csv
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import mode

MISSING = {b"", b"NA", b"NaN", b"nan", b"NULL", b"null", b"None", rb"\N"}
FORM = "0000-00-00T00:00:00Z"


@dataclass
class Rows:
    """Hold well-formed rows as (user, time, latitude, longitude, location) and count the others."""

    good: list[tuple] = field(default_factory=list)
    malformed: int = 0


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
    if int(whole) >= 2**63:
        raise ValueError
    return sign * int(whole)


def _user(text: bytes) -> int | bytes | None:
    """Return a number, or else the text, because users are only compared."""
    try:
        return _whole(text)
    except ValueError:
        return text.strip(b" \t\n\v\f\r") or None


def _time(text: bytes) -> datetime | None:
    if text in MISSING:
        return None
    text = text.strip(b" \t\n\v\f\r").decode("ascii")
    if len(text) == 20 and text.endswith("Z"):
        text = text[:19]
    form = FORM[: len(text)]
    fits = len(text) in (10, 13, 16, 19) and all(
        have.isdigit() if want == "0" else have in ("T ", want)[want != "T"]
        for have, want in zip(text, form, strict=True)
    )
    if not fits:
        raise ValueError
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _row(user: bytes, time: bytes, latitude: bytes, longitude: bytes, location: bytes) -> tuple:
    return (
        _user(user),
        _time(time),
        _degrees(latitude, 90),
        _degrees(longitude, 180),
        _whole(location),
    )


def _split(line: bytes, separator: str) -> list[bytes]:
    if separator == "\t":
        return line.split(b"\t")
    reader = csv.reader([line.decode("latin-1"), ""], delimiter=separator)
    fields = next(reader)
    if reader.line_num > 1:
        raise ValueError("open quotation mark")
    return [text.encode("latin-1") for text in fields]


def read(data: bytes, separator: str, names: list[str] | None = None) -> Rows:
    """Read five columns: by their names in the first line, or in SNAP's order without one.

    Raises KeyError if a column is not there.
    """
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    lines = [line.removesuffix(b"\r") for line in lines]
    order = list(range(5))
    if names:
        header = [name.strip() for name in _split(lines.pop(0), separator)]
        width = len(header)
        if any(header.count(name.encode()) != 1 for name in names):
            raise KeyError(names)
        order = [header.index(name.encode()) for name in names]
    else:
        widths = [line.count(separator.encode()) + 1 for line in lines if line]
        width = mode(widths[:1000]) if widths else 0
        if 0 < width < len(order):
            raise KeyError(width)
    rows = Rows()
    for line in filter(None, lines):
        try:
            fields = _split(line, separator)
            if len(fields) != width or {0, 13} & set(line):
                raise ValueError
            rows.good.append(_row(*[fields[place] for place in order]))
        except (ValueError, csv.Error):
            rows.malformed += 1
    return rows
