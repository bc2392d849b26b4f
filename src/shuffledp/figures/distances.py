"""Draw distances of estimated and true histograms, by n, by eps, by region and by size of cells."""

from collections.abc import Iterable, Mapping
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from shuffledp.figures import style
from shuffledp.figures.bounds import Line
from shuffledp.mechanisms.catalogue import (
    CATALOGUE,
    DELTA_HAT,
    DISTRIBUTION,
    POSTERIOR,
    UNBIASED,
    get_estimator,
)
from shuffledp.pipeline.selection import calibrated
from shuffledp.pipeline.tables import read_tables
from shuffledp.pipeline.units import has_bound

_Dashes = Mapping[Any, Any]  # line style by eps0

_BAND_LINES: Final[tuple[Line, ...]] = ("--", "-", ":", "-.")
_MIN_LOG_RATIO: Final = 10.0  # of the largest to the smallest distance, for a logarithmic axis
_DASHES: Final = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))  # by eps0
_QUANTILES: Final = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
_SERIES_OFFSET: Final = 0.015  # share of n or eps that separates neighbouring series
_MIN_RATIO: Final = 4.0  # of the right to the left end of an axis of n or eps
_GLYPH_WIDTH: Final = 0.0105  # width of a character of a tick label, as a share of the axis


def draw_comparison(summary: Path, *, target_delta: float) -> Figure:
    """Read the summary and draw `matched_comparison`."""
    return matched_comparison(pd.read_csv(summary), target_delta)


# --- Distances of one region -------------------------------------------------------------


def _draw_ranges(
    axes: Axes, rows: pd.DataFrame, x: str, series: style.Series, shift: float
) -> None:
    """Draw medians against a column, with thick bars between quartiles and thin ones to extremes.

    x is multiplied by `shift`, so that the series do not overlap.
    """
    look = style.series_look(*series)
    quantiles = rows.groupby(x)["tv_distance"].quantile(_QUANTILES).unstack()
    minimum, first, median, third, maximum = quantiles.to_numpy().T
    at = quantiles.index.to_numpy() * shift
    axes.vlines(at, minimum, maximum, color=look.colour, linewidth=0.8)
    axes.vlines(at, first, third, color=look.colour, linewidth=2.4)
    label = " ".join(series)
    axes.plot(at, median, linewidth=0.6, markersize=3.5, **style.marker_style(look), label=label)


def _set_log_axis(axes: Axes) -> None:
    """Make the horizontal axis logarithmic.

    A single value, or a few close ones, must not fill the whole width.
    """
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    widening = np.sqrt(max(1.0, _MIN_RATIO / (high / low)))
    axes.set_xlim(low / widening, high * widening)
    style.plain_log_axis(axes.xaxis)


def _set_distance_axis(axes: Axes, shown: pd.Series) -> None:
    axes.set_ylabel(style.distance_label(shown.max()))
    if shown.max() > _MIN_LOG_RATIO * shown.min() > 0.0:
        axes.set_yscale("log")
        style.plain_log_axis(axes.yaxis)
    else:
        axes.set_ylim(bottom=0.0)
    axes.grid(visible=True, axis="y")


@style.local_style()
def draw_distances(
    utility: Path, *, title: str, unit: str, calibration: str, target_delta: float
) -> Figure:
    """Draw the distance to the true histogram against n, one panel per eps0.

    The figure corresponds to figures 6 and 7 of paper A. It shows medians, with thick bars between
    quartiles and thin ones to the extremes of the repetitions. `utility` is a Parquet file with the
    columns of `pipeline.tables.UTILITY`; the last two parameters are those of
    `shuffledp.pipeline.selection.calibrated`.
    """
    rows = calibrated(read_tables([utility]), calibration, target_delta)
    series = style.list_series(rows)
    budgets = sorted(rows["eps0"].unique())
    figure = style.new_figure(1.0 + 1.9 * len(budgets))
    panels = np.atleast_1d(figure.subplots(len(budgets), 1, sharex=True))
    for axes, eps0 in zip(panels, budgets, strict=True):
        panel = rows[rows["eps0"] == eps0]
        for each, shift in style.series_shifts(panel, _SERIES_OFFSET):
            _draw_ranges(axes, style.series_rows(panel, each), "n", each, shift)
        _set_distance_axis(axes, rows["tv_distance"])
        axes.set_title(rf"$\epsilon_0={eps0:g}$" + _eps_range(panel), loc="left")
    _set_log_axis(panels[-1])
    panels[-1].set_xlabel(style.number_label(unit))
    figure.legend(handles=style.legend_marks(series), loc="outside lower center", ncols=3)
    calibrated_to = style.calibration_title(calibration, target_delta, rows["mechanism"])
    figure.suptitle(f"{style.escape_math(title)}\n{calibrated_to}")
    return figure


