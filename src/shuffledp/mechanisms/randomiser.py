"""The interface of a local randomiser: its budget, its certified curve and its estimator.

R(y|x) is the probability that a randomiser reports y for the record x. n users report, and one of
them, the target, holds x0 or x1. Bounds on delta have the form ``(1/n) E(G_1 + ... + G_n)_+`` with
independent ``G = (R(y|x0) - exp(eps) R(y|x1)) / w(y)``, where y is drawn from a law w: that of the
others' reports, or a part of it that all records share, their privacy blanket.

Most randomisers here give each report y a *support* S(y), the set of records that make y more
likely: ``R(y|x) = nu(y) g E^[x in S(y)]`` with ``E = exp(eps0)``, a law nu and
``g = 1 / (1 + (E - 1) s)``, where s is the probability under nu that a record is in the support. By
symmetry every pair of records is a worst pair. Only three properties of a report matter: whether
its support contains x0, x1, and a third record x2 that other users hold.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from shuffledp.accounting import calibrate
from shuffledp.accounting.blanket.atoms import (
    Atoms,
    excess,
    log_saddle_point,
)
from shuffledp.accounting.blanket.hidden_slot import exposure, hidden_slot_log_delta
from shuffledp.accounting.blanket.mean_excess import log_mean_excess_high, log_mean_excess_low
from shuffledp.accounting.composition import compose
from shuffledp.accounting.curve import Composable, SearchHints, UpperCurve
from shuffledp.accounting.rounds.profile import loss_of_curve
from shuffledp.accounting.rounds.tradeoff import gdp_to_log_delta
from shuffledp.accounting.setting import LARGEST_EPS0, Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT, Floats

Pattern = tuple[int, int, int]  # whether x0, x1 and x2 are in the support, each 0 or 1
# Relative error of the probabilities of patterns, in units of rounding.
PROBABILITY_UNITS = 64.0
# Largest increase of log delta that the splitting of atoms may cause, at the points from which a
# curve is composed. The spacing of the points has a larger effect. Computing time is inversely
# proportional to the square root of this number.
COMPOSED_LOG_TOLERANCE = 1e-3


class Randomiser(ABC):
    """A local randomiser with fixed parameters.

    Attributes
    ----------
    k
        Number of records.
    eps0
        Local budget: largest log-ratio of the probabilities of a report, rounded up; may be inf.
    """

    k: int
    eps0: float

    @property
    def horizon(self) -> float:
        """Smallest known finite eps beyond which delta is constant; eps0 if that is finite."""
        return self.eps0

    @abstractmethod
    def log_blanket(self, eps: float, n: int) -> float:
        """Return the privacy blanket's upper bound on log delta, which holds for every data set."""

    def log_blanket_coarse(self, eps: float, n: int) -> float:
        """Return a slightly larger bound than `log_blanket`, accurate enough for composition."""
        return self.log_blanket(eps, n)

    @abstractmethod
    def log_blanket_estimate(self, eps: float, n: int) -> float:
        """Return a cheap approximation of `log_blanket`."""

    @abstractmethod
    def homogeneous_laws(self, eps: float) -> tuple[Atoms, ...]:
        """Return the laws of G for data sets in which all other users hold the same record."""

    def log_hidden(self, eps: float, n: int, kappa: float, ceiling: float) -> float:
        """Return the upper bound on log delta of docs/hidden-slot.md for n >= 2 users.

        ``kappa`` is the probability with which each user is exposed, as defined there. ``ceiling``
        is a known upper bound on log delta; the result is never larger. By default it is returned.
        """
        del eps, n, kappa
        return ceiling

    def curve(self, setting: Setting, *, hidden_slot: bool = False) -> UpperCurve:
        """Return the certified privacy curve of the shuffled reports of n honest users.

        All users report in every round, with fresh randomness. The upper end holds for every data
        set, and some data set attains the lower end. See `upper_log_delta` for ``hidden_slot``.
        """
        n = setting.n

        def estimate(eps: float) -> float:
            return approximate_log_delta(eps, setting, self, hidden_slot=hidden_slot)

        once = UpperCurve(
            self.eps0,
            upper=lambda eps: upper_log_delta(eps, n, self, hidden_slot=hidden_slot),
            lower=lambda eps: lower_log_delta(eps, n, self),
            horizon=self.horizon,
            hints=SearchHints(estimate=estimate, xtol=calibrate.COARSE_XTOL),
        )
        if setting.rounds == 1:
            return once
        if not hidden_slot:

            @cache
            def coarse(eps: float) -> float:
                return min(self.log_blanket_coarse(eps, n), 0.0) if eps < self.eps0 else -np.inf

            points = replace(once, upper=coarse)
            once = replace(once, composable=Composable(loss=lambda: loss_of_curve(points)))
        return compose(once, setting.rounds)

    @abstractmethod
    def observe(self, counts: ArrayLike, rng: np.random.Generator) -> Floats:
        """Draw the analyst's observation from its exact law, without a loop over users.

        ``counts`` has the number of users with each record. The result is the number of reports
        that support each record; for a matrix, the number of reports of each column.
        """

    @abstractmethod
    def estimate(self, observed: ArrayLike, n: int) -> Floats:
        """Return unbiased estimates of the shares of n users, shape ``(..., k)``."""

    @abstractmethod
    def variance(self, shares: ArrayLike, n: float) -> Floats:
        """Return the variance of each estimated share, shape ``(..., k)`` like ``shares``."""


