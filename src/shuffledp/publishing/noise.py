"""Exact noise by OpenDP, chosen for a guarantee and checked against our own accountant.

Neighbouring data sets differ in the records of one unit, which are added or removed.
`Contributions` bounds how far that moves each histogram, and the noise is proportional to this
sensitivity:

- Discrete Laplace noise with scale b is (L1 / b)-DP (Ghosh, Roughgarden and Sundararajan 2009).
- Discrete Gaussian noise with scale sigma is rho-zCDP with rho = L2^2 / (2 sigma^2) (Canonne,
  Kamath and Steinke 2020, Theorem 14); their Corollary 13 converts rho to (eps, delta).

The eps and the rho of several histograms of the same records add up.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import scipy

from shuffledp.accounting.additive import GeometricNoise
from shuffledp.accounting.contributions import Sensitivity
from shuffledp.accounting.rounds.tradeoff import gdp_upper_log_delta
from shuffledp.errors import DEFECT, InputError
from shuffledp.numerics.arrays import Floats, Integers, sum_up

MechanismName: TypeAlias = Literal["laplace", "gaussian"]
UNITS: Final = ("record", "user")
MECHANISMS: Final = {"laplace": "discrete Laplace", "gaussian": "discrete Gaussian"}
"""Names of the noises in statements."""

LEVEL: Final = 0.95  # probability with which an interval covers the true count
MAX_EPS: Final = 1_000.0  # a larger one promises nothing
MIN_DELTA: Final = 1e-100
MAX_DELTA: Final = 0.1  # a larger one promises nothing
MAX_SCALE: Final = 1e6  # records; a larger scale of the noise leaves nothing but noise
_ACCOUNTANT_REL_TOL: Final = 1e-6  # a larger difference of accountants stops a publication
_ROUNDING: Final = 1e-12  # relative; covers the rounding of a few operations
_GAUSSIAN_REACH: Final = 12.0  # standard deviations of a noise or a sum; 1e-31 lies beyond
_LATTICE_SCALE: Final = 40.0  # laws of sums are computed for at most this scale
_EXPONENTIAL_REACH: Final = 40.0  # scales of one noise; exp(-40) is negligible
# Of weighted sums.
_MERGING: Final = 1e-3  # relative to the standard deviation of the sum
_MAX_MERGING: Final = 0.3  # relative to a weight
_SMOOTHING: Final = 0.01  # e, relative to the standard deviation of the sum
_MIN_SMOOTHING: Final = 0.002  # records; true counts are integers
_UNIFORMS: Final = 8
_REST: Final = 1e-3  # of `miss`, for each of the three probabilities that are bounded only
_TILTS: Final = np.geomspace(0.02, 0.98, 24)


@dataclass(frozen=True)
class Guarantee:
    """A differential privacy guarantee: (eps, delta), and rho of zCDP for Gaussian noise.

    Each value is an upper bound. Pure guarantees have delta = 0 and rho = None.
    """

    eps: float
    delta: float = 0.0
    rho: float | None = None


@dataclass(frozen=True)
class Noise:
    """Independent integer noise on every cell.

    For all integers z, ``laplace`` noise has probabilities proportional to ``exp(-|z| / scale)``,
    ``gaussian`` noise to ``exp(-z^2 / (2 scale^2))``. The scale is positive, in records.
    """

    mechanism: MechanismName
    scale: float

    @cached_property
    def _gaussian_law(self) -> Floats:
        """Probabilities of 0, 1, 2, ... under discrete Gaussian noise."""
        z = np.arange(math.ceil(_GAUSSIAN_REACH * self.scale) + 20, dtype=np.float64)
        weight = np.exp(-0.5 * (z / self.scale) ** 2)
        return np.asarray(weight / (2.0 * weight[::-1].sum() - 1.0))

    @cached_property
    def sd(self) -> float:
        """Standard deviation of the noise, in records."""
        if self.mechanism == "laplace":
            return math.sqrt(GeometricNoise(2.0 / self.scale).variance)
        z = np.arange(self._gaussian_law.size, dtype=np.float64)
        return float(np.sqrt(2.0 * (self._gaussian_law * z * z).sum()))

    def log_weight(self, z: Floats) -> Floats:
        """Return the log of the probability of noise z up to a constant; same shape as `z`."""
        z = np.abs(z) / self.scale
        return -z if self.mechanism == "laplace" else -0.5 * z * z

    def log_characteristic(self, t: Floats) -> Floats:
        """Return the log of the characteristic function, which is positive; same shape as `t`."""
        cosine = np.cos(t)
        if self.mechanism == "laplace":
            theta = math.exp(-1.0 / self.scale)
            # (1 - theta)^2 / (1 - 2 theta cos t + theta^2), without cancellation
            return np.asarray(-np.log1p(2.0 * theta * (1.0 - cosine) / (1.0 - theta) ** 2))
        # The law's Fourier series and, by Poisson's formula, a sum of Gaussian functions.
        if self.scale < 1.0:
            z = np.arange(1, self._gaussian_law.size)
            terms = 2.0 * self._gaussian_law[1:] * np.cos(np.multiply.outer(t, z))
            return np.asarray(np.log(self._gaussian_law[0] + terms.sum(axis=-1)))
        turn = np.abs(np.remainder(t + np.pi, 2.0 * np.pi) - np.pi)
        others = sum(
            np.exp(-0.5 * self.scale**2 * ((2.0 * np.pi * k + turn) ** 2 - turn**2))
            for k in (-1, 1)
        )
        return np.asarray(-0.5 * (self.scale * turn) ** 2 + np.log1p(others))

    def log_moment(self, s: Floats) -> Floats:
        """Return an upper bound on the log of ``E exp(s Z)``; infinite if none; shape of `s`."""
        if self.mechanism == "gaussian":
            return np.asarray(0.5 * (self.scale * s) ** 2)  # sub-Gaussian: Canonne et al. (2020)
        theta = math.exp(-1.0 / self.scale)
        growth = theta * (2.0 * np.cosh(s) - 2.0) / (1.0 - theta) ** 2
        with np.errstate(invalid="ignore"):
            return np.where(np.abs(s) < 1.0 / self.scale, -np.log1p(-growth), np.inf)

    def half_width(self, miss: float) -> int:
        """Return the smallest integer w such that ``P(|noise| > w)`` is at most `miss`.

        `miss` lies between 0 and 1, both excluded.
        """
        if self.mechanism == "laplace":
            log_rest = math.log1p(math.exp(-1.0 / self.scale)) - math.log(2.0)
            # The tail beyond q is exp(-(q + 1) / scale - log_rest).
            exact = -self.scale * (math.log(miss) + log_rest) - 1.0
            return max(math.ceil(exact - _ROUNDING * (1.0 + abs(exact))), 0)
        tails = 2.0 * np.cumsum(self._gaussian_law[::-1])[::-1]  # beyond -1, 0, 1, ...
        return int(np.argmax(tails[1:] <= miss))

    def sum_half_width(self, cells: int, miss: float) -> int:
        """Return a half-width for the sum of the noise of one or more cells.

        The sum exceeds it in absolute value with probability at most `miss`. Up to a scale of 40 it
        is the smallest one. For a larger scale it is computed at 40, scaled up and rounded up.
        """
        scale = min(self.scale, _LATTICE_SCALE)
        law = Noise(self.mechanism, scale)
        reach = _GAUSSIAN_REACH * math.sqrt(cells) * law.sd + _EXPONENTIAL_REACH * (scale + 1.0)
        size = 1 << math.ceil(math.log2(2.0 * reach))
        z = np.arange(size // 2, dtype=np.float64)
        half = np.exp(law.log_weight(z))
        wrapped = np.concatenate([half, [0.0], half[:0:-1]])
        # The law is symmetric, so that its transform is real; rounding may leave it just below 0.
        transform = np.clip(np.fft.rfft(wrapped / wrapped.sum()).real, 0.0, 1.0)
        sum_law = np.fft.irfft(transform**cells, size)[: size // 2]
        tails = 2.0 * np.cumsum(sum_law[::-1])[::-1]
        width = int(np.argmax(tails[1:] <= miss))
        return width if scale == self.scale else math.ceil((width + 1) * self.scale / scale)


@dataclass(frozen=True)
class Measured:
    """A histogram with noise: its sensitivity, and its share of eps or rho."""

    noise: Noise
    sensitivity: Sensitivity
    share: Decimal = Decimal(1)


def make_noise(
    sensitivity: Sensitivity, mechanism: MechanismName, eps: float, delta: float, share: float = 1.0
) -> Noise:
    """Return noise that takes a share of (eps, delta)-DP for adding or removing one unit.

    It is the least noise for which the theorems in the module's docstring prove this: it has the
    share of eps, or of the rho that gives (eps, delta)-DP. Delta must be 0 for ``laplace`` and
    positive for ``gaussian`` noise. An `InputError` is raised if eps or delta is out of range, or
    the scale would exceed `MAX_SCALE`.
    """
    if not 0.0 < eps <= MAX_EPS:
        raise InputError(f"eps must be positive and at most {MAX_EPS:g}, got {eps}")
    if mechanism == "laplace":
        if delta != 0.0:
            raise InputError(
                f"delta must be left out for --mechanism laplace, which is pure, got {delta}: "
                "give --mechanism gaussian"
            )
        scale = sensitivity.l1 / (share * eps)
    else:
        if not MIN_DELTA <= delta <= MAX_DELTA:
            raise InputError(
                f"delta must be from {MIN_DELTA:g} to {MAX_DELTA:g} for --mechanism gaussian, got "
                f"{delta}: for example 1e-6, and well below one over the number of people"
            )
        scale = math.sqrt(sensitivity.l2_squared / (2.0 * share * zcdp_rho(eps, delta)))
    scale *= 1.0 + _ROUNDING
    if not scale <= MAX_SCALE:
        raise InputError(
            f"eps={eps} needs noise of scale {scale:.3g} in every cell, more than "
            f"{MAX_SCALE:,.0f}: give a larger eps, or count fewer records of each user"
        )
    return Noise(mechanism, scale)


def guarantees(
    measured: Sequence[Measured], eps: float, delta: float
) -> tuple[Guarantee, Guarantee]:
    """Return the guarantees for adding or removing, and for replacing, one unit.

    They are those of all histograms together. The first states the requested eps and delta. The
    second is what OpenDP's privacy map proves, at delta for Gaussian noise. An `ArithmeticError` is
    raised if OpenDP and our own accountant disagree, or the noise does not give (eps, delta).
    """
    added = _opendp_guarantee(
        [(each.noise, each.sensitivity.l1, each.sensitivity.l2_squared) for each in measured], delta
    )
    replaced = _opendp_guarantee(
        [
            (each.noise, each.sensitivity.replacement_l1, each.sensitivity.replacement_l2_squared)
            for each in measured
        ],
        delta,
    )
    if added.eps > eps:
        raise ArithmeticError(f"the noise gives eps={added.eps}, not {eps}: {DEFECT}")
    if replaced.rho is None and math.isclose(replaced.eps, 2.0 * eps, rel_tol=1e-9):
        replaced = Guarantee(2.0 * eps)
    # Promise the requested eps, which is at least what OpenDP proves.
    return Guarantee(eps, delta, added.rho), replaced


def _opendp_guarantee(distances: Sequence[tuple[Noise, int, int]], delta: float) -> Guarantee:
    """Return the guarantee of noises together, each with an L1 and a squared L2 distance."""
    if distances[0][0].mechanism == "laplace":
        parts = [float(_measurement(noise).map(l1)) for noise, l1, _ in distances]
        for (noise, l1, _), eps in zip(distances, parts, strict=True):
            _compare_laplace(noise, l1, eps)
        return Guarantee(sum_up((1, eps) for eps in parts))
    dp = _opendp()
    rho = sum_up(
        (1, float(_measurement(noise).map(math.nextafter(math.sqrt(squared), math.inf))))
        for noise, _, squared in distances
    )
    # A Gaussian noise of standard deviation 1 has this rho at the distance sqrt(2 rho).
    unit = dp.c.make_zCDP_to_approxDP(_measurement(Noise("gaussian", 1.0)))
    distance = math.nextafter(math.sqrt(2.0 * rho), math.inf)
    guarantee = Guarantee(float(unit.map(distance).epsilon(delta)), delta, rho)
    _compare_gaussian(sum(squared / noise.scale**2 for noise, _, squared in distances), guarantee)
    return guarantee


def _compare_laplace(noise: Noise, l1: int, eps: float) -> None:
    """Check that the exact delta of our accountant reaches 0 at OpenDP's eps.

    Our curve is for the replacement of one record, whose loss is twice that of adding one. Adding
    l1 records has at most l1 times the loss of one, and exactly that if all are in one cell.
    """
    log_delta = GeometricNoise(2.0 / noise.scale).cell_losses.log_delta
    replacement_eps = 2.0 * eps / l1
    high = log_delta(replacement_eps * (1.0 + _ACCOUNTANT_REL_TOL)).high
    low = log_delta(replacement_eps * (1.0 - _ACCOUNTANT_REL_TOL)).low
    if not (high == -math.inf < low):
        raise ArithmeticError(
            f"OpenDP gives eps={eps} for scale {noise.scale}, our accountant {l1 / noise.scale}: "
            f"nothing is published; {DEFECT}"
        )


def _compare_gaussian(distance_squared: float, guarantee: Guarantee) -> None:
    """Compare OpenDP's rho and eps with our conversion, and with our curve of Gaussian noise.

    The distance of neighbours is in standard deviations of the noise.
    """
    assert guarantee.rho is not None
    rho = distance_squared / 2.0
    eps = zcdp_eps(rho, guarantee.delta)
    ours = gdp_upper_log_delta(guarantee.eps, math.sqrt(distance_squared))
    if not (
        math.isclose(guarantee.rho, rho, rel_tol=_ACCOUNTANT_REL_TOL)
        and math.isclose(
            guarantee.eps, eps, rel_tol=_ACCOUNTANT_REL_TOL, abs_tol=_ACCOUNTANT_REL_TOL
        )
        and ours <= math.log(guarantee.delta)
    ):
        raise ArithmeticError(
            f"OpenDP gives rho={guarantee.rho} and eps={guarantee.eps}, our accountant rho={rho}, "
            f"eps={eps} and log delta={ours}: nothing is published; {DEFECT}"
        )


def add_noise(counts: Integers, noise: Noise) -> Integers:
    """Return counts with exact noise, drawn by OpenDP from the operating system's randomness.

    The noisy counts are unbiased; they may be negative. The shape is that of `counts`.
    """
    drawn = _measurement(noise)(counts.ravel())
    return np.array(drawn, dtype=np.int64).reshape(counts.shape)


def _measurement(noise: Noise) -> Any:
    dp = _opendp()
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if noise.mechanism == "laplace":
        return dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=noise.scale)
    return dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=noise.scale)


def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    return dp


def zcdp_eps(rho: float, delta: float) -> float:
    """Return an eps such that rho-zCDP implies (eps, delta)-DP, rounded up.

    Every order alpha > 1 gives a valid eps; the smallest one is searched for. Source: Canonne,
    Kamath and Steinke, "The discrete Gaussian for differential privacy" (2020), Corollary 13. Rho
    is positive; delta lies between 0 and 1, both excluded.
    """

    def eps_at(log_order: float) -> float:
        above = math.exp(log_order)  # alpha - 1
        alpha = 1.0 + above
        log_rest = -math.log(delta) - log_order - alpha * math.log1p(1.0 / above)
        return alpha * rho + log_rest / above

    start = 0.5 * math.log(-math.log(delta) / rho)  # best order of the simpler conversion
    search = scipy.optimize.minimize_scalar(
        eps_at, bounds=(start - 10.0, start + 10.0), options={"xatol": 1e-12}
    )
    eps = float(search.fun)
    return max(eps + _ROUNDING * (1.0 + abs(eps)), 0.0)


def zcdp_rho(eps: float, delta: float) -> float:
    """Return the largest rho such that rho-zCDP implies (eps, delta)-DP, rounded down.

    Eps is positive; delta lies between 0 and 1, both excluded.
    """

    def gap(log_rho: float) -> float:
        return zcdp_eps(math.exp(log_rho), delta) - eps

    low = high = math.log(eps) - 2.0
    while gap(low) > 0.0:
        low -= 2.0
    while gap(high) <= 0.0:
        high += 2.0
    rho = math.exp(scipy.optimize.brentq(gap, low, high, xtol=1e-13))
    while zcdp_eps(rho, delta) > eps:
        rho *= 1.0 - _ROUNDING
    return rho


def zcdp_exception(rho: float, eps: float) -> float:
    """Return an upper bound on the probability that odds change by more than a factor of e^eps.

    Delta does not bound it: delta is the mean of ``(1 - exp(eps - L))_+``, with L the loss. By
    Markov's inequality for ``exp((alpha - 1) L)``, and the bound ``alpha rho`` on the Renyi
    divergence, ``P(L > eps) <= exp((alpha - 1) (alpha rho - eps))``, which is least for ``alpha - 1
    = (eps - rho) / (2 rho)``. With the neighbours exchanged, ``P(L < -eps)`` is at most exp(-eps)
    times this bound. Rho and eps are positive.
    """
    if eps <= rho:
        return 1.0
    exponent = (eps - rho) ** 2 / (4.0 * rho)
    bound = (1.0 + math.exp(-eps)) * math.exp(_ROUNDING * (1.0 + exponent) - exponent)
    return min(bound + sys.float_info.min, 1.0)


# --- Weighted sums ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """Independent noise of one law, each multiplied by a weight.

    ``weights`` has shape ``(j,)``; ``times`` is how many of the noises have each weight, shape
    ``(j,)``.
    """

    noise: Noise
    weights: Floats
    times: Floats

    @property
    def variance(self) -> float:
        """Variance of the weighted sum."""
        return float(self.noise.sd**2 * (self.times * self.weights**2).sum())


def variance(parts: Sequence[Part]) -> float:
    """Return the variance of the sum of all parts."""
    return sum(part.variance for part in parts)


def half_width(parts: Sequence[Part], miss: float) -> float:
    """Return w such that the sum N of all parts satisfies ``P(|N| > w) <= miss``.

    It is at most 5 % larger than the smallest such number, or by `_MIN_SMOOTHING` if that is more.
    `miss` lies between 0 and 1, both excluded. The half-width w follows from the characteristic
    function of N in three steps, each of which widens the interval by a known amount:

    1. Weights that are nearly equal are replaced by the largest of them. The difference D of the
       sums has a standard deviation of at most `_MERGING` times that of N. Chernoff's inequality
       gives a d with a small ``P(|D| > d)``, and ``P(|N| > w) <= P(|N + D| > w - d) + P(|D| > d)``.
    2. A variable on ``[-e, e]`` is added, because the law of N has jumps: it is a sum of eight
       uniform variables, whose characteristic function falls with the eighth power. The probability
       that the sum exceeds ``w - e`` is at least that of N exceeding w.
    3. The distribution function is a Fourier series, if values beyond twice its half-period are
       ignored. Chernoff's inequality bounds their probability, and the power of step 2 the rest of
       the series after the last term.
    """
    parts = [part for part in parts if part.variance > 0.0]
    if not parts:
        return 0.0
    sd = math.sqrt(variance(parts))
    merged, differences = zip(*(_merged(part, sd, len(parts)) for part in parts), strict=True)
    changed = [part for part in differences if part.weights.any()]
    moved = _reach(changed, _REST * miss) if changed else 0.0
    smoothing = max(_SMOOTHING * sd, _MIN_SMOOTHING)
    reach = _reach(merged, _REST * miss) + smoothing
    last = _UNIFORMS / smoothing * (8.0 * math.pi / 2.0 * _REST * miss) ** (-1.0 / _UNIFORMS)
    step = math.pi / reach
    t = step * np.arange(1, math.ceil(last / step) + 1)
    characteristic = np.sinc(smoothing * t / (_UNIFORMS * math.pi)) ** _UNIFORMS
    characteristic *= np.exp(sum(_log_characteristic(part, t) for part in merged))
    coefficients = 2.0 / math.pi * step * characteristic / t
    wanted = 1.0 - miss * (1.0 - 4.0 * _REST)

    low, high = 0.0, reach
    while high - low > 1e-4 * (high + _MIN_SMOOTHING):
        middle = 0.5 * (low + high)
        inside = middle / reach + float((coefficients * np.sin(t * middle)).sum())
        low, high = (low, middle) if inside >= wanted else (middle, high)
    return high + smoothing + moved


def _merged(part: Part, sd: float, parts: int) -> tuple[Part, Part]:
    """Return a part in which weights that are nearly equal are one, and what this adds to it."""
    keep = part.weights != 0.0
    weights, times = np.abs(part.weights[keep]), part.times[keep]
    tolerance = min(_MERGING * sd / math.sqrt(part.variance * parts), _MAX_MERGING)
    group = np.floor(np.log(weights) / math.log1p(tolerance)).astype(np.int64)
    _, index = np.unique(group, return_inverse=True)
    largest = np.zeros(index.max() + 1)
    np.maximum.at(largest, index, weights)
    return (
        Part(part.noise, largest, np.bincount(index, times).astype(np.float64)),
        Part(part.noise, largest[index] - weights, times),
    )


def _log_characteristic(part: Part, t: Floats) -> Floats:
    """Return the log of the characteristic function, real because the law is symmetric."""
    total = np.zeros(t.size)
    for weight, times in zip(part.weights.tolist(), part.times.tolist(), strict=True):
        total += times * part.noise.log_characteristic(weight * t)
    return total


def _reach(parts: Sequence[Part], miss: float) -> float:
    """Return a value that the sum exceeds in absolute value with probability at most `miss`."""
    log_rest = math.log(2.0 / miss)
    if all(part.noise.mechanism == "gaussian" for part in parts):
        # All noises are sub-Gaussian, so that the best tilt is known.
        squares = sum(
            float((part.times * (part.weights * part.noise.scale) ** 2).sum()) for part in parts
        )
        return math.sqrt(2.0 * squares * log_rest)
    tilts = _TILTS / max(float(part.noise.scale * part.weights.max()) for part in parts)
    log_moments = sum(
        (part.times[:, None] * part.noise.log_moment(part.weights[:, None] * tilts)).sum(axis=0)
        for part in parts
    )
    return float(((log_moments + log_rest) / tilts).min())
