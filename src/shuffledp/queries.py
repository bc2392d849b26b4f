"""Public functions: the privacy of a collection, its calibration, and its predicted errors.

A collection is described by a `Setting`: each of n users holds one of k cells and reports it by
k-randomised response (k-RR) with local budget eps0, or by another mechanism. All guarantees are
(eps, delta)-DP for the replacement of one user's record, against an adversary who sees the
histogram of all reports (docs/accounting.md). A value is enclosed between a certified lower and
upper end, and only the upper end may be promised to users. Results are those of
`shuffledp.results`, or numbers.
"""

from __future__ import annotations  # so that help() shows ArrayLike, not its definition

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting import accountant
from shuffledp.accounting.accountant import CERTIFIED, SettingOrSchedule
from shuffledp.accounting.bound_registry import BOUNDS, get_bound
from shuffledp.accounting.conventions import log_of_delta, logs_of_deltas
from shuffledp.accounting.curve import NotApplicableError, largest_eps0, require_upper
from shuffledp.accounting.krr import upper_curve
from shuffledp.accounting.setting import LARGEST_EPS0, Setting
from shuffledp.errors import InputError, shortened
from shuffledp.numerics.arrays import floats, plain, scalar
from shuffledp.results import (
    PROVEN,
    CalibrationResult,
    Certificate,
    ComparedMechanism,
    ComparisonResult,
    DeltaResult,
    EpsilonResult,
    LogDeltaResult,
    MatrixResult,
    PersonalEpsilon,
    PlanResult,
    PredictedError,
    Verdict,
)

if TYPE_CHECKING:
    from shuffledp.input_files import Budgets
    from shuffledp.mechanisms.protocol import Mechanism
    from shuffledp.mechanisms.sparse import SparseWay
    from shuffledp.mechanisms.target_calibration import Released
    from shuffledp.personalised.groups import BudgetGroups

# Mechanisms whose errors `plan` predicts by default.
PLANNED: Final = ("gaussian", "krr")
# Fields of a `Setting` that `plan` accepts besides n, k and eps0.
PARTICIPATION: Final = ("rounds", "sampling_rate", "colluding", "response_rate")
# `fdp` uses TRADEOFF_POINTS points, from eps = 0 to where delta is SMALLEST_TRADEOFF_DELTA.
# Thirty times as many would lower a test's computed advantage over guessing by another 0.1 %.
TRADEOFF_POINTS, SMALLEST_TRADEOFF_DELTA = 65, 1e-12
# Largest eps, and largest number of cells, of `compare_sparse`.
MAX_SPARSE_EPS, MAX_SPARSE_CELLS = 20.0, 10**18


def _is_certified(setting: SettingOrSchedule) -> bool:
    rounds = [setting] if isinstance(setting, Setting) else setting
    return all(getattr(each.mechanism, "certified", True) for each in rounds)


def log_delta(
    eps: ArrayLike, setting: SettingOrSchedule, *, bound: str = CERTIFIED
) -> LogDeltaResult:
    """Enclose the natural log of the delta of a collection at eps.

    Unlike `delta` it never underflows: even deltas of 1e-10000 are distinguished. Raises
    `InputError` if a parameter is out of range, or the bound does not apply there.

    Parameters
    ----------
    eps
        At least 0, any shape.
    setting
        The collection, or a schedule: a sequence of settings of rounds that differ, in which the
        same users take part.
    bound
        ``"certified"``, or the name of a bound from the literature (``shuffledp list``), which
        gives one end only. With sampling, dropouts or `Setting.dummies`, and for some mechanisms,
        only the upper end is known.

    Returns
    -------
    Ends of ln(delta), at most 0 and -inf for a delta of 0, shaped like ``eps``.

    Examples
    --------
    >>> log_delta(0.5, Setting(n=100_000, k=408, eps0=4.0)).upper  # 1e-465
    -1071.47...
    """
    curve = accountant.curve(setting, bound)
    ends = curve.log_delta(eps)
    return LogDeltaResult(ends.lower, ends.upper, curve, _is_certified(setting))


