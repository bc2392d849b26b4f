"""The questions that can be asked about a collection: the functions of the public API.

Each takes a `Setting`, and returns a result with `to_frame()` and `plot()`
(`shuffledp.results`). All guarantees are for the replacement of one user's record against an
adversary who sees the histogram of all reports (docs/accounting.md). Only upper ends may be
promised to users.
"""

from __future__ import annotations  # so that help() shows ArrayLike, not its definition

import signal
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, overload

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting import accountant
from shuffledp.accounting.accountant import CERTIFIED, Collected, log_of
from shuffledp.accounting.curve import Interval, NotApplicableError, largest_eps0, require_upper
from shuffledp.accounting.registry import BOUNDS, get_bound, upper_curve
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError, shortened
from shuffledp.numerics.arrays import Floats, floats, plain, scalar
from shuffledp.results import (
    NEIGHBOURS,
    PROVEN,
    BoundsResult,
    CalibrationResult,
    Certificate,
    ComparedMechanism,
    ComparisonResult,
    DeltaResult,
    EpsilonResult,
    LogDeltaResult,
    MatrixResult,
    PersonalBudgetsResult,
    PersonalEpsilon,
    PlanResult,
    PredictedError,
    RenyiResult,
    TradeoffResult,
    Verdict,
    VerificationResult,
)

if TYPE_CHECKING:
    from shuffledp.input_files import Budgets
    from shuffledp.mechanisms.protocol import Mechanism
    from shuffledp.mechanisms.target_calibration import Released
    from shuffledp.numerics.arrays import Integers
    from shuffledp.personalised.groups import BudgetGroups

# The mechanisms whose errors `plan` predicts unless it is told others.
PLANNED: Final = ("gaussian", "krr")
# The longest time that `setitimer` can surely wait.
MAX_TIME_LIMIT_SECONDS: Final = 1e6
# A trade-off function is computed from this many points of the curve, down to this delta. Thirty
# times as many points would take another 0.1 % of what a test gains over guessing.
TRADEOFF_POINTS, SMALLEST_TRADEOFF_DELTA = 65, 1e-12


@overload
def log_delta(eps: float, setting: Collected, *, bound: str = ...) -> LogDeltaResult[float]: ...


@overload
def log_delta(eps: ArrayLike, setting: Collected, *, bound: str = ...) -> LogDeltaResult[Any]: ...


def log_delta(eps: ArrayLike, setting: Collected, *, bound: str = CERTIFIED) -> LogDeltaResult[Any]:
    """Enclose the natural log of the delta of a collection at eps.

    Unlike `delta` it never underflows: even deltas of 1e-10000 are distinguished.

    Parameters
    ----------
    eps
        Central budgets of at least 0, any shape.
    setting
        The collection: `Setting` (n, k, eps0, ...), or the settings of several rounds that differ,
        in which the same users take part.
    bound
        ``"certified"``, or the name of a bound from the literature (``shuffledp list``), which
        gives one end only. With sampling, dropouts or dummies only the upper end is known.

    Returns
    -------
    Natural logs, at most 0; -inf for a delta of 0.

    Raises
    ------
    InputError
        If a parameter is out of range, or the bound does not apply there.

    Examples
    --------
    >>> log_delta(0.5, Setting(n=100_000, k=408, eps0=4.0)).upper  # 1e-465
    -1071.47...
    """
    curve = accountant.curve(setting, bound)
    ends = curve.log_delta(eps)
    return LogDeltaResult(ends.lower, ends.upper, eps, setting, bound, curve)


@overload
def delta(eps: float, setting: Collected, *, bound: str = ...) -> DeltaResult[float]: ...


@overload
def delta(eps: ArrayLike, setting: Collected, *, bound: str = ...) -> DeltaResult[Any]: ...


def delta(eps: ArrayLike, setting: Collected, *, bound: str = CERTIFIED) -> DeltaResult[Any]:
    """Enclose the delta of a collection at eps.

    Parameters
    ----------
    eps, setting, bound
        As for `log_delta`.

    Returns
    -------
    Numbers in ``[0, 1]``. Where delta lies below the smallest float, the lower end is 0 and the
    upper end is that float.

    Raises
    ------
    InputError
        As for `log_delta`.

    Examples
    --------
    >>> delta(0.03, Setting(n=100_000, k=408, eps0=4.0))
    DeltaResult(lower=1.2421621...e-05, upper=1.2421633...e-05)
    """
    curve = accountant.curve(setting, bound)
    ends = curve.delta(eps)
    return DeltaResult(ends.lower, ends.upper, eps, setting, bound, curve)


