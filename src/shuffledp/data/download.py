"""Download files, and check their addresses (URLs)."""

import logging
import os
import re
import shutil
import sys
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import urlsplit

from shuffledp.errors import InputError
from shuffledp.pipeline.files import file_sha256, replacing

logger = logging.getLogger(__name__)

_CHUNK_BYTES: Final = 1 << 16
# A download keeps its file name, and a cluster's submission passes it through a shell.
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~%+=&@-]*")


def check_address(url: str) -> None:
    """Check the address of a download from a configuration.

    Raises `InputError` if the address is incomplete or ends in an unsafe file name. The message
    begins with a verb, so that the key can precede it.
    """
    try:
        parts = urlsplit(url)
        complete = bool(parts.hostname and file_name(url)) and parts.port != 0
    except ValueError:
        complete = False
    if not complete or " " in url:
        raise InputError("must be an address such as https://host/file")
    if not _FILE_NAME.fullmatch(file_name(url)):
        raise InputError(
            f"ends in {file_name(url)!r}, which is not a safe file name: it must begin with a "
            "letter or digit; percent-encode all characters but letters, digits and ._~%+=&@-"
        )


def file_name(url: str) -> str:
    """Return the name of the file at an address, empty if the path ends in a slash."""
    path = urlsplit(url).path
    return "" if path.endswith("/") else PurePosixPath(path).name


def fetch(url: str, destination: Path, *, cache: Path, checksum: str | None) -> None:
    """Download a file over http(s) into a folder `cache`, and link or copy it to its destination.

    A workflow manager removes outputs before it runs a job again; the cache keeps the file. The
    checksum is `md5:` or `sha256:` and the hexadecimal digest; if it is None, the SHA-256 of the
    file is logged. Neither place has the file before it is complete and, with a
    checksum, verified.

    Raises `InputError` if the checksum differs or the server does not send the whole file.
    """
    import pooch
    import requests

    downloader = pooch.HTTPDownloader(
        progressbar=sys.stderr.isatty(),
        chunk_size=_CHUNK_BYTES,
        # Ask for the stored bytes, to which the checksum belongs.
        headers={"Accept-Encoding": "identity"},
    )
    try:
        cached = Path(pooch.retrieve(url, checksum, path=cache, downloader=downloader))
    except requests.RequestException as error:
        # The server may redirect to a signed address, which the error's own text may contain.
        status = "" if error.response is None else f" {error.response.status_code}"
        raise InputError(
            f"{url} cannot be fetched ({type(error).__name__}{status}): check the address and the "
            "connection, or download the file by hand and give its path"
        ) from None
    except ValueError as error:
        raise InputError(f"{url}: {error}") from None
    if checksum is None:
        digest = file_sha256(cached)
        logger.warning("%s is not verified: set checksum to sha256:%s if you trust it", url, digest)
    with replacing(destination) as temporary:
        try:
            os.link(cached, temporary)
        except OSError:  # a file system without hard links
            shutil.copyfile(cached, temporary)