def delta(eps: ArrayLike, setting: SettingOrSchedule, *, bound: str = CERTIFIED) -> DeltaResult:
    """Enclose the delta of a collection at eps.

    Raises `InputError` if a parameter is out of range, or the bound does not apply there.

    Parameters
    ----------
    eps, setting, bound
        See `log_delta`.

    Returns
    -------
    Ends in ``[0, 1]``, shaped like ``eps``. For a delta below the smallest positive float, the
    lower end is 0 and the upper end is that float.

    Examples
    --------
    >>> delta(0.03, Setting(n=100_000, k=408, eps0=4.0))
    DeltaResult(lower=1.2421621...e-05, upper=1.2421633...e-05)
    """
    curve = accountant.curve(setting, bound)
    ends = curve.delta(eps)
    return DeltaResult(ends.lower, ends.upper, curve, _is_certified(setting))


def epsilon(
    delta: ArrayLike | Decimal | Sequence[Decimal],
    setting: SettingOrSchedule,
    *,
    bound: str = CERTIFIED,
) -> EpsilonResult:
    """Enclose the smallest eps for which a collection is (eps, delta)-DP.

    Raises `InputError` if a parameter is out of range, or the bound does not apply there.

    Parameters
    ----------
    delta
        In ``(0, 1]``, any shape; `decimal.Decimal` below the smallest float.
    setting, bound
        See `log_delta`.

    Returns
    -------
    Ends in ``[0, rounds * eps0]``, shaped like ``delta``.

    Examples
    --------
    >>> epsilon(1e-6, Setting(n=100_000, k=408, eps0=4.0))
    EpsilonResult(lower=0.0378805104..., upper=0.0378805153...)
    >>> epsilon([1e-6, 1e-8], Setting(n=100_000, k=408, eps0=4.0)).upper.round(4)
    array([0.0379, 0.0497])
    """
    curve = accountant.curve(setting, bound)
    ends = curve.epsilon(logs_of_deltas(delta))
    return EpsilonResult(ends.lower, ends.upper, curve, _is_certified(setting))


def mechanism(name: str, parameters: str = "", **numbers: float) -> Released[Any]:
    """Return a mechanism with its parameters, for use in a `Setting`.

    Raises `InputError` if there is no such mechanism, or a parameter is missing, unknown or out of
    range.

    Parameters
    ----------
    name
        Name of a mechanism (``shuffledp list``).
    parameters
        Parameters in the notation that `compare` prints: ``"eps=1.0, nu=25"``.
    **numbers
        Parameters as keywords, instead of or in addition to ``parameters``.

    Examples
    --------
    >>> epsilon(1e-6, Setting(1000, 5, mechanism=mechanism("discrete-laplace", eps=0.5))).upper
    0.49999...
    """
    from shuffledp.mechanisms.target_calibration import Released, read_parameters

    (chosen,) = _mechanisms([name])
    assignments = [parameters] if parameters else []
    assignments += [f"{key}={scalar(key, value)!r}" for key, value in numbers.items()]
    return Released(chosen, read_parameters(chosen, ", ".join(assignments)))


def _mechanisms(names: Iterable[str]) -> list[Mechanism[Any]]:
    """Return the distinct mechanisms with these names, at least one."""
    from shuffledp.mechanisms.registry import get_mechanisms

    names = [names] if isinstance(names, str) else list(names)
    for name in names:
        if not isinstance(name, str):
            raise InputError(f"a mechanism must be given by its name, got {shortened(repr(name))}")
    if not names:
        raise InputError("at least one mechanism must be given, got none")
    return get_mechanisms(dict.fromkeys(names))


def _check_setting(setting: object, *supported: str) -> None:
    """Raise `InputError` unless `setting` is a `Setting` without fields that are not supported.

    n and k are always supported. Without further names, so is every other field.
    """
    if not isinstance(setting, Setting):
        raise InputError(f"setting must be a Setting, got {shortened(repr(setting))}")
    for field in fields(setting)[2:] if supported else ():
        value = getattr(setting, field.name)
        if field.name not in supported and value != field.default:
            raise InputError(
                f"{field.name} is not supported here, got {field.name}={shortened(repr(value))}: "
                "leave it out of the setting"
            )


