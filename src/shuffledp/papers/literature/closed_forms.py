"""Published closed-form bounds on the privacy of a shuffled local randomiser.

All bounds hold for ``n`` users with one report each, and replacement of one record. ``eps0`` is the
local budget, ``E = exp(eps0)``, ``e = exp(eps)``. Delta is passed and returned as its natural log,
so that deltas as small as 1e-400 can be used. eps and log delta have any shape, which is also the
shape of the result.

Every ``*_epsilon`` or ``*_log_delta`` function returns an upper bound, never above what local
privacy guarantees (eps at most eps0, and delta 0 for eps >= eps0). Outside the range of its proof
the bound is vacuous, ``eps = inf`` or ``log_delta = 0``; its ``*_domain`` function returns the
reason, or None.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.conventions import eps_values, log_delta_values
from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.numerics.arrays import Floats

# Type of the ``*_domain`` functions; their second argument is a log delta, or None for any delta.
_Domain = Callable[[Setting, float | None], str | None]


def _first_failure(*conditions: tuple[bool, str]) -> str | None:
    return next((reason for holds, reason in conditions if not holds), None)


def _as_epsilon(domain: _Domain, value: Floats, log_delta: Floats, setting: Setting) -> Floats:
    """Return a formula's eps limited to eps0, or inf where the bound does not apply."""
    reasons = [domain(setting, float(ld)) for ld in log_delta.ravel()]
    covered = np.array([reason is None for reason in reasons]).reshape(log_delta.shape)
    return np.where(covered, np.clip(value, 0.0, setting.eps0), np.inf)


def _as_log_delta(domain: _Domain, value: Floats, eps: Floats, setting: Setting) -> Floats:
    """Return a formula's log delta limited by local privacy, or 0 if the bound does not apply."""
    if domain(setting, None):
        return np.zeros_like(eps)
    return np.where(eps >= setting.eps0, -np.inf, np.minimum(value, 0.0))


def any_domain(setting: Setting, log_delta: float | None = None) -> str | None:
    """Return why a setting is outside the range of every bound of this module, or None."""
    del log_delta
    n, eps0 = setting.n, setting.eps0
    return _first_failure(
        (setting.rounds == 1, f"it covers one round only, got rounds={setting.rounds}"),
        (eps0 < 100.0, f"eps0 must be below 100, got eps0={eps0}"),
        (n >= 2, f"n must be at least 2, got n={n}"),
    )


# --- Erlingsson et al. (2019) -------------------------------------------------------------------


def erlingsson_domain(setting: Setting, log_delta: float | None = None) -> str | None:
    """Return why :func:`erlingsson_epsilon` does not apply, or None."""
    n, eps0 = setting.n, setting.eps0
    return any_domain(setting) or _first_failure(
        (eps0 < 0.5, f"eps0 must be below 1/2, got eps0={eps0}"),
        (n >= 1000, f"n must be at least 1000, got n={n}"),
        (
            log_delta is None or log_delta < np.log(0.01),
            f"delta must be below 1/100, got log_delta={log_delta}",
        ),
    )


def erlingsson_epsilon(log_delta: ArrayLike, setting: Setting) -> Floats:
    """Return an upper bound on eps at each delta, for every eps0-LDP randomiser.

    It is ``12 eps0 sqrt(log(1/delta) / n)``, for n at least 1000, eps0 < 1/2 and delta < 1/100.

    Source: Erlingsson et al., "Amplification by shuffling" (2019).
    """
    log_delta = log_delta_values(log_delta)
    value = 12.0 * setting.eps0 * np.sqrt(-log_delta / setting.n)
    return _as_epsilon(erlingsson_domain, value, log_delta, setting)


def erlingsson_log_delta(eps: ArrayLike, setting: Setting) -> Floats:
    """Return the log of the delta at which :func:`erlingsson_epsilon` gives ``eps``."""
    eps = eps_values(eps)
    formula = -setting.n * (eps / (12.0 * setting.eps0)) ** 2
    value = np.where(formula < np.log(0.01), formula, 0.0)
    return _as_log_delta(erlingsson_domain, value, eps, setting)


# --- Clones (Feldman, McMillan, Talwar 2021) ----------------------------------------------------


def clones_closed_form_domain(setting: Setting, log_delta: float | None = None) -> str | None:
    """Return why :func:`clones_closed_form_epsilon` does not apply, or None."""
    eps0, largest = setting.eps0, np.inf
    if log_delta is not None:
        with np.errstate(divide="ignore"):
            largest = np.log(setting.n / (16.0 * (np.log(2.0) - log_delta)))
    reason = (
        f"eps0 must be at most log(n / (16 log(2/delta))), got eps0={eps0}: more users are needed"
    )
    return any_domain(setting) or _first_failure((bool(eps0 <= largest), reason))


