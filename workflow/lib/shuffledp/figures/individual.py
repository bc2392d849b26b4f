"""Individual-specific utility: errors of single cells (paper A, Table VI)."""

from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shuffledp.errors import InputError
from shuffledp.figures.selection import at_target
from shuffledp.figures.style import local_style, new_figure

# Calibration, mechanism and header of each column; like stands beside like.
_COLUMNS: Final = (
    ("as-published", "gaussian", "Gaussian, raw,\nas published:\nNOT equal privacy"),
    ("matched", "gaussian", "Gaussian, raw,\nequal privacy"),
    ("none", "shuffle+INV raw", "shuffle+INV, raw"),
    ("matched", "gaussian projected", "Gaussian, projected,\nequal privacy"),
    ("none", "shuffle+INV", "shuffle+INV, projected"),
)
_KEYS: Final = ["n", "eps0", "calibration", "mechanism", "cell"]


def individual_summary(
    individual: pd.DataFrame, every: int | None, eps0: float, target_delta: float
) -> pd.DataFrame:
    """Absolute error of single cells over the repetitions, as shares of n.

    Parameters
    ----------
    individual
        Columns of `shuffledp.tables.INDIVIDUAL`.
    every
        Cells ``every, 2 every, ...`` below k are taken, counted from 0 in the south-west; None is
        a twentieth of k.
    eps0
        Local budget.
    target_delta
        Of the matched Gaussian.

    Returns
    -------
    Columns ``n, eps0, calibration, mechanism, cell, eps, log10_delta, repetitions, mean, p10,
    p90``, in the order of the table's columns. The shuffle model has calibration ``none``: its
    error is the same beside either Gaussian.

    Raises
    ------
    ValueError
        If the table has no such eps0 or target delta; InputError if ``every`` leaves no cell.
    """
    rows = individual[individual["eps0"] == eps0]
    if rows.empty:
        raise ValueError(
            f"eps0 must be one of the table's, {sorted(set(individual['eps0']))} (got {eps0:g})"
        )
    k = int(rows["cell"].max()) + 1
    every = max(1, k // 20) if every is None else every
    if not 0 < every < k:
        raise InputError(
            f"individual_every must lie between 1 and k - 1 = {k - 1} for this grid (got {every})"
        )
    rows = pd.concat([rows[rows["calibration"] != "matched"], at_target(rows, target_delta)])
    rows = rows[(rows["cell"] > 0) & (rows["cell"] % every == 0)]
    return pd.concat(
        [
            _describe(rows[(rows["calibration"] == calibration) & (rows["mechanism"] == mechanism)])
            for calibration, mechanism, _ in _COLUMNS
        ],
        ignore_index=True,
    )


def _describe(rows: pd.DataFrame) -> pd.DataFrame:
    """Summarise the repetitions of one mechanism cell by cell."""
    by_cell = rows.groupby(_KEYS, sort=True)
    errors = by_cell["error"]
    numbers = {
        "repetitions": errors.size(),
        "mean": errors.mean(),
        "p10": errors.quantile(0.1),
        "p90": errors.quantile(0.9),
    }
    return by_cell[["eps", "log10_delta"]].first().assign(**numbers).reset_index()


@local_style()
def individual_table(
    individual: pd.DataFrame, title: str, every: int | None, eps0: float, target_delta: float
) -> Figure:
    """Table VI of paper A as a figure: error per cell, Gaussian and shuffle+INV side by side.

    Parameters
    ----------
    individual, every, eps0, target_delta
        As for `individual_summary`, whose numbers are shown.
    title
        Names the region.

    Returns
    -------
    A row per cell: mean absolute error over the repetitions and its 10 to 90 % range, each column
    in its own power of ten, and a last row with the mean over the cells shown.
    """
    summary = individual_summary(individual, every, eps0, target_delta)
    cells = sorted(summary["cell"].unique())
    figure = new_figure(1.68 + 0.165 * (len(cells) + 1))
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set(xlim=(0.0, 1.0), ylim=(len(cells) + 0.9, -4.5))
    for y, text in enumerate([*map(str, cells), "mean of rows"]):
        axes.text(0.0, y, text, va="center", fontsize=7.5)
    axes.text(0.0, -0.95, r"cell $x_0$")
    published = summary["calibration"] == "as-published"
    for index, (calibration, mechanism, header) in enumerate(_COLUMNS):
        rows = (summary["calibration"] == calibration) & (summary["mechanism"] == mechanism)
        # One power of ten for all that may be compared.
        peers = published if calibration == "as-published" else ~published
        exponent = int(np.floor(np.log10(summary.loc[peers, "mean"].mean())))
        x = 0.19 + 0.178 * index
        axes.text(x, -1.95, header, ha="center", va="bottom", linespacing=1.2)
        axes.text(x, -0.95, rf"$\times\,10^{{{exponent}}}$", ha="center")
        _write_column(axes, x, summary.loc[rows, ["mean", "p10", "p90"]] * 10.0**-exponent)
    for line, width in [(-4.4, 1.0), (-0.6, 0.6), (len(cells) - 0.5, 0.6), (len(cells) + 0.6, 1.0)]:
        axes.plot([0.0, 1.0], [line, line], color="black", linewidth=width)
    matched = summary[summary["calibration"] == "matched"].iloc[0]
    n, repetitions = int(matched["n"]), int(matched["repetitions"])
    figure.suptitle(
        f"{title}: absolute error of single cells as a share of n = {n:,} users, "
        rf"$\epsilon_0={eps0:g}$" + "\n"
        f"Mean of {repetitions} repetitions (10–90 % range). Equal privacy: "
        rf"$\epsilon={matched['eps']:.3g}$, $\delta=10^{{{matched['log10_delta']:.3g}}}$, "
        "replacement of one report"
    )
    return figure


def _write_column(axes: Axes, x: float, scaled: pd.DataFrame) -> None:
    """Write means right-aligned and ranges left-aligned, row by row, then the mean of the means."""
    for y, (mean, low, high) in enumerate(scaled.itertuples(index=False, name=None)):
        axes.text(x - 0.018, y, f"{mean:.1f}", ha="right", va="center", fontsize=7.5)
        axes.text(x - 0.006, y, f"({low:.1f}–{high:.1f})", va="center", fontsize=7)
    average = f"{scaled['mean'].mean():.1f}"
    axes.text(x - 0.018, len(scaled), average, ha="right", va="center", fontsize=7.5)
