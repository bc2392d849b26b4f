"""Write files atomically, and compute checksums of files and folders."""

import errno
import hashlib
import os
import platform
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from shuffledp.errors import InputError

_MAX_NODE_CHARACTERS: Final = 20  # a file name holds 255 bytes
TEXT_NAME: Final = re.compile(
    r"[^._].*\.(csv|tsv|txt|jsonl|ndjson)(\.(gz|bz2|xz|zst))?", re.IGNORECASE
)
"""Matches the names of text files that are read in a folder."""
SHAPEFILE_SUFFIXES: Final = (".shp", ".shx", ".dbf", ".prj", ".cpg")
"""Suffixes of the files of a shapefile, in lower case; the files may have upper case."""

# Errors of file systems that cannot flush a folder.
_CANNOT_FLUSH: Final = (errno.EINVAL, errno.ENOTSUP)


@contextmanager
def replacing(destination: Path) -> Iterator[Path]:
    """Yield a temporary path that is renamed to `destination` once the block has succeeded.

    A file may be written or a folder created there. The path is beside `destination` and has its
    suffixes; no other process on any node has the same one. Missing parent folders are created.
    The content is flushed to the disk before the file gets its name: after a power cut the name
    might otherwise stand for an empty file. After an exception `destination` is unchanged; a
    temporary file that a killed process left is removed the next time.
    """
    destination.parent.mkdir(parents=True, exist_ok=True)
    # Processes on two nodes that share a file system can have the same number.
    node = platform.node()[:_MAX_NODE_CHARACTERS]
    _remove_abandoned(destination, node)
    writer = f"{node}.{os.getpid()}.{secrets.token_hex(4)}"
    temporary = destination.with_name(f".{writer}.{destination.name}")
    try:
        yield temporary
        flush(temporary)
        temporary.replace(destination)
        flush(destination.parent)
    finally:
        _remove(temporary)


def _remove_abandoned(destination: Path, node: str) -> None:
    """Remove temporary files of one destination whose writers on this node were killed."""
    name = re.compile(rf"\.{re.escape(node)}\.(\d+)\.[0-9a-f]{{8}}\.{re.escape(destination.name)}")
    for path in destination.parent.iterdir():
        if match := name.fullmatch(path.name):
            try:
                os.kill(int(match[1]), 0)
            except ProcessLookupError:
                _remove(path)
            except PermissionError:
                pass  # the writer runs and belongs to another user


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Wait until the disk has a file's content or a folder's names.

    File systems that cannot flush a folder are accepted. Raises `OSError` if the content cannot be
    written to the disk.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if not (path.is_dir() and error.errno in _CANNOT_FLUSH):
            raise
    finally:
        os.close(descriptor)


def parts(path: Path) -> list[Path]:
    """Return the files of a data set: the path itself, or those of a folder or of a shapefile.

    A folder's files, sorted by path, are those named ``*.parquet``, or, if there are none,
    ``*.csv``, ``*.tsv``, ``*.txt``, ``*.jsonl`` and ``*.ndjson``, plain or packed. Folders within
    it are searched; names that begin with a dot are ignored. A shapefile's files are beside its
    ``.shp`` with the same stem.
    """
    if path.is_file() and path.suffix.lower() == ".shp":
        same = [file for file in path.parent.iterdir() if file.stem == path.stem]
        beside = {file for file in same if file.suffix.lower() in SHAPEFILE_SUFFIXES}
        return sorted(beside, key=os.fsencode)
    if not path.is_dir():
        return [path]
    files = {file.relative_to(path): file for file in path.rglob("*") if not file.is_dir()}
    visible = [each for each in files if not any(name.startswith(".") for name in each.parts)]
    chosen = [each for each in visible if each.suffix.lower() == ".parquet"]
    chosen = chosen or [each for each in visible if TEXT_NAME.fullmatch(each.name)]
    return [files[each] for each in sorted(chosen, key=os.fsencode)]


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, or of the files in a folder, as hexadecimal.

    The digest of a folder or shapefile is that of the text which ``sha256sum``, run in the folder,
    prints for its `parts` in order. Raises `OSError` if a file cannot be read.
    """
    return _digest(path, "sha256")


def verified_sha256(path: Path, checksum: str | None) -> str:
    """Return the SHA-256 of a file or folder after checking it against a configured checksum.

    The checksum is ``md5:`` or ``sha256:`` and the expected digest; None checks nothing. Raises
    `InputError`, whose message gives both digests, if they differ, and `OSError` if a file cannot
    be read.
    """
    if checksum is not None:
        algorithm, _, expected = checksum.partition(":")
        digest = _digest(path, algorithm)
        if digest != expected.lower():
            raise InputError(
                f"{path}: {algorithm} is {digest}, not {expected} as configured: the file is "
                "damaged or another one; replace it, or correct checksum in the configuration"
            )
    return file_sha256(path)


def _digest(path: Path, algorithm: str) -> str:
    files = parts(path)
    if files == [path]:
        return _digest_of_file(path, algorithm)
    folder = path if path.is_dir() else path.parent
    digest = hashlib.new(algorithm)
    for part in files:
        digest.update(f"{_digest_of_file(part, algorithm)}  ".encode())
        digest.update(os.fsencode(part.relative_to(folder)) + b"\n")
    return digest.hexdigest()


def _digest_of_file(path: Path, algorithm: str) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()
