"""Derive intervals and better estimates from noisy counts alone, at no cost in privacy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from shuffledp.numerics.arrays import Integers
from shuffledp.numerics.posterior import NoiseLaw, posterior_median
from shuffledp.publishing.levels import Measurements
from shuffledp.publishing.noise import LEVEL, Noise

_ALONE: Final = 1e-4  # probability with which noise alone exceeds what it is said to explain


def joint_half_width(noise: Noise, counts: int) -> int:
    """Return the half-width, in records, of intervals of independent counts that hold together."""
    # They do with probability (1 - miss)^counts.
    miss = -np.expm1(np.log(LEVEL) / counts)
    return noise.half_width(float(miss))


def estimates(noisy: Integers, noise: Noise) -> pd.DataFrame:
    """Return intervals and estimates of the true counts of a map without levels.

    The columns are raw and count (the noisy count); estimate (`posterior_median`); low and high
    (interval of one cell), joint_low and joint_high (of all cells together). True counts are at
    least 0, and so are the ends of intervals. `noisy` has shape ``(counts,)``.
    """
    widths = {"": noise.half_width(1.0 - LEVEL), "joint_": joint_half_width(noise, noisy.size)}
    ends = {
        f"{prefix}{end}": np.maximum(noisy + sign * width, 0)
        for prefix, width in widths.items()
        for end, sign in (("low", -1), ("high", 1))
    }
    median = posterior_median(noisy, NoiseLaw(noise.sd, noise.log_weight))
    return pd.DataFrame({"raw": noisy, "count": noisy, "estimate": median, **ends})


def estimates_of_levels(
    noisy: Mapping[tuple[int, int], Integers], measurements: Measurements
) -> dict[tuple[int, int], pd.DataFrame]:
    """Return intervals and estimates of the true counts of every level.

    `noisy` has the noisy counts of each level that is measured, shape ``(times, areas)``. The
    tables have a row for each count, all areas of the first time first. Without levels, there is
    one table, that of `estimates`. With levels, the columns are

    - raw: the noisy count, missing for a level without a share of the budget;
    - count: the least-squares estimate from the noisy counts of all levels. It is unbiased, and the
      counts of all levels add up;
    - estimate: an integer close to it and at least 0. Estimates add up, too;
    - low and high: the interval of one count, which contains at least 0.
    """
    if not measurements.several:
        return {(0, 0): estimates(noisy[0, 0].ravel(), measurements.measured[0, 0].noise)}
    counts = measurements.estimate(noisy)
    counted = measurements.sums(counts)
    estimated = measurements.sums(measurements.whole_numbers(counts))
    tables = {}
    for at, count in counted.items():
        low, high = whole_interval(count, measurements.half_widths[at], 0.0)
        whole = {"estimate": estimated[at], "low": low, "high": high}
        raw: Any = noisy[at].ravel() if at in noisy else pd.array([None] * count.size, "Int64")
        tables[at] = pd.DataFrame(
            {"raw": raw, "count": count.ravel()}
            | {name: column.ravel().astype(np.int64) for name, column in whole.items()}
        )
    return tables


def estimates_of_sparse(
    counts: Integers,
    noisy: Mapping[tuple[int, int], Integers],
    measurements: Measurements,
    least: int,
) -> dict[tuple[int, int], pd.DataFrame]:
    """Return intervals and estimates of a sparse map, of which only some counts are released.

    `counts` has the numbers of the counts above 0, and ``noisy[0, 0]`` their noisy counts; a row is
    released if that is at least `least`. The index has its number. Columns are raw, count,
    estimate, low and high; a released count is at least 1. Other levels are not sparse.
    """
    tables = {}
    for at, drawn in noisy.items():
        width = measurements.measured[at].noise.half_width(1.0 - LEVEL)
        raw, index, smallest = drawn.ravel(), np.arange(drawn.size), 0
        if at == (0, 0):
            shown = raw >= least
            raw, index, smallest = raw[shown], counts[shown], 1
        whole = {
            "raw": raw,
            "count": raw,
            "estimate": np.maximum(raw, 0),
            "low": np.maximum(raw - width, smallest),
            "high": np.maximum(raw + width, smallest),
        }
        tables[at] = pd.DataFrame(whole, index=index)
    return tables


def whole_interval(count: Any, half_width: Any, least: float) -> tuple[Any, Any]:
    """Return the smallest and the largest integer, at least `least`, in an interval of a count.

    Without an integer in the interval, the noise is larger than the interval covers; both ends are
    then the nearest one. Arrays have the same shape.
    """
    nearest = np.maximum(np.rint(count), least)
    low = np.maximum(np.ceil(count - half_width), least)
    return np.minimum(low, nearest), np.maximum(np.floor(count + half_width), nearest)


@dataclass(frozen=True)
class Quality:
    """Whether a map shows more than noise, judged by its noisy counts.

    `share` is that of all records, by the estimates, which lie in cells whose interval is narrower
    than their estimate. A map is mostly noise if it is less than a half. To change that, multiply
    eps by `eps_factor` (None if no eps is enough, because all estimates are 0), or merge
    `cells_factor` neighbouring cells or windows (None if no number is enough).
    """

    share: float
    eps_factor: float | None = None
    cells_factor: int | None = None

    @property
    def mostly_noise(self) -> bool:
        """Whether less than half of the records are in cells that show more than noise."""
        return self.share < 0.5


def quality(
    counts: Any, estimate: Integers, noise: Noise, order: Integers, width: float | None = None
) -> Quality:
    """Return the quality of a map.

    `counts` are unbiased, and `estimate` belongs to them, both of shape ``(windows, cells)``. If
    noise alone would explain the largest of them, and their sum, no record is taken for more than
    noise: a single large noise would otherwise be the only count of an empty map. `order` are the
    cells in an order in which neighbours are close to each other, shape ``(cells,)``. `width` is
    that of a typical interval, by default of the noise of one cell.
    """
    if width is None:
        width = 2.0 * noise.half_width(1.0 - LEVEL)
    largest = noise.half_width(_ALONE / counts.size)
    explained = counts.max() <= largest and counts.sum() <= noise.sum_half_width(
        counts.size, _ALONE
    )
    share = 0.0 if explained else share_above(estimate, width)
    if share >= 0.5:
        return Quality(share)
    middle = _middle(estimate)
    eps_factor = width / middle if middle > 0.0 else None
    joined, sorted_cells = 1, estimate[:, order]
    while (joined := 2 * joined) <= order.size // 2:
        starts = np.arange(0, order.size - joined + 1, joined)
        sums = np.add.reduceat(sorted_cells[:, : starts.size * joined], starts, axis=1)
        if 2.0 * noise.sum_half_width(joined, 1.0 - LEVEL) <= _middle(sums):
            return Quality(share, eps_factor, joined)
    return Quality(share, eps_factor)


def share_above(estimate: Integers, width: float) -> float:
    """Return the share of all records in cells whose estimate is above `width`."""
    total = int(estimate.sum())
    return float(estimate[estimate > width].sum()) / total if total else 0.0


def _middle(estimate: Integers) -> float:
    """Return the count that at least half of the records reach with their cell."""
    falling = np.sort(estimate, axis=None)[::-1]
    return float(falling[np.searchsorted(np.cumsum(falling), falling.sum() / 2)])


def sum_widths(noise: Noise, largest: int) -> Sequence[tuple[int, int]]:
    """Return pairs of a number of cells and the half-width of the interval of their sum.

    The numbers go from 1 to at least `largest`; above 10, each is at most a tenth larger than the
    previous one. For a number in between, the half-width of the next larger one is valid.
    """
    numbers = [1]
    while numbers[-1] < largest:
        numbers.append(max(numbers[-1] + 1, int(1.1 * numbers[-1])))
    return [(cells, noise.sum_half_width(cells, 1.0 - LEVEL)) for cells in numbers]
