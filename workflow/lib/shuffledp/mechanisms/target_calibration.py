"""What a mechanism gives when it calibrates itself to a target: (eps, delta) for n users."""

from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields, replace
from functools import partial
from typing import Any, Final, Generic

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting import accountant
from shuffledp.accounting.composition import compose_rounds
from shuffledp.accounting.curve import UpperCurve
from shuffledp.accounting.participation import with_participation
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.catalogue import VIEWS
from shuffledp.mechanisms.protocol import Mechanism, P, drawing_variance, expected_distance
from shuffledp.numerics.arrays import Floats
from shuffledp.numerics.number_parsing import number, whole

# How far below the target of the log of delta dropouts may leave it, nearly.
_WASTED: Final = 0.002


@dataclass(frozen=True)
class Released(Generic[P]):
    """A mechanism at some parameters, as a `Setting` takes it."""

    mechanism: Mechanism[P]
    parameters: P

    def curve(self, setting: Setting) -> UpperCurve:
        """Delta over eps of a setting whose users are honest and all take part."""
        return self.mechanism.achieved(self.parameters, replace(setting, mechanism=None))

    def views(self, setting: Setting, curve: UpperCurve) -> dict[str, UpperCurve]:
        """Delta over eps of each of `catalogue.VIEWS`; the given curve is of who has no other.

        That of servers counts on nobody's being drawn, or dropping out: they may know.
        """
        everybody = replace(setting.honest, mechanism=None, sampling_rate=1.0, response_rate=1.0)
        return dict.fromkeys(VIEWS, curve) | self.mechanism.views(self.parameters, everybody)


def views_of_rounds(
    rounds: Iterable[tuple[Released[Any], Setting, int]], curve: UpperCurve
) -> dict[str, UpperCurve]:
    """Delta over eps of each of `catalogue.VIEWS` after rounds that differ.

    Parameters
    ----------
    rounds
        How users report, the setting of a round, and how many there are of it.
    curve
        After all of them, of who has no other in any.
    """
    found: dict[str, list[tuple[UpperCurve, int]]] = {view: [] for view in VIEWS}
    told = set[str]()
    for how, once, count in rounds:
        own = accountant.certified_curve(once)
        for view, seen in how.views(once, own).items():
            found[view].append((replace(seen, lower=None), count))
            told |= {view} if seen is not own else set()
    whole = replace(curve, lower=None)
    return {view: compose_rounds(found[view]) if view in told else whole for view in VIEWS}


@dataclass(frozen=True)
class Offer(Generic[P]):
    """Parameters that keep a target, what they cost and the error of the unbiased estimate.

    Attributes
    ----------
    parameters
        Of the mechanism.
    local_eps0
        What a user's own messages reveal before they are mixed; inf: all.
    views
        Eps that each of `catalogue.VIEWS` has at the target's delta, rounded up; inf: it sees all.
    messages
        Mean number of messages per user who responds.
    moved_by_one
        Users of a cell by which one dishonest user moves its estimate, at most.
    cell_sd, largest_cell_sd
        Standard deviation of a cell's number of users: root mean square over the cells, and
        largest. With dropouts it is that about all users.
    tv_distance
        Expected total variation distance of the shares.
    """

    parameters: P
    local_eps0: float
    views: dict[str, float]
    messages: float
    moved_by_one: float
    cell_sd: float
    largest_cell_sd: float
    tv_distance: float


def calibrated(mechanism: Mechanism[P], eps: float, log_delta: float, setting: Setting) -> P:
    """Parameters with nearly the least error that keep a target where users collude or drop out.

    Parameters
    ----------
    mechanism
        Any of the registry.
    eps, log_delta
        The target: central budget, and natural log of delta, of all rounds.
    setting
        Users, of whom some may collude or drop out, cells and rounds.

    Raises
    ------
    InputError
        If the mechanism cannot meet the target.
    """
    honest = setting.honest
    if honest.rounds > 1:
        return mechanism.calibrate_rounds(eps, log_delta, honest)
    if honest.response_rate == 1.0:
        return mechanism.calibrate(eps, log_delta, honest)
    # The mean of delta over those who respond is a little above that of their mean number: the
    # mechanism is calibrated for this number, to a target that is lower by as much.
    mean = replace(honest.once, n=1 + round((honest.n - 1) * honest.response_rate))
    lower, step = 0.0, _WASTED
    while True:
        parameters = mechanism.calibrate(eps, log_delta - lower, mean)
        of = partial(mechanism.curve, parameters)
        # What hides a user who is alone hides one of many.
        if of(replace(mean, n=1)).log_delta(eps).promised <= log_delta:
            return parameters
        excess = with_participation(of, setting).log_delta(eps).promised - log_delta
        if excess <= 0.0:
            return parameters
        lower, step = lower + excess + step, 2.0 * step


