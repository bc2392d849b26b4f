"""The interface of a mechanism: its privacy, its calibration and the error of its estimate.

Figures, tables, planner and commands use this interface alone. Names, looks and trust of each
mechanism are in `shuffledp.mechanisms.catalogue`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting import calibrate
from shuffledp.accounting.curve import UpperCurve, no_guarantee
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.catalogue import CATALOGUE, Entry
from shuffledp.numerics.arrays import Floats, quotient_down, sum_up

P = TypeVar("P")  # a mechanism's parameters: a frozen dataclass
# Estimated shares from observations, both of shape (repetitions, k), n and the parameters. Each row
# of the result depends on the same row of the observations only.
Estimate = Callable[[Floats, int, P], Floats]


@dataclass(frozen=True)
class Budget:
    """A point (eps, delta) at which mechanisms are compared.

    Attributes
    ----------
    eps, log_delta
        Central budget and the natural logarithm of delta.
    asked
        The request, ``eps=0.5`` or ``delta=1e-06``. It names the random stream, since computed
        digits may differ between machines.
    calibration
        Name of the calibration to it: ``matched`` for a point of the certified curve, which means
        equal privacy.
    """

    eps: float
    log_delta: float
    asked: str
    calibration: str = "matched"


@dataclass(frozen=True)
class Calibration(Generic[P]):
    """Parameters to release with, and the privacy they were chosen for.

    Attributes
    ----------
    name
        ``none`` if the parameters follow from eps0, the name of a `Budget`, or one of the
        mechanism's own.
    eps, log_delta
        The budget; NaN where the parameters follow from eps0.
    asked
        As in `Budget`; empty for ``none``.
    parameters
        Of the mechanism.
    """

    name: str
    eps: float
    log_delta: float
    asked: str
    parameters: P


@dataclass(frozen=True)
class PerUser:
    """The local budget of one user, the messages sent, and the largest change by them.

    Attributes
    ----------
    local_eps0
        Local budget of the user's own messages, for whoever sees them before they are mixed; inf
        if they reveal everything.
    messages
        Mean number of messages per user that reach the shuffler or the curator.
    moved_by_one
        The largest change, in people, of a cell's estimate by one user's messages in a round,
        compared with messages that say nothing about the cell. The estimate is a sum over users, so
        m dishonest users change it by up to m times as much.
    """

    local_eps0: float = np.inf
    messages: float = 1.0
    moved_by_one: float = 1.0


class Mechanism(ABC, Generic[P]):
    """A randomised way from the records of n users to a histogram over k cells.

    Attributes
    ----------
    name
        Name in the catalogue.
    estimators
        Estimators by their names in the catalogue, in its order; the first is unbiased.
    form
        Class of the parameters, whose numbers are fields of type int or float.
    published
        Functions of a setting that return calibrations as papers print them. They are not at equal
        privacy, and the catalogue says what figures call them.
    """

    name: str
    form: type[P]
    estimators: Mapping[str, Estimate[P]]
    published: Sequence[Callable[[Setting], Calibration[P]]] = ()

    @property
    def entry(self) -> Entry:
        """The mechanism's row in the catalogue."""
        return CATALOGUE[self.name]

    @abstractmethod
    def curve(self, parameters: P, setting: Setting) -> UpperCurve:
        """Return the curve that holds for every data set, for the replacement of one record.

        Parameters
        ----------
        parameters
            Of the mechanism, the same in each round.
        setting
            All users are honest and take part in every round.
        """

    def achieved(self, parameters: P, setting: Setting) -> UpperCurve:
        """Return the curve for the users who took part rather than for the promised minimum.

        Parameters
        ----------
        parameters, setting
            As for `curve`.
        """
        return self.curve(parameters, setting)

    def views(self, parameters: P, setting: Setting) -> dict[str, UpperCurve]:
        """Return the curves of those `catalogue.VIEWS` for which `curve` does not hold.

        Parameters
        ----------
        parameters, setting
            As for `curve`.

        Returns
        -------
        By default, the curve of analyst and shuffler together, who see each user's own messages.
        """
        local_eps0 = self.per_user(setting.n, setting.k, parameters).local_eps0
        budget = sum_up([(setting.rounds, local_eps0)])
        if budget == np.inf:
            return {view: no_guarantee() for view in self.entry.seen}
        return {"both": no_guarantee(budget)}

    @abstractmethod
    def calibrate(self, eps: float, log_delta: float, setting: Setting) -> P:
        """Return the parameters with the least error that keep (eps, delta) of all rounds.

        They are the same in every round. A mechanism that can be calibrated to one round only
        returns `calibrate_rounds_by_search` for several.

        Parameters
        ----------
        eps, log_delta
            Central budget of all rounds together, and natural log of delta.
        setting
            n, k and the number of rounds. All users are honest and take part
            (`target_calibration.calibrated` covers others).

        Raises
        ------
        InputError
            If no parameters keep the target.
        """

    @abstractmethod
    def observe(
        self, counts: ArrayLike, parameters: P, rng: np.random.Generator, repetitions: int = 1
    ) -> Floats:
        """Draw what the analyst sees from its exact law, without a loop over users.

        Parameters
        ----------
        counts
            True histogram, shape ``(k,)``, integers >= 0.
        parameters
            Of the mechanism.
        rng
            Source of randomness.
        repetitions
            Number of independent releases. The first ones do not depend on this number.

        Returns
        -------
        Observations of shape ``(repetitions, k)``.
        """

    @abstractmethod
    def variance(self, shares: ArrayLike, n: float, parameters: P) -> Floats:
        """Return the variance of the unbiased estimate of each share.

        Parameters
        ----------
        shares
            True distribution over the cells, shape ``(..., k)``.
        n
            Number of users, positive.
        parameters
            Of the mechanism.

        Returns
        -------
        Variances in squared shares, shape ``(..., k)``.
        """

    def expected_distance(self, shares: ArrayLike, n: float, parameters: P) -> Floats:
        """Return the expected total variation distance of the unbiased estimate.

        This is half the sum of the shares' mean absolute errors; by default the errors are taken as
        normally distributed.

        Parameters
        ----------
        shares, n, parameters
            As for `variance`.

        Returns
        -------
        One number >= 0 for each histogram, shape ``(...)``.
        """
        return expected_distance(self.variance(shares, n, parameters))

    def per_user(self, n: int, k: int, parameters: P) -> PerUser:
        """Return what one user reveals, sends and can change.

        By default one message that reveals everything.

        Parameters
        ----------
        n, k
            Numbers of users and of cells.
        parameters
            Of the mechanism.
        """
        del n, k, parameters
        return PerUser()


