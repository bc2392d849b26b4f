"""Trade-off functions (f-DP) and Gaussian differential privacy (mu-GDP).

``f(alpha)`` is the smallest type II error of a test with type I error at most alpha between two
neighbouring data sets; ``T(N(0,1), N(mu,1))`` defines mu-GDP (paper D, section 2.3, where Fact 1
prints -eps for -alpha). The curve of (eps, delta) is equivalent to f; finitely many of its points
imply a slightly weaker bound, never a stronger one.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, log_ndtr, ndtr

from shuffledp.accounting.calibrate import epsilon
from shuffledp.accounting.curve import Composable, UpperCurve
from shuffledp.accounting.rounds.privacy_loss import Loss, LossDistribution, Outcomes
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT, Floats

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(100)
# exp(-x) is negligible compared with 1e-16 for larger x.
LOG_NEGLIGIBLE = 40.0
# Errors of the log of delta: absolute, from functions and quadrature; and, in units of rounding and
# relative to the square of eps / mu + mu / 2 + sqrt(2), from the rounding of the arguments.
FUNCTION_ERROR, ARGUMENT_UNITS, ROOT_2 = 1e-12, 10.0, 1.4142135623730951
MAX_STANDARD_DEVIATIONS = 1e150
# Grid of a normal loss: steps per standard deviation, and standard deviations of the lower end.
STEPS_PER_DEVIATION, LOWER_REACH = 128.0, 9.0


def _log_mills_difference(x: Floats, mu: Floats) -> Floats:
    """Return ``log(R(x) - R(x + mu))``, R the Mills ratio ``(1 - Phi)/phi``, for ``x >= -1``.

    ``R(x) = int_0^inf exp(-x t - t^2/2) dt``. The difference of the two integrands is positive, so
    that a small mu costs no digit.
    """
    # exp(-x t - t^2/2) < exp(-40) from here on; this form does not cancel for large x.
    end = 2.0 * LOG_NEGLIGIBLE / (x + np.sqrt(x * x + 2.0 * LOG_NEGLIGIBLE))
    t = 0.5 * end[:, None] * (1.0 + _NODES)
    integrand = np.exp(-t * (x[:, None] + 0.5 * t)) * -np.expm1(-mu[:, None] * t)
    integral = 0.5 * end * (integrand @ _WEIGHTS)
    far = (
        mu * end > LOG_NEGLIGIBLE
    )  # the integrand varies too fast, and the two ratios differ enough
    root = np.sqrt(0.5)
    difference = np.sqrt(np.pi / 2.0) * (erfcx(x * root) - erfcx((x + mu) * root))
    return np.asarray(np.log(np.where(far, difference, integral)))


def gdp_to_log_delta(eps: ArrayLike, mu: ArrayLike) -> Floats:
    """Return the natural log of the exact delta of mu-GDP at eps.

    ``Phi(-eps/mu + mu/2) - exp(eps) Phi(-eps/mu - mu/2)``. It never underflows, and is accurate to
    about 1e-12 relative even where the two terms nearly cancel. Gaussian noise of standard
    deviation sigma on a query of sensitivity D is (D/sigma)-GDP.

    Parameters
    ----------
    eps, mu
        Broadcast together; ``eps >= 0``, ``mu >= 0``.

    Returns
    -------
    Logarithms; -inf for ``mu = 0``, 0 for ``mu = inf``.

    Raises
    ------
    InputError
        If eps or mu is negative or not a number.

    Source: paper D, Fact 2 (Balle and Wang 2018, Theorem 8).
    """
    eps, mu = np.broadcast_arrays(np.asarray(eps, np.float64), np.asarray(mu, np.float64))
    for name, values in (("eps", eps), ("mu", mu)):
        if not np.all(values >= 0.0):
            raise InputError(f"{name} must be at least 0 (got {name}={values.min()})")
    result = np.where(np.isinf(mu), 0.0, -np.inf)
    live = (mu > 0.0) & np.isfinite(mu) & np.isfinite(eps)
    e, s = eps[live], mu[live]
    a = 0.5 * s - e / s
    body = a > 1.0
    value = np.empty_like(a)
    # Here mu > 2, and the second term is well below the first.
    upper_argument = a[body]
    value[body] = log_ndtr(upper_argument) + np.log1p(
        -np.exp(e[body] + log_ndtr(upper_argument - s[body]) - log_ndtr(upper_argument))
    )
    # exp(eps) phi(a - mu) = phi(a)
    x = -a[~body]
    value[~body] = _log_mills_difference(x, s[~body]) - 0.5 * x * x - 0.5 * np.log(2.0 * np.pi)
    result[live] = value
    return np.asarray(result)


def gdp_upper_log_delta(eps: float, mu: float) -> float:
    """Return the upper end of `gdp_to_log_delta`; its error is derived in docs/accounting.md.

    Parameters
    ----------
    eps
        At least 0.
    mu
        At least 0, accurate to four units in the last place.
    """
    if mu > 0.0 and eps / mu - 0.5 * mu > MAX_STANDARD_DEVIATIONS:
        return (
            -0.4 * MAX_STANDARD_DEVIATIONS**2
        )  # delta is at most Phi there, and its log overflows
    return min(sum(_with_error(eps, mu)), 0.0)


def _with_error(eps: float, mu: float) -> tuple[float, float]:
    """Return `gdp_to_log_delta` and a bound of its error."""
    value = float(gdp_to_log_delta(eps, mu))
    if value in (-np.inf, 0.0):
        return value, 0.0
    furthest = eps / mu + 0.5 * mu + ROOT_2
    units = ARGUMENT_UNITS * furthest * furthest + 4.0 * abs(value)
    return value, FUNCTION_ERROR + UNIT * units


def gdp_curve(mu: float) -> UpperCurve:
    """Return the curve of mu-GDP; over rounds the squares of mu add up.

    mu is as for `gdp_upper_log_delta`.
    """

    def lower(eps: float) -> float:
        if mu > 0.0 and eps / mu - 0.5 * mu > MAX_STANDARD_DEVIATIONS:
            return -np.inf
        value, error = _with_error(eps, mu)
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

    Each range of the loss becomes one outcome (down), or one outcome at each of its ends (up).

    Parameters
    ----------
    mu
        Positive, as for `gdp_upper_log_delta`.
    """

    def ranges(step: float, reach: float) -> tuple[Floats, Outcomes]:
        """Return the ranges between multiples of the step, and their outcomes."""
        centre, half = 0.5 * mu * mu / step, reach * mu / step
        index = np.arange(np.floor(centre - half), np.ceil(centre + half) + 1.0)
        above = (
            index * step / mu - 0.5 * mu
        )  # in standard deviations under P; under Q it is larger by mu
        p, p_error = _normal_ranges(above)
        q, q_error = _normal_ranges(above + mu)
        positive = (p > 0.0) & (q > 0.0)
        losses = np.log(p[positive] / q[positive])
        error = p_error + q_error + 4.0 * UNIT * (reach + mu) ** 2
        far = 2.0 * float(np.exp(log_ndtr(-reach))) * (1.0 + 1e-9)
        far += float(p[~positive].sum()) * (1.0 + error)
        return index[:-1][positive], Outcomes(losses, p[positive], far, 0.0, error, error)

    def up(step: float | None, depth: float) -> list[LossDistribution]:
        index, outcomes = ranges(step or mu / STEPS_PER_DEVIATION, float(np.sqrt(2.0 * depth)))
        return [outcomes.up(step or mu / STEPS_PER_DEVIATION, index)]

    def down(step: float) -> list[LossDistribution]:
        return [ranges(step, LOWER_REACH)[1].down(step)]

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
    share = float(((larger + smaller)[positive] / difference[positive]).max(initial=1.0))
    return np.where(positive, difference, 0.0), FUNCTION_ERROR * share


