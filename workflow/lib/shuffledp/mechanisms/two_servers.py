"""True reports, sealed for the analyst; the shuffler adds dummies, and the analyst adds noise.

The shuffler cannot read the reports, and hides a record from the analyst as in `shuffler_dummies`.
Since it knows its own dummies, the analyst's two-sided geometric noise protects the record from the
shuffler once the map is published. The public sees both noises (docs/choosing.md).
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.composition import compose
from shuffledp.accounting.curve import Composable, UpperCurve
from shuffledp.accounting.geometric import BothNoises
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms import two_sided
from shuffledp.mechanisms.discrete_laplace import DiscreteLaplace, DiscreteLaplaceParameters
from shuffledp.mechanisms.protocol import expected_distance
from shuffledp.mechanisms.shuffler_dummies import ShufflerDummies, ShufflerDummiesParameters
from shuffledp.numerics.arrays import Floats


class TwoServers(ShufflerDummies):
    """Shuffler and analyst add noise of one eps each; see `Mechanism`.

    The curve is that of the analyst, who learns most of those who do not see everything.
    """

    name = "two-servers"

    def views(
        self, parameters: ShufflerDummiesParameters, setting: Setting
    ) -> dict[str, UpperCurve]:
        """Return the curves of shuffler and public, with discrete Laplace noise and with both."""
        once, both = replace(setting, rounds=1), BothNoises(parameters.eps, parameters.nu)
        shuffler = DiscreteLaplace().curve(DiscreteLaplaceParameters(parameters.eps), once)
        alone = shuffler.upper

        def upper(eps: float) -> float:
            return alone(eps) if eps >= parameters.eps else min(both.log_delta(eps), alone(eps))

        composable = Composable(loss=lambda: both.loss)
        public = UpperCurve(parameters.eps, upper=upper, composable=composable)
        return super().views(parameters, setting) | {
            "shuffler": compose(shuffler, setting.rounds),
            "public": compose(public if both.known else shuffler, setting.rounds),
        }

    def noise(
        self, k: int, parameters: ShufflerDummiesParameters, rng: np.random.Generator
    ) -> Floats:
        """Draw the dummies plus the analyst's noise.

        Parameters
        ----------
        k, parameters, rng
            As for `ShufflerDummies.noise`.
        """
        dummies = super().noise(k, parameters, rng)
        return dummies + two_sided.draw(k, parameters.eps, rng)

    def variance(
        self, shares: ArrayLike, n: float, parameters: ShufflerDummiesParameters
    ) -> Floats:
        """Return the variance of each share, that of both noises."""
        analyst = two_sided.moments(parameters.eps).variance
        return np.full(np.shape(shares), (parameters.moments.variance + analyst) / n**2)

    def expected_distance(
        self, shares: ArrayLike, n: float, parameters: ShufflerDummiesParameters
    ) -> Floats:
        """Return it from the exact mean absolute error, if the law of both can be summed."""
        both, moments = BothNoises(parameters.eps, parameters.nu), parameters.moments
        if not both.known:
            return expected_distance(self.variance(shares, n, parameters))
        first = int(parameters.nu - both.last)
        law = np.exp(both.log_law(first))
        error = float(law @ np.abs(first + np.arange(law.size) - moments.mean))
        shape, k = np.shape(shares)[:-1], np.shape(shares)[-1]
        return np.full(shape, 0.5 * k * error / n)
