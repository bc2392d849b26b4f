"""Download files: resume after interruptions, verify checksums, and cache the results."""

import fcntl
import hashlib
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import requests
import urllib3
from tqdm import tqdm

from shuffledp.errors import InputError
from shuffledp.pipeline.address import masked
from shuffledp.pipeline.files import replacing, settle

logger = logging.getLogger(__name__)

_CHUNK_BYTES: Final = 1 << 16  # largest amount that is lost at a time-out
_MAX_WAIT_SECONDS: Final = 60.0
_TRANSIENT_STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_HEX_DIGITS: Final = {"md5": 32, "sha256": 64}
_WEB_PAGE_STARTS: Final = (b"<!doctype html", b"<html")


class DownloadError(InputError):
    """A file could not be downloaded; the message states the address and the remedy."""


class _TransientError(Exception):
    """An error after which another attempt may succeed."""


_TRANSIENT: Final = (
    _TransientError,
    requests.ConnectionError,
    requests.Timeout,
    urllib3.exceptions.HTTPError,
)


def fetch(
    url: str,
    destination: Path,
    *,
    checksum: str | None,
    retries: int = 5,
    timeout: float = 30.0,
    backoff: float = 1.0,
) -> None:
    """Download a file over http(s), resuming an earlier download that was interrupted.

    Until it is complete and verified, the file is named `destination` + ".part". It survives a
    crash, and the next call continues it if the server still has the same file. An existing
    `destination` is downloaded again only if its checksum differs. Credentials are read from the
    user's .netrc file. Messages and logs mask the query of an address.

    The checksum is `md5:` or `sha256:` and the hexadecimal digest; if it is None, the SHA-256 of
    the file is logged. `retries` is the number of further attempts after a broken connection, a
    time-out, a short answer or a transient server error (408, 425, 429, 500, 502, 503 and 504). A
    connection is closed after `timeout` seconds without a byte. The first retry comes after
    `backoff` seconds, doubled for each later one, at most a minute.

    Raises `DownloadError` if the address is not http(s), the server refuses (4xx), a web page comes
    instead of the file, the checksum differs, or all attempts fail, and `InputError` if the
    checksum is not of the described form.
    """
    if checksum is not None:
        checksum = _normalised(checksum)
    if urlsplit(url).scheme not in ("http", "https"):
        raise DownloadError(f"{masked(url)} is not an http or https address")
    if destination.exists():
        if checksum is None or _digest(destination, checksum) == checksum:
            logger.info("%s exists already", destination)
            return
        logger.warning("%s does not have checksum %s: fetching it again", destination, checksum)
    _Download(url, destination, checksum, timeout).run(retries, backoff)
    if checksum is None:
        obtained = _digest(destination, "sha256")
        logger.warning(
            "%s is not verified: set checksum to %s if you trust the file", destination, obtained
        )


def _digest(path: Path, like: str) -> str:
    """Return the checksum of a file, by the algorithm of the checksum `like`."""
    algorithm = like.partition(":")[0]
    with path.open("rb") as stream:
        return f"{algorithm}:{hashlib.file_digest(stream, algorithm).hexdigest()}"


def _normalised(checksum: str) -> str:
    algorithm, _, digest = checksum.lower().partition(":")
    if len(digest) != _HEX_DIGITS.get(algorithm, -1) or not re.fullmatch("[0-9a-f]+", digest):
        raise InputError(
            "checksum must be md5: followed by 32, or sha256: followed by 64 hexadecimal digits, "
            f"got {checksum!r}"
        )
    return f"{algorithm}:{digest}"


