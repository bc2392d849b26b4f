"""The busiest cells: true against estimated, with intervals."""

from pathlib import Path
from typing import Final, Unpack

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from shuffledp.figures.basemap import attribute, districts_at
from shuffledp.figures.cells import PLAIN
from shuffledp.figures.certainty import largest
from shuffledp.figures.context import MapContext, MapFiles
from shuffledp.figures.maps import release_title
from shuffledp.figures.style import (
    Series,
    local_style,
    marks,
    new_figure,
    of_series,
    plural,
    series_look,
    series_of,
)
from shuffledp.mechanisms.catalogue import get_estimator
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.pipeline.selection import STANDARD_ERRORS

_SHOWN: Final = 20
_BETWEEN: Final = 0.6  # of the distance of two cells: how far apart their first and last mark are


def draw_ranks(
    certainty: Path, *, title: str, unit: str, target_delta: float, **place: Unpack[MapFiles]
) -> Figure:
    """Draw `ranked_cells` of the largest n from files, as `shuffledp.figures.maps.draw_estimates`.

    The base map names the districts.

    Parameters
    ----------
    certainty
        Parquet table of what each release shows of each cell.
    title
        Of the figure: the place, as a rule.
    unit
        What a record is: `check-in` or `user`.
    target_delta
        Delta in (0, 1) of the calibrations to a target.
    place
        Files of the grid, and of a base map and an outline if there are any.
    """
    rows = largest(certainty)
    words = release_title(title, unit, rows, "matched", target_delta)
    return ranked_cells(MapContext.read(words, unit, **place), rows)


@local_style()
def ranked_cells(place: MapContext, rows: pd.DataFrame) -> Figure:
    """The busiest cells: true counts, and unbiased estimates with two standard errors each way.

    Parameters
    ----------
    place
        The grid, the layers whose districts are named, and the title, as
        `shuffledp.figures.maps.release_title` has it.
    rows
        Columns of `pipeline.tables.CERTAINTY`: one release of each mechanism.

    Returns
    -------
    Cells by true count, equal ones in the order of the grid: the counts on the left, the errors,
    whose scale is finer, on the right.
    """
    raw = rows[rows["estimator"] == "raw"]
    series = series_of(raw)
    estimates = {each: of_series(raw, each).set_index("cell").sort_index() for each in series}
    counts = estimates[series[0]]["count"]
    busiest = counts.sort_values(ascending=False, kind="stable").index[:_SHOWN]
    heights = np.arange(len(busiest))
    figure = new_figure(1.9 + len(busiest) * (0.09 + 0.05 * len(series)) + 0.16 * len(series))
    left, right = figure.subplots(1, 2, sharey=True)
    half = _BETWEEN / 2.0
    left.vlines(counts[busiest], heights - half, heights + half, color="black", linewidth=1.4)
    right.axvline(0.0, color="black", linewidth=1.4)
    offsets = np.linspace(-half, half, len(series)) if len(series) > 1 else [0.0]
    for each, offset in zip(series, offsets, strict=True):
        shown = estimates[each].loc[busiest]
        _intervals(left, shown, "estimate", heights + offset, each)
        _intervals(right, shown, "error", heights + offset, each)
    left.set_yticks(heights, _names(place, busiest.to_numpy()))
    left.set_ylim(len(busiest) - 0.4, -0.6)
    left.set_xlim(left=min(0.0, left.get_xlim()[0]))
    left.set_title(f"The {len(busiest)} busiest of {len(counts):,} cells", loc="left")
    right.set_title("The same, less the true count", loc="left")
    left.set_xlabel(f"{plural(place.unit)} per cell")
    right.set_xlabel(f"estimated \N{MINUS SIGN} true {plural(place.unit)} per cell")
    right.tick_params(left=False)
    for axes in (left, right):
        axes.xaxis.set_major_formatter(PLAIN)
        axes.grid(axis="x")
        # Bands lead the eye from a name to its marks.
        for index in heights[1::2]:
            axes.axhspan(index - 0.5, index + 0.5, color="0.95", zorder=0, linewidth=0.0)
    attribute(right, place.layers)
    figure.legend(
        handles=_key(series, {each: estimates[each].loc[busiest] for each in series}),
        loc="outside lower center",
    )
    figure.suptitle(place.title)
    return figure


def _intervals(
    axes: Axes, shown: pd.DataFrame, middle: str, height: Floats, series: Series
) -> None:
    look = series_look(*series)
    axes.errorbar(
        shown[middle],
        height,
        xerr=STANDARD_ERRORS * shown["standard_error"],
        linestyle="none",
        elinewidth=1.0,
        markersize=3.5,
        label=" ".join(series),
        **marks(look),
    )


def _names(place: MapContext, busiest: Integers) -> list[str]:
    """Rank and cell, with the district of its middle where there is one."""
    middle = place.corners[busiest, :-1].mean(axis=1)
    districts = districts_at(place.layers, middle)
    return [
        ", ".join(filter(None, [district, f"cell {cell}"])) + f"  {rank:>2}"
        for rank, (cell, district) in enumerate(zip(busiest, districts, strict=True), 1)
    ]


def _key(series: list[Series], shown: dict[Series, pd.DataFrame]) -> list[Line2D]:
    truth = Line2D(
        [], [], linestyle="none", marker="|", markersize=8, markeredgewidth=1.4, color="black",
        label="true count",
    )  # fmt: skip
    entries = [truth]
    for each in series:
        error, standard_error = shown[each]["error"].abs(), shown[each]["standard_error"]
        inside = int((error <= STANDARD_ERRORS * standard_error).sum())
        label = (
            f"{get_estimator(*each).label}, \N{PLUS-MINUS SIGN} {STANDARD_ERRORS:g} standard "
            f"errors: {inside} of {len(error)} intervals hold the true count"
        )
        entries.append(Line2D([], [], linewidth=1.0, label=label, **marks(series_look(*each))))
    return entries
