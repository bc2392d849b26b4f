"""Exact privacy of a histogram among signed dummies: plus and minus messages, and pairs of both.

Of a cell the analyst counts ``a = x + A + Z`` plus and ``b = B + Z`` minus messages: x true
records, A and B negative binomial of ratio q and size s, Z negative binomial or Poisson. Where
s = 1, so that A and B are geometric, the noise alone has the law

    f(a, b) = (1 - q)^2 q^|a - b| G(min(a, b)),    G(t) = P(Z = t) + q^2 G(t - 1).

One record more multiplies it by ``r = f(a - 1, b) / f(a, b)``: by ``1 / q`` where ``a > b``, which
has mass ``q / (1 + q)``, and by ``q G(a - 1) / G(a)`` where ``a <= b``, of mass ``(1 - q) G(a)``.
The target adds 1 to one of two cells, so that ``delta = E (r - e^eps r')_+`` with independent r and
r', on every data set. After Ghazi, Kumar, Manurangsi, Pagh and Sinha (2021), who add up numbers.

If s is not 1, r differs from cell to cell: with the probabilities g of A it is of the table

    f(b + d, b) = f(b, b + d) = sum over z of P(Z = z) g(b + d - z) g(b - z).

Two facts keep all sums short. Leaving values of Z, A or B out of the laws with and without the
record adds at most their probability in either cell to delta. And noise is a sum of independent
parts: its delta is at most that of some of the parts.
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

# Probability left out of the laws, so that the smallest delta is about as much.
_TAIL = 1e-40
# Values of Z that are summed: a second and 0.3 GB. Wider laws are replaced by parts of them.
_MAX_WINDOW = 2**22
# Most entries of a table: some seconds.
_MAX_TABLE = 2**23
# Smaller entries, which may have lost their digits, are left out.
_LEAST_MASS = 1e-306
# Entries of a table that are worked on at a time.
_TABLE_PART = 2**18
# A law with more ratios has its first ones as they are, and blocks of the others.
_MAX_EXACT = 2**16
_MAX_EPS = 700.0
# Ratios onto which those of a table are split, and the least one beside 0.
_SPLIT, _LEAST_RATIO = 2**15, 1e-9
# Units of rounding by which a ratio may be outside the two that it is split onto: those of a
# logarithm below 40 and of its product, and of powers with exponents below 40.
_MISPLACED = 512.0
# From here on three terms of Stirling's series are right to a unit of rounding.
_STIRLING_FROM = 64.0


def log_masses(t: Floats, mean: float, shape: float) -> tuple[Floats, float]:
    """Return log probabilities of a negative binomial or Poisson law, and their largest error.

    Parameters
    ----------
    t
        Ascending whole numbers of at least 0.
    mean, shape
        Of the law; an infinite shape makes it Poisson's. The mean may be wrong by 4 units.

    Returns
    -------
    The logs, and a bound on their absolute error in units of rounding.

    Notes
    -----
    Loader's form ("Fast and accurate computation of binomial probabilities", 2000): the deviance,
    whose terms have about the size of ``t - mean``, replaces log gamma functions, which are as
    large as ``t log t``.
    """
    x, positive = t - mean, np.maximum(t, 1.0)
    up = positive * np.log1p(np.where(t > 0.0, x / mean, 0.0))
    down = x if shape == inf else (shape + t) * np.log1p(x / (shape + mean))
    logs = down - up - 0.5 * np.log(2.0 * pi * positive) - _stirling(positive)
    if shape < inf:
        logs += _stirling(shape + t) - _stirling(np.array([shape]))
        logs -= 0.5 * (np.log(shape + t) - log(shape))
    # Stirling's formula has no value at 0.
    logs[t == 0.0] = -mean if shape == inf else -shape * log1p(mean / shape)
    sizes = 2.0 * np.abs(x).max() + np.abs(up).max() + np.abs(down).max()
    return logs, 4096.0 + 8.0 * float(sizes)


def _stirling(x: Floats) -> Floats:
    """Return ``log gamma(x + 1)`` less Stirling's formula, of ascending positive numbers."""
    first = int(np.searchsorted(x, _STIRLING_FROM))
    small, inverse = x[:first], 1.0 / x[first:]
    formula = (small + 0.5) * np.log(small) - small + 0.5 * log(2.0 * pi)
    squares = inverse * inverse
    series = inverse * (1.0 / 12.0 - squares * (1.0 / 360.0 - squares / 1260.0))
    return np.concatenate([gammaln(small + 1.0) - formula, series])


