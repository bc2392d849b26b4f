"""Rényi differential privacy (RDP) of the shuffle model, its composition and conversion.

``n`` users send one report each; neighbours differ in one record (replacement); ``E = exp(eps0)``
in formulas, where ``mean[...]`` is an expectation and ``a`` the order. The upper bounds of paper B
hold for every eps0-LDP randomiser with discrete output. Its lower bound and special pair concern
2-RR and two data sets: in one, all users are equal, in the other, all but one. They show how loose
an upper bound can be, and are no guarantee. The formulas of B's Theorems 3.1, 3.3 and 3.4 are given
below (docs/papers.md has its title).

For an n that the theorems do not cover, or an eps0 too large for these floats
(`shuffled_rdp_objection` says which), upper bounds are inf and lower bounds 0. Orders of bounds
have any shape, which is also that of the result. An order that is not above 1 or exceeds 1,000,000
is an `InputError`, and so is a fraction where integers are needed.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, logsumexp

from shuffledp.accounting.laws.binomial import log_pmf
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats

_MAX_EXACT_N = 20_000  # up to this n the special pair is summed term by term
_WINDOW_POINTS = 4096  # lattice points per window for larger n
_WINDOW_DEPTH = 50.0  # a window ends where the log summand is this far below its maximum
_DENSE_ORDERS = 128
_LARGEST_DEFAULT_ORDER = 16_384
_MAX_ORDER = 1_000_000  # Theorem 3.1 sums over all smaller orders
_SHORTFALL = 0.5  # paper B's gamma: the share below the mean at which Chernoff's bound is evaluated


def shuffled_rdp_objection(setting: Setting) -> str | None:
    """Return why paper B's bounds do not apply at a setting, or None if they do."""
    if setting.eps0 >= 100:
        return f"eps0 must be below 100, got eps0={setting.eps0}"
    if setting.n < 2:
        return f"n must be at least 2, got n={setting.n}"
    return None


def _real_orders(order: ArrayLike) -> Floats:
    orders = np.asarray(order, np.float64)
    wrong = orders[~((orders > 1) & (orders <= _MAX_ORDER))]
    if wrong.size:
        raise InputError(f"order must be above 1 and at most {_MAX_ORDER:,}, got {wrong[0]:g}")
    return orders


def _integer_orders(order: ArrayLike) -> Floats:
    orders = _real_orders(order)
    wrong = orders[orders != np.floor(orders)]
    if wrong.size:
        raise InputError(f"order must be an integer, got {wrong[0]:g}")
    return orders


def _at_each_order(orders: Floats, function: Callable[[float], float]) -> Floats:
    values = [function(float(order)) for order in orders.ravel()]
    return np.array(values, np.float64).reshape(orders.shape)


def _log_binomial(n: float, j: Floats) -> Floats:
    return np.asarray(gammaln(n + 1.0) - gammaln(j + 1.0) - gammaln(n - j + 1.0))


def _identical_users(eps0: float, n: float, shortfall: float = _SHORTFALL) -> float:
    """Return paper B's n-bar, ``floor((1-g) (n-1)/E) + 1`` with shortfall g, never too large."""
    return float(np.floor((1.0 - shortfall) * (n - 1.0) / np.exp(eps0) * (1.0 - 1e-15)) + 1.0)


# --- Paper B's bounds ---------------------------------------------------------------------------


