"""Draw the errors of single cells, the cells known to be occupied, and the busiest cells.

A cell counts as known to be occupied if its estimate exceeds two standard errors.
"""

from pathlib import Path
from typing import Final, Unpack

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke

from shuffledp.figures import style
from shuffledp.figures.basemap import districts_at
from shuffledp.figures.cell_shapes import CellShapes
from shuffledp.figures.map_panels import (
    PLAIN_NUMBERS,
    Fill,
    MapContext,
    MapFiles,
    add_colour_bar,
    draw_attribution,
    draw_base_map,
    draw_hatch,
    draw_triangles,
    draw_values,
    fill_legend,
    map_height,
    map_panels,
)
from shuffledp.figures.maps import best_estimates, release_title
from shuffledp.mechanisms.catalogue import DISTRIBUTION, POSTERIOR, UNBIASED, get_estimator
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.pipeline.selection import STANDARD_ERRORS
from shuffledp.pipeline.tables import read_tables

# Diverging, safe for the colour-blind, and different from the colour of water.
_ERROR_COLOURS: Final = "PuOr_r"
_MIN_MARKED_ERROR: Final = 0.2  # share of the largest error; errors above it are marked by sign
_UNKNOWN: Final = Fill("none", "0.45", "......")

_MAX_RANK: Final = 20  # number of busiest cells shown
_RANKS_WIDTH, _RANKS_HEIGHT = 5.0, 2.8  # inches, the largest size of the map of ranks
_RANK_SIZE: Final = 0.6  # font size of a rank, as a share of a cell's width
_MIN_RANK_SIZE, _MAX_RANK_SIZE = 5.0, 7.0  # points
_SPREAD: Final = 0.6  # share of a row's height over which the mechanisms are spread


class _ReleaseArguments(MapFiles):
    """Keyword arguments of `read_release`: files of the grid, and values that the title states."""

    title: str
    unit: str
    target_delta: float


def draw_errors(certainty: Path, **release: Unpack[_ReleaseArguments]) -> Figure:
    """Draw `error_maps` of the release that `read_release` reads."""
    return error_maps(*read_release(certainty, DISTRIBUTION, POSTERIOR, **release))


def draw_trust(certainty: Path, **release: Unpack[_ReleaseArguments]) -> Figure:
    """Draw `trust_maps` of the release that `read_release` reads."""
    return trust_maps(*read_release(certainty, UNBIASED, **release))


def draw_ranks(certainty: Path, **release: Unpack[_ReleaseArguments]) -> Figure:
    """Draw `ranked_cells` of the release that `read_release` reads."""
    return ranked_cells(*read_release(certainty, UNBIASED, **release))


def read_release(
    certainty: Path,
    *estimators: str,
    title: str,
    unit: str,
    target_delta: float,
    **files: Unpack[MapFiles],
) -> tuple[MapContext, pd.DataFrame]:
    """Read the grid, and the rows of some estimators at the largest n.

    `certainty` is a Parquet file with the columns of `pipeline.tables.CERTAINTY`, `title` the name
    of the region, `unit` the unit of the guarantee, and `target_delta` the delta to which the
    releases are calibrated.
    """
    n = int(read_tables([certainty], columns=["n"])["n"].max())
    tables = [read_tables([certainty], n=n, estimator=each) for each in estimators]
    rows = pd.concat([table for table in tables if len(table)], ignore_index=True)
    full_title = release_title(title, unit, rows, "matched", target_delta)
    place = MapContext.read(full_title, unit, **files)
    first = place.window.start or 0
    shown = rows["cell"].between(first, first + len(place.cells) - 1)
    return place, rows[shown].assign(cell=rows["cell"] - first)