def _valid_eps(eps: float, n: int, randomiser: Randomiser) -> float:
    """Check eps and n; return an eps that has the same delta and a finite exponential."""
    if not (eps >= 0.0 and np.isfinite(eps)):
        raise InputError(f"eps must be at least 0 and finite, got eps={eps}")
    if not (n >= 1 and n == int(n)):
        raise InputError(f"n, the number of users, must be an integer >= 1, got n={n}")
    return min(float(eps), randomiser.horizon)


def upper_log_delta(
    eps: float, n: int, randomiser: Randomiser, *, hidden_slot: bool = False
) -> float:
    """Return an upper bound on log delta for every data set of n users and replacement of a record.

    It is the bound of the privacy blanket: the adversary also learns which other users drew their
    report from the part of R(.|x) that all records share. With ``hidden_slot`` it is the minimum of
    this and the bound of docs/hidden-slot.md, which nobody outside this project has reviewed.
    Raises `InputError` for an eps below 0 or an n below 1.
    """
    eps = _valid_eps(eps, n, randomiser)
    upper = _hidden_slot_upper if hidden_slot else _blanket_upper
    return upper(eps, int(n), randomiser)


@lru_cache(maxsize=64)
def _hidden_slot_upper(eps: float, n: int, randomiser: Randomiser) -> float:
    blanket = _blanket_upper(eps, n, randomiser)
    if n == 1 or blanket == -np.inf:
        return blanket
    return randomiser.log_hidden(
        eps, n, exposure(_attained_log_delta(eps, n, randomiser), n), blanket
    )


def _attained_log_delta(eps: float, n: int, randomiser: Randomiser) -> float:
    """Approximate the largest log delta of data sets in which all others hold the same record."""
    return max(log_saddle_point(atoms, n) for atoms in randomiser.homogeneous_laws(eps))


@lru_cache(maxsize=64)
def _blanket_upper(eps: float, n: int, randomiser: Randomiser) -> float:
    if eps >= randomiser.eps0:
        return -np.inf
    return min(randomiser.log_blanket(eps, n), 0.0)


def lower_log_delta(eps: float, n: int, randomiser: Randomiser) -> float:
    """Return a lower bound on log delta, which some data set of n users attains."""
    eps = _valid_eps(eps, n, randomiser)
    if eps >= randomiser.eps0:
        return -np.inf
    laws = randomiser.homogeneous_laws(eps)
    return log_mean_excess_low(max(laws, key=lambda atoms: log_saddle_point(atoms, n)), n)


