"""The sum of two independent binomials: how much its law falls beyond a tilted mode.

    sum_s (f(s - 1) - kappa f(s))_+,   f the law of Bin(n1, p1) + Bin(n2, p2),   kappa > 1,

is what the divergence of one bin's count comes to. As f is log-concave the sum is a tail, and a
tail's generating function is known: with F(z) = E z^S it is the coefficient of z^(t-1) in
``F(z) (z - kappa) / (z - 1)``, |z| > 1, for the right threshold t, and less for any other. Cauchy's
integral for it, on a circle through the saddle point, takes some eighty points whatever n is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.laws.binomial import log_pmf, log_pmf_error
from shuffledp.arrays import Floats

_U = 2.0**-53
# The integrand is followed for this many widths of its peak, where it is below exp(-52); with
# fewer standard deviations than _WHOLE the whole circle is taken.
_PEAK = 10.7
_WHOLE = 12.0
# The tail is cut after J terms, r^-J = exp(-_CUT).
_CUT = 45.0
# The points of the circle alias what lies _FAR standard deviations and _MARGIN counts away.
_FAR, _MARGIN = 22.0, 40.0
# All four errors together, relative to F(r) r^(1-t), with r >= kappa: r^-J, twice exp(-52) for the
# rest of the circle, and twice each of the two tails beyond 20 standard deviations and 40 counts
# (the centre of the circle's law lies at most 2 from the threshold), exp(-60) by Bernstein.
_NEGLECTED = 1e-19
_ROWS = 500  # sums at once: their points stay in the processor's cache


@dataclass(frozen=True)
class Chance:
    """A probability with its complement: neither may come from a difference."""

    p: float
    q: float

    @property
    def complement(self) -> "Chance":
        """The same event's absence."""
        return Chance(self.q, self.p)


def _tilted(chance: Chance, log_odds: Floats) -> tuple[Floats, Floats]:
    """The chance and its complement, its odds multiplied by ``exp(log_odds) >= 1``."""
    with np.errstate(over="ignore"):
        # For large tilts p -> 1 and q -> 0 without an overflow.
        rest = chance.q * np.exp(-log_odds)
    total = chance.p + rest
    return chance.p / total, rest / total


def log_falling_tail(
    excess: float, n1: ArrayLike, first: Chance, n2: ArrayLike, second: Chance
) -> tuple[Floats, Floats]:
    """Log of ``sum_s (f(s - 1) - kappa f(s))_+``, ``kappa = 1 + excess``, and a bound on its error.

    Parameters
    ----------
    excess
        At least 0 and right to some units in the last place.
    n1, n2
        Numbers of trials, at least 0, broadcast.
    first, second
        Their chances of success, each of its two numbers right to some units in the last place.

    Returns
    -------
    Natural logarithms, and by how much each may be wrong in either direction: rounding (a running
    bound: docs/accounting.md), aliasing and what is left out. inf where no digit is left.
    """
    n1, n2 = np.broadcast_arrays(np.asarray(n1, np.float64), np.asarray(n2, np.float64))
    shape, n1, n2 = n1.shape, n1.ravel(), n2.ravel()
    values, errors = np.empty(n1.size), np.empty(n1.size)
    for i in range(0, n1.size, _ROWS):
        part = slice(i, i + _ROWS)
        values[part], errors[part] = _chunk(excess, n1[part], first, n2[part], second)
    return values.reshape(shape), errors.reshape(shape)


