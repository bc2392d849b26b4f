"""Binomial probabilities and tails in log space, for n up to 1e10, with their errors.

SciPy's ``binom.logpmf`` differences ``gammaln`` and loses ten digits at n = 1e9, its survival
function underflows, and neither says how wrong it may be. The errors are running bounds on the
operations done (docs/accounting.md).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from shuffledp.accounting.laws.mills import mills_ratio
from shuffledp.numerics.arrays import UNIT, Floats

# Stirling's series for log n! - (n + 1/2) log n + n - log(2 pi) / 2, exact to 1e-17 from n = 16 on;
# from 100 on three terms are.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_SMALL, _LARGE = 16, 100
_STIRLING_ERROR = np.array(
    [
        0.0,  # never used: n = 0 has its own branch
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
_RUN = 128
# Relative error of p and q, each, in units of rounding, unless the caller knows better.
INPUTS = 4.0


@dataclass(frozen=True)
class LogIntervals:
    """Natural logarithms of numbers that enclose the true ones, element by element."""

    low: Floats
    high: Floats


def _stirling_error(n: Floats) -> Floats:
    least = n.min(initial=np.inf)
    inverse = 1.0 / np.maximum(n, 1.0)
    square = inverse * inverse
    series = np.zeros_like(square)
    for coefficient in reversed(_STIRLING[: 3 if least >= _LARGE else None]):
        series = series * square + coefficient
    series = series * inverse
    if least >= _SMALL:
        return series
    table = _STIRLING_ERROR[np.minimum(n, _SMALL - 1).astype(np.int64)]
    return np.where(n < _SMALL, table, series)


# Where the series is used, and how exact it is: log10 of the error that it may leave.
_NEAR, _DIGITS = 0.1, -17.0
# Probabilities from here on keep their digits.
LEAST = 1e-300


def deviance(x: Floats, mean: Floats) -> Floats:
    """``x log(x / mean) + mean - x`` without the cancellation near ``x = mean``."""
    difference = x - mean
    v = difference / (x + mean)
    size = np.abs(v)
    is_near = size < _NEAR
    # Loader's series converges like v**2; what it leaves out, relative to the result, is below
    # v**(2 terms + 1): eight terms for 0.1.
    largest = float(size.max(initial=1e-9, where=is_near))
    terms = int(np.ceil(0.5 * (_DIGITS / np.log10(largest) - 1.0)))
    square = v * v
    series = square * (1.0 / (2 * terms + 1))
    for j in range(terms - 1, 0, -1):
        series += 1.0 / (2 * j + 1)
        series *= square
    near = difference * v + 2.0 * x * v * series
    if is_near.all():
        return near
    with np.errstate(over="ignore"):  # a mean below 1e-300: probability 0
        far = special.xlogy(x, x / mean) - difference
    return np.where(is_near, near, far)


def complement(p: ArrayLike, q: ArrayLike | None) -> Floats:
    """``q``, or ``1 - p`` where it is not given."""
    return 1.0 - np.asarray(p, np.float64) if q is None else np.asarray(q, np.float64)


def _saddle_point(x: Floats, y: Floats, n: Floats, p: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Loader's form for ``x, y = n - x, p, q > 0``, and the deviances in it."""
    deviances = deviance(x, n * p) + deviance(y, n * q)
    shape = _stirling_error(n) - _stirling_error(x) - _stirling_error(y)
    return np.asarray(shape - deviances - 0.5 * np.log(2.0 * np.pi * x * (y / n))), deviances


