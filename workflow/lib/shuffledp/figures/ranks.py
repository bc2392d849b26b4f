"""The busiest cells: true against estimated, with intervals, and where they are."""

import textwrap
from pathlib import Path
from typing import Final, Unpack

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from shuffledp.figures.basemap import attribute, districts_at
from shuffledp.figures.cell_confidence import Release, read_release
from shuffledp.figures.context import MapContext
from shuffledp.figures.frame import frame, scale_bar
from shuffledp.figures.map_panels import PLAIN, height_of, surround
from shuffledp.figures.style import (
    FULL_WIDTH,
    Series,
    local_style,
    marks,
    new_figure,
    of_series,
    plural,
    series_look,
    series_of,
)
from shuffledp.mechanisms.catalogue import UNBIASED, get_estimator
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.pipeline.selection import STANDARD_ERRORS

_SHOWN: Final = 20
_LETTERS: Final = 46  # in a line of the key
_DIGIT: Final = 0.6  # of a cell's width: the size of a number of two digits in it
_LEAST, _LARGEST = 3.0, 6.5  # points: of those numbers
_BETWEEN: Final = 0.6  # of the distance of two cells: how far apart their first and last mark are


def draw_ranks(certainty: Path, **release: Unpack[Release]) -> Figure:
    """Draw `ranked_cells` from files, as `certainty.draw_errors`; the base map names districts."""
    return ranked_cells(*read_release(certainty, UNBIASED, **release))


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
    whose scale is finer, on the right. Beneath, a map has their ranks.
    """
    raw = rows[rows["estimator"] == UNBIASED]
    series = series_of(raw)
    estimates = {each: of_series(raw, each).set_index("cell").sort_index() for each in series}
    counts = estimates[series[0]]["count"]
    busiest = counts.sort_values(ascending=False, kind="stable").index[:_SHOWN]
    heights = np.arange(len(busiest))
    above = 1.0 + len(busiest) * (0.09 + 0.05 * len(series))
    width = 0.4 * FULL_WIDTH
    below = 0.9 + max(height_of(place.corners, width), 0.45 * len(series))
    figure = new_figure(above + below)
    (left, right), (where, aside) = figure.subplots(2, 2, height_ratios=(above, below))
    right.sharey(left)
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
    right.tick_params(left=False, labelleft=False)
    for axes in (left, right):
        axes.xaxis.set_major_formatter(PLAIN)
        axes.grid(axis="x")
        # Bands lead the eye from a name to its marks.
        for index in heights[1::2]:
            axes.axhspan(index - 0.5, index + 0.5, color="0.95", zorder=0, linewidth=0.0)
    _map_ranks(where, place, busiest.to_numpy(), width)
    aside.axis("off")
    aside.legend(
        handles=_key(series, {each: estimates[each].loc[busiest] for each in series}),
        loc="center left",
    )
    figure.suptitle(place.title)
    return figure


def _map_ranks(axes: Axes, place: MapContext, busiest: Integers, width: float) -> None:
    """Outline the busiest cells, and write the rank into each that has room."""
    surround(axes, place.around)
    frame(axes, place.corners, margin=not place.around.empty, ordinate=True)
    shapes = place.corners[busiest]
    outlines = PolyCollection(
        list(shapes), facecolors="white", edgecolors="black", linewidths=0.5, alpha=0.8
    )
    axes.add_collection(outlines)
    inch = width / np.ptp(axes.get_xlim())
    size = min(_DIGIT * 72.0 * inch * np.ptp(shapes[0, :, 0]), _LARGEST)
    for rank, middle in enumerate(shapes[:, :-1].mean(axis=1), 1):
        if size >= _LEAST:
            x, y = middle
            words = axes.text(x, y, str(rank), fontsize=size, ha="center", va="center", zorder=4)
            words.set_path_effects([withStroke(linewidth=1.4, foreground="white")])
    axes.set_title("Their ranks on the map", loc="left")
    scale_bar(axes)
    attribute(axes, place.layers)


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
        label = textwrap.fill(label, _LETTERS)
        entries.append(Line2D([], [], linewidth=1.0, label=label, **marks(series_look(*each))))
    return entries
