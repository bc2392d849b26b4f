"""Divergence of a count that is a sum of independent binomials, by Cauchy's integral.

Let f be the law of S = Bin(n1, p1) + Bin(n2, p2) + ..., and kappa >= 1. Up to a factor,

    sum_s (f(s - 1) - kappa f(s))_+

is the hockey-stick divergence of one bin's count. Since f is log-concave, the sum runs over all s
from some threshold t on. With F(z) = E z^S this series is the coefficient of z^(t-1) in
``F(z) (z - kappa) / (z - 1)``, |z| > 1; any other t gives a smaller number. Cauchy's integral for
this coefficient, on a circle near the saddle point, takes about eighty points for any n. Several
laws with similar standard deviations share a circle, because log F is linear in n1, n2, ...
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.laws.binomial import (
    INPUT_UNITS,
    SMALLEST_PROBABILITY,
    deviance,
    log_pmf_with_error,
)
from shuffledp.numerics.arrays import UNIT, Floats, Integers

# The integrand is evaluated within PEAK_WIDTHS widths of its peak, beyond which it is below
# exp(-52), or on the whole circle if the standard deviation is at most WHOLE_CIRCLE_DEVIATIONS.
PEAK_WIDTHS = 10.7
WHOLE_CIRCLE_DEVIATIONS = 12.0
# The series over s is truncated after J terms, for which r^-J = exp(-TAIL_DECAY) with radius r. The
# circle has J + W points, where W is ALIAS_DEVIATIONS standard deviations + ALIAS_MARGIN. A count s
# is mistaken for those J + W away, so no count within W of the threshold is taken for a term.
TAIL_DECAY = 45.0
ALIAS_DEVIATIONS, ALIAS_MARGIN = 22.1, 40.0
# Bound on the sum of four errors, relative to F(r) r^(1-t), with r >= kappa: r^-J for truncation,
# 2 exp(-52) for the rest of the circle, and by Bernstein's inequality 2 exp(-60) for each of the
# two tails beyond 20 standard deviations and 40 counts. ALIAS_DEVIATIONS is larger than 20, because
# the mean of the tilted law may lie POLE_DISTANCE * MAX_RATIO_NEAR_POLE = 2.04 standard deviations
# from the threshold.
NEGLECTED_SHARE = 1e-19
# Largest number of laws on one circle, limited by the processor's cache.
MAX_LAWS_PER_CIRCLE = 500
# Largest ratio of the standard deviations of laws on one circle. MAX_RATIO_NEAR_POLE applies if
# kappa is too close to the pole: the deviations then determine the radius.
MAX_DEVIATION_RATIO, MAX_RATIO_NEAR_POLE = 1.2, 1.02
# Smallest distance of log |z| from the pole at z = 1, times the standard deviation.
POLE_DISTANCE = 2.0
LOG_UNDERFLOW = -800.0  # exponentials of smaller numbers are 0


@dataclass(frozen=True)
class Chance:
    """A probability p and its complement q, so that neither is computed as a difference."""

    p: float
    q: float

    @property
    def complement(self) -> "Chance":
        """The probability that the event does not happen."""
        return Chance(self.q, self.p)


def log_shift_divergence(
    kappa_minus_1: float, units: float, *parts: tuple[ArrayLike, Chance]
) -> tuple[Floats, Floats]:
    """Return ``log sum_s (f(s - 1) - kappa f(s))_+`` and its error.

    Parameters
    ----------
    kappa_minus_1
        At least 0.
    units
        Bound on the relative error of ``kappa_minus_1``, in units of rounding.
    parts
        For each binomial, the numbers of trials (>= 0, broadcast) and the probability of success,
        with p and q accurate to a few units in the last place.

    Returns
    -------
    Natural logarithms, and bounds on their absolute errors by rounding (docs/accounting.md),
    aliasing and truncation. An error is inf if no digit is correct.
    """
    trial_arrays = np.broadcast_arrays(*(np.asarray(n, np.float64) for n, _ in parts))
    chances = [chance for _, chance in parts]
    shape, trials = trial_arrays[0].shape, [n.ravel() for n in trial_arrays]
    theta = float(np.log1p(kappa_minus_1))
    # 1 more, so that laws of hardly any spread share a circle, too.
    deviation = 1.0 + _deviation(_all_tilted(trials, chances, theta))
    values, errors = np.empty(deviation.size), np.empty(deviation.size)
    for group in _groups(deviation, theta):
        values[group], errors[group] = _on_one_circle(
            kappa_minus_1, units, [n[group] for n in trials], chances
        )
    return values.reshape(shape), errors.reshape(shape)


def _groups(deviation: Floats, theta: float) -> Iterator[Integers]:
    """Yield the indices of laws that share a circle."""
    order = np.argsort(deviation, kind="stable")
    ordered, start = deviation[order], 0
    while start < order.size:
        max_ratio = (
            MAX_DEVIATION_RATIO if theta * ordered[start] >= POLE_DISTANCE else MAX_RATIO_NEAR_POLE
        )
        stop = int(np.searchsorted(ordered, max_ratio * ordered[start], side="right"))
        stop = min(stop, start + MAX_LAWS_PER_CIRCLE)
        yield order[start:stop]
        start = stop


def log_pmf_ratio(
    x: Floats, n: Floats, first: tuple[float, float], second: tuple[float, float]
) -> tuple[Floats, Floats]:
    """Return the log ratio of ``Pr[x]`` under two binomial laws, and its absolute error.

    x and n have one shape, ``0 <= x <= n`` and ``n >= 1``. Each law is given by the probability of
    success and its complement, as accurate as for `log_pmf_error`. In Loader's form only the
    deviances differ between the two laws, so only these are computed.
    """
    if min(*first, *second) < SMALLEST_PROBABILITY:
        first_log, first_error = log_pmf_with_error(x, n, *first)
        second_log, second_error = log_pmf_with_error(x, n, *second)
        return first_log - second_log, first_error + second_error
    y = n - x
    counts = np.stack([x, y, x, y])
    means = np.array([*first, *second])[:, None] * n
    deviances = deviance(counts, means)
    distance = np.abs(counts - means).sum(axis=0)
    units = 64.0 + 2.0 * np.log1p(n) + 45.0 * deviances.sum(axis=0) + (2.0 + INPUT_UNITS) * distance
    value = (deviances[2] + deviances[3]) - (deviances[0] + deviances[1])
    return value, UNIT * units


@dataclass(frozen=True)
class _Binomial:
    """A binomial summand of all laws on a circle, with tilted probabilities a and b = 1 - a.

    Its probabilities are common to the laws, its numbers of trials n, shape (laws,), are not.
    """

    n: Floats
    chance: Chance
    a: float
    b: float

    @property
    def variance(self) -> Floats:
        return self.n * (self.a * self.b)

    @property
    def success_is_frequent(self) -> bool:
        """Whether success is the more frequent outcome."""
        return self.a > 0.5

    def on_circle(self, phi: Floats) -> tuple[Floats, Floats]:
        """Return log modulus and argument of the factor of F that belongs to one trial.

        Both are relative to phi = 0. To keep the digits of small angles, the factor is divided by
        ``exp(i phi)`` if success is frequent; the caller adds this phi to the argument.
        """
        rare = -self.b if self.success_is_frequent else self.a
        versine = 2.0 * np.sin(phi / 2.0) ** 2
        with np.errstate(divide="ignore"):
            modulus = 0.5 * np.log1p(np.maximum(-2.0 * (self.a * self.b) * versine, -1.0))
        argument = np.arctan2(rare * np.sin(phi), 1.0 - abs(rare) * versine)
        return np.maximum(modulus, LOG_UNDERFLOW), argument

    def log_ratio(self, x: Floats) -> tuple[Floats, Floats]:
        """Return ``log(Pr[x] / Pr_tilted[x])`` and its error; both are 0 without trials."""
        has_trials = self.n > 0.0
        x, n = np.where(has_trials, x, 0.0), np.where(has_trials, self.n, 1.0)
        value, error = log_pmf_ratio(x, n, (self.chance.p, self.chance.q), (self.a, self.b))
        return np.where(has_trials, value, 0.0), np.where(has_trials, error, 0.0)


def _tilted(n: Floats, chance: Chance, tilt: float) -> _Binomial:
    """Return Bin(n, chance) with the odds of success multiplied by ``exp(tilt) >= 1``."""
    tilted_q = chance.q * float(np.exp(-tilt))
    total = chance.p + tilted_q
    return _Binomial(n, chance, chance.p / total, tilted_q / total)


def _all_tilted(
    trials: Sequence[Floats], chances: Sequence[Chance], tilt: float
) -> list[_Binomial]:
    return [_tilted(n, chance, tilt) for n, chance in zip(trials, chances, strict=True)]


def _deviation(binomials: Sequence[_Binomial]) -> Floats:
    """Return the standard deviation of each tilted law."""
    return np.asarray(np.sqrt(_sum([binomial.variance for binomial in binomials])))


@dataclass(frozen=True)
class _Circle:
    """Points of the upper half of the circle ``|z| = exp(tau)``, shape (points,).

    ``weight`` is the share of a point and its mirror image in the circle; ``terms`` is the number J
    of terms of the series over s.
    """

    tau: float
    terms: float
    phi: Floats
    weight: Floats

    def factor(self, kappa_minus_1: float) -> Any:
        """Return ``(z - kappa) (1 - z^-terms) / (z - 1)`` at the points."""
        sine, versine = np.sin(self.phi), 2.0 * np.sin(self.phi / 2.0) ** 2
        relative = np.exp(self.tau) * (1j * sine - versine)  # z minus the radius
        # On the circle of radius kappa, z - kappa is exactly 0 at phi = 0.
        radius_minus_kappa = (
            np.expm1(self.tau) - kappa_minus_1 if self.tau > np.log1p(kappa_minus_1) else 0.0
        )
        cut = 1.0 - np.exp(-self.terms * self.tau) * np.exp(-1j * self.terms * self.phi)
        return (radius_minus_kappa + relative) / (np.expm1(self.tau) + relative) * cut


def _circle(tau: float, min_width: float, deviation: Floats) -> _Circle:
    """Return points for which truncation and aliasing are at most `NEGLECTED_SHARE`.

    ``deviation`` has the standard deviation of each law, tilted by tau. There are enough points for
    the largest of them, or for ``min_width`` if this is larger.
    """
    terms = float(np.ceil(TAIL_DECAY / tau))
    points = terms + np.ceil(
        ALIAS_DEVIATIONS * max(float(deviation.max()), min_width) + ALIAS_MARGIN
    )
    narrowest = float(deviation.min())
    reach = PEAK_WIDTHS / narrowest if narrowest > WHOLE_CIRCLE_DEVIATIONS else np.pi
    k = np.arange(min(np.ceil(reach * points / (2.0 * np.pi)), np.floor(points / 2.0)) + 1.0)
    # The ends of the upper half have no mirror image.
    weight = np.where((k == 0.0) | (2.0 * k == points), 1.0, 2.0) / points
    return _Circle(tau, terms, 2.0 * np.pi * k / points, weight)


def _on_one_circle(
    kappa_minus_1: float, units: float, trials: Sequence[Floats], chances: Sequence[Chance]
) -> tuple[Floats, Floats]:
    theta, total_trials = float(np.log1p(kappa_minus_1)), _sum(trials)
    binomials = _all_tilted(trials, chances, theta)
    # The mode of the tilted law is adjacent to its mean (Darroch); rounding changes little.
    mean = _sum([binomial.n * binomial.a for binomial in binomials])
    # At most 2 below the exponent t - 1, so that one of three candidates is right.
    lowest_power = np.floor(np.maximum(mean - 8.0 * UNIT * total_trials, 0.0))
    deviation = 1.0 + _deviation(binomials)
    # The radius is kappa, or larger if that is too close to the pole.
    tau = max(theta, POLE_DISTANCE / float(np.median(deviation)))
    binomials = _all_tilted(trials, chances, tau)
    circle = _circle(tau, float(deviation.max()), _deviation(binomials))
    points = [binomial.on_circle(circle.phi) for binomial in binomials]
    trial_columns = [binomial.n[:, None] for binomial in binomials]
    size = np.exp(
        _sum([n * modulus for n, (modulus, _) in zip(trial_columns, points, strict=True)])
    )
    turns = _sum([binomial.n * binomial.success_is_frequent for binomial in binomials])
    turns -= lowest_power
    argument = _sum([n * angle for n, (_, angle) in zip(trial_columns, points, strict=True)])
    argument = argument + turns[:, None] * circle.phi
    real, imaginary = size * np.cos(argument), size * np.sin(argument)
    factor = circle.factor(kappa_minus_1) * circle.weight

    # The arguments of F are sums of large numbers, each accurate to a few units in the last place.
    # Rounding of the tilt has a smaller effect.
    counts = _sum([binomial.n * min(binomial.a, binomial.b) for binomial in binomials])
    sizes = size @ np.stack([np.abs(factor), np.abs(factor) * circle.phi, circle.weight], axis=1)
    rounding = 12.0 * len(binomials) * sizes[:, 0] + 12.0 * (counts + 1.0) * sizes[:, 1]
    # A relative error of kappa - 1 changes the series by that share of (kappa - 1) sum_{s>=t} f(s),
    # which is at most f(t - 1), bounded by the third size.
    rounding += (units + 2.0 * theta) * sizes[:, 2]
    error = UNIT * rounding + NEGLECTED_SHARE

    scale, scale_error = _log_scale(lowest_power, binomials)
    log_value, log_error = np.full(total_trials.shape, -np.inf), np.full(total_trials.shape, np.inf)
    # Other thresholds give a smaller value, so the largest of three candidates is the result.
    for step in range(3):
        rotated = factor * np.exp(-1j * step * circle.phi)
        value = np.sum(real * rotated.real - imaginary * rotated.imag, axis=1)
        significant = (lowest_power + step <= total_trials) & (value > 2.0 * error)
        value = np.where(significant, value, 1.0)
        candidate = np.where(significant, np.log(value) + scale - step * tau, -np.inf)
        better = candidate > log_value
        log_value = np.where(better, candidate, log_value)
        log_error = np.where(better, 1.01 * error / value + scale_error, log_error)
    return log_value, log_error


def _sum(values: Sequence[Floats]) -> Floats:
    return sum(values[1:], values[0])


def _log_scale(total: Floats, binomials: Sequence[_Binomial]) -> tuple[Floats, Floats]:
    """Return ``log F(r) - total log r`` and its error, without subtracting numbers of order n.

    It is the sum over the binomials of the log ratio of the untilted to the tilted probability of
    x successes, for any numbers x that add up to the total.
    """
    scale, error = np.zeros(total.shape), np.zeros(total.shape)
    remaining, later_trials = total, _sum([binomial.n for binomial in binomials])
    for binomial in binomials:
        later_trials = later_trials - binomial.n
        x = np.maximum(np.round(binomial.n * binomial.a), np.maximum(0.0, remaining - later_trials))
        x = np.minimum(x, np.minimum(binomial.n, remaining))
        remaining = remaining - x
        ratio, ratio_error = binomial.log_ratio(x)
        scale, error = scale + ratio, error + ratio_error
    # The added units cover rounding of this sum and of the shift to the other candidate thresholds.
    return scale, error + 8.0 * len(binomials) * UNIT * (1.0 + np.abs(scale))
