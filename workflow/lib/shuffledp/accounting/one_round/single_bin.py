"""The divergence of the count of one bin, which paper A (Theorem IV.1, eqs. 6 and 10) bounds.

It is no privacy guarantee, because the analyst sees the whole histogram. It is a lower bound on
what the histogram leaks, and exact for k = 2. The divergence is determined by how fast the tilted
law of the other users' count falls (`laws.binomial_sum`).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from shuffledp.accounting.conventions import eps_values, over_eps_of_one_round
from shuffledp.accounting.laws.binomial_sum import Chance, log_falling_tail
from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.numerics.arrays import UNIT, Floats, Integers

Direction = Literal["forward", "backward", "both"]

WINDOW_DEVIATIONS = 9.3  # tilted standard deviations on each side; they leave out about 1e-20
WINDOW_MARGIN = 20.0
MAX_DIRECT_PRODUCTS = 4_000_000  # up to this many products the exact convolution is used
COUNTS_PER_STEP = 65  # counts that each step of the search for the worst count evaluates


@dataclass(frozen=True)
class _Window:
    """Binomial probabilities from ``start`` on, where they exceed 1e-20."""

    start: int
    mass: Floats

    @property
    def values(self) -> Floats:
        return self.start + np.arange(self.mass.size, dtype=np.float64)


def _channel(setting: Setting) -> tuple[Chance, Chance]:
    """Return the probabilities that a holder of x0, and of another cell, reports x0."""
    p, q = probabilities(setting.eps0, setting.k)
    k = setting.k
    return Chance(p, (k - 1) * q), Chance(q, float((np.expm1(setting.eps0) + k - 1) * q))


def _binomial(n: int, chance: Chance) -> _Window:
    p, q = chance.p, chance.q
    if n == 0 or q <= 0.0:  # a tilt near eps0 can round q to 0
        return _Window(n, np.ones(1))
    half = WINDOW_DEVIATIONS * np.sqrt(n * p * q) + WINDOW_MARGIN
    start = max(int(np.floor(n * p - half)), 0)
    stop = min(int(np.ceil(n * p + half)), n)
    mode = min(max(int((n + 1) * p), start), stop)
    x = np.arange(start, stop + 1.0)
    # Multiplying ratios of neighbours from the mode outwards is ten times faster than log_pmf.
    ratios = (n - x[:-1]) / x[1:] * (p / q)
    mass = np.ones(x.size)
    mass[mode - start + 1 :] = np.cumprod(ratios[mode - start :])
    mass[: mode - start] = np.cumprod(1.0 / ratios[: mode - start][::-1])[::-1]
    return _Window(start, mass / mass.sum())


def _convolve(x: Floats, y: Floats) -> Floats:
    if x.size * y.size <= MAX_DIRECT_PRODUCTS:
        return np.convolve(x, y)
    size = x.size + y.size - 1
    padded = scipy.fft.next_fast_len(size, real=True)
    # Accurate to 1e-16 of the mode, around which the tilted sums are concentrated.
    product = scipy.fft.rfft(x, padded) * scipy.fft.rfft(y, padded)
    return np.asarray(scipy.fft.irfft(product, padded)[:size])


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
    """Enclose the log divergence of x0's count for a holder of x0 against a holder of another cell.

    Parameters
    ----------
    eps
        At least 0.
    setting
        Only k and eps0 are used.
    users, counts
        Numbers of users, and of others among them who hold x0; broadcast, any shape.

    Returns
    -------
    Certified lower and upper ends, natural logarithms.
    """
    counts = np.asarray(counts)
    others = np.asarray(users) - 1 - counts
    high, low = _channel(setting)
    if eps >= setting.eps0:
        nothing = np.full(np.broadcast_shapes(counts.shape, others.shape), -np.inf)
        return nothing, nothing
    gain = low.p * float(np.exp(eps) * np.expm1(setting.eps0 - eps))
    return falling_ends(gain, float(np.expm1(eps)), (counts, high), (others, low))


def _backward_low(eps: float, setting: Setting, counts: Integers) -> Floats:
    """Return the lower end with the two laws exchanged, for all users of the setting."""
    others = setting.n - 1 - counts
    if setting.k == 2:
        # The mirror image has a form without cancellation.
        return forward_ends(eps, setting, setting.n, others)[0]
    high, low = _channel(setting)
    excess = float(np.expm1(eps))
    all_, lost = float(np.expm1(setting.eps0)), (setting.k - 1) * excess
    # The divergence grows with the gain, so the rounding of the difference is subtracted from it.
    gain = low.p * (all_ - lost - 8.0 * UNIT * (all_ + lost))
    # Counting the reports that are not x0 exchanges the roles of the two laws.
    return falling_ends(gain, excess, (others, low.complement), (counts, high.complement))[0]


def log_delta(
    eps: ArrayLike, setting: Setting, counts: ArrayLike, direction: Direction = "both"
) -> Floats:
    """Return the log hockey-stick divergence of bin x0's count (paper A, eqs. 6, 10, corrected).

    It is rounded down by a running error bound (docs/accounting.md), some 1e-13 of delta.

    Parameters
    ----------
    eps
        Privacy parameter, at least 0.
    setting
        One round; its own count is not used.
    counts
        Numbers of the other ``n - 1`` users who hold x0; broadcast with eps, any shape.
    direction
        ``forward`` compares a user holding x0 with one holding another cell, ``backward`` the
        reverse (which paper A omits), ``both`` takes the larger.

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
    found = np.full(values.shape, -np.inf)
    for one in np.unique(values[values < setting.eps0]):
        here = values == one
        if direction != "backward":
            found[here] = forward_ends(float(one), setting, setting.n, counts[here])[0]
        if direction != "forward":
            backward = _backward_low(float(one), setting, counts[here])
            found[here] = np.maximum(found[here], backward)
    return found


