"""True reports to which the shuffler adds dummies, and the analyst adds noise.

Reports are encrypted for the analyst. The shuffler's dummies hide a record from the analyst, as in
`shuffler_dummies`. Since the shuffler knows its dummies and reads the published histogram, the
analyst adds noise, which hides the record from the shuffler. The public sees both noises together
(docs/choosing.md).

Both noises have the same shape: two-sided geometric (discrete Laplace) or discrete Gaussian.
Geometric noise has the smaller error for few rounds, Gaussian noise for many (docs/rounds.md).
Calibration chooses the shape; the class of the parameters tells which it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.calibrate import COARSE_XTOL, guided_noise
from shuffledp.accounting.composition import compose
from shuffledp.accounting.curve import Composable, UpperCurve
from shuffledp.accounting.discrete_gaussian import (
    MAX_SIGMA,
    MIN_SIGMA,
    CellLaw,
    DiscreteGaussianNoise,
    check_sigma,
)
from shuffledp.accounting.geometric import BothNoises
from shuffledp.accounting.rounds.tradeoff import gdp_upper_log_delta
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.discrete_laplace import (
    DiscreteLaplace,
    DiscreteLaplaceParameters,
    NoiseMoments,
    draw_noise,
    noise_moments,
)
from shuffledp.mechanisms.estimators import additive_noise_estimators
from shuffledp.mechanisms.gaussian import HISTOGRAM_SENSITIVITY
from shuffledp.mechanisms.protocol import PerUser, RecordMechanism, expected_distance
from shuffledp.mechanisms.shuffler_dummies import (
    TRUNCATION_SHARE,
    ShufflerDummies,
    ShufflerDummiesParameters,
    check_nu,
    fewest_dummies,
)
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.numerics.posterior import NoiseLaw

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
        check_sigma(self.sigma)
        check_nu(self.nu)

    @property
    def moments(self) -> NoiseMoments:
        """Moments of the number of a cell's dummies."""
        return _moments(_gaussian(self.sigma, self.nu).law, self.nu)


ServersParameters = ShufflerDummiesParameters | GaussianServersParameters


class _GeometricServers:
    """Two-sided geometric noise of both servers."""

    def __init__(self, parameters: ShufflerDummiesParameters) -> None:
        self._parameters = parameters
        self._both = BothNoises(parameters.eps, parameters.nu)
        self.analyst_moments = noise_moments(parameters.eps)

    def curve(self, view: str, setting: Setting) -> UpperCurve:
        """Return the curve of the view ``analyst``, ``shuffler`` or ``public`` after all rounds."""
        if view == "analyst":
            return ShufflerDummies().curve(self._parameters, setting)
        budget, both = self._parameters.eps, self._both
        shuffler = DiscreteLaplace().curve(
            DiscreteLaplaceParameters(budget), replace(setting, rounds=1)
        )
        if view == "shuffler" or not both.is_summable:
            return compose(shuffler, setting.rounds)

        def upper(eps: float) -> float:
            one_noise = shuffler.upper(eps)
            return one_noise if eps >= budget else min(both.log_delta(eps), one_noise)

        public = UpperCurve(budget, upper=upper, composable=Composable(loss=lambda: both.loss))
        return compose(public, setting.rounds)

    def draw(self, k: int, rng: np.random.Generator) -> Floats:
        """Draw the dummies plus the analyst's noise of each cell, shape ``(k,)``."""
        eps, nu = self._parameters.eps, self._parameters.nu
        dummies = draw_noise(k, eps, rng, nu)
        return dummies + draw_noise(k, eps, rng)

    def absolute_error(self) -> float | None:
        """Return the mean absolute deviation of a cell's noise; None if its law is too wide."""
        if not self._both.is_summable:
            return None
        first = int(self._parameters.nu - self._both.last)
        law = np.exp(self._both.log_law(first))
        mean = self._parameters.moments.mean
        return float(law @ np.abs(first + np.arange(law.size) - mean))

    def log_probability(self, z: Floats) -> Floats:
        """Return logs of the probabilities of dummies plus noise in a cell, for integers z."""
        return self._both.log_probability(z)


class _GaussianServers:
    """Discrete Gaussian noise of both servers, with the interface of `_GeometricServers`."""

    def __init__(self, parameters: GaussianServersParameters) -> None:
        self._nu = parameters.nu
        self._dummies = _gaussian(parameters.sigma, parameters.nu)
        self._noise = _gaussian(parameters.sigma, np.inf)
        self.analyst_moments = _moments(self._noise.law)

    def curve(self, view: str, setting: Setting) -> UpperCurve:
        law = {
            "analyst": lambda: self._dummies.law,
            "shuffler": lambda: self._noise.law,
            "public": lambda: self._dummies.law_of_sum,
        }[view]()
        return compose(law.curve(), setting.rounds)

    def draw(self, k: int, rng: np.random.Generator) -> Floats:
        dummies = draw_gaussian(k, self._dummies, rng)
        noise = draw_gaussian(k, self._noise, rng)
        return np.asarray(self._nu + dummies + noise, np.float64)

    def absolute_error(self) -> float:
        return self._dummies.law_of_sum.moments[2]

    def log_probability(self, z: Floats) -> Floats:
        law = self._dummies.law_of_sum
        index = np.asarray(z - self._nu - law.first, np.int64)
        listed = (index >= 0) & (index < law.mass.size)
        with np.errstate(divide="ignore"):
            return np.where(listed, np.log(law.mass[np.where(listed, index, 0)]), -np.inf)


# A law with the largest sigma takes some 50 MB.
@lru_cache(maxsize=4)
def _gaussian(sigma: float, nu: float) -> DiscreteGaussianNoise:
    """Return discrete Gaussian noise, whose laws are then computed once."""
    return DiscreteGaussianNoise(sigma, nu)