def calibrate(
    eps: float, delta: float | Decimal, setting: Setting, mechanism: str = "krr"
) -> CalibrationResult:
    """Return parameters of a mechanism for which a collection is certified to be (eps, delta)-DP.

    Raises `InputError` if a parameter is out of range, or the mechanism cannot meet the target.

    Parameters
    ----------
    eps
        Target of all rounds together, at least 0 (above 0 for mechanisms other than k-RR).
    delta
        In ``(0, 1]``; a `decimal.Decimal` below the smallest float.
    setting
        The collection without eps0 and mechanism: users, cells, rounds and participation.
    mechanism
        Name of the mechanism (``shuffledp list``).

    Returns
    -------
    The setting with these parameters. For k-RR, eps0 is the largest certified one, rounded down; it
    is about ``eps / rounds`` or larger, because shuffling never costs privacy. For other
    mechanisms, the parameters nearly minimise the error, and amplification by sampling is not used.

    Examples
    --------
    >>> calibrate(0.5, 1e-8, Setting(n=100_000, k=408)).eps0
    6.648382...
    >>> calibrate(1, 1e-8, Setting(n=100_000, k=408), "two-servers").parameters
    ShufflerDummiesParameters(eps=1.0, nu=35)
    """
    from shuffledp.mechanisms.randomised_response import KRRParameters
    from shuffledp.mechanisms.target_calibration import Released, calibrated

    krr_fields = ("eps0", "dummies") if mechanism == "krr" else ()
    _check_setting(setting, "rounds", "sampling_rate", "colluding", "response_rate", *krr_fields)
    target = log_of_delta(delta)
    eps = scalar("eps", eps)
    if not 0.0 <= eps < np.inf:
        raise InputError(f"eps must be at least 0 and finite, got eps={eps}")
    (chosen,) = _mechanisms([mechanism])
    if chosen.name == "krr":
        eps0 = largest_eps0(
            eps, target, lambda eps0: upper_curve(replace(setting, eps0=eps0)), setting.rounds
        )
        parameters: Any = KRRParameters(eps0)
        calibrated_setting = replace(setting, eps0=eps0)
    else:
        parameters = calibrated(chosen, eps, target, replace(setting, sampling_rate=1.0))
        calibrated_setting = replace(setting, mechanism=Released(chosen, parameters))
    achieved = accountant.certified_curve(calibrated_setting).log_delta(eps).promised
    return CalibrationResult(calibrated_setting, parameters, achieved)


def bounds(delta: float | Decimal, setting: Setting) -> dict[str, float]:
    """Return the eps of every bound of the registry that applies to a collection.

    This takes a few seconds, and shows a progress bar on a terminal. Raises `InputError` if delta
    is out of range, or no bound applies.

    Parameters
    ----------
    delta
        See `epsilon`.
    setting
        The collection, as a single `Setting`.

    Returns
    -------
    The eps of each bound by its name, smallest first. ``upper`` and ``lower`` are the certified
    pair; ``shuffledp list`` shows which others are guarantees.

    Examples
    --------
    >>> found = bounds(1e-6, Setting(n=1000, k=5, eps0=1.0))
    >>> round(found["upper"], 3), round(found["clones"], 3)
    (0.108, 0.182)
    """
    from tqdm import tqdm

    _check_setting(setting)
    target, eps_of = log_of_delta(delta), dict[str, float]()
    for bound in tqdm(BOUNDS.values(), desc="bounds", leave=False, disable=None):
        try:
            eps_of[bound.name] = bound.curve(setting).epsilon(target).only
        except NotApplicableError:
            continue
    if not eps_of:
        raise InputError("no bound applies to these parameters")
    return dict(sorted(eps_of.items(), key=lambda item: item[1]))


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
    """Compute the one of n, k, eps0, eps and delta that is left out, and predict errors.

    Raises `InputError` if not exactly one value is left out, one is out of range, or no value meets
    the target.

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
    The smallest certified n, k, eps or delta, or the largest certified eps0; and the predicted
    errors of unbiased estimates of a uniform histogram.

    Examples
    --------
    >>> plan(k=408, eps0=4, eps=0.05, delta=1e-8, mechanisms=["krr"]).setting.n
    9...
    """
    from shuffledp.accounting.planner import Plan, complete
    from shuffledp.mechanisms.target_calibration import calibrated, local_parameters, predicted

    chosen = _mechanisms(mechanisms)
    target = None if delta is None else log_of_delta(delta)
    if unknown := set(participation).difference(PARTICIPATION):
        raise InputError(
            f"plan accepts n, k, eps0, eps, delta, mechanisms, {', '.join(PARTICIPATION)}, got "
            f"{', '.join(sorted(unknown))}"
        )
    completed = complete(Plan(n, k, eps0, eps, target, participation))
    setting = completed.setting()
    assert completed.eps is not None
    assert completed.log_delta is not None
    shares = np.full(setting.k, 1.0 / setting.k)
    # Over several rounds, amplification by sampling is not used.
    calibrated_for = setting if setting.rounds == 1 else replace(setting, sampling_rate=1.0)
    errors = dict[str, PredictedError | None]()
    for each in chosen:
        try:
            parameters = (
                calibrated(each, completed.eps, completed.log_delta, calibrated_for)
                if each.entry.matched
                else local_parameters(each, setting.eps0)
            )
        except InputError:  # it cannot meet the target: a Gaussian is never (eps, 0)-DP
            errors[each.name] = None
            continue
        # A mechanism that is calibrated to the budget counts, in every round, all who respond.
        part = setting.response_rate if each.entry.matched else setting.participation_rate
        variance, distance = predicted(each, shares, setting.n, parameters, part)
        errors[each.name] = PredictedError(
            setting.n * float(np.sqrt(variance.max())), distance, each.shapes.get(type(parameters))
        )
    return PlanResult(setting, completed.eps, completed.log_delta, errors)


