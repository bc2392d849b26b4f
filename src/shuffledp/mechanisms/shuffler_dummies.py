"""True reports among dummies of the shuffler.

Every user sends the true cell. The shuffler adds a random number of dummies to every cell, from a
two-sided geometric law with its centre at nu and truncated to integers >= 0.
`shuffledp.accounting.geometric` computes the exact delta.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.calibrate import smallest_integer
from shuffledp.accounting.composition import compose
from shuffledp.accounting.curve import Composable, UpperCurve
from shuffledp.accounting.geometric import (
    check_centre,
    check_noise_eps,
    geometric_log_delta,
    geometric_loss,
)
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.discrete_laplace import (
    DiscreteLaplace,
    NoiseMoments,
    draw_noise,
    noise_moments,
)
from shuffledp.mechanisms.estimators import additive_noise_estimators
from shuffledp.mechanisms.protocol import PerUser, RecordMechanism, calibrate_rounds_by_search
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.numerics.posterior import NoiseLaw

MAX_NU = 2**53
# Share of the delta of several rounds that truncation of the noise at 0 may use. A smaller share
# needs more dummies, and a larger one slightly more noise.
TRUNCATION_SHARE = 0.1


def check_nu(nu: int) -> None:
    """Raise `InputError` unless a cell's most likely number of dummies is from 0 to 2^53."""
    check_centre(nu)
    if nu > MAX_NU:
        raise InputError(f"nu must be an integer from 0 to 2^53, got nu={nu}")


@dataclass(frozen=True)
class ShufflerDummiesParameters:
    """Law of the number of a cell's dummies: theta = exp(-eps/2), and the most likely number nu."""

    eps: float
    nu: int

    def __post_init__(self) -> None:
        check_noise_eps(self.eps)
        check_nu(self.nu)

    @property
    def moments(self) -> NoiseMoments:
        """Moments of the number of a cell's dummies."""
        return noise_moments(self.eps, self.nu)


def _unbiased(reports: Floats, n: int, parameters: ShufflerDummiesParameters) -> Floats:
    return np.asarray((reports - parameters.moments.mean) / n)


def _noise_law(n: int, k: int, parameters: ShufflerDummiesParameters) -> NoiseLaw:
    del n, k

    def log_weight(z: Floats) -> Floats:
        return np.where(z >= 0.0, -0.5 * parameters.eps * np.abs(z - parameters.nu), -np.inf)

    return NoiseLaw(float(np.sqrt(parameters.moments.variance)), log_weight, parameters.nu)


def fewest_dummies(
    meets_target: Callable[[int], bool], eps: float, log_delta: float, start: int | None = None
) -> int:
    """Return the smallest nu that meets the target; raise `InputError` if none does."""
    nu = smallest_integer(meets_target, 0, MAX_NU, start)
    if nu is None:
        raise InputError(
            f"delta must be larger for dummies by the shuffler: 2^53 dummies per cell do not keep "
            f"the target, got eps={eps}, log delta={log_delta}"
        )
    return nu


class ShufflerDummies(RecordMechanism[ShufflerDummiesParameters]):
    """Mechanism in which users send their true cell, and the shuffler adds dummies."""

    name = "shuffler-dummies"
    form = ShufflerDummiesParameters
    estimators = additive_noise_estimators(_unbiased, _noise_law)

    def _record_curve(self, parameters: ShufflerDummiesParameters, setting: Setting) -> UpperCurve:
        """Return the exact privacy curve of all rounds, rounded outwards."""
        once = UpperCurve(
            np.inf,
            upper=lambda eps: geometric_log_delta(eps, parameters.eps, parameters.nu).high,
            lower=lambda eps: geometric_log_delta(eps, parameters.eps, parameters.nu).low,
            horizon=parameters.eps,  # all finite losses are at most this
            composable=Composable(loss=lambda: geometric_loss(parameters.eps, parameters.nu)),
        )
        return compose(once, setting.rounds)

    def _calibrate_record(
        self, eps: float, log_delta: float, setting: Setting
    ) -> ShufflerDummiesParameters:
        """Return nearly the least noise that meets the target, and the fewest dummies for it.

        For one round the parameter eps is that of the target.
        """
        check_noise_eps(eps)
        if np.isnan(log_delta):
            raise InputError("delta must be a number, got log delta=nan")
        if setting.rounds == 1:
            return ShufflerDummiesParameters(
                eps,
                fewest_dummies(
                    lambda nu: geometric_log_delta(eps, eps, nu).high <= log_delta, eps, log_delta
                ),
            )
        if not -np.inf < log_delta < 0.0:
            return calibrate_rounds_by_search(self, eps, log_delta, setting)
        # Noise without truncation is calibrated to most of delta; truncation uses the rest.
        target = log_delta + float(np.log1p(-TRUNCATION_SHARE))
        noise_eps = DiscreteLaplace().calibrate(eps, target, setting).eps

        def meets_target(nu: int) -> bool:
            return (
                self.curve(ShufflerDummiesParameters(noise_eps, nu), setting).upper(eps)
                <= log_delta
            )

        likely_nu = 2.0 * float(np.log(setting.rounds / TRUNCATION_SHARE) - log_delta) / noise_eps
        return ShufflerDummiesParameters(
            noise_eps, fewest_dummies(meets_target, eps, log_delta, min(int(likely_nu), MAX_NU))
        )

    def _draw(
        self, counts: Integers, parameters: ShufflerDummiesParameters, rng: np.random.Generator
    ) -> Floats:
        return np.asarray(counts + draw_noise(counts.size, parameters.eps, rng, parameters.nu))

    def variance(
        self, shares: ArrayLike, n: float, parameters: ShufflerDummiesParameters
    ) -> Floats:
        """Return the variance of each share, which is the same for all."""
        return np.full(np.shape(shares), parameters.moments.variance / n**2)

    def expected_distance(
        self, shares: ArrayLike, n: float, parameters: ShufflerDummiesParameters
    ) -> Floats:
        """Return the expected distance from the noise's exact mean absolute deviation.

        With normal noise of the same variance it would be 13 % larger.
        """
        shape, k = np.shape(shares)[:-1], np.shape(shares)[-1]
        return np.full(shape, 0.5 * k * parameters.moments.absolute_error / n)

    def per_user(self, n: int, k: int, parameters: ShufflerDummiesParameters) -> PerUser:
        """Count one true report and a user's share of the shuffler's dummies as messages."""
        return PerUser(messages=1.0 + k * parameters.moments.mean / n)
