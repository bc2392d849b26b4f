"""Draw the certified privacy of shuffled k-RR: delta by eps, and eps by n and by check-ins."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MultipleLocator, PercentFormatter

from shuffledp.accounting.registry import BOUNDS
from shuffledp.errors import InputError
from shuffledp.figures import style
from shuffledp.figures.bounds import (
    KIND_LABELS,
    LINE_STYLES,
    Line,
    bound_colour,
    coincidence_note,
    guarantee_steps,
)
from shuffledp.pipeline.tables import read_tables

_MIN_LOG10_DELTA: Final = -12.0  # smallest delta shown
_MAX_COLUMNS: Final = 3  # panels in a row
_MAX_LABEL_ABOVE: Final = 0.65  # share of the eps axis; farther right, the curve meets the label
_PANEL_GAP: Final = {"wspace": 0.06}  # room for the last tick label of one panel and the next

_MAX_LABELLED: Final = 3  # curves; labels of more curves would overlap
_MILLION: Final = 1_000_000

# Line style by unit: all check-ins are collected, or one check-in of each user.
_UNIT_LINES: Final[dict[str, Line]] = {"checkin": "-", "user": "--"}
_MIN_CHECKINS: Final = 0.85  # left end of the axis of check-ins
_MAX_EPS: Final = 25.0  # upper end of the axis; a larger eps protects nothing


# --- Delta against eps -------------------------------------------------------------------


def draw_privacy(curves: Path, *, title: str, unit: str, target_delta: float) -> Figure:
    """Read the curves and draw `delta_curves`."""
    return delta_curves(read_tables([curves]), title, unit, target_delta)


@style.local_style()
def delta_curves(curves: pd.DataFrame, title: str, unit: str, target_delta: float) -> Figure:
    """Draw delta against eps, one panel per eps0, from delta = 1 to 1e-12 on a logarithmic axis.

    If `target_delta` is below 1e-10, the axis extends to a hundredth of it. The target delta and
    the eps that the bound ``upper`` certifies there are marked. The area below the largest lower
    bound is shaded, because a delta there overstates privacy. `curves` has the columns of
    `pipeline.tables.PRIVACY`, for one n.
    """
    sizes = sorted(set(curves["n"]))
    if len(sizes) != 1:
        raise InputError(f"curves must have one n, got {sizes}")
    lowest = min(_MIN_LOG10_DELTA, np.log10(target_delta) - 2.0)
    budgets = sorted(curves["eps0"].unique())
    columns = min(len(budgets), _MAX_COLUMNS)
    rows = -(-len(budgets) // columns)
    figure = style.new_figure(1.2 + 2.9 * rows)
    panels = np.atleast_1d(
        figure.subplots(rows, columns, sharey=True, gridspec_kw=_PANEL_GAP)
    ).ravel()
    for axes, eps0 in zip(panels, budgets, strict=False):
        panel = curves[curves["eps0"] == eps0]
        _draw_bounds(axes, panel)
        _label_delta_axis(axes, lowest)
        axes.set_xlim(0.0, panel["eps"].max())
        _shade_unsafe(axes, panel)
        _mark_target(axes, panel, target_delta)
        axes.set_title(rf"$\epsilon_0={eps0:g}$", loc="left")
        axes.set_xlabel(r"$\epsilon$ of the shuffled reports")
    for axes in panels[::columns]:
        axes.set_ylabel(r"$\delta$")
    for axes in panels[len(budgets) :]:
        axes.remove()
    shown = curves[curves["log10_delta"] >= lowest]
    names = {"eps0": "panel", "bound": "curve", "eps": "x", "log10_delta": "y"}
    figure.legend(
        handles=_bound_legend(curves, lowest),
        loc="outside lower center",
        ncols=2,
        title=coincidence_note(shown.rename(columns=names), "linear", "linear") or None,
        title_fontsize=7.5,
        alignment="left",
    )
    k = int(curves["k"].iloc[0])
    figure.suptitle(
        f"{style.escape_math(title)}: $\\delta$ of shuffled randomised response, "
        f"n = {style.count_units(sizes[0], unit)}, k = {k} cells"
    )
    return figure


def _draw_bounds(axes: Axes, rows: pd.DataFrame) -> None:
    positive = rows[np.isfinite(rows["log10_delta"])]  # a curve ends where delta is 0
    for name, curve in positive.groupby("bound", sort=False):
        handle = _bound_handle(str(name))
        points = curve["eps"].to_numpy(), curve["log10_delta"].to_numpy()
        guarantee = BOUNDS[name].guarantee
        axes.plot(
            *(guarantee_steps(*points) if guarantee else points),
            drawstyle="steps-post" if guarantee else "default",
            color=handle.get_color(),
            linestyle=handle.get_linestyle(),
            linewidth=handle.get_linewidth(),
            label=str(name),
        )


def _bound_handle(name: str) -> Line2D:
    """Return the legend entry of a bound, which also has the style of its curve."""
    kind = BOUNDS[name].kind
    certified = "certified, " if name in ("upper", "lower") else ""
    return Line2D(
        [],
        [],
        color=bound_colour(name) or "#000000",
        linestyle=LINE_STYLES[kind],
        # Guarantees are wider, so that ``lower``, drawn over ``upper``, does not hide it.
        linewidth=2.6 if BOUNDS[name].guarantee else 1.3,
        label=f"{name}: {certified}{KIND_LABELS[kind]}",
    )


def _bound_legend(curves: pd.DataFrame, lowest: float) -> list[Line2D]:
    """Return legend entries; for a bound below all panels, state a power of ten above its delta."""
    handles = []
    for name, highest in curves.groupby("bound", sort=False)["log10_delta"].max().items():
        handle = _bound_handle(str(name))
        if highest < lowest:
            handle.set_label(
                f"{handle.get_label()}\n(below the plot: $\\delta<10^{{{np.ceil(highest):.0f}}}$)"
            )
        handles.append(handle)
    return handles


def _shade_unsafe(axes: Axes, rows: pd.DataFrame) -> None:
    """Shade the deltas below the largest lower bound."""
    lower = rows[[BOUNDS[name].kind == "lower" for name in rows["bound"]]]
    if lower.empty:
        return
    bottom = axes.get_ylim()[0]
    # The bounds have points at different eps, more where they are steep.
    eps = np.unique(lower["eps"])
    largest = np.full(eps.size, bottom)
    for _, curve in lower.groupby("bound"):
        visible = np.maximum(curve["log10_delta"], bottom)
        largest = np.maximum(largest, np.interp(eps, curve["eps"], visible, right=bottom))
    axes.fill_between(eps, largest, bottom, color="0.93", linewidth=0.0, zorder=0)
    axes.text(
        0.03,
        0.03,
        "unsafe: claims more\nprivacy than there is",
        transform=axes.transAxes,
        fontsize=7,
        style="italic",
    )


def _mark_target(axes: Axes, rows: pd.DataFrame, target_delta: float) -> None:
    """Mark the target delta, and the eps that the bound ``upper`` certifies there."""
    level = np.log10(target_delta)
    axes.axhline(level, color="0.4", linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    label = rf"target $\delta={style.power(target_delta)}$"
    upper = rows[(rows["bound"] == "upper") & np.isfinite(rows["log10_delta"])]
    above_line = True
    if not upper.empty:
        # The certified eps is a point of the table; nothing is interpolated.
        nearest = upper.loc[(upper["log10_delta"] - level).abs().idxmin()]
        if np.isclose(nearest["log10_delta"], level, atol=1e-6):
            axes.plot(nearest["eps"], level, "o", color="#000000", markersize=5, zorder=4)
            label += ":\n" + rf"$\epsilon\leq{style.format_eps(nearest['eps'])}$ certified"
            above_line = nearest["eps"] < _MAX_LABEL_ABOVE * axes.get_xlim()[1]
    axes.annotate(
        label,
        (1.0, level if above_line else 0.0),
        (-2, 3 if above_line else -3),
        xycoords=axes.get_yaxis_transform(),
        textcoords="offset points",
        ha="right",
        va="bottom" if above_line else "top",
        fontsize=7.5,
    )


def _label_delta_axis(axes: Axes, lowest: float) -> None:
    """Label decades of delta; y is log10 of delta, because delta may be below 1e-308."""
    axes.set_ylim(lowest, 0.0)
    axes.yaxis.set_major_locator(MultipleLocator(2.0))
    axes.yaxis.set_minor_locator(MultipleLocator(1.0))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda x, _: f"${style.power(10.0**x)}$"))
    axes.grid(visible=True, axis="y")


# --- Number of people needed -------------------------------------------------------------


@style.local_style()
def users_needed(table: pd.DataFrame, total: int, title: str, unit: str) -> Figure:
    """Draw certified eps against the number of people, one curve per eps0.

    `table` is the result of `shuffledp.studies.privacy.sizes_table` for one k and delta; the figure
    marks `total`, the number of records in the region. The curves are steps, because a guarantee
    for n people holds for more. Markers are at the requested eps; if there are few curves, they are
    labelled with n. Dotted lines are at eps0, the privacy of one report alone.
    """
    figure = style.new_figure(3.6)
    axes = figure.subplots()
    positive = table[table["eps"] > 0.0]
    looks = style.budget_looks(table["eps0"])
    for eps0, look in looks.items():
        rows = positive[positive["eps0"] == eps0].sort_values("n")
        _draw_sizes_of_budget(axes, rows, look, labelled=len(looks) <= _MAX_LABELLED)
    axes.set(xscale="log", yscale="log", xlabel=style.number_label(unit))
    axes.set_ylabel(r"certified $\epsilon$")
    axes.margins(y=0.08)
    low, high = min(table["n"].min(), total), max(table["n"].max(), total)
    axes.set_xlim(low / 2.0, high * 2.0)
    for eps0, look in looks.items():
        axes.axhline(eps0, color=look["color"], linestyle=":", linewidth=0.9)
        axes.annotate(
            rf"$\epsilon_0={eps0:g}$, one report alone",
            (1.0, eps0),
            (-2, 2),
            xycoords=axes.get_yaxis_transform(),
            textcoords="offset points",
            ha="right",
            fontsize=7,
        )
    style.plain_log_axis(axes.xaxis)
    style.plain_log_axis(axes.yaxis)
    axes.grid(visible=True, axis="both")
    axes.axvline(total, color="0.4", linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    axes.annotate(
        f"all {style.count_units(total, unit)}",
        (total, 1.0),
        (0, 2),
        xycoords=axes.get_xaxis_transform(),
        textcoords="offset points",
        ha="center",
        fontsize=7,
    )
    k, delta = table["k"].iloc[0], table["delta"].iloc[0]
    figure.suptitle(
        f"How many {style.plural(unit)} are needed? {style.escape_math(title)}, k = {k} cells, "
        rf"$\delta={style.power(delta)}$"
    )
    return figure


# --- One check-in or one user ------------------------------------------------------------


@style.local_style()
def units_privacy(table: pd.DataFrame, users: pd.DataFrame, title: str) -> Figure:
    """Draw the eps of a person against the person's number of check-ins, one colour per eps0.

    `table` has the columns of `pipeline.tables.UNITS` for one k and delta; `users` has columns
    ``checkins`` and ``users``, and is empty if the data do not identify users. Markers are at the
    computed numbers of check-ins. The lines between them only guide the eye: solid ones for the
    collection of all check-ins, dashed ones for one check-in of each user. If users are identified,
    a second panel shows the share of users with at least as many check-ins.
    """
    users_known = not users.empty
    figure = style.new_figure(4.6 if users_known else 3.4)
    heights = [2.2, 1.0] if users_known else [1.0]
    panels = np.atleast_1d(figure.subplots(len(heights), 1, sharex=True, height_ratios=heights))
    upper, last = panels[0], panels[-1]
    looks = style.budget_looks(table["eps0"])
    for eps0, look in looks.items():
        _draw_units_of_budget(upper, table[table["eps0"] == eps0], look, users_known=users_known)
    largest = max(table["checkins"].max(), users["checkins"].max() if users_known else 1)
    upper.set(xscale="log", yscale="log", ylabel=r"certified $\epsilon$ of a person")
    upper.set_xlim(_MIN_CHECKINS, 1.15 * largest)
    upper.set_ylim(top=_MAX_EPS)
    style.plain_log_axis(upper.yaxis)
    upper.grid(visible=True, axis="both")
    if users_known:
        _draw_users(last, users)
    last.set_xlabel("check-ins of a person")
    style.plain_log_axis(last.xaxis)
    figure.legend(
        handles=_unit_legend(looks, users_known=users_known), loc="outside lower center", ncols=2
    )
    figure.suptitle(
        f"{style.escape_math(title)}: one check-in or one user? {_user_counts(table, users)}"
    )
    return figure


def _draw_users(axes: Axes, users: pd.DataFrame) -> None:
    """Draw the share of users with at least as many check-ins."""
    ordered = users.sort_values("checkins")
    at_least = ordered["users"][::-1].cumsum()[::-1] / ordered["users"].sum()
    checkins = np.append(_MIN_CHECKINS, ordered["checkins"])
    shares = np.append(1.0, at_least)
    axes.step(checkins, shares, where="pre", color="0.25")
    axes.fill_between(checkins, shares, step="pre", color="0.85", linewidth=0.0)
    axes.set(ylim=(0.0, 1.05), ylabel="users with at\nleast as many")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    axes.grid(visible=True, axis="both")


def _unit_legend(looks: dict[float, dict[str, Any]], *, users_known: bool) -> list[Line2D]:
    assumption = "" if users_known else ", if all users have as many"
    labels = {
        "checkin": "all check-ins are collected",
        "user": f"each user gives one check-in{assumption}",
    }
    units = [
        Line2D([], [], color="0.25", linestyle=_UNIT_LINES[unit], label=label)
        for unit, label in labels.items()
    ]
    budgets = [style.legend_mark(rf"$\epsilon_0={eps0:g}$", **look) for eps0, look in looks.items()]
    return [*units, *budgets]


def _user_counts(table: pd.DataFrame, users: pd.DataFrame) -> str:
    """Return the part of the title with the numbers of check-ins and users, k and delta."""
    row = table[table["unit"] == "checkin"].iloc[0]
    setting = rf"k = {row['k']} cells, $\delta={style.power(row['delta'])}$"
    if users.empty:
        return f"{row['n']:,} check-ins, {setting}\n(the data do not identify users)"
    checkins = np.repeat(users["checkins"], users["users"])
    unknown = row["n"] - checkins.sum()
    others = f" and {unknown:,} of unknown users" if unknown else ""
    return (
        f"{checkins.sum():,} check-ins of {checkins.size:,} users{others}\n{setting}; the median "
        f"user has {np.median(checkins):g}, the busiest {checkins.max():,}"
    )
