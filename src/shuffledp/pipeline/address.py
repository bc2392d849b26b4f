"""Check the addresses (URLs) of downloads, and mask their secret parts for logs and results."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import urlsplit

from shuffledp.errors import InputError

# User name and password before the host.
_CREDENTIALS: Final = re.compile(r"(?<=//)[^/?#\s\"']*@")
# A download keeps its file name, and a cluster's submission passes it through a shell.
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~%+=&@-]*")
# Query, which may hold a signature.
_QUERY: Final = re.compile(r"(?<=\S)\?[^\s\"'<>()]+")


class Address(str):
    """An address whose `repr`, which Snakemake records for parameters, is masked.

    The `repr` ends in a digest of the whole address, so that a change of the query is noticed.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        digest = hashlib.sha256(self.encode()).hexdigest()[:16]
        return f"{masked(self)} ({digest})"


def masked(text: str) -> str:
    """Replace the query and the credentials of every address in a text by ``...``."""
    return _QUERY.sub("?...", _CREDENTIALS.sub("...@", text))


def masked_addresses(config: Any) -> Any:
    """Return a configuration with the values of all keys ``url`` masked."""
    if isinstance(config, Mapping):
        return {
            key: masked(value) if key == "url" else masked_addresses(value)
            for key, value in config.items()
        }
    return [masked_addresses(entry) for entry in config] if isinstance(config, list) else config


def check_address(url: str) -> None:
    """Check the address of a download from a configuration.

    Raises `InputError` if it is not an address, contains a user name or password, or ends in an
    unsafe file name. The message begins with a verb, so that the key can precede it, and shows no
    secret.
    """
    try:
        parts = urlsplit(url)
        complete = bool(parts.hostname and file_name(url)) and parts.port != 0
    except ValueError:
        complete = False
    if not complete or " " in url:
        raise InputError(f"must be an address such as https://host/file, got {masked(url)!r}")
    if "@" in parts.netloc:
        raise InputError(
            "must not contain a user name or password, which results would show, got "
            f"{masked(url)!r}: put them into ~/.netrc, or into the file that the environment "
            "variable NETRC names, as `machine HOST login NAME password WORD`"
        )
    if not _FILE_NAME.fullmatch(file_name(url)):
        raise InputError(
            f"ends in {file_name(url)!r}, which is not a safe file name: percent-encode all "
            "characters but letters, digits and ._~%+=&@-"
        )


def file_name(url: str) -> str:
    """Return the name of the file at an address, empty if the path ends in a slash."""
    path = urlsplit(url).path
    return "" if path.endswith("/") else PurePosixPath(path).name
