"""k-RR among dummies (mixDUMP): users send noisy reports, among which they mix uniform dummies.

`shuffledp.accounting.one_round.dummies` has its certified delta.
"""

from dataclasses import dataclass, replace
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.calibrate import COARSE_XTOL, NOISE_XTOL, led_noise
from shuffledp.accounting.curve import UpperCurve
from shuffledp.accounting.registry import krr_curve
from shuffledp.accounting.rounds.tradeoff import gdp_to_log_delta
from shuffledp.accounting.setting import LARGEST_EPS0, LARGEST_N, Setting, probabilities
from shuffledp.errors import InputError
from shuffledp.mechanisms.estimators import raw_and_projected
from shuffledp.mechanisms.krr import KRandomisedResponse, randomise
from shuffledp.mechanisms.protocol import Mechanism, PerUser
from shuffledp.mechanisms.user_dummies import draw_dummies
from shuffledp.numerics.arrays import Floats

# Candidates for the local budget in excess of the one without dummies. With few cells the error
# falls with it to that of dummies alone, which do not protect single reports.
EXTRA_EPS0: Final = (0.25, 0.5, 0.75, 1.0)
# With at least this many uniform reports per cell, the central limit compares budgets.
MIN_NORMAL_REPORTS_PER_CELL: Final = 30.0


@dataclass(frozen=True)
class MixdumpParameters:
    """Local budget of every report, and the mean number (>= 0) of a user's dummies.

    Raises
    ------
    InputError
        If the number is negative or not finite.
    """

    eps0: float
    dummies: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.dummies < np.inf:
            raise InputError(
                f"dummies of a user must be a mean number, at least 0 (got {self.dummies})"
            )

    @property
    def chances(self) -> int:
        """Number of chances of one dummy each: the smallest number for the mean."""
        return ceil(self.dummies)

    @property
    def rate(self) -> float:
        """Probability that a chance is taken; 1 if there is none."""
        return self.dummies / self.chances if self.chances else 1.0


def _unbiased(reports: Floats, n: int, parameters: MixdumpParameters) -> Floats:
    k = reports.shape[-1]
    p, q = probabilities(parameters.eps0, k)
    return np.asarray((reports / n - parameters.dummies / k - q) / (p - q))


class Mixdump(Mechanism[MixdumpParameters]):
    """Users report through k-RR and add dummies, the shuffler mixes all; see `Mechanism`."""

    name = "mixdump"
    form = MixdumpParameters
    estimators = raw_and_projected(_unbiased)

    def curve(self, parameters: MixdumpParameters, setting: Setting) -> UpperCurve:
        """Return the certified curve of the histogram of reports and dummies."""
        return krr_curve(replace(setting, eps0=parameters.eps0, dummies=parameters.dummies))

    def calibrate(self, eps: float, log_delta: float, setting: Setting) -> MixdumpParameters:
        """Return the parameters with the least error, for local budgets up to 1 above k-RR's.

        The budgets are spaced by 1/4. The mean variance over the cells is the same for every
        histogram. Over several rounds, or with many uniform reports, the central limit selects the
        best budget.
        """
        alone = KRandomisedResponse().calibrate(eps, log_delta, setting).eps0
        if log_delta == -np.inf:
            return MixdumpParameters(alone, 0.0)
        largest = float((LARGEST_N - 1) // setting.n)

        def reports_for(eps0: float) -> float:
            """Return the uniform reports with which the loss deviates as that of k-RR alone."""
            p, q = probabilities(eps0, setting.k)
            return self._uniform_reports(alone, setting) * ((p - q) / gap) ** 2

        p, q = probabilities(alone, setting.k)
        gap = p - q
        found = [MixdumpParameters(alone, 0.0)]
        for more in EXTRA_EPS0:
            eps0 = min(alone + more, LARGEST_EPS0)
            missing = reports_for(eps0) - self._uniform_reports(eps0, setting)
            if 0.0 < missing <= largest * setting.n:
                found.append(MixdumpParameters(eps0, missing / setting.n))
        shares = np.full(setting.k, 1.0 / setting.k)

        def error(parameters: MixdumpParameters) -> float:
            return float(self.variance(shares, setting.n, parameters)[0])

        # In these cases an evaluation takes seconds, and the central limit is accurate enough.
        if (
            setting.rounds > 1
            or self._uniform_reports(alone, setting) > MIN_NORMAL_REPORTS_PER_CELL * setting.k
        ):
            found = [found[0], *sorted(found[1:], key=error)[:1]]
        certified = [
            self._certified(likely, eps, log_delta, setting, largest) for likely in found[1:]
        ]
        return min([found[0], *(each for each in certified if each is not None)], key=error)

    @staticmethod
    def _uniform_reports(eps0: float, setting: Setting) -> float:
        """Return the mean number of uniform reports of k-RR, including the target's."""
        _, q = probabilities(eps0, setting.k)
        return 1.0 + (setting.n - 1) * setting.k * q

    def _certified(
        self,
        likely: MixdumpParameters,
        eps: float,
        log_delta: float,
        setting: Setting,
        largest: float,
    ) -> MixdumpParameters | None:
        """Return the fewest dummies for a local budget, sought near a likely number, or None."""
        p, q = probabilities(likely.eps0, setting.k)
        own = self._uniform_reports(likely.eps0, setting)

        def normal(dummies: float) -> float:
            reports = own + dummies * setting.n
            deviation = (p - q) * np.sqrt(2.0 * setting.k / reports * setting.rounds)
            return float(gdp_to_log_delta(eps, deviation))

        def log_delta_of(dummies: float) -> float:
            return self.curve(replace(likely, dummies=dummies), setting).upper(eps)

        # The central limit is shifted such that the likely number meets the target.
        moved = log_delta - normal(likely.dummies)
        xtol = NOISE_XTOL if setting.rounds == 1 else COARSE_XTOL
        dummies = led_noise(
            log_delta_of, log_delta, largest, lambda dummies: normal(dummies) + moved, xtol
        )
        return None if dummies is None else replace(likely, dummies=dummies)

    def observe(
        self,
        counts: ArrayLike,
        parameters: MixdumpParameters,
        rng: np.random.Generator,
        repetitions: int = 1,
    ) -> Floats:
        """Draw histograms of reports and dummies."""
        counts = np.asarray(counts, dtype=np.int64)
        n, k = int(counts.sum()), counts.size
        rows = [
            randomise(counts, parameters.eps0, rng)[0]
            + draw_dummies(n * parameters.chances, k, parameters.rate, rng)
            for _ in range(repetitions)
        ]
        return np.stack(rows).astype(np.float64)

    def variance(self, shares: ArrayLike, n: float, parameters: MixdumpParameters) -> Floats:
        """Return the variance of each share by inversion, of reports and dummies."""
        shares = np.asarray(shares, dtype=np.float64)
        p, q = probabilities(parameters.eps0, shares.shape[-1])
        dummy = parameters.rate / shares.shape[-1]
        reports = shares * p * (1.0 - p) + (1.0 - shares) * q * (1.0 - q)
        dummies = parameters.chances * dummy * (1.0 - dummy)
        return np.asarray((reports + dummies) / n / (p - q) ** 2)

    def per_user(self, n: int, k: int, parameters: MixdumpParameters) -> PerUser:
        """Return a report and the user's dummies, which do not depend on the record.

        All messages that the shuffler accepts from a user may be of one cell.
        """
        del n
        p, q = probabilities(parameters.eps0, k)
        return PerUser(
            parameters.eps0,
            messages=1.0 + parameters.dummies,
            moved_by_one=(1.0 + parameters.chances) / (p - q),
        )
