"""True reports among uniform dummies that the users add.

Every user sends the true cell and, r times, a dummy with probability lambda / r, so lambda dummies
on average. A dummy is uniform over the k cells. `shuffledp.accounting.pairs.dummies` is the exact
dominating pair of the histogram under replacement of one record.
"""

from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting import pairs
from shuffledp.accounting.calibrate import COARSE_XTOL, NOISE_XTOL, guided_noise, smallest_integer
from shuffledp.accounting.composition import compose
from shuffledp.accounting.curve import Composable, UpperCurve
from shuffledp.accounting.laws.binomial import log_pmf
from shuffledp.accounting.rounds.privacy_loss import (
    LossDistribution,
    loss_of_pair,
    rounded_down,
)
from shuffledp.accounting.rounds.tradeoff import gdp_to_log_delta
from shuffledp.accounting.setting import LARGEST_EPS0, LARGEST_N, Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.estimators import additive_noise_estimators
from shuffledp.mechanisms.protocol import PerUser, RecordMechanism, envelope_bytes
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.numerics.posterior import NoiseLaw

# Likelihood ratios, which are about 1 / rate, times exp(eps) must not overflow.
SMALLEST_RATE = 1e-100


@dataclass(frozen=True)
class UserDummiesParameters:
    """Mean number lambda of a user's dummies, at least 1e-100 r, and the largest number r."""

    dummies: float
    chances: int

    def __post_init__(self) -> None:
        if not (self.chances >= 1 and self.chances == int(self.chances)):
            raise InputError(
                "chances, the largest number of dummies of a user, must be an integer >= 1, got "
                f"chances={self.chances}"
            )
        if not SMALLEST_RATE <= self.rate <= 1.0:
            raise InputError(
                f"dummies, the mean number of a user, must lie in [{SMALLEST_RATE:g} chances, "
                f"chances], got dummies={self.dummies}, chances={self.chances}"
            )

    @property
    def rate(self) -> float:
        """Probability with which each possible dummy is sent."""
        return self.dummies / self.chances

    def share(self, k: int) -> float:
        """Return the probability q that a possible dummy is sent and lies in a given cell of k."""
        return self.rate / k


def draw_dummies(chances: int, k: int, rate: float, rng: np.random.Generator) -> Integers:
    """Draw the histogram of the dummies of all users, shape ``(k,)``.

    Each of the ``chances`` possible dummies of all users together is sent with probability
    ``rate``.
    """
    return rng.multinomial(rng.binomial(chances, rate), np.full(k, 1.0 / k))


def _unbiased(reports: Floats, n: int, parameters: UserDummiesParameters) -> Floats:
    return np.asarray(reports / n - parameters.dummies / reports.shape[-1])


def _noise_law(n: int, k: int, parameters: UserDummiesParameters) -> NoiseLaw:
    """Return the law of the dummies of a cell, which is binomial."""
    chances, q = n * parameters.chances, parameters.share(k)
    sd = float(np.sqrt(chances * q * (1.0 - q)))
    return NoiseLaw(sd, lambda z: log_pmf(z, chances, q), round(chances * q))


class UserDummies(RecordMechanism[UserDummiesParameters]):
    """Mechanism in which users send their true cell and uniform dummies."""

    name = "user-dummies"
    form = UserDummiesParameters
    estimators = additive_noise_estimators(_unbiased, _noise_law)

    def _record_curve(self, parameters: UserDummiesParameters, setting: Setting) -> UpperCurve:
        """Return the exact privacy curve, rounded outwards.

        Over several rounds the upper end is about 1e-5 too large. The dominating pair of a round is
        the same for all data sets, so composition holds even if records change between rounds.
        """
        chances = setting.n * parameters.chances
        if chances >= LARGEST_N:
            raise InputError(
                f"n r, the largest number of dummies, must be below {LARGEST_N:,}, got "
                f"n={setting.n}, r={parameters.chances}"
            )
        no_dummy = (parameters.chances - parameters.dummies) / parameters.chances
        pair = pairs.dummies(chances, setting.k, parameters.rate, no_dummy)

        def upper(eps: float) -> float:
            # For larger eps, exp(eps) may overflow. Delta does not increase with eps.
            return min(pairs.hockey_stick(pair, min(eps, LARGEST_EPS0), "upper").high, 0.0)

        def lower(eps: float) -> float:
            return pairs.hockey_stick(pair, eps, "lower").low if eps <= LARGEST_EPS0 else -np.inf

        def down(step: float) -> list[LossDistribution]:
            return [rounded_down(pair, step)]

        once = UpperCurve(
            np.inf,
            upper=upper,
            lower=lower,
            composable=Composable(
                pair=pair, loss=lambda: replace(loss_of_pair(pair), down=(down,))
            ),
        )
        return compose(once, setting.rounds)

    def _calibrate_record(
        self, eps: float, log_delta: float, setting: Setting
    ) -> UserDummiesParameters:
        """Return the least r, and for it the least lambda, that meet the target."""
        if not log_delta < 0.0 or log_delta == -np.inf:
            raise InputError(
                f"delta must lie strictly between 0 and 1 for dummies by users, got log "
                f"delta={log_delta}; pure DP needs another mechanism"
            )

        def log_delta_of(dummies: float, chances: int) -> float:
            return self.curve(UserDummiesParameters(dummies, chances), setting).upper(eps)

        n = setting.n
        largest = (LARGEST_N - 1) // n

        def normal(dummies: float) -> float:
            """Return a central-limit approximation of log delta, the starting point of searches."""
            deviation = np.sqrt(2.0 * setting.k / (n * dummies) * setting.rounds)
            return float(gdp_to_log_delta(eps, deviation))

        start = guided_noise(normal, log_delta, float(largest), normal) or largest
        chances = smallest_integer(
            lambda r: log_delta_of(r, r) <= log_delta, 1, largest, ceil(start)
        )
        if chances is None:
            raise InputError(
                f"delta must be larger for dummies by users: {largest:,} dummies per user do not "
                f"meet the target, got eps={eps}, log delta={log_delta}, n={n}"
            )
        dummies = guided_noise(
            lambda dummies: log_delta_of(dummies, chances),
            log_delta,
            float(chances),
            normal,
            NOISE_XTOL if setting.rounds == 1 else COARSE_XTOL,
        )
        return UserDummiesParameters(dummies or float(chances), chances)

    def _draw(
        self, counts: Integers, parameters: UserDummiesParameters, rng: np.random.Generator
    ) -> Integers:
        chances = int(counts.sum()) * parameters.chances
        return counts + draw_dummies(chances, counts.size, parameters.rate, rng)

    def variance(self, shares: ArrayLike, n: float, parameters: UserDummiesParameters) -> Floats:
        """Return the variance of each share, due to a binomial number of dummies per cell."""
        q = parameters.share(np.shape(shares)[-1])
        return np.full(np.shape(shares), parameters.chances * q * (1.0 - q) / n)

    def per_user(self, n: int, k: int, parameters: UserDummiesParameters) -> PerUser:
        """Return messages, influence and upload of a user, whose dummies may all be of one cell."""
        del n, k
        messages = 1.0 + parameters.dummies
        return PerUser(
            messages=messages,
            moved_by_one=1.0 + parameters.chances,
            bytes_sent=envelope_bytes(messages),
        )