def approximate_log_delta(
    eps: float, setting: Setting, randomiser: Randomiser, *, hidden_slot: bool = False
) -> float:
    """Return a cheap approximation of log delta of all rounds, as a starting point of searches.

    Over several rounds, the sum of the privacy losses is assumed to be normally distributed, with a
    standard deviation that follows from delta of one round at eps = 0. The result is not a bound.
    """
    if setting.rounds == 1:
        eps = min(eps, randomiser.horizon)
    if eps >= setting.rounds * randomiser.eps0:
        return -np.inf
    round_eps = eps if setting.rounds == 1 else 0.0
    if hidden_slot:
        log_delta = _attained_log_delta(round_eps, setting.n, randomiser)
    else:
        log_delta = randomiser.log_blanket_estimate(round_eps, setting.n)
    if setting.rounds == 1:
        return log_delta
    advantage = min(float(np.exp(log_delta)), 1.0 - 1e-9)
    deviation = 2.0 * float(ndtri(0.5 * (1.0 + advantage)))
    return float(gdp_to_log_delta(eps, deviation * np.sqrt(setting.rounds)))


def check_budget(eps0: float) -> None:
    """Raise `InputError` if a local budget is not positive, or too large for the accountant."""
    if not 0.0 < eps0 <= LARGEST_EPS0:
        raise InputError(f"eps0 must be positive and at most {LARGEST_EPS0:g}, got eps0={eps0:g}")


def check_cells(k: int) -> None:
    """Raise `InputError` if there are fewer than two cells."""
    if not (k >= 2 and k == int(k)):
        raise InputError(f"k, the number of cells, must be an integer >= 2, got k={k}")


