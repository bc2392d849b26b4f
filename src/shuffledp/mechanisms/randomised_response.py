"""Shuffled k-randomised response (k-RR), as in paper A.

Every user reports the true cell with probability p, and each of the other k - 1 cells with
probability q, where ``p / q = exp(eps0)``. The analyst sees the histogram of the reports.
"""

from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.curve import UpperCurve, largest_eps0
from shuffledp.accounting.krr import krr_curve
from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.mechanisms.estimators import maximum_likelihood, raw_and_projected
from shuffledp.mechanisms.protocol import PerUser, RecordMechanism
from shuffledp.numerics.arrays import Floats, Integers


def randomise(
    counts: ArrayLike, eps0: float, rng: np.random.Generator, repetitions: int = 1
) -> Integers:
    """Draw histograms of the k-RR reports of all users, each in O(k) without a loop over users.

    A report is the true cell with probability ``1 - k q``, and otherwise uniform over all cells
    (the privacy blanket). ``counts`` is the true histogram, shape ``(k,)``. The result has shape
    ``(repetitions, k)``, one row for each independent release, which sums to ``sum(counts)``.

    Examples
    --------
    >>> int(randomise([700, 200, 100], 2.0, np.random.default_rng()).sum())
    1000
    """
    counts = np.asarray(counts, dtype=np.int64)
    _, q = probabilities(eps0, counts.size)
    truthful = rng.binomial(counts, 1.0 - counts.size * q, size=(repetitions, counts.size))
    uniform = np.full(counts.size, 1.0 / counts.size)
    blanket = rng.multinomial(counts.sum() - truthful.sum(axis=1), uniform)
    return np.asarray(truthful + blanket, dtype=np.int64)


def invert(reports: ArrayLike, eps0: float) -> Floats:
    """Return the unbiased estimate of the distribution by matrix inversion (paper A, eq. 7).

    ``reports`` has histograms of shape ``(..., k)``, each row with a positive sum. So have the
    shares; each row sums to 1, and entries may be negative.

    Examples
    --------
    >>> invert([593, 256, 151], 2.0).round(3).tolist()
    [0.715, 0.22, 0.065]
    """
    reports = np.asarray(reports, dtype=np.float64)
    p, q = probabilities(eps0, reports.shape[-1])
    shares = reports / reports.sum(axis=-1, keepdims=True)
    return np.asarray((shares - q) / (p - q))


@dataclass(frozen=True)
class KRRParameters:
    """Local budget eps0 of every report."""

    eps0: float


def _inverted(reports: Floats, n: int, parameters: KRRParameters) -> Floats:
    del n
    return invert(reports, parameters.eps0)


class KRandomisedResponse(RecordMechanism[KRRParameters]):
    """Mechanism in which each user reports through k-RR, and a shuffler shuffles the reports."""

    name = "krr"
    form = KRRParameters
    estimators = MappingProxyType(
        raw_and_projected(_inverted)
        | {
            "maximum-likelihood": lambda reports, _, parameters: maximum_likelihood(
                reports, parameters.eps0
            ),
            "uncorrected": lambda reports, n, _: reports / n,
        }
    )

    def _record_curve(self, parameters: KRRParameters, setting: Setting) -> UpperCurve:
        """Return the certified privacy curve of the histogram of reports."""
        return krr_curve(replace(setting, eps0=parameters.eps0))

    def _calibrate_record(self, eps: float, log_delta: float, setting: Setting) -> KRRParameters:
        """Return the largest local budget whose certified delta at ``eps`` meets the target."""

        def curve_of(eps0: float) -> UpperCurve:
            return self.curve(KRRParameters(eps0), setting)

        return KRRParameters(largest_eps0(eps, log_delta, curve_of, setting.rounds))

    def _draw(
        self, counts: Integers, parameters: KRRParameters, rng: np.random.Generator
    ) -> Integers:
        return randomise(counts, parameters.eps0, rng).ravel()

    def variance(self, shares: ArrayLike, n: float, parameters: KRRParameters) -> Floats:
        """Return the variance of each share estimated by inversion.

        The report count of cell j is a sum of independent Bernoulli variables, so its variance is
        ``n (pi_j p (1 - p) + (1 - pi_j) q (1 - q))``; inversion divides by ``n (p - q)``.
        """
        shares = np.asarray(shares, dtype=np.float64)
        p, q = probabilities(parameters.eps0, shares.shape[-1])
        variance = shares * p * (1.0 - p) + (1.0 - shares) * q * (1.0 - q)
        return np.asarray(variance / n / (p - q) ** 2)

    def per_user(self, n: int, k: int, parameters: KRRParameters) -> PerUser:
        """Return local budget and influence of one report."""
        del n
        p, q = probabilities(parameters.eps0, k)
        return PerUser(parameters.eps0, moved_by_one=1.0 / (p - q))