def _moments(law: CellLaw, centre: float = 0.0) -> NoiseMoments:
    mean, variance, absolute_error = law.moments
    return NoiseMoments(centre + mean, variance, absolute_error)


@lru_cache(maxsize=2)  # each release needs the same laws
def _servers(parameters: ServersParameters) -> _GeometricServers | _GaussianServers:
    if isinstance(parameters, GaussianServersParameters):
        return _GaussianServers(parameters)
    return _GeometricServers(parameters)


def draw_gaussian(k: int, noise: DiscreteGaussianNoise, rng: np.random.Generator) -> Integers:
    """Draw discrete Gaussian noise for k cells, shape ``(k,)``.

    Two-sided geometric noise is drawn and accepted with a probability that makes it Gaussian.
    Source: Canonne, Kamath and Steinke (2020), Algorithm 3.
    """
    scale = np.floor(noise.sigma) + 1.0
    drawn, missing = np.empty(k, np.int64), np.arange(k)
    while missing.size:
        proposal = draw_noise(missing.size, 2.0 / scale, rng)
        distance = (np.abs(proposal) - noise.sigma**2 / scale) / noise.sigma
        accepted = rng.random(missing.size) < np.exp(-0.5 * distance**2)
        accepted &= proposal >= -noise.nu
        drawn[missing[accepted]] = proposal[accepted].astype(np.int64)
        missing = missing[~accepted]
    return drawn


def _unbiased(reports: Floats, n: int, parameters: ServersParameters) -> Floats:
    return np.asarray((reports - parameters.moments.mean) / n)


def _noise_law(n: int, k: int, parameters: ServersParameters) -> NoiseLaw:
    del n, k
    sd = float(np.sqrt(_cell_variance(parameters)))
    return NoiseLaw(sd, _servers(parameters).log_probability, parameters.nu)


def _cell_variance(parameters: ServersParameters) -> float:
    """Return the variance of a cell's count, to which both noises contribute."""
    return parameters.moments.variance + _servers(parameters).analyst_moments.variance


class TwoServers(RecordMechanism[ServersParameters]):
    """Mechanism in which shuffler and analyst each add noise of the same shape and scale.

    `curve` holds against the analyst. For calibrated parameters, delta against any other single
    party is at most as large.
    """

    name = "two-servers"
    form = ShufflerDummiesParameters
    other_forms = (GaussianServersParameters,)
    shapes: Mapping[type[ServersParameters], str] = {
        ShufflerDummiesParameters: "discrete Laplace",
        GaussianServersParameters: "discrete Gaussian",
    }
    estimators = additive_noise_estimators(_unbiased, _noise_law)

    def _record_curve(self, parameters: ServersParameters, setting: Setting) -> UpperCurve:
        """Return the exact privacy curve of the analyst after all rounds, rounded outwards."""
        return _servers(parameters).curve("analyst", setting)

    def views(self, parameters: ServersParameters, setting: Setting) -> dict[str, UpperCurve]:
        """Return curves of the shuffler (one noise), the public (two) and both servers (none)."""
        servers = _servers(parameters)
        return super().views(parameters, setting) | {
            view: servers.curve(view, setting) for view in ("shuffler", "public")
        }

    def _calibrate_record(
        self, eps: float, log_delta: float, setting: Setting
    ) -> ServersParameters:
        """Return the noise of the shape with the smaller error, and the fewest dummies for it.

        For one round, the parameter eps of geometric noise is that of the target.
        """
        geometric = ShufflerDummies().calibrate(eps, log_delta, setting)
        gaussian = _calibrated_gaussian(
            eps, log_delta, setting, float(np.sqrt(noise_moments(geometric.eps).variance))
        )
        if gaussian is None or _cell_variance(geometric) <= _cell_variance(gaussian):
            return geometric
        return gaussian

    def _draw(
        self, counts: Integers, parameters: ServersParameters, rng: np.random.Generator
    ) -> Floats:
        return counts + _servers(parameters).draw(counts.size, rng)

    def variance(self, shares: ArrayLike, n: float, parameters: ServersParameters) -> Floats:
        """Return the variance of each share, which is the same for all."""
        return np.full(np.shape(shares), _cell_variance(parameters) / n**2)

    def expected_distance(
        self, shares: ArrayLike, n: float, parameters: ServersParameters
    ) -> Floats:
        """Return the expected distance, exact if the law of the sum of noises can be computed."""
        error = _servers(parameters).absolute_error()
        if error is None:
            return expected_distance(self.variance(shares, n, parameters))
        shape, k = np.shape(shares)[:-1], np.shape(shares)[-1]
        return np.full(shape, 0.5 * k * error / n)

    def per_user(self, n: int, k: int, parameters: ServersParameters) -> PerUser:
        """Count one true report and a user's share of the shuffler's dummies as messages."""
        return PerUser(messages=1.0 + k * parameters.moments.mean / n)


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
        return compose(DiscreteGaussianNoise(sigma, nu).law.curve(), setting.rounds).upper(eps)

    target = log_delta + float(np.log1p(-TRUNCATION_SHARE))
    sigma = guided_noise(composed, target, largest, estimate, COARSE_XTOL)
    if sigma is None:
        return None
    log_inverse = float(np.log(setting.rounds / TRUNCATION_SHARE / sigma)) - log_delta
    likely_nu = int(sigma * np.sqrt(2.0 * max(log_inverse, 0.0)))
    nu = fewest_dummies(lambda nu: composed(sigma, nu) <= log_delta, eps, log_delta, likely_nu)
    return GaussianServersParameters(sigma, nu)
