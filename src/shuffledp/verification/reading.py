"""Read certificates from untrusted files, and check their size, types and keys."""

import json
import math
import stat
from pathlib import Path
from typing import Any

from shuffledp.verification.deltas import RefusedError, TooLongError

# Twice the size of the largest certificate, one with `certificate.MAX_BLOCKS` blocks of counts.
MAX_FILE_BYTES = 2**20


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; refuse duplicate keys, because parsers keep different ones of them."""
    unique = dict(pairs)
    if len(unique) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise RefusedError(f"malformed certificate: the key {shortened(repeated)} occurs twice")
    return unique


def shortened(value: object) -> str:
    """Return the `repr` of a value, cut so that a message stays on one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def read(source: Path) -> Any:
    """Return the parsed JSON of a file.

    Raises `TooLongError` if the file is too large or not a regular one (a device or pipe may be
    endless), and `RefusedError` if it is not JSON, or an object has a key twice.
    """
    file_status = source.stat()
    if not stat.S_ISREG(file_status.st_mode):
        raise TooLongError("it is not a regular file")
    with source.open("rb") as file:
        # The file may grow while it is read.
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise TooLongError(f"it has more than {MAX_FILE_BYTES:,} bytes")
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_unique_keys)
    except RecursionError:
        raise RefusedError("malformed certificate: brackets are nested too deeply") from None
    except ValueError:
        raise RefusedError("it is not JSON") from None


def demand(condition: bool, reason: str) -> None:
    """Raise `RefusedError` with a reason unless a condition holds."""
    if not condition:
        raise RefusedError(f"malformed certificate: {reason}")


def check_keys(mapping: dict[str, Any], keys: set[str], name: str) -> None:
    """Refuse unknown keys, whose values a reader might believe although they are not checked."""
    unknown = sorted(set(mapping) - keys)
    demand(not unknown, f"{name} has an unknown key {shortened(unknown[0] if unknown else None)}")


def integer(value: Any, low: int, name: str) -> int:
    """Return a value, which must be an integer of at least `low`."""
    valid = type(value) is int and value >= low
    demand(valid, f"{name} must be an integer >= {low}, got {shortened(value)}")
    return int(value)


def number(value: Any, name: str) -> float:
    """Return a value, which must be a finite number that a double represents exactly."""
    demand(type(value) in (int, float), f"{name} must be a number, got {shortened(value)}")
    demand(
        abs(value) < 2**53 if type(value) is int else math.isfinite(value),
        f"{name} must be finite, and below 2^53 if it is an integer, got {shortened(value)}",
    )
    return float(value)


def member(mapping: Any, key: str, kind: type) -> Any:
    """Return mapping[key], which must exist and have exactly the type `kind`."""
    demand(isinstance(mapping, dict) and key in mapping, f"{key} is missing")
    demand(type(mapping[key]) is kind, f"{key} must be a {kind.__name__}")
    return mapping[key]


def log_delta(end: dict[str, Any], name: str) -> float | None:
    """Return the claimed natural logarithm of delta of one end, None for a delta of 0."""
    demand("log_delta" in end, f"{name}.log_delta is missing")
    return None if end["log_delta"] is None else number(end["log_delta"], f"{name}.log_delta")