def calibrate_rounds_by_search(
    mechanism: Mechanism[P], eps: float, log_delta: float, setting: Setting
) -> P:
    """Return parameters of one round whose composition keeps the target of all rounds.

    They are those of `Mechanism.calibrate` for one round, at a share of delta and nearly the
    largest eps with which the composed rounds keep the target.

    Parameters
    ----------
    mechanism
        It is calibrated to one round.
    eps, log_delta, setting
        As for `Mechanism.calibrate`.

    Raises
    ------
    InputError
        If eps is not positive and finite, or no parameters keep the target.
    """
    from tqdm import tqdm

    if not 0.0 < eps < np.inf:
        raise InputError(f"eps must be positive and finite, got eps={eps}")
    rounds, once = setting.rounds, replace(setting, rounds=1)
    # Half of delta is left for what no eps of the rounds covers.
    share = log_delta - float(np.log(2.0 * rounds))
    parameters: dict[float, P] = {}
    bar = tqdm(desc=f"{mechanism.name}, budgets of a round", delay=2.0, leave=False, disable=None)

    def composed(round_eps: float) -> float:
        bar.update()
        parameters[round_eps] = mechanism.calibrate(round_eps, share, once)
        return mechanism.curve(parameters[round_eps], setting).upper(eps)

    def composed_if_possible(round_eps: float) -> float:
        try:
            return composed(round_eps)
        except InputError:
            if round_eps > 2.0 * eps:
                raise
            return -np.inf  # a larger eps may be possible

    # With this budget each round keeps its share of the target.
    least = quotient_down(eps, rounds)
    guess = least * float(np.sqrt(rounds * share / log_delta)) if log_delta < 0.0 else least
    with bar:
        best = calibrate.of_one_round(composed_if_possible, log_delta, least, guess)
        if best not in parameters:
            best = calibrate.largest_kept(lambda round_eps: composed(round_eps) <= log_delta, best)
    return parameters[best]


def expected_distance(variances: ArrayLike) -> Floats:
    """Return the expected total variation distance of unbiased, normally distributed estimates.

    This is half the sum over the last axis of the mean absolute errors, each ``sqrt(2 / pi)``
    standard deviations.
    """
    deviations = np.sqrt(np.asarray(variances, np.float64))
    return np.asarray(np.sqrt(0.5 / np.pi) * deviations.sum(axis=-1))


def drawing_variance(shares: ArrayLike, n: int, rate: float) -> Floats:
    """Return the variance of the participants' shares about the shares of all users.

    Parameters
    ----------
    shares
        Of all users, any shape.
    n
        Number of all users.
    rate
        Probability in ``(0, 1]`` with which each takes part; about ``rate * n`` users do.
    """
    shares = np.asarray(shares, np.float64)
    return np.asarray((1.0 - rate) * shares * (1.0 - shares) / (rate * n))
