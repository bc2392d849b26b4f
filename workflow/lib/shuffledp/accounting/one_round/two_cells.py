"""The largest delta of shuffled 2-RR over all data sets: with two cells every data set is a count.

m of the n - 1 other users hold the target's cell x0. If the adversary is told about ``hi - lo`` of
them, the remaining data set has lo of ``n - 1 - (hi - lo)`` others in x0, for every m in
``lo..hi``. Its divergence therefore bounds a whole block of counts. Dividing the blocks whose bound
is above the best count closes the interval (branch and bound). The reversed pair at m is the
forward one at ``n - 1 - m``, so one direction is enough.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffledp.accounting.conventions import over_eps_of_one_round
from shuffledp.accounting.laws.multinomial import LogInterval
from shuffledp.accounting.one_round.single_bin import forward_ends
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers

EXHAUSTIVE_N = 10_000
# Number of initial blocks; smallest number of parts of a divided block; number of blocks to
# evaluate at once, because the bounds of 64 blocks take about as long as one.
INITIAL_BLOCKS, MIN_PARTS, BLOCKS_AT_ONCE = 16, 4, 64
# Largest numbers of evaluated blocks. Up to EXHAUSTIVE_N users this suffices for single counts;
# with more users blocks have about n / 16,000 counts, which changes eps by half that share.
MAX_BLOCKS, MAX_BLOCKS_OF_MANY_USERS = 2 * EXHAUSTIVE_N, 20_000
# The counts at the ends of this many blocks, those with the largest bounds, are evaluated.
BLOCKS_WITH_EVALUATED_COUNTS = 10


@dataclass(frozen=True)
class Worst:
    """The largest delta over all counts.

    Attributes
    ----------
    ends
        Natural logarithms that enclose it. The lower one is attained at ``count``.
    count
        Number of other users who hold x0.
    low, high
        First and last counts of blocks that partition ``0..n-1``; the bound of each block is at
        most the upper end.
    """

    ends: LogInterval
    count: int
    low: Integers
    high: Integers


@lru_cache(maxsize=64)
def worst(eps: float, setting: Setting, spare: float = 0.0) -> Worst:
    """Enclose the log of the largest delta over all data sets, for k = 2.

    Parameters
    ----------
    eps
        At least 0.
    setting
        One round with two cells.
    spare
        Allowed distance of the ends, as a share of the larger of 1 and the log's size; the search
        ends sooner.

    Returns
    -------
    With ``spare = 0`` the ends differ by rounding only (some 1e-13) for n up to 10,000; for larger
    n by up to some 1e-4 of eps.
    """
    low, high = _parts(np.array([0]), np.array([setting.n - 1]), INITIAL_BLOCKS)
    likely = np.array([0, setting.n - 1])
    best, count, visited = -np.inf, 0, 0
    most = MAX_BLOCKS if setting.n <= EXHAUSTIVE_N else MAX_BLOCKS_OF_MANY_USERS
    done: list[tuple[Integers, Integers, float]] = []
    while low.size:
        visited += low.size
        # Bounds of blocks, and values of the most promising counts and of blocks of one count.
        counts = np.append(low, likely)
        users = setting.n - np.append(high - low, np.zeros_like(likely))
        ends = forward_ends(eps, setting, users, counts)
        bound, values = ends[1][: low.size], np.where(users == setting.n, ends[0], -np.inf)
        if values.max() > best:
            best, count = float(values.max()), int(counts[np.argmax(values)])
        enough = best + spare * max(1.0, -best) if best > -np.inf else best
        split = (bound > enough) & (high > low) & (visited <= most)
        done.append((low[~split], high[~split], float(bound[~split].max(initial=-np.inf))))
        low, high, bound = low[split], high[split], bound[split]
        first = np.argsort(-bound, kind="stable")[:BLOCKS_WITH_EVALUATED_COUNTS]
        likely = np.unique(np.append(low[first], high[first]))
        low, high = _parts(
            low, high, min(max(BLOCKS_AT_ONCE // max(low.size, 1), MIN_PARTS), INITIAL_BLOCKS)
        )
    lows, highs, bounds = zip(*done, strict=True)
    low, high = np.concatenate(lows), np.concatenate(highs)
    order = np.argsort(low)
    enclosed = LogInterval(best, min(max(*bounds, best), 0.0))
    return Worst(enclosed, count, low[order], high[order])


def _parts(low: Integers, high: Integers, parts: int) -> tuple[Integers, Integers]:
    """Return blocks divided into parts of about the same length, or into single counts."""
    size = high + 1 - low
    edges = low[:, None] + size[:, None] * np.arange(parts + 1) // parts
    some = edges[:, 1:] > edges[:, :-1]
    return edges[:, :-1][some], edges[:, 1:][some] - 1


def two_rr_domain(setting: Setting) -> str | None:
    """Return the reason why `two_rr_log_delta` does not apply, or None."""
    if setting.k != 2:
        return f"it covers k = 2 only (got k={setting.k})"
    if setting.n > EXHAUSTIVE_N:
        return f"it looks at every data set, up to n = {EXHAUSTIVE_N:,} (got n={setting.n:,})"
    return None


@over_eps_of_one_round
def two_rr_log_delta(eps: float, setting: Setting) -> float:
    """Return the log of the exact delta of shuffled 2-RR, the largest over all data sets.

    It is rounded up, and a guarantee for the replacement of one report. eps has any shape.

    Raises
    ------
    InputError
        If n exceeds 10,000, k is not 2, or an eps is out of range.
    """
    reason = two_rr_domain(setting)
    if reason:
        raise InputError(f"the exact delta of 2-RR does not apply: {reason}")
    return worst(eps, setting).ends.high
