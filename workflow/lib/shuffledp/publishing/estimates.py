"""Intervals and better estimates from noisy counts alone, which costs no privacy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy import sparse

from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.publishing.noise import Noise

LEVEL: Final = 0.95
"""Probability with which an interval covers the true count."""

_REACH: Final = 10.0  # standard deviations of the noise that the likelihood includes
_STEPS_PER_DEVIATION: Final = 4.0  # of the grid of possible counts
_MAX_ITERATIONS: Final = 1_000
_CONVERGED: Final = 1e-7  # mean increase of the log likelihood of a cell


@dataclass(frozen=True)
class Intervals:
    """Half-widths of the intervals around noisy counts, in records.

    Attributes
    ----------
    one
        Half-width for a single cell.
    joint
        Half-width that holds for all cells (of all windows) together.
    """

    one: int
    joint: int


def interval_widths(noise: Noise, counts: int) -> Intervals:
    """Return the half-widths for a number of counts with independent noise."""
    # All hold with probability (1 - miss)^counts.
    miss = -np.expm1(np.log(LEVEL) / counts)
    return Intervals(noise.half_width(1.0 - LEVEL), noise.half_width(float(miss)))


def estimates(noisy: Integers, noise: Noise) -> pd.DataFrame:
    """Return intervals and estimates of the true counts.

    Parameters
    ----------
    noisy
        Noisy counts, shape ``(counts,)``.
    noise
        Law of the noise on each of them.

    Returns
    -------
    DataFrame
        Columns noisy_count; estimate (posterior median, `posterior_median`); low and high (interval
        of one cell), joint_low and joint_high (of all cells together). True counts are at least 0,
        and so are the ends of intervals.
    """
    widths = interval_widths(noise, noisy.size)
    ends = {
        f"{prefix}{end}": np.maximum(noisy + sign * width, 0)
        for prefix, width in (("", widths.one), ("joint_", widths.joint))
        for end, sign in (("low", -1), ("high", 1))
    }
    median = posterior_median(noisy, noise)
    return pd.DataFrame({"noisy_count": noisy, "estimate": median, **ends})


def posterior_median(noisy: Integers, noise: Noise) -> Integers:
    """Return the posterior median of each true count, under a prior estimated from all of them.

    The prior is the nonparametric maximum likelihood estimate of the distribution of true counts
    (Kiefer and Wolfowitz 1956), computed by the EM algorithm from uniform weights. Its support are
    the integers >= 0, or every quarter of a standard deviation if that is more, within ten standard
    deviations of some noisy count.

    Parameters
    ----------
    noisy
        Noisy counts, shape ``(counts,)``.
    noise
        Law of the noise on each of them.

    Returns
    -------
    Integers of the same shape, at least 0.
    """
    if noise.sd == 0.0:
        return np.maximum(noisy, 0)
    values, inverse, repeats = np.unique(noisy, return_inverse=True, return_counts=True)
    likelihood, support = _likelihoods(values, noise)
    weight = repeats / noisy.size
    prior = np.full(support.size, 1.0 / support.size)
    before = -np.inf
    for _ in range(_MAX_ITERATIONS):
        evidence = likelihood @ prior
        log_likelihood = float(weight @ np.log(evidence))
        if log_likelihood - before < _CONVERGED:
            break
        before = log_likelihood
        prior *= likelihood.T @ (weight / evidence)
    return support[_medians(likelihood, prior)][inverse]


def _likelihoods(values: Integers, noise: Noise) -> tuple[Any, Integers]:
    """Return the sparse matrix of likelihoods, ``(values, support)``, and the possible counts."""
    step = max(int(noise.sd / _STEPS_PER_DEVIATION), 1)
    reach = max(int(_REACH * noise.sd / step), 2)
    offsets = np.arange(-reach, reach + 1)
    # Counts that are below 0 by far may be near no possible count except 0.
    near = np.maximum((np.maximum(values, 0) // step)[:, None] + offsets, 0)
    support = np.unique(near)
    row = np.repeat(np.arange(values.size), offsets.size)
    column = np.searchsorted(support, near.ravel())
    # The clipped offsets name 0 several times; one is kept.
    cells = np.unique(np.stack([row, column]), axis=1)
    log_weight = noise.log_weight((values[cells[0]] - support[cells[1]] * step).astype(np.float64))
    largest = np.full(values.size, -np.inf)
    np.maximum.at(largest, cells[0], log_weight)
    weights = np.exp(log_weight - largest[cells[0]])
    shape = (values.size, support.size)
    return sparse.csr_array((weights, (cells[0], cells[1])), shape=shape), support * step


def _medians(likelihood: Any, prior: Floats) -> Integers:
    """Return for each row the index of the posterior's median."""
    likelihood.sort_indices()
    mass = likelihood.data * prior[likelihood.indices]
    total = np.add.reduceat(mass, likelihood.indptr[:-1])
    rows = np.repeat(np.arange(total.size), np.diff(likelihood.indptr))
    share = mass / total[rows]
    cumulative = np.cumsum(share) - rows  # each row adds up to 1
    below = cumulative < 0.5 - 1e-9
    first = likelihood.indptr[:-1] + np.add.reduceat(below, likelihood.indptr[:-1])
    return np.asarray(likelihood.indices[first], dtype=np.int64)


@dataclass(frozen=True)
class Quality:
    """Whether a map shows more than noise, judged by its noisy counts.

    Attributes
    ----------
    mostly_noise
        Whether the median interval is wider than the median estimate.
    eps_factor
        By how much eps must grow so that it would not be; None if no eps is enough, because at
        least half of the estimates are 0.
    cells_factor
        How many neighbouring cells (or windows) must be joined to one; None if none are enough.
    """

    mostly_noise: bool
    eps_factor: float | None = None
    cells_factor: int | None = None


def quality(estimate: Integers, noise: Noise, order: Integers) -> Quality:
    """Return the quality of a map.

    Parameters
    ----------
    estimate
        Estimates, shape ``(windows, cells)``.
    noise
        Law of the noise.
    order
        Cells in an order in which neighbours are close to each other, shape ``(cells,)``.
    """
    width = 2.0 * noise.half_width(1.0 - LEVEL)
    median = float(np.median(estimate))
    if width <= median:
        return Quality(False)
    eps_factor = width / median if median > 0.0 else None
    joined, sorted_cells = 1, estimate[:, order]
    while (joined := 2 * joined) <= order.size // 2:
        starts = np.arange(0, order.size - joined + 1, joined)
        sums = np.add.reduceat(sorted_cells[:, : starts.size * joined], starts, axis=1)
        if 2.0 * noise.sum_half_width(joined, 1.0 - LEVEL) <= float(np.median(sums)):
            return Quality(True, eps_factor, joined)
    return Quality(True, eps_factor)


def sum_widths(noise: Noise, largest: int) -> Sequence[tuple[int, int]]:
    """Return pairs of a number of cells and the half-width of the interval of their sum.

    Parameters
    ----------
    noise
        Law of the noise on each cell.
    largest
        Largest number of cells of a sum.

    Returns
    -------
    Numbers from 1 to at least `largest`, each at most a tenth larger than the one before from 10
    on. The half-width of the next larger number is valid for one in between.
    """
    numbers = [1]
    while numbers[-1] < largest:
        numbers.append(max(numbers[-1] + 1, int(1.1 * numbers[-1])))
    return [(cells, noise.sum_half_width(cells, 1.0 - LEVEL)) for cells in numbers]
