"""What longer envelopes buy: the error of signed dummies beside that of all other mechanisms."""

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from shuffledp.figures.style import (
    counted,
    local_style,
    marks,
    new_figure,
    plural,
    power,
)
from shuffledp.mechanisms.catalogue import CATALOGUE, UNBIASED
from shuffledp.pipeline.selection import at_targets

_SIGNED = "signed-dummies"
_MARGIN = 1.08  # of slots or messages, on either side


def draw_slots(slots: Path, summary: Path) -> Figure:
    """Draw `slots_errors` from the files of the table and of the summary.

    Parameters
    ----------
    slots
        Table of `shuffledp.studies.slots`.
    summary
        Errors of all mechanisms.
    """
    return slots_errors(pd.read_csv(slots), at_targets(pd.read_csv(summary)))


@local_style()
def slots_errors(table: pd.DataFrame, summary: pd.DataFrame) -> Figure:
    """Error of a cell against the length of an envelope, and against the messages in it.

    Parameters
    ----------
    table
        Of `shuffledp.studies.slots.slots_table`.
    summary
        Rows of `shuffledp.pipeline.selection.at_targets`, of one region.

    Returns
    -------
    A row for each eps. Mechanisms without envelopes are level lines, at the same n.
    """
    n, unit = int(table["n"].iloc[0]), summary["unit"].iloc[0]
    others = summary[
        (summary["n"] == n)
        & (summary["estimator"] == UNBIASED)
        & (summary["mechanism"] != _SIGNED)
        & summary["reason"].isna()
    ]
    budgets = sorted(table["eps"].unique(), reverse=True)
    figure = new_figure(1.2 + 2.3 * len(budgets))
    panels = figure.subplots(len(budgets), 2, sharex="col", sharey="row", squeeze=False)
    for row, eps in zip(panels, budgets, strict=True):
        signed, level = table[table["eps"] == eps], others[others["eps"] == eps]
        for axes, x in zip(row, ("slots", "messages"), strict=True):
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlim(table[x].min() / _MARGIN, table[x].max() * _MARGIN)
            look = CATALOGUE[_SIGNED].estimators[0].look
            axes.plot(signed[x], signed["cell_error"], **marks(look))
            _draw_level(axes, level)
            axes.set_title(rf"$\epsilon={eps:g}$", loc="left")
            axes.grid(visible=True, axis="y")
        row[0].set_ylabel(f"error of a cell, {plural(unit)}\n(root mean square)")
        _name_values(row[0].yaxis)
    panels[-1, 0].set_xlabel("messages of an envelope, blanks included")
    panels[-1, 1].set_xlabel("mean messages a user, blanks not counted")
    for axes in panels[-1]:
        _name_values(axes.xaxis)
    figure.legend(handles=_key(others), loc="outside lower left", ncols=3)
    region, delta = summary["region"].iloc[0], table["delta"].iloc[0]
    figure.suptitle(
        f"{region}, {counted(n, unit)}: signed dummies in envelopes of any length, and other "
        rf"mechanisms, at $\delta={power(delta)}$"
    )
    return figure


def _name_values(axis: Axis) -> None:
    """Where an axis has hardly a decade, names at more than 1, 2 and 5."""
    axis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.3g}"))
    axis.set_minor_locator(NullLocator())


def _draw_level(axes: Axes, rows: pd.DataFrame) -> None:
    """A line for each mechanism, its marks at places of their own."""
    for place, row in enumerate(rows.to_dict("records")):
        look = CATALOGUE[row["mechanism"]].estimators[0].look
        axes.axhline(row["expected_cell_error"], color=look.colour, linewidth=0.8)
        axes.plot(
            [(place + 0.5) / len(rows)],
            [row["expected_cell_error"]],
            transform=axes.get_yaxis_transform(),
            linestyle="none",
            **marks(look),
        )


def _key(others: pd.DataFrame) -> list[Line2D]:
    """Signed dummies, then the others, the most accurate first."""
    ordered = others.sort_values("expected_cell_error")["mechanism"]
    entries = [CATALOGUE[name] for name in [_SIGNED, *dict.fromkeys(ordered)]]
    return [
        Line2D([], [], linewidth=0.8, **marks(each.estimators[0].look), label=each.label)
        for each in entries
    ]
