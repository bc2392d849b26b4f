"""True reports, among which the shuffler mixes dummies: truncated two-sided geometric ones.

The shuffler draws a number of dummies for every cell independently;
`shuffledp.accounting.geometric` has the law and the exact delta.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.calibrate import smallest_whole
from shuffledp.accounting.composition import compose
from shuffledp.accounting.curve import Composable, UpperCurve
from shuffledp.accounting.geometric import (
    check_budget,
    check_centre,
    geometric_loss,
    geometric_noise,
)
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms import two_sided
from shuffledp.mechanisms.discrete_laplace import DiscreteLaplace
from shuffledp.mechanisms.estimators import raw_and_projected
from shuffledp.mechanisms.protocol import Mechanism, PerUser, calibrate_rounds_by_search
from shuffledp.numerics.arrays import Floats

MAX_NU = 2**53
# Share of delta, over several rounds, for cells without a dummy. A smaller share means more
# dummies, and a larger one slightly more noise.
EMPTY_CELL_SHARE = 0.1


@dataclass(frozen=True)
class ShufflerDummiesParameters:
    """Law of each cell's dummies: theta = exp(-eps/2), most likely number nu.

    Raises
    ------
    InputError
        If eps is not positive and finite, or nu is not whole and in 0..2^53.
    """

    eps: float
    nu: int

    def __post_init__(self) -> None:
        check_budget(self.eps)
        check_centre(self.nu)
        if self.nu > MAX_NU:
            raise InputError(f"nu must be at most 2^53 dummies (got nu={self.nu})")

    @property
    def moments(self) -> two_sided.Moments:
        """Moments of the number of a cell's dummies."""
        return two_sided.moments(self.eps, self.nu)


def _unbiased(reports: Floats, n: int, parameters: ShufflerDummiesParameters) -> Floats:
    return np.asarray((reports - parameters.moments.mean) / n)


def _fewest(
    meets: Callable[[int], bool], eps: float, log_delta: float, start: int | None = None
) -> int:
    nu = smallest_whole(meets, 0, MAX_NU, start)
    if nu is None:
        raise InputError(
            f"delta must be larger for dummies by the shuffler: none of up to 2^53 a cell meet it "
            f"(got eps={eps}, log delta={log_delta})"
        )
    return nu


class ShufflerDummies(Mechanism[ShufflerDummiesParameters]):
    """Users report the truth, the shuffler adds dummies to every cell; see `Mechanism`."""

    name = "shuffler-dummies"
    form = ShufflerDummiesParameters
    estimators = raw_and_projected(_unbiased)

    def curve(self, parameters: ShufflerDummiesParameters, setting: Setting) -> UpperCurve:
        """Return the exact curve, rounded outwards, also over rounds."""
        once = UpperCurve(
            np.inf,
            upper=lambda eps: geometric_noise(eps, parameters.eps, parameters.nu).high,
            lower=lambda eps: geometric_noise(eps, parameters.eps, parameters.nu).low,
            horizon=parameters.eps,  # all finite losses are at most this
            composable=Composable(loss=lambda: geometric_loss(parameters.eps, parameters.nu)),
        )
        return compose(once, setting.rounds)

    def calibrate(
        self, eps: float, log_delta: float, setting: Setting
    ) -> ShufflerDummiesParameters:
        """Return nearly the least noise, and the fewest dummies, that keep the target.

        For one round the budget of the noise is eps.
        """
        check_budget(eps)
        if np.isnan(log_delta):
            raise InputError("delta must be a number (got log delta=nan)")
        if setting.rounds == 1:
            return ShufflerDummiesParameters(
                eps,
                _fewest(lambda nu: geometric_noise(eps, eps, nu).high <= log_delta, eps, log_delta),
            )
        if not -np.inf < log_delta < 0.0:
            return calibrate_rounds_by_search(self, eps, log_delta, setting)
        # The noise without dummies' end at 0 keeps most of delta.
        target = log_delta + float(np.log1p(-EMPTY_CELL_SHARE))
        one = DiscreteLaplace().calibrate(eps, target, setting).eps

        def meets(nu: int) -> bool:
            return self.curve(ShufflerDummiesParameters(one, nu), setting).upper(eps) <= log_delta

        about = 2.0 * float(np.log(setting.rounds / EMPTY_CELL_SHARE) - log_delta) / one
        return ShufflerDummiesParameters(
            one, _fewest(meets, eps, log_delta, min(int(about), MAX_NU))
        )

    def observe(
        self,
        counts: ArrayLike,
        parameters: ShufflerDummiesParameters,
        rng: np.random.Generator,
        repetitions: int = 1,
    ) -> Floats:
        """Draw histograms of reports and dummies."""
        counts = np.asarray(counts, dtype=np.int64)
        noise = [self.noise(counts.size, parameters, rng) for _ in range(repetitions)]
        return np.asarray(counts + np.stack(noise), dtype=np.float64)

    def noise(
        self, k: int, parameters: ShufflerDummiesParameters, rng: np.random.Generator
    ) -> Floats:
        """Draw the noise that is added to the counts of a release: the dummies.

        Parameters
        ----------
        k
            Number of cells.
        parameters
            Law of the dummies.
        rng
            Source of randomness.

        Returns
        -------
        Shape ``(k,)``.
        """
        return two_sided.draw(k, parameters.eps, rng, parameters.nu)

    def variance(
        self, shares: ArrayLike, n: float, parameters: ShufflerDummiesParameters
    ) -> Floats:
        """Return the variance of each share, which is the same for all."""
        return np.full(np.shape(shares), parameters.moments.variance / n**2)

    def expected_distance(
        self, shares: ArrayLike, n: float, parameters: ShufflerDummiesParameters
    ) -> Floats:
        """Return it from the exact mean absolute error; the normal law's is 13 % too large."""
        shape, k = np.shape(shares)[:-1], np.shape(shares)[-1]
        return np.full(shape, 0.5 * k * parameters.moments.absolute_error / n)

    def per_user(self, n: int, k: int, parameters: ShufflerDummiesParameters) -> PerUser:
        """Return a report, and the user's share of the shuffler's dummies."""
        return PerUser(messages=1.0 + k * parameters.moments.mean / n)
