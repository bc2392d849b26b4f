"""Write the page of a published map: one file that loads nothing from the network."""

import json
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

import numpy as np
import pandas as pd
import shapely
from jinja2 import Environment, StrictUndefined

from shuffledp.publishing.design import Design
from shuffledp.publishing.estimates import share_above, sum_widths
from shuffledp.publishing.levels import Measurements
from shuffledp.publishing.noise import LEVEL
from shuffledp.publishing.shapes import as_polygons, joined
from shuffledp.publishing.statement import facts, promise, uncounted

MAX_PAGE_CELLS: Final = 20_000  # on a page, in each window
MAX_PAGE_COUNTS: Final = 300_000  # on a page, over all windows
_MAX_ROWS: Final = 1_000  # in the table of cells
_EVERY: Final = {
    "hour": "Hour from",
    "day": "Day",
    "week": "Week from",
    "month": "Month",
    "quarter": "Quarter",
    "year": "Year",
}
_HEADS: Final = {  # by whether there are levels
    False: ("Cell", "Estimate", "From", "To", "All: from", "All: to", "Noisy count"),
    True: ("Cell", "Estimate", "From", "To", "Count"),
}
_COLUMNS: Final = {
    False: ("estimate", "low", "high", "joint_low", "joint_high", "count"),
    True: ("estimate", "low", "high", "count"),
}
_PARTS: Final = files("shuffledp.publishing").joinpath("map_page")
_SCRIPTS: Final = (
    "vendor/d3.min.js",
    "drawing.js",
    "law.js",
    "map.js",
)  # each uses those before it
_COORDINATE_DECIMALS: Final = 5  # of degrees, which is about a metre


def fits_on_page(cells: int, windows: int) -> bool:
    """Return whether a map is small enough for a page.

    Windows count as often as there are cells in all levels for each of them.
    """
    return cells <= MAX_PAGE_CELLS and cells * windows <= MAX_PAGE_COUNTS


def render_map(
    design: Design, tables: Mapping[tuple[int, int], pd.DataFrame], statement: Mapping[str, Any]
) -> str:
    """Return the page as HTML.

    `tables` are those of `shuffledp.publishing.estimates.estimates`.
    """
    cells, windows = design.histogram.cells, design.histogram.windows
    measurements = design.measurements
    k = len(cells)
    several = measurements.several
    heads, columns = _HEADS[several], _COLUMNS[several]
    first = tables[0, 0].iloc[:k].assign(name=cells.table["name"].to_numpy())
    largest = np.argsort(-first["estimate"].to_numpy(), kind="stable")[:_MAX_ROWS]
    rows = first.iloc[largest]
    shapes = _drawn(cells.table.geometry)
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
        "windows": [""] if windows is None else list(windows.names),
        "every": _EVERY.get(str((statement["period"] or {}).get("every"))),
        "heads": heads,
        "rows": [
            [
                name,
                *(
                    f"{value:,.6g}" if isinstance(value, float) else f"{value:,}"
                    for value in values
                ),
            ]
            for name, *values in rows[["name", *columns]].itertuples(index=False)
        ],
        "areas": [
            {
                "name": level.name,
                "cells": [
                    _rings(area)
                    for area in (shapes if s == 0 else joined(shapes, level.group, len(level)))
                ],
                "id": level.ids,
                "names": level.names,
                "group": level.group.tolist() if s else None,
            }
            for s, level in enumerate(measurements.areas.levels)
        ],
        "times": [
            {"name": level.name, "windows": level.names, "group": level.group.tolist()}
            for level in measurements.times.levels
        ],
        "values": [
            [
                _values(tables[t, s], len(time), measurements, t, s)
                for s in range(len(measurements.areas))
            ]
            for t, time in enumerate(measurements.times.levels)
        ],
        "opens": _opening(tables, measurements),
        "law": _law(measurements) if several else None,
    }
    if not several:
        # A difference of two windows has the noise of twice as many counts.
        data["joint"] = statement["intervals"]["half_width_of_all_cells_together"]
        data["sums"] = sum_widths(design.noise, k * (1 if windows is None else 2))
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


def _values(
    table: pd.DataFrame, times: int, measurements: Measurements, t: int, s: int
) -> dict[str, Any]:
    """Return the numbers of a level: lists with a list of numbers of areas for each time."""
    drawn = measurements.several and (t, s) in measurements.measured
    values = {
        name: table[name].to_numpy().reshape(times, -1).tolist()
        for name in ("count", "estimate", *(("raw",) if drawn else ()))
    }
    if not measurements.several:
        return values | {"half": measurements.measured[t, s].noise.half_width(1.0 - LEVEL)}
    widths = measurements.half_widths[t, s].tolist()
    return values | {"half": [[float(f"{width:.7g}") for width in row] for row in widths]}


def _law(measurements: Measurements) -> dict[str, Any]:
    """Return what the page needs for intervals of sums: weights and noises of all levels."""
    times, areas = measurements.chains
    scales: list[list[float | None]] = [[None] * len(areas) for _ in range(len(times))]
    for (t, s), each in measurements.measured.items():
        scales[t][s] = each.noise.scale
    return {
        "mechanism": measurements.measured[0, 0].noise.mechanism,
        "weights": {"times": times.weights, "areas": areas.weights},
        "scales": scales,
    }


def _opening(tables: Mapping[tuple[int, int], pd.DataFrame], measurements: Measurements) -> int:
    """Return the level of areas with which the page opens.

    It is the finest one that is not mostly noise. If there is none, it is the coarsest one with
    several areas.
    """
    several = [s for s, level in enumerate(measurements.areas.levels) if len(level) > 1] or [0]
    for s in several:
        table = tables[0, s]
        if (
            share_above(table["estimate"].to_numpy(), (table["high"] - table["low"]).median())
            >= 0.5
        ):
            return s
    return several[-1]


def _drawn(geometry: Any) -> Any:
    """Return polygons of all cells; one without a geometry is a square beside the others."""
    shapes = geometry.to_numpy().copy()
    missing = shapely.is_missing(shapes)
    shapes[~missing] = as_polygons(shapes[~missing])
    if missing.any():
        west, south, east, north = shapely.total_bounds(shapes)
        size = 0.04 * max(east - west, north - south)
        shapes[missing] = shapely.box(west - 2 * size, south, west - size, south + size)
    return shapes


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
