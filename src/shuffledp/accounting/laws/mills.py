"""Mills ratio of a binomial law, tail over point probability, with a proven error bound.

For X ~ Bin(n, p), q = 1 - p, r = p / q and k = n - x,

    m = Pr[X >= x] / Pr[X = x] = sum_{j >= 0} prod_{i < j} r (k - i) / (x + 1 + i)          (1)
      = x int_0^1 f(y) dy,   f = exp(e),   e(y) = (x - 1) log(1 - y) + k log(1 + r y).      (2)

Where k p is small, `_sum_of_ratios` sums (1); elsewhere `_quadrature` integrates (2).

Let u = 2**-53 be the unit of rounding. The relative error of +, -, *, / is at most u. That of exp,
log, log1p, expm1 and sqrt is assumed to be at most 4 units in the last place, 8 u. All parts of
an error bound are computed from the arguments, so it also holds outside the range for which the
constants below were chosen; it may then be infinite.
"""

from decimal import Decimal, localcontext
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.numerics.arrays import UNIT, Floats

# Factor that covers second-order terms, and rounding of the bounds themselves, which is below 1e-6.
SECOND_ORDER_FACTOR = 1.01
# Smallest k p for which (2) is used. For much smaller k p the ellipse in the error bound (see
# `_quadrature`) comes close to the zero of f at y = 1.
MIN_QUADRATURE_KP = 400.0
# Number N of Gauss nodes, and rho of the ellipse that bounds their share of the error by 3e-16.
GAUSS_NODES = 56
ELLIPSE_RHO = 1.8
# Largest degree of a Chebyshev term. The rest of the series is at most 5e-15, for k p = 400 and x
# far below the mean.
MAX_CHEBYSHEV_DEGREE = 42
# The sum or integral is truncated where about exp(-LOG_TRUNCATION) of it remains.
LOG_TRUNCATION = 36.0
# Number of elements processed at once, a compromise between call overhead and cache size.
SUM_BLOCK_SIZE = 16384
QUADRATURE_BLOCK_SIZE = 4096
# Number of columns of a matrix product; OpenBLAS starts threads from 2**18 multiplications on.
PRODUCT_SLICE = 96


def mills_ratio(x: ArrayLike, n: ArrayLike, p: ArrayLike, q: ArrayLike) -> tuple[Floats, Floats]:
    """Return ``Pr[X >= x] / Pr[X = x]`` for ``X ~ Bin(n, p)``, and a bound on its relative error.

    Parameters
    ----------
    x, n
        Integers, ``1 <= x <= n <= 1e10``; x is at least the mean minus 7 standard deviations minus
        20. All arguments broadcast.
    p, q
        Positive, ``q = 1 - p``. Only the exact ratio ``p / q`` of these floats matters.

    Returns
    -------
    value
        Infinite where it overflows.
    error
        ``|value / truth - 1| <= error``. It is at most 5e-14 if x is above the mean minus 3
        standard deviations, and 7e-13 below; it does not grow with n. Infinite where nothing is
        proven.
    """
    arguments = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (x, n, p, q)))
    shape = arguments[0].shape
    x, n, p, q = (v.ravel() for v in arguments)
    value, error = np.empty_like(x), np.empty_like(x)
    kp = (n - x) * p
    use_quadrature = kp >= MIN_QUADRATURE_KP
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        # Elements are sorted so that those of a block need about the same number of terms.
        for method, chosen, key, block in (
            (_sum_of_ratios, ~use_quadrature, _last_term(x, n, p, q), SUM_BLOCK_SIZE),
            (_quadrature, use_quadrature, kp, QUADRATURE_BLOCK_SIZE),
        ):
            where = np.flatnonzero(chosen)
            where = where[np.argsort(key[where])]
            for start in range(0, where.size, block):
                i = where[start : start + block]
                value[i], error[i] = method(x[i], n[i], p[i], q[i])
    error[~(error < 1e-3)] = np.inf
    return value.reshape(shape), error.reshape(shape)


def _last_term(x: Floats, n: Floats, p: Floats, q: Floats) -> Floats:
    """Return j of the last term of (1) to sum; the error bound does not rely on the choice.

    The terms grow up to j = top. As in Bernstein's inequality, the i-th term after that is about
    exp(-i**2 / (2 V + 2 i / 3)) times the largest one, where 1 / V = 1 / (x + top) + 1 / (k - top).
    Each term is also at most R_0 = r k / (x + 1) times the one before it.
    """
    k, r = n - x, p / q
    top = np.maximum((k * p - x * q) / (p + q), 0.0)
    ahead = np.maximum(k - top, 0.0)
    variance = (x + top) * ahead / (x + k)
    after_top = LOG_TRUNCATION / 3.0 + np.sqrt(
        LOG_TRUNCATION**2 / 9.0 + 2.0 * LOG_TRUNCATION * variance
    )
    first = np.clip(k * r / (x + 1.0), 1e-300, 1.0)
    geometric = LOG_TRUNCATION / np.maximum(-np.log(first), 1e-3)
    return np.ceil(np.minimum(top + np.minimum(after_top, geometric) + 2.0, k))


