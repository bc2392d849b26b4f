"""Add up the counts of areas of a published map, with intervals, from its folder alone."""

import json
from collections.abc import Mapping, Sequence
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
from shuffledp.publishing.levels import (
    CELLS,
    TOTAL,
    WINDOWS,
    Axis,
    Level,
    Measurements,
    flows,
    labelled_level,
)
from shuffledp.publishing.noise import LEVEL, MECHANISMS, Measured, Noise, half_width

if TYPE_CHECKING:  # it is slow to load
    import geopandas as gpd


def area(
    folder: str | Path,
    *,
    polygon: Any = None,
    cells: Sequence[str] | None = None,
    to_polygon: Any = None,
    to_cells: Sequence[str] | None = None,
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
    to_polygon, to_cells
        On a map of trips: the area where they end; `polygon` or `cells` is where they begin. If
        only one of the two areas is given, the other end of a trip may be anywhere.
    touching
        Whether all cells that the polygon touches count.
    windows
        Names of windows, or of longer times of the map such as ``2024-Q1``, to add up. By default,
        each window has a row of its own.
    minus
        Names of windows or longer times to subtract, for a difference.

    Returns
    -------
    A row for each window, with columns window (if the map has windows), cells (their number; of
    trips, where they begin), to_cells (only of trips), cut (ids of the cells that count although a
    part of them lies outside of the polygon, or do not although a part lies in it), count
    (unbiased), low and high: the 95 % interval of the true count, or of the difference. Both ends
    are at least 0 for a count.
    """
    folder = Path(folder)
    table, statement = read_map(folder)
    names = list(dict.fromkeys(table["window"])) if "window" in table else [""]
    if statement.get("sparse"):
        raise InputError(f"{folder} hides small counts, so that sums of them are not known")
    of_trips = "origin" in table
    shown = table.iloc[: len(table) // len(names)]
    ends = [(polygon, cells)]
    if of_trips:
        shown = read_geometries(folder / "places.parquet")
        ends.append((to_polygon, to_cells))
        if all(each is None for end in ends for each in end):
            raise InputError("give a polygon, or the ids of cells, where trips begin or end")
    elif to_polygon is not None or to_cells is not None:
        raise InputError(f"{folder} has no trips: leave out where they end")
    chosen, weights, cut = [], np.ones(1), dict[str, None]()
    for place, ids in ends:
        if of_trips and place is None and ids is None:
            found, parts = np.arange(len(shown)), list[str]()
        else:
            found, parts = _chosen(shown, place, ids, touching)
        chosen.append(found)
        weights = np.multiply.outer(weights, np.isin(np.arange(len(shown)), found)).ravel()
        cut |= dict.fromkeys(parts)
    measurements = measurements_of(statement, shown, names, of_trips)
    counts = table["count"].to_numpy(dtype=np.float64).reshape(-1, len(weights)) @ weights
    rows = []
    for label, of_windows in _window_weights(statement, names, windows, minus):
        width = half_width(measurements.noises(of_windows, weights), 1.0 - LEVEL)
        count = float(of_windows @ counts)
        least = -np.inf if minus else 0.0
        low, high = map(float, whole_interval(np.float64(count), width, least))
        numbers = dict(zip(("cells", "to_cells"), map(len, chosen), strict=False))
        row = {**numbers, "cut": " ".join(cut), "count": count, "low": low, "high": high}
        rows.append(row if names == [""] else {"window": label, **row})
    return pd.DataFrame(rows)


def read_map(folder: Path) -> tuple["gpd.GeoDataFrame", dict[str, Any]]:
    """Return map.parquet and the statement of a folder; raise `InputError` if it has no map."""
    if not (folder / "statement.json").is_file():
        raise InputError(f"{folder} is not the folder of a published map: it has no statement.json")
    try:
        statement = json.loads((folder / "statement.json").read_text(encoding="utf-8"))
        table = read_geometries(folder / "map.parquet")
    except (OSError, ValueError) as error:
        raise InputError(f"{folder} is not the folder of a published map ({error})") from error
    if not {"levels", "sparse"} <= set(statement) or "count" not in table:
        raise InputError(f"{folder} was published by an earlier version, which wrote less")
    return table, statement


def read_geometries(path: Path) -> "gpd.GeoDataFrame":
    """Return a GeoParquet file as a table, after its pages were checked."""
    import geopandas as gpd

    return gpd.read_parquet(path, **CHECKED)


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
                if each in shown.to_numpy():
                    meant = meant or ": an area of a level has its numbers in levels.csv"
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
        np.sum(
            [np.zeros(len(names)), *(known[each] for each in dict.fromkeys(chosen or ()))], axis=0
        )
        for chosen in (windows, minus)
    )
    if max(*added, *subtracted) > 1:
        raise InputError("a window that lies in another one would count twice: give one of them")
    if (added == subtracted).all():
        raise InputError("the windows to add and to subtract are the same: their difference is 0")
    label = " + ".join(windows) + "".join(f" - {each}" for each in minus or ())
    return [(label, added - subtracted)]


def measurements_of(
    statement: Mapping[str, Any], cells: "gpd.GeoDataFrame", windows: list[str], of_trips: bool
) -> Measurements:
    """Return the levels and their noise, as they were published."""
    by_name: Any = {name: mechanism for mechanism, name in MECHANISMS.items()}
    mechanism = by_name[statement["mechanism"]["name"]]
    times: dict[str | None, Level] = {}
    areas: dict[str, Level] = {}
    measured = {}
    sides = len({row.get("origins") for row in statement["levels"]})
    for row in statement["levels"]:
        if row["times"] not in times:
            labels = row.get("time_of_window", windows)
            times[row["times"]] = labelled_level(row["times"] or WINDOWS, labels)
        names = [row["origins"], row["destinations"]] if of_trips else [row["areas"]]
        for name in names:
            if name not in areas:
                areas[name] = labelled_level(name, _labels(cells, name))
        if "scale" not in row:
            continue
        known = list(areas)
        place = known.index(names[0])
        if of_trips:
            place = sides * place + known.index(names[1])
        at = (list(times).index(row["times"]), place)
        l1, squares = row["sensitivity_l1"], row["sensitivity_l2_squared"]
        sensitivity = Sensitivity(l1, squares, 2 * l1, 2 * squares)
        share = Decimal(row["share"])
        measured[at] = Measured(Noise(mechanism, row["scale"]), sensitivity, share)
    one = Decimal(1)
    by_time, by_area = (
        Axis(tuple(found.values()), (one,) * len(found)) for found in (times, areas)
    )  # the shares of an axis are not needed
    return Measurements(by_time, flows(by_area) if of_trips else by_area, measured)


def _labels(cells: "gpd.GeoDataFrame", level: str) -> list[str]:
    if level in cells and level != "name":
        return list(cells[level])
    return list(cells["id"]) if level == CELLS else [TOTAL] * len(cells)
