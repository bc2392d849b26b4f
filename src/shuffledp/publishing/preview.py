"""Say how accurate a map would be, before a record is read and anything is spent."""

import math
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from shuffledp.figures.published_map import draw_preview
from shuffledp.pipeline.files import replacing
from shuffledp.publishing.design import Design, make_design
from shuffledp.publishing.levels import CELLS
from shuffledp.publishing.options import Levels, MapCells, Period, Protection
from shuffledp.publishing.statement import hidden_at_most, levels_in_numbers

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
    root mean square), without_levels (with levels: the error of sums of cells if these had all of
    the budget; a level pays if its own error is smaller), half_width (of the widest 95 % interval
    of a level), threshold and hidden_at_most (of a sparse map: the smallest noisy count that is
    shown, and the largest count that may be hidden), within_10 and within_25 (the counts from which
    the interval is within 10 and 25 %) and nonzero_from (the smallest count whose interval excludes
    0). With `at_least`, enough says whether that count is at least within_25.

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
        sums = [None] * len(design.measurements.measured)
        if design.shares and design.threshold is None:
            free = Levels(dict.fromkeys(design.shares, 0))
            without = make_design(chosen, protected, free, period)
            sums = [row["error"] for row in levels_in_numbers(without)]
        for row, of_sums in zip(levels_in_numbers(design), sums, strict=True):
            half_width, shown = row["half_width"], _shown(design, row)
            # Smaller counts may be hidden.
            least = 1 + shown.get("hidden_at_most", 0)
            rows.append(
                {
                    "cells": str(chosen.kind),
                    "every": None if period is None else period.every or period.profile,
                    "eps": float(design.eps),
                    **{key: row[key] for key in ("areas", "times", "share", "number", "error")},
                    "without_levels": of_sums,
                    "half_width": half_width,
                    **shown,
                    "within_10": max(math.ceil(half_width / 0.1), least),
                    "within_25": max(math.ceil(half_width / _NARROW), least),
                    "nonzero_from": max(math.floor(half_width) + 1, least),
                }
            )
    table = pd.DataFrame(rows)
    if at_least is not None:
        table["enough"] = table["within_25"] <= at_least
    return table


def _shown(design: Design, row: Any) -> dict[str, int]:
    """Return the threshold of a sparse map, and what it hides."""
    if design.threshold is None or row["areas"] not in (CELLS, "pairs"):
        return {}
    return {"threshold": design.threshold.least, "hidden_at_most": hidden_at_most(design)}


def advice(table: pd.DataFrame, at_least: float) -> str:
    """Return for which areas and times a count that is known is enough, in sentences.

    Areas of a map are named where they differ.
    """
    words = {True: dict[str, None](), False: dict[str, None]()}
    for (cells, eps, time), rows in table.assign(time=times_in_words(table).fillna("")).groupby(
        ["cells", "eps", "time"], sort=False
    ):
        when = (f" by {time}" if time else "") + f" at eps={eps:g}"
        same = rows["enough"].nunique() == 1
        for area, enough in zip(rows["areas"], rows["enough"], strict=True):
            of_level = "" if same or area == CELLS else f"{area} of "
            words[bool(enough)][f"{of_level}{cells}{when}"] = None
    return " ".join(
        f"A count of {at_least:g} {verb} enough for: {'; '.join(words[enough])}."
        for enough, verb in ((True, "is"), (False, "is not"))
        if words[enough]
    )


def draw(table: pd.DataFrame, destination: Path, at_least: float | None) -> None:
    """Write the table as a picture (PNG), or as CSV if the name ends so."""
    with replacing(destination) as temporary:
        if destination.suffix.lower() == ".csv":
            table.to_csv(temporary, index=False)
        else:
            draw_preview(temporary, table.assign(name=_names(table)), at_least)


def times_in_words(table: pd.DataFrame) -> pd.Series:
    """Return the length of the times of each row of a preview, missing without windows."""
    words = table["times"].where(table["times"] != "windows", table["every"])
    if table["every"].nunique() > 1:
        words = words.where(words == table["every"], words + " of " + table["every"] + "s")
    return words


def _names(table: pd.DataFrame) -> pd.Series:
    """Return a name of the areas and times of each row."""
    finest = table["areas"] == "cells"
    areas = table["cells"].where(finest, table["areas"] + " of " + table["cells"])
    times = times_in_words(table)
    return areas + (" by " + times).where(times.notna(), "")


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value]
