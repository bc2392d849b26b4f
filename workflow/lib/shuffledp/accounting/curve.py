"""Privacy profiles: delta as a function of eps, with certified lower and upper ends.

A `Curve` encloses the privacy profile of a bound, a randomiser, a mechanism or several rounds, for
the replacement of one record. An `UpperCurve` has an upper end, which alone may be promised.
"""

from __future__ import annotations  # so that help() shows ArrayLike, not its definition

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from time import monotonic
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting import calibrate
from shuffledp.accounting.conventions import Side, eps_values, over_eps, over_log_delta
from shuffledp.accounting.pairs import Pair
from shuffledp.accounting.rounds.privacy_loss import Loss
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT, Floats, plain, quotient_down

LogDelta = Callable[[float], float]
End = TypeVar("End", bound=float | Floats)
# A search for eps ends here; a larger eps counts as infinite.
MAX_EPS = 1e6
# Absolute tolerance in eps of the search for the minimum in `add_total_variation`.
MINIMUM_XTOL = 1e-6
# A term whose log is smaller by this much adds less than 1.3e-4 of the other to a sum.
NEGLIGIBLE_LOG_RATIO = 9.0
# exp(x) is 0 as a float for any smaller x.
LOG_SMALLEST_FLOAT = -746.0
# A search that takes longer than this shows a progress bar.
PROGRESS_AFTER_SECONDS = 2.0


class NotApplicableError(InputError):
    """A bound does not apply to these parameters; the message gives the reason."""


@dataclass(frozen=True)
class Interval(Generic[End]):
    """Certified ends that enclose a true delta or eps.

    Attributes
    ----------
    lower, upper
        Floats, or arrays of the shape of the argument; None for an end that is not known.
    """

    lower: End | None
    upper: End | None

    @property
    def only(self) -> End:
        """The upper end, or the lower end where there is no upper one."""
        end = self.lower if self.upper is None else self.upper
        assert end is not None
        return end

    @property
    def promised(self) -> End:
        """The upper end, the only one that may be promised; raises `InputError` if missing."""
        if self.upper is None:
            raise InputError("nothing may be promised from a lower bound: an upper end is needed")
        return self.upper

    def exp(self) -> Interval[End]:
        """Return the deltas of natural logs of delta, rounded outwards."""
        return Interval(
            None if self.lower is None else exp_down(self.lower),
            None if self.upper is None else exp_up(self.upper),
        )


class _NanReplaced:
    """A function of eps whose NaNs are replaced by a value that always holds."""

    def __init__(self, log_delta: LogDelta, replacement: float) -> None:
        self._log_delta, self._replacement = log_delta, replacement

    def __call__(self, eps: float) -> float:
        value = self._log_delta(eps)
        return self._replacement if np.isnan(value) else value


@dataclass(frozen=True)
class SearchHints:
    """Approximations and tolerances that make searches on a curve fast; no result relies on them.

    Attributes
    ----------
    ceiling
        Cheap log of delta that is never below the upper end.
    estimate
        Cheap estimate of the log of delta, on either side of it: where a search for eps begins. By
        default the ceiling.
    setting_estimate
        Like ``estimate``, but cheap even for a setting that was not evaluated before. A search over
        settings begins there; the default is ``estimate``.
    xtol
        Relative tolerance of a search for eps.
    inverse
        Eps at a natural log of delta, for a bound that has a formula for it.
    """

    ceiling: LogDelta | None = None
    estimate: LogDelta | None = None
    setting_estimate: LogDelta | None = None
    xtol: float = calibrate.XTOL
    inverse: Callable[[float], float] | None = None

    @property
    def for_settings(self) -> LogDelta | None:
        """The cheapest estimate for a search over settings, or None."""
        return self.ceiling or self.setting_estimate or self.estimate