def shuffled_rdp_upper(order: ArrayLike, setting: Setting, shortfall: float = _SHORTFALL) -> Floats:
    """Return paper B's first upper bound (Theorem 3.1) on RDP, for any eps0-LDP randomiser.

    It is ``log(1 + S) / (a - 1)``, and at most eps0, where ``m = floor((1-g) (n-1)/E) + 1`` and S
    is ``C(a,2) (E-1)^2/(m E) + sum_{i=3..a} C(a,i) i Gamma(i/2) ((E^2-1)^2/(2 E^2 m))^(i/2)
    + exp(eps0 a - g^2 (n-1)/(2E))``.

    Orders a are integers. The setting has one round, and its number of cells does not matter.
    `shortfall` is the share g in (0, 1) below the mean at which Chernoff's bound is evaluated.
    Paper B uses 1/2; every other value is valid too (its Remark 3).
    """
    orders = _integer_orders(order)
    if not 0.0 < shortfall < 1.0:
        raise InputError(f"shortfall must lie strictly between 0 and 1, got {shortfall}")
    if shuffled_rdp_objection(setting):
        return np.full(orders.shape, np.inf)
    n, eps0 = setting.n, setting.eps0
    m = _identical_users(eps0, n, shortfall)
    log_variance = 2.0 * np.log(np.expm1(eps0)) - eps0 - np.log(m)
    log_proxy = 2.0 * np.log(np.sinh(eps0)) + np.log(2.0 / m)  # (E^2-1)^2 / (2 E^2 m)
    log_tail = -(shortfall**2) * (n - 1.0) / (2.0 * np.exp(eps0))

    def value(order: float) -> float:
        i = np.arange(3.0, order + 1.0)
        moments = _log_binomial(order, i) + np.log(i) + gammaln(i / 2.0) + i / 2.0 * log_proxy
        pairs = np.log(order * (order - 1.0) / 2.0)
        log_sum = logsumexp(np.append(moments, [pairs + log_variance, eps0 * order + log_tail]))
        return float(min(np.logaddexp(0.0, log_sum) / (order - 1.0), eps0))

    return _at_each_order(orders, value)


def shuffled_rdp_upper_simple(order: ArrayLike, setting: Setting) -> Floats:
    """Return paper B's second upper bound (Theorem 3.3) on RDP, for any real order above 1.

    It is ``log(exp(a^2 (E-1)^2 / m) + exp(eps0 a - (n-1)/(8E))) / (a - 1)`` with m as in
    :func:`shuffled_rdp_upper`, and at most eps0.
    """
    orders = _real_orders(order)
    if shuffled_rdp_objection(setting):
        return np.full(orders.shape, np.inf)
    n, eps0 = setting.n, setting.eps0
    quadratic = orders**2 * np.expm1(eps0) ** 2 / _identical_users(eps0, n)
    log_tail = eps0 * orders - (n - 1.0) / (8.0 * np.exp(eps0))
    return np.asarray(np.minimum(np.logaddexp(quadratic, log_tail) / (orders - 1.0), eps0))


def shuffled_rdp_lower(order: ArrayLike, setting: Setting) -> Floats:
    """Return paper B's lower bound (Theorem 3.4) on the RDP of shuffled 2-RR; not a guarantee.

    The paper writes ``log(1 + C(a,2) (E-1)^2/(n E) + sum_{i=3..a} C(a,i) ((E^2-1)/(n E))^i mean[(x
    - n/(E+1))^i]) / (a - 1)``, x ~ Bin(n, 1/(E+1)). The argument of the logarithm is the binomial
    expansion of ``mean[(1+Y)^a]``, where ``1+Y`` is the likelihood ratio of the special pair with
    the all-equal data set in the denominator. The moment itself is computed, because terms of the
    expansion alternate in sign.
    """
    orders = _integer_orders(order)
    if shuffled_rdp_objection(setting):
        return np.zeros(orders.shape)
    return _at_each_order(
        orders, lambda order: _ratio_moment(order, setting.eps0, setting.n) / (order - 1.0)
    )


def special_pair_renyi(order: ArrayLike, setting: Setting) -> Floats:
    """Return the exact RDP of paper B's special pair: 2-RR, all users equal against one flipped.

    It is the larger of the two directions, at real orders, computed from the law of one count to 10
    digits or so for n up to 1e9. It is a lower bound on the RDP of shuffled 2-RR, not a guarantee.
    """
    orders = _real_orders(order)
    if shuffled_rdp_objection(setting):
        return np.zeros(orders.shape)

    def value(order: float) -> float:
        moments = (_ratio_moment(x, setting.eps0, setting.n) for x in (order, 1.0 - order))
        return max(moments) / (order - 1.0)

    return _at_each_order(orders, value)


# --- Moments of the special pair's likelihood ratio ---------------------------------------------


