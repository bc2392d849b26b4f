"""The law of a sum of independent, equally distributed indices, by one FFT with a stated error."""

from typing import Any

import numpy as np
import scipy

from shuffledp.numerics.arrays import UNIT, Floats

# Log of the probability, under the tilted law, of sums outside the transform's window, each side.
LOG_TAIL = -40.0
# Most tilts that are tried for a window.
_TILTS = 60


def transform_error(size: int, rounds: int, norm: float) -> float:
    """Bound of the Euclidean norm of the rounding error of an FFT convolution power.

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
    A forward and an inverse transform lose ``8 log2(size) u`` each, relative in norm (Higham,
    "Accuracy and stability of numerical algorithms", Theorem 24.2, with some reserve), a power
    ``8 rounds u``; a relative error of a number of modulus at most 1 grows ``rounds``-fold.
    """
    return float((rounds + 1) * (8.0 * np.log2(size) + 8.0) * UNIT * norm)


def deviation(centred: Floats, log_weights: Floats, rounds: int) -> float:
    """How far the sum of ``rounds`` copies gets above 0, but for a probability of exp(LOG_TAIL).

    Chernoff's bound with cumulant function K is ``(rounds K(t) - LOG_TAIL) / t``, for any t > 0.
    It is least where ``rounds (t K'(t) - K(t)) = -LOG_TAIL``. For a normal law that is one step
    away; the heavier the tail, the smaller is t.

    Parameters
    ----------
    centred, log_weights
        Atoms of a law of mean 0, nearly, and the logs of their probabilities.
    rounds
        At least 1.
    """
    variance = float(np.exp(log_weights) @ centred**2)
    spread = float(np.abs(centred).max())
    if variance <= 0.0:
        return rounds * spread
    at = float(np.sqrt(-2.0 * LOG_TAIL / rounds)) / float(np.sqrt(variance))
    low, high, best = 0.0, np.inf, rounds * spread
    for _ in range(_TILTS):
        cumulant, information = _cumulant(centred, log_weights, at)
        best = min(best, (rounds * cumulant - LOG_TAIL) / at)
        found = max(rounds * information / -LOG_TAIL, 1e-4)
        # Further on Chernoff's bound is the largest value.
        if 0.8 < found < 1.25 or (found < 1.0 and at * spread > 1e4):
            break
        low, high = (at, high) if found < 1.0 else (low, at)
        at /= float(np.sqrt(min(found, 1e4)))
        if not low < at < high:
            at = float(np.sqrt(low * high)) if low > 0.0 else 0.01 * high
    return best


def _cumulant(centred: Floats, log_weights: Floats, at: float) -> tuple[float, float]:
    """``K(t)`` and ``t K'(t) - K(t)``."""
    exponents = log_weights + at * centred
    top = float(exponents.max())
    tilted = np.exp(exponents - top)
    total = float(tilted.sum())
    cumulant = top + float(np.log(total))
    return cumulant, at * float(tilted @ centred) / total - cumulant


def sum_window(mass: Floats, rounds: int) -> tuple[int, int]:
    """First and last value that the sum of ``rounds`` indices takes but for `LOG_TAIL` beyond."""
    used = np.flatnonzero(mass > 0.0)
    shares, index = mass[used], used.astype(np.float64)
    mean, log_shares = float(shares @ index), np.log(shares)
    below, above = (deviation(sign * (index - mean), log_shares, rounds) for sign in (-1.0, 1.0))
    low = max(int(np.floor(rounds * mean - below)), 0)
    return low, min(int(np.ceil(rounds * mean + above)), rounds * (mass.size - 1))


def power(base: Any, exponent: int) -> Any:
    """Whole power of an array, by squaring: a third of the time of NumPy's own."""
    result = None
    while exponent:
        if exponent % 2:
            result = base if result is None else result * base
        exponent //= 2
        base = base * base if exponent else base
    return result


def self_convolve(mass: Floats, rounds: int) -> tuple[int, Floats]:
    """First index and law of the sum of ``rounds`` indices, by one FFT.

    Right to `transform_error` in norm, and to twice ``exp(LOG_TAIL)``: the probability outside
    the window, which the transform wraps around into it.

    Parameters
    ----------
    mass
        Probabilities of 0, 1, ...; they may add up to less than 1.
    rounds
        At least 1.
    """
    if rounds == 1:
        return 0, mass
    low, high = sum_window(mass, rounds)
    size = int(scipy.fft.next_fast_len(high - low + 1, real=True))
    folded = np.zeros(size)
    np.add.at(folded, np.arange(mass.size) % size, mass)
    summed = scipy.fft.irfft(power(scipy.fft.rfft(folded), rounds), size)
    return low, np.roll(summed, -(low % size))
