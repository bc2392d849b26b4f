"""Which mechanism to use: errors when every one calibrates itself to the same target."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.figures.style import (
    Series,
    counted,
    distance_label,
    literal,
    local_style,
    marks,
    new_figure,
    number_label,
    of_series,
    plain_log_axis,
    plural,
    power,
    series_look,
    series_of,
)
from shuffledp.mechanisms.catalogue import CATALOGUE
from shuffledp.pipeline.selection import at_targets

# Of each row: the estimator, what is measured and what is expected, the label of the axis (a
# distance's own where there is none).
_ROWS: Final = (
    ("raw", "cell_error", "cell_error_", "error of a cell, {units}\n(root mean square)"),
    ("raw", "tv_distance", "", ""),
    ("projected", "tv_distance", "", ""),
)
_WORDS: Final = {"raw": "unbiased estimates", "projected": "distributions"}
_APART = 0.012  # of eps or n: marks of mechanisms that are equally accurate stay visible
_NAME: Final = 0.024  # of an axis: a character of a name
_MARGIN = 1.25  # of eps or n, on either side
_LETTERS = 118  # in a line of the key
_LINE = 0.16  # inches


def draw_mechanisms(summary: Path) -> Figure:
    """Draw `mechanism_errors` from the file of the summary.

    Raises
    ------
    InputError
        If the run has no targets.
    """
    rows = at_targets(pd.read_csv(summary))
    if rows.empty:
        raise InputError(
            "targets: mechanisms are compared at targets, and there are none; give their eps and "
            "delta (config/README.md)"
        )
    return mechanism_errors(rows)


@local_style()
def mechanism_errors(summary: pd.DataFrame) -> Figure:
    """Errors of all mechanisms at equal certified privacy, against eps and against n.

    Parameters
    ----------
    summary
        Rows of `shuffledp.pipeline.selection.at_targets`, of one region.

    Returns
    -------
    Against eps at the largest n on the left, against n at the largest eps on the right. Marks are
    means of the releases with 10 to 90 % ranges; lines are what is expected of the unbiased
    estimate, or join the means where nothing is expected. Beneath, who must be trusted,
    messages per user, and what one reveals before it is mixed.
    """
    unit, delta = summary["unit"].iloc[0], summary["delta"].iloc[0]
    n, eps = summary["n"].max(), summary["eps"].max()
    met = summary[summary["reason"].isna()]
    key = _key(summary[(summary["n"] == n) & (summary["eps"] == eps)])
    lines = sum(1 + str(one.get_label()).count("\n") for one in key)
    figure = new_figure(6.4 + _LINE * lines)
    panels = figure.subplots(3, 2, sharex="col", sharey="row")
    columns = (
        ("eps", met[met["n"] == n], f"n = {counted(n, unit)}", r"$\epsilon$"),
        ("n", met[met["eps"] == eps], rf"$\epsilon={eps:g}$", number_label(unit)),
    )
    for column, (x, rows, fixed, label) in zip(panels.T, columns, strict=True):
        for axes, (estimate, measured, prefix, _) in zip(column, _ROWS, strict=True):
            alike = rows[rows["estimator"] == estimate]
            _draw_panel(axes, alike, x, measured, prefix)
            axes.set_title(f"{_WORDS[estimate]}, {fixed}", loc="left")
        column[-1].set_xlabel(label)
        _name_values(column[-1], summary[x])
    for axes, (estimate, *_, label) in zip(panels[:, 0], _ROWS, strict=True):
        most = met[met["estimator"] == estimate]["p90"].max()
        axes.set_yscale("log")
        axes.margins(y=0.15)  # a narrow range has two names at least
        plain_log_axis(axes.yaxis)
        axes.set_ylabel(label.format(units=plural(unit)) or distance_label(most))
    figure.legend(handles=key, loc="outside lower left", ncols=1)
    colluding, response_rate = summary[["colluding", "response_rate"]].iloc[0]
    crowd = Setting(
        int(summary["n"].max()), 2, colluding=colluding, response_rate=response_rate
    ).participation_text
    figure.suptitle(
        f"{literal(summary['region'].iloc[0])} (unit: {unit}{crowd}): every mechanism calibrated "
        rf"to the same certified ($\epsilon$, $\delta={power(delta)}$)"
    )
    return figure


def _draw_panel(axes: Axes, rows: pd.DataFrame, x: str, measured: str, prefix: str) -> None:
    series = series_of(rows)
    for place, one in enumerate(series):
        side = 1.0 + _APART * (place - (len(series) - 1) / 2.0)
        _draw_series(axes, of_series(rows, one).sort_values(x), one, x, side, measured, prefix)
    axes.grid(visible=True, axis="y")


def _draw_series(
    axes: Axes, rows: pd.DataFrame, series: Series, x: str, side: float, measured: str, prefix: str
) -> None:
    look = series_look(*series)
    at = rows[x] * side
    axes.vlines(at, rows[f"{prefix}p10"], rows[f"{prefix}p90"], color=look.colour, linewidth=0.9)
    axes.plot(
        at,
        rows[measured],
        linestyle="none",
        **marks(look),
        label=" ".join(series),
    )
    expected = rows[f"expected_{measured}"].fillna(rows[measured])
    axes.plot(at, expected, color=look.colour, linewidth=0.8)


def _name_values(axes: Axes, values: pd.Series) -> None:
    """Room about the values on a logarithmic axis; where they are few each has its name."""
    axes.set_xscale("log")
    axes.set_xlim(values.min() / _MARGIN, values.max() * _MARGIN)
    found = np.sort(values.unique())
    if found.max() < 10.0 * found.min() and len(found) <= 6:
        low, high = np.log(axes.get_xlim())
        named = [found[-1]]
        for value in found[-2::-1]:  # from the largest on, those that touch no other
            if np.log(named[-1] / value) > _NAME * len(f"{value:,.6g}") * (high - low):
                named.append(value)
        axes.xaxis.set_major_locator(FixedLocator(named))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        plain_log_axis(axes.xaxis)


def _key(rows: pd.DataFrame) -> Sequence[Line2D]:
    """A line for each mechanism, the most accurate first: messages per user, who is trusted."""
    handles = []
    unbiased = rows[rows["estimator"] == "raw"].sort_values("cell_error")
    for row in unbiased.to_dict("records"):
        mechanism = CATALOGUE[row["mechanism"]]
        look = mechanism.estimators[0].look
        messages = row["messages"]
        words = f"{messages:.3g} message{'s' * (messages != 1.0)} a user"
        if not pd.isna(row["reason"]):
            words = "cannot meet this target"
        label = f"{mechanism.label}: {words}; trusted: {row['trust']}"
        # Folded as it reads, not as mathematics is written.
        label = textwrap.fill(label, _LETTERS)
        if np.isfinite(row["local_eps0"]):
            label = label.replace("eps0", rf"$\epsilon_0={row['local_eps0']:.3g}$")
        handles.append(
            Line2D(
                [],
                [],
                linewidth=0.8,
                **marks(look),
                label=label,
            )
        )
    return handles
