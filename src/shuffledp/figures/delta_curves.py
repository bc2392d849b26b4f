"""Draw the certified privacy of shuffled k-RR: delta against eps."""

from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MultipleLocator

from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.errors import InputError
from shuffledp.figures import style
from shuffledp.figures.bounds import (
    KIND_LABELS,
    LINE_STYLES,
    bound_colour,
    coincidence_note,
    guarantee_steps,
)
from shuffledp.pipeline.tables import read_tables

_MIN_LOG10_DELTA: Final = -12.0  # smallest delta shown
_MAX_COLUMNS: Final = 3  # panels in a row
_PANEL_GAP: Final = {"wspace": 0.06}  # room for the last tick label of one panel and the next


def draw_privacy(curves: Path, *, title: str, unit: str, target_delta: float) -> Figure:
    """Read the curves and draw `delta_curves`."""
    return delta_curves(read_tables([curves]), title, unit, target_delta)


@style.local_style()
def delta_curves(curves: pd.DataFrame, title: str, unit: str, target_delta: float) -> Figure:
    """Draw delta against eps, one panel per eps0, from delta = 1 to 1e-12 on a logarithmic axis.

    If `target_delta` is below 1e-10, the axis extends to a hundredth of it. The target delta and
    the eps that the bound ``upper`` certifies there are marked. The area below the largest lower
    bound is shaded, because a delta there overstates privacy. `curves` has the columns of
    `pipeline.tables.PRIVACY`, for one n.
    """
    sizes = sorted(set(curves["n"]))
    if len(sizes) != 1:
        raise InputError(f"curves must have one n, got {sizes}")
    lowest = min(_MIN_LOG10_DELTA, np.log10(target_delta) - 2.0)
    budgets = sorted(curves["eps0"].unique())
    columns = min(len(budgets), _MAX_COLUMNS)
    rows = -(-len(budgets) // columns)
    figure = style.new_figure(1.2 + 2.9 * rows)
    panels = np.atleast_1d(
        figure.subplots(rows, columns, sharey=True, gridspec_kw=_PANEL_GAP)
    ).ravel()
    for axes, eps0 in zip(panels, budgets, strict=False):
        panel = curves[curves["eps0"] == eps0]
        _draw_bounds(axes, panel)
        _label_delta_axis(axes, lowest)
        axes.set_xlim(0.0, panel["eps"].max())
        _shade_unsafe(axes, panel)
        target = _mark_target(axes, panel, target_delta)
        axes.set_title(f"$\\epsilon_0={eps0:g}$\n{target}", loc="left")
        axes.set_xlabel(r"$\epsilon$ of the shuffled reports")
    for axes in panels[::columns]:
        axes.set_ylabel(r"$\delta$")
    for axes in panels[len(budgets) :]:
        axes.remove()
    shown = curves[curves["log10_delta"] >= lowest]
    names = {"eps0": "panel", "bound": "curve", "eps": "x", "log10_delta": "y"}
    figure.legend(
        handles=_bound_legend(curves, lowest),
        loc="outside lower center",
        ncols=2,
        title=coincidence_note(shown.rename(columns=names), "linear", "linear") or None,
        title_fontsize=7.5,
        alignment="left",
    )
    k = int(curves["k"].iloc[0])
    figure.suptitle(
        f"{style.escape_math(title)}: $\\delta$ of shuffled randomised response, "
        f"n = {style.count_units(sizes[0], unit)}, k = {k} cells"
    )
    return figure


def _draw_bounds(axes: Axes, rows: pd.DataFrame) -> None:
    positive = rows[np.isfinite(rows["log10_delta"])]  # a curve ends where delta is 0
    for name, curve in positive.groupby("bound", sort=False):
        handle = _bound_handle(str(name))
        points = curve["eps"].to_numpy(), curve["log10_delta"].to_numpy()
        guarantee = BOUNDS[name].guarantee
        axes.plot(
            *(guarantee_steps(*points) if guarantee else points),
            drawstyle="steps-post" if guarantee else "default",
            color=handle.get_color(),
            linestyle=handle.get_linestyle(),
            linewidth=handle.get_linewidth(),
            label=str(name),
        )


def _bound_handle(name: str) -> Line2D:
    """Return the legend entry of a bound, which also has the style of its curve."""
    kind = BOUNDS[name].kind
    certified = "certified, " if name in ("upper", "lower") else ""
    return Line2D(
        [],
        [],
        color=bound_colour(name) or "#000000",
        linestyle=LINE_STYLES[kind],
        # Guarantees are wider, so that ``lower``, drawn over ``upper``, does not hide it.
        linewidth=2.6 if BOUNDS[name].guarantee else 1.3,
        label=f"{name}: {certified}{KIND_LABELS[kind]}",
    )


def _bound_legend(curves: pd.DataFrame, lowest: float) -> list[Line2D]:
    """Return legend entries; for a bound below all panels, state a power of ten above its delta."""
    handles = []
    for name, highest in curves.groupby("bound", sort=False)["log10_delta"].max().items():
        handle = _bound_handle(str(name))
        if highest < lowest:
            handle.set_label(
                f"{handle.get_label()}\n(below the plot: $\\delta<10^{{{np.ceil(highest):.0f}}}$)"
            )
        handles.append(handle)
    return handles


def _shade_unsafe(axes: Axes, rows: pd.DataFrame) -> None:
    """Shade the deltas below the largest lower bound."""
    lower = rows[[BOUNDS[name].kind == "lower" for name in rows["bound"]]]
    if lower.empty:
        return
    bottom = axes.get_ylim()[0]
    # The bounds have points at different eps, more where they are steep.
    eps = np.unique(lower["eps"])
    largest = np.full(eps.size, bottom)
    for _, curve in lower.groupby("bound"):
        visible = np.maximum(curve["log10_delta"], bottom)
        largest = np.maximum(largest, np.interp(eps, curve["eps"], visible, right=bottom))
    axes.fill_between(eps, largest, bottom, color="0.93", linewidth=0.0, zorder=0)
    axes.text(
        0.03,
        0.03,
        "unsafe: claims more\nprivacy than there is",
        transform=axes.transAxes,
        fontsize=7,
        style="italic",
    )


def _mark_target(axes: Axes, rows: pd.DataFrame, target_delta: float) -> str:
    """Mark the target delta and the eps that bound ``upper`` certifies there; return a title."""
    level = np.log10(target_delta)
    axes.axhline(level, color="0.4", linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    title = rf"target $\delta={style.power(target_delta)}$"
    upper = rows[(rows["bound"] == "upper") & np.isfinite(rows["log10_delta"])]
    if not upper.empty:
        # The certified eps is a point of the table; nothing is interpolated.
        nearest = upper.loc[(upper["log10_delta"] - level).abs().idxmin()]
        if np.isclose(nearest["log10_delta"], level, atol=1e-6):
            axes.plot(nearest["eps"], level, "o", color="#000000", markersize=5, zorder=4)
            title += rf": $\epsilon\leq{style.format_eps(nearest['eps'])}$ certified"
    return title


def _label_delta_axis(axes: Axes, lowest: float) -> None:
    """Label decades of delta; y is log10 of delta, because delta may be below 1e-308."""
    axes.set_ylim(lowest, 0.0)
    axes.yaxis.set_major_locator(MultipleLocator(2.0))
    axes.yaxis.set_minor_locator(MultipleLocator(1.0))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda x, _: f"${style.power(10.0**x)}$"))
    axes.grid(visible=True, axis="y")