def _chunk(
    excess: float, n1: Floats, first: Chance, n2: Floats, second: Chance
) -> tuple[Floats, Floats]:
    theta = float(np.log1p(excess))
    at_threshold = [_tilted(chance, np.full(n1.shape, theta)) for chance in (first, second)]
    (a1, b1), (a2, b2) = at_threshold
    deviation = np.sqrt(n1 * a1 * b1 + n2 * a2 * b2) + 1.0
    # The circle's radius exp(tau): the tilt itself, or, next to the pole, clear of it.
    tau = np.maximum(theta, 2.0 / deviation)
    (a1, b1), (a2, b2) = (_tilted(chance, tau) for chance in (first, second))
    wide = np.sqrt(n1 * a1 * b1 + n2 * a2 * b2)
    terms = np.ceil(_CUT / tau)
    points = terms + np.ceil(_FAR * np.maximum(wide, deviation) + _MARGIN)
    reach = np.where(wide > _WHOLE, _PEAK / np.maximum(wide, 1.0), np.pi)
    k = np.arange(int(np.ceil((reach * points / (2.0 * np.pi)).max())) + 1)
    phi = 2.0 * np.pi * k / points[:, None]
    # Both halves of the circle: the ends of the upper one stand for themselves.
    weight = np.where((k == 0) | (2 * k == points[:, None]), 1.0, 2.0) * (2 * k <= points[:, None])
    sine, versine = np.sin(phi), 2.0 * np.sin(phi / 2.0) ** 2  # the latter is 1 - cos

    def log_factor(n: Floats, a: Floats, b: Floats) -> tuple[Floats, Floats, Floats]:
        """Log of the modulus and argument of a binomial's part of F, less those at phi = 0.

        The argument is that of the rarer outcome, less the third number times phi.
        """
        rare = np.where(a > 0.5, -b, a)[:, None]
        with np.errstate(divide="ignore"):
            modulus = 0.5 * np.log1p(np.maximum(-2.0 * (a * b)[:, None] * versine, -1.0))
            modulus = np.where(n[:, None] > 0.0, n[:, None] * modulus, 0.0)
        argument = n[:, None] * np.arctan2(rare * sine, 1.0 - np.abs(rare) * versine)
        return modulus, argument, np.where(a > 0.5, n, 0.0)

    (re1, im1, all1), (re2, im2, all2) = log_factor(n1, a1, b1), log_factor(n2, a2, b2)
    size = weight / points[:, None] * np.exp(re1 + re2)
    # z - 1, and z - kappa from its own parts: on the circle of the tilt it vanishes at phi = 0.
    radius = np.exp(tau)[:, None]
    from_one = np.expm1(tau)[:, None] - radius * versine + 1j * radius * sine
    away = np.where(tau > theta, np.expm1(tau) - excess, 0.0)[:, None]
    from_kappa = away - radius * versine + 1j * radius * sine
    cut = 1.0 - np.exp(-terms * tau)[:, None] * np.exp(-1j * terms[:, None] * phi)
    factor = from_kappa / from_one * cut
    # Arguments are sums of large ones, each right to some units in its last place; what the tilt's
    # own rounding moves them by is less.
    counts = (n1 * np.minimum(a1, b1) + n2 * np.minimum(a2, b2))[:, None]
    rounding = _U * (24.0 + 12.0 * (counts + 1.0) * phi)

    # The mode of the tilted law is next to its mean (Darroch); rounding moves it by far less.
    (a, _), (c, _) = at_threshold
    mean = n1 * a + n2 * c
    base = np.floor(mean - 8.0 * _U * (n1 + n2)) + 1.0
    modulus = np.abs(factor)
    # The integrand at t = base, and what turns it from one threshold to the next.
    turns = all1 + all2 - (base - 1.0)
    integrand = size * factor * np.exp(1j * (im1 + im2 + phi * turns[:, None]))
    turn = np.exp(-1j * phi)
    error = np.sum(size * modulus * rounding, axis=1) + _NEGLECTED
    # kappa is right to some units in the last place of the excess: f(t - 1) bounds its effect.
    error += (8.0 + 2.0 * theta) * _U * np.sum(size, axis=1)
    last = np.minimum(base - 1.0, n1 + n2)
    scale, scale_error = _log_scale(last, tau, (n1, first, a1, b1), (n2, second, a2, b2))
    scale += (last - base + 1.0) * tau
    log_value, log_error = np.full(n1.shape, -np.inf), np.full(n1.shape, np.inf)
    for step in range(3):
        value = np.sum(integrand.real, axis=1)
        integrand *= turn
        good = (base - 1.0 + step <= n1 + n2) & (value > 2.0 * error)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_v = np.where(good, np.log(np.where(good, value, 1.0)) + scale - step * tau, -np.inf)
            log_e = np.where(good, 1.01 * error / value + scale_error, np.inf)
        better = log_v > log_value
        log_value, log_error = (
            np.where(better, log_v, log_value),
            np.where(better, log_e, log_error),
        )
    return log_value, log_error


_Part = tuple[Floats, Chance, Floats, Floats]


def _log_scale(total: Floats, tau: Floats, *parts: _Part) -> tuple[Floats, Floats]:
    """``log F(r) - total log r`` and its error; of two numbers of order n, without a difference.

    At any counts x1 + x2 = total, the probabilities' ratios to the tilted ones give it.
    """
    (n1, first, a1, b1), (n2, second, a2, b2) = parts
    x1 = np.clip(np.round(n1 * a1), np.maximum(0.0, total - n2), np.minimum(n1, total))
    scale, error = np.zeros_like(total), np.zeros_like(total)
    for x, n, chance, a, b in ((x1, n1, first, a1, b1), (total - x1, n2, second, a2, b2)):
        some = n > 0.0
        x, n = np.where(some, x, 0.0), np.where(some, n, 1.0)
        scale += np.where(some, log_pmf(x, n, chance.p, chance.q) - log_pmf(x, n, a, b), 0.0)
        own = log_pmf_error(x, n, chance.p, chance.q) + log_pmf_error(x, n, a, b)
        error += np.where(some, own, 0.0)
    return scale, error + 8.0 * _U * (1.0 + np.abs(scale) + tau)
