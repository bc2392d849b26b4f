"""Divergence of the count of one bin: what paper A (Theorem IV.1, eqs. 6 and 10) bounds.

Not a privacy guarantee: the analyst sees the whole histogram, of which one bin is a part. It is a
lower bound on what the histogram leaks, and the only thing leaked when k = 2.

All sums follow the law of the others' count tilted so that its mode lies at the threshold of the
privacy loss; there every quantity is of order one, however small delta is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from shuffledp import krr
from shuffledp.accounting.conventions import eps_values
from shuffledp.accounting.laws.binomial import log_pmf
from shuffledp.accounting.setting import Setting
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


def _channel(setting: Setting) -> tuple[_Chance, _Chance]:
    """Chances that a holder of x0, and of another cell, reports x0."""
    p, q = krr.probabilities(setting.eps0, setting.k)
    k = setting.k
    return _Chance(p, (k - 1) * q), _Chance(q, float((np.expm1(setting.eps0) + k - 1) * q))


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
    parts = [(same, high, high.tilted(kappa)), (different, low, low.tilted(kappa))]
    first, second = (_binomial(n, tilted) for n, _, tilted in parts)
    law = _convolve(first.mass, second.mass)
    drop = np.append(law, 0.0) - np.insert(law, 0, 0.0)
    # drop[i] = f(s) - f(s - 1) at s = start + i; beyond the mode it is negative.
    mode = int(np.argmax(law))
    falling = np.maximum(-drop[mode + 1 :], 0.0)
    total = float(falling @ np.exp(-theta * np.arange(falling.size)))
    # The tilt at the mode, f(s) over the tilted f(s), from probabilities: as the log of its moment
    # less theta s it would be the difference of two numbers of order n.
    share = min(int(np.argmax(first.mass)), mode)
    share = max(share, mode - (second.mass.size - 1))
    counts = (first.start + share, second.start + mode - share)
    untilted = sum(
        float(log_pmf(count, n, law.p, law.q) - log_pmf(count, n, tilted.p, tilted.q))
        for count, (n, law, tilted) in zip(counts, parts, strict=True)
        if n > 0
    )
    return float(np.log(gain) + untilted + np.log(total))


def _at_each(
    function: Callable[[float, int], float], eps: ArrayLike, setting: Setting, counts: ArrayLike
) -> Floats:
    """``function(eps, count)``, eps and counts checked and broadcast; -inf from eps0 on."""
    setting.require_one_round()
    values, counts = np.broadcast_arrays(eps_values(eps), setting.checked_counts(counts))
    results = [
        -np.inf if e >= setting.eps0 else function(float(e), int(count))
        for e, count in zip(values.ravel(), counts.ravel(), strict=True)
    ]
    return np.array(results, np.float64).reshape(values.shape)


def log_delta(
    eps: ArrayLike, setting: Setting, counts: ArrayLike, direction: Direction = "both"
) -> Floats:
    """Log hockey-stick divergence of the count of bin x0 (paper A, eqs. 6 and 10, corrected).

    Parameters
    ----------
    eps
        Privacy parameter, at least 0.
    setting
        One round of it; its own count is not looked at.
    counts
        How many of the other ``n - 1`` users hold x0; broadcast with eps, any shape.
    direction
        ``forward`` compares a user holding x0 with one holding another cell, ``backward`` the
        reverse (which paper A forgets), ``both`` takes the larger.

    Returns
    -------
    Natural logarithms of the broadcast shape; -inf where delta is 0.

    Raises
    ------
    InputError
        If an eps is negative or a count is outside ``0..n-1``.
    """
    k, others = setting.k, setting.n - 1
    high, low = _channel(setting)

    def value(eps: float, count: int) -> float:
        forward = low.p * np.exp(eps) * np.expm1(setting.eps0 - eps)
        # For k = 2 the two directions have one gain, in the form without cancellation.
        backward = low.p * (np.expm1(setting.eps0) - (k - 1) * np.expm1(eps))
        backward = forward if k == 2 else backward
        found, rest = -np.inf, others - count
        if direction != "backward":
            found = _log_tail(eps, forward, high, low, count, rest)
        if direction != "forward":
            # Counting the reports that are not x0 exchanges the roles of the two laws.
            mirrored = _log_tail(eps, backward, low.complement, high.complement, rest, count)
            found = max(found, mirrored)
        return found

    return _at_each(value, eps, setting, counts)


def log_delta_as_printed(eps: ArrayLike, setting: Setting, counts: ArrayLike) -> Floats:
    """Paper A's Theorem IV.1 exactly as printed, to reproduce its tables; never a guarantee.

    The printed privacy loss averages the square of ``(s - r) / (n - count)`` where the right one
    averages it once, so that delta comes out too small, by many orders of magnitude at small eps.
    Parameters, return value and errors as in `log_delta`.
    """
    return _at_each(lambda e, count: _log_as_printed(e, setting, count), eps, setting, counts)


def _log_as_printed(eps: float, setting: Setting, m: int) -> float:
    n, k, eps0 = setting.n, setting.k, setting.eps0
    high, low = _channel(setting)
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
