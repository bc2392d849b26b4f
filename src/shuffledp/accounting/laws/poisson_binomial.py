"""Poisson-binomial law: the sum of independent Bernoulli variables with different probabilities."""

from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from shuffledp.accounting.laws.binomial import log_cdf_upper, log_pmf, log_tail_upper
from shuffledp.numerics.arrays import Floats, Integers

# Half-width of truncation windows, which leave out less than TRIMMED_MASS: standard deviations,
# plus a number of counts for the Poisson-like tails of small means.
WINDOW_DEVIATIONS, WINDOW_MARGIN = 11.0, 40.0
# Probability cut off at each end of each partial sum; it is part of `Window.missing`.
TRIMMED_MASS = 1e-26
# Groups of at least this many variables are binomial; the others are summed in blocks of this size.
BLOCK_SIZE = 64


@dataclass(frozen=True)
class Window:
    """A law on the integers, truncated to a window outside which its mass is negligible.

    Attributes
    ----------
    start, mass
        Probabilities of ``start``, ``start + 1``, ...
    missing
        Total probability missing from ``mass``: that outside the window, and what earlier
        truncations removed from entries inside it.
    """

    start: int
    mass: Floats
    missing: float


def _trimmed(start: int, mass: Floats, missing: float) -> Window:
    first = int(np.searchsorted(np.cumsum(mass), TRIMMED_MASS))
    last = mass.size - int(np.searchsorted(np.cumsum(mass[::-1]), TRIMMED_MASS))
    cut = float(mass[:first].sum() + mass[last:].sum())
    return Window(start + first, mass[first:last], missing + cut)


def _binomial(n: int, p: float, q: float) -> Window:
    half = WINDOW_DEVIATIONS * np.sqrt(n * p * q) + WINDOW_MARGIN
    low, high = max(np.floor(n * p - half), 0.0), min(np.ceil(n * p + half), float(n))
    outside = np.exp(log_cdf_upper(low - 1.0, n, p, q))
    outside += np.exp(log_tail_upper(high + 1.0, n, p, q))
    mass = np.exp(log_pmf(np.arange(low, high + 1.0), n, p, q))
    return _trimmed(int(low), mass, float(outside))


def _bernoulli_blocks(p: Floats, q: Floats) -> list[Window]:
    """Return the laws of the sums of blocks of single variables."""
    padding = np.zeros(-p.size % BLOCK_SIZE)
    padded = np.append(p, padding).reshape(-1, BLOCK_SIZE)
    failing = np.append(q, padding + 1.0).reshape(-1, BLOCK_SIZE)
    law = np.zeros((padded.shape[0], BLOCK_SIZE + 1))
    law[:, 0] = 1.0
    for success, failure in zip(padded.T[:, :, None], failing.T[:, :, None], strict=True):
        law[:, 1:] = law[:, 1:] * failure + law[:, :-1] * success
        law[:, :1] *= failure
    return [_trimmed(0, row, 0.0) for row in law]


def _merge(x: Window, y: Window | None) -> Window:
    if y is None:
        return x
    # Direct sums of positive products keep the relative accuracy, unlike a Fourier transform.
    mass = np.convolve(x.mass, y.mass)
    return _trimmed(x.start + y.start, mass, x.missing + y.missing)


def poisson_binomial(p: Floats, counts: Integers, q: Floats) -> Window:
    """Return the law of a sum of independent Bernoulli variables.

    The variables come in groups with equal probabilities. Apart from the mass left out, about
    1e-20, the relative error of each probability of the result is at most about 1e-12. Large groups
    have binomial laws; the remaining variables, up to about a million, are summed in blocks. All
    these laws are combined in a tree of direct convolutions.

    ``counts`` has the number of variables in each group, at least 1; p is their probability of
    success, and q is ``1 - p`` with the same relative accuracy.
    """
    large = counts >= BLOCK_SIZE
    parts = [
        _binomial(int(n), float(x), float(y))
        for n, x, y in zip(counts[large], p[large], q[large], strict=True)
    ]
    if not large.all():
        parts += _bernoulli_blocks(*(np.repeat(v[~large], counts[~large]) for v in (p, q)))
    while len(parts) > 1:
        parts.sort(key=lambda part: part.mass.size)
        parts = [_merge(x, y) for x, y in zip_longest(parts[::2], parts[1::2])]
    return parts[0] if parts else Window(0, np.ones(1), 0.0)
