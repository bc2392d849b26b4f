"""The law of one summand G: finitely many values anywhere on the line, tilted where it matters.

Every bound here is ``(1/n) E[(G_1 + ... + G_n)_+]`` for n independent copies of a G
(docs/accounting.md).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from shuffledp.accounting.rounds.convolution import LOG_TAIL
from shuffledp.arrays import UNIT, Floats
from shuffledp.roots import brentq


def excess(log_first: ArrayLike, log_second: ArrayLike, eps: float) -> Floats:
    """``exp(log_first) - exp(eps + log_second)``, without cancellation as eps nears the loss.

    Parameters
    ----------
    log_first, log_second
        Broadcast together; -inf stands for a ratio of 0.
    eps
        At least 0.
    """
    first, second = np.broadcast_arrays(
        np.asarray(log_first, np.float64), np.asarray(log_second, np.float64)
    )
    top = np.maximum(first, eps + second)
    with np.errstate(invalid="ignore"):
        # In this order, because both logarithms are often equal and eps far below both.
        gap = (second - first) + eps
    factor = -np.expm1(-np.abs(gap)) * -np.sign(gap)
    return np.asarray(np.where(top == -np.inf, 0.0, np.exp(top) * np.nan_to_num(factor)))


@dataclass(frozen=True, eq=False)
class Atoms:
    """The law of G.

    Attributes
    ----------
    values, masses
        Of the atoms, shape ``(m,)``; masses are positive and add up to at most 1. What is left has
        value 0.
    units
        Relative error of each value and of each mass, in units of rounding.
    """

    values: Floats
    masses: Floats
    units: float

    def with_rest(self) -> "Atoms":
        """The same with its 0 as an atom, and atoms of mass 0 left out."""
        used = self.masses > 0.0
        values, masses = self.values[used], self.masses[used]
        rest = 1.0 - float(masses.sum())
        # Less than this is rounding of masses that add up to 1.
        if rest > (self.units + masses.size) * UNIT:
            values, masses = np.append(values, 0.0), np.append(masses, rest)
        return Atoms(values, masses, self.units)

    def moved(self, sign: float) -> "Atoms":
        """Every value moved up (1) or down (-1) by what its rounding may have lost."""
        size = (self.units + 16.0) * UNIT * np.abs(self.values)
        return Atoms(self.values + sign * size, self.masses, self.units)


@dataclass(frozen=True)
class Tilt:
    """Where the mean of a sum's positive part accumulates.

    Attributes
    ----------
    lam
        The tilt; at it the sum of n has mean ``1 / lam``.
    log_moment
        ``log E[exp(lam G)]``.
    """

    lam: float
    log_moment: float

    def weights(self, values: Floats, masses: Floats) -> Floats:
        """Probabilities of the atoms under the tilted law."""
        return np.asarray(np.exp(np.log(masses) + self.lam * values - self.log_moment))

    def log_scale(self, n: int) -> float:
        """``log(E[exp(lam S)] / n)``: what a tilted mean is multiplied by."""
        return n * self.log_moment - float(np.log(n))

    def units(self, values: Floats, masses: Floats) -> float:
        """Relative error of a tilted probability, in units of rounding."""
        exponents = np.abs(np.log(masses)).max() + self.lam * np.abs(values).max()
        return float(4.0 * (exponents + abs(self.log_moment) + 8.0))


def tilt(values: Floats, masses: Floats, n: int) -> Tilt:
    """Saddle point of ``E[(S)_+]``; some value must be positive."""
    log_masses = np.log(masses)

    def slope(log_lam: float) -> float:
        lam = float(np.exp(log_lam))
        exponents = log_masses + lam * values
        weights = np.exp(exponents - exponents.max())
        return float(n * (weights @ values) / weights.sum() - 1.0 / lam)

    # At exp(low) < 1 / (n max G) the slope is negative; it turns positive as the law narrows.
    low = -float(np.log(n) + np.log(values.max())) - 1.0
    high = low + 3.0
    while slope(high) < 0.0 and high < low + 700.0:
        high += 3.0
    lam = float(np.exp(brentq(slope, low, high, xtol=1e-6)))
    return Tilt(lam, float(logsumexp(log_masses + lam * values)))


def reach(values: Floats, weights: Floats, n: int) -> tuple[float, float]:
    """Two numbers between which a sum of n stays, but for ``exp(LOG_TAIL)`` on each side.

    Parameters
    ----------
    values, weights
        A law's atoms; the weights add up to 1, nearly.
    n
        Number of independent copies.
    """
    mean = float(weights @ values)
    centred = values - mean
    variance = max(float(weights @ centred**2), float(np.ptp(values)) ** 2 * 1e-12, 1e-300)
    # Chernoff's bound, at some tilts about the one that is best for a normal law.
    about = float(np.sqrt(-2.0 * LOG_TAIL / (n * variance)))
    ends = []
    for sign in (-1.0, 1.0):
        tilts = about * np.geomspace(0.02, 1.5, 12)
        exponents = sign * tilts[:, None] * centred
        # A weight of nearly 0 may stand alone at the largest exponent. Then SciPy overflows.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            logs = logsumexp(exponents, b=weights, axis=1)
            if not np.isfinite(logs).all():
                logs = logsumexp(exponents + np.log(weights), axis=1)
        far = float(((n * logs - LOG_TAIL) / tilts).min())
        ends.append(n * mean + sign * far)
    low, high = ends
    return max(low, n * float(values.min())), min(high, n * float(values.max()))


def log_chernoff(atoms: Atoms, n: int) -> float:
    """Upper bound on the log of the mean excess, too large by some units; -inf if it is 0."""
    atoms = atoms.with_rest()
    if atoms.values.max() <= 0.0:
        return -np.inf
    tilted = tilt(atoms.values, atoms.masses, n)
    # x_+ is at most exp(lam x) / (e lam); one for what n roundings may do.
    return tilted.log_scale(n) - 1.0 - float(np.log(tilted.lam)) + 1.0


def log_saddle_point(atoms: Atoms, n: int) -> float:
    """About the log of the mean excess, at once: right to some per cent. -inf if nothing is above.

    The tilted sum is taken as normal, of mean ``1 / lam``.
    """
    atoms = atoms.with_rest()
    top = float(atoms.values.max())
    if top <= 0.0:
        return -np.inf
    values = atoms.values / top
    tilted = tilt(values, atoms.masses, n)
    weights = tilted.weights(values, atoms.masses)
    mean = float(weights @ values)
    variance = n * float(weights @ (values - mean) ** 2)
    # The integral of x exp(-lam x) over the normal density at its height near 0.
    height = -0.5 * np.log(2.0 * np.pi * variance + (np.e / tilted.lam) ** 2)
    return (
        tilted.log_scale(n) - 2.0 * float(np.log(tilted.lam)) + float(height) + float(np.log(top))
    )
