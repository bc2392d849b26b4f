"""Privacy profiles: delta as a function of eps, with certified lower and upper bounds.

A `Curve` encloses the privacy profile of a randomiser, a mechanism or several rounds, for the
replacement of one record, by bounds that are called ends. An `UpperCurve` has an upper end.
Only upper ends are guarantees, which may be promised to users.
"""

from __future__ import annotations  # so that help() shows ArrayLike, not its definition

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting import calibrate
from shuffledp.accounting.conventions import Side, eps_values, over_eps, over_log_delta
from shuffledp.accounting.pairs import Pair
from shuffledp.accounting.rounds.privacy_loss import Loss
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats, plain, quotient_down

LogDelta = Callable[[float], float]
End = TypeVar("End", bound=float | Floats)
# Largest eps that a search evaluates. An upper end that would be larger is infinite.
MAX_EPS = 1e6
# exp(x) underflows to 0 for any smaller x.
LOG_SMALLEST_FLOAT = -746.0
# Searches show a progress bar after this time.
PROGRESS_AFTER_SECONDS = 2.0


class NotApplicableError(InputError):
    """A bound does not apply to these parameters; the message gives the reason."""


@dataclass(frozen=True)
class Interval(Generic[End]):
    """Certified lower and upper bounds (ends) on delta, log delta or eps.

    Attributes
    ----------
    lower, upper
        Floats, or arrays of the shape of the argument; None if there is no such bound.

    Examples
    --------
    >>> Interval(0.25, 0.5).promised
    0.5
    """

    lower: End | None
    upper: End | None

    @property
    def only(self) -> End:
        """The end of an interval that has only one; the upper end if it has both."""
        end = self.lower if self.upper is None else self.upper
        assert end is not None
        return end

    @property
    def promised(self) -> End:
        """The upper end, which may be promised to users; raises `InputError` if there is none."""
        if self.upper is None:
            raise InputError("an upper bound is needed, got a lower bound, which is no guarantee")
        return self.upper

    def exp(self) -> Interval[End]:
        """Return the interval of delta for an interval of log delta, rounded outwards."""
        return Interval(
            None if self.lower is None else exp_down(self.lower),
            None if self.upper is None else exp_up(self.upper),
        )


class _NanReplaced:
    """A function of eps in which a trivially valid bound replaces NaN."""

    def __init__(self, log_delta: LogDelta, replacement: float) -> None:
        self._log_delta, self._replacement = log_delta, replacement

    def __call__(self, eps: float) -> float:
        value = self._log_delta(eps)
        return self._replacement if np.isnan(value) else value


@dataclass(frozen=True)
class SearchHints:
    """Cheap approximations of a curve that speed up searches.

    Attributes
    ----------
    ceiling
        Log delta as a function of eps, never below the upper end.
    estimate
        Approximate log delta, above or below the true one; starting point of a search for eps. The
        default is the ceiling.
    setting_estimate
        Like ``estimate``, but nothing, such as the loss distribution of a round, is prepared for
        each new setting. A search for eps0 starts from the ceiling, from this if there is no
        ceiling, or from ``estimate``.
    xtol
        Relative tolerance of a search for eps.
    inverse
        Eps as a function of log delta, for a bound with such a formula; no search is needed.
    """

    ceiling: LogDelta | None = None
    estimate: LogDelta | None = None
    setting_estimate: LogDelta | None = None
    xtol: float = calibrate.XTOL
    inverse: Callable[[float], float] | None = None

    @property
    def for_settings(self) -> LogDelta | None:
        """The estimate with which a search for eps0 begins, or None."""
        return self.ceiling or self.setting_estimate or self.estimate


