"""Paper A's figures 1 and 2, recomputed, each beside what is right."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm
from matplotlib.figure import Figure

from shuffledp.figures.style import (
    DISTANCE_LABEL,
    Series,
    legend_marks,
    list_series,
    local_style,
    marker_style,
    new_figure,
    plain_log_axis,
    power,
    series_look,
    series_rows,
)
from shuffledp.pipeline.tables import read_metadata, read_tables

_PANELS: Final = (
    ("single-bin-as-printed", r"$\delta$ by Theorem IV.1 as printed (one bin)"),
    ("upper", r"$\delta$ certified for the whole histogram"),
)
# Contours, in powers of ten: every so many, and where the certified delta is flat.
_STEP: Final = 20.0
_FINER: Final = (-10.0, -5.0, -2.0, 0.0)
_BAND: Final = (0.05, 0.95)


def draw_contours(surface: Path) -> Figure:
    """Draw `delta_contours` from the file of the values, which says the count as well."""
    return delta_contours(read_tables([surface]), int(read_metadata(surface)["count"]))


def draw_synthetic_distances(distances: Path) -> Figure:
    """Draw `synthetic_distances` from the file of the distances."""
    return synthetic_distances(read_tables([distances]))


@local_style()
def delta_contours(table: pd.DataFrame, count: int) -> Figure:
    """Delta over eps and eps0 (figure 1, a surface there) as contours on one logarithmic scale.

    Parameters
    ----------
    table
        Columns of `pipeline.tables.PRIVACY`, bounds ``single-bin-as-printed`` and ``upper``,
        one n and k, eps < eps0.
    count
        Other users in the cell x0, for the title.
    """
    figure = new_figure(3.6)
    panels = figure.subplots(1, 2, sharey=True)
    deepest = _STEP * (table["log10_delta"].min() // _STEP)
    levels = [*np.arange(deepest, _FINER[0], _STEP), *_FINER]
    for axes, (bound, title) in zip(panels, _PANELS, strict=True):
        filled = _draw_contours(axes, table[table["bound"] == bound], levels)
        axes.set_title(title, loc="left")
        axes.set_xlabel(r"central budget $\epsilon$ (nats)")
    panels[0].set_ylabel(r"local budget $\epsilon_0$ (nats)")
    bar = figure.colorbar(filled, ax=panels, label=r"$\delta$ (probability)", pad=0.02)
    bar.set_ticks(levels, labels=[f"${power(10.0**level)}$" for level in levels])
    n, k = table["n"].iloc[0], table["k"].iloc[0]
    figure.suptitle(
        rf"Biswas et al., figure 1: n = {n}, k = {k}, {count} others in $x_0$ (assumed)"
    )
    return figure


def _draw_contours(axes: Axes, rows: pd.DataFrame, levels: list[float]) -> Any:
    """Bands of log10 delta, the lines between them named; the bands are returned."""
    points = rows["eps"], rows["eps0"], rows["log10_delta"]
    filled = axes.tricontourf(*points, levels, cmap="cividis", norm=BoundaryNorm(levels, 256))
    # Light on the darker half of the bands.
    inks = ["white"] * (len(levels) // 2) + ["black"] * (len(levels) - len(levels) // 2)
    lines = axes.tricontour(*points, levels, colors=inks, linewidths=0.6, linestyles="solid")
    axes.clabel(lines, fmt=lambda level: f"${power(10.0**level)}$", fontsize=7)
    top = rows["eps0"].max()
    axes.fill_between([0.0, top], [0.0, top], color="0.9", linewidth=0.0, zorder=0)
    axes.annotate(
        r"$\delta=0$ where $\epsilon\geq\epsilon_0$",
        (0.97, 0.05),
        xycoords="axes fraction",
        ha="right",
    )
    axes.set(xlim=(0.0, top), ylim=(0.0, top))
    axes.set_aspect("equal")
    return filled


@local_style()
def synthetic_distances(utility: pd.DataFrame) -> Figure:
    """Total variation distance over n on the synthetic data (figure 2).

    Parameters
    ----------
    utility
        Columns of `pipeline.tables.DISTANCES`, one eps0.

    Returns
    -------
    Medians with bands from the 5 to the 95 % quantile; on the left with the Gaussian as
    published, on the right with the one of equal privacy.
    """
    figure = new_figure(3.9)
    panels = figure.subplots(1, 2, sharey=True)
    eps0 = utility["eps0"].iloc[0]
    for axes, calibration in zip(panels, ("as-published", "matched"), strict=True):
        rows = utility[utility["calibration"].isin(["none", calibration])]
        for series in list_series(rows):
            _draw_band(axes, series_rows(rows, series), series)
        axes.set(xscale="log", yscale="log", xlabel="number of users n")
        axes.grid(visible=True, axis="both")
    plain_log_axis(panels[0].yaxis)
    panels[0].set_ylabel(DISTANCE_LABEL)
    panels[0].set_title(rf"as published: Gaussian at $\epsilon=\epsilon_0={eps0:g}$", loc="left")
    matched = utility[utility["calibration"] == "matched"]
    delta = power(matched["delta"].iloc[0])
    low, high = matched["eps"].min(), matched["eps"].max()
    panels[1].set_title(
        rf"equal privacy: $\delta={delta}$, $\epsilon$ = {high:.2g} falling to {low:.2g}",
        loc="left",
    )
    figure.legend(handles=legend_marks(list_series(utility)), loc="outside lower center", ncols=3)
    figure.suptitle(
        "Biswas et al., figure 2: 15 cells, normal data of variance 2 rounded to whole numbers "
        "(assumed)"
    )
    return figure


def _draw_band(axes: Axes, rows: pd.DataFrame, series: Series) -> None:
    look = series_look(*series)
    shares = np.array([_BAND[0], 0.5, _BAND[1]])
    levels = rows.groupby("n")["tv_distance"].quantile(shares).unstack()
    sizes = levels.index.to_numpy()
    axes.fill_between(
        sizes, levels[_BAND[0]], levels[_BAND[1]], color=look.colour, alpha=0.15, linewidth=0.0
    )
    axes.plot(
        sizes,
        levels[0.5],
        linestyle="-" if look.filled else "--",
        **marker_style(look),
    )
