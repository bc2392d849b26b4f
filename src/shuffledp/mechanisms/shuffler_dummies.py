"""True reports among dummies of the shuffler.

Every user sends the true cell. The shuffler adds a random number of dummies to every cell, from a
two-sided geometric law with its centre at nu and truncated to integers >= 0.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from shuffledp.accounting.additive import MAX_NU, GeometricNoise, check_nu
from shuffledp.accounting.calibrate import smallest_integer
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.additive_noise import AdditiveMechanism
from shuffledp.mechanisms.discrete_laplace import DiscreteLaplace

# Share of the delta of several rounds that truncation of the noise at 0 may use. A smaller share
# needs more dummies, and a larger one slightly more noise.
TRUNCATION_SHARE = 0.1


@dataclass(frozen=True)
class ShufflerDummiesParameters:
    """Law of the number of a cell's dummies: theta = exp(-eps/2), and the most likely number nu."""

    eps: float
    nu: int

    def __post_init__(self) -> None:
        check_nu(self.nu)
        self.noise()  # checks eps

    def noise(self) -> GeometricNoise:
        """Return the law of the number of a cell's dummies."""
        return GeometricNoise(self.eps, nu=self.nu)


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


class ShufflerDummies(AdditiveMechanism[ShufflerDummiesParameters]):
    """Mechanism in which users send their true cell, and the shuffler adds dummies."""

    name = "shuffler-dummies"
    form = ShufflerDummiesParameters

    def _calibrate_record(
        self, eps: float, log_delta: float, setting: Setting
    ) -> ShufflerDummiesParameters:
        """Return nearly the least noise that meets the target, and the fewest dummies for it.

        For one round the parameter eps is that of the target.
        """
        if np.isnan(log_delta):
            raise InputError("delta must be a number, got log delta=nan")
        # Over several rounds, noise without truncation is calibrated to most of delta; truncation
        # uses the rest.
        share = TRUNCATION_SHARE if setting.rounds > 1 else 0.0
        target = min(log_delta, 0.0) + float(np.log1p(-share))
        noise_eps = DiscreteLaplace().calibrate(eps, target, setting).eps
        log_inverse = float(np.log(setting.rounds / TRUNCATION_SHARE)) - log_delta
        likely_nu = int(min(max(2.0 * log_inverse / noise_eps, 0.0), MAX_NU))

        def meets_target(nu: int) -> bool:
            curve = GeometricNoise(noise_eps, nu=nu).curve(setting.rounds)
            return curve.upper(eps) <= log_delta

        return ShufflerDummiesParameters(
            noise_eps, fewest_dummies(meets_target, eps, log_delta, likely_nu)
        )
