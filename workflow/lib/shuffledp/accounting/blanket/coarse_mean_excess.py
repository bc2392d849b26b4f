"""Upper bounds of ``(1/n) E[(G_1 + ... + G_n)_+]`` for many laws at a time, on a coarse grid.

As the upper end of `mean_excess`, but all laws have one tilt and one circular grid, whatever their
own are. With ``K(x) = x_+ exp(-lam x)``, sums below the grid wrap around to where K is not
negative; beyond its last point K is less than there. So no window must be right.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.fft import rfft

from shuffledp.accounting.blanket.atoms import Atoms, reach, tilt
from shuffledp.accounting.rounds.convolution import power, transform_error
from shuffledp.numerics.arrays import UNIT, Floats

# What splitting may add to the log of the moment of a coarse and of a finer grid, and their points.
_GRIDS = ((0.05, 2**13), (5e-4, 2**16))
# K has decayed to exp(-_FAR) or so at the end of the grid.
_FAR = 40.0
# Exponents that are no risk.
_EXPONENT = 300.0
# Points at a time.
_AT_ONCE = 2**19


@dataclass(frozen=True)
class Grid:
    """Points ``step * i``, i modulo their number, that stand for sums below ``_FAR / lam``.

    Attributes
    ----------
    lam, step, size
        Tilt, step and number of points.
    n
        Number of summands.
    """

    lam: float
    step: float
    size: int
    n: int

    def log_mean_excess(self, values: Floats, masses: Floats, units: float) -> Floats:
        """Upper bounds of the logs, shape ``(laws,)``.

        Parameters
        ----------
        values
            Of the atoms of each law, shape ``(laws, atoms)``.
        masses
            Of the atoms, of all laws the same. What is left has value 0.
        units
            Relative error of each value and each mass, in units of rounding.
        """
        rest = max(1.0 - float(masses.sum()) + (units + masses.size) * UNIT, 0.0)
        moved = values + (units + 16.0) * UNIT * np.abs(values)
        rows = max(_AT_ONCE // self.size, 1)
        found = [
            self._bounds(moved[at : at + rows], masses, rest, units)
            for at in range(0, len(moved), rows)
        ]
        return np.concatenate(found)

    def _bounds(self, values: Floats, masses: Floats, rest: float, units: float) -> Floats:
        safe = (self.lam * values).max(axis=1) < _EXPONENT
        found = np.full(len(values), np.inf)
        if not safe.any():
            return found
        tilted, log_moments = self._tilted(values[safe], masses, rest)
        last = min(int(_FAR / (self.lam * self.step)), self.size - 1)
        places = self.step * np.arange(last + 1, dtype=np.float64)
        kernel = np.zeros(self.size)
        kernel[: last + 1] = places * np.exp(-self.lam * places)
        twice = np.full(self.size // 2 + 1, 2.0)
        twice[[0, -1]] = 1.0
        sums = power(rfft(tilted, axis=1), self.n)
        means = (sums @ (np.conj(rfft(kernel)) * twice)).real / self.size
        norms = np.linalg.norm(tilted, axis=1)
        error = 2.0 * transform_error(self.size, self.n, 1.0) * norms * np.linalg.norm(kernel)
        beyond = (self.step + _FAR / self.lam) * float(np.exp(-_FAR + self.lam * self.step))
        logs = np.log(np.maximum(means, 0.0) + error + beyond) + self.n * log_moments
        rounding = units + 2.0 * masses.size + 16.0 * (_EXPONENT + np.abs(np.log(masses)).max())
        found[safe] = logs - np.log(self.n) + self.n * rounding * UNIT
        return found

    def _tilted(self, values: Floats, masses: Floats, rest: float) -> tuple[Floats, Floats]:
        """Tilted laws on the grid, shape ``(laws, size)``, and the logs of their moments."""
        place = np.maximum(values / self.step, -_EXPONENT / (self.lam * self.step))
        below = np.floor(place)
        above = place - below
        weights = masses * np.exp(self.lam * self.step * below)
        low, high = weights * (1.0 - above), weights * above * np.exp(self.lam * self.step)
        moments = rest + low.sum(axis=1) + high.sum(axis=1)
        index = below.astype(np.int64)
        offset = self.size * np.arange(len(values))[:, None]
        size = self.size * len(values)
        tilted = np.bincount((index % self.size + offset).ravel(), low.ravel(), size)
        tilted += np.bincount(((index + 1) % self.size + offset).ravel(), high.ravel(), size)
        laws = tilted.reshape(len(values), self.size)
        laws[:, 0] = laws[:, 0] + rest
        return laws / moments[:, None], np.log(moments)


@dataclass(frozen=True)
class Tilted:
    """The tilt of a law that is likely to be about the worst, and grids that fit it.

    Attributes
    ----------
    lam
        The tilt.
    n
        Number of summands.
    grids
        A coarse one and a finer one.
    """

    lam: float
    n: int
    grids: tuple[Grid, ...]

    @classmethod
    def of(cls, atoms: Atoms, n: int) -> Self | None:
        """Of n copies of a law; None if none of its values is positive."""
        law = atoms.safe(1.0)
        top = float(law.values.max(initial=0.0))
        if top <= 0.0:
            return None
        values = law.values / top
        tilted = tilt(values, law.masses, n)
        log_weights = tilted.log_weights(values, law.masses)
        low, _ = reach(values, log_weights, n)
        period = _FAR / tilted.lam - min(low, 0.0)
        moving = n * float(np.exp(log_weights)[values != 0.0].sum())
        grids = []
        for growth, most in _GRIDS:
            step = float(np.sqrt(8.0 * growth / moving)) / tilted.lam
            points = min(max(period / step, 256.0), most)
            size = 1 << int(np.ceil(np.log2(points)))
            grids.append(Grid(tilted.lam / top, period / size * top, size, n))
        return cls(tilted.lam / top, n, tuple(grids))

    def log_chernoff(self, rows: Floats, shared: Floats, eps: float) -> Floats:
        """``E[exp(lam S)] / (e lam n)`` of all pairs of rows, at some tilts.

        Parameters
        ----------
        rows, shared
            Chances of each report, shape ``(records, reports)``; and the blanket.
        eps
            Central budget.

        Returns
        -------
        Logs of upper bounds of the mean excess, shape ``(records, records)``.
        """
        found = np.full((len(rows), len(rows)), np.inf)
        for lam in self.lam * 2.0 ** np.arange(-3.0, 4.0):
            logs = self.n * log_moments(rows, shared, eps, lam)
            found = np.minimum(found, logs - 1.0 - np.log(lam * self.n) + 1e-9)
        return found


def log_moments(rows: Floats, shared: Floats, eps: float, lam: float) -> Floats:
    """``log E[exp(lam G)]`` of all pairs of rows, rounded up; all inf where one is no float.

    Parameters
    ----------
    rows, shared
        Chances of each report, shape ``(records, reports)``; and what G is relative to.
    eps
        Central budget.
    lam
        Positive.
    """
    used = shared > 0.0
    ratios = rows[:, used] / shared[used]
    if lam * float(ratios.max(initial=0.0)) > _EXPONENT:
        return np.full((len(rows), len(rows)), np.inf)
    rest = max(1.0 - float(shared.sum()) + shared.size * UNIT, 0.0)
    # Exponents are cut where floats end; that raises the product.
    downs = np.maximum(-lam * np.exp(eps) * ratios, -_EXPONENT)
    products = (shared[used] * np.exp(lam * ratios)) @ np.exp(downs).T
    rounding = shared.size + 64.0 * (_EXPONENT + 1.0)
    return np.asarray(np.log(products + rest) + 2.0 * rounding * UNIT)
