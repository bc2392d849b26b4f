"""Delta over eps of whatever is collected: of bounds, randomisers, mechanisms alike."""

from __future__ import annotations  # so that help() shows ArrayLike, not what it stands for

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
# Where a search for eps ends: beyond, it counts as infinite.
_FARTHEST = 1e6
# How finely the least of a sum is looked for, and a log of a share that hardly adds to it.
_TURN, _SLIGHT = 1e-6, 9.0
# The exponential of anything smaller is 0.
_LOG_SMALLEST = -746.0
# Seconds of a search before it shows that it goes on.
_PATIENCE = 2.0


class NotApplicableError(InputError):
    """A bound says nothing for these parameters; the message gives the reason."""


@dataclass(frozen=True)
class Interval(Generic[End]):
    """What encloses a true delta or eps.

    Attributes
    ----------
    lower, upper
        Floats, or arrays of the shape that was asked for; None for an end that is not given.
    """

    lower: End | None
    upper: End | None

    @property
    def only(self) -> End:
        """The end of a bound that gives one; of two the upper."""
        found = self.lower if self.upper is None else self.upper
        assert found is not None
        return found

    @property
    def promised(self) -> End:
        """The upper end, which alone may be promised; an `InputError` if there is none."""
        if self.upper is None:
            raise InputError("without an upper end nothing may be promised")
        return self.upper

    def exp(self) -> Interval[End]:
        """Deltas of natural logs of delta, rounded outwards."""
        return Interval(
            None if self.lower is None else exp_down(self.lower),
            None if self.upper is None else exp_up(self.upper),
        )


class _WithoutNan:
    """A function of eps whose value is replaced by another one where it is NaN."""

    def __init__(self, log_delta: LogDelta, other: float) -> None:
        self._log_delta, self._other = log_delta, other

    def __call__(self, eps: float) -> float:
        found = self._log_delta(eps)
        return self._other if np.isnan(found) else found


