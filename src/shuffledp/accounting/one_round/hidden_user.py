"""Reduction of the upper bound for k = 3 by an adversary who knows less about one other user.

For k = 3, either all other users hold the third cell, and delta is known, or at least one of them
holds one of the target's cells x0 and x1. In the second case, hide one such user. The weak
adversary (`pairs.weak_adversary`) learns for each of the other users whether that user randomised,
that is, reported a uniform cell. The adversary of this module learns this for n - 2 of them, but
not for the hidden user. The real analyst sees less than both, so the divergence is still an upper
bound for the data set.

If M of these n - 2 users randomise, this adversary sees the histogram h of T = M + 2 reports, with
those of the target and of the hidden user. The weak adversary also knows whether the hidden user
randomised or truthfully reported, say, x0; in the latter case the T - 1 other reports remain, with
histogram h minus one report of x0. Let a and b be P - e^eps Q in these two cases. Merging them
reduces the divergence by min(|a|, |b|) at each outcome where a and b have opposite signs, because
there (a)_+ + (b)_+ - (a + b)_+ = min(|a|, |b|). Omitting outcomes here makes the bound larger.
"""

import numpy as np
from scipy.special import logsumexp

from shuffledp.accounting.laws.binomial import log_pmf, log_pmf_error
from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.numerics.arrays import UNIT, Floats

# Half-width of truncation windows of counts: standard deviations, and a margin. Terms outside them
# are left out of the reduction.
WINDOW_DEVIATIONS, WINDOW_MARGIN = 5.0, 3.0
# Largest number of values of `other` that are evaluated for each pair of `total` and `own`.
MAX_STEPS = 8
# Relative error of the probabilities, in units of rounding.
INPUT_UNITS = 8.0


def _window(trials: int, share: float) -> Floats:
    half_width = WINDOW_DEVIATIONS * np.sqrt(trials * share * (1.0 - share)) + WINDOW_MARGIN
    first, last = np.floor(trials * share - half_width), np.ceil(trials * share + half_width)
    return np.arange(max(first, 0.0), min(last, float(trials)) + 1.0)


def log_reduction(eps: float, setting: Setting, shares: Floats, *, forward: bool) -> float:
    """Return the log of a lower bound on the reduction of delta by hiding one user, for k = 3.

    Parameters
    ----------
    eps, setting
        ``0 <= eps < eps0``, ``k = 3`` and ``n >= 2``.
    shares
        Typical shares of uniform reports in x0, x1 and the third cell, and of truthful reports,
        among the outcomes that contribute to delta (`tilted_shares`); shape (4,). The truncation
        windows are centred at these.
    forward
        Whether the hidden user holds x0 (True) or x1 (False).

    Returns
    -------
    Natural logarithm; -inf if no outcome in the windows reduces delta.
    """
    n, eps0 = setting.n, setting.eps0
    e, expm1_eps0, expm1_eps = np.exp(eps), np.expm1(eps0), np.expm1(eps)
    _, q = probabilities(eps0, 3)
    # Of the `total` reports in h, `own` are in the hidden user's cell, and `other` in the other one
    # of x0 and x1.
    total = _window(n, 1.0 - float(shares[3]))
    own = _window(n, float(shares[0 if forward else 1]))
    total, own = total[total >= 2.0], own[own >= 1.0]
    chances = (3.0 * q, expm1_eps0 * q)  # of randomising, and of reporting the truth
    log_total_pmf = log_pmf(total - 2.0, n - 2, *chances)
    log_total_pmf -= log_pmf_error(total - 2.0, n - 2, *chances, INPUT_UNITS)
    row, column = np.nonzero(own <= total[:, None])
    total, own, log_total_pmf = total[row], own[column], log_total_pmf[row]
    # Up to positive factors, which `_log_merged` restores, a and b of the module's docstring are
    # constant + slope * other and constant + slope * other - shift.
    if forward:
        slope, shift = -e * expm1_eps0, e * np.expm1(eps0 - eps)
        constant = expm1_eps0 * own - expm1_eps * total
    else:
        slope, shift = expm1_eps0, -np.expm1(eps0 + eps)
        constant = -e * expm1_eps0 * own - expm1_eps * total
    start = np.floor(min(0.0, shift / slope) - constant / slope) + 1.0
    terms = []
    for step in range(min(int(abs(shift / slope)) + 1, MAX_STEPS)):
        other = start + step
        a = constant + slope * other
        opposite_signs = np.sign(a) * np.sign(a - shift) < 0.0
        used = np.nonzero(opposite_signs & (other >= 0.0) & (other <= total - own))[0]
        terms.append(
            log_total_pmf[used]
            + _log_uniform(own[used], other[used], total[used])
            + _log_merged(a[used], a[used] - shift, own[used], total[used], eps, eps0)
        )
    log_terms = np.concatenate(terms)
    if not log_terms.size:
        return -np.inf
    log_value = float(2.0 * np.log(3.0 * q) + logsumexp(log_terms))
    # Rounding errors of the sum, and of adding logarithms. The absolute values of these logarithms
    # are at most |log_value| + 3 eps0, where 3 eps0 is for the factors of a and b.
    return log_value - UNIT * (200.0 + 8.0 * (abs(log_value) + 3.0 * eps0))


def _log_uniform(own: Floats, other: Floats, total: Floats) -> Floats:
    """Return the log probability of these counts of uniform reports in three cells, rounded down.

    ``total`` reports are uniform over the cells; ``own`` and ``other`` are counts of two cells.
    """
    rest = total - own
    value = log_pmf(own, total, 1.0 / 3.0, 2.0 / 3.0) + log_pmf(other, rest, 0.5, 0.5)
    error = log_pmf_error(own, total, 1.0 / 3.0, 2.0 / 3.0, 1.0)
    return np.asarray(value - error - log_pmf_error(other, rest, 0.5, 0.5, 0.0))


def _log_merged(
    a: Floats, b: Floats, own: Floats, total: Floats, eps: float, eps0: float
) -> Floats:
    """Return the log of the smaller of |a| and |b|, each times its own factor, rounded down.

    The factors are ``1 / total`` and ``(exp(eps0) - 1) own / (total (total - 1))``.
    """
    expm1_eps0 = np.expm1(eps0)
    # About 90 units of rounding of each term, and 4 eps0 more for the exponentials in the weights.
    error = (1e-14 + 4.0 * UNIT * eps0) * (np.exp(eps) * expm1_eps0 + np.expm1(eps)) * total
    merged = np.minimum(
        (total - 1.0) * np.maximum(abs(a) - error, 0.0),
        expm1_eps0 * own * np.maximum(abs(b) - error, 0.0),
    )
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(merged / (total * (total - 1.0))))