def compare(
    eps: float,
    delta: float | Decimal,
    setting: Setting,
    *,
    mechanisms: Iterable[str] | None = None,
    shares: ArrayLike | None = None,
    hidden_slot: bool = False,
) -> ComparisonResult:
    """Calibrate mechanisms to the same certified privacy and predict their errors.

    A progress bar is shown on a terminal. Raises `InputError` if an argument is out of range.

    Parameters
    ----------
    eps
        Target of all rounds together, positive.
    delta
        In ``(0, 1]``; a `decimal.Decimal` below the smallest float.
    setting
        The collection without eps0 and mechanism: users, cells, rounds, colluding, response rate.
    mechanisms
        Names of mechanisms; by default all.
    shares
        Share of the users in each cell, shape ``(k,)``; uniform by default.
    hidden_slot
        Whether local randomisers also use the hidden-slot bound (docs/hidden-slot.md).

    Returns
    -------
    Parameters, views and errors of each mechanism, or the reason why there are none.

    Examples
    --------
    >>> comparison = compare(1, 1e-6, Setting(10_000, 16), mechanisms=["gaussian", "krr"])
    >>> for each in comparison.mechanisms:
    ...     print(each.name, round(each.calibration.cell_sd, 1))
    gaussian 6.0
    krr 8.8
    """
    from tqdm import tqdm

    from shuffledp.mechanisms.registry import MECHANISMS, with_options
    from shuffledp.mechanisms.target_calibration import calibrate_to_target

    chosen = _mechanisms(MECHANISMS if mechanisms is None else mechanisms)
    _check_setting(setting, "rounds", "colluding", "response_rate")
    target, eps, k = log_of_delta(delta), scalar("eps", eps), setting.k
    if not 0.0 < eps < np.inf:
        raise InputError(f"eps must be positive and finite, got eps={eps}")
    shares = np.full(k, 1.0 / k) if shares is None else floats("shares", shares)
    if shares.shape != (k,) or not (shares >= 0.0).all() or abs(shares.sum() - 1.0) > 1e-9:
        raise InputError(
            f"shares must be {k} numbers >= 0 that sum to 1, got shape {shares.shape} and sum "
            f"{shares.sum():g}"
        )
    compared = []
    for each in tqdm(chosen, desc="mechanisms", leave=False, disable=None):
        calibration = reason = None
        try:
            calibration = calibrate_to_target(
                with_options(each, hidden_slot=hidden_slot), eps, target, setting, shares
            )
        except InputError as error:
            reason = str(error)
        compared.append(ComparedMechanism(each.name, calibration, reason))
    return ComparisonResult(tuple(compared))