def _ratio_moment(power: float, eps0: float, n: float) -> float:
    """Return ``log mean[(1+Y)^power]`` for a power above 1 or below 0.

    ``x ~ Bin(n, 1/(E+1))`` is the count if all users are equal, and ``Y = 2 sinh(eps0) (x/n -
    1/(E+1))`` has mean 0, so the moment is ``1 + mean[(1+Y)^power - 1 - power Y]``: no term is
    negative, and the small excess over 1 does not cancel.
    """
    excess = []
    for low, high in _windows(power, eps0, n):
        step = max(1.0, np.floor((high - low) / _WINDOW_POINTS)) if n > _MAX_EXACT_N else 1.0
        # The summand is smooth over many steps, so a coarser lattice gives the same sum.
        x = np.arange(low, high + 1.0, step)
        y, log_ratio = _likelihood_ratio(x, eps0, n)
        log_mass = log_pmf(x, n, 1.0 / (np.exp(eps0) + 1.0))
        excess.append(logsumexp(log_mass + _log_convexity(y, log_ratio, power)) + np.log(step))
    return float(np.logaddexp(0.0, logsumexp(excess)))


def _likelihood_ratio(x: Floats, eps0: float, n: float) -> tuple[Floats, Floats]:
    """Return Y and ``log(1+Y)`` at counts x."""
    scale = 2.0 * np.sinh(eps0) / n
    y = scale * (x - n / (np.exp(eps0) + 1.0))
    near = np.log1p(np.maximum(y, -0.5))
    return y, np.where(y < -0.5, np.log(scale * x + np.exp(-eps0)), near)


def _log_convexity(y: Floats, log_ratio: Floats, power: float) -> Floats:
    """Return ``log((1+y)^power - 1 - power y)`` from y and ``log(1+y)``; power > 1 or < 0."""
    exponent = power * log_ratio
    small = np.minimum(exponent, 30.0)
    large = np.maximum(exponent, 30.0)
    with np.errstate(divide="ignore"):
        near = np.log(np.maximum(np.expm1(small) - power * y, 0.0))
        far = large + np.log1p(-(1.0 + power * y) * np.exp(-large))
        # Where the difference cancels, its expansion in y is exact to 1e-10.
        expansion = power * (power - 1.0) / 2.0 * y**2 * (1.0 + (power - 2.0) * y / 3.0)
        series = np.log(np.where(np.abs(power * y) < 1e-5, expansion, 1.0))
    return np.where(np.abs(power * y) < 1e-5, series, np.where(exponent < 30.0, near, far))


def _windows(power: float, eps0: float, n: float) -> list[tuple[float, float]]:
    """Return disjoint integer ranges that hold nearly all of the binomial and the tilted law.

    They are the ranges where ``Pr[x]`` or ``Pr[x] (1+Y)^power`` exceeds about e^-50 times its
    maximum. ``x = n sin(t)^2`` has nearly the same standard deviation in t, ``1 / (2 sqrt(n))``,
    under every binomial law, so that a grid in t of about this distance finds them.
    """
    if n <= _MAX_EXACT_N:
        return [(0.0, n)]
    x = np.round(n * np.sin(np.linspace(0.0, np.pi / 2.0, int(2.0 * np.sqrt(n)))) ** 2)
    log_mass = log_pmf(x, n, 1.0 / (np.exp(eps0) + 1.0))
    tilted = log_mass + power * _likelihood_ratio(x, eps0, n)[1]
    inside = (log_mass > log_mass.max() - _WINDOW_DEPTH) | (tilted > tilted.max() - _WINDOW_DEPTH)
    changes = np.flatnonzero(np.diff(np.pad(inside, 1).astype(np.int8)))
    # Each range is widened by a point on each side; ranges that overlap or touch then are merged.
    starts, ends = np.maximum(changes[::2] - 1, 0), np.minimum(changes[1::2], x.size - 1)
    apart = np.append(True, starts[1:] > ends[:-1])
    return list(zip(x[starts[apart]], x[ends[np.append(apart[1:], True)]], strict=True))


# --- Composition, conversion, subsampling -------------------------------------------------------


def composed_rdp(rdp: ArrayLike, rounds: ArrayLike) -> Floats:
    """Return the RDP of ``rounds`` adaptive rounds with equal RDP, which adds up at each order."""
    return np.asarray(rdp, np.float64) * np.asarray(rounds, np.float64)