@overload
def epsilon(
    delta: float | Decimal, setting: Collected, *, bound: str = ...
) -> EpsilonResult[float]: ...


@overload
def epsilon(
    delta: ArrayLike | Sequence[Decimal], setting: Collected, *, bound: str = ...
) -> EpsilonResult[Any]: ...


def epsilon(
    delta: ArrayLike | Decimal | Sequence[Decimal], setting: Collected, *, bound: str = CERTIFIED
) -> EpsilonResult[Any]:
    """Enclose the smallest eps for which a collection is (eps, delta)-DP.

    Parameters
    ----------
    delta
        In ``(0, 1]``, any shape; `decimal.Decimal` below the smallest float.
    setting, bound
        As for `log_delta`.

    Returns
    -------
    Numbers in ``[0, rounds * eps0]``.

    Raises
    ------
    InputError
        If a parameter is out of range, or the bound does not apply there.

    Examples
    --------
    >>> epsilon(1e-6, Setting(n=100_000, k=408, eps0=4.0))
    EpsilonResult(lower=0.0378805104..., upper=0.0378805153...)
    >>> epsilon([1e-6, 1e-8], Setting(n=100_000, k=408, eps0=4.0)).to_frame()["eps_upper"].round(4)
    0    0.0379
    1    0.0497
    Name: eps_upper, dtype: float64
    """
    curve = accountant.curve(setting, bound)
    ends = curve.epsilon(log_of(delta))
    return EpsilonResult(ends.lower, ends.upper, delta, setting, bound, curve)


def mechanism(name: str, parameters: str = "", **numbers: float) -> Released[Any]:
    """Return a mechanism with its parameters, for a `Setting`.

    Parameters
    ----------
    name
        Name of a mechanism (``shuffledp list``).
    parameters
        Parameters as `compare` prints them: ``"eps=1.0, nu=25"``.
    **numbers
        The same as keywords.

    Raises
    ------
    InputError
        If there is no such mechanism, or a parameter is missing, unknown or out of range.

    Examples
    --------
    >>> epsilon(1e-6, Setting(1000, 5, mechanism=mechanism("discrete-laplace", eps=0.5))).upper
    0.49999...
    """
    from shuffledp.mechanisms.target_calibration import Released, read_parameters

    (found,) = _mechanisms([name])
    texts = [parameters] if parameters else []
    texts += [f"{key}={scalar(key, value)!r}" for key, value in numbers.items()]
    return Released(found, read_parameters(found, ", ".join(texts)))


def _mechanisms(names: Iterable[str]) -> list[Mechanism[Any]]:
    from shuffledp.mechanisms.registry import get_mechanisms

    names = [names] if isinstance(names, str) else list(names)
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"a mechanism must be given by its name, got {shortened(repr(name))}")
    if not names:
        raise InputError("at least one mechanism must be given, got none")
    return get_mechanisms(dict.fromkeys(names))


def _check_setting(setting: object, *considered: str) -> None:
    """Refuse what is no setting, or has a field beside n and k that a question does not consider.

    Without names every field is considered.
    """
    if not isinstance(setting, Setting):
        raise InputError(f"setting must be a Setting, got {shortened(repr(setting))}")
    for field in fields(setting)[2:] if considered else ():
        value = getattr(setting, field.name)
        if field.name not in considered and value != field.default:
            raise InputError(
                f"{field.name} is not considered here, got {field.name}={shortened(repr(value))}: "
                "leave it out of the setting"
            )


