"""The sum of two independent binomials: how much its law falls beyond a tilted mode.

    sum_s (f(s - 1) - kappa f(s))_+,   f the law of Bin(n1, p1) + Bin(n2, p2),   kappa > 1,

is what the divergence of one bin's count comes to. As f is log-concave the sum is a tail, and a
tail's generating function is known: with F(z) = E z^S it is the coefficient of z^(t-1) in
``F(z) (z - kappa) / (z - 1)``, |z| > 1, for the right threshold t, and less for any other. Cauchy's
integral for it, on a circle through the saddle point, takes some eighty points whatever n is.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.laws.binomial import log_pmf, log_pmf_error
from shuffledp.arrays import UNIT, Floats

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


@dataclass(frozen=True)
class _Binomial:
    """One of the two binomials of each sum, tilted: trials, chance, complement, shape (sums,)."""

    n: Floats
    chance: Chance
    a: Floats
    b: Floats

    @property
    def variance(self) -> Floats:
        return self.n * self.a * self.b

    def on_circle(self, phi: Floats) -> tuple[Floats, Floats, Floats]:
        """Log of the modulus and argument of its part of F, less those at phi = 0.

        The argument is that of the rarer outcome; the third number times phi is to be added.
        """
        n, often = self.n[:, None], self.a > 0.5
        rare = np.where(often, -self.b, self.a)[:, None]
        versine = 2.0 * np.sin(phi / 2.0) ** 2
        with np.errstate(divide="ignore"):
            modulus = 0.5 * np.log1p(np.maximum(-2.0 * (self.a * self.b)[:, None] * versine, -1.0))
        argument = n * np.arctan2(rare * np.sin(phi), 1.0 - np.abs(rare) * versine)
        return np.where(n > 0.0, n * modulus, 0.0), argument, np.where(often, self.n, 0.0)

    def log_ratio(self, x: Floats) -> tuple[Floats, Floats]:
        """``log Pr[x] / Pr_tilted[x]`` and its error: 0 without trials."""
        some = self.n > 0.0
        x, n = np.where(some, x, 0.0), np.where(some, self.n, 1.0)
        p, q, a, b = self.chance.p, self.chance.q, self.a, self.b
        ratio = log_pmf(x, n, p, q) - log_pmf(x, n, a, b)
        error = log_pmf_error(x, n, p, q) + log_pmf_error(x, n, a, b)
        return np.where(some, ratio, 0.0), np.where(some, error, 0.0)


def _tilted(n: Floats, chance: Chance, log_odds: Floats) -> _Binomial:
    """Bin(n, chance) with its odds multiplied by ``exp(log_odds) >= 1``."""
    rest = chance.q * np.exp(-log_odds)
    total = chance.p + rest
    return _Binomial(n, chance, chance.p / total, rest / total)


@dataclass(frozen=True)
class _Circle:
    """Points of the upper half of the circle ``|z| = exp(tau)``, shape (sums, points).

    ``weight`` is a point's share of the circle, its mirror image included; ``terms`` is how many
    of the tail's terms are kept.
    """

    tau: Floats
    terms: Floats
    phi: Floats
    weight: Floats

    def factor(self, excess: float) -> Any:
        """``(z - kappa) (1 - z^-terms) / (z - 1)``."""
        sine, versine = np.sin(self.phi), 2.0 * np.sin(self.phi / 2.0) ** 2
        tau, radius = self.tau[:, None], np.exp(self.tau)[:, None]
        turned = radius * (1j * sine - versine)  # z less the radius
        # On the circle of the tilt itself z - kappa vanishes at phi = 0.
        off = np.where(tau > np.log1p(excess), np.expm1(tau) - excess, 0.0)
        terms = self.terms[:, None]
        cut = 1.0 - np.exp(-terms * tau) * np.exp(-1j * terms * self.phi)
        return (off + turned) / (np.expm1(tau) + turned) * cut


def _circle(tau: Floats, least: Floats, deviation: Floats) -> _Circle:
    """Points that leave out, and alias, no more than `_NEGLECTED`."""
    terms = np.ceil(_CUT / tau)
    points = terms + np.ceil(_FAR * np.maximum(deviation, least) + _MARGIN)
    reach = np.where(deviation > _WHOLE, _PEAK / np.maximum(deviation, 1.0), np.pi)
    k = np.arange(int(np.ceil((reach * points / (2.0 * np.pi)).max())) + 1)
    points = points[:, None]
    # The ends of the upper half stand for themselves.
    weight = np.where((k == 0) | (2 * k == points), 1.0, 2.0) * (2 * k <= points) / points
    return _Circle(tau, terms, 2.0 * np.pi * k / points, weight)


def _chunk(
    excess: float, n1: Floats, first: Chance, n2: Floats, second: Chance
) -> tuple[Floats, Floats]:
    theta = np.full(n1.shape, np.log1p(excess))
    one, two = _tilted(n1, first, theta), _tilted(n2, second, theta)
    # The mode of the tilted law is next to its mean (Darroch); rounding moves that by far less.
    mean = n1 * one.a + n2 * two.a
    last = np.floor(np.maximum(mean - 8.0 * UNIT * (n1 + n2), 0.0))  # t - 1, or 1 or 2 below it
    deviation = np.sqrt(one.variance + two.variance) + 1.0
    # The tilt itself, or, next to the pole, clear of it.
    tau = np.maximum(theta, 2.0 / deviation)
    one, two = _tilted(n1, first, tau), _tilted(n2, second, tau)
    circle = _circle(tau, deviation, np.sqrt(one.variance + two.variance))
    (re1, im1, all1), (re2, im2, all2) = one.on_circle(circle.phi), two.on_circle(circle.phi)
    size = circle.weight * np.exp(re1 + re2)
    factor = circle.factor(excess)
    integrand = (
        size * factor * np.exp(1j * (im1 + im2 + (all1 + all2 - last)[:, None] * circle.phi))
    )

    # Arguments are sums of large ones, each right to some units in its last place; what the tilt's
    # own rounding moves them by is less.
    counts = n1 * np.minimum(one.a, one.b) + n2 * np.minimum(two.a, two.b)
    rounding = UNIT * (24.0 + 12.0 * (counts + 1.0)[:, None] * circle.phi)
    error = np.sum(size * np.abs(factor) * rounding, axis=1) + _NEGLECTED
    # kappa is right to some units in the last place of the excess: f(t - 1) bounds its effect.
    error += (8.0 + 2.0 * theta) * UNIT * np.sum(size, axis=1)

    scale, scale_error = _log_scale(last, one, two)
    turn = np.exp(-1j * circle.phi)
    log_value, log_error = np.full(n1.shape, -np.inf), np.full(n1.shape, np.inf)
    for step in range(3):
        value = np.sum(integrand.real, axis=1)
        good = (last + step <= n1 + n2) & (value > 2.0 * error)
        value = np.where(good, value, 1.0)
        found = np.where(good, np.log(value) + scale - step * tau, -np.inf)
        better = found > log_value
        log_value = np.where(better, found, log_value)
        log_error = np.where(better, 1.01 * error / value + scale_error, log_error)
        integrand *= turn
    return log_value, log_error


def _log_scale(total: Floats, one: _Binomial, two: _Binomial) -> tuple[Floats, Floats]:
    """``log F(r) - total log r`` and its error; of two numbers of order n, without a difference.

    At any counts x1 + x2 = total, the probabilities' ratios to the tilted ones give it.
    """
    x1 = np.clip(np.round(one.n * one.a), np.maximum(0.0, total - two.n), np.minimum(one.n, total))
    (ratio1, error1), (ratio2, error2) = one.log_ratio(x1), two.log_ratio(total - x1)
    scale = ratio1 + ratio2
    # The steps to the other thresholds are among the last units.
    return scale, error1 + error2 + 16.0 * UNIT * (1.0 + np.abs(scale))
