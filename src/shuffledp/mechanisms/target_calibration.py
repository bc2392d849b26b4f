"""Calibration of mechanisms to a target (eps, delta), and prediction of their errors."""

from collections.abc import Iterable, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import partial
from typing import Any, Final, Generic

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting import accountant
from shuffledp.accounting.composition import compose_rounds
from shuffledp.accounting.contributions import ONE_RECORD, Contributions
from shuffledp.accounting.curve import UpperCurve
from shuffledp.accounting.participation import with_participation
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.catalogue import VIEWS
from shuffledp.mechanisms.protocol import (
    Budget,
    Calibration,
    Mechanism,
    P,
    PerUser,
    expected_distance,
    participation_variance,
)
from shuffledp.numerics.arrays import Floats
from shuffledp.numerics.number_parsing import number, whole

# When a calibration with dropouts misses the target, its log delta is reduced by the excess and a
# margin. This is the first margin; each later one is twice as large.
DROPOUT_LOG_MARGIN: Final = 0.002


@dataclass(frozen=True)
class Released(Generic[P]):
    """A mechanism with fixed parameters, for use as `Setting.mechanism`."""

    mechanism: Mechanism[P]
    parameters: P

    def curve(self, setting: Setting) -> UpperCurve:
        """Return the certified curve of a setting in which all users are honest and take part."""
        return self.mechanism.curve(self.parameters, replace(setting, mechanism=None))

    def views(self, setting: Setting, curve: UpperCurve) -> dict[str, UpperCurve]:
        """Return the curve of each of `catalogue.VIEWS`, where ``curve`` is the analyst's.

        For views that know more than the analyst, sampling and dropouts do not improve the curve,
        because servers may know who took part.
        """
        everybody = replace(setting.honest, mechanism=None, sampling_rate=1.0, response_rate=1.0)
        return dict.fromkeys(VIEWS, curve) | self.mechanism.views(self.parameters, everybody)


def views_of_rounds(
    rounds: Iterable[tuple[Released[Any], Setting, int]], curve: UpperCurve
) -> dict[str, UpperCurve]:
    """Return the curve of each of `catalogue.VIEWS` after a sequence of different rounds.

    Each item of ``rounds`` has the mechanism and the setting of a round, and the number of such
    rounds. ``curve`` is the analyst's, and that of views that never know more than the analyst.
    """
    history: dict[str, list[tuple[UpperCurve, int]]] = {view: [] for view in VIEWS}
    with_more_knowledge = set[str]()
    for released, once, count in rounds:
        analyst_curve = accountant.certified_curve(once)
        for view, view_curve in released.views(once, analyst_curve).items():
            history[view].append((replace(view_curve, lower=None), count))
            with_more_knowledge |= {view} if view_curve is not analyst_curve else set()
    whole_curve = replace(curve, lower=None)
    return {
        view: compose_rounds(history[view]) if view in with_more_knowledge else whole_curve
        for view in VIEWS
    }


@dataclass(frozen=True)
class TargetCalibration(Generic[P]):
    """Parameters that meet a target, their costs, and the error of the unbiased estimate.

    Attributes
    ----------
    parameters, shape
        Parameters of the mechanism, and the shape of the noise, if calibration chose it.
    views
        Eps of each of `catalogue.VIEWS` at the target's delta, rounded up; inf for no guarantee.
    per_user
        Costs of a user who responds.
    cell_sd, largest_cell_sd
        Standard deviation of a cell's estimated count, in people: root mean square and maximum over
        the cells. With dropouts it refers to the counts of all users.
    tv_distance
        Expected total variation distance of the estimated shares.
    """

    parameters: P
    shape: str | None
    views: dict[str, float]
    per_user: PerUser
    cell_sd: float
    largest_cell_sd: float
    tv_distance: float


def calibrations(
    mechanism: Mechanism[P],
    setting: Setting,
    budgets: Sequence[Budget],
    contributions: Contributions = ONE_RECORD,
) -> list[Calibration[P]]:
    """Return the calibrations of a mechanism for a comparison with shuffled k-RR in a setting.

    There is one calibration for each budget, or a single one if the parameters follow from eps0.
    The mechanism's published calibrations come last. The setting has the local budget eps0 of k-RR.
    The budgets are points of its certified curve, and possibly others, with names of their own.
    They protect all records that ``contributions`` allows a user to have.
    """
    if mechanism.entry.matched:
        own = [
            Calibration(
                name=budget.calibration,
                eps=budget.eps,
                log_delta=budget.log_delta,
                label=budget.label,
                parameters=mechanism.calibrate(
                    budget.eps, budget.log_delta, setting, contributions
                ),
            )
            for budget in budgets
        ]
    else:
        own = [Calibration("none", np.nan, np.nan, "", local_parameters(mechanism, setting.eps0))]
    return [*own, *(published(setting) for published in mechanism.published)]


def local_parameters(mechanism: Mechanism[P], eps0: float) -> P:
    """Return the parameters of a mechanism whose only parameter is the local budget."""
    return mechanism.form(**{"eps0": eps0})