def calibrate(
    eps: float, delta: float | Decimal, setting: Setting, mechanism: str = "krr"
) -> CalibrationResult:
    """Return parameters of a mechanism for which a collection is certified to be (eps, delta)-DP.

    Parameters
    ----------
    eps
        Central budget of all rounds together, at least 0 (above 0 for mechanisms other than k-RR).
    delta
        In ``(0, 1]``; a `decimal.Decimal` below the smallest float.
    setting
        The collection without its eps0 or mechanism: users, cells, rounds and participation.
    mechanism
        Name of the mechanism (``shuffledp list``).

    Returns
    -------
    The setting with these parameters. For k-RR it has the largest eps0 of a report, rounded down;
    it is at least ``eps / rounds``, because shuffling never costs privacy. For others the error is
    nearly the least, and the privacy that sampling adds is not used.

    Raises
    ------
    InputError
        If a parameter is out of range, or the mechanism cannot keep the target.

    Examples
    --------
    >>> calibrate(0.5, 1e-8, Setting(n=100_000, k=408)).eps0
    6.648382...
    >>> calibrate(1, 1e-8, Setting(n=100_000, k=408), "two-servers").parameters
    ShufflerDummiesParameters(eps=1.0, nu=35)
    """
    from shuffledp.mechanisms.krr import KRRParameters
    from shuffledp.mechanisms.target_calibration import Released, calibrated

    own = ("eps0", "dummies") if mechanism == "krr" else ()
    _check_setting(setting, "rounds", "sampling_rate", "colluding", "response_rate", *own)
    target = log_of(delta)
    eps = scalar("eps", eps)
    if not 0.0 <= eps < np.inf:
        raise InputError(f"eps must be at least 0 and finite, got eps={eps}")
    (chosen,) = _mechanisms([mechanism])
    if chosen.name == "krr":
        eps0 = largest_eps0(
            eps, target, lambda eps0: upper_curve(replace(setting, eps0=eps0)), setting.rounds
        )
        parameters: Any = KRRParameters(eps0)
        found = replace(setting, eps0=eps0)
    else:
        parameters = calibrated(chosen, eps, target, replace(setting, sampling_rate=1.0))
        found = replace(setting, mechanism=Released(chosen, parameters))
    achieved = accountant.certified_curve(found).log_delta(eps).promised
    return CalibrationResult(eps, delta, found, parameters, achieved)


def bounds(delta: float | Decimal, setting: Setting) -> BoundsResult:
    """Return the eps of every bound of the registry that applies to a collection.

    It takes a few seconds, and shows a progress bar on a terminal.

    Parameters
    ----------
    delta, setting
        As for `epsilon`.

    Returns
    -------
    The eps of each bound by its name, smallest first. ``upper`` and ``lower`` are the certified
    pair; ``shuffledp list`` shows which others may be promised.

    Raises
    ------
    InputError
        If delta is out of range, or no bound applies.
    """
    from tqdm import tqdm

    _check_setting(setting)
    target, eps_of = log_of(delta), dict[str, float]()
    for bound in tqdm(BOUNDS.values(), desc="bounds", leave=False, disable=None):
        try:
            eps_of[bound.name] = bound.curve(setting).epsilon(target).only
        except NotApplicableError:
            continue
    if not eps_of:
        raise InputError("no bound applies to these parameters")
    return BoundsResult(dict(sorted(eps_of.items(), key=lambda item: item[1])), setting)


def plan(
    *,
    n: int | None = None,
    k: int | None = None,
    eps0: float | None = None,
    eps: float | None = None,
    delta: float | Decimal | None = None,
    mechanisms: Iterable[str] = PLANNED,
    **participation: Any,
) -> PlanResult:
    """Find the one of n, k, eps0, eps and delta that is missing, and predict errors.

    Parameters
    ----------
    n, k, eps0, eps, delta
        Users, cells, local budget and guarantee of a collection by k-RR; exactly one is left out.
    mechanisms
        Names of the mechanisms whose errors are predicted at the same privacy.
    **participation
        Other fields of the `Setting`: rounds, sampling_rate, colluding, response_rate.

    Returns
    -------
    The smallest n, k, eps or delta, or the largest eps0, that is certified; and the errors of the
    unbiased estimates of a uniform histogram.

    Raises
    ------
    InputError
        If not exactly one value is missing, one is out of range, or no value meets the target.

    Examples
    --------
    >>> plan(k=408, eps0=4, eps=0.05, delta=1e-8, mechanisms=["krr"]).setting.n
    9...
    """
    from shuffledp.accounting.planner import Plan, complete
    from shuffledp.mechanisms.target_calibration import calibrated, local_parameters, predicted

    chosen = _mechanisms(mechanisms)
    target = None if delta is None else log_of(delta)
    if unknown := set(participation) - {"rounds", "sampling_rate", "colluding", "response_rate"}:
        raise InputError(
            "beside n, k, eps0, eps, delta and mechanisms a plan has rounds, sampling_rate, "
            f"colluding and response_rate, got {', '.join(sorted(unknown))}"
        )
    found = complete(Plan(n, k, eps0, eps, target, participation))
    setting = found.setting()
    assert found.eps is not None
    assert found.log_delta is not None
    shares = np.full(setting.k, 1.0 / setting.k)
    # Over several rounds the privacy that sampling adds is not counted.
    calibrated_for = setting if setting.rounds == 1 else replace(setting, sampling_rate=1.0)
    errors = dict[str, PredictedError | None]()
    for each in chosen:
        try:
            parameters = (
                calibrated(each, found.eps, found.log_delta, calibrated_for)
                if each.entry.matched
                else local_parameters(each, setting.eps0)
            )
        except InputError:  # the mechanism cannot keep it: a Gaussian is never (eps, 0)-DP
            errors[each.name] = None
            continue
        # A curator, who is calibrated to the budget, counts everybody in every round.
        part = setting.response_rate if each.entry.matched else setting.part
        variance, distance = predicted(each, shares, setting.n, parameters, part)
        errors[each.name] = PredictedError(setting.n * float(np.sqrt(variance.max())), distance)
    return PlanResult(setting, found.eps, found.log_delta, delta, errors)