class SupportRandomiser(Randomiser):
    """A randomiser whose reports have supports, as described in the module's docstring.

    Attributes
    ----------
    interchangeable
        Whether `patterns` holds for every third record x2 rather than only for some.
    """

    interchangeable: bool = False

    @property
    @abstractmethod
    def share(self) -> float:
        """Probability s under nu that a record is in the support."""

    @property
    @abstractmethod
    def patterns(self) -> Mapping[Pattern, float]:
        """Probabilities under nu of whether x0, x1 and x2 are in the support.

        For k = 2 the third indicator is 0.
        """

    @property
    def full_support_probability(self) -> float:
        """Probability under nu that all records are in the support, rounded down.

        Such reports carry no information. Rounding down is safe, because a privacy blanket may be
        smaller than the part of R(.|x) that all records share.
        """
        return 0.0

    @property
    def report_bytes(self) -> int:
        """Length of an encoded report; by default that of the number of a cell."""
        return 4

    @property
    def normaliser(self) -> float:
        """Normalising factor g of the probabilities of reports."""
        return float(1.0 / (1.0 + np.expm1(self.eps0) * self.share))

    @property
    def support_probabilities(self) -> tuple[float, float]:
        """Probabilities ``(p, q)`` that a report supports the user's record, and another record."""
        both = sum(b for (i, j, _), b in self.patterns.items() if i and j)
        other = sum(b for (i, j, _), b in self.patterns.items() if j and not i)
        g, exp_eps0 = self.normaliser, float(np.exp(self.eps0))
        return g * exp_eps0 * self.share, g * (exp_eps0 * both + other)

    def log_blanket(self, eps: float, n: int) -> float:
        return log_mean_excess_high(self.blanket(eps), n)

    def log_blanket_coarse(self, eps: float, n: int) -> float:
        return log_mean_excess_high(self.blanket(eps), n, COMPOSED_LOG_TOLERANCE)

    def log_blanket_estimate(self, eps: float, n: int) -> float:
        return log_saddle_point(self.blanket(eps), n)

    def blanket(self, eps: float) -> Atoms:
        """Return the law of G under the privacy blanket, which is at least ``g nu``."""
        pairs: dict[tuple[int, int], float] = {}
        for (i, j, _), probability in self.patterns.items():
            pairs[i, j] = pairs.get((i, j), 0.0) + probability
        pairs[1, 1] = max(pairs.get((1, 1), 0.0) - self.full_support_probability, 0.0)
        log_ratios = self.eps0 * np.array([*pairs, (0, 0)], np.float64)
        masses = np.append(list(pairs.values()), self.full_support_probability * np.exp(self.eps0))
        return self._atoms(log_ratios, masses, eps)

    def homogeneous_laws(self, eps: float) -> tuple[Atoms, ...]:
        """Return the laws of G for data sets in which all others hold x2, x0 or x1."""
        log_ratios = self.eps0 * np.array(list(self.patterns), np.float64)
        masses = np.array(list(self.patterns.values()))
        laws = []
        for held in (2, 0, 1) if self.k > 2 else (0, 1):
            others = log_ratios[:, held]
            laws.append(self._atoms(log_ratios - others[:, None], masses * np.exp(others), eps))
        return tuple(laws)

    def log_hidden(self, eps: float, n: int, kappa: float, ceiling: float) -> float:
        """Return the bound if it applies and records are interchangeable, otherwise the ceiling."""
        # For kappa near g, the unexposed part of the law outside the support is small, and G large.
        if not self.interchangeable or kappa > 0.5 * self.normaliser:
            return ceiling
        return hidden_slot_log_delta(self.slots(eps, kappa), n, kappa, ceiling)

    def slots(self, eps: float, kappa: float) -> tuple[Atoms, ...]:
        """Return the laws of G where another user holds x0, x1 or, for k > 2, another record."""
        log_ratios = self.eps0 * np.array(list(self.patterns), np.float64)
        masses = np.array(list(self.patterns.values()))
        laws = []
        for held in (0, 1, 2) if self.k > 2 else (0, 1):
            left = np.exp(log_ratios[:, held]) - kappa / self.normaliser
            law = self._atoms(log_ratios, masses * left, eps)
            # Rounding errors grow little, because the difference is at least half of the minuend.
            laws.append(Atoms(law.values / left, law.masses, 3.0 * law.units))
        return tuple(laws)

    def _atoms(self, log_ratios: Floats, masses: Floats, eps: float) -> Atoms:
        """Return the law of G from the logs of ``R(y|x0) / w(y)`` and ``R(y|x1) / w(y)``."""
        first, second = log_ratios[:, 0], log_ratios[:, 1]
        units = PROBABILITY_UNITS + 4.0 * (eps + self.eps0)
        return Atoms(excess(first, second, eps), self.normaliser * masses, units)

    def estimate(self, observed: ArrayLike, n: int) -> Floats:
        """Return unbiased shares from the numbers of reports that support each record."""
        p, q = self.support_probabilities
        return np.asarray((np.asarray(observed, np.float64) / n - q) / (p - q))

    def variance(self, shares: ArrayLike, n: float) -> Floats:
        """Return the variance of each share; counts are sums of Bernoulli variables (p or q)."""
        shares = np.asarray(shares, np.float64)
        p, q = self.support_probabilities
        spread = shares * p * (1.0 - p) + (1.0 - shares) * q * (1.0 - q)
        return np.asarray(spread / n / (p - q) ** 2)


class IndependentSupport(SupportRandomiser):
    """A randomiser whose support contains each record independently of the others."""

    interchangeable = True

    @property
    def patterns(self) -> Mapping[Pattern, float]:
        third = self.share if self.k > 2 else 0.0
        return {
            (i, j, m): (self.share if i else 1.0 - self.share)
            * (self.share if j else 1.0 - self.share)
            * (third if m else 1.0 - third)
            for i in (0, 1)
            for j in (0, 1)
            for m in (0, 1)
        }

    @property
    def full_support_probability(self) -> float:
        # The allowance exceeds the rounding error of the probability of (1, 1) in `blanket`.
        return float(self.share**self.k * (1.0 - 2.0 * (self.k + PROBABILITY_UNITS) * UNIT))

    def observe(self, counts: ArrayLike, rng: np.random.Generator) -> Floats:
        counts = np.asarray(counts, np.int64)
        p, q = self.support_probabilities
        return np.asarray(
            rng.binomial(counts, p) + rng.binomial(counts.sum() - counts, q), np.float64
        )
