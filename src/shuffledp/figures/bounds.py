"""Draw bounds on delta: colours, steps of guarantees, notes on equal curves, delta against eps."""

import textwrap
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from typing import Final, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MultipleLocator
from numpy.typing import ArrayLike

from shuffledp.accounting.bound import Kind
from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.errors import InputError
from shuffledp.figures import style
from shuffledp.numerics.arrays import Floats
from shuffledp.pipeline.tables import read_tables

Line = Literal["-", "-.", ":", "--"]

# The colour identifies a bound; the line style says whether it is a guarantee.
LINE_STYLES: Final[Mapping[Kind, Line]] = {
    "upper": "-",
    "exact": "-",
    "lower": "-.",
    "approximate": ":",
    "as printed": "--",
}
KIND_LABELS: Final[Mapping[Kind, str]] = {
    "upper": "a guarantee",
    "exact": "exact, a guarantee",
    "lower": "lower bound, no guarantee",
    "approximate": "approximate, no guarantee",
    "as printed": "misprinted, no guarantee",
}

GUARANTEES: Final[tuple[Kind, ...]] = ("upper", "exact")

# A bound or curve has the colour of the first entry one of whose strings its name contains. The
# palettes are that of Okabe and Ito, without yellow and orange, too light for lines, and the muted
# one of Tol.
_COLOURS: Final = (
    ("#0072B2", ("fourier",)),
    ("#D55E00", ("single-bin",)),
    ("#882255", ("any-randomiser",)),
    ("#CC79A7", ("strong",)),
    ("#56B4E9", ("explicit data set", "certified lower")),
    ("#8C510A", ("closed-form", "closed form", "feldman")),
    ("#661100", ("clones", "(6.1)")),
    # One paper has five bounds, each in its own colour.
    ("#00382A", ("balle-krr",)),
    ("#00664B", ("blanket-bennett-generic",)),
    ("#7B61FF", ("blanket-hoeffding-generic",)),
    ("#1B7F8C", ("blanket-hoeffding",)),
    ("#009E73", ("blanket", "balle")),
    ("#777777", ("erlingsson",)),
    ("#AA4499", ("renyi-simple", "theorem 3.3")),
    ("#44AA99", ("special", "theorem 3.4")),
    ("#332288", ("renyi", "girgis")),
    ("#999933", ("gdp",)),
    ("#BB8866", ("variation-ratio",)),
    ("#000000", ("certified", "weak", "exact")),
)
_CERTIFIED_COLOURS: Final = {"upper": "#000000", "lower": "#56B4E9"}

STEPS: Final = 12  # between two points of a guarantee, enough to make single steps invisible
_LINE_WIDTH: Final = 0.01  # share of the panel's height; closer curves coincide
_NOTE_COLUMNS: Final = 118  # characters in a line of a note


def bound_colour(name: str) -> str | None:
    """Return the colour of a bound, or of a curve that is named after one; None for others."""
    if name in _CERTIFIED_COLOURS:
        return _CERTIFIED_COLOURS[name]
    lower = name.lower()
    named = (colour for colour, parts in _COLOURS if any(part in lower for part in parts))
    return next(named, None)


def guarantee_steps(eps: ArrayLike, log10_delta: ArrayLike) -> tuple[Floats, Floats]:
    """Return an upper bound on delta between the points of a guarantee, as steps to the right.

    Delta is convex in ``exp(eps)``, so the chord of two upper bounds in ``(exp(eps), delta)`` is an
    upper bound, whereas a straight line on a logarithmic axis may lie below delta. Delta does not
    increase with eps, so each value holds up to the next one.

    `eps` increases; `log10_delta` has decimal logarithms of upper bounds on delta, minus infinity
    where delta is 0. Both have shape ``(points,)``. The result has eps and log10 of delta at the
    left ends of the steps, which include the points. If the bound at a point is smaller than that
    at the next point, it is replaced by the latter.
    """
    x = np.asarray(eps, np.float64)
    y = np.asarray(log10_delta, np.float64)
    y = np.maximum(y, np.append(y[1:], -np.inf))
    fractions = np.arange(STEPS) / STEPS
    at = x[:-1, None] + fractions * np.diff(x)[:, None]
    # Position between one exp(eps) and the next, computed without overflow.
    weight = np.expm1(at - x[:-1, None]) / np.expm1(np.diff(x))[:, None]
    with np.errstate(invalid="ignore"):  # both deltas may be 0
        ratio = np.where(np.isneginf(y[1:]), 0.0, 10.0 ** np.minimum(y[1:] - y[:-1], 0.0))
    chords = y[:-1, None] + np.log10((1.0 - weight) + weight * ratio[:, None])
    return np.append(at.ravel(), x[-1:]), np.append(chords.ravel(), y[-1:])


