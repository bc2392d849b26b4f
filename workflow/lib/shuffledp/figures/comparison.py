"""The main result: accuracy at equal certified privacy, a column per region."""

from collections.abc import Iterable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from shuffledp.figures.style import (
    FULL_WIDTH,
    Series,
    distance_label,
    legend_marks,
    literal,
    local_style,
    marks,
    new_figure,
    number_label,
    of_series,
    plain_log_axis,
    power,
    series_look,
    series_of,
)
from shuffledp.mechanisms.catalogue import CATALOGUE

Dashes = Mapping[Any, Any]  # eps0 to matplotlib line style

_DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))  # one per eps0
_APART = 0.024  # of n: keeps the range bars of neighbouring series apart
_WIDTH = 4.0  # of the axis of n, largest over smallest, at the least


def draw_comparison(summary: Path, *, target_delta: float) -> Figure:
    """Draw `matched_comparison` from the file of the summary."""
    return matched_comparison(pd.read_csv(summary), target_delta)


@local_style()
def matched_comparison(summary: pd.DataFrame, target_delta: float) -> Figure:
    """Show what each mechanism costs in accuracy at equal privacy, a column per region.

    Parameters
    ----------
    summary
        Columns of `shuffledp.studies.comparison.comparison_summary`.
    target_delta
        The delta all mechanisms have; eps follows from n and eps0.

    Returns
    -------
    Mean distance to the true histogram against n with 10 to 90 % ranges, like with like: raw
    estimates in the first row, distributions in the second. Beneath, the ratio of the means to
    the reference's, with two standard errors on either side.
    """
    regions = list(summary["region"].unique())
    # Two columns fill a page; more make the figure wider, not narrower columns.
    figure = new_figure(6.8, FULL_WIDTH * max(1.0, len(regions) / 2.0))
    panels = figure.subplots(
        3, len(regions), sharex="col", sharey="row", squeeze=False, height_ratios=(1, 1, 0.9)
    )
    dashes = dict(zip(sorted(summary["eps0"].unique()), cycle(_DASHES), strict=False))
    for column, region in zip(panels.T, regions, strict=True):
        _draw_column(column, region, summary[summary["region"] == region], dashes)
    for axes, estimate in zip(panels[:2, 0], ("raw", "projected"), strict=True):
        alike = summary[summary["estimate"] == estimate]
        axes.set_ylabel(distance_label(alike["p90"].max()))
    references = [CATALOGUE[name].label for name in summary["reference"].unique()]
    panels[2, 0].set_ylabel(f"ratio of mean distances\n(above 1: {' or '.join(references)} closer)")
    entries = legend_marks(series_of(summary))
    # A legend fills its columns downwards: an odd mark would part the two commonest budgets.
    blank = [Line2D([], [], linestyle="none", label=" ")] * (len(entries) % 2)
    handles = [*entries, *blank, *_budget_key(dashes)]
    figure.legend(handles=handles, loc="outside lower center", ncols=4)
    units = " or ".join(summary["unit"].unique())
    figure.suptitle(
        "Accuracy of shuffled randomised response and central noise at equal privacy:\n"
        rf"all certified ($\epsilon$, $\delta={power(target_delta)}$)-DP for the replacement of "
        rf"{units}, the same $\epsilon$ at each n and $\epsilon_0$"
    )
    return figure


def _draw_column(column: Iterable[Axes], title: str, rows: pd.DataFrame, dashes: Dashes) -> None:
    """Draw one region: raw distances, distributions' distances, ratios."""
    *above, below = column
    for axes, estimate, words in zip(
        above, ("raw", "projected"), ("raw estimates", "distributions"), strict=True
    ):
        alike = rows[rows["estimate"] == estimate]
        if alike.empty:
            axes.set_axis_off()
            continue
        for series, side in _sides(alike):
            _draw_means(axes, of_series(alike, series), series, side, dashes)
        axes.set_yscale("log")
        axes.margins(y=0.15)  # room for the names of the budgets
        plain_log_axis(axes.yaxis)
        axes.grid(visible=True, axis="y")
        axes.set_title(f"{literal(title)}, {words}", loc="left")
        _name_budgets(axes, alike, eps=estimate == "raw")
    _draw_ratios(below, rows, dashes)
    _widen(below)
    reference = CATALOGUE[rows["reference"].iloc[0]].label
    below.set_title(f"{literal(title)}, others ÷ {reference}", loc="left")
    below.set_xlabel(number_label(rows["unit"].iloc[0]))