class _TimeIsUpError(BaseException):
    """The limit has passed. Not an `Exception`, so that no handler for those swallows it."""


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise `_TimeIsUpError` in the block once it has run for this long.

    There is no limit in other threads and where there are no timers (Windows): only the main thread
    of a Unix process can be interrupted. Results that the block has cached are complete, because
    `functools.cache` stores nothing for a call that raises.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "setitimer"
    ):
        yield
        return

    def stop(*_: object) -> None:
        raise _TimeIsUpError

    previous = signal.signal(signal.SIGALRM, stop)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
    finally:
        signal.signal(signal.SIGALRM, previous)


def compare(
    eps: float,
    delta: float | Decimal,
    setting: Setting,
    *,
    mechanisms: Iterable[str] | None = None,
    shares: ArrayLike | None = None,
    hidden_slot: bool = False,
    slots: int | None = None,
    share: float | None = None,
    max_seconds: float = 30.0,
) -> ComparisonResult:
    """Calibrate mechanisms to the same certified privacy and predict their errors.

    Parameters
    ----------
    eps
        Central budget of all rounds together, positive.
    delta
        In ``(0, 1]``; a `decimal.Decimal` below the smallest float.
    setting
        The collection without eps0 or mechanism: users, cells, rounds, colluding, response rate.
    mechanisms
        Names of mechanisms; by default all.
    shares
        Shares of the users in each cell, shape ``(k,)``; by default all alike.
    hidden_slot
        Whether local randomisers are also bounded by the hidden slot (docs/hidden-slot.md).
    slots, share
        Messages in an envelope of signed dummies, and the share of the users that they need.
    max_seconds
        Wall-clock limit for each mechanism, in the main thread.

    Returns
    -------
    Parameters, views and errors of each mechanism, or the reason why there are none.

    Raises
    ------
    InputError
        If an argument is out of range.

    Examples
    --------
    >>> found = compare(1, 1e-6, Setting(10_000, 16), mechanisms=["gaussian", "krr"])
    >>> for each in found.mechanisms:
    ...     print(each.name, round(each.calibration.cell_sd, 1))
    gaussian 6.0
    krr 8.8
    """
    parts = list(
        compare_one_by_one(
            eps, delta, setting, mechanisms, shares,
            hidden_slot=hidden_slot, slots=slots, share=share, max_seconds=max_seconds,
        )
    )  # fmt: skip
    return replace(parts[0], mechanisms=tuple(each for part in parts for each in part.mechanisms))


def compare_one_by_one(
    eps: float,
    delta: float | Decimal,
    setting: Setting,
    mechanisms: Iterable[str] | None = None,
    shares: ArrayLike | None = None,
    *,
    histogram: str | None = None,
    max_seconds: float = 30.0,
    **options: Any,
) -> Iterator[ComparisonResult]:
    """Yield the results of `compare` for one mechanism after the other, as they are computed.

    Parameters
    ----------
    eps, delta, setting, mechanisms, shares, max_seconds
        As for `compare`.
    histogram
        Name of the histogram with these shares.
    **options
        hidden_slot, slots and share, as for `compare`.
    """
    from tqdm import tqdm

    from shuffledp.mechanisms.registry import MECHANISMS, with_options
    from shuffledp.mechanisms.target_calibration import calibrate_to_target

    chosen = _mechanisms(MECHANISMS if mechanisms is None else mechanisms)
    _check_setting(setting, "rounds", "colluding", "response_rate")
    target = log_of(delta)
    eps = scalar("eps", eps)
    if not 0.0 < eps < np.inf:
        raise InputError(f"eps must be positive and finite, got eps={eps}")
    if not 0.0 < scalar("max_seconds", max_seconds) <= MAX_TIME_LIMIT_SECONDS:
        raise InputError(
            f"the time limit must be above 0 and at most {MAX_TIME_LIMIT_SECONDS:,.0f} "
            f"seconds, got {max_seconds:g}"
        )
    held = _checked_shares(shares, setting.k)
    question = ComparisonResult(
        eps=eps,
        delta=delta,
        setting=setting,
        histogram=histogram or ("uniform" if shares is None else "given"),
        hidden_slot=bool(options.get("hidden_slot")),
        mechanisms=(),
    )
    bar = tqdm(chosen, leave=False, disable=None)
    for each in bar:
        bar.set_description(each.name)
        found = reason = None
        try:
            with _time_limit(max_seconds):
                found = calibrate_to_target(
                    with_options(each, **options), eps, target, setting, held
                )
        except InputError as error:
            reason = str(error)
        except _TimeIsUpError:
            reason = f"not computed within {max_seconds:g} s, the limit for each mechanism"
        bar.clear()  # the result may be printed to the same terminal
        yield replace(question, mechanisms=(ComparedMechanism(each.name, found, reason),))


