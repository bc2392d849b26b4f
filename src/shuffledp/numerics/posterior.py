"""Posterior medians of counts to which noise with a known law was added."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy import sparse

from shuffledp.numerics.arrays import Floats, Integers

_REACH: Final = 10.0  # standard deviations of the noise that the likelihood includes
_STEPS_PER_DEVIATION: Final = 4.0  # of the grid of possible counts
_MIN_ROUNDED_SD: Final = 1e-3  # smaller noise hides no integer
_MAX_ITERATIONS: Final = 1_000
# Mean increase of the log likelihood of a cell at which EM stops. Further iterations concentrate
# the prior on few counts: with 1e-7, the estimates of docs/choosing.md were 1 to 3 % worse.
_CONVERGED: Final = 1e-5


@dataclass(frozen=True)
class NoiseLaw:
    """Law of the noise of one cell, which does not depend on the cell's count.

    Attributes
    ----------
    sd
        Standard deviation.
    log_weight
        Function that returns the log of the probability (or density) of each noise value, up to a
        constant.
    centre
        Integer near which the noise is most likely, 0 for noise around 0.
    """

    sd: float
    log_weight: Callable[[Floats], Floats]
    centre: int = 0


def posterior_median(noisy: Floats | Integers, law: NoiseLaw) -> Integers:
    """Return the posterior median of each true count, under a prior estimated from all of them.

    The prior is the nonparametric maximum likelihood estimate of the distribution of true counts
    (Kiefer and Wolfowitz 1956), computed by the EM algorithm from uniform weights, which is stopped
    early so that the prior stays smooth. Its support consists of multiples >= 0 of a step,
    a quarter of a standard deviation rounded down to an integer (at least 1), within ten standard
    deviations of some noisy count.
    """
    centred = np.asarray(noisy, np.float64) - law.centre
    if law.sd == 0.0:
        return np.maximum(np.rint(centred).astype(np.int64), 0)
    # Equal values are treated once. To make more values equal, they are rounded to multiples of a
    # power of two below 1, a small share of the standard deviation. Integers do not change.
    resolution = 2.0 ** np.floor(np.log2(np.clip(law.sd, _MIN_ROUNDED_SD, 4.0) / 32.0))
    rounded = np.rint(centred / resolution) * resolution
    values, inverse, repeats = np.unique(rounded, return_inverse=True, return_counts=True)
    likelihood, support = _likelihoods(values, law)
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


def _likelihoods(values: Floats, law: NoiseLaw) -> tuple[Any, Integers]:
    """Return the sparse matrix of likelihoods, ``(values, support)``, and the possible counts.

    The values are noisy counts minus the centre of the noise.
    """
    step = max(int(law.sd / _STEPS_PER_DEVIATION), 1)
    reach = max(int(_REACH * law.sd / step), 2)
    offsets = np.arange(-reach, reach + 1)
    # For a value far below 0, the only possible count nearby is 0.
    nearest = np.floor(np.maximum(values, 0) / step).astype(np.int64)
    near = np.maximum(nearest[:, None] + offsets, 0)
    support = np.unique(near)
    row = np.repeat(np.arange(values.size), offsets.size)
    column = np.searchsorted(support, near.ravel())
    # Clipping may repeat 0; it is kept once.
    row, column = np.divmod(np.unique(row * support.size + column), support.size)
    log_weight = law.log_weight(values[row] - support[column] * step + law.centre)
    largest = np.full(values.size, -np.inf)
    np.maximum.at(largest, row, log_weight)
    weights = np.exp(log_weight - largest[row])
    shape = (values.size, support.size)
    return sparse.csr_array((weights, (row, column)), shape=shape), support * step


def _medians(likelihood: Any, prior: Floats) -> Integers:
    likelihood.sort_indices()
    mass = likelihood.data * prior[likelihood.indices]
    total = np.add.reduceat(mass, likelihood.indptr[:-1])
    rows = np.repeat(np.arange(total.size), np.diff(likelihood.indptr))
    share = mass / total[rows]
    cumulative = np.cumsum(share) - rows  # each row adds up to 1
    below = cumulative < 0.5 - 1e-9
    first = likelihood.indptr[:-1] + np.add.reduceat(below, likelihood.indptr[:-1])
    return np.asarray(likelihood.indices[first], dtype=np.int64)
