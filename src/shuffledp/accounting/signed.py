"""Certified delta of a histogram hidden by signed dummies: messages +1, -1, and pairs of both.

For each cell the analyst counts ``a = x + A + Z`` messages +1 and ``b = B + Z`` messages -1. Here x
is the number of true records. A and B are negative binomial with size s and ratio q:
``P(A = t)`` is proportional to ``q^t Gamma(s + t) / t!``. Z is negative binomial or Poisson. For
s = 1, where A and B are geometric, the noise (A + Z, B + Z) has the law

    f(a, b) = (1 - q)^2 q^|a - b| G(min(a, b)),    G(t) = P(Z = t) + q^2 G(t - 1).

One more record in the cell has the likelihood ratio ``r = f(a - 1, b) / f(a, b)``. Under f,
``r = 1 / q`` where ``a > b``, with probability ``q / (1 + q)``, and
``r = q G(a - 1) / G(a)`` where ``a <= b``, with probability ``(1 - q) G(a)`` for each a. The
target adds 1 to one of two cells, so ``delta = E (r - e^eps r')_+`` for every data set, where r and
r' are the independent likelihood ratios of the two cells. In f and r, a and b
are counts without the other users' records, which only shift a. The mechanism adapts one for sums
of numbers by Ghazi, Kumar, Manurangsi, Pagh and Sinha (2021).

If s is not 1, the values of r are computed from a table of f. With the law g of A and of B,

    f(b + d, b) = f(b, b + d) = sum over z of P(Z = z) g(b + d - z) g(b - z).

Two facts keep all sums short. If some values of Z, A or B are left out, delta is underestimated by
at most their probability in the two cells, which is added. And delta can only grow if the noise is
replaced by one of its independent summands, because adding the others is post-processing.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import ceil, exp, floor, inf, log, log1p, pi, sqrt

import numpy as np
from scipy import stats
from scipy.signal import lfilter
from scipy.special import gammaln

from shuffledp.accounting.rounds.privacy_loss import UNDERFLOW, Loss, Outcomes, loss_of_cells
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT, Floats

# Default probability left out of the laws. It is added to delta, so it limits how small a delta can
# be computed.
DEFAULT_TAIL = 1e-40
# Largest number of summed values of Z, which takes a second and 0.3 GB. Wider noise is replaced by
# one of its independent summands.
MAX_WINDOW = 2**22
# Largest number of table entries, which takes a few seconds.
MAX_TABLE_ENTRIES = 2**23
# Smaller probabilities are left out, because they may have lost digits.
SMALLEST_MASS = 1e-306
# Number of table entries processed at once.
ENTRIES_AT_ONCE = 2**18
# If a law has more than twice this many ratios, this many, those of the smallest counts, are kept.
# The others are divided into blocks, and a block's mass is moved to its smallest and its largest
# ratio.
MAX_UNSPLIT_RATIOS = 2**16
# Exponentials of exponents up to this size do not overflow.
MAX_EXPONENT = 700.0
# Number of positive grid points for the ratios of a table, and a lower limit on the smallest point.
GRID_RATIOS, SMALLEST_RATIO = 2**15, 1e-9
# `_Grid.add` finds a ratio's two grid points from log(ratio / smallest), which is below 40. Because
# this logarithm, its product with the scale and the grid points are rounded, the ratio may lie
# outside the interval between them, by at most this relative distance in units of rounding.
MISPLACED_UNITS = 512.0
# From this argument on, three terms of Stirling's series are accurate to two units of rounding.
STIRLING_FROM = 64.0


def log_masses(t: Floats, mean: float, shape: float) -> tuple[Floats, float]:
    """Return log probabilities of a negative binomial or Poisson law, and a bound on their error.

    Parameters
    ----------
    t
        Ascending integers >= 0.
    mean, shape
        Parameters of the law; an infinite shape gives a Poisson law. The mean may have an error of
        4 units of rounding.

    Returns
    -------
    Natural logarithms, and a bound on their absolute error in units of rounding.

    Notes
    -----
    Follows Loader, "Fast and accurate computation of binomial probabilities" (2000): a deviance,
    whose terms have about the size of ``t - mean``, replaces differences of log gamma functions,
    which are as large as ``t log t``.
    """
    distance, positive = t - mean, np.maximum(t, 1.0)
    count_term = positive * np.log1p(np.where(t > 0.0, distance / mean, 0.0))
    size_term = distance if shape == inf else (shape + t) * np.log1p(distance / (shape + mean))
    logs = size_term - count_term - 0.5 * np.log(2.0 * pi * positive) - _stirling_error(positive)
    if shape < inf:
        logs += _stirling_error(shape + t) - _stirling_error(np.array([shape]))
        logs -= 0.5 * (np.log(shape + t) - log(shape))
    # Stirling's formula is undefined at 0.
    logs[t == 0.0] = -mean if shape == inf else -shape * log1p(mean / shape)
    magnitude = 2.0 * np.abs(distance).max() + np.abs(count_term).max() + np.abs(size_term).max()
    return logs, 4096.0 + 8.0 * float(magnitude)


def _stirling_error(x: Floats) -> Floats:
    """Return the error of Stirling's formula for ``log gamma(x + 1)``; x ascending and positive."""
    first = int(np.searchsorted(x, STIRLING_FROM))
    small, inverse = x[:first], 1.0 / x[first:]
    formula = (small + 0.5) * np.log(small) - small + 0.5 * log(2.0 * pi)
    squares = inverse * inverse
    series = inverse * (1.0 / 12.0 - squares * (1.0 / 360.0 - squares / 1260.0))
    return np.concatenate([gammaln(small + 1.0) - formula, series])


