"""Inverse problems: the eps, eps0 or noise at which a bound on delta meets a target.

Log delta falls with eps and grows with eps0, so each answer is the root of a monotone function. It
is bracketed and rounded in the safe direction. If an evaluation is expensive, a cheap estimate
determines where the search begins; results never rely on it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from shuffledp.accounting.conventions import Side
from shuffledp.accounting.setting import LARGEST_EPS0
from shuffledp.errors import InputError
from shuffledp.numerics.roots import brentq

# Relative tolerance of eps and eps0.
XTOL = 1e-12
# Relative tolerance over several rounds, where grids limit the accuracy of eps to about 1e-5.
COARSE_XTOL = 1e-6
# Relative tolerance of the least noise; that of its variance is about the same.
NOISE_XTOL = 1e-9
# Tolerances of `round_epsilon`: relative in eps, absolute in log delta.
ROUND_EPS_XTOL, ROUND_LOG_DELTA_TOLERANCE = 1e-3, 1e-2
# Relative size of the first step away from the root of an estimate.
FIRST_RELATIVE_STEP = 1e-3
# Replaces the log of 0, which is -inf, where differences must be finite.
LOG_OF_ZERO = -1e300
# Searches go no lower than this share of the budget.
SMALLEST_RELATIVE_VALUE = 1e-15

Curve = Callable[[float], float]


def _root(excess: Curve, low: float, high: float) -> float:
    """Return the root between two positive numbers at which the signs differ, to 1e-12 relative."""
    # exp(log(end)) may differ from the end by rounding, and lie beyond a jump there.
    ends = {float(np.log(low)): low, float(np.log(high)): high}

    def at(log_x: float) -> float:
        return excess(ends.get(log_x, float(np.exp(log_x))))

    return float(np.exp(brentq(at, *ends, xtol=XTOL)))


def _excess(log_delta: Curve, target: float) -> Curve:
    return lambda x: max(log_delta(x), LOG_OF_ZERO) - target


@dataclass(frozen=True)
class _Crossing:
    """The largest evaluated point that meets a target, and the smallest that fails it."""

    meets: float | None
    fails: float | None


def _crossing(
    log_delta: Curve, target: float, estimate: Curve, low: float, high: float, xtol: float
) -> _Crossing:
    """Locate where an expensive, growing log delta crosses a target, in few evaluations.

    The two points are at most ``xtol`` apart, unless one of them does not exist or the target is
    met exactly. ``estimate`` is cheap and growing, and its distance from ``log_delta`` varies
    slowly.
    """
    tried: dict[float, float] = {}

    def excess(point: float) -> float:
        if point not in tried:
            tried[point] = max(log_delta(point), LOG_OF_ZERO) - target
        return tried[point]

    def estimated_root(log_delta: float) -> float:
        above = _excess(estimate, log_delta)
        if above(high) <= 0.0:
            return high
        return low if above(low) >= 0.0 else brentq(above, low, high, xtol=XTOL)

    point = estimated_root(target)
    meets = excess(point) <= 0.0
    following, step = point, FIRST_RELATIVE_STEP
    if excess(point) > LOG_OF_ZERO:
        # The estimate, shifted such that it is exact at the point, has a root near the true one.
        following = estimated_root(estimate(point) - excess(point))
        step = max(abs(following - point), step)
    while (excess(following) <= 0.0) == meets and following != (high if meets else low):
        point, following = following, min(max(following + (step if meets else -step), low), high)
        step *= 4.0
    if (excess(following) <= 0.0) != meets:
        brentq(excess, min(point, following), max(point, following), xtol=xtol)
    return _Crossing(
        max((point for point, value in tried.items() if value <= 0.0), default=None),
        min((point for point, value in tried.items() if value > 0.0), default=None),
    )


def epsilon(log_delta: Curve, target: float, budget: float, side: Side) -> float:
    """Return the smallest eps whose delta is at most ``exp(target)``.

    Parameters
    ----------
    log_delta
        Natural log of delta as a function of eps, non-increasing, -inf from the budget on.
    target
        Natural log of the target delta.
    budget
        Eps never exceeds it.
    side
        Whether the answer is an upper or a lower bound on eps.

    Returns
    -------
    A number in ``[0, budget]``; 0 if delta meets the target at eps = 0, the budget if the
    target is 0.
    """
    if target >= 0.0 or log_delta(0.0) <= target:
        return 0.0
    if target == -np.inf:
        return budget
    excess = _excess(log_delta, target)
    largest = budget * (1.0 - 1e-15)
    high = largest * 1e-3
    while excess(high) <= 0.0 and high > largest * SMALLEST_RELATIVE_VALUE:
        high *= 1e-2
    while high < largest and excess(high) > 0.0:
        high = min(4.0 * high, largest)
    if excess(high) > 0.0:
        return budget if side == "upper" else largest
    low = high / 4.0
    while excess(low) <= 0.0:
        low, high = low / 16.0, low
        if low < budget * SMALLEST_RELATIVE_VALUE:
            return high if side == "upper" else 0.0
    root = _root(excess, low, high)
    if side == "lower":
        return root * (1.0 - 4.0 * XTOL)
    return min(root * (1.0 + 4.0 * XTOL), budget)


def guided_epsilon(
    log_delta: Curve,
    target: float,
    budget: float,
    side: Side,
    estimate: Curve,
    xtol: float = XTOL,
) -> float:
    """Return the smallest eps that meets a target, in few evaluations of an expensive log delta.

    Parameters
    ----------
    log_delta, target, budget, side
        See `epsilon`.
    estimate
        Cheap, non-increasing estimate whose distance from ``log_delta`` varies slowly with eps.
    xtol
        Relative distance of the answer from the root.

    Returns
    -------
    A number as from `epsilon`, at which ``log_delta`` was evaluated.
    """
    if target >= 0.0:
        return 0.0
    if target == -np.inf:
        return budget

    def at(log_inverse: float) -> float:
        return min(float(np.exp(-log_inverse)), budget * (1.0 - 1e-15))

    low, high = -float(np.log(budget)), -float(np.log(budget * SMALLEST_RELATIVE_VALUE))
    crossing = _crossing(
        lambda x: log_delta(at(x)), target, lambda x: estimate(at(x)), low, high, xtol
    )
    if crossing.fails is None and (side == "lower" or log_delta(0.0) <= target):
        return 0.0
    if side == "upper":
        return budget if crossing.meets is None else at(crossing.meets)
    assert crossing.fails is not None
    if crossing.meets is not None and crossing.fails - crossing.meets > 2.0 * xtol:  # hit exactly
        return at(crossing.meets) * (1.0 - 4.0 * XTOL)
    return at(crossing.fails)


def eps0(log_delta: Curve, target: float, eps: float) -> float:
    """Return the largest eps0 whose delta at ``eps`` is at most ``exp(target)``, rounded down.

    Parameters
    ----------
    log_delta
        Natural log of delta at ``eps`` as a function of eps0, non-decreasing.
    target
        Natural log of the target delta.
    eps
        Central budget; delta is 0 for every eps0 up to it.

    Returns
    -------
    A number in ``[eps, 350]``; 350 is the largest supported budget.
    """
    excess = _excess(log_delta, target)
    largest = max(LARGEST_EPS0, eps)
    if target >= 0.0:
        return largest
    low = max(eps, 1e-12)
    if excess(low) > 0.0:
        return eps
    high = min(max(2.0 * eps, 1e-3), largest)
    while excess(high) <= 0.0:
        if high == largest:
            return largest
        low, high = high, min(2.0 * high, largest)
    root = _root(excess, low, high)
    # The root is accurate to the tolerance only, but the target must hold at the answer.
    back = 4.0 * XTOL
    while excess(root * (1.0 - back)) > 0.0:
        back *= 2.0
    return max(root * (1.0 - back), eps)


def guided_eps0(
    log_delta: Curve, target: float, eps: float, estimate: Curve, xtol: float = COARSE_XTOL
) -> float:
    """Return the largest eps0 that meets a target, in few evaluations of an expensive log delta.

    Parameters
    ----------
    log_delta, target, eps
        See `eps0`.
    estimate
        Cheap, non-decreasing estimate whose distance from ``log_delta`` varies slowly with eps0.
    xtol
        Relative distance by which the answer may lie below the root.

    Returns
    -------
    A number in ``[eps, 350]`` that meets the target: ``log_delta`` was evaluated there, or it is
    eps, where delta is 0.
    """
    largest = max(LARGEST_EPS0, eps)
    if target >= 0.0:
        return largest
    smallest = max(eps, 1e-12)

    def at(log_eps0: float) -> float:
        return min(max(float(np.exp(log_eps0)), smallest), largest)

    low, high = float(np.log(smallest)), float(np.log(largest))
    crossing = _crossing(
        lambda x: log_delta(at(x)), target, lambda x: estimate(at(x)), low, high, xtol
    )
    return eps if crossing.meets is None else max(at(crossing.meets), eps)


def largest_feasible_budget(meets: Callable[[float], bool], budget: float) -> float:
    """Return the budget, or one slightly smaller, that meets a target despite rounding.

    A mechanism may round its own budget up, so that it exceeds the eps that it was made for.

    Parameters
    ----------
    meets
        Whether a budget meets the target.
    budget
        The largest candidate; the others are smaller by up to one half.

    Raises
    ------
    InputError
        If no candidate meets the target.
    """
    for reduction in (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 0.5):
        if meets(budget * (1.0 - reduction)):
            return budget * (1.0 - reduction)
    raise InputError(
        f"no noise was found that keeps this target: a budget of eps={budget:g} in each round "
        "exceeds it; ask for a larger eps or delta"
    )


def smallest_integer(
    meets: Callable[[int], bool], low: int, high: int, start: int | None = None
) -> int | None:
    """Return the smallest integer from ``low`` to ``high`` that meets a target.

    Parameters
    ----------
    meets
        Whether a number meets the target; if one does, all larger ones do.
    low, high
        Range of the search.
    start
        First number tried, by default ``low``. The search widens from there, because far beyond
        the answer deltas are smallest and most expensive.

    Returns
    -------
    A number that was tried; None if the largest fails.
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


