"""The sum of independent binomials: how much its law falls beyond a tilted mode.

    sum_s (f(s - 1) - kappa f(s))_+,   f the law of Bin(n1, p1) + Bin(n2, p2) + ...,   kappa > 1,

is what the divergence of one bin's count comes to. As f is log-concave the sum is a tail, and a
tail's generating function is known: with F(z) = E z^S it is the coefficient of z^(t-1) in
``F(z) (z - kappa) / (z - 1)``, |z| > 1, for the right threshold t, and less for any other. Cauchy's
integral for it, on a circle through the saddle point, takes some eighty points whatever n is. Sums
that are about as wide share a circle: the logarithm of F is linear in the numbers of trials.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.laws.binomial import INPUTS, LEAST, deviance, log_pmf_with_error
from shuffledp.numerics.arrays import UNIT, Floats, Integers

# The integrand is followed for this many widths of its peak, where it is below exp(-52); with
# fewer standard deviations than _WHOLE the whole circle is taken.
_PEAK = 10.7
_WHOLE = 12.0
# The tail is cut after J terms, r^-J = exp(-_CUT).
_CUT = 45.0
# The points of the circle alias what lies _FAR standard deviations and _MARGIN counts away.
_FAR, _MARGIN = 22.1, 40.0
# All four errors together, relative to F(r) r^(1-t), with r >= kappa: r^-J, twice exp(-52) for the
# rest of the circle, and twice each of the two tails beyond 20 standard deviations and 40 counts
# (the centre of the circle's law lies at most 2.04 of them from the threshold: _CLEAR, and more by
# _ALIKE), exp(-60) by Bernstein.
_NEGLECTED = 1e-19
# Sums on one circle: as many as leave their points in the processor's cache, whose standard
# deviations are within the first factor; where these choose the radius, within the second.
_ROWS, _SIMILAR, _ALIKE = 500, 1.2, 1.02
# A circle next to the pole is _CLEAR / deviation from it.
_CLEAR = 2.0
_NEVER = -800.0  # the logarithm of what underflows to 0


@dataclass(frozen=True)
class Chance:
    """A probability with its complement: neither may come from a difference."""

    p: float
    q: float

    @property
    def complement(self) -> "Chance":
        """The same event's absence."""
        return Chance(self.q, self.p)


def log_falling_tail(excess: float, *parts: tuple[ArrayLike, Chance]) -> tuple[Floats, Floats]:
    """Log of ``sum_s (f(s - 1) - kappa f(s))_+``, ``kappa = 1 + excess``, and a bound on its error.

    Parameters
    ----------
    excess
        At least 0 and right to some units in the last place.
    parts
        Of each binomial the number of trials, at least 0, broadcast; and the chance of success,
        each of its two numbers right to some units in the last place.

    Returns
    -------
    Natural logarithms, and by how much each may be wrong in either direction: rounding (a running
    bound: docs/accounting.md), aliasing and what is left out. inf where no digit is left.
    """
    given = np.broadcast_arrays(*(np.asarray(n, np.float64) for n, _ in parts))
    chances = [chance for _, chance in parts]
    shape, trials = given[0].shape, [n.ravel() for n in given]
    theta = float(np.log1p(excess))
    deviation = _deviation(_all_tilted(trials, chances, theta))
    values, errors = np.empty(deviation.size), np.empty(deviation.size)
    for part in _alike(deviation, theta):
        values[part], errors[part] = _on_one_circle(excess, [n[part] for n in trials], chances)
    return values.reshape(shape), errors.reshape(shape)


def _alike(deviation: Floats, theta: float) -> Iterator[Integers]:
    """Which sums share a circle."""
    order = np.argsort(deviation, kind="stable")
    ordered, start = deviation[order], 0
    while start < order.size:
        apart = _SIMILAR if theta * ordered[start] >= _CLEAR else _ALIKE
        stop = int(np.searchsorted(ordered, apart * ordered[start], side="right"))
        stop = min(stop, start + _ROWS)
        yield order[start:stop]
        start = stop


