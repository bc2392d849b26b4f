"""Envelopes of signed dummies: the law of what is in them, what does not fit, the least noise.

`shuffledp.accounting.signed` has the exact delta of the messages of all envelopes together.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, Final

import numpy as np
from scipy.special import betainc, gammainc

from shuffledp.accounting.calibrate import least_noise
from shuffledp.accounting.signed import SignedNoise, log_masses
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT

_MORE: Final = 1.01  # exceeds the library's rounding
# Law of the pairs: Poisson's needs the smallest envelopes. A negative binomial one has as much
# noise of half the messages, but was best in none of the settings tried.
_SHAPE: Final = np.inf
# Mean numbers of a cell's pairs among which one is sought, each so many times the one before, up to
# those that fill the envelopes, or so many that more would hardly leave less noise.
_FEWEST, _STEP, _MOST = 4.0, 1.5, 2.0**20
_XTOL: Final = 1e-3
# The log of size - 1, of plus and of minus messages, is searched from the first of these numbers in
# such steps, down to the least and up to the largest: with more small clumps the ratio is smaller,
# so that more pairs fit. Larger tables, which take more than some hundredths of a second, are not
# tried. Where no geometric numbers fit, a search begins so many times above the least noise.
_FIRST, _SIZE_STEP, _SMALLEST, _LARGEST_LOG = np.log([0.05, 2.0, 0.005, 15.0])
_LARGEST_TABLE: Final = 2**18
# Of delta, in laws that are searched with.
_LEFT_OUT: Final = 1e-9
_STARTS: Final = 1.1 ** np.arange(1.0, 9.0)
_NOISE_XTOL: Final = 1e-5
# Secants by which the least noise of a size is found while the size is searched.
_SECANTS, _FARTHEST, _SIZE_XTOL = 8, 0.05, 1e-4
# How often the step is halved beside sizes that do not keep the target.
_HALVINGS: Final = 2
# Odds of a ratio that is a float below 1.
_LARGEST_ODDS: Final = 1e12
# Numbers of pairs of a user that are summed one by one, and relative length of blocks of others.
# Numbers of pairs with a smaller chance count as more than fit.
_EXACT_PAIRS, _BLOCK, _NEVER = 2**12, 1e-3, 1e-40
# Pairs of a cell and what they are of their shape, and messages of an envelope: laws are summed.
_LARGEST, _LARGEST_SPREAD, _LARGEST_ENVELOPE = 1e9, 1e4, 2**24
_LARGEST_SIZE, _LEAST = 1e3, 1e-200
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
        if not (_LEAST <= self.ratio < 1.0 and _LEAST <= self.pairs < np.inf and self.shape > 0.0):
            raise InputError(
                f"signed dummies need a ratio from {_LEAST:g} to below 1, pairs of at least "
                f"{_LEAST:g} and a positive shape (got ratio={self.ratio}, pairs={self.pairs}, "
                f"shape={self.shape})"
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
        room, users = self.slots - 1, k / self.smallest
        most = room // 2
        # Numbers of pairs that fit, from the largest on; far below it those that begin a block.
        back = np.arange(min(most + 1.0, _EXACT_PAIRS))
        if most > _EXACT_PAIRS:
            count = int(np.log(most / _EXACT_PAIRS) / _BLOCK) + 2
            back = np.append(back, np.unique(np.ceil(np.geomspace(_EXACT_PAIRS, most, count))))
        twins = most - back
        logs, _ = log_masses(twins[:_EXACT_PAIRS][::-1], users * self.pairs, users * self.shape)
        blocks = np.diff(self._more_pairs(users, twins[_EXACT_PAIRS:]), append=1.0)
        chances = np.append(np.exp(logs)[::-1], blocks[: twins.size - logs.size] + 4.0 * UNIT)
        # As stats.nbinom.sf, whose checks take longer than its numbers.
        some = chances > _NEVER
        others = betainc(room - 2.0 * twins[some] + 1.0, 2.0 * self.size * users, self.ratio)
        rest = self._more_pairs(users, float(most)) + chances[~some].sum()
        return float(chances[some] @ others + rest)

    def _more_pairs(self, users: float, pairs: Any) -> Any:
        """Return the chance of more pairs than these, of so many times all users."""
        if self.shape == np.inf:
            return gammainc(pairs + 1.0, users * self.pairs)
        share = self.pairs / (self.shape + self.pairs)
        return betainc(pairs + 1.0, users * self.shape, share)

    def anybody(self, k: int, users: int | None = None) -> float:
        """At least the chance that those of any of so many users do not, by default the fewest."""
        return _MORE * (self.smallest if users is None else users) * self.overflow(k)


def check_sizes(slots: int, share: float) -> None:
    """Raise `InputError` for an envelope, or a share of users, that cannot be."""
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
        return self.short(made).log_delta(self.eps) - self.aim

    def short(self, made: SignedDummiesParameters) -> SignedNoise:
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


@lru_cache(maxsize=4096)  # the same pairs are tried for every length, and every number of users
def _least_ratio(pairs: float, eps: float, aim: float) -> float | None:
    high = min(64.0 / eps, _LARGEST_ODDS)

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
    starts = ideal * _STARTS if best is None else np.array([best.deviation])
    found = _Sizes(target, length, np.log(starts).tolist()).quietest()
    known = [made for made in (best, found) if made is not None]
    return min(known, key=lambda made: made.deviation, default=None)


@dataclass
class _Sizes:
    """Search of the size of the numbers, with as many pairs as fit, for the least noise.

    Attributes
    ----------
    target, slots
        As for `best_noise`.
    starts
        Logs of deviations, the first of which that keeps the target is where the search begins.
    """

    target: Target
    slots: int
    starts: list[float]

    def __post_init__(self) -> None:
        # Of the excess over the log of the deviation: about that of a normal law.
        self._slope = 8.0 * self.target.aim
        self._levels = dict[float, float]()

    def _made(self, place: float, level: float) -> SignedDummiesParameters | None:
        size = 1.0 + float(np.exp(place))
        made = self.target.fullest(float(np.exp(level)), size, self.slots)
        return made if made and self.target.short(made).entries <= _LARGEST_TABLE else None

    def _level(self, place: float) -> float:
        """Return about the log of the least deviation; inf if nothing keeps the target."""
        if not _SMALLEST <= place <= _LARGEST_LOG:
            return np.inf
        if place not in self._levels:
            self._levels[place] = self._solved(place)
        return self._levels[place]

    def _solved(self, place: float) -> float:
        best = min(self._levels.values(), default=np.inf)
        starts = self.starts if best == np.inf else [best]
        level, excess = np.inf, np.inf
        for level in starts:
            made = self._made(place, level)
            excess = self.target.missed(made) if made else np.inf
            if excess <= 0.0 and made:
                break
        if excess > 0.0:  # More noise than the best: how much more hardly matters.
            return level - excess / self._slope if len(starts) == 1 else np.inf
        slope = self._slope
        for _ in range(_SECANTS):
            # With much noise few pairs fit, and the excess may grow with it.
            step = -excess / slope if slope < 0.0 else -_FARTHEST
            step = min(max(step, -_FARTHEST), _FARTHEST)
            if abs(step) < _SIZE_XTOL or (made := self._made(place, level + step)) is None:
                break
            level, before, excess = level + step, excess, self.target.missed(made)
            slope = (excess - before) / step
        if slope < 0.0:
            self._slope = slope
        return level - excess / self._slope

    def quietest(self) -> SignedDummiesParameters | None:
        """Return parameters with nearly the least noise; None if none are found."""
        place = float(_FIRST)
        while len(self.starts) > 1 and self._level(place) == np.inf and place < _LARGEST_LOG:
            place += _SIZE_STEP
        step = float(_SIZE_STEP)
        for by in (step, -step):
            while self._level(place + by) < self._level(place):
                place += by
        for _ in range(_HALVINGS):  # Beside sizes that do not keep the target at all.
            if max(self._level(place - step), self._level(place + step)) < np.inf:
                break
            step *= 0.5
            place = min((place - step, place, place + step), key=self._level)
        left, here, right = (self._level(place + by) for by in (-step, 0.0, step))
        if left + right < np.inf and left + right > 2.0 * here:
            # The vertex of the parabola through three points.
            place += 0.5 * step * (left - right) / (left - 2.0 * here + right)
        level = self._level(place)
        return None if level == np.inf else self._kept(place, level)

    def _kept(self, place: float, level: float) -> SignedDummiesParameters | None:
        """Return parameters that keep the target by the whole law, with about that deviation."""
        for more in _NOISE_XTOL * 2.0 ** np.arange(-1.0, 14.0):
            made = self._made(place, level + more)
            if made is None or self.target.missed(made) > 0.0:
                continue
            # Its ratios lie wider apart in the table: delta may be more, by some millionths.
            if made.noise.log_delta(self.target.eps) <= self.target.aim:
                return made
        return None


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