@dataclass(frozen=True)
class Curve:
    """Delta over eps of one collection, for the replacement of one record.

    Attributes
    ----------
    budget
        Eps from which on delta is 0; inf if there is none.
    horizon
        Eps from which on delta no longer falls; inf if there is none but the budget.
    upper, lower
        Natural log of delta at one eps, of at least 0: never below the true one, never above it.
        None for an end that is not known.
    ceiling
        Found at once, and never below the upper end.
    lead
        About the log of delta at once, too large or too small: where a search begins. By default
        the ceiling.
    scout
        As the lead, and cheap for a setting that was not asked before; by default the lead.
    xtol
        How far an eps may be from the root, relative.
    inverse
        Eps at a natural log of delta, of a bound that has a formula for it.
    repeated
        The same collection over so many rounds, where more is known than delta over eps.
    pair
        Dominating pair of a round, which composes, also with rounds of drawn users.
    loss
        What of a round adds up with other rounds; by default it is made of the curve.
    mu
        Of a curve that is that of mu-GDP; squares add up.
    """

    budget: float
    upper: LogDelta | None = None
    lower: LogDelta | None = None
    ceiling: LogDelta | None = None
    lead: LogDelta | None = None
    scout: LogDelta | None = None
    xtol: float = calibrate.XTOL
    inverse: Callable[[float], float] | None = None
    repeated: Callable[[int], Curve] | None = None
    pair: Pair | None = None
    horizon: float = np.inf
    loss: Callable[[], Loss] | None = None
    mu: float | None = None

    def __post_init__(self) -> None:
        # No calculation may let a NaN pass for an answer: what is always true stands in for it.
        for name, trivial in (("upper", 0.0), ("lower", -np.inf)):
            end = getattr(self, name)
            if end is not None and not isinstance(end, _WithoutNan):
                object.__setattr__(self, name, _WithoutNan(end, trivial))

    @overload
    def log_delta(self, eps: float) -> Interval[float]: ...

    @overload
    def log_delta(self, eps: ArrayLike) -> Interval[Any]: ...

    def log_delta(self, eps: ArrayLike) -> Interval[Any]:
        """Enclose the natural log of delta; it never underflows.

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
            If an eps is negative or no number.
        """
        ends = (self.lower, self.upper)
        return Interval(*(end if end is None else plain(over_eps(end)(eps)) for end in ends))

    def delta(self, eps: ArrayLike) -> Interval[Any]:
        """Enclose delta; where it is below every float, without computing how small it is.

        Since delta does not grow with eps, the upper end of a smaller eps serves there as well.

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
            If an eps is negative or no number.
        """
        values = eps_values(eps)
        distinct, place = np.unique(values, return_inverse=True)
        found = list[Interval[float]]()
        for value in distinct.tolist():
            last = found[-1].upper if found else None
            if last is not None and last < _LOG_SMALLEST and value < self.budget:
                found.append(Interval(None if self.lower is None else -np.inf, last))
            else:
                found.append(self.log_delta(value))

        def end(known: LogDelta | None, logs: list[float | None]) -> Any:
            if known is None:
                return None
            return plain(np.array(logs, np.float64)[place].reshape(values.shape))

        return Interval(
            end(self.lower, [each.lower for each in found]),
            end(self.upper, [each.upper for each in found]),
        ).exp()

    @overload
    def epsilon(self, log_delta: float) -> Interval[float]: ...

    @overload
    def epsilon(self, log_delta: ArrayLike) -> Interval[Any]: ...

    def epsilon(self, log_delta: ArrayLike) -> Interval[Any]:
        """Enclose the smallest eps of a natural log of delta.

        Parameters
        ----------
        log_delta
            At most 0, any shape.

        Returns
        -------
        Numbers in ``[0, budget]`` of that shape, each end rounded to its side; inf where none will
        do.

        Raises
        ------
        InputError
            If a log of delta is above 0 or no number.
        """

        def end(side: Side, known: LogDelta | None) -> Any:
            if known is None:
                return None
            found = over_log_delta(lambda target: self._epsilon(target, known, side))
            return plain(found(log_delta))

        return Interval(end("lower", self.lower), end("upper", self.upper))

    def _epsilon(self, target: float, log_delta: LogDelta, side: Side) -> float:
        if self.inverse is not None:
            found = self.inverse(target)
            if np.isnan(found):
                return self.budget if side == "upper" else 0.0
            return found
        lead = self.lead or self.ceiling
        with _counted(log_delta) as counted:
            reach = self._reach(target, counted)
            if reach in (0.0, np.inf):
                return reach
            if lead is None:
                return calibrate.epsilon(counted, target, reach, side)
            return calibrate.led_epsilon(counted, target, reach, side, lead, self.xtol)

    def _reach(self, target: float, log_delta: LogDelta) -> float:
        """Some eps at which delta meets the target, or inf."""
        if self.budget < np.inf:
            return self.budget
        if self.horizon < np.inf:
            return self.horizon if log_delta(self.horizon) <= target else np.inf
        eps = 1.0
        while eps < _FARTHEST and log_delta(eps) > target:
            eps *= 2.0
        return eps if eps < _FARTHEST else np.inf

    def surely_below(self, eps: float, log_delta: float) -> bool:
        """Whether the ceiling alone shows that delta is below; False if it cannot tell."""
        return self.ceiling is not None and self.ceiling(eps) <= log_delta

    def compose(self, rounds: int) -> Curve:
        """Delta over eps after so many such rounds with fresh randomness, also chosen adaptively.

        By what is known of the rounds (`repeated`, `loss`), or by the curve itself: of points of
        it a dominating pair is made, which composes (docs/rounds.md). Raises `InputError` if there
        is no upper end.
        """
        if rounds == 1:
            return self
        if self.repeated is not None:
            return self.repeated(rounds)
        from shuffledp.accounting.composition import composed

        return composed([(self, rounds)])


@contextmanager
def _counted(log_delta: LogDelta) -> Iterator[LogDelta]:
    """The same; on a terminal a bar counts what takes longer than one waits without it."""
    start, bars = monotonic(), list[Any]()

    def counted(eps: float) -> float:
        found = log_delta(eps)
        if not bars and monotonic() - start > _PATIENCE:
            from tqdm import tqdm  # which quick answers do not need

            bars.append(tqdm(desc="deltas", unit="", leave=False, disable=None))
        for bar in bars:
            bar.update()
        return found

    try:
        yield counted
    finally:
        for bar in bars:
            bar.close()