def clones_closed_form_epsilon(log_delta: ArrayLike, setting: Setting) -> Floats:
    """Return an upper bound on eps at each delta, for every eps0-LDP randomiser.

    It is ``log(1 + (E-1)/(E+1) (8 sqrt(E log(4/delta)/n) + 8E/n))``, for
    ``eps0 <= log(n / (16 log(2/delta)))``.

    Source: Feldman, McMillan and Talwar, "Hiding among the clones" (2021), Theorem 3.1; paper C,
    eq. (C.2), leaves out the factor ``(E-1)/(E+1)``.
    """
    log_delta = log_delta_values(log_delta)
    inverse_rate = np.exp(setting.eps0) / setting.n
    spread = 8.0 * (np.sqrt(inverse_rate * (np.log(4.0) - log_delta)) + inverse_rate)
    value = np.log1p(np.tanh(setting.eps0 / 2.0) * spread)
    return _as_epsilon(clones_closed_form_domain, value, log_delta, setting)


def clones_closed_form_log_delta(eps: ArrayLike, setting: Setting) -> Floats:
    """Return the log of the least delta with :func:`clones_closed_form_epsilon` <= eps.

    It is never below ``2 exp(-n / (16 E))``, the smallest delta that the theorem covers.
    """
    eps = eps_values(eps)
    with np.errstate(over="ignore"):
        inverse_rate = np.exp(setting.eps0) / setting.n
        root = np.expm1(eps) / np.tanh(setting.eps0 / 2.0) / 8.0 - inverse_rate
        formula = np.where(root > 0, np.log(4.0) - root**2 / inverse_rate, 0.0)
    value = np.maximum(formula, np.log(2.0) - 1.0 / (16.0 * inverse_rate))
    return _as_log_delta(clones_closed_form_domain, value, eps, setting)


# --- k-RR, Theorem 3.1 of Balle et al. (2019) ---------------------------------------------------


def _blanket_reports(setting: Setting) -> float:
    """Return the expected number of blanket reports of the other users in one cell."""
    return (setting.n - 1.0) * probabilities(setting.eps0, setting.k)[1]


def _balle_krr_formula(log_delta: Floats, setting: Setting) -> Floats:
    reports = _blanket_reports(setting)
    with np.errstate(divide="ignore"):
        spread = np.sqrt(14 * (np.log(2) - log_delta) / np.float64(reports))
        return np.asarray(np.maximum(spread, 27 / np.float64(reports)))


def balle_krr_domain(setting: Setting, log_delta: float | None = None) -> str | None:
    """Return why :func:`balle_krr_epsilon` does not apply, or None."""
    reason = any_domain(setting)
    if reason or log_delta is None:
        return reason
    eps = float(_balle_krr_formula(np.asarray(log_delta), setting))
    return _first_failure(
        (eps <= 1.0, f"the theorem covers eps <= 1 only (its formula gives eps={eps})")
    )


def balle_krr_epsilon(log_delta: ArrayLike, setting: Setting) -> Floats:
    """Return an upper bound on eps at each delta for shuffled k-RR, or inf if it would exceed 1.

    With ``c = (n-1)/(E+k-1)``, the expected blanket reports in a cell, it is the larger of
    ``sqrt(14 log(2/delta) / c)`` and ``27 / c``. The Chernoff tails of the counts of the two cells,
    ``exp(-c (sqrt(e)-1-1/c)^2 / 3)`` and ``exp(-c (1-1/sqrt(e))^2 / 2)``, are then at most delta/2,
    because ``sqrt(e)-1-1/c >= (25/54) eps`` and ``1-1/sqrt(e) >= eps/sqrt(7)`` for eps <= 1.

    Source: Balle et al., "The privacy blanket of the shuffle model" (2019), Theorem 3.1 (paper C,
    Theorem C.1), solved for eps.
    """
    log_delta = log_delta_values(log_delta)
    value = _balle_krr_formula(log_delta, setting)
    return _as_epsilon(balle_krr_domain, value, log_delta, setting)


def balle_krr_log_delta(eps: ArrayLike, setting: Setting) -> Floats:
    """Return the log of the least delta at which :func:`balle_krr_epsilon` is at most eps."""
    eps, reports = eps_values(eps), _blanket_reports(setting)
    covered = np.minimum(eps, 1.0)
    value = np.where(covered * reports >= 27.0, np.log(2.0) - reports * covered**2 / 14.0, 0.0)
    return _as_log_delta(balle_krr_domain, value, eps, setting)


# --- Privacy blanket: Hoeffding and Bennett (Balle et al. 2019) ---------------------------------


@dataclass(frozen=True)
class _Blanket:
    """Blanket probability, and the range and second moment of ``L = (R_x - e R_x')/blanket``.

    The divergence is at most ``E[(L_1 + ... + L_M)_+] / (gamma n)`` with ``M ~ Bin(n, gamma)``
    and independent L with mean ``1 - e``, drawn from the blanket.
    """

    gamma: float
    width: Floats  # of the range of L
    top: Floats  # upper end of the range of L
    second_moment: Floats


def _krr_blanket(eps: Floats, setting: Setting) -> _Blanket:
    k, eps0 = setting.k, setting.eps0
    E, e = np.exp(eps0), np.exp(eps)
    gamma = k * probabilities(eps0, k)[1]
    scale = gamma * np.expm1(eps0)
    # L / gamma is E - e, 1 - e E and 1 - e with probabilities 1/k, 1/k and (k-2)/k.
    squared = gamma * (2.0 - gamma) * np.expm1(eps) ** 2 + scale**2 * (1.0 + e * e) / k
    return _Blanket(gamma, scale * (1.0 + e), gamma * (E - e), squared)


