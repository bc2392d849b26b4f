"""Unit check-in against unit user: the privacy of a person who has several check-ins."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from shuffledp.figures.bounds import Line
from shuffledp.figures.style import (
    budget_looks,
    literal,
    local_style,
    new_figure,
    plain_log_axis,
    power,
)
from shuffledp.pipeline.tables import read_tables

# By unit: all check-ins are collected, or one of each user.
_LINES: Final[dict[str, Line]] = {"checkin": "-", "user": "--"}

_LEFT: Final = 0.85  # check-ins
_MOST: Final = 25.0  # eps; beyond, nothing is hidden


def draw_units(privacy: Path, users: Path, *, title: str) -> Figure:
    """Draw `units_privacy` from the files of its two tables.

    Parameters
    ----------
    privacy, users
        Tables of the privacy by unit, and of the users' numbers of records.
    title
        Of the figure: the place, as a rule.
    """
    return units_privacy(read_tables([privacy]), pd.read_csv(users), title)


@local_style()
def units_privacy(table: pd.DataFrame, users: pd.DataFrame, title: str) -> Figure:
    """Eps of a person over the number of check-ins that the person has, a colour for each eps0.

    Parameters
    ----------
    table
        Columns of `pipeline.tables.UNITS`, of one k and delta.
    users
        Columns ``checkins`` and ``users``; empty if users are not known.
    title
        Names the region.

    Returns
    -------
    Solid lines where all check-ins are collected, dashed ones where each user gives one. Beneath,
    the share of users who have so many check-ins or more, if it is known. Between two computed
    numbers of check-ins a line has the eps of the larger: it is never below what is certified.
    """
    known = not users.empty
    figure = new_figure(4.6 if known else 3.4)
    shares = [2.2, 1.0] if known else [1.0]
    upper, *rest = np.atleast_1d(figure.subplots(len(shares), 1, sharex=True, height_ratios=shares))
    looks = budget_looks(table["eps0"])
    for eps0, look in looks.items():
        _draw_budget(upper, table[table["eps0"] == eps0], look, known=known)
    most = max(table["checkins"].max(), users["checkins"].max() if known else 1)
    upper.set(xscale="log", yscale="log", ylabel=r"certified $\epsilon$ of a person")
    upper.set_xlim(_LEFT, 1.15 * most)
    upper.set_ylim(top=_MOST)
    plain_log_axis(upper.yaxis)
    upper.grid(visible=True, axis="both")
    for axes in rest:
        _draw_users(axes, users)
    last = [upper, *rest][-1]
    last.set_xlabel("check-ins of a person")
    plain_log_axis(last.xaxis)
    figure.legend(handles=_key(looks, known=known), loc="outside lower center", ncols=2)
    figure.suptitle(f"{literal(title)}: one check-in or one user? {_counts(table, users)}")
    return figure


def _draw_budget(axes: Axes, rows: pd.DataFrame, look: dict[str, Any], *, known: bool) -> None:
    colour, marker = look["color"], look["marker"]
    for unit, line in _LINES.items():
        of_unit = rows[rows["unit"] == unit]
        if known and unit == "user":  # whatever the person has
            axes.axhline(of_unit["eps"].iloc[0], color=colour, linestyle=line)
        else:
            # More check-ins never have less eps: between two numbers the larger one's holds.
            axes.plot(
                of_unit["checkins"],
                of_unit["eps"],
                drawstyle="steps-pre",
                color=colour,
                linestyle=line,
                marker=marker,
                markersize=3,
            )


def _draw_users(axes: Axes, users: pd.DataFrame) -> None:
    """The share of users with so many check-ins or more."""
    ordered = users.sort_values("checkins")
    or_more = ordered["users"][::-1].cumsum()[::-1] / ordered["users"].sum()
    checkins = np.append(_LEFT, ordered["checkins"])  # everybody has more than the axis begins with
    shares = np.append(1.0, or_more)
    axes.step(checkins, shares, where="pre", color="0.25")
    axes.fill_between(checkins, shares, step="pre", color="0.85", linewidth=0.0)
    axes.set(ylim=(0.0, 1.05), ylabel="users with so\nmany or more")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    axes.grid(visible=True, axis="both")


def _key(looks: dict[float, dict[str, Any]], *, known: bool) -> list[Line2D]:
    assumed = "" if known else ", if everybody has so many"
    words = {
        "checkin": "all check-ins are collected",
        "user": f"each user gives one check-in{assumed}",
    }
    units = [
        Line2D([], [], color="0.25", linestyle=_LINES[unit], label=label)
        for unit, label in words.items()
    ]
    budgets = [
        Line2D([], [], linestyle="none", label=rf"$\epsilon_0={eps0:g}$", **look)
        for eps0, look in looks.items()
    ]
    return [*units, *budgets]


def _counts(table: pd.DataFrame, users: pd.DataFrame) -> str:
    """How many check-ins there are of how many users, and at which delta and k."""
    row = table[table["unit"] == "checkin"].iloc[0]
    setting = rf"k = {row['k']} cells, $\delta={power(row['delta'])}$"
    if users.empty:
        return f"{row['n']:,} check-ins, {setting}\n(the data do not say whose they are)"
    every = np.repeat(users["checkins"], users["users"])
    unnamed = row["n"] - every.sum()
    more = f" and {unnamed:,} of nobody known" if unnamed else ""
    return (
        f"{every.sum():,} check-ins of {every.size:,} users{more}\n{setting}; the median user has "
        f"{np.median(every):g}, the busiest {every.max():,}"
    )
