"""Write the page of a published map: one file that loads nothing from the network."""

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

import numpy as np
import pandas as pd
import shapely
from jinja2 import Environment, StrictUndefined

from shuffledp.numerics.arrays import Integers
from shuffledp.publishing.chains import Pairs
from shuffledp.publishing.design import Design
from shuffledp.publishing.estimates import share_above, sum_widths
from shuffledp.publishing.levels import FlowAxis, Level, Measurements
from shuffledp.publishing.noise import LEVEL
from shuffledp.publishing.statement import facts, kind_in_words, promise, uncounted

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
# Each script uses those before it.
_SCRIPTS: Final = ("vendor/d3.min.js", "drawing.js", "law.js", "map.js")
_FLOW_LEVELS: Final = ("pairs", "departures", "arrivals")  # on a page of trips
_DEPARTURES: Final = 2  # number of the choice on a page of trips
_CIRCLE_SHARE: Final = 0.012  # largest radius of a point, relative to the extent of all
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

    `tables` are those of `estimates.estimates_of_levels`.
    """
    cells, windows = design.histogram.cells, design.histogram.windows
    measurements = design.measurements
    k = len(cells)
    several = measurements.several
    heads, columns = _HEADS[several], _COLUMNS[several]
    names = [""] if windows is None else windows.names
    areas = list(enumerate(measurements.areas.levels))
    places = cells.table["name"].to_numpy()
    shown: Sequence[Level] = measurements.areas.levels
    if isinstance(measurements.areas, FlowAxis):
        shown = measurements.areas.ends.levels[:1]  # the cells where trips begin and end
        heads = ("Trip", *heads[1:])
        areas = [each for each in areas if each[1].name in _FLOW_LEVELS]
        places = np.add.outer(places + " to ", places).ravel()
    if len(names) > 1:
        heads, columns = (heads[0], "Window", *heads[1:]), ("window", *columns)
    counts = tables[0, 0].assign(
        name=np.tile(places, len(names)), window=np.repeat(names, len(places))
    )
    largest = np.argsort(-counts["estimate"].to_numpy(), kind="stable")[:_MAX_ROWS]
    rows = counts.iloc[largest]
    shapes = _shapes(cells.table.geometry, shown)
    labels = [_label(level.name) for level in shown]
    opens, opening = _opening(design, tables, warned="warning" in statement)
    data = {
        "title": statement["title"],
        "warning": statement.get("warning"),
        "promise": promise(statement),
        "unit": statement["unit"]["protected"],
        "bound": statement["unit"]["bound"],
        "uncounted": uncounted(statement["unit"]["protected"]),
        "facts": facts(statement),
        "limits": statement["not_protected"],
        "counts": len(counts),
        "windows": list(names),
        "every": _EVERY.get(str((statement["period"] or {}).get("every"))),
        "heads": heads,
        "rows": [
            [name, *map(_cell_text, values)]
            for name, *values in rows[["name", *columns]].itertuples(index=False)
        ],
        "areas": [
            {
                "name": level.name,
                "label": labels[s],
                "cells": [_rings(area) for area in shapes[s]],
                "id": level.ids,
                "names": level.names,
                "group": level.group.tolist() if s else None,
            }
            for s, level in enumerate(shown)
        ],
        "flows": design.histogram.flows,
        "opening": opening,
        "land": len(shown) > 1 and cells.table.geometry.iloc[0].geom_type == "Point",
        "times": [
            {"name": level.name, "windows": level.names, "group": level.group.tolist()}
            for level in measurements.times.levels
        ],
        "values": [
            [_values(tables[t, s], len(time), measurements, t, s) for s, _ in areas]
            for t, time in enumerate(measurements.times.levels)
        ],
        "opens": opens,
        "law": _law(measurements) if several else None,
        "combined": len(measurements.measured) > 1,
        "elsewhere": several and cells.elsewhere,
    }
    if not several:
        # A difference of two windows has the noise of twice as many counts.
        data["joint"] = statement["intervals"]["half_width_of_all_cells_together"]
        data["sums"] = sum_widths(design.noise, k * (1 if windows is None else 2))
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    scripts = [_part(name) for name in _SCRIPTS]
    # The content security policy allows these scripts by their checksums.
    digests = [b64encode(sha256(each.encode()).digest()).decode() for each in scripts]
    return environment.from_string(_part("map.html")).render(
        data=data,
        embedded=embedded_json(data),
        style=_part("style.css"),
        scripts=scripts,
        allowed=" ".join(f"'sha256-{each}'" for each in digests),
    )


def _cell_text(value: str | float) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


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
    axes = (areas.first, areas.second) if isinstance(areas, Pairs) else (areas,)
    at = measurements.measured
    return {
        "mechanism": at[0, 0].noise.mechanism,
        "weights": [axis.weights for axis in (times, *axes)],
        "groups": [None, *(group.tolist() for group in axes[0].groups[1:])],
        "scales": [
            at[each].noise.scale if each in at else None for each in measurements.combinations
        ],
    }


def _opening(
    design: Design, tables: Mapping[tuple[int, int], pd.DataFrame], *, warned: bool
) -> tuple[int, str]:
    """Return the number of the choice of areas with which the page opens, and why in a sentence.

    It is the finest level that is not mostly noise. If there is none, it is the coarsest one with
    several areas. Trips open with departures if those of single pairs are mostly noise.
    """
    if design.histogram.flows:
        reason = "The map opens with departures, because most counts of single pairs are noise."
        return (_DEPARTURES, reason) if warned else (0, "")
    levels = design.measurements.areas.levels
    several = [s for s, level in enumerate(levels) if len(level) > 1] or [0]
    chosen = several[-1]
    for s in several[1:] if warned else several:
        table = tables[0, s]
        width = (table["high"] - table["low"]).median()
        if share_above(table["estimate"].to_numpy(), width) >= 0.5:
            chosen = s
            break
    if not chosen:
        return 0, ""
    level = _label(levels[chosen].name)
    return chosen, (
        f"The map opens with the level {level}, because most counts of smaller areas are noise."
    )


def _label(level: str) -> str:
    """Return the name of a level of areas, as a label."""
    words = kind_in_words(level)
    return words[:1].upper() + words[1:]


def _shapes(geometry: Any, levels: Sequence[Level]) -> list[Any]:
    """Return the polygons of the areas of each level.

    Points are circles, and an area of points is what is nearest to them. An area without a geometry
    is a square beside the others.
    """
    found = geometry.to_numpy().copy()
    known = np.flatnonzero(~shapely.is_missing(found))
    points, land = found[known], found.copy()
    found[known] = as_polygons(points)
    # Several points of one place are one point.
    _, first, number = np.unique(shapely.to_wkb(points), return_index=True, return_inverse=True)
    if points[0].geom_type == "Point" and len(first) > 1:
        land[known] = _nearest_land(points[first])[number]
    else:
        land = found
    west, south, east, north = shapely.total_bounds(found)
    size = 0.04 * max(east - west, north - south)
    square = shapely.box(west - 2 * size, south, west - size, south + size)
    areas = [
        _joined(land, level.group, len(level)) if s else found for s, level in enumerate(levels)
    ]
    return [[square if area is None else area for area in level] for level in areas]


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


# --- Shapes -----------------------------------------------------------------------------------


def as_polygons(shapes: Any) -> Any:
    """Return polygons as they are, and points as circles that hardly overlap.

    `shapes` are geometries in degrees without missing ones; the result is an array of them.
    """
    shapes = np.asarray(shapes)
    kinds = shapely.get_type_id(shapes)
    if not (kinds == shapely.GeometryType.POINT).all():
        return shapes
    x, y = shapely.get_x(shapes), shapely.get_y(shapes)
    narrow = np.cos(np.radians(np.clip(y.mean(), -85.0, 85.0)))  # of a degree of longitude
    extent = max(np.ptp(x) * narrow, np.ptp(y), 1e-3)
    flat = shapely.points(x * narrow, y)
    near = shapely.STRtree(flat).query_nearest(flat, exclusive=True, all_matches=False)
    distance = shapely.distance(flat[near[0]], flat[near[1]])
    half = 0.5 * float(np.median(distance)) if distance.size else extent
    radius = np.clip(half, 0.2 * _CIRCLE_SHARE * extent, _CIRCLE_SHARE * extent)
    circles = shapely.buffer(flat, radius, quad_segs=6)
    return shapely.transform(circles, lambda xy: xy / [narrow, 1.0])


def _nearest_land(points: Any) -> Any:
    """Return for each point the land that is nearer to it than to any other point.

    It ends a little beyond the convex hull of all points, which are different geometries in
    degrees, at least two.
    """
    xy = shapely.get_coordinates(points)
    narrow = np.cos(np.radians(np.clip(xy[:, 1].mean(), -85.0, 85.0)))  # of a degree of longitude
    flat = shapely.multipoints(xy * [narrow, 1.0])
    extent = np.ptp(shapely.get_coordinates(flat), axis=0).max()
    reach = shapely.buffer(shapely.convex_hull(flat), 2.0 * _CIRCLE_SHARE * extent)
    land = shapely.get_parts(shapely.voronoi_polygons(flat, extend_to=reach))
    owner, number = shapely.STRtree(land).query(shapely.get_parts(flat), predicate="intersects")
    land = land[number[np.unique(owner, return_index=True)[1]]]
    land = shapely.intersection(land, reach)
    return shapely.transform(land, lambda xy: xy / [narrow, 1.0])


def _joined(shapes: Any, group: Integers, groups: int) -> Sequence[Any]:
    """Return the union of the shapes of each group, None for a group without any."""
    shapes = np.asarray(shapes)
    drawn = ~shapely.is_missing(shapes)
    return [
        shapely.union_all(shapes[drawn & (group == number)], grid_size=1e-9)
        if (drawn & (group == number)).any()
        else None
        for number in range(groups)
    ]