def compare_sparse(eps: float, delta: float | Decimal, n: int, k: int) -> list[SparseWay]:
    """Compare ways to count the records of cells of which nearly all are empty.

    Raises `InputError` if an argument is out of range, or if there are too few users to hide small
    counts.

    Parameters
    ----------
    eps, delta
        Target for the replacement of one record, in one round: eps positive, delta in ``(0, 1)``.
    n, k
        Number of users, one record each, and of cells that may have records.

    Returns
    -------
    The ways, each calibrated to the target, with what they hide, their errors and messages.

    Examples
    --------
    >>> for way in compare_sparse(1, 1e-8, 100_000, 10_000):
    ...     print(way.name, way.shown_from, round(way.error(1000), 1))
    two-servers 0 4.0
    shuffler-dummies 0 2.8
    hashed-dummies 28 5.6
    sample-threshold 108 48.3
    curator-threshold 42 2.8
    """
    from shuffledp.mechanisms.sparse import sparse_ways

    target, eps = log_of_delta(delta), scalar("eps", eps)
    Setting(n, 2)  # checks n
    if not 0.0 < eps <= MAX_SPARSE_EPS or target >= 0.0:
        raise InputError(
            f"eps must be positive and at most {MAX_SPARSE_EPS:g}, and delta below 1, got "
            f"eps={eps}, delta={delta}"
        )
    if isinstance(k, bool) or not isinstance(k, int) or not 2 <= k <= MAX_SPARSE_CELLS:
        raise InputError(f"k must be an integer from 2 to {MAX_SPARSE_CELLS:.0e}, got k={k}")
    return sparse_ways(eps, target, n, k)


def rdp(order: ArrayLike, setting: Setting, *, bound: str = "renyi") -> Any:
    """Bound the Renyi DP of all rounds of a collection together, for any number of cells.

    Raises `InputError` if an order is out of range, or the bound does not state Renyi DP.

    Parameters
    ----------
    order
        Orders above 1, up to 1e6, any shape; ``renyi`` accepts integers only.
    setting
        The collection: n, eps0 and rounds only; k is ignored.
    bound
        ``renyi``, ``renyi-simple``, or ``renyi-special-pair``, which is not a guarantee.

    Returns
    -------
    The Renyi DP, shaped like ``order``.

    References
    ----------
    Girgis, Data, Diggavi, Suresh and Kairouz 2021, On the Renyi differential privacy of the
    shuffle model, CCS.

    Examples
    --------
    >>> rdp(8, Setting(100_000, 408, eps0=1))
    0.000...
    """
    _check_setting(setting, "eps0", "rounds")
    return plain(get_bound(bound).rdp(floats("order", order), setting))


def fdp(alpha: ArrayLike, setting: Setting, *, bound: str = CERTIFIED) -> Any:
    """Bound the trade-off function (f-DP): the smallest type II error of tests for one record.

    Raises `InputError` if an alpha is out of range, or the bound does not apply there.

    Parameters
    ----------
    alpha
        Type I errors of the test in ``[0, 1]``, any shape.
    setting
        The collection, as a single `Setting`.
    bound
        See `log_delta`; the bound must be a guarantee.

    Returns
    -------
    Lower bounds on the type II error, shaped like ``alpha``, which upper bounds on delta at 66
    values of eps imply (`shuffledp.accounting.rounds.tradeoff`).

    References
    ----------
    Dong, Roth and Su 2022, Gaussian differential privacy, Journal of the Royal Statistical Society
    B 84.

    Examples
    --------
    >>> fdp(0.05, Setting(n=100_000, k=408, eps0=4.0))
    0.948838...
    """
    from shuffledp.accounting.rounds.tradeoff import tradeoff

    _check_setting(setting)
    type_1_errors = floats("alpha", alpha)
    curve = accountant.curve(setting, bound)
    try:
        upper = replace(require_upper(curve), lower=None)
    except InputError:
        raise InputError(f"{bound} is not a guarantee and bounds no test's error") from None
    # Smaller deltas would hardly change the trade-off function.
    largest_eps = upper.epsilon(log_of_delta(SMALLEST_TRADEOFF_DELTA)).promised
    largest_eps = min(largest_eps, upper.horizon, LARGEST_EPS0)
    eps = np.linspace(0.0, largest_eps, TRADEOFF_POINTS)
    if upper.budget < np.inf:
        eps = np.append(eps, upper.budget)
    return plain(tradeoff(type_1_errors, eps, upper.log_delta(eps).promised))


