"""Root finding in one variable, because importing SciPy's optimisers takes 0.3 s."""

from collections.abc import Callable
from dataclasses import dataclass
from math import copysign, isnan

_ITERATIONS = 100
_RTOL = 8.881784197001252e-16  # four times the spacing of floats at 1


@dataclass
class _Bracket:
    """Last two points, the end on the other side of the root, values there, and last two steps."""

    before: float
    f_before: float
    now: float
    f_now: float
    across: float = 0.0
    f_across: float = 0.0
    last_step: float = 0.0
    step: float = 0.0

    def order(self) -> None:
        """Make the root lie between ``now`` and ``across``, with ``now`` the better estimate."""
        if self.f_before != 0.0 and _signs_differ(self.f_before, self.f_now):
            self.across, self.f_across = self.before, self.f_before
            self.last_step = self.step = self.now - self.before
        if abs(self.f_across) < abs(self.f_now):
            self.before, self.now, self.across = self.now, self.across, self.now
            self.f_before, self.f_now, self.f_across = self.f_now, self.f_across, self.f_now

    def interpolated(self) -> float:
        """Return the step to the root of the secant or of the inverse quadratic interpolant."""
        if self.before == self.across:
            return -self.f_now * (self.now - self.before) / (self.f_now - self.f_before)
        slope_before = (self.f_before - self.f_now) / (self.before - self.now)
        slope_across = (self.f_across - self.f_now) / (self.across - self.now)
        denominator = slope_across * slope_before * (self.f_across - self.f_before)
        numerator = self.f_across * slope_across - self.f_before * slope_before
        return -self.f_now * numerator / denominator if denominator else float("inf")

    def choose(self, half: float, tolerance: float) -> None:
        """Choose the interpolated step if it is short enough, else the bisection step ``half``."""
        if abs(self.last_step) > tolerance and abs(self.f_now) < abs(self.f_before):
            trial = self.interpolated()
            if 2.0 * abs(trial) < min(abs(self.last_step), 3.0 * abs(half) - tolerance):
                self.last_step, self.step = self.step, trial
                return
        self.last_step = self.step = half


def _signs_differ(f: float, g: float) -> bool:
    return copysign(1.0, f) != copysign(1.0, g)


def brentq(
    f: Callable[[float], float],
    low: float,
    high: float,
    *,
    xtol: float = 2e-12,
    rtol: float = _RTOL,
) -> float:
    """Return a root of a continuous function between two points where its signs differ.

    The iterates are those of ``scipy.optimize.brentq``. The error of the root is at most
    ``xtol + rtol * |root|``. Raises `ValueError` if f has the same sign at both ends, or is NaN at
    a point, and `RuntimeError` if the tolerance is not reached in 100 iterations.

    Source: R. Brent, Algorithms for Minimization without Derivatives (1973), chapter 4.
    """

    def at(x: float) -> float:
        value = float(f(x))
        if isnan(value):
            raise ValueError(f"the function is NaN at {x}")
        return value

    low, high = float(low), float(high)
    bracket = _Bracket(low, at(low), high, at(high))
    if bracket.f_before == 0.0:
        return low
    if bracket.f_now == 0.0:
        return high
    if not _signs_differ(bracket.f_before, bracket.f_now):
        raise ValueError(f"the function has the same sign at {low} and {high}")
    for _ in range(_ITERATIONS):
        bracket.order()
        tolerance = (xtol + rtol * abs(bracket.now)) / 2.0
        half = (bracket.across - bracket.now) / 2.0
        if bracket.f_now == 0.0 or abs(half) < tolerance:
            return bracket.now
        bracket.choose(half, tolerance)
        bracket.before, bracket.f_before = bracket.now, bracket.f_now
        smallest_step = tolerance if half > 0.0 else -tolerance
        bracket.now += bracket.step if abs(bracket.step) > tolerance else smallest_step
        bracket.f_now = at(bracket.now)
    raise RuntimeError(f"no root found in {_ITERATIONS} iterations between {low} and {high}")
