"""Draw the figures of paper D's experiments with personal budgets from their tables."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from shuffledp.figures import style
from shuffledp.mechanisms.catalogue import Look


def _marks(axes: Axes, x: ArrayLike, y: ArrayLike, look: Look, size: float) -> None:
    """Draw points without a line."""
    axes.plot(x, y, linestyle="none", markersize=size, **style.marker_style(look))


# --- Figures 6 to 8: estimates of means and frequencies -------------------------------------------

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


def draw_estimates(estimates: Path, *, title: str) -> Figure:
    """Draw `estimate_panels` from a CSV file of estimates."""
    return estimate_panels(pd.read_csv(estimates), title)


@style.local_style()
def estimate_panels(table: pd.DataFrame, title: str) -> Figure:
    """Draw estimates with their range, and their errors, along each sweep.

    The table is `shuffledp.papers.paper_d.estimation.estimate_table`. Each sweep has a column of
    two panels: means and 5 to 95 % ranges of the estimates with the truth (grey line), and the root
    mean square error, simulated (marks) and by closed forms (lines).
    """
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