def _sides(rows: pd.DataFrame) -> list[tuple[Series, float]]:
    """Every series of some rows with the factor of n that sets it apart from the others."""
    found = series_of(rows)
    return [
        (series, 1.0 + _APART * (place - (len(found) - 1) / 2.0))
        for place, series in enumerate(found)
    ]


def _widen(axes: Axes) -> None:
    """Show the points of a single n, or of a few close ones, as the neighbours they are."""
    low, high = axes.get_xlim()
    wider = np.sqrt(max(1.0, _WIDTH / (high / low)))
    axes.set_xlim(low / wider, high * wider)


def _draw_means(
    axes: Axes, rows: pd.DataFrame, series: Series, side: float, dashes: Dashes
) -> None:
    look = series_look(*series)
    for eps0, line in rows.groupby("eps0"):
        x = line["n"] * side
        axes.vlines(x, line["p10"], line["p90"], color=look.colour, linewidth=0.9)
        axes.plot(
            x,
            line["tv_distance"],
            linestyle=dashes[eps0],
            **marks(look),
            label=f"{' '.join(series)}, eps0={eps0:g}",
        )


def _name_budgets(axes: Axes, rows: pd.DataFrame, *, eps: bool) -> None:
    """Write eps0 above its lines and, if asked, the eps certified at both ends."""
    for eps0, budget in rows.groupby("eps0"):
        text = rf"$\epsilon_0={eps0:g}$"
        certified = budget.groupby("n")["eps"].max().dropna()
        if eps and not certified.empty:
            first, last = f"{certified.iloc[0]:.2g}", f"{certified.iloc[-1]:.2g}"
            text += (
                rf" ($\epsilon={first}$)"
                if first == last
                else rf" ($\epsilon$ from {first} to {last})"
            )
        means = budget.groupby("n")["tv_distance"].max()
        anchor = len(means) // 4
        where = (means.index[anchor], means.iloc[anchor])
        # Words that begin far to the right would leave the panel: they end there.
        right = len(means) > 1 and where[0] ** 2 > 1.0 * means.index[0] * means.index[-1]
        side = "right" if right else "left"
        axes.annotate(text, where, (2, 6), textcoords="offset points", fontsize=7.5, ha=side)


def _draw_ratios(axes: Axes, rows: pd.DataFrame, dashes: Dashes) -> None:
    axes.axhline(1.0, color="black", linewidth=0.8)
    for series, side in _sides(rows[rows["mechanism"] != rows["reference"]]):
        look = series_look(*series)
        for eps0, line in of_series(rows, series).groupby("eps0"):
            x, spread = line["n"] * side, 2.0 * line["standard_error"].fillna(0.0)
            low, high = line["ratio"] - spread, line["ratio"] + spread
            axes.vlines(x, low, high, color=look.colour, linewidth=0.9)
            axes.plot(
                x,
                line["ratio"],
                linestyle=dashes[eps0],
                **marks(look),
                label=f"{' '.join(series)}, eps0={eps0:g}",
            )
    axes.grid(visible=True, axis="y")
    axes.set_xscale("log")
    plain_log_axis(axes.xaxis)


def _budget_key(dashes: Dashes) -> list[Line2D]:
    return [
        Line2D([], [], color="black", linestyle=line, label=rf"$\epsilon_0={eps0:g}$")
        for eps0, line in dashes.items()
    ]