def log_pmf_ratio(
    x: Floats, n: Floats, first: tuple[float, float], second: tuple[float, float]
) -> tuple[Floats, Floats]:
    """Log of ``Pr[x]`` of one binomial law over that of another, and a bound on its error.

    Parameters
    ----------
    x, n
        Whole numbers, ``0 <= x <= n`` and ``n >= 1``, of one shape.
    first, second
        Probability of success and its complement, of each law, right as for `log_pmf_error`.

    Returns
    -------
    Natural logarithms and their errors. In Loader's form all but the deviances are the same for
    both laws, at any x: so they alone are formed, and the errors are those of two `log_pmf`.
    """
    if min(*first, *second) < LEAST:
        before, error = log_pmf_with_error(x, n, *first)
        after, more = log_pmf_with_error(x, n, *second)
        return before - after, error + more
    y = n - x
    counts = np.stack([x, y, x, y])
    means = np.array([*first, *second])[:, None] * n
    deviances = deviance(counts, means)
    moved = np.abs(counts - means).sum(axis=0)
    units = 64.0 + 2.0 * np.log1p(n) + 45.0 * deviances.sum(axis=0) + (2.0 + INPUTS) * moved
    value = (deviances[2] + deviances[3]) - (deviances[0] + deviances[1])
    return value, UNIT * units


@dataclass(frozen=True)
class _Binomial:
    """One of the binomials of each sum, tilted: trials, shape (sums,), chance, complement."""

    n: Floats
    chance: Chance
    a: float
    b: float

    @property
    def variance(self) -> Floats:
        return self.n * (self.a * self.b)

    @property
    def often(self) -> bool:
        """Whether success is the more frequent outcome."""
        return self.a > 0.5

    def on_circle(self, phi: Floats) -> tuple[Floats, Floats]:
        """Log of the modulus and argument of a trial's part of F, less those at phi = 0.

        The argument is that of the rarer outcome; where that is failure, phi is to be added.
        """
        rare = -self.b if self.often else self.a
        versine = 2.0 * np.sin(phi / 2.0) ** 2
        with np.errstate(divide="ignore"):
            modulus = 0.5 * np.log1p(np.maximum(-2.0 * (self.a * self.b) * versine, -1.0))
        argument = np.arctan2(rare * np.sin(phi), 1.0 - abs(rare) * versine)
        return np.maximum(modulus, _NEVER), argument

    def log_ratio(self, x: Floats) -> tuple[Floats, Floats]:
        """``log Pr[x] / Pr_tilted[x]`` and its error: 0 without trials."""
        some = self.n > 0.0
        x, n = np.where(some, x, 0.0), np.where(some, self.n, 1.0)
        value, error = log_pmf_ratio(x, n, (self.chance.p, self.chance.q), (self.a, self.b))
        return np.where(some, value, 0.0), np.where(some, error, 0.0)


def _tilted(n: Floats, chance: Chance, log_odds: float) -> _Binomial:
    """Bin(n, chance) with its odds multiplied by ``exp(log_odds) >= 1``."""
    rest = chance.q * float(np.exp(-log_odds))
    total = chance.p + rest
    return _Binomial(n, chance, chance.p / total, rest / total)


def _all_tilted(
    trials: Sequence[Floats], chances: Sequence[Chance], log_odds: float
) -> list[_Binomial]:
    return [_tilted(n, chance, log_odds) for n, chance in zip(trials, chances, strict=True)]


def _deviation(terms: Sequence[_Binomial]) -> Floats:
    """Standard deviation of each tilted sum, and one more."""
    return np.asarray(np.sqrt(_sum([term.variance for term in terms])) + 1.0)


@dataclass(frozen=True)
class _Circle:
    """Points of the upper half of the circle ``|z| = exp(tau)``, shape (points,).

    ``weight`` is a point's share of the circle, its mirror image included; ``terms`` is how many
    of the tail's terms are kept.
    """

    tau: float
    terms: float
    phi: Floats
    weight: Floats

    def factor(self, excess: float) -> Any:
        """``(z - kappa) (1 - z^-terms) / (z - 1)``."""
        sine, versine = np.sin(self.phi), 2.0 * np.sin(self.phi / 2.0) ** 2
        turned = np.exp(self.tau) * (1j * sine - versine)  # z less the radius
        # On the circle of the tilt itself z - kappa vanishes at phi = 0.
        off = np.expm1(self.tau) - excess if self.tau > np.log1p(excess) else 0.0
        cut = 1.0 - np.exp(-self.terms * self.tau) * np.exp(-1j * self.terms * self.phi)
        return (off + turned) / (np.expm1(self.tau) + turned) * cut


