"""Paper D's Lemma 3 and eq. (15): how far the counts of reports are from a normal law.

The n - 1 others each fall into the first, the second or neither of two classes; paper D puts in
place of the law of the first two counts the normal law of the same mean and covariance.
"""

from typing import Final

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy.special import ndtr

from shuffledp.accounting.laws.binomial import log_pmf
from shuffledp.numerics.arrays import Floats

_NODES: Final = 12
_WIDTH: Final = 8.0  # standard deviations; beyond them is less than 1e-14


def normal_distances(n: int, eps0: float) -> tuple[float, float]:
    """Two distances of the counts from the normal law, in paper D's example (delta0 = 1/n).

    Parameters
    ----------
    n
        Users, at least 2: the n - 1 others are counted.
    eps0
        Everybody's budget.

    Returns
    -------
    Eq. (15) as printed: the largest difference at a single point, between its probability and the
    normal law's mass of a quarter of the unit square around it. Then the total variation distance
    from the normal law rounded to whole numbers.
    """
    others, share = n - 1, (1.0 - 1.0 / n) / (1.0 + np.exp(eps0))
    mean, variance = others * share, others * share * (1.0 - share)
    reach = _WIDTH * np.sqrt(variance)
    counts = np.arange(max(0.0, np.floor(mean - reach)), min(others, np.ceil(mean + reach)) + 1.0)
    first, second = counts[:, np.newaxis], counts
    law = np.exp(
        log_pmf(first, others, share) + log_pmf(second, others - first, share / (1.0 - share))
    )
    covariance = -others * share**2
    quarter = _square_masses(counts, 0.0, 0.5, mean, variance, covariance)
    whole = _square_masses(counts, -0.5, 0.5, mean, variance, covariance)
    return float(np.abs(law - quarter).max()), float(np.maximum(law - whole, 0.0).sum())


def _square_masses(
    counts: Floats, low: float, high: float, mean: float, variance: float, covariance: float
) -> Floats:
    """Mass of the squares from ``count + low`` to ``count + high`` each way, shape (m, m)."""
    nodes, weights = leggauss(_NODES)
    at = counts[:, np.newaxis] + low + (high - low) * (nodes + 1.0) / 2.0
    density = np.exp(-0.5 * (at - mean) ** 2 / variance) / np.sqrt(2.0 * np.pi * variance)
    slope = covariance / variance
    middle = (mean + slope * (at - mean))[..., np.newaxis]
    deviation = np.sqrt(variance - slope * covariance)
    inside = ndtr((counts + high - middle) / deviation) - ndtr((counts + low - middle) / deviation)
    return np.asarray(np.einsum("ij,ijk->ik", density * weights * (high - low) / 2.0, inside))