def largest_eps0(
    eps: float, log_delta: float, of: Callable[[float], Curve], rounds: int = 1
) -> float:
    """Largest local budget whose delta at ``eps`` meets a target.

    Parameters
    ----------
    eps
        Of all rounds together.
    log_delta
        Natural log of the target.
    of
        The curve of a collection by its local budget; delta grows with it.
    rounds
        How often the same users report.

    Returns
    -------
    A number of at least ``eps / rounds``, rounded down; delta was evaluated there.
    """

    def at(eps0: float) -> float:
        upper = of(eps0).upper
        assert upper is not None
        return upper(eps)

    def scouted(eps0: float) -> float:
        curve = of(eps0)
        scout = curve.ceiling or curve.scout or curve.lead
        assert scout is not None
        return scout(eps)

    least = quotient_down(eps, rounds)
    some = of(least if least > 0.0 else 1.0)
    with _counted(at) as counted:
        if not (some.ceiling or some.scout or some.lead):
            found = calibrate.eps0(counted, log_delta, least)
        else:
            xtol = calibrate.XTOL if some.ceiling else calibrate.COARSE_XTOL
            found = calibrate.led_eps0(counted, log_delta, least, scouted, xtol)
        if found > least or not least:
            return found
        return calibrate.largest_kept(lambda eps0: counted(eps0) <= log_delta, least)


def lost(budget: float = np.inf) -> Curve:
    """Return the curve of a view of which nothing is promised below its budget."""
    return Curve(budget, upper=lambda eps: -np.inf if eps >= budget else 0.0)


def smaller(first: Curve, second: Curve) -> Curve:
    """Of two curves of one collection, with upper ends, the smaller delta at each eps."""

    def upper(eps: float) -> float:
        return min(first.log_delta(eps).promised, second.log_delta(eps).promised)

    return Curve(min(first.budget, second.budget), upper=upper)


def of_near_laws(known: LogDelta, missed: float) -> LogDelta:
    """Log of delta of laws that may be so far from those of a known upper end, both of them.

    Parameters
    ----------
    known
        Log of delta, rounded up.
    missed
        Log of the distance in total variation.

    Returns
    -------
    The sum of delta and ``distance (1 + exp(eps))``, rounded up. Delta does not grow with eps: from
    where that sum is least on it stays.
    """
    if missed == -np.inf:
        return known

    def total(eps: float) -> float:
        found = float(np.logaddexp(known(eps), missed + np.logaddexp(0.0, eps)))
        return min(found + 8.0 * UNIT * (1.0 + abs(found) + abs(missed) + eps), 0.0)

    @cache
    def least() -> tuple[float, float]:
        """A golden section: both terms are convex in exp(eps)."""
        low, high = 0.0, max(-missed, 0.0)  # where the distance alone makes 1
        ratio = 0.5 * (5.0**0.5 - 1.0)
        points = [high - ratio * (high - low), low + ratio * (high - low)]
        values = [total(eps) for eps in points]
        while high - low > _TURN:
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
        if missed + eps < known(eps) - _SLIGHT or eps <= (turn := least())[1]:
            return total(eps)
        return min(total(eps), turn[0])

    return upper


def exp_up(log_delta: ArrayLike) -> Any:
    """Delta of its natural log, rounded up, so that it is 0 for pure DP only."""
    logs = np.asarray(log_delta, np.float64)
    return plain(np.where(logs == -np.inf, 0.0, np.minimum(_shifted(logs, np.inf), 1.0)))


def exp_down(log_delta: ArrayLike) -> Any:
    """Delta of its natural log, rounded down, at least 0."""
    return plain(np.maximum(_shifted(np.asarray(log_delta, np.float64), -np.inf), 0.0))


def _shifted(log_delta: Floats, towards: float) -> Floats:
    """The exponential, moved by as much as it can be wrong: one float, also among denormals."""
    return np.nextafter(np.exp(log_delta), towards)
