"""What a local randomiser answers: its budget, its certified ends, its estimator.

Most randomisers here give each report y a *support* S(y), the records it speaks for, and are
``R(y|x) = nu(y) g E^[x in S(y)]`` with ``E = exp(eps0)``, a law nu and ``g = 1 / (1 + (E - 1) s)``,
s the chance under nu that a record is in the support. By symmetry every pair of records is a worst
one, and of a report only three things matter: whether the two records that the target may hold,
and one that others hold, are in its support.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting import calibrate
from shuffledp.accounting.blanket.atoms import Atoms, excess, log_chernoff, log_saddle_point
from shuffledp.accounting.blanket.hidden_slot import exposure, hidden_slot_log_delta
from shuffledp.accounting.blanket.mean_excess import log_mean_excess_high, log_mean_excess_low
from shuffledp.accounting.conventions import Side, log_delta_values
from shuffledp.accounting.laws.multinomial import LogInterval
from shuffledp.accounting.setting import LARGEST_EPS0
from shuffledp.arrays import Floats
from shuffledp.errors import InputError

Pattern = tuple[int, int, int]
# Relative error of the chances of patterns, in units of rounding.
_CHANCE_UNITS = 64.0


class Randomiser(ABC):
    """A randomiser: a frozen object of its parameters.

    Attributes
    ----------
    k
        Number of records.
    eps0
        Local budget: the largest log-ratio of the chances of a report.
    """

    k: int
    eps0: float

    @abstractmethod
    def blanket(self, eps: float) -> tuple[Atoms, ...]:
        """Laws of which one bounds every data set: one for each pair of records that matters."""

    @abstractmethod
    def alike(self, eps: float) -> tuple[Atoms, ...]:
        """Laws of single data sets, in which all other users hold one record."""

    def slots(self, eps: float, kappa: float) -> tuple[Atoms, ...]:
        """Laws of the slots of users who hold x0, x1 and anything else (docs/hidden-slot.md).

        Parameters
        ----------
        eps
            Central budget.
        kappa
            Probability with which a user is exposed.

        Returns
        -------
        Three, or none: by default, and where kappa is too large.
        """
        del eps, kappa
        return ()

    @abstractmethod
    def observe(self, counts: ArrayLike, rng: np.random.Generator) -> Floats:
        """What the analyst counts, from its exact law without a loop over users.

        Parameters
        ----------
        counts
            Users of each record, shape ``(k,)``.
        rng
            Source of randomness.

        Returns
        -------
        Reports that speak for each record, shape ``(k,)``; of a matrix, reports of each column.
        """

    @abstractmethod
    def estimate(self, observed: ArrayLike, n: int) -> Floats:
        """Unbiased shares, shape ``(..., k)``, of n users from what `observe` returns."""

    @abstractmethod
    def variance(self, shares: ArrayLike, n: float) -> Floats:
        """Variance of each estimated share; shape of ``shares``, ``(..., k)``."""


def _check(eps: float, n: int) -> None:
    if not (eps >= 0.0 and np.isfinite(eps)):
        raise InputError(f"eps must be at least 0 and finite (got eps={eps})")
    if not (n >= 1 and n == int(n)):
        raise InputError(f"n must be a whole number of users, at least 1 (got n={n})")


def upper_log_delta(
    eps: float, n: int, randomiser: Randomiser, *, hidden_slot: bool = False
) -> float:
    """Natural log of a delta that holds for every data set of n users (replacement), rounded up.

    The privacy blanket: the analyst is told which other users drew from what all records share.
    With ``hidden_slot`` the smaller one of that and of the bound of docs/hidden-slot.md, which
    nobody outside this project has reviewed. Raises `InputError` for an eps below 0 or an n
    below 1.
    """
    _check(eps, n)
    find = _hidden if hidden_slot else _upper
    return find(float(eps), int(n), randomiser)


@lru_cache(maxsize=64)
def _hidden(eps: float, n: int, randomiser: Randomiser) -> float:
    blanket = _upper(eps, n, randomiser)
    if n == 1 or blanket == -np.inf:
        return blanket
    leaked = max(log_saddle_point(atoms, n) for atoms in randomiser.alike(eps))
    kappa = exposure(leaked, n)
    kinds = randomiser.slots(eps, kappa)
    return hidden_slot_log_delta(kinds, n, kappa, blanket) if kinds else blanket


@lru_cache(maxsize=64)
def _upper(eps: float, n: int, randomiser: Randomiser) -> float:
    if eps >= randomiser.eps0:
        return -np.inf
    laws = randomiser.blanket(eps)
    best = -np.inf
    for atoms in sorted(laws, key=lambda atoms: -log_saddle_point(atoms, n)):
        if len(laws) == 1 or log_chernoff(atoms, n) > best:
            best = max(best, log_mean_excess_high(atoms, n))
    return min(best, 0.0)


def lower_log_delta(eps: float, n: int, randomiser: Randomiser) -> float:
    """Natural log of a delta that some data set of n users leaks, rounded down; else as above."""
    _check(eps, n)
    if eps >= randomiser.eps0:
        return -np.inf
    laws = randomiser.alike(eps)
    return log_mean_excess_low(max(laws, key=lambda atoms: log_saddle_point(atoms, n)), n)


def log_delta(
    eps: float, n: int, randomiser: Randomiser, *, hidden_slot: bool = False
) -> LogInterval:
    """Enclose the natural log of delta at eps, for n users and the replacement of one record.

    Parameters
    ----------
    eps
        Central budget, at least 0.
    n
        Number of users, one report each.
    randomiser
        What each of them applies.
    hidden_slot
        As for `upper_log_delta`.

    Returns
    -------
    ``high`` holds for every data set, ``low`` is what some data set leaks; -inf from eps0 on.

    Raises
    ------
    InputError
        If eps is negative or n is below 1.
    """
    high = upper_log_delta(eps, n, randomiser, hidden_slot=hidden_slot)
    return LogInterval(lower_log_delta(eps, n, randomiser), high)


def epsilon(log_delta: float, n: int, randomiser: Randomiser) -> tuple[float, float]:
    """Enclose the smallest eps for a natural log of delta, at most 0, between two ends.

    The lower is that of some data set, the upper holds for every one; in ``[0, eps0]``. Raises
    `InputError` if the log of delta is above 0 or n is below 1.
    """
    target = float(log_delta_values(log_delta))
    _check(0.0, n)

    def end(of: Callable[[float, int, Randomiser], float], side: Side) -> float:
        return calibrate.led_epsilon(
            lambda eps: of(eps, n, randomiser),
            target,
            randomiser.eps0,
            side,
            lambda eps: lead_log_delta(eps, n, randomiser),
            calibrate.COARSE_XTOL,
        )

    return end(lower_log_delta, "lower"), end(upper_log_delta, "upper")


def lead_log_delta(eps: float, n: int, randomiser: Randomiser) -> float:
    """About `upper_log_delta`, at once."""
    if eps >= randomiser.eps0:
        return -np.inf
    return max(log_saddle_point(atoms, n) for atoms in randomiser.blanket(eps))


def check_budget(eps0: float) -> None:
    """Refuse a local budget that is not positive, or too large for the accountant.

    Raises
    ------
    InputError
        Saying so.
    """
    if not 0.0 < eps0 <= LARGEST_EPS0:
        raise InputError(f"eps0 must be positive and at most {LARGEST_EPS0:g} (got eps0={eps0:g})")


def check_cells(k: int) -> None:
    """Refuse fewer than two records.

    Raises
    ------
    InputError
        Saying so.
    """
    if not (k >= 2 and k == int(k)):
        raise InputError(f"k must be a whole number of cells, at least 2 (got k={k})")


class SupportRandomiser(Randomiser):
    """A randomiser whose reports have supports; see the module.

    Attributes
    ----------
    interchangeable
        Whether `patterns` holds for every third record x2, not only for some.
    """

    interchangeable: bool = False

    @property
    @abstractmethod
    def share(self) -> float:
        """Chance s under nu that a record is in the support."""

    @property
    @abstractmethod
    def patterns(self) -> Mapping[Pattern, float]:
        """Chances under nu that (x0, x1, x2) are in the support, or not; of k = 2 x2 never is."""

    @property
    def everywhere(self) -> float:
        """Chance under nu that all records are in the support: such a report says nothing."""
        return 0.0

    @property
    def likelihood(self) -> float:
        """The factor g."""
        return float(1.0 / (1.0 + np.expm1(self.eps0) * self.share))

    @property
    def chances(self) -> tuple[float, float]:
        """Chances ``(p, q)`` that a report speaks for the user's own record, and for another."""
        both = sum(b for (i, j, _), b in self.patterns.items() if i and j)
        other = sum(b for (i, j, _), b in self.patterns.items() if j and not i)
        g, grown = self.likelihood, float(np.exp(self.eps0))
        return g * grown * self.share, g * (grown * both + other)

    def blanket(self, eps: float) -> tuple[Atoms, ...]:
        """One law, of the blanket ``g nu`` and what is more where the support is everywhere."""
        pairs: dict[tuple[int, int], float] = {}
        for (i, j, _), chance in self.patterns.items():
            pairs[i, j] = pairs.get((i, j), 0.0) + chance
        pairs[1, 1] = max(pairs.get((1, 1), 0.0) - self.everywhere, 0.0)
        log_ratios = self.eps0 * np.array(list(pairs), np.float64)
        values = np.append(excess(log_ratios[:, 0], log_ratios[:, 1], eps), excess(0.0, 0.0, eps))
        masses = np.append(list(pairs.values()), self.everywhere * np.exp(self.eps0))
        return (self._atoms(values, masses, eps),)

    def alike(self, eps: float) -> tuple[Atoms, ...]:
        """All others hold a third record; or that of the target, or the one it is compared with."""
        patterns = np.array(list(self.patterns), np.float64)
        chances = np.array(list(self.patterns.values()))
        log_ratios = self.eps0 * patterns
        laws = []
        for held in (2, 0, 1) if self.k > 2 else (0, 1):
            others = log_ratios[:, held]
            values = excess(log_ratios[:, 0] - others, log_ratios[:, 1] - others, eps)
            laws.append(self._atoms(values, chances * np.exp(others), eps))
        return tuple(laws)

    def slots(self, eps: float, kappa: float) -> tuple[Atoms, ...]:
        """Of interchangeable records; exposed reports have the law nu. Of k = 2 the last is x1."""
        g = self.likelihood
        # Nearer to g, what is left of a report outside the support is small, and its G large.
        if not self.interchangeable or kappa > 0.5 * g:
            return ()
        patterns = np.array(list(self.patterns), np.float64)
        chances = np.array(list(self.patterns.values()))
        log_ratios = self.eps0 * patterns
        gains = excess(log_ratios[:, 0], log_ratios[:, 1], eps)
        laws = []
        for held in (0, 1, 2) if self.k > 2 else (0, 1, 1):
            left = np.exp(log_ratios[:, held]) - kappa / g
            laws.append(
                self._atoms(np.append(gains / left, 0.0), np.append(chances * left, kappa / g), eps)
            )
        return tuple(laws)

    def _atoms(self, values: Floats, chances: Floats, eps: float) -> Atoms:
        units = _CHANCE_UNITS + 4.0 * (eps + self.eps0)
        return Atoms(values, self.likelihood * chances, units)

    def estimate(self, observed: ArrayLike, n: int) -> Floats:
        """Shares by inversion: reports that speak for a record, less those that would anyway."""
        p, q = self.chances
        return np.asarray((np.asarray(observed, np.float64) / n - q) / (p - q))

    def variance(self, shares: ArrayLike, n: float) -> Floats:
        """A record's reports are a sum of Bernoulli variables: p for its holders, else q."""
        shares = np.asarray(shares, np.float64)
        p, q = self.chances
        spread = shares * p * (1.0 - p) + (1.0 - shares) * q * (1.0 - q)
        return np.asarray(spread / n / (p - q) ** 2)


class IndependentSupport(SupportRandomiser):
    """A randomiser of whose reports each record is in the support on its own."""

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
    def everywhere(self) -> float:
        return float(self.share**self.k)

    def observe(self, counts: ArrayLike, rng: np.random.Generator) -> Floats:
        counts = np.asarray(counts, np.int64)
        p, q = self.chances
        return np.asarray(
            rng.binomial(counts, p) + rng.binomial(counts.sum() - counts, q), np.float64
        )