def gdp_epsilon(mu: float, log_delta: float) -> float:
    """Return the smallest eps at which mu-GDP has a natural log of delta, rounded up.

    Parameters
    ----------
    mu
        At least 0, accurate to four units in the last place.
    log_delta
        At most 0.
    """
    if mu == 0.0:
        return 0.0
    # There Chernoff's bound on the first of the two terms of delta is the target.
    largest = 0.5 * mu * mu + mu * float(np.sqrt(-2.0 * log_delta))
    return epsilon(lambda eps: gdp_upper_log_delta(eps, mu), log_delta, largest, "upper")


def _levels(alpha: ArrayLike) -> Floats:
    levels = np.asarray(alpha, np.float64)
    outside = levels[~((levels >= 0.0) & (levels <= 1.0))]
    if outside.size:
        raise InputError(f"alpha must lie in 0..1 (got alpha={outside[0]:g})")
    return levels


def _points(eps: ArrayLike, log_delta: ArrayLike) -> tuple[Floats, Floats]:
    points = np.broadcast_arrays(np.asarray(eps, np.float64), np.asarray(log_delta, np.float64))
    e, d = (np.ravel(values) for values in points)
    if e.size == 0:
        raise InputError("eps must hold at least one point (got none)")
    if not np.all((e >= 0.0) & np.isfinite(e)):
        raise InputError(f"eps must be at least 0 and finite (got {e.min()}..{e.max()})")
    if not np.all(d <= 0.0):
        raise InputError(f"log_delta must be at most 0 (got {d.max()})")
    return e, d


def tradeoff(alpha: ArrayLike, eps: ArrayLike, log_delta: ArrayLike) -> Floats:
    """Return the trade-off function implied by finitely many (eps, delta) guarantees.

    ``f(alpha) = max over the points of max(0, 1 - delta - e^eps alpha, e^-eps (1-delta-alpha))``,
    rounded down. From upper bounds on delta it is a certified lower bound on the true trade-off
    function; more points make it closer. It is its own inverse.

    Parameters
    ----------
    alpha
        Type I errors in ``[0, 1]``, any shape.
    eps, log_delta
        Points of a curve, broadcast together. They should include (0, delta(0)), which determines
        f in the middle.

    Returns
    -------
    Type II errors shaped like ``alpha``.

    Raises
    ------
    InputError
        If an alpha is outside ``[0, 1]``, there is no point, or one has eps < 0 or delta > 1.

    Source: paper D, Fact 1, corrected; Dong, Roth and Su, "Gaussian differential privacy" (2022),
    Proposition 2.12.
    """
    levels = _levels(alpha)[..., None]
    e, d = _points(eps, log_delta)
    kept = -np.expm1(d)
    with np.errstate(over="ignore", invalid="ignore"):
        steep = kept - np.where(levels > 0.0, np.exp(e) * levels, 0.0)
    flat = np.exp(-e) * (kept - levels)
    best = np.maximum(steep, flat).max(axis=-1)
    return np.asarray(np.maximum(best - 4.0 * np.finfo(np.float64).eps, 0.0))
