"""Total variation distances: paper A's figures 6 and 7, the sweep of eps, the matched comparison."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from shuffledp.figures.selection import calibrated, calibration_words
from shuffledp.figures.style import MECHANISMS, local_style, new_figure, plain_log_axis, power

Floats = NDArray[np.float64]

_BOXES = ("gaussian", "gaussian projected", "shuffle", "shuffle+INV")
_DISTANCE = "total variation distance"
_LOG_FROM = 10.0  # ratio of the largest distance to the smallest


def _draw_boxes(axes: Axes, groups: Sequence[pd.DataFrame], mechanisms: Sequence[str]) -> None:
    """Boxes of one mechanism beside the other, group by group at x = 0, 1, 2, ..."""
    step = 0.84 / len(mechanisms)
    for offset, mechanism in enumerate(mechanisms):
        look = MECHANISMS[mechanism]
        drawn = [
            (x, group.loc[group["mechanism"] == mechanism, "tv_distance"].to_numpy())
            for x, group in enumerate(groups)
        ]
        drawn = [(x, values) for x, values in drawn if values.size]
        line = {"color": look.colour, "linewidth": 0.8}
        positions = [x + (offset - (len(mechanisms) - 1) / 2) * step for x, _ in drawn]
        axes.boxplot(
            [values for _, values in drawn],
            positions=positions,
            widths=0.8 * step,
            whis=(0, 100),
            patch_artist=True,
            manage_ticks=False,
            boxprops={"facecolor": look.face, "edgecolor": look.colour, "linewidth": 0.8},
            medianprops={"linewidth": 0.0},
            whiskerprops=line,
            capprops=line,
        )
        # A marker at the median instead of a line: it tells mechanisms apart where boxes are flat.
        axes.plot(
            positions,
            [np.median(values) for _, values in drawn],
            linestyle="none",
            marker=look.marker,
            markersize=3.5,
            color=look.colour,
            markerfacecolor=look.face,
            markeredgecolor="white" if look.filled else look.colour,
            label=mechanism,
        )
    axes.set_xlim(-0.5, len(groups) - 0.5)
    axes.set_xticks(np.arange(len(groups) - 1) + 0.5, minor=True)
    axes.tick_params(axis="x", which="both", length=0)
    axes.grid(visible=True, axis="x", which="minor")


def _marks(mechanisms: Sequence[str]) -> list[Line2D]:
    return [
        Line2D(
            [],
            [],
            linestyle="none",
            marker=look.marker,
            color=look.colour,
            markerfacecolor=look.face,
            markersize=5,
            label=look.label,
        )
        for look in (MECHANISMS[mechanism] for mechanism in mechanisms)
    ]


def _distance_axis(axes: Axes, shown: pd.Series) -> None:
    axes.set_ylabel(_DISTANCE)
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
    calibration: str,
    sizes: Sequence[int],
    target_delta: float,
    mechanisms: Sequence[str] = _BOXES,
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
    mechanisms
        Boxes beside each other. Shuffle+INV is projected onto the simplex; its like is the
        projected Gaussian.

    Returns
    -------
    Boxes from quartile to quartile with the median, whiskers to the extremes of the repetitions.

    Raises
    ------
    ValueError
        If a size is not in the table, or it has no Gaussian of that calibration.
    """
    missing = sorted(set(sizes) - set(utility["n"]))
    if missing:
        raise ValueError(f"sizes must be among the table's n (got {missing})")
    sizes = sorted(sizes)
    rows = calibrated(utility[utility["n"].isin(sizes)], calibration, target_delta)
    rows = rows[rows["mechanism"].isin(mechanisms)]
    budgets = sorted(rows["eps0"].unique())
    figure = new_figure(1.0 + 1.9 * len(budgets))
    panels = np.atleast_1d(figure.subplots(len(budgets), 1, sharex=True))
    for axes, eps0 in zip(panels, budgets, strict=True):
        panel = rows[rows["eps0"] == eps0]
        _draw_boxes(axes, [panel[panel["n"] == n] for n in sizes], mechanisms)
        _distance_axis(axes, rows["tv_distance"])
        axes.set_title(rf"$\epsilon_0={eps0:g}$" + _eps_range(panel, sizes), loc="left")
    panels[-1].set_xticks(range(len(sizes)), [f"{n:,}" for n in sizes])
    panels[-1].set_xlabel("number of users n (one check-in each)")
    figure.legend(handles=_marks(mechanisms), loc="outside lower center", ncols=len(mechanisms))
    figure.suptitle(f"{region_title}\n{calibration_words(calibration, target_delta)}")
    return figure


