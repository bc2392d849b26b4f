"""Draw a published map, hatched where a cell may be empty, or a preview of its intervals."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm
from matplotlib.ticker import LogLocator, NullFormatter

from shuffledp.figures.map_panels import (
    Fill,
    MapContext,
    add_colour_bar,
    draw_hatch,
    draw_values,
    fill_legend,
    map_panels,
)
from shuffledp.figures.style import (
    WITHOUT_ORIGIN,
    escape_math,
    local_style,
    ordered_colours,
    plain_log_axis,
)
from shuffledp.numerics.arrays import Bools, Floats

MAX_PANELS: Final = 12  # largest number of windows that are drawn, evenly spaced among all
_MAYBE_EMPTY: Final = Fill("none", "0.6", "////", line=0.3)
_TITLE_CHARACTERS: Final = 100  # in a line of the title
_PIXELS_PER_INCH: Final = 200


@local_style()
def draw_published_map(
    destinations: Sequence[Path],
    cells: pd.DataFrame,
    estimates: Floats,
    maybe_empty: Bools,
    windows: Sequence[str],
    title: str,
    note: str,
) -> None:
    """Write a published map, in the formats of the names; its title is followed by a note.

    `cells` has columns ``name`` and ``geometry`` (WGS 84 degrees). `maybe_empty` says whether the
    interval of a cell includes 0; it and `estimates` have shape ``(windows, k)``. `windows` are
    names; a map without windows has one, whose name is empty.
    """
    shown = np.unique(np.linspace(0, len(windows) - 1, MAX_PANELS).round().astype(int))
    words = "\n".join(textwrap.wrap(escape_math(f"{title}. {note}"), _TITLE_CHARACTERS))
    place = MapContext(cells, words, margin=True)
    top = max(float(estimates.max()), 10.0)
    bottom = lower_end(estimates[~maybe_empty & (estimates > 0)], top)
    norm = LogNorm(bottom, top)
    legend = fill_legend([(_MAYBE_EMPTY, "may be empty: the 95 % interval includes 0")])
    titles = [windows[number] for number in shown]
    figure, panels, bar = map_panels(place, titles, legend, named=False)
    for axes, number in zip(panels, shown, strict=True):
        empty = maybe_empty[number]
        collection = draw_values(
            axes, place.shapes, estimates[number], ~empty & (estimates[number] > 0), norm
        )
        draw_hatch(axes, place.shapes, empty, _MAYBE_EMPTY)
    add_colour_bar(bar, collection, "records per cell (estimate)")
    bar.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if top < 100 * bottom else (1,)))
    bar.xaxis.set_minor_formatter(NullFormatter())
    for each in destinations:
        kind = each.suffix.removeprefix(".")
        figure.savefig(each, dpi=_PIXELS_PER_INCH, format=kind, metadata=WITHOUT_ORIGIN[kind])


def lower_end(drawn: Floats, top: float) -> float:
    """Return where the colour scale begins: 1, 2 or 5 times a power of ten, at least 1.

    No drawn count is below it, and it is at most a tenth of `top`. On a scale that begins at 1,
    counts that are all large would have nearly the same colour.
    """
    smallest = min(float(drawn.min(initial=top)), top / 10)
    if smallest < 1:
        return 1.0
    power = 10.0 ** np.floor(np.log10(smallest) + 1e-9)
    return float(max(factor * power for factor in (1, 2, 5) if factor * power <= smallest))


# --- Preview of the intervals that a map would have -----------------------------------------------

_ROW_INCHES = 0.34


@local_style()
def draw_preview(destination: Path, table: pd.DataFrame, at_least: float | None) -> None:
    """Write a preview as PNG: a line for each level of each map, a dot for each eps.

    `table` is a result of `publishing.preview.preview` with a column ``name``. `at_least` is a
    known count; a line marks a quarter of it.
    """
    names = list(dict.fromkeys(table["name"]))
    figure, axes = plt.subplots(figsize=(7.5, 1.4 + _ROW_INCHES * len(names)), layout="constrained")
    budgets = sorted(set(table["eps"]))
    colours = ordered_colours(len(budgets))
    for eps, colour in zip(budgets, colours, strict=True):
        rows = table[table["eps"] == eps]
        heights = [names.index(name) for name in rows["name"]]
        axes.plot(rows["half_width"], heights, "o", color=colour, label=f"eps = {eps:g}")
    if at_least is not None:
        axes.axvline(at_least / 4, color="0.4", linestyle="--", label=f"25 % of {at_least:g}")
    axes.set_xscale("log")
    plain_log_axis(axes.xaxis)
    axes.set_yticks(range(len(names)), [escape_math(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="x", which="both", color="0.9")
    axes.set_xlabel("half-width of the 95 % interval of a count, in records")
    axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.savefig(destination, dpi=200, format="png", metadata={"Software": None})
    plt.close(figure)
