"""What a mechanism answers. Figures, tables, planner and command ask it; nobody asks for its name.

What there is to say of one (label, looks, trust) stands in `shuffledp.mechanisms.catalogue`.
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
# Shares by observations, both of shape (repetitions, k), n and the parameters. A row of the result
# depends on that row alone.
Estimate = Callable[[Floats, int, P], Floats]


@dataclass(frozen=True)
class Budget:
    """A point (eps, delta) that mechanisms are compared at, of a setting's certified curve or not.

    Attributes
    ----------
    eps, log_delta
        Central budget and the natural logarithm of delta.
    asked
        What was asked for, ``eps=0.5`` or ``delta=1e-06``: it names the random stream, since
        computed digits may differ from machine to machine.
    calibration
        Name of the calibration to it: ``matched`` on the certified curve, which is equal privacy.
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
        ``none``: they follow from eps0; that of a `Budget`; or a mechanism's own.
    eps, log_delta
        Of the budget; NaN where the parameters follow from eps0.
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


class Mechanism(ABC, Generic[P]):
    """A way to release a histogram of n users over k cells.

    Attributes
    ----------
    name
        In the catalogue.
    estimators
        By their names in the catalogue, in its order: the first is unbiased.
    form
        Class of its parameters, whose numbers are fields of type int or float.
    """

    name: str
    form: type[P]
    estimators: Mapping[str, Estimate[P]]

    @property
    def entry(self) -> Entry:
        """What the catalogue says of it; raises `KeyError` if nothing."""
        return CATALOGUE[self.name]

    @abstractmethod
    def curve(self, parameters: P, setting: Setting) -> UpperCurve:
        """Delta over eps that holds for every data set (replacement).

        Of a setting whose users are honest and all take part; over its rounds, with these
        parameters in each.
        """

    def achieved(self, parameters: P, setting: Setting) -> UpperCurve:
        """As `curve`, of exactly the users of a setting; that may be a promise for fewer of them.

        Parameters
        ----------
        parameters
            Of the mechanism, in each round.
        setting
            As for `curve`.
        """
        return self.curve(parameters, setting)

    def views(self, parameters: P, setting: Setting) -> dict[str, UpperCurve]:
        """Delta over eps of those of `catalogue.VIEWS` who do not have the one of `curve`.

        Parameters
        ----------
        parameters
            Of the mechanism, in each round.
        setting
            As for `curve`.

        Returns
        -------
        By default that of analyst and mixer together, who see each user's own messages.
        """
        budget = sum_up([(setting.rounds, self.local_eps0(parameters))])
        seen = {view: no_guarantee() for view in self.entry.seen}
        return seen if budget == np.inf else {"both": no_guarantee(budget)}

    @abstractmethod
    def calibrate(self, eps: float, log_delta: float, setting: Setting) -> P:
        """Parameters with the least error that keep (eps, delta).

        Parameters
        ----------
        eps, log_delta
            Central budget, and natural log of delta.
        setting
            n, k, and for mechanisms that share a budget among rounds their number. All users are
            honest and take part (`target_calibration.calibrated` for others).

        Raises
        ------
        InputError
            If there are none.
        """

    def calibrate_rounds(self, eps: float, log_delta: float, setting: Setting) -> P:
        """Parameters of every round of a setting, the same in all, that keep (eps, delta) of all.

        By default those of `calibrate` for one round, to a share of delta and the largest eps with
        which the rounds, composed, keep the target; nearly.

        Parameters
        ----------
        eps, log_delta
            Budget of all rounds together, and natural log of their delta.
        setting
            All users are honest and take part in every round.

        Raises
        ------
        InputError
            As `calibrate`.
        """
        from tqdm import tqdm

        if not 0.0 < eps < np.inf:
            raise InputError(f"eps must be positive and finite (got eps={eps})")
        rounds, once = setting.rounds, replace(setting, rounds=1)
        # Half of delta is for what no eps of the rounds covers.
        share = log_delta - float(np.log(2.0 * rounds))
        found: dict[float, P] = {}
        bar = tqdm(desc=f"{self.name}, budgets of a round", delay=2.0, leave=False, disable=None)

        def log_delta_of(one: float) -> float:
            bar.update()
            found[one] = self.calibrate(one, share, once)
            return self.curve(found[one], setting).upper(eps)

        def of_all(one: float) -> float:
            try:
                return log_delta_of(one)
            except InputError:
                if one > 2.0 * eps:
                    raise
                return -np.inf  # a larger one may do

        # With that budget each round keeps its share of the target.
        least = quotient_down(eps, rounds)
        guess = least * float(np.sqrt(rounds * share / log_delta)) if log_delta < 0.0 else least
        with bar:
            best = calibrate.of_one_round(of_all, log_delta, least, guess)
            if best not in found:
                best = calibrate.largest_kept(lambda one: log_delta_of(one) <= log_delta, best)
        return found[best]

    def sharper(self) -> "Mechanism[P]":
        """The same with a tighter guarantee that is asked for (docs/hidden-slot.md); or itself."""
        return self

    def sized(self, slots: int | None, share: float | None) -> "Mechanism[P]":
        """The same with envelopes of so many messages, for a part of the users; or itself."""
        del slots, share
        return self

    @abstractmethod
    def observe(
        self, counts: ArrayLike, parameters: P, rng: np.random.Generator, repetitions: int = 1
    ) -> Floats:
        """What the analyst sees, simulated from the exact law without a loop over users.

        Parameters
        ----------
        counts
            True histogram, shape ``(k,)``, non-negative integers.
        parameters
            Of the mechanism.
        rng
            Source of randomness.
        repetitions
            Independent releases. The first ones are the same however many follow.

        Returns
        -------
        Observations of shape ``(repetitions, k)``.
        """

    @abstractmethod
    def variance(self, shares: ArrayLike, n: float, parameters: P) -> Floats:
        """Variance of the unbiased estimate of each share.

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
        """Expected total variation distance of the unbiased estimate, one for each histogram.

        Half the sum of the mean absolute errors of the shares; by default of errors that are nearly
        normal.

        Parameters
        ----------
        shares, n, parameters
            As for `variance`.

        Returns
        -------
        Numbers of at least 0, shape ``(...)``.
        """
        return expected_distance(self.variance(shares, n, parameters))

    def messages(self, n: int, k: int, parameters: P) -> float:
        """Mean number of messages that reach the shuffler, or the curator, per user.

        Parameters
        ----------
        n, k
            Numbers of users and of cells.
        parameters
            Of the mechanism.
        """
        del n, k, parameters
        return 1.0

    def moved_by_one(self, k: int, parameters: P) -> float:
        """Users of a cell by which one user's messages may move its estimate in a round, at most.

        Against messages that say nothing of the cell: by default one record, which nobody can
        send twice. The estimate is a sum over users: so many dishonest ones move it so many times
        as far.

        Parameters
        ----------
        k
            Number of cells.
        parameters
            Of the mechanism.
        """
        del k, parameters
        return 1.0

    def local_eps0(self, parameters: P) -> float:
        """What a user's own messages reveal to who sees them before they are mixed; inf: all."""
        del parameters
        return float("inf")

    def parameters(self, setting: Setting, budget: Budget) -> P:
        """Parameters of one round for a comparison at a point of a setting's certified curve.

        By default those of `calibrate`; raises as that, and for several rounds: a budget of all
        of them is too much for each.
        """
        setting.require_one_round()
        return self.calibrate(budget.eps, budget.log_delta, setting)

    def calibrations(self, setting: Setting, budgets: Sequence[Budget]) -> list[Calibration[P]]:
        """What to release when mechanisms are compared at a setting's certified privacy.

        Parameters
        ----------
        setting
            n, k and the local budget eps0 of those who randomise.
        budgets
            Points on its certified curve, and others that are named for what they are.

        Returns
        -------
        By default one calibration for each budget.
        """
        return [
            Calibration(
                name=budget.calibration,
                eps=budget.eps,
                log_delta=budget.log_delta,
                asked=budget.asked,
                parameters=self.parameters(setting, budget),
            )
            for budget in budgets
        ]


def expected_distance(variances: ArrayLike) -> Floats:
    """Expected total variation distance of unbiased, nearly normal estimates of these variances.

    Half the sum over the last axis of the mean absolute errors, ``sqrt(2 / pi)`` deviations each.
    """
    deviations = np.sqrt(np.asarray(variances, np.float64))
    return np.asarray(np.sqrt(0.5 / np.pi) * deviations.sum(axis=-1))


def drawing_variance(shares: ArrayLike, n: int, rate: float) -> Floats:
    """Variance of the shares of those who take part about the shares of all users.

    Parameters
    ----------
    shares
        Of all users, any shape.
    n
        Number of all users.
    rate
        Probability in ``(0, 1]`` with which each takes part; ``rate * n`` do, nearly.
    """
    shares = np.asarray(shares, np.float64)
    return np.asarray((1.0 - rate) * shares * (1.0 - shares) / (rate * n))
