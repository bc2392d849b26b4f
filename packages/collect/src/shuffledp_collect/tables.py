"""Exact draws from tables of integers: a role that draws needs no exponential and no floats.

A table holds increasing thresholds of 128 bits, written with 32 hexadecimal digits so that they
compare as texts. With 128 uniform bits U, the value is the number of thresholds that are at most U.
The operating system is the only source of randomness.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count, pairwise
from math import ceil, log
from typing import Any, Final

import numpy as np
from scipy.special import logsumexp
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats

RandomBytes = Callable[[int], bytes]
BITS: Final = 128
_DIGITS: Final = BITS // 4
MAX_THRESHOLDS: Final = 2**16
# Precision of the ball arithmetic that computes the thresholds.
_PRECISION_BITS: Final = 320


@dataclass(frozen=True)
class Table:
    """A law on the integers from ``first``, the smallest value.

    ``thresholds`` are ``2^128`` times the cumulative probabilities of all values but the last,
    rounded down, in 32 lower-case hexadecimal digits each.
    """

    first: int
    thresholds: tuple[str, ...]

    @cached_property
    def masses(self) -> Floats:
        """Probabilities of the values from `first`."""
        ends = [0, *(int(text, 16) for text in self.thresholds), 2**BITS]
        return np.array([(above - below) / 2**BITS for below, above in pairwise(ends)])

    @property
    def values(self) -> Floats:
        """The values from `first`, as floats."""
        return self.first + np.arange(len(self.thresholds) + 1, dtype=np.float64)

    def draw(self, random: RandomBytes = os.urandom) -> int:
        """Draw one value from 16 random bytes."""
        return self.first + bisect_right(self.thresholds, random(BITS // 8).hex())

    @property
    def largest(self) -> int:
        """The largest value that can be drawn."""
        return self.first + len(self.thresholds)

    @property
    def rounding(self) -> Fraction:
        """Upper bound on the total variation distance from the exact law.

        Each probability is wrong by less than two units of a threshold, and the values beyond the
        last one have less than one unit together.
        """
        return Fraction(len(self.thresholds) + 2, 2**BITS)


def range_of_sum(table: Table, copies: int, missed: float) -> tuple[float, float]:
    """Return an interval that a sum of independent draws leaves with a small probability.

    By Chernoff's bound, ``P(sum >= s) <= E[exp(t X)]^copies exp(-t s)`` for every t > 0, and
    likewise below. The smallest of 201 bounds is taken. `missed` bounds the probability on each
    side.
    """
    mean = float(table.masses @ table.values)
    deviations = table.values - mean
    variance = float(table.masses @ deviations**2)
    if variance == 0.0:
        return copies * mean, copies * mean
    log_missed = log(missed)
    tilts = np.sqrt(-2.0 * log_missed / (copies * variance)) * np.geomspace(0.1, 10.0, 201)

    def farthest(sign: int) -> float:
        exponents = sign * tilts[:, np.newaxis] * deviations
        log_moments = copies * logsumexp(exponents, b=table.masses, axis=1)
        return float(((log_moments - log_missed) / tilts).min())

    return copies * mean - farthest(-1), copies * mean + farthest(1)


def draw_below(limit: int, random: RandomBytes = os.urandom) -> int:
    """Draw a uniform integer below a limit from 1 to 2^32, by rejection."""
    accepted = 2**32 - 2**32 % limit
    while (drawn := int.from_bytes(random(4), "big")) >= accepted:
        pass
    return drawn % limit


def two_sided(eps: float, nu: int | None = None) -> Table:
    """Return the law of two-sided geometric noise with ``theta = exp(-eps/2)``.

    The noise is centred at 0, or at ``nu`` and then conditioned on being at least 0. Raises
    `InputError` if the table would have more than `MAX_THRESHOLDS` thresholds, as in all functions
    below.
    """
    with _precise() as ball:
        theta = (-ball(eps) / 2).exp()
        side = theta / (1 - theta)
        if nu is not None:
            total = (1 - theta ** (nu + 1)) / (1 - theta) + side
            return _table(0, (theta ** abs(z - nu) for z in count()), total)
        # The values below the first one have less than a unit together.
        first = -_checked_length(ceil((BITS + 2) * 2.0 * log(2.0) / eps))
        return _table(first, (theta ** abs(z) for z in count(first)), 1 + 2 * side)


def poisson(mean: float) -> Table:
    """Return the Poisson law."""
    with _precise() as ball:
        return _poisson(ball(mean))


def clumps(ratio: float, size: float) -> tuple[Table, Table]:
    """Return two laws whose compound is negative binomial: number of clumps, and a clump's size.

    The mean of the negative binomial law is ``size ratio / (1 - ratio)``, with a ratio in (0, 1).
    """
    with _precise() as ball:
        q = ball(ratio)
        total = -(1 - q).log()
        return _poisson(total * ball(size)), _table(1, (q**t / t for t in count(1)), total)


def _poisson(mean: Any) -> Table:
    def masses() -> Iterator[Any]:
        mass = mean**0
        for t in count(1):
            yield mass
            mass = mass * mean / t

    return _table(0, masses(), mean.exp())


@contextmanager
def _precise() -> Iterator[Callable[[float], Any]]:
    """Give ball arithmetic that is precise enough to know a table's thresholds."""
    from flint import arb, ctx

    with ctx.workprec(_PRECISION_BITS):
        yield arb


def _checked_length(length: int) -> int:
    if length > MAX_THRESHOLDS:
        raise InputError(
            f"a table of this law has more than {MAX_THRESHOLDS:,} values: choose a larger eps or "
            "fewer dummies"
        )
    return length


def _table(first: int, masses: Iterable[Any], total: Any) -> Table:
    """Compute thresholds by ball arithmetic, and check that they are known to less than a unit."""
    thresholds, below, unit = list[str](), 0 * total, 2**BITS
    for mass in masses:
        below = below + mass
        scaled = below / total * unit
        if not scaled.rad() < 2.0**-20:
            raise ArithmeticError("a threshold is not known to less than a unit")
        threshold = int(scaled.lower().floor().unique_fmpz())
        if threshold >= unit - 1:
            break
        thresholds.append(f"{max(threshold, 0):0{_DIGITS}x}")
        _checked_length(len(thresholds))
    return Table(first, tuple(thresholds))
