"""Probabilities of a sum of independent integers, by FFT with a bounded error."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

from shuffledp.numerics.arrays import UNIT, Floats

# For each law: the probabilities of 0, 1, ..., which may add up to less than 1, and the number
# (>= 1) of independent summands that have it.
Laws = Sequence[tuple[Floats, int]]
# Upper bound on the log probability of sums beyond each end of the FFT's truncation window.
LOG_TAIL = -40.0
# A frequency counts as 0 if the log of its power's modulus is below this.
LOG_NEGLIGIBLE_POWER = -100.0
# Largest number of steps of the search for the best t in Chernoff's bound.
MAX_CHERNOFF_STEPS = 60


def transform_error(size: int, rounds: int, norm: float) -> float:
    """Return an upper bound on the rounding error, in Euclidean norm, of an FFT convolution power.

    Parameters
    ----------
    size
        Length of the transforms.
    rounds
        Power, at least 1.
    norm
        Euclidean norm of the sequence; its entries are non-negative and add up to at most 1.

    Notes
    -----
    The forward and the inverse transform each have a relative error of ``8 log2(size) u`` in norm
    (Higham, "Accuracy and stability of numerical algorithms", Theorem 24.2, rounded up). The power
    adds ``8 rounds u`` and multiplies the relative error of its argument by ``rounds``. Powers that
    `convolve` counts as 0 are far below a rounding error.
    """
    return float((rounds + 1) * (8.0 * np.log2(size) + 8.0) * UNIT * norm)


def upper_reach(centred_laws: Sequence[tuple[Floats, Floats, int]]) -> float:
    """Return a number that a sum exceeds with probability at most ``exp(LOG_TAIL)``.

    By Chernoff's bound, ``(sum K(t) - LOG_TAIL) / t`` is such a number for every t > 0, where K are
    the summands' cumulant generating functions. It is smallest where
    ``sum (t K'(t) - K(t)) = -LOG_TAIL``. The search for t needs one step for normal summands.

    Parameters
    ----------
    centred_laws
        For each law: its values, with a mean of nearly 0; the logs of their probabilities; and the
        number (>= 1) of summands that have it.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        variance = sum(
            count * float(np.exp(log_weights) @ centred**2)
            for centred, log_weights, count in centred_laws
        )
        t = float(np.sqrt(-2.0 * LOG_TAIL / np.float64(variance)))
    furthest = sum(count * float(np.abs(centred).max()) for centred, _, count in centred_laws)
    spread = max(float(np.abs(centred).max()) for centred, _, _ in centred_laws)
    if not 0.0 < t < np.inf:
        return furthest
    low, high, best = 0.0, np.inf, furthest
    for _ in range(MAX_CHERNOFF_STEPS):
        cumulant = divergence = 0.0
        for centred, log_weights, count in centred_laws:
            term_cumulant, term_divergence = _cumulant_and_divergence(centred, log_weights, t)
            cumulant += count * term_cumulant
            divergence += count * term_divergence
        best = min(best, (cumulant - LOG_TAIL) / t)
        ratio = max(divergence / -LOG_TAIL, 1e-4)
        # For larger t, the bound approaches the largest value of the sum.
        if 0.8 < ratio < 1.25 or (ratio < 1.0 and t * spread > 1e4):
            break
        low, high = (t, high) if ratio < 1.0 else (low, t)
        t /= float(np.sqrt(min(ratio, 1e4)))
        if not low < t < high:
            t = float(np.sqrt(low * high)) if low > 0.0 else 0.01 * high
    return best


def _cumulant_and_divergence(centred: Floats, log_weights: Floats, t: float) -> tuple[float, float]:
    """Return ``K(t)``, and the tilted law's Kullback-Leibler divergence ``t K'(t) - K(t)``."""
    exponents = log_weights + t * centred
    top = float(exponents.max())
    tilted = np.exp(exponents - top)
    total = float(tilted.sum())
    cumulant = top + float(np.log(total))
    return cumulant, t * float(tilted @ centred) / total - cumulant


def sum_window(laws: Laws) -> tuple[int, int]:
    """Return the first and last sum of a window with mass <= ``exp(LOG_TAIL)`` beyond each end."""
    below, above, mean = [], [], 0.0
    for mass, count in laws:
        used = np.flatnonzero(mass > 0.0)
        shares, index = mass[used], used.astype(np.float64)
        centre, log_shares = float(shares @ index), np.log(shares)
        below.append((centre - index, log_shares, count))
        above.append((index - centre, log_shares, count))
        mean += count * centre
    low = max(int(np.floor(mean - upper_reach(below))), 0)
    last = sum(count * (mass.size - 1) for mass, count in laws)
    return low, min(int(np.ceil(mean + upper_reach(above))), last)


def power(base: Any, exponent: int) -> Any:
    """Return an array to an integer power by repeated squaring, three times as fast as NumPy."""
    result = None
    while exponent:
        if exponent % 2:
            result = base if result is None else result * base
        exponent //= 2
        base = base * base if exponent else base
    return result


def convolve(laws: Laws) -> tuple[int, Floats]:
    """Return the first value of a window of sums, and the probabilities of the sums from it on.

    There may be a few more than in `sum_window`, for a faster FFT. A single law is returned whole.
    The Euclidean norm of the error is at most the sum of the laws' `transform_error`, plus twice
    ``exp(LOG_TAIL)`` for the probability outside the window, which the FFT wraps around.
    """
    if len(laws) == 1 and laws[0][1] == 1:
        return 0, laws[0][0]
    low, high = sum_window(laws)
    size = int(scipy.fft.next_fast_len(high - low + 1, real=True))
    transformed: Any = 1.0
    for mass, count in laws:
        folded = np.zeros(size)
        np.add.at(folded, np.arange(mass.size) % size, mass)
        spectrum = scipy.fft.rfft(folded)
        kept = spectrum.real**2 + spectrum.imag**2 > np.exp(2.0 * LOG_NEGLIGIBLE_POWER / count)
        spectrum[~kept] = 0.0
        spectrum[kept] = power(spectrum[kept], count)
        transformed = transformed * spectrum
    return low, np.roll(scipy.fft.irfft(transformed, size), -(low % size))
