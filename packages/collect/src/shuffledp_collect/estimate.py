"""From counts to estimates of each cell, with errors and intervals by the exact law of the noise.

A count is the number of records plus noise whose law follows from the campaign's tables and does
not depend on the records. An interval contains all true numbers under which the count is not too
rare, so that it covers empty cells as well as full ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from shuffledp.errors import InputError
from shuffledp.mechanisms.estimators import project_simplex
from shuffledp.numerics.arrays import Floats

from shuffledp_collect.analyst import Opened
from shuffledp_collect.campaign import Campaign
from shuffledp_collect.tables import Table

ComplexNumbers = NDArray[np.complexfloating[Any, Any]]

# Coverage of the interval of one cell, and of the intervals of all cells together.
COVERAGE: Final = 0.95
# A law is computed on this many standard deviations on each side, at most on this many values.
_REACH_DEVIATIONS: Final = 60.0
_MAX_VALUES: Final = 2**24


@dataclass(frozen=True)
class NoiseLaw:
    """A law on the integers: ``masses[i]`` is the probability of ``first + i``."""

    first: int
    masses: Floats

    @cached_property
    def mean(self) -> float:
        """Mean of the law."""
        return float(self.masses @ self._values)

    @cached_property
    def deviation(self) -> float:
        """Standard deviation of the law."""
        return float(np.sqrt(self.masses @ (self._values - self.mean) ** 2))

    def between(self, missed: float) -> tuple[int, int]:
        """Return ends that a value misses with at most half of a probability on each side."""
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
    """Estimated numbers of respondents in each cell or region, shapes ``(cells,)``.

    The estimates are unbiased. ``low`` and ``high`` are the ends of an interval with `COVERAGE` for
    each cell alone; the intervals from ``low_all`` to ``high_all`` hold for all cells together with
    at least `COVERAGE`.
    """

    estimate: Floats
    standard_error: Floats
    low: Floats
    high: Floats
    low_all: Floats
    high_all: Floats


def noise_law(campaign: Campaign, respondents: int, cells: int = 1) -> NoiseLaw:
    """Return the law of the noise in the sum of the counts of several cells.

    It is computed by a Fourier transform; its probabilities have an error of about 1e-13.
    """
    laws, share = campaign.laws, cells / campaign.cells
    servers = [table for table in (laws.mixer, laws.analyst) if table is not None]
    # The messages of a pair cancel.
    devices = [
        (noise, 1 if noise.sign == "plus" else -1) for noise in laws.device if noise.sign != "pair"
    ]
    mean = variance = 0.0
    for table in servers:
        first, second = _moments(table)
        mean, variance = mean + cells * first, variance + cells * (second - first**2)
    for noise, sign in devices:
        number, size = _moments(noise.number), _moments(noise.size)
        each = share * number[0] * size[0]
        mean += sign * respondents * each
        factorial = share**2 * (number[1] - number[0]) * size[0] ** 2
        variance += respondents * (share * number[0] * size[1] + factorial - each**2)
    reach = _REACH_DEVIATIONS * np.sqrt(variance) + 200.0
    length = 2 ** int(np.ceil(np.log2(2.0 * reach)))
    if length > _MAX_VALUES:
        raise InputError(
            f"the noise has a standard deviation of {variance**0.5:g}, which is too large for an "
            "exact law"
        )
    angles = 2j * np.pi * np.fft.rfftfreq(length)
    first_value = int(np.floor(mean)) - length // 2
    logs = -angles * first_value
    for table in servers:
        logs = logs + cells * np.log(_generating(table, np.exp(angles)))
    for noise, sign in devices:
        clump = _generating(noise.size, np.exp(sign * angles))
        logs = logs + respondents * np.log(_generating(noise.number, 1.0 + share * (clump - 1.0)))
    # The inverse transform has the opposite sign.
    masses = np.fft.irfft(np.conj(np.exp(logs)), length)
    return NoiseLaw(first_value, np.maximum(masses, 0.0))


def _moments(table: Table) -> tuple[float, float]:
    """Return mean and mean square."""
    return float(table.masses @ table.values), float(table.masses @ table.values**2)


def _generating(table: Table, at: ComplexNumbers) -> ComplexNumbers:
    """Return the mean of ``at ** value``."""
    return np.asarray(np.polynomial.polynomial.polyval(at, table.masses) * at**table.first)


def estimate_cells(campaign: Campaign, opened: Opened) -> Estimates:
    """Estimate the number of respondents in every cell."""
    return _estimates(campaign, opened.respondents, [(1, int(count)) for count in opened.counts])


def estimate_regions(
    campaign: Campaign, opened: Opened, regions: Mapping[str, Sequence[int]]
) -> Estimates:
    """Estimate the number of respondents in regions, given as the cells of each name.

    Raises `InputError` if a region has no cell, a repeated one, or one that does not exist.
    """
    for name, cells in regions.items():
        known = all(0 <= cell < campaign.cells for cell in cells)
        if not cells or len(set(cells)) < len(cells) or not known:
            raise InputError(
                f"region {name!r} must have different cells from 0 to {campaign.cells - 1}"
            )
    sums = [(len(cells), int(opened.counts[list(cells)].sum())) for cells in regions.values()]
    return _estimates(campaign, opened.respondents, sums)


def projected(estimates: Estimates, respondents: int) -> Floats:
    """Return the nearest non-negative numbers that sum to the respondents; they are biased."""
    return project_simplex(estimates.estimate / respondents) * respondents


def _estimates(campaign: Campaign, respondents: int, sums: Sequence[tuple[int, int]]) -> Estimates:
    """Estimate from sums of counts, given as number of cells and sum."""
    laws = {
        cells: noise_law(campaign, respondents, cells) for cells in {cells for cells, _ in sums}
    }

    def intervals(missed: float) -> tuple[Floats, Floats]:
        ends = {cells: law.between(missed) for cells, law in laws.items()}
        low = np.array([count - ends[cells][1] for cells, count in sums], np.float64)
        high = np.array([count - ends[cells][0] for cells, count in sums], np.float64)
        # A true number lies between 0 and the respondents.
        return low.clip(0.0, respondents), high.clip(0.0, respondents)

    missed = 1.0 - COVERAGE
    return Estimates(
        np.array([count - laws[cells].mean for cells, count in sums]),
        np.array([laws[cells].deviation for cells, _ in sums]),
        *intervals(missed),
        *intervals(missed / len(sums)),
    )
