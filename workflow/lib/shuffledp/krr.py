"""The k-randomised-response channel: probabilities, sampling of a shuffled release, inversion."""

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.arrays import Floats, Integers
from shuffledp.errors import InputError


def probabilities(eps0: float, k: int) -> tuple[float, float]:
    """Probabilities ``(p, q)`` of reporting the true cell and each other cell.

    ``p = e^eps0 / (e^eps0 + k - 1)`` and ``q = 1 / (e^eps0 + k - 1)`` (paper A, Definition III.5).

    Raises
    ------
    InputError
        If ``k < 2`` or ``eps0 <= 0``.
    """
    if k < 2:
        raise InputError(f"k must be at least 2 cells (got k={k})")
    if not (eps0 > 0 and np.isfinite(eps0)):
        raise InputError(f"eps0 must be positive and finite (got eps0={eps0})")
    q = 1.0 / (np.expm1(eps0) + k)
    return float(np.exp(eps0) * q), float(q)


def randomise(
    counts: ArrayLike, eps0: float, rng: np.random.Generator, repetitions: int = 1
) -> Integers:
    """Histograms of the shuffled reports of users who hold ``counts``, in O(k) each.

    A report is truthful with probability ``1 - k q`` and uniform over all cells otherwise (the
    privacy blanket), so no loop over users is needed.

    Parameters
    ----------
    counts
        True histogram, shape ``(k,)``, non-negative integers.
    eps0
        Local budget of each report.
    rng
        Source of randomness.
    repetitions
        Independent releases to draw.

    Returns
    -------
    Integers of shape ``(repetitions, k)``, each row summing to ``sum(counts)``.
    """
    counts = np.asarray(counts, dtype=np.int64)
    _, q = probabilities(eps0, counts.size)
    truthful = rng.binomial(counts, 1.0 - counts.size * q, size=(repetitions, counts.size))
    uniform = np.full(counts.size, 1.0 / counts.size)
    blanket = rng.multinomial(counts.sum() - truthful.sum(axis=1), uniform)
    return np.asarray(truthful + blanket, dtype=np.int64)


def invert(reports: ArrayLike, eps0: float) -> Floats:
    """Unbiased estimate of the distribution from noisy histograms (matrix inversion, A eq. 7).

    Parameters
    ----------
    reports
        Histograms of reports, shape ``(..., k)``, each row with a positive sum.
    eps0
        Local budget of each report.

    Returns
    -------
    Shares of shape ``(..., k)``; each row sums to 1, entries may be negative.
    """
    reports = np.asarray(reports, dtype=np.float64)
    p, q = probabilities(eps0, reports.shape[-1])
    shares = reports / reports.sum(axis=-1, keepdims=True)
    return np.asarray((shares - q) / (p - q))
