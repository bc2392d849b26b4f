"""The description of a collection: who reports what, and how often. A `Setting` checks itself."""

from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.errors import InputError, shortened
from shuffledp.numerics.arrays import Integers, scalar, sum_up

LARGEST_N = 10_000_000_000
LARGEST_K = 1_000_000
# Enough for a report every hour for a century. The convolution of more rounds would take over
# 0.5 GB.
LARGEST_ROUNDS = 1_000_000
_WHOLE = ("n", "k", "rounds", "count", "colluding")
# exp(-eps - eps0), times the distance of neighbouring floats, must not be subnormal.
LARGEST_EPS0 = 300.0
# Fractions of eps0 are used as steps and tolerances, which must not be subnormal floats.
SMALLEST_EPS0 = 1e-200


def probabilities(eps0: float, k: int) -> tuple[float, float]:
    """Return the probabilities ``(p, q)`` with which k-RR reports the true and each other cell.

    ``p = e^eps0 / (e^eps0 + k - 1)`` and ``q = 1 / (e^eps0 + k - 1)`` (paper A, Definition III.5).
    """
    if k < 2:
        raise InputError(f"k must be at least 2, got k={k}")
    if not (eps0 > 0 and np.isfinite(eps0)):
        raise InputError(f"eps0 must be positive and finite, got eps0={eps0}")
    q = 1.0 / (np.expm1(eps0) + k)
    return float(np.exp(eps0) * q), float(q)


def _check_integer(name: str, value: float, low: int, high: int) -> None:
    if not (low <= value <= high and np.isfinite(value) and value == int(value)):
        raise InputError(f"{name} must be an integer from {low} to {high:,}, got {name}={value}")


class CurveSource(Protocol):
    """A mechanism with its parameters, or a local randomiser."""

    def curve(self, setting: "Setting") -> Any:
        """Return the `UpperCurve` of one round in which all users are honest and report.

        The annotation is Any because importing `UpperCurve` here would be circular.
        """


