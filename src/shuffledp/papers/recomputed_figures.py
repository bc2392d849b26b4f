"""Draw the recomputed figures of papers A to D from their tables."""

from collections.abc import Mapping
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from shuffledp.figures import style
from shuffledp.figures.bounds import (
    GUARANTEES,
    LINE_STYLES,
    STEPS,
    bound_colour,
    coincidence_note,
    guarantee_steps,
)
from shuffledp.mechanisms.catalogue import Look
from shuffledp.numerics.arrays import Floats
from shuffledp.papers.figure_specs import Between, FigureText
from shuffledp.pipeline.tables import read_metadata, read_tables

# --- Curves ---------------------------------------------------------------------------------------

_MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
_PLAIN_NUMBERS: Final = 1e-4, 1e4  # range of an axis with plain numbers instead of powers of ten
_PANEL_HEIGHT_INCHES, _MAX_COLUMNS, _MARKS_PER_CURVE = 2.6, 3, 6
_GUIDE_NOTE: Final = (
    "Computed at the marks; the lines of guarantees between them only guide the eye."
)


def draw_curves(curves: Path) -> Figure:
    """Draw `curve_panels` from a file of curves with the figure's text in its metadata."""
    return curve_panels(read_tables([curves]), FigureText.read(read_metadata(curves)))


