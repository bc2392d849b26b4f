"""The answer to paper A's question: accuracy at equal certified privacy."""

from collections.abc import Iterable, Mapping
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from shuffledp.figures.selection import calibrated
from shuffledp.figures.style import (
    DISTANCE_LABEL,
    FULL_WIDTH,
    MECHANISMS,
    legend_marks,
    local_style,
    new_figure,
    plain_log_axis,
    power,
)

Dashes = Mapping[Any, Any]  # eps0 to matplotlib line style

_PAIRS = (
    ("raw", "gaussian", "shuffle+INV raw"),
    ("projected", "gaussian projected", "shuffle+INV"),
)
_DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))  # one per eps0
_SIDES = (0.988, 1.012)  # of n: keeps the range bars at the same n apart
_WIDTH = 4.0  # of the axis of n, largest over smallest, at the least


@local_style()
def matched_comparison(
    utility_by_region: Mapping[str, pd.DataFrame], target_delta: float, unit: str
) -> Figure:
    """Show what the shuffle model costs in accuracy at equal privacy, a column per region.

    Parameters
    ----------
    utility_by_region
        Title to a table with the columns of `shuffledp.tables.UTILITY`.
    target_delta
        The delta both mechanisms have; eps follows from n and eps0.
    unit
        What delta protects, in words: ``one check-in``.

    Returns
    -------
    Mean distance to the true histogram against n with 10 to 90 % ranges, like with like: raw
    estimates in the first row, projected ones in the second. Beneath, the ratio of the means,
    shuffle+INV over Gaussian, with two standard errors on either side (`distance_ratio`).

    Raises
    ------
    ValueError
        If a table has no Gaussian at the target delta.
    """
    # Two columns fill a page; more make the figure wider, not narrower columns.
    figure = new_figure(6.6, FULL_WIDTH * max(1.0, len(utility_by_region) / 2.0))
    shape = (3, len(utility_by_region))
    panels = figure.subplots(
        *shape, sharex="col", sharey="row", squeeze=False, height_ratios=(1, 1, 0.9)
    )
    tables = [calibrated(table, "matched", target_delta) for table in utility_by_region.values()]
    budgets = sorted(pd.concat(tables)["eps0"].unique())
    dashes = dict(zip(budgets, cycle(_DASHES), strict=False))
    for column, title, rows in zip(panels.T, utility_by_region, tables, strict=True):
        _draw_column(column, title, rows, dashes)
    for axes in panels[:2, 0]:
        axes.set_ylabel(DISTANCE_LABEL)
    panels[2, 0].set_ylabel("ratio of mean distances\n(above 1: Gaussian closer)")
    figure.legend(handles=_comparison_key(dashes), loc="outside lower center", ncols=4)
    figure.suptitle(
        "Accuracy of shuffled randomised response and the central Gaussian at equal privacy:\n"
        rf"both certified ($\epsilon$, $\delta={power(target_delta)}$)-DP for the replacement of "
        rf"{unit}, the same $\epsilon$ at each n and $\epsilon_0$"
    )
    return figure


def _draw_column(column: Iterable[Axes], title: str, rows: pd.DataFrame, dashes: Dashes) -> None:
    """Draw one region: raw distances, projected ones, ratios."""
    *above, below = column
    for axes, (kind, *mechanisms) in zip(above, _PAIRS, strict=True):
        for mechanism, side in zip(mechanisms, _SIDES, strict=True):
            _draw_means(axes, rows[rows["mechanism"] == mechanism], mechanism, side, dashes)
        axes.set_yscale("log")
        axes.margins(y=0.15)  # room for the names of the budgets
        plain_log_axis(axes.yaxis)
        axes.grid(visible=True, axis="y")
        axes.set_title(f"{title}, {kind} estimates", loc="left")
        _name_budgets(axes, rows[rows["mechanism"].isin(mechanisms)], eps=kind == "raw")
    _draw_ratios(below, rows, dashes)
    _widen(below)
    below.set_title(f"{title}, shuffle+INV ÷ Gaussian", loc="left")
    below.set_xlabel("number of users n (one check-in each)")


def _widen(axes: Axes) -> None:
    """Show the points of a single n, or of a few close ones, as the neighbours they are."""
    low, high = axes.get_xlim()
    wider = np.sqrt(max(1.0, _WIDTH / (high / low)))
    axes.set_xlim(low / wider, high * wider)