def _circle(tau: float, least: float, deviation: Floats) -> _Circle:
    """Points that leave out, and alias, no more than `_NEGLECTED`, of any of the sums."""
    terms = float(np.ceil(_CUT / tau))
    points = terms + np.ceil(_FAR * max(float(deviation.max()), least) + _MARGIN)
    narrowest = float(deviation.min())
    reach = _PEAK / narrowest if narrowest > _WHOLE else np.pi
    k = np.arange(min(np.ceil(reach * points / (2.0 * np.pi)), np.floor(points / 2.0)) + 1.0)
    # The ends of the upper half stand for themselves.
    weight = np.where((k == 0.0) | (2.0 * k == points), 1.0, 2.0) / points
    return _Circle(tau, terms, 2.0 * np.pi * k / points, weight)


def _on_one_circle(
    excess: float, trials: Sequence[Floats], chances: Sequence[Chance]
) -> tuple[Floats, Floats]:
    theta, users = float(np.log1p(excess)), _sum(trials)
    terms = _all_tilted(trials, chances, theta)
    # The mode of the tilted law is next to its mean (Darroch); rounding moves that by far less.
    mean = _sum([term.n * term.a for term in terms])
    last = np.floor(np.maximum(mean - 8.0 * UNIT * users, 0.0))  # t - 1, or 1 or 2 below it
    deviation = _deviation(terms)
    # The tilt itself, or, next to the pole, clear of it.
    tau = max(theta, _CLEAR / float(np.median(deviation)))
    terms = _all_tilted(trials, chances, tau)
    circle = _circle(tau, float(deviation.max()), np.sqrt(_sum([term.variance for term in terms])))
    points = [term.on_circle(circle.phi) for term in terms]
    each = [term.n[:, None] for term in terms]
    size = np.exp(_sum([n * modulus for n, (modulus, _) in zip(each, points, strict=True)]))
    turns = _sum([term.n * term.often for term in terms]) - last
    argument = _sum([n * angle for n, (_, angle) in zip(each, points, strict=True)])
    argument = argument + turns[:, None] * circle.phi
    real, imaginary = size * np.cos(argument), size * np.sin(argument)
    factor = circle.factor(excess) * circle.weight

    # Arguments are sums of large ones, each right to some units in its last place; what the tilt's
    # own rounding moves them by is less.
    counts = _sum([term.n * min(term.a, term.b) for term in terms])
    sizes = size @ np.stack([np.abs(factor), np.abs(factor) * circle.phi, circle.weight], axis=1)
    units = 12.0 * len(terms) * sizes[:, 0] + 12.0 * (counts + 1.0) * sizes[:, 1]
    error = UNIT * units + _NEGLECTED
    # kappa is right to some units in the last place of the excess: f(t - 1) bounds its effect.
    error += (8.0 + 2.0 * theta) * UNIT * sizes[:, 2]

    scale, scale_error = _log_scale(last, terms)
    log_value, log_error = np.full(users.shape, -np.inf), np.full(users.shape, np.inf)
    for step in range(3):
        turned = factor * np.exp(-1j * step * circle.phi)
        value = np.sum(real * turned.real - imaginary * turned.imag, axis=1)
        good = (last + step <= users) & (value > 2.0 * error)
        value = np.where(good, value, 1.0)
        found = np.where(good, np.log(value) + scale - step * tau, -np.inf)
        better = found > log_value
        log_value = np.where(better, found, log_value)
        log_error = np.where(better, 1.01 * error / value + scale_error, log_error)
    return log_value, log_error


def _sum(values: Sequence[Floats]) -> Floats:
    return sum(values[1:], values[0])


def _log_scale(total: Floats, terms: Sequence[_Binomial]) -> tuple[Floats, Floats]:
    """``log F(r) - total log r`` and its error; of numbers of order n, without a difference.

    At any counts that add up to the total, the probabilities' ratios to the tilted ones give it.
    """
    scale, error = np.zeros(total.shape), np.zeros(total.shape)
    left, room = total, _sum([term.n for term in terms])
    for term in terms:
        room = room - term.n
        x = np.maximum(np.round(term.n * term.a), np.maximum(0.0, left - room))
        x = np.minimum(x, np.minimum(term.n, left))
        left = left - x
        ratio, ratio_error = term.log_ratio(x)
        scale, error = scale + ratio, error + ratio_error
    # The steps to the other thresholds, and the sum, are among the last units.
    return scale, error + 8.0 * len(terms) * UNIT * (1.0 + np.abs(scale))