def _sum_of_ratios(x: Floats, n: Floats, p: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Return the sum of the terms j = 0, ..., t of (1), by Horner's rule from the last one.

    t is the largest number that `_last_term` returns. Write R_i for the factors of (1) and w_j for
    its terms. The R_i decrease, so the terms left out add up to at most w_t R_t / (1 - R_t). A
    Horner step rounds four times and uses a rounded r, so the share of w_j in the result has an
    error of at most 5 j + 1 units. All terms are positive, so the result has an error of at most
    5 J + 1 units, where J = sum j w_j / sum w_j. Summing (x + 1 + j) w_{j+1} = r (k - j) w_j over j
    gives J = (x / m + k r - x) / (1 + r) for the whole sum; truncation lowers J. Cancellation
    changes J by at most 1e-2, so 1 is added to be safe.
    """
    k, r = n - x, p / q
    count = int(np.max(_last_term(x, n, p, q)))
    total, last = np.ones_like(x), np.ones_like(x)
    numerator, denominator, ratio = k - count, x + 1.0 + count, np.empty_like(x)
    next_ratio = np.maximum(numerator, 0.0) / denominator * r
    for _ in range(count):
        numerator += 1.0
        denominator -= 1.0
        np.maximum(numerator, 0.0, out=ratio)
        ratio /= denominator
        ratio *= r
        last *= ratio
        total *= ratio
        total += 1.0
    truncation = np.where(next_ratio < 1.0, last * next_ratio / (1.0 - next_ratio) / total, np.inf)
    mean = np.clip((x / total + (k * r - x)) / (1.0 + r), 0.0, count) + 1.0
    return total, SECOND_ORDER_FACTOR * (truncation + UNIT * (5.0 * mean + 1.0))


def _quadrature(x: Floats, n: Floats, p: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Return (2), up to L, by Gauss's rule with N nodes t on [-1, 1].

    They stand for y = h (1 + t) = h s, h = L / 2.

    *The exponent.* 1 - y and 1 + r y are constants times 1 - 2 a t + a**2 and 1 + 2 b t + b**2,
    a = h / (1 - h + sqrt(1 - L)), b = r h / (1 + r h + sqrt(1 + r L)), and
    log(1 - 2 a t + a**2) = -2 sum_j a**j T_j(t) / j. So e = sum_j c_j T_j(t) + const with
    c_j = -2 ((x - 1) a**j + k (-b)**j) / j. At t = -1, where y = 0, e is 0 and its first two
    derivatives with respect to y are d = k r - (x - 1) and -g, g = x - 1 + k r**2. With Q_j for
    T_j minus its quadratic Taylor polynomial at t = -1,
    e = d h s - g (h s)**2 / 2 + sum_{j >= 3} c_j Q_j.

    *Rounding of e.* The float a is treated as exact and defines h = 2 a / (1 + a)**2, which is
    accurate to 4 u; d is accurate to 3 u, g to 5 u, b to 17 u, the tables to u, a matrix product to
    its inner length times u. Let D be the last j that `_coefficients` keeps. The error of e is at
    most u times
    12 |d h s| + 21 g (h s)**2 / 2 + sum_j U_j |Q_j|,
    U_j = 2 ((D + j + 6) (x - 1) a**j + (D + 18 j + 6) k b**j) / j.
    It is averaged with the weights of the sum; exp, the sum itself and the rest add N + 16 units.

    *Truncation.* |Q_j| <= T_j'''(1) s**3 / 6 <= 4 j**6 / 45; a geometric series bounds all j > D.

    *Gauss's rule.* On the ellipse t = (w + 1/w) / 2, |w| = rho, log|f| exceeds e at the real point
    of the same angle by sum_{j >= 1} c_j cos(j angle) (cosh(j log rho) - 1), at most
    E = |c_1| (cosh(log rho) - 1) + (x - 1) S(a) + k S(b), S(a) as in `_ellipse_sum`.
    So M = exp(max e + E) bounds f there; its Chebyshev coefficients are at most 2 M rho**-j. The
    error of the rule for T_j is at most 2 + 2 / (j**2 - 1) if j >= 2 N is even, and 0 otherwise; in
    total it is at most (64 / 15) M rho**(-2 N) / (1 - rho**-2), times h.

    *The rest of the integral.* e is concave: the integral from L on is at most f(L) / -e'(L).
    """
    k, r = n - x, p / q
    x_minus_1 = x - 1.0
    slope = _difference_of_products(k, p, x_minus_1, q) / q
    high, a, half, rest = _range(x_minus_1, k, r, slope)
    b = r * half / (1.0 + r * half + np.sqrt(1.0 + 2.0 * r * half))
    c, units, cut = _coefficients(x_minus_1, k, a, b)
    s, table, sums = _tables()
    linear, square = slope * half, (x_minus_1 + k * (r * r)) * (0.5 * (half * half))
    exponent = s * square
    np.subtract(linear, exponent, out=exponent)
    exponent *= s
    exponent += _product(table[:, : len(c)], c)
    f = np.exp(exponent, out=exponent)
    # The sums over the nodes of f, f s, f s**2 and |Q_j| f.
    moments = _product(sums[: 3 + len(c)], f)
    total = moments[0]
    value = x * (half * total)
    units *= moments[3:]
    rounding = (
        12.0 * np.abs(linear) * moments[1] + 21.0 * square * moments[2] + np.sum(units, axis=0)
    )
    rounding = rounding / total + (GAUSS_NODES + 16.0)
    cosh_minus_1 = 0.5 * (ELLIPSE_RHO + 1.0 / ELLIPSE_RHO) - 1.0
    excess = (
        2.0 * np.abs(x_minus_1 * a - k * b) * cosh_minus_1
        + x_minus_1 * _ellipse_sum(a)
        + k * _ellipse_sum(b)
    )
    gauss = (
        64.0
        / 15.0
        / (1.0 - ELLIPSE_RHO**-2)
        * np.exp(high + excess - 2 * GAUSS_NODES * np.log(ELLIPSE_RHO))
    )
    return value, SECOND_ORDER_FACTOR * (UNIT * rounding + cut + gauss / total + rest * x / value)


def _product(matrix: Floats, columns: Floats) -> Floats:
    """Return ``matrix @ columns``, computed in slices for which BLAS starts no threads.

    On a busy machine, waiting for threads takes ten times as long as the products.
    """
    result = np.empty((len(matrix), columns.shape[1]))
    for start in range(0, columns.shape[1], PRODUCT_SLICE):
        block = slice(start, start + PRODUCT_SLICE)
        np.matmul(matrix, columns[:, block], out=result[:, block])
    return result


def _two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return the rounded product and its exact rounding error (Dekker 1971)."""
    high = a * b
    split = 2.0**27 + 1.0
    a1, b1 = split * a, split * b
    a1, b1 = a1 - (a1 - a), b1 - (b1 - b)
    a2, b2 = a - a1, b - b1
    return high, a2 * b2 - (((high - a1 * b1) - a2 * b1) - a1 * b2)


def _difference_of_products(a: Floats, b: Floats, c: Floats, d: Floats) -> Floats:
    """Return ``a b - c d``, with an error of at most ``2 u |a b - c d| + u**2 (|a b| + |c d|)``."""
    high1, low1 = _two_product(a, b)
    high2, low2 = _two_product(c, d)
    return (high1 - high2) + (low1 - low2)


def _range(
    x_minus_1: Floats, k: Floats, r: Floats, slope: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return ``max e``, a and h of a range [0, L], and a bound on the integral of f beyond L.

    As a function of v = -log(1 - y), e is concave with decreasing curvature. So the first guess, by
    the curvature at the maximum, is too small, and Newton's steps stay above the solution. Rounding
    is of order sqrt(n) u here, which is negligible in the bound.
    """

    def exponent(v: Floats) -> Floats:
        return -x_minus_1 * v + k * np.log1p(-r * np.expm1(-v))

    v = -np.log1p(-np.maximum(slope / (r * (x_minus_1 + k)), 0.0))
    high = exponent(v)
    w = r * np.exp(-v)
    curvature = k * w * (1.0 + r) / (1.0 - r * np.expm1(-v)) ** 2
    descent = np.maximum(-slope, 0.0)
    v = v + 2.0 * LOG_TRUNCATION / (
        descent + np.sqrt(descent * descent + 2.0 * LOG_TRUNCATION * curvature)
    )
    for _ in range(2):
        derivative = -x_minus_1 + k * r * np.exp(-v) / (1.0 - r * np.expm1(-v))
        v = v - (exponent(v) - high + LOG_TRUNCATION) / derivative
    half = -0.5 * np.expm1(-v)
    a = half / (1.0 - half + np.sqrt(1.0 - 2.0 * half))
    half = 2.0 * a / ((1.0 + a) * (1.0 + a))
    end = 2.0 * half
    descent = x_minus_1 / (1.0 - end) - k * r / (1.0 + r * end)
    rest = np.exp(x_minus_1 * np.log1p(-end) + k * np.log1p(r * end)) / descent
    return high, a, half, np.where(descent > 0.0, rest, np.inf)


def _coefficients(
    x_minus_1: Floats, k: Floats, a: Floats, b: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return ``c_j`` and ``U_j``, a row for each j >= 3, and a bound on the rest of the exponent.

    The last j is at most `MAX_CHEBYSHEV_DEGREE`, and smaller where the terms decay fast. The error
    bound does not rely on this choice.
    """
    larger = np.maximum(a, b)
    decay = -np.log(np.clip(np.max(larger), 1e-300, 0.9))
    degree = np.log(1e25 * np.max(x_minus_1 + k)) / decay
    last = int(np.clip(degree, 4, MAX_CHEBYSHEV_DEGREE))
    left, right = x_minus_1 * (a * a), k * (b * b)
    c, units = np.empty((2, last - 2, a.size))
    for j in range(3, last + 1):
        left *= a
        right *= b
        np.add(right, left if j % 2 == 0 else -left, out=c[j - 3])
        c[j - 3] *= (2.0 if j % 2 else -2.0) / j
        units[j - 3] = 2.0 / j * (last + j + 6.0) * left + 2.0 / j * (last + 18.0 * j + 6.0) * right
    j = last + 1
    factor = larger * (1.0 + 1.0 / j) ** 5
    cut = 8.0 / 45.0 * j**5 * (left * a + right * b) / (1.0 - factor)
    return c, units, np.where(factor < 1.0, cut, np.inf)


def _ellipse_sum(a: Floats) -> Floats:
    """Return ``S(a)``, the sum of ``2 a**j / j (cosh(j log rho) - 1)`` over j >= 2."""
    closed = 2.0 * np.log1p(-a) - np.log1p(-a * ELLIPSE_RHO) - np.log1p(-a / ELLIPSE_RHO)
    return np.where(
        a * ELLIPSE_RHO < 1.0, closed - a * (ELLIPSE_RHO + 1.0 / ELLIPSE_RHO - 2.0), np.inf
    )


@cache
def _tables() -> tuple[Floats, Floats, Floats]:
    """Return three tables of functions at Gauss's nodes t, where s = 1 + t.

    They hold s, as a column; Q_j(t), with a row for each node and a column for each j >= 3; and,
    in a column for each node, its weight times 1, s, s**2 and |Q_j(t)|. They are computed with 50
    decimal digits, of which cancellation leaves 40, and rounded once.
    """
    weights, shifted, rows = [], [], []
    with localcontext() as context:
        context.prec = 50
        for guess in np.polynomial.legendre.leggauss(GAUSS_NODES)[0]:
            t = Decimal(float(guess))
            for _ in range(2):  # Newton's steps double the number of correct digits, 15 at first
                value, derivative = _legendre(t)
                t -= value / derivative
            derivative = _legendre(t)[1]
            weights.append(float(2 / ((1 - t * t) * derivative * derivative)))
            shifted.append(float(1 + t))
            rows.append([float(v) for v in _remainders(t)])
    s, table = np.array(shifted), np.array(rows)
    sums = np.vstack([np.ones_like(s), s, s * s, np.abs(table.T)])
    return s[:, None], table, sums * np.array(weights)


def _legendre(t: Decimal) -> tuple[Decimal, Decimal]:
    """Return Legendre's polynomial of degree N and its derivative."""
    before, value = Decimal(1), t
    for j in range(2, GAUSS_NODES + 1):
        before, value = value, ((2 * j - 1) * t * value - (j - 1) * before) / j
    return value, GAUSS_NODES * (t * value - before) / (t * t - 1)


def _remainders(t: Decimal) -> list[Decimal]:
    """Return ``Q_j(t)`` for j from 3 to `MAX_CHEBYSHEV_DEGREE`.

    T_j(-1), T_j'(-1), T_j''(-1) are +-1, -+j**2, +-j**2 (j**2 - 1) / 3.
    """
    s, before, value = 1 + t, t, 2 * t * t - 1
    remainders = []
    for j in range(3, MAX_CHEBYSHEV_DEGREE + 1):
        before, value = value, 2 * t * value - before
        taylor = 1 - j**2 * s + Decimal(j**2 * (j**2 - 1)) / 6 * s * s
        remainders.append(value - (-1) ** j * taylor)
    return remainders
