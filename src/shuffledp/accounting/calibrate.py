"""Inverse problems: the eps, eps0 or noise at which a bound on delta meets a target.

Log delta falls with eps and noise and grows with eps0, so each answer is the root of a monotone
function. It is bracketed and rounded in the safe direction. The ``guided_`` functions, for an
expensive log delta, start from a cheap estimate, which affects only the number of evaluations.

A value meets the target if its log delta is at most the target.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from shuffledp.accounting.conventions import Side
from shuffledp.accounting.setting import LARGEST_EPS0
from shuffledp.errors import InputError

# Relative tolerance of eps and eps0.
XTOL = 1e-12
# Relative tolerance over several rounds, where grids limit the accuracy of eps to about 1e-5.
COARSE_XTOL = 1e-6
# Relative tolerance of the smallest noise.
NOISE_XTOL = 1e-9
# Lower limit on the first step of the search for a bracket, in the log of the unknown.
MIN_FIRST_LOG_STEP = 1e-3
# Replaces log 0 = -inf where differences must be finite.
LOG_OF_ZERO = -1e300
# Guided searches for eps and for noise end at this fraction of the largest value.
SMALLEST_RELATIVE_VALUE = 1e-15

Function = Callable[[float], float]


def _root(function: Function, low: float, high: float) -> float:
    """Return the root of a function with a change of sign between two positive numbers.

    The relative tolerance is 1e-12.
    """
    # exp(log(end)) may differ from the end by rounding. If the function jumps there, its sign would
    # be that of the wrong side of the jump.
    log_low, log_high = float(np.log(low)), float(np.log(high))
    ends = {log_low: low, log_high: high}

    def at(log_x: float) -> float:
        return function(ends.get(log_x, float(np.exp(log_x))))

    return float(np.exp(scipy.optimize.brentq(at, log_low, log_high, xtol=XTOL)))


def _gap(log_delta: Function, target: float) -> Function:
    """Return the finite function ``log_delta - target``."""
    return lambda x: max(log_delta(x), LOG_OF_ZERO) - target


@dataclass(frozen=True)
class _Crossing:
    """The largest evaluated point that meets the target, and the smallest that does not."""

    met: float | None
    missed: float | None


def _crossing(
    log_delta: Function, target: float, estimate: Function, low: float, high: float, xtol: float
) -> _Crossing:
    """Locate where a non-decreasing, expensive log delta crosses the target, in few evaluations.

    ``estimate`` is cheap and non-decreasing, and its distance from ``log_delta`` varies slowly. The
    two points of the result differ by little more than ``xtol`` (brentq adds its relative
    tolerance), unless one is None or the search stopped early at a point where log delta equals the
    target.
    """
    tried: dict[float, float] = {}

    def gap(point: float) -> float:
        if point not in tried:
            tried[point] = max(log_delta(point), LOG_OF_ZERO) - target
        return tried[point]

    def estimated_root(level: float) -> float:
        estimated_gap = _gap(estimate, level)
        if estimated_gap(high) <= 0.0:
            return high
        if estimated_gap(low) >= 0.0:
            return low
        return scipy.optimize.brentq(estimated_gap, low, high, xtol=max(0.01 * xtol, XTOL))

    point = estimated_root(target)
    meets = gap(point) <= 0.0
    following, step = point, MIN_FIRST_LOG_STEP
    if gap(point) > LOG_OF_ZERO:
        # Shift the estimate such that it is exact at the point; its root is near the true one.
        following = estimated_root(estimate(point) - gap(point))
        step = max(abs(following - point), step)
    while (gap(following) <= 0.0) == meets and following != (high if meets else low):
        point, following = following, min(max(following + (step if meets else -step), low), high)
        step *= 4.0
    if (gap(following) <= 0.0) != meets:
        scipy.optimize.brentq(gap, min(point, following), max(point, following), xtol=xtol)
    return _Crossing(
        max((point for point, value in tried.items() if value <= 0.0), default=None),
        min((point for point, value in tried.items() if value > 0.0), default=None),
    )


def epsilon(log_delta: Function, target: float, sufficient_eps: float, side: Side) -> float:
    """Return the smallest eps at which delta is at most ``exp(target)``, rounded up or down.

    Parameters
    ----------
    log_delta
        Natural log of delta as a function of eps, non-increasing.
    target
        Natural log of the target delta.
    sufficient_eps
        An eps that meets the target, and therefore an upper limit on the result.
    side
        ``"upper"`` to round the result up, ``"lower"`` to round it down.

    Returns
    -------
    A number in ``[0, sufficient_eps]``: 0 if eps = 0 meets the target, and ``sufficient_eps`` if
    the target is -inf.
    """
    if target >= 0.0 or log_delta(0.0) <= target:
        return 0.0
    if target == -np.inf:
        return sufficient_eps
    gap = _gap(log_delta, target)
    largest = sufficient_eps * (1.0 - 1e-15)
    high = largest * 1e-3
    while gap(high) <= 0.0 and high > largest * SMALLEST_RELATIVE_VALUE:
        high *= 1e-2
    while high < largest and gap(high) > 0.0:
        high = min(4.0 * high, largest)
    if gap(high) > 0.0:
        return sufficient_eps if side == "upper" else largest
    low = high / 4.0
    while gap(low) <= 0.0:
        low, high = low / 16.0, low
        if low < sufficient_eps * SMALLEST_RELATIVE_VALUE:
            return high if side == "upper" else 0.0
    root = _root(gap, low, high)
    if side == "lower":
        return root * (1.0 - 4.0 * XTOL)
    return min(root * (1.0 + 4.0 * XTOL), sufficient_eps)


def guided_epsilon(
    log_delta: Function,
    target: float,
    sufficient_eps: float,
    side: Side,
    estimate: Function,
    xtol: float = XTOL,
) -> float:
    """Return the smallest eps that meets the target, in few evaluations of log delta.

    It is like `epsilon`, but starts from a cheap, non-increasing estimate whose distance from
    ``log_delta`` varies slowly with eps. The relative tolerance is ``xtol``. An upper result
    is 0, ``sufficient_eps`` or an evaluated eps that meets the target. A lower result is 0,
    ``sufficient_eps``, an evaluated eps that misses the target, or an eps that is 4e-12 (relative)
    below an evaluated one whose log delta equals the target.
    """
    if target >= 0.0:
        return 0.0
    if target == -np.inf:
        return sufficient_eps

    def at(minus_log_eps: float) -> float:
        return min(float(np.exp(-minus_log_eps)), sufficient_eps * (1.0 - 1e-15))

    low = -float(np.log(sufficient_eps))
    high = -float(np.log(sufficient_eps * SMALLEST_RELATIVE_VALUE))
    crossing = _crossing(
        lambda x: log_delta(at(x)), target, lambda x: estimate(at(x)), low, high, xtol
    )
    if crossing.missed is None and (side == "lower" or log_delta(0.0) <= target):
        return 0.0
    if side == "upper":
        return sufficient_eps if crossing.met is None else at(crossing.met)
    assert crossing.missed is not None
    if crossing.met is not None and crossing.missed - crossing.met > 2.0 * xtol:
        return at(crossing.met) * (1.0 - 4.0 * XTOL)  # log_delta is equal to the target there
    return at(crossing.missed)


def eps0(log_delta: Function, target: float, smallest: float) -> float:
    """Return the largest eps0 for which delta is at most ``exp(target)``, rounded down.

    Parameters
    ----------
    log_delta
        Natural log of delta as a function of eps0, non-decreasing.
    target
        Natural log of the target delta.
    smallest
        Where the search begins: an eps0 so small that its delta is 0, or nearly 0.

    Returns
    -------
    A number from ``smallest`` to 300, the largest supported eps0. If ``smallest`` exceeds 300 or
    misses the target, ``smallest`` itself, which then need not meet it.
    """
    gap = _gap(log_delta, target)
    largest = max(LARGEST_EPS0, smallest)
    if target >= 0.0:
        return largest
    low = max(smallest, 1e-12)
    if gap(low) > 0.0:
        return smallest
    high = min(max(2.0 * smallest, 1e-3), largest)
    while gap(high) <= 0.0:
        if high == largest:
            return largest
        low, high = high, min(2.0 * high, largest)
    root = _root(gap, low, high)
    # The result must meet the target, but the computed root may be too large by the tolerance.
    reduction = 4.0 * XTOL
    while gap(root * (1.0 - reduction)) > 0.0:
        reduction *= 2.0
    return max(root * (1.0 - reduction), smallest)


def guided_eps0(
    log_delta: Function,
    target: float,
    smallest: float,
    estimate: Function,
    xtol: float = COARSE_XTOL,
) -> float:
    """Return the largest eps0 that meets the target, in few evaluations of log delta.

    It is like `eps0`, but starts from a cheap, non-decreasing estimate whose distance from
    ``log_delta`` varies slowly with eps0. The result, with relative tolerance ``xtol``, is a number
    at which ``log_delta`` was evaluated and found to meet the target, or ``smallest``, or 300 for a
    target of 0.
    """
    largest = max(LARGEST_EPS0, smallest)
    if target >= 0.0:
        return largest
    positive = max(smallest, 1e-12)

    def at(log_eps0: float) -> float:
        return min(max(float(np.exp(log_eps0)), positive), largest)

    low, high = float(np.log(positive)), float(np.log(largest))
    crossing = _crossing(
        lambda x: log_delta(at(x)), target, lambda x: estimate(at(x)), low, high, xtol
    )
    return smallest if crossing.met is None else max(at(crossing.met), smallest)


def first_feasible_budget(meets: Callable[[float], bool], budget: float) -> float:
    """Return a budget that meets the target: ``budget`` or, failing that, a smaller one.

    A mechanism that is constructed for this budget may exceed it by rounding errors. Candidates are
    ``budget`` times 1, ``1 - 1e-14``, ..., 1/2; `InputError` is raised if none meets the target.
    """
    for reduction in (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 0.5):
        if meets(budget * (1.0 - reduction)):
            return budget * (1.0 - reduction)
    raise InputError(
        "no parameters were found that meet the target, not even with half the budget of a round "
        f"({budget:g} / 2): use a larger eps or delta"
    )


def smallest_integer(
    meets: Callable[[int], bool], low: int, high: int, start: int | None = None
) -> int | None:
    """Return the smallest integer from ``low`` to ``high`` that meets the target.

    Parameters
    ----------
    meets
        Function that returns whether an integer meets the target; if one does, so do all larger.
    low, high
        Range of the search, inclusive.
    start
        First integer tried, by default ``low``. Steps begin small, because evaluations far above
        the result are the most expensive ones.

    Returns
    -------
    An integer for which ``meets`` was evaluated; None if ``high`` does not meet the target.
    """
    number = low if start is None else start
    step = max(number // 1000, 1)
    if meets(number):
        while number > low and meets(lower := max(number - step, low)):
            number, step = lower, 4 * step
        below = max(number - step, low) if number > low else low - 1
    else:
        below = number
        while not meets(number := min(below + step, high)):
            if number == high:
                return None
            below, step = number, 4 * step
    while number - below > 1:
        middle = (below + number) // 2
        below, number = (below, middle) if meets(middle) else (middle, number)
    return number


def guided_noise(
    log_delta: Function, target: float, high: float, estimate: Function, xtol: float = NOISE_XTOL
) -> float | None:
    """Return the smallest noise in ``(0, high]`` that meets the target, in few evaluations.

    It starts from a cheap, non-increasing estimate whose distance from ``log_delta`` varies slowly.
    The result is a noise at which ``log_delta`` was evaluated and found to meet the target; None if
    there is none.
    """

    def at(minus_log_noise: float) -> float:
        return min(float(np.exp(-minus_log_noise)), high)

    low = -float(np.log(high))
    crossing = _crossing(
        lambda x: log_delta(at(x)),
        target,
        lambda x: estimate(at(x)),
        low,
        low - np.log(SMALLEST_RELATIVE_VALUE),
        xtol,
    )
    return None if crossing.met is None else at(crossing.met)
