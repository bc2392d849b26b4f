"""True reports and dummies of the shuffler, whose numbers are truncated two-sided geometric.

The shuffler independently draws a number of dummies for every cell;
`shuffledp.accounting.geometric` has the law and the exact delta.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.calibrate import smallest_integer
from shuffledp.accounting.composition import compose
from shuffledp.accounting.curve import Composable, UpperCurve
from shuffledp.accounting.geometric import (
    check_budget,
    check_centre,
    geometric_loss,
    geometric_noise,
)
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.discrete_laplace import (
    DiscreteLaplace,
    NoiseMoments,
    draw_noise,
    noise_moments,
)
from shuffledp.mechanisms.estimators import raw_and_projected
from shuffledp.mechanisms.protocol import Mechanism, PerUser, calibrate_rounds_by_search
from shuffledp.numerics.arrays import Floats

MAX_NU = 2**53
# Share of delta, over several rounds, for the truncation of the noise at 0. A smaller share means
# more dummies, and a larger one slightly more noise.
TRUNCATION_SHARE = 0.1


@dataclass(frozen=True)
class ShufflerDummiesParameters:
    """Law of each cell's dummies: theta = exp(-eps/2), and the most likely number nu.

    Raises
    ------
    InputError
        If eps is not positive and finite, or nu is not an integer from 0 to 2^53.
    """

    eps: float
    nu: int

    def __post_init__(self) -> None:
        check_budget(self.eps)
        check_centre(self.nu)
        if self.nu > MAX_NU:
            raise InputError(f"nu must be an integer from 0 to 2^53 (got nu={self.nu})")

    @property
    def moments(self) -> NoiseMoments:
        """Moments of the number of a cell's dummies."""
        return noise_moments(self.eps, self.nu)


def _unbiased(reports: Floats, n: int, parameters: ShufflerDummiesParameters) -> Floats:
    return np.asarray((reports - parameters.moments.mean) / n)


def _fewest_dummies(
    meets: Callable[[int], bool], eps: float, log_delta: float, start: int | None = None
) -> int:
    nu = smallest_integer(meets, 0, MAX_NU, start)
    if nu is None:
        raise InputError(
            f"delta must be larger for dummies by the shuffler: 2^53 dummies per cell do not keep "
            f"the target (got eps={eps}, log delta={log_delta})"
        )
    return nu


class ShufflerDummies(Mechanism[ShufflerDummiesParameters]):
    """Mechanism in which users send their true cell, and the shuffler adds dummies."""

    name = "shuffler-dummies"
    form = ShufflerDummiesParameters
    estimators = raw_and_projected(_unbiased)

    def curve(self, parameters: ShufflerDummiesParameters, setting: Setting) -> UpperCurve:
        """Return the exact curve of all rounds, rounded outwards."""
        once = UpperCurve(
            np.inf,
            upper=lambda eps: geometric_noise(eps, parameters.eps, parameters.nu).high,
            lower=lambda eps: geometric_noise(eps, parameters.eps, parameters.nu).low,
            horizon=parameters.eps,  # all finite losses are at most this
            composable=Composable(loss=lambda: geometric_loss(parameters.eps, parameters.nu)),
        )
        return compose(once, setting.rounds)

    def calibrate(
        self, eps: float, log_delta: float, setting: Setting
    ) -> ShufflerDummiesParameters:
        """Return nearly the least noise that keeps the target, with the fewest dummies.

        For one round the parameter eps is the target's.
        """
        check_budget(eps)
        if np.isnan(log_delta):
            raise InputError("delta must be a number (got log delta=nan)")
        if setting.rounds == 1:
            return ShufflerDummiesParameters(
                eps,
                _fewest_dummies(
                    lambda nu: geometric_noise(eps, eps, nu).high <= log_delta, eps, log_delta
                ),
            )
        if not -np.inf < log_delta < 0.0:
            return calibrate_rounds_by_search(self, eps, log_delta, setting)
        # The untruncated noise is calibrated to most of delta; truncation takes the rest.
        target = log_delta + float(np.log1p(-TRUNCATION_SHARE))
        noise_eps = DiscreteLaplace().calibrate(eps, target, setting).eps

        def meets(nu: int) -> bool:
            return (
                self.curve(ShufflerDummiesParameters(noise_eps, nu), setting).upper(eps)
                <= log_delta
            )

        likely_nu = 2.0 * float(np.log(setting.rounds / TRUNCATION_SHARE) - log_delta) / noise_eps
        return ShufflerDummiesParameters(
            noise_eps, _fewest_dummies(meets, eps, log_delta, min(int(likely_nu), MAX_NU))
        )

    def observe(
        self,
        counts: ArrayLike,
        parameters: ShufflerDummiesParameters,
        rng: np.random.Generator,
        repetitions: int = 1,
    ) -> Floats:
        """Draw histograms of reports and dummies."""
        counts = np.asarray(counts, dtype=np.int64)
        noise = [self.noise(counts.size, parameters, rng) for _ in range(repetitions)]
        return np.asarray(counts + np.stack(noise), dtype=np.float64)

    def noise(
        self, k: int, parameters: ShufflerDummiesParameters, rng: np.random.Generator
    ) -> Floats:
        """Draw the noise of a release, here the dummies, shape ``(k,)``.

        Parameters
        ----------
        k
            Number of cells.
        parameters
            Law of the dummies.
        rng
            Source of randomness.
        """
        return draw_noise(k, parameters.eps, rng, parameters.nu)

    def variance(
        self, shares: ArrayLike, n: float, parameters: ShufflerDummiesParameters
    ) -> Floats:
        """Return the variance of each share, which is the same for all."""
        return np.full(np.shape(shares), parameters.moments.variance / n**2)

    def expected_distance(
        self, shares: ArrayLike, n: float, parameters: ShufflerDummiesParameters
    ) -> Floats:
        """Return the distance from the exact mean absolute error.

        For a normal law of the same variance it would be 13 % larger.
        """
        shape, k = np.shape(shares)[:-1], np.shape(shares)[-1]
        return np.full(shape, 0.5 * k * parameters.moments.absolute_error / n)

    def per_user(self, n: int, k: int, parameters: ShufflerDummiesParameters) -> PerUser:
        """Return one true report and a user's share of the shuffler's dummies."""
        return PerUser(messages=1.0 + k * parameters.moments.mean / n)
