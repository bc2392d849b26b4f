"""Files that appear whole or not at all, and their checksums."""

import errno
import hashlib
import os
import platform
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from shuffledp.errors import InputError

_LONGEST_NODE: Final = 20  # characters: a file's name holds 255 bytes
_ABANDONED_SECONDS: Final = 86_400.0
# What file systems answer that cannot flush a folder.
_NO_SUCH_THING: Final = (errno.EINVAL, errno.ENOTSUP)


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
        Where to write a file, or make a folder. It keeps the suffixes of `destination`, and no
        process of any node has the same; after an exception it is removed and whatever stood under
        the final name is untouched. What killed processes left of the same file is removed first.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(destination)
    # Nodes that share a file system number their processes alike.
    writer = f"{platform.node()[:_LONGEST_NODE]}.{os.getpid()}.{secrets.token_hex(4)}"
    temporary = destination.with_name(f".{writer}.{destination.name}")
    try:
        yield temporary
        settle(temporary, destination)
    finally:
        _remove(temporary)


def _remove_abandoned(destination: Path) -> None:
    """Remove temporary files of one destination whose writers were killed.

    A writer on this node is gone if no process has its number. One on another node cannot be asked;
    it is taken for gone if its file has not changed for a day.
    """
    temporary = re.compile(rf"\.(.*)\.(\d+)\.[0-9a-f]{{8}}\.{re.escape(destination.name)}")
    for path in destination.parent.iterdir():
        if not (match := temporary.fullmatch(path.name)):
            continue
        with suppress(OSError):
            if match[1] == platform.node()[:_LONGEST_NODE]:
                abandoned = not _is_running(int(match[2]))
            else:
                abandoned = time.time() - path.stat().st_mtime > _ABANDONED_SECONDS
            if abandoned:
                _remove(path)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it runs, and is another user's
    return True


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def settle(temporary: Path, destination: Path) -> None:
    """Give a written file its name, of the same folder, so that a power cut takes neither.

    Without the flush the name may reach the disk before the content: an empty file under it.

    Raises
    ------
    OSError
        If the disk does not take the content, or the file cannot be renamed.
    """
    _flush(temporary)
    temporary.replace(destination)
    try:
        _flush(destination.parent)
    except OSError as error:
        if error.errno not in _NO_SUCH_THING:
            raise


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def parts(path: Path) -> list[Path]:
    """Files of a data set: the path itself, or what ``*.parquet`` is in a folder, by name."""
    if not path.is_dir():
        return [path]
    found = (part for part in path.glob("*.parquet") if not part.name.startswith("."))
    return sorted(found, key=lambda part: os.fsencode(part.name))


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, or of a folder's parquet files, as hexadecimal.

    That of a folder is of their names and contents: of what ``LC_ALL=C sha256sum *.parquet`` prints
    there.

    Raises
    ------
    OSError
        If a file cannot be read.
    """
    return _digest(path, "sha256")


def verified_sha256(path: Path, checksum: str | None) -> str:
    """SHA-256, as by `file_sha256`, of a file or folder whose contents are what they should be.

    Parameters
    ----------
    path
        An existing file, or a folder of parquet files.
    checksum
        ``md5:`` or ``sha256:`` and the digest that it must have, or None.

    Raises
    ------
    InputError
        If the digest differs; the message gives both.
    OSError
        If a file cannot be read.
    """
    if checksum is not None:
        algorithm, _, expected = checksum.partition(":")
        found = _digest(path, algorithm)
        if found != expected.lower():
            raise InputError(
                f"{path}: {algorithm} is {found}, not {expected} as configured: it is "
                "damaged or another one; replace it, or correct checksum in the config"
            )
    return file_sha256(path)


def _digest(path: Path, algorithm: str) -> str:
    if path.is_dir():
        digest = hashlib.new(algorithm)
        for part in parts(path):
            digest.update(f"{_digest_of_file(part, algorithm)}  ".encode())
            digest.update(os.fsencode(part.name) + b"\n")
        return digest.hexdigest()
    return _digest_of_file(path, algorithm)


def _digest_of_file(path: Path, algorithm: str) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()
