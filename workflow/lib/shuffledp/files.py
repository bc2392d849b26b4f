"""Files that appear whole or not at all, and their checksums."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