def _tail_bound(t: float, mean: float, shape: float) -> float:
    """Return Chernoff's bound on the probability of t and all values further from the mean."""
    if t < 0.0:
        return 0.0
    x = t - mean
    down = x if shape == inf else (shape + t) * log1p(x / (shape + mean))
    up = t * log1p(x / mean) if t > 0.0 else 0.0
    return 1.01 * exp(min(down - up, 0.0))


@dataclass(frozen=True)
class SignedNoise:
    """Noise of one cell by all users together.

    Attributes
    ----------
    ratio
        q, in (0, 1).
    pairs
        Mean of Z, positive.
    shape
        Of the negative binomial law of Z; inf for a Poisson law.
    size
        s, positive, of the negative binomial laws of A and B: 1 for geometric ones.
    tail
        About the chance of what is left out of the laws, in (0, 1). Delta has it in it: with more
        left out it is larger, and quicker.
    """

    ratio: float
    pairs: float
    shape: float = np.inf
    size: float = 1.0
    tail: float = _TAIL

    @lru_cache(maxsize=128)  # noqa: B019 (numbers of participants that are asked at each eps)
    def of_more(self, times: float) -> "SignedNoise":
        """Return the noise of so many times as many users, each of whom sends as much."""
        return replace(
            self, pairs=times * self.pairs, shape=times * self.shape, size=times * self.size
        )

    @property
    def entries(self) -> float:
        """Of the table, about; 0 where there is a formula in place of it."""
        if self.size == 1.0:
            return 0.0
        half, reach = self._reaches
        return reach * (self._width + half)

    @property
    def known(self) -> bool:
        """Whether the law is short enough to be summed."""
        return self.entries < _MAX_TABLE and self._width <= _MAX_WINDOW

    def summable(self) -> "SignedNoise":
        """Return noise whose law is short enough to be summed, and which hides no more.

        Where this noise is too much, it is a part of it.

        Raises
        ------
        InputError
            If numbers of a size below 1 reach too far: geometric ones are no part of them.
        """
        noise = self
        while noise._width > _MAX_WINDOW:
            noise = replace(noise, pairs=0.5 * noise.pairs, shape=0.5 * noise.shape)
        if noise.known:
            return noise
        if self.size > 1.0:
            return replace(noise, size=1.0)
        raise InputError(
            f"dummies of a size below 1 need a table of at most {_MAX_TABLE:,} entries, and these "
            f"{noise.entries:,.0f}: use a smaller ratio, or a size of 1, which needs no table (got "
            f"size={self.size}, ratio={self.ratio}, pairs={self.pairs})"
        )

    @property
    def _ends(self) -> tuple[float, float]:
        """First and last value of Z, outside which it lies with about the chance ``tail``."""
        depth = -log(self.tail)
        spread = 1.0 + self.pairs / self.shape
        normal = sqrt(2.0 * depth * self.pairs * spread)  # Bernstein's inequality
        scale = depth * spread / (3.0 if self.shape == inf else 1.0)
        first = max(floor(self.pairs - normal), 0)
        return float(first), float(ceil(self.pairs + scale + sqrt(scale**2 + normal**2)))

    @property
    def _width(self) -> float:
        first, last = self._ends
        return last - first + 1.0

    def _law_of_pairs(self) -> tuple[Floats, float, float]:
        """Probabilities of likely values of Z, that of all others, and units of rounding."""
        first, last = self._ends
        t = np.arange(first, last + 1.0)
        logs, units = log_masses(t, self.pairs, self.shape)
        kept = np.flatnonzero(logs > log(self.tail) - log(t.size))  # products must not underflow
        t, logs = t[kept[0] : kept[-1] + 1], logs[kept[0] : kept[-1] + 1]
        outside = _tail_bound(t[0] - 1.0, self.pairs, self.shape)
        outside += _tail_bound(t[-1] + 1.0, self.pairs, self.shape)
        return np.exp(logs), outside, units

    @cached_property
    def _law(self) -> tuple[Floats, Floats, float, float]:
        """Masses and ratios r of the noise alone, what is left out, and units of rounding.

        By increasing ratios.
        """
        noise = self.summable()
        if noise.size != 1.0:
            return noise._table()
        masses, ratios, outside, units = noise._formula()
        order = np.argsort(ratios, kind="stable")  # they nearly are
        return masses[order], ratios[order], outside, units

    def _formula(self) -> tuple[Floats, Floats, float, float]:
        """Like `_law`, but in no order, of geometric A and B."""
        q = self.ratio
        pairs, outside, units = self._law_of_pairs()
        weights = np.asarray(lfilter([1.0], [1.0, -q * q], pairs), np.float64)  # G
        masses = (1.0 - q) * weights
        ratios = np.append(0.0, q * weights[:-1] / weights[1:])
        units += 3.0 * pairs.size
        if masses.size > 2 * _MAX_EXACT:
            masses, ratios, more = _pooled(masses, ratios)
            units += more
        # Above the last value of Z it is G(t) = q^2 G(t - 1), so that r = 1 / q.
        above = (q + q * q * float(weights[-1])) / (1.0 + q)
        return np.append(masses, above), np.append(ratios, 1.0 / q), outside, units

    @cached_property
    def _reaches(self) -> tuple[float, float]:
        """What both A and B reach with about a chance of ``tail``, and what either does."""
        law = stats.nbinom(self.size, 1.0 - self.ratio)
        return float(law.isf(sqrt(self.tail))) + 1.0, float(law.isf(self.tail)) + 1.0

    def _table(self) -> tuple[Floats, Floats, float, float]:
        """Like `_law`, of all (a, b) where Z, A - B and min(A, B) are not too large.

        Each ratio is split onto its neighbours of some thousands, keeping the mean: delta is convex
        in the law of either ratio, so that it only grows.
        """
        half, reach = (int(each) for each in self._reaches)
        pairs, outside, units = self._law_of_pairs()
        t = np.arange(float(half + reach + 1))
        mean = self.size * self.ratio / (1.0 - self.ratio)
        logs, more = log_masses(t, mean, self.size)
        single = np.exp(logs)
        law = stats.nbinom(self.size, 1.0 - self.ratio)
        both, either = float(law.sf(half - 1)), float(law.sf(reach - 1))
        # Where A, B and Z are largest only the law without the record has what is summed.
        outside += 2.0 * (both**2 + 2.0 * either) + float(pairs[-1]) + UNDERFLOW
        units += 2.0 * more + 3.0 * pairs.size + 4.0 * half + _MISPLACED
        # A guess: the lowest two values of all three numbers. No ratio is above the largest.
        some = single[single > _LEAST_MASS]
        fewer = some[1:] / some[:-1] if some.size > 1 else np.array([self.ratio])
        pair = float(pairs[1] / pairs[0]) if pairs.size > 1 else 0.0
        lowest = fewer / np.maximum(pair + fewer * fewer[0], UNDERFLOW)
        least = min(float(lowest.min()), 1.0 / fewer[0])
        grid = _Grid(min(least, float(fewer.min())), max(1.0, 1.0 / self.size) / self.ratio)
        rows = max(_TABLE_PART // (pairs.size + half), 1)
        for start in range(0, reach, rows):
            # By the difference of a and b, and the smaller one.
            f = np.stack(
                [
                    np.convolve(pairs, single[:half] * single[d : d + half])
                    for d in range(start, min(start + rows, reach) + 1)
                ]
            )
            # Without the record and with it, where a > b; then where a <= b.
            grid.add(f[1:], f[:-1])
            grid.add(f[:-1], np.pad(f[1:, :-1], ((0, 0), (1, 0))))
        units += 2.0 * reach * (pairs.size + half)
        return grid.masses, grid.ratios, outside, units

    @cached_property
    def loss(self) -> Loss:
        """Privacy loss: that of the two cells."""
        masses, ratios, outside, units = self._law
        slack = UNIT * units
        some = ratios > 0.0
        losses, none = np.log(ratios[some]), float(masses[~some].sum())
        own, other = masses[some] * ratios[some], masses[some]
        endless = none * (1.0 + slack) + outside, none * (1.0 - slack)
        return loss_of_cells(
            [
                Outcomes(losses, own, outside, 0.0, 2.0 * slack, 2.0 * slack),
                Outcomes(-losses, other, *endless, slack, 2.0 * slack),
            ]
        )

    def log_delta(self, eps: float) -> float:
        """Natural log of delta, rounded up; for replacement of one record, on every data set.

        Parameters
        ----------
        eps
            At least 0.
        """
        masses, ratios, outside, units = self._law
        # Delta falls: beyond, it is not above that of an eps whose exp is a float.
        e, slack = np.exp(min(eps, _MAX_EPS)), UNIT * units
        first = np.cumsum((masses * ratios)[::-1])[::-1]  # of r or more
        second = np.cumsum(masses[::-1])[::-1]
        # Where e^eps r' is at most the largest r: other products might be no floats.
        some = slice(np.searchsorted(ratios, ratios[-1] / e * (1.0 + 8.0 * slack)))
        mass, raised = masses[some], e * ratios[some]
        start = np.minimum(np.searchsorted(ratios, raised * (1.0 - 4.0 * slack)), ratios.size - 1)
        p, q = mass * first[start], mass * raised * second[start]
        value = (p - q).sum() + 8.0 * slack * (p + q).sum() + 2.0 * outside
        return min(float(np.log(value)), 0.0)


def _pooled(masses: Floats, ratios: Floats) -> tuple[Floats, Floats, float]:
    """Split the ratios of each block onto its least and largest, and count units of rounding.

    The mean of a block is kept: delta is convex in the law of either ratio, so that it only grows.
    """
    block = ceil(masses.size / _MAX_EXACT)
    starts = np.arange(_MAX_EXACT, masses.size, block)
    sizes = np.diff(np.append(starts, masses.size))
    low, high = (of.reduceat(ratios, starts) for of in (np.minimum, np.maximum))
    width = np.where(high > low, high - low, 1.0)
    up = masses[_MAX_EXACT:] * (ratios[_MAX_EXACT:] - np.repeat(low, sizes))
    up = np.add.reduceat(up, starts - _MAX_EXACT) / width
    down = masses[_MAX_EXACT:] * (np.repeat(high, sizes) - ratios[_MAX_EXACT:])
    down = np.add.reduceat(down, starts - _MAX_EXACT) / width
    down = np.where(high > low, down, np.add.reduceat(masses, starts))
    masses, ratios = (
        np.concatenate([each[:_MAX_EXACT], *new])
        for each, new in ((masses, (down, up)), (ratios, (low, high)))
    )
    return masses, ratios, 2.0 * block + 16.0


class _Grid:
    """Some thousands of ratios, 0 and the largest among them, and the masses on them.

    Parameters
    ----------
    least, most
        The least ratio beside 0, if it is not too small, and a largest one.
    """

    def __init__(self, least: float, most: float) -> None:
        self._least = max(least, _LEAST_RATIO)
        self.ratios = np.append(0.0, np.geomspace(self._least, most, _SPLIT))
        self._scale = (_SPLIT - 1) / log(most / self._least)
        self.masses = np.zeros(self.ratios.size)

    def add(self, masses: Floats, more: Floats) -> None:
        """Split ratios ``more / masses`` onto their neighbours, keeping the mean."""
        some, grid = masses > _LEAST_MASS, self.ratios
        masses = masses[some]
        ratios = more[some] / masses
        # Quicker than to search, but that a ratio may be just outside what it is split onto.
        place = (np.log(np.maximum(ratios / self._least, 1.0)) * self._scale).astype(np.intp)
        place += ratios >= self._least
        np.minimum(place, grid.size - 2, out=place)
        share = np.clip((ratios - grid[place]) / np.diff(grid)[place], 0.0, 1.0) * masses
        self.masses += np.bincount(place, masses - share, grid.size)
        self.masses += np.bincount(place + 1, share, grid.size)
