"""``(1/n) E[(G_1 + ... + G_n)_+]`` bounded above, where the summands have several laws.

As the lower end of `mean_excess`, by an integral over a characteristic function: with
``K(x) = x_+ exp(-lam x)``, of transform ``1 / (lam + i t)^2``, the trapezoidal rule is
``E[K(S)] + sum of E[K(S + m T)]``. All terms are positive, so the rule is an upper bound, and
needs no grid. Beyond the last t the integrand is at most ``1 / t^2``.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from shuffledp.accounting.blanket.atoms import Atoms, Tilt, tilt
from shuffledp.numerics.arrays import UNIT, Floats

_Complexes = NDArray[np.complex128]

_FREQUENCIES = 2**15
# Where no sum's integrand can exceed this it is not computed, but counted at that.
_NOTHING = 1e-18
# Sums at a time.
_ROWS = 64


class Groups:
    """Sums of n summands, some of each law.

    All sums are tilted alike. Their bounds hold for any tilt, and are sharp if it is their own.

    Attributes
    ----------
    log_moments
        ``log E[exp(lam G)]`` of each law at the tilt, shape ``(laws,)``.

    Parameters
    ----------
    laws
        Their values are taken as exact, the largest about 1.
    n
        Number of summands.
    leading
        Index of the law whose n-fold sum sets the tilt; some value of it is positive.
    """

    def __init__(self, laws: Sequence[Atoms], n: int, leading: int) -> None:
        lead = laws[leading]
        lam = tilt(lead.values, lead.masses, n).lam
        tilts = [Tilt(lam, float(logsumexp(lam * law.values, b=law.masses))) for law in laws]
        weights = [
            np.exp(at.log_weights(law.values, law.masses))
            for at, law in zip(tilts, laws, strict=True)
        ]
        self.log_moments = np.array([at.log_moment for at in tilts])
        self._n = n
        self._units = np.array(
            [
                law.units + law.masses.size + at.units(law.values, law.masses)
                for at, law in zip(tilts, laws, strict=True)
            ]
        )
        period = _period(lead.values, weights[leading], n, lam)
        t = 2.0 * np.pi / period * np.arange(_FREQUENCIES + 1, dtype=np.float64)
        kernel = np.where(t == 0.0, 1.0, 2.0) / (lam + 1j * t) ** 2 / period  # t and -t
        phi, off = _transforms([law.values for law in laws], weights, t)
        modulus = np.maximum(np.abs(phi), 1e-300)
        near = n * np.log((modulus + off).max(axis=0)) > np.log(_NOTHING)
        self._left_out = 1.0 / (np.pi * float(t[-1])) + _NOTHING * float(
            np.abs(kernel[~near]).sum()
        )
        self._kernel, phi, off, modulus = kernel[near], phi[:, near], off[:, near], modulus[:, near]
        self._log_phi = np.log(modulus) + 1j * np.angle(phi)
        self._log_most = np.log(modulus + off)
        # What rounding does to the logarithm of one factor.
        self._lost = off / (modulus + off) + 8.0 * UNIT * (np.abs(self._log_phi) + 1.0)

    def log_mean_excess_high(self, counts: ArrayLike) -> Floats:
        """Upper bounds on the log of the mean excess, shape ``(rows,)``.

        Parameters
        ----------
        counts
            Summands of each law, shape ``(rows, laws)``; each row adds up to n.
        """
        counts = np.asarray(counts, np.float64)
        rows = [counts[start : start + _ROWS] for start in range(0, len(counts), _ROWS)]
        means = np.concatenate([self._tilted_means(each) for each in rows])
        ends = np.log(means) + counts @ self.log_moments - np.log(self._n)
        units = counts @ self._units + 8.0 * (self._n * np.abs(self.log_moments).max() + 8.0)
        return np.asarray(ends + units * UNIT)

    def _tilted_means(self, counts: Floats) -> Floats:
        """``E[K(S)]`` of each row, with all that is left out or rounded off."""
        sums = (np.exp(counts @ self._log_phi) @ self._kernel).real
        lost = counts @ self._lost + (self._kernel.size + 16.0) * UNIT
        rounding = (np.exp(counts @ self._log_most) * lost) @ np.abs(self._kernel)
        return np.asarray(np.maximum(sums, 0.0) + rounding + self._left_out)


def _period(values: Floats, weights: Floats, n: int, lam: float) -> float:
    """So long that what the rule adds is small, if the tilted sum is nearly normal."""
    variance = n * float(weights @ (values - weights @ values) ** 2)
    deviations = lam * float(np.sqrt(variance))
    return (8.0 * deviations + 20.0) / lam


def _transforms(
    values: Sequence[Floats], weights: Sequence[Floats], t: Floats
) -> tuple[_Complexes, Floats]:
    """Characteristic function of each law, shape ``(laws, frequencies)``, and its rounding."""
    phi = np.zeros((len(values), t.size), np.complex128)
    off = np.empty((len(values), t.size))
    for law, (places, shares) in enumerate(zip(values, weights, strict=True)):
        for place, share in zip(places, shares, strict=True):
            phi[law] += share * np.exp(1j * place * t)
        off[law] = UNIT * (shares.size + 16.0 + 4.0 * t * float(shares @ np.abs(places)))
    return phi, off
