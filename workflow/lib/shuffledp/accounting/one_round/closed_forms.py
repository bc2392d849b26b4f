"""Published closed-form bounds on the privacy of a shuffled local randomiser.

All hold for replacement neighbours: ``n`` users, one report each, one record replaced. ``eps0`` is
the local budget, ``E = exp(eps0)``, ``e = exp(eps)``; logarithms are natural and delta is passed
and returned as its logarithm, so that 1e-400 is as good as 1e-4. Arguments broadcast.

Every bound is an upper bound on what the mechanism leaks. It never exceeds what local privacy
gives by itself (eps at most eps0, and delta zero from eps0 on), and outside the range for which it
was proved it is vacuous, ``eps = inf`` or ``log_delta = 0``; the ``*_domain`` function of the bound
says why, or gives None. The three functions ``as_tabulated_*`` are the exception: they guarantee
nothing and serve only to reproduce a printed table.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shuffledp.arrays import Floats

# What must hold, element by element; what to say where it does not; the values to name then.
_Condition = tuple[NDArray[np.bool_], str, Floats]

_BISECTIONS = 100


def _arrays(*values: ArrayLike) -> list[Floats]:
    return list(np.broadcast_arrays(*(np.asarray(v, np.float64) for v in values)))


def _first_failure(conditions: Iterable[_Condition]) -> str | None:
    for holds, why, values in conditions:
        if not np.all(holds):
            return why.format(values[~holds][0])
    return None


def _valid(conditions: Iterable[_Condition]) -> NDArray[np.bool_]:
    return np.asarray(np.logical_and.reduce([holds for holds, _, _ in conditions]))


def _as_epsilon(value: Floats, eps0: Floats, conditions: Iterable[_Condition]) -> Floats:
    return np.where(_valid(conditions), np.clip(value, 0.0, eps0), np.inf)


def _as_log_delta(
    value: Floats, eps: Floats, eps0: Floats, conditions: Iterable[_Condition]
) -> Floats:
    value = np.where(eps >= eps0, -np.inf, np.where(eps >= 0, np.minimum(value, 0.0), 0.0))
    return np.where(_valid(conditions), value, 0.0)


def _basic_conditions(eps0: Floats, n: Floats) -> list[_Condition]:
    return [
        ((eps0 > 0) & (eps0 < 100), "eps0 must be above 0 and below 100 (got eps0={})", eps0),
        (n >= 2, "n must be at least 2 (got n={})", n),
    ]


# --- Erlingsson et al. (2019) -------------------------------------------------------------------


def _erlingsson_conditions(log_delta: Floats, eps0: Floats, n: Floats) -> list[_Condition]:
    return [
        ((eps0 > 0) & (eps0 < 0.5), "eps0 must be above 0 and below 1/2 (got eps0={})", eps0),
        (n >= 1000, "n must be at least 1000 (got n={})", n),
        (log_delta < np.log(0.01), "delta must be below 1/100 (got log_delta={})", log_delta),
    ]


def erlingsson_domain(log_delta: ArrayLike, eps0: ArrayLike, n: ArrayLike) -> str | None:
    """Why :func:`erlingsson_epsilon` does not apply; None where it does."""
    return _first_failure(_erlingsson_conditions(*_arrays(log_delta, eps0, n)))


def erlingsson_epsilon(log_delta: ArrayLike, eps0: ArrayLike, n: ArrayLike) -> Floats:
    """Upper bound on eps at a given delta, for every eps0-LDP randomiser.

    ``12 eps0 sqrt(log(1/delta) / n)``, for n at least 1000, eps0 < 1/2 and delta < 1/100.

    Source: Erlingsson et al., "Amplification by shuffling" (2019).
    """
    log_delta, eps0, n = _arrays(log_delta, eps0, n)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = 12.0 * eps0 * np.sqrt(-log_delta / n)
    return _as_epsilon(value, eps0, _erlingsson_conditions(log_delta, eps0, n))


def erlingsson_log_delta(eps: ArrayLike, eps0: ArrayLike, n: ArrayLike) -> Floats:
    """Log of the delta at which :func:`erlingsson_epsilon` gives ``eps``; same domain."""
    eps, eps0, n = _arrays(eps, eps0, n)
    # From eps0 on delta is zero whatever the formula says, so only the other conditions count.
    formula = as_tabulated_erlingsson_log_delta(eps, eps0, n)
    value = np.where(eps >= eps0, -np.inf, formula)
    return _as_log_delta(value, eps, eps0, _erlingsson_conditions(value, eps0, n))


# --- Clones (Feldman, McMillan, Talwar 2021) ----------------------------------------------------


def _clones_conditions(log_delta: Floats, eps0: Floats, n: Floats) -> list[_Condition]:
    largest = np.log(n / (16.0 * (np.log(2.0) - log_delta)))
    too_few = "eps0 must be at most log(n / (16 log(2/delta))) (got eps0={}): more users are needed"
    return [
        *_basic_conditions(eps0, n),
        (log_delta <= 0, "delta must be at most 1 (got log_delta={})", log_delta),
        (eps0 <= largest, too_few, eps0),
    ]


def clones_closed_form_domain(log_delta: ArrayLike, eps0: ArrayLike, n: ArrayLike) -> str | None:
    """Why :func:`clones_closed_form_epsilon` does not apply; None where it does."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return _first_failure(_clones_conditions(*_arrays(log_delta, eps0, n)))


