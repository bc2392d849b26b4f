"""Upper bounds on ``(1/n) E[(G_1 + ... + G_n)_+]`` for many laws of G at once, on a coarse grid.

The method is that of the upper end in `mean_excess`, except that all laws share one tilt lam and
one circular grid, which may be suboptimal. The kernel ``K(x) = x_+ exp(-lam x)`` is never negative,
so sums below the grid, which wrap around to its end, can only increase the bound. Beyond the last
point K only falls, so its value there bounds all larger sums.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.fft import rfft

from shuffledp.accounting.blanket.atoms import Atoms, reach, tilt
from shuffledp.accounting.rounds.convolution import power, transform_error
from shuffledp.numerics.arrays import UNIT, Floats

# For a coarse and a finer grid: the largest increase of the log moment by splitting atoms onto the
# grid, and the largest number of points.
LOG_TOLERANCES_AND_POINTS = ((0.05, 2**13), (5e-4, 2**16))
# At the end of the grid K has decayed to about exp(-KERNEL_DECAY).
KERNEL_DECAY = 40.0
# Exponentials of exponents up to this size do not overflow.
MAX_EXPONENT = 300.0
# Number of grid points processed at once.
POINTS_AT_ONCE = 2**19


@dataclass(frozen=True)
class Grid:
    """A circular grid of points ``step * i`` for sums below ``KERNEL_DECAY / lam``.

    Attributes
    ----------
    lam, step, size
        Tilt, distance of neighbouring points, and number of points.
    n
        Number of summands in S.
    """

    lam: float
    step: float
    size: int
    n: int

    def log_mean_excess(self, values: Floats, masses: Floats, units: float) -> Floats:
        """Return upper bounds on the log mean excess of each law, shape ``(laws,)``.

        Parameters
        ----------
        values
            Values of the atoms of each law, shape ``(laws, atoms)``.
        masses
            Masses of the atoms, shape ``(atoms,)``, common to all laws. The remaining mass has
            value 0.
        units
            Relative error of each value and each mass, in units of rounding.
        """
        zero_mass = max(1.0 - float(masses.sum()) + (units + masses.size) * UNIT, 0.0)
        upper_values = values + (units + 16.0) * UNIT * np.abs(values)
        rows = max(POINTS_AT_ONCE // self.size, 1)
        bounds = [
            self._bounds(upper_values[at : at + rows], masses, zero_mass, units)
            for at in range(0, len(upper_values), rows)
        ]
        return np.concatenate(bounds)

    def _bounds(self, values: Floats, masses: Floats, zero_mass: float, units: float) -> Floats:
        representable = (self.lam * values).max(axis=1) < MAX_EXPONENT
        bounds = np.full(len(values), np.inf)
        if not representable.any():
            return bounds
        tilted, log_moments = self._tilted(values[representable], masses, zero_mass)
        last = min(int(KERNEL_DECAY / (self.lam * self.step)), self.size - 1)
        places = self.step * np.arange(last + 1, dtype=np.float64)
        kernel = np.zeros(self.size)
        kernel[: last + 1] = places * np.exp(-self.lam * places)
        multiplicity = np.full(self.size // 2 + 1, 2.0)
        multiplicity[[0, -1]] = 1.0
        sums = power(rfft(tilted, axis=1), self.n)
        means = (sums @ (np.conj(rfft(kernel)) * multiplicity)).real / self.size
        norms = np.linalg.norm(tilted, axis=1)
        error = 2.0 * transform_error(self.size, self.n, 1.0) * norms * np.linalg.norm(kernel)
        beyond = (self.step + KERNEL_DECAY / self.lam) * float(
            np.exp(-KERNEL_DECAY + self.lam * self.step)
        )
        logs = np.log(np.maximum(means, 0.0) + error + beyond) + self.n * log_moments
        rounding = units + 2.0 * masses.size + 16.0 * (MAX_EXPONENT + np.abs(np.log(masses)).max())
        bounds[representable] = logs - np.log(self.n) + self.n * rounding * UNIT
        return bounds

    def _tilted(self, values: Floats, masses: Floats, zero_mass: float) -> tuple[Floats, Floats]:
        """Return the tilted laws on the grid, shape ``(laws, size)``, and ``log E[exp(lam G)]``."""
        position = np.maximum(values / self.step, -MAX_EXPONENT / (self.lam * self.step))
        below = np.floor(position)
        upper_share = position - below
        weights = masses * np.exp(self.lam * self.step * below)
        low, high = (
            weights * (1.0 - upper_share),
            weights * upper_share * np.exp(self.lam * self.step),
        )
        moments = zero_mass + low.sum(axis=1) + high.sum(axis=1)
        index = below.astype(np.int64)
        offset = self.size * np.arange(len(values))[:, None]
        size = self.size * len(values)
        tilted = np.bincount((index % self.size + offset).ravel(), low.ravel(), size)
        tilted += np.bincount(((index + 1) % self.size + offset).ravel(), high.ravel(), size)
        laws = tilted.reshape(len(values), self.size)
        laws[:, 0] = laws[:, 0] + zero_mass
        return laws / moments[:, None], np.log(moments)


@dataclass(frozen=True)
class Tilted:
    """A tilt and grids that fit one law, for bounds on many laws similar to it.

    Attributes
    ----------
    lam
        Parameter of the tilt.
    n
        Number of summands in S.
    grids
        A coarse grid and a finer one.
    """

    lam: float
    n: int
    grids: tuple[Grid, ...]

    @classmethod
    def from_law(cls, atoms: Atoms, n: int) -> Self | None:
        """Return the tilt and grids for n copies of a law; None if no value is positive."""
        law = atoms.shifted_outwards(1.0)
        top = float(law.values.max(initial=0.0))
        if top <= 0.0:
            return None
        values = law.values / top
        tilted = tilt(values, law.masses, n)
        log_weights = tilted.log_weights(values, law.masses)
        low, _ = reach(values, log_weights, n)
        period = KERNEL_DECAY / tilted.lam - min(low, 0.0)
        moving = n * float(np.exp(log_weights)[values != 0.0].sum())
        grids = []
        for growth, max_points in LOG_TOLERANCES_AND_POINTS:
            step = float(np.sqrt(8.0 * growth / moving)) / tilted.lam
            points = min(max(period / step, 256.0), max_points)
            size = 1 << int(np.ceil(np.log2(points)))
            grids.append(Grid(tilted.lam / top, period / size * top, size, n))
        return cls(tilted.lam / top, n, tuple(grids))

    def log_chernoff(self, rows: Floats, shared: Floats, eps: float) -> Floats:
        """Return logs of Chernoff bounds ``E[exp(lam S)] / (e lam n)`` for all pairs of records.

        They are the smallest over several tilts, shape ``(records, records)``. ``shared`` is the
        blanket: for each report its smallest probability over all records. See `log_moments`.
        """
        bounds = np.full((len(rows), len(rows)), np.inf)
        for lam in self.lam * 2.0 ** np.arange(-3.0, 4.0):
            logs = self.n * log_moments(rows, shared, eps, lam)
            bounds = np.minimum(bounds, logs - 1.0 - np.log(lam * self.n) + 1e-9)
        return bounds


def log_moments(rows: Floats, shared: Floats, eps: float, lam: float) -> Floats:
    """Return upper bounds on ``log E[exp(lam G)]`` for all pairs of rows; all inf if one overflows.

    Parameters
    ----------
    rows
        Probabilities of the reports for each record, shape ``(records, reports)``.
    shared
        Denominator of G and mass of its atoms, shape ``(reports,)``; see `worst_pair.difference`.
    """
    used = shared > 0.0
    ratios = rows[:, used] / shared[used]
    if lam * float(ratios.max(initial=0.0)) > MAX_EXPONENT:
        return np.full((len(rows), len(rows)), np.inf)
    zero_mass = max(1.0 - float(shared.sum()) + shared.size * UNIT, 0.0)
    # Raising very negative exponents can only raise the moment.
    downs = np.maximum(-lam * np.exp(eps) * ratios, -MAX_EXPONENT)
    products = (shared[used] * np.exp(lam * ratios)) @ np.exp(downs).T
    rounding = shared.size + 64.0 * (MAX_EXPONENT + 1.0)
    return np.asarray(np.log(products + zero_mass) + 2.0 * rounding * UNIT)
