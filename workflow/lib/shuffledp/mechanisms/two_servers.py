"""True reports to which the shuffler adds dummies, and the analyst adds noise.

Reports are encrypted for the analyst. The shuffler's dummies hide a record from the analyst, as in
`shuffler_dummies`. Since the shuffler knows its dummies and reads the published histogram, the
analyst adds two-sided geometric noise, which hides the record from the shuffler. The public sees
both noises together (docs/choosing.md).
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.composition import compose
from shuffledp.accounting.curve import Composable, UpperCurve
from shuffledp.accounting.geometric import BothNoises
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.discrete_laplace import (
    DiscreteLaplace,
    DiscreteLaplaceParameters,
    draw_noise,
    noise_moments,
)
from shuffledp.mechanisms.estimators import additive_noise_estimators
from shuffledp.mechanisms.protocol import expected_distance
from shuffledp.mechanisms.shuffler_dummies import (
    ShufflerDummies,
    ShufflerDummiesParameters,
    unbiased,
)
from shuffledp.numerics.arrays import Floats
from shuffledp.numerics.posterior import NoiseLaw


def _variance(parameters: ShufflerDummiesParameters) -> float:
    """Return the variance of both noises of a cell together, in squared counts."""
    return parameters.moments.variance + noise_moments(parameters.eps).variance


def _noise_law(n: int, k: int, parameters: ShufflerDummiesParameters) -> NoiseLaw:
    del n, k
    both = BothNoises(parameters.eps, parameters.nu)
    return NoiseLaw(float(np.sqrt(_variance(parameters))), both.log_probability, parameters.nu)


class TwoServers(ShufflerDummies):
    """Mechanism in which shuffler and analyst each add noise with the same eps.

    `curve` holds against the analyst; delta against any other single party is at most as large.
    """

    name = "two-servers"
    estimators = additive_noise_estimators(unbiased, _noise_law)

    def views(
        self, parameters: ShufflerDummiesParameters, setting: Setting
    ) -> dict[str, UpperCurve]:
        """Return the curves of the shuffler (one noise), the public (both) and both servers."""
        once, both = replace(setting, rounds=1), BothNoises(parameters.eps, parameters.nu)
        shuffler = DiscreteLaplace().curve(DiscreteLaplaceParameters(parameters.eps), once)

        def upper(eps: float) -> float:
            one_noise = shuffler.upper(eps)
            return one_noise if eps >= parameters.eps else min(both.log_delta(eps), one_noise)

        composable = Composable(loss=lambda: both.loss)
        public = UpperCurve(parameters.eps, upper=upper, composable=composable)
        return super().views(parameters, setting) | {
            "shuffler": compose(shuffler, setting.rounds),
            "public": compose(public if both.is_summable else shuffler, setting.rounds),
        }

    def noise(
        self, k: int, parameters: ShufflerDummiesParameters, rng: np.random.Generator
    ) -> Floats:
        """Draw the numbers of dummies plus the analyst's noise.

        Parameters
        ----------
        k, parameters, rng
            See `ShufflerDummies.noise`.
        """
        dummies = super().noise(k, parameters, rng)
        return dummies + draw_noise(k, parameters.eps, rng)

    def variance(
        self, shares: ArrayLike, n: float, parameters: ShufflerDummiesParameters
    ) -> Floats:
        """Return the variance of each share, to which both noises contribute."""
        return np.full(np.shape(shares), _variance(parameters) / n**2)

    def expected_distance(
        self, shares: ArrayLike, n: float, parameters: ShufflerDummiesParameters
    ) -> Floats:
        """Return the expected distance, exact if the law of the sum of noises can be computed."""
        both, moments = BothNoises(parameters.eps, parameters.nu), parameters.moments
        if not both.is_summable:
            return expected_distance(self.variance(shares, n, parameters))
        first = int(parameters.nu - both.last)
        law = np.exp(both.log_law(first))
        error = float(law @ np.abs(first + np.arange(law.size) - moments.mean))
        shape, k = np.shape(shares)[:-1], np.shape(shares)[-1]
        return np.full(shape, 0.5 * k * error / n)
