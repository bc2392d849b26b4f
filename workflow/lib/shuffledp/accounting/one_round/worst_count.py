"""The worst number of other users in the target's cell, over all numbers, whatever the data.

For k = 2 every data set is such a number, so that this is then the exact privacy of shuffled 2-RR.
"""

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.one_round.single_bin import log_delta
from shuffledp.arrays import Floats

EXHAUSTIVE_N = 10_000
_COARSE = 65
# The direct sums are right to about 1e-11 of the logarithm; results are moved to the safe side.
_ROUNDING = 1e-9


def _slack(log_delta: float) -> float:
    return _ROUNDING * (1.0 + 0.01 * abs(log_delta)) if np.isfinite(log_delta) else 0.0


def _searched(eps: float, eps0: float, n: int, k: int) -> float:
    counts = np.unique(np.linspace(0, n - 1, _COARSE).astype(np.int64))
    while True:
        values = log_delta(eps, eps0, n, k, counts)
        best = int(np.argmax(values))
        low, high = counts[max(best - 1, 0)], counts[min(best + 1, counts.size - 1)]
        if high - low <= 2 or values[best] == -np.inf:
            return float(values[best])
        finer = np.linspace(low, high, _COARSE).astype(np.int64)
        counts = np.unique(np.append(finer, counts[best]))


def lower_log_delta(eps: ArrayLike, eps0: ArrayLike, n: ArrayLike, k: ArrayLike) -> Floats:
    """Log divergence of one bin's count at the worst count that a search finds, rounded down.

    Paper A's eq. (10) over every count instead of those of a data set, in both directions. A lower
    bound on the privacy of shuffled k-RR: no guarantee can be smaller. Broadcasts; errors as for
    `shuffledp.accounting.one_round.single_bin.log_delta`.
    """

    def one(eps: float, eps0: float, n: int, k: int) -> float:
        found = _searched(eps, eps0, n, k)
        return found - _slack(found)

    return np.asarray(np.vectorize(one, otypes=[np.float64])(eps, eps0, n, k))


def two_rr_log_delta(eps: ArrayLike, eps0: ArrayLike, n: ArrayLike) -> Floats:
    """Log of the exact delta of shuffled 2-RR: the largest over all data sets, rounded up.

    A guarantee for the replacement of one report. All n counts are tried (a few seconds at the
    largest n); the reversed pair at a count is the forward one at its mirror image, so that one
    direction is enough. Broadcasts.

    Raises
    ------
    ValueError
        If n exceeds 10,000, or a parameter is out of range.
    """

    def one(eps: float, eps0: float, n: int) -> float:
        if n > EXHAUSTIVE_N:
            raise ValueError(f"n must be at most {EXHAUSTIVE_N:,} to try all data sets (got {n:,})")
        worst = float(log_delta(eps, eps0, n, 2, np.arange(n), "forward").max())
        return min(worst + _slack(worst), 0.0)

    return np.asarray(np.vectorize(one, otypes=[np.float64])(eps, eps0, n))