def _eps_range(panel: pd.DataFrame, sizes: Sequence[int]) -> str:
    """The Gaussian's eps at the smallest and the largest n, for a title."""
    eps = panel.dropna(subset="eps").groupby("n")["eps"].first()
    low, high = eps.iloc[0], eps.iloc[-1]
    if low == high:
        return rf", Gaussian at $\epsilon={low:.3g}$"
    return (
        rf", both at $\epsilon={low:.2g}$ for n = {eps.index[0]:,} "
        rf"falling to {high:.2g} for n = {eps.index[-1]:,}"
    )


def _exponent(log10_delta: float) -> str:
    """``log10 delta`` under a tick label."""
    return f"{log10_delta:,.{1 if log10_delta > -100.0 else 0}f}".replace("-", "−")


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
        labels = [
            f"{eps:.3g}\n({_exponent(log10)})"
            for eps, log10 in pairs.itertuples(index=False, name=None)
        ]
        axes.set_xticks(range(len(pairs)), labels)
        axes.set_title(rf"$\epsilon_0={eps0:g}$", loc="left")
    panels[-1].set_xlabel(
        r"$\epsilon$ of both mechanisms (beneath: $\log_{10}$ of the $\delta$ certified there)"
    )
    bands = [
        Line2D([], [], color=look.colour, linestyle=line, label=look.label)
        for look, line in ((MECHANISMS[m], _BAND_LINES[m]) for m in shuffles)
    ]
    figure.legend(handles=[*_marks(gaussians), *bands], loc="outside lower center", ncols=4)
    figure.suptitle(
        f"{region_title}, n = {n:,} users\nEqual privacy: at each $\\epsilon$ the Gaussian has the "
        r"$\delta$ certified for the shuffle model (sensitivity $\sqrt{2}$)"
    )
    return figure


_BAND_LINES = {"shuffle+INV raw": "--", "shuffle+INV": "-"}


def _band(axes: Axes, values: pd.Series, mechanism: str) -> None:
    colour = MECHANISMS[mechanism].colour
    axes.axhspan(*values.quantile([0.1, 0.9]), color=colour, alpha=0.3, linewidth=0.0, zorder=0.5)
    axes.axhline(values.mean(), color=colour, linestyle=_BAND_LINES[mechanism], zorder=0.6)


_PAIRS = (
    ("raw", "gaussian", "shuffle+INV raw"),
    ("projected", "gaussian projected", "shuffle+INV"),
)
_DASHES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))  # one per eps0
_DODGE = 0.012  # keeps the range bars of mechanisms at the same n apart


@local_style()
def matched_comparison(
    utility_by_region: Mapping[str, pd.DataFrame], target_delta: float
) -> Figure:
    """What the shuffle model costs in accuracy at equal certified privacy, a column per region.

    Parameters
    ----------
    utility_by_region
        Title to a table with the columns of `shuffledp.tables.UTILITY`.
    target_delta
        The delta both mechanisms have; eps follows from n and eps0.

    Returns
    -------
    Mean distance to the true histogram against n with 10 to 90 % ranges, like with like: raw
    estimates in the first row, projected ones in the second. Beneath, the ratio of the means,
    shuffle+INV over Gaussian, with two standard errors on either side (`distance_ratio`).

    Raises
    ------
    ValueError
        If a table has no Gaussian at the target delta.
    """
    figure = new_figure(6.6)
    panels = figure.subplots(
        3,
        len(utility_by_region),
        sharex="col",
        sharey="row",
        squeeze=False,
        height_ratios=(1, 1, 0.9),
    )
    for column, (title, utility) in zip(panels.T, utility_by_region.items(), strict=True):
        rows = calibrated(utility, "matched", target_delta)
        for axes, (kind, *mechanisms) in zip(column, _PAIRS, strict=False):
            for mechanism, side in zip(mechanisms, (1.0 - _DODGE, 1.0 + _DODGE), strict=True):
                _draw_means(axes, rows[rows["mechanism"] == mechanism], mechanism, side)
            axes.set_yscale("log")
            plain_log_axis(axes.yaxis)
            axes.grid(visible=True, axis="y")
            axes.set_title(f"{title}, {kind} estimates", loc="left")
            _name_budgets(axes, rows[rows["mechanism"].isin(mechanisms)], eps=kind == "raw")
        _draw_ratios(column[2], rows)
        column[2].set_title(f"{title}, shuffle+INV ÷ Gaussian", loc="left")
        column[2].set_xlabel("number of users n (one check-in each)")
    for axes in panels[:2, 0]:
        axes.set_ylabel(_DISTANCE)
    panels[2, 0].set_ylabel("ratio of mean distances\n(above 1: Gaussian closer)")
    budgets = pd.concat(utility_by_region.values())["eps0"].unique()
    figure.legend(handles=_comparison_key(budgets), loc="outside lower center", ncols=4)
    figure.suptitle(
        "Accuracy of shuffled randomised response and the central Gaussian at equal privacy:\n"
        rf"both certified ($\epsilon$, $\delta={power(target_delta)}$)-DP for the replacement of one "
        r"check-in, the same $\epsilon$ at each n and $\epsilon_0$"
    )
    return figure


