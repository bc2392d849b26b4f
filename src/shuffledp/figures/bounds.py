"""Tools for figures of bounds on delta: colours, steps of guarantees, notes on equal curves."""

import textwrap
from collections.abc import Mapping
from itertools import combinations
from typing import Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from shuffledp.accounting.bound import Kind
from shuffledp.numerics.arrays import Floats

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