@dataclass(frozen=True)
class Composable:
    """Whatever is known about a round beyond its curve, for composition with other rounds.

    Attributes
    ----------
    repeated
        The curve of that many rounds of the same collection.
    pair
        Dominating pair of a round; it also composes where users are sampled.
    loss
        Privacy loss of a round on a grid. By default it is derived from the curve.
    mu
        Parameter of a curve that is exactly mu-GDP; the squares of several rounds add up.
    """

    repeated: Callable[[int], UpperCurve] | None = None
    pair: Pair | None = None
    loss: Callable[[], Loss] | None = None
    mu: float | None = None


@dataclass(frozen=True)
class Curve:
    """Privacy profile of one collection, for the replacement of one record.

    Attributes
    ----------
    budget
        Delta is 0 at this eps and above; inf if there is no such eps.
    upper
        Natural log of delta at an eps >= 0, never below the true one; only an `UpperCurve` has it.
    lower
        Natural log of delta at an eps >= 0, never above the true one; None if it is not known.
    horizon
        Delta is constant from this eps on; inf if the budget is the only such eps.
    hints
        Approximations for searches.
    composable
        Additional knowledge for composition.
    """

    budget: float
    upper: LogDelta | None = field(init=False, default=None)
    lower: LogDelta | None = None
    horizon: float = np.inf
    hints: SearchHints = SearchHints()
    composable: Composable = Composable()

    def __post_init__(self) -> None:
        # A NaN must not pass for an answer: it is replaced by a bound that always holds.
        for name, trivial in (("upper", 0.0), ("lower", -np.inf)):
            end = getattr(self, name)
            if end is not None and not isinstance(end, _NanReplaced):
                object.__setattr__(self, name, _NanReplaced(end, trivial))

    @overload
    def log_delta(self, eps: float) -> Interval[float]: ...

    @overload
    def log_delta(self, eps: ArrayLike) -> Interval[Any]: ...

    def log_delta(self, eps: ArrayLike) -> Interval[Any]:
        """Enclose the natural log of delta, which never underflows.

        Parameters
        ----------
        eps
            At least 0, any shape.

        Returns
        -------
        Natural logs of that shape, at most 0; -inf for a delta of 0.

        Raises
        ------
        InputError
            If an eps is negative or NaN.
        """
        ends = (self.lower, self.upper)
        return Interval(*(end if end is None else plain(over_eps(end)(eps)) for end in ends))

    def delta(self, eps: ArrayLike) -> Interval[Any]:
        """Enclose delta.

        Where delta is below the smallest float its exact size is not computed: delta does not grow
        with eps, so the upper end at a smaller eps holds there as well.

        Parameters
        ----------
        eps
            At least 0, any shape.

        Returns
        -------
        Deltas of that shape, rounded outwards.

        Raises
        ------
        InputError
            If an eps is negative or NaN.
        """
        values = eps_values(eps)
        distinct, place = np.unique(values, return_inverse=True)
        intervals = list[Interval[float]]()
        for value in distinct.tolist():
            last = intervals[-1].upper if intervals else None
            if last is not None and last < LOG_SMALLEST_FLOAT and value < self.budget:
                intervals.append(Interval(None if self.lower is None else -np.inf, last))
            else:
                intervals.append(self.log_delta(value))

        def end(known: LogDelta | None, logs: list[float | None]) -> Any:
            if known is None:
                return None
            return plain(np.array(logs, np.float64)[place].reshape(values.shape))

        return Interval(
            end(self.lower, [interval.lower for interval in intervals]),
            end(self.upper, [interval.upper for interval in intervals]),
        ).exp()

    @overload
    def epsilon(self, log_delta: float) -> Interval[float]: ...

    @overload
    def epsilon(self, log_delta: ArrayLike) -> Interval[Any]: ...

    def epsilon(self, log_delta: ArrayLike) -> Interval[Any]:
        """Enclose the smallest eps with a given natural log of delta.

        Parameters
        ----------
        log_delta
            At most 0, any shape.

        Returns
        -------
        Numbers in ``[0, budget]`` of that shape, each end rounded to its side; inf where no eps
        suffices.

        Raises
        ------
        InputError
            If a log of delta is above 0 or NaN.
        """

        def end(side: Side, known: LogDelta | None) -> Any:
            if known is None:
                return None
            search = over_log_delta(lambda target: self._epsilon(target, known, side))
            return plain(search(log_delta))

        return Interval(end("lower", self.lower), end("upper", self.upper))

    def _epsilon(self, target: float, log_delta: LogDelta, side: Side) -> float:
        if self.hints.inverse is not None:
            eps = self.hints.inverse(target)
            if np.isnan(eps):
                return self.budget if side == "upper" else 0.0
            return eps
        estimate = self.hints.estimate or self.hints.ceiling
        with _counted(log_delta) as counted:
            sufficient = self._sufficient_eps(target, counted)
            if sufficient in (0.0, np.inf):
                return sufficient
            if estimate is None:
                return calibrate.epsilon(counted, target, sufficient, side)
            return calibrate.guided_epsilon(
                counted, target, sufficient, side, estimate, self.hints.xtol
            )

    def _sufficient_eps(self, target: float, log_delta: LogDelta) -> float:
        """Return an eps whose delta meets the target, or inf."""
        if self.budget < np.inf:
            return self.budget
        if self.horizon < np.inf:
            return self.horizon if log_delta(self.horizon) <= target else np.inf
        eps = 1.0
        while eps < MAX_EPS and log_delta(eps) > target:
            eps *= 2.0
        return eps if eps < MAX_EPS else np.inf

    def surely_below(self, eps: float, log_delta: float) -> bool:
        """Return whether the ceiling alone shows that delta is below; False if undecided."""
        ceiling = self.hints.ceiling
        return ceiling is not None and ceiling(eps) <= log_delta


