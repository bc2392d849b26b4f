"""Total variation distances as boxes: over n (paper A, figures 6 and 7) and over eps."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from shuffledp.figures.selection import calibrated, calibration_words
from shuffledp.figures.style import (
    DISTANCE_LABEL,
    MECHANISMS,
    legend_marks,
    local_style,
    new_figure,
    plain_log_axis,
)

_BOXES = ("gaussian", "gaussian projected", "shuffle", "shuffle+INV")
_BAND_LINES: Final[dict[str, Literal["--", "-"]]] = {"shuffle+INV raw": "--", "shuffle+INV": "-"}
_LOG_FROM = 10.0  # ratio of the largest distance to the smallest


def _draw_boxes(axes: Axes, groups: Sequence[pd.DataFrame], mechanisms: Sequence[str]) -> None:
    """Boxes of one mechanism beside the other, group by group at x = 0, 1, 2, ..."""
    step = 0.84 / len(mechanisms)
    for offset, mechanism in enumerate(mechanisms):
        drawn = {
            x + (offset - (len(mechanisms) - 1) / 2) * step: values
            for x, values in enumerate(
                group.loc[group["mechanism"] == mechanism, "tv_distance"] for group in groups
            )
            if values.size
        }
        if drawn:
            _draw_mechanism(axes, mechanism, drawn, step)
    axes.set_xlim(-0.5, len(groups) - 0.5)
    axes.set_xticks(np.arange(len(groups) - 1) + 0.5, minor=True)
    axes.tick_params(axis="x", which="both", length=0)
    axes.grid(visible=True, axis="x", which="minor")


def _draw_mechanism(
    axes: Axes, mechanism: str, drawn: Mapping[float, pd.Series], step: float
) -> None:
    """Quartile boxes and whiskers to the extremes, with a marker at the median.

    Not `Axes.boxplot`, which loads pyplot and with it whatever window system it finds.
    """
    look = MECHANISMS[mechanism]
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
        facecolor=look.tint,
        edgecolor=look.colour,
        linewidth=0.8,
        zorder=2.1,
    )
    # A marker instead of a line: it tells mechanisms apart where boxes are flat.
    axes.plot(
        x,
        median,
        linestyle="none",
        marker=look.marker,
        markersize=3.5,
        color=look.colour,
        markerfacecolor=look.face,
        label=mechanism,
        zorder=2.2,
    )


def _distance_axis(axes: Axes, shown: pd.Series) -> None:
    axes.set_ylabel(DISTANCE_LABEL)
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
    calibration: str,
    sizes: Sequence[int],
    target_delta: float,
) -> Figure:
    """Distance to the true histogram against n, a panel per eps0 (paper A, figures 6 and 7).

    Parameters
    ----------
    utility
        Columns of `shuffledp.tables.UTILITY`.
    region_title
        Names the region.
    calibration, target_delta
        Which Gaussian (see `shuffledp.figures.selection.calibrated`).
    sizes
        Numbers of users to show.

    Returns
    -------
    Boxes from quartile to quartile with the median, whiskers to the extremes of the repetitions.
    Shuffle+INV is projected onto the simplex; its like is the projected Gaussian.

    Raises
    ------
    ValueError
        If a size is not in the table, or it has no Gaussian of that calibration.
    """
    sizes = sorted(sizes)
    rows = calibrated(_of_sizes(utility, sizes), calibration, target_delta)
    rows = rows[rows["mechanism"].isin(_BOXES)]
    budgets = sorted(rows["eps0"].unique())
    figure = new_figure(1.0 + 1.9 * len(budgets))
    panels = np.atleast_1d(figure.subplots(len(budgets), 1, sharex=True))
    for axes, eps0 in zip(panels, budgets, strict=True):
        panel = rows[rows["eps0"] == eps0]
        _draw_boxes(axes, [panel[panel["n"] == n] for n in sizes], _BOXES)
        _distance_axis(axes, rows["tv_distance"])
        axes.set_title(rf"$\epsilon_0={eps0:g}$" + _eps_range(panel), loc="left")
    panels[-1].set_xticks(range(len(sizes)), [f"{n:,}" for n in sizes])
    panels[-1].set_xlabel("number of users n (one check-in each)")
    figure.legend(handles=legend_marks(_BOXES), loc="outside lower center", ncols=len(_BOXES))
    figure.suptitle(f"{region_title}\n{calibration_words(calibration, target_delta)}")
    return figure


def _of_sizes(utility: pd.DataFrame, sizes: Sequence[int]) -> pd.DataFrame:
    missing = sorted(set(sizes) - set(utility["n"]))
    if missing:
        raise ValueError(f"sizes must be among the table's n (got {missing})")
    return utility[utility["n"].isin(sizes)]


def _eps_range(panel: pd.DataFrame) -> str:
    """Write the Gaussian's eps at the smallest and the largest n, for a title."""
    eps = panel.dropna(subset="eps").groupby("n")["eps"].first()
    if eps.empty:
        return ", no Gaussian exists"
    low, high = eps.iloc[0], eps.iloc[-1]
    if low == high:
        return rf", Gaussian at $\epsilon={low:.3g}$"
    return (
        rf", both at $\epsilon={low:.2g}$ for n = {eps.index[0]:,} "
        rf"falling to {high:.2g} for n = {eps.index[-1]:,}"
    )