def clones_closed_form_epsilon(log_delta: ArrayLike, eps0: ArrayLike, n: ArrayLike) -> Floats:
    """Upper bound on eps at a given delta, for every eps0-LDP randomiser.

    ``log(1 + (E-1)/(E+1) (8 sqrt(E log(4/delta)/n) + 8E/n))``, for
    ``eps0 <= log(n / (16 log(2/delta)))``.

    Source: Feldman, McMillan and Talwar, "Hiding among the clones" (2021), Theorem 3.1; paper C,
    eq. (C.2), leaves out the factor ``(E-1)/(E+1)``.
    """
    log_delta, eps0, n = _arrays(log_delta, eps0, n)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        inverse_rate = np.exp(eps0) / n
        spread = 8.0 * (np.sqrt(inverse_rate * (np.log(4.0) - log_delta)) + inverse_rate)
        value = np.log1p(np.tanh(eps0 / 2.0) * spread)
        return _as_epsilon(value, eps0, _clones_conditions(log_delta, eps0, n))


def clones_closed_form_log_delta(eps: ArrayLike, eps0: ArrayLike, n: ArrayLike) -> Floats:
    """Log of the least delta at which :func:`clones_closed_form_epsilon` gives at most ``eps``.

    The theorem covers no delta below ``2 exp(-n / (16 E))``, so the result does not go below that.
    """
    eps, eps0, n = _arrays(eps, eps0, n)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        inverse_rate = np.exp(eps0) / n
        root = np.expm1(eps) / np.tanh(eps0 / 2.0) / 8.0 - inverse_rate
        formula = np.where(root > 0, np.log(4.0) - root**2 / inverse_rate, 0.0)
        value = np.maximum(formula, np.log(2.0) - 1.0 / (16.0 * inverse_rate))
    return _as_log_delta(value, eps, eps0, _basic_conditions(eps0, n))


# --- k-RR, Theorem 3.1 of Balle et al. (2019) ---------------------------------------------------


def _krr_conditions(eps0: Floats, n: Floats, k: Floats) -> list[_Condition]:
    return [*_basic_conditions(eps0, n), (k >= 2, "k must be at least 2 (got k={})", k)]


def _balle_krr_epsilon(log_delta: Floats, eps0: Floats, n: Floats, k: Floats) -> Floats:
    reports = (n - 1.0) / (np.exp(eps0) + k - 1.0)  # expected blanket reports in one cell
    return np.asarray(np.maximum(np.sqrt(14 * (np.log(2) - log_delta) / reports), 27 / reports))


def _balle_krr_conditions(
    log_delta: Floats, eps0: Floats, n: Floats, k: Floats
) -> list[_Condition]:
    eps = _balle_krr_epsilon(log_delta, eps0, n, k)
    return [
        *_krr_conditions(eps0, n, k),
        (log_delta <= 0, "delta must be at most 1 (got log_delta={})", log_delta),
        (eps <= 1.0, "the theorem covers eps <= 1 only (its formula gives eps={})", eps),
    ]


