"""Two-sided geometric law, whole or on the numbers from 0 on: drawing, moments.

``f(z)`` is proportional to ``theta^|z - nu|``, ``theta = exp(-budget / 2)``, on ``z >= 0`` for a
finite nu. It is the untruncated law around nu, conditioned on not being negative.
"""

from dataclasses import dataclass

import numpy as np

from shuffledp.numerics.arrays import Floats, Integers


@dataclass(frozen=True)
class Moments:
    """Mean, variance and mean absolute distance to the mean, of one cell's noise in counts."""

    mean: float
    variance: float
    absolute_error: float


def moments(budget: float, nu: float = np.inf) -> Moments:
    """Return the moments in closed form; without truncation (nu is inf) the mean is 0."""
    theta, rest = np.exp(-budget / 2.0), -np.expm1(-budget / 2.0)
    odds = theta / rest  # mean of the geometric law, whose variance is odds / rest
    variance = 2.0 * odds / rest
    if nu == np.inf:
        return Moments(0.0, float(variance), float(2.0 * odds / (1.0 + theta)))
    # The truncated part lies nu + 1 or more below the centre, with a geometric law.
    off = np.exp(-budget / 2.0 * (nu + 1.0)) / (1.0 + theta)
    start = nu + 1.0 + odds
    shift = off * start / (1.0 - off)  # of the mean
    spread = (variance - off * (odds / rest + start**2)) / (1.0 - off) - shift**2
    # The mean absolute deviation is twice the mean excess above the mean.
    first = np.floor(shift) + 1.0
    above = theta**first * (first - shift + odds) / (1.0 + theta) / (1.0 - off)
    return Moments(float(nu + shift), float(spread), float(2.0 * above))


def _whole(k: int, budget: float, rng: np.random.Generator) -> Integers:
    first, second = rng.geometric(-np.expm1(-budget / 2.0), size=(2, k))
    return np.asarray(first - second, dtype=np.int64)


def draw(k: int, budget: float, rng: np.random.Generator, nu: float = np.inf) -> Floats:
    """Draw integer noise for k cells, shape ``(k,)``, in O(k).

    Parameters
    ----------
    k
        Number of cells, at least 1.
    budget
        Central budget, positive: ``theta`` is ``exp(-budget / 2)``.
    rng
        Source of randomness.
    nu
        Centre of the law truncated below 0, an integer >= 0; inf for the untruncated law around 0.
    """
    noise = _whole(k, budget, rng)
    if nu == np.inf:
        return np.asarray(noise, np.float64)
    # Each draw is accepted with probability at least one half.
    while (low := np.flatnonzero(noise < -nu)).size:
        noise[low] = _whole(low.size, budget, rng)
    return np.asarray(nu + noise, np.float64)
