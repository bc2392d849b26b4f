"""Composition of rounds of shuffled 2-RR with the worst data set in each round.

For k = 2, a data set is the count m of other users who hold the target's cell x0. Let
``h_r(alpha)`` be the largest delta at eps = ``log alpha`` of r rounds, whose counts and neighbours
may depend on the outcomes of earlier rounds. With the privacy loss L_m of the first round at
count m, drawn under P,

    ``h_{r+1}(alpha) = max over m of E[h_r(alpha exp(-L_m))]``,    ``h_0(alpha) = (1 - alpha)_+``.

Composition of one pair that dominates all counts would give a larger delta, because no count is the
worst one for both positive and negative losses. Counts are grouped into blocks, each with a pair
that dominates all of its counts (`one_round.two_rr`).
"""

from typing import Any

import numpy as np
from scipy.special import ndtri

from shuffledp.accounting.curve import LogDelta, UpperCurve
from shuffledp.accounting.one_round.single_bin import forward_ends
from shuffledp.accounting.rounds.outcome_bundles import DEFAULT_DEPTH
from shuffledp.accounting.rounds.privacy_loss import UNDERFLOW, LossDistribution
from shuffledp.accounting.rounds.profile import POINTS_PER_SPACING, law_of_points
from shuffledp.accounting.setting import Setting
from shuffledp.numerics.arrays import UNIT, Floats, Integers

# Largest number of rounds for which this recursion is used.
MAX_ROUNDS = 200
# The count n - 1 is a block of its own. Any other block, whose last count is c, begins about
# BLOCK_WIDTH n + BLOCK_WIDTH_GROWTH (n - 1 - c) counts before c. Blocks increase the eps of their
# counts by about 0.3 % near n - 1, and by more far from it, where eps is smaller.
BLOCK_WIDTH, BLOCK_WIDTH_GROWTH = 0.006, 0.02
# Below this log delta the bound is not used: each round adds a probability of about exp(-46) of an
# infinite loss.
MIN_LOG_DELTA = -36.0
# Grid points per standard deviation of a round's loss; rounding of the step may double the number.
POINTS_PER_DEVIATION = 12.0


def worst_curve(setting: Setting, estimate: LogDelta) -> UpperCurve:
    """Return an upper bound on the curve of all rounds, for k = 2.

    It is useful for at most `MAX_ROUNDS` rounds and log deltas above `MIN_LOG_DELTA`.
    ``estimate`` is the approximate log delta of all rounds as a function of eps; it sets the range
    of the grid.
    """
    low, high = _blocks(setting.n)
    largest_delta = float(
        np.exp(forward_ends(0.0, setting, setting.n - (high - low), low)[1].max())
    )
    # The standard deviation of a normal loss with this delta at eps = 0.
    deviation = 2.0 * float(ndtri(0.5 * (1.0 + min(largest_delta, 1.0 - 1e-9))))
    step = float(2.0 ** np.floor(np.log2(min(deviation, setting.eps0) / POINTS_PER_DEVIATION)))
    largest_eps = deviation
    while largest_eps < setting.budget and estimate(largest_eps) > -DEFAULT_DEPTH:
        largest_eps *= 1.25
    points = int(np.ceil(min(largest_eps, setting.budget) / step)) + 2
    log_deltas = _recursion(_laws(setting, step), setting.rounds, step, points)

    def upper(eps: float) -> float:
        if eps >= setting.budget:
            return -np.inf
        index = min(int(eps / step), points - 2)
        # Delta is convex in exp(eps), so it lies below the chord between two grid points.
        # Near the budget `right` is 0, so the weight of `left` needs digits of its own.
        weight = min(max(np.expm1(eps - step * index) / np.expm1(step), 0.0), 1.0)
        left_weight = min(max(np.expm1(eps - step * (index + 1)) / np.expm1(-step), 0.0), 1.0)
        left, right = np.exp(log_deltas[index]), np.exp(log_deltas[index + 1])
        value = float(left_weight * left + weight * right) + UNDERFLOW
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
    """Return, for each block of counts, the loss distribution of a pair that dominates them."""
    low, high = _blocks(setting.n)
    # The bound reveals the reports of high - low other users (`one_round.two_rr`).
    users = setting.n - (high - low)
    index, stride, points = 0, 1, list[tuple[int, Any, Any]]()
    while not points or max(points[-1][1].max(), points[-1][2].max()) > -DEFAULT_DEPTH:
        eps = step * index
        forward_logs = forward_ends(eps, setting, users, low)[1]
        # With the two cells exchanged, the reverse direction is the forward one.
        reverse_logs = forward_ends(eps, setting, users, users - 1 - low)[1]
        points.append((index, forward_logs, reverse_logs))
        if len(points) % POINTS_PER_SPACING == 0:
            stride *= 2
        index += stride
    indices = [index for index, _, _ in points]
    forward_logs, reverse_logs = (np.stack([each[side] for each in points]) for side in (1, 2))
    return [
        law_of_points(
            _until_negligible(indices, forward_logs[:, i]),
            _until_negligible(indices, reverse_logs[:, i]),
            step,
        )
        for i in range(low.size)
    ]


def _until_negligible(indices: list[int], logs: Floats) -> list[tuple[int, float]]:
    """Return the points up to the first one with log delta at most ``-DEFAULT_DEPTH``."""
    last = int(np.argmax(logs <= -DEFAULT_DEPTH))
    return list(zip(indices[: last + 1], logs.tolist(), strict=False))


def _recursion(laws: list[LossDistribution], rounds: int, step: float, points: int) -> Floats:
    """Return log h after all rounds, rounded up, at `points` values 0, step, ... of log alpha."""
    from tqdm import tqdm

    # Losses reach `reach_above` steps above 0 and `reach_below` below. h is stored from -points to
    # points - 1 steps. At smaller alpha it is replaced by the chord to h = 1 at alpha = 0, at
    # larger alpha by its last value.
    reach_above = max(law.start + law.mass.size for law in laws)
    reach_below = max(0, *(-law.start for law in laws))
    index = np.arange(-points, points, dtype=np.float64)
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
    max_terms = max(law.mass.size for law in laws)
    error = max(law.mass_error for law in laws) + UNIT * (max_terms + 16.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(h[points:]) + rounds * error)