def balle_krr_domain(
    log_delta: ArrayLike, eps0: ArrayLike, n: ArrayLike, k: ArrayLike
) -> str | None:
    """Why :func:`balle_krr_epsilon` does not apply; None where it does."""
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        return _first_failure(_balle_krr_conditions(*_arrays(log_delta, eps0, n, k)))


def balle_krr_epsilon(log_delta: ArrayLike, eps0: ArrayLike, n: ArrayLike, k: ArrayLike) -> Floats:
    """Upper bound on eps at a given delta for shuffled k-RR, where it is at most 1.

    With ``c = (n-1)/(E+k-1)`` blanket reports expected in a cell, the larger of
    ``sqrt(14 log(2/delta) / c)`` and ``27 / c``. The Chernoff tails of the counts of the two cells,
    ``exp(-c (sqrt(e)-1-1/c)^2 / 3)`` and ``exp(-c (1-1/sqrt(e))^2 / 2)``, are then delta/2 or less,
    because ``sqrt(e) - 1 - 1/c >= (25/54) eps`` and ``1 - 1/sqrt(e) >= eps / sqrt(7)`` up to 1.

    Source: Balle et al., "The privacy blanket of the shuffle model" (2019), Theorem 3.1 (paper C,
    Theorem C.1), solved for eps.
    """
    log_delta, eps0, n, k = _arrays(log_delta, eps0, n, k)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        value = _balle_krr_epsilon(log_delta, eps0, n, k)
        return _as_epsilon(value, eps0, _balle_krr_conditions(log_delta, eps0, n, k))


def balle_krr_log_delta(eps: ArrayLike, eps0: ArrayLike, n: ArrayLike, k: ArrayLike) -> Floats:
    """Log of the least delta at which :func:`balle_krr_epsilon` gives at most ``eps``."""
    eps, eps0, n, k = _arrays(eps, eps0, n, k)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        reports = (n - 1.0) / (np.exp(eps0) + k - 1.0)
        covered = np.minimum(eps, 1.0)
        value = np.where(covered * reports >= 27.0, np.log(2.0) - reports * covered**2 / 14.0, 0.0)
    return _as_log_delta(value, eps, eps0, _krr_conditions(eps0, n, k))


# --- Privacy blanket: Hoeffding and Bennett (Balle et al. 2019) ---------------------------------


@dataclass(frozen=True)
class _Blanket:
    """What is known of the blanket probability and of ``L = (R_x - e R_x')/blanket``.

    The divergence is at most ``E[(L_1 + ... + L_M)_+] / (gamma n)`` with ``M ~ Bin(n, gamma)``
    and independent L of mean ``1 - e``, drawn from the blanket.
    """

    gamma: Floats
    width: Floats  # of the range of L
    top: Floats  # upper end of the range of L
    second_moment: Floats


def _krr_blanket(eps: Floats, eps0: Floats, k: Floats) -> _Blanket:
    E, e = np.exp(eps0), np.exp(eps)
    gamma = k / (E + k - 1.0)
    scale = gamma * np.expm1(eps0)
    # L / gamma is E - e, 1 - e E and 1 - e with probabilities 1/k, 1/k and (k-2)/k.
    squared = gamma * (2.0 - gamma) * np.expm1(eps) ** 2 + scale**2 * (1.0 + e * e) / k
    return _Blanket(gamma, scale * (1.0 + e), gamma * (E - e), squared)


def _generic_blanket(eps: Floats, eps0: Floats) -> _Blanket:
    E, e = np.exp(eps0), np.exp(eps)
    # gamma, unknown between 1/E and 1, lowers the bound through M and raises it through L: the
    # worst end of each.
    return _Blanket(
        gamma=1.0 / E,
        width=(1.0 + e) * (E - 1.0 / E),
        top=E - e / E,
        second_moment=E * (1.0 + e * e) - 2.0 * e / E**3,
    )


