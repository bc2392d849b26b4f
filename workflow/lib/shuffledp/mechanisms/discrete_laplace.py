"""Two-sided geometric noise on the true histogram, added by a curator: pure DP.

Histograms that differ in one record (replacement) are 2 apart in L1 norm, so that theta =
exp(-eps/2) gives eps, whatever delta.

Source: Ghosh, Roughgarden and Sundararajan, "Universally utility-maximizing privacy mechanisms"
(2009).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting import calibrate
from shuffledp.accounting.curve import Composable, UpperCurve
from shuffledp.accounting.geometric import (
    check_budget,
    composed_geometric_noise,
    geometric_loss,
    geometric_noise,
)
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms import two_sided
from shuffledp.mechanisms.estimators import noisy_shares, raw_and_projected
from shuffledp.mechanisms.protocol import Mechanism
from shuffledp.numerics.arrays import Floats, quotient_down, sum_up


@dataclass(frozen=True)
class DiscreteLaplaceParameters:
    """Budget eps of the noise, whose theta is exp(-eps/2).

    Raises
    ------
    InputError
        If eps is not positive and finite.
    """

    eps: float

    def __post_init__(self) -> None:
        check_budget(self.eps)


class DiscreteLaplace(Mechanism[DiscreteLaplaceParameters]):
    """A curator adds two-sided geometric noise to the true counts; see `Mechanism`."""

    name = "discrete-laplace"
    form = DiscreteLaplaceParameters
    estimators = raw_and_projected(noisy_shares)

    def curve(self, parameters: DiscreteLaplaceParameters, setting: Setting) -> UpperCurve:
        """Return the exact delta over eps of all rounds together, rounded up."""

        def of(rounds: int) -> UpperCurve:
            def upper(eps: float) -> float:
                if rounds == 1:
                    return geometric_noise(eps, parameters.eps).high
                return composed_geometric_noise(eps, parameters.eps, rounds)

            return UpperCurve(
                sum_up([(rounds, parameters.eps)]),
                upper=upper,
                composable=Composable(
                    repeated=lambda more: of(rounds * more),
                    loss=(lambda: geometric_loss(parameters.eps)) if rounds == 1 else None,
                ),
            )

        return of(setting.rounds)

    def calibrate(
        self, eps: float, log_delta: float, setting: Setting
    ) -> DiscreteLaplaceParameters:
        """Return the least noise; for one round its budget is eps, whatever delta."""
        check_budget(eps)
        if setting.rounds == 1:
            return DiscreteLaplaceParameters(eps)

        def composed(round_eps: float) -> float:
            return composed_geometric_noise(eps, round_eps, setting.rounds)

        least = quotient_down(eps, setting.rounds)
        return DiscreteLaplaceParameters(calibrate.eps0(composed, log_delta, least))

    def observe(
        self,
        counts: ArrayLike,
        parameters: DiscreteLaplaceParameters,
        rng: np.random.Generator,
        repetitions: int = 1,
    ) -> Floats:
        """Draw histograms with noise, in counts."""
        counts = np.asarray(counts, dtype=np.int64)
        noise = [two_sided.draw(counts.size, parameters.eps, rng) for _ in range(repetitions)]
        return np.asarray(counts + np.stack(noise), dtype=np.float64)

    def variance(
        self, shares: ArrayLike, n: float, parameters: DiscreteLaplaceParameters
    ) -> Floats:
        """Return the variance of each share, which is the same for all."""
        return np.full(np.shape(shares), two_sided.moments(parameters.eps).variance / n**2)

    def expected_distance(
        self, shares: ArrayLike, n: float, parameters: DiscreteLaplaceParameters
    ) -> Floats:
        """Return it from the exact mean absolute error; the normal law's is 13 % too large."""
        shape, k = np.shape(shares)[:-1], np.shape(shares)[-1]
        return np.full(shape, 0.5 * k * two_sided.moments(parameters.eps).absolute_error / n)
