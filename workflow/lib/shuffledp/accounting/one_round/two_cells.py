"""Shuffled 2-RR exactly: with two cells every data set is a count.

Of the n - 1 other users m hold the target's cell x0. Tell the adversary about ``hi - lo`` of them:
what is left is lo of ``n - 1 - (hi - lo)`` others in x0, for every m in ``lo..hi`` alike. So its
divergence bounds a whole block of counts, and cutting up the blocks whose bound is above the best
count closes the interval (branch and bound). The reversed pair at m is the forward one at
``n - 1 - m``: one direction is enough.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffledp.accounting.conventions import of_one_round
from shuffledp.accounting.laws.multinomial import LogInterval
from shuffledp.accounting.one_round.single_bin import forward_ends
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers

EXHAUSTIVE_N = 10_000
# How many blocks there are first; into how many a block is cut, at least, or so that there are
# enough: it takes about as long to find the bounds of 64 as of one.
_FIRST_BLOCKS, _FEW, _AT_ONCE = 16, 4, 64
# Enough to come down to single counts; for more users blocks of n / 16,000 or so, which cost eps
# half as much.
_MOST_BLOCKS, _MOST_OF_MANY = 2 * EXHAUSTIVE_N, 20_000
# Of how many blocks, those with the largest bounds, the counts are looked at each time.
_LOOKED_AT = 10


@dataclass(frozen=True)
class Worst:
    """The largest delta over all counts.

    Attributes
    ----------
    ends
        Natural logarithms that enclose it. The lower one is attained at ``count``.
    count
        How many of the other users hold x0 there.
    low, high
        First and last count of blocks that make up ``0..n-1``: each block's bound is at most the
        upper end.
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
        One round of two cells.
    spare
        How far the upper end may be above the lower one, as a share of the log's size or of 1,
        whichever is more: then the search ends sooner.

    Returns
    -------
    Without a spare rounding (some 1e-13) is all that lies between the ends for n up to 10,000, and
    up to some 1e-4 of eps above.
    """
    low, high = _parts(np.array([0]), np.array([setting.n - 1]), _FIRST_BLOCKS)
    likely = np.array([0, setting.n - 1])
    best, count, visited = -np.inf, 0, 0
    most = _MOST_BLOCKS if setting.n <= EXHAUSTIVE_N else _MOST_OF_MANY
    done: list[tuple[Integers, Integers, float]] = []
    while low.size:
        visited += low.size
        # Of blocks the bounds, of the likeliest counts so far, and of blocks of one, the values.
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
        first = np.argsort(-bound, kind="stable")[:_LOOKED_AT]
        likely = np.unique(np.append(low[first], high[first]))
        low, high = _parts(low, high, min(max(_AT_ONCE // max(low.size, 1), _FEW), _FIRST_BLOCKS))
    lows, highs, bounds = zip(*done, strict=True)
    low, high = np.concatenate(lows), np.concatenate(highs)
    order = np.argsort(low)
    enclosed = LogInterval(best, min(max(*bounds, best), 0.0))
    return Worst(enclosed, count, low[order], high[order])


def _parts(low: Integers, high: Integers, parts: int) -> tuple[Integers, Integers]:
    """Blocks cut into so many of about the same length, or into single counts."""
    size = high + 1 - low
    edges = low[:, None] + size[:, None] * np.arange(parts + 1) // parts
    some = edges[:, 1:] > edges[:, :-1]
    return edges[:, :-1][some], edges[:, 1:][some] - 1


def two_rr_domain(setting: Setting) -> str | None:
    """Why `two_rr_log_delta` does not apply; None where it does."""
    if setting.k != 2:
        return f"it covers k = 2 only (got k={setting.k})"
    if setting.n > EXHAUSTIVE_N:
        return f"it looks at every data set, up to n = {EXHAUSTIVE_N:,} (got n={setting.n:,})"
    return None


@of_one_round
def two_rr_log_delta(eps: float, setting: Setting) -> float:
    """Log of the exact delta of shuffled 2-RR: the largest over all data sets, rounded up.

    A guarantee for the replacement of one report. eps has any shape.

    Raises
    ------
    InputError
        If n exceeds 10,000, k is not 2, or an eps is out of range.
    """
    reason = two_rr_domain(setting)
    if reason:
        raise InputError(f"the exact delta of 2-RR does not apply: {reason}")
    return worst(eps, setting).ends.high
