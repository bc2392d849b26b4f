"""From counts to an estimate of each cell: errors and intervals by the exact law of all noise.

What is added to the true number of a cell, or of several, does not depend on it, so that intervals
hold for empty cells and for full ones. The law follows from the campaign's tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from shuffledp.collection.analyst import Opened
from shuffledp.collection.campaign import Campaign
from shuffledp.collection.tables import Table
from shuffledp.errors import InputError
from shuffledp.mechanisms.estimation import project_simplex
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

    @property
    def mean(self) -> float:
        """Its mean."""
        return float(self.masses @ self._values)

    @property
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


def noise_law(campaign: Campaign, respondents: int, cells: int = 1) -> Law:
    """Law of what is added to the true number of so many cells together.

    Parameters
    ----------
    campaign
        Whose tables are drawn from.
    respondents
        Of the round: each adds noise where the mechanism says so.
    cells
        Of a region.

    Returns
    -------
    By a Fourier transform, right to some 1e-13.
    """
    laws, part = campaign.laws, cells / campaign.cells
    servers = [table for table in (laws.mixer, laws.analyst) if table is not None]
    mean = variance = 0.0
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
    logs = -turns * first_value
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
    law = noise_law(campaign, opened.respondents)
    return _estimates(opened.counts.astype(np.float64), [law] * campaign.cells, opened.respondents)


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
    laws = {
        size: noise_law(campaign, opened.respondents, size)
        for size in sorted({len(cells) for cells in regions.values()})
    }
    counts = [opened.counts[list(cells)].sum() for cells in regions.values()]
    return _estimates(
        np.array(counts, np.float64),
        [laws[len(cells)] for cells in regions.values()],
        opened.respondents,
    )


def projected(estimates: Estimates, respondents: int) -> Floats:
    """The nearest numbers that are not negative and sum to the respondents; biased."""
    return project_simplex(estimates.estimate / respondents) * respondents


def _estimates(counts: Floats, laws: Sequence[Law], respondents: int) -> Estimates:
    missed = 1.0 - COVERAGE
    ends = {
        share: {id(law): law.between(share) for law in laws}
        for share in (missed, missed / len(laws))
    }
    alone, together = (
        np.array([ends[share][id(law)] for law in laws], np.float64)
        for share in (missed, missed / len(laws))
    )

    def clipped(values: Floats) -> Floats:
        return np.clip(values, 0.0, respondents)

    return Estimates(
        counts - [law.mean for law in laws],
        np.array([law.deviation for law in laws]),
        clipped(counts - alone[:, 1]),
        clipped(counts - alone[:, 0]),
        clipped(counts - together[:, 1]),
        clipped(counts - together[:, 0]),
    )
