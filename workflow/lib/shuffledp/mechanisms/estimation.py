"""Estimators of a distribution from a noisy histogram, and the distance to the truth."""

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.setting import probabilities
from shuffledp.numerics.arrays import Floats


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
        A row is done once it moves by no more than this in total variation.
    max_iterations
        Upper limit on the number of updates.

    Returns
    -------
    Shape ``(..., k)``: non-negative rows that sum to 1. Each depends on its own row alone.
    """
    reports = np.asarray(reports, dtype=np.float64)
    p, q = probabilities(eps0, reports.shape[-1])
    shares = (reports / reports.sum(axis=-1, keepdims=True)).reshape(-1, reports.shape[-1])
    estimate = np.full_like(shares, 1.0 / shares.shape[-1])
    moving = np.arange(len(shares))
    for _ in range(max_iterations):
        current = estimate[moving]
        ratio = shares[moving] / (q + (p - q) * current)
        updated = current * (q * ratio.sum(axis=-1, keepdims=True) + (p - q) * ratio)
        updated /= updated.sum(axis=-1, keepdims=True)
        estimate[moving] = updated
        moving = moving[total_variation(updated, current) > tolerance]
        if not moving.size:
            break
    return np.asarray(estimate.reshape(reports.shape))


def james_stein(noisy: ArrayLike, sigma: float) -> Floats:
    """Shrink normal noise towards 0: ``(1 - (k-2) sigma^2 / |y|^2) y`` for each row y.

    Its expected squared error is below that of the row itself, whatever the truth, for k >= 3. The
    first of the two denoisers of Balle and Wang (2018), which paper A says that its Gaussian has.

    Parameters
    ----------
    noisy
        Values with independent normal noise, shape ``(..., k)``, none of the rows all 0.
    sigma
        Standard deviation of the noise.

    Returns
    -------
    Shape ``(..., k)``.
    """
    noisy = np.asarray(noisy, np.float64)
    square = (noisy * noisy).sum(axis=-1, keepdims=True)
    return np.asarray((1.0 - (noisy.shape[-1] - 2) * sigma**2 / square) * noisy)


def soft_threshold(noisy: ArrayLike, sigma: float) -> Floats:
    """Move each value ``sigma sqrt(2 log k)`` towards 0, at most to 0: for sparse truths.

    The second denoiser of Balle and Wang (2018); parameters and shape as for `james_stein`.
    """
    noisy = np.asarray(noisy, np.float64)
    threshold = sigma * np.sqrt(2.0 * np.log(noisy.shape[-1]))
    return np.asarray(np.sign(noisy) * np.maximum(np.abs(noisy) - threshold, 0.0))


def total_variation(estimate: ArrayLike, truth: ArrayLike) -> Floats:
    """Half the L1 distance along the last axis.

    For two distributions this is their total variation distance, in ``[0, 1]``. An estimate that
    is no distribution (a raw Gaussian release, an inversion without projection) may exceed 1.
    """
    difference = np.asarray(estimate, np.float64) - np.asarray(truth, np.float64)
    return np.asarray(0.5 * np.abs(difference).sum(axis=-1))