def default_orders() -> Floats:
    """Return the integer orders to minimise over: 2 to 128, then geometric steps up to 16384."""
    sparse = np.geomspace(_DENSE_ORDERS, _LARGEST_DEFAULT_ORDER, 60)
    return np.union1d(np.arange(2.0, _DENSE_ORDERS), np.round(sparse))


def _log_constant(orders: Floats) -> Floats:
    return np.asarray((orders - 1.0) * np.log1p(-1.0 / orders) - np.log(orders))


def rdp_to_dp(orders: ArrayLike, rdp: ArrayLike, log_delta: ArrayLike) -> Floats:
    """Return the smallest eps that RDP of these orders gives at each delta (paper B, Lemma 2.1).

    It is ``min_a rdp(a) + (log(1/delta) + (a-1) log(1-1/a) - log a) / (a-1)``, and at least 0. The
    real orders and the RDP at each have shape ``(m,)``. The natural log of delta has any shape,
    which is also that of the result.
    """
    orders = _real_orders(orders)
    log_delta = np.asarray(log_delta, np.float64)[..., np.newaxis]
    eps = np.asarray(rdp, np.float64) + (_log_constant(orders) - log_delta) / (orders - 1.0)
    return np.asarray(np.maximum(eps.min(axis=-1), 0.0))


def rdp_to_log_delta(orders: ArrayLike, rdp: ArrayLike, eps: ArrayLike) -> Floats:
    """Return the log of the smallest delta that RDP of these orders gives at each eps.

    It is ``min_a (a-1) (rdp(a) - eps + log(1-1/a)) - log a``, and at most 0: the inverse of
    :func:`rdp_to_dp`. ``eps`` has any shape, which is also the shape of the result.
    """
    orders = _real_orders(orders)
    eps = np.asarray(eps, np.float64)[..., np.newaxis]
    value = (orders - 1.0) * (np.asarray(rdp, np.float64) - eps) + _log_constant(orders)
    return np.asarray(np.minimum(value.min(axis=-1), 0.0))


def subsampled_rdp(
    order: ArrayLike, rate: float, rdp_function: Callable[[Floats], Floats]
) -> Floats:
    """Return the RDP after Poisson subsampling by Zhu and Wang's bound (paper B, section 4).

    It is ``log((1-r)^(a-1) (a r - r + 1) + C(a,2) r^2 (1-r)^(a-2) e^{rdp(2)}
    + 3 sum_{j=3..a} C(a,j) (1-r)^(a-j) r^j e^{(j-1) rdp(j)}) / (a - 1)``, and at most ``rdp(a)``,
    which subsampling never exceeds. The theorem is about adding or removing one record, for both
    the mechanism and the result. The bounds of this module are about replacing one record; with
    them the value is what paper B plots, but no guarantee for replacement neighbours.

    Orders a are integers, and the rate r in [0, 1] is the probability that a record takes part.
    `rdp_function` maps an array of integer orders to the RDP of the mechanism on all records.
    """
    orders = _integer_orders(order)
    if not 0 <= rate <= 1:
        raise InputError(f"rate must be between 0 and 1, got {rate}")
    j = np.arange(2.0, orders.max(initial=2.0) + 1.0)
    rdp = np.asarray(rdp_function(j), np.float64)
    if rate == 0:
        return np.zeros(orders.shape)
    if rate == 1:
        return np.asarray(rdp[orders.astype(np.int64) - 2])
    # The binomial weights sum to 1. With this 1 subtracted, all terms of the sum are positive.
    moment = (j - 1.0) * rdp
    excess = moment + np.log(np.where(j > 2, 2.0, 0.0) - np.expm1(-moment))

    def value(order: float) -> float:
        i = j[j <= order]
        weights = _log_binomial(order, i) + i * np.log(rate) + (order - i) * np.log1p(-rate)
        log_sum = logsumexp(weights + excess[: i.size])
        return float(min(np.logaddexp(0.0, log_sum) / (order - 1.0), rdp[i.size - 1]))

    return _at_each_order(orders, value)