def predicted(
    mechanism: Mechanism[P], shares: ArrayLike, n: int, parameters: P, part: float
) -> tuple[Floats, float]:
    """Variance of each share and expected total variation distance, about all n users.

    Parameters
    ----------
    mechanism, parameters
        What is released.
    shares
        Of all users in each cell, shape ``(k,)``.
    n
        Number of all users.
    part
        Probability in ``(0, 1]`` with which each is among those who report.
    """
    variance = mechanism.variance(shares, n * part, parameters)
    variance = variance + drawing_variance(shares, n, part)
    # The error of the draw is nearly normal; without it the mechanism knows its own law.
    distance = (
        mechanism.expected_distance(shares, n, parameters)
        if part == 1.0
        else expected_distance(variance)
    )
    return variance, float(distance)


def offer(
    mechanism: Mechanism[P],
    eps: float,
    log_delta: float,
    setting: Setting,
    shares: ArrayLike,
) -> Offer[P]:
    """Calibrate a mechanism to a target and predict its errors.

    Parameters
    ----------
    mechanism
        Any of the registry.
    eps, log_delta
        The target: central budget, and natural log of delta, of all rounds.
    setting
        Users, of whom some may collude or drop out, cells and rounds. Errors are those of one round
        and of colluders who report as they should.
    shares
        Of the users in each cell, shape ``(k,)``.

    Raises
    ------
    InputError
        If the mechanism cannot meet the target; the message says why.
    """
    shares = np.asarray(shares, np.float64)
    n, part = setting.n, setting.response_rate
    parameters = calibrated(mechanism, eps, log_delta, setting)
    variance, distance = predicted(mechanism, shares, n, parameters, part)
    known = mechanism.views(parameters, setting.honest)
    return Offer(
        parameters=parameters,
        local_eps0=mechanism.local_eps0(parameters),
        views={
            view: known[view].epsilon(log_delta).promised if view in known else eps
            for view in VIEWS
        },
        messages=mechanism.messages(round(part * n), shares.size, parameters),
        # With dropouts a respondent counts for more than one of all users.
        moved_by_one=mechanism.moved_by_one(shares.size, parameters) / part,
        cell_sd=n * float(np.sqrt(variance.mean())),
        largest_cell_sd=n * float(np.sqrt(variance.max())),
        tv_distance=distance,
    )


def read_parameters(mechanism: Mechanism[P], words: str) -> P:
    """Parameters of a mechanism as `parameter_words` writes them: ``eps=1.0, nu=25``.

    Raises
    ------
    InputError
        If one is missing, unknown, or out of range.
    """
    name_of, form = mechanism.name, mechanism.form
    numbers = [each for each in fields(form) if each.type in (int, float)]  # type: ignore[arg-type]
    known = {each.name: each.type for each in numbers}
    given = dict[str, float]()
    for part in words.split(","):
        name, _, text = (piece.strip() for piece in part.partition("="))
        if name not in known or name in given:
            raise InputError(
                f"parameters of {name_of} are {', '.join(known)}, each once, as in "
                f"{next(iter(known))}=1 (got {part.strip()})"
            )
        try:
            given[name] = number(text) if known[name] is float else whole(text)
        except ValueError:
            raise InputError(f"{name} of {name_of} is no such number (got {text})") from None
    needed = [each.name for each in numbers if each.default is MISSING]
    if missing := [name for name in needed if name not in given]:
        raise InputError(f"parameters of {name_of} lack {', '.join(missing)}")
    return form(**given)


def parameter_words(parameters: object) -> str:
    """Write the numbers among a mechanism's parameters: ``eps=1.0, nu=25``.

    All digits are kept: a rounded parameter might not keep the target.
    """
    values = {field.name: getattr(parameters, field.name) for field in fields(parameters)}  # type: ignore[arg-type]
    return ", ".join(
        f"{name}={value}" for name, value in values.items() if isinstance(value, int | float)
    )
