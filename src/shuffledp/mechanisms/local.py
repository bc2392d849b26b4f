"""Base classes of mechanisms that consist of a local randomiser and a shuffler."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting import calibrate
from shuffledp.accounting.curve import UpperCurve
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.estimators import raw_and_projected
from shuffledp.mechanisms.protocol import PerUser, RecordMechanism, envelope_bytes
from shuffledp.mechanisms.randomiser import SupportRandomiser, approximate_log_delta
from shuffledp.numerics.arrays import Floats, Integers, quotient_down

# Absolute tolerance of the best shape. The error is flat near its minimum.
SHAPE_XTOL: Final = 0.02
# Relative tolerance of the calibrated eps0 over several rounds. The discretisation of the curve
# changes eps0 by about as much, and one evaluation takes a second.
ROUNDS_EPS0_XTOL: Final = 1e-4


@dataclass(frozen=True)
class LocalParameters:
    """Local budget of every report."""

    eps0: float


Q = TypeVar("Q", bound=LocalParameters)


@dataclass(frozen=True)
class ShuffledRandomiser(RecordMechanism[Q]):
    """Mechanism in which each user reports through a randomiser, and a shuffler shuffles reports.

    The analyst observes how many reports support each cell. A subclass may define a family of
    randomisers with a real parameter besides eps0, called shape, which `calibrate` optimises.

    Attributes
    ----------
    hidden_slot
        Whether to use the bound of docs/hidden-slot.md if it applies and is tighter.
    """

    hidden_slot: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "estimators", raw_and_projected(self._raw))

    @abstractmethod
    def randomiser(self, k: int, parameters: Q) -> SupportRandomiser:
        """Return the randomiser for k cells; raise `InputError` if there is none."""

    @abstractmethod
    def member(self, eps0: float, shape: float) -> Q:
        """Return the parameters of the family member with this local budget and shape."""

    def shape_range(self, k: int) -> tuple[float, float]:
        """Return smallest and largest shape for k cells; by default there is only one shape, 0."""
        del k
        return 0.0, 0.0

    def _raw(self, observed: Floats, n: int, parameters: Q) -> Floats:
        return self.randomiser(observed.shape[-1], parameters).estimate(observed, n)

    def _record_curve(self, parameters: Q, setting: Setting) -> UpperCurve:
        """Return the certified curve of all shuffled reports."""
        randomiser = self.randomiser(setting.k, parameters)
        return randomiser.curve(setting, hidden_slot=self.hidden_slot)

    def _calibrate_record(self, eps: float, log_delta: float, setting: Setting) -> Q:
        """Return nearly the largest local budget whose certified delta meets the target.

        The certified delta is evaluated at the result. The shape is chosen with approximate deltas,
        to minimise the mean variance over the cells, which is the same for every histogram.
        """
        k, smallest = setting.k, quotient_down(eps, setting.rounds)

        def estimate(shape: float, hidden_slot: bool = False) -> Callable[[float], float]:
            return lambda eps0: approximate_log_delta(
                eps, setting, self.randomiser(k, self.member(eps0, shape)), hidden_slot=hidden_slot
            )

        @cache
        def error(shape: float) -> float:
            eps0 = calibrate.guided_eps0(estimate(shape), log_delta, smallest, estimate(shape))
            randomiser = self.randomiser(k, self.member(eps0, shape))
            return float(randomiser.variance(1.0 / k, setting.n))

        best = _minimise(error, *self.shape_range(k))

        def log_delta_of(eps0: float) -> float:
            upper = self.curve(self.member(eps0, best), setting).upper
            return upper(eps)

        xtol = calibrate.COARSE_XTOL if setting.rounds == 1 else ROUNDS_EPS0_XTOL
        best_estimate = estimate(best, self.hidden_slot)
        eps0 = calibrate.guided_eps0(log_delta_of, log_delta, smallest, best_estimate, xtol)
        if eps0 <= smallest:
            # This budget meets the target even without a shuffler, unless it was rounded up.
            eps0 = calibrate.first_feasible_budget(
                lambda each: log_delta_of(each) <= log_delta, smallest
            )
        return self.member(eps0, best)

    def _draw(self, counts: Integers, parameters: Q, rng: np.random.Generator) -> Floats:
        """Draw the numbers of reports that support each cell."""
        return self.randomiser(counts.size, parameters).observe(counts, rng)

    def variance(self, shares: ArrayLike, n: float, parameters: Q) -> Floats:
        """Return the variance of each unbiased share."""
        randomiser = self.randomiser(np.shape(shares)[-1], parameters)
        return randomiser.variance(shares, n)

    def per_user(self, n: int, k: int, parameters: Q) -> PerUser:
        """Return local budget, influence and size of one report."""
        del n
        randomiser = self.randomiser(k, parameters)
        p, q = randomiser.support_probabilities
        return PerUser(
            parameters.eps0,
            moved_by_one=1.0 / (p - q),
            bytes_sent=envelope_bytes(payload_bytes=randomiser.report_bytes),
        )


class ShuffledOne(ShuffledRandomiser[LocalParameters]):
    """Base class of mechanisms whose randomiser has no parameter besides the local budget."""

    form = LocalParameters

    def member(self, eps0: float, shape: float) -> LocalParameters:
        """Return the parameters, which are the local budget alone."""
        del shape
        return LocalParameters(eps0)


def _minimise(error: Callable[[float], float], low: float, high: float) -> float:
    """Return the minimiser of a unimodal function, with tolerance `SHAPE_XTOL`."""
    points = np.linspace(low, high, 9).tolist()
    while True:
        best = min(range(len(points)), key=lambda index: error(points[index]))
        low, high = points[max(best - 1, 0)], points[min(best + 1, len(points) - 1)]
        if high - low <= SHAPE_XTOL:
            return float(points[best])
        # The ends and the middle have been evaluated, unless the best point was an end.
        points = np.linspace(low, high, 5).tolist()
