"""Paper D's figures 5 to 8, and its estimators where budgets and records depend on each other."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from shuffledp.figures.style import face, local_style, new_figure, plain_log_axis
from shuffledp.mechanisms.protocol import Look

# By the names of `shuffledp.studies.personalised.estimates`.
_LOOKS: Final[Mapping[str, tuple[str, Look]]] = MappingProxyType(
    {
        "as-published": ("Chen et al., reports shuffled together", Look("#0072B2", "o")),
        "by-share": (
            "by group, weighted by share (reports tell their budget): unbiased whatever the data",
            Look("#009E73", "s"),
        ),
        "by-precision": (
            "by group, by precision (reports tell their budget): biased if records depend on it",
            Look("#D55E00", "^"),
        ),
        "smallest-budget": (
            "all at the conservative users' budget",
            Look("#777777", "v", filled=False),
        ),
        "without-conservative": (
            "conservative users left out",
            Look("#CC79A7", "D", filled=False),
        ),
    }
)
_X: Final[Mapping[str, str]] = MappingProxyType(
    {
        "share": "share of conservative users $f_C$",
        "budget": r"budget of conservative users $\epsilon_C$",
        "density": "share of ones among conservative users",
        "shift": "conservative users' mean less that of all",
    }
)
_QUANTITY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "share": "estimate",
        "budget": "estimate",
        "density": "estimated share of ones",
        "shift": "estimated mean",
    }
)
_APART: Final = 0.008  # of the axis: ranges of neighbouring series stay visible


def draw_estimates(estimates: Path, *, title: str) -> Figure:
    """Draw `estimate_panels` from the file of the estimates."""
    return estimate_panels(pd.read_csv(estimates), title)


@local_style()
def estimate_panels(table: pd.DataFrame, title: str) -> Figure:
    """Estimates with their range, and their error, along each sweep of a figure.

    Parameters
    ----------
    table
        Columns of `shuffledp.studies.personalised.estimates.COLUMNS`, of one figure.
    title
        Above the panels.

    Returns
    -------
    For each sweep means of the estimates with 5 to 95 % ranges about the truth (a grey line), and
    the root mean square error: marks as measured, lines as the closed forms have it.
    """
    sweeps = list(table["varied"].unique())
    names = [name for name in _LOOKS if name in set(table["estimator"])]
    wide = len(sweeps) == 1
    figure = new_figure((2.9 if wide else 5.2) + 0.16 * len(names))
    panels = figure.subplots(1 if wide else 2, 2, squeeze=False)
    pairs = [panels[0]] if wide else list(panels.T)
    for (upper, lower), varied in zip(pairs, sweeps, strict=True):
        rows = table[table["varied"] == varied]
        _draw_estimates(upper, rows, names)
        _draw_errors(lower, rows, names)
        for axes in (upper, lower):
            axes.set_xlabel(_X[varied])
            axes.grid(visible=True, axis="both")
        upper.set_ylabel(_QUANTITY[varied])
        lower.set_ylabel("root mean square error")
        lower.set_yscale("log")
        lower.margins(y=0.1)
        plain_log_axis(lower.yaxis)
    figure.legend(handles=[_handle(name) for name in names], loc="outside lower left", ncols=1)
    figure.suptitle(title)
    return figure


def _draw_estimates(axes: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    width = rows["value"].max() - rows["value"].min()
    truth = rows.groupby("value")["truth"].mean()
    axes.plot(truth.index, truth, color="0.6", linewidth=2.5, zorder=1)
    for place, name in enumerate(names):
        _, look = _LOOKS[name]
        own = rows[rows["estimator"] == name]
        at = own["value"] + _APART * width * (place - (len(names) - 1) / 2.0)
        axes.vlines(at, own["p05"], own["p95"], color=look.colour, linewidth=0.9)
        axes.plot(
            at,
            own["mean"],
            linestyle="none",
            marker=look.marker,
            markersize=3.0,
            color=look.colour,
            markerfacecolor=face(look),
        )


def _draw_errors(axes: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    for name in names:
        _, look = _LOOKS[name]
        own = rows[rows["estimator"] == name]
        measured = np.hypot(own["mean"] - own["truth"], own["deviation"])
        expected = np.hypot(own["expected_bias"], own["expected_deviation"])
        axes.plot(own["value"], expected, color=look.colour, linewidth=0.9)
        axes.plot(
            own["value"],
            measured,
            linestyle="none",
            marker=look.marker,
            markersize=3.5,
            color=look.colour,
            markerfacecolor=face(look),
        )


def _handle(name: str) -> Line2D:
    label, look = _LOOKS[name]
    return Line2D(
        [],
        [],
        color=look.colour,
        linewidth=0.9,
        marker=look.marker,
        markerfacecolor=face(look),
        label=label,
    )
