"""Read a certificate from a file that may hold anything: limits come before reading."""

import json
import math
import stat
from pathlib import Path
from typing import Any

from shuffledp.verification.deltas import RefusedError, TooLongError

# The longest list of blocks that may be checked takes half of it.
LARGEST_FILE = 2**20


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; of two values of one key a reader would see only one."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RefusedError(f"malformed certificate: {shown(twice)} is there twice")
    return made


def shown(value: object) -> str:
    """A value as it is, or its beginning: a message is one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def read(source: Path) -> Any:
    """What the file holds, parsed.

    Raises
    ------
    TooLongError
        If it is no regular file (a device or a pipe may have no end), or above `LARGEST_FILE`.
    RefusedError
        If it is not JSON, or an object has a key twice.
    OSError
        If it cannot be read.
    """
    about = source.stat()
    if not stat.S_ISREG(about.st_mode):
        raise TooLongError("it is no regular file")
    with source.open("rb") as file:
        # A file may grow while it is read.
        content = file.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise TooLongError(f"it has more than {LARGEST_FILE:,} bytes")
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_once)
    except RecursionError:
        raise RefusedError("malformed certificate: too many brackets within each other") from None
    except ValueError:
        raise RefusedError("it is not JSON") from None


def demand(true: bool, reason: str) -> None:
    """Refuse a malformed certificate."""
    if not true:
        raise RefusedError(f"malformed certificate: {reason}")


def only(mapping: dict[str, Any], keys: set[str], name: str) -> None:
    """Refuse keys that nobody checks: a reader may believe them.

    Parameters
    ----------
    mapping
        A part of a certificate.
    keys
        Those that are known.
    name
        Of the part, for the message.
    """
    unknown = sorted(set(mapping) - keys)
    demand(not unknown, f"{name} has an unknown key {shown(unknown[0] if unknown else None)}")


def whole(value: Any, low: int, name: str) -> int:
    """A whole number, at least low.

    Parameters
    ----------
    value
        As read.
    low
        The smallest that is accepted.
    name
        Of the value, for the message.
    """
    demand(type(value) is int and value >= low, f"{name} must be a whole number >= {low}")
    return int(value)


def number(value: Any, name: str) -> float:
    """A finite number that is exactly a double."""
    demand(type(value) in (int, float), f"{name} must be a number")
    demand(abs(value) < 2**53 if type(value) is int else math.isfinite(value), f"{name} too large")
    return float(value)


def part(mapping: Any, key: str, kind: type) -> Any:
    """mapping[key], which must be there and of that type.

    Parameters
    ----------
    mapping
        A part of a certificate, as read.
    key
        Of the value.
    kind
        The type that it must have exactly.
    """
    demand(isinstance(mapping, dict) and key in mapping, f"{key} is missing")
    demand(type(mapping[key]) is kind, f"{key} must be a {kind.__name__}")
    return mapping[key]


def log_delta(end: dict[str, Any], name: str) -> float | None:
    """The claim of one end; None means that delta is 0."""
    demand("log_delta" in end, f"{name}.log_delta is missing")
    return None if end["log_delta"] is None else number(end["log_delta"], f"{name}.log_delta")
