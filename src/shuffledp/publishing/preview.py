"""Say how accurate a map would be, before a record is read and anything is spent."""

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from shuffledp.figures.map_preview import draw_preview
from shuffledp.pipeline.files import replacing
from shuffledp.publishing.design import make_design
from shuffledp.publishing.options import Levels, MapCells, Period, Protection
from shuffledp.publishing.statement import levels_in_numbers

_NARROW = 0.25  # largest half-width of a useful interval, relative to the count


def preview(
    *,
    cells: MapCells | str | Path | Sequence[MapCells],
    protection: Protection | Sequence[Protection],
    levels: Levels | Sequence[Levels] | None = None,
    windows: Period | Sequence[Period] | None = None,
    at_least: float | None = None,
) -> pd.DataFrame:
    """Return the errors and intervals of the maps that `publish` would make, for all combinations.

    No record is read and nothing is charged: errors follow from the noise alone. Parameters are
    those of `publish`; each may be a list. `at_least` is a count that is known from public sources.

    Returns
    -------
    A row for each level of each map, with columns cells, every (or profile), eps, areas and times
    (the levels), share (of the budget), number (of counts), error (standard deviation of a count,
    root mean square), half_width (of the 95 % interval of a typical count), within_10 and within_25
    (the counts from which the interval is within 10 and 25 %) and nonzero_from (the smallest count
    whose interval excludes 0). With `at_least`, enough says whether that count is at least
    within_25.

    Examples
    --------
    >>> import shuffledp
    >>> from shuffledp.publishing.options import Levels, MapCells, Protection
    >>> table = shuffledp.preview(
    ...     cells=MapCells("shape:64x64", box=(0, 1, 0, 1)), protection=Protection("record", eps=1),
    ...     levels=Levels({"shape:8x8": "0.2"}),
    ... )
    >>> table["error"].round(2).tolist()
    [1.71, 6.28]
    """
    rows = []
    for place, level, period, protected in product(
        _listed(cells), _listed(levels), _listed(windows), _listed(protection)
    ):
        chosen = place if isinstance(place, MapCells) else MapCells(place)
        design = make_design(chosen, protected, level or Levels(), period)
        for row in levels_in_numbers(design):
            half_width = row["half_width"]
            rows.append(
                {
                    "cells": str(chosen.kind),
                    "every": None if period is None else period.every or period.profile,
                    "eps": float(design.eps),
                    **{key: row[key] for key in ("areas", "times", "share", "number", "error")},
                    "half_width": half_width,
                    "within_10": math.ceil(half_width / 0.1),
                    "within_25": math.ceil(half_width / _NARROW),
                    "nonzero_from": math.floor(half_width) + 1,
                }
            )
    table = pd.DataFrame(rows)
    if at_least is not None:
        table["enough"] = table["within_25"] <= at_least
    return table


def advice(table: pd.DataFrame, at_least: float) -> str:
    """Return for which cells and times a count of a cell that is known is enough, in sentences."""
    sentences = []
    for enough, words in ((True, "is enough for"), (False, "is not enough for")):
        rows = table[(table["enough"] == enough) & (table["areas"] == "cells")]
        if len(rows):
            names = dict.fromkeys(_named(row) for row in rows.to_dict("records"))
            sentences.append(f"A count of {at_least:g} {words}: {'; '.join(names)}.")
    return " ".join(sentences)


def draw(table: pd.DataFrame, destination: Path, at_least: float | None) -> None:
    """Write the table as a picture (PNG), or as CSV if the name ends so."""
    with replacing(destination) as temporary:
        if destination.suffix.lower() == ".csv":
            table.to_csv(temporary, index=False)
        else:
            named = table.assign(name=[_named(row, eps=False) for row in table.to_dict("records")])
            draw_preview(temporary, named, at_least)


def _named(row: Any, eps: bool = True) -> str:
    area = row["cells"] if row["areas"] == "cells" else f"{row['areas']} of {row['cells']}"
    time = row["every"] if row["times"] in (None, "windows") else row["times"]
    return area + (f" by {time}" if time else "") + (f" at eps={row['eps']:g}" if eps else "")


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]
