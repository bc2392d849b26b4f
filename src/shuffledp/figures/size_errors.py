"""Draw the errors of several estimates from the same noisy counts against the number of cells."""

from pathlib import Path
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from shuffledp.figures import style
from shuffledp.mechanisms.catalogue import CATALOGUE, DISTRIBUTION, POSTERIOR, UNBIASED

# Colours and markers of the estimators, which are all of one mechanism.
_LOOKS: Final = {
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
    `sizes` is a CSV file of `shuffledp.studies.cell_sizes.cell_sizes_table`.
    """
    table = pd.read_csv(sizes)
    figure = style.new_figure(3.3)
    left, right = figure.subplots(1, 2)
    by_k = table.pivot(index="k", columns="estimator", values="tv_distance")
    errors = table.pivot(index="k", columns="estimator", values="standard_error").fillna(0.0)
    ratios = by_k.div(by_k[_REFERENCE], axis="index")
    for estimator, (colour, marker, line, label) in _LOOKS.items():
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
