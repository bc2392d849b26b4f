"""True reports to which the shuffler adds dummies, and the analyst adds noise.

Reports are encrypted for the analyst. The shuffler's dummies hide a record from the analyst, as in
`shuffler_dummies`. Since the shuffler knows its dummies and reads the published histogram, the
analyst adds noise, which hides the record from the shuffler. The public sees both noises together
(docs/choosing.md).

Both noises have the same shape: two-sided geometric (discrete Laplace) or discrete Gaussian.
Geometric noise has the smaller error for few rounds, Gaussian noise for many (docs/choosing.md).
Calibration chooses the shape; the class of the parameters tells which it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from shuffledp.accounting.additive import MAX_SIGMA, MIN_SIGMA, GaussianNoise, check_nu
from shuffledp.accounting.calibrate import COARSE_XTOL, guided_noise
from shuffledp.accounting.rounds.tradeoff import gdp_upper_log_delta
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.additive_noise import AdditiveMechanism
from shuffledp.mechanisms.gaussian import HISTOGRAM_SENSITIVITY
from shuffledp.mechanisms.shuffler_dummies import (
    TRUNCATION_SHARE,
    ShufflerDummies,
    ShufflerDummiesParameters,
    fewest_dummies,
)

# Smallest log delta that Gaussian noise is calibrated to. Its computed laws leave out about
# exp(-700), which is added to delta.
MIN_GAUSSIAN_LOG_DELTA = -600.0


@dataclass(frozen=True)
class GaussianServersParameters:
    """Discrete Gaussian law of both noises: sigma, and the most likely number nu of dummies.

    The number of a cell's dummies is conditioned on being at least 0. sigma is from 0.1 to 10,000.
    """

    sigma: float
    nu: int

    def __post_init__(self) -> None:
        check_nu(self.nu)
        self.noise()  # checks sigma

    def noise(self) -> GaussianNoise:
        """Return the law of the number of a cell's dummies."""
        return GaussianNoise(self.sigma, nu=self.nu)


ServersParameters = ShufflerDummiesParameters | GaussianServersParameters


class TwoServers(AdditiveMechanism[ServersParameters]):
    """Mechanism in which shuffler and analyst each add noise of the same shape and scale.

    `curve` holds against the analyst. For calibrated parameters, delta against any other single
    party is at most as large.
    """

    name = "two-servers"
    servers = 2
    form = ShufflerDummiesParameters
    other_forms = (GaussianServersParameters,)
    shapes: Mapping[type[ServersParameters], str] = {
        ShufflerDummiesParameters: "discrete Laplace",
        GaussianServersParameters: "discrete Gaussian",
    }

    def _calibrate_record(
        self, eps: float, log_delta: float, setting: Setting
    ) -> ServersParameters:
        """Return the noise of the shape with the smaller error, and the fewest dummies for it.

        For one round, the parameter eps of geometric noise is that of the target.
        """
        geometric = ShufflerDummies().calibrate(eps, log_delta, setting)
        largest = float(np.sqrt(geometric.noise().alone().variance))
        gaussian = _calibrated_gaussian(eps, log_delta, setting, largest)
        if gaussian is None or self._variance(geometric) <= self._variance(gaussian):
            return geometric
        return gaussian

    def _variance(self, parameters: ServersParameters) -> float:
        return self.noise(parameters).variance


def _calibrated_gaussian(
    eps: float, log_delta: float, setting: Setting, largest: float
) -> GaussianServersParameters | None:
    """Return Gaussian noise with sigma up to ``largest``; None if no such noise meets the target.

    Noise without truncation is calibrated to most of delta; then nu is raised until truncated noise
    meets the target.
    """
    largest = min(largest, MAX_SIGMA)
    if not MIN_GAUSSIAN_LOG_DELTA < log_delta < 0.0 or largest < MIN_SIGMA:
        return None

    def estimate(sigma: float) -> float:
        """Return log delta of continuous Gaussian noise."""
        sensitivity = HISTOGRAM_SENSITIVITY * float(np.sqrt(setting.rounds))
        return gdp_upper_log_delta(eps, sensitivity / sigma)

    if estimate(largest) > log_delta:
        return None  # geometric noise has the smaller error

    @cache
    def composed(sigma: float, nu: float = np.inf) -> float:
        if sigma < MIN_SIGMA:
            return 0.0
        return GaussianNoise(sigma, nu=nu).curve(setting.rounds).upper(eps)

    target = log_delta + float(np.log1p(-TRUNCATION_SHARE))
    sigma = guided_noise(composed, target, largest, estimate, COARSE_XTOL)
    if sigma is None:
        return None
    log_inverse = float(np.log(setting.rounds / TRUNCATION_SHARE / sigma)) - log_delta
    likely_nu = int(sigma * np.sqrt(2.0 * max(log_inverse, 0.0)))
    nu = fewest_dummies(lambda nu: composed(sigma, nu) <= log_delta, eps, log_delta, likely_nu)
    return GaussianServersParameters(sigma, nu)
