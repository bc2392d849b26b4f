"""Recomputed figures of the papers: any tidy table of curves as a row or grid of panels."""

from itertools import cycle
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shuffledp.figures.bounds import (
    GUARANTEES,
    LINES,
    STEPS,
    bound_colour,
    coincidence_note,
    guarantee_steps,
)
from shuffledp.figures.style import local_style, new_figure, ordered_colours, plain_log_axis
from shuffledp.numerics.arrays import Floats
from shuffledp.pipeline.tables import read_metadata, read_tables
from shuffledp.papers.figure_specs import Between, FigureText

_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
_SHORT: Final = 1e-4, 1e4
_PANEL_HEIGHT, _COLUMNS, _MARKED = 2.6, 3, 6
_GUIDES: Final = "Computed at the marks. Between them the lines of guarantees lead the eye."


def draw_curves(curves: Path) -> Figure:
    """Draw `curve_panels` from the file of the curves, which holds the figure's text as well."""
    return curve_panels(read_tables([curves]), FigureText.read(read_metadata(curves)))


@local_style()
def curve_panels(table: pd.DataFrame, text: FigureText) -> Figure:
    """Draw every panel of a figure, with one legend for all.

    Solid lines are exact or upper bounds, dash-dotted ones lower bounds, dotted ones neither,
    dashed ones a formula as printed. Exact bounds are wider and have no marker. A guarantee is
    drawn between its points as far as it is proven there, as steps; where nothing is, thin lines
    join marks. Colours are those of `bounds.bound_colour`. Curves that cannot be told apart are
    named above the legend.

    Parameters
    ----------
    table
        Columns ``shuffledp.papers.figure_specs.COLUMNS``.
    text
        Says what the axes show.
    """
    panels = list(table["panel"].unique())
    columns = min(len(panels), 2 if len(panels) in (2, 4) else _COLUMNS)
    rows = -(-len(panels) // columns)
    names = list(table["curve"].unique())
    words = coincidence_note(table, text.x_scale, text.y_scale)
    if text.between == "points":
        words = f"{_GUIDES}\n{words}".strip()
    legend_rows = -(-len(names) // 2) + len(words.splitlines())
    figure = new_figure(_PANEL_HEIGHT * rows + 0.16 * legend_rows + 0.4)
    axes = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    looks = _looks(table, marked=text.between == "points")
    for one, panel in zip(axes, panels, strict=False):
        _draw_panel(one, table[table["panel"] == panel], looks, text.between)
        one.set_title(panel, loc="left")
        one.set(xscale=text.x_scale, yscale=text.y_scale, xlabel=text.x_label)
        _name_decades(one)
    for one in axes[::columns]:
        one.set_ylabel(text.y_label)
    for one in axes[len(panels) :]:
        one.remove()
    found = {
        label: handle
        for one in axes[: len(panels)]
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        [found[name] for name in names],
        names,
        loc="outside lower center",
        ncols=2,
        handlelength=3.5,
        title=words or None,
        title_fontsize=7.5,
        alignment="left",
    )
    figure.suptitle(text.title)
    return figure


def _looks(table: pd.DataFrame, *, marked: bool) -> dict[str, tuple[str, str]]:
    """Colour and marker of each curve, by its name.

    A bound has its colour, and if it is exact no marker, unless all are marked. Others, such as
    several k, go from dark to light in their order.
    """
    markers = cycle(_MARKERS)
    kinds = table.drop_duplicates("curve").set_index("curve")["kind"]
    named = {str(name): bound_colour(str(name)) for name in kinds.index}
    others = iter(ordered_colours(sum(colour is None for colour in named.values())))
    looks = {}
    for name, colour in named.items():
        plain = colour is not None and kinds[name] == "exact" and not marked
        looks[name] = colour or next(others), "" if plain else next(markers)
    return looks


def _name_decades(axes: Axes) -> None:
    """Plain numbers on logarithmic axes where these are short, powers of ten where they are not."""
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        if axis.get_scale() == "log" and low >= _SHORT[0] and high <= _SHORT[1]:
            plain_log_axis(axis)


def _draw_panel(
    axes: Axes, table: pd.DataFrame, looks: dict[str, tuple[str, str]], between: Between
) -> None:
    for number, (name, rows) in enumerate(table.groupby("curve", sort=False)):
        colour, marker = looks[str(name)]
        kind = rows["kind"].iloc[0]
        x, y, style, apart = rows["x"].to_numpy(), rows["y"].to_numpy(), "default", 1
        proven = kind in GUARANTEES
        if proven and between == "next":
            style = "steps-pre"
        elif proven and between == "delta over eps":
            (x, y), style, apart = _steps(x, y), "steps-post", STEPS
        elif proven and between == "eps over delta":
            (y, x), style, apart = _steps(y, x), "steps-pre", STEPS
        guide = proven and between == "points"
        step = 1 if guide else max(1, len(rows) // _MARKED)
        axes.plot(
            x,
            y,
            color=colour,
            drawstyle=style,
            marker=marker,
            markevery=(apart * (number % step), apart * step),
            markersize=3.5,
            linestyle=LINES[kind],
            linewidth=0.4 if guide else 1.6 if not marker else 1.1,
            label=name,
        )
    axes.grid(visible=True, axis="both")


def _steps(eps: Floats, delta: Floats) -> tuple[Floats, Floats]:
    """Eps and delta of `bounds.guarantee_steps`, of points in any order."""
    kept, places = np.unique(eps, return_index=True)
    with np.errstate(divide="ignore"):
        x, logs = guarantee_steps(kept, np.log10(delta[places]))
    steps = 10.0**logs
    steps[::STEPS] = np.maximum(steps[::STEPS], delta[places])  # but for the logarithm's rounding
    return x, steps