@dataclass(frozen=True)
class _Download:
    url: str
    destination: Path
    checksum: str | None
    timeout: float

    @property
    def part(self) -> Path:
        return self.destination.with_name(self.destination.name + ".part")

    @property
    def origin(self) -> Path:
        """The file that records to which remote file the part belongs."""
        return self.destination.with_name(self.destination.name + ".part.json")

    def run(self, retries: int, backoff: float) -> None:
        self.destination.parent.mkdir(parents=True, exist_ok=True)
        for attempt in range(retries + 1):
            try:
                self._attempt()
                break
            except _TRANSIENT as error:
                if attempt == retries:
                    raise DownloadError(
                        f"{masked(self.url)} could not be fetched in {attempt + 1} attempts "
                        f"({masked(str(error))}); run again to resume the download"
                    ) from None
                wait = min(backoff * 2**attempt, _MAX_WAIT_SECONDS)
                reason = masked(str(error))
                logger.warning("%s: %s; trying again in %.1f s", masked(self.url), reason, wait)
                time.sleep(wait)
            except requests.RequestException as error:
                reason = masked(str(error))
                raise DownloadError(f"{masked(self.url)} cannot be fetched ({reason})") from None
            except OSError as error:
                raise DownloadError(f"{self.part} cannot be written ({error.strerror})") from error
        self._verify()
        settle(self.part, self.destination)
        self.origin.unlink(missing_ok=True)

    def _attempt(self) -> None:
        """Fetch the missing bytes of the part file."""
        known = self._read_origin()
        offset = self.part.stat().st_size if known else 0
        # Ask for the stored bytes, because an encoding made on the fly has no ranges.
        headers = {"Accept-Encoding": "identity"}
        if offset:
            headers["Range"] = f"bytes={offset}-"
            if known.get("validator"):
                headers["If-Range"] = known["validator"]
        with requests.get(self.url, headers=headers, stream=True, timeout=self.timeout) as response:
            if response.status_code == 416:
                self._end_or_restart(response, offset)
                return
            if response.status_code in _TRANSIENT_STATUS:
                raise _TransientError(f"the server answered {response.status_code}")
            if response.status_code not in (200, 206):
                raise DownloadError(
                    f"{masked(self.url)} cannot be fetched: the server answered "
                    f"{response.status_code} {response.reason}; check the address"
                )
            offset = self._continued(response, offset, known)
            self._write(response, offset)

    def _read_origin(self) -> dict[str, Any]:
        """Return the record of the part file, empty if the download cannot be resumed."""
        try:
            known: dict[str, Any] = json.loads(self.origin.read_text(encoding="utf-8"))
            usable = known["address"] == self._address() and self.part.stat().st_size > 0
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        # Without a validator or checksum, a change of the remote file would not be noticed.
        verifiable = known.get("validator") or self.checksum
        return known if usable and verifiable else {}

    def _end_or_restart(self, response: requests.Response, offset: int) -> None:
        if offset and response.headers.get("Content-Range") == f"bytes */{offset}":
            return
        self._discard()
        raise _TransientError("the server does not have the requested part of the file")

    def _continued(self, response: requests.Response, offset: int, known: Mapping[str, Any]) -> int:
        """Return the position in the file at which the response begins."""
        if response.status_code == 200:
            return 0
        header = response.headers.get("Content-Range", "").strip()
        span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", header)
        same = _validator(response) in (None, known.get("validator"))
        same = same and span is not None and known.get("length") in (None, span[2])
        if not span or not same or int(span[1]) != offset:
            self._discard()
            raise _TransientError("the server sent a part of another file")
        return offset

    def _write(self, response: requests.Response, offset: int) -> None:
        stated = response.headers.get("Content-Length")
        length = offset + int(stated) if stated and stated.isdigit() else None
        is_web_page = "text/html" in response.headers.get("Content-Type", "")
        if not offset and is_web_page and not _names_web_page(self.url):
            self._discard()
            raise _web_page(self.url)
        if not offset:
            self._record_origin(response, length)
        with (
            self.part.open("ab" if offset else "wb") as stream,
            tqdm(
                total=length,
                initial=offset,
                desc=self.destination.name,
                unit="B",
                unit_scale=True,
                disable=None,
                leave=False,
            ) as bar,
        ):
            for chunk in response.raw.stream(_CHUNK_BYTES, decode_content=False):
                stream.write(chunk)
                bar.update(len(chunk))
        size = self.part.stat().st_size
        if length is not None and size != length:
            raise _TransientError(f"the connection ended after {size} of {length} bytes")
        # A connection that breaks in the headers looks like a complete response of unknown length.
        if not size:
            raise _TransientError("the server sent nothing")

    def _record_origin(self, response: requests.Response, length: int | None) -> None:
        self.part.unlink(missing_ok=True)
        known = {
            "address": self._address(),
            "validator": _validator(response),
            "length": None if length is None else str(length),
        }
        self.origin.write_text(json.dumps(known), encoding="utf-8")

    def _verify(self) -> None:
        with self.part.open("rb") as stream:
            start = stream.read(256).lstrip(b"\xef\xbb\xbf \t\r\n").lower()
        if start.startswith(_WEB_PAGE_STARTS) and not _names_web_page(self.url):
            self._discard()
            raise _web_page(self.url)
        if self.checksum is None:
            return
        obtained = _digest(self.part, self.checksum)
        if obtained != self.checksum:
            size = self.part.stat().st_size
            self._discard()
            raise DownloadError(
                f"{masked(self.url)}: the {size} bytes fetched have checksum {obtained}, not "
                f"{self.checksum}, and were removed; if the publisher has replaced the file and "
                f"you trust the new one, set its checksum to {obtained}"
            )

    def _address(self) -> str:
        """Return a digest of the address, which is not stored itself: it may contain a secret."""
        return hashlib.sha256(self.url.encode()).hexdigest()

    def _discard(self) -> None:
        self.part.unlink(missing_ok=True)
        self.origin.unlink(missing_ok=True)


def _validator(response: requests.Response) -> str | None:
    """Return a value for the header If-Range that identifies this version of the file."""
    tag = response.headers.get("ETag", "")
    # A weak tag may also belong to other bytes with the same meaning.
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified")


def _names_web_page(url: str) -> bool:
    return urlsplit(url).path.lower().endswith((".html", ".htm"))


def _web_page(url: str) -> DownloadError:
    return DownloadError(
        f"{masked(url)}: the server sent a web page instead of the file, perhaps a notice or a "
        "log-in form; open the address in a browser to see it"
    )


def fetch_cached(url: str, destination: Path, *, cache: Path, checksum: str | None) -> None:
    """Download a file into a folder `cache`, and link or copy it to its destination.

    A workflow manager removes outputs before it runs a job again; the cache keeps complete and
    partial downloads. If several jobs need the same address at once, one downloads it and the
    others wait. Other parameters and errors are those of `fetch`.
    """
    key = hashlib.sha256(url.encode()).hexdigest()[:16]
    cached = cache / f"{key}-{destination.name}"
    cached.parent.mkdir(parents=True, exist_ok=True)
    with _locked(cached.with_name(cached.name + ".lock")):
        fetch(url, cached, checksum=checksum)
    with replacing(destination) as temporary:
        try:
            os.link(cached, temporary)
        except OSError:  # a file system without hard links
            shutil.copyfile(cached, temporary)


@contextmanager
def _locked(lock: Path) -> Iterator[None]:
    """Hold a lock on a file; the system releases it if the process dies."""
    with lock.open("w") as stream:
        # On a file system without locks two downloads may collide; checksums reveal that.
        with suppress(OSError):
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
