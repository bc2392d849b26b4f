"""Delta against eps by every configured bound."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from shuffledp.accounting.registry import BOUNDS
from shuffledp.errors import InputError
from shuffledp.figures.style import local_style, new_figure, plain_log_axis
from shuffledp.tables import read_tables

_Line = Literal["-", "--", "-.", ":"]


@dataclass(frozen=True)
class _Look:
    """How bounds of a kind are drawn: colours (Okabe and Ito) in turn, and one line."""

    words: str
    colours: tuple[str, ...]
    line: _Line
    width: float


_KINDS: Final[Mapping[str, _Look]] = MappingProxyType(
    {
        "upper": _Look("certified, a DP guarantee", ("#000000", "#009E73"), "-", 1.8),
        "exact": _Look("exact, a DP guarantee", ("#332288",), "-", 1.2),
        "lower": _Look("lower bound, no guarantee", ("#56B4E9", "#0072B2", "#88CCEE"), "--", 1.0),
        "approximate": _Look("approximate, no guarantee", ("#E69F00", "#CC79A7"), "-.", 1.0),
        "as printed": _Look("misprint, no guarantee", ("#D55E00",), ":", 1.0),
    }
)
_MARKERS: Final = ("o", "x", "s", "^", "D", "v", "P")
_LEAST = 0.1  # of log10 1/delta: larger deltas, above 10^-0.1 = 0.79, lie on the upper edge


def draw_privacy(privacy: Path, *, title: str) -> Figure:
    """Draw `delta_curves` at the largest n from the file of the deltas."""
    table = read_tables([privacy])
    return delta_curves(table, title, int(table["n"].max()))


@local_style()
def delta_curves(privacy: pd.DataFrame, title: str, n: int) -> Figure:
    """Delta against eps for one number of users, a panel per eps0, both axes logarithmic.

    The vertical axis is the logarithm of log10(1/delta), downwards, so that 10^-1 and
    10^-100,000 both fit. Below the largest lower bound it is shaded: a delta there claims
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
    InputError
        If the table has no delta above 0 for n.
    """
    rows = privacy[(privacy["n"] == n) & np.isfinite(privacy["log10_delta"])]
    rows = rows.assign(log10_delta=rows["log10_delta"].clip(upper=-_LEAST))
    if rows.empty:
        raise InputError(f"n must be one of the table's, {sorted(set(privacy['n']))} (got {n})")
    budgets = sorted(rows["eps0"].unique())
    figure = new_figure(4.1)
    panels = np.atleast_1d(figure.subplots(1, len(budgets), sharex=True, sharey=True))
    styles = _styles(rows["bound"].unique())
    for axes, eps0 in zip(panels, budgets, strict=True):
        _draw_bounds(axes, rows[rows["eps0"] == eps0], styles)
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


def _styles(bounds: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Line properties by the name of the bound."""
    colours = {kind: cycle(look.colours) for kind, look in _KINDS.items()}
    styles = {}
    for name, marker in zip(bounds, cycle(_MARKERS), strict=False):
        kind = BOUNDS[name].kind
        look = _KINDS[kind]
        styles[name] = {
            "color": next(colours[kind]),
            "marker": marker,
            "markersize": 6 if marker == "x" else 4,
            "linestyle": look.line,
            "linewidth": look.width,
            "label": f"{name}: {look.words}",
        }
    return styles


def _draw_bounds(axes: Axes, rows: pd.DataFrame, styles: Mapping[str, dict[str, Any]]) -> None:
    for name, style in styles.items():
        curve = rows[rows["bound"] == name].sort_values("eps")
        axes.plot(curve["eps"], -curve["log10_delta"], clip_on=False, **style)
    axes.grid(visible=True, axis="y")


def _shade(axes: Axes, rows: pd.DataFrame) -> None:
    """Mark the deltas below what some data set attains."""
    attained = rows[[BOUNDS[name].kind == "lower" for name in rows["bound"]]]
    if attained.empty:
        return
    largest = attained.groupby("eps")["log10_delta"].max()
    bottom = axes.get_ylim()[0]
    axes.fill_between(largest.index, -largest, bottom, color="0.93", linewidth=0.0, zorder=0)
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