def _dashes(budgets: Sequence[float]) -> Iterator[tuple[float, Any]]:
    return zip(sorted(budgets), cycle(_DASHES))


def _draw_means(axes: Axes, rows: pd.DataFrame, mechanism: str, side: float) -> None:
    look = MECHANISMS[mechanism]
    for eps0, dashes in _dashes(rows["eps0"].unique()):
        distances = rows[rows["eps0"] == eps0].groupby("n")["tv_distance"]
        n, mean = np.array(list(distances.groups)), distances.mean().to_numpy()
        low, high = (distances.quantile(share).to_numpy() for share in (0.1, 0.9))
        x = n * side
        axes.vlines(x, low, high, color=look.colour, linewidth=0.9)
        axes.plot(
            x,
            mean,
            color=look.colour,
            linestyle=dashes,
            marker=look.marker,
            markerfacecolor=look.face,
            label=f"{mechanism}, eps0={eps0:g}",
        )


def _name_budgets(axes: Axes, rows: pd.DataFrame, *, eps: bool) -> None:
    """Write eps0 above its lines and, if asked, the eps certified at both ends."""
    for eps0, budget in rows.groupby("eps0"):
        text = rf"$\epsilon_0={eps0:g}$"
        if eps:
            ends = budget.groupby("n")["eps"].max().iloc[[0, -1]]
            text += rf" ($\epsilon$ from {ends.iloc[0]:.2g} to {ends.iloc[1]:.2g})"
        means = budget.groupby(["n", "mechanism"])["tv_distance"].mean().groupby("n").max()
        anchor = len(means) // 4
        where = (means.index[anchor], means.iloc[anchor])
        axes.annotate(text, where, (2, 6), textcoords="offset points", fontsize=7.5)


def distance_ratio(rows: pd.DataFrame, numerator: str, denominator: str) -> pd.DataFrame:
    """Ratio of two mechanisms' mean distances and its standard error, by eps0 and n.

    The mechanisms' noise is independent, so the relative variances of the means add.

    Parameters
    ----------
    rows
        Utility rows of one calibration: columns ``eps0, n, mechanism, tv_distance``.
    numerator, denominator
        Mechanisms.

    Returns
    -------
    Columns ``eps0, n, ratio, standard_error``; only where both mechanisms are present. The error
    is NaN for a single repetition.
    """
    by = rows.groupby(["mechanism", "eps0", "n"])["tv_distance"]
    table = pd.DataFrame({"mean": by.mean(), "relative": by.sem() / by.mean()})
    joined = table.loc[numerator].join(
        table.loc[denominator], lsuffix="_above", rsuffix="_below", how="inner"
    )
    ratio = joined["mean_above"] / joined["mean_below"]
    error = ratio * np.hypot(joined["relative_above"], joined["relative_below"])
    return pd.DataFrame({"ratio": ratio, "standard_error": error}).reset_index()


def _draw_ratios(axes: Axes, rows: pd.DataFrame) -> None:
    axes.axhline(1.0, color="black", linewidth=0.8)
    for (kind, below, above), side in zip(_PAIRS, (1.0 - _DODGE, 1.0 + _DODGE), strict=True):
        ratios = distance_ratio(rows, above, below)
        for eps0, dashes in _dashes(ratios["eps0"].unique()):
            line = ratios[ratios["eps0"] == eps0]
            x, spread = line["n"] * side, 2.0 * line["standard_error"].fillna(0.0)
            axes.vlines(x, line["ratio"] - spread, line["ratio"] + spread, "black", linewidth=0.9)
            axes.plot(
                x,
                line["ratio"],
                color="black",
                linestyle=dashes,
                marker="D",
                markersize=3.5,
                markerfacecolor="black" if kind == "raw" else "white",
                label=f"{kind}, eps0={eps0:g}",
            )
    axes.grid(visible=True, axis="y")
    axes.set_xscale("log")
    plain_log_axis(axes.xaxis)


def _comparison_key(budgets: Sequence[float]) -> list[Line2D]:
    """Entries in the order in which a legend's columns fill: down, then across."""
    ratios = [
        Line2D([], [], linestyle="none", marker="D", color="black", mfc=face, label=label)
        for face, label in [("black", "ratio, raw"), ("white", "ratio, projected")]
    ]
    lines = [
        Line2D([], [], color="black", linestyle=dashes, label=rf"$\epsilon_0={eps0:g}$")
        for eps0, dashes in _dashes(budgets)
    ]
    marks = _marks(["gaussian", "gaussian projected", "shuffle+INV raw", "shuffle+INV"])
    return [*marks, *ratios, *lines]
