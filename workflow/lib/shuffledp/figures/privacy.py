"""Delta against eps by every configured bound."""

from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MultipleLocator

from shuffledp.accounting.registry import BOUNDS
from shuffledp.errors import InputError
from shuffledp.figures.bounds import LINES, WORTH, bound_colour, guarantee_steps
from shuffledp.figures.coincidence import coincidence_words
from shuffledp.figures.style import counted, eps_words, literal, local_style, new_figure, power
from shuffledp.pipeline.tables import read_tables

_LEAST: Final = -12.0  # decimal logarithm of the smallest delta shown
_ACROSS: Final = 3  # panels in a row
_BESIDE: Final = 0.65  # of the axis: a curve that meets the target farther right hits its words
_APART: Final = {"wspace": 0.06}  # for the outer tick labels of neighbours


def draw_privacy(curves: Path, *, title: str, unit: str, target_delta: float) -> Figure:
    """Draw `delta_curves` from the file of the curves.

    Parameters
    ----------
    curves
        Parquet table of delta over eps.
    title
        Of the figure: the place, as a rule.
    unit
        What a record is: `check-in` or `user`.
    target_delta
        Delta in (0, 1) of the calibrations to a target.
    """
    return delta_curves(read_tables([curves]), title, unit, target_delta)


@local_style()
def delta_curves(curves: pd.DataFrame, title: str, unit: str, target_delta: float) -> Figure:
    """Delta against eps, a panel per eps0, from delta = 1 to 1e-12 on a logarithmic axis.

    The target is marked, with the eps of `upper` there. Below the largest lower bound it is shaded:
    a delta there claims more privacy than there is.

    Parameters
    ----------
    curves
        Columns of `pipeline.tables.PRIVACY`, of one n.
    title
        Names the region.
    unit
        What delta protects, ``one check-in`` or ``one user``.
    target_delta
        Below 1e-10 the axis goes down to a hundredth of it.

    Raises
    ------
    InputError
        If the table has several n.
    """
    sizes = sorted(set(curves["n"]))
    if len(sizes) != 1:
        raise InputError(f"curves must be of one n (got {sizes})")
    least = min(_LEAST, np.log10(target_delta) - 2.0)
    budgets = sorted(curves["eps0"].unique())
    across = min(len(budgets), _ACROSS)
    down = -(-len(budgets) // across)
    figure = new_figure(1.2 + 2.9 * down)
    panels = np.atleast_1d(figure.subplots(down, across, sharey=True, gridspec_kw=_APART)).ravel()
    for axes, eps0 in zip(panels, budgets, strict=False):
        rows = curves[curves["eps0"] == eps0]
        _draw_bounds(axes, rows)
        _delta_axis(axes, least)
        axes.set_xlim(0.0, rows["eps"].max())
        _shade(axes, rows)
        _mark(axes, rows, target_delta)
        axes.set_title(rf"$\epsilon_0={eps0:g}$", loc="left")
        axes.set_xlabel(r"central budget $\epsilon$")
    for axes in panels[::across]:
        axes.set_ylabel(r"$\delta$")
    for axes in panels[len(budgets) :]:
        axes.remove()
    figure.legend(
        handles=_key(curves, least),
        loc="outside lower center",
        ncols=2,
        title=_coinciding(curves, least) or None,
        title_fontsize=7.5,
        alignment="left",
    )
    k = int(curves["k"].iloc[0])
    figure.suptitle(
        f"{literal(title)}: $\\delta$ of shuffled randomised response, "
        f"n = {counted(sizes[0], unit)}, k = {k} cells,\n"
        "neighbours differing by the replacement of one report"
    )
    return figure


def _draw_bounds(axes: Axes, rows: pd.DataFrame) -> None:
    above = rows[np.isfinite(rows["log10_delta"])]  # a delta of 0 ends a curve
    for name, curve in above.groupby("bound", sort=False):
        handle = _handle(str(name))
        drawn = curve["eps"].to_numpy(), curve["log10_delta"].to_numpy()
        guarantee = BOUNDS[name].guarantee
        axes.plot(
            *(guarantee_steps(*drawn) if guarantee else drawn),
            drawstyle="steps-post" if guarantee else "default",
            color=handle.get_color(),
            linestyle=handle.get_linestyle(),
            linewidth=handle.get_linewidth(),
            label=str(name),
        )


def _handle(name: str) -> Line2D:
    """How a bound is drawn, with its entry of the legend."""
    kind = BOUNDS[name].kind
    certified = "certified, " if name in ("upper", "lower") else ""
    return Line2D(
        [],
        [],
        color=bound_colour(name) or "#000000",
        linestyle=LINES[kind],
        # Wider, because `lower` is drawn upon it and may hide it.
        linewidth=2.6 if BOUNDS[name].guarantee else 1.3,
        label=f"{name}: {certified}{WORTH[kind]}",
    )


def _key(curves: pd.DataFrame, least: float) -> list[Line2D]:
    """Entries of the legend; those of bounds that are nowhere in a panel say how far below."""
    handles = []
    for name, highest in curves.groupby("bound", sort=False)["log10_delta"].max().items():
        handle = _handle(str(name))
        if highest < least:
            handle.set_label(
                f"{handle.get_label()}\n(off the plot: $\\delta<10^{{{np.ceil(highest):.0f}}}$)"
            )
        handles.append(handle)
    return handles


def _coinciding(curves: pd.DataFrame, least: float) -> str:
    """Say which bounds are under one another where they are shown."""
    drawn = curves[curves["log10_delta"] >= least]
    names = {"eps0": "panel", "bound": "curve", "eps": "x", "log10_delta": "y"}
    return coincidence_words(drawn.rename(columns=names), "linear", "linear")


def _shade(axes: Axes, rows: pd.DataFrame) -> None:
    """Mark the deltas below what some data set attains."""
    attained = rows[[BOUNDS[name].kind == "lower" for name in rows["bound"]]]
    if attained.empty:
        return
    bottom = axes.get_ylim()[0]
    # Bounds have points of their own where they are steep.
    eps = np.unique(attained["eps"])
    largest = np.full(eps.size, bottom)
    for _, curve in attained.groupby("bound"):
        drawn = np.maximum(curve["log10_delta"], bottom)
        largest = np.maximum(largest, np.interp(eps, curve["eps"], drawn, right=bottom))
    axes.fill_between(eps, largest, bottom, color="0.93", linewidth=0.0, zorder=0)
    axes.text(
        0.03,
        0.03,
        "unsafe: claims more\nprivacy than there is",
        transform=axes.transAxes,
        fontsize=7,
        style="italic",
    )


def _mark(axes: Axes, rows: pd.DataFrame, target_delta: float) -> None:
    """Mark the target, and the eps that is certified there."""
    level = np.log10(target_delta)
    axes.axhline(level, color="0.4", linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    words = rf"target $\delta={power(target_delta)}$"
    upper = rows[(rows["bound"] == "upper") & np.isfinite(rows["log10_delta"])]
    beside = True
    if not upper.empty:
        # It is one of the table's points: nothing is interpolated.
        reached = upper.loc[(upper["log10_delta"] - level).abs().idxmin()]
        if np.isclose(reached["log10_delta"], level, atol=1e-6):
            axes.plot(reached["eps"], level, "o", color="#000000", markersize=5, zorder=4)
            words += ":\n" + rf"$\epsilon\leq{eps_words(reached['eps'])}$ certified"
            beside = reached["eps"] < _BESIDE * axes.get_xlim()[1]
    axes.annotate(
        words,
        (1.0, level if beside else 0.0),
        (-2, 3 if beside else -3),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        ha="right",
        va="bottom" if beside else "top",
        fontsize=7.5,
    )


def _delta_axis(axes: Axes, least: float) -> None:
    """Decades of delta, the logarithms being what is drawn: deltas may be below 1e-308."""
    axes.set_ylim(least, 0.0)
    axes.yaxis.set_major_locator(MultipleLocator(2.0))
    axes.yaxis.set_minor_locator(MultipleLocator(1.0))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda x, _: f"${power(10.0**x)}$"))
    axes.grid(visible=True, axis="y")