def _panels(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the rows of each series by its label, in the order of the cells."""
    return {
        get_estimator(*series).label: style.series_rows(rows, series).sort_values("cell")
        for series in style.list_series(rows)
    }


@style.local_style()
def error_maps(place: MapContext, rows: pd.DataFrame) -> Figure:
    """Draw the errors of the `best_estimates` on a common scale that is symmetric about 0.

    `place` has a title of `shuffledp.figures.maps.release_title`; `rows` have the columns of
    `pipeline.tables.CERTAINTY` for one release of each mechanism.
    """
    panels = _panels(best_estimates(rows))
    errors = [panel["error"].to_numpy() for panel in panels.values()]
    largest = max(float(np.abs(error).max()) for error in errors)
    norm = Normalize(-largest, largest)
    titles = [
        f"{label}\nroot mean square error {np.sqrt((error**2).mean()):,.3g}"
        for label, error in zip(panels, errors, strict=True)
    ]
    threshold = float(f"{_MIN_MARKED_ERROR * largest:.1g}")
    marked = f"by more than {threshold:,g} {style.plural(place.unit)}"
    legend = [
        style.legend_mark(f"estimate too {word} {marked}", marker=marker, color="black")
        for marker, word in (("v", "low"), ("^", "high"))
    ]
    # Names of districts would cover the triangles.
    figure, maps, bar = map_panels(place, titles, legend, named=False)
    for axes, error in zip(maps, errors, strict=True):
        shown = np.isfinite(error)
        collection = draw_values(axes, place.shapes, error, shown, norm, _ERROR_COLOURS)
        draw_triangles(axes, place.shapes, error < -threshold)
        draw_triangles(axes, place.shapes, error > threshold, up=True)
    add_colour_bar(
        bar,
        collection,
        "too low  \N{LEFTWARDS ARROW}  estimated \N{MINUS SIGN} true "
        f"{style.plural(place.unit)} per cell  \N{RIGHTWARDS ARROW}  too high",
    )
    return figure


@style.local_style()
def trust_maps(place: MapContext, rows: pd.DataFrame) -> Figure:
    """Draw unbiased estimates that exceed two standard errors, and hatch the other cells.

    The parameters are those of `error_maps`.
    """
    panels = _panels(rows[rows["estimator"] == UNBIASED])
    values = {label: panel["estimate"].to_numpy() for label, panel in panels.items()}
    known = {label: panel["known"].to_numpy() for label, panel in panels.items()}
    norm = LogNorm(1.0, max(*(value.max() for value in values.values()), 10.0))
    titles = [f"{label}\n{_known_title(panel)}" for label, panel in panels.items()]
    units = style.plural(place.unit)
    label = (
        f"not known: the estimate does not exceed {STANDARD_ERRORS:g} standard errors; the cell "
        f"may have {units} or none"
    )
    figure, maps, bar = map_panels(place, titles, fill_legend([(_UNKNOWN, label)]))
    for axes, name in zip(maps, panels, strict=True):
        collection = draw_values(axes, place.shapes, values[name], known[name], norm)
        draw_hatch(axes, place.shapes, ~known[name], _UNKNOWN)
    label = f"estimated {units} per cell, above 2 standard errors (logarithmic)"
    add_colour_bar(bar, collection, label)
    return figure


def _known_title(panel: pd.DataFrame) -> str:
    known, occupied = panel["known"], panel["count"] > 0
    counts = (
        f"known: {(known & occupied).sum():,} of {occupied.sum():,} occupied, "
        f"{(known & ~occupied).sum():,} of {(~occupied).sum():,} empty cells"
    )
    smallest = panel["estimate"][known].min()
    return f"{counts}\neach estimated at {smallest:,.0f} or more" if known.any() else counts


@style.local_style()
def ranked_cells(place: MapContext, rows: pd.DataFrame) -> Figure:
    """Draw true counts and unbiased estimates of the busiest cells, with two standard errors.

    Counts are on the left, and errors on a finer scale on the right, from the largest true count to
    the smallest; ties are in the order of the grid. A map of these cells below shows the ranks. The
    parameters are those of `error_maps`; the districts in the layers of `place` are named.
    """
    unbiased = rows[rows["estimator"] == UNBIASED]
    series = style.list_series(unbiased)
    estimates = {
        each: style.series_rows(unbiased, each).set_index("cell").sort_index() for each in series
    }
    counts = estimates[series[0]]["count"]
    busiest = counts.sort_values(ascending=False, kind="stable").index[:_MAX_RANK]
    heights = np.arange(len(busiest))
    shapes = place.shapes.part(busiest.to_numpy())
    width = min(_RANKS_WIDTH, _RANKS_HEIGHT / map_height(shapes, 1.0))
    above = 1.0 + len(busiest) * (0.09 + 0.05 * len(series))
    below = 0.9 + map_height(shapes, width)
    figure = style.new_figure(above + below + 0.16 * (1 + len(series)))
    panels = figure.subplot_mosaic(
        [["left", "right"], ["ranks", "ranks"]], height_ratios=(above, below)
    )
    left, right, ranks = panels["left"], panels["right"], panels["ranks"]
    right.sharey(left)
    half = _SPREAD / 2.0
    left.vlines(counts[busiest], heights - half, heights + half, color="black", linewidth=1.4)
    right.axvline(0.0, color="black", linewidth=1.4)
    offsets = np.linspace(-half, half, len(series)) if len(series) > 1 else [0.0]
    for each, offset in zip(series, offsets, strict=True):
        shown = estimates[each].loc[busiest]
        _draw_intervals(left, shown, "estimate", heights + offset, each)
        _draw_intervals(right, shown, "error", heights + offset, each)
    left.set_yticks(heights, _cell_names(place, busiest.to_numpy()))
    left.set_ylim(len(busiest) - 0.4, -0.6)
    left.set_xlim(left=min(0.0, left.get_xlim()[0]))
    left.set_title(f"The {len(busiest)} busiest of {len(counts):,} cells", loc="left")
    right.set_title("The same cells, minus the true count", loc="left")
    left.set_xlabel(f"{style.plural(place.unit)} per cell")
    right.set_xlabel(f"estimated \N{MINUS SIGN} true {style.plural(place.unit)} per cell")
    right.tick_params(left=False, labelleft=False)
    for axes in (left, right):
        axes.xaxis.set_major_formatter(PLAIN_NUMBERS)
        axes.grid(axis="x")
        # Bands guide the eye from a name to its markers.
        for index in heights[1::2]:
            axes.axhspan(index - 0.5, index + 0.5, color="0.95", zorder=0, linewidth=0.0)
    _map_ranks(ranks, place, shapes, width)
    legend = _rank_legend({each: estimates[each].loc[busiest] for each in series})
    figure.legend(handles=legend, loc="outside lower left")
    figure.suptitle(place.title)
    return figure


def _map_ranks(axes: Axes, place: MapContext, ranked: CellShapes, width: float) -> None:
    """Outline the cells of `ranked` and, if there is room, number them in their order."""
    draw_base_map(axes, place, ordinate=True, shown=ranked)
    outlines = ranked.outlines(np.ones(len(ranked), dtype=bool))
    axes.add_collection(
        PathCollection(outlines, facecolors="white", edgecolors="black", linewidths=0.5, alpha=0.8)
    )
    inches_per_degree = width / np.ptp(axes.get_xlim())
    size = min(_RANK_SIZE * 72.0 * inches_per_degree * ranked.sizes[:, 0].min(), _MAX_RANK_SIZE)
    for rank, (x, y) in enumerate(ranked.middles, 1):
        if size >= _MIN_RANK_SIZE:
            text = axes.text(x, y, str(rank), fontsize=size, ha="center", va="center", zorder=4)
            text.set_path_effects([withStroke(linewidth=1.4, foreground="white")])
    axes.set_title("Ranks of these cells on the map", loc="left")
    draw_attribution(axes, place.layers)


def _draw_intervals(
    axes: Axes, shown: pd.DataFrame, column: str, height: Floats, series: style.Series
) -> None:
    axes.errorbar(
        shown[column],
        height,
        xerr=STANDARD_ERRORS * shown["standard_error"],
        linestyle="none",
        elinewidth=1.0,
        markersize=3.5,
        label=" ".join(series),
        **style.marker_style(style.series_look(*series)),
    )


def _cell_names(place: MapContext, busiest: Integers) -> list[str]:
    """Return a label for each cell: its name, the district around it, if any, and its rank."""
    districts = districts_at(place.layers, place.shapes.middles[busiest])
    names = place.cells["name"].iloc[busiest]
    return [
        ", ".join(dict.fromkeys(filter(None, [district, name]))) + f"  {rank:>2}"
        for rank, (name, district) in enumerate(zip(names, districts, strict=True), 1)
    ]


def _rank_legend(shown: dict[style.Series, pd.DataFrame]) -> list[Line2D]:
    bar = {"marker": "|", "markersize": 8, "markeredgewidth": 1.4, "color": "black"}
    entries = [style.legend_mark("true count", **bar)]
    for series, rows in shown.items():
        covered = rows["error"].abs() <= STANDARD_ERRORS * rows["standard_error"]
        label = (
            f"{get_estimator(*series).label}, \N{PLUS-MINUS SIGN} {STANDARD_ERRORS:g} standard "
            f"errors: {covered.sum()} of {len(rows)} intervals contain the true count"
        )
        look = style.marker_style(style.series_look(*series))
        entries.append(Line2D([], [], linewidth=1.0, label=label, **look))
    return entries
