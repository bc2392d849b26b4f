"""Composition theorems for ``rounds`` adaptive rounds that are each (step_eps, step_delta)-DP.

Basic, advanced (Dwork, Rothblum and Vadhan) and optimal (Kairouz, Oh and Viswanath) composition.
All arguments broadcast. Deltas are passed and returned as natural logs: ``log_delta`` is that of
the total delta, ``step_log_delta`` that of a round. Every result is an upper bound: eps is inf
where a delta cannot be reached, and the log of delta is at most 0. An `InputError` says that a
``step_eps`` is negative, a ``step_log_delta`` is positive, or ``rounds`` is not an integer >= 1.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from shuffledp.accounting.laws.binomial import log_pmf, log_tail_upper
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats

_MAX_BISECTIONS = 100
# Half-width of the window of a binomial sum: in standard deviations, plus a number of counts.
_WINDOW_DEVIATIONS = 40.0
_WINDOW_MARGIN = 200.0


def _checked(
    target: ArrayLike, step_eps: ArrayLike, step_log_delta: ArrayLike, rounds: ArrayLike
) -> list[Floats]:
    values = (target, step_eps, step_log_delta, rounds)
    arrays = list(np.broadcast_arrays(*(np.asarray(value, np.float64) for value in values)))
    _, eps, log_delta, count = arrays
    if not np.all(eps >= 0):
        raise InputError(f"step_eps must be >= 0, got {step_eps!r}")
    if not np.all(log_delta <= 0):
        raise InputError(f"step_log_delta must be <= 0, got {step_log_delta!r}")
    if not np.all((count >= 1) & (count == np.floor(count))):
        raise InputError(f"rounds must be an integer >= 1, got {rounds!r}")
    return arrays


def _log_difference(log_a: Floats, log_b: Floats) -> Floats:
    """Return ``log(exp(a) - exp(b))``, -inf where b >= a."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = log_a + np.log(-np.expm1(np.minimum(log_b - log_a, 0.0)))
    return np.where(log_b < log_a, value, -np.inf)


# --- Basic --------------------------------------------------------------------------------------


def basic_epsilon(
    log_delta: ArrayLike, step_eps: ArrayLike, step_log_delta: ArrayLike, rounds: ArrayLike
) -> Floats:
    """Return the total eps by basic composition, ``rounds * step_eps``.

    The result is inf where the total delta is below ``rounds * step_delta``.
    """
    log_delta, step_eps, step_log_delta, rounds = _checked(
        log_delta, step_eps, step_log_delta, rounds
    )
    reached = np.minimum(step_log_delta + np.log(rounds), 0.0) <= log_delta
    return np.where(reached, rounds * step_eps, np.inf)


# --- Advanced -----------------------------------------------------------------------------------


def advanced_epsilon(
    log_delta: ArrayLike, step_eps: ArrayLike, step_log_delta: ArrayLike, rounds: ArrayLike
) -> Floats:
    """Return the total eps by advanced composition.

    It is ``step_eps sqrt(2 rounds log(1/slack)) + rounds step_eps (exp(step_eps) - 1)``, where
    ``slack = delta - rounds * step_delta``, and inf where the slack is not positive.

    Source: Dwork, Rothblum and Vadhan (2010); Dwork and Roth (2014), Theorem 3.20, as used in
    paper C.
    """
    log_delta, step_eps, step_log_delta, rounds = _checked(
        log_delta, step_eps, step_log_delta, rounds
    )
    log_slack = _log_difference(np.minimum(log_delta, 0.0), step_log_delta + np.log(rounds))
    with np.errstate(invalid="ignore", over="ignore"):
        spread = step_eps * np.sqrt(-2.0 * rounds * log_slack)
        value = spread + rounds * step_eps * np.expm1(step_eps)
    return np.where(np.isneginf(log_slack), np.inf, value)


def advanced_log_delta(
    eps: ArrayLike, step_eps: ArrayLike, step_log_delta: ArrayLike, rounds: ArrayLike
) -> Floats:
    """Return the log of the least delta at which :func:`advanced_epsilon` gives at most ``eps``."""
    eps, step_eps, step_log_delta, rounds = _checked(eps, step_eps, step_log_delta, rounds)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        spread = eps - rounds * step_eps * np.expm1(step_eps)
        log_slack = np.where(spread > 0, -0.5 * (spread / step_eps) ** 2 / rounds, 0.0)
    return np.minimum(np.logaddexp(log_slack, step_log_delta + np.log(rounds)), 0.0)


