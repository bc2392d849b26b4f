"""The interface of a mechanism: its privacy curve, calibration, observations and estimators.

n users hold one of k records, called cells. Figures, tables, planner and commands use mechanisms
only through this interface. `shuffledp.mechanisms.catalogue` has names and trust assumptions.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.contributions import (
    ONE_RECORD,
    Contributions,
    group_curve,
    one_record_target,
)
from shuffledp.accounting.curve import UpperCurve, pure_dp_curve
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.catalogue import CATALOGUE, Entry
from shuffledp.numerics.arrays import Floats, Integers, sum_up

P = TypeVar("P")  # a mechanism's parameters: a frozen dataclass
# Function of observations, n and parameters that returns estimated shares of the users per cell.
# Observations and shares have shape (repetitions, k); each row is estimated independently.
Estimate = Callable[[Floats, int, P], Floats]

# Sizes of an envelope of the collection in packages/collect: a token and a nonce, then one sealed
# message for each slot. Sealing by HPKE adds a key and a tag to the payload, by default a cell.
HEAD_BYTES, SEALING_BYTES, CELL_BYTES = 32, 48, 4


def envelope_bytes(messages: float = 1.0, payload_bytes: float = CELL_BYTES) -> float:
    """Return the bytes of an envelope with a number of sealed messages of the same length."""
    return HEAD_BYTES + messages * (SEALING_BYTES + payload_bytes)


@dataclass(frozen=True)
class Budget:
    """A point (eps, delta) at which mechanisms are compared.

    ``label`` is the text that was requested, such as ``eps=0.5``. It names the random stream,
    because the last digits of computed numbers may differ between machines. ``calibration`` is
    ``matched`` for a point of the certified curve of k-RR, that is, for equal privacy.
    """

    eps: float
    log_delta: float
    label: str
    calibration: str = "matched"


@dataclass(frozen=True)
class Calibration(Generic[P]):
    """Parameters of a release, and the budget they were calibrated to.

    ``name`` is `Budget.calibration`, or that of one of the mechanism's own calibrations. It is
    ``none`` if the parameters follow from eps0; then eps and log delta are NaN, the label empty.
    """

    name: str
    eps: float
    log_delta: float
    label: str
    parameters: P


@dataclass(frozen=True)
class PerUser:
    """Local budget, messages, influence and upload of one user.

    Attributes
    ----------
    local_eps0
        Local budget of the user's messages, against a party that sees them before they are
        shuffled; inf if they reveal the record.
    messages
        Mean number of messages per user that reach the analyst or curator, including dummies.
    moved_by_one
        Largest amount, in people, by which one user's messages in a round change the estimate of a
        cell, compared with messages that do not depend on the cell. The estimate is a sum over
        users, so m dishonest users change it by up to m times as much.
    bytes_sent
        Mean number of bytes that a user uploads in a round, encrypted.
    """

    local_eps0: float = np.inf
    messages: float = 1.0
    moved_by_one: float = 1.0
    bytes_sent: float = envelope_bytes()


class Mechanism(ABC, Generic[P]):
    """A randomised algorithm from the records of n users to an estimated histogram over k cells.

    Attributes
    ----------
    name
        Name in the catalogue.
    estimators
        Estimators by name, in the order of the catalogue; the first is unbiased.
    form
        Class of the parameters: a frozen dataclass, whose numbers have type int or float.
    other_forms
        Further classes that parameters may have. Their numbers have other names than those of
        ``form``.
    shapes
        Name of the shape of the noise for each class of parameters, if calibration chooses it;
        otherwise empty.
    published
        Functions from a setting to a calibration that a paper uses. These calibrations are not at
        equal privacy; their captions are in the catalogue.
    """

    name: str
    form: type[P]
    other_forms: Sequence[type[P]] = ()
    shapes: Mapping[type[P], str] = {}
    estimators: Mapping[str, Estimate[P]]
    published: Sequence[Callable[[Setting], Calibration[P]]] = ()

    @property
    def entry(self) -> Entry:
        """The mechanism's entry in the catalogue."""
        return CATALOGUE[self.name]

    @abstractmethod
    def curve(
        self, parameters: P, setting: Setting, contributions: Contributions = ONE_RECORD
    ) -> UpperCurve:
        """Return the certified privacy curve, for every data set and replacement of one record.

        With ``contributions`` it holds for the replacement of all records of one user; n is then
        the number of records, which is the same in both data sets. All users are honest and take
        part in every round, with the same parameters.
        """

    def views(self, parameters: P, setting: Setting) -> dict[str, UpperCurve]:
        """Return the curve of each of `catalogue.VIEWS` for which `curve` does not hold.

        By default, analyst and shuffler together see each user's messages, so their curve follows
        from the local budget. If that is infinite, no view with disclosed data has a guarantee.
        """
        local_eps0 = self.per_user(setting.n, setting.k, parameters).local_eps0
        budget = sum_up([(setting.rounds, local_eps0)])
        if budget == np.inf:
            return {view: pure_dp_curve() for view in self.entry.disclosed}
        return {"both": pure_dp_curve(budget)}

    @abstractmethod
    def calibrate(
        self,
        eps: float,
        log_delta: float,
        setting: Setting,
        contributions: Contributions = ONE_RECORD,
    ) -> P:
        """Return the parameters with the least error for which `curve` meets a target.

        The target is for all rounds together. The parameters are the same in every round. All users
        are honest and take part; see `target_calibration.calibrated` for other settings. Raises
        `InputError` if no parameters meet the target.
        """

    @abstractmethod
    def observe(
        self, counts: ArrayLike, parameters: P, rng: np.random.Generator, repetitions: int = 1
    ) -> Floats:
        """Draw the analyst's observations from their exact law, without a loop over users.

        ``counts`` is the true histogram, shape ``(k,)``, of integers >= 0. The result has the shape
        ``(repetitions, k)``, one row for each independent release. More repetitions only append
        rows.
        """

    @abstractmethod
    def variance(self, shares: ArrayLike, n: float, parameters: P) -> Floats:
        """Return the variance of the unbiased estimate of each share, shape ``(..., k)``.

        ``shares`` is the true distribution over the cells, of the same shape.
        """

    def expected_distance(self, shares: ArrayLike, n: float, parameters: P) -> Floats:
        """Return the expected total variation distance of the unbiased estimate, shape ``(...)``.

        This is half the sum of the shares' mean absolute errors. By default the errors are assumed
        to be normally distributed.
        """
        return expected_distance(self.variance(shares, n, parameters))

    def per_user(self, n: int, k: int, parameters: P) -> PerUser:
        """Return what one user sends and reveals, by default one true message."""
        del n, k, parameters
        return PerUser()