def _draw_means(
    axes: Axes, rows: pd.DataFrame, mechanism: str, side: float, dashes: Dashes
) -> None:
    look = MECHANISMS[mechanism]
    for eps0, budget in rows.groupby("eps0"):
        distances = budget.groupby("n")["tv_distance"]
        n, mean = np.array(list(distances.groups)), distances.mean().to_numpy()
        low, high = (distances.quantile(share).to_numpy() for share in (0.1, 0.9))
        x = n * side
        axes.vlines(x, low, high, color=look.colour, linewidth=0.9)
        axes.plot(
            x,
            mean,
            color=look.colour,
            linestyle=dashes[eps0],
            marker=look.marker,
            markerfacecolor=look.face,
            label=f"{mechanism}, eps0={eps0:g}",
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
        means = budget.groupby(["n", "mechanism"])["tv_distance"].mean().groupby("n").max()
        anchor = len(means) // 4
        where = (means.index[anchor], means.iloc[anchor])
        axes.annotate(text, where, (2, 6), textcoords="offset points", fontsize=7.5)


def distance_ratio(rows: pd.DataFrame, numerator: str, denominator: str) -> pd.DataFrame:
    """Ratio of two mechanisms' mean distances and its standard error, by eps0 and n.

    The mechanisms' noise is independent, so the relative variances of the means add.

    Parameters
    ----------
    rows
        Utility rows of one calibration: columns ``eps0, n, mechanism, tv_distance``.
    numerator, denominator
        Mechanisms.

    Returns
    -------
    Columns ``eps0, n, ratio, standard_error``; only where both mechanisms are present. The error
    is NaN for a single repetition.
    """
    by = rows.groupby(["mechanism", "eps0", "n"])["tv_distance"]
    mean, relative = by.mean(), by.sem() / by.mean()
    ratio = mean.loc[numerator] / mean.loc[denominator]
    error = ratio * np.hypot(relative.loc[numerator], relative.loc[denominator])
    table = pd.DataFrame({"ratio": ratio, "standard_error": error})
    return table.dropna(subset="ratio").reset_index()


def _draw_ratios(axes: Axes, rows: pd.DataFrame, dashes: Dashes) -> None:
    axes.axhline(1.0, color="black", linewidth=0.8)
    for (kind, below, above), side in zip(_PAIRS, _SIDES, strict=True):
        ratios = distance_ratio(rows, above, below)
        for eps0, line in ratios.groupby("eps0"):
            x, spread = line["n"] * side, 2.0 * line["standard_error"].fillna(0.0)
            axes.vlines(x, line["ratio"] - spread, line["ratio"] + spread, "black", linewidth=0.9)
            axes.plot(
                x,
                line["ratio"],
                color="black",
                linestyle=dashes[eps0],
                marker="D",
                markersize=3.5,
                markerfacecolor="black" if kind == "raw" else "white",
                label=f"{kind}, eps0={eps0:g}",
            )
    axes.grid(visible=True, axis="y")
    axes.set_xscale("log")
    plain_log_axis(axes.xaxis)


def _comparison_key(dashes: Dashes) -> list[Line2D]:
    """Entries in the order in which a legend's columns fill: down, then across."""
    ratios = [
        Line2D([], [], linestyle="none", marker="D", color="black", mfc=face, label=label)
        for face, label in [("black", "ratio, raw"), ("white", "ratio, projected")]
    ]
    lines = [
        Line2D([], [], color="black", linestyle=line, label=rf"$\epsilon_0={eps0:g}$")
        for eps0, line in dashes.items()
    ]
    marks = legend_marks(["gaussian", "gaussian projected", "shuffle+INV raw", "shuffle+INV"])
    return [*marks, *ratios, *lines]


def comparison_summary(
    utility_by_region: Mapping[str, pd.DataFrame], target_delta: float
) -> pd.DataFrame:
    """Tabulate what `matched_comparison` shows.

    Returns
    -------
    Columns ``region, estimate, eps0, n, eps, gaussian, shuffle_inv, ratio, standard_error``:
    mean total variation distances and their ratio, at the eps where both models have the target
    delta.
    """
    parts = []
    for region, table in utility_by_region.items():
        rows = calibrated(table, "matched", target_delta)
        eps = rows.dropna(subset="eps").groupby(["eps0", "n"])["eps"].first()
        for estimate, gaussian, shuffled in _PAIRS:
            means = rows.groupby(["mechanism", "eps0", "n"])["tv_distance"].mean()
            part = distance_ratio(rows, shuffled, gaussian).set_index(["eps0", "n"])
            part.insert(0, "eps", eps)
            part.insert(1, "gaussian", means.loc[gaussian])
            part.insert(2, "shuffle_inv", means.loc[shuffled])
            part.insert(0, "estimate", estimate)
            part.insert(0, "region", region)
            parts.append(part.reset_index())
    order = ["region", "estimate", "eps0", "n", "eps", "gaussian", "shuffle_inv"]
    return pd.concat(parts, ignore_index=True)[[*order, "ratio", "standard_error"]]
