"""The worst number of other users in the target's cell, over all numbers, whatever the data.

For k = 2 every data set is such a number, so that this is then the exact privacy of shuffled 2-RR.
"""

import numpy as np

from shuffledp.accounting.conventions import of_one_round
from shuffledp.accounting.one_round.single_bin import log_delta
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError

EXHAUSTIVE_N = 10_000
_COARSE = 65
# The direct sums are right to about 1e-11 of the logarithm; results are moved to the safe side.
_ROUNDING = 1e-9
# The tilt is right to some units in the last place for each of the counts that it is applied over,
# up to ten standard deviations of at most sqrt(n) / 2.
_TILT_ROUNDING = 1e-14


def _slack(log_delta: float, n: int) -> float:
    if not np.isfinite(log_delta):
        return 0.0
    return _ROUNDING * (1.0 + 0.01 * abs(log_delta)) + _TILT_ROUNDING * float(np.sqrt(n))


def _searched(eps: float, setting: Setting) -> float:
    counts = np.unique(np.linspace(0, setting.n - 1, _COARSE).astype(np.int64))
    while True:
        values = log_delta(eps, setting, counts)
        best = int(np.argmax(values))
        low, high = counts[max(best - 1, 0)], counts[min(best + 1, counts.size - 1)]
        if high - low <= 2 or values[best] == -np.inf:
            return float(values[best])
        finer = np.linspace(low, high, _COARSE).astype(np.int64)
        counts = np.unique(np.append(finer, counts[best]))


@of_one_round
def lower_log_delta(eps: float, setting: Setting) -> float:
    """Log divergence of one bin's count at the worst count that a search finds, rounded down.

    Paper A's eq. (10) over every count instead of those of a data set, in both directions. A lower
    bound on the privacy of shuffled k-RR: no guarantee can be smaller. ``setting.count`` is not
    looked at; eps has any shape. Errors as for
    `shuffledp.accounting.one_round.single_bin.log_delta`.
    """
    found = _searched(eps, setting)
    return found - _slack(found, setting.n)


def two_rr_domain(setting: Setting) -> str | None:
    """Why `two_rr_log_delta` does not apply; None where it does."""
    if setting.k != 2:
        return f"it covers k = 2 only (got k={setting.k})"
    if setting.n > EXHAUSTIVE_N:
        return f"it tries every data set, up to n = {EXHAUSTIVE_N:,} (got n={setting.n:,})"
    return None


@of_one_round
def two_rr_log_delta(eps: float, setting: Setting) -> float:
    """Log of the exact delta of shuffled 2-RR: the largest over all data sets, rounded up.

    A guarantee for the replacement of one report. All n counts are tried (a few seconds at the
    largest n); the reversed pair at a count is the forward one at its mirror image, so that one
    direction is enough. eps has any shape.

    Raises
    ------
    InputError
        If n exceeds 10,000, k is not 2, or an eps is out of range.
    """
    reason = two_rr_domain(setting)
    if reason:
        raise InputError(f"the exact delta of 2-RR does not apply: {reason}")
    worst = float(log_delta(eps, setting, np.arange(setting.n), "forward").max())
    return min(worst + _slack(worst, setting.n), 0.0)