@dataclass(frozen=True)
class UpperCurve(Curve):
    """A privacy profile with an upper end: a guarantee, which may be promised and composed."""

    upper: LogDelta


def require_upper(curve: Curve) -> UpperCurve:
    """Return the curve itself if it has an upper end.

    Raises
    ------
    InputError
        If it is only a lower bound.
    """
    if not isinstance(curve, UpperCurve):
        raise InputError(
            "an upper bound is needed, got a lower one: it promises nothing and does not compose"
        )
    return curve


@contextmanager
def _counted(log_delta: LogDelta) -> Iterator[LogDelta]:
    """Return the same function; on a terminal a bar counts the calls of a long search."""
    start, bars = monotonic(), list[Any]()

    def counted(eps: float) -> float:
        value = log_delta(eps)
        if not bars and monotonic() - start > PROGRESS_AFTER_SECONDS:
            from tqdm import tqdm  # quick answers do not pay for this import

            bars.append(tqdm(desc="deltas", unit="", leave=False, disable=None))
        for bar in bars:
            bar.update()
        return value

    try:
        yield counted
    finally:
        for bar in bars:
            bar.close()


def largest_eps0(
    eps: float, log_delta: float, curve_of: Callable[[float], UpperCurve], rounds: int = 1
) -> float:
    """Return the largest local budget whose delta at ``eps`` meets a target, rounded down.

    Parameters
    ----------
    eps
        Central budget of all rounds together.
    log_delta
        Natural log of the target.
    curve_of
        The curve of a collection as a function of its local budget; delta grows with the budget.
    rounds
        Number of reports of each user.

    Returns
    -------
    A number >= ``eps / rounds``; the upper end of delta was evaluated there and meets the target.
    """

    def upper(eps0: float) -> float:
        return curve_of(eps0).upper(eps)

    def estimate(eps0: float) -> float:
        curve = curve_of(eps0)
        return (curve.hints.for_settings or curve.upper)(eps)

    smallest = quotient_down(eps, rounds)
    example = curve_of(smallest if smallest > 0.0 else 1.0)
    with _counted(upper) as counted:
        if example.hints.for_settings is None:
            eps0 = calibrate.eps0(counted, log_delta, smallest)
        else:
            xtol = calibrate.XTOL if example.hints.ceiling else calibrate.COARSE_XTOL
            eps0 = calibrate.guided_eps0(counted, log_delta, smallest, estimate, xtol)
        if eps0 > smallest or not smallest:
            return eps0
        return calibrate.largest_feasible_budget(lambda eps0: counted(eps0) <= log_delta, smallest)


