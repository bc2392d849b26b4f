"""The description of a collection: who reports what, how often. All its checks are here."""

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers, sum_up

LARGEST_N = 10_000_000_000
LARGEST_K = 1_000_000
# A report every hour for a century. The law of a sum of more rounds takes more than 0.5 GB.
LARGEST_ROUNDS = 1_000_000
# exp(eps + eps0) must be a float wherever eps < eps0.
LARGEST_EPS0 = 350.0
# Steps and tolerances that are fractions of a budget must be floats with all their digits.
SMALLEST_EPS0 = 1e-200


def probabilities(eps0: float, k: int) -> tuple[float, float]:
    """Probabilities ``(p, q)`` of reporting the true cell and each other cell.

    ``p = e^eps0 / (e^eps0 + k - 1)`` and ``q = 1 / (e^eps0 + k - 1)`` (paper A, Definition III.5).

    Raises
    ------
    InputError
        If ``k < 2``, or eps0 is not positive and finite.
    """
    if k < 2:
        raise InputError(f"k must be at least 2 cells (got k={k})")
    if not (eps0 > 0 and np.isfinite(eps0)):
        raise InputError(f"eps0 must be positive and finite (got eps0={eps0})")
    q = 1.0 / (np.expm1(eps0) + k)
    return float(np.exp(eps0) * q), float(q)


def _check_whole(name: str, value: float, low: int, high: float, what: str) -> None:
    if not (low <= value <= high and np.isfinite(value) and value == int(value)):
        raise InputError(
            f"{name} must be a whole number of {what}, at least {low} and at most {high:,} (got "
            f"{name}={value})"
        )


class CurveSource(Protocol):
    """A mechanism with its parameters, or a local randomiser."""

    def curve(self, setting: "Setting") -> Any:
        """Return the `UpperCurve` of one round in which all users are honest and report.

        The type is not named here, because a setting does not depend on the accounting.
        """


