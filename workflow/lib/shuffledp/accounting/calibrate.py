"""Inverse problems: from a bound on delta to the eps or eps0 that meets a target.

Every log delta here falls with eps and grows with eps0, so the answers are roots of a monotone
function; they are bracketed, and returned from the side that keeps the promise.
"""

from collections.abc import Callable

import numpy as np

from shuffledp.accounting.conventions import Side
from shuffledp.roots import brentq

_XTOL = 1e-12
LARGEST_EPS0 = 20.0


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Root of a function of changing sign between two positive numbers, relative error 1e-12."""

    def at(log_x: float) -> float:
        return excess(float(np.exp(log_x)))

    return float(np.exp(brentq(at, np.log(low), np.log(high), xtol=_XTOL)))


def epsilon(log_delta: Callable[[float], float], target: float, eps0: float, side: Side) -> float:
    """Smallest eps whose delta is at most ``exp(target)``.

    Parameters
    ----------
    log_delta
        Natural log of delta as a function of eps, non-increasing, -inf from eps0 on.
    target
        Natural log of the target delta.
    eps0
        Local budget: eps never exceeds it.
    side
        Whether the answer is an upper bound on eps or a lower one.

    Returns
    -------
    A number in ``[0, eps0]``; 0 if delta is small enough without any eps, eps0 if the target is 0.
    """
    if target >= 0.0 or log_delta(0.0) <= target:
        return 0.0
    if target == -np.inf:
        return eps0

    def excess(eps: float) -> float:
        return max(log_delta(eps), -1e300) - target

    # Bracketed from below: deltas far under the target are costly and tell nothing.
    low, largest = eps0 * 1e-3, eps0 * (1.0 - 1e-15)
    while excess(low) <= 0.0:
        low *= 1e-2
        if low < eps0 * 1e-15:
            return low * 1e2 if side == "upper" else 0.0
    high = min(4.0 * low, largest)
    while excess(high) > 0.0:
        if high == largest:
            return eps0 if side == "upper" else largest
        low, high = high, min(4.0 * high, largest)
    root = _root(excess, low, high)
    if side == "lower":
        return root * (1.0 - 4.0 * _XTOL)
    return min(root * (1.0 + 4.0 * _XTOL), eps0)


def eps0(
    log_delta: Callable[[float], float], target: float, eps: float, *, largest: float = LARGEST_EPS0
) -> float:
    """Largest eps0 whose delta at ``eps`` is at most ``exp(target)``, rounded down.

    Parameters
    ----------
    log_delta
        Natural log of delta at ``eps`` as a function of eps0, non-decreasing.
    target
        Natural log of the target delta.
    eps
        Central budget; every eps0 up to it has delta 0.
    largest
        Where to stop looking.

    Returns
    -------
    A number in ``[eps, largest]``.
    """

    def excess(value: float) -> float:
        return max(log_delta(value), -1e300) - target

    largest = max(largest, eps)
    if target >= 0.0 or excess(largest) <= 0.0:
        return largest
    low = eps
    high = min(max(2.0 * eps, 1e-3), largest)
    while excess(high) <= 0.0:
        low, high = high, min(2.0 * high, largest)
    if low == 0.0:
        low = high
        while excess(low) > 0.0:
            high, low = low, low / 2.0
            if low < 1e-12:
                return 0.0
    # Bisect by hand towards the kept side: at low the target holds, so the result keeps it too.
    while high - low > _XTOL * high:
        middle = 0.5 * (low + high)
        if excess(middle) <= 0.0:
            low = middle
        else:
            high = middle
    return low
