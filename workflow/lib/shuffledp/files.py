"""Files that appear whole or not at all, and their checksums."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from shuffledp.errors import InputError


@contextmanager
def replacing(destination: Path) -> Iterator[Path]:
    """Give a temporary path beside `destination` that takes its name once the block has ended well.

    Parameters
    ----------
    destination : Path
        The final name. Missing parent directories are made.

    Yields
    ------
    Path
        Where to write. It keeps the suffixes of `destination`; after an exception it is removed and
        whatever stood under the final name is untouched.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    temporary = destination.with_name(f".{os.getpid()}.{destination.name}")
    try:
        yield temporary
        temporary.replace(destination)
    finally:
        temporary.unlink(missing_ok=True)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in lower-case hexadecimal.

    Raises
    ------
    OSError
        If the file cannot be read.
    """
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def verified_sha256(path: Path, checksum: str | None) -> str:
    """SHA-256 of a file whose contents are what they should be.

    Parameters
    ----------
    path
        An existing file.
    checksum
        ``md5:`` or ``sha256:`` and the digest that the file must have, or None.

    Raises
    ------
    InputError
        If the digest differs; the message gives both.
    OSError
        If the file cannot be read.
    """
    if checksum is not None:
        algorithm, _, expected = checksum.partition(":")
        with path.open("rb") as stream:
            found = hashlib.file_digest(stream, algorithm).hexdigest()
        if found != expected.lower():
            raise InputError(
                f"{path}: {algorithm} is {found}, not {expected} as configured: the file is "
                "damaged or another one; replace it, or correct checksum in the config"
            )
    return file_sha256(path)
