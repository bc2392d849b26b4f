"""What a mechanism answers. Figures, tables, planner and command ask it; nobody asks for its name.

To add a mechanism, write its module and name it in `shuffledp.mechanisms.registry`
(docs/extending.md).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.setting import Setting
from shuffledp.arrays import Floats

P = TypeVar("P")  # a mechanism's parameters: a frozen dataclass


@dataclass(frozen=True)
class Look:
    """How a series is drawn everywhere.

    The colour (of Okabe and Ito's) and the shape of the marker tell the mechanism, white filling
    that the estimate is a distribution: no two look alike in grey.
    """

    colour: str
    marker: str
    filled: bool = True


@dataclass(frozen=True)
class Estimator(Generic[P]):
    """A way to estimate the distribution of a mechanism's users from what the analyst sees.

    Attributes
    ----------
    name
        In tables. ``raw`` is unbiased, ``projected`` is that on the simplex; the same names for
        every mechanism.
    label, look
        In figures.
    estimate
        Function of the observations, shape ``(repetitions, k)``, of n and of the parameters, to
        shares of the same shape. A row of the result depends on that row alone.
    like
        Estimator of another mechanism that it is fairly compared with; None for no comparison.
    """

    name: str
    label: str
    look: Look
    estimate: Callable[[Floats, int, P], Floats]
    like: str | None


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
    name, label
        In tables and configuration, and in figures.
    trust
        Who must be trusted with what, in a few words.
    estimators
        The first is unbiased.
    matched
        Whether its parameters are calibrated to the budgets of a comparison; else they follow from
        the setting's eps0.
    own_calibrations
        Names of calibrations that are not at equal privacy, and what figures say of each.
    """

    name: str
    label: str
    trust: str
    estimators: tuple[Estimator[P], ...]
    matched: bool = True
    own_calibrations: Mapping[str, str] = MappingProxyType({})

    @abstractmethod
    def log_delta(self, eps: float, n: int, k: int, parameters: P) -> float:
        """Natural log of a delta that holds for every data set, rounded up (replacement)."""

    @abstractmethod
    def calibrate(self, eps: float, log_delta: float, n: int, k: int) -> P:
        """Parameters with the least error that keep (eps, delta).

        Raises
        ------
        InputError
            If there are none.
        """

    def sharper(self) -> "Mechanism[P]":
        """The same with a tighter guarantee that is asked for (docs/hidden-slot.md); or itself."""
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
        """Variance of the unbiased estimate of each share; shape of ``shares``, ``(..., k)``."""

    def expected_distance(self, shares: ArrayLike, n: float, parameters: P) -> Floats:
        """Expected total variation distance of the unbiased estimate, one for each histogram.

        Half the sum of the mean absolute errors of the shares, shape ``(..., k)``; by default of
        errors that are nearly normal.
        """
        return expected_distance(self.variance(shares, n, parameters))

    def messages(self, n: int, k: int, parameters: P) -> float:
        """Mean number of messages that reach the shuffler, or the curator, per user."""
        del n, k, parameters
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
        return self.calibrate(budget.eps, budget.log_delta, setting.n, setting.k)

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

    def estimator(self, name: str) -> Estimator[P]:
        """Look up an estimator by its name.

        Raises
        ------
        KeyError
            If there is none.
        """
        return next(each for each in self.estimators if each.name == name)


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