@dataclass(frozen=True)
class Setting:
    """A collection: n users, each of whom reports one of k cells.

    Attributes
    ----------
    n
        Number of users, at least 1.
    k
        Number of cells, at least 2.
    eps0
        Local budget of a k-RR report, from 1e-200 to 300; left at inf for another mechanism.
    rounds
        Number of rounds in which the same users report, each with fresh randomness, at most 10^6.
    count
        Number of other users in the target's cell, for bounds on a single bin; None for the number
        with the largest delta.
    sampling_rate
        Probability in ``(0, 1]`` with which each user takes part in a round, independently of the
        other users and rounds.
    colluding
        Number of dishonest users, from 0 to n - 1. They may reveal to the analyst
        everything they sent, or send arbitrary messages.
    response_rate
        Probability in ``(0, 1]`` with which each user responds, independently of the other users
        and of all data. Delta is that of a user who responds. If dropping out depends on the data,
        set n to the smallest possible number of respondents instead.
    dummies
        Mean number (>= 0) of uniform reports that each user sends in addition to the k-RR report.
    mechanism
        The mechanism with its parameters, as returned by `shuffledp.mechanism`, if users do not
        report by k-RR; None for k-RR.

    Raises
    ------
    InputError
        If a value is out of range, or two values exclude each other.

    Examples
    --------
    >>> Setting(n=100_000, k=408, eps0=4.0, rounds=10).budget
    40.0
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
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "mechanism" and not (field.name == "count" and value is None):
                number = scalar(field.name, value)
                # Numbers of numpy may have single precision, or overflow in products.
                whole = field.name in _WHOLE and number.is_integer()
                exact = int(value) if whole or isinstance(value, Integral) else number
                object.__setattr__(self, field.name, exact)
        if self.mechanism is not None and not callable(getattr(self.mechanism, "curve", None)):
            raise InputError(
                "mechanism must be None for k-RR, or a mechanism with its parameters such as "
                "shuffledp.mechanism('two-servers', eps=0.2, nu=200), got "
                f"mechanism={shortened(repr(self.mechanism))}"
            )
        if self.eps0 != np.inf:
            self._check_krr()
        _check_integer("k", self.k, 2, LARGEST_K)
        _check_integer("n", self.n, 1, LARGEST_N)
        _check_integer("rounds", self.rounds, 1, LARGEST_ROUNDS)
        if self.count is not None:
            self.checked_counts(self.count)
        self._check_participation()
        if not 0.0 <= self.dummies < LARGEST_N:
            raise InputError(
                "dummies, the mean number per user, must be at least 0 and below "
                f"{LARGEST_N:,}, got dummies={self.dummies}"
            )

    def _check_krr(self) -> None:
        if self.mechanism is not None:
            raise InputError(
                f"eps0 applies to k-RR only, got eps0={self.eps0} with mechanism={self.mechanism}: "
                "leave eps0 out"
            )
        if self.eps0 > LARGEST_EPS0:
            raise InputError(f"eps0 must be at most {LARGEST_EPS0:g}, got eps0={self.eps0}")
        probabilities(self.eps0, self.k)
        if self.eps0 < SMALLEST_EPS0:
            raise InputError(f"eps0 must be at least {SMALLEST_EPS0:g}, got eps0={self.eps0}")

    def _check_participation(self) -> None:
        for name, rate in (("sampling", self.sampling_rate), ("response", self.response_rate)):
            if not 0.0 < rate <= 1.0:
                raise InputError(f"{name} rate must lie in (0, 1], got {rate}")
        if self.sampling_rate < 1.0 and self.response_rate < 1.0:
            raise InputError(
                "a sampling rate and a response rate cannot be combined, got "
                f"{self.sampling_rate:g} and {self.response_rate:g}: give one of them"
            )
        if self.response_rate < 1.0 and self.rounds > 1:
            raise InputError(
                f"a response rate applies to one round only, got rounds={self.rounds}: for several "
                "rounds, set n to the smallest number of users who respond in a round"
            )
        colluding = self.colluding
        if not (colluding >= 0 and np.isfinite(colluding) and colluding == int(colluding)):
            raise InputError(f"colluding must be an integer >= 0, got colluding={colluding}")
        if colluding >= self.n:
            raise InputError(
                f"colluding must be below n, since the target is honest, got "
                f"colluding={colluding}, n={self.n}"
            )

    @property
    def budget(self) -> float:
        """The smallest float >= ``rounds * eps0``; delta is 0 at this eps and above.

        All reports together are (rounds * eps0)-DP even if they are released unshuffled.
        """
        return sum_up([(self.rounds, self.eps0)])

    @property
    def single_round(self) -> "Setting":
        """One round of this setting in which all honest users, and nobody else, take part."""
        honest = self.n - self.colluding
        return replace(self, n=honest, rounds=1, sampling_rate=1.0, colluding=0, response_rate=1.0)

    @property
    def honest(self) -> "Setting":
        """The same setting without the colluding users, whose reports the analyst can remove."""
        return replace(self, n=self.n - self.colluding, colluding=0)

    @property
    def participation_rate(self) -> float:
        """Probability with which an honest user reports in a round."""
        return self.sampling_rate * self.response_rate

    @property
    def participation_text(self) -> str:
        """Text to append to a number of users; empty if all are honest and respond."""
        text = f", {self.colluding:,.0f} collude" if self.colluding else ""
        rate = self.response_rate
        return text if rate == 1.0 else f"{text}, response rate {rate:g}"

    def require_one_round(self) -> None:
        """Raise `InputError` if there is more than one round."""
        if self.rounds > 1:
            raise InputError(f"this bound covers one round only, got rounds={self.rounds}")

    def checked_counts(self, counts: ArrayLike) -> Integers:
        """Return counts of other users in the target's cell, checked, as an integer array."""
        checked = np.asarray(counts, dtype=np.int64)
        if checked.size and (checked.min() < 0 or checked.max() > self.n - 1):
            raise InputError(
                "count, the number of other users in the target's cell, must lie in "
                f"0..n-1 = 0..{self.n - 1}, got "
                f"count={checked[(checked < 0) | (checked >= self.n)].flat[0]}"
            )
        return checked