def _pair_label(eps: float, log10_delta: float) -> str:
    """Write eps over ``log10 delta``."""
    exponent = f"{log10_delta:,.{1 if log10_delta > -100.0 else 0}f}".replace("-", "−")
    return f"{eps:.3g}\n({exponent})"


@local_style()
def distance_over_eps(utility: pd.DataFrame, region_title: str) -> Figure:
    """Distance at the largest n against the matched eps, a panel per eps0.

    The more eps is given, the smaller the delta that the shuffle model has there: the Gaussian
    must meet both. Shuffle+INV does not depend on eps and is a band.

    Parameters
    ----------
    utility
        Columns of `shuffledp.tables.UTILITY`.
    region_title
        Names the region.

    Returns
    -------
    Gaussian boxes as in `distance_boxes`; bands from the 10 to the 90 % quantile of shuffle+INV
    with a line at the mean.
    """
    n = utility["n"].max()
    gaussians, shuffles = _BOXES[:2], ("shuffle+INV raw", "shuffle+INV")
    rows = utility[(utility["n"] == n) & (utility["calibration"] != "as-published")]
    rows = rows[rows["mechanism"].isin([*gaussians, *shuffles])]
    budgets = sorted(rows["eps0"].unique())
    figure = new_figure(1.0 + 2.2 * len(budgets))
    panels = np.atleast_1d(figure.subplots(len(budgets), 1))
    for axes, eps0 in zip(panels, budgets, strict=True):
        panel = rows[rows["eps0"] == eps0]
        matched = panel[panel["calibration"] == "matched"]
        pairs = matched[["eps", "log10_delta"]].drop_duplicates().sort_values("eps")
        _draw_boxes(axes, [matched[matched["eps"] == eps] for eps in pairs["eps"]], gaussians)
        for mechanism in shuffles:
            _band(axes, panel.loc[panel["mechanism"] == mechanism, "tv_distance"], mechanism)
        _distance_axis(axes, panel["tv_distance"])
        labels = map(_pair_label, pairs["eps"], pairs["log10_delta"])
        axes.set_xticks(range(len(pairs)), list(labels))
        axes.set_title(rf"$\epsilon_0={eps0:g}$", loc="left")
    panels[-1].set_xlabel(
        r"$\epsilon$ of both mechanisms (beneath: $\log_{10}$ of the $\delta$ certified there)"
    )
    figure.legend(
        handles=[*legend_marks(gaussians), *_band_key(shuffles)],
        loc="outside lower center",
        ncols=4,
    )
    figure.suptitle(
        f"{region_title}, n = {n:,} users\nEqual privacy: at each $\\epsilon$ the Gaussian has the "
        r"$\delta$ certified for the shuffle model (sensitivity $\sqrt{2}$)"
    )
    return figure


def _band_key(mechanisms: Sequence[str]) -> list[Line2D]:
    return [
        Line2D([], [], color=look.colour, linestyle=line, label=look.label)
        for look, line in ((MECHANISMS[m], _BAND_LINES[m]) for m in mechanisms)
    ]


def _band(axes: Axes, values: pd.Series, mechanism: str) -> None:
    colour = MECHANISMS[mechanism].colour
    axes.axhspan(*values.quantile([0.1, 0.9]), color=colour, alpha=0.3, linewidth=0.0, zorder=0.5)
    axes.axhline(values.mean(), color=colour, linestyle=_BAND_LINES[mechanism], zorder=0.6)