def _eps_range(panel: pd.DataFrame) -> str:
    """Return the last part of a panel's title: the calibrated eps at the smallest and largest n."""
    eps = panel.dropna(subset="eps").groupby("n")["eps"].first()
    if eps.empty:
        return ", no matched mechanism"
    low, high = eps.iloc[0], eps.iloc[-1]
    if low == high:
        return rf", calibrated to $\epsilon={style.format_eps(low)}$"
    range_ = (
        rf", all at $\epsilon={style.format_eps(low)}$ for n = {eps.index[0]:,}, "
        rf"which falls to {style.format_eps(high)} for n = {eps.index[-1]:,}"
    )
    hats = panel[panel["calibration"] == DELTA_HAT]["log10_delta"]
    if hats.empty:
        return range_
    return rf"{range_}; $\hat\delta$ from $10^{{{hats.min():.1f}}}$ to $10^{{{hats.max():.1f}}}$"


@style.local_style()
def draw_distances_over_eps(utility: Path, *, title: str, unit: str) -> Figure:
    """Draw the distance at the largest n against eps, one panel per eps0.

    At each eps, the ``matched`` mechanisms are calibrated to the delta that is certified for the
    shuffle model, which falls with eps. They are drawn as medians and bars, see `draw_distances`.
    Estimates from shuffled reports depend on eps0 alone and are drawn as bands from the 10 % to the
    90 % quantile, with a line at the mean. Above a panel is the logarithm of delta at each eps; it
    is left out where it would touch the next one.
    """
    table = read_tables([utility])
    n = table["n"].max()
    rows = table[(table["n"] == n) & table["calibration"].isin(["none", "matched"])]
    series = style.list_series(rows[rows["calibration"] == "matched"])
    unmatched = style.list_series(rows[rows["calibration"] == "none"])
    drawn = [each for each in unmatched if get_estimator(*each).counterpart is not None]
    bands = dict(zip(drawn, cycle(_BAND_LINES), strict=False))
    budgets = sorted(rows["eps0"].unique())
    figure = style.new_figure(1.0 + 2.2 * len(budgets))
    panels = np.atleast_1d(figure.subplots(len(budgets), 1, sharex=True))
    for axes, eps0 in zip(panels, budgets, strict=True):
        panel = rows[rows["eps0"] == eps0]
        matched = panel[panel["calibration"] == "matched"]
        for each, shift in style.series_shifts(matched, _SERIES_OFFSET):
            _draw_ranges(axes, style.series_rows(matched, each), "eps", each, shift)
        for each, line in bands.items():
            _draw_band(axes, style.series_rows(panel, each)["tv_distance"], each, line)
        shown = [style.series_rows(panel, each)["tv_distance"] for each in [*series, *bands]]
        _set_distance_axis(axes, pd.concat(shown))
        axes.set_title(
            rf"$\epsilon_0={eps0:g}$; below: $\log_{{10}}$ of the $\delta$ certified at $\epsilon$",
            loc="left",
        )
    _set_log_axis(panels[-1])
    for axes, eps0 in zip(panels, budgets, strict=True):
        _label_deltas(axes, rows[(rows["eps0"] == eps0) & (rows["calibration"] == "matched")])
    panels[-1].set_xlabel(r"$\epsilon$ of all mechanisms")
    band_lines = []
    for each, line in bands.items():
        estimator = get_estimator(*each)
        colour, label = estimator.look.colour, estimator.label
        band_lines.append(Line2D([], [], color=colour, linestyle=line, label=label))
    handles = [*style.legend_marks(series), *band_lines]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
    figure.suptitle(
        f"{style.escape_math(title)}, n = {style.count_units(n, unit)}\nEqual privacy: "
        r"at each $\epsilon$ all mechanisms have the $\delta$ certified for the shuffle model"
    )
    return figure


def _label_deltas(axes: Axes, matched: pd.DataFrame) -> None:
    """Write the logarithm of delta above the panel at each eps."""
    deltas = matched.groupby("eps")["log10_delta"].first()
    labels = {
        eps: f"{value:,.{1 if value > -100.0 else 0}f}".replace("-", "\N{MINUS SIGN}")
        for eps, value in zip(deltas.index.to_numpy(), deltas, strict=True)
    }
    shown = style.spaced_labels(labels, axes.get_xlim(), _GLYPH_WIDTH)
    above = axes.secondary_xaxis("top")
    above.set_xticks(list(shown), list(shown.values()))
    above.tick_params(which="minor", length=0)


def _draw_band(axes: Axes, values: pd.Series, series: style.Series, line: Line) -> None:
    colour = style.series_look(*series).colour
    low, high = values.quantile([0.1, 0.9])
    axes.axhspan(low, high, color=colour, alpha=0.3, linewidth=0.0, zorder=0.5)
    axes.axhline(values.mean(), color=colour, linestyle=line, zorder=0.6)


