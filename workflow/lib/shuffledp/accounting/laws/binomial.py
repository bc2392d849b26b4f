"""Binomial probabilities in log space, right to about 1e-13 for n up to 1e10.

SciPy's ``binom.logpmf`` differences ``gammaln`` and loses ten digits at n = 1e9, and its survival
function underflows; deep privacy tails need neither to happen.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from shuffledp.arrays import Floats

# Stirling's series for log n! - (n + 1/2) log n + n - log(2 pi) / 2, exact to 1e-17 from n = 16 on.
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
_SMALL = 16
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
# Beyond this many standard deviations a continued fraction replaces the incomplete beta function.
_TAIL = 6.0
_FRACTION_TERMS = 60
# Where neighbouring probabilities fall by this factor or faster, a plain sum is exact.
_STEEP = 0.45
_STEEP_TERMS = 50
_RUN = 512
_UNIT = 2.0**-53


def _stirling_error(n: Floats) -> Floats:
    inverse = 1.0 / np.maximum(n, 1.0)
    square = inverse * inverse
    series = np.zeros_like(n)
    for coefficient in reversed(_STIRLING):
        series = series * square + coefficient
    table = _STIRLING_ERROR[np.minimum(n, _SMALL - 1).astype(np.int64)]
    return np.where(n < _SMALL, table, series * inverse)


def _deviance(x: Floats, mean: Floats) -> Floats:
    """``x log(x / mean) + mean - x`` without the cancellation near ``x = mean``."""
    difference = x - mean
    v = difference / (x + mean)
    # Loader's series converges like v**2; 0.1 needs eight terms for full precision.
    square = v * v
    series = np.zeros_like(v)
    for j in range(8, 0, -1):
        series = (series + 1.0 / (2 * j + 1)) * square
    near = difference * v + 2.0 * x * v * series
    with np.errstate(over="ignore"):  # a mean below 1e-300: probability 0
        far = special.xlogy(x, x / mean) - difference
    return np.where(np.abs(v) < 0.1, near, far)


def _complement(p: ArrayLike, q: ArrayLike | None) -> Floats:
    return 1.0 - np.asarray(p, np.float64) if q is None else np.asarray(q, np.float64)


def log_pmf(x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike | None = None) -> Floats:
    """Log probability that ``Bin(n, p)`` is ``x``, by Loader's saddle-point expansion.

    Parameters
    ----------
    x, n
        Integers (as integers or floats), broadcast together; outside ``0..n`` the result is -inf.
    p
        Success probability in ``[0, 1]``.
    q
        Its complement, where the caller knows it to more digits than ``1 - p`` has.

    Returns
    -------
    Natural logarithms; relative error of the probability about 1e-15 times ``1 + |log pmf|``.

    Source: C. Loader, "Fast and accurate computation of binomial probabilities" (2000).
    """
    x, n, p, q = np.broadcast_arrays(
        np.asarray(x, np.float64),
        np.asarray(n, np.float64),
        np.asarray(p, np.float64),
        _complement(p, q),
    )
    inside = (x >= 0) & (x <= n)
    y = np.where(inside, n - x, 1.0)
    x = np.where(inside, x, 1.0)
    interior = inside & (x > 0) & (y > 0) & (p > 0) & (q > 0)
    xs, ys = np.where(interior, x, 1.0), np.where(interior, y, 1.0)
    ps, qs = np.where(interior, p, 0.5), np.where(interior, q, 0.5)
    ns = xs + ys
    result = (
        _stirling_error(ns)
        - _stirling_error(xs)
        - _stirling_error(ys)
        - _deviance(xs, ns * ps)
        - _deviance(ys, ns * qs)
        - 0.5 * np.log(2.0 * np.pi * xs * (ys / ns))
    )
    small = p <= q
    edge = np.where(
        small,
        special.xlogy(x, p) + special.xlog1py(y, -np.where(small, p, 0.0)),
        special.xlog1py(x, -np.where(small, 0.0, q)) + special.xlogy(y, q),
    )
    return np.where(interior, result, np.where(inside, edge, -np.inf))


def log_pmf_error(
    x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike, inputs: float = 4.0
) -> Floats:
    """By how much `log_pmf` may be wrong, in either direction, at ``0 <= x <= n``.

    A running bound on the operations done. The deviances ``d`` are right to 45 units of rounding
    (the two terms of the plain form are up to 20 times their difference), the means to some units,
    which moves the result by their distance from ``x`` and ``n - x``, and the rest is of order one
    but for a logarithm.

    Parameters
    ----------
    x, n, p, q
        As for `log_pmf`.
    inputs
        Relative error of p and q, each, in units of rounding.
    """
    x, n, p, q = (np.asarray(v, np.float64) for v in (x, n, p, q))
    y, left, right = n - x, n * p, n * q
    deviances = _deviance(x, np.maximum(left, 1e-300)) + _deviance(y, np.maximum(right, 1e-300))
    moved = (2.0 + inputs) * (np.abs(x - left) + np.abs(y - right))
    return np.asarray(_UNIT * (32.0 + np.log1p(n) + 45.0 * deviances + moved))


def log_pmf_run(first: int, count: int, n: int, p: float, q: float) -> Floats:
    """`log_pmf` at ``first, ..., first + count - 1``, ten times faster for long runs.

    Within blocks the logarithms of neighbours' ratios are added up; each block starts afresh, so
    that rounding does not.
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


