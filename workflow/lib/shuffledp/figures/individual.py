"""Individual-specific utility: errors of single cells (paper A, Table VI)."""

from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shuffledp.figures.style import FULL_WIDTH, counted, eps_words, local_style, new_figure
from shuffledp.mechanisms.registry import get_estimator
from shuffledp.selection import OWN_DELTA

_SERIES: Final = ["calibration", "mechanism", "estimator"]
_FIRST: Final = 0.165  # of the width of a page: where the first column is centred
_COLUMN: Final = 0.13  # of the width of a page


def draw_individual(summary: Path, *, title: str, unit: str) -> Figure:
    """Draw `individual_table` from the file of the summary."""
    return individual_table(pd.read_csv(summary), title, unit)


@local_style()
def individual_table(summary: pd.DataFrame, title: str, unit: str) -> Figure:
    """Table VI of paper A as a figure: error per cell, the series side by side.

    Parameters
    ----------
    summary
        Columns of `shuffledp.studies.utility.individual_summary`, of one eps0.
    title
        Names the region.
    unit
        What delta protects and n counts, ``one check-in`` or ``one user``.

    Returns
    -------
    A row per cell: mean absolute error over the repetitions and its 10 to 90 % range, each column
    in its power of ten, and a last row with the mean over the cells shown.
    """
    columns = summary[_SERIES].drop_duplicates()
    cells = sorted(summary["cell"].unique())
    # More columns than fill a page make the figure wider.
    width = max(1.0, _FIRST + _COLUMN * (len(columns) - 0.5))
    figure = new_figure(1.85 + 0.165 * (len(cells) + 1), FULL_WIDTH * width)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set(xlim=(0.0, width), ylim=(len(cells) + 0.9, -5.5))
    for y, text in enumerate([*map(str, cells), "mean of rows"]):
        axes.text(0.0, y, text, va="center", fontsize=7.5)
    axes.text(0.0, -0.95, r"cell $x_0$")
    equal = summary["calibration"].isin(["none", "matched"])
    for index, (calibration, mechanism, estimator) in enumerate(columns.itertuples(index=False)):
        rows = (summary[_SERIES] == [calibration, mechanism, estimator]).all(axis=1)
        # One power of ten for all that may be compared.
        peers = equal if calibration in ("none", "matched") else rows
        exponent = int(np.floor(np.log10(summary.loc[peers, "mean"].mean())))
        x = _FIRST + _COLUMN * index
        header = _header(calibration, get_estimator(mechanism, estimator).label)
        axes.text(x, -1.95, header, ha="center", va="bottom", linespacing=1.2)
        axes.text(x, -0.95, rf"$\times\,10^{{{exponent}}}$", ha="center")
        _write_column(axes, x, summary.loc[rows, ["mean", "p10", "p90"]] * 10.0**-exponent)
    for line, thickness in [
        (-5.4, 1.0),
        (-0.6, 0.6),
        (len(cells) - 0.5, 0.6),
        (len(cells) + 0.6, 1.0),
    ]:
        axes.plot([0.0, width], [line, line], color="black", linewidth=thickness)
    matched = summary[summary["calibration"] == "matched"].iloc[0]
    n, eps0, repetitions = int(matched["n"]), float(matched["eps0"]), int(matched["repetitions"])
    figure.suptitle(
        f"{title}: absolute error of single cells as a share of n = {counted(n, unit)}, "
        rf"$\epsilon_0={eps0:g}$" + "\n"
        f"Mean of {repetitions} repetitions (10–90 % range). Equal privacy: "
        rf"$\epsilon={eps_words(matched['eps'])}$, $\delta=10^{{{matched['log10_delta']:.3g}}}$, "
        f"replacement of one report{_own_deltas(summary)}"
    )
    return figure


def _own_deltas(summary: pd.DataFrame) -> str:
    """Say, if it is shown, what a cell's own delta is, and how the column was made."""
    own = summary[summary["calibration"] == OWN_DELTA]["log10_delta"]
    if own.empty:
        return ""
    return (
        "\n"
        rf"Own $\delta(x_0)$, of one cell's count (Biswas et al.): $10^{{{own.min():.1f}}}$ to "
        rf"$10^{{{own.max():.1f}}}$ at the same $\epsilon$, no guarantee; errors by their law"
    )


def _header(calibration: str, label: str) -> str:
    """What stands above a column, in lines that fit it."""
    name = label.replace(", ", ",\n")
    if calibration == "none":
        return name
    if calibration == "matched":
        return f"{name},\nequal\nprivacy"
    words = r"own $\delta(x_0)$" if calibration == OWN_DELTA else calibration
    return f"{name},\n{words}:\nNOT equal"


def _write_column(axes: Axes, x: float, scaled: pd.DataFrame) -> None:
    """Write means right-aligned and ranges left-aligned, row by row, then the mean of the means."""
    for y, (mean, low, high) in enumerate(scaled.itertuples(index=False, name=None)):
        axes.text(x - 0.018, y, f"{mean:.1f}", ha="right", va="center", fontsize=7.5)
        axes.text(x - 0.006, y, f"({low:.1f}–{high:.1f})", va="center", fontsize=7)
    average = f"{scaled['mean'].mean():.1f}"
    axes.text(x - 0.018, len(scaled), average, ha="right", va="center", fontsize=7.5)
