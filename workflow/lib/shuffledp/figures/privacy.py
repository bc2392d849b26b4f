"""Delta against eps: the certified pair beside the single-bin quantities of paper A."""

from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from shuffledp.figures.style import local_style, new_figure, plain_log_axis

# Legend entry, colour, marker, line style and width; drawn in this order.
_BOUNDS: Final[dict[str, tuple[str, str, str, str, float]]] = {
    "upper": ("upper: certified, the only DP guarantee shown", "#000000", "o", "-", 1.8),
    "lower": ("lower: what one explicit data set leaks", "#56B4E9", "x", "--", 1.0),
    "single-bin": ("single-bin: one count alone, no guarantee", "#0072B2", "s", "-.", 1.0),
    "single-bin-as-printed": (
        "single-bin as printed: misprint, no guarantee",
        "#D55E00",
        "^",
        ":",
        1.0,
    ),
}
_LEAST = 0.1  # of log10 1/delta: larger deltas, above 10^-0.1 = 0.79, lie on the upper edge


@local_style()
def delta_curves(privacy: pd.DataFrame, title: str, n: int) -> Figure:
    """Delta against eps for one number of users, a panel per eps0, both axes logarithmic.

    The vertical axis is the logarithm of log10(1/delta), downwards, so that 10^-1 and
    10^-100,000 both fit. Below the certified curve it is shaded: a smaller delta there claims
    more privacy than there is.

    Parameters
    ----------
    privacy
        Columns of `shuffledp.tables.PRIVACY`. Deltas of 0 are not drawn, those above 10^-0.1 on
        the upper edge.
    title
        Names the region.
    n
        Number of users, one of the table's.

    Raises
    ------
    ValueError
        If the table has no delta above 0 for n.
    """
    rows = privacy[(privacy["n"] == n) & np.isfinite(privacy["log10_delta"])]
    rows = rows.assign(log10_delta=rows["log10_delta"].clip(upper=-_LEAST))
    if rows.empty:
        raise ValueError(f"n must be one of the table's, {sorted(set(privacy['n']))} (got {n})")
    budgets = sorted(rows["eps0"].unique())
    figure = new_figure(4.1)
    panels = np.atleast_1d(figure.subplots(1, len(budgets), sharex=True, sharey=True))
    for axes, eps0 in zip(panels, budgets, strict=True):
        _draw_bounds(axes, rows[rows["eps0"] == eps0])
        axes.set_title(rf"$\epsilon_0={eps0:g}$", loc="left")
        axes.set_xlabel(r"central budget $\epsilon$")
    panels[0].set(xscale="log", yscale="log")
    plain_log_axis(panels[0].xaxis)
    _delta_axis(panels[0], rows["log10_delta"])
    for axes, eps0 in zip(panels, budgets, strict=True):
        _shade(axes, rows[rows["eps0"] == eps0])
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    k = int(rows["k"].iloc[0])
    figure.suptitle(
        f"{title}: $\\delta$ of shuffled randomised response, n = {n:,} users, k = {k} cells,\n"
        "neighbours differing by the replacement of one report"
    )
    return figure


def _draw_bounds(axes: Axes, rows: pd.DataFrame) -> None:
    for bound, (label, colour, marker, line, width) in _BOUNDS.items():
        curve = rows[rows["bound"] == bound].sort_values("eps")
        axes.plot(
            curve["eps"],
            -curve["log10_delta"],
            color=colour,
            marker=marker,
            linestyle=line,
            linewidth=width,
            markersize=6 if bound == "lower" else 4,
            label=label,
            clip_on=False,
        )
    axes.grid(visible=True, axis="y")


def _shade(axes: Axes, rows: pd.DataFrame) -> None:
    """Mark the deltas that the certified curve excludes."""
    upper = rows[rows["bound"] == "upper"].sort_values("eps")
    bottom = axes.get_ylim()[0]
    axes.fill_between(
        upper["eps"], -upper["log10_delta"], bottom, color="0.93", linewidth=0.0, zorder=0
    )
    axes.text(
        0.03,
        0.03,
        "unsafe: claims more privacy than there is",
        transform=axes.transAxes,
        fontsize=7,
        style="italic",
    )


def _delta_axis(axes: Axes, log10_delta: pd.Series) -> None:
    """Label the axis with log10 delta, the smallest delta at the bottom."""
    axes.set_ylim(1.6 * -log10_delta.min(), max(_LEAST, 0.7 * -log10_delta.max()))
    axes.yaxis.set_major_locator(LogLocator())
    clipped = bool((log10_delta == -_LEAST).any())

    def label(digits: float, _: int) -> str:
        or_more = "≥ " if clipped and np.isclose(digits, _LEAST) else ""
        return f"{or_more}−{digits:,.6g}"

    axes.yaxis.set_major_formatter(FuncFormatter(label))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel(r"$\log_{10}\,\delta$ (logarithmic scale)")
