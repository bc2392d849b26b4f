"""The law of one summand G: finitely many values anywhere on the line, tilted where it matters.

Every bound here is ``(1/n) E[(G_1 + ... + G_n)_+]`` for n independent copies of a G
(docs/accounting.md).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from shuffledp.accounting.rounds.convolution import deviation
from shuffledp.numerics.arrays import UNIT, Floats
from shuffledp.numerics.roots import brentq


def excess(log_first: ArrayLike, log_second: ArrayLike, eps: float) -> Floats:
    """``exp(log_first) - exp(eps + log_second)``, without cancellation as eps nears the loss.

    That holds for logs that are exact. What their errors move is `excess_error`.

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


def excess_error(
    log_first: ArrayLike, log_second: ArrayLike, eps: float, log_error: float
) -> Floats:
    """What an error of the logs, at most ``log_error`` < 1e-3 each, moves `excess`; absolute.

    Parameters
    ----------
    log_first, log_second
        Natural logs of two ratios, as `excess` takes them.
    eps
        At least 0.
    log_error
        Absolute error of each log, below 1e-3.
    """
    sizes = np.exp(log_first) + np.exp(eps + np.asarray(log_second, np.float64))
    return np.asarray(1.01 * log_error * sizes)


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
    errors
        Absolute error of each value besides, shape ``(m,)`` or one for all: a value is a
        difference, of which rounding may leave no digit.
    apart
        What is added to the mean excess, on the safe side: delta of what only the target reports.
    """

    values: Floats
    masses: Floats
    units: float
    errors: Floats | float = 0.0
    apart: float = 0.0

    def with_rest(self, sign: float = 0.0) -> "Atoms":
        """The same with its 0 as an atom, and atoms of mass 0 left out.

        The mass of 0 is a difference: it is moved up (1), down (-1) or not (0) by its rounding.
        """
        used = self.masses > 0.0
        values, masses = self.values[used], self.masses[used]
        errors = np.broadcast_to(self.errors, self.values.shape)[used]
        rounding = (self.units + masses.size) * UNIT
        rest = 1.0 - float(masses.sum()) + sign * rounding
        # Less than this is rounding of masses that add up to 1.
        if rest > (0.0 if sign else rounding):
            values, masses = np.append(values, 0.0), np.append(masses, rest)
            errors = np.append(errors, 0.0)
        return Atoms(values, masses, self.units, errors, self.apart)

    def safe(self, sign: float) -> "Atoms":
        """`with_rest`, every value moved up (1) or down (-1) by what its rounding may have lost."""
        law = self.with_rest(sign)
        size = (law.units + 16.0) * UNIT * np.abs(law.values) + law.errors
        return Atoms(law.values + sign * size, law.masses, law.units, 0.0, law.apart)


@dataclass(frozen=True)
class Tilt:
    """Where the mean of a sum's positive part accumulates.

    Attributes
    ----------
    lam
        The tilt.
    log_moment
        ``log E[exp(lam G)]``.
    """

    lam: float
    log_moment: float

    def log_weights(self, values: Floats, masses: Floats) -> Floats:
        """Logs of the probabilities of the atoms under the tilted law."""
        return np.asarray(np.log(masses) + self.lam * values - self.log_moment)

    def log_scale(self, n: int) -> float:
        """``log(E[exp(lam S)] / n)``: what a tilted mean is multiplied by."""
        return n * self.log_moment - float(np.log(n))

    def units(self, values: Floats, masses: Floats) -> float:
        """Relative error of a tilted probability, in units of rounding."""
        exponents = np.abs(np.log(masses)).max() + self.lam * np.abs(values).max()
        return float(4.0 * (exponents + abs(self.log_moment) + 8.0))


def tilt(values: Floats, masses: Floats, n: int, height: float = 1.0) -> Tilt:
    """Where the sum of n has mean ``height / lam``; some value must be positive.

    Parameters
    ----------
    values, masses
        Of the law, the same shape ``(m,)``; masses are positive.
    n
        Number of independent copies in the sum S, at least 1.
    height
        With 1 the factor ``x_+ exp(-lam x)`` is largest at the mean of S; 2 is the saddle point of
        ``E[S_+]``.
    """
    log_masses = np.log(masses)

    def slope(log_lam: float) -> float:
        lam = float(np.exp(log_lam))
        exponents = log_masses + lam * values
        weights = np.exp(exponents - exponents.max())
        return float(n * (weights @ values) / weights.sum() - height / lam)

    # At exp(low) < 1 / (n max G) the slope is negative; it turns positive as the law narrows.
    low = -float(np.log(n) + np.log(values.max())) - 1.0
    high = low + 3.0
    while slope(high) < 0.0 and high < low + 700.0:
        high += 3.0
    lam = float(np.exp(brentq(slope, low, high, xtol=1e-6)))
    return Tilt(lam, float(logsumexp(log_masses + lam * values)))


def reach(values: Floats, log_weights: Floats, n: int) -> tuple[float, float]:
    """Two numbers between which a sum of n stays, but for ``exp(LOG_TAIL)`` on each side.

    Parameters
    ----------
    values, log_weights
        A law's atoms; the weights add up to 1, nearly.
    n
        Number of independent copies.
    """
    mean = float(np.exp(log_weights) @ values)
    below, above = (deviation([(sign * (values - mean), log_weights, n)]) for sign in (-1.0, 1.0))
    low, high = n * mean - below, n * mean + above
    return max(low, n * float(values.min())), min(high, n * float(values.max()))


def log_chernoff(atoms: Atoms, n: int) -> float:
    """Upper bound on the log of the mean excess, too large by some units; -inf if it is 0."""
    law = atoms.safe(1.0)
    found = -np.inf
    if law.values.max(initial=0.0) > 0.0:
        tilted = tilt(law.values, law.masses, n)
        # x_+ is at most exp(lam x) / (e lam); one for what n roundings may do.
        found = tilted.log_scale(n) - 1.0 - float(np.log(tilted.lam)) + 1.0
    return with_apart(found, atoms.apart)


def log_saddle_point(atoms: Atoms, n: int) -> float:
    """About the log of the mean excess, at once: right to some per cent. -inf if nothing is above.

    The tilted sum is taken as normal, of mean ``1 / lam``.
    """
    law = atoms.with_rest()
    top = float(law.values.max(initial=0.0))
    if top <= 0.0:
        return with_apart(-np.inf, atoms.apart)
    values = law.values / top
    tilted = tilt(values, law.masses, n)
    weights = np.exp(tilted.log_weights(values, law.masses))
    mean = float(weights @ values)
    variance = n * float(weights @ (values - mean) ** 2)
    # The integral of x exp(-lam x) over the normal density at its height near 0.
    height = -0.5 * np.log(2.0 * np.pi * variance + (np.e / tilted.lam) ** 2)
    found = tilted.log_scale(n) - 2.0 * float(np.log(tilted.lam)) + float(height)
    return with_apart(found + float(np.log(top)), atoms.apart)


def with_apart(log_value: float, apart: float) -> float:
    """``log(exp(log_value) + apart)``, right to some units of 1 and of the result."""
    return float(np.logaddexp(log_value, np.log(apart))) if apart > 0.0 else log_value
