"""Addresses of downloads: what of them may be shown, and what their files are called."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import urlsplit

from shuffledp.errors import InputError

# In any text: a name and password before the host, and a query, which may hold a signature.
_CREDENTIALS: Final = re.compile(r"(?<=//)[^/?#\s\"']*@")
# A download keeps its name, which a cluster's submission passes through a shell.
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~%+=&@-]*")
_QUERY: Final = re.compile(r"(?<=\S)\?[^\s\"'<>()]+")


class Address(str):
    """An address whose `repr`, which Snakemake keeps of parameters, does not show its query.

    Two addresses with different queries have different ones all the same, by a digest.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        digest = hashlib.sha256(self.encode()).hexdigest()[:16]
        return f"{masked(self)} ({digest})"


def masked(text: str) -> str:
    """Replace the query, and a name and password, of every address in a text by three points."""
    return _QUERY.sub("?...", _CREDENTIALS.sub("...@", text))


def masked_addresses(config: Any) -> Any:
    """A configuration, as it may be shown: queries masked in what is called ``url``."""
    if isinstance(config, Mapping):
        return {
            key: masked(value) if key == "url" else masked_addresses(value)
            for key, value in config.items()
        }
    return [masked_addresses(one) for one in config] if isinstance(config, list) else config


def check_address(url: str) -> None:
    """Check the address of a download, which a configuration gives.

    Raises
    ------
    InputError
        If it is none, names a user or a password, or its file's name is not safe. The message goes
        on after the key, and shows nothing that is masked.
    """
    try:
        parts = urlsplit(url)
        whole = bool(parts.hostname and file_name(url)) and parts.port != 0
    except ValueError:
        whole = False
    if not whole or " " in url:
        raise InputError(f"must be an address such as https://host/file (got {masked(url)!r})")
    if "@" in parts.netloc:
        raise InputError(
            f"must not name a user or a password, which results would show (got {masked(url)!r}): "
            "put them into ~/.netrc, or into the file that the environment's variable NETRC "
            "names, as `machine HOST login NAME password WORD`"
        )
    if not _FILE_NAME.fullmatch(file_name(url)):
        raise InputError(
            f"ends in {file_name(url)!r}, which is not safe as a file's name: "
            "percent-encode what is not a letter, a digit or one of ._~%+=&@-"
        )


def file_name(url: str) -> str:
    """Name of the file at an address, without its query; empty if it ends in a slash."""
    path = urlsplit(url).path
    return "" if path.endswith("/") else PurePosixPath(path).name
