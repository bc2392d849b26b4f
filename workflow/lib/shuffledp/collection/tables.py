"""Exact drawing from integer tables: who draws computes no exponential, and needs no floats.

A table holds increasing thresholds of 128 bits, as hexadecimal numbers of 32 digits, which compare
as texts. With 128 uniform bits U its value is the number of thresholds that are at most U.
Randomness is the operating system's alone.
"""

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from math import ceil, log
from typing import Any, Final

from shuffledp.errors import InputError

Random = Callable[[int], bytes]
BITS: Final = 128
_DIGITS: Final = BITS // 4
LONGEST: Final = 2**16
# Of the ball arithmetic that makes the thresholds.
_PRECISION: Final = 320


@dataclass(frozen=True)
class Table:
    """A law on the integers from ``first`` on.

    Attributes
    ----------
    first
        Its smallest value.
    thresholds
        Increasing, each of 32 hexadecimal digits in lower case: ``2^128`` times the chances of the
        first value, the first two, and so on, rounded down.
    """

    first: int
    thresholds: tuple[str, ...]

    def draw(self, random: Random = os.urandom) -> int:
        """One value, from 16 random bytes."""
        return self.first + bisect_right(self.thresholds, random(BITS // 8).hex())

    @property
    def largest(self) -> int:
        """The largest value that can be drawn."""
        return self.first + len(self.thresholds)

    @property
    def rounding(self) -> Fraction:
        """How far this law is at most from that which the table was made of, in total variation.

        Each chance is off by less than two units of a threshold, and what lies beyond the last
        value is less than one.
        """
        return Fraction(len(self.thresholds) + 2, 2**BITS)


def draw_below(limit: int, random: Random = os.urandom) -> int:
    """A uniform integer below a limit of at most 2^32, by rejection.

    Parameters
    ----------
    limit
        At least 1.
    random
        Gives so many random bytes.
    """
    accepted = 2**32 - 2**32 % limit
    while (drawn := int.from_bytes(random(4), "big")) >= accepted:
        pass
    return drawn % limit


def two_sided(eps: float, nu: int | None = None) -> Table:
    """Two-sided geometric noise of ``theta = exp(-eps/2)``: about 0, or about nu and not below 0.

    Raises
    ------
    InputError
        Here and below, if the table would be longer than `LONGEST`.
    """
    with _precise() as ball:
        theta = (-ball(eps) / 2).exp()
        side = theta / (1 - theta)
        if nu is not None:
            total = (1 - theta ** (nu + 1)) / (1 - theta) + side
            return _table(0, (theta ** abs(z - nu) for z in count()), total)
        # What lies below the first value is less than a unit.
        first = -_reach(eps)
        return _table(first, (theta ** abs(z) for z in count(first)), 1 + 2 * side)


def poisson(mean: float) -> Table:
    """Poisson's law."""
    with _precise() as ball:
        return _poisson(ball(mean))


def clumps(ratio: float, size: float) -> tuple[Table, Table]:
    """A negative binomial number: a Poisson number of clumps, and the law of a clump's size.

    Parameters
    ----------
    ratio
        In (0, 1).
    size
        Positive; the mean is ``size ratio / (1 - ratio)``.
    """
    with _precise() as ball:
        q = ball(ratio)
        total = -(1 - q).log()
        return _poisson(total * ball(size)), _table(1, (q**t / t for t in count(1)), total)


def binomial(chances: int, rate: float) -> Table:
    """How many of so many chances are taken, each at that rate in (0, 1]."""
    if rate == 1.0:
        return Table(chances, ())
    with _precise() as ball:
        odds = ball(rate) / (1 - ball(rate))

        def masses() -> Iterator[Any]:
            mass = ball(1)
            for t in range(chances + 1):
                yield mass
                mass = mass * odds * (chances - t) / (t + 1)

        return _table(0, masses(), (1 + odds) ** chances)


def blanket(eps0: float, k: int) -> Table:
    """1 where k-RR sends a uniform cell, in place of the record; else 0."""
    with _precise() as ball:
        truthful = ball(eps0).exp() - 1
        return _table(0, (truthful, ball(k)), truthful + k)


def _poisson(mean: Any) -> Table:
    def masses() -> Iterator[Any]:
        mass = mean**0
        for t in count(1):
            yield mass
            mass = mass * mean / t

    return _table(0, masses(), mean.exp())


@contextmanager
def _precise() -> Iterator[Callable[[float], Any]]:
    """Balls of so many bits that a table's thresholds are known."""
    from flint import arb, ctx

    with ctx.workprec(_PRECISION):
        yield arb


def _reach(eps: float) -> int:
    """Beyond it, two-sided noise has less than a unit on each side."""
    return _short(ceil((BITS + 2) * 2.0 * log(2.0) / eps))


def _short(length: int) -> int:
    if length > LONGEST:
        raise InputError(
            f"a table of this law has more than {LONGEST:,} values: a collection needs a larger "
            "eps, or fewer dummies"
        )
    return length


def _table(first: int, masses: Iterable[Any], total: Any) -> Table:
    """Thresholds by balls: that they are known to less than a unit is checked, not assumed."""
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
        _short(len(thresholds))
    return Table(first, tuple(thresholds))
