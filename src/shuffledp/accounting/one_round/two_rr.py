"""The largest delta of shuffled 2-RR over all data sets, by branch and bound.

For k = 2, a data set is the number m of other users, out of n - 1, who hold the cell x0 of the
distinguished user, the target. Suppose that m is known to lie in a block ``low..high``, and reveal
the reports of ``high - low`` other users to the adversary, such that low of the remaining users
hold x0. What remains is the same for every m in the block, so its divergence is an upper bound for
the block. Blocks whose bound exceeds the largest delta found so far are divided until the two
agree. The divergence of (Q, P) at m is that of (P, Q) at ``n - 1 - m``, so one direction suffices.
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
# Smallest number of parts of a divided block, and the largest, which is also the number of initial
# blocks.
MIN_PARTS, INITIAL_BLOCKS = 4, 16
# Number of blocks to evaluate at once; 64 take about as long as one.
BLOCKS_AT_ONCE = 64
# After this number of evaluated blocks no more are divided. For n up to EXHAUSTIVE_N it is not
# reached, since dividing down to single counts takes fewer than 2 n blocks. For larger n, the final
# blocks have about n / 16,000 counts, which changes eps by about 1 part in 32,000.
MAX_BLOCKS = 2 * EXHAUSTIVE_N
# Delta itself is evaluated at the first and last count of this number of blocks, those with the
# largest bounds.
BLOCKS_WITH_EVALUATED_COUNTS = 10


@dataclass(frozen=True)
class WorstCount:
    """The largest delta over all counts, and a proof of its upper bound.

    Attributes
    ----------
    ends
        Natural logs that enclose the largest delta. The lower end is attained at ``count``.
    count
        Number of other users who hold x0.
    first_counts, last_counts
        First and last counts of the blocks that partition ``0..n-1``; the upper end bounds each
        block's divergence.
    """

    ends: LogInterval
    count: int
    first_counts: Integers
    last_counts: Integers


@lru_cache(maxsize=64)
def worst_count(eps: float, setting: Setting, tolerance: float = 0.0) -> WorstCount:
    """Enclose the log of the largest delta of one round over all data sets, for k = 2.

    ``tolerance`` is the largest acceptable difference between the ends: absolute if the log of
    delta is above -1, otherwise relative to it. With a tolerance of 0, the ends differ by rounding
    only (about 1e-13) for n up to 10,000. For larger n, the eps that they imply differ by up to
    about 1e-4 (relative).
    """
    low, high = _parts(np.array([0]), np.array([setting.n - 1]), INITIAL_BLOCKS)
    candidates = np.array([0, setting.n - 1])
    best, count, visited = -np.inf, 0, 0
    done: list[tuple[Integers, Integers, float]] = []
    while low.size:
        visited += low.size
        # Bounds of blocks, then deltas at candidates; a block with one count yields both.
        counts = np.append(low, candidates)
        users = setting.n - np.append(high - low, np.zeros_like(candidates))
        ends = forward_ends(eps, setting, users, counts)
        bound, values = ends[1][: low.size], np.where(users == setting.n, ends[0], -np.inf)
        if values.max() > best:
            best, count = float(values.max()), int(counts[np.argmax(values)])
        threshold = best + tolerance * max(1.0, -best) if best > -np.inf else best
        split = (bound > threshold) & (high > low) & (visited <= MAX_BLOCKS)
        done.append((low[~split], high[~split], float(bound[~split].max(initial=-np.inf))))
        low, high, bound = low[split], high[split], bound[split]
        first = np.argsort(-bound, kind="stable")[:BLOCKS_WITH_EVALUATED_COUNTS]
        candidates = np.unique(np.append(low[first], high[first]))
        low, high = _parts(
            low, high, min(max(BLOCKS_AT_ONCE // max(low.size, 1), MIN_PARTS), INITIAL_BLOCKS)
        )
    lows, highs, bounds = zip(*done, strict=True)
    low, high = np.concatenate(lows), np.concatenate(highs)
    order = np.argsort(low)
    enclosed = LogInterval(best, min(max(*bounds, best), 0.0))
    return WorstCount(enclosed, count, low[order], high[order])


def _parts(low: Integers, high: Integers, parts: int) -> tuple[Integers, Integers]:
    """Divide the blocks into parts of about equal length, each of at least one count."""
    size = high + 1 - low
    edges = low[:, None] + size[:, None] * np.arange(parts + 1) // parts
    nonempty = edges[:, 1:] > edges[:, :-1]
    return edges[:, :-1][nonempty], edges[:, 1:][nonempty] - 1


def two_rr_objection(setting: Setting) -> str | None:
    """Return a reason why `two_rr_log_delta` does not apply, or None."""
    if setting.k != 2:
        return f"k must be 2, got k={setting.k}"
    if setting.n > EXHAUSTIVE_N:
        return f"n must be at most {EXHAUSTIVE_N:,} to search every data set, got n={setting.n:,}"
    return None


@over_eps_of_one_round
def two_rr_log_delta(eps: float, setting: Setting) -> float:
    """Return the log of the largest delta of shuffled 2-RR over all data sets, rounded up.

    Parameters are those of `krr.upper_log_delta`. Raises `InputError` if `two_rr_objection`
    returns a reason.
    """
    reason = two_rr_objection(setting)
    if reason:
        raise InputError(f"the exact bound on 2-RR does not apply: {reason}")
    return worst_count(eps, setting).ends.high