def smallest_noise(log_delta: Curve, target: float, high: float) -> float:
    """Return the smallest number in ``(0, high]`` whose delta is at most ``exp(target)``.

    Its relative tolerance is 1e-9.

    Parameters
    ----------
    log_delta
        Natural log of delta, non-increasing, and above the target at small numbers.
    target
        Natural log of the target delta.
    high
        A number that meets the target.

    Returns
    -------
    A number that meets the target: one at which ``log_delta`` was evaluated, or ``high``.
    """
    best = high

    @cache
    def excess(log_x: float) -> float:
        nonlocal best
        value = min(float(np.exp(log_x)), high)
        value_excess = max(log_delta(value), LOG_OF_ZERO) - target
        if value_excess <= 0.0:
            best = min(best, value)
        return value_excess

    upper = float(np.log(high))
    if excess(upper) == 0.0:
        return best
    lower = upper - 1.0
    while excess(lower) <= 0.0:
        upper, lower = lower, lower - 1.0
    brentq(excess, lower, upper, xtol=NOISE_XTOL)
    return best


def guided_noise(
    log_delta: Curve, target: float, high: float, estimate: Curve, xtol: float = NOISE_XTOL
) -> float | None:
    """Return the smallest number in ``(0, high]`` that meets a target, in few evaluations.

    Parameters
    ----------
    log_delta, target, high
        See `smallest_noise`, but ``high`` need not meet the target.
    estimate
        Cheap, non-increasing estimate whose distance from ``log_delta`` varies slowly.
    xtol
        Relative distance by which the answer may lie above the smallest number.

    Returns
    -------
    A number at which ``log_delta`` was evaluated and meets the target; None if none was found.
    """

    def at(log_inverse: float) -> float:
        return min(float(np.exp(-log_inverse)), high)

    low = -float(np.log(high))
    crossing = _crossing(
        lambda x: log_delta(at(x)),
        target,
        lambda x: estimate(at(x)),
        low,
        low - np.log(SMALLEST_RELATIVE_VALUE),
        xtol,
    )
    return None if crossing.meets is None else at(crossing.meets)


