"""Certified privacy of discrete Gaussian noise on all cells of a histogram, over several rounds.

The noise of a cell is an integer z. Its probability f(z) is proportional to
``exp(-z^2 / (2 sigma^2))``, possibly conditioned on ``z >= -nu``: then ``nu + z`` is a number of
dummies. The target's record adds 1 to one of two cells. Under P, with the record in the first cell,
the loss ``log(P / Q)`` is the sum of two independent terms, one for each cell:

    log(f(z) / f(z + 1)) = (2 z + 1) / (2 sigma^2)     in the first cell,
    log(f(z) / f(z - 1)) = (1 - 2 z) / (2 sigma^2)     in the second cell,

where z is the cell's noise; the second is infinite for ``z = -nu``. They are the same for every
data set, and exchanging the cells gives the loss of Q against P. All finite terms are odd
multiples of ``1 / (2 sigma^2)``. For sigma up to 256, upper ends of identical rounds therefore
compose without rounding of losses.

Source of the law and its sampler: Canonne, Kamath and Steinke, "The discrete Gaussian for
differential privacy" (2020). Truncation at ``-nu`` and the sum of two noises are new here.
"""

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from shuffledp.accounting.curve import Composable, UpperCurve
from shuffledp.accounting.rounds.outcome_bundles import DEFAULT_DEPTH
from shuffledp.accounting.rounds.privacy_loss import (
    UNDERFLOW,
    Loss,
    loss_of_cells,
    loss_of_outcomes,
)
from shuffledp.accounting.rounds.sums import Rounds, upper_log_hockey_stick
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT, Floats

MIN_SIGMA, MAX_SIGMA = 0.1, 1e4
# Values with a log probability below this, relative to the most likely value, are left out. Their
# total probability is added to delta.
LOG_NEGLIGIBLE_MASS = -700.0
# For a larger sigma, losses are rounded up to a coarser grid than the lattice of all losses.
MAX_LATTICE_SIGMA = 256.0


def check_sigma(sigma: float) -> None:
    """Raise `InputError` unless a sigma of discrete Gaussian noise is from 0.1 to 1e4."""
    if not MIN_SIGMA <= sigma <= MAX_SIGMA:
        raise InputError(
            f"sigma of discrete Gaussian noise must be from {MIN_SIGMA:g} to {MAX_SIGMA:g} counts, "
            f"got sigma={sigma}"
        )


@dataclass(frozen=True)
class CellLaw:
    """Law of a cell's integer noise on consecutive values, and the losses that follow from it.

    Attributes
    ----------
    first
        Smallest value.
    mass
        Probabilities of ``first, first + 1, ...``.
    losses
        ``log(f(z) / f(z + 1))`` for all values but the last.
    below, above
        Upper bounds on the probabilities of smaller and of larger values.
    bounded
        Whether ``first`` is the smallest possible value, so that the loss at it is infinite.
    mass_error, loss_error
        Bounds on the relative error of masses and the absolute error of losses.
    step
        Distance between points of a grid that contains all losses; None if there is none,
        or it is too fine.
    """

    first: int
    mass: Floats
    losses: Floats
    below: float
    above: float
    bounded: bool
    mass_error: float
    loss_error: float
    step: float | None

    def loss(self) -> Loss:
        """Return the privacy loss of one round: the sum of the losses of the two cells."""
        errors = (self.mass_error, self.loss_error)
        edge_low, edge_high = (
            float(mass) * (1.0 + 2.0 * self.mass_error) for mass in self.mass[[0, -1]]
        )
        outside = self.below + self.above
        # `losses` has no entry for the first cell at the last value, nor for the second cell at the
        # first value. The probabilities of these are counted as infinite loss.
        infinite_low = float(self.mass[0]) * (1.0 - self.mass_error) if self.bounded else 0.0
        return loss_of_cells(
            [
                loss_of_outcomes(self.losses, self.mass[:-1], outside + edge_high, 0.0, *errors),
                loss_of_outcomes(
                    -self.losses, self.mass[1:], outside + edge_low, infinite_low, *errors
                ),
            ],
            self.step,
        )

    def curve(self) -> UpperCurve:
        """Return the privacy curve of one round, rounded up, which composes by its loss."""

        @cache
        def loss() -> Loss:
            return self.loss()

        @cache
        def laws() -> Rounds:
            return [(law, 1) for law in loss().up(None, DEFAULT_DEPTH)]

        def upper(eps: float) -> float:
            return min(upper_log_hockey_stick(lambda _: laws(), eps), 0.0)

        return UpperCurve(np.inf, upper=upper, composable=Composable(loss=loss))

    @property
    def moments(self) -> tuple[float, float, float]:
        """Mean, variance and mean absolute deviation from the mean."""
        z = self.first + np.arange(self.mass.size, dtype=np.float64)
        mean = float(self.mass @ z)
        deviations = z - mean
        return mean, float(self.mass @ deviations**2), float(self.mass @ np.abs(deviations))


