"""Trade-off functions (f-DP) and Gaussian differential privacy (mu-GDP).

The trade-off function ``f(alpha)`` is the smallest type II error of any test between two
neighbouring data sets with type I error at most alpha. A mechanism is mu-GDP if f is at least the
trade-off function of N(0, 1) and N(mu, 1) (paper D, section 2.3; in its Fact 1, -eps is a misprint
for -alpha). The privacy profile, delta at every eps, is equivalent to f; finitely many of its
points imply a weaker, still valid bound.
"""

from functools import cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, log_ndtr, ndtr

from shuffledp.accounting.calibrate import epsilon
from shuffledp.accounting.curve import Composable, UpperCurve
from shuffledp.accounting.rounds.privacy_loss import (
    Loss,
    LossDistribution,
    split_down,
    split_up,
)
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT, Floats

# exp(-x) is negligible compared with 1e-16 for x above this.
NEGLIGIBLE_EXPONENT = 40.0
# Absolute error of log delta from special functions and quadrature.
FUNCTION_ERROR = 1e-12
# Error of log delta from the rounding of the arguments: this many units of rounding times
# (eps / mu + mu / 2 + sqrt(2))^2.
ARGUMENT_UNITS, ROOT_2 = 14.0, 1.4142135623730951
# Beyond this many standard deviations the square, and so log delta, may overflow.
MAX_STANDARD_DEVIATIONS = 1e150
# Grid of a normal loss: default steps per standard deviation for the upper end, and half-width in
# standard deviations for the lower end.
STEPS_PER_DEVIATION, LOWER_DEVIATIONS = 128.0, 9.0


@cache
def _gauss_legendre() -> tuple[Floats, Floats]:
    """Return 100 nodes and weights on [-1, 1], which are too slow to compute on import."""
    nodes, weights = np.polynomial.legendre.leggauss(100)
    return nodes, weights


def _log_mills_difference(x: Floats, mu: Floats) -> Floats:
    """Return ``log(R(x) - R(x + mu))`` for ``x >= -1``, where ``R = (1 - Phi)/phi`` (Mills ratio).

    ``R(x) = int_0^inf exp(-x t - t^2/2) dt``, and the integrands are subtracted before integration,
    which loses no digits for small mu.
    """
    # exp(-x t - t^2/2) < exp(-40) from here on; this form does not cancel for large x.
    end = 2.0 * NEGLIGIBLE_EXPONENT / (x + np.sqrt(x * x + 2.0 * NEGLIGIBLE_EXPONENT))
    nodes, weights = _gauss_legendre()
    t = 0.5 * end[:, None] * (1.0 + nodes)
    integrand = np.exp(-t * (x[:, None] + 0.5 * t)) * -np.expm1(-mu[:, None] * t)
    integral = 0.5 * end * (integrand @ weights)
    # Here the integrand varies too fast for quadrature, but the difference does not cancel.
    far = mu * end > NEGLIGIBLE_EXPONENT
    root = np.sqrt(0.5)
    difference = np.sqrt(np.pi / 2.0) * (erfcx(x * root) - erfcx((x + mu) * root))
    return np.asarray(np.log(np.where(far, difference, integral)))


def gdp_to_log_delta(eps: ArrayLike, mu: ArrayLike) -> Floats:
    """Return the natural log of delta of mu-GDP at eps.

    ``delta = Phi(-eps/mu + mu/2) - exp(eps) Phi(-eps/mu - mu/2)`` is exact for the Gaussian
    mechanism: noise of standard deviation sigma on a query of sensitivity D is (D/sigma)-GDP. The
    logarithm does not underflow, and the relative error of delta, unless it is tiny, is about 1e-12
    even where the two terms nearly cancel.

    eps and mu, both at least 0, are broadcast. The result is -inf for ``mu = 0``, and 0 for
    ``mu = inf``.

    Source: paper D, Fact 2 (Balle and Wang 2018, Theorem 8).
    """
    eps, mu = np.broadcast_arrays(np.asarray(eps, np.float64), np.asarray(mu, np.float64))
    for name, values in (("eps", eps), ("mu", mu)):
        if not np.all(values >= 0.0):
            raise InputError(f"{name} must be at least 0, got {name}={values.min()}")
    result = np.where(np.isinf(mu), 0.0, -np.inf)
    live = (mu > 0.0) & np.isfinite(mu) & np.isfinite(eps)
    e, s = eps[live], mu[live]
    a = 0.5 * s - e / s
    body = a > 1.0
    value = np.empty_like(a)
    # Here mu > 2, and the second term is well below the first. In both cases
    # exp(eps) phi(a - mu) = phi(a), so that a large eps does not cancel.
    argument, tail = a[body], (s - a)[body]
    with np.errstate(over="ignore"):  # the square of a huge argument: exp of it is 0
        second = 0.5 * np.exp(-0.5 * argument * argument) * erfcx(np.sqrt(0.5) * tail)
    value[body] = log_ndtr(argument) + np.log1p(-second / ndtr(argument))
    x = -a[~body]
    value[~body] = _log_mills_difference(x, s[~body]) - 0.5 * x * x - 0.5 * np.log(2.0 * np.pi)
    result[live] = value
    return np.asarray(result)