def calibrated(
    mechanism: Mechanism[P],
    eps: float,
    log_delta: float,
    setting: Setting,
    contributions: Contributions = ONE_RECORD,
) -> P:
    """Return parameters with nearly the least error that meet a target, with dropouts as well.

    The target is for all rounds together, and protects all records that ``contributions`` allows a
    user to have. Raises `InputError` if the mechanism cannot meet the target, or if users with
    several records collude or drop out.
    """
    honest = setting.honest
    if contributions.records_per_user > 1 and (setting.colluding or setting.response_rate < 1.0):
        raise InputError(
            "colluding users and dropouts need records_per_user=1, got "
            f"records_per_user={contributions.records_per_user}, colluding={setting.colluding}, "
            f"response_rate={setting.response_rate:g}"
        )
    if honest.rounds > 1 and not 0.0 < eps < np.inf:
        raise InputError(f"eps must be positive and finite, got eps={eps}")
    if honest.response_rate == 1.0:
        return mechanism.calibrate(eps, log_delta, honest, contributions)
    # With dropouts, delta is a mean over the number of respondents, slightly above delta at their
    # mean number. The mechanism is calibrated at the mean number to a slightly smaller delta.
    mean = replace(honest.single_round, n=1 + round((honest.n - 1) * honest.response_rate))
    reduction, step = 0.0, DROPOUT_LOG_MARGIN
    while True:
        parameters = mechanism.calibrate(eps, log_delta - reduction, mean)
        curve_of = partial(mechanism.curve, parameters)
        # Parameters that meet the target for a single user meet it for any number of users.
        if curve_of(replace(mean, n=1)).log_delta(eps).promised <= log_delta:
            return parameters
        excess = with_participation(curve_of, setting).log_delta(eps).promised - log_delta
        if excess <= 0.0:
            return parameters
        reduction, step = reduction + excess + step, 2.0 * step


def predicted(
    mechanism: Mechanism[P], shares: ArrayLike, n: int, parameters: P, response_rate: float
) -> tuple[Floats, float]:
    """Return the variance of each estimated share and the expected total variation distance.

    Both are errors of the unbiased estimate of the shares of all n users, of whom each reports with
    probability ``response_rate``.
    """
    variance = mechanism.variance(shares, n * response_rate, parameters)
    variance = variance + participation_variance(shares, n, response_rate)
    # With random participation, errors are nearly normal; otherwise their exact law may be known.
    distance = (
        mechanism.expected_distance(shares, n, parameters)
        if response_rate == 1.0
        else expected_distance(variance)
    )
    return variance, float(distance)


def calibrate_to_target(
    mechanism: Mechanism[P],
    eps: float,
    log_delta: float,
    setting: Setting,
    shares: ArrayLike,
) -> TargetCalibration[P]:
    """Calibrate a mechanism to a target for all rounds together, and predict its errors.

    Errors refer to one round with these shares of the users, shape ``(k,)``, and assume that
    colluding users follow the protocol. Raises `InputError` like `calibrated`.
    """
    shares = np.asarray(shares, np.float64)
    n, response_rate = setting.n, setting.response_rate
    parameters = calibrated(mechanism, eps, log_delta, setting)
    variance, distance = predicted(mechanism, shares, n, parameters, response_rate)
    view_curves = mechanism.views(parameters, setting.honest)
    respondent = mechanism.per_user(round(response_rate * n), shares.size, parameters)
    return TargetCalibration(
        parameters=parameters,
        shape=mechanism.shapes.get(type(parameters)),
        views={
            view: view_curves[view].epsilon(log_delta).promised if view in view_curves else eps
            for view in VIEWS
        },
        # Estimated counts of respondents are scaled up to all users.
        per_user=replace(respondent, moved_by_one=respondent.moved_by_one / response_rate),
        cell_sd=n * float(np.sqrt(variance.mean())),
        largest_cell_sd=n * float(np.sqrt(variance.max())),
        tv_distance=distance,
    )


def read_parameters(mechanism: Mechanism[P], text: str) -> P:
    """Parse parameters in the format of `format_parameters`, for example ``eps=1.0, nu=25``.

    If the mechanism has parameters of several classes, the names determine the class. Raises
    `InputError` if a parameter is missing, unknown, or out of range.
    """
    items = [[piece.strip() for piece in item.partition("=")[::2]] for item in text.split(",")]
    forms = [
        (form, {field.name: field for field in fields(form) if field.type in (int, float)})  # type: ignore[arg-type]
        for form in (mechanism.form, *mechanism.other_forms)
    ]
    # The class that has the most of these names; a parameter is missing if this class needs it.
    form, numbers = max(forms, key=lambda each: sum(name in each[1] for name, _ in items))
    values = dict[str, float]()
    for name, value in items:
        if name not in numbers or name in values:
            accepted = ", or ".join(", ".join(names) for _, names in forms)
            raise InputError(
                f"parameters of {mechanism.name} must be {accepted}, each once, as in "
                f"{next(iter(numbers))}=1, got {f'{name}={value}' if value else name}"
            )
        is_float = numbers[name].type is float
        try:
            values[name] = number(value) if is_float else whole(value)
        except ValueError:
            kind = "a number" if is_float else "an integer"
            raise InputError(f"{name} of {mechanism.name} must be {kind}, got {value}") from None
    required = [field.name for field in numbers.values() if field.default is MISSING]
    if missing := [name for name in required if name not in values]:
        raise InputError(f"parameters of {mechanism.name} lack {', '.join(missing)}")
    return form(**values)


def format_parameters(parameters: object) -> str:
    """Format the numbers among a mechanism's parameters, for example ``eps=1.0, nu=25``.

    All digits are kept, because rounded parameters might not meet the target.
    """
    values = {field.name: getattr(parameters, field.name) for field in fields(parameters)}  # type: ignore[arg-type]
    return ", ".join(
        f"{name}={value}" for name, value in values.items() if isinstance(value, int | float)
    )