def _checked_shares(shares: ArrayLike | None, k: int) -> Floats:
    if shares is None:
        return np.full(k, 1.0 / k)
    checked = floats("shares", shares)
    if checked.shape != (k,) or not (checked >= 0.0).all() or abs(checked.sum() - 1.0) > 1e-9:
        raise InputError(
            f"shares must be {k} numbers >= 0 that sum to 1, got shape {checked.shape} and sum "
            f"{checked.sum():g}"
        )
    return checked


def rdp(order: ArrayLike, setting: Setting, *, bound: str = "renyi") -> RenyiResult:
    """Bound the Renyi DP of a collection over all its rounds, for any number of cells.

    Parameters
    ----------
    order
        Orders above 1, up to 1e6, any shape; ``renyi`` takes whole ones.
    setting
        The collection: users, eps0 and rounds only.
    bound
        ``renyi``, ``renyi-simple``, or ``renyi-special-pair``, which is no guarantee.

    Raises
    ------
    InputError
        If an order is out of range, or the bound is not converted from Renyi DP.

    References
    ----------
    Girgis, Data, Diggavi, Suresh and Kairouz 2021, On the Renyi differential privacy of the
    shuffle model, CCS.

    Examples
    --------
    >>> float(rdp(8, Setting(100_000, 408, eps0=1)).rdp)
    0.000...
    """
    _check_setting(setting, "eps0", "rounds")
    found = get_bound(bound).rdp(floats("order", order), setting)
    return RenyiResult(order, plain(found), setting, bound)


def fdp(alpha: ArrayLike, setting: Setting, *, bound: str = CERTIFIED) -> TradeoffResult:
    """Bound the trade-off function of a collection: the errors of a test for one user's report.

    Parameters
    ----------
    alpha
        Type I errors of the test in ``[0, 1]``, any shape.
    setting, bound
        As for `log_delta`; the bound must be a guarantee.

    Returns
    -------
    The smallest possible type II errors, shaped like ``alpha``, as implied by the bound on delta at
    66 values of eps together (f-DP, `shuffledp.accounting.rounds.tradeoff`).

    Raises
    ------
    InputError
        If an alpha is out of range, or the bound does not apply there.

    References
    ----------
    Dong, Roth and Su 2022, Gaussian differential privacy, Journal of the Royal Statistical Society
    B 84.

    Examples
    --------
    >>> fdp(0.05, Setting(n=100_000, k=408, eps0=4.0)).type_2_error
    0.948838...
    """
    from shuffledp.accounting.rounds.tradeoff import tradeoff

    _check_setting(setting)
    errors = floats("alpha", alpha)
    curve = accountant.curve(setting, bound)
    try:
        upper = replace(require_upper(curve), lower=None)
    except InputError:
        raise InputError(f"{bound} is no guarantee: it bounds no test's error") from None
    # A test gains nothing of interest where delta is below this.
    top = upper.epsilon(log_of(SMALLEST_TRADEOFF_DELTA)).promised
    eps = np.append(np.linspace(0.0, top, TRADEOFF_POINTS), setting.budget)
    found = plain(tradeoff(errors, eps, upper.log_delta(eps).promised))
    return TradeoffResult(alpha, found, setting, bound)


def _neighbours(
    records: int, pairs: ArrayLike | None, places: ArrayLike | None, distance: float | None
) -> tuple[Integers | None, str]:
    """Return the pairs of records that are neighbours, None for all, and a description."""
    from shuffledp.mechanisms.matrix import pairs_within

    if pairs is not None and places is not None:
        raise InputError("give one of pairs and places")
    if (places is None) != (distance is None):
        raise InputError(
            "places need a distance" if distance is None else "a distance needs places"
        )
    if pairs is None and places is None:
        return None, NEIGHBOURS
    if pairs is not None:
        found, words = np.asarray(pairs), "of its pairs"
    else:
        assert distance is not None
        if not 0.0 <= scalar("distance", distance) < np.inf:
            raise InputError(f"the distance must be finite and at least 0 km (got {distance:g})")
        where = floats("places", places)
        if where.shape != (records, 2):
            raise InputError(f"there are {len(where)} places for {records} records")
        found, words = pairs_within(where, distance), f"at most {distance:g} km away"
        if not found.size:
            raise InputError(f"no two records are {words}: nothing would be promised")
    count = len(np.unique(np.sort(found, axis=1), axis=0)) if found.ndim == 2 else 0
    return found, f"replacement by a record {words} ({count} pairs), the same n"


