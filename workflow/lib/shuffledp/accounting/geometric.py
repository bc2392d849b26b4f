"""Exact privacy of two-sided geometric noise on every cell of a histogram, truncated or not.

The noise z of a cell has law ``f(z)`` proportional to ``theta^|z - nu|``, ``z >= 0``,
``theta = exp(-budget / 2)``; without truncation nu is infinite. The record x0 or x1 of the target
adds 1 to one of two cells, whose counts beyond the other users' are (a, b):

    P(a, b) = f(a - 1) f(b),    Q(a, b) = f(a) f(b - 1).

``f(a - 1) / f(a)`` is ``theta`` for ``1 <= a <= nu`` and ``1 / theta`` above; so the loss
``log(P / Q)`` is infinite where b = 0, the budget where ``a > nu`` and ``1 <= b <= nu``, and at
most 0 elsewhere. Hence the divergence is a sum of two terms. Exchanging a and b gives the other
direction, and what all others hold plays no part.
"""

import numpy as np

from shuffledp.accounting.conventions import eps_values
from shuffledp.accounting.laws.multinomial import ZERO, LogInterval
from shuffledp.accounting.setting import SMALLEST_EPS0
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT


def check_budget(budget: float) -> None:
    """Refuse a budget of two-sided geometric noise that is below 1e-200, or infinite.

    Raises
    ------
    InputError
        If so: theta = exp(-budget / 2) must lie strictly between 0 and 1, and have its digits.
    """
    if not SMALLEST_EPS0 <= budget < np.inf:
        raise InputError(
            f"eps of geometric noise must be positive and finite, at least {SMALLEST_EPS0:g}, so "
            f"that theta = exp(-eps/2) lies strictly between 0 and 1 (got eps={budget})"
        )


def check_centre(nu: float) -> None:
    """Refuse a centre of truncated noise that is not whole and at least 0.

    Raises
    ------
    InputError
        If so.
    """
    if not (nu >= 0.0 and nu == np.floor(nu)):
        raise InputError(f"nu must be whole and at least 0, a number of dummies (got nu={nu})")


def geometric_noise(eps: float, budget: float, nu: float = np.inf) -> LogInterval:
    """Enclose the log of the exact delta of a histogram with two-sided geometric noise.

    For replacement of one record; both directions and all data sets alike.

    Parameters
    ----------
    eps
        At least 0.
    budget
        ``-2 log(theta)``, positive: the loss where nothing is truncated.
    nu
        Centre of the noise, whole and at least 0; inf where there is no truncation.

    Returns
    -------
    Ends some 1e-14 apart, relative to their size; both -inf where delta is 0.

    Raises
    ------
    InputError
        If an argument is out of range.
    """
    eps_values(eps)
    check_budget(budget)
    check_centre(nu)
    half = budget / 2.0
    depth = half * nu
    theta, log_rest = np.exp(-half), np.log(-np.expm1(-half))
    below = -np.expm1(-depth)  # 1 - theta^nu
    log_total = np.log1p(theta * below)
    never = -depth + log_rest - log_total
    terms = [never]
    if eps < budget and nu > 0.0:
        terms.append(np.log(below) + np.log(-np.expm1(eps - budget)) - 2.0 * log_total)
    value = min(float(np.logaddexp.reduce(terms)), 0.0)
    if value == -np.inf:
        return ZERO
    # All parts of a term have one sign and are right to a few units each, but for their size; a
    # term moves the sum by as much as it weighs.
    sizes = sum(abs(term) * np.exp(term - value) for term in terms if term > -np.inf)
    slack = float(UNIT * (64.0 + 8.0 * (sizes + abs(value))))
    return LogInterval(value - slack, min(value + slack, 0.0))