@style.local_style()
def curve_panels(table: pd.DataFrame, text: FigureText) -> Figure:
    """Draw every panel of a figure, with one legend for all.

    Solid lines are exact or upper bounds, dash-dotted ones lower bounds, dotted ones
    approximations, dashed ones a formula as printed. Exact bounds are wider and have no marker.
    Between its points a guarantee is drawn as steps, which are proven; where nothing is proven,
    thin lines join marks. Colours are those of `bounds.bound_colour`. A note above the legend
    names curves that cannot be told apart. The columns of the table are those of
    `figure_specs.curve`.
    """
    panels = list(table["panel"].unique())
    columns = min(len(panels), 2 if len(panels) in (2, 4) else _MAX_COLUMNS)
    rows = -(-len(panels) // columns)
    names = list(table["curve"].unique())
    note = coincidence_note(table, text.x_scale, text.y_scale)
    if text.between == "points":
        note = f"{_GUIDE_NOTE}\n{note}".strip()
    legend_rows = -(-len(names) // 2) + len(note.splitlines())
    figure = style.new_figure(_PANEL_HEIGHT_INCHES * rows + 0.16 * legend_rows + 0.4)
    panel_axes = np.atleast_1d(figure.subplots(rows, columns, squeeze=False)).ravel()
    looks = _looks(table, marked=text.between == "points")
    for axes, panel in zip(panel_axes, panels, strict=False):
        _draw_panel(axes, table[table["panel"] == panel], looks, text.between)
        axes.set_title(panel, loc="left")
        axes.set(xscale=text.x_scale, yscale=text.y_scale, xlabel=text.x_label)
        for axis in (axes.xaxis, axes.yaxis):
            low, high = axis.get_view_interval()
            if axis.get_scale() == "log" and low >= _PLAIN_NUMBERS[0] and high <= _PLAIN_NUMBERS[1]:
                style.plain_log_axis(axis)
    for axes in panel_axes[::columns]:
        axes.set_ylabel(text.y_label)
    for axes in panel_axes[len(panels) :]:
        axes.remove()
    handles = {
        label: handle
        for axes in panel_axes[: len(panels)]
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    options: dict[str, Any] = {"handlelength": 3.5, "title_fontsize": 7.5, "alignment": "left"}
    options |= {"loc": "outside lower center", "ncols": 2}
    figure.legend([handles[name] for name in names], names, title=note or None, **options)
    figure.suptitle(text.title)
    return figure


def _looks(table: pd.DataFrame, *, marked: bool) -> dict[str, tuple[str, str]]:
    """Return the colour and marker of each curve, by its name.

    Bounds have the colours of `bound_colour`, and no marker if they are exact, unless all curves
    are marked. Other curves, such as those of several k, go from dark to light in their order.
    """
    markers = cycle(_MARKERS)
    kinds = table.drop_duplicates("curve").set_index("curve")["kind"]
    named = {str(name): bound_colour(str(name)) for name in kinds.index}
    others = iter(style.ordered_colours(sum(colour is None for colour in named.values())))
    looks = {}
    for name, colour in named.items():
        plain = colour is not None and kinds[name] == "exact" and not marked
        looks[name] = colour or next(others), "" if plain else next(markers)
    return looks


def _draw_panel(
    axes: Axes, table: pd.DataFrame, looks: dict[str, tuple[str, str]], between: Between
) -> None:
    for number, (name, rows) in enumerate(table.groupby("curve", sort=False)):
        colour, marker = looks[str(name)]
        kind = rows["kind"].iloc[0]
        x, y, drawstyle, apart = rows["x"].to_numpy(), rows["y"].to_numpy(), "default", 1
        proven = kind in GUARANTEES
        if proven and between == "next":
            drawstyle = "steps-pre"
        elif proven and between == "delta over eps":
            (x, y), drawstyle, apart = _steps(x, y), "steps-post", STEPS
        elif proven and between == "eps over delta":
            (y, x), drawstyle, apart = _steps(y, x), "steps-pre", STEPS
        guide = proven and between == "points"
        step = 1 if guide else max(1, len(rows) // _MARKS_PER_CURVE)
        axes.plot(
            x,
            y,
            color=colour,
            drawstyle=drawstyle,
            marker=marker,
            markevery=(apart * (number % step), apart * step),
            markersize=3.5,
            linestyle=LINE_STYLES[kind],
            linewidth=0.4 if guide else 1.6 if not marker else 1.1,
            label=name,
        )
    axes.grid(visible=True, axis="both")


def _steps(eps: Floats, delta: Floats) -> tuple[Floats, Floats]:
    """Return the eps and delta of `bounds.guarantee_steps` for points in any order."""
    sorted_eps, places = np.unique(eps, return_index=True)
    with np.errstate(divide="ignore"):
        x, logs = guarantee_steps(sorted_eps, np.log10(delta[places]))
    steps = 10.0**logs
    steps[::STEPS] = np.maximum(steps[::STEPS], delta[places])  # undo rounding by the logarithm
    return x, steps


# --- Paper A --------------------------------------------------------------------------------------

_PANELS: Final = (
    ("single-bin-as-printed", r"$\delta$ by Theorem IV.1 as printed (one bin)"),
    ("upper", r"$\delta$ certified for the whole histogram"),
)
# Levels of the contours, in powers of ten: a wide step, and finer levels for the certified delta.
_LEVEL_STEP: Final = 20.0
_FINE_LEVELS: Final = (-10.0, -5.0, -2.0, 0.0)
_QUANTILES: Final = (0.05, 0.95)


@style.local_style()
def draw_contours(surface: Path) -> Figure:
    """Draw delta over eps and eps0 as contours on one log scale (paper A's surfaces of figure 1).

    The file has `paper_a.surface_table`, and in its metadata the number of other users in the cell
    x0, which the title states.
    """
    table, count = read_tables([surface]), int(read_metadata(surface)["count"])
    figure = style.new_figure(3.6)
    panels = figure.subplots(1, 2, sharey=True)
    deepest = _LEVEL_STEP * (table["log10_delta"].min() // _LEVEL_STEP)
    levels = [*np.arange(deepest, _FINE_LEVELS[0], _LEVEL_STEP), *_FINE_LEVELS]
    for axes, (bound, title) in zip(panels, _PANELS, strict=True):
        filled = _draw_contours(axes, table[table["bound"] == bound], levels)
        axes.set_title(title, loc="left")
        axes.set_xlabel(r"central budget $\epsilon$ (nats)")
    panels[0].set_ylabel(r"local budget $\epsilon_0$ (nats)")
    bar = figure.colorbar(filled, ax=panels, label=r"$\delta$ (probability)", pad=0.02)
    bar.set_ticks(levels, labels=[f"${style.power(10.0**level)}$" for level in levels])
    n, k = table["n"].iloc[0], table["k"].iloc[0]
    figure.suptitle(
        rf"Biswas et al., figure 1: n = {n}, k = {k}, {count} others in $x_0$ (assumed)"
    )
    return figure


def _draw_contours(axes: Axes, rows: pd.DataFrame, levels: list[float]) -> Any:
    """Draw bands of log10 delta with labelled lines between them, and return the bands."""
    points = rows["eps"], rows["eps0"], rows["log10_delta"]
    filled = axes.tricontourf(*points, levels, cmap="cividis", norm=BoundaryNorm(levels, 256))
    # White lines on the dark half of the bands.
    inks = ["white"] * (len(levels) // 2) + ["black"] * (len(levels) - len(levels) // 2)
    lines = axes.tricontour(*points, levels, colors=inks, linewidths=0.6, linestyles="solid")
    axes.clabel(lines, fmt=lambda level: f"${style.power(10.0**level)}$", fontsize=7)
    top = rows["eps0"].max()
    axes.fill_between([0.0, top], [0.0, top], color="0.9", linewidth=0.0, zorder=0)
    note = r"$\delta=0$ where $\epsilon\geq\epsilon_0$"
    axes.annotate(note, (0.97, 0.05), xycoords="axes fraction", ha="right")
    axes.set(xlim=(0.0, top), ylim=(0.0, top))
    axes.set_aspect("equal")
    return filled


@style.local_style()
def draw_synthetic_distances(distances: Path) -> Figure:
    """Draw total variation distance over n on the synthetic data (figure 2).

    The file has `paper_a.distance_table`. The panels show medians with bands from the 5 % to the
    95 % quantile, with the Gaussian as published (left) and at equal privacy (right).
    """
    utility = read_tables([distances])
    figure = style.new_figure(3.9)
    panels = figure.subplots(1, 2, sharey=True)
    eps0 = utility["eps0"].iloc[0]
    for axes, calibration in zip(panels, ("as-published", "matched"), strict=True):
        rows = utility[utility["calibration"].isin(["none", calibration])]
        for series in style.list_series(rows):
            _draw_band(axes, style.series_rows(rows, series), series)
        axes.set(xscale="log", yscale="log", xlabel="number of users n")
        axes.grid(visible=True, axis="both")
    style.plain_log_axis(panels[0].yaxis)
    panels[0].set_ylabel(style.DISTANCE_LABEL)
    panels[0].set_title(rf"as published: Gaussian at $\epsilon=\epsilon_0={eps0:g}$", loc="left")
    matched = utility[utility["calibration"] == "matched"]
    delta = style.power(matched["delta"].iloc[0])
    low, high = matched["eps"].min(), matched["eps"].max()
    panels[1].set_title(
        rf"equal privacy: $\delta={delta}$, $\epsilon$ = {high:.2g} falling to {low:.2g}",
        loc="left",
    )
    marks = style.legend_marks(style.list_series(utility))
    figure.legend(handles=marks, loc="outside lower center", ncols=3)
    figure.suptitle(
        "Biswas et al., figure 2: 15 cells, normal data of variance 2 rounded to whole numbers "
        "(assumed)"
    )
    return figure


def _draw_band(axes: Axes, rows: pd.DataFrame, series: style.Series) -> None:
    look, (low, high) = style.series_look(*series), _QUANTILES
    levels = rows.groupby("n")["tv_distance"].quantile(np.array([low, 0.5, high])).unstack()
    sizes = levels.index.to_numpy()
    axes.fill_between(
        sizes, levels[low], levels[high], color=look.colour, alpha=0.15, linewidth=0.0
    )
    line = "-" if look.filled else "--"
    axes.plot(sizes, levels[0.5], linestyle=line, **style.marker_style(look))


# --- Paper D, figures 6 to 8: estimates of means and frequencies ----------------------------------

# Legend and look of each estimator of `shuffledp.papers.paper_d.estimation`.
_LOOKS: Final[Mapping[str, tuple[str, Look]]] = {
    "as-published": ("Chen et al., reports shuffled together", Look("#0072B2", "o")),
    "by-share": (
        "by group, weighted by share (reports reveal their budget): unbiased for all data",
        Look("#009E73", "s"),
    ),
    "by-precision": (
        "by group, by precision (reports reveal their budget): biased if records depend on budgets",
        Look("#D55E00", "^"),
    ),
    "smallest-budget": (
        "all users at the conservative users' budget",
        Look("#777777", "v", filled=False),
    ),
    "without-conservative": ("without conservative users", Look("#CC79A7", "D", filled=False)),
}
_X_LABELS: Final[Mapping[str, str]] = {
    "share": "share of conservative users $f_C$",
    "budget": r"budget of conservative users $\epsilon_C$",
}
_SERIES_OFFSET: Final = 0.008  # share of the axis; keeps the ranges of series apart


@style.local_style()
def draw_estimates(estimates: Path, *, title: str) -> Figure:
    """Draw estimates with their range, and their errors, along each sweep.

    The CSV file has `shuffledp.papers.paper_d.estimation.estimate_table`. Each sweep has a column
    of two panels: means and 5 to 95 % ranges of the estimates with the truth (grey line), and the
    root mean square error, simulated (marks) and by closed forms (lines).
    """
    table = pd.read_csv(estimates)
    sweeps = list(table["varied"].unique())
    names = [name for name in _LOOKS if name in set(table["estimator"])]
    figure = style.new_figure(5.2 + 0.16 * len(names))
    panels = figure.subplots(2, len(sweeps), squeeze=False)
    for (top, bottom), varied in zip(panels.T, sweeps, strict=True):
        rows = table[table["varied"] == varied]
        _draw_estimates(top, rows, names)
        _draw_errors(bottom, rows, names)
        for axes in (top, bottom):
            axes.set_xlabel(_X_LABELS[varied])
            axes.grid(visible=True, axis="both")
        bottom.set_yscale("log")
        bottom.margins(y=0.1)
        style.plain_log_axis(bottom.yaxis)
    handles = [
        Line2D([], [], linewidth=0.9, **style.marker_style(look), label=label)
        for label, look in (_LOOKS[name] for name in names)
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=1)
    figure.suptitle(title)
    return figure


def _marks(axes: Axes, x: ArrayLike, y: ArrayLike, look: Look, size: float) -> None:
    axes.plot(x, y, linestyle="none", markersize=size, **style.marker_style(look))


def _draw_estimates(axes: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    width = rows["value"].max() - rows["value"].min()
    truth = rows.groupby("value")["truth"].mean()
    axes.plot(truth.index, truth, color="0.6", linewidth=2.5, zorder=1)
    for place, (look, series) in enumerate(_series(rows, names)):
        at = series["value"] + _SERIES_OFFSET * width * (place - (len(names) - 1) / 2.0)
        axes.vlines(at, series["p05"], series["p95"], color=look.colour, linewidth=0.9)
        _marks(axes, at, series["mean"], look, 3.0)
    axes.set_ylabel("estimate")


def _draw_errors(axes: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    for look, series in _series(rows, names):
        measured = np.hypot(series["mean"] - series["truth"], series["deviation"])
        expected = np.hypot(series["expected_bias"], series["expected_deviation"])
        axes.plot(series["value"], expected, color=look.colour, linewidth=0.9)
        _marks(axes, series["value"], measured, look, 3.5)
    axes.set_ylabel("root mean square error")


def _series(rows: pd.DataFrame, names: list[str]) -> list[tuple[Look, pd.DataFrame]]:
    return [(_LOOKS[name][1], rows[rows["estimator"] == name]) for name in names]


# --- Paper D, figure 5: training ------------------------------------------------------------------

# Looks of the laws of paper D's Table 3, in Okabe and Ito's colours, with marks for grey print.
_LAWS: Final[Mapping[str, Look]] = {
    "no noise": Look("#000000", ""),
    "Uniform 1": Look("#0072B2", "o"),
    "Uniform 2": Look("#56B4E9", "s"),
    "Gauss 1": Look("#D55E00", "^"),
    "Gauss 2": Look("#009E73", "D"),
    "Gauss 3": Look("#CC79A7", "v"),
}
_EPOCHS_PER_MARK: Final = 10
_PRINTED_ACCURACY: Final = 0.9678  # test accuracy that paper D prints


@style.local_style()
def draw_training(accuracies: Path) -> Figure:
    """Draw accuracy over epochs for each law of budgets, in a panel for each ``counted_as``.

    The CSV file has `shuffledp.papers.paper_d.training.training_table`. Lines are solid for the
    training set and dashed for the test set.
    """
    table = pd.read_csv(accuracies)
    counts = list(table["counted_as"].unique())
    figure = style.new_figure(3.3)
    panels = figure.subplots(1, len(counts), squeeze=False)[0]
    n = table["n_train"].iloc[0]
    for axes, size in zip(panels, counts, strict=True):
        rows = table[table["counted_as"] == size]
        for place, (law, look) in enumerate(_LAWS.items()):
            series = rows[rows["law"] == law]
            every = (2 * place % _EPOCHS_PER_MARK, _EPOCHS_PER_MARK)
            marked = style.marker_style(look) | {"markevery": every}
            axes.plot(series["epoch"], series["train_accuracy"], linewidth=1.2, **marked)
            dashed: dict[str, Any] = {"color": look.colour, "linewidth": 0.8, "linestyle": "--"}
            axes.plot(series["epoch"], series["test_accuracy"], **dashed)
        axes.axhline(_PRINTED_ACCURACY, color="0.5", linewidth=0.8, linestyle=":")
        axes.set(xlabel="epoch", ylim=(0.0, 1.02))
        axes.grid(visible=True, axis="both")
        note = f", counted as {size:,}" if size > n else ""
        axes.set_title(f"{n:,} images{note}", loc="left")
    panels[0].set_ylabel("accuracy")
    entries = [Line2D([], [], label=law, **style.marker_style(look)) for law, look in _LAWS.items()]
    entries.append(Line2D([], [], color="0.3", linestyle="--", linewidth=0.8, label="test set"))
    as_printed = f"test set, as printed: {_PRINTED_ACCURACY:.2%}"
    entries.append(Line2D([], [], color="0.5", linestyle=":", label=as_printed))
    figure.legend(handles=entries, loc="outside lower left", ncols=4)
    figure.suptitle(
        f"Chen et al., figure 5: Algorithm 1 on {table['data'].iloc[0]}, by law of budgets"
    )
    return figure
