"""Exact privacy of a histogram among signed dummies: plus and minus messages, and pairs of both.

Of a cell the analyst counts ``a = x + A + Z`` plus and ``b = B + Z`` minus messages: x true
records, A and B negative binomial of ratio q and size s, Z negative binomial or Poisson. Where
s = 1, so that A and B are geometric, the noise alone has the law

    f(a, b) = (1 - q)^2 q^|a - b| G(min(a, b)),    G(t) = P(Z = t) + q^2 G(t - 1).

One record more multiplies it by ``r = f(a - 1, b) / f(a, b)``: by ``1 / q`` where ``a > b``, which
has mass ``q / (1 + q)``, and by ``q G(a - 1) / G(a)`` where ``a <= b``, of mass ``(1 - q) G(a)``.
The target adds 1 to one of two cells, so that ``delta = E (r - e^eps r')_+`` with independent r and
r', on every data set. After Ghazi, Kumar, Manurangsi, Pagh and Sinha (2021), who add up numbers.

Where more take part than the promise asks for, so many times as many, s is as many times as large.
If it is not 1, r differs from cell to cell: with the probabilities g of A it is of the table

    f(b + d, b) = f(b, b + d) = sum over z of P(Z = z) g(b + d - z) g(b - z).
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import sqrt

import numpy as np
from scipy import stats
from scipy.signal import lfilter
from scipy.special import gammaln, pdtrc, xlogy

from shuffledp.accounting.rounds.privacy_loss import Loss, Outcomes, loss_of_cells
from shuffledp.numerics.arrays import UNIT, Floats

# What is left out of the laws, so that the smallest delta is about as much.
_TAIL = 1e-40
# Smaller logs of their chances, below the mean, count as never.
_NOTHING = -600.0
# Entries of the largest table, some seconds: beyond, nothing is known.
_LARGEST_TABLE = 2**23
_LARGEST_EPS = 700.0
# Ratios that are told apart in it, and the least one beside 0.
_SPLIT, _LEAST = 2**15, 1e-9
# Units of rounding by which a ratio may be outside the two that it is split onto: those of a
# logarithm below 40 and of its product, and of powers with exponents below 40.
_MISPLACED = 512.0


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
        """Of so many times as many users, each of whom sends as much."""
        return replace(
            self, pairs=times * self.pairs, shape=times * self.shape, size=times * self.size
        )

    @property
    def entries(self) -> int:
        """Of the table, about; 0 where there is a formula in place of it."""
        if self.size == 1.0:
            return 0
        half, reach = self._reaches
        return reach * (self._window.size + half)

    @property
    def known(self) -> bool:
        """Whether the law is short enough to be summed."""
        return self.entries < _LARGEST_TABLE

    def _log_pairs(self, t: Floats) -> Floats:
        """Natural logs of P(Z = t)."""
        if self.shape == np.inf:
            return np.asarray(xlogy(t, self.pairs) - self.pairs - gammaln(t + 1.0))
        both = self.pairs + self.shape
        return np.asarray(
            gammaln(t + self.shape)
            - gammaln(self.shape)
            - gammaln(t + 1.0)
            + self.shape * np.log(self.shape / both)
            + t * np.log(self.pairs / both)
        )

    def _beyond(self, t: float) -> float:
        """P(Z > t), twice what the library says."""
        if self.shape == np.inf:
            return 2.0 * float(pdtrc(t, self.pairs))
        share = self.shape / (self.shape + self.pairs)
        return 2.0 * float(stats.nbinom.sf(t, self.shape, share))

    @property
    def _last(self) -> float:
        """What Z exceeds with about that chance: what is beyond is added, whatever it is."""
        depth = -float(np.log(self.tail))
        if self.shape == np.inf:  # Bernstein
            return self.pairs + depth / 3.0 + sqrt(depth**2 / 9.0 + 2.0 * depth * self.pairs)
        return self.pairs + depth * (1.0 + self.pairs / self.shape)

    @property
    def _first(self) -> float:
        """What Z is below with a smaller chance than `_NOTHING`."""
        if self.shape == np.inf:  # Chernoff
            return max(float(np.floor(self.pairs - sqrt(-2.0 * _NOTHING * self.pairs))) - 1.0, 0.0)
        return 0.0

    @cached_property
    def _law(self) -> tuple[Floats, Floats, float, float]:
        """Masses and ratios r of the noise alone, what is beyond, and units of rounding.

        By increasing ratios.
        """
        if self.size != 1.0:
            return self._table()
        masses, ratios, beyond, units = self._classes()
        order = np.argsort(ratios, kind="stable")  # they nearly are
        return masses[order], ratios[order], beyond, units

    def _classes(self) -> tuple[Floats, Floats, float, float]:
        """As `_law`, in no order, of geometric A and B."""
        q = self.ratio
        last = float(np.ceil(self._last + np.log(self.tail) / (2.0 * np.log(q))))
        t = np.arange(self._first, last + 1.0)
        logs = self._log_pairs(t)
        some = slice(int(np.argmax(logs > _NOTHING)), None)
        t, pairs = t[some], np.exp(logs[some])
        weights = np.asarray(lfilter([1.0], [1.0, -q * q], pairs), np.float64)  # G
        some = slice(0, int(np.flatnonzero(weights > np.exp(_NOTHING))[-1]) + 1)
        t, weights, last = t[some], weights[some], float(t[some][-1])
        ratios = np.append(0.0, q * weights[:-1] / weights[1:])
        masses = (1.0 - q) * weights
        beyond = (q * q * float(weights[-1]) + self._beyond(last)) / (1.0 + q)
        beyond += last * np.exp(_NOTHING)
        exponents = abs(gammaln(last + 1.0)) + 2.0 * last * abs(np.log(self.pairs))
        units = 64.0 + 8.0 * float(exponents) + 8.0 * self.pairs + 2.0 * t.size
        masses, ratios = np.append(masses, q / (1.0 + q)), np.append(ratios, 1.0 / q)
        return masses, ratios, beyond, units

    @property
    def _reaches(self) -> tuple[int, int]:
        """What both A and B reach with about a chance of ``tail``, and what either does."""
        law = stats.nbinom(self.size, 1.0 - self.ratio)
        return int(law.isf(sqrt(self.tail))) + 1, int(law.isf(self.tail)) + 1

    @cached_property
    def _window(self) -> Floats:
        """Values of Z, outside which it lies with about that chance."""
        z = np.arange(self._first, np.ceil(self._last) + 1.0)
        some = np.flatnonzero(self._log_pairs(z) > np.log(self.tail) - np.log(z.size))
        return z[some[0] : some[-1] + 1]

    def _table(self) -> tuple[Floats, Floats, float, float]:
        """As `_law`, of all (a, b) where Z, A - B and min(A, B) are not too large.

        What is left out of the laws with and without the record only takes from what is subtracted
        in delta, or is beyond. Each ratio is split onto its neighbours of some thousands, keeping
        the mean: delta is convex in the law of either ratio, so that it only grows.
        """
        (half, reach), z = self._reaches, self._window
        t = np.arange(float(half + reach + 1))
        single = gammaln(t + self.size) - gammaln(self.size) - gammaln(t + 1.0)
        single += self.size * np.log1p(-self.ratio) + t * np.log(self.ratio)
        pairs = np.exp(self._log_pairs(z))
        # By the difference of a and b, from 0 on, and the smaller one, from that of Z on.
        f = np.stack(
            [
                np.convolve(pairs, np.exp(single[:half] + single[d : d + half]))
                for d in range(reach + 1)
            ]
        )
        # Without the record, a > b and a <= b; then with it.
        masses = np.concatenate([f[1:].ravel(), f[:-1].ravel()])
        more = np.concatenate([f[:-1].ravel(), np.pad(f[1:, :-1], ((0, 0), (1, 0))).ravel()])
        law = stats.nbinom(self.size, 1.0 - self.ratio)
        both, either = float(law.sf(half - 1)), float(law.sf(reach - 1))
        before = z[0] * pairs[0]
        beyond = 2.0 * (both**2 + 2.0 * either) + before + self._beyond(z[-1])
        exponents = np.abs(gammaln(z + 1.0)).max() + 2.0 * z[-1] * abs(np.log(self.pairs))
        exponents += 4.0 * np.abs(gammaln(t + self.size)).max() + 4.0 * np.abs(single).max()
        units = 64.0 + 8.0 * float(exponents) + 8.0 * self.pairs + 2.0 * (half + masses.size)
        grid, split = _split(more / masses, masses)
        return split, grid, float(beyond), units + _MISPLACED

    @cached_property
    def loss(self) -> Loss:
        """Privacy loss: that of the two cells."""
        masses, ratios, beyond, units = self._law
        slack = UNIT * units
        some = ratios > 0.0
        losses, none = np.log(ratios[some]), float(masses[~some].sum())
        # Beyond, r is at most 1 / q, and r' may be 0.
        far = beyond / self.ratio * (1.0 + slack)
        own, other = masses[some] * ratios[some], masses[some]
        endless = none * (1.0 + slack) + beyond, none * (1.0 - slack)
        return loss_of_cells(
            [
                Outcomes(losses, own, far, 0.0, 2.0 * slack, 2.0 * slack),
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
        masses, ratios, beyond, units = self._law
        # Delta falls: beyond, it is not above that of an eps whose exp is a float.
        e, slack = np.exp(min(eps, _LARGEST_EPS)), UNIT * units
        first = np.append(np.cumsum((masses * ratios)[::-1])[::-1], 0.0)  # of r or more
        second = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
        start = np.searchsorted(ratios, e * ratios * (1.0 - 4.0 * slack))
        p, q = masses * first[start], e * masses * ratios * second[start]
        # Beyond, r is at most 1 / q, and r' may be 0.
        value = (p - q).sum() + 8.0 * slack * (p + q).sum() + 2.0 * beyond / self.ratio
        return min(float(np.log(value)), 0.0)


def _split(ratios: Floats, masses: Floats) -> tuple[Floats, Floats]:
    """Some thousands of ratios, 0 and the largest among them, and the masses on them."""
    least, most = max(float(ratios[ratios > 0.0].min()), _LEAST), float(ratios.max())
    grid = np.append(0.0, np.geomspace(least, most, _SPLIT))
    grid[-1] = max(grid[-1], most)
    # Quicker than to search, but that a ratio may be just outside what it is split onto.
    scale = (_SPLIT - 1) / np.log(most / least)
    place = (np.log(np.maximum(ratios / least, 1.0)) * scale).astype(np.intp)
    place += ratios >= least
    np.minimum(place, grid.size - 2, out=place)
    share = np.clip((ratios - grid[place]) / np.diff(grid)[place], 0.0, 1.0) * masses
    split = np.bincount(place, masses - share, grid.size).astype(np.float64)
    split[1:] += np.bincount(place, share, grid.size)[:-1]
    return grid, split
