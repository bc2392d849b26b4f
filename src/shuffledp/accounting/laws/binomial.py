"""Binomial probabilities and tails in log space, for n up to 1e10, with their errors.

SciPy's ``binom.logpmf`` subtracts values of ``gammaln`` and loses ten digits at n = 1e9, its
survival function underflows, and neither states its error. The errors here are bounds derived from
the sequence of operations (docs/accounting.md); a unit of rounding is 2^-53. Functions take p and
q = 1 - p separately, because the difference may have lost digits.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from shuffledp.accounting.laws.mills import mills_ratio
from shuffledp.numerics.arrays import UNIT, Floats

# Stirling's series for log n! - (n + 1/2) log n + n - log(2 pi) / 2 is accurate to 1e-17 for
# n >= 16, and its first three terms for n >= 100. For n < 16 a table is used.
STIRLING_COEFFICIENTS = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
TABLE_SIZE, THREE_TERMS_FROM = 16, 100
_STIRLING_REMAINDER = np.array(
    [
        0.0,  # n = 0 is handled separately
        0.081061466795327258219670264,
        0.041340695955409294093822081,
        0.0276779256849983391487892927,
        0.020790672103765093111522771,
        0.0166446911898211921631948653,
        0.013876128823070747998745727,
        0.0118967099458917700950557241,
        0.010411265261972096497478567,
        0.0092554621827127329177286366,
        0.008330563433362871256469318,
        0.0075736754879518407949720242,
        0.006942840107209529865664152,
        0.0064089941880042070684396310,
        0.005951370112758847735624416,
        0.0055547335519628013710386899,
    ]
)
# Length of blocks in `log_pmf_run`.
RUN_BLOCK = 128
# Default relative error of p and of q, in units of rounding.
INPUT_UNITS = 4.0


@dataclass(frozen=True)
class LogIntervals:
    """Natural logarithms of lower and upper bounds on numbers, element by element."""

    low: Floats
    high: Floats


def _stirling_remainder(n: Floats) -> Floats:
    """Return log n! minus Stirling's formula (n + 1/2) log n - n + log(2 pi) / 2, for n >= 1."""
    smallest = n.min(initial=np.inf)
    inverse = 1.0 / np.maximum(n, 1.0)
    square = inverse * inverse
    series = np.zeros_like(square)
    for coefficient in reversed(
        STIRLING_COEFFICIENTS[: 3 if smallest >= THREE_TERMS_FROM else None]
    ):
        series = series * square + coefficient
    series = series * inverse
    if smallest >= TABLE_SIZE:
        return series
    table = _STIRLING_REMAINDER[np.minimum(n, TABLE_SIZE - 1).astype(np.int64)]
    return np.where(n < TABLE_SIZE, table, series)


# Largest argument of Loader's series, and log10 of its truncation error.
SERIES_MAX, SERIES_LOG10_ERROR = 0.1, -17.0
# Smaller probabilities may have lost digits, because they are close to the smallest normal float.
SMALLEST_PROBABILITY = 1e-300


def deviance(x: Floats, mean: Floats) -> Floats:
    """Return ``x log(x / mean) + mean - x`` without cancellation near ``x = mean``."""
    difference = x - mean
    v = difference / (x + mean)
    size = np.abs(v)
    is_near = size < SERIES_MAX
    # The terms of Loader's series fall by v**2. Its relative truncation error is below
    # v**(2 terms + 1): 1e-17 needs eight terms for v = 0.1.
    largest = float(size.max(initial=1e-9, where=is_near))
    terms = int(np.ceil(0.5 * (SERIES_LOG10_ERROR / np.log10(largest) - 1.0)))
    square = v * v
    series = square * (1.0 / (2 * terms + 1))
    for j in range(terms - 1, 0, -1):
        series += 1.0 / (2 * j + 1)
        series *= square
    near = difference * v + 2.0 * x * v * series
    if is_near.all():
        return near
    with np.errstate(over="ignore"):  # x / mean, if the mean is below 1e-300; x has probability 0
        far = special.xlogy(x, x / mean) - difference
    return np.where(is_near, near, far)