def matrix(
    rows: ArrayLike,
    n: int,
    *,
    eps: ArrayLike | None = None,
    delta: ArrayLike | Decimal | Sequence[Decimal] | None = None,
    pairs: ArrayLike | None = None,
    places: ArrayLike | None = None,
    distance: float | None = None,
    hidden_slot: bool = False,
    **participation: Any,
) -> MatrixResult:
    """Enclose delta or eps for users who report by a randomiser that is given as a matrix.

    Parameters
    ----------
    rows
        Probability of each report (column) for each record (row).
    n
        Number of users.
    eps, delta
        Central budgets, or deltas in ``(0, 1]``: exactly one of the two.
    pairs
        Pairs of records that are neighbours, shape ``(pairs, 2)``; by default all are.
    places, distance
        Instead of pairs: latitude and longitude of each record, and the distance in km up to which
        two records are neighbours.
    hidden_slot
        Whether the upper end is also bounded by the hidden slot (docs/hidden-slot.md).
    **participation
        Other fields of the `Setting`: rounds, colluding, response_rate.

    Raises
    ------
    InputError
        If an argument is out of range, or not exactly one of eps and delta is given.

    Examples
    --------
    >>> matrix([[0.7, 0.3], [0.3, 0.7]], 1000, delta=1e-6).ends.upper
    0.1...
    """
    from shuffledp.accounting.composition import compose
    from shuffledp.accounting.participation import with_participation
    from shuffledp.mechanisms.matrix import MatrixRandomiser
    from shuffledp.mechanisms.protocol import expected_distance, participation_variance

    if (eps is None) == (delta is None):
        raise InputError("give one of eps and delta")
    chances = floats("rows", rows)
    near, neighbours = _neighbours(len(chances) if chances.ndim else 0, pairs, places, distance)
    randomiser = MatrixRandomiser(chances, near)
    setting = Setting(n, randomiser.k, mechanism=randomiser, **participation)
    once = with_participation(
        partial(randomiser.curve, hidden_slot=hidden_slot), replace(setting, rounds=1)
    )
    curve = compose(once, setting.rounds)
    error = None
    try:
        shares = np.full(setting.k, 1.0 / setting.k)
        variance = randomiser.variance(shares, n * setting.part)
        variance = variance + participation_variance(shares, n, setting.part)
        error = PredictedError(
            n * float(np.sqrt(variance.max())), float(expected_distance(variance))
        )
    except InputError:  # no estimate tells the records apart
        pass
    if eps is not None:
        found: Interval[Any] = curve.log_delta(eps)
        ends: Any = LogDeltaResult(found.lower, found.upper, eps, setting, CERTIFIED, curve)
    else:
        assert delta is not None
        found = curve.epsilon(log_of(delta))
        ends = EpsilonResult(found.lower, found.upper, delta, setting, CERTIFIED, curve)
    reports = chances.shape[1]
    return MatrixResult(ends, reports, randomiser.eps0, error, neighbours, hidden_slot)


def _noise_groups(given: Budgets) -> tuple[BudgetGroups, dict[float, float]]:
    """Group users by the mu of their Gaussian noise, and return the eps of each mu.

    A report alone is just (eps, delta)-LDP. A user with eps = 0 reports nothing, and has mu = 0.
    """
    from shuffledp.mechanisms.gaussian import gaussian_sigma
    from shuffledp.personalised.groups import BudgetGroups

    wrong = np.flatnonzero((given.eps > 0.0) & (given.delta == 0.0))
    if wrong.size:
        raise InputError(
            "Gaussian reports need a column delta that is above 0 wherever eps is: none of them is "
            f"(eps, 0)-LDP (a user has eps {given.eps[wrong[0]]:g} and delta 0)"
        )
    pairs = np.stack([given.eps, np.where(given.eps > 0.0, given.delta, 0.0)], axis=1)
    distinct, place = np.unique(pairs, axis=0, return_inverse=True)
    mus = [1.0 / gaussian_sigma(e, float(np.log(d)), 1.0) if e > 0.0 else 0.0 for e, d in distinct]
    groups = BudgetGroups.of_counts(np.array(mus)[place.ravel()], given.counts)
    return groups, dict(zip(mus, distinct[:, 0].tolist(), strict=True))


