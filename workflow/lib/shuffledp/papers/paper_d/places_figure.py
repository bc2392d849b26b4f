"""Histograms of a place whose users have personal budgets, beside others at equal privacy."""

from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from types import MappingProxyType
from typing import Final, Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from shuffledp.figures.style import (
    DISTANCE_LABEL,
    count_units,
    escape_math,
    local_style,
    marker_style,
    new_figure,
    plain_log_axis,
    power,
)
from shuffledp.mechanisms.catalogue import Look

# Series of `shuffledp.papers.paper_d.places`; colours as in `personalised`.
_METHODS: Final[Mapping[str, tuple[str, Look]]] = MappingProxyType(
    {
        "by-precision": (
            "reports state their budget; groups weighted by precision "
            "(biased if cells depend on budgets)",
            Look("#D55E00", "^"),
        ),
        "by-share": (
            "reports state their budget; groups weighted by share (unbiased for all data)",
            Look("#009E73", "s"),
        ),
        "together": (
            "reports shuffled together (biased if cells depend on budgets)",
            Look("#0072B2", "o"),
        ),
        "without-conservative": (
            "the same, without the users of the smallest budget",
            Look("#CC79A7", "D", filled=False),
        ),
    }
)
# Label of `by-share` if some users have budget 0, whose reports carry no information.
_BY_SHARE_OF_OTHERS: Final = (
    "reports state their budget; groups weighted by share (unbiased except for users of budget 0)"
)
_REFERENCES: Final[Mapping[str, tuple[str, str, Literal["-", "--"]]]] = MappingProxyType(
    {
        "krr": ("all users at one budget (left end: at the smallest)", "#000000", "-"),
        "gaussian": ("Gaussian noise by a curator", "#777777", "--"),
    }
)
_PLACEMENTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "as-chosen": "budgets as chosen",
        "at-random": "budgets at random",
        "from-south": "budgets grow from south to north",
    }
)
_TITLE_COLUMNS: Final = 100  # characters in a line
_ESTIMATES: Final[Mapping[str, str]] = MappingProxyType(
    {"raw": "raw estimates", "projected": "distributions"}
)


def draw_places(table: Path, *, title: str, unit: str) -> Figure:
    """Draw `place_panels` from a CSV file of its table; parameters as there."""
    return place_panels(pd.read_csv(table), title, unit)


@local_style()
def place_panels(table: pd.DataFrame, title: str, unit: str) -> Figure:
    """Draw the total variation distance against the certified eps.

    Parameters
    ----------
    table
        Columns of `shuffledp.papers.paper_d.places.COLUMNS`.
    title
        Name of the region.
    unit
        Unit of the guarantee: ``one check-in`` or ``one user``.

    Returns
    -------
    Columns of panels differ in who has which budget; rows are raw estimates and distributions.
    Markers are means with quartiles. Lines are mechanisms with the same certified eps.
    """
    figure = new_figure(6.4)
    panels = figure.subplots(2, 2, sharex=True, sharey="row")
    shown = [name for name in _PLACEMENTS if name in set(table["placement"])]
    for row, (estimator, kind) in zip(panels, _ESTIMATES.items(), strict=True):
        alike = table[table["estimator"] == estimator]
        for axes, placement in zip(row, shown, strict=True):
            _draw_references(axes, alike)
            _draw_methods(axes, alike[alike["placement"] == placement])
            axes.set_title(f"{kind}, {_PLACEMENTS[placement]}", loc="left")
            axes.grid(visible=True, axis="both")
        row[0].set_ylabel(DISTANCE_LABEL)
    for axes in panels.flat:
        axes.set(xscale="log", yscale="log")
        axes.margins(0.08)
        plain_log_axis(axes.xaxis)
        plain_log_axis(axes.yaxis)
    first = table.iloc[0]
    for axes in panels[-1]:
        axes.set_xlabel(rf"certified $\epsilon$ of all users, $\delta={power(first['delta'])}$")
    figure.legend(handles=_legend(table), loc="outside lower left", ncols=1)
    budgets = f"(shares and budgets: {first['budgets']})"
    figure.suptitle(
        f"{escape_math(title)}: {count_units(first['n'], unit)} in k={first['k']} cells, "
        f"with personal budgets\n{fill(budgets, _TITLE_COLUMNS)}"
    )
    return figure


def _draw_references(axes: Axes, rows: pd.DataFrame) -> None:
    for name, (_, colour, line) in _REFERENCES.items():
        own = rows[rows["series"] == name].sort_values("eps_upper")
        x, y = own["eps_upper"], own["tv_distance"]
        axes.plot(x, y, color=colour, linestyle=line, linewidth=1.0, marker=".")


def _draw_methods(axes: Axes, rows: pd.DataFrame) -> None:
    for name, (_, look) in _METHODS.items():
        own = rows[rows["series"] == name]
        axes.vlines(own["eps_upper"], own["p25"], own["p75"], color=look.colour, linewidth=0.9)
        axes.plot(own["eps_upper"], own["tv_distance"], linestyle="none", **marker_style(look))


def _legend(table: pd.DataFrame) -> list[Line2D]:
    names = set(table["series"])
    labels = {name: label for name, (label, _) in _METHODS.items()}
    if table.loc[table["series"] == "by-share", "bias"].max() > 0.0:
        labels["by-share"] = _BY_SHARE_OF_OTHERS
    methods = [
        Line2D([], [], linestyle="none", **marker_style(look), label=labels[name])
        for name, (_, look) in _METHODS.items()
        if name in names
    ]
    lines = [
        Line2D([], [], color=colour, linestyle=line, linewidth=1.0, marker=".", label=label)
        for name, (label, colour, line) in _REFERENCES.items()
        if name in names
    ]
    return methods + lines
