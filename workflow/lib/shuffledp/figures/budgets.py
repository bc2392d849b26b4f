"""Histograms of a place from users with budgets of their own, beside others at equal privacy."""

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
    counted,
    literal,
    local_style,
    marks,
    new_figure,
    plain_log_axis,
    power,
)
from shuffledp.mechanisms.catalogue import Look

# By the names of `shuffledp.personalised.studies.histograms`; colours as in `personalised`.
_WAYS: Final[Mapping[str, tuple[str, Look]]] = MappingProxyType(
    {
        "by-precision": (
            "reports tell their budget: by group, by precision (biased if cells depend on it)",
            Look("#D55E00", "^"),
        ),
        "by-share": (
            "reports tell their budget: by group, by share (unbiased whatever the data)",
            Look("#009E73", "s"),
        ),
        "together": (
            "reports shuffled together (biased if cells depend on budgets)",
            Look("#0072B2", "o"),
        ),
        "without-conservative": (
            "the same, users of the smallest budget left out",
            Look("#CC79A7", "D", filled=False),
        ),
    }
)
# In place of its own words if users of budget 0 report: nothing is known of these.
_BY_SHARE_OF_OTHERS: Final = (
    "reports tell their budget: by group, by share (unbiased, but for users of budget 0)"
)
_REFERENCES: Final[Mapping[str, tuple[str, str, Literal["-", "--"]]]] = MappingProxyType(
    {
        "krr": ("everyone at one budget (left end: at the smallest)", "#000000", "-"),
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
_WIDEST: Final = 100  # characters of a line of the title
_ESTIMATES: Final[Mapping[str, str]] = MappingProxyType(
    {"raw": "raw estimates", "projected": "distributions"}
)


def draw_places(table: Path, *, title: str, unit: str) -> Figure:
    """Draw `place_panels` from the file of the table.

    Parameters
    ----------
    table
        CSV of the budgets by place.
    title
        Of the figure: the place, as a rule.
    unit
        What a record is: `check-in` or `user`.
    """
    return place_panels(pd.read_csv(table), title, unit)


@local_style()
def place_panels(table: pd.DataFrame, title: str, unit: str) -> Figure:
    """Total variation distance against the certified eps.

    Parameters
    ----------
    table
        Columns of `shuffledp.personalised.studies.histograms.COLUMNS`.
    title
        Of the region.
    unit
        What delta protects, in words: ``one check-in``.

    Returns
    -------
    Columns of panels: who has which budget. Rows: raw estimates, and distributions. Marks are means
    with quartiles. Lines are of what has the same certified eps as each of them.
    """
    figure = new_figure(6.4)
    panels = figure.subplots(2, 2, sharex=True, sharey="row")
    shown = [name for name in _PLACEMENTS if name in set(table["placement"])]
    for row, (estimator, kind) in zip(panels, _ESTIMATES.items(), strict=True):
        alike = table[table["estimator"] == estimator]
        for axes, placement in zip(row, shown, strict=True):
            _draw_references(axes, alike)
            _draw_ways(axes, alike[alike["placement"] == placement])
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
    figure.legend(handles=_key(table), loc="outside lower left", ncols=1)
    budgets = f"(shares and budgets: {first['budgets']})"
    figure.suptitle(
        f"{literal(title)}: {counted(first['n'], unit)} in k={first['k']} cells, "
        f"with budgets of their own\n{fill(budgets, _WIDEST)}"
    )
    return figure


def _draw_references(axes: Axes, rows: pd.DataFrame) -> None:
    for name, (_, colour, line) in _REFERENCES.items():
        own = rows[rows["series"] == name].sort_values("eps_upper")
        x, y = own["eps_upper"], own["tv_distance"]
        axes.plot(x, y, color=colour, linestyle=line, linewidth=1.0, marker=".")


def _draw_ways(axes: Axes, rows: pd.DataFrame) -> None:
    for name, (_, look) in _WAYS.items():
        own = rows[rows["series"] == name]
        axes.vlines(own["eps_upper"], own["p25"], own["p75"], color=look.colour, linewidth=0.9)
        axes.plot(
            own["eps_upper"],
            own["tv_distance"],
            linestyle="none",
            **marks(look),
        )


def _key(table: pd.DataFrame) -> list[Line2D]:
    names = set(table["series"])
    labels = {name: label for name, (label, _) in _WAYS.items()}
    if table.loc[table["series"] == "by-share", "bias"].max() > 0.0:
        labels["by-share"] = _BY_SHARE_OF_OTHERS
    ways = [
        Line2D(
            [],
            [],
            linestyle="none",
            **marks(look),
            label=labels[name],
        )
        for name, (_, look) in _WAYS.items()
        if name in names
    ]
    lines = [
        Line2D([], [], color=colour, linestyle=line, linewidth=1.0, marker=".", label=label)
        for name, (label, colour, line) in _REFERENCES.items()
        if name in names
    ]
    return ways + lines