# --- Optimal ------------------------------------------------------------------------------------


def _log_failures(step_log_delta: Floats, rounds: Floats) -> tuple[Floats, Floats]:
    """Return the log probabilities that at least one round fails outright, and that none does."""
    union = step_log_delta + np.log(rounds)
    with np.errstate(divide="ignore"):
        log_survival = rounds * np.log1p(-np.exp(step_log_delta))
        exact = np.log(-np.expm1(log_survival))
    # The union bound does not underflow, and agrees with the exact value to all digits if small.
    return np.where(union < -40.0, union, exact), log_survival


def _kov_log_divergence(eps: float, step_eps: float, rounds: float) -> float:
    """Return the log hockey-stick divergence of ``rounds`` binary randomised responses.

    It is ``sum_j Pr[j] (1 - exp(eps - (2j - rounds) step_eps))_+`` with
    ``j ~ Bin(rounds, sigmoid(step_eps))``.
    """
    if eps >= rounds * step_eps:
        return -np.inf
    p = 1.0 / (1.0 + np.exp(-step_eps))
    first = np.floor((eps / step_eps + rounds) / 2.0) + 1.0
    deviation = np.sqrt(rounds * p * (1.0 - p))
    reach = _WINDOW_DEVIATIONS * deviation + _WINDOW_MARGIN
    low = max(first, np.floor(rounds * p - reach))
    high = min(rounds, np.ceil(max(first, rounds * p) + reach))
    j = np.arange(low, high + 1.0)
    with np.errstate(divide="ignore"):
        gain = np.log(-np.expm1(np.minimum(eps - (2.0 * j - rounds) * step_eps, 0.0)))
        inside = logsumexp(log_pmf(j, rounds, p) + gain)
    # Outcomes outside the window count in full, so that the result is an upper bound.
    outside = [float(log_tail_upper(high + 1.0, rounds, p))] if high < rounds else []
    if low > first:
        outside.append(float(log_tail_upper(rounds - low + 1.0, rounds, 1.0 - p)))
    return float(min(logsumexp([inside, *outside]), 0.0))


_log_divergences = np.vectorize(_kov_log_divergence, otypes=[np.float64])


def kov_log_delta(
    eps: ArrayLike, step_eps: ArrayLike, step_log_delta: ArrayLike, rounds: ArrayLike
) -> Floats:
    """Return the log of the least delta for which ``rounds`` rounds are (eps, delta)-DP.

    It is ``1 - (1 - step_delta)^rounds (1 - D(eps))``, where D is the hockey-stick divergence of
    ``rounds`` randomised responses on one bit. No smaller delta holds for every mechanism.

    Source: Kairouz, Oh and Viswanath, "The composition theorem for differential privacy" (2015),
    Theorem 3.3.
    """
    eps, step_eps, step_log_delta, rounds = _checked(eps, step_eps, step_log_delta, rounds)
    log_failure, log_survival = _log_failures(step_log_delta, rounds)
    log_divergence = _log_divergences(eps, step_eps, rounds)
    value = np.minimum(np.logaddexp(log_failure, log_survival + log_divergence), 0.0)
    return np.where(eps >= 0, value, 0.0)


def kov_epsilon(
    log_delta: ArrayLike, step_eps: ArrayLike, step_log_delta: ArrayLike, rounds: ArrayLike
) -> Floats:
    """Return the smallest eps at which :func:`kov_log_delta` is at most ``log_delta``.

    The result is inf where even ``rounds * step_eps`` needs a larger delta, ``1 - (1 -
    step_delta)^rounds``.
    """
    log_delta, step_eps, step_log_delta, rounds = _checked(
        log_delta, step_eps, step_log_delta, rounds
    )
    # The upper end always satisfies the inequality: the result is rounded up.
    low, high = np.zeros_like(step_eps), rounds * step_eps
    reachable = kov_log_delta(high, step_eps, step_log_delta, rounds) <= log_delta
    at_zero = kov_log_delta(low, step_eps, step_log_delta, rounds) <= log_delta
    for _ in range(_MAX_BISECTIONS):
        middle = 0.5 * (low + high)
        holds = kov_log_delta(middle, step_eps, step_log_delta, rounds) <= log_delta
        low, high = np.where(holds, low, middle), np.where(holds, middle, high)
        if np.all(high - low <= 1e-13 * high):
            break
    return np.where(reachable, np.where(at_zero, 0.0, high), np.inf)