def matrix(
    rows: ArrayLike,
    n: int,
    *,
    eps: ArrayLike | None = None,
    delta: ArrayLike | Decimal | Sequence[Decimal] | None = None,
    hidden_slot: bool = False,
    **participation: Any,
) -> MatrixResult:
    """Enclose delta or eps of shuffled reports for a local randomiser given by its matrix.

    Raises `InputError` if an argument is out of range, or not exactly one of eps and delta is
    given.

    Parameters
    ----------
    rows
        Probability of each report (column) given each record (row).
    n
        Number of users.
    eps, delta
        The guarantee, any shape: exactly one of eps and deltas in ``(0, 1]``.
    hidden_slot
        Whether the upper end also uses the hidden-slot bound (docs/hidden-slot.md).
    **participation
        Other fields of the `Setting`: rounds, colluding, response_rate.

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
    randomiser = MatrixRandomiser(floats("rows", rows))
    setting = Setting(n, randomiser.k, mechanism=randomiser, **participation)
    once = with_participation(
        partial(randomiser.curve, hidden_slot=hidden_slot), replace(setting, rounds=1)
    )
    curve = compose(once, setting.rounds)
    error = None
    try:
        shares = np.full(setting.k, 1.0 / setting.k)
        variance = randomiser.variance(shares, n * setting.participation_rate)
        variance = variance + participation_variance(shares, n, setting.participation_rate)
        error = PredictedError(
            n * float(np.sqrt(variance.max())), float(expected_distance(variance))
        )
    except InputError:  # the rows are linearly dependent, so no unbiased estimate exists
        pass
    ends: EpsilonResult | LogDeltaResult
    if eps is not None:
        logs = curve.log_delta(eps)
        ends = LogDeltaResult(logs.lower, logs.upper, curve)
    else:
        assert delta is not None
        values = curve.epsilon(logs_of_deltas(delta))
        ends = EpsilonResult(values.lower, values.upper, curve)
    return MatrixResult(ends, randomiser.eps0, error)


def _noise_groups(budgets: Budgets) -> tuple[BudgetGroups, dict[float, float]]:
    """Group users by mu = 1 / sigma of their Gaussian noise, and return the eps of each mu.

    sigma is the smallest one for which a report alone is (eps, delta)-LDP. A user with eps = 0
    reports nothing, and has mu = 0.
    """
    from shuffledp.mechanisms.gaussian import gaussian_sigma
    from shuffledp.personalised.groups import BudgetGroups

    wrong = np.flatnonzero((budgets.eps > 0.0) & (budgets.delta == 0.0))
    if wrong.size:
        raise InputError(
            "Gaussian reports need delta > 0 for each user with eps > 0, because none is "
            f"(eps, 0)-LDP, got eps={budgets.eps[wrong[0]]:g} and delta=0"
        )
    pairs = np.stack([budgets.eps, np.where(budgets.eps > 0.0, budgets.delta, 0.0)], axis=1)
    distinct, place = np.unique(pairs, axis=0, return_inverse=True)
    mus = [1.0 / gaussian_sigma(e, float(np.log(d)), 1.0) if e > 0.0 else 0.0 for e, d in distinct]
    groups = BudgetGroups.of_counts(np.array(mus)[place.ravel()], budgets.counts)
    return groups, dict(zip(mus, distinct[:, 0].tolist(), strict=True))


def personal_budgets(
    delta: float | Decimal,
    budgets: Budgets | ArrayLike,
    *,
    mechanism: str = "krr",
    k: int | None = None,
    rounds: int = 1,
) -> list[PersonalEpsilon]:
    """Compute the eps of users who choose their own local budgets.

    Raises `InputError` if an argument is out of range, or Gaussian budgets have no delta.

    Parameters
    ----------
    delta
        In ``(0, 1]``; a `decimal.Decimal` below the smallest float.
    budgets
        The local budget of each user, or the `Budgets` that `read_budgets` returns.
    mechanism
        How users report: ``krr``, ``binary``, ``laplace`` or ``gaussian``. Except for
        ``gaussian``, budgets with a delta give published bounds for any randomisers.
    k
        Number of cells, for ``krr``.
    rounds
        Number of rounds in which the same users report.

    Returns
    -------
    The certified eps of each group of users and of all users; for comparison, the eps if all had
    the same budget, and published bounds (docs/personalised.md).

    Examples
    --------
    >>> entries = personal_budgets(1e-6, [0.5] * 900 + [1.0] * 100, k=4)
    >>> {entry.about: round(entry.eps, 2) for entry in entries if entry.guarantee}
    {'own eps': 0.1..., 'everybody': 0.1...}
    """
    from shuffledp.input_files import Budgets
    from shuffledp.personalised.groups import BudgetGroups

    if isinstance(budgets, Budgets):
        user_budgets = budgets
    else:
        eps = floats("budgets", budgets).ravel()
        user_budgets = Budgets(eps, np.zeros(eps.size), np.ones(eps.size, np.int64))
    groups = BudgetGroups.of_counts(user_budgets.eps, user_budgets.counts)
    rounds = Setting(1, 2, 1.0, rounds).rounds  # checks and converts it
    target, entries = log_of_delta(delta), list[PersonalEpsilon]()
    if user_budgets.delta.any() and mechanism != "gaussian":
        if rounds > 1:
            raise InputError(
                f"over several rounds only mechanism gaussian can have a delta, got {rounds=}"
            )
        mechanism = "any randomisers"
    else:
        entries += _certified_entries(target, user_budgets, groups, mechanism, k, rounds)
    if rounds == 1:
        entries += _published_entries(target, user_budgets, groups, mechanism)
    return entries


def _certified_entries(
    log_delta: float,
    budgets: Budgets,
    groups: BudgetGroups,
    mechanism: str,
    k: int | None,
    rounds: int,
) -> Iterator[PersonalEpsilon]:
    """Yield the certified eps of each group and of all users, and the eps of a common budget."""
    from tqdm import tqdm

    from shuffledp.accounting.rounds.tradeoff import gdp_epsilon
    from shuffledp.personalised import budgets as personal
    from shuffledp.personalised.groups import BudgetGroups

    n, gaussian = int(groups.counts.sum()), mechanism == "gaussian"
    smallest_budget, largest_budget = float(groups.values[0]), float(groups.values[-1])
    reports = personal.reports(mechanism, k)
    reporting, eps_of = _noise_groups(budgets) if gaussian else (groups, dict[float, float]())

    def sigma(mu: float) -> float | None:
        return 1.0 / mu if gaussian and mu else None

    own = personal.own_epsilons(log_delta, reporting, reports, rounds)
    size, worst = personal.number_of_ranges(reporting, reports), 0.0
    for each in tqdm(own, total=size, desc="budgets", leave=False, disable=None):
        worst = max(worst, each.eps)
        low, high = (eps_of.get(used, used) for used in (each.low, each.high))
        yield PersonalEpsilon("own eps", each.users, low, high, each.eps, True, sigma(each.high))
    yield PersonalEpsilon("everybody", n, smallest_budget, largest_budget, worst, True)
    low_used, high_used = float(reporting.values[0]), float(reporting.values[-1])
    # These describe hypothetical collections, so they promise nothing to the users of this one.
    common_budgets = ("if all had the largest", high_used), ("if all had the smallest", low_used)
    for about, used in common_budgets:
        one_group, budget = BudgetGroups.of_counts([used], [n]), eps_of.get(used, used)
        (only,) = personal.own_epsilons(log_delta, one_group, reports, rounds)
        yield PersonalEpsilon(about, n, budget, budget, only.eps, False, sigma(used))
    if gaussian:
        unshuffled = gdp_epsilon(high_used * rounds**0.5, log_delta)
        yield PersonalEpsilon("not shuffled", n, smallest_budget, largest_budget, unshuffled, True)


def _published_entries(
    log_delta: float, budgets: Budgets, groups: BudgetGroups, mechanism: str
) -> Iterator[PersonalEpsilon]:
    """Yield the published bounds on the eps of all users in one round."""
    from shuffledp.papers.paper_d import published

    deltas = budgets.deltas_of(groups.values)
    users = (int(groups.counts.sum()), float(groups.values[0]), float(groups.values[-1]))
    # A bound for eps-LDP reports does not hold for (eps, delta)-LDP reports.
    if mechanism in ("any randomisers", "gaussian"):
        about = "everybody" if mechanism == "any randomisers" else "any randomisers"
        clones = published.approximate_epsilon(log_delta, groups, float(deltas @ groups.counts))
        yield PersonalEpsilon(about, *users, clones, clones is not None)
    if mechanism == "laplace":
        echoes = published.echoes_epsilon(log_delta, groups)
        yield PersonalEpsilon("echoes (Liu et al.)", *users, echoes, False)
    chen = published.mu_gdp_epsilon(log_delta, groups, deltas, float(budgets.delta.max()))
    yield PersonalEpsilon("mu-GDP (Chen et al.)", *users, chen, False)


def certify(eps: float, setting: Setting, *, view: str = "analyst") -> Certificate:
    """Return a certificate of the ends of delta at eps, which `verify` checks.

    Raises `InputError` if an argument is out of range, or the collection cannot be certified.

    Parameters
    ----------
    eps
        At least 0.
    setting
        A collection by k-RR, by true reports among users' dummies, or by ``shuffler-dummies`` or
        ``two-servers``. Only k-RR may have several rounds.
    view
        Party against whom a mechanism is certified: ``analyst``, ``shuffler``, ``public`` or
        ``both``.

    Examples
    --------
    >>> certify(0.3, Setting(20, 3, eps0=1.0))["upper"]["argument"]
    'hidden'
    """
    from shuffledp.accounting.certificate import (
        MECHANISMS_WITH_VIEW_CERTIFICATES,
        certificate,
        dummies_certificate,
        view_certificate,
    )
    from shuffledp.mechanisms.catalogue import VIEWS
    from shuffledp.mechanisms.target_calibration import Released

    _check_setting(setting)
    eps = scalar("eps", eps)
    if view not in VIEWS:
        raise InputError(f"view must be one of {', '.join(VIEWS)}, got {shortened(repr(view))}")
    if setting.mechanism is None:
        return Certificate(certificate(eps, setting))
    released = setting.mechanism
    if not isinstance(released, Released):
        raise InputError(f"certificates are for named mechanisms, got {shortened(repr(released))}")
    if setting.rounds > 1 or setting.participation_rate < 1.0 or setting.colluding:
        raise InputError(
            "mechanisms other than krr are certified for one round of honest users who all report, "
            f"got rounds={setting.rounds}{setting.participation_text}"
        )
    chosen, parameters = released.mechanism, released.parameters
    n, k = setting.n, setting.k
    if chosen.name == "user-dummies":
        return Certificate(dummies_certificate(eps, n, k, parameters.dummies, parameters.chances))
    if chosen.name not in MECHANISMS_WITH_VIEW_CERTIFICATES:
        known = ", ".join(["user-dummies", *MECHANISMS_WITH_VIEW_CERTIFICATES])
        raise InputError(
            f"mechanism must be one of {known}, or give eps0 for k-RR, got {chosen.name}"
        )
    plain_setting = Setting(n, k)
    curve = chosen.curve(parameters, plain_setting)
    views = chosen.views(parameters, plain_setting)
    upper = views.get(view, curve).log_delta(eps).promised
    if upper >= 0.0:
        raise InputError(f"no delta below 1 is certified for the view {view} at eps={eps:g}")
    document = view_certificate(eps, (n, k), chosen.name, asdict(parameters), view, upper)
    return Certificate(document)


def verify(files: str | Path | Iterable[str | Path]) -> list[Verdict]:
    """Check certificates in files with ball arithmetic, by code independent of the accountant.

    Raises `InputError` if python-flint is missing.

    Parameters
    ----------
    files
        A file, or several.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "certificate.json"
    >>> certify(0.3, Setting(20, 3, eps0=1.0)).write(file)
    >>> [verdict.verdict for verdict in verify(file)]
    ['proven']
    """
    try:
        from shuffledp.verification.checker import read
        from shuffledp.verification.checker import verify as check
        from shuffledp.verification.deltas import RefusedError, TooLongError
    except ModuleNotFoundError as missing:
        raise InputError(
            "certificates are checked with python-flint: run pip install '.[verify]' in a clone "
            "of the repository"
        ) from missing
    verdicts = []
    for source in [files] if isinstance(files, str | Path) else files:
        claim = reason = None
        verdict = "not checked"
        try:
            claim, verdict = check(read(Path(source))), PROVEN
        except OSError as error:
            reason = f"it cannot be read: {error.strerror or error}"
        except RefusedError as refused:
            verdict, reason = "refused", str(refused)
        except TooLongError as too_long:
            reason = str(too_long)
        verdicts.append(Verdict(str(source), verdict, claim, reason))
    return verdicts
