"""Collect the data of the page's maps: cells, base map, true counts and releases."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely

from shuffledp.figures.basemap import DISTRICT_KINDS, named_places, simplify_districts
from shuffledp.mechanisms.catalogue import CATALOGUE
from shuffledp.numerics.arrays import Floats, Integers

# Largest number of estimates per region on the page; each takes about 10 characters.
_MAX_ESTIMATES: Final = 150_000
COORDINATE_DECIMALS: Final = 5  # of degrees, which is about a metre


def map_data(
    read: Callable[[], gpd.GeoDataFrame],
    layers: gpd.GeoDataFrame,
    samples: Mapping[int, Integers],
    estimates: pd.DataFrame,
) -> dict[str, Any] | None:
    """Return the cells, their surroundings, true counts and releases, the largest n first.

    `read` reads the grid: columns ``id``, ``name`` and ``geometry`` (WGS 84 degrees), and
    ``window`` if cells repeat for windows of time. It is called only if there is a map, because a
    million polygons take 490 MB. `samples` are true histograms by n, shape ``(k,)`` each.
    `estimates` has columns ``n``, ``mechanism``, ``promise`` (the guarantee in words), ``eps`` (the
    same for all rows at one n and promise), ``cell``, and ``estimate`` and ``standard_error`` as
    shares of n.

    Releases of small n are left out if there are more than `_MAX_ESTIMATES` estimates. The result
    is None, and there is no map, if the largest n alone has more.
    """
    kept, room = [], _MAX_ESTIMATES
    for n in sorted(estimates["n"].unique(), reverse=True):
        rows = estimates[estimates["n"] == n]
        room -= len(rows)
        if room < 0:
            break
        kept.append((int(n), rows))
    if not kept:
        return None
    cells = read()
    windows = list(dict.fromkeys(cells["window"])) if "window" in cells else [""]
    cells = cells.iloc[: len(cells) // len(windows)]
    return {
        "windows": windows,
        "cells": rings_of(cells.geometry),
        "id": cells["id"].tolist(),
        "name": cells["name"].tolist(),
        "district": districts_of(cells.geometry, layers),
        **surroundings(layers, cells.total_bounds),
        "truth": {n: samples[n].tolist() for n, _ in kept},
        "releases": [
            {
                "n": n,
                "promise": promise,
                "eps": float(part["eps"].iloc[0]),
                "mechanism": mechanism,
                "label": CATALOGUE[str(mechanism)].label,
                "estimate": _rounded(n * part["estimate"]),
                "error": _rounded(n * part["standard_error"]),
            }
            for n, rows in kept
            for (promise, mechanism), part in rows.groupby(["promise", "mechanism"], sort=False)
        ],
    }


def rings_of(cells: gpd.GeoSeries) -> list[list[list[float]]]:
    """Return the rings of each cell: longitude and latitude of their vertices in turn.

    The last vertex, which repeats the first one, is left out.
    """
    return [
        [
            np.round(shapely.get_coordinates(ring)[:-1], COORDINATE_DECIMALS).ravel().tolist()
            for ring in shapely.get_rings(shapely.get_parts(cell))
        ]
        for cell in cells
    ]


def _rounded(values: pd.Series) -> list[float]:
    """Round numbers of records so finely that twice a number is right to one decimal."""
    return [round(x, 2) if abs(x) >= 10.0 else float(f"{x:.4g}") for x in values.tolist()]


def surroundings(layers: gpd.GeoDataFrame, box: Floats) -> dict[str, Any]:
    """Return the surroundings of the cells of a map as data for JSON.

    `box` has the west, south, east and north limits of the cells in degrees. In the result,
    ``layers`` are rings and lines near the cells, in the order of the file. ``names`` are the names
    of areas, the largest first, then of rivers and places; ``at`` are the ends of the line along
    which a name can be written. ``attribution`` must be shown with the map.
    """
    visible = simplify_districts(layers, float(box[2] - box[0]))
    return {
        "layers": _layers(visible, box),
        "names": [
            {"kind": kind, "name": name, "at": np.round(ends, COORDINATE_DECIMALS).tolist()}
            for kind, name, ends in named_places(visible, tuple(box.tolist()))
        ],
        "attribution": "; ".join(dict.fromkeys(filter(None, layers["attribution"]))),
    }


def districts_of(cells: gpd.GeoSeries, layers: gpd.GeoDataFrame) -> list[str]:
    """Return the name of the district that contains the centre of each cell, empty if none does."""
    named = layers[layers["kind"].isin(DISTRICT_KINDS) & (layers["name"] != "")]
    names = [""] * len(cells)
    centres = shapely.centroid(cells.to_numpy())
    for cell, district in zip(*named.sindex.query(centres, predicate="within"), strict=True):
        names[cell] = str(named["name"].iloc[district])
    return names


def _layers(layers: gpd.GeoDataFrame, box: Floats) -> list[dict[str, Any]]:
    layers = layers[layers["kind"] != "place"]
    west, south, east, north = box
    margin = 0.05 * max(east - west, north - south)
    clipped = shapely.clip_by_rect(
        layers.geometry.to_numpy(), west - margin, south - margin, east + margin, north + margin
    )
    drawn = []
    for kind, name, shape in zip(layers["kind"], layers["name"], clipped, strict=True):
        parts = shapely.get_parts(shape)
        area = shapely.get_type_id(parts) == 3
        lines = [*shapely.get_rings(parts[area]), *parts[~area]]
        if lines:
            points = map(shapely.get_coordinates, lines)
            paths = [np.round(each, COORDINATE_DECIMALS).tolist() for each in points]
            drawn.append({"kind": str(kind), "name": str(name), "paths": paths})
    return drawn