def _log_expected_power(log_theta: Floats, n: Floats, gamma: Floats) -> Floats:
    """``log E[theta^M 1{M >= 1}]`` for ``M ~ Bin(n, gamma)``: the sum over M in closed form."""
    power = n * np.log1p(gamma * np.expm1(log_theta))
    log_empty_share = -n * np.log1p(np.exp(log_theta) * gamma / (1.0 - gamma))
    return power + np.log(-np.expm1(log_empty_share))


def _hoeffding(eps: Floats, n: Floats, blanket: _Blanket) -> Floats:
    # Given M = m, Pr[sum >= t] <= exp(-2 (t + m a)^2 / (m w^2)), and
    # (t + m a)^2 >= (m a)^2 + 2 m a t; integrate over t > 0.
    a = np.expm1(eps)
    log_theta = -2.0 * (a / blanket.width) ** 2
    log_front = np.log(blanket.width**2 / (4.0 * a * blanket.gamma * n))
    return log_front + _log_expected_power(log_theta, n, blanket.gamma)


def _bennett_h(u: Floats) -> Floats:
    """``(1 + u) log(1 + u) - u`` without cancellation."""
    small = np.minimum(u, 1e-3)
    series = small**2 * (0.5 - small * (1 / 6 - small * (1 / 12 - small * (1 / 20 - small / 30))))
    return np.where(u < 1e-3, series, (1.0 + u) * np.log1p(u) - u)


def _bennett(eps: Floats, n: Floats, blanket: _Blanket) -> Floats:
    # Bennett's inequality for summands at most `top` with that (uncentred) second moment v:
    # Pr[sum >= t] <= exp(-(m v / top^2) h(top (t + m a) / (m v))). The exponent is convex in t, so
    # its tangent at t = 0, of slope log(1 + top a / v) / top whatever m is, bounds the integral.
    a = np.expm1(eps)
    u = a * blanket.top / blanket.second_moment
    log_theta = -blanket.second_moment / blanket.top**2 * _bennett_h(u)
    log_front = np.log(blanket.top / (np.log1p(u) * blanket.gamma * n))
    return log_front + _log_expected_power(log_theta, n, blanket.gamma)


_Inequality = Callable[[Floats, Floats, _Blanket], Floats]


def _blanket_log_delta(
    inequality: _Inequality, eps: ArrayLike, eps0: ArrayLike, n: ArrayLike, k: ArrayLike | None
) -> Floats:
    eps, eps0, n, cells = _arrays(eps, eps0, n, 2 if k is None else k)
    with np.errstate(all="ignore"):
        blanket = _generic_blanket(eps, eps0) if k is None else _krr_blanket(eps, eps0, cells)
        value = inequality(eps, n, blanket)
    # At eps = 0 the formula is 0/0 or infinite, and the bound vacuous.
    value = np.where(np.isnan(value), 0.0, value)
    return _as_log_delta(value, eps, eps0, _krr_conditions(eps0, n, cells))


def _blanket_epsilon(
    inequality: _Inequality,
    log_delta: ArrayLike,
    eps0: ArrayLike,
    n: ArrayLike,
    k: ArrayLike | None,
) -> Floats:
    log_delta, eps0, n, cells = _arrays(log_delta, eps0, n, 2 if k is None else k)
    # The upper end always satisfies bound(eps) <= log_delta, so rounding errs on the safe side.
    low, high = np.zeros_like(eps0), eps0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        bound = _blanket_log_delta(inequality, middle, eps0, n, None if k is None else cells)
        enough = bound <= log_delta
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return _as_epsilon(high, eps0, _krr_conditions(eps0, n, cells))


def blanket_domain(eps0: ArrayLike, n: ArrayLike, k: ArrayLike | None = None) -> str | None:
    """Why the blanket bounds do not apply; None where they do."""
    return _first_failure(_krr_conditions(*_arrays(eps0, n, 2 if k is None else k)))


