"""What the page's maps are drawn from: cells, base map, the truth and one release of each kind."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import geopandas as gpd
import numpy as np
import pandas as pd
import shapely

from shuffledp.figures.basemap import DISTRICTS, backdrop, legible, named_places
from shuffledp.mechanisms.catalogue import CATALOGUE
from shuffledp.numerics.arrays import Floats, Integers

# Numbers of cells in all releases of a region that the page carries: some 10 characters each.
_MOST: Final = 150_000
DEGREES: Final = 5  # decimals of a coordinate: a metre


def map_data(
    read: Callable[[], gpd.GeoDataFrame],
    layers: gpd.GeoDataFrame,
    samples: Mapping[int, Integers],
    estimates: pd.DataFrame,
) -> dict[str, Any] | None:
    """Cells, what lies round them, and the releases, the largest n first.

    Parameters
    ----------
    read
        Reads the grid: columns ``row``, ``column`` and ``geometry`` (WGS 84 degrees). It is called
        only if a map is carried: the polygons of a million cells take 490 MB.
    layers
        As `shuffledp.figures.basemap.backdrop` returns them.
    samples
        True histograms by n, shape ``(k,)`` each.
    estimates
        Columns ``n``, ``mechanism``, ``promise`` (words for what was kept), ``eps`` (the same for
        all that kept it), ``cell``, ``estimate`` and ``standard_error``, these as shares of n.

    Returns
    -------
    What JSON can hold; releases of the smaller n are left out beyond `_MOST` numbers. None if those
    of the largest n alone are more: then no map is carried.
    """
    kept, room = [], _MOST
    for n in sorted(estimates["n"].unique(), reverse=True):
        rows = estimates[estimates["n"] == n]
        room -= len(rows)
        if room < 0:
            break
        kept.append((int(n), rows))
    if not kept:
        return None
    cells = read()
    corners = shapely.get_coordinates(cells.geometry.to_numpy()).reshape(len(cells), -1, 2)
    box = np.concatenate([corners.min(axis=(0, 1)), corners.max(axis=(0, 1))])
    return {
        # The first corner comes again as the last one.
        "corners": np.round(corners[:, :-1], DEGREES).reshape(len(cells), -1).tolist(),
        "row": cells["row"].tolist(),
        "column": cells["column"].tolist(),
        "district": districts_of(cells.geometry, layers),
        **surroundings(layers, box),
        "truth": {n: samples[n].tolist() for n, _ in kept},
        "releases": [
            {
                "n": n,
                "promise": promise,
                "eps": float(part["eps"].iloc[0]),
                "mechanism": mechanism,
                "label": CATALOGUE[str(mechanism)].label,
                "estimate": _short(n * part["estimate"]),
                "error": _short(n * part["standard_error"]),
            }
            for n, rows in kept
            for (promise, mechanism), part in rows.groupby(["promise", "mechanism"], sort=False)
        ],
    }


def _short(values: pd.Series) -> list[float]:
    """Numbers of records: the page shows one decimal, and that of twice a number must be right."""
    return [round(x, 2) if abs(x) >= 10.0 else float(f"{x:.4g}") for x in values.tolist()]


def read_surroundings(basemap: Path, cells: Sequence[Any]) -> dict[str, Any]:
    """What `surroundings` says of a file and of cells.

    Parameters
    ----------
    basemap
        GeoJSON, as of `shuffledp.geography.geojson.read_basemap`.
    cells
        Geometries in degrees.

    Raises
    ------
    InputError
        If the file is no base map.
    """
    return surroundings(backdrop(basemap), shapely.total_bounds(np.asarray(cells)))


def surroundings(layers: gpd.GeoDataFrame, box: Floats) -> dict[str, Any]:
    """What lies round the cells of a map, as JSON can hold it.

    Parameters
    ----------
    layers
        As `shuffledp.figures.basemap.backdrop` returns them.
    box
        Of the cells: west, south, east and north, in degrees.

    Returns
    -------
    ``layers``: rings and lines of each near the cells, in the order of the file, with its name.
    ``names`` of districts, the largest first, and of rivers and places, where they have room;
    ``at`` are two points that the name is written along, as far apart as there is room.
    ``attribution`` is to be shown with them.
    """
    shown = legible(layers, float(box[2] - box[0]))
    return {
        "layers": _layers(shown, box),
        "names": [
            {"kind": kind, "name": name, "at": np.round(ends, DEGREES).tolist()}
            for kind, name, ends in named_places(shown, tuple(box.tolist()))
        ],
        "attribution": "; ".join(dict.fromkeys(filter(None, layers["attribution"]))),
    }


def districts_of(cells: gpd.GeoSeries, layers: gpd.GeoDataFrame) -> list[str]:
    """Name of the district that holds the middle of each cell; empty where none has a name.

    Parameters
    ----------
    cells
        Geometries.
    layers
        As of `surroundings`.
    """
    named = layers[layers["kind"].isin(DISTRICTS) & (layers["name"] != "")]
    found = [""] * len(cells)
    middles = shapely.centroid(cells.to_numpy())
    for cell, district in zip(*named.sindex.query(middles, predicate="within"), strict=True):
        found[cell] = str(named["name"].iloc[district])
    return found


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
            paths = [np.round(shapely.get_coordinates(line), DEGREES).tolist() for line in lines]
            drawn.append({"kind": str(kind), "name": str(name), "paths": paths})
    return drawn
