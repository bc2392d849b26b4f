"""Envelopes of signed dummies: the law of what is in them, what does not fit, the least noise.

`shuffledp.accounting.signed` has the exact delta of the messages of all envelopes together.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, Final

import numpy as np
from scipy import stats
from scipy.special import betainc

from shuffledp.accounting.calibrate import least_noise
from shuffledp.accounting.signed import SignedNoise
from shuffledp.errors import InputError
from shuffledp.numerics.roots import brentq

# More than the library's rounding.
_MORE: Final = 1.01
# Law of the pairs: Poisson's needs the smallest envelopes. A negative binomial one has as much
# noise of half the messages, but was best in none of the settings tried.
_SHAPE: Final = np.inf
# Mean numbers of a cell's pairs among which one is sought, each so many times the one before, up to
# those that fill the envelopes, or so many that more would hardly leave less noise.
_FEWEST, _STEP, _MOST = 4.0, 1.5, 2.0**20
_XTOL: Final = 1e-3
# Sizes that are tried while the error falls, of plus and of minus messages: with more small clumps
# the ratio is smaller, so that more pairs fit. Beyond, and of larger tables, of some hundredths of
# a second, none is tried. A search begins so many times above the least noise, in such steps.
_SIZES: Final = (1.05, 1.1, 1.2, 1.4, 1.7, 2.0, 3.0, 5.0, 8.0, 12.0)
_LARGEST_TABLE: Final = 2**18
# Of delta, in laws that are searched with.
_LEFT_OUT: Final = 1e-9
_STARTS: Final = 1.1 ** np.arange(1.0, 9.0)
_NOISE_XTOL: Final = 1e-5
# Pairs of a cell and what they are of their shape, and messages of an envelope: laws are summed.
_LARGEST, _LARGEST_SPREAD, _LARGEST_ENVELOPE = 1e9, 1e5, 2**24
_LARGEST_SIZE: Final = 1e3
# Lengths of envelopes that are tried, and how far above the least the error may be.
LENGTHS: Final = (64, 80, 100, 128, 160, 200, 256, 320, 400, 512, 640, 800, 1024)
_NEAR: Final = 1.1


@dataclass(frozen=True)
class SignedDummiesParameters:
    """Law of a user's dummies, the length of an envelope and how many users the promise needs.

    Attributes
    ----------
    ratio
        q in (0, 1), of the negative binomial numbers of plus and of minus messages in a cell.
    pairs
        Mean number of pairs in a cell, positive. Both are of ``smallest`` users together.
    shape
        Of the negative binomial law of the pairs; inf for a Poisson law.
    slots
        Messages of an envelope, the true one and blanks included.
    smallest
        M: fewest honest users who take part.
    size
        Of the negative binomial numbers, positive; 1 for geometric ones.

    Raises
    ------
    InputError
        If one is out of range.
    """

    ratio: float
    pairs: float
    shape: float
    slots: int
    smallest: int
    size: float = 1.0

    def __post_init__(self) -> None:
        if not (0.0 < self.ratio < 1.0 and 0.0 < self.pairs < np.inf and self.shape > 0.0):
            raise InputError(
                f"signed dummies need a ratio in (0, 1) and positive pairs and shape (got "
                f"ratio={self.ratio}, pairs={self.pairs}, shape={self.shape})"
            )
        if not 1.0 / _LARGEST_SIZE <= self.size <= _LARGEST_SIZE:
            raise InputError(
                f"the size of signed dummies must be from {1.0 / _LARGEST_SIZE:g} to "
                f"{_LARGEST_SIZE:g} (got size={self.size})"
            )
        if self.pairs > _LARGEST or self.pairs > _LARGEST_SPREAD * self.shape:
            raise InputError(
                f"signed dummies have at most {_LARGEST:g} pairs in a cell, and at most "
                f"{_LARGEST_SPREAD:g} times their shape (got pairs={self.pairs}, "
                f"shape={self.shape})"
            )
        check_sizes(self.slots, 1.0)
        if self.smallest < 1:
            raise InputError(f"the promise needs at least one user (got {self.smallest})")

    @cached_property
    def noise(self) -> SignedNoise:
        """Of a cell, by the smallest number of users."""
        return SignedNoise(self.ratio, self.pairs, self.shape, self.size)

    @property
    def deviation(self) -> float:
        """Standard deviation of a cell's number with the smallest number of users."""
        return _deviation(self.ratio, self.size)

    def overflow(self, k: int) -> float:
        """Chance that a user's messages over k cells do not fit into the envelope."""
        room = self.slots - 1
        twins = np.arange(room // 2 + 1)
        size = 2.0 * self.size * k / self.smallest
        # As stats.nbinom.sf, whose checks take longer than its numbers.
        more = betainc(room - 2.0 * twins + 1.0, size, self.ratio)
        # Functions of the laws: to make one of them takes longer.
        law: Any = (stats.poisson, (k * self.pairs / self.smallest,))
        if self.shape < np.inf:
            share = self.shape / (self.shape + self.pairs)
            law = (stats.nbinom, (k * self.shape / self.smallest, share))
        of, given = law
        return float(of.pmf(twins, *given) @ more + of.sf(twins[-1], *given))

    def anybody(self, k: int, users: int | None = None) -> float:
        """At least the chance that those of any of so many users do not, by default the fewest."""
        return _MORE * (self.smallest if users is None else users) * self.overflow(k)


def check_sizes(slots: int, share: float) -> None:
    """Refuse an envelope, or a share of users, that cannot be.

    Raises
    ------
    InputError
        If so.
    """
    if not (2 <= slots <= _LARGEST_ENVELOPE and slots == int(slots)):
        raise InputError(
            f"an envelope has 2 to {_LARGEST_ENVELOPE:,} slots, a whole number (got slots={slots})"
        )
    if not 0.0 < share <= 1.0:
        raise InputError(f"the share who take part must lie in (0, 1] (got share={share})")


_Fits = Callable[[float], SignedDummiesParameters | None]


def _deviation(ratio: float, size: float = 1.0) -> float:
    """Of the difference of two negative binomial numbers."""
    return float(np.sqrt(2.0 * size * ratio) / (1.0 - ratio))


def _ratio(deviation: float, size: float) -> float:
    """That of such numbers."""
    less = size / deviation**2
    return float(1.0 / (1.0 + less + np.sqrt(less * (2.0 + less))))


@dataclass(frozen=True)
class Target:
    """What the noise is to keep.

    Attributes
    ----------
    eps, aim
        With all noise, and the natural log of its delta.
    room
        Natural log of the chance that anybody's messages may not fit.
    k, smallest
        Cells, and users who make the noise.
    """

    eps: float
    aim: float
    room: float
    k: int
    smallest: int

    def crowded(self, made: SignedDummiesParameters) -> float:
        """How far the log of that chance is above what may be."""
        over = made.anybody(self.k)
        return float(np.log(over)) - self.room if over else -np.inf

    @lru_cache(maxsize=64)  # noqa: B019 (tens of milliseconds, and some are asked for twice)
    def missed(self, made: SignedDummiesParameters) -> float:
        """How far the log of delta is above what is aimed at."""
        return self._short(made).log_delta(self.eps) - self.aim

    def _short(self, made: SignedDummiesParameters) -> SignedNoise:
        """Noise by laws no longer than such a delta needs."""
        tail = max(made.noise.tail, _LEFT_OUT * float(np.exp(self.aim)))
        return replace(made.noise, tail=tail)

    def least(self, pairs: float) -> float | None:
        """The least ratio of geometric numbers for so many pairs; None if none will do."""
        return _least_ratio(pairs, self.eps, self.aim)

    def with_pairs(self, pairs: float, slots: int) -> SignedDummiesParameters | None:
        """With the least noise for so many pairs, geometric; None if that does not fit."""
        if (ratio := self.least(pairs)) is None:
            return None
        made = SignedDummiesParameters(ratio, pairs, _SHAPE, slots, self.smallest)
        return made if self.crowded(made) <= 0.0 else None

    def fullest(self, deviation: float, size: float, slots: int) -> SignedDummiesParameters | None:
        """With as many pairs as fit; None if there are too few.

        Parameters
        ----------
        deviation, size
            Of the noise: its standard deviation, and the size of its numbers.
        slots
            Messages of an envelope.
        """
        ratio = _ratio(deviation, size)

        def made(pairs: float) -> SignedDummiesParameters:
            return SignedDummiesParameters(ratio, pairs, _SHAPE, slots, self.smallest, size)

        if self.crowded(made(_MOST)) <= 0.0:
            return made(_MOST)
        if self.crowded(made(_FEWEST)) > 0.0:
            return None
        few = least_noise(lambda x: self.crowded(made(1.0 / x)), 0.0, 1.0 / _FEWEST)
        return made(1.0 / few)

    def kept(self, made: SignedDummiesParameters | None) -> bool:
        """Whether it is, by a law that is soon summed."""
        return bool(
            made and self._short(made).entries <= _LARGEST_TABLE and self.missed(made) <= 0.0
        )


@lru_cache(maxsize=4096)  # the same pairs are tried for every length, and every number of users
def _least_ratio(pairs: float, eps: float, aim: float) -> float | None:
    high = 64.0 / eps

    def of(odds: float) -> float:
        return SignedNoise(odds / (1.0 + odds), pairs).log_delta(eps)

    return None if of(high) > aim else 1.0 / (1.0 + 1.0 / least_noise(of, aim, high))


def best_noise(target: Target, slots: int | None) -> SignedDummiesParameters | None:
    """Least noise: by geometric numbers, then by those of other sizes; None if nothing fits.

    Parameters
    ----------
    target
        What is kept.
    slots
        Messages of an envelope; None for the first of some lengths with which geometric numbers
        leave at most a tenth more noise than the least of all.
    """
    # Whatever the pairs, a ratio of exp(-eps / 2) is needed, but for delta.
    ideal, best = _deviation(np.exp(-0.5 * target.eps)), None
    length = slots or LENGTHS[-1]
    for length in (slots,) if slots else LENGTHS:
        fits = partial(target.with_pairs, slots=length)
        rough = _fitting(fits, min(0.5 * target.smallest / target.k * length, _MOST))
        if rough is None:
            continue
        best = rough
        # More pairs than fit would leave less noise than those that do.
        less = target.least(rough.pairs * _STEP)
        if less is not None and _deviation(less) <= _NEAR * ideal:
            best = _most_pairs(fits, rough)
            if best.deviation <= _NEAR * ideal:
                break
    else:
        if best is not None:
            length = best.slots
            best = _most_pairs(partial(target.with_pairs, slots=length), best)
    for size in _SIZES:
        starts = ideal * _STARTS if best is None else [best.deviation]
        found = ((target.fullest(float(start), size, length), float(start)) for start in starts)
        made, start = next((pair for pair in found if target.kept(pair[0])), (None, 0.0))
        if made is not None and (quieter := _least_noise(target, made, start)) is not None:
            best = quieter
        elif best is not None:
            break
    return best


def _least_noise(
    target: Target, best: SignedDummiesParameters, most: float
) -> SignedDummiesParameters | None:
    """With nearly the least noise of that size, from such as meet the target with the most."""
    size, slots = best.size, best.slots

    def excess(less: float) -> float:
        nonlocal best
        made = target.fullest(most * float(np.exp(less)), size, slots)
        if made is None:  # more noise than there was, by rounding
            return 0.0
        if (found := target.missed(made)) <= 0.0 and made.deviation < best.deviation:
            best = made
        return found

    high, low = 0.0, -0.05
    while excess(low) <= 0.0:
        high, low = low, low - 0.05
    brentq(excess, low, high, xtol=_NOISE_XTOL)
    # What the promise goes by is the whole law: its ratios lie wider apart in the table, so that
    # its delta may be more, by some millionths of itself.
    found: SignedDummiesParameters | None = best
    while found and found.noise.log_delta(target.eps) > target.aim:
        found = target.fullest(found.deviation * (1.0 + _NOISE_XTOL), size, slots)
    return found


def _fitting(found: _Fits, most: float) -> SignedDummiesParameters | None:
    """Parameters with nearly the largest number of pairs that fit."""
    best, pairs = None, _FEWEST
    while pairs < most:
        made = found(pairs)
        if made is None and best is not None:
            break
        best, pairs = made or best, pairs * _STEP
    return best


def _most_pairs(found: _Fits, best: SignedDummiesParameters) -> SignedDummiesParameters:
    """With the largest number of pairs, from there on: the more there are, the less noise."""
    low, high = best.pairs, min(best.pairs * _STEP, _MOST)
    while high > low * (1.0 + _XTOL):
        middle = float(np.sqrt(low * high))
        if (made := found(middle)) is None:
            high = middle
        else:
            best, low = made, middle
    return best