def blanket_hoeffding_log_delta(
    eps: ArrayLike, eps0: ArrayLike, n: ArrayLike, k: ArrayLike | None = None
) -> Floats:
    """Log of an upper bound on delta(eps) by the privacy blanket and Hoeffding's inequality.

    With ``a = e - 1``, ``w`` the width of the range of L and ``theta = exp(-2 a^2 / w^2)``:
    ``w^2 / (4 a gamma n) ((1 - gamma + gamma theta)^n - (1 - gamma)^n)``.

    Parameters
    ----------
    eps
        At least 0; at 0 the bound is vacuous.
    eps0, n
        Local budget and number of users, n at least 2.
    k
        Number of cells of k-RR: ``gamma = k/(E+k-1)``, ``w = gamma (E-1)(1+e)``. None for any
        eps0-LDP randomiser, with Balle et al.'s constants ``gamma = 1/E``, ``w = (1+e)(E-1/E)``;
        ``k = 2`` is sharper and just as general, because the summand of 2-RR dominates that of
        every eps0-LDP randomiser in convex order.

    Source: Balle et al., "The privacy blanket of the shuffle model" (2019), section 5.
    """
    return _blanket_log_delta(_hoeffding, eps, eps0, n, k)


def blanket_hoeffding_epsilon(
    log_delta: ArrayLike, eps0: ArrayLike, n: ArrayLike, k: ArrayLike | None = None
) -> Floats:
    """Upper bound on eps at a given delta from :func:`blanket_hoeffding_log_delta`."""
    return _blanket_epsilon(_hoeffding, log_delta, eps0, n, k)


def blanket_bennett_log_delta(
    eps: ArrayLike, eps0: ArrayLike, n: ArrayLike, k: ArrayLike | None = None
) -> Floats:
    """Log of an upper bound on delta(eps) by the privacy blanket and Bennett's inequality.

    With ``a = e - 1``, ``b`` the largest value of L, ``v`` its second moment,
    ``h(u) = (1+u) log(1+u) - u``, ``u = a b / v`` and ``theta = exp(-v h(u) / b^2)``:
    ``b / (gamma n log(1+u)) ((1 - gamma + gamma theta)^n - (1 - gamma)^n)``.

    Parameters and source as for :func:`blanket_hoeffding_log_delta`. For k-RR ``b = gamma (E-e)``
    and v is exact; otherwise ``b = E - e/E`` and ``v = E (1 + e^2) - 2 e / E^3``.
    """
    return _blanket_log_delta(_bennett, eps, eps0, n, k)


def blanket_bennett_epsilon(
    log_delta: ArrayLike, eps0: ArrayLike, n: ArrayLike, k: ArrayLike | None = None
) -> Floats:
    """Upper bound on eps at a given delta from :func:`blanket_bennett_log_delta`."""
    return _blanket_epsilon(_bennett, log_delta, eps0, n, k)


# --- The columns of paper A's Table II ----------------------------------------------------------


def as_tabulated_erlingsson_log_delta(eps: ArrayLike, eps0: ArrayLike, n: ArrayLike) -> Floats:
    """``-n (eps / (12 eps0))^2``, column [11] of paper A's Table II.

    Not a guarantee: Erlingsson's formula outside its range. Only for reproducing the table.
    """
    eps, eps0, n = _arrays(eps, eps0, n)
    return np.asarray(-n * (eps / (12.0 * eps0)) ** 2)


def as_tabulated_balle_log_delta(eps: ArrayLike, eps0: ArrayLike, n: ArrayLike) -> Floats:
    """``-n eps^2 / exp(2 eps0)``, column [10] of paper A's Table II.

    Not a guarantee: a big-O with its constant dropped. Only for reproducing the table.
    """
    eps, eps0, n = _arrays(eps, eps0, n)
    return np.asarray(-n * eps**2 * np.exp(-2.0 * eps0))


def as_tabulated_clones_log_delta(eps: ArrayLike, eps0: ArrayLike, n: ArrayLike) -> Floats:
    """``-n eps^2 / (exp(eps0) - 1)``, column [12] of paper A's Table II.

    Not a guarantee: a big-O with its constant dropped, and mis-squared. Only for reproducing the
    table.
    """
    eps, eps0, n = _arrays(eps, eps0, n)
    return np.asarray(-n * eps**2 / np.expm1(eps0))