def complement(p: ArrayLike, q: ArrayLike | None) -> Floats:
    """Return ``q``, or ``1 - p`` if q is None."""
    return 1.0 - np.asarray(p, np.float64) if q is None else np.asarray(q, np.float64)


def _saddle_point(x: Floats, y: Floats, n: Floats, p: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Return `log_pmf` and the sum of its two deviances; y is n - x, all are positive."""
    deviances = deviance(x, n * p) + deviance(y, n * q)
    shape = _stirling_remainder(n) - _stirling_remainder(x) - _stirling_remainder(y)
    return np.asarray(shape - deviances - 0.5 * np.log(2.0 * np.pi * x * (y / n))), deviances


def log_pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike | None = None) -> Floats:
    """Return the log probability that ``Bin(n, p)`` is ``x``, by Loader's saddle-point expansion.

    Parameters
    ----------
    x, n
        Integers (as integers or floats), broadcast together; outside ``0..n`` the result is -inf.
    p, q
        Success probability in ``[0, 1]``, and its complement if it is more accurate than
        ``1 - p``.

    Returns
    -------
    Natural logarithms. `log_pmf_error` bounds their error, which grows with the distance from the
    mean: for p = 1/2, at one standard deviation, it is 7e-13 for n = 1e6 and 7e-11 for n = 1e10.

    Source: C. Loader, "Fast and accurate computation of binomial probabilities" (2000).
    """
    x, n, p = (np.asarray(v, np.float64) for v in (x, n, p))
    q = complement(p, q)
    y = n - x
    interior = (x > 0) & (y > 0) & (p > 0) & (q > 0)
    if interior.all():
        return _saddle_point(x, y, n, p, q)[0]
    inside = (x >= 0) & (x <= n)
    y, x = np.where(inside, y, 1.0), np.where(inside, x, 1.0)
    xs, ys = np.where(interior, x, 1.0), np.where(interior, y, 1.0)
    ps, qs = np.where(interior, p, 0.5), np.where(interior, q, 0.5)
    result, _ = _saddle_point(xs, ys, xs + ys, ps, qs)
    small = p <= q
    edge = np.where(
        small,
        special.xlogy(x, p) + special.xlog1py(y, -np.where(small, p, 0.0)),
        special.xlog1py(x, -np.where(small, 0.0, q)) + special.xlogy(y, q),
    )
    return np.where(interior, result, np.where(inside, edge, -np.inf))


def log_pmf_error(
    x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike, input_units: float = INPUT_UNITS
) -> Floats:
    """Return a bound on the absolute error of `log_pmf` at ``0 <= x <= n``.

    p and q have a relative error of ``input_units`` units of rounding each. The deviances are
    accurate to 45 units of rounding, because each is a difference of two terms up to 20 times its
    size. The means are accurate to a few units, which changes the result in proportion to their
    distance from x and n - x. The other terms are of order one, except for ``log(x (n - x) / n)``.
    """
    x, n, p, q = (np.asarray(v, np.float64) for v in (x, n, p, q))
    y = n - x
    deviances = deviance(x, np.maximum(n * p, SMALLEST_PROBABILITY)) + deviance(
        y, np.maximum(n * q, SMALLEST_PROBABILITY)
    )
    return _saddle_point_error(x, y, n, p, q, deviances, input_units)


def _saddle_point_error(
    x: Floats, y: Floats, n: Floats, p: Floats, q: Floats, deviances: Floats, input_units: float
) -> Floats:
    shift_error = (2.0 + input_units) * (np.abs(x - n * p) + np.abs(y - n * q))
    return np.asarray(UNIT * (32.0 + np.log1p(n) + 45.0 * deviances + shift_error))


def log_pmf_with_error(
    x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike, input_units: float = INPUT_UNITS
) -> tuple[Floats, Floats]:
    """Return `log_pmf` and `log_pmf_error` at ``0 <= x <= n``, sharing their computation."""
    x, n, p, q = (np.asarray(v, np.float64) for v in (x, n, p, q))
    y = n - x
    if ((x > 0.0) & (y > 0.0) & (p >= SMALLEST_PROBABILITY) & (q >= SMALLEST_PROBABILITY)).all():
        value, deviances = _saddle_point(x, y, n, p, q)
        return value, _saddle_point_error(x, y, n, p, q, deviances, input_units)
    return log_pmf(x, n, p, q), log_pmf_error(x, n, p, q, input_units)


def log_pmf_run(first: int, count: int, n: int, p: float, q: float) -> Floats:
    """Return `log_pmf` at ``first, ..., first + count - 1``, ten times faster for long runs.

    Each block starts with `log_pmf`, so that rounding errors do not accumulate, and adds logs of
    ratios of consecutive probabilities. `log_pmf_run_error` bounds the additional error.

    Parameters
    ----------
    first, count
        First value of x, and number of consecutive values, all in ``0..n``.
    n, p, q
        See `log_pmf`, scalars.
    """
    x = first + np.arange(count, dtype=np.float64)
    if count < 2 * RUN_BLOCK or p <= 0.0 or q <= 0.0:
        return log_pmf(x, n, p, q)
    padded = first + np.arange(-(-count // RUN_BLOCK) * RUN_BLOCK, dtype=np.float64).reshape(
        -1, RUN_BLOCK
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.log((n - padded[:, :-1]) / padded[:, 1:]) + np.log(p / q)
    result = np.zeros_like(padded)
    np.cumsum(steps, axis=1, out=result[:, 1:])
    result += log_pmf(padded[:, :1], n, p, q)
    return np.asarray(result.ravel()[:count])


def log_pmf_run_error(log_mass: Floats, input_units: float = INPUT_UNITS) -> float:
    """Return a bound on the error that `log_pmf_run` adds to that of `log_pmf`.

    A block sums differences of consecutive log masses, each accurate to six units plus the errors
    of p and q, and rounds the partial sums. ``log_mass`` is the result of `log_pmf_run`.
    """
    step = float(np.abs(np.diff(log_mass[log_mass > -np.inf])).max(initial=0.0))
    return UNIT * RUN_BLOCK * (6.0 + 2.0 * input_units + (2.0 + 0.5 * RUN_BLOCK) * step)


def _tail_from_mean(x: Floats, n: Floats, p: Floats, q: Floats, input_units: float) -> LogIntervals:
    """Return intervals around ``log Pr[X >= x]`` for ``1 <= x <= n`` above the mean."""
    mills, error = mills_ratio_with_input_error(x, n, p, q, input_units)
    log_mass, mass_error = log_pmf_with_error(x, n, p, q, input_units)
    error = error + mass_error + 8.0 * UNIT
    value = log_mass + np.log(mills)
    error = 1.01 * error + 4.0 * UNIT * np.abs(value)
    # Near the smallest float p has lost digits, and division by it may overflow.
    inexact = p < SMALLEST_PROBABILITY
    error = np.where(inexact, 0.0, error)
    low = np.where(inexact, -np.inf, value - error)
    # Chernoff's bound (e n p / x)^x, made larger in two ways: SMALLEST_PROBABILITY replaces p, and
    # the division by x, which is at least 1, is left out.
    high = np.where(inexact, x * (1.0 + np.log(n * SMALLEST_PROBABILITY)), value + error)
    return LogIntervals(low, high)


def mean_minus(x: Floats, n: Floats, p: Floats, q: Floats) -> Floats:
    """Return ``n p - x`` for any numbers x, computed with the smaller of p and q."""
    return np.where(p <= q, n * p - x, (n - x) - n * q)


def mills_ratio_with_input_error(
    x: Floats, n: Floats, p: Floats, q: Floats, input_units: float
) -> tuple[Floats, Floats]:
    """Return `mills_ratio` and a bound on its relative error, which includes errors of p and q."""
    mills, error = mills_ratio(x, n, p, q)
    # It amplifies a relative error of p / q by this factor, J of `mills._sum_of_ratios`.
    amplification = (x * q / mills + mean_minus(x, n, p, q)).clip(0.0) + 1.0
    return mills, error + 2.0 * input_units * UNIT * amplification


def log_tail_ends(
    x: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    q: ArrayLike | None = None,
    input_units: float = INPUT_UNITS,
) -> LogIntervals:
    """Return intervals around ``log Pr[Bin(n, p) >= x]`` (*at least* ``x``).

    They never underflow. The arguments are those of `log_pmf_error`, and are broadcast.
    """
    x, n, p, q = np.broadcast_arrays(
        np.asarray(x, np.float64),
        np.asarray(n, np.float64),
        np.asarray(p, np.float64),
        complement(p, q),
    )
    sure = (x <= 0) | ((q <= 0) & (x <= n))
    low = np.where(sure, 0.0, -np.inf)
    high = low.copy()
    live = ~sure & (x <= n) & (p > 0)
    above = live & (x >= n * p)
    below = live & ~above
    if above.any():
        tail = _tail_from_mean(x[above], n[above], p[above], q[above], input_units)
        low[above], high[above] = tail.low, tail.high
    if below.any():
        xb, nb = x[below], n[below]
        # The other tail is at most about 2/3, so 1 minus it loses no digits.
        other = _tail_from_mean(nb - xb + 1.0, nb, q[below], p[below], input_units)
        low[below] = np.log1p(-np.exp(other.high)) - 8.0 * UNIT
        high[below] = np.minimum(np.log1p(-np.exp(other.low)) + 8.0 * UNIT, 0.0)
    return LogIntervals(low, high)


def log_cdf_ends(
    x: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    q: ArrayLike | None = None,
    input_units: float = INPUT_UNITS,
) -> LogIntervals:
    """Return intervals around ``log Pr[Bin(n, p) <= x]``; see `log_tail_ends`."""
    n = np.asarray(n, np.float64)
    return log_tail_ends(n - np.asarray(x, np.float64), n, complement(p, q), p, input_units)


def log_tail_upper(x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike | None = None) -> Floats:
    """Return a certified upper bound on ``log Pr[Bin(n, p) >= x]`` (*at least* ``x``)."""
    return log_tail_ends(x, n, p, q).high


def log_cdf_upper(x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike | None = None) -> Floats:
    """Return a certified upper bound on ``log Pr[Bin(n, p) <= x]``."""
    return log_cdf_ends(x, n, p, q).high


def _log_one_minus_ratio(x: Floats, n: Floats, p: Floats, q: Floats) -> Floats:
    """Return ``log(1 - R)``, where R is ``Pr[x + 1] / Pr[x]``; -inf if R >= 1.

    Beyond x the probabilities fall faster than a geometric series with ratio R.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(x >= n, 0.0, (n - x) * p / ((x + 1.0) * q))
        return np.where(ratio < 1.0, np.log1p(-ratio), -np.inf)


def log_tail_rough_bound(x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike) -> Floats:
    """Return an upper bound on ``log Pr[Bin(n, p) >= x]`` by a geometric series.

    It has no allowance for rounding, is ten times faster than `log_tail_upper`, and meant for the
    tails that a truncated sum omits. At t standard deviations above the mean it is too large by
    about ``1 / t**2``; below, it is 0.
    """
    x, n, p, q = (np.asarray(v, np.float64) for v in (x, n, p, q))
    fall = _log_one_minus_ratio(x, n, p, q)
    useful = (x > 0.0) & (fall > -np.inf)
    bound = log_pmf(x, n, p, q) - np.where(useful, fall, 0.0)
    return np.where(useful, np.minimum(bound, 0.0), 0.0)


def log_cdf_rough_bound(x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike) -> Floats:
    """Return an upper bound on ``log Pr[Bin(n, p) <= x]``; see `log_tail_rough_bound`."""
    return log_tail_rough_bound(np.asarray(n, np.float64) - np.asarray(x, np.float64), n, q, p)


def log_excess_bound(x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike) -> Floats:
    """Return an upper bound on ``log E[(Bin(n, p) - x)_+]``, without an allowance for rounding.

    x must be at or above the mean. The bound is +inf where the geometric series does not converge,
    which happens only below the mean.
    """
    next_x = np.asarray(x, np.float64) + 1.0
    n, p, q = (np.asarray(v, np.float64) for v in (n, p, q))
    log_mass = log_pmf(next_x, n, p, q)
    log_fall_squared = 2.0 * _log_one_minus_ratio(next_x, n, p, q)
    return np.asarray(log_mass - np.where(log_mass > -np.inf, log_fall_squared, 0.0))
