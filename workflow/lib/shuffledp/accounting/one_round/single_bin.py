"""Divergence of the count of one bin: what paper A (Theorem IV.1, eqs. 6 and 10) bounds.

Not a privacy guarantee: the analyst sees the whole histogram, of which one bin is a part. It is a
lower bound on what the histogram leaks, and the only thing leaked when k = 2.

All sums follow the law of the others' count tilted so that its mode lies at the threshold of the
privacy loss; there every quantity is of order one, however small delta is.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from shuffledp.accounting.laws.binomial import log_pmf
from shuffledp.arrays import Floats

Direction = Literal["forward", "backward", "both"]

_WIDTH = 9.3  # tilted standard deviations on each side: leaves out about 1e-20
_MARGIN = 20.0
_DIRECT = 4_000_000  # products up to which the exact convolution is used


@dataclass(frozen=True)
class _Window:
    """Binomial mass from ``start`` on, where it exceeds 1e-20."""

    start: int
    mass: Floats

    @property
    def values(self) -> Floats:
        return self.start + np.arange(self.mass.size, dtype=np.float64)


@dataclass(frozen=True)
class _Chance:
    """A probability with its complement: neither may come from a difference."""

    p: float
    q: float

    def tilted(self, kappa: float) -> "_Chance":
        total = self.q + kappa * self.p
        return _Chance(kappa * self.p / total, self.q / total)

    @property
    def complement(self) -> "_Chance":
        return _Chance(self.q, self.p)


def _channel(eps0: float, k: int) -> tuple[_Chance, _Chance]:
    """Chances that a holder of x0, and of another cell, reports x0."""
    q = 1.0 / (np.expm1(eps0) + k)
    return (
        _Chance(float(np.exp(eps0) * q), (k - 1) * q),
        _Chance(q, float((np.expm1(eps0) + k - 1) * q)),
    )


def _binomial(n: int, chance: _Chance) -> _Window:
    p, q = chance.p, chance.q
    if n == 0 or q <= 0.0:  # a tilt near eps0 can round q to 0
        return _Window(n, np.ones(1))
    half = _WIDTH * np.sqrt(n * p * q) + _MARGIN
    start = max(int(np.floor(n * p - half)), 0)
    stop = min(int(np.ceil(n * p + half)), n)
    mode = min(max(int((n + 1) * p), start), stop)
    x = np.arange(start, stop + 1.0)
    # Ratios of neighbours from the mode outwards: ten times faster than a log_pmf per value.
    ratios = (n - x[:-1]) / x[1:] * (p / q)
    mass = np.ones(x.size)
    mass[mode - start + 1 :] = np.cumprod(ratios[mode - start :])
    mass[: mode - start] = np.cumprod(1.0 / ratios[: mode - start][::-1])[::-1]
    return _Window(start, mass * np.exp(log_pmf(float(mode), n, p, q)))


def _convolve(x: Floats, y: Floats) -> Floats:
    if x.size * y.size <= _DIRECT:
        return np.convolve(x, y)
    size = x.size + y.size - 1
    padded = scipy.fft.next_fast_len(size, real=True)
    # Right to 1e-16 of the mode, about which the tilted sums gather.
    product = scipy.fft.rfft(x, padded) * scipy.fft.rfft(y, padded)
    return np.asarray(scipy.fft.irfft(product, padded)[:size])


def _log_tail(
    eps: float, gain: float, high: _Chance, low: _Chance, same: int, different: int
) -> float:
    """``log sum_s (P - e Q)_+`` where P reports with chance ``high`` and Q with ``low``.

    The others' count is ``Bin(same, high) + Bin(different, low)`` with law f. With
    ``gain = high - e low``, ``P - e Q`` at s is ``gain (f(s - 1) - kappa f(s))``: tilting f by
    ``kappa`` turns it into the difference of neighbours of the tilted law, positive beyond its
    mode since f is log-concave.
    """
    if gain <= 0.0:
        return -np.inf
    excess = np.expm1(eps) / gain
    kappa = 1.0 + excess
    theta = np.log1p(excess)
    first = _binomial(same, high.tilted(kappa))
    second = _binomial(different, low.tilted(kappa))
    law = _convolve(first.mass, second.mass)
    drop = np.append(law, 0.0) - np.insert(law, 0, 0.0)
    # drop[i] = f(s) - f(s - 1) at s = start + i; beyond the mode it is negative.
    s = first.start + second.start + np.arange(drop.size, dtype=np.float64)
    mode = int(np.argmax(law))
    terms = np.maximum(-drop[mode + 1 :], 0.0) * np.exp(-theta * (s[mode + 1 :] - s[mode + 1]))
    log_moment = same * np.log1p(high.p * excess) + different * np.log1p(low.p * excess)
    return float(np.log(gain) + log_moment + theta * (1.0 - s[mode + 1]) + np.log(terms.sum()))


def _check(n: int, k: int, eps0: float, counts: np.ndarray) -> None:
    if k < 2:
        raise ValueError(f"k must be at least 2 (got k={k})")
    if not eps0 > 0.0:
        raise ValueError(f"eps0 must be positive (got eps0={eps0})")
    if counts.size and (counts.min() < 0 or counts.max() > n - 1):
        raise ValueError(
            f"count must lie in 0..n-1 = 0..{n - 1}, the other users holding the cell "
            f"(got {counts.min()}..{counts.max()})"
        )


def log_delta(
    eps: float, eps0: float, n: int, k: int, count: ArrayLike, direction: Direction = "both"
) -> Floats:
    """Log hockey-stick divergence of the count of bin x0 (paper A, eqs. 6 and 10, corrected).

    Parameters
    ----------
    eps
        Privacy parameter, at least 0.
    eps0, n, k
        Local budget, number of users, number of cells.
    count
        How many of the other ``n - 1`` users hold x0; any shape.
    direction
        ``forward`` compares a user holding x0 with one holding another cell, ``backward`` the
        reverse (which paper A forgets), ``both`` takes the larger.

    Returns
    -------
    Natural logarithms, shaped like ``count``; -inf where delta is 0.

    Raises
    ------
    ValueError
        If ``k < 2``, ``eps0 <= 0``, ``eps < 0`` or a count is outside ``0..n-1``.
    """
    counts = np.asarray(count, dtype=np.int64)
    _check(n, k, eps0, counts)
    if eps < 0.0:
        raise ValueError(f"eps must be at least 0 (got eps={eps})")
    high, low = _channel(eps0, k)
    result = np.full(counts.shape, -np.inf)
    if eps >= eps0:
        return result
    forward = low.p * np.exp(eps) * np.expm1(eps0 - eps)
    # For k = 2 the two directions have one gain, in the form without cancellation.
    backward = forward if k == 2 else low.p * (np.expm1(eps0) - (k - 1) * np.expm1(eps))
    for index, same in np.ndenumerate(counts):
        m, rest = int(same), n - 1 - int(same)
        value = -np.inf
        if direction != "backward":
            value = _log_tail(eps, forward, high, low, m, rest)
        if direction != "forward":
            # Counting the reports that are not x0 exchanges the roles of the two laws.
            value = max(value, _log_tail(eps, backward, low.complement, high.complement, rest, m))
        result[index] = value
    return result


def log_delta_as_printed(eps: float, eps0: float, n: int, k: int, count: ArrayLike) -> Floats:
    """Paper A's Theorem IV.1 exactly as printed, to reproduce its tables; never a guarantee.

    The printed privacy loss averages the square of ``(s - r) / (n - count)`` where the right one
    averages it once, so that delta comes out too small, by many orders of magnitude at small eps.
    Parameters, return value and errors as in `log_delta`.
    """
    counts = np.asarray(count, dtype=np.int64)
    _check(n, k, eps0, counts)
    if eps < 0.0:
        raise ValueError(f"eps must be at least 0 (got eps={eps})")
    result = np.full(counts.shape, -np.inf)
    if eps >= eps0:
        return result
    for index, m in np.ndenumerate(counts):
        result[index] = _log_as_printed(eps, eps0, n, k, int(m))
    return result


def _log_as_printed(eps: float, eps0: float, n: int, k: int, m: int) -> float:
    high, low = _channel(eps0, k)
    kappa2 = (k - 1.0) / (np.expm1(eps0) + k - 1.0)
    # The loss passes eps about where the mean square of (s - r) / (n - m) reaches this.
    share = np.sqrt((np.exp(eps) - kappa2) / (np.exp(eps0) - kappa2))
    kappa = share / (1.0 - share) * low.q / low.p
    theta = np.log(kappa)
    same = _binomial(m, high.tilted(kappa))
    different = _binomial(n - m, _Chance(share, 1.0 - share))
    fraction = different.values / (n - m)
    law = _convolve(same.mass, different.mass)
    square = _convolve(same.mass, different.mass * fraction**2)
    start = same.start + different.start
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.log(kappa2 + (np.exp(eps0) - kappa2) * square / law)
    others = _binomial(n - 1 - m, _Chance(share, 1.0 - share))
    count = _convolve(same.mass, others.mass)
    shift = same.start + others.start
    # P(s) = p f(s - 1) + (1 - p) f(s), with the tilt's exp(-theta s) kept apart.
    target = np.zeros(count.size + 1)
    target[1:] += high.p * kappa * count
    target[:-1] += high.q * count
    s = np.arange(max(start, shift), min(start + law.size, shift + target.size))
    loss, target = loss[s - start], target[s - shift]
    counted = np.isfinite(loss) & (loss > eps)
    # The loss grows with s and passes eps near the mode, by the tilt. Far below, where rounding in
    # the transforms of long laws is all there is, it may seem to pass eps again.
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
