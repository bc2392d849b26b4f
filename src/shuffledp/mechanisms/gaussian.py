"""Gaussian noise, added to the true histogram by a curator and calibrated exactly.

The histogram has L2 sensitivity sqrt(2) under replacement of one record.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from shuffledp.accounting.composition import compose
from shuffledp.accounting.contributions import ONE_RECORD, Contributions
from shuffledp.accounting.curve import UpperCurve
from shuffledp.accounting.rounds.tradeoff import gdp_curve, gdp_upper_log_delta
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.estimators import additive_noise_estimators
from shuffledp.mechanisms.protocol import Calibration, Mechanism
from shuffledp.numerics.arrays import Floats
from shuffledp.numerics.posterior import NoiseLaw

HISTOGRAM_SENSITIVITY = float(np.sqrt(2.0))
# Paper A's noise is what diffprivlib uses for any delta from 1e-40 to 1e-18 (docs/errata.md).
PUBLISHED_DELTA = 1e-20
PUBLISHED_SENSITIVITY = 1.0
# Below this delta diffprivlib's calibration is inaccurate; from 1e-18 down its sigma is constant.
DIFFPRIVLIB_DELTA = 1e-12
# diffprivlib draws the noise if its sigma agrees with the exact one up to this relative tolerance.
SIGMA_RTOL = 1e-6
# The square of a larger sigma could overflow.
MAX_LOG_SIGMA = 600.0
# Catalogue name of the calibration that paper A uses.
AS_PUBLISHED = "as-published"


def gaussian_sigma(
    eps: float, log_delta: float, sensitivity: float = HISTOGRAM_SENSITIVITY
) -> float:
    """Return the smallest standard deviation for (eps, delta)-DP, for delta down to 1e-10000.

    It is rounded up by a relative 1e-10. ``sensitivity`` is the L2 sensitivity. Raises `InputError`
    if eps is not positive or delta is not in (0, 1); no Gaussian is (eps, 0)-DP.

    Source: Balle and Wang, "Improving the Gaussian mechanism" (2018), Algorithm 1.
    """
    if not eps > 0.0:
        raise InputError(f"eps must be positive for the Gaussian mechanism, got eps={eps}")
    if not (-np.inf < log_delta < 0.0):
        raise InputError(
            f"delta must lie strictly between 0 and 1 for a Gaussian, got log delta={log_delta}; "
            "pure DP needs another mechanism"
        )
    # The classical sigma is sufficient up to eps = 1, and of the right order of magnitude beyond.
    log_classical = float(np.log(sensitivity) - np.log(eps) + 0.5 * np.log(2.0 * (1.0 - log_delta)))
    # At eps = 0 delta is below mu / sqrt(2 pi), and a larger eps never needs more noise.
    log_largest = float(np.log(sensitivity) - log_delta - 0.5 * np.log(2.0 * np.pi))
    log_guess = min(float(np.logaddexp(log_classical, np.log(sensitivity))), log_largest)
    if log_guess > MAX_LOG_SIGMA:
        raise InputError(
            f"the noise would exceed exp({MAX_LOG_SIGMA:g}) for eps={eps} and log "
            f"delta={log_delta:g}; eps or delta must be larger"
        )

    def gap(log_sigma: float) -> float:
        value = gdp_upper_log_delta(eps, float(sensitivity / np.exp(log_sigma)))
        return max(value, -1e300) - log_delta

    low, high = log_guess - 2.0, log_guess + 2.0
    while gap(low) < 0.0:
        low -= 2.0
    while gap(high) > 0.0:
        high += 2.0
    return float(np.exp(scipy.optimize.brentq(gap, low, high, xtol=1e-13)) * (1.0 + 1e-10))


def classical_sigma(eps: ArrayLike, delta: float, sensitivity: float) -> Floats:
    """Return the classical sigma ``sensitivity sqrt(2 log(1.25 / delta)) / eps``, for eps <= 1.

    For larger eps it may be too small: for eps = 10 and delta = 1e-6 the true delta is 1.9e-6.
    Paper A's Definition V.1 omits the condition eps <= 1. `gaussian_sigma` is exact.

    Source: Dwork and Roth (2014), Theorem A.1.
    """
    return np.asarray(sensitivity * np.sqrt(2.0 * np.log(1.25 / delta)) / np.asarray(eps))


@dataclass(frozen=True)
class DiffprivlibRequest:
    """Arguments of diffprivlib's ``GaussianAnalytic``.

    Where delta is near ``exp(eps) 1e-17`` or smaller, its sigma is wrong; at eps = 1 it is too
    small below a delta of about 1e-12, and constant from 1e-18 down. This explains paper A's
    Gaussian noise at eps = eps0.
    """

    eps: float
    delta: float
    sensitivity: float

    @property
    def sigma(self) -> float:
        """Standard deviation of diffprivlib's noise."""
        return float(self.mechanism(0)._scale)

    def mechanism(self, seed: int):  # type: ignore[no-untyped-def]
        """Return diffprivlib's mechanism with a random state made from ``seed``."""
        # The import is deferred because diffprivlib imports all of scikit-learn.
        from diffprivlib.mechanisms import GaussianAnalytic

        return GaussianAnalytic(
            epsilon=self.eps,
            delta=self.delta,
            sensitivity=self.sensitivity,
            random_state=np.random.RandomState(seed),
        )


