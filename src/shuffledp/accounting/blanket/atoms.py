"""Laws of a random variable G with finitely many values, and their exponential tilts.

Every bound by the privacy blanket has the form ``(1/n) E[(G_1 + ... + G_n)_+]`` for independent
copies of some G (docs/accounting.md). The modules of this package call it the *mean excess* of n
copies. S is the sum of the copies, and an *atom* is a value of G with its probability.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from shuffledp.accounting.rounds.convolution import upper_reach
from shuffledp.numerics.arrays import UNIT, Floats, log_sum_exp


def excess(log_first: ArrayLike, log_second: ArrayLike, eps: float) -> Floats:
    """Return ``exp(log_first) - exp(eps + log_second)`` without cancellation.

    The arguments are natural logs of likelihood ratios, -inf for a ratio of 0, and are broadcast.
    The logs are treated as exact.
    """
    first, second = np.broadcast_arrays(
        np.asarray(log_first, np.float64), np.asarray(log_second, np.float64)
    )
    top = np.maximum(first, eps + second)
    with np.errstate(invalid="ignore"):
        # This order is exact where both logarithms are equal, even if eps is far below both.
        gap = (second - first) + eps
    factor = -np.expm1(-np.abs(gap)) * -np.sign(gap)
    return np.asarray(np.where(top == -np.inf, 0.0, np.exp(top) * np.nan_to_num(factor)))


@dataclass(frozen=True, eq=False)
class Atoms:
    """A law of G.

    Attributes
    ----------
    values, masses
        Values and probabilities of the atoms, shape ``(m,)``. Masses are positive and add up to at
        most 1; the remaining mass has value 0.
    units
        Relative error of each value and of each mass, in units of rounding.
    errors
        Additional absolute error of each value, shape ``(m,)`` or a number. Values are differences
        and may have lost all digits to rounding: if the randomiser is a matrix,
        ``G = (a - b) - (e - 1) b``, with a, b and ``e = exp(eps)`` accurate to 4, 4 and 2 units,
        has an absolute error of up to 16 units of ``a + e b``, which may exceed G for eps near
        eps0.
    exclusive_delta
        Contribution to delta of reports that are exclusive to the target, because the privacy
        blanket never sends them; rounded in the safe direction and added to the mean excess.
    """

    values: Floats
    masses: Floats
    units: float
    errors: Floats | float = 0.0
    exclusive_delta: float = 0.0

    def with_zero_atom(self, sign: float = 0.0) -> "Atoms":
        """Return the law with 0 as an atom, and without atoms of mass 0.

        The mass of 0 is 1 minus the other masses. Its rounding error is added (sign = 1),
        subtracted (-1) or ignored (0).
        """
        used = self.masses > 0.0
        values, masses = self.values[used], self.masses[used]
        errors = np.broadcast_to(self.errors, self.values.shape)[used]
        rounding = (self.units + masses.size) * UNIT
        zero_mass = 1.0 - float(masses.sum()) + sign * rounding
        # A smaller rest is a rounding error of masses that add up to 1.
        if zero_mass > (0.0 if sign else rounding):
            values, masses = np.append(values, 0.0), np.append(masses, zero_mass)
            errors = np.append(errors, 0.0)
        return Atoms(values, masses, self.units, errors, self.exclusive_delta)

    def shifted_outwards(self, sign: float) -> "Atoms":
        """Return `with_zero_atom` with values shifted up (1) or down (-1) by their errors."""
        law = self.with_zero_atom(sign)
        size = (law.units + 16.0) * UNIT * np.abs(law.values) + law.errors
        return Atoms(law.values + sign * size, law.masses, law.units, 0.0, law.exclusive_delta)


@dataclass(frozen=True)
class Tilt:
    """An exponential tilt of a law: probabilities are multiplied by ``exp(lam G)`` and normalised.

    Attributes
    ----------
    lam
        Parameter of the tilt, positive.
    log_moment
        ``log E[exp(lam G)]``.
    """

    lam: float
    log_moment: float

    def log_weights(self, values: Floats, masses: Floats) -> Floats:
        """Return the logs of the probabilities of the atoms under the tilted law."""
        return np.asarray(np.log(masses) + self.lam * values - self.log_moment)

    def log_scale(self, n: int) -> float:
        """Return ``log(E[exp(lam S)] / n)``, which converts tilted means into untilted ones."""
        return n * self.log_moment - float(np.log(n))

    def units(self, values: Floats, masses: Floats) -> float:
        """Return the relative error of a tilted probability, in units of rounding."""
        exponents = np.abs(np.log(masses)).max() + self.lam * np.abs(values).max()
        return float(4.0 * (exponents + abs(self.log_moment) + 8.0))


def tilt(values: Floats, masses: Floats, n: int, height: float = 1.0) -> Tilt:
    """Return the tilt under which the sum S has mean ``height / lam``.

    Parameters
    ----------
    values, masses
        Atoms of the law, shape ``(m,)`` each; masses and at least one value are positive.
    n
        Number of independent copies in the sum S, at least 1.
    height
        1 places the mean of S at the maximum of ``x_+ exp(-lam x)``; 2 gives the saddle point of
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
    lam = float(np.exp(scipy.optimize.brentq(slope, low, high, xtol=1e-6)))
    return Tilt(lam, float(log_sum_exp(log_masses + lam * values)))


def reach(values: Floats, log_weights: Floats, n: int) -> tuple[float, float]:
    """Return a lower and an upper limit for the sum of n copies.

    The sum is beyond each of them with probability at most ``exp(convolution.LOG_TAIL)``. The
    weights of the atoms add up to nearly 1.
    """
    mean = float(np.exp(log_weights) @ values)
    below, above = (upper_reach([(sign * (values - mean), log_weights, n)]) for sign in (-1.0, 1.0))
    low, high = n * mean - below, n * mean + above
    return max(low, n * float(values.min())), min(high, n * float(values.max()))


def log_saddle_point(atoms: Atoms, n: int) -> float:
    """Return an approximation of log delta; -inf if no value and no exclusive delta is positive.

    It is accurate to a few per cent, treating the tilted sum as normal with mean ``1 / lam``.
    """
    law = atoms.with_zero_atom()
    top = float(law.values.max(initial=0.0))
    if top <= 0.0:
        return add_exclusive_delta(-np.inf, atoms.exclusive_delta)
    values = np.maximum(law.values / top, -1e100)  # their squares must not overflow
    tilted = tilt(values, law.masses, n)
    weights = np.exp(tilted.log_weights(values, law.masses))
    mean = float(weights @ values)
    variance = n * float(weights @ (values - mean) ** 2)
    # 1 / lam^2, the integral of x exp(-lam x), times the normal density near 0. The term with e
    # makes this exact if the variance is 0.
    height = -0.5 * np.log(2.0 * np.pi * variance + (np.e / tilted.lam) ** 2)
    log_value = tilted.log_scale(n) - 2.0 * float(np.log(tilted.lam)) + float(height)
    return add_exclusive_delta(log_value + float(np.log(top)), atoms.exclusive_delta)


def add_exclusive_delta(log_value: float, exclusive_delta: float) -> float:
    """Return the log of a mean excess plus `Atoms.exclusive_delta`, accurate to a few roundings."""
    return (
        float(np.logaddexp(log_value, np.log(exclusive_delta)))
        if exclusive_delta > 0.0
        else log_value
    )
