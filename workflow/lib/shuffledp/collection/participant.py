"""The participant's page: a static folder, served by a third party.

Its one script and its one style stand in the page, which allows no others, by their hashes.
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

from shuffledp.collection.campaign import Campaign
from shuffledp.errors import InputError
from shuffledp.pipeline.files import file_sha256, replacing

_PARTS: Final = files(__package__).joinpath("participant")
# Modules in the order in which they need each other.
_MODULES: Final = ("hpke", "campaign", "draw", "client", "map", "page")
_LINKS: Final = re.compile(
    r"^(?:import [^;]*;\n|export \{[^}]*\}(?: from [^;]*)?;\n|export (?=\w))", re.MULTILINE
)
# What lies round the cells: nothing, and the most bytes that a page carries of it.
_NOTHING: Final[Mapping[str, Any]] = {"layers": [], "names": [], "attribution": ""}
_MOST: Final = 200_000
# What a browser can be told to send to: a name, not a number of version 6; and no ';' or ','.
_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]*)?")


def write_participant_folder(
    folder: Path, campaign: Campaign, cells: Path, around: Mapping[str, Any] = _NOTHING
) -> None:
    """Write the page, the campaign, its cells and licences: to be served as they are.

    Parameters
    ----------
    folder
        Must not exist.
    campaign
        What is asked.
    cells
        GeoJSON of it.
    around
        What lies round them, as `shuffledp.page.maps.surroundings` returns it.

    Raises
    ------
    InputError
        If there is such a folder, the cells are others, or as `make_page`.
    OSError
        If it cannot be written.
    """
    if folder.exists():
        raise InputError(f"{folder} is there already")
    if file_sha256(cells) != campaign.cells_sha256:
        raise InputError(f"{cells} has not the cells of the campaign")
    page = make_page(campaign, around)
    with replacing(folder) as made:
        made.mkdir()
        (made / "index.html").write_bytes(page.encode())
        (made / "campaign.json").write_bytes(campaign.text)
        (made / "cells.geojson").write_bytes(cells.read_bytes())
        (made / "LICENSES.txt").write_text(_text("LICENSES.txt"), encoding="utf-8")


def make_page(campaign: Campaign, around: Mapping[str, Any] = _NOTHING) -> str:
    """The page, as HTML.

    Parameters
    ----------
    campaign, around
        As of `write_participant_folder`.

    Raises
    ------
    InputError
        If a page cannot send to the mixer's address, or a phone would load too much map.
    """
    if not _ADDRESS.fullmatch(campaign.address):
        raise InputError(
            f"a page cannot send to {campaign.address}: it needs a host's name, and no query"
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
    # No tag in it can end its element.
    drawn = json.dumps(around, separators=(",", ":")).replace("<", "\\u003c")
    if len(drawn) > _MOST:
        raise InputError(
            f"the base map has {len(drawn):,} bytes near the cells, and a page carries {_MOST:,}: "
            "simplify it in a GIS"
        )
    words = "; ".join(f"{name} {allowed}" for name, allowed in policy.items())
    return Template(_text("page.html")).substitute(
        policy=escape(words), style=style, around=drawn, script=script
    )


def _text(name: str) -> str:
    return _PARTS.joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
