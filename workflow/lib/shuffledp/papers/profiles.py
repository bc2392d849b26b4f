"""Privacy profiles as curves: eps against delta, or delta against eps."""

from collections.abc import Callable

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from shuffledp.numerics.arrays import Floats
from shuffledp.papers.figure_specs import Kind, curve

LogDelta = Callable[[float], float]

# Where a curve ends need not be exact: every point is computed at the eps that is drawn.
_END_TOLERANCE = 1e-3
_LOWEST = -100.0


def log_deltas(log_delta: LogDelta, eps: Floats) -> Floats:
    """Natural logs of delta on a grid of eps."""
    return np.array([float(log_delta(float(one))) for one in eps])


def end_of_profile(log_delta: LogDelta, delta: float, largest: float) -> float:
    """Eps at which a profile passes through ``delta``, to 0.1 %, in ``[0, largest]``.

    Parameters
    ----------
    log_delta
        Natural log of delta as a function of eps, non-increasing.
    delta
        Positive.
    largest
        Returned where delta is larger even there; 0 where it is smaller from the start.
    """

    def excess(eps: float) -> float:
        return max(float(log_delta(eps)), _LOWEST) - float(np.log(delta))

    if excess(0.0) <= 0.0:
        return 0.0
    if excess(largest) >= 0.0:
        return largest
    return float(brentq(excess, 0.0, largest, xtol=1e-9, rtol=_END_TOLERANCE))


def eps_grid(
    log_delta: LogDelta, deltas: tuple[float, float], largest: float, points: int
) -> Floats:
    """Equally spaced eps over the part of a profile with delta in a range.

    Parameters
    ----------
    log_delta, largest
        As for `end_of_profile`.
    deltas
        Smallest and largest delta, positive.
    points
        How many, at least 2.

    Returns
    -------
    Increasing, shape ``(points,)``.
    """
    smallest, greatest = (end_of_profile(log_delta, delta, largest) for delta in deltas)
    return np.asarray(np.linspace(greatest, smallest, points))


def eps_over_delta(
    panel: str, name: str, kind: Kind, log_delta: LogDelta, eps: Floats
) -> pd.DataFrame:
    """Profile as a curve of eps (y) over delta (x): every point is computed, none interpolated.

    Parameters
    ----------
    panel, name, kind
        As for `curve`.
    log_delta
        Natural log of delta as a function of eps.
    eps
        At least 0, shape ``(m,)``.
    """
    return curve(panel, name, kind, np.exp(log_deltas(log_delta, eps)), eps)


def delta_over_eps(
    panel: str, name: str, kind: Kind, log_delta: LogDelta, eps: Floats, smallest: float
) -> pd.DataFrame:
    """Profile as a curve of delta (y) over eps (x).

    Parameters
    ----------
    panel, name, kind, log_delta, eps
        As for `eps_over_delta`.
    smallest
        Points with a delta below it are left out.
    """
    delta = np.exp(log_deltas(log_delta, eps))
    return curve(panel, name, kind, eps, np.where(delta >= smallest, delta, np.nan))
