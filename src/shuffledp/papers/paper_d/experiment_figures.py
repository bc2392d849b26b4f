"""Draw the figures of paper D's experiments with personal budgets from their tables."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from shuffledp.figures import style
from shuffledp.mechanisms.catalogue import Look

_PUBLISHED, _BY_SHARE = Look("#0072B2", "o"), Look("#009E73", "s")
_BY_PRECISION, _DROPPED = Look("#D55E00", "^"), Look("#CC79A7", "D", filled=False)


def _marks(axes: Axes, x: ArrayLike, y: ArrayLike, look: Look, size: float = 4.0) -> None:
    """Draw points without a line."""
    axes.plot(x, y, linestyle="none", markersize=size, **style.marker_style(look))


# --- Figures 6 to 8: estimates of means and frequencies -------------------------------------------

# Legend and look of each estimator of `shuffledp.papers.paper_d.estimation`.
_LOOKS: Final[Mapping[str, tuple[str, Look]]] = {
    "as-published": ("Chen et al., reports shuffled together", _PUBLISHED),
    "by-share": (
        "by group, weighted by share (reports reveal their budget): unbiased for all data",
        _BY_SHARE,
    ),
    "by-precision": (
        "by group, by precision (reports reveal their budget): biased if records depend on budgets",
        _BY_PRECISION,
    ),
    "smallest-budget": (
        "all users at the conservative users' budget",
        Look("#777777", "v", filled=False),
    ),
    "without-conservative": ("without conservative users", _DROPPED),
}
_X_LABELS: Final[Mapping[str, str]] = {
    "share": "share of conservative users $f_C$",
    "budget": r"budget of conservative users $\epsilon_C$",
}
_SERIES_OFFSET: Final = 0.008  # share of the axis; keeps the ranges of series apart


def draw_estimates(estimates: Path, privacy: Path, *, title: str) -> Figure:
    """Draw `estimate_panels` from CSV files of estimates and of their privacy."""
    certified = pd.read_csv(privacy).drop(columns="tagged")
    table = pd.read_csv(estimates).merge(certified, on=["varied", "value", "estimator"])
    return estimate_panels(table, title)


@style.local_style()
def estimate_panels(table: pd.DataFrame, title: str) -> Figure:
    """Draw estimates with their range, their error and certified eps, along each sweep.

    The table has the columns `COLUMNS` and `PRIVACY_COLUMNS` of
    `shuffledp.papers.paper_d.estimation` for one figure. Each sweep has a panel with means and 5 to
    95 % ranges of the estimates and the truth (grey line), one with the root mean square error,
    simulated (marks) and by closed forms (lines), and one with the certified eps.
    """
    sweeps = list(table["varied"].unique())
    names = [name for name in _LOOKS if name in set(table["estimator"])]
    one_row = len(sweeps) == 1
    figure = style.new_figure((2.9 if one_row else 7.5) + 0.16 * (len(names) + 1))
    panels = figure.subplots(*((1, 3) if one_row else (3, 2)), squeeze=False)
    for columns, varied in zip([panels[0]] if one_row else panels.T, sweeps, strict=True):
        rows = table[table["varied"] == varied]
        for axes, draw in zip(columns, (_draw_estimates, _draw_errors, _draw_privacy), strict=True):
            draw(axes, rows, names)
            axes.set_xlabel(_X_LABELS[varied])
            axes.grid(visible=True, axis="both")
        for axes in columns[1:]:
            axes.set_yscale("log")
            axes.margins(y=0.1)
            style.plain_log_axis(axes.yaxis)
    handles = [
        Line2D([], [], linewidth=0.9, **style.marker_style(look), label=label)
        for label, look in (_LOOKS[name] for name in names)
    ]
    label = "privacy of the first estimator as stated by Chen et al.: approximate, no guarantee"
    handles.append(Line2D([], [], color=_PUBLISHED.colour, linestyle=":", label=label))
    figure.legend(handles=handles, loc="outside lower left", ncols=1)
    figure.suptitle(title)
    return figure


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


def _draw_privacy(axes: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    for look, series in _series(rows, names):
        # Marks without a line: nothing is certified between them.
        _marks(axes, series["value"], series["eps_upper"], look, 3.5)
    ((look, series),) = _series(rows, ["as-published"])
    axes.plot(series["value"], series["eps_published"], color=look.colour, linestyle=":")
    axes.set_ylabel(rf"certified $\epsilon$, $\delta={style.power(rows['delta'].iloc[0])}$")


def _series(rows: pd.DataFrame, names: list[str]) -> Iterator[tuple[Look, pd.DataFrame]]:
    """Yield the look and the rows of each estimator."""
    for name in names:
        yield _LOOKS[name][1], rows[rows["estimator"] == name]


# --- Figure 5: training ---------------------------------------------------------------------------

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


def draw_training(accuracies: Path, noise: Path) -> Figure:
    """Draw `training_panels` from CSV files of accuracies and of the noise."""
    return training_panels(pd.read_csv(accuracies), pd.read_csv(noise))


@style.local_style()
def training_panels(accuracies: pd.DataFrame, noise: pd.DataFrame) -> Figure:
    """Draw accuracy over epochs for each law of budgets, and the certified eps of a record.

    The tables are `training_table` and `noise_table` of `shuffledp.papers.paper_d.training`. There
    is a panel for each ``counted_as`` with the accuracy (training set solid, test set dashed), and
    a panel with the certified eps of one step and of all epochs over the budget of a step.
    """
    counts = list(accuracies["counted_as"].unique())
    figure = style.new_figure(3.3)
    *panels, last = figure.subplots(1, len(counts) + 1)
    n = accuracies["n_train"].iloc[0]
    for axes, size in zip(panels, counts, strict=True):
        rows = accuracies[accuracies["counted_as"] == size]
        for place, (law, look) in enumerate(_LAWS.items()):
            series, every = (
                rows[rows["law"] == law],
                (2 * place % _EPOCHS_PER_MARK, _EPOCHS_PER_MARK),
            )
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
    _draw_budgets(last, noise.sort_values("eps"))
    entries = [Line2D([], [], label=law, **style.marker_style(look)) for law, look in _LAWS.items()]
    entries.append(Line2D([], [], color="0.3", linestyle="--", linewidth=0.8, label="test set"))
    as_printed = f"test set, as printed: {_PRINTED_ACCURACY:.2%}"
    entries.append(Line2D([], [], color="0.5", linestyle=":", label=as_printed))
    figure.legend(handles=entries, loc="outside lower left", ncols=4)
    figure.suptitle(
        f"Chen et al., figure 5: Algorithm 1 on {accuracies['data'].iloc[0]}, by law of budgets"
    )
    return figure


def _draw_budgets(axes: Axes, noise: pd.DataFrame) -> None:
    axes.plot(noise["eps"], noise["eps_whole"], color="#000000")
    axes.plot(noise["eps"], noise["eps_step"], color="#777777")
    axes.plot(noise["eps"], noise["eps"], color="0.5", linewidth=0.8, linestyle=":")
    middle = noise.iloc[len(noise) // 4]
    small: dict[str, Any] = {"textcoords": "offset points", "fontsize": 7}
    axes.annotate("all epochs", (middle["eps"], middle["eps_whole"]), (-3, 2), ha="right", **small)
    axes.annotate("one step", (middle["eps"], middle["eps_step"]), (3, -2), va="top", **small)
    axes.set(xlabel=r"budget of a step $\epsilon_i$", xscale="log", yscale="log")
    axes.set_xlim(noise["eps"].min() / 3.0, noise["eps"].max() * 2.0)
    delta = style.power(noise["delta"].iloc[0])
    axes.set_ylabel(rf"certified $\epsilon$ of a record, $\delta={delta}$")
    style.plain_log_axis(axes.xaxis)
    style.plain_log_axis(axes.yaxis)
    axes.grid(visible=True, axis="both")
    axes.set_title("privacy of a record", loc="left")


# --- Histograms of places -------------------------------------------------------------------------

# Legend and look of each series of `shuffledp.papers.paper_d.places`; colours as in `_LOOKS`.
_PLACE_LOOKS: Final[Mapping[str, tuple[str, Look]]] = {
    "by-precision": (
        "reports reveal their budget: by group, by precision (biased if cells depend on budgets)",
        _BY_PRECISION,
    ),
    "by-share": (
        "reports reveal their budget: by group, by share (unbiased for all data)",
        _BY_SHARE,
    ),
    "together": ("reports shuffled together (biased if cells depend on budgets)", _PUBLISHED),
    "without-conservative": ("the same without users of the smallest budget", _DROPPED),
}
# Legend if users of budget 0 report: the estimate does not cover them.
_BY_SHARE_OF_OTHERS: Final = (
    "reports reveal their budget: by group, by share (unbiased except for users of budget 0)"
)
_REFERENCES: Final[Mapping[str, tuple[str, str, Literal["-", "--"]]]] = {
    "krr": ("all users at one budget (left end: at the smallest)", "#000000", "-"),
    "gaussian": ("Gaussian noise by a curator", "#777777", "--"),
}
_PLACEMENTS: Final[Mapping[str, str]] = {
    "as-chosen": "budgets as chosen",
    "at-random": "budgets at random",
    "from-south": "budgets grow from south to north",
}
_TITLE_LINE_CHARACTERS: Final = 100
_ESTIMATES: Final[Mapping[str, str]] = {"raw": "raw estimates", "projected": "distributions"}


def draw_places(table: Path, *, title: str, unit: str) -> Figure:
    """Draw `place_panels` from a CSV file of `places.places_table`."""
    return place_panels(pd.read_csv(table), title, unit)


@style.local_style()
def place_panels(table: pd.DataFrame, title: str, unit: str) -> Figure:
    """Draw total variation distance over the certified eps.

    The table has the columns `shuffledp.papers.paper_d.places.COLUMNS`. The title is usually the
    place, and the unit of the counts is ``check-in`` or ``user``. There is one column of panels for
    each placement of the budgets, and rows for raw estimates and for distributions. Marks are means
    with quartiles. Lines show k-RR with one budget for all users and a curator's Gaussian noise, at
    the same certified eps as the marks.
    """
    figure = style.new_figure(6.4)
    panels = figure.subplots(2, 2, sharex=True, sharey="row")
    shown = [name for name in _PLACEMENTS if name in set(table["placement"])]
    for row, (estimator, kind) in zip(panels, _ESTIMATES.items(), strict=True):
        alike = table[table["estimator"] == estimator]
        for axes, placement in zip(row, shown, strict=True):
            _draw_place(axes, alike, placement)
            axes.set_title(f"{kind}, {_PLACEMENTS[placement]}", loc="left")
        row[0].set_ylabel(style.DISTANCE_LABEL)
    first = table.iloc[0]
    for axes in panels[-1]:
        axes.set_xlabel(
            rf"certified $\epsilon$ of all users, $\delta={style.power(first['delta'])}$"
        )
    figure.legend(handles=_place_handles(table), loc="outside lower left", ncols=1)
    budgets = f"(shares and budgets: {first['budgets']})"
    figure.suptitle(
        f"{style.escape_math(title)}: {style.count_units(first['n'], unit)} in k={first['k']} "
        f"cells, with personal budgets\n{fill(budgets, _TITLE_LINE_CHARACTERS)}"
    )
    return figure


def _draw_place(axes: Axes, rows: pd.DataFrame, placement: str) -> None:
    for name, (_, colour, line) in _REFERENCES.items():
        series = rows[rows["series"] == name].sort_values("eps_upper")
        look: dict[str, Any] = {"color": colour, "linestyle": line, "linewidth": 1.0}
        axes.plot(series["eps_upper"], series["tv_distance"], marker=".", **look)
    for name, (_, mark) in _PLACE_LOOKS.items():
        series = rows[(rows["series"] == name) & (rows["placement"] == placement)]
        x = series["eps_upper"]
        axes.vlines(x, series["p25"], series["p75"], color=mark.colour, linewidth=0.9)
        _marks(axes, x, series["tv_distance"], mark)
    axes.set(xscale="log", yscale="log")
    axes.margins(0.08)
    style.plain_log_axis(axes.xaxis)
    style.plain_log_axis(axes.yaxis)
    axes.grid(visible=True, axis="both")


def _place_handles(table: pd.DataFrame) -> list[Line2D]:
    """Return the legend's handles for the series that the table has."""
    names = set(table["series"])
    labels = {name: label for name, (label, _) in _PLACE_LOOKS.items()}
    if table.loc[table["series"] == "by-share", "bias"].max() > 0.0:
        labels["by-share"] = _BY_SHARE_OF_OTHERS
    marks = [
        style.legend_mark(labels[name], **style.marker_style(look))
        for name, (_, look) in _PLACE_LOOKS.items()
        if name in names
    ]
    lines = [
        Line2D([], [], color=colour, linestyle=line, linewidth=1.0, marker=".", label=label)
        for name, (label, colour, line) in _REFERENCES.items()
        if name in names
    ]
    return marks + lines
