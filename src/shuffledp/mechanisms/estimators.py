"""Estimators of the distribution of users over k cells, and their distance from the true one.

Every mechanism has two estimators: an unbiased one, and its projection onto the simplex. Mechanisms
whose noise has a known law have a third one: the posterior median of each count.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.setting import probabilities
from shuffledp.mechanisms.catalogue import DISTRIBUTION, POSTERIOR, UNBIASED
from shuffledp.mechanisms.protocol import Estimate, P
from shuffledp.numerics.arrays import Floats
from shuffledp.numerics.posterior import NoiseLaw, posterior_median


def raw_and_projected(unbiased: Estimate[P]) -> dict[str, Estimate[P]]:
    """Return a mapping of names to the unbiased estimator and its projection onto the simplex."""

    def projected(observed: Floats, n: int, parameters: P) -> Floats:
        return project_simplex(unbiased(observed, n, parameters))

    return {UNBIASED: unbiased, DISTRIBUTION: projected}


def additive_noise_estimators(
    unbiased: Estimate[P], noise_law: Callable[[int, int, P], NoiseLaw]
) -> dict[str, Estimate[P]]:
    """Return the estimators of a mechanism that adds independent noise to the count of each cell.

    They are those of `raw_and_projected`, and the posterior medians of the counts, divided by n.
    These shares are at least 0, but their sum may differ from 1. ``noise_law`` returns the law of
    observation minus count, given n, k and the parameters.
    """

    def posterior(observed: Floats, n: int, parameters: P) -> Floats:
        law = noise_law(n, observed.shape[-1], parameters)
        return np.stack([posterior_median(row, law) for row in observed]) / n

    return raw_and_projected(unbiased) | {POSTERIOR: posterior}


def project_simplex(values: ArrayLike) -> Floats:
    """Return the Euclidean projection of each row onto the probability simplex.

    The algorithm is that of Wang and Carreira-Perpinan (2013), which paper A uses for shuffle+INV.
    Values have shape ``(..., k)`` and must be finite.
    """
    values = np.asarray(values, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("values must be finite to be projected onto the simplex")
    ordered = -np.sort(-values, axis=-1)
    excess = np.cumsum(ordered, axis=-1) - 1.0
    rank = np.arange(1, values.shape[-1] + 1)
    kept = (ordered - excess / rank > 0).sum(axis=-1, keepdims=True)
    level = np.take_along_axis(excess, kept - 1, axis=-1) / kept
    return np.asarray(np.maximum(values - level, 0.0))


def maximum_likelihood(reports: ArrayLike, eps0: float) -> Floats:
    """Return the maximum-likelihood distribution of the users for each histogram of k-RR reports.

    Histograms have shape ``(..., k)`` and a positive sum. Raises `InputError` if ``k < 2``, or eps0
    is not positive and finite.

    Cell i is reported with probability ``q + (p - q) x_i = q (1 + d x_i)``, where x is the
    distribution and ``d = p / q - 1 = e^eps0 - 1``. With c the counts of the reports, the
    log-likelihood is ``sum_i c_i log(1 + d x_i)`` plus a constant, concave in x. By
    Karush-Kuhn-Tucker, x is its maximum over the simplex if and only if, for some lam, the slope
    ``c_i / (1 + d x_i)`` is lam where ``x_i > 0`` and at most lam elsewhere, that is, if
    ``x_i = max(0, (c_i / lam - 1) / d)``. The m cells with ``c_i > lam`` are those with the largest
    counts. Let C be the sum of their counts. The shares sum to 1 if ``lam = C / (d + m)``, so

        x_i = c_i / C + (m c_i - C) / (d C).

    This form loses no digits if d is small, because ``m c_i - C`` is exact for integer counts up to
    2^53. To find m, sort the cells by decreasing count, and let C be the sum of the m largest. The
    m-th cell has a positive share for all m up to some number and for none beyond it, since both
    ``c_m`` and ``m c_m - C`` decrease in m.

    If all m = k shares are positive, x is the inverse of k-RR. The iterative Bayesian update
    (Agrawal and Aggarwal 2001) starts from the uniform distribution and converges to x, but slowly.
    If it is stopped early, it returns a smoother distribution, between the two.
    """
    reports = np.asarray(reports, dtype=np.float64)
    k = reports.shape[-1]
    probabilities(eps0, k)  # raises InputError if eps0 or k is out of range
    odds = np.expm1(eps0)
    ordered = -np.sort(-reports, axis=-1)
    totals = np.cumsum(ordered, axis=-1)
    rank = np.arange(1, k + 1)
    positive = (ordered + (rank * ordered - totals) / odds > 0.0).sum(axis=-1, keepdims=True)
    total = np.take_along_axis(totals, positive - 1, axis=-1)
    shares = reports / total + (positive * reports - total) / (odds * total)
    return np.asarray(np.maximum(shares, 0.0))


def total_variation(estimate: ArrayLike, truth: ArrayLike) -> Floats:
    """Return half the L1 distance along the last axis.

    For two distributions this is their total variation distance, in ``[0, 1]``. It may exceed 1 if
    the estimate is not a distribution, for example a Gaussian release without projection.
    """
    difference = np.asarray(estimate, np.float64) - np.asarray(truth, np.float64)
    return np.asarray(0.5 * np.abs(difference).sum(axis=-1))
