"""Bound weighted sums of independent integer noise, for the intervals of derived counts.

The half-width w of a sum N satisfies ``P(|N| > w) <= miss``. It follows from the characteristic
function of N in three steps, each of which widens the interval by a known amount:

1. Weights that are nearly equal are replaced by the largest of them. The difference D of the sums
   has a standard deviation of at most `_MERGING` times that of N. Chernoff's inequality gives a d
   with a small ``P(|D| > d)``, and ``P(|N| > w) <= P(|N + D| > w - d) + P(|D| > d)``.
2. A variable on ``[-e, e]`` is added, because the law of N has jumps: it is a sum of eight uniform
   variables, whose characteristic function falls with the eighth power. The probability that the
   sum exceeds ``w - e`` is at least that of N exceeding w.
3. The distribution function is a Fourier series, if values beyond twice its half-period are
   ignored. Chernoff's inequality bounds their probability, and the power of step 2 the rest of the
   series after the last term.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from shuffledp.numerics.arrays import Floats
from shuffledp.publishing.noise import Noise

_MERGING: Final = 1e-3  # relative to the standard deviation of the sum
_MAX_MERGING: Final = 0.3  # relative to a weight
_SMOOTHING: Final = 0.01  # e, relative to the standard deviation of the sum
_MIN_SMOOTHING: Final = 0.002  # records; true counts are integers
_UNIFORMS: Final = 8
_REST: Final = 1e-3  # of `miss`, for each of the three probabilities that are bounded only
_TILTS: Final = np.geomspace(0.02, 0.98, 24)


@dataclass(frozen=True)
class Part:
    """Independent noise of one law, each multiplied by a weight.

    ``weights`` has shape ``(j,)``; ``times`` is how many of the noises have each weight, shape
    ``(j,)``.
    """

    noise: Noise
    weights: Floats
    times: Floats

    @property
    def variance(self) -> float:
        """Variance of the weighted sum."""
        return float(self.noise.sd**2 * (self.times * self.weights**2).sum())


def variance(parts: Sequence[Part]) -> float:
    """Return the variance of the sum of all parts."""
    return sum(part.variance for part in parts)


def half_width(parts: Sequence[Part], miss: float) -> float:
    """Return w such that the sum exceeds w in absolute value with probability at most `miss`.

    It is at most 5 % larger than the smallest such number, or by `_MIN_SMOOTHING` if that is more.
    `miss` lies between 0 and 1, both excluded.
    """
    parts = [part for part in parts if part.variance > 0.0]
    if not parts:
        return 0.0
    sd = math.sqrt(variance(parts))
    merged, differences = zip(*(_merged(part, sd, len(parts)) for part in parts), strict=True)
    changed = [part for part in differences if part.weights.any()]
    moved = _reach(changed, _REST * miss) if changed else 0.0
    smoothing = max(_SMOOTHING * sd, _MIN_SMOOTHING)
    reach = _reach(merged, _REST * miss) + smoothing
    last = _UNIFORMS / smoothing * (8.0 * math.pi / 2.0 * _REST * miss) ** (-1.0 / _UNIFORMS)
    step = math.pi / reach
    t = step * np.arange(1, math.ceil(last / step) + 1)
    characteristic = np.sinc(smoothing * t / (_UNIFORMS * math.pi)) ** _UNIFORMS
    characteristic *= np.exp(sum(_log_characteristic(part, t) for part in merged))
    coefficients = 2.0 / math.pi * step * characteristic / t
    wanted = 1.0 - miss * (1.0 - 4.0 * _REST)

    low, high = 0.0, reach
    while high - low > 1e-4 * (high + _MIN_SMOOTHING):
        middle = 0.5 * (low + high)
        inside = middle / reach + float((coefficients * np.sin(t * middle)).sum())
        low, high = (low, middle) if inside >= wanted else (middle, high)
    return high + smoothing + moved


def _merged(part: Part, sd: float, parts: int) -> tuple[Part, Part]:
    """Return a part in which weights that are nearly equal are one, and what this adds to it."""
    keep = part.weights != 0.0
    weights, times = np.abs(part.weights[keep]), part.times[keep]
    tolerance = min(_MERGING * sd / math.sqrt(part.variance * parts), _MAX_MERGING)
    group = np.floor(np.log(weights) / math.log1p(tolerance)).astype(np.int64)
    _, index = np.unique(group, return_inverse=True)
    largest = np.zeros(index.max() + 1)
    np.maximum.at(largest, index, weights)
    return (
        Part(part.noise, largest, np.bincount(index, times).astype(np.float64)),
        Part(part.noise, largest[index] - weights, times),
    )


def _log_characteristic(part: Part, t: Floats) -> Floats:
    """Return the log of the characteristic function, real because the law is symmetric."""
    total = np.zeros(t.size)
    for weight, times in zip(part.weights.tolist(), part.times.tolist(), strict=True):
        total += times * part.noise.log_characteristic(weight * t)
    return total


def _reach(parts: Sequence[Part], miss: float) -> float:
    """Return a value that the sum exceeds in absolute value with probability at most `miss`."""
    log_rest = math.log(2.0 / miss)
    if all(part.noise.mechanism == "gaussian" for part in parts):
        # All noises are sub-Gaussian, so that the best tilt is known.
        squares = sum(
            float((part.times * (part.weights * part.noise.scale) ** 2).sum()) for part in parts
        )
        return math.sqrt(2.0 * squares * log_rest)
    tilts = _TILTS / max(float(part.noise.scale * part.weights.max()) for part in parts)
    log_moments = sum(
        (part.times[:, None] * part.noise.log_moment(part.weights[:, None] * tilts)).sum(axis=0)
        for part in parts
    )
    return float(((log_moments + log_rest) / tilts).min())
