"""How many people a collection needs: certified eps against their number."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shuffledp.figures.style import (
    budget_looks,
    counted,
    literal,
    local_style,
    new_figure,
    number_label,
    plain_log_axis,
    plural,
    power,
)
from shuffledp.pipeline.tables import read_counts, read_tables

_MOST_WRITTEN: Final = 3  # curves; the numbers on more would be in each other's way
_MILLION: Final = 1_000_000


def draw_sizes(sizes: Path, cells: Path, *, title: str, unit: str) -> Figure:
    """Draw `users_needed` from the files of the table and of the grid.

    Parameters
    ----------
    sizes, cells
        Tables of the sizes that are needed, and of the grid's counts.
    title
        Of the figure: the place, as a rule.
    unit
        What a record is: `check-in` or `user`.
    """
    total = int(read_counts(cells).sum())
    return users_needed(read_tables([sizes]), total, title, unit)


@local_style()
def users_needed(table: pd.DataFrame, total: int, title: str, unit: str) -> Figure:
    """Certified eps over the number of people, a curve for each eps0.

    Parameters
    ----------
    table
        Columns of `pipeline.tables.PRIVACY` as of `shuffledp.studies.sizes.sizes_table`, of one
        k and delta.
    total
        How many there are in the region, to be marked.
    title
        Names the region.
    unit
        What delta protects and n counts, ``one check-in`` or ``one user``.

    Returns
    -------
    Steps: what is certified for n people holds for more. Bars go down to the lower ends; marks are
    at the eps asked, with the number of people. A dotted line is eps0: what one has alone.
    """
    figure = new_figure(3.6)
    axes = figure.subplots()
    drawn = table[table["eps"] > 0.0]
    looks = budget_looks(table["eps0"])
    for eps0, look in looks.items():
        rows = drawn[drawn["eps0"] == eps0].sort_values("n")
        _draw_budget(axes, rows, look, written=len(looks) <= _MOST_WRITTEN)
    axes.set(xscale="log", yscale="log", xlabel=number_label(unit))
    axes.set_ylabel(r"certified $\epsilon$")
    axes.margins(y=0.08)
    low, high = min(table["n"].min(), total), max(table["n"].max(), total)
    axes.set_xlim(low / 2.0, high * 2.0)
    _draw_budgets(axes, looks)
    plain_log_axis(axes.xaxis)
    plain_log_axis(axes.yaxis)
    axes.grid(visible=True, axis="both")
    _mark_total(axes, total, unit)
    k, delta = table["k"].iloc[0], table["delta"].iloc[0]
    figure.suptitle(
        f"How many {plural(unit)} are needed? {literal(title)}, k = {k} cells, "
        rf"replacement of one report"
        "\n"
        rf"$\epsilon$ certified at $\delta={power(delta)}${_gap_words(drawn)}"
    )
    return figure


def _draw_budget(axes: Axes, rows: pd.DataFrame, look: dict[str, Any], *, written: bool) -> None:
    upper = rows[rows["bound"] == "upper"].drop_duplicates("n")
    both = upper.merge(rows[rows["bound"] == "lower"], on="n", suffixes=("", "_lower"))
    colour = look["color"]
    # Eps does not grow with n: what is certified for n people holds for more.
    axes.step(upper["n"], upper["eps"], where="post", color=colour)
    axes.vlines(both["n"], both["eps_lower"], both["eps"], color=colour, alpha=0.5)
    asked = upper[~upper["n"].isin(both["n"])]  # the other end is that of given n
    axes.plot(asked["n"], asked["eps"], linestyle="none", **look)
    for n, eps in asked[["n", "eps"]].itertuples(index=False, name=None) if written else ():
        axes.annotate(
            _count_words(n), (n, eps), (5, 2), textcoords="offset points", fontsize=7, color="0.15"
        )


def _count_words(n: int) -> str:
    """A number of people, of millions rounded up: never fewer than are needed."""
    return f"{n:,}" if n < _MILLION else f"{np.ceil(10.0 * n / _MILLION) / 10.0:,g} million"


def _draw_budgets(axes: Axes, looks: dict[float, dict[str, Any]]) -> None:
    """The level of every eps0, named: where a curve starts."""
    for eps0, look in looks.items():
        axes.axhline(eps0, color=look["color"], linestyle=":", linewidth=0.9)
        axes.annotate(
            rf"$\epsilon_0={eps0:g}$, without a crowd",
            (1.0, eps0),
            (-2, 2),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            ha="right",
            fontsize=7,
        )


def _mark_total(axes: Axes, total: int, unit: str) -> None:
    axes.axvline(total, color="0.4", linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    axes.annotate(
        f"all {counted(total, unit)}",
        (total, 1.0),
        (0, 2),
        xycoords=axes.get_xaxis_transform(),
        textcoords="offset points",
        ha="center",
        fontsize=7,
    )


def _gap_words(drawn: pd.DataFrame) -> str:
    """Say how far apart the two certified ends are: mostly less than a line's width."""
    ends = drawn.pivot_table(index=["eps0", "n"], columns="bound", values="eps").dropna()
    if ends.empty:
        return ""
    gap = float((1.0 - ends["lower"] / ends["upper"]).max())
    percent = max(np.ceil(1e3 * gap) / 10.0, 0.1)
    return f"; at a corner the true one is at most {percent:.1f} % smaller"
