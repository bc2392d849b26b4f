"""Inverse problems: from a bound on delta to the eps or eps0 that meets a target.

Every log delta here falls with eps and grows with eps0, so the answers are roots of a monotone
function; they are bracketed, and returned from the side that keeps the promise. Where a value takes
long, a lead, a cheap function not far off, points to the neighbourhood of the answer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from shuffledp.accounting.conventions import Side
from shuffledp.accounting.setting import LARGEST_EPS0
from shuffledp.errors import InputError
from shuffledp.numerics.roots import brentq

XTOL = 1e-12
# Over rounds log delta itself is right to some 1e-5 of eps: grids are no finer.
COARSE_XTOL = 1e-6
# Of the least noise, whose variance is as close to the optimum.
NOISE_XTOL = 1e-9
# Of the eps of one round of several: its relative width, and the log of delta that may be wasted.
_ROUND_XTOL, _ROUND_WASTED = 1e-3, 1e-2
# First step away from where a lead points, relative.
_LED_STEP = 1e-3
# The log of a delta of 0, for differences.
_NOTHING = -1e300
# Where budgets come to an end below.
_LEAST = 1e-15

Curve = Callable[[float], float]


def _root(excess: Curve, low: float, high: float) -> float:
    """Root of a function of changing sign between two positive numbers, relative error 1e-12."""
    # The exponential of a logarithm may lie beyond a jump at one of the ends.
    ends = {float(np.log(low)): low, float(np.log(high)): high}

    def at(log_x: float) -> float:
        return excess(ends.get(log_x, float(np.exp(log_x))))

    return float(np.exp(brentq(at, *ends, xtol=XTOL)))


def _excess(log_delta: Curve, target: float) -> Curve:
    return lambda x: max(log_delta(x), _NOTHING) - target


@dataclass(frozen=True)
class _Crossing:
    """The largest point tried where a growing function meets a target, the smallest where not."""

    meets: float | None
    fails: float | None


def _crossing(
    log_delta: Curve, target: float, lead: Curve, low: float, high: float, xtol: float
) -> _Crossing:
    """Where a growing log delta that takes long crosses a target, in few evaluations.

    The two points are not further apart than ``xtol``, but where one of them does not exist, or the
    target is met exactly. ``lead`` is cheap, grows and is about as far from ``log_delta`` at one
    point as at the next.
    """
    tried: dict[float, float] = {}

    def excess(point: float) -> float:
        if point not in tried:
            tried[point] = max(log_delta(point), _NOTHING) - target
        return tried[point]

    def led(log_delta: float) -> float:
        above = _excess(lead, log_delta)
        if above(high) <= 0.0:
            return high
        return low if above(low) >= 0.0 else brentq(above, low, high, xtol=XTOL)

    point = led(target)
    meets = excess(point) <= 0.0
    following, step = point, _LED_STEP
    if excess(point) > _NOTHING:
        # The lead, moved to go through what was found, points across the root, or short of it.
        following = led(lead(point) - excess(point))
        step = max(abs(following - point), step)
    while (excess(following) <= 0.0) == meets and following != (high if meets else low):
        point, following = following, min(max(following + (step if meets else -step), low), high)
        step *= 4.0
    if (excess(following) <= 0.0) != meets:
        brentq(excess, min(point, following), max(point, following), xtol=xtol)
    return _Crossing(
        max((point for point, found in tried.items() if found <= 0.0), default=None),
        min((point for point, found in tried.items() if found > 0.0), default=None),
    )


def epsilon(log_delta: Curve, target: float, budget: float, side: Side) -> float:
    """Smallest eps whose delta is at most ``exp(target)``.

    Parameters
    ----------
    log_delta
        Natural log of delta as a function of eps, non-increasing, -inf from the budget on.
    target
        Natural log of the target delta.
    budget
        Eps never exceeds it.
    side
        Whether the answer is an upper bound on eps or a lower one.

    Returns
    -------
    A number in ``[0, budget]``; 0 if delta is small enough without any eps, the budget if the
    target is 0.
    """
    if target >= 0.0 or log_delta(0.0) <= target:
        return 0.0
    if target == -np.inf:
        return budget
    excess = _excess(log_delta, target)
    largest = budget * (1.0 - 1e-15)
    high = largest * 1e-3
    while excess(high) <= 0.0 and high > largest * _LEAST:
        high *= 1e-2
    while high < largest and excess(high) > 0.0:
        high = min(4.0 * high, largest)
    if excess(high) > 0.0:
        return budget if side == "upper" else largest
    low = high / 4.0
    while excess(low) <= 0.0:
        low, high = low / 16.0, low
        if low < budget * _LEAST:
            return high if side == "upper" else 0.0
    root = _root(excess, low, high)
    if side == "lower":
        return root * (1.0 - 4.0 * XTOL)
    return min(root * (1.0 + 4.0 * XTOL), budget)


def led_epsilon(
    log_delta: Curve,
    target: float,
    budget: float,
    side: Side,
    lead: Curve,
    xtol: float = XTOL,
) -> float:
    """As `epsilon`, in few evaluations of a log delta that takes long.

    Parameters
    ----------
    log_delta, target, budget, side
        As for `epsilon`.
    lead
        Cheap and non-increasing, about as far from ``log_delta`` at one eps as at the next: where
        to look first.
    xtol
        How far the answer may be from the root, relative.

    Returns
    -------
    As `epsilon`. ``log_delta`` was evaluated there.
    """
    if target >= 0.0:
        return 0.0
    if target == -np.inf:
        return budget

    def at(log_inverse: float) -> float:
        return min(float(np.exp(-log_inverse)), budget * (1.0 - 1e-15))

    low, high = -float(np.log(budget)), -float(np.log(budget * _LEAST))
    found = _crossing(lambda x: log_delta(at(x)), target, lambda x: lead(at(x)), low, high, xtol)
    if found.fails is None and (side == "lower" or log_delta(0.0) <= target):
        return 0.0
    if side == "upper":
        return budget if found.meets is None else at(found.meets)
    assert found.fails is not None
    if found.meets is not None and found.fails - found.meets > 2.0 * xtol:  # met exactly
        return at(found.meets) * (1.0 - 4.0 * XTOL)
    return at(found.fails)


def eps0(log_delta: Curve, target: float, eps: float) -> float:
    """Largest eps0 whose delta at ``eps`` is at most ``exp(target)``, rounded down.

    Parameters
    ----------
    log_delta
        Natural log of delta at ``eps`` as a function of eps0, non-decreasing.
    target
        Natural log of the target delta.
    eps
        Central budget; every eps0 up to it has delta 0.

    Returns
    -------
    A number in ``[eps, 350]``, the largest budget there is.
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
    # The root is right to the tolerance; at the answer the target must hold.
    back = 4.0 * XTOL
    while excess(root * (1.0 - back)) > 0.0:
        back *= 2.0
    return max(root * (1.0 - back), eps)