def _log_mills(x: Floats, n: Floats, odds: Floats) -> Floats:
    """``log(Pr[X >= x] / Pr[X = x])`` for x well above the mean, by Gauss's continued fraction."""
    # Pr[X >= x] / Pr[X = x] = 2F1(x - n, 1; x + 1; -odds); evaluated from the inside out.
    value = np.ones_like(x)
    for j in range(_FRACTION_TERMS, 0, -1):
        half = j // 2
        if j % 2:
            numerator = (x - n + half) * (x + half) if j > 1 else (x - n) * x
        else:
            numerator = half * (n + half)
        denominator = (x + j - 1.0) * (x + j)
        value = 1.0 + numerator * odds / denominator / value
    return np.asarray(-np.log(value))


def _upper_tail(x: Floats, n: Floats, p: Floats, q: Floats) -> Floats:
    """``Pr[X >= x]`` from whichever of p and q is the smaller."""
    small = p <= q
    tail = np.empty_like(x)
    tail[small] = special.betainc(x[small], n[small] - x[small] + 1.0, p[small])
    large = ~small
    tail[large] = special.betaincc(n[large] - x[large] + 1.0, x[large], q[large])
    return tail


def log_sf(x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike | None = None) -> Floats:
    """``log Pr[Bin(n, p) >= x]`` (note: *at least* ``x``), broadcasting; never underflows."""
    x, n, p, q = np.broadcast_arrays(
        np.asarray(x, np.float64),
        np.asarray(n, np.float64),
        np.asarray(p, np.float64),
        _complement(p, q),
    )
    result = np.where(x <= 0, 0.0, -np.inf)
    open_ = (x > 0) & (x <= n)
    deep = open_ & (x - n * p > _TAIL * np.sqrt(n * p * q) + 1.0) & (q > 0)
    body = open_ & ~deep
    with np.errstate(divide="ignore"):
        result[body] = np.log(_upper_tail(x[body], n[body], p[body], q[body]))
    if deep.any():
        xd, nd, pd, qd = x[deep], n[deep], p[deep], q[deep]
        result[deep] = log_pmf(xd, nd, pd, qd) + _log_mills(xd, nd, pd / qd)
    return result


def log_cdf(x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike | None = None) -> Floats:
    """``log Pr[Bin(n, p) <= x]``, broadcasting; never underflows."""
    n = np.asarray(n, np.float64)
    return log_sf(n - np.asarray(x, np.float64), n, _complement(p, q), p)


