"""Paper A's figures 1 and 2, recomputed, each beside what is right."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MultipleLocator

from shuffledp.figures.style import (
    DISTANCE_LABEL,
    Series,
    legend_marks,
    local_style,
    marks,
    new_figure,
    of_series,
    plain_log_axis,
    power,
    series_look,
    series_of,
)
from shuffledp.tables import read_metadata, read_tables

_SURFACES: Final = (
    ("single-bin-as-printed", r"$\delta$ by Theorem IV.1 as printed (one bin)"),
    ("upper", r"$\delta$ certified for the whole histogram"),
)
_STEP: Final = 20.0  # powers of ten between ticks
_BAND: Final = (0.05, 0.95)


def draw_surface(surface: Path) -> Figure:
    """Draw `delta_surfaces` from the file of the values, which says the count as well."""
    return delta_surfaces(read_tables([surface]), int(read_metadata(surface)["count"]))


def draw_synthetic_distances(distances: Path) -> Figure:
    """Draw `synthetic_distances` from the file of the distances."""
    return synthetic_distances(read_tables([distances]))


@local_style()
def delta_surfaces(table: pd.DataFrame, count: int) -> Figure:
    """Delta over eps and eps0 as two surfaces on one logarithmic scale (figure 1).

    Parameters
    ----------
    table
        Columns of `shuffledp.tables.PRIVACY`, bounds ``single-bin-as-printed`` and ``upper``,
        one n and k, eps < eps0.
    count
        Other users in the cell x0, for the title.
    """
    figure = new_figure(3.9)
    deepest = _STEP * (table["log10_delta"].min() // _STEP)
    for position, (bound, title) in enumerate(_SURFACES, start=1):
        rows = table[table["bound"] == bound]
        axes: Any = figure.add_subplot(1, 2, position, projection="3d")
        axes.plot_trisurf(
            rows["eps"],
            rows["eps0"],
            rows["log10_delta"],
            cmap="cividis",
            norm=Normalize(deepest, 0.0),
            linewidth=0.15,
            edgecolor="0.3",
        )
        axes.set(xlabel=r"$\epsilon$", ylabel=r"$\epsilon_0$", zlim=(deepest, 0.0))
        axes.zaxis.set_major_locator(MultipleLocator(_STEP))
        axes.zaxis.set_major_formatter(FuncFormatter(lambda z, _: f"${power(10.0**z)}$"))
        axes.view_init(elev=20.0, azim=-60.0)
        axes.set_box_aspect((4.0, 4.0, 3.6), zoom=0.95)
        axes.set_title(title)
    n, k = table["n"].iloc[0], table["k"].iloc[0]
    figure.suptitle(
        rf"Biswas et al., figure 1: n = {n}, k = {k}, {count} others in $x_0$ (assumed); "
        r"$\delta$ = 0 where $\epsilon\geq\epsilon_0$"
    )
    return figure


@local_style()
def synthetic_distances(utility: pd.DataFrame) -> Figure:
    """Total variation distance over n on the synthetic data (figure 2).

    Parameters
    ----------
    utility
        Columns of `shuffledp.tables.UTILITY`, one eps0.

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
        for series in series_of(rows):
            _draw_band(axes, of_series(rows, series), series)
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
    figure.legend(handles=legend_marks(series_of(utility)), loc="outside lower center", ncols=3)
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
        **marks(look),
    )