def personal_budgets(
    delta: float | Decimal,
    budgets: Budgets | ArrayLike,
    *,
    mechanism: str = "krr",
    k: int | None = None,
    rounds: int = 1,
) -> PersonalBudgetsResult:
    """Compute the eps of users who choose their own budgets and are shuffled together.

    Parameters
    ----------
    delta
        In ``(0, 1]``; a `decimal.Decimal` below the smallest float.
    budgets
        The local budget of each user, or the `Budgets` that `read_budgets` returns.
    mechanism
        How users report: ``krr``, ``binary``, ``laplace`` or ``gaussian``.
    k
        Number of cells, for ``krr``.
    rounds
        Number of rounds in which the same users report.

    Returns
    -------
    The certified eps of each group of users and of everybody; beside it what one budget for all
    would give, and numbers of the literature (docs/personalised.md).

    Raises
    ------
    InputError
        If an argument is out of range, or Gaussian budgets have no delta.

    Examples
    --------
    >>> found = personal_budgets(1e-6, [0.5] * 900 + [1.0] * 100, k=4)
    >>> {entry.about: round(entry.eps, 2) for entry in found.entries if entry.guarantee}
    {'own eps': 0.1..., 'everybody': 0.1...}
    """
    from shuffledp.input_files import Budgets
    from shuffledp.personalised.groups import BudgetGroups

    if isinstance(budgets, Budgets):
        given = budgets
    else:
        eps = floats("budgets", budgets).ravel()
        given = Budgets(eps, np.zeros(eps.size), np.ones(eps.size, np.int64))
    groups = BudgetGroups.of_counts(given.eps, given.counts)
    entries = list[PersonalEpsilon]()
    if given.delta.any() and mechanism != "gaussian":
        if rounds > 1:
            raise InputError(
                f"over several rounds a column delta is for mechanism gaussian only, got {rounds=}"
            )
        mechanism = "any randomisers"
    else:
        entries += _own_entries(log_of(delta), given, groups, mechanism, k, rounds)
    if rounds == 1:
        entries += _published_entries(log_of(delta), given, groups, mechanism)
    return PersonalBudgetsResult(mechanism, delta, rounds, tuple(entries))


def _own_entries(
    log_delta: float,
    given: Budgets,
    groups: BudgetGroups,
    mechanism: str,
    k: int | None,
    rounds: int,
) -> Iterator[PersonalEpsilon]:
    """Yield the certified eps of each group and of all users, and what one budget would give."""
    from tqdm import tqdm

    from shuffledp.accounting.rounds.tradeoff import gdp_epsilon
    from shuffledp.personalised import budgets as personal
    from shuffledp.personalised.groups import BudgetGroups

    n, normal = int(groups.counts.sum()), mechanism == "gaussian"
    least, most = float(groups.values[0]), float(groups.values[-1])
    how = personal.reports(mechanism, k)
    reporting, eps_of = _noise_groups(given) if normal else (groups, dict[float, float]())

    def sigma(mu: float) -> float | None:
        return 1.0 / mu if normal and mu else None

    own = personal.own_epsilons(log_delta, reporting, how, rounds)
    size, worst = personal.number_of_parts(reporting, how), 0.0
    for each in tqdm(own, total=size, desc="budgets", leave=False, disable=None):
        worst = max(worst, each.eps)
        low, high = (eps_of.get(used, used) for used in (each.low, each.high))
        yield PersonalEpsilon("own eps", each.users, low, high, each.eps, True, sigma(each.high))
    yield PersonalEpsilon("everybody", n, least, most, worst, True)
    smallest, largest = float(reporting.values[0]), float(reporting.values[-1])
    # These are about other collections than the given one: no promise to its users.
    for about, used in (("if all had the largest", largest), ("if all had the smallest", smallest)):
        alike, budget = BudgetGroups.of_counts([used], [n]), eps_of.get(used, used)
        (only,) = personal.own_epsilons(log_delta, alike, how, rounds)
        yield PersonalEpsilon(about, n, budget, budget, only.eps, False, sigma(used))
    if normal:
        alone = gdp_epsilon(largest * rounds**0.5, log_delta)
        yield PersonalEpsilon("not shuffled", n, least, most, alone, True)