def led_eps0(
    log_delta: Curve, target: float, eps: float, lead: Curve, xtol: float = COARSE_XTOL
) -> float:
    """As `eps0`, in few evaluations of a log delta that takes long.

    Parameters
    ----------
    log_delta, target, eps
        As for `eps0`.
    lead
        Cheap and non-decreasing, about as far from ``log_delta`` at one eps0 as at the next: where
        to look first.
    xtol
        How far below the root the answer may be, relative.

    Returns
    -------
    A number in ``[eps, 350]`` that meets the target: ``log_delta`` was evaluated there, or it is
    eps, where delta is 0.
    """
    largest = max(LARGEST_EPS0, eps)
    if target >= 0.0:
        return largest
    least = max(eps, 1e-12)

    def at(log_eps0: float) -> float:
        return min(max(float(np.exp(log_eps0)), least), largest)

    low, high = float(np.log(least)), float(np.log(largest))
    found = _crossing(lambda x: log_delta(at(x)), target, lambda x: lead(at(x)), low, high, xtol)
    return eps if found.meets is None else max(at(found.meets), eps)


def largest_kept(meets: Callable[[float], bool], budget: float) -> float:
    """Largest budget tried that meets a target which this budget meets but for rounding.

    A mechanism may round its own budget up, so that it exceeds the eps that it was made for.

    Parameters
    ----------
    meets
        Whether a budget does.
    budget
        The first one tried; the others are smaller by up to a half.

    Raises
    ------
    InputError
        If none of them meets the target.
    """
    for less in (0.0, 1e-14, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 0.5):
        if meets(budget * (1.0 - less)):
            return budget * (1.0 - less)
    raise InputError(
        f"no noise was found that keeps this target: a budget of eps={budget:g} in each round "
        "exceeds it; ask for a larger eps or delta"
    )


