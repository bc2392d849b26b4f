"""Give a published map another title, other names and further pictures, from its folder alone."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from shuffledp.accounting.contributions import Contributions
from shuffledp.accounting.thresholds import Threshold
from shuffledp.data.cells import Cells
from shuffledp.data.windows import Windows
from shuffledp.errors import InputError
from shuffledp.pipeline.files import replacing
from shuffledp.publishing.area import measurements_of, read_geometries, read_map
from shuffledp.publishing.counting import Histogram
from shuffledp.publishing.design import Design, windows_of
from shuffledp.publishing.folder import Tables, check_new, flush_folder, write_files
from shuffledp.publishing.levels import CELLS
from shuffledp.publishing.noise import Guarantee
from shuffledp.publishing.options import Period
from shuffledp.publishing.publication import check_text

_NUMBERS: Final = ("raw", "count", "estimate", "low", "high", "joint_low", "joint_high")
PICTURES: Final = ("svg", "pdf")


def restyle(
    folder: str | Path,
    output: str | Path,
    *,
    title: str | None = None,
    names: str | Path | Mapping[str, str] | None = None,
    pictures: Sequence[str] = (),
) -> Path:
    """Write a published map again, with another title, other names or further pictures.

    Only the published folder is read, so this is free of charge (post-processing). No number
    changes.

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

    Returns
    -------
    The path of the new folder.

    Raises
    ------
    InputError
        If `folder` has no map, `names` has an id that no cell has, or `output` exists.
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
        _nowhere,
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


def _nowhere(latitude: Any, longitude: Any) -> Any:
    del longitude
    return np.full(len(latitude), -1)
