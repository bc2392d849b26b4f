"""From counts to an estimate of each cell: errors and intervals by the exact law of all noise.

The law of a count, given how many hold its cells, follows from the campaign's tables. An interval
has all true numbers under which the count is not too rare: it holds for empty cells and full ones.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shuffledp.collection.analyst import Opened
from shuffledp.collection.campaign import Campaign
from shuffledp.collection.tables import Table
from shuffledp.errors import InputError
from shuffledp.mechanisms.estimators import project_simplex
from shuffledp.numerics.arrays import Floats

Complex = NDArray[np.complexfloating[Any, Any]]

# Of intervals, those of all cells together among them.
COVERAGE: Final = 0.95
# Standard deviations on each side that a law is known for, and its longest.
_REACH: Final = 60.0
_LONGEST: Final = 2**24


@dataclass(frozen=True)
class Law:
    """Law of whole numbers: ``masses[i]`` is the chance of ``first + i``."""

    first: int
    masses: Floats

    @cached_property
    def mean(self) -> float:
        """Its mean."""
        return float(self.masses @ self._values)

    @cached_property
    def deviation(self) -> float:
        """Its standard deviation."""
        return float(np.sqrt(self.masses @ (self._values - self.mean) ** 2))

    def between(self, missed: float) -> tuple[int, int]:
        """Ends between which a value lies but for a chance, at most half of it on each side."""
        below = np.cumsum(self.masses)
        above = np.cumsum(self.masses[::-1])[::-1]
        low = int(np.flatnonzero(below > 0.5 * missed)[0])
        high = int(np.flatnonzero(above > 0.5 * missed)[-1])
        return self.first + low, self.first + high

    @property
    def _values(self) -> Floats:
        return self.first + np.arange(self.masses.size, dtype=np.float64)


@dataclass(frozen=True)
class Estimates:
    """Of respondents in each cell, or in each region, shapes ``(cells,)``.

    Attributes
    ----------
    estimate
        Unbiased.
    standard_error
        Of each.
    low, high
        Interval of `COVERAGE` for each alone.
    low_all, high_all
        Intervals that all hold together with at least `COVERAGE`.
    """

    estimate: Floats
    standard_error: Floats
    low: Floats
    high: Floats
    low_all: Floats
    high_all: Floats


def count_law(campaign: Campaign, respondents: int, cells: int = 1, held: int = 0) -> Law:
    """Law of the count of so many cells together.

    Parameters
    ----------
    campaign
        Whose tables are drawn from.
    respondents
        Of the round: each adds noise where the mechanism says so.
    cells
        Of a region.
    held
        How many respondents hold a record there.

    Returns
    -------
    By a Fourier transform, right to some 1e-13.
    """
    laws, part = campaign.laws, cells / campaign.cells
    servers = [table for table in (laws.mixer, laws.analyst) if table is not None]
    # Who holds a record there reports it with chance p, who does not with chance q.
    p, q = _kept(campaign) + (1.0 - _kept(campaign)) * part, (1.0 - _kept(campaign)) * part
    others = respondents - held
    mean = held * p + others * q
    variance = held * p * (1.0 - p) + others * q * (1.0 - q)
    for table in servers:
        first, second = _moments(table)
        mean, variance = mean + cells * first, variance + cells * (second - first**2)
    for noise in laws.device:
        if noise.sign != "pair":
            number, size = _moments(noise.number), _moments(noise.size)
            each = part * number[0] * size[0]
            mean += respondents * each * (1 if noise.sign == "plus" else -1)
            factorial = part**2 * (number[1] - number[0]) * size[0] ** 2
            variance += respondents * (part * number[0] * size[1] + factorial - each**2)
    reach = _REACH * np.sqrt(variance) + 200.0
    length = 2 ** int(np.ceil(np.log2(2.0 * reach)))
    if length > _LONGEST:
        raise InputError(f"the noise is too wide to be known exactly: deviation {variance**0.5:g}")
    turns = 2j * np.pi * np.fft.rfftfreq(length)
    first_value = int(np.floor(mean)) - length // 2
    once = np.exp(turns) - 1.0
    with np.errstate(divide="ignore"):  # an even chance has no term at half a turn
        logs = -turns * first_value + _power(1.0 + p * once, held) + _power(1.0 + q * once, others)
    for table in servers:
        logs = logs + cells * np.log(_transform(table, turns))
    for noise in laws.device:
        if noise.sign != "pair":
            clump = _transform(noise.size, turns if noise.sign == "plus" else -turns)
            logs = logs + respondents * np.log(
                _generating(noise.number, 1.0 + part * (clump - 1.0))
            )
    # With the sign of Fourier's inverse.
    masses = np.fft.irfft(np.conj(np.exp(logs)), length)
    return Law(first_value, np.maximum(masses, 0.0))


def _kept(campaign: Campaign) -> float:
    """Chance that a device sends its record, and no uniform cell in its place."""
    return 1.0 if campaign.laws.blanket is None else float(_masses(campaign.laws.blanket)[0])


def _power(base: Complex, exponent: int) -> Complex | float:
    """Logarithm of a power; of the power 0 none of the base."""
    return exponent * np.log(base) if exponent else 0.0


def _masses(table: Table) -> Floats:
    below = np.array([int(text, 16) / 2.0**128 for text in table.thresholds])
    return np.diff(below, prepend=0.0, append=1.0)


def _moments(table: Table) -> tuple[float, float]:
    """Mean and mean square."""
    masses = _masses(table)
    values = table.first + np.arange(masses.size)
    return float(masses @ values), float(masses @ values**2)


def _transform(table: Table, turns: Complex) -> Complex:
    return _generating(table, np.exp(turns))


def _generating(table: Table, at: Complex) -> Complex:
    """Mean of ``at ** value``."""
    masses = _masses(table)
    return np.asarray(np.polynomial.polynomial.polyval(at, masses) * at**table.first)


def estimate_cells(campaign: Campaign, opened: Opened) -> Estimates:
    """Estimate of every cell.

    Parameters
    ----------
    campaign, opened
        Counts of a round, and its campaign.
    """
    counts = opened.counts.tolist()
    return _estimates(campaign, opened.respondents, [(1, count) for count in counts])


def estimate_regions(
    campaign: Campaign, opened: Opened, regions: Mapping[str, Sequence[int]]
) -> Estimates:
    """Estimate of the number of respondents in each of some regions.

    Parameters
    ----------
    campaign, opened
        As of `estimate_cells`.
    regions
        Different cells of each, by its name.

    Raises
    ------
    InputError
        If a region has no cell, one twice, or one that does not exist.
    """
    for name, cells in regions.items():
        known = all(0 <= cell < campaign.cells for cell in cells)
        if not cells or len(set(cells)) < len(cells) or not known:
            raise InputError(
                f"region {name!r} must have different cells from 0 to {campaign.cells - 1}"
            )
    return _estimates(
        campaign,
        opened.respondents,
        [(len(cells), int(opened.counts[list(cells)].sum())) for cells in regions.values()],
    )


def projected(estimates: Estimates, respondents: int) -> Floats:
    """The nearest numbers that are not negative and sum to the respondents; biased."""
    return project_simplex(estimates.estimate / respondents) * respondents


def _estimates(
    campaign: Campaign, respondents: int, counts: Sequence[tuple[int, int]]
) -> Estimates:
    """Of counts, each of so many cells together."""
    kept, missed = _kept(campaign), 1.0 - COVERAGE

    @cache
    def law(cells: int, held: int) -> Law:
        return count_law(campaign, respondents, cells, held)

    @cache
    def ends(cells: int, held: int, share: float) -> tuple[int, int]:
        return law(cells, held).between(share)

    def given(held: int) -> int:
        return held if kept < 1.0 else 0  # of other noise the law does not depend on it

    def interval(cells: int, count: int, share: float) -> tuple[int, int]:
        def end(which: int) -> Callable[[int], int]:
            return lambda held: ends(cells, given(held), share)[which] + held - given(held)

        every = range(respondents + 1)  # ends grow with who holds
        low = bisect_left(every, count, key=end(1))
        high = bisect_right(every, count, key=end(0)) - 1
        return min(low, respondents), max(high, 0)

    estimate = np.array([(count - law(cells, 0).mean) / kept for cells, count in counts])
    held = [given(each) for each in np.rint(estimate.clip(0.0, respondents)).astype(int).tolist()]
    alone, together = (
        np.array([interval(*each, share) for each in counts], np.float64)
        for share in (missed, missed / len(counts))
    )
    error = [law(cells, h).deviation / kept for (cells, _), h in zip(counts, held, strict=True)]
    return Estimates(
        estimate, np.array(error), alone[:, 0], alone[:, 1], together[:, 0], together[:, 1]
    )