def log_pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike | None = None) -> Floats:
    """Log probability that ``Bin(n, p)`` is ``x``, by Loader's saddle-point expansion.

    Parameters
    ----------
    x, n
        Integers (as integers or floats), broadcast together; outside ``0..n`` the result is -inf.
    p, q
        Success probability in ``[0, 1]``, and its complement, where the caller knows it to more
        digits than ``1 - p`` has.

    Returns
    -------
    Natural logarithms; `log_pmf_error` bounds their error: some 1e-13 but for large n far out.

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
    x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike, inputs: float = INPUTS
) -> Floats:
    """By how much `log_pmf` may be wrong, in either direction, at ``0 <= x <= n``.

    The deviances ``d`` are right to 45 units of rounding (the two terms of the plain form are up to
    20 times their difference), the means to some units, which moves the result by their distance
    from ``x`` and ``n - x``, and the rest is of order one but for a logarithm.

    Parameters
    ----------
    x, n, p, q
        As for `log_pmf`.
    inputs
        Relative error of p and q, each, in units of rounding.
    """
    x, n, p, q = (np.asarray(v, np.float64) for v in (x, n, p, q))
    y = n - x
    deviances = deviance(x, np.maximum(n * p, LEAST)) + deviance(y, np.maximum(n * q, LEAST))
    return _saddle_point_error(x, y, n, p, q, deviances, inputs)


def _saddle_point_error(
    x: Floats, y: Floats, n: Floats, p: Floats, q: Floats, deviances: Floats, inputs: float
) -> Floats:
    moved = (2.0 + inputs) * (np.abs(x - n * p) + np.abs(y - n * q))
    return np.asarray(UNIT * (32.0 + np.log1p(n) + 45.0 * deviances + moved))


def log_pmf_with_error(
    x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike, inputs: float = INPUTS
) -> tuple[Floats, Floats]:
    """`log_pmf` and `log_pmf_error` at ``0 <= x <= n``, in little more time than one of them.

    Parameters
    ----------
    x, n, p, q, inputs
        As for `log_pmf_error`.
    """
    x, n, p, q = (np.asarray(v, np.float64) for v in (x, n, p, q))
    y = n - x
    if ((x > 0.0) & (y > 0.0) & (p >= LEAST) & (q >= LEAST)).all():
        value, deviances = _saddle_point(x, y, n, p, q)
        return value, _saddle_point_error(x, y, n, p, q, deviances, inputs)
    return log_pmf(x, n, p, q), log_pmf_error(x, n, p, q, inputs)


def log_pmf_run(first: int, count: int, n: int, p: float, q: float) -> Floats:
    """`log_pmf` at ``first, ..., first + count - 1``, ten times faster for long runs.

    Within blocks the logarithms of neighbours' ratios are added up; each block starts afresh, so
    that rounding does not. It adds `log_pmf_run_error` to the error of `log_pmf`.

    Parameters
    ----------
    first, count
        First number, and how many, at least 1; all lie in ``0..n``.
    n, p, q
        As for `log_pmf`, one each.
    """
    x = first + np.arange(count, dtype=np.float64)
    if count < 2 * _RUN or p <= 0.0 or q <= 0.0:
        return log_pmf(x, n, p, q)
    padded = first + np.arange(-(-count // _RUN) * _RUN, dtype=np.float64).reshape(-1, _RUN)
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.log((n - padded[:, :-1]) / padded[:, 1:]) + np.log(p / q)
    result = np.zeros_like(padded)
    np.cumsum(steps, axis=1, out=result[:, 1:])
    result += log_pmf(padded[:, :1], n, p, q)
    return np.asarray(result.ravel()[:count])


def log_pmf_run_error(log_mass: Floats, inputs: float = INPUTS) -> float:
    """What `log_pmf_run` adds to the error of `log_pmf`, given what it returned.

    A block adds up ratios that are right to six units and the errors of p and q, and logarithms of
    at most ``step`` each, whose partial sums round.
    """
    step = float(np.abs(np.diff(log_mass[log_mass > -np.inf])).max(initial=0.0))
    return UNIT * _RUN * (6.0 + 2.0 * inputs + (2.0 + 0.5 * _RUN) * step)


def _tail_from_mean(x: Floats, n: Floats, p: Floats, q: Floats, inputs: float) -> LogIntervals:
    """``log Pr[X >= x]`` for ``1 <= x <= n`` above the mean."""
    mills, error = inexact_mills_ratio(x, n, p, q, inputs)
    log_mass, mass_error = log_pmf_with_error(x, n, p, q, inputs)
    error = error + mass_error + 8.0 * UNIT
    value = log_mass + np.log(mills)
    error = 1.01 * error + 4.0 * UNIT * np.abs(value)
    # At the end of what floats hold a probability has lost digits, and a ratio to it overflows.
    lost = p < LEAST
    error = np.where(lost, 0.0, error)
    low = np.where(lost, -np.inf, value - error)
    # Chernoff's (e mean / x)^x.
    high = np.where(lost, x * (1.0 + np.log(n * LEAST)), value + error)
    return LogIntervals(low, high)


def mean_less(x: Floats, n: Floats, p: Floats, q: Floats) -> Floats:
    """``n p - x``, from the smaller of the two sides.

    Parameters
    ----------
    x, n, p, q
        As for `log_pmf`; x may be any number.
    """
    return np.where(p <= q, n * p - x, (n - x) - n * q)


def inexact_mills_ratio(
    x: Floats, n: Floats, p: Floats, q: Floats, inputs: float
) -> tuple[Floats, Floats]:
    """`mills_ratio`, and its relative error where p and q have one of ``inputs`` units each.

    Parameters
    ----------
    x, n, p, q, inputs
        As for `mills_ratio` and `log_pmf_error`.
    """
    mills, error = mills_ratio(x, n, p, q)
    # What a relative error of p / q does to the ratio is as many times larger.
    moved = (x * q / mills + mean_less(x, n, p, q)).clip(0.0) + 1.0
    return mills, error + 2.0 * inputs * UNIT * moved


def log_sf_ends(
    x: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    q: ArrayLike | None = None,
    inputs: float = INPUTS,
) -> LogIntervals:
    """Enclose ``log Pr[Bin(n, p) >= x]`` (*at least* ``x``), broadcasting; never underflows.

    Parameters
    ----------
    x, n, p, q, inputs
        As for `log_pmf` and `log_pmf_error`.
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
        found = _tail_from_mean(x[above], n[above], p[above], q[above], inputs)
        low[above], high[above] = found.low, found.high
    if below.any():
        xb, nb = x[below], n[below]
        # The other tail is at most some two thirds.
        other = _tail_from_mean(nb - xb + 1.0, nb, q[below], p[below], inputs)
        low[below] = np.log1p(-np.exp(other.high)) - 8.0 * UNIT
        high[below] = np.minimum(np.log1p(-np.exp(other.low)) + 8.0 * UNIT, 0.0)
    return LogIntervals(low, high)