@dataclass(frozen=True)
class Composable:
    """Properties of one round that its composition with other rounds uses, besides the curve.

    Attributes
    ----------
    repeated
        Function of a number of rounds that returns the curve of that many identical rounds.
    pair
        Dominating pair of the round; composition with sampled users requires it.
    loss
        Function that returns the privacy loss of the round. By default it is derived from the
        curve.
    mu
        Parameter of a curve that is exactly mu-GDP; in composition the squares of mu add up.
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
        Upper bound on the natural log of delta as a function of eps >= 0; None unless the curve is
        an `UpperCurve`.
    lower
        Lower bound on the natural log of delta as a function of eps >= 0; None if there is none.
    horizon
        Delta is constant, and possibly positive, from this eps on; inf if no such eps below the
        budget is known.
    hints
        Approximations that speed up searches.
    composable
        Properties that composition uses.
    """

    budget: float
    upper: LogDelta | None = field(init=False, default=None)
    lower: LogDelta | None = None
    horizon: float = np.inf
    hints: SearchHints = SearchHints()
    composable: Composable = Composable()

    def __post_init__(self) -> None:
        # NaN would compare as False with any target, so a trivial bound replaces it.
        for name, trivial in (("upper", 0.0), ("lower", -np.inf)):
            end = getattr(self, name)
            if end is not None and not isinstance(end, _NanReplaced):
                object.__setattr__(self, name, _NanReplaced(end, trivial))

    @overload
    def log_delta(self, eps: float) -> Interval[float]: ...

    @overload
    def log_delta(self, eps: ArrayLike) -> Interval[Any]: ...

    def log_delta(self, eps: ArrayLike) -> Interval[Any]:
        """Enclose the natural log of delta, which never underflows, at eps >= 0 of any shape.

        The logs have that shape; they are -inf for a delta of 0.
        """
        ends = (self.lower, self.upper)
        return Interval(*(end if end is None else plain(over_eps(end)(eps)) for end in ends))

    def delta(self, eps: ArrayLike) -> Interval[Any]:
        """Enclose delta at eps >= 0 of any shape, rounded outwards.

        Once delta is below the smallest positive float, its logarithm is not computed at larger
        eps: delta does not grow with eps, so the upper end at the smaller one is used.
        """
        values = eps_values(eps)
        distinct, index = np.unique(values, return_inverse=True)
        intervals = list[Interval[float]]()
        for value in distinct.tolist():
            last = intervals[-1].upper if intervals else None
            if last is not None and last < LOG_SMALLEST_FLOAT and value < self.budget:
                intervals.append(Interval(None if self.lower is None else -np.inf, last))
            else:
                intervals.append(self.log_delta(value))

        def end(log_delta: LogDelta | None, logs: list[float | None]) -> Any:
            if log_delta is None:
                return None
            return plain(np.array(logs, np.float64)[index].reshape(values.shape))

        return Interval(
            end(self.lower, [interval.lower for interval in intervals]),
            end(self.upper, [interval.upper for interval in intervals]),
        ).exp()

    @overload
    def epsilon(self, log_delta: float) -> Interval[float]: ...

    @overload
    def epsilon(self, log_delta: ArrayLike) -> Interval[Any]: ...

    def epsilon(self, log_delta: ArrayLike) -> Interval[Any]:
        """Enclose the smallest eps at which delta is at most a target, rounded outwards.

        ``log_delta`` is the natural log of the target, of any shape; both ends are valid if it was
        rounded down. The results lie in ``[0, budget]``; they are inf where no eps meets the
        target. Without a budget, an upper end above 1e6 is also inf, and a lower end at most 1e6.
        """

        def end(side: Side, bound: LogDelta | None) -> Any:
            if bound is None:
                return None
            search = over_log_delta(lambda target: self._epsilon(target, bound, side))
            return plain(search(log_delta))

        return Interval(end("lower", self.lower), end("upper", self.upper))

    def _epsilon(self, target: float, bound: LogDelta, side: Side) -> float:
        if self.hints.inverse is not None:
            eps = self.hints.inverse(target)
            if np.isnan(eps):
                return self.budget if side == "upper" else 0.0
            return eps
        if side == "lower" and target > -np.inf:
            target = float(np.nextafter(target, 0.0))
        estimate = self.hints.estimate or self.hints.ceiling
        with _counted(bound) as counted:
            sufficient = self._sufficient_eps(target, counted)
            if sufficient == np.inf and side == "lower" and self.horizon == np.inf:
                return MAX_EPS  # larger eps are not evaluated
            if sufficient in (0.0, np.inf):
                return sufficient
            if estimate is None:
                return calibrate.epsilon(counted, target, sufficient, side)
            return calibrate.guided_epsilon(
                counted, target, sufficient, side, estimate, self.hints.xtol
            )

    def _sufficient_eps(self, target: float, bound: LogDelta) -> float:
        """Return an eps at which delta meets the target, or inf if there is none."""
        if self.budget < np.inf:
            return self.budget
        if self.horizon < np.inf:
            return self.horizon if bound(self.horizon) <= target else np.inf
        eps = 1.0
        while bound(eps) > target:
            if eps == MAX_EPS:
                return np.inf
            eps = min(2.0 * eps, MAX_EPS)
        return eps

    def surely_below(self, eps: float, log_delta: float) -> bool:
        """Return True if the ceiling shows that log delta at eps is at most ``log_delta``."""
        ceiling = self.hints.ceiling
        return ceiling is not None and ceiling(eps) <= log_delta


