"""The participant's page: a static folder, served by a third party.

The page contains its only script and style; its policy allows no others, by their hashes.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Final

from shuffledp.errors import InputError
from shuffledp.pipeline.files import file_sha256, replacing

from shuffledp_collect.campaign import Campaign

_PARTS: Final = files(__package__).joinpath("participant")
# Modules in the order of their dependencies.
_MODULES: Final = ("hpke", "campaign", "draw", "client", "map", "page")
_LINKS: Final = re.compile(
    r"^(?:import [^;]*;\n|export \{[^}]*\}(?: from [^;]*)?;\n|export (?=\w))", re.MULTILINE
)
_NO_SURROUNDINGS: Final[Mapping[str, Any]] = {"layers": [], "names": [], "attribution": ""}
_MAX_SURROUNDINGS_BYTES: Final = 200_000
# Addresses that a content security policy can name: no IPv6 address, no ';' and no ','.
_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]*)?")


def write_participant_folder(
    folder: Path, campaign: Campaign, cells: Path, around: Mapping[str, Any] | None = None
) -> None:
    """Write page, campaign and cells into a new folder, to be served as they are.

    The surroundings of the cells come from `shuffledp.page.maps.surroundings`. Raises `InputError`
    if the folder exists, the cells are not those of the campaign, or `make_page` fails, and
    `OSError` if the folder cannot be written.
    """
    if folder.exists():
        raise InputError(f"{folder} already exists")
    if file_sha256(cells) != campaign.cells_sha256:
        raise InputError(f"{cells} does not have the cells of the campaign")
    page = make_page(campaign, around)
    with replacing(folder) as made:
        made.mkdir()
        (made / "index.html").write_bytes(page.encode())
        (made / "campaign.json").write_bytes(campaign.text)
        (made / "cells.geojson").write_bytes(cells.read_bytes())


def make_page(campaign: Campaign, around: Mapping[str, Any] | None = None) -> str:
    """Return the page as HTML; see `write_participant_folder` for the arguments.

    Raises `InputError` if a page cannot send to the mixer's address, or the surroundings are too
    large for a phone.
    """
    if not _ADDRESS.fullmatch(campaign.address):
        raise InputError(
            f"a page can send to a host name without a query only, got {campaign.address}"
        )
    script = "\n" + "".join(_LINKS.sub("", _text(f"{name}.js")) for name in _MODULES)
    style = "\n" + _text("style.css")
    policy = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": _hash(style),
        "img-src": "data:",
        "connect-src": f"'self' {campaign.address.rstrip('/')}/v1/{campaign.name}/",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    # No tag in the data can end its element.
    drawn = json.dumps(around or _NO_SURROUNDINGS, separators=(",", ":")).replace("<", "\\u003c")
    if len(drawn) > _MAX_SURROUNDINGS_BYTES:
        raise InputError(
            f"a page has room for {_MAX_SURROUNDINGS_BYTES:,} bytes of a base map near the cells, "
            f"got {len(drawn):,}: simplify it in a GIS"
        )
    words = "; ".join(f"{name} {allowed}" for name, allowed in policy.items())
    return Template(_text("page.html")).substitute(
        policy=escape(words), style=style, around=drawn, script=script
    )


def _text(name: str) -> str:
    return _PARTS.joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