def no_guarantee(budget: float = np.inf) -> UpperCurve:
    """Return the curve of a view for which delta is 1 below the budget."""
    return UpperCurve(budget, upper=lambda eps: -np.inf if eps >= budget else 0.0)


def pointwise_minimum(first: UpperCurve, second: UpperCurve) -> UpperCurve:
    """Return the pointwise minimum of two upper bounds on the same collection."""

    def upper(eps: float) -> float:
        return min(first.log_delta(eps).promised, second.log_delta(eps).promised)

    return UpperCurve(min(first.budget, second.budget), upper=upper)


def add_total_variation(log_delta: LogDelta, log_distance: float) -> LogDelta:
    """Return an upper bound on log delta for two laws near those of a known upper bound.

    Parameters
    ----------
    log_delta
        Log of delta for the known laws, rounded up.
    log_distance
        Log of the total variation distance of each law from its known counterpart.

    Returns
    -------
    The sum of delta and ``distance (1 + exp(eps))``, rounded up. Since delta does not grow with
    eps, the smallest sum holds at every larger eps too.
    """
    if log_distance == -np.inf:
        return log_delta

    def total(eps: float) -> float:
        value = float(np.logaddexp(log_delta(eps), log_distance + np.logaddexp(0.0, eps)))
        # The rounding of the logarithms that enter, with an allowance of 8 units.
        return min(value + 8.0 * UNIT * (1.0 + abs(value) + abs(log_distance) + eps), 0.0)

    @cache
    def minimum() -> tuple[float, float]:
        """Find the smallest sum by golden sections; both terms are convex in exp(eps)."""
        low, high = 0.0, max(-log_distance, 0.0)  # there the distance alone makes the sum 1
        ratio = 0.5 * (5.0**0.5 - 1.0)
        points = [high - ratio * (high - low), low + ratio * (high - low)]
        values = [total(eps) for eps in points]
        while high - low > MINIMUM_XTOL:
            if values[0] <= values[1]:
                high = points[1]
                points = [high - ratio * (high - low), points[0]]
                values = [total(points[0]), values[0]]
            else:
                low = points[0]
                points = [points[1], low + ratio * (high - low)]
                values = [values[1], total(points[1])]
        return min(zip(values, points, strict=True))

    def upper(eps: float) -> float:
        distance_negligible = log_distance + eps < log_delta(eps) - NEGLIGIBLE_LOG_RATIO
        if distance_negligible or eps <= (least := minimum())[1]:
            return total(eps)
        return min(total(eps), least[0])

    return upper


def exp_up(log_delta: ArrayLike) -> Any:
    """Return delta from its natural log, rounded up; 0 only for pure differential privacy."""
    logs = np.asarray(log_delta, np.float64)
    return plain(np.where(logs == -np.inf, 0.0, np.minimum(_exp_towards(logs, np.inf), 1.0)))


def exp_down(log_delta: ArrayLike) -> Any:
    """Return delta from its natural log, rounded down, at least 0."""
    return plain(np.maximum(_exp_towards(np.asarray(log_delta, np.float64), -np.inf), 0.0))


def _exp_towards(log_delta: Floats, direction: float) -> Floats:
    """Return the exponential moved by its possible error: one float, also among denormals."""
    return np.nextafter(np.exp(log_delta), direction)