def _tail_bound(t: float, mean: float, shape: float) -> float:
    """Return Chernoff's bound on the probability of the tail from t on, away from the mean."""
    if t < 0.0:
        return 0.0
    distance = t - mean
    size_term = distance if shape == inf else (shape + t) * log1p(distance / (shape + mean))
    count_term = t * log1p(distance / mean) if t > 0.0 else 0.0
    return 1.01 * exp(min(size_term - count_term, 0.0))


@dataclass(frozen=True)
class SignedNoise:
    """Total noise that all users add to one cell.

    Attributes
    ----------
    ratio
        q of the laws of A and B, in (0, 1); the ratio of successive probabilities if s = 1.
    pairs
        Mean of Z, the number of pairs; positive.
    shape
        Size parameter of the negative binomial law of Z; inf for a Poisson law.
    size
        s, the size parameter of the negative binomial laws of A and B; 1 for geometric laws.
    tail
        Approximate probability left out of the laws, in (0, 1). It is added to delta; a larger tail
        makes the computation faster.
    """

    ratio: float
    pairs: float
    shape: float = np.inf
    size: float = 1.0
    tail: float = DEFAULT_TAIL

    @lru_cache(maxsize=128)  # noqa: B019 (the same numbers of participants recur at each eps)
    def scaled(self, factor: float) -> "SignedNoise":
        """Return the noise that ``factor`` times as many users add."""
        return replace(
            self, pairs=factor * self.pairs, shape=factor * self.shape, size=factor * self.size
        )

    @property
    def entries(self) -> float:
        """Approximate size of the table of f, in entries; 0 for size 1, which needs none."""
        if self.size == 1.0:
            return 0.0
        min_quantile, max_quantile = self._quantiles
        return max_quantile * (self._width + min_quantile)

    @property
    def is_summable(self) -> bool:
        """Whether the law of the noise is short enough to be summed."""
        return self.entries < MAX_TABLE_ENTRIES and self._width <= MAX_WINDOW

    def summable(self) -> "SignedNoise":
        """Return this noise, or an independent summand of it whose law is short enough to sum.

        The delta of the result is an upper bound on the delta of this noise. If the table is too
        large, the size parameter must be above 1: only then is geometric noise, which needs no
        table, a summand.
        """
        noise = self
        while noise._width > MAX_WINDOW:
            noise = replace(noise, pairs=0.5 * noise.pairs, shape=0.5 * noise.shape)
        if noise.is_summable:
            return noise
        if self.size > 1.0:
            return replace(noise, size=1.0)
        raise InputError(
            f"negative binomial dummies with a size below 1 need a table of {noise.entries:,.0f} "
            f"entries, more than {MAX_TABLE_ENTRIES:,}: use a smaller ratio q, or a size of 1, "
            f"which needs none, got size={self.size}, ratio={self.ratio}, pairs={self.pairs}"
        )

    @property
    def _ends(self) -> tuple[float, float]:
        """First and last value of Z to sum; Z lies outside with probability about ``tail``."""
        depth = -log(self.tail)
        # Bernstein's inequality, for a law with this ratio of variance to mean.
        variance_ratio = 1.0 + self.pairs / self.shape
        below = sqrt(2.0 * depth * self.pairs * variance_ratio)
        scale = depth * variance_ratio / (3.0 if self.shape == inf else 1.0)
        first = max(floor(self.pairs - below), 0)
        return float(first), float(ceil(self.pairs + scale + sqrt(scale**2 + below**2)))

    @property
    def _width(self) -> float:
        first, last = self._ends
        return last - first + 1.0

    def _law_of_pairs(self) -> tuple[Floats, float, float]:
        """Return the law of Z without its tails, their probability, and the error of the law.

        The error is relative to each probability, in units of rounding.
        """
        first, last = self._ends
        t = np.arange(first, last + 1.0)
        logs, units = log_masses(t, self.pairs, self.shape)
        # Values less probable than tail / t.size are left out too: products must not underflow.
        kept = np.flatnonzero(logs > log(self.tail) - log(t.size))
        t, logs = t[kept[0] : kept[-1] + 1], logs[kept[0] : kept[-1] + 1]
        outside = _tail_bound(t[0] - 1.0, self.pairs, self.shape)
        outside += _tail_bound(t[-1] + 1.0, self.pairs, self.shape)
        return np.exp(logs), outside, units

    @cached_property
    def _law(self) -> tuple[Floats, Floats, float, float]:
        """Masses and ascending likelihood ratios r under f, probability left out, and error.

        The error is relative to each mass and ratio, in units of rounding.
        """
        noise = self.summable()
        if noise.size != 1.0:
            return noise._law_from_table()
        masses, ratios, outside, units = noise._law_in_closed_form()
        order = np.argsort(ratios, kind="stable")  # they are nearly sorted
        return masses[order], ratios[order], outside, units

    def _law_in_closed_form(self) -> tuple[Floats, Floats, float, float]:
        """Return `_law` for geometric A and B, with unsorted ratios."""
        q = self.ratio
        z_masses, outside, units = self._law_of_pairs()
        weights = np.asarray(lfilter([1.0], [1.0, -q * q], z_masses), np.float64)  # G
        masses = (1.0 - q) * weights
        ratios = np.append(0.0, q * weights[:-1] / weights[1:])
        units += 3.0 * z_masses.size
        if masses.size > 2 * MAX_UNSPLIT_RATIOS:
            masses, ratios, extra_units = _split_onto_block_ends(masses, ratios)
            units += extra_units
        # Above the last value of Z, G(t) = q^2 G(t - 1), so that r = 1 / q.
        above = (q + q * q * float(weights[-1])) / (1.0 + q)
        return np.append(masses, above), np.append(ratios, 1.0 / q), outside, units

    @cached_property
    def _quantiles(self) -> tuple[float, float]:
        """Quantiles of min(A, B) and max(A, B), exceeded with probability about ``tail``."""
        law = stats.nbinom(self.size, 1.0 - self.ratio)
        return float(law.isf(sqrt(self.tail))) + 1.0, float(law.isf(self.tail)) + 1.0

    def _law_from_table(self) -> tuple[Floats, Floats, float, float]:
        """Return `_law` from a table of f over all (a, b) except improbable ones.

        The mass of each ratio is split between two neighbouring grid points such that the mean is
        kept. Delta is a convex function of r and of r', so delta can only grow.
        """
        min_quantile, max_quantile = (int(each) for each in self._quantiles)
        z_masses, outside, units = self._law_of_pairs()
        t = np.arange(float(min_quantile + max_quantile + 1))
        mean = self.size * self.ratio / (1.0 - self.ratio)
        logs, extra_units = log_masses(t, mean, self.size)
        a_masses = np.exp(logs)
        law = stats.nbinom(self.size, 1.0 - self.ratio)
        min_tail, max_tail = float(law.sf(min_quantile - 1)), float(law.sf(max_quantile - 1))
        # With the record, a is larger by 1, so that outcomes at the edge of the table, with the
        # largest value of A, B or Z, leave it. Their mass is left out as well.
        outside += 2.0 * (min_tail**2 + 2.0 * max_tail) + float(z_masses[-1]) + UNDERFLOW
        units += 2.0 * extra_units + 3.0 * z_masses.size + 4.0 * min_quantile + MISPLACED_UNITS
        # Ends of the grid: an estimate of the smallest ratio, and an upper bound on the largest.
        representable = a_masses[a_masses > SMALLEST_MASS]
        a_ratios = (
            representable[1:] / representable[:-1]
            if representable.size > 1
            else np.array([self.ratio])
        )
        z_ratio = float(z_masses[1] / z_masses[0]) if z_masses.size > 1 else 0.0
        lowest = a_ratios / np.maximum(z_ratio + a_ratios * a_ratios[0], UNDERFLOW)
        smallest_ratio = min(float(lowest.min()), 1.0 / a_ratios[0])
        grid = _Grid(
            min(smallest_ratio, float(a_ratios.min())), max(1.0, 1.0 / self.size) / self.ratio
        )
        rows = max(ENTRIES_AT_ONCE // (z_masses.size + min_quantile), 1)
        for start in range(0, max_quantile, rows):
            # Rows are values of |a - b|, and columns values of min(a, b).
            f = np.stack(
                [
                    np.convolve(z_masses, a_masses[:min_quantile] * a_masses[d : d + min_quantile])
                    for d in range(start, min(start + rows, max_quantile) + 1)
                ]
            )
            # Masses without and with the record, for a > b and then for a <= b.
            grid.add(f[1:], f[:-1])
            grid.add(f[:-1], np.pad(f[1:, :-1], ((0, 0), (1, 0))))
        units += 2.0 * max_quantile * (z_masses.size + min_quantile)
        return grid.masses, grid.ratios, outside, units

    @cached_property
    def loss(self) -> Loss:
        """Privacy loss of one round: the sum of the losses of the two cells."""
        masses, ratios, outside, units = self._law
        slack = UNIT * units
        positive = ratios > 0.0
        losses, infinite_mass = np.log(ratios[positive]), float(masses[~positive].sum())
        with_record, without_record = masses[positive] * ratios[positive], masses[positive]
        infinite_ends = infinite_mass * (1.0 + slack) + outside, infinite_mass * (1.0 - slack)
        return loss_of_cells(
            [
                Outcomes(losses, with_record, outside, 0.0, 2.0 * slack, 2.0 * slack),
                Outcomes(-losses, without_record, *infinite_ends, slack, 2.0 * slack),
            ]
        )

    def log_delta(self, eps: float) -> float:
        """Return an upper bound on log delta for the replacement of one record in any data set."""
        masses, ratios, outside, units = self._law
        # Delta falls with eps, so beyond MAX_EXPONENT the delta at MAX_EXPONENT is an upper bound.
        e, slack = np.exp(min(eps, MAX_EXPONENT)), UNIT * units
        # Probabilities that the ratio is at least r, with and without the record.
        with_record = np.cumsum((masses * ratios)[::-1])[::-1]
        without_record = np.cumsum(masses[::-1])[::-1]
        # Values of r' with e^eps r' above all r do not contribute, and products might overflow.
        relevant = slice(np.searchsorted(ratios, ratios[-1] / e * (1.0 + 8.0 * slack)))
        mass, scaled = masses[relevant], e * ratios[relevant]
        start = np.minimum(np.searchsorted(ratios, scaled * (1.0 - 4.0 * slack)), ratios.size - 1)
        plus, minus = mass * with_record[start], mass * scaled * without_record[start]
        value = (plus - minus).sum() + 8.0 * slack * (plus + minus).sum() + 2.0 * outside
        return min(float(np.log(value)), 0.0)


def _split_onto_block_ends(masses: Floats, ratios: Floats) -> tuple[Floats, Floats, float]:
    """Return a law with fewer ratios and at least the same delta, and its error by rounding.

    The first `MAX_UNSPLIT_RATIOS` ratios are kept. The masses of each block of the others are split
    between its smallest and its largest ratio such that the mean is kept. Delta is a convex
    function of r and of r', so delta can only grow.
    """
    block = ceil(masses.size / MAX_UNSPLIT_RATIOS)
    starts = np.arange(MAX_UNSPLIT_RATIOS, masses.size, block)
    sizes = np.diff(np.append(starts, masses.size))
    low, high = (extreme.reduceat(ratios, starts) for extreme in (np.minimum, np.maximum))
    width = np.where(high > low, high - low, 1.0)
    up = masses[MAX_UNSPLIT_RATIOS:] * (ratios[MAX_UNSPLIT_RATIOS:] - np.repeat(low, sizes))
    up = np.add.reduceat(up, starts - MAX_UNSPLIT_RATIOS) / width
    down = masses[MAX_UNSPLIT_RATIOS:] * (np.repeat(high, sizes) - ratios[MAX_UNSPLIT_RATIOS:])
    down = np.add.reduceat(down, starts - MAX_UNSPLIT_RATIOS) / width
    down = np.where(high > low, down, np.add.reduceat(masses, starts))
    masses, ratios = (
        np.concatenate([each[:MAX_UNSPLIT_RATIOS], *new])
        for each, new in ((masses, (down, up)), (ratios, (low, high)))
    )
    return masses, ratios, 2.0 * block + 16.0


class _Grid:
    """A geometric grid of ratios, which includes 0, and the masses on it.

    The positive part ranges from the smallest positive ratio, but at least `SMALLEST_RATIO`, to an
    upper bound on all ratios.
    """

    def __init__(self, smallest: float, largest: float) -> None:
        self._smallest = max(smallest, SMALLEST_RATIO)
        self.ratios = np.append(0.0, np.geomspace(self._smallest, largest, GRID_RATIOS))
        self._scale = (GRID_RATIOS - 1) / log(largest / self._smallest)
        self.masses = np.zeros(self.ratios.size)

    def add(self, masses: Floats, masses_with_record: Floats) -> None:
        """Split the mass of each ratio ``masses_with_record / masses`` between two grid points.

        The mean is kept.
        """
        representable, grid = masses > SMALLEST_MASS, self.ratios
        masses = masses[representable]
        ratios = masses_with_record[representable] / masses
        # Faster than a search, but a ratio may lie just outside its two grid points.
        index = (np.log(np.maximum(ratios / self._smallest, 1.0)) * self._scale).astype(np.intp)
        index += ratios >= self._smallest
        np.minimum(index, grid.size - 2, out=index)
        share = np.clip((ratios - grid[index]) / np.diff(grid)[index], 0.0, 1.0) * masses
        self.masses += np.bincount(index, masses - share, grid.size)
        self.masses += np.bincount(index + 1, share, grid.size)