def log_cdf_ends(
    x: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    q: ArrayLike | None = None,
    inputs: float = INPUTS,
) -> LogIntervals:
    """Enclose ``log Pr[Bin(n, p) <= x]``; as `log_sf_ends`.

    Parameters
    ----------
    x, n, p, q, inputs
        As for `log_sf_ends`.
    """
    n = np.asarray(n, np.float64)
    return log_sf_ends(n - np.asarray(x, np.float64), n, complement(p, q), p, inputs)


def log_sf(x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike | None = None) -> Floats:
    """``log Pr[Bin(n, p) >= x]`` (note: *at least* ``x``), rounded up; `log_sf_ends`.

    Parameters
    ----------
    x, n, p, q
        As for `log_pmf`.
    """
    return log_sf_ends(x, n, p, q).high


def log_cdf(x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike | None = None) -> Floats:
    """``log Pr[Bin(n, p) <= x]``, rounded up; `log_cdf_ends`.

    Parameters
    ----------
    x, n, p, q
        As for `log_pmf`.
    """
    return log_cdf_ends(x, n, p, q).high


def _log_fall(x: Floats, n: Floats, p: Floats, q: Floats) -> Floats:
    """``log(1 - R)``, R the ratio of the probabilities of x + 1 and x; -inf where they grow.

    Beyond x they fall faster than a geometric series with that ratio.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(x >= n, 0.0, (n - x) * p / ((x + 1.0) * q))
        return np.where(ratio < 1.0, np.log1p(-ratio), -np.inf)


def log_sf_bound(x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike) -> Floats:
    """Upper bound on ``log Pr[Bin(n, p) >= x]``, but for rounding, by a geometric series.

    For the size of what is left out: t standard deviations above the mean the bound is some
    ``1 / t**2`` too large, and it costs a tenth of `log_sf`; below the mean it is 0.

    Parameters
    ----------
    x, n, p, q
        As for `log_pmf`.
    """
    x, n, p, q = (np.asarray(v, np.float64) for v in (x, n, p, q))
    fall = _log_fall(x, n, p, q)
    useful = (x > 0.0) & (fall > -np.inf)
    bound = log_pmf(x, n, p, q) - np.where(useful, fall, 0.0)
    return np.where(useful, np.minimum(bound, 0.0), 0.0)


def log_cdf_bound(x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike) -> Floats:
    """Upper bound on ``log Pr[Bin(n, p) <= x]``; as `log_sf_bound`.

    Parameters
    ----------
    x, n, p, q
        As for `log_pmf`.
    """
    return log_sf_bound(np.asarray(n, np.float64) - np.asarray(x, np.float64), n, q, p)


def log_excess_bound(x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike) -> Floats:
    """Upper bound on ``log E[(Bin(n, p) - x)_+]``; as `log_sf_bound`.

    Parameters
    ----------
    x, n, p, q
        As for `log_pmf`; x from the mean on, where the bound may be infinite.
    """
    following = np.asarray(x, np.float64) + 1.0
    n, p, q = (np.asarray(v, np.float64) for v in (n, p, q))
    log_mass = log_pmf(following, n, p, q)
    twice = 2.0 * _log_fall(following, n, p, q)
    return np.asarray(log_mass - np.where(log_mass > -np.inf, twice, 0.0))
