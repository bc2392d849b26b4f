"""Write the page of a published map: one file that loads nothing from the network."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import shapely
from jinja2 import Environment, StrictUndefined

from shuffledp.publishing.estimates import sum_widths
from shuffledp.publishing.noise import Noise
from shuffledp.publishing.statement import facts, promise, uncounted

if TYPE_CHECKING:  # it is slow to load
    import geopandas as gpd

MAX_PAGE_CELLS: Final = 20_000  # on a page, in each window
MAX_PAGE_COUNTS: Final = 300_000  # on a page, over all windows
_MAX_ROWS: Final = 1_000  # in the table of cells
_EVERY: Final = {"day": "Day", "week": "Week from", "month": "Month"}
_HEADS: Final = ("Cell", "Estimate", "From", "To", "All: from", "All: to", "Noisy count")
_COLUMNS: Final = ("estimate", "low", "high", "joint_low", "joint_high", "noisy_count")
_PARTS: Final = files("shuffledp.publishing").joinpath("map_page")
_SCRIPTS: Final = ("vendor/d3.min.js", "drawing.js", "map.js")  # each uses those before it
_COORDINATE_DECIMALS: Final = 5  # of degrees, which is about a metre


def fits_on_page(cells: int, windows: int) -> bool:
    """Return whether a map is small enough for a page."""
    return cells <= MAX_PAGE_CELLS and cells * windows <= MAX_PAGE_COUNTS


def render_map(
    table: "gpd.GeoDataFrame",
    windows: Sequence[str],
    noise: Noise,
    statement: Mapping[str, Any],
) -> str:
    """Return the page as HTML.

    The parameters are those of `shuffledp.publishing.folder.write_files`.
    """
    k = len(table) // len(windows)
    first = table.iloc[:k]
    shape = (len(windows), k)
    largest = np.argsort(-first["estimate"].to_numpy(), kind="stable")[:_MAX_ROWS]
    rows = first.iloc[largest]
    intervals = statement["intervals"]
    # A difference of two windows has the noise of twice as many counts.
    largest_sum = k * (2 if len(windows) > 1 else 1)
    data = {
        "title": statement["title"],
        "warning": statement.get("warning"),
        "promise": promise(statement),
        "unit": statement["unit"]["protected"],
        "bound": statement["unit"]["bound"],
        "uncounted": uncounted(statement["unit"]["protected"]),
        "facts": facts(statement),
        "limits": statement["not_protected"],
        "k": k,
        "windows": list(windows),
        "every": _EVERY.get(str((statement["period"] or {}).get("every"))),
        "noisy": table["noisy_count"].to_numpy().reshape(shape).tolist(),
        "estimate": table["estimate"].to_numpy().reshape(shape).tolist(),
        "one": intervals["half_width_of_one_cell"],
        "joint": intervals["half_width_of_all_cells_together"],
        "sums": sum_widths(noise, largest_sum),
        "heads": _HEADS,
        "rows": [
            [name, *(f"{value:,}" for value in values)]
            for name, *values in rows[["name", *_COLUMNS]].itertuples(index=False)
        ],
        "map": {
            "cells": [_rings(cell) for cell in first.geometry],
            "id": first["id"].tolist(),
            "name": first["name"].tolist(),
        },
    }
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    scripts = [_part(name) for name in _SCRIPTS]
    return environment.from_string(_part("map.html")).render(
        data=data,
        embedded=embedded_json(data),
        style=_part("style.css"),
        scripts=scripts,
        allowed=" ".join(map(_policy_source, scripts)),
    )


def _rings(cell: shapely.Geometry) -> list[list[float]]:
    """Return the rings of a cell: longitude and latitude of their vertices in turn.

    The last vertex, which repeats the first one, is left out.
    """
    return [
        np.round(shapely.get_coordinates(ring)[:-1], _COORDINATE_DECIMALS).ravel().tolist()
        for ring in shapely.get_rings(shapely.get_parts(cell))
    ]


def _part(name: str) -> str:
    """Return the text of a file of the page: its template, style or a script."""
    return _PARTS.joinpath(name).read_text(encoding="utf-8")


def embedded_json(data: Any) -> str:
    """Return JSON for a script element, in which no tag can end the element.

    Raise a ValueError for a number that is NaN or infinite, which JSON cannot represent.
    """
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _policy_source(script: str) -> str:
    """Return the source expression by which a content security policy allows a script."""
    return f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'"