def gdp_upper_log_delta(eps: float, mu: float) -> float:
    """Return `gdp_to_log_delta`, rounded up by its error bound.

    mu must be accurate to eight units of rounding.

    Notes
    -----
    Let u = 2^-53, x = eps/mu - mu/2, y = eps/mu + mu/2, and R the Mills ratio (1 - Phi)/phi. Then
    ``delta = phi(x) (R(x) - R(y))``. R is convex and decreasing, so
    ``|d log delta / dx| = mu R(y) / (R(x) - R(y)) <= R(y) / (1 - y R(y))``, which Sampford's
    inequality bounds by ``y + sqrt(2)``; likewise ``d log delta / d log mu <= (y + sqrt(2))^2``.
    Rounding moves x by ``u (eps/mu + |x|)`` and log mu by 8 u. With the rounding of x^2/2, or of
    the larger of two tails that are subtracted, this is at most ``14 u (y + sqrt(2))^2``; rounding
    of the sum adds ``4 u |log delta|``.

    The difference of R is an integral of a positive function by Gauss's rule of 100 points.
    Bernstein's ellipse of rho = 2 bounds the rule's error by 1e-40; the part beyond its interval is
    at most 50 exp(-40). The computed weights are wrong by less than 2e-14 in all, and the integrand
    is at most 20 times its mean, so these errors change the integral by at most 4e-13. The
    authors of erfcx and erfc state an accuracy of 1e-13, which their difference multiplies by at
    most 3. A relative error of 1e-12 covers these.
    """
    if mu > 0.0 and eps / mu - 0.5 * mu > MAX_STANDARD_DEVIATIONS:
        # delta <= Phi(-MAX_STANDARD_DEVIATIONS), and the exact logarithm may overflow.
        return -0.4 * MAX_STANDARD_DEVIATIONS**2
    return min(sum(_log_delta_with_error(eps, mu)), 0.0)


def _log_delta_with_error(eps: float, mu: float) -> tuple[float, float]:
    """Return `gdp_to_log_delta` and an upper bound on its error."""
    value = float(gdp_to_log_delta(eps, mu))
    if value in (-np.inf, 0.0):
        return value, 0.0
    argument = eps / mu + 0.5 * mu + ROOT_2
    units = ARGUMENT_UNITS * argument * argument + 4.0 * abs(value)
    return value, FUNCTION_ERROR + UNIT * units


def gdp_curve(mu: float) -> UpperCurve:
    """Return the privacy curve of mu-GDP; R rounds are (sqrt(R) mu)-GDP.

    mu is at least 0 and must be accurate to eight units of rounding.
    """

    def lower(eps: float) -> float:
        if mu > 0.0 and eps / mu - 0.5 * mu > MAX_STANDARD_DEVIATIONS:
            return -np.inf
        value, error = _log_delta_with_error(eps, mu)
        return value - error

    return UpperCurve(
        np.inf,
        upper=lambda eps: gdp_upper_log_delta(eps, mu),
        lower=lower,
        composable=Composable(
            repeated=lambda rounds: gdp_curve(mu * float(np.sqrt(rounds))),
            loss=lambda: gdp_loss(mu),
            mu=mu,
        ),
    )


def gdp_loss(mu: float) -> Loss:
    """Return the privacy loss of mu-GDP: normal with mean mu^2 / 2 and standard deviation mu.

    For the lower end, each range between grid points becomes one outcome. For the upper end, its
    probability is divided between these two points. mu must be accurate to eight units of rounding.
    """

    def ranges(step: float, deviations: float) -> tuple[Floats, Floats, Floats, float, float]:
        """Return the ranges between grid points as outcomes.

        The results are the index of each range's left point, losses, probabilities under P, the
        probability outside all ranges, and the error of losses and probabilities.
        """
        centre, half_width = 0.5 * mu * mu / step, deviations * mu / step
        index = np.arange(np.floor(centre - half_width), np.ceil(centre + half_width) + 1.0)
        # Distances from the mean under P, in standard deviations. The mean under Q is lower by mu
        # standard deviations.
        standardised = index * step / mu - 0.5 * mu
        p, p_error = _normal_ranges(standardised)
        q, q_error = _normal_ranges(standardised + mu)
        positive = (p > 0.0) & (q > 0.0)
        losses = np.log(p[positive] / q[positive])
        error = p_error + q_error + 10.0 * UNIT * (deviations + mu) ** 2
        outside = 2.0 * float(np.exp(log_ndtr(-deviations))) * (1.0 + 1e-9)
        outside += float(p[~positive].sum()) * (1.0 + error)
        return index[:-1][positive], losses, p[positive], outside, error

    def up(step: float | None, depth: float) -> list[LossDistribution]:
        step = step or mu / STEPS_PER_DEVIATION
        index, losses, mass, outside, error = ranges(step, float(np.sqrt(2.0 * depth)))
        return [split_up(losses, mass, outside, step, (error, error), index)]

    def down(step: float) -> list[LossDistribution]:
        _, losses, mass, _, error = ranges(step, LOWER_DEVIATIONS)
        return [split_down(losses, mass, 0.0, step, (error, error))]

    return Loss(mu, 0.5 * mu * mu + 10.0 * mu, up, (down,))


