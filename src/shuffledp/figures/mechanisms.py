"""Draw the errors of all mechanisms at the same certified (eps, delta)."""

import textwrap
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.figures import style
from shuffledp.mechanisms.catalogue import CATALOGUE, UNBIASED
from shuffledp.mechanisms.recommendation import trust_kind
from shuffledp.pipeline.selection import at_targets

# For each row of panels: the estimator, the column of the error, the prefix of the columns of its
# quantiles, and the label of the axis ("" for the label of `distance_label`).
_ROWS: Final = (
    ("raw", "cell_error", "cell_error_", "error per cell ({units})\n(root mean square)"),
    ("raw", "tv_distance", "", ""),
    ("projected", "tv_distance", "", ""),
)
_ESTIMATES: Final = {"raw": "unbiased estimates", "projected": "distributions"}
_SERIES_OFFSET: Final = 0.012  # share of eps or n that separates neighbouring mechanisms
_GLYPH_WIDTH: Final = 0.024  # width of a character of a tick label, as a share of the axis
_MARGIN: Final = 1.25  # factor by which an axis of eps or n extends beyond the data
_LEGEND_LINE_CHARACTERS: Final = 24  # characters in a line of the legend
# Headings of the legend by `trust_kind`.
_TRUST: Final = {
    "curator": "Curator, trusted\nwith every record",
    "shuffler": "Shuffler and analyst apart;\nshuffler learns the exact map",
    "apart": "Shuffler and analyst apart:\ntogether they see every record",
    "local": "Shuffler and analyst apart:\ntogether they see noisy reports",
}
_LINE_HEIGHT: Final = 0.16  # inches


@style.local_style()
def draw_mechanisms(summary: Path, *, title: str) -> Figure:
    """Draw errors of all mechanisms at equal certified privacy, against eps and against n.

    `summary` is a CSV file of `shuffledp.studies.utility.utility_summary` for one region. Errors
    against eps at the largest n are on the left, those against n at the largest eps on the right.
    Markers are means over the releases with 10 % to 90 % ranges. Lines are expected errors for
    unbiased estimates, and join the means for others. The legend lists messages per user and the
    local budget of a user's messages, in columns by who must be trusted.
    """
    table = at_targets(pd.read_csv(summary))
    if table.empty:
        raise InputError(
            "targets: this figure compares mechanisms at targets, but the run has none: set their "
            "eps and delta (config/README.md)"
        )
    unit, delta = table["unit"].iloc[0], table["delta"].iloc[0]
    n, eps = table["n"].max(), table["eps"].max()
    calibrated = table[table["reason"].isna()]
    legend = _mechanism_legend(table[(table["n"] == n) & (table["eps"] == eps)])
    lines = max(
        sum(1 + str(handle.get_label()).count("\n") for handle in column) for column in legend
    )
    figure = style.new_figure(6.4 + _LINE_HEIGHT * (lines + 1))
    panels = figure.subplots(3, 2, sharex="col", sharey="row")
    at_n, at_eps = calibrated[calibrated["n"] == n], calibrated[calibrated["eps"] == eps]
    columns = (
        ("eps", at_n, f"n = {style.count_units(n, unit)}", r"$\epsilon$"),
        ("n", at_eps, rf"$\epsilon={eps:g}$", style.number_label(unit)),
    )
    for column, (x, rows, fixed, label) in zip(panels.T, columns, strict=True):
        for axes, (estimate, measured, prefix, _) in zip(column, _ROWS, strict=True):
            _draw_panel(axes, rows[rows["estimator"] == estimate], x, measured, prefix)
            axes.set_title(f"{_ESTIMATES[estimate]}, {fixed}", loc="left")
        column[-1].set_xlabel(label)
        _label_values(column[-1], table[x])
    for axes, (estimate, *_, label) in zip(panels[:, 0], _ROWS, strict=True):
        largest = calibrated[calibrated["estimator"] == estimate]["p90"].max()
        axes.set_yscale("log")
        axes.margins(y=0.15)  # leaves room for at least two tick labels
        style.plain_log_axis(axes.yaxis)
        axes.set_ylabel(label.format(units=style.plural(unit)) or style.distance_label(largest))
    # The legend is filled column by column, so that all columns need the same number of entries.
    longest = max(map(len, legend))
    blank = style.legend_mark(" ")
    figure.legend(
        handles=[h for column in legend for h in (*column, *[blank] * (longest - len(column)))],
        loc="outside lower left",
        ncols=len(legend),
        title=f"Messages per user in parentheses, at n = {n:,} and $\\epsilon={eps:g}$",
        title_fontsize=7.5,
        fontsize=7.0,
        alignment="left",
    )
    colluding, response_rate = table[["colluding", "response_rate"]].iloc[0]
    setting = Setting(int(n), 2, colluding=colluding, response_rate=response_rate)
    figure.suptitle(
        f"{style.escape_math(title)}{setting.participation_text}: every mechanism is calibrated to "
        rf"the same certified ($\epsilon$, $\delta={style.power(delta)}$)"
    )
    return figure


def _draw_panel(axes: Axes, table: pd.DataFrame, x: str, measured: str, prefix: str) -> None:
    for series, shift in style.series_shifts(table, _SERIES_OFFSET):
        rows, look = style.series_rows(table, series).sort_values(x), style.series_look(*series)
        at, low, high = rows[x] * shift, rows[f"{prefix}p10"], rows[f"{prefix}p90"]
        axes.vlines(at, low, high, color=look.colour, linewidth=0.9)
        label = " ".join(series)
        axes.plot(at, rows[measured], linestyle="none", **style.marker_style(look), label=label)
        expected = rows[f"expected_{measured}"].fillna(rows[measured])
        axes.plot(at, expected, color=look.colour, linewidth=0.8)
    axes.grid(visible=True, axis="y")


def _label_values(axes: Axes, values: pd.Series) -> None:
    """Set a logarithmic axis with a margin; if values are few and close, label each of them."""
    axes.set_xscale("log")
    axes.set_xlim(values.min() / _MARGIN, values.max() * _MARGIN)
    unique = np.sort(values.unique())
    if unique.max() < 10.0 * unique.min() and len(unique) <= 6:
        labels = {value: f"{value:,.6g}" for value in unique}
        shown = style.spaced_labels(labels, axes.get_xlim(), _GLYPH_WIDTH)
        axes.set_xticks(list(shown), list(shown.values()))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        style.plain_log_axis(axes.xaxis)


def _mechanism_legend(rows: pd.DataFrame) -> list[list[Line2D]]:
    """Return the legend's columns, one for each kind of trust, with the most accurate first."""
    columns: dict[str, list[Line2D]] = {}
    unbiased = rows[rows["estimator"] == UNBIASED].sort_values("cell_error")
    for row in unbiased.to_dict("records"):
        mechanism = CATALOGUE[row["mechanism"]]
        cost = f"{row['messages']:.3g}" if pd.isna(row["reason"]) else "cannot meet this target"
        label = textwrap.fill(f"{mechanism.label} ({cost})", _LEGEND_LINE_CHARACTERS)
        if np.isfinite(row["local_eps0"]):
            label += rf", $\epsilon_0={row['local_eps0']:.3g}$"
        look = style.marker_style(mechanism.estimators[0].look)
        handle = Line2D([], [], linewidth=0.8, **look, label=label)
        columns.setdefault(trust_kind(mechanism), []).append(handle)
    return [
        [style.legend_mark(heading), *columns[kind]]
        for kind, heading in _TRUST.items()
        if kind in columns
    ]
