"""What all mechanisms of a local randomiser and a shuffler have in common."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting import calibrate
from shuffledp.arrays import Floats
from shuffledp.mechanisms.estimators import raw_and_projected
from shuffledp.mechanisms.protocol import Mechanism
from shuffledp.randomisers.protocol import SupportRandomiser, lead_log_delta, upper_log_delta


@dataclass(frozen=True)
class LocalParameters:
    """Local budget of every report."""

    eps0: float


class ShuffledRandomiser(Mechanism[LocalParameters]):
    """Each user reports through a randomiser, the shuffler mixes the reports; see `Mechanism`.

    Observed are the reports that speak for each cell.

    Parameters
    ----------
    colour, marker
        Of its series in figures.
    """

    trust = "shuffler, to mix the reports; a report alone reveals at most eps0"

    def __init__(self, colour: str, marker: str) -> None:
        self.estimators = raw_and_projected(self.label, colour, marker, self._raw)

    @abstractmethod
    def randomiser(self, k: int, eps0: float) -> SupportRandomiser:
        """What a user of k cells applies; raises `InputError` if there is no such randomiser."""

    def _raw(self, observed: Floats, n: int, parameters: LocalParameters) -> Floats:
        return self.randomiser(observed.shape[-1], parameters.eps0).estimate(observed, n)

    def log_delta(self, eps: float, n: int, k: int, parameters: LocalParameters) -> float:
        """Natural log of the certified delta of all reports, mixed."""
        return upper_log_delta(eps, n, self.randomiser(k, parameters.eps0))

    def calibrate(self, eps: float, log_delta: float, n: int, k: int) -> LocalParameters:
        """Largest local budget whose certified delta at ``eps`` meets the target, nearly.

        It was evaluated there.
        """
        eps0 = calibrate.led_eps0(
            lambda value: upper_log_delta(eps, n, self.randomiser(k, value)),
            log_delta,
            eps,
            lambda value: lead_log_delta(eps, n, self.randomiser(k, value)),
        )
        return LocalParameters(eps0)

    def observe(
        self,
        counts: ArrayLike,
        parameters: LocalParameters,
        rng: np.random.Generator,
        repetitions: int = 1,
    ) -> Floats:
        """Reports that speak for each cell."""
        counts = np.asarray(counts, np.int64)
        randomiser = self.randomiser(counts.size, parameters.eps0)
        return np.stack([randomiser.observe(counts, rng) for _ in range(repetitions)])

    def variance(self, shares: ArrayLike, n: float, parameters: LocalParameters) -> Floats:
        """Variance of each share by inversion."""
        randomiser = self.randomiser(np.shape(shares)[-1], parameters.eps0)
        return randomiser.variance(shares, n)

    def local_eps0(self, parameters: LocalParameters) -> float:
        """The budget of each report."""
        return parameters.eps0
