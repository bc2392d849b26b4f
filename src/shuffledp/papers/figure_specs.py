"""Describe the recomputed figures: tables of curves, and the text shown with them.

A profile is a privacy curve: a function from eps to the natural log of delta.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from shuffledp.accounting.bound import Kind
from shuffledp.numerics.arrays import Floats

# How a guarantee may be drawn between two computed points; see `FigureText.between`.
Between = Literal["points", "next", "delta over eps", "eps over delta"]


@dataclass(frozen=True, kw_only=True)
class FigureText:
    """Text and axis scales of a figure of curves.

    Attributes
    ----------
    title
        Line above the panels; names the paper and the figure.
    x_label, y_label
        Axis labels, with units where a quantity has one.
    caption
        Description with every parameter; says which of them the paper does not state.
    x_scale, y_scale
        ``log`` or ``linear``.
    between
        What a guarantee proves between its points. ``points``: nothing. ``next``: the y of a point
        also holds for every x down to the previous point. ``delta over eps`` and ``eps over
        delta``: the steps of `figures.bounds.guarantee_steps`, which hold for profiles.
    """

    title: str
    x_label: str
    y_label: str
    caption: str
    x_scale: str = "log"
    y_scale: str = "log"
    between: Between = "points"

    @staticmethod
    def read(metadata: Mapping[str, Any]) -> "FigureText":
        """Return the text in the metadata of a table of curves; other keys are ignored."""
        return FigureText(**{field.name: metadata[field.name] for field in fields(FigureText)})

    def metadata(self) -> dict[str, str]:
        """Return the text as the metadata of a table of curves."""
        return {field.name: getattr(self, field.name) for field in fields(FigureText)}


@dataclass(frozen=True, kw_only=True)
class FigureSpec(FigureText):
    """Text of one figure, and the function that computes its curves, in drawing order."""

    compute: Callable[[], pd.DataFrame]


def curve(panel: str, name: str, kind: Kind, x: ArrayLike, y: ArrayLike) -> pd.DataFrame:
    """Return one curve as rows of a tidy table, without the points that are not finite.

    `panel` is the title of the panel, and `name` the legend entry; equal names look the same in all
    panels. `kind` is ``upper`` or ``lower`` for a bound, ``exact``, ``approximate`` (not known to
    be a bound), or ``as printed``, a formula that is wrong. Both coordinates have shape (n,).
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    keep = np.isfinite(x) & np.isfinite(y)
    return pd.DataFrame({"panel": panel, "curve": name, "kind": kind, "x": x[keep], "y": y[keep]})


def curves(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Return all curves of a figure as one table, in drawing order."""
    return pd.concat(list(parts), ignore_index=True)


LogDelta = Callable[[float], float]

# The range of eps need not be exact, because each point is computed at the eps that is drawn.
_END_REL_TOL: Final = 1e-3
# Replaces -inf, so that the root finder sees finite values.
_MIN_LOG_DELTA: Final = -100.0


def end_of_profile(log_delta: LogDelta, delta: float, max_eps: float) -> float:
    """Return the eps in ``[0, max_eps]`` at which a profile falls to ``delta``, to 0.1 %.

    The result is ``max_eps`` if the profile is still above delta there, and 0 if it is at most
    delta at eps = 0. ``log_delta`` must not increase, and ``delta`` must be positive.
    """

    def excess(eps: float) -> float:
        return max(float(log_delta(eps)), _MIN_LOG_DELTA) - float(np.log(delta))

    if excess(0.0) <= 0.0:
        return 0.0
    if excess(max_eps) >= 0.0:
        return max_eps
    return float(brentq(excess, 0.0, max_eps, xtol=1e-9, rtol=_END_REL_TOL))


def eps_grid(
    log_delta: LogDelta, deltas: tuple[float, float], max_eps: float, points: int
) -> Floats:
    """Return equally spaced eps over the part of a profile with delta in a range.

    ``deltas`` are the smallest and the largest delta; see `end_of_profile` for the others.
    """
    last, first = (end_of_profile(log_delta, delta, max_eps) for delta in deltas)
    return np.asarray(np.linspace(first, last, points))


def deltas_of(log_delta: LogDelta, eps: Floats, min_delta: float = 0.0) -> Floats:
    """Return delta of a profile at each eps, NaN where it is below a minimum."""
    delta = np.exp([float(log_delta(float(each))) for each in eps])
    return np.where(delta >= min_delta, delta, np.nan)