def smallest_whole(
    meets: Callable[[int], bool], least: int, largest: int, start: int | None = None
) -> int | None:
    """Smallest whole number that meets a target, of those from ``least`` to ``largest``.

    Parameters
    ----------
    meets
        Whether a number does; if one does, all larger ones do.
    least, largest
        Where to look.
    start
        Where to look first, by default at ``least``. The search widens from there: far beyond the
        answer deltas are smallest, and cost most.

    Returns
    -------
    A number that was tried and does; None if the largest does not.
    """
    number = least if start is None else start
    step = max(number // 1000, 1)
    if meets(number):
        while number > least and meets(lower := max(number - step, least)):
            number, step = lower, 4 * step
        below = max(number - step, least) if number > least else least - 1
    else:
        below = number
        while not meets(number := min(below + step, largest)):
            if number == largest:
                return None
            below, step = number, 4 * step
    while number - below > 1:
        middle = (below + number) // 2
        below, number = (below, middle) if meets(middle) else (middle, number)
    return number


def least_noise(log_delta: Curve, target: float, high: float) -> float:
    """Smallest number in ``(0, high]`` whose delta is at most ``exp(target)``, to 1e-9 of itself.

    Parameters
    ----------
    log_delta
        Natural log of delta, non-increasing, and above the target at small numbers.
    target
        Natural log of the target delta.
    high
        Meets the target.

    Returns
    -------
    A number that meets the target: ``log_delta`` was evaluated there, or it is ``high``.
    """
    best = high

    @cache
    def excess(log_x: float) -> float:
        nonlocal best
        value = min(float(np.exp(log_x)), high)
        found = max(log_delta(value), _NOTHING) - target
        if found <= 0.0:
            best = min(best, value)
        return found

    upper = float(np.log(high))
    if excess(upper) == 0.0:
        return best
    lower = upper - 1.0
    while excess(lower) <= 0.0:
        upper, lower = lower, lower - 1.0
    brentq(excess, lower, upper, xtol=NOISE_XTOL)
    return best


def led_noise(
    log_delta: Curve, target: float, high: float, lead: Curve, xtol: float = NOISE_XTOL
) -> float | None:
    """Smallest number in ``(0, high]`` whose delta is at most ``exp(target)``, in few evaluations.

    Parameters
    ----------
    log_delta, target, high
        As for `least_noise`, but ``high`` need not meet the target.
    lead
        Cheap and non-increasing, about as far from ``log_delta`` at one number as at the next:
        where to look first.
    xtol
        How far above the smallest number the answer may be, relative.

    Returns
    -------
    A number at which ``log_delta`` was evaluated and meets the target; None if none was found.
    """

    def at(log_inverse: float) -> float:
        return min(float(np.exp(-log_inverse)), high)

    low = -float(np.log(high))
    found = _crossing(
        lambda x: log_delta(at(x)), target, lambda x: lead(at(x)), low, low - np.log(_LEAST), xtol
    )
    return None if found.meets is None else at(found.meets)


def of_one_round(log_delta: Curve, target: float, eps: float, guess: float) -> float:
    """Largest eps of a round, nearly, with which all rounds keep a target.

    Few evaluations, since each may take seconds: secants of log delta over log eps.

    Parameters
    ----------
    log_delta
        Log of the delta of all rounds, each calibrated to an eps; it grows, maybe in steps.
    target
        At most 0.
    eps
        Of a round with which the target is surely kept.
    guess
        Where the search begins, at least ``eps``.

    Returns
    -------
    A number of at least ``eps`` at which delta was evaluated, unless it is ``eps``.
    """
    low, high, point = eps, np.inf, max(guess, eps)
    # Delta is about that of a Gaussian, whose log goes with the square of its noise.
    before, slope = None, max(-2.0 * target, 1.0)
    while high > low * (1.0 + _ROUND_XTOL):
        excess = log_delta(point) - target
        if excess <= 0.0:
            low = point
            if excess >= -_ROUND_WASTED:
                break
        else:
            high = point
        here = (float(np.log(point)), excess)
        if before is not None and here[0] != before[0] and excess > -np.inf:
            found = (here[1] - before[1]) / (here[0] - before[0])
            slope = found if 0.0 < found < np.inf else slope
        before = here if excess > -np.inf else None
        following = point * float(np.exp(-(excess + 0.5 * _ROUND_WASTED) / slope))
        if not low < following < high:
            following = float(np.sqrt(low * high)) if high < np.inf else 2.0 * point
        point = following
    return low
