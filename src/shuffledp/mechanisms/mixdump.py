"""k-RR with dummies (mixDUMP): every user sends a k-RR report and uniform dummies.

`shuffledp.accounting.one_round.dummies` computes the certified delta.
"""

from dataclasses import dataclass, replace
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.calibrate import COARSE_XTOL, NOISE_XTOL, guided_noise
from shuffledp.accounting.curve import UpperCurve
from shuffledp.accounting.krr import krr_curve
from shuffledp.accounting.rounds.tradeoff import gdp_to_log_delta
from shuffledp.accounting.setting import LARGEST_EPS0, LARGEST_N, Setting, probabilities
from shuffledp.errors import InputError
from shuffledp.mechanisms.estimators import raw_and_projected
from shuffledp.mechanisms.protocol import PerUser, RecordMechanism, envelope_bytes
from shuffledp.mechanisms.randomised_response import KRandomisedResponse, randomise
from shuffledp.mechanisms.user_dummies import draw_dummies
from shuffledp.numerics.arrays import Floats, Integers

# Differences between candidate local budgets and that of k-RR without dummies. With few cells,
# still larger budgets would have smaller errors, but would hardly protect single reports.
EXTRA_EPS0: Final = (0.25, 0.5, 0.75, 1.0)
# With more uniform reports per cell, candidates are compared by the central-limit approximation.
MIN_NORMAL_REPORTS_PER_CELL: Final = 30.0


@dataclass(frozen=True)
class MixdumpParameters:
    """Local budget of every k-RR report, and mean number (>= 0) of a user's dummies."""

    eps0: float
    dummies: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.dummies < np.inf:
            raise InputError(
                "dummies, a user's mean number, must be finite and >= 0, got "
                f"dummies={self.dummies}"
            )

    @property
    def chances(self) -> int:
        """Largest number of dummies of a user, the smallest integer that allows the mean."""
        return ceil(self.dummies)

    @property
    def rate(self) -> float:
        """Probability with which each possible dummy is sent; 1 if there are none."""
        return self.dummies / self.chances if self.chances else 1.0


def _unbiased(reports: Floats, n: int, parameters: MixdumpParameters) -> Floats:
    k = reports.shape[-1]
    p, q = probabilities(parameters.eps0, k)
    return np.asarray((reports / n - parameters.dummies / k - q) / (p - q))


class Mixdump(RecordMechanism[MixdumpParameters]):
    """Mechanism in which every user sends a k-RR report and uniform dummies."""

    name = "mixdump"
    form = MixdumpParameters
    estimators = raw_and_projected(_unbiased)

    def _record_curve(self, parameters: MixdumpParameters, setting: Setting) -> UpperCurve:
        """Return the certified curve of the histogram of reports and dummies."""
        return krr_curve(replace(setting, eps0=parameters.eps0, dummies=parameters.dummies))

    def _calibrate_record(
        self, eps: float, log_delta: float, setting: Setting
    ) -> MixdumpParameters:
        """Return the parameters with the least error, for local budgets up to 1 above k-RR's.

        Candidates for the local budget are spaced by 1/4, and compared by the mean variance over
        the cells, which is the same for every histogram. For several rounds, or with many uniform
        reports, the best candidate is selected by a central-limit approximation.
        """
        krr_eps0 = KRandomisedResponse().calibrate(eps, log_delta, setting).eps0
        if log_delta == -np.inf:
            return MixdumpParameters(krr_eps0, 0.0)
        largest = float((LARGEST_N - 1) // setting.n)

        def reports_for(eps0: float) -> float:
            """Return the number of uniform reports for the same loss variance as in k-RR alone."""
            p, q = probabilities(eps0, setting.k)
            return self._uniform_reports(krr_eps0, setting) * ((p - q) / gap) ** 2

        p, q = probabilities(krr_eps0, setting.k)
        gap = p - q
        candidates = [MixdumpParameters(krr_eps0, 0.0)]
        for extra in EXTRA_EPS0:
            eps0 = min(krr_eps0 + extra, LARGEST_EPS0)
            missing = reports_for(eps0) - self._uniform_reports(eps0, setting)
            if 0.0 < missing <= largest * setting.n:
                candidates.append(MixdumpParameters(eps0, missing / setting.n))
        shares = np.full(setting.k, 1.0 / setting.k)

        def error(parameters: MixdumpParameters) -> float:
            return float(self.variance(shares, setting.n, parameters)[0])

        # In these cases certifying takes seconds, and the central-limit approximation is accurate.
        if (
            setting.rounds > 1
            or self._uniform_reports(krr_eps0, setting) > MIN_NORMAL_REPORTS_PER_CELL * setting.k
        ):
            candidates = [candidates[0], *sorted(candidates[1:], key=error)[:1]]
        certified = [
            self._certified(likely, eps, log_delta, setting, largest) for likely in candidates[1:]
        ]
        return min([candidates[0], *(each for each in certified if each is not None)], key=error)

    @staticmethod
    def _uniform_reports(eps0: float, setting: Setting) -> float:
        """Return the mean number of uniform reports of k-RR, including the target's report."""
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
        """Return a candidate with the fewest dummies that meet the target; None if none do."""
        p, q = probabilities(likely.eps0, setting.k)
        krr_reports = self._uniform_reports(likely.eps0, setting)

        def normal(dummies: float) -> float:
            reports = krr_reports + dummies * setting.n
            deviation = (p - q) * np.sqrt(2.0 * setting.k / reports * setting.rounds)
            return float(gdp_to_log_delta(eps, deviation))

        def log_delta_of(dummies: float) -> float:
            return self.curve(replace(likely, dummies=dummies), setting).upper(eps)

        # The approximation is shifted so that the candidate meets the target exactly.
        shift = log_delta - normal(likely.dummies)
        xtol = NOISE_XTOL if setting.rounds == 1 else COARSE_XTOL
        dummies = guided_noise(
            log_delta_of, log_delta, largest, lambda dummies: normal(dummies) + shift, xtol
        )
        return None if dummies is None else replace(likely, dummies=dummies)

    def _draw(
        self, counts: Integers, parameters: MixdumpParameters, rng: np.random.Generator
    ) -> Integers:
        chances = int(counts.sum()) * parameters.chances
        reports = randomise(counts, parameters.eps0, rng).ravel()
        return reports + draw_dummies(chances, counts.size, parameters.rate, rng)

    def variance(self, shares: ArrayLike, n: float, parameters: MixdumpParameters) -> Floats:
        """Return the variance of each unbiased share, from reports and dummies."""
        shares = np.asarray(shares, dtype=np.float64)
        p, q = probabilities(parameters.eps0, shares.shape[-1])
        dummy = parameters.rate / shares.shape[-1]
        reports = shares * p * (1.0 - p) + (1.0 - shares) * q * (1.0 - q)
        dummies = parameters.chances * dummy * (1.0 - dummy)
        return np.asarray((reports + dummies) / n / (p - q) ** 2)

    def per_user(self, n: int, k: int, parameters: MixdumpParameters) -> PerUser:
        """Return what a user sends and reveals; if dishonest, all messages may have one cell."""
        del n
        p, q = probabilities(parameters.eps0, k)
        return PerUser(
            parameters.eps0,
            messages=1.0 + parameters.dummies,
            moved_by_one=(1.0 + parameters.chances) / (p - q),
            bytes_sent=envelope_bytes(1.0 + parameters.dummies),
        )
