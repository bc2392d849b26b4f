"""Shuffled 2-RR: every data set is a count, so the worst one can be found by looking at all."""

import numpy as np

from shuffledp.accounting.single_bin import log_delta

EXHAUSTIVE_N = 10_000
_COARSE = 65
# The direct sums are right to about 1e-11; a lower bound has to stay below the truth.
_ROUNDING = 1e-9


def two_cell_log_delta(eps: float, eps0: float, n: int) -> float:
    """Largest exact log delta of shuffled 2-RR over data sets, rounded down.

    Over all of them up to ``n = 10,000``; above, the best that a search over counts finds, which
    is a lower bound. The reversed pair at count m is the forward one at ``n - 1 - m``, so one
    direction is enough. Errors as for `log_delta`.
    """
    if n <= EXHAUSTIVE_N:
        return float(log_delta(eps, eps0, n, 2, np.arange(n), "forward").max()) - _ROUNDING
    counts = np.unique(np.linspace(0, n - 1, _COARSE).astype(np.int64))
    while True:
        values = log_delta(eps, eps0, n, 2, counts, "forward")
        best = int(np.argmax(values))
        low, high = counts[max(best - 1, 0)], counts[min(best + 1, counts.size - 1)]
        if high - low <= 2 or values[best] == -np.inf:
            return float(values[best]) - _ROUNDING
        counts = np.unique(
            np.append(np.linspace(low, high, _COARSE).astype(np.int64), counts[best])
        )
