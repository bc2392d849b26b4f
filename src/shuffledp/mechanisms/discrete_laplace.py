"""Discrete Laplace (two-sided geometric) noise, added to the true histogram by a curator.

Noise with probabilities proportional to theta^|z|, theta = exp(-eps/2), is (eps, 0)-DP, because the
histogram has L1 sensitivity 2 under replacement of one record.
"""

from dataclasses import dataclass

from shuffledp.accounting import calibrate
from shuffledp.accounting.additive import GeometricNoise
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.additive_noise import AdditiveMechanism
from shuffledp.numerics.arrays import quotient_down


@dataclass(frozen=True)
class DiscreteLaplaceParameters:
    """Parameter eps of the noise, positive and finite, with theta = exp(-eps/2)."""

    eps: float

    def __post_init__(self) -> None:
        self.noise()  # checks eps

    def noise(self) -> GeometricNoise:
        """Return the noise of one server."""
        return GeometricNoise(self.eps)


class DiscreteLaplace(AdditiveMechanism[DiscreteLaplaceParameters]):
    """Mechanism in which a curator adds two-sided geometric noise to the true counts."""

    name = "discrete-laplace"
    form = DiscreteLaplaceParameters

    def _calibrate_record(
        self, eps: float, log_delta: float, setting: Setting
    ) -> DiscreteLaplaceParameters:
        """Return the least noise that meets the target; for one round, that of (eps, 0)-DP."""
        one_round = DiscreteLaplaceParameters(eps)  # checks eps
        if setting.rounds == 1:
            return one_round

        def composed(round_eps: float) -> float:
            return GeometricNoise(round_eps).curve(setting.rounds).upper(eps)

        smallest = quotient_down(eps, setting.rounds)
        return DiscreteLaplaceParameters(calibrate.eps0(composed, log_delta, smallest))
