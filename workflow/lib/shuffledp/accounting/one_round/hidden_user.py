"""The reduction of the upper bound at k = 3 if one other user is hidden from the weak adversary.

With three cells, either all others hold the third cell, and the divergence is known exactly, or at
least one of them holds x0 or x1. In the second case the adversary learns about every other user but
that one. This is still more than the analyst sees, so the divergence is an upper bound for the data
set.

Let M of the n-2 revealed users randomise; with the target and the hidden user T = M + 2 reports are
shuffled. The adversary of ``upper`` knows whether the hidden user randomised (T reports count, h)
or reported x0 truthfully (T - 1 count, h - e_0). Merging the two cases reduces the divergence by
sum min(|a|, |b|) over the outcomes where the differences a = P - e Q of the first case and b of the
second have opposite signs, because (a)_+ + (b)_+ - (a+b)_+ = min(|a|, |b|) there. Leaving out terms
makes the bound larger, which is safe. Derivation: docs/accounting.md.
"""

import numpy as np
from scipy.special import logsumexp

from shuffledp.accounting.laws.binomial import log_pmf, log_pmf_error
from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.numerics.arrays import UNIT, Floats

# Half-width of the windows in tilted standard deviations, and a margin. Terms outside the windows
# are left out of the reduction.
WINDOW_DEVIATIONS, WINDOW_MARGIN = 5.0, 3.0
# Largest number of evaluated counts of the other cell for each pair of counts.
MAX_STEPS = 8
# Relative error of the probabilities, in units of rounding.
INPUT_UNITS = 8.0


def _window(trials: int, share: float) -> Floats:
    half = WINDOW_DEVIATIONS * np.sqrt(trials * share * (1.0 - share)) + WINDOW_MARGIN
    first, last = np.floor(trials * share - half), np.ceil(trials * share + half)
    return np.arange(max(first, 0.0), min(last, float(trials)) + 1.0)


def log_loss(eps: float, setting: Setting, tilted: Floats, *, forward: bool) -> float:
    """Return the log of a lower bound on the reduction of delta by hiding one user, for k = 3.

    Parameters
    ----------
    eps, setting
        ``0 <= eps < eps0``, ``k = 3`` and ``n >= 2``.
    tilted
        Shares of the reports x0, x1, third cell and "truthful" where delta accumulates, shape (4,).
        The windows are centred there.
    forward
        Whether the hidden user holds the target's cell x0 rather than the alternative x1.

    Returns
    -------
    Natural logarithm; -inf if there is no term.
    """
    n, eps0 = setting.n, setting.eps0
    e, E_less, e_less = np.exp(eps), np.expm1(eps0), np.expm1(eps)
    _, q = probabilities(eps0, 3)
    total = _window(n, 1.0 - float(tilted[3]))
    own = _window(n, float(tilted[0 if forward else 1]))
    total, own = total[total >= 2.0], own[own >= 1.0]
    chances = (3.0 * q, E_less * q)
    log_told = log_pmf(total - 2.0, n - 2, *chances)
    log_told -= log_pmf_error(total - 2.0, n - 2, *chances, INPUT_UNITS)
    row, column = np.nonzero(own <= total[:, None])
    total, own, log_told = total[row], own[column], log_told[row]
    # `own` reports are in the hidden user's cell, `other` in the second one of x0 and x1. Up to a
    # common factor a = constant + slope * other, and b = a - shift.
    if forward:
        slope, shift = -e * E_less, e * np.expm1(eps0 - eps)
        constant = E_less * own - e_less * total
    else:
        slope, shift = E_less, -np.expm1(eps0 + eps)
        constant = -e * E_less * own - e_less * total
    start = np.floor(min(0.0, shift / slope) - constant / slope) + 1.0
    terms = []
    for step in range(min(int(abs(shift / slope)) + 1, MAX_STEPS)):
        other = start + step
        a = constant + slope * other
        between = np.sign(a) * np.sign(a - shift) < 0.0
        at = np.nonzero(between & (other >= 0.0) & (other <= total - own))[0]
        terms.append(
            log_told[at]
            + _log_uniform(own[at], other[at], total[at])
            + _log_merged(a[at], a[at] - shift, own[at], total[at], eps, eps0)
        )
    each = np.concatenate(terms)
    if not each.size:
        return -np.inf
    log_value = float(2.0 * np.log(3.0 * q) + logsumexp(each))
    # Rounding of pairwise sums, and of logarithms no larger than the result and the weights'.
    return log_value - UNIT * (200.0 + 8.0 * (abs(log_value) + 3.0 * eps0))


def _log_uniform(own: Floats, other: Floats, total: Floats) -> Floats:
    """Return the log probability of counts of reports uniform over three cells, rounded down."""
    rest = total - own
    value = log_pmf(own, total, 1.0 / 3.0, 2.0 / 3.0) + log_pmf(other, rest, 0.5, 0.5)
    error = log_pmf_error(own, total, 1.0 / 3.0, 2.0 / 3.0, 1.0)
    return np.asarray(value - error - log_pmf_error(other, rest, 0.5, 0.5, 0.0))


def _log_merged(
    a: Floats, b: Floats, own: Floats, total: Floats, eps: float, eps0: float
) -> Floats:
    """Return the log of the smaller of |a| and |b|, reduced by their possible rounding errors."""
    E_less = np.expm1(eps0)
    # Some 90 units of each term, and more because the weights are exponentials of up to 2 eps0.
    noise = (1e-14 + 4.0 * UNIT * eps0) * (np.exp(eps) * E_less + np.expm1(eps)) * total
    merged = np.minimum(
        (total - 1.0) * np.maximum(abs(a) - noise, 0.0),
        E_less * own * np.maximum(abs(b) - noise, 0.0),
    )
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(merged / (total * (total - 1.0))))