def coincidence_note(table: pd.DataFrame, x_scale: str, y_scale: str) -> str:
    """Return a note on the curves that differ by less than the width of a line everywhere.

    `table` has columns ``panel, curve, x, y``; the scales are ``linear`` or ``log``. The note is
    empty if every pair of curves can be distinguished in at least one panel.
    """
    scaled = table.assign(x=_scale(table["x"], x_scale), y=_scale(table["y"], y_scale))
    scaled = scaled[np.isfinite(scaled["x"]) & np.isfinite(scaled["y"])]
    distances: dict[tuple[str, str], float] = {}  # largest over the panels, share of the height
    for _, panel in scaled.groupby("panel"):
        height = float(np.ptp(panel["y"])) or 1.0
        curves = {str(name): rows for name, rows in panel.groupby("curve", sort=False)}
        for pair in combinations(curves, 2):
            distance = _vertical_distance(*(curves[name] for name in pair))
            if distance is not None:
                distances[pair] = max(distances.get(pair, 0.0), distance / height)
    coincide = {frozenset(pair) for pair, distance in distances.items() if distance < _LINE_WIDTH}
    groups: list[list[str]] = []
    for name in map(str, table["curve"].unique()):
        for group in groups:
            if all(frozenset((other, name)) in coincide for other in group):
                group.append(name)
                break
        else:
            groups.append([name])
    lines = [
        f"These curves coincide within the width of a line: {'; '.join(group)}."
        for group in groups
        if len(group) > 1
    ]
    return "\n".join(textwrap.fill(line, _NOTE_COLUMNS) for line in lines)


def _scale(values: pd.Series, scale: str) -> Floats:
    if scale != "log":
        return values.to_numpy(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(values.to_numpy(np.float64)))


def _vertical_distance(first: pd.DataFrame, second: pd.DataFrame) -> float | None:
    """Return the largest difference in y over the common range of x; None if there is none."""
    first, second = first.sort_values("x"), second.sort_values("x")
    low, high = max(first["x"].min(), second["x"].min()), min(first["x"].max(), second["x"].max())
    x = np.union1d(first["x"], second["x"])
    x = x[(x >= low) & (x <= high)]
    if x.size < 2:
        return None
    y = [np.interp(x, rows["x"], rows["y"]) for rows in (first, second)]
    return float(np.abs(y[0] - y[1]).max())


# --- Certified privacy of shuffled k-RR: delta against eps ----------------------------------------

_MIN_LOG10_DELTA: Final = -12.0  # smallest delta shown
_MAX_PANEL_COLUMNS: Final = 3  # panels in a row
_PANEL_GAP: Final = {"wspace": 0.06}  # room for the last tick label of one panel and the next


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
    columns = min(len(budgets), _MAX_PANEL_COLUMNS)
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
        target = _mark_target(axes, panel, target_delta)
        axes.set_title(f"$\\epsilon_0={eps0:g}$\n{target}", loc="left")
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


def _mark_target(axes: Axes, rows: pd.DataFrame, target_delta: float) -> str:
    """Mark the target delta and the eps that bound ``upper`` certifies there; return a title."""
    level = np.log10(target_delta)
    axes.axhline(level, color="0.4", linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    title = rf"target $\delta={style.power(target_delta)}$"
    upper = rows[(rows["bound"] == "upper") & np.isfinite(rows["log10_delta"])]
    if not upper.empty:
        # The certified eps is a point of the table; nothing is interpolated.
        nearest = upper.loc[(upper["log10_delta"] - level).abs().idxmin()]
        if np.isclose(nearest["log10_delta"], level, atol=1e-6):
            axes.plot(nearest["eps"], level, "o", color="#000000", markersize=5, zorder=4)
            title += rf": $\epsilon\leq{style.format_eps(nearest['eps'])}$ certified"
    return title


def _label_delta_axis(axes: Axes, lowest: float) -> None:
    """Label decades of delta; y is log10 of delta, because delta may be below 1e-308."""
    axes.set_ylim(lowest, 0.0)
    axes.yaxis.set_major_locator(MultipleLocator(2.0))
    axes.yaxis.set_minor_locator(MultipleLocator(1.0))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda x, _: f"${style.power(10.0**x)}$"))
    axes.grid(visible=True, axis="y")