def published_sigma(eps0: float) -> float:
    """Return the standard deviation of paper A's noise, too small for the eps and delta claimed."""
    return DiffprivlibRequest(eps0, PUBLISHED_DELTA, PUBLISHED_SENSITIVITY).sigma


@dataclass(frozen=True)
class GaussianParameters:
    """Standard deviation of the noise in counts, and the equivalent arguments of diffprivlib.

    diffprivlib draws the noise if its standard deviation agrees within 1e-6, otherwise NumPy does.
    """

    sigma: float
    request: DiffprivlibRequest | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.sigma < np.inf:
            raise InputError(f"sigma must be positive and finite, got sigma={self.sigma}")


def published_calibration(setting: Setting) -> Calibration[GaussianParameters]:
    """Return paper A's calibration: eps = eps0, with diffprivlib's noise for delta = 1e-20.

    It is not at equal privacy: shuffled k-RR has delta = 0 at this eps, which no Gaussian has.
    """
    request = DiffprivlibRequest(setting.eps0, PUBLISHED_DELTA, PUBLISHED_SENSITIVITY)
    return Calibration(
        AS_PUBLISHED,
        setting.eps0,
        float(np.log(PUBLISHED_DELTA)),
        "",
        GaussianParameters(request.sigma, request),
    )


def _noise_law(n: int, k: int, parameters: GaussianParameters) -> NoiseLaw:
    del n, k
    return NoiseLaw(parameters.sigma, lambda z: -0.5 * np.square(z / parameters.sigma))


class CentralGaussian(Mechanism[GaussianParameters]):
    """Mechanism in which a curator adds normal noise to the true counts."""

    name = "gaussian"
    form = GaussianParameters
    estimators = additive_noise_estimators(lambda noisy, n, _: noisy / n, _noise_law)
    published = (published_calibration,)

    def curve(
        self,
        parameters: GaussianParameters,
        setting: Setting,
        contributions: Contributions = ONE_RECORD,
    ) -> UpperCurve:
        """Return the exact privacy curve (paper D, Fact 2) at the L2 sensitivity, rounded up.

        In composition, the squares of the rounds' GDP parameters mu add up.
        """
        mu = float(np.sqrt(contributions.replacement_l2_squared)) / parameters.sigma
        return compose(gdp_curve(mu), setting.rounds)

    def calibrate(
        self,
        eps: float,
        log_delta: float,
        setting: Setting,
        contributions: Contributions = ONE_RECORD,
    ) -> GaussianParameters:
        """Return the least noise, which for m rounds is sqrt(m) times that of one round.

        The composition of m rounds equals one round with 1 / sqrt(m) times the noise.
        """
        sensitivity = float(np.sqrt(contributions.replacement_l2_squared))
        sigma = gaussian_sigma(eps, log_delta, sensitivity)
        if setting.rounds > 1:
            return GaussianParameters(sigma * float(np.sqrt(setting.rounds)))
        if log_delta < np.log(DIFFPRIVLIB_DELTA):
            return GaussianParameters(sigma)
        request = DiffprivlibRequest(eps, float(np.exp(log_delta)), sensitivity)
        return GaussianParameters(sigma, request)

    def observe(
        self,
        counts: ArrayLike,
        parameters: GaussianParameters,
        rng: np.random.Generator,
        repetitions: int = 1,
    ) -> Floats:
        """Draw noisy histograms of counts."""
        counts = np.asarray(counts, dtype=np.float64)
        shape = (repetitions, counts.size)
        request, sigma = parameters.request, parameters.sigma
        if request is None or abs(request.sigma / sigma - 1.0) >= SIGMA_RTOL:
            return np.asarray(counts + rng.normal(0.0, sigma, size=shape))
        source = request.mechanism(int(rng.integers(2**32)))
        # These are bit for bit the values of its `randomise`, drawn a hundred times as fast.
        pairs = source._rng.standard_normal((*shape, 2))
        return np.asarray(counts + pairs.sum(axis=2) / np.sqrt(2.0) * source._scale)

    def variance(self, shares: ArrayLike, n: float, parameters: GaussianParameters) -> Floats:
        """Return the variance of each share, which is the same for all."""
        return np.full(np.shape(shares), (parameters.sigma / n) ** 2)
