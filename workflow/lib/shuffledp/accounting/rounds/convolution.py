"""The law of a sum of independent integers, by one FFT with a bounded error."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy

from shuffledp.numerics.arrays import UNIT, Floats

# Probabilities of 0, 1, ..., and the number of independent integers that have them.
Laws = Sequence[tuple[Floats, int]]
# Log of the tilted probability of sums beyond either end of the transform's window.
LOG_TAIL = -40.0
# Largest number of tilts tried for a window.
MAX_TILT_STEPS = 60


def transform_error(size: int, rounds: int, norm: float) -> float:
    """Return a bound of the Euclidean norm of the rounding error of an FFT convolution power.

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
    A forward and an inverse transform have a relative error of ``8 log2(size) u`` each in norm
    (Higham, "Accuracy and stability of numerical algorithms", Theorem 24.2, with some reserve), a
    power of ``8 rounds u``; the relative error of a number of modulus at most 1 grows by a factor
    ``rounds``.
    """
    return float((rounds + 1) * (8.0 * np.log2(size) + 8.0) * UNIT * norm)


def deviation(laws: Sequence[tuple[Floats, Floats, int]]) -> float:
    """Return a number that a sum exceeds with probability at most exp(LOG_TAIL).

    By Chernoff's bound with cumulant functions K it is ``(sum of K(t) - LOG_TAIL) / t`` for any
    t > 0. The minimum is where ``sum of t K'(t) - K(t)`` is ``-LOG_TAIL``. For a normal law one
    step suffices; for a heavier tail t is smaller.

    Parameters
    ----------
    laws
        Atoms of a law with mean nearly 0, the logs of their probabilities, and the number (>= 1) of
        summands with that law.
    """
    variance = sum(
        count * float(np.exp(log_weights) @ centred**2) for centred, log_weights, count in laws
    )
    furthest = sum(count * float(np.abs(centred).max()) for centred, _, count in laws)
    spread = max(float(np.abs(centred).max()) for centred, _, _ in laws)
    if variance <= 0.0:
        return furthest
    at = float(np.sqrt(-2.0 * LOG_TAIL / variance))
    low, high, best = 0.0, np.inf, furthest
    for _ in range(MAX_TILT_STEPS):
        cumulant = information = 0.0
        for centred, log_weights, count in laws:
            term_cumulant, term_information = _cumulant(centred, log_weights, at)
            cumulant, information = (
                cumulant + count * term_cumulant,
                information + count * term_information,
            )
        best = min(best, (cumulant - LOG_TAIL) / at)
        ratio = max(information / -LOG_TAIL, 1e-4)
        # For larger t, Chernoff's bound is the largest value of the sum.
        if 0.8 < ratio < 1.25 or (ratio < 1.0 and at * spread > 1e4):
            break
        low, high = (at, high) if ratio < 1.0 else (low, at)
        at /= float(np.sqrt(min(ratio, 1e4)))
        if not low < at < high:
            at = float(np.sqrt(low * high)) if low > 0.0 else 0.01 * high
    return best


def _cumulant(centred: Floats, log_weights: Floats, at: float) -> tuple[float, float]:
    """Return ``K(t)`` and ``t K'(t) - K(t)``."""
    exponents = log_weights + at * centred
    top = float(exponents.max())
    tilted = np.exp(exponents - top)
    total = float(tilted.sum())
    cumulant = top + float(np.log(total))
    return cumulant, at * float(tilted @ centred) / total - cumulant


def sum_window(laws: Laws) -> tuple[int, int]:
    """Return the first and last sum of the window; `LOG_TAIL` bounds the mass beyond each."""
    below, above, mean = [], [], 0.0
    for mass, count in laws:
        used = np.flatnonzero(mass > 0.0)
        shares, index = mass[used], used.astype(np.float64)
        centre, log_shares = float(shares @ index), np.log(shares)
        below.append((centre - index, log_shares, count))
        above.append((index - centre, log_shares, count))
        mean += count * centre
    low = max(int(np.floor(mean - deviation(below))), 0)
    last = sum(count * (mass.size - 1) for mass, count in laws)
    return low, min(int(np.ceil(mean + deviation(above))), last)


def power(base: Any, exponent: int) -> Any:
    """Return an integer power of an array by squaring, in a third of the time of NumPy's power."""
    result = None
    while exponent:
        if exponent % 2:
            result = base if result is None else result * base
        exponent //= 2
        base = base * base if exponent else base
    return result


def convolve(laws: Laws) -> tuple[int, Floats]:
    """Return the first value and the probabilities of a sum of independent integers, by one FFT.

    The error is the sum of the laws' `transform_error` in norm, plus twice ``exp(LOG_TAIL)``: the
    probability outside the window, which the transform wraps around into it.

    Parameters
    ----------
    laws
        Probabilities of 0, 1, ..., which may add up to less than 1, and the number (>= 1) of
        integers that have them.
    """
    if len(laws) == 1 and laws[0][1] == 1:
        return 0, laws[0][0]
    low, high = sum_window(laws)
    size = int(scipy.fft.next_fast_len(high - low + 1, real=True))
    transformed: Any = 1.0
    for mass, count in laws:
        folded = np.zeros(size)
        np.add.at(folded, np.arange(mass.size) % size, mass)
        transformed = transformed * power(scipy.fft.rfft(folded), count)
    return low, np.roll(scipy.fft.irfft(transformed, size), -(low % size))
