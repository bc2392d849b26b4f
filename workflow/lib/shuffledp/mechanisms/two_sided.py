"""Two-sided geometric law, whole or on the numbers from 0 on: drawing, moments.

``f(z)`` is proportional to ``theta^|z - nu|``, ``theta = exp(-budget / 2)``, on ``z >= 0`` for a
finite nu. It is the whole law about nu, on the condition that it is not negative.
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
    """Moments in closed form; without truncation (nu is inf) those about nu, of mean 0."""
    theta, rest = np.exp(-budget / 2.0), -np.expm1(-budget / 2.0)
    odds = theta / rest  # mean of the geometric law, whose variance is odds / rest
    variance = 2.0 * odds / rest
    if nu == np.inf:
        return Moments(0.0, float(variance), float(2.0 * odds / (1.0 + theta)))
    # What is cut off lies nu + 1 or more below the centre, by a geometric law.
    off = np.exp(-budget / 2.0 * (nu + 1.0)) / (1.0 + theta)
    start = nu + 1.0 + odds
    shift = off * start / (1.0 - off)  # of the mean
    spread = (variance - off * (odds / rest + start**2)) / (1.0 - off) - shift**2
    # As much lies above the mean as below: all of it in the upper half of the law.
    first = np.floor(shift) + 1.0
    above = theta**first * (first - shift + odds) / (1.0 + theta) / (1.0 - off)
    return Moments(float(nu + shift), float(spread), float(2.0 * above))


def _whole(k: int, budget: float, rng: np.random.Generator) -> Integers:
    first, second = rng.geometric(-np.expm1(-budget / 2.0), size=(2, k))
    return np.asarray(first - second, dtype=np.int64)


def draw(k: int, budget: float, rng: np.random.Generator, nu: float = np.inf) -> Floats:
    """Noise of k cells, shape ``(k,)``, whole numbers, in O(k).

    Parameters
    ----------
    k
        Number of cells, at least 1.
    budget
        Central budget, positive: ``theta`` is ``exp(-budget / 2)``.
    rng
        Source of randomness.
    nu
        Centre of the law cut off below 0, whole, at least 0; inf for the whole law about 0.
    """
    noise = _whole(k, budget, rng)
    if nu == np.inf:
        return np.asarray(noise, np.float64)
    # At least half of the law is kept.
    while (low := np.flatnonzero(noise < -nu)).size:
        noise[low] = _whole(low.size, budget, rng)
    return np.asarray(nu + noise, np.float64)