def _steep_sums(x: Floats, n: Floats, odds: Floats) -> tuple[Floats, Floats]:
    """Sums of ``w_j`` and ``j w_j``, ``w_j = Pr[X = x + j] / Pr[X = x]``, where w falls fast.

    All terms are positive: no digit is lost, unlike in Todhunter's identity far out.
    """
    total, moment = np.ones_like(x), np.zeros_like(x)
    for j in range(_STEEP_TERMS, -1, -1):
        ratio = np.maximum(n - x - j, 0.0) / (x + j + 1.0) * odds
        total, moment = 1.0 + ratio * total, ratio * (total + moment)
    return total, moment


def log_excess(
    z: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    q: ArrayLike | None = None,
    start: ArrayLike | None = None,
    gap: ArrayLike | None = None,
) -> Floats:
    """``log E[(X - z) 1{X >= start}]`` for ``X ~ Bin(n, p)``, broadcasting; never underflows.

    ``start`` is an integer above ``z``; by default the smallest one, which makes the result
    ``log E[(X - z)_+]``. ``gap`` is ``start - z`` and ``q`` is ``1 - p``, to be given where the
    caller knows them to more digits than the subtraction leaves.

    Near the mean, Todhunter's identity ``sum_{j >= m} (j - n p) Pr[X = j] = m (1 - p) Pr[X = m]``
    gives a closed form whose cancellation grows with the square of the number of standard
    deviations only; where the probabilities fall fast, a few terms are summed.
    """
    z, n, p, q = (np.asarray(v, np.float64) for v in (z, n, p, _complement(p, q)))
    first = np.floor(z) + 1.0 if start is None else np.asarray(start, np.float64)
    step = np.maximum(first - z if gap is None else np.asarray(gap, np.float64), 0.0)
    values = (z, n, p, q, first, step)
    shape = np.broadcast_shapes(*(v.shape for v in values))
    z, n, p, q, first, step = (np.atleast_1d(np.broadcast_to(v, shape)) for v in values)
    mean = n * p
    with np.errstate(divide="ignore"):
        # Every outcome counts (first <= 0), or X is constant.
        result = np.log(np.where((first <= 0) | ((mean >= first) & (n > 0)), mean - z, 0.0).clip(0))
        live = (n > 0) & (p > 0) & (q > 0) & (first > 0)
        result[live & (first > n)] = -np.inf
        live &= first <= n
        log_mass = np.zeros_like(mean)
        log_mass[live] = log_pmf(first[live], n[live], p[live], q[live])
        # So far below the mean that X >= start but for 1e-250: the mean excess itself.
        sure = live & (log_mass < -600.0) & (first < mean)
        result[sure] = np.log(mean[sure] - first[sure] + step[sure])
        live &= ~sure
        result[live] = log_mass[live] + np.log(
            _excess_ratio(first[live], n[live], p[live], q[live], step[live], log_mass[live])
        )
    return np.asarray(result.reshape(shape))


def _excess_ratio(
    x: Floats, n: Floats, p: Floats, q: Floats, gap: Floats, log_mass: Floats
) -> Floats:
    """``E[(X - x + gap) 1{X >= x}] / Pr[X = x]``."""
    ratio = np.empty_like(x)
    steep = (n - x) * p < _STEEP * (x + 1.0) * q
    total, moment = _steep_sums(x[steep], n[steep], p[steep] / q[steep])
    ratio[steep] = gap[steep] * total + moment
    # n p - x, from the smaller of the two sides.
    behind = np.where(p <= q, n * p - x, (n - x) - n * q)
    deep = ~steep & (-behind > _TAIL * np.sqrt(n * p * q) + 1.0)
    body = ~steep & ~deep
    mills = np.empty_like(x)
    mills[deep] = np.exp(_log_mills(x[deep], n[deep], p[deep] / q[deep]))
    mills[body] = _upper_tail(x[body], n[body], p[body], q[body]) * np.exp(-log_mass[body])
    gentle = ~steep
    ratio[gentle] = x[gentle] * q[gentle] + (behind[gentle] + gap[gentle]) * mills[gentle]
    return ratio.clip(0.0)
