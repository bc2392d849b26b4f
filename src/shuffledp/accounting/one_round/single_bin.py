"""Hockey-stick divergence of the count of a single bin (paper A, Theorem IV.1, eqs. 6 and 10).

The count of bin x0 is the number of users who report cell x0. Its divergence is a lower bound on
that of the histogram, which the analyst sees, and equal to it for k = 2; for larger k it is no
privacy guarantee. The count is the target's report plus a sum of two binomials, one for the other
users in x0 and one for those in other cells. The law f of this sum determines the divergence
(`laws.binomial_sum`).
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.conventions import eps_values, over_eps_of_one_round
from shuffledp.accounting.laws.binomial_sum import Chance, log_shift_divergence
from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.numerics.arrays import UNIT, Floats, Integers

Direction = Literal["forward", "backward", "both"]

# Number of counts that each step of the search for the worst count evaluates.
COUNTS_PER_STEP = 65


def channel(setting: Setting) -> tuple[Chance, Chance]:
    """Return the probabilities that a user in x0, and a user in another cell, report x0."""
    p, q = probabilities(setting.eps0, setting.k)
    k = setting.k
    return Chance(p, (k - 1) * q), Chance(q, float((np.expm1(setting.eps0) + k - 1) * q))


def log_divergence_ends(
    gain: float, gain_units: float, excess: float, *parts: tuple[ArrayLike, Chance]
) -> tuple[Floats, Floats]:
    """Return certified ends of ``log sum_s (gain (f(s - 1) - f(s)) - excess f(s))_+``.

    f is the law of the sum of independent binomials, and ``parts`` has their numbers of trials, any
    shape, and their probabilities of success. The sum is 0 if ``gain <= 0`` and at most 1. The gain
    may be wrong by ``gain_units`` units of rounding (relative).
    """
    if gain <= 0.0:
        zero = np.full(np.broadcast_shapes(*(np.shape(n) for n, _ in parts)), -np.inf)
        return zero, zero
    value, error = log_shift_divergence(excess / gain, gain_units + 4.0, *parts)
    bounded = error < np.inf
    value = value + np.log(gain)  # neither term is positive, apart from rounding
    with np.errstate(invalid="ignore"):
        error = error + UNIT * (8.0 + gain_units + 4.0 * np.abs(value))
        low, high = np.minimum(value - error, 0.0), np.minimum(value + error, 0.0)
    return np.where(bounded, low, -np.inf), np.where(bounded, high, 0.0)


def forward_ends(
    eps: float, setting: Setting, users: ArrayLike, counts: ArrayLike
) -> tuple[Floats, Floats]:
    """Return ends of the log divergence of x0's count: P has the target in x0, Q in another cell.

    ``users`` are total numbers of users, which replace the setting's n, and ``counts`` numbers of
    other users in x0; they are broadcast.
    """
    counts = np.asarray(counts)
    others = np.asarray(users) - 1 - counts
    inside, outside = channel(setting)
    if eps >= setting.eps0:
        zero = np.full(np.broadcast_shapes(counts.shape, others.shape), -np.inf)
        return zero, zero
    gain = outside.p * float(np.exp(eps) * np.expm1(setting.eps0 - eps))
    # Rounding of eps0 - eps changes its exponential by up to eps0 units of rounding.
    units = 8.0 + setting.eps0
    return log_divergence_ends(
        gain, units, float(np.expm1(eps)), (counts, inside), (others, outside)
    )


def _backward_low(eps: float, setting: Setting, counts: Integers) -> Floats:
    """Return the lower end of the log divergence with P and Q of `forward_ends` exchanged."""
    others = setting.n - 1 - counts
    if setting.k == 2:
        # Exchanging the two cells instead avoids cancellation.
        return forward_ends(eps, setting, setting.n, others)[0]
    inside, outside = channel(setting)
    excess = float(np.expm1(eps))
    minuend, subtrahend = float(np.expm1(setting.eps0)), (setting.k - 1) * excess
    # The divergence grows with the gain, so the gain is rounded down.
    gain = outside.p * (minuend - subtrahend - 8.0 * UNIT * (minuend + subtrahend))
    # Counting the reports of other cells than x0 exchanges the roles of P and Q.
    parts = (others, outside.complement), (counts, inside.complement)
    return log_divergence_ends(gain, 8.0, excess, *parts)[0]


def log_delta(
    eps: ArrayLike, setting: Setting, counts: ArrayLike, direction: Direction = "both"
) -> Floats:
    """Return the log hockey-stick divergence of bin x0's count (paper A, eqs. 6, 10, corrected).

    It is rounded down by an error bound of about 1e-13 (relative; docs/accounting.md).

    Parameters
    ----------
    eps
        Central budget, at least 0, any shape.
    setting
        Setting of one round; ``setting.count`` is not used.
    counts
        Numbers of the other ``n - 1`` users who hold x0; broadcast with eps.
    direction
        ``"forward"``: P has the target in x0 and Q in another cell. ``"backward"``: the reverse,
        which paper A omits. ``"both"``: the maximum.

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
        equal = values == value
        if direction != "backward":
            result[equal] = forward_ends(float(value), setting, setting.n, counts[equal])[0]
        if direction != "forward":
            backward = _backward_low(float(value), setting, counts[equal])
            result[equal] = np.maximum(result[equal], backward)
    return result


@over_eps_of_one_round
def worst_count_log_delta(eps: float, setting: Setting) -> float:
    """Return the log divergence of one bin's count for the worst data set found, rounded down.

    It is paper A's eq. (10), in both directions. The search is over the number of other users in
    the target's cell. The result is a lower bound on log delta of shuffled k-RR. Parameters and
    errors are those of `log_delta`.
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