def _generic_blanket(eps: Floats, setting: Setting) -> _Blanket:
    E, e = np.exp(setting.eps0), np.exp(eps)
    # gamma is unknown, between 1/E and 1. A larger gamma lowers the bound through M and raises it
    # through L, so each of these constants uses the less favourable extreme.
    return _Blanket(
        gamma=1.0 / E,
        width=(1.0 + e) * (E - 1.0 / E),
        top=E - e / E,
        second_moment=E * (1.0 + e * e) - 2.0 * e / E**3,
    )


def _log_expected_power(log_theta: Floats, n: int, gamma: float) -> Floats:
    """Return ``log E[theta^M 1{M >= 1}]`` for ``M ~ Bin(n, gamma)``, in closed form."""
    power = n * np.log1p(gamma * np.expm1(log_theta))
    log_empty_share = -n * np.log1p(np.exp(log_theta) * gamma / (1.0 - gamma))
    return np.asarray(power + np.log(-np.expm1(log_empty_share)))


def _hoeffding(eps: Floats, n: int, blanket: _Blanket) -> Floats:
    # Given M = m, Pr[sum >= t] <= exp(-2 (t + m a)^2 / (m w^2)), and
    # (t + m a)^2 >= (m a)^2 + 2 m a t; integrate over t > 0.
    a = np.expm1(eps)
    log_theta = -2.0 * (a / blanket.width) ** 2
    log_front = np.log(blanket.width**2 / (4.0 * a * blanket.gamma * n))
    return log_front + _log_expected_power(log_theta, n, blanket.gamma)


def _bennett_h(u: Floats) -> Floats:
    """Return ``(1 + u) log(1 + u) - u`` without cancellation."""
    small = np.minimum(u, 1e-3)
    series = small**2 * (0.5 - small * (1 / 6 - small * (1 / 12 - small * (1 / 20 - small / 30))))
    return np.where(u < 1e-3, series, (1.0 + u) * np.log1p(u) - u)


def _bennett(eps: Floats, n: int, blanket: _Blanket) -> Floats:
    # Bennett's inequality for m summands of at most `top` with (uncentred) second moment v:
    # Pr[sum >= t] <= exp(-(m v / top^2) h(top (t + m a) / (m v))). The exponent is convex in t, so
    # its tangent at t = 0, whose slope log(1 + top a / v) / top does not depend on m, bounds the
    # integral.
    a = np.expm1(eps)
    u = a * blanket.top / blanket.second_moment
    log_theta = -blanket.second_moment / blanket.top**2 * _bennett_h(u)
    log_front = np.log(blanket.top / (np.log1p(u) * blanket.gamma * n))
    return log_front + _log_expected_power(log_theta, n, blanket.gamma)


Inequality = Literal["hoeffding", "bennett"]


def blanket_log_delta(
    eps: ArrayLike, setting: Setting, inequality: Inequality, *, any_randomiser: bool = False
) -> Floats:
    """Return the log of an upper bound on delta by the privacy blanket and a tail inequality.

    With ``a = e - 1``, gamma the probability of the blanket, L as in `_Blanket`, and
    ``G(theta) = (1 - gamma + gamma theta)^n - (1 - gamma)^n``:

    * ``hoeffding``: ``w^2 / (4 a gamma n) G(exp(-2 a^2 / w^2))``, w the width of the range of L;
    * ``bennett``: ``b / (gamma n log(1+u)) G(exp(-v h(u) / b^2))``, b the largest value of L, v its
      second moment, ``h(u) = (1+u) log(1+u) - u`` and ``u = a b / v``.

    By default the bound is for k-RR: ``gamma = k/(E+k-1)``, ``w = gamma (E-1)(1+e)``,
    ``b = gamma (E-e)``, v exact. With `any_randomiser` it is for any eps0-LDP randomiser, with
    Balle et al.'s constants ``gamma = 1/E``, ``w = (1+e)(E-1/E)``, ``b = E - e/E``,
    ``v = E (1 + e^2) - 2 e / E^3``; the bound for k-RR with ``k = 2`` is sharper and as general,
    because the summand of 2-RR dominates that of every eps0-LDP randomiser in convex order.

    The setting has one round with n at least 2, and eps is at least 0; at 0 the bound is vacuous.
    Source: Balle et al., "The privacy blanket of the shuffle model" (2019), section 5.
    """
    eps = eps_values(eps)
    with np.errstate(all="ignore"):
        blanket = (_generic_blanket if any_randomiser else _krr_blanket)(eps, setting)
        value = (_hoeffding if inequality == "hoeffding" else _bennett)(eps, setting.n, blanket)
    # At eps = 0 the formula is 0/0 or infinite; the bound is vacuous.
    value = np.where(np.isnan(value), 0.0, value)
    return _as_log_delta(any_domain, value, eps, setting)
