"""Total variation distances as boxes: over n (paper A, figures 6 and 7) and over eps."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Final, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from shuffledp.figures.style import (
    Series,
    calibration_words,
    counted,
    distance_label,
    eps_words,
    legend_marks,
    literal,
    local_style,
    marks,
    new_figure,
    number_label,
    of_series,
    plain_log_axis,
    series_look,
    series_of,
    tint,
)
from shuffledp.mechanisms.catalogue import get_estimator
from shuffledp.pipeline.selection import DELTA_HAT, calibrated
from shuffledp.pipeline.tables import read_tables

_Line = Literal["-", "--", "-.", ":"]

_BAND_LINES: Final[tuple[_Line, ...]] = ("--", "-", ":", "-.")
_LOG_FROM = 10.0  # ratio of the largest distance to the smallest


def draw_distances(
    utility: Path, *, title: str, unit: str, calibration: str, target_delta: float
) -> Figure:
    """Draw `distance_boxes` from the file of the distances.

    Parameters
    ----------
    utility
        Table of the distances of the releases.
    title
        Of the figure: the place, as a rule.
    unit
        What a record is: `check-in` or `user`.
    calibration
        Which rows: a name of a calibration, `matched` for those at the certified privacy.
    target_delta
        Delta in (0, 1) of the calibrations to a target.
    """
    table = read_tables([utility])
    return distance_boxes(
        table, title, unit=unit, calibration=calibration, target_delta=target_delta
    )


def draw_distances_over_eps(utility: Path, *, title: str, unit: str) -> Figure:
    """Draw `distance_over_eps` from the file of the distances.

    Parameters
    ----------
    utility, title, unit
        As for `draw_distances`.
    """
    return distance_over_eps(read_tables([utility]), title, unit)


def _draw_boxes(axes: Axes, groups: Sequence[pd.DataFrame], series: Sequence[Series]) -> None:
    """Boxes of one series beside the other, group by group at x = 0, 1, 2, ..."""
    step = 0.84 / len(series)
    for offset, one in enumerate(series):
        drawn = {
            x + (offset - (len(series) - 1) / 2) * step: values
            for x, values in enumerate(of_series(group, one)["tv_distance"] for group in groups)
            if values.size
        }
        if drawn:
            _draw_series(axes, one, drawn, step)
    axes.set_xlim(-0.5, len(groups) - 0.5)
    axes.set_xticks(np.arange(len(groups) - 1) + 0.5, minor=True)
    axes.tick_params(axis="x", which="both", length=0)
    axes.grid(visible=True, axis="x", which="minor")


def _draw_series(axes: Axes, series: Series, drawn: Mapping[float, pd.Series], step: float) -> None:
    """Quartile boxes and whiskers to the extremes, with a marker at the median.

    Not `Axes.boxplot`, which loads pyplot and with it whatever window system it finds.
    """
    look = series_look(*series)
    x = np.array(list(drawn))
    least, first, median, third, most = np.transpose(
        [np.quantile(values, (0.0, 0.25, 0.5, 0.75, 1.0)) for values in drawn.values()]
    )
    axes.vlines(x, least, most, color=look.colour, linewidth=0.8)
    for whisker in (least, most):
        axes.hlines(whisker, x - 0.2 * step, x + 0.2 * step, color=look.colour, linewidth=0.8)
    axes.bar(
        x,
        third - first,
        0.8 * step,
        first,
        facecolor=tint(look),
        edgecolor=look.colour,
        linewidth=0.8,
        zorder=2.1,
    )
    # A marker instead of a line: it tells mechanisms apart where boxes are flat.
    axes.plot(
        x,
        median,
        linestyle="none",
        markersize=3.5,
        **marks(look),
        label=" ".join(series),
        zorder=2.2,
    )


def _distance_axis(axes: Axes, shown: pd.Series) -> None:
    axes.set_ylabel(distance_label(shown.max()))
    if shown.max() > _LOG_FROM * shown.min() > 0.0:
        axes.set_yscale("log")
        plain_log_axis(axes.yaxis)
    else:
        axes.set_ylim(bottom=0.0)
    axes.grid(visible=True, axis="y")


@local_style()
def distance_boxes(
    utility: pd.DataFrame,
    region_title: str,
    *,
    unit: str,
    calibration: str,
    target_delta: float,
) -> Figure:
    """Distance to the true histogram against n, a panel per eps0 (paper A, figures 6 and 7).

    Parameters
    ----------
    utility
        Columns of `pipeline.tables.UTILITY`.
    region_title
        Names the region.
    unit
        What delta protects and n counts, ``one check-in`` or ``one user``.
    calibration, target_delta
        Which releases (see `shuffledp.pipeline.selection.calibrated`).

    Returns
    -------
    Boxes from quartile to quartile with the median, whiskers to the extremes of the repetitions.

    Raises
    ------
    InputError
        If the table has no release of that calibration.
    """
    sizes = sorted(utility["n"].unique())
    rows = calibrated(utility, calibration, target_delta)
    series = series_of(rows)
    budgets = sorted(rows["eps0"].unique())
    figure = new_figure(1.0 + 1.9 * len(budgets))
    panels = np.atleast_1d(figure.subplots(len(budgets), 1, sharex=True))
    for axes, eps0 in zip(panels, budgets, strict=True):
        panel = rows[rows["eps0"] == eps0]
        _draw_boxes(axes, [panel[panel["n"] == n] for n in sizes], series)
        _distance_axis(axes, rows["tv_distance"])
        axes.set_title(rf"$\epsilon_0={eps0:g}$" + _eps_range(panel), loc="left")
    panels[-1].set_xticks(range(len(sizes)), [f"{n:,}" for n in sizes])
    panels[-1].set_xlabel(number_label(unit))
    figure.legend(handles=legend_marks(series), loc="outside lower center", ncols=3)
    words = calibration_words(calibration, target_delta, list(rows["mechanism"].unique()))
    figure.suptitle(f"{literal(region_title)}\n{words}")
    return figure


def _eps_range(panel: pd.DataFrame) -> str:
    """Write the eps that was calibrated to at the smallest and the largest n, for a title."""
    eps = panel.dropna(subset="eps").groupby("n")["eps"].first()
    if eps.empty:
        return ", nothing to be matched there"
    low, high = eps.iloc[0], eps.iloc[-1]
    if low == high:
        return rf", calibrated to $\epsilon={low:.3g}$"
    words = (
        rf", all at $\epsilon={low:.2g}$ for n = {eps.index[0]:,} "
        rf"falling to {high:.2g} for n = {eps.index[-1]:,}"
    )
    hats = panel[panel["calibration"] == DELTA_HAT]["log10_delta"]
    if hats.empty:
        return words
    return rf"{words}; $\hat\delta$ from $10^{{{hats.min():.1f}}}$ to $10^{{{hats.max():.1f}}}$"


def _pair_label(eps: float, log10_delta: float) -> str:
    """Write eps over ``log10 delta``."""
    exponent = f"{log10_delta:,.{1 if log10_delta > -100.0 else 0}f}".replace("-", "−")
    return f"{eps_words(eps)}\n({exponent})"


@local_style()
def distance_over_eps(utility: pd.DataFrame, region_title: str, unit: str) -> Figure:
    """Distance at the largest n against the matched eps, a panel per eps0.

    The more eps is given, the smaller the delta that the shuffle model has there: what is matched
    must meet both. What follows from eps0 alone does not depend on eps and is a band.

    Parameters
    ----------
    utility
        Columns of `pipeline.tables.UTILITY`.
    region_title
        Names the region.
    unit
        As for `distance_boxes`.

    Returns
    -------
    Boxes as in `distance_boxes` of what is matched; bands from the 10 to the 90 % quantile of the
    others, with a line at the mean.
    """
    n = utility["n"].max()
    rows = utility[(utility["n"] == n) & utility["calibration"].isin(["none", "matched"])]
    boxes = series_of(rows[rows["calibration"] == "matched"])
    steady = series_of(rows[rows["calibration"] == "none"])
    compared = [each for each in steady if get_estimator(*each).like is not None]
    bands = dict(zip(compared, cycle(_BAND_LINES), strict=False))
    budgets = sorted(rows["eps0"].unique())
    figure = new_figure(1.0 + 2.2 * len(budgets))
    panels = np.atleast_1d(figure.subplots(len(budgets), 1))
    for axes, eps0 in zip(panels, budgets, strict=True):
        panel = rows[rows["eps0"] == eps0]
        matched = panel[panel["calibration"] == "matched"]
        pairs = matched[["eps", "log10_delta"]].drop_duplicates().sort_values("eps")
        _draw_boxes(axes, [matched[matched["eps"] == eps] for eps in pairs["eps"]], boxes)
        for each, line in bands.items():
            _band(axes, of_series(panel, each)["tv_distance"], each, line)
        shown = [of_series(panel, each)["tv_distance"] for each in [*boxes, *bands]]
        _distance_axis(axes, pd.concat(shown))
        labels = map(_pair_label, pairs["eps"], pairs["log10_delta"])
        axes.set_xticks(range(len(pairs)), list(labels))
        axes.set_title(rf"$\epsilon_0={eps0:g}$", loc="left")
    panels[-1].set_xlabel(
        r"$\epsilon$ of all mechanisms (beneath: $\log_{10}$ of the $\delta$ certified there)"
    )
    figure.legend(
        handles=[*legend_marks(boxes), *_band_key(bands)],
        loc="outside lower center",
        ncols=3,
    )
    figure.suptitle(
        f"{literal(region_title)}, n = {counted(n, unit)}\nEqual privacy: at each "
        r"$\epsilon$ all have the $\delta$ certified for the shuffle model"
    )
    return figure


def _band_key(bands: Mapping[Series, _Line]) -> list[Line2D]:
    return [
        Line2D([], [], color=one.look.colour, linestyle=line, label=one.label)
        for one, line in ((get_estimator(*each), line) for each, line in bands.items())
    ]


def _band(axes: Axes, values: pd.Series, series: Series, line: _Line) -> None:
    colour = series_look(*series).colour
    low, high = values.quantile([0.1, 0.9])
    axes.axhspan(low, high, color=colour, alpha=0.3, linewidth=0.0, zorder=0.5)
    axes.axhline(values.mean(), color=colour, linestyle=line, zorder=0.6)