def log_delta_as_printed(eps: ArrayLike, setting: Setting, counts: ArrayLike) -> Floats:
    """Return paper A's Theorem IV.1 exactly as printed, to reproduce its tables; no guarantee.

    The printed privacy loss averages the square of ``(s - r) / (n - count)`` where the correct one
    averages its first power. Delta comes out too small, by many orders of magnitude at small eps.

    Parameters
    ----------
    eps, setting, counts
        As for `log_delta`, as are the return value and the errors.
    """
    setting.require_one_round()
    values, counts = np.broadcast_arrays(eps_values(eps), setting.checked_counts(counts))
    results = [
        -np.inf if e >= setting.eps0 else _log_as_printed(float(e), setting, int(count))
        for e, count in zip(values.ravel(), counts.ravel(), strict=True)
    ]
    return np.array(results, np.float64).reshape(values.shape)


def _log_as_printed(eps: float, setting: Setting, m: int) -> float:
    n, k, eps0 = setting.n, setting.k, setting.eps0
    high, low = _channel(setting)
    kappa2 = (k - 1.0) / (np.expm1(eps0) + k - 1.0)
    # The loss exceeds eps about where the mean square of (s - r) / (n - m) reaches this.
    gap = np.expm1(eps0) / (
        np.expm1(eps0) + k - 1.0
    )  # 1 - kappa2, accurate even for the smallest eps0
    share = np.sqrt((np.expm1(eps) + gap) / (np.expm1(eps0) + gap))
    kappa = share / (1.0 - share) * low.q / low.p
    theta = np.log(kappa)
    total = high.q + kappa * high.p
    same = _binomial(m, Chance(kappa * high.p / total, high.q / total))
    different = _binomial(n - m, Chance(share, 1.0 - share))
    fraction = different.values / (n - m)
    law = _convolve(same.mass, different.mass)
    square = _convolve(same.mass, different.mass * fraction**2)
    start = same.start + different.start
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.log(kappa2 + (np.exp(eps0) - kappa2) * square / law)
    others = _binomial(n - 1 - m, Chance(share, 1.0 - share))
    count = _convolve(same.mass, others.mass)
    shift = same.start + others.start
    # P(s) = p f(s - 1) + (1 - p) f(s), with the tilt's exp(-theta s) kept apart.
    target = np.zeros(count.size + 1)
    target[1:] += high.p * kappa * count
    target[:-1] += high.q * count
    s = np.arange(max(start, shift), min(start + law.size, shift + target.size))
    loss, target = loss[s - start], target[s - shift]
    counted = np.isfinite(loss) & (loss > eps)
    # The loss grows with s and, by the choice of tilt, exceeds eps near the mode. Far below, where
    # the transforms of long laws consist of rounding errors, it may seem to exceed eps again.
    mode = min(max(int(np.argmax(law)) + start - int(s[0]), 0), s.size - 1)
    below = np.flatnonzero(~counted[: mode + 1])
    counted[: below[-1] if below.size else 0] = False
    if not counted.any():
        return -np.inf
    s, loss, target = s[counted], loss[counted], target[counted]
    total = (target * -np.expm1(eps - loss) * np.exp(-theta * (s - s[0]))).sum()
    log_moment = m * np.log1p(high.p * (kappa - 1.0))
    log_moment += (n - 1 - m) * np.log1p(low.p * (kappa - 1.0))
    return float(log_moment - theta * s[0] + np.log(total))


@over_eps_of_one_round
def worst_count_log_delta(eps: float, setting: Setting) -> float:
    """Return the log divergence of one bin's count at the worst count found, rounded down.

    This is paper A's eq. (10) over every number of other users in the target's cell instead of the
    numbers of a data set, in both directions. It is a lower bound on the privacy of shuffled k-RR:
    no guarantee can be smaller. ``setting.count`` is not used; eps has any shape. Errors as for
    `log_delta`.
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
