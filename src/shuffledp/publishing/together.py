"""Write one page over several published maps of the same cells, from their folders alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd
import shapely

from shuffledp.data.windows import Windows
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import sum_up
from shuffledp.pipeline.files import replacing
from shuffledp.publishing.area import read_map
from shuffledp.publishing.estimates import interval_widths
from shuffledp.publishing.folder import check_new
from shuffledp.publishing.page import fits_on_page, render_map
from shuffledp.publishing.publication import check_text
from shuffledp.publishing.restyle import design_and_tables
from shuffledp.publishing.statement import round_up

if TYPE_CHECKING:
    import geopandas as gpd

# What the statements of all maps must have in common.
_COMMON: Final = ("unit", "mechanism", "cells")


def write_page(
    folders: Sequence[str | Path], output: str | Path, *, title: str | None = None
) -> Path:
    """Write a page on which several maps are windows: one scale of colours, and differences.

    Only the published folders are read, so this is free of charge. The page states the guarantee of
    all maps together, whose eps and delta are the sums of theirs.

    Parameters
    ----------
    folders
        Folders of two or more maps, in the order of the page, with the same cells, unit and noise.
        Each is called by its windows, its period or its title.
    output
        The page, an HTML file, which must not exist.
    title
        Title of the page, by default that of the first map.

    Returns
    -------
    The path of the page.

    Raises
    ------
    InputError
        If the maps differ in more than their records and times, have levels, trips or hidden
        counts, or are too large for a page, or if `output` exists.
    """
    output = Path(output)
    check_new(output)
    if len(folders) < 2:
        raise InputError("give the folders of at least two maps")
    maps = [(Path(folder), *read_map(Path(folder))) for folder in folders]
    first_folder, first, statement = maps[0]
    names, parts = list[str](), list[pd.DataFrame]()
    for folder, table, own in maps:
        if own["sparse"] or "origin" in table or len(own["levels"]) > 1:
            raise InputError(f"{folder} has trips, levels or hidden counts: only plain maps join")
        for key in _COMMON:
            if own[key] != statement[key]:
                raise InputError(f"{folder} and {first_folder} differ in {key}: see statement.json")
        cells = table.drop_duplicates("id").reset_index(drop=True)
        if parts and not _same_cells(cells, first):
            raise InputError(f"{folder} and {first_folder} do not have the same cells")
        first = cells
        windows = list(dict.fromkeys(table["window"])) if "window" in table else []
        names += windows if len(windows) > 1 else [_name(own)]
        parts.append(pd.DataFrame(table.drop(columns=["geometry", "window"], errors="ignore")))
    if len(set(names)) < len(names):
        raise InputError("two maps have the same period and title: restyle one with another title")
    if not fits_on_page(len(first), len(names)):
        raise InputError("the maps have too many counts for a page: join fewer")
    merged = _together([own for _, _, own in maps], title or statement["title"])
    table = first.drop(columns=["window"], errors="ignore")
    table = pd.concat([table] * len(names), ignore_index=True)
    values = pd.concat(parts, ignore_index=True)
    table[values.columns] = values
    table["window"] = np.repeat(names, len(first))
    design, tables = design_and_tables(
        first_folder, table, merged, {}, Windows(tuple(names), np.empty(0, np.int64))
    )
    joint = interval_widths(design.noise, design.histogram.size).joint
    counts = tables[0, 0]
    tables = {
        (0, 0): counts.assign(
            joint_low=np.maximum(counts["count"] - joint, 0),
            joint_high=np.maximum(counts["count"] + joint, 0),
        )
    }
    merged["intervals"] = {**statement["intervals"], "half_width_of_all_cells_together": joint}
    check_text(merged["title"], design)
    page = render_map(design, tables, merged)
    with replacing(output) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return output


def _same_cells(one: "gpd.GeoDataFrame", other: "gpd.GeoDataFrame") -> bool:
    return list(one["id"]) == list(other["id"]) and bool(
        shapely.equals_identical(one.geometry.to_numpy(), other.geometry.to_numpy()).all()
    )


def _name(statement: Mapping[str, Any]) -> str:
    """Return what a map with one window is called: its period, or its title."""
    period = statement["period"]
    return str(statement["title"] if period is None else f"{period['from']} to {period['to']}")


def _together(statements: Sequence[Mapping[str, Any]], title: str) -> dict[str, Any]:
    """Return a statement of all maps, by basic composition."""
    first, last = statements[0], max(statements, key=lambda each: str(each["published"]))
    guarantees = [each["guarantee"] for each in statements]

    def total(key: str) -> float | None:
        if any(each[key] is None for each in guarantees):
            return None
        return sum_up((1, each[key]) for each in guarantees)

    added = ("eps", "delta", "rho", "eps_for_replacement", "delta_for_replacement")
    periods = [each["period"] for each in statements]
    period = None
    if None not in periods:
        ends = min(each["from"] for each in periods), max(each["to"] for each in periods)
        period = {**periods[0], "from": ends[0], "to": ends[1], "every": None}
        period.pop("profile", None)
    noisy = sum("warning" in each for each in statements)
    warning = f"{noisy} of these {len(statements)} maps are mostly noise"
    bound = first["unit"]["bound"]
    return {
        **{key: value for key, value in first.items() if key != "warning"},
        **({"warning": warning} if noisy else {}),
        "title": title,
        "published": last["published"],
        "guarantee": {**guarantees[0], **{key: total(key) for key in added}},
        "unit": {**first["unit"], "bound": f"In each map, {bound[0].lower()}{bound[1:]}"},
        "period": period,
        "all_publications": last["all_publications"],
        "maps": [
            f"{_name(each)}, eps = {round_up(each['guarantee']['eps'])}" for each in statements
        ],
    }