def round_epsilon(log_delta: Curve, target: float, eps: float, guess: float) -> float:
    """Return nearly the largest eps per round at which all rounds together meet a target.

    The search uses secants of log delta over log eps and needs few evaluations, since each may take
    seconds.

    Parameters
    ----------
    log_delta
        Log of the delta of all rounds as a function of the eps to which each is calibrated;
        non-decreasing, possibly in steps.
    target
        Natural log of the target delta, at most 0.
    eps
        An eps per round that is known to meet the target.
    guess
        Start of the search, at least ``eps``.

    Returns
    -------
    ``eps``, or a larger number at which delta was evaluated.
    """
    low, high, point = eps, np.inf, max(guess, eps)
    # For Gaussian noise, log delta is about proportional to eps^-2, so that its slope over log eps
    # is -2 log delta.
    before, slope = None, max(-2.0 * target, 1.0)
    while high > low * (1.0 + ROUND_EPS_XTOL):
        excess = log_delta(point) - target
        if excess <= 0.0:
            low = point
            if excess >= -ROUND_LOG_DELTA_TOLERANCE:
                break
        else:
            high = point
        current = (float(np.log(point)), excess)
        if before is not None and current[0] != before[0] and excess > -np.inf:
            secant = (current[1] - before[1]) / (current[0] - before[0])
            slope = secant if 0.0 < secant < np.inf else slope
        before = current if excess > -np.inf else None
        following = point * float(np.exp(-(excess + 0.5 * ROUND_LOG_DELTA_TOLERANCE) / slope))
        if not low < following < high:
            following = float(np.sqrt(low * high)) if high < np.inf else 2.0 * point
        point = following
    return low
