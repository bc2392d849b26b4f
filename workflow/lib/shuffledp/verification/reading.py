"""Read a certificate from a file that may hold anything: limits come before reading."""

import json
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