class RecordMechanism(Mechanism[P]):
    """A mechanism that is defined by the replacement of one record and by one release.

    Its guarantee for all records of one user follows by group privacy. Several releases are drawn
    one after the other.
    """

    def curve(
        self, parameters: P, setting: Setting, contributions: Contributions = ONE_RECORD
    ) -> UpperCurve:
        """Return the certified privacy curve, see `Mechanism.curve`."""
        return group_curve(self._record_curve(parameters, setting), contributions.records_per_user)

    def calibrate(
        self,
        eps: float,
        log_delta: float,
        setting: Setting,
        contributions: Contributions = ONE_RECORD,
    ) -> P:
        """Return parameters with which a target is met, see `Mechanism.calibrate`."""
        target = one_record_target(eps, log_delta, contributions.records_per_user)
        return self._calibrate_record(*target, setting)

    def observe(
        self, counts: ArrayLike, parameters: P, rng: np.random.Generator, repetitions: int = 1
    ) -> Floats:
        """Draw the analyst's observations from their exact law, see `Mechanism.observe`."""
        counts = np.asarray(counts, np.int64)
        rows = [self._draw(counts, parameters, rng) for _ in range(repetitions)]
        return np.stack(rows, dtype=np.float64)

    @abstractmethod
    def _record_curve(self, parameters: P, setting: Setting) -> UpperCurve:
        """Return the certified curve for the replacement of one record."""

    @abstractmethod
    def _calibrate_record(self, eps: float, log_delta: float, setting: Setting) -> P:
        """Return parameters with which `_record_curve` meets a target for all rounds together."""

    @abstractmethod
    def _draw(self, counts: Integers, parameters: P, rng: np.random.Generator) -> Integers | Floats:
        """Draw one release, shape ``(k,)``."""


def expected_distance(variances: ArrayLike) -> Floats:
    """Return the expected total variation distance of unbiased, normally distributed estimates.

    This is half the sum over the last axis of the mean absolute errors, which are ``sqrt(2 / pi)``
    times the standard deviations.
    """
    deviations = np.sqrt(np.asarray(variances, np.float64))
    return np.asarray(np.sqrt(0.5 / np.pi) * deviations.sum(axis=-1))


def participation_variance(shares: ArrayLike, n: int, rate: float) -> Floats:
    """Return the variance that random participation adds to the estimated shares of all n users.

    ``rate`` is the probability in ``(0, 1]`` with which each user takes part.
    """
    shares = np.asarray(shares, np.float64)
    return np.asarray((1.0 - rate) * shares * (1.0 - shares) / (rate * n))
