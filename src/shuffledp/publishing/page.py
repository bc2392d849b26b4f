"""Write the page of a published map: one file that loads nothing from the network."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from shuffledp.figures.basemap import backdrop
from shuffledp.page.maps import rings_of, surroundings
from shuffledp.page.render import page_part, render_template
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
_SCRIPTS: Final = (
    "vendor/d3.min.js",
    "scripts/common.js",
    "scripts/drawing.js",
    "scripts/published.js",
)


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
            "cells": rings_of(first.geometry),
            "id": first["id"].tolist(),
            "name": first["name"].tolist(),
            **surroundings(backdrop(), first.total_bounds),
        },
    }
    template = page_part("published.html")
    return render_template(template, [page_part(name) for name in _SCRIPTS], data)