@dataclass(frozen=True)
class Setting:
    """What is collected, and from whom: n users, one report each in one of k cells.

    Attributes
    ----------
    n
        Number of users, at least 1.
    k
        Number of cells, at least 2.
    eps0
        Local budget of a report by k-RR, from 1e-200 to 350; inf if it is not by k-RR.
    rounds
        How often the same users report, each time anew; at most a million times.
    count
        How many of the other users hold the target's cell; None for the worst number.
    sampling_rate
        Probability in ``(0, 1]`` with which each user takes part in a round, independently of the
        others and of other rounds.
    colluding
        How many of the n users, at least 0 and below n, are not honest: they tell the analyst all
        they sent, or send what they like.
    response_rate
        Probability in ``(0, 1]`` with which each user responds, independently of the others and of
        all data. Delta is that of a user who does. If dropping out depends on the data, only the
        delta of the fewest who may respond holds.
    dummies
        Uniform reports that each user sends beside the own one by k-RR, on average, at least 0.
    mechanism
        How users report if not by k-RR, with its parameters: what answers ``curve(setting)``, of a
        round in which all users are honest and report.

    Raises
    ------
    InputError
        If one of them is out of range, or two exclude each other.
    """

    n: int
    k: int
    eps0: float = float("inf")
    rounds: int = 1
    count: int | None = None
    sampling_rate: float = 1.0
    colluding: int = 0
    response_rate: float = 1.0
    dummies: float = 0.0
    mechanism: CurveSource | None = None

    def __post_init__(self) -> None:
        if self.eps0 != np.inf:
            self._check_krr()
        _check_whole("k", self.k, 2, LARGEST_K, "cells")
        _check_whole("n", self.n, 1, LARGEST_N, "users")
        _check_whole("rounds", self.rounds, 1, LARGEST_ROUNDS, "rounds")
        if self.count is not None:
            self.checked_counts(self.count)
        self._check_crowd()
        if not 0.0 <= self.dummies < LARGEST_N:
            raise InputError(
                f"dummies of a user must be a mean number, at least 0 (got {self.dummies})"
            )

    def _check_krr(self) -> None:
        if self.mechanism is not None:
            raise InputError(f"eps0 belongs to k-RR: {self.mechanism} has its own budget")
        if self.eps0 > LARGEST_EPS0:
            raise InputError(f"eps0 must be at most {LARGEST_EPS0:g} (got eps0={self.eps0})")
        probabilities(self.eps0, self.k)
        if self.eps0 < SMALLEST_EPS0:
            raise InputError(f"eps0 must be at least {SMALLEST_EPS0:g} (got eps0={self.eps0})")

    def _check_crowd(self) -> None:
        for name, rate in (("sampling", self.sampling_rate), ("response", self.response_rate)):
            if not 0.0 < rate <= 1.0:
                raise InputError(f"{name} rate must lie in (0, 1] (got {rate})")
        if self.sampling_rate < 1.0 and self.response_rate < 1.0:
            raise InputError(
                "a sampling rate and a response rate together are not accounted for: give one of "
                f"them (got {self.sampling_rate:g} and {self.response_rate:g})"
            )
        if self.response_rate < 1.0 and self.rounds > 1:
            raise InputError(
                "a response rate is for one round; for several give as n the fewest who respond "
                f"in all of them (got rounds={self.rounds})"
            )
        colluding = self.colluding
        if not (colluding >= 0 and np.isfinite(colluding) and colluding == int(colluding)):
            raise InputError(
                f"colluding users must be a whole number, at least 0 (got {self.colluding})"
            )
        if self.colluding >= self.n:
            raise InputError(
                f"colluding users must be fewer than n, since the target is honest (got "
                f"colluding={self.colluding}, n={self.n})"
            )

    @property
    def budget(self) -> float:
        """Eps from which on delta is 0: ``rounds * eps0``, rounded up.

        It is the budget of a release of all reports unshuffled. A float eps is at least this
        number if and only if it is at least the exact product.
        """
        return sum_up([(self.rounds, self.eps0)])

    @property
    def once(self) -> "Setting":
        """One round of it, in which all users take part and nobody colludes: the honest ones."""
        honest = self.n - self.colluding
        return replace(self, n=honest, rounds=1, sampling_rate=1.0, colluding=0, response_rate=1.0)

    @property
    def honest(self) -> "Setting":
        """The same of the honest users: whoever colludes hides nobody."""
        return replace(self, n=self.n - self.colluding, colluding=0)

    @property
    def part(self) -> float:
        """Probability with which an honest user reports in a round."""
        return self.sampling_rate * self.response_rate

    @property
    def crowd_words(self) -> str:
        """What to say after a number of users; empty if all are honest and respond."""
        words = f", {self.colluding:,.0f} collude" if self.colluding else ""
        rate = self.response_rate
        return words if rate == 1.0 else f"{words}, response rate {rate:g}"

    def require_one_round(self) -> None:
        """Refuse several rounds: a bound on one says nothing of them.

        Raises
        ------
        InputError
            If there is more than one.
        """
        if self.rounds > 1:
            raise InputError(f"this bound covers one round only (got rounds={self.rounds})")

    def checked_counts(self, counts: ArrayLike) -> Integers:
        """Numbers of other users in the target's cell, any shape, each in ``0..n-1``.

        Raises
        ------
        InputError
            If one is out of range.
        """
        checked = np.asarray(counts, dtype=np.int64)
        if checked.size and (checked.min() < 0 or checked.max() > self.n - 1):
            raise InputError(
                f"count must lie in 0..n-1 = 0..{self.n - 1}, the other users in the target's "
                f"cell (got {checked[(checked < 0) | (checked >= self.n)].flat[0]})"
            )
        return checked


def group_privacy(setting: Setting, reports: int) -> Setting:
    """Return rounds whose upper bound holds for a person with several reports in one collection.

    The analyst is given more than the released histogram: one histogram for each report of the
    person, each of one of these reports and of an equal share of all others. These are rounds with
    ``n // reports`` reports, which is at most that share, and more reports hide no less. Their
    sum is the released histogram. The lower end of the rounds is no lower bound for the person.

    Parameters
    ----------
    setting
        One round; n counts all reports, including those of the person.
    reports
        Number of reports of the person, from 1 to n. Replacing all of them is protected; their
        number is not.

    Raises
    ------
    InputError
        If an argument is out of range.
    """
    setting.require_one_round()
    if not (1 <= reports <= setting.n and reports == int(reports)):
        raise InputError(
            f"reports of one person must be an integer from 1 to n, got reports={reports}, "
            f"n={setting.n}"
        )
    return replace(setting, n=setting.n // int(reports), rounds=int(reports))
