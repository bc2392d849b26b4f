"""Inverse problems: from a bound on delta to the eps or eps0 that meets a target.

Every log delta here falls with eps and grows with eps0, so the answers are roots of a monotone
function; they are bracketed, and returned from the side that keeps the promise.
"""

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

_XTOL = 1e-12


def _log_root(
    excess: Callable[[float], float], low: float, high: float, *, upper_side: bool
) -> float:
    """Root in ``[low, high]`` of a function of changing sign, in relative precision 1e-12.

    ``upper_side`` names the end of the final bracket to return.
    """
    root = float(
        np.exp(brentq(lambda x: excess(float(np.exp(x))), np.log(low), np.log(high), xtol=_XTOL))
    )
    return root * (1.0 + 4.0 * _XTOL) if upper_side else root * (1.0 - 4.0 * _XTOL)


def epsilon(
    log_delta: Callable[[float], float], target: float, eps0: float, *, round_up: bool
) -> float:
    """Smallest eps whose delta is at most ``exp(target)``.

    Parameters
    ----------
    log_delta
        Natural log of delta as a function of eps, non-increasing, -inf from eps0 on.
    target
        Natural log of the target delta.
    eps0
        Local budget: eps never exceeds it.
    round_up
        True for an upper bound on eps, False for a lower one.

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

    low, high = eps0 * 1e-3, eps0 * (1.0 - 1e-15)
    if excess(high) > 0.0:
        return eps0
    while excess(low) < 0.0:
        low *= 1e-3
        if low < eps0 * 1e-15:
            return low if round_up else 0.0
    return min(_log_root(excess, low, high, upper_side=round_up), eps0)
