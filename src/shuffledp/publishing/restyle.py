"""Write published maps again, from their folders alone: with another title, or on one page."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import shapely

from shuffledp.accounting.contributions import Contributions
from shuffledp.accounting.thresholds import Threshold
from shuffledp.data.cells import Cells
from shuffledp.data.windows import Windows
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import sum_up
from shuffledp.pipeline.files import replacing
from shuffledp.publishing.area import measurements_of, read_geometries, read_map
from shuffledp.publishing.counting import Histogram
from shuffledp.publishing.design import Design, windows_of
from shuffledp.publishing.estimates import joint_half_width
from shuffledp.publishing.folder import Tables, check_new, flush_folder, write_files
from shuffledp.publishing.ledger import round_up
from shuffledp.publishing.levels import CELLS
from shuffledp.publishing.noise import Guarantee
from shuffledp.publishing.options import Period
from shuffledp.publishing.page import fits_on_page, render_map
from shuffledp.publishing.publication import check_text

_NUMBERS: Final = ("raw", "count", "estimate", "low", "high", "joint_low", "joint_high")
PICTURES: Final = ("svg", "pdf")
_COMMON: Final = ("unit", "mechanism", "cells")  # of statements of maps on one page


def restyle(
    folder: str | Path,
    output: str | Path,
    *,
    title: str | None = None,
    names: str | Path | Mapping[str, str] | None = None,
    pictures: Sequence[str] = (),
) -> Path:
    """Write a published map again, with another title, names or pictures; return its folder.

    Only the published folder is read, so this is free of charge (post-processing). No number
    changes. Raises `InputError` if `folder` has no map, `names` has an id that no cell has, or
    `output` exists.

    Parameters
    ----------
    folder
        Folder of the published map.
    output
        Folder that will hold the new one. It appears whole or not at all, and must not exist.
    title
        The new title.
    names
        Names of cells by their ids, or a CSV file with columns id and name. Cells that it does not
        have keep their names.
    pictures
        ``svg`` or ``pdf``, in addition to PNG.
    """
    folder, output = Path(folder), Path(output)
    for each in pictures:
        if each not in PICTURES:
            raise InputError(f"pictures must be {' or '.join(PICTURES)}, got {each!r}")
    check_new(output)
    table, statement = read_map(folder)
    if title is not None:
        statement = {**statement, "title": title}
    given = _read_names(names) if isinstance(names, str | Path) else dict(names or {})
    design, tables = design_and_tables(folder, table, statement, given)
    check_text(statement["title"], design)
    with replacing(output) as temporary:
        temporary.mkdir()
        write_files(temporary, design, tables, statement, pictures)
        flush_folder(temporary)
    return output


def renamed(folder: str | Path, new: str | Path) -> list[tuple[str, str, str]]:
    """Return id, name in `folder` and name in `new` of the cells whose names differ."""
    old, other = (_places(Path(each), read_map(Path(each))[0]) for each in (folder, new))
    rows = zip(old["id"], old["name"], other["name"], strict=True)
    return [(each, before, after) for each, before, after in rows if before != after]


def _places(folder: Path, table: Any) -> Any:
    """Return the rows of the cells of a map, or of the places of a map of trips."""
    if "origin" in table:
        return read_geometries(folder / "places.parquet")
    return table.drop_duplicates("id").reset_index(drop=True)


def _read_names(path: str | Path) -> dict[str, str]:
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as CSV: {error}") from None
    if not rows or not {"id", "name"} <= set(rows[0]):
        raise InputError(f"{path} needs the columns id and name, and a row for each new name")
    found = {row["id"]: row["name"] for row in rows}
    if len(found) < len(rows):
        raise InputError(f"{path} has an id twice")
    return found


def design_and_tables(
    folder: Path,
    table: Any,
    statement: Mapping[str, Any],
    names: Mapping[str, str],
    windows: Windows | None = None,
) -> tuple[Design, Tables]:
    """Return what `folder.write_files` needs to write the files again, with new names of cells.

    Unless `windows` are passed, they are those of the statement's period.
    """
    unit, sparse, flows = statement["unit"], statement["sparse"], "origin" in table
    if windows is None and (words := statement["period"]) is not None:
        optional = {key: words.get(key) for key in ("every", "profile", "times")}
        zone = words["time_zone"] or "UTC"
        windows, _ = windows_of(Period(words["from"], words["to"], time_zone=zone, **optional))
    window_names = [""] if windows is None else list(windows.names)
    shown = _places(folder, table)
    if flows:
        shown.insert(0, "cell", np.arange(len(shown)))
    if unknown := sorted(set(names) - set(shown["id"])):
        raise InputError(f"no cell of {folder} has the id {unknown[0]!r}: its ids are in map.csv")
    pairs = zip(shown["id"], shown["name"], strict=True)
    shown = shown.assign(name=[names.get(each, name) for each, name in pairs])
    levels = {row["origins" if flows else "areas"] for row in statement["levels"]} - {CELLS}
    groups = {name: list(shown[name]) for name in shown.columns if name in levels}
    cells = Cells(
        shown[["cell", "id", "name", "geometry"]],
        lambda latitude, _: np.full(len(latitude), -1),
        groups=groups,
        elsewhere=statement["cells"]["elsewhere"],
    )
    contributions = Contributions(
        "user" if unit["protected"] == "user" else "record",
        unit["records_per_user"] or 1,
        unit["distinct_cells"],
        len(window_names) if unit["bound_holds_for"] == "each window" else 1,
    )
    histogram = Histogram(cells, windows, contributions, flows)
    measurements = measurements_of(statement, shown, window_names, flows)
    areas = measurements.areas
    if not flows:
        cell_level = replace(areas.levels[0], names=tuple(shown["name"]))
        areas = replace(areas, levels=(cell_level, *areas.levels[1:]))
    guarantee = statement["guarantee"]
    promised = Guarantee(guarantee["eps"], guarantee["delta"], guarantee["rho"])
    design = Design(
        histogram=histogram,
        measurements=replace(measurements, areas=areas, separate=sparse is not None),
        eps=Decimal(repr(guarantee["eps"])),
        promised=promised,
        replaced=Guarantee(guarantee["eps_for_replacement"], guarantee["delta_for_replacement"]),
        places={},
        files={},
        period=statement["period"],
        threshold=None if sparse is None else Threshold(sparse["threshold"], sparse["delta"]),
    )
    place = pd.Series(np.arange(len(shown)), index=shown["id"])
    ends = [place[table[end]].to_numpy() for end in ("origin", "destination")] if flows else []
    area = ends[0] * len(shown) + ends[1] if flows else place[table["id"]].to_numpy()
    if windows is not None:
        number = pd.Series(np.arange(len(window_names)), index=window_names)
        area = number[table["window"]].to_numpy() * histogram.areas + area
    values = pd.DataFrame(table[[name for name in _NUMBERS if name in table]])
    tables = {(0, 0): values.set_axis(area, axis=0)}
    combinations = measurements.combinations if sparse is None else list(measurements.measured)
    begin = 0
    if len(combinations) > 1:
        rows = pd.read_csv(folder / "levels.csv", dtype={"raw": "Int64"})
        for t, s in combinations:
            if (t, s) != (0, 0):
                size = len(measurements.times.levels[t]) * len(measurements.areas.levels[s])
                part = rows.iloc[begin : begin + size]
                own = [name for name in _NUMBERS if name in part]
                tables[t, s] = part[own].reset_index(drop=True)
                begin += size
        if begin != len(rows):
            raise InputError(f"{folder}/levels.csv and statement.json do not have the same levels")
    return design, tables


# --- Several maps on one page -----------------------------------------------------------------


def write_page(
    folders: Sequence[str | Path], output: str | Path, *, title: str | None = None
) -> Path:
    """Write a page on which several maps are windows, and return its path.

    They have one scale of colours, and differences. Only the published folders are read, so this is
    free of charge. The page states the guarantee of all maps together, whose eps and delta are the
    sums of theirs. Raises `InputError` if the maps differ in more than their records and times,
    have levels, trips or hidden counts, or are too large for a page, or if `output` exists.

    Parameters
    ----------
    folders
        Folders of two or more maps, in the order of the page, with the same cells, unit and noise.
        Each is called by its windows, its period or its title.
    output
        The page, an HTML file, which must not exist.
    title
        Title of the page, by default that of the first map.
    """
    output = Path(output)
    check_new(output)
    if len(folders) < 2:
        raise InputError("give the folders of at least two maps")
    maps = [(Path(folder), *read_map(Path(folder))) for folder in folders]
    first_folder, first, statement = maps[0]
    names, parts = list[str](), list[Any]()
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
        parts.append(table.drop(columns="window", errors="ignore"))
    if len(set(names)) < len(names):
        raise InputError("two maps have the same period and title: restyle one with another title")
    if not fits_on_page(len(first), len(names)):
        raise InputError("the maps have too many counts for a page: join fewer")
    merged = _together([own for _, _, own in maps], title or statement["title"])
    table = pd.concat(parts, ignore_index=True).assign(window=np.repeat(names, len(first)))
    design, tables = design_and_tables(
        first_folder, table, merged, {}, Windows(tuple(names), np.empty(0, np.int64))
    )
    joint = joint_half_width(design.noise, design.histogram.size)
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


def _same_cells(one: Any, other: Any) -> bool:
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
