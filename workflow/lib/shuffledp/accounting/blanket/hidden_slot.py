"""A tighter upper end: the target hides in the slot of another user (docs/hidden-slot.md).

Of the n - 1 others a hold x0, b hold x1 and the rest anything else. With a law G for each of these
kinds and J above all three,

    ``delta <= (1 - kappa)^(n-1) delta_loc + (1/n) E[(sum of the others' G + J)_+]``.

The largest over a and b is sought by halving cells ``[a0, a1] x [b0, b1]``. In the bound of a cell
a user who may be of several kinds has a law above all of these.
"""

from collections.abc import Sequence

import numpy as np
from tqdm import tqdm

from shuffledp.accounting.blanket.atoms import Atoms, log_saddle_point
from shuffledp.accounting.blanket.groups import Groups
from shuffledp.accounting.blanket.join import join
from shuffledp.numerics.arrays import UNIT, Floats, Integers

# How far, in log delta, the bound of a cell may be above the worst data set that was tried.
_TOLERANCE = 0.01
# Cells that are looked at, at most, and how many are halved at a time.
_CELLS, _AT_ONCE = 2**14, 32


def exposure(log_delta: float, n: int) -> float:
    """A good kappa where delta is about ``exp(log_delta)``: the first term then is 1/sqrt(n) of it.

    A larger kappa makes that term smaller, and hides the target among fewer users.
    """
    return (max(-log_delta, 0.0) + 0.5 * float(np.log(n))) / n


def hidden_slot_log_delta(kinds: Sequence[Atoms], n: int, kappa: float, ceiling: float) -> float:
    """Natural log of a delta that holds for every data set of n users, rounded up.

    A progress bar on a terminal where it takes more than a second.

    Parameters
    ----------
    kinds
        The laws of G for who holds x0, x1 and anything else.
    n
        Number of users, at least 2.
    kappa
        Probability with which each user is exposed.
    ceiling
        Log of a delta that is known to hold. The search ends where it cannot go below.

    Returns
    -------
    At most the ceiling.
    """
    top = max(float(law.safe(1.0).values.max()) for law in kinds)
    x0, x1, other = (
        Atoms(law.values / top, law.masses, law.units, law.errors / top).safe(1.0) for law in kinds
    )
    # Of each kind the mean of the positive part is delta_loc.
    local = top * float(np.maximum(x0.values, 0.0) @ x0.masses)
    alone = (n - 1) * float(np.log1p(-kappa)) + float(np.log(local))
    alone += UNIT * (2.0 * x0.units + x0.values.size + n + 8.0 * (abs(alone) + 8.0))
    laws = [x0, x1, other, join([x0, other]), join([x1, other]), join([x0, x1, other])]
    leading = int(np.argmax([log_saddle_point(law, n) for law in laws[:3]]))
    largest = _largest(Groups(laws, n, leading), n - 1, ceiling - float(np.log(top)))
    found = float(np.logaddexp(largest + np.log(top), alone))
    return min(found + UNIT * 8.0 * (abs(largest) + abs(found) + 8.0), ceiling)


def _largest(groups: Groups, others: int, ceiling: float) -> float:
    """Bound of the worst data set, rounded up; or of one that is above the ceiling."""

    def bounds(cells: Integers) -> Floats:
        return groups.log_mean_excess_high(_counts(cells, others))

    # What a user who is undecided adds to a cell's bound.
    zero, one, other, zero_other, one_other, _ = groups.log_moments
    cost = zero_other - max(zero, other), one_other - max(one, other)
    cells = np.array([[0, others, 0, others]])
    highs = bounds(cells)
    alike = np.array([[0, 0, 0, 0], [others, others, 0, 0], [0, 0, others, others]])
    worst = float(bounds(alike).max())
    tried = 4
    with tqdm(desc="data sets", unit=" cells", leave=False, disable=None, delay=1.0) as bar:
        while worst < ceiling and tried < _CELLS:
            order = np.argsort(-highs)
            open_cells = int((highs > worst + _TOLERANCE).sum())
            if open_cells == 0:
                break
            chosen, kept = np.split(order, [min(open_cells, _AT_ONCE)])
            halves = _within(_halved(cells[chosen], cost), others)
            # The data set in a corner of each that is halved.
            found = bounds(np.concatenate([cells[chosen][:, [0, 0, 2, 2]], halves]))
            worst = max(worst, float(found[: chosen.size].max()))
            cells = np.concatenate([cells[kept], halves])
            highs = np.concatenate([highs[kept], found[chosen.size :]])
            tried += found.size
            bar.update(found.size)
    return max(worst, float(highs.max()))


def _counts(cells: Integers, others: int) -> Integers:
    """Users who surely hold x0, x1, neither; who may be x0, x1, or either; the last with J."""
    a0, a1, b0, b1 = cells.T
    left, a, b = others - a0 - b0, a1 - a0, b1 - b0
    either = np.maximum(a + b - left, 0)
    neither = left - a - b + either
    return np.stack([a0, b0, neither, a - either, b - either, either + 1], axis=1)


def _halved(cells: Integers, cost: tuple[float, float]) -> Integers:
    """Each cell in two, across the side that costs more."""
    a, b = cells[:, 1] - cells[:, 0], cells[:, 3] - cells[:, 2]
    low = np.where((b == 0) | ((a > 0) & (a * cost[0] >= b * cost[1])), 0, 2)
    rows = np.arange(len(cells))
    middle = (cells[rows, low] + cells[rows, low + 1]) // 2
    first, second = cells.copy(), cells.copy()
    first[rows, low + 1], second[rows, low] = middle, middle + 1
    return np.concatenate([first, second])


def _within(cells: Integers, others: int) -> Integers:
    """Cells without what no data set is in: a + b is at most the number of others."""
    a0, a1, b0, b1 = cells[cells[:, 0] + cells[:, 2] <= others].T
    return np.stack([a0, np.minimum(a1, others - b0), b0, np.minimum(b1, others - a0)], axis=1)
