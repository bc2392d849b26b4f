"""Paper D's figures 5 to 8, and its estimators where budgets and records depend on each other."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from shuffledp.figures.style import local_style, marker_style, new_figure, plain_log_axis, power
from shuffledp.mechanisms.catalogue import Look

# By the names of `shuffledp.papers.paper_d.estimates`.
_LOOKS: Final[Mapping[str, tuple[str, Look]]] = MappingProxyType(
    {
        "as-published": ("Chen et al., reports shuffled together", Look("#0072B2", "o")),
        "by-share": (
            "by group, weighted by share (reports tell their budget): unbiased whatever the data",
            Look("#009E73", "s"),
        ),
        "by-precision": (
            "by group, by precision (reports tell their budget): biased if records depend on it",
            Look("#D55E00", "^"),
        ),
        "smallest-budget": (
            "all at the conservative users' budget",
            Look("#777777", "v", filled=False),
        ),
        "without-conservative": (
            "conservative users left out",
            Look("#CC79A7", "D", filled=False),
        ),
    }
)
_X: Final[Mapping[str, str]] = MappingProxyType(
    {
        "share": "share of conservative users $f_C$",
        "budget": r"budget of conservative users $\epsilon_C$",
        "density": "share of ones among conservative users",
        "shift": "conservative users' mean less that of all",
    }
)
_QUANTITY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "share": "estimate",
        "budget": "estimate",
        "density": "estimated share of ones",
        "shift": "estimated mean",
    }
)
_APART: Final = 0.008  # of the axis: ranges of neighbouring series stay visible


def draw_estimates(estimates: Path, *, title: str) -> Figure:
    """Draw `estimate_panels` from the file of the estimates."""
    return estimate_panels(pd.read_csv(estimates), title)


def draw_private_estimates(estimates: Path, privacy: Path, *, title: str) -> Figure:
    """Draw `estimate_panels` from the files of the estimates and of their privacy.

    Parameters
    ----------
    estimates, privacy
        CSV tables of the estimates, and of what they are known to keep.
    title
        Of the figure: the place, as a rule.
    """
    known = pd.read_csv(privacy).drop(columns="tagged")
    table = pd.read_csv(estimates).merge(known, on=["varied", "value", "estimator"])
    return estimate_panels(table, title)


@local_style()
def estimate_panels(table: pd.DataFrame, title: str) -> Figure:
    """Estimates with their range, and their error, along each sweep of a figure.

    Parameters
    ----------
    table
        Columns of `shuffledp.papers.paper_d.estimates.COLUMNS`, of one figure; maybe with
        ``delta``, ``eps_upper`` and ``eps_published``.
    title
        Above the panels.

    Returns
    -------
    For each sweep means of the estimates with 5 to 95 % ranges about the truth (a grey line), and
    the root mean square error: marks as measured, lines as the closed forms have it. Beneath, the
    certified eps, if the table has it, as marks alone.
    """
    sweeps = list(table["varied"].unique())
    names = [name for name in _LOOKS if name in set(table["estimator"])]
    wide = len(sweeps) == 1
    private = "eps_upper" in table
    height = 2.9 if wide else 5.2 + 2.3 * private
    figure = new_figure(height + 0.16 * (len(names) + private))
    panels = figure.subplots(*((1, 2 + private) if wide else (2 + private, 2)), squeeze=False)
    columns = [panels[0]] if wide else list(panels.T)
    for (estimates, errors, *more), varied in zip(columns, sweeps, strict=True):
        rows = table[table["varied"] == varied]
        _draw_estimates(estimates, rows, names)
        _draw_errors(errors, rows, names)
        estimates.set_ylabel(_QUANTITY[varied])
        errors.set_ylabel("root mean square error")
        for axes in more:
            _draw_privacy(axes, rows, names)
        for axes in (estimates, errors, *more):
            axes.set_xlabel(_X[varied])
            axes.grid(visible=True, axis="both")
        for axes in (errors, *more):
            axes.set_yscale("log")
            axes.margins(y=0.1)
            plain_log_axis(axes.yaxis)
    handles = [_handle(name) for name in names]
    if private:
        handles.append(_published())
    figure.legend(handles=handles, loc="outside lower left", ncols=1)
    figure.suptitle(title)
    return figure


def _draw_estimates(axes: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    width = rows["value"].max() - rows["value"].min()
    truth = rows.groupby("value")["truth"].mean()
    axes.plot(truth.index, truth, color="0.6", linewidth=2.5, zorder=1)
    for place, name in enumerate(names):
        _, look = _LOOKS[name]
        own = rows[rows["estimator"] == name]
        at = own["value"] + _APART * width * (place - (len(names) - 1) / 2.0)
        axes.vlines(at, own["p05"], own["p95"], color=look.colour, linewidth=0.9)
        axes.plot(
            at,
            own["mean"],
            linestyle="none",
            markersize=3.0,
            **marker_style(look),
        )


def _draw_errors(axes: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    for name in names:
        _, look = _LOOKS[name]
        own = rows[rows["estimator"] == name]
        measured = np.hypot(own["mean"] - own["truth"], own["deviation"])
        expected = np.hypot(own["expected_bias"], own["expected_deviation"])
        axes.plot(own["value"], expected, color=look.colour, linewidth=0.9)
        axes.plot(
            own["value"],
            measured,
            linestyle="none",
            markersize=3.5,
            **marker_style(look),
        )


def _draw_privacy(axes: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    for name in names:
        _, look = _LOOKS[name]
        own = rows[rows["estimator"] == name]
        # No line: nothing is certified between the marks.
        axes.plot(
            own["value"], own["eps_upper"], linestyle="none", markersize=3.5, **marker_style(look)
        )
    own = rows[rows["estimator"] == "as-published"]
    line = _published()
    axes.plot(own["value"], own["eps_published"], color=line.get_color(), linestyle=":")
    axes.set_ylabel(rf"certified $\epsilon$, $\delta={power(rows['delta'].iloc[0])}$")


def _published() -> Line2D:
    label = "Chen et al., privacy of the first as stated there: approximate, no guarantee"
    return Line2D([], [], color=_LOOKS["as-published"][1].colour, linestyle=":", label=label)


def _handle(name: str) -> Line2D:
    label, look = _LOOKS[name]
    return Line2D(
        [],
        [],
        linewidth=0.9,
        **marker_style(look),
        label=label,
    )


# Laws of paper D's Table 3 in Okabe and Ito's colours, with marks for grey print.
_LAWS: Final[Mapping[str, Look]] = MappingProxyType(
    {
        "no noise": Look("#000000", ""),
        "Uniform 1": Look("#0072B2", "o"),
        "Uniform 2": Look("#56B4E9", "s"),
        "Gauss 1": Look("#D55E00", "^"),
        "Gauss 2": Look("#009E73", "D"),
        "Gauss 3": Look("#CC79A7", "v"),
    }
)
_MARKED: Final = 10  # every so many epochs
# The test accuracy that paper D prints.
_PRINTED: Final = 0.9678


def draw_training(accuracies: Path, noise: Path) -> Figure:
    """Draw `training_panels` from the files of the accuracies and of the noise."""
    return training_panels(pd.read_csv(accuracies), pd.read_csv(noise))


@local_style()
def training_panels(accuracies: pd.DataFrame, noise: pd.DataFrame) -> Figure:
    """Accuracy over epochs for each law of budgets, and what a record's budget comes to.

    Parameters
    ----------
    accuracies
        Columns of `shuffledp.papers.paper_d.training.COLUMNS`.
    noise
        Columns `NOISE_COLUMNS` of that module.

    Returns
    -------
    A panel for each number that the images are counted as: training set solid, test dashed. Then
    eps against the budget of a step: certified for one step and for all epochs.
    """
    counts = list(accuracies["counted_as"].unique())
    figure = new_figure(3.3)
    *panels, last = figure.subplots(1, len(counts) + 1)
    n = accuracies["n_train"].iloc[0]
    for axes, counted in zip(panels, counts, strict=True):
        rows = accuracies[accuracies["counted_as"] == counted]
        for place, (law, look) in enumerate(_LAWS.items()):
            own = rows[rows["law"] == law]
            marked = marker_style(look) | {"markevery": (2 * place % _MARKED, _MARKED)}
            axes.plot(own["epoch"], own["train_accuracy"], linewidth=1.2, **marked)
            test = own["test_accuracy"]
            axes.plot(own["epoch"], test, color=look.colour, linewidth=0.8, linestyle="--")
        axes.axhline(_PRINTED, color="0.5", linewidth=0.8, linestyle=":")
        axes.set(xlabel="epoch", ylim=(0.0, 1.02))
        axes.grid(visible=True, axis="both")
        words = f", counted as {counted:,}" if counted > n else ""
        axes.set_title(f"{n:,} images{words}", loc="left")
    panels[0].set_ylabel("accuracy")
    _draw_budgets(last, noise.sort_values("eps"))
    entries = [Line2D([], [], label=law, **marker_style(look)) for law, look in _LAWS.items()]
    entries.append(Line2D([], [], color="0.3", linestyle="--", linewidth=0.8, label="test set"))
    entries.append(
        Line2D([], [], color="0.5", linestyle=":", label=f"test set, as printed: {_PRINTED:.2%}")
    )
    figure.legend(handles=entries, loc="outside lower left", ncols=4)
    figure.suptitle(
        f"Chen et al., figure 5: Algorithm 1 on {accuracies['data'].iloc[0]}, by law of budgets"
    )
    return figure


def _draw_budgets(axes: Axes, noise: pd.DataFrame) -> None:
    delta, middle = noise["delta"].iloc[0], noise.iloc[len(noise) // 4]
    for column, words, colour, side in (
        ("eps_whole", "all epochs", "#000000", 1),
        ("eps_step", "one step", "#777777", -1),
    ):
        axes.plot(noise["eps"], noise[column], color=colour)
        axes.annotate(
            words,
            (middle["eps"], middle[column]),
            xytext=(-3 * side, 2 * side),
            textcoords="offset points",
            ha="right" if side > 0 else "left",
            va="bottom" if side > 0 else "top",
            fontsize=7,
        )
    axes.plot(noise["eps"], noise["eps"], color="0.5", linewidth=0.8, linestyle=":")
    axes.set(xlabel=r"budget of a step $\epsilon_i$", xscale="log", yscale="log")
    axes.set_xlim(noise["eps"].min() / 3.0, noise["eps"].max() * 2.0)
    axes.set_ylabel(rf"certified $\epsilon$ of a record, $\delta={power(delta)}$")
    plain_log_axis(axes.xaxis)
    plain_log_axis(axes.yaxis)
    axes.grid(visible=True, axis="both")
    axes.set_title("privacy of a record", loc="left")
