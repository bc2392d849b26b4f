"""Add up the counts of areas of a published map, with intervals, from its folder alone."""

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import shapely

from shuffledp.accounting.contributions import Sensitivity
from shuffledp.data.polygons import read_polygons
from shuffledp.errors import InputError, did_you_mean
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.tables import CHECKED
from shuffledp.publishing.estimates import whole_interval
from shuffledp.publishing.levels import Axis, Level, Measurements, labelled_level
from shuffledp.publishing.noise import LEVEL, Measured, Noise
from shuffledp.publishing.weighted_sums import half_width

if TYPE_CHECKING:  # it is slow to load
    import geopandas as gpd

_NOISES = {"discrete Laplace": "laplace", "discrete Gaussian": "gaussian"}


def area(
    folder: str | Path,
    *,
    polygon: Any = None,
    cells: Sequence[str] | None = None,
    touching: bool = False,
    windows: Sequence[str] | None = None,
    minus: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the number of records in an area of a published map, with its interval.

    Only the published folder is read, so this is free of charge (post-processing). Choose the area
    before you look at the numbers: the interval of one that was picked because its count is large
    is too low.

    Parameters
    ----------
    folder
        Folder of the published map.
    polygon
        The area: a shapely geometry in WGS 84, or a file of polygons. A cell counts if its middle
        lies in the area.
    cells
        Ids of cells, instead of a polygon.
    touching
        Whether all cells that the polygon touches count.
    windows
        Names of windows, or of longer times of the map such as ``2024-Q1``, to add up. By default,
        each window has a row of its own.
    minus
        Names of windows or longer times to subtract, for a difference.

    Returns
    -------
    A row for each window, with columns window (if the map has windows), cells (their number), cut
    (ids of the cells that count although a part of them lies outside of the polygon, or do not
    although a part lies in it), count (unbiased), low and high: the 95 % interval of the true
    count, or of the difference. Both ends are at least 0 for a count.
    """
    folder = Path(folder)
    table, statement = _read(folder)
    names = list(dict.fromkeys(table["window"])) if "window" in table else [""]
    k = len(table) // len(names)
    shown = table.iloc[:k]
    chosen, cut = _chosen(shown, polygon, cells, touching)
    weights = np.zeros(k)
    weights[chosen] = 1.0
    measurements = _measurements(statement, table, names)
    counts = table["count"].to_numpy(dtype=np.float64).reshape(-1, k)[:, chosen].sum(axis=1)
    rows = []
    for label, of_windows in _window_weights(statement, names, windows, minus):
        width = half_width(measurements.noises(of_windows, weights), 1.0 - LEVEL)
        count = float(of_windows @ counts)
        least = -np.inf if minus else 0.0
        low, high = map(float, whole_interval(np.float64(count), width, least))
        row = {"cells": len(chosen), "cut": " ".join(cut), "count": count, "low": low, "high": high}
        rows.append(row if names == [""] else {"window": label, **row})
    return pd.DataFrame(rows)


def _read(folder: Path) -> tuple["gpd.GeoDataFrame", dict[str, Any]]:
    import geopandas as gpd

    if not (folder / "statement.json").is_file():
        raise InputError(f"{folder} is not the folder of a published map: it has no statement.json")
    try:
        statement = json.loads((folder / "statement.json").read_text(encoding="utf-8"))
        table = gpd.read_parquet(folder / "map.parquet", **CHECKED)
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} is not the folder of a published map ({error})") from error
    if "levels" not in statement or "count" not in table:
        raise InputError(f"{folder} was published by an earlier version, which wrote no levels")
    return table, statement


def _chosen(
    shown: "gpd.GeoDataFrame", polygon: Any, cells: Sequence[str] | None, touching: bool
) -> tuple[Integers, list[str]]:
    """Return the numbers of the cells that count, and the ids of those that are cut."""
    if (polygon is None) == (cells is None):
        raise InputError("give either a polygon or the ids of cells")
    ids = shown["id"].tolist()
    if cells is not None:
        named = dict(zip(shown["name"], ids, strict=True))
        for each in cells:
            if each not in ids:
                meant = f": its id is {named[each]!r}" if each in named else ""
                raise InputError(f"no cell has the id {each!r}{meant or did_you_mean(each, ids)}")
        if not len(cells):
            raise InputError("an area needs at least one cell, got none")
        return np.array(sorted({ids.index(each) for each in cells}), dtype=np.int64), []
    if isinstance(polygon, str | Path):
        if Path(polygon).suffix.lower() in (".csv", ".txt"):
            raise InputError(f"{polygon} has no polygons: give ids of cells by --cell instead")
        polygon = shapely.union_all(read_polygons(Path(polygon)).table.geometry.to_numpy())
    if not isinstance(polygon, shapely.Geometry) or not shapely.is_valid(polygon):
        raise InputError(
            "the area must be a valid geometry of shapely in WGS 84, or a file of polygons, got "
            f"{type(polygon).__name__}: repair it, or take the union of several"
        )
    shapes = shown.geometry.to_numpy()
    meets = shapely.intersects(polygon, shapes) & ~shapely.touches(polygon, shapes)
    inside = shapely.covers(polygon, shapes)
    counts = meets if touching else shapely.covers(polygon, shapely.centroid(shapes))
    chosen = np.flatnonzero(counts)
    if not len(chosen):
        near = ": give --touching for those that it touches" if meets.any() else ""
        raise InputError(f"no cell of the map has its middle in the area{near}")
    return chosen, [ids[number] for number in np.flatnonzero(meets & ~inside)]


def _window_weights(
    statement: dict[str, Any],
    names: list[str],
    windows: Sequence[str] | None,
    minus: Sequence[str] | None,
) -> list[tuple[str, Any]]:
    """Return pairs of a label and the weights of all windows, shape ``(windows,)``."""
    if windows is None and minus is None:
        return [(name, row) for name, row in zip(names, np.eye(len(names)), strict=True)]
    if windows is None:
        raise InputError("--minus needs --window, from which it is subtracted")
    # Where a window and a longer time have one name, as a day and a week, it is the window's.
    times = [row["time_of_window"] for row in statement["levels"] if "time_of_window" in row]
    known: dict[str, Any] = {}
    for labels in [names, *times]:
        for label in dict.fromkeys(labels):
            known.setdefault(label, np.equal(labels, label).astype(np.float64))
    for each in [*windows, *(minus or ())]:
        if each not in known:
            raise InputError(f"there is no window {each!r}{did_you_mean(each, known)}")
    added, subtracted = (
        np.max([np.zeros(len(names)), *(known[each] for each in chosen or ())], axis=0)
        for chosen in (windows, minus)
    )
    if (added == subtracted).all():
        raise InputError("the windows to add and to subtract are the same: their difference is 0")
    label = " + ".join(windows) + "".join(f" - {each}" for each in minus or ())
    return [(label, added - subtracted)]


def _measurements(
    statement: dict[str, Any], table: "gpd.GeoDataFrame", windows: list[str]
) -> Measurements:
    """Return the levels and their noise, as they were published."""
    mechanism: Any = _NOISES[statement["mechanism"]["name"]]
    k = len(table) // len(windows)
    times: dict[str | None, Level] = {}
    areas: dict[str, Level] = {}
    measured = {}
    for row in statement["levels"]:
        if row["times"] not in times:
            labels = row.get("time_of_window", windows)
            times[row["times"]] = labelled_level(str(row["times"]), labels)
        if row["areas"] not in areas:
            column = "id" if row["areas"] == "cells" else row["areas"]
            areas[row["areas"]] = labelled_level(row["areas"], table[column].iloc[:k].tolist())
        if "scale" not in row:
            continue
        at = (list(times).index(row["times"]), list(areas).index(row["areas"]))
        l1, squares = row["sensitivity_l1"], row["sensitivity_l2_squared"]
        sensitivity = Sensitivity(l1, squares, 2 * l1, 2 * squares)
        share = Decimal(row["share"])
        measured[at] = Measured(Noise(mechanism, row["scale"]), sensitivity, share)
    one = Decimal(1)
    axes = [
        Axis(tuple(found.values()), (one,) * len(found)) for found in (times, areas)
    ]  # the shares of an axis are not needed
    return Measurements(axes[0], axes[1], measured)
