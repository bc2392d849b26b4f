"""The worst number of other users in the target's cell, over all numbers, whatever the data."""

import numpy as np

from shuffledp.accounting.conventions import of_one_round
from shuffledp.accounting.one_round.single_bin import log_delta
from shuffledp.accounting.setting import Setting

_COARSE = 65


@of_one_round
def lower_log_delta(eps: float, setting: Setting) -> float:
    """Log divergence of one bin's count at the worst count that a search finds, rounded down.

    Paper A's eq. (10) over every count instead of those of a data set, in both directions. A lower
    bound on the privacy of shuffled k-RR: no guarantee can be smaller. ``setting.count`` is not
    looked at; eps has any shape. Errors as for
    `shuffledp.accounting.one_round.single_bin.log_delta`.
    """
    counts = np.unique(np.linspace(0, setting.n - 1, _COARSE).astype(np.int64))
    while True:
        values = log_delta(eps, setting, counts)
        best = int(np.argmax(values))
        low, high = counts[max(best - 1, 0)], counts[min(best + 1, counts.size - 1)]
        if high - low <= 2 or values[best] == -np.inf:
            return float(values[best])
        finer = np.linspace(low, high, _COARSE).astype(np.int64)
        counts = np.unique(np.append(finer, counts[best]))