def _published_entries(
    log_delta: float, given: Budgets, groups: BudgetGroups, mechanism: str
) -> Iterator[PersonalEpsilon]:
    """Yield the numbers of the literature about one round of all users."""
    from shuffledp.papers.paper_d import published

    deltas = given.deltas_of(groups.values)
    users = (int(groups.counts.sum()), float(groups.values[0]), float(groups.values[-1]))
    # A certificate for pure reports does not hold for reports of approximate LDP.
    if mechanism in ("any randomisers", "gaussian"):
        about = "everybody" if mechanism == "any randomisers" else "any randomisers"
        clones = published.approximate_epsilon(log_delta, groups, float(deltas @ groups.counts))
        yield PersonalEpsilon(about, *users, clones, clones is not None)
    if mechanism == "laplace":
        echoes = published.echoes_epsilon(log_delta, groups)
        yield PersonalEpsilon("echoes (Liu et al.)", *users, echoes, False)
    chen = published.mu_gdp_epsilon(log_delta, groups, deltas, float(given.delta.max()))
    yield PersonalEpsilon("mu-GDP (Chen et al.)", *users, chen, False)


def certify(eps: float, setting: Setting, *, view: str = "analyst") -> Certificate:
    """Return a certificate of a collection at eps, which `verify` checks.

    Parameters
    ----------
    eps
        Central budget, at least 0.
    setting
        A collection by k-RR, by true reports among users' dummies, or by ``shuffler-dummies``,
        ``two-servers`` or ``signed-dummies``. Only k-RR may have several rounds.
    view
        Who sees what of a mechanism: ``analyst``, ``mixer``, ``public`` or ``both``.

    Raises
    ------
    InputError
        If an argument is out of range, or the collection cannot be certified.

    Examples
    --------
    >>> certify(0.3, Setting(20, 3, eps0=1.0))["upper"]["argument"]
    'hidden'
    """
    from shuffledp.accounting.certificate import (
        certificate,
        dummies_certificate,
        view_certificate,
    )
    from shuffledp.mechanisms.catalogue import VIEWS
    from shuffledp.mechanisms.target_calibration import Released

    _check_setting(setting)
    scalar("eps", eps)
    if view not in VIEWS:
        raise InputError(f"view must be one of {', '.join(VIEWS)}, got {shortened(repr(view))}")
    if setting.mechanism is None:
        return Certificate(certificate(eps, setting))
    released = setting.mechanism
    if not isinstance(released, Released):
        raise InputError(f"certificates are for named mechanisms, got {shortened(repr(released))}")
    if setting.rounds > 1 or setting.part < 1.0 or setting.colluding:
        raise InputError(
            "mechanisms other than krr are certified for one round of honest users who all report, "
            f"got rounds={setting.rounds}{setting.participation_text}"
        )
    chosen, parameters = released.mechanism, released.parameters
    n, k = setting.n, setting.k
    if chosen.name == "user-dummies":
        return Certificate(dummies_certificate(eps, n, k, parameters.dummies, parameters.chances))
    plain_setting = Setting(n, k)
    # A certificate is about what is promised, not about more users who took part.
    curve = chosen.curve(parameters, plain_setting)
    seen = chosen.views(parameters, plain_setting)
    high = seen.get(view, curve).log_delta(eps).promised
    if high >= 0.0:
        raise InputError(f"to {view} nothing is promised at eps={eps:g}")
    made = view_certificate(eps, (n, k), chosen.name, asdict(parameters), (view, high))
    return Certificate(made)


def verify(files: str | Path | Iterable[str | Path]) -> VerificationResult:
    """Check certificates in files by ball arithmetic, with code independent of the accountant.

    Parameters
    ----------
    files
        A file, or several.

    Raises
    ------
    InputError
        If a file cannot be read, before any is checked; or if python-flint is not installed.
    """
    try:
        from shuffledp.verification.certificate import verify as check
        from shuffledp.verification.deltas import RefusedError, TooLongError
        from shuffledp.verification.reading import read
    except ModuleNotFoundError as missing:
        raise InputError(
            "certificates are checked with python-flint: pip install 'shuffledp[verify]'"
        ) from missing
    sources = [Path(name) for name in ([files] if isinstance(files, str | Path) else files)]
    for source in sources:
        try:
            source.stat()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", error)
            raise InputError(f"{source} cannot be read: {reason}") from None
    verdicts = []
    for source in sources:
        try:
            verdict = Verdict(str(source), PROVEN, check(read(source)), None)
        except OSError as error:
            reason = f"it cannot be read: {error.strerror}"
            verdict = Verdict(str(source), "not checked", None, reason)
        except RefusedError as refused:
            verdict = Verdict(str(source), "refused", None, str(refused))
        except TooLongError as too_long:
            verdict = Verdict(str(source), "not checked", None, str(too_long))
        verdicts.append(verdict)
    return VerificationResult(verdicts)
