"""The largest delta of shuffled 2-RR over all data sets, by branch and bound.

With two cells a data set is the number m of the n - 1 other users who hold the target's cell x0. An
adversary who is told the records of some ``hi - lo`` of them faces the other ``n - 1 - (hi - lo)``,
of whom lo hold x0, whichever m in ``lo..hi`` is true. Its divergence is therefore an upper bound
for a block of counts. Blocks whose bound is above the best count are divided until the ends meet.
The reversed pair at m is the forward pair at ``n - 1 - m``, so one direction suffices.
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

# Up to this many users the search reaches single counts.
EXHAUSTIVE_N = 10_000
# Number of initial blocks, smallest number of parts of a divided block, and number of blocks that
# are evaluated at once, because the bounds of 64 blocks take about as long as one.
INITIAL_BLOCKS, MIN_PARTS, BLOCKS_AT_ONCE = 16, 4, 64
# Largest numbers of evaluated blocks, for up to EXHAUSTIVE_N users and for more. For more users,
# blocks keep about n / 16,000 counts, which changes eps by about 1 part in 32,000.
MAX_BLOCKS, MAX_BLOCKS_OF_MANY_USERS = 2 * EXHAUSTIVE_N, 20_000
# The counts at the ends of this many blocks with the largest bounds are evaluated.
BLOCKS_WITH_EVALUATED_COUNTS = 10


@dataclass(frozen=True)
class WorstCount:
    """The largest delta over all counts.

    Attributes
    ----------
    ends
        Natural logs that enclose it. The lower one is attained at ``count``.
    count
        Number of other users who hold x0.
    low, high
        First and last counts of blocks that partition ``0..n-1``. The upper end is an upper bound
        for each block.
    """

    ends: LogInterval
    count: int
    low: Integers
    high: Integers


@lru_cache(maxsize=64)
def worst_count(eps: float, setting: Setting, tolerance: float = 0.0) -> WorstCount:
    """Enclose the log of the largest delta over all data sets, for k = 2.

    Parameters
    ----------
    eps
        At least 0.
    setting
        One round with two cells.
    tolerance
        Tolerance of the distance between the ends: absolute for a log of size up to 1, relative
        for a larger one.

    Returns
    -------
    With no tolerance, the ends differ by rounding only (about 1e-13) for n up to 10,000, and for
    larger n by up to about 1e-4 of eps.
    """
    low, high = _parts(np.array([0]), np.array([setting.n - 1]), INITIAL_BLOCKS)
    likely = np.array([0, setting.n - 1])
    best, count, visited = -np.inf, 0, 0
    max_blocks = MAX_BLOCKS if setting.n <= EXHAUSTIVE_N else MAX_BLOCKS_OF_MANY_USERS
    done: list[tuple[Integers, Integers, float]] = []
    while low.size:
        visited += low.size
        # Bounds of blocks, and exact values of likely counts and of blocks with one count.
        counts = np.append(low, likely)
        users = setting.n - np.append(high - low, np.zeros_like(likely))
        ends = forward_ends(eps, setting, users, counts)
        bound, values = ends[1][: low.size], np.where(users == setting.n, ends[0], -np.inf)
        if values.max() > best:
            best, count = float(values.max()), int(counts[np.argmax(values)])
        threshold = best + tolerance * max(1.0, -best) if best > -np.inf else best
        split = (bound > threshold) & (high > low) & (visited <= max_blocks)
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
    return WorstCount(enclosed, count, low[order], high[order])


def _parts(low: Integers, high: Integers, parts: int) -> tuple[Integers, Integers]:
    """Return blocks divided into parts of about the same length, or into single counts."""
    size = high + 1 - low
    edges = low[:, None] + size[:, None] * np.arange(parts + 1) // parts
    nonempty = edges[:, 1:] > edges[:, :-1]
    return edges[:, :-1][nonempty], edges[:, 1:][nonempty] - 1


def two_rr_domain(setting: Setting) -> str | None:
    """Return the reason why `two_rr_log_delta` does not apply, or None."""
    if setting.k != 2:
        return f"k must be 2 (got k={setting.k})"
    if setting.n > EXHAUSTIVE_N:
        return f"n must be at most {EXHAUSTIVE_N:,} to search every data set (got n={setting.n:,})"
    return None


@over_eps_of_one_round
def two_rr_log_delta(eps: float, setting: Setting) -> float:
    """Return the log of the exact delta of shuffled 2-RR over all data sets, rounded up.

    It is a guarantee for the replacement of one record. eps has any shape.

    Raises
    ------
    InputError
        If n exceeds 10,000, k is not 2, or an eps is out of range.
    """
    reason = two_rr_domain(setting)
    if reason:
        raise InputError(f"the exact delta of 2-RR does not apply: {reason}")
    return worst_count(eps, setting).ends.high
