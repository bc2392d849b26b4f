"""Shuffled k-randomised response (paper A): local reports, mixed by a shuffler."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffledp import krr
from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.setting import Setting
from shuffledp.arrays import Floats
from shuffledp.estimation import iterative_bayesian_update
from shuffledp.mechanisms.estimators import raw_and_projected
from shuffledp.mechanisms.protocol import Budget, Calibration, Estimator, Look, Mechanism


@dataclass(frozen=True)
class KRRParameters:
    """Local budget of every report."""

    eps0: float


def _uncorrected(reports: Floats, n: int, parameters: KRRParameters) -> Floats:
    del parameters
    return np.asarray(reports / n)


def _inverted(reports: Floats, n: int, parameters: KRRParameters) -> Floats:
    del n
    return krr.invert(reports, parameters.eps0)


def _updated(reports: Floats, n: int, parameters: KRRParameters) -> Floats:
    del n
    return iterative_bayesian_update(reports, parameters.eps0)


class KRandomisedResponse(Mechanism[KRRParameters]):
    """Each user reports through k-RR, the shuffler mixes the reports; see `Mechanism`."""

    name = "krr"
    label = "shuffle+INV"
    trust = "shuffler, to mix the reports; a report alone reveals at most eps0"
    matched = False
    estimators = (
        *raw_and_projected("shuffle+INV", "#D55E00", "s", _inverted),
        Estimator("ibu", "shuffle+IBU", Look("#009E73", "D", filled=False), _updated, "projected"),
        Estimator("uncorrected", "shuffle, not inverted", Look("#777777", "^"), _uncorrected, None),
    )

    def log_delta(self, eps: float, n: int, k: int, parameters: KRRParameters) -> float:
        """Natural log of the certified delta of the histogram of reports."""
        return float(BOUNDS["upper"].log_delta(eps, Setting(n, k, parameters.eps0)))

    def calibrate(self, eps: float, log_delta: float, n: int, k: int) -> KRRParameters:
        """Largest local budget whose certified delta at ``eps`` meets the target."""
        return KRRParameters(BOUNDS["upper"].eps0(eps, log_delta, Setting(n, k, 1.0)))

    def observe(
        self,
        counts: ArrayLike,
        parameters: KRRParameters,
        rng: np.random.Generator,
        repetitions: int = 1,
    ) -> Floats:
        """Histograms of the shuffled reports."""
        return np.concatenate(
            [krr.randomise(counts, parameters.eps0, rng) for _ in range(repetitions)],
            dtype=np.float64,
        )

    def variance(self, shares: ArrayLike, n: float, parameters: KRRParameters) -> Floats:
        """Variance of each share by inversion.

        The report count of cell j is a sum of independent Bernoulli variables, so its variance is
        ``n (pi_j p (1 - p) + (1 - pi_j) q (1 - q))``; inversion divides by ``n (p - q)``.
        """
        shares = np.asarray(shares, dtype=np.float64)
        p, q = krr.probabilities(parameters.eps0, shares.shape[-1])
        variance = shares * p * (1.0 - p) + (1.0 - shares) * q * (1.0 - q)
        return np.asarray(variance / n / (p - q) ** 2)

    def local_eps0(self, parameters: KRRParameters) -> float:
        """The budget of each report."""
        return parameters.eps0

    def parameters(self, setting: Setting, budget: Budget) -> KRRParameters:
        """The setting's own eps0, whatever the central budget."""
        del budget
        return KRRParameters(setting.eps0)

    def calibrations(
        self, setting: Setting, budgets: Sequence[Budget]
    ) -> list[Calibration[KRRParameters]]:
        """One, whatever the central budgets: the noise follows from the setting's eps0."""
        del budgets
        return [Calibration("none", np.nan, np.nan, "", KRRParameters(setting.eps0))]