def _normal_ranges(edges: Floats) -> tuple[Floats, float]:
    """Return the standard normal probabilities between edges, and their relative error.

    They are computed from the nearer tail.
    """
    low, high = edges[:-1], edges[1:]
    near, far = np.where(low > 0.0, -low, high), np.where(low > 0.0, -high, low)
    larger, smaller = ndtr(near), ndtr(far)
    difference = larger - smaller
    positive = difference > 0.0
    amplification = float(((larger + smaller)[positive] / difference[positive]).max(initial=1.0))
    return np.where(positive, difference, 0.0), FUNCTION_ERROR * amplification


def gdp_epsilon(mu: float, log_delta: float) -> float:
    """Return the smallest eps at which mu-GDP implies (eps, delta)-DP, rounded up.

    mu is at least 0 and must be accurate to eight units of rounding.
    """
    if mu == 0.0:
        return 0.0
    # At this eps, Chernoff's bound on the first term of delta meets the target.
    largest = 0.5 * mu * mu + mu * float(np.sqrt(-2.0 * log_delta))
    return epsilon(lambda eps: gdp_upper_log_delta(eps, mu), log_delta, largest, "upper")


def _levels(alpha: ArrayLike) -> Floats:
    levels = np.asarray(alpha, np.float64)
    outside = levels[~((levels >= 0.0) & (levels <= 1.0))]
    if outside.size:
        raise InputError(f"alpha must lie in [0, 1], got alpha={outside[0]:g}")
    return levels


def _points(eps: ArrayLike, log_delta: ArrayLike) -> tuple[Floats, Floats]:
    points = np.broadcast_arrays(np.asarray(eps, np.float64), np.asarray(log_delta, np.float64))
    e, d = (np.ravel(values) for values in points)
    if e.size == 0:
        raise InputError("give at least one point (eps, log_delta), got none")
    if not np.all((e >= 0.0) & np.isfinite(e)):
        raise InputError(f"eps must be at least 0 and finite, got eps={e.min()}..{e.max()}")
    if not np.all(d <= 0.0):
        raise InputError(f"log_delta must be at most 0, got log_delta={d.max()}")
    return e, d


def tradeoff(alpha: ArrayLike, eps: ArrayLike, log_delta: ArrayLike) -> Floats:
    """Return the trade-off function implied by finitely many (eps, delta) guarantees.

    ``f(alpha) = max over the points of max(0, 1 - delta - e^eps alpha, e^-eps (1-delta-alpha))``,
    rounded down. If the deltas are upper bounds, f is a certified lower bound on the true trade-off
    function; more points make it tighter. f is its own inverse.

    Parameters
    ----------
    alpha
        Type I errors in ``[0, 1]``, any shape.
    eps, log_delta
        Points of a privacy curve, broadcast together. They should include eps = 0, which
        determines f near its fixed point.

    Returns
    -------
    Type II errors shaped like ``alpha``.

    Raises
    ------
    InputError
        If an alpha is outside ``[0, 1]``, there is no point, or one has eps < 0 or delta > 1.

    Source: paper D, Fact 1, corrected; Dong, Roth and Su, "Gaussian differential privacy" (2022),
    section 2.3.
    """
    levels = _levels(alpha)[..., None]
    e, d = _points(eps, log_delta)
    one_minus_delta = -np.expm1(d)
    with np.errstate(over="ignore", invalid="ignore"):
        steep = one_minus_delta - np.where(levels > 0.0, np.exp(e) * levels, 0.0)
    flat = np.exp(-e) * (one_minus_delta - levels)
    best = np.maximum(steep, flat).max(axis=-1)
    return np.asarray(np.maximum(best - 4.0 * np.finfo(np.float64).eps, 0.0))
