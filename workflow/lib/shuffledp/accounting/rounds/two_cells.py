"""Composition of rounds of shuffled 2-RR with an adaptively chosen worst data set in each round.

With two cells a data set is the number m of other users who hold x0. Let ``h_r(alpha)`` be the
largest delta at eps = ``log alpha`` of r rounds whose counts and neighbours may depend on the
outcomes of earlier rounds. After a first round with loss L the adversary continues with
``alpha exp(-L)``:

    ``h_{r+1}(alpha) = max over m of E[h_r(alpha exp(-L_m))]``,    ``h_0(alpha) = (1 - alpha)_+``,

where L_m has its law under P. The composition of the single pair whose profile is the maximum over
all counts would be larger, because no data set is the worst one on both sides of a loss of 0.
Counts are grouped into blocks, each with a pair that dominates all of its counts
(`one_round.two_cells`).
"""

from typing import Any

import numpy as np
from scipy.special import ndtri

from shuffledp.accounting.curve import LogDelta, UpperCurve
from shuffledp.accounting.one_round.single_bin import forward_ends
from shuffledp.accounting.rounds.outcome_bundles import DEPTH
from shuffledp.accounting.rounds.privacy_loss import UNDERFLOW, LossDistribution
from shuffledp.accounting.rounds.profile import POINTS_PER_SPACING, law_of_points
from shuffledp.accounting.setting import Setting
from shuffledp.numerics.arrays import UNIT, Floats, Integers

# Largest number of rounds for which this recursion is used.
MAX_ROUNDS = 200
# Width of a block of counts near n - 1 as a share of n, and its growth with the distance from n -
# 1. Blocks increase eps by about 0.3 % near n - 1, and by more for counts whose eps is that much
# smaller.
BLOCK_WIDTH, BLOCK_WIDTH_GROWTH = 0.006, 0.02
# Smaller deltas are not computed, because windows leave out about exp(-46) in each round.
MAX_NEGATIVE_LOG_DELTA = 36.0
# Grid points per standard deviation of a round's loss, or up to twice as many.
POINTS_PER_DEVIATION = 12.0


def worst_rounds(setting: Setting, estimate: LogDelta) -> UpperCurve:
    """Return an upper bound for rounds with two cells, down to `-MAX_NEGATIVE_LOG_DELTA`.

    Parameters
    ----------
    setting
        Setting with two cells and at most `MAX_ROUNDS` rounds.
    estimate
        Approximation of the log of delta of all rounds, which determines the range of the grid.
    """
    low, high = _blocks(setting.n)
    advantage = float(np.exp(forward_ends(0.0, setting, setting.n - (high - low), low)[1].max()))
    # The standard deviation of a normal loss with that advantage.
    deviation = 2.0 * float(ndtri(0.5 * (1.0 + min(advantage, 1.0 - 1e-9))))
    step = float(2.0 ** np.floor(np.log2(min(deviation, setting.eps0) / POINTS_PER_DEVIATION)))
    largest_eps = deviation
    while largest_eps < setting.budget and estimate(largest_eps) > -DEPTH:
        largest_eps *= 1.25
    size = int(np.ceil(min(largest_eps, setting.budget) / step)) + 2
    log_deltas = _recursion(_laws(setting, step), setting.rounds, step, size)

    def upper(eps: float) -> float:
        if eps >= setting.budget:
            return -np.inf
        index = min(int(eps / step), size - 2)
        # Delta is convex in exp(eps) and therefore lies below the chord.
        share = min(max(np.expm1(eps - step * index) / np.expm1(step), 0.0), 1.0)
        low, high = np.exp(log_deltas[index]), np.exp(log_deltas[index + 1])
        # The addend covers products of probabilities that underflow.
        value = float((1.0 - share) * low + share * high) + UNDERFLOW
        log = float(np.log(value))
        return min(log + 32.0 * UNIT * (1.0 - log), 0.0)

    return UpperCurve(setting.budget, upper=upper)


def _blocks(n: int) -> tuple[Integers, Integers]:
    """Return the first and last counts of blocks that partition 0..n-1, narrowest near n - 1."""
    low, high = list[int](), list[int]()
    last = n - 1
    while last >= 0:
        width = int(BLOCK_WIDTH * n + BLOCK_WIDTH_GROWTH * (n - 1 - last)) if last < n - 1 else 0
        high.append(last)
        low.append(max(last - width, 0))
        last = low[-1] - 1
    return np.array(low), np.array(high)


def _laws(setting: Setting, step: float) -> list[LossDistribution]:
    """Return, for each block, the loss of a pair that dominates its counts."""
    low, high = _blocks(setting.n)
    users = setting.n - (high - low)
    index, stride, points = 0, 1, list[tuple[int, Any, Any]]()
    while not points or max(points[-1][1].max(), points[-1][2].max()) > -DEPTH:
        eps = step * index
        above = forward_ends(eps, setting, users, low)[1]
        below = forward_ends(eps, setting, users, users - 1 - low)[1]
        points.append((index, above, below))
        if len(points) % POINTS_PER_SPACING == 0:
            stride *= 2
        index += stride
    indices = [index for index, _, _ in points]
    above, below = (np.stack([each[side] for each in points]) for side in (1, 2))
    return [
        law_of_points(
            _until_negligible(indices, above[:, i]), _until_negligible(indices, below[:, i]), step
        )
        for i in range(low.size)
    ]


def _until_negligible(indices: list[int], logs: Floats) -> list[tuple[int, float]]:
    """Return the points up to the first whose log delta is at most `-DEPTH`."""
    last = int(np.argmax(logs <= -DEPTH))
    return list(zip(indices[: last + 1], logs.tolist(), strict=False))


def _recursion(laws: list[LossDistribution], rounds: int, step: float, size: int) -> Floats:
    """Return logs of h after all rounds at non-negative multiples of the step, rounded up."""
    from tqdm import tqdm

    # h is also stored at as many negative multiples. Below these it is replaced by a chord to
    # h(0) = 1, and above the largest multiple by its last value.
    reach_above = max(law.start + law.mass.size for law in laws)
    reach_below = max(0, *(-law.start for law in laws))
    index = np.arange(-size, size, dtype=np.float64)
    h = -np.expm1(np.minimum(step * index, 0.0)) * (1.0 + 4.0 * UNIT)
    alpha_ratios = np.exp(-step * np.arange(reach_above, 0.0, -1.0))
    for _ in tqdm(range(rounds), desc="rounds", delay=2.0, leave=False, disable=None):
        below = np.minimum(1.0 - (1.0 - h[0]) * alpha_ratios + 8.0 * UNIT, 1.0)
        padded = np.concatenate([below, h, np.full(reach_below, h[-1])])
        following = np.zeros_like(h)
        for law in laws:
            start = reach_above - law.start - law.mass.size + 1
            window = padded[start : start + h.size + law.mass.size - 1]
            np.maximum(
                following, np.convolve(window, law.mass, "valid") + law.infinite, out=following
            )
        h = np.minimum(following, 1.0)
    size_of_sums = max(law.mass.size for law in laws)
    error = max(law.mass_error for law in laws) + UNIT * (size_of_sums + 16.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(h[size:]) + rounds * error)
