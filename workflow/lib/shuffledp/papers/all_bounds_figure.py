"""Every bound on one release in one panel: numbered curves and a list in the order of eps."""

import textwrap
from pathlib import Path
from typing import Final

import matplotlib.patheffects as effects
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from shuffledp.accounting.bound import Kind
from shuffledp.figures.bounds import (
    GUARANTEES,
    LINES,
    WORTH,
    bound_colour,
    coincidence_note,
    guarantee_steps,
)
from shuffledp.figures.style import local_style, new_figure, power
from shuffledp.pipeline.tables import read_metadata, read_tables
from shuffledp.papers.figure_specs import FigureText

LOWEST: Final = -30.0  # decimal logarithm of the smallest delta shown
_REFERENCE: Final = -6.0  # of the delta at which the curves are ranked
_LETTERS: Final = 44  # of a line beneath the list
_BAND: Final = {"upper": 3.0, "lower": 3.1}  # drawn above the others
# Heights of the numbers, one after the other: neighbours in rank do not cover one another.
_HEIGHTS: Final = (-28.0, -24.0, -20.0, -16.0, -12.0)


def draw_all_bounds(curves: Path) -> Figure:
    """Draw `all_bounds` from the file of the curves, which holds the figure's text as well."""
    return all_bounds(read_tables([curves]), FigureText.read(read_metadata(curves)))


@local_style()
def all_bounds(table: pd.DataFrame, text: FigureText) -> Figure:
    """Draw log delta against eps for every bound of a table.

    Curves have the number that their bound has in the list, which is ordered by eps at
    delta = 1e-6. Where all of a curve is below the plot the list says how far.

    Parameters
    ----------
    table
        Columns ``shuffledp.papers.figure_specs.COLUMNS``, y the decimal logarithm of delta.
    text
        Says what the axes show.
    """
    by_name = {str(name): rows.sort_values("y") for name, rows in table.groupby("curve")}
    shown = {name: rows for name, rows in by_name.items() if rows["y"].max() > LOWEST}
    ranked = sorted(shown, key=lambda name: _reference_eps(shown[name]))
    figure = new_figure(4.6)
    axes, side = figure.subplots(1, 2, width_ratios=(1.8, 1.0))
    for rank, name in enumerate(ranked, 1):
        _draw_bound(axes, shown[name], rank)
    axes.set(xscale="log", xlabel=text.x_label, ylabel=text.y_label, ylim=(LOWEST, -2.0))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"${power(10.0**value)}$"))
    axes.grid(visible=True, axis="both")
    below = {name: float(rows["y"].max()) for name, rows in by_name.items() if name not in shown}
    _list_bounds(side, [(name, shown[name]) for name in ranked], below)
    if words := _coinciding(table):
        side.text(0.0, 0.0, words, transform=side.transAxes, va="top", fontsize=7)
    axes.legend(handles=_key(table), loc="lower left")
    figure.suptitle(text.title)
    return figure


def _coinciding(table: pd.DataFrame) -> str:
    """Say which curves are under one another, from side to side: they are steep."""
    steep = table[table["y"] >= LOWEST].rename(columns={"x": "y", "y": "x"})
    return textwrap.fill(coincidence_note(steep, "linear", "log"), _LETTERS)


def _reference_eps(rows: pd.DataFrame) -> float:
    """Eps at the reference delta, interpolated."""
    return float(np.interp(_REFERENCE, rows["y"], rows["x"]))


def _colour(rows: pd.DataFrame) -> str:
    return bound_colour(str(rows["curve"].iloc[0])) or "#000000"


def _draw_bound(axes: Axes, rows: pd.DataFrame, rank: int) -> None:
    colour, name, kind = _colour(rows), rows["curve"].iloc[0], rows["kind"].iloc[0]
    drawn = rows.sort_values("x")[["x", "y"]].to_numpy().T
    proven = kind in GUARANTEES
    axes.plot(
        *(guarantee_steps(*drawn) if proven else drawn),
        drawstyle="steps-post" if proven else "default",
        color=colour,
        linestyle=LINES[kind],
        # `lower` is drawn upon `upper`, which it may hide.
        linewidth=2.4 if name == "upper" else 1.2,
        zorder=_BAND.get(name, 2.0),
        label=name,
    )
    # A curve that ends early carries its number at its end.
    height = max(_HEIGHTS[rank % len(_HEIGHTS)], float(rows["y"].min()))
    axes.annotate(
        str(rank),
        (float(np.interp(height, rows["y"], rows["x"])), height),
        ha="center",
        va="center",
        fontsize=6.5,
        zorder=4,
        path_effects=[effects.withStroke(linewidth=2.5, foreground="white")],
    )


def _list_bounds(
    axes: Axes, bounds: list[tuple[str, pd.DataFrame]], below: dict[str, float]
) -> None:
    """Write number, name and eps at the reference delta, a line per bound."""
    axes.axis("off")
    axes.set(xlim=(0.0, 1.0), ylim=(len(bounds) + 2 * len(below) + 1.5, -0.5))
    axes.text(1.0, 0.0, rf"$\epsilon$ at $\delta={power(10.0**_REFERENCE)}$", ha="right")
    for rank, (name, rows) in enumerate(bounds, 1):
        line = LINES[rows["kind"].iloc[0]]
        axes.text(0.07, rank, str(rank), ha="right")
        axes.plot([0.09, 0.15], 2 * [rank - 0.2], color=_colour(rows), linestyle=line, linewidth=2)
        axes.text(0.17, rank, name, fontsize=7.5)
        axes.text(1.0, rank, f"{_reference_eps(rows):.3g}", ha="right")
    for place, (name, highest) in enumerate(below.items()):
        row = len(bounds) + 1 + 2 * place
        axes.text(0.17, row, f"{name}:")
        axes.text(0.17, row + 1, rf"off the plot, $\delta < 10^{{{np.ceil(highest):.0f}}}$")


def _key(table: pd.DataFrame) -> list[Line2D]:
    """What a line's style says; its colour says whose bound it is, as the list does."""
    kinds: list[Kind] = [kind for kind in WORTH if (table["kind"] == kind).any()]
    return [
        Line2D([], [], color="black", linewidth=1.2, linestyle=LINES[kind], label=WORTH[kind])
        for kind in kinds
        if kind != "as printed"
    ]
