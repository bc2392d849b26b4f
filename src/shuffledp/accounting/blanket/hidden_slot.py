"""Hidden-slot bound: a tighter bound on delta than the blanket's (docs/hidden-slot.md).

With probability kappa each user is *exposed*: the report is drawn from the law w that all records
share, and shown without the user's name. The target's report is shown in place of an exposed user's
(the *slot*), among the named reports of the others. Then

    ``delta <= (1 - kappa)^(n-1) delta_loc + (1/n) max over x of M(n copies of G_x)``.

delta_loc is the delta without a shuffler. With R(y|x) the probability of report y for record x, a
user who holds x is not exposed and sends y with probability ``R(y|x) - kappa w(y)``; then
``G_x = (R(y|x0) - exp(eps) R(y|x1)) / (R(y|x) - kappa w(y))``. If the user is exposed, G_x is 0. M
is an upper bound on ``E[S_+]`` for the sum S of the copies: an integral of the modulus of the
tilted characteristic function of S. The modulus is a product over the users, hence convex in the
numbers of users who hold each record. So in the worst data set all other users hold the same x.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from shuffledp.accounting.blanket.atoms import Atoms, Tilt, log_saddle_point, tilt
from shuffledp.numerics.arrays import UNIT, Floats

# Standard deviation, in units of 1 / tilt, of the normal noise that makes the integral finite; it
# adds half its square to log delta. The second number is that width times the largest frequency.
RELATIVE_NOISE_WIDTH, FREQUENCY_REACH = 0.02, 9.2
# Largest number of frequencies (very small deltas get more noise instead), and block size.
MAX_FREQUENCIES, FREQUENCIES_AT_ONCE = 2**17, 64
# Exponentials of exponents up to this size do not overflow.
MAX_EXPONENT = 700.0


def exposure(log_delta: float, n: int) -> float:
    """Return a kappa for which the first term of the bound is about ``exp(log_delta) / sqrt(n)``.

    A larger kappa makes that term smaller, but leaves fewer users to hide among.
    """
    return (max(-log_delta, 0.0) + 0.5 * float(np.log(n))) / n


@dataclass(frozen=True, eq=False)
class Kernel:
    """Weights and frequencies of upper bounds on ``E[S_+]``, ``S = G_1 + ... + G_n``.

    For normal noise Z, ``E[S_+] <= E[(S + Z)_+]``. The right side is an integral over frequencies t
    with the transform ``1 / (lam + i t)^2`` of the kernel ``K(x) = x_+ exp(-lam x)``. The
    trapezoidal rule with period P is an upper bound, because it adds the terms ``K(S + Z + m P)``.
    Its terms are replaced by their moduli, which changes little near a saddle point. The moduli of
    the exposed part, with G = 0, and of the rest are added.

    Attributes
    ----------
    lam
        Parameter of the tilt.
    n
        Number of summands in S.
    kappa
        Probability that a user is exposed; part of the mass of G at 0.
    step
        Distance of neighbouring frequencies.
    weights
        Weights of the frequencies, and last the total weight of all larger ones, shape
        ``(frequencies + 1,)``.
    """

    lam: float
    n: int
    kappa: float
    step: float
    weights: Floats

    @classmethod
    def from_law(cls, law: Atoms, n: int, kappa: float) -> Self:
        """Return the kernel whose tilt is the saddle point for n copies of a law.

        At least one value of the law is positive.
        """
        at = tilt(law.values, law.masses, n, 2.0)
        shares = np.exp(at.log_weights(law.values, law.masses))
        centred = law.values - shares @ law.values
        deviation = float(np.sqrt(n * (shares @ centred**2)))
        period = 8.0 * deviation + 20.0 / at.lam
        step = 2.0 * np.pi / period
        noise = max(RELATIVE_NOISE_WIDTH / at.lam, FREQUENCY_REACH / (MAX_FREQUENCIES * step))
        t = step * np.arange(int(FREQUENCY_REACH / (noise * step)) + 2.0)
        weights = np.where(t == 0.0, 1.0, 2.0) / (at.lam**2 + t**2) / period  # t and -t
        weights *= np.exp(0.5 * noise**2 * (at.lam**2 - t**2))
        beyond = np.exp(0.5 * noise**2 * (at.lam**2 - t[-1] ** 2)) / (np.pi * t[-1])
        return cls(at.lam, n, kappa, step, np.append(weights, beyond))

    @property
    def log_total(self) -> float:
        """Upper bound on `log_high` minus `log_moment_high`."""
        return float(np.log(self.weights.sum())) + 1e-12

    def log_ceiling(self, law: Atoms) -> float:
        """Return a cheap upper bound on `log_high`."""
        return log_moment_high(law, self.lam, self.n) + self.log_total

    def log_high(self, law: Atoms) -> float:
        """Return an upper bound on ``log E[S_+]`` for n copies of a law.

        Its values are treated as exact, and its masses as accurate to their stated error.
        """
        if self.lam * float(law.values.max()) > MAX_EXPONENT:
            return np.inf
        at = Tilt(self.lam, float(logsumexp(self.lam * law.values, b=law.masses)))
        shares = np.exp(at.log_weights(law.values, law.masses))
        frequencies = self.weights.size - 1
        # Each block of frequencies is the previous one times a factor for each atom.
        block = np.arange(FREQUENCIES_AT_ONCE, dtype=np.float64)
        starts = np.arange(0, frequencies, FREQUENCIES_AT_ONCE, dtype=np.float64)
        rotated = shares * np.exp(1j * self.step * starts[:, None] * law.values)
        phi = rotated @ np.exp(1j * self.step * law.values[:, None] * block)
        t = self.step * np.arange(frequencies, dtype=np.float64)
        phi_error = UNIT * (shares.size + 48.0 + 8.0 * t * float(shares @ np.abs(law.values)))
        exposed = self.kappa * float(np.exp(-at.log_moment))
        modulus_high = np.append(
            np.abs(phi.ravel()[:frequencies] - exposed) + exposed + phi_error, 1.0
        )
        end = float(np.log(self.weights @ np.exp(self.n * np.log(modulus_high))))
        end += self.n * at.log_moment
        units = law.units + shares.size + at.units(law.values, law.masses)
        return end + UNIT * (self.n * units + frequencies + 8.0 * (abs(end) + 16.0))


def log_moment_high(law: Atoms, lam: float, n: int) -> float:
    """Bound ``n log E[exp(lam G)]`` from above, for exact values of G; inf if it overflows."""
    if lam * float(law.values.max()) > MAX_EXPONENT:
        return np.inf
    at = Tilt(lam, float(logsumexp(lam * law.values, b=law.masses)))
    units = law.units + law.masses.size + at.units(law.values, law.masses)
    return n * (at.log_moment + UNIT * (units + 8.0 * (abs(at.log_moment) + 8.0)))


def no_exposure_log_delta(log_local: ArrayLike, others: int, kappa: float) -> Floats:
    """Return an upper bound on the log of ``(1 - kappa)^others delta_loc``.

    This is the contribution of the event that none of the other users is exposed. The log of
    delta_loc is finite, of any shape.
    """
    log_local = np.asarray(log_local, np.float64)
    log_value = others * float(np.log1p(-kappa)) + log_local
    return np.asarray(
        log_value + UNIT * (others + 8.0 * (np.abs(log_value) + np.abs(log_local) + 8.0))
    )


def hidden_slot_log_delta(slots: Sequence[Atoms], n: int, kappa: float, ceiling: float) -> float:
    """Return an upper bound on log delta that holds for every data set of n (>= 2) users.

    Parameters
    ----------
    slots
        Law of G for each record that another user may hold, each with mass at least kappa at 0.
    ceiling
        Another upper bound on log delta; the smaller of both is returned.
    """
    top = max(float(law.shifted_outwards(1.0).values.max()) for law in slots)
    if top <= 0.0:
        return ceiling
    laws = [
        Atoms(law.values / top, law.masses, law.units, law.errors / top).shifted_outwards(1.0)
        for law in slots
    ]
    # For each of the laws, E[G_+] is delta_loc.
    log_local = float(np.log(np.maximum(laws[0].values, 0.0) @ laws[0].masses))
    log_local += UNIT * (2.0 * laws[0].units + laws[0].values.size + 8.0)
    alone = float(no_exposure_log_delta(log_local, n - 1, kappa))
    log_value = float(np.logaddexp(uniform_slots_log_high(laws, n, kappa), alone) + np.log(top))
    return min(log_value + UNIT * 8.0 * (abs(log_value) + abs(alone) + 8.0), ceiling)


def uniform_slots_log_high(laws: Sequence[Atoms], n: int, kappa: float) -> float:
    """Return an upper bound on ``log(E[S_+] / n)``, S a sum of n copies, for the worst of the laws.

    The values of the laws are treated as exact.
    """
    if not max(float(law.values.max()) for law in laws) > 0.0:
        return -np.inf
    order = np.argsort([-log_saddle_point(law, n) for law in laws]).tolist()
    best = np.inf
    # The kernel fits the law that is probably the worst; if another one is worse, repeat with that.
    for _ in range(3):
        kernel = Kernel.from_law(laws[order[0]], n, kappa)
        high, worst = -np.inf, 0
        for position, at in enumerate(order):
            if kernel.log_ceiling(laws[at]) > high and (end := kernel.log_high(laws[at])) > high:
                high, worst = end, position
        best = min(best, high - float(np.log(n)))
        if worst == 0:
            break
        order.insert(0, order.pop(worst))
    return best + UNIT * 8.0 * (abs(best) + 8.0)