@dataclass(frozen=True)
class DiscreteGaussianNoise:
    """Discrete Gaussian noise of one cell.

    Attributes
    ----------
    sigma
        Parameter of the law, from 0.1 to 1e4; nearly its standard deviation unless sigma or
        nu / sigma is small.
    nu
        An integer >= 0: the noise is conditioned on being at least -nu. inf for no condition.
    """

    sigma: float
    nu: float = np.inf

    def __post_init__(self) -> None:
        check_sigma(self.sigma)

    @cached_property
    def law(self) -> CellLaw:
        """Law of the noise without values of negligible probability."""
        reach = int(self.sigma * np.sqrt(-2.0 * LOG_NEGLIGIBLE_MASS))
        bounded = self.nu <= reach
        first, last = (-int(self.nu) if bounded else -reach), reach
        z = np.arange(first, last + 1, dtype=np.float64)
        rate = 0.5 / self.sigma**2
        weights = np.exp(-rate * z**2)
        total = float(weights.sum())
        # Exponents have a relative error of 4 units. The sum, and the division by it, add one for
        # each term; the terms that it leaves out are below a unit.
        exponent = rate * float(last) ** 2
        error = UNIT * (64.0 + 8.0 * exponent + 2.0 * z.size)
        # Ratios of consecutive weights fall, so the tail is at most a geometric series.
        beyond = float(np.exp(-rate * (last + 1.0) ** 2)) / -np.expm1(-rate * (2.0 * last + 3.0))
        beyond = float(beyond / total) * (1.0 + 16.0 * error) + UNDERFLOW
        losses = rate * (2.0 * z[:-1] + 1.0)
        return CellLaw(
            first,
            weights / total,
            losses,
            below=0.0 if bounded else beyond,
            above=beyond,
            bounded=bounded,
            mass_error=error,
            loss_error=8.0 * UNIT * float(np.abs(losses).max()),
            step=rate if self.sigma <= MAX_LATTICE_SIGMA else None,
        )

    @cached_property
    def law_of_sum(self) -> CellLaw:
        """Law of the sum of this noise and independent noise with the same sigma and no condition.

        Let this noise be j and the other z - j. By ``j^2 + (z - j)^2 = z^2 / 2 + 2 (j - z / 2)^2``,
        the probability of z is proportional to ``exp(-z^2 / (4 sigma^2)) S(z)``, where S(z) is the
        sum of ``exp(-i^2 / sigma^2)`` over ``i = j - z / 2``, ``j >= -nu``. It is log-concave, like
        every sum of log-concave noises.
        """
        reach = int(self.sigma * np.sqrt(-4.0 * LOG_NEGLIGIBLE_MASS))
        z = np.arange(-reach, reach + 1, dtype=np.float64)
        squares = self.sigma**2
        # For each parity: the numbers 2 i, and for each of them the sum over this and all larger i.
        span = int(2.0 * self.sigma * np.sqrt(-LOG_NEGLIGIBLE_MASS)) + 2
        sums = np.empty_like(z)
        for parity in (0, 1):
            twice = np.arange(-span + (span + parity) % 2, span + 1, 2, dtype=np.float64)
            tails = np.append(np.cumsum(np.exp(-(twice**2) / (4.0 * squares))[::-1])[::-1], 0.0)
            at = z % 2 == parity
            start = np.maximum(-2.0 * self.nu - z[at], twice[0])
            sums[at] = tails[np.minimum((start - twice[0]) / 2.0, twice.size).astype(np.int64)]
        with np.errstate(divide="ignore"):
            logs = np.log(sums) - z**2 / (4.0 * squares)
        kept = np.flatnonzero(logs > LOG_NEGLIGIBLE_MASS)
        first, last = int(kept[0]), int(kept[-1])
        z, sums, logs = z[first : last + 1], sums[first : last + 1], logs[first : last + 1]
        total = float(np.exp(logs).sum())
        mass = np.exp(logs) / total
        error = UNIT * (128.0 + 16.0 * -LOG_NEGLIGIBLE_MASS + 4.0 * (z.size + span))
        losses = (2.0 * z[:-1] + 1.0) / (4.0 * squares) - np.diff(np.log(sums))

        def beyond(edge: float, log_ratio: float) -> float:
            """Bound the mass beyond a value of mass ``edge``; logs fall by >= log_ratio a step."""
            return float(edge * np.exp(-log_ratio) / -np.expm1(-log_ratio)) * 1.01 + UNDERFLOW

        return CellLaw(
            int(z[0]),
            mass,
            losses,
            below=beyond(mass[0], -losses[0]),
            above=beyond(mass[-1], losses[-1]),
            bounded=False,
            mass_error=error,
            loss_error=error,
            step=None,
        )
