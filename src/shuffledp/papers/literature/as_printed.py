"""Paper A's Theorem IV.1 exactly as printed, to reproduce its tables; it is no guarantee."""

import numpy as np
import scipy
from numpy.typing import ArrayLike

from shuffledp.accounting.conventions import eps_values
from shuffledp.accounting.laws.binomial import log_pmf_run
from shuffledp.accounting.laws.binomial_sum import Chance
from shuffledp.accounting.one_round.single_bin import channel
from shuffledp.accounting.setting import Setting
from shuffledp.numerics.arrays import Floats

# Half-width of truncation windows: tilted standard deviations, plus counts; about 1e-20 is outside.
WINDOW_DEVIATIONS, WINDOW_MARGIN = 9.3, 20.0
# Convolutions of up to this many products are computed directly, others by FFT.
MAX_DIRECT_PRODUCTS = 4_000_000


def _binomial(n: int, chance: Chance) -> tuple[int, Floats]:
    """Return the first count and the probabilities, without tails of about 1e-20."""
    p, q = chance.p, chance.q
    if n == 0 or q <= 0.0:  # a tilt near eps0 can round q to 0
        return n, np.ones(1)
    half = WINDOW_DEVIATIONS * np.sqrt(n * p * q) + WINDOW_MARGIN
    start, stop = max(int(np.floor(n * p - half)), 0), min(int(np.ceil(n * p + half)), n)
    mass = np.exp(log_pmf_run(start, stop - start + 1, n, p, q))
    return start, mass / mass.sum()


def _convolve(x: Floats, y: Floats) -> Floats:
    if x.size * y.size <= MAX_DIRECT_PRODUCTS:
        return np.convolve(x, y)
    # Accurate to 1e-16 of the mode, around which the tilted sums are concentrated.
    return np.asarray(scipy.signal.fftconvolve(x, y))


def _with_one_more(law: Floats, p: float, q: float) -> Floats:
    return p * np.append(0.0, law) + q * np.append(law, 0.0)


def log_delta_as_printed(eps: ArrayLike, setting: Setting, counts: ArrayLike) -> Floats:
    """Return the log of delta by the printed theorem.

    The printed privacy loss averages the square of ``(s - r) / (n - count)``, the correct one its
    first power. The result is too small, at small eps by many orders of magnitude. See
    `single_bin.log_delta` for parameters, return value and errors.
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
    high, low = channel(setting)
    kappa2 = (k - 1.0) / (np.expm1(eps0) + k - 1.0)
    # 1 - kappa2, accurate even for the smallest eps0
    gap = np.expm1(eps0) / (np.expm1(eps0) + k - 1.0)
    # The loss exceeds eps about where the mean square of (s - r) / (n - m) reaches share**2.
    share = np.sqrt((np.expm1(eps) + gap) / (np.expm1(eps0) + gap))
    kappa = share / (1.0 - share) * low.q / low.p
    theta = np.log(kappa)
    total = high.q + kappa * high.p
    first_same, same = _binomial(m, Chance(kappa * high.p / total, high.q / total))
    first_other, others = _binomial(n - 1 - m, Chance(share, 1.0 - share))
    count = _convolve(same, others)
    # r reports of x0 by the n - m users of other cells, target included, have the probability
    # share f(r - 1) + (1 - share) f(r), and r times that is (n - m) share f(r - 1), where f is the
    # law of the n - m - 1 others.
    law = _with_one_more(count, share, 1.0 - share)
    reports = first_other + np.arange(1.0, others.size + 1.0)
    square = _convolve(same, others * reports) * share / (n - m)
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.log(kappa2 + (np.exp(eps0) - kappa2) * np.append(0.0, square) / law)
    # The law of the count with the target in x0, with the tilt's exp(-theta s) kept apart.
    target = _with_one_more(count, high.p * kappa, high.q)
    s = first_same + first_other + np.arange(float(law.size))
    counted = np.isfinite(loss) & (loss > eps)
    # The loss grows with s and, by the choice of tilt, exceeds eps near the mode. Far below, where
    # the transforms of long laws consist of rounding errors, it may seem to exceed eps again.
    below = np.flatnonzero(~counted[: int(np.argmax(law)) + 1])
    counted[: below[-1] if below.size else 0] = False
    if not counted.any():
        return -np.inf
    s, loss, target = s[counted], loss[counted], target[counted]
    total = (target * -np.expm1(eps - loss) * np.exp(-theta * (s - s[0]))).sum()
    log_moment = m * np.log1p(high.p * (kappa - 1.0))
    log_moment += (n - 1 - m) * np.log1p(low.p * (kappa - 1.0))
    return float(log_moment - theta * s[0] + np.log(total))
