"""The divergence of the count of one bin, which paper A (Theorem IV.1, eqs. 6 and 10) bounds.

It is no privacy guarantee, because the analyst sees the whole histogram. It is a lower bound on the
divergence of the histogram, and equal to it for k = 2. The divergence follows from how fast the law
of the other users' count falls (`laws.binomial_sum`).
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.conventions import eps_values, over_eps_of_one_round
from shuffledp.accounting.laws.binomial_sum import Chance, log_falling_tail
from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.numerics.arrays import UNIT, Floats, Integers

Direction = Literal["forward", "backward", "both"]

# Counts that are evaluated in each step of the search for the worst count.
COUNTS_PER_STEP = 65


def channel(setting: Setting) -> tuple[Chance, Chance]:
    """Return the probabilities that a user who holds x0, or another cell, reports x0."""
    p, q = probabilities(setting.eps0, setting.k)
    k = setting.k
    return Chance(p, (k - 1) * q), Chance(q, float((np.expm1(setting.eps0) + k - 1) * q))


def falling_ends(
    gain: float, excess: float, *parts: tuple[ArrayLike, Chance]
) -> tuple[Floats, Floats]:
    """Enclose ``log sum_s (P - e Q)_+``, ``P - e Q = gain (f(s - 1) - (1 + excess) f(s))``.

    Parameters
    ----------
    gain, excess
        Coefficients of the formula, positive.
    parts
        Numbers of trials, any shape, and the probability of each binomial; f is the law of their
        sum.
    """
    if gain <= 0.0:
        nothing = np.full(np.broadcast_shapes(*(np.shape(n) for n, _ in parts)), -np.inf)
        return nothing, nothing
    value, error = log_falling_tail(excess / gain, *parts)
    known = error < np.inf
    value, error = value + np.log(gain), error + 8.0 * UNIT  # the gain has a few roundings
    with np.errstate(invalid="ignore"):
        low, high = value - error, value + error
    return np.where(known, low, -np.inf), np.where(known, high, 0.0)


def forward_ends(
    eps: float, setting: Setting, users: ArrayLike, counts: ArrayLike
) -> tuple[Floats, Floats]:
    """Enclose the log divergence of x0's count, for a target in x0 against one in another cell.

    Parameters
    ----------
    eps
        At least 0.
    setting
        Setting whose k and eps0 are used.
    users, counts
        Numbers of users, and of others among them who hold x0; broadcast, any shape.

    Returns
    -------
    Certified lower and upper ends, natural logarithms.
    """
    counts = np.asarray(counts)
    others = np.asarray(users) - 1 - counts
    high, low = channel(setting)
    if eps >= setting.eps0:
        nothing = np.full(np.broadcast_shapes(counts.shape, others.shape), -np.inf)
        return nothing, nothing
    gain = low.p * float(np.exp(eps) * np.expm1(setting.eps0 - eps))
    return falling_ends(gain, float(np.expm1(eps)), (counts, high), (others, low))


def _backward_low(eps: float, setting: Setting, counts: Integers) -> Floats:
    """Return the lower end with the two laws exchanged, for the n users of the setting."""
    others = setting.n - 1 - counts
    if setting.k == 2:
        # The mirror image has a form without cancellation.
        return forward_ends(eps, setting, setting.n, others)[0]
    high, low = channel(setting)
    excess = float(np.expm1(eps))
    minuend, subtrahend = float(np.expm1(setting.eps0)), (setting.k - 1) * excess
    # The divergence grows with the gain, so the rounding of the difference is subtracted from it.
    gain = low.p * (minuend - subtrahend - 8.0 * UNIT * (minuend + subtrahend))
    # Counting the reports of other cells exchanges the roles of the two laws.
    return falling_ends(gain, excess, (others, low.complement), (counts, high.complement))[0]


def log_delta(
    eps: ArrayLike, setting: Setting, counts: ArrayLike, direction: Direction = "both"
) -> Floats:
    """Return the log hockey-stick divergence of bin x0's count (paper A, eqs. 6, 10, corrected).

    It is rounded down by a running error bound of about 1e-13 relative (docs/accounting.md).

    Parameters
    ----------
    eps
        Privacy parameter, at least 0.
    setting
        Setting of one round; its count is not used.
    counts
        Numbers of the other ``n - 1`` users who hold x0; broadcast with eps, any shape.
    direction
        ``forward`` compares a target that holds x0 with one that holds another cell, ``backward``
        is the reverse (which paper A omits), and ``both`` is the maximum.

    Returns
    -------
    Natural logarithms of the broadcast shape; -inf where delta is 0.

    Raises
    ------
    InputError
        If an eps is negative or a count is outside ``0..n-1``.
    """
    setting.require_one_round()
    values, counts = np.broadcast_arrays(eps_values(eps), setting.checked_counts(counts))
    result = np.full(values.shape, -np.inf)
    for value in np.unique(values[values < setting.eps0]):
        here = values == value
        if direction != "backward":
            result[here] = forward_ends(float(value), setting, setting.n, counts[here])[0]
        if direction != "forward":
            backward = _backward_low(float(value), setting, counts[here])
            result[here] = np.maximum(result[here], backward)
    return result


@over_eps_of_one_round
def worst_count_log_delta(eps: float, setting: Setting) -> float:
    """Return the log divergence of one bin's count at the worst count found, rounded down.

    It is paper A's eq. (10) in both directions, with the worst number of other users in the
    target's cell instead of that of a data set. No guarantee for shuffled k-RR can be smaller. eps
    has any shape, and ``setting.count`` is not used. Errors as for `log_delta`.
    """
    counts = np.unique(np.linspace(0, setting.n - 1, COUNTS_PER_STEP).astype(np.int64))
    while True:
        values = log_delta(eps, setting, counts)
        best = int(np.argmax(values))
        low, high = counts[max(best - 1, 0)], counts[min(best + 1, counts.size - 1)]
        if high - low <= 2 or values[best] == -np.inf:
            return float(values[best])
        finer = np.linspace(low, high, COUNTS_PER_STEP).astype(np.int64)
        counts = np.unique(np.append(finer, counts[best]))