# --- Comparison of regions ---------------------------------------------------------------


@style.local_style()
def matched_comparison(summary: pd.DataFrame, target_delta: float) -> Figure:
    """Draw the accuracy of all mechanisms at equal privacy, one column per region.

    `summary` is the result of `shuffledp.studies.utility.comparison_summary`; eps follows from n
    and eps0. The first row shows the mean distance of raw estimates to the true histogram against n
    with 10 % to 90 % ranges, the second row that of distributions. The third row has the ratio of
    each mean to that of the reference mechanism, with two standard errors on either side.
    """
    regions = list(summary["region"].unique())
    # Two columns fill the page's width; more columns make the figure wider.
    dashes = dict(zip(sorted(summary["eps0"].unique()), cycle(_DASHES), strict=False))
    width = style.FULL_WIDTH * max(1.0, len(regions) / 2.0)
    figure = style.new_figure(6.8 + 0.15 * len(dashes), width)
    panels = figure.subplots(
        3, len(regions), sharex="col", sharey="row", squeeze=False, height_ratios=(1, 1, 0.9)
    )
    for column, region in zip(panels.T, regions, strict=True):
        _draw_region(column, region, summary[summary["region"] == region], dashes)
    for axes, estimate in zip(panels[:2, 0], ("raw", "projected"), strict=True):
        largest = summary[summary["estimate"] == estimate]["p90"].max()
        axes.set_ylabel(style.distance_label(largest))
    references = [CATALOGUE[name].label for name in summary["reference"].unique()]
    panels[2, 0].set_ylabel(
        f"ratio of mean distances\n(above 1: {' or '.join(references)} is closer)"
    )
    entries = style.legend_marks(style.list_series(summary))
    budgets = [
        Line2D([], [], color="black", linestyle=line, label=rf"$\epsilon_0={eps0:g}$")
        for eps0, line in dashes.items()
    ]
    # The legend is filled column by column; blank entries keep the budgets in the last one.
    lines = max(len(budgets), -(-len(entries) // 3))
    blank = [style.legend_mark(" ")]
    handles = [*entries, *blank * (-len(entries) % lines)]
    handles += [*budgets, *blank * (-len(budgets) % lines)]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles) // lines)
    units = " or ".join(summary["unit"].unique())
    gap = "\n" if has_bound(units) else " "  # a unit with a bound is long
    figure.suptitle(
        "Accuracy of shuffled randomised response and of central noise at equal privacy:\n"
        rf"all are certified ($\epsilon$, $\delta={style.power(target_delta)}$)-DP for the "
        rf"replacement of{gap}{units},{gap}with the same $\epsilon$ at each n and $\epsilon_0$"
    )
    return figure


def _draw_region(column: Iterable[Axes], title: str, rows: pd.DataFrame, dashes: _Dashes) -> None:
    """Draw the three panels of a region: raw estimates, distributions and ratios."""
    *above, below = column
    for axes, estimate, heading in zip(
        above, ("raw", "projected"), ("raw estimates", "distributions"), strict=True
    ):
        panel_rows = rows[rows["estimate"] == estimate]
        if panel_rows.empty:
            axes.set_axis_off()
            continue
        for series, shift in style.series_shifts(panel_rows, _SERIES_OFFSET):
            lines = style.series_rows(panel_rows, series)
            _draw_lines(axes, lines, series, shift, dashes, ("tv_distance", "p10", "p90"))
        axes.set_yscale("log")
        style.plain_log_axis(axes.yaxis)
        axes.grid(visible=True, axis="y")
        certified = _certified_eps(panel_rows) if estimate == "raw" else ""
        axes.set_title(f"{style.escape_math(title)}, {heading}{certified}", loc="left")
    below.axhline(1.0, color="black", linewidth=0.8)
    spread = 2.0 * rows["standard_error"].fillna(0.0)
    others = rows[rows["mechanism"] != rows["reference"]]
    ratios = rows.assign(low=rows["ratio"] - spread, high=rows["ratio"] + spread)
    for series, shift in style.series_shifts(others, _SERIES_OFFSET):
        lines = style.series_rows(ratios, series)
        _draw_lines(below, lines, series, shift, dashes, ("ratio", "low", "high"))
    below.grid(visible=True, axis="y")
    _set_log_axis(below)
    reference = CATALOGUE[rows["reference"].iloc[0]].label
    below.set_title(f"{style.escape_math(title)}, other mechanisms ÷ {reference}", loc="left")
    below.set_xlabel(style.number_label(rows["unit"].iloc[0]))


def _draw_lines(
    axes: Axes,
    rows: pd.DataFrame,
    series: style.Series,
    shift: float,
    dashes: _Dashes,
    columns: tuple[str, str, str],
) -> None:
    """Draw a line with range bars for each eps0; `columns` are value, low end and high end."""
    value, low, high = columns
    look = style.series_look(*series)
    for eps0, line in rows.groupby("eps0"):
        x = line["n"] * shift
        axes.vlines(x, line[low], line[high], color=look.colour, linewidth=0.9)
        axes.plot(
            x,
            line[value],
            linestyle=dashes[eps0],
            **style.marker_style(look),
            label=f"{' '.join(series)}, eps0={eps0:g}",
        )


def _certified_eps(rows: pd.DataFrame) -> str:
    """Return lines of a title: for each eps0 the certified eps at the smallest and largest n."""
    lines = ""
    for eps0, budget in rows.groupby("eps0"):
        certified = budget.groupby("n")["eps"].max().dropna()
        if not certified.empty:
            ends = dict.fromkeys(style.format_eps(certified.iloc[end]) for end in (0, -1))
            lines += f"\n$\\epsilon_0={eps0:g}$: $\\epsilon={'$ falling to $'.join(ends)}$"
    return lines


# --- Distances by the size of the cells -----------------------------------------------------------

# Colours and markers of the estimators, which are all of one mechanism.
_SIZE_LOOKS: Final = {
    UNBIASED: ("#999999", "o", ":", "raw (unbiased)"),
    "clipped": ("#8C510A", "s", "--", "clipped: negative counts are 0"),
    DISTRIBUTION: ("#0072B2", "D", "-.", "projected onto distributions"),
    POSTERIOR: ("#D55E00", "^", "-", "posterior median"),
}
_REFERENCE: Final = DISTRIBUTION  # the ratios of the second panel are to its distance


@style.local_style()
def draw_cell_sizes(sizes: Path, *, title: str, unit: str) -> Figure:
    """Draw the distance of each estimate to the true histogram against the number of cells.

    Mean distances are on the left, with two standard errors on either side (most are smaller than
    the markers). The ratios of the means to that of the projected estimate are on the right.
    `sizes` is a CSV file of `shuffledp.studies.utility.cell_sizes_table`.
    """
    table = pd.read_csv(sizes)
    figure = style.new_figure(3.3)
    left, right = figure.subplots(1, 2)
    by_k = table.pivot(index="k", columns="estimator", values="tv_distance")
    errors = table.pivot(index="k", columns="estimator", values="standard_error").fillna(0.0)
    ratios = by_k.div(by_k[_REFERENCE], axis="index")
    for estimator, (colour, marker, line, label) in _SIZE_LOOKS.items():
        look: dict[str, Any] = {"color": colour, "marker": marker, "linestyle": line}
        left.errorbar(by_k.index, by_k[estimator], 2.0 * errors[estimator], **look)
        right.plot(by_k.index, ratios[estimator], label=label, **look)
    left.set_yscale("log")
    style.plain_log_axis(left.yaxis)
    left.set_ylabel(style.distance_label(by_k.to_numpy().max()))
    right.set_yscale("log")
    right.yaxis.set_major_locator(LogLocator(subs=(1.0, 1.5, 2.0, 3.0, 5.0, 7.0)))
    right.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}"))
    right.yaxis.set_minor_locator(NullLocator())
    right.set_ylabel("ratio of distances")
    left.set_title("Distance to the true map", loc="left")
    right.set_title("Distance ÷ that of the projected estimate", loc="left")
    for axes in (left, right):
        _label_sizes(axes, table)
        axes.grid(visible=True, axis="y")
    figure.supxlabel(
        f"number of cells, mean number of {style.plural(unit)} per cell, share of empty cells",
        fontsize="medium",
    )
    # The upper left corner is empty, since errors grow with the number of cells.
    left.legend(handles=right.get_lines(), loc="upper left")
    first = table.iloc[0]
    figure.suptitle(
        f"{style.escape_math(title)}, n = {style.count_units(int(first['n']), unit)}: estimates "
        f"from the same noisy counts\nMechanism: {CATALOGUE[first['mechanism']].label}, "
        rf"$\epsilon={first['eps']:g}$, $\delta={style.power(first['delta'])}$; mean of "
        f"{first['repetitions']} releases"
    )
    return figure


def _label_sizes(axes: Axes, table: pd.DataFrame) -> None:
    """Label each number of cells with the mean count of a cell and the share of empty cells."""
    grids = table.drop_duplicates("k").set_index("k")
    axes.set_xscale("log")
    axes.xaxis.set_minor_locator(NullLocator())
    labels = grids.index.map("{:,}".format) + [
        f"\n{n / k:,.3g} per cell\n{empty:.0%} empty"
        for k, n, empty in zip(grids.index, grids["n"], grids["empty"], strict=True)
    ]
    axes.set_xticks(grids.index, labels)
    axes.margins(x=0.1)