@dataclass(frozen=True)
class UpperCurve(Curve):
    """A curve with an upper end, which may be promised to users and composed."""

    upper: LogDelta


def require_upper(curve: Curve) -> UpperCurve:
    """Return the curve itself, or raise `InputError` if it has only a lower end."""
    if not isinstance(curve, UpperCurve):
        raise InputError(
            "an upper bound is needed, got a lower bound, which is no guarantee and cannot compose"
        )
    return curve


@contextmanager
def _counted(log_delta: LogDelta) -> Iterator[LogDelta]:
    """Yield the same function; during a long search on a terminal, a bar counts its calls."""
    start, bars = monotonic(), list[Any]()

    def counted(eps: float) -> float:
        value = log_delta(eps)
        if not bars and monotonic() - start > PROGRESS_AFTER_SECONDS:
            from tqdm import tqdm  # fast searches avoid this import

            bars.append(tqdm(desc="evaluations of delta", unit="", leave=False, disable=None))
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
    """Return the largest local budget eps0 for which delta at ``eps`` meets a target, rounded down.

    ``curve_of`` returns the curve of all rounds for an eps0; delta must grow with eps0. The result
    is about ``eps / rounds`` or larger. Unless it is 300, the upper end of log delta was evaluated
    there and is at most ``log_delta``. Raises `InputError` if no positive eps0 is found.
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
        if eps0 > smallest:
            return eps0
        if not smallest:
            raise InputError(
                "no positive eps0 was found that meets the target: use a larger eps or delta"
            )
        return calibrate.first_feasible_budget(lambda eps0: counted(eps0) <= log_delta, smallest)


def pure_dp_curve(budget: float = np.inf) -> UpperCurve:
    """Return the curve of pure DP: delta is 1 below the budget, then 0; inf means no guarantee."""
    return UpperCurve(budget, upper=lambda eps: -np.inf if eps >= budget else 0.0)


def exp_up(log_delta: ArrayLike) -> Any:
    """Return delta from its natural log, rounded up; 0 only if the log is -inf."""
    logs = np.asarray(log_delta, np.float64)
    return plain(np.where(logs == -np.inf, 0.0, np.minimum(_exp_towards(logs, np.inf), 1.0)))


def exp_down(log_delta: ArrayLike) -> Any:
    """Return delta from its natural log, rounded down, at least 0."""
    return plain(np.maximum(_exp_towards(np.asarray(log_delta, np.float64), -np.inf), 0.0))


def _exp_towards(log_delta: Floats, direction: float) -> Floats:
    """Return exp moved by one float, which covers its error, for subnormal results too."""
    return np.nextafter(np.exp(log_delta), direction)
