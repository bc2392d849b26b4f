"""Derive intervals and better estimates from noisy counts alone, at no cost in privacy."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.numerics.arrays import Integers
from shuffledp.numerics.posterior import NoiseLaw, posterior_median
from shuffledp.publishing.noise import Noise

LEVEL: Final = 0.95  # probability with which an interval covers the true count


@dataclass(frozen=True)
class Intervals:
    """Half-widths of the intervals around noisy counts, in records.

    `joint` holds for all cells (of all windows) together, `one` for a single cell.
    """

    one: int
    joint: int


def interval_widths(noise: Noise, counts: int) -> Intervals:
    """Return the half-widths for a number of counts with independent noise."""
    # All intervals hold with probability (1 - miss)^counts.
    miss = -np.expm1(np.log(LEVEL) / counts)
    return Intervals(noise.half_width(1.0 - LEVEL), noise.half_width(float(miss)))


def estimates(noisy: Integers, noise: Noise) -> pd.DataFrame:
    """Return intervals and estimates of the true counts.

    The columns are noisy_count; estimate (`posterior_median`); low and high (interval of one cell),
    joint_low and joint_high (of all cells together). True counts are at least 0, and so are the
    ends of intervals. `noisy` has shape ``(counts,)``.
    """
    widths = interval_widths(noise, noisy.size)
    ends = {
        f"{prefix}{end}": np.maximum(noisy + sign * width, 0)
        for prefix, width in (("", widths.one), ("joint_", widths.joint))
        for end, sign in (("low", -1), ("high", 1))
    }
    median = posterior_median(noisy, NoiseLaw(noise.sd, noise.log_weight))
    return pd.DataFrame({"noisy_count": noisy, "estimate": median, **ends})


@dataclass(frozen=True)
class Quality:
    """Whether a map shows more than noise, judged by its noisy counts.

    A map is mostly noise if the interval of a cell is wider than the median estimate. To change
    that, multiply eps by `eps_factor` (None if no eps is enough, because at least half of the
    estimates are 0), or merge `cells_factor` neighbouring cells or windows (None if no number is
    enough).
    """

    mostly_noise: bool
    eps_factor: float | None = None
    cells_factor: int | None = None


def quality(estimate: Integers, noise: Noise, order: Integers) -> Quality:
    """Return the quality of a map.

    `estimate` has shape ``(windows, cells)``. `order` are the cells in an order in which neighbours
    are close to each other, shape ``(cells,)``.
    """
    width = 2.0 * noise.half_width(1.0 - LEVEL)
    median = float(np.median(estimate))
    if width <= median:
        return Quality(False)
    eps_factor = width / median if median > 0.0 else None
    joined, sorted_cells = 1, estimate[:, order]
    while (joined := 2 * joined) <= order.size // 2:
        starts = np.arange(0, order.size - joined + 1, joined)
        sums = np.add.reduceat(sorted_cells[:, : starts.size * joined], starts, axis=1)
        if 2.0 * noise.sum_half_width(joined, 1.0 - LEVEL) <= float(np.median(sums)):
            return Quality(True, eps_factor, joined)
    return Quality(True, eps_factor)


def sum_widths(noise: Noise, largest: int) -> Sequence[tuple[int, int]]:
    """Return pairs of a number of cells and the half-width of the interval of their sum.

    The numbers go from 1 to at least `largest`; above 10, each is at most a tenth larger than the
    previous one. For a number in between, the half-width of the next larger one is valid.
    """
    numbers = [1]
    while numbers[-1] < largest:
        numbers.append(max(numbers[-1] + 1, int(1.1 * numbers[-1])))
    return [(cells, noise.sum_half_width(cells, 1.0 - LEVEL)) for cells in numbers]
