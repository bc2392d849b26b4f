"""Estimators of a distribution from a noisy histogram, and the distance to the truth."""

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.arrays import Floats
from shuffledp.krr import probabilities


def project_simplex(values: ArrayLike) -> Floats:
    """Euclidean projection of each row onto the probability simplex.

    Wang and Carreira-Perpinan (2013), used by paper A for shuffle+INV.

    Parameters
    ----------
    values
        Finite numbers, shape ``(..., k)``.

    Returns
    -------
    Shape ``(..., k)``: non-negative rows that sum to 1.
    """
    values = np.asarray(values, dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError("only finite numbers can be projected onto the simplex")
    ordered = -np.sort(-values, axis=-1)
    excess = np.cumsum(ordered, axis=-1) - 1.0
    rank = np.arange(1, values.shape[-1] + 1)
    kept = (ordered - excess / rank > 0).sum(axis=-1, keepdims=True)
    level = np.take_along_axis(excess, kept - 1, axis=-1) / kept
    return np.asarray(np.maximum(values - level, 0.0))


def iterative_bayesian_update(
    reports: ArrayLike, eps0: float, *, tolerance: float = 1e-6, max_iterations: int = 10_000
) -> Floats:
    """Maximum-likelihood distribution given noisy histograms, by expectation maximisation.

    Agrawal and Aggarwal (2001), the IBU of paper A's discussion. The channel is k-RR, whose
    product with a vector costs O(k).

    Parameters
    ----------
    reports
        Histograms of reports, shape ``(..., k)``.
    eps0
        Local budget of each report.
    tolerance
        Stop when no row moved by more than this in total variation.
    max_iterations
        Upper limit on the number of updates.

    Returns
    -------
    Shape ``(..., k)``: non-negative rows that sum to 1.
    """
    reports = np.asarray(reports, dtype=np.float64)
    p, q = probabilities(eps0, reports.shape[-1])
    shares = reports / reports.sum(axis=-1, keepdims=True)
    estimate = np.full_like(shares, 1.0 / shares.shape[-1])
    for _ in range(max_iterations):
        ratio = shares / (q + (p - q) * estimate)
        updated = estimate * (q * ratio.sum(axis=-1, keepdims=True) + (p - q) * ratio)
        updated /= updated.sum(axis=-1, keepdims=True)
        moved = total_variation(updated, estimate).max(initial=0.0)
        estimate = updated
        if moved <= tolerance:
            break
    return np.asarray(estimate)


def total_variation(estimate: ArrayLike, truth: ArrayLike) -> Floats:
    """Half the L1 distance along the last axis.

    For two distributions this is their total variation distance, in ``[0, 1]``. An estimate that
    is no distribution (a raw Gaussian release, an inversion without projection) may exceed 1.
    """
    difference = np.asarray(estimate, np.float64) - np.asarray(truth, np.float64)
    return np.asarray(0.5 * np.abs(difference).sum(axis=-1))


def inversion_deviation(shares: ArrayLike, n: int, eps0: float) -> Floats:
    """Standard deviation of each cell of shuffle+INV, before any data are collected.

    The report count of cell j is a sum of independent Bernoulli variables, so its variance is
    ``n (pi_j p (1 - p) + (1 - pi_j) q (1 - q))``; inversion divides by ``n (p - q)``.

    Parameters
    ----------
    shares
        True distribution, shape ``(..., k)``.
    n
        Number of users.
    eps0
        Local budget.

    Returns
    -------
    Standard deviations of the estimated shares, shape ``(..., k)``.
    """
    shares = np.asarray(shares, dtype=np.float64)
    p, q = probabilities(eps0, shares.shape[-1])
    variance = shares * p * (1.0 - p) + (1.0 - shares) * q * (1.0 - q)
    return np.asarray(np.sqrt(variance / n) / (p - q))


def expected_distance(deviations: ArrayLike) -> Floats:
    """Expected total variation distance of unbiased, nearly normal estimates without projection.

    Half the sum of the mean absolute errors ``sqrt(2 / pi)`` times the standard deviations of the
    cells along the last axis.
    """
    return np.asarray(np.sqrt(0.5 / np.pi) * np.asarray(deviations, np.float64).sum(axis=-1))
