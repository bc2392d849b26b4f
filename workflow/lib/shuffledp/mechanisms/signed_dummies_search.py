"""Envelopes of signed dummies: their contents, their overflow, and the search for least noise.

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

OVERFLOW_FACTOR: Final = 1.01  # covers the rounding of SciPy's functions
# Shape of the law of the pairs. Poisson's law (infinite shape) needs the smallest envelopes. A
# negative binomial law has as much noise with half the messages, but was best in no setting tried.
PAIRS_SHAPE: Final = np.inf
# The search for the mean number of a cell's pairs: smallest number, factor of each step, and
# largest number, beyond which more pairs would hardly reduce the noise. Then its relative
# tolerance.
MIN_PAIRS, PAIRS_STEP, MAX_PAIRS = 4.0, 1.5, 2.0**20
PAIRS_XTOL: Final = 1e-3
# The search for the log of size - 1: start, step, smallest and largest number. With a larger size
# the noise consists of more and smaller clumps, and the ratio is smaller, so that more pairs fit.
# Tables that take more than some hundredths of a second are not tried.
FIRST_LOG_EXCESS, LOG_EXCESS_STEP, MIN_LOG_EXCESS, MAX_LOG_EXCESS = np.log([0.05, 2.0, 0.005, 15.0])
MAX_TABLE_ENTRIES: Final = 2**18
# Share of delta that laws in the search leave out. If no geometric noise fits, the search starts at
# these multiples of the least noise; then the relative tolerances of the result.
SEARCH_TAIL_SHARE: Final = 1e-9
START_FACTORS: Final = 1.1 ** np.arange(1.0, 9.0)
DEVIATION_XTOL: Final = 1e-5
# Number, largest step and tolerance of secants for the least noise of each size.
MAX_SECANTS, MAX_LOG_STEP, LOG_DEVIATION_XTOL = 8, 0.05, 1e-4
# Largest number of halvings of the step next to sizes that cannot keep the target.
MAX_HALVINGS: Final = 2
# Odds of a ratio that is a float below 1.
MAX_ODDS: Final = 1e12
# Numbers of pairs of a user that are summed one by one, and relative length of blocks of others.
# Numbers of pairs with a smaller chance count as more than fit.
EXACT_PAIRS, RELATIVE_BLOCK_WIDTH, NEGLIGIBLE_PROBABILITY = 2**12, 1e-3, 1e-40
# Pairs of a cell and what they are of their shape, and messages of an envelope: laws are summed.
MAX_PAIRS_PER_CELL, MAX_PAIRS_PER_SHAPE, MAX_SLOTS = 1e9, 1e4, 2**24
MAX_SIZE, SMALLEST_PARAMETER = 1e3, 1e-200
# Lengths of envelopes that are tried, and how far above the least the error may be.
LENGTHS: Final = (64, 80, 100, 128, 160, 200, 256, 320, 400, 512, 640, 800, 1024)
TOLERATED_ERROR_FACTOR: Final = 1.1


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
        if not (
            SMALLEST_PARAMETER <= self.ratio < 1.0
            and SMALLEST_PARAMETER <= self.pairs < np.inf
            and self.shape > 0.0
        ):
            raise InputError(
                f"signed dummies need a ratio from {SMALLEST_PARAMETER:g} to below 1, pairs of at "
                f"least {SMALLEST_PARAMETER:g} and a positive shape (got ratio={self.ratio}, "
                f"pairs={self.pairs}, shape={self.shape})"
            )
        if not 1.0 / MAX_SIZE <= self.size <= MAX_SIZE:
            raise InputError(
                f"the size of signed dummies must be from {1.0 / MAX_SIZE:g} to "
                f"{MAX_SIZE:g} (got size={self.size})"
            )
        if self.pairs > MAX_PAIRS_PER_CELL or self.pairs > MAX_PAIRS_PER_SHAPE * self.shape:
            raise InputError(
                f"signed dummies have at most {MAX_PAIRS_PER_CELL:g} pairs in a cell, and at most "
                f"{MAX_PAIRS_PER_SHAPE:g} times their shape (got pairs={self.pairs}, "
                f"shape={self.shape})"
            )
        check_sizes(self.slots, 1.0)
        if self.smallest < 1:
            raise InputError(f"the promise needs at least one user (got {self.smallest})")

    @cached_property
    def noise(self) -> SignedNoise:
        """Noise of a cell by the smallest number of users."""
        return SignedNoise(self.ratio, self.pairs, self.shape, self.size)

    @property
    def deviation(self) -> float:
        """Standard deviation of a cell's count with the smallest number of users."""
        return _deviation(self.ratio, self.size)

    def overflow(self, k: int) -> float:
        """Return the probability that a user's messages over k cells do not fit."""
        room, users = self.slots - 1, k / self.smallest
        most = room // 2
        # Numbers of pairs that fit, descending; far below the largest, the first of each block.
        back = np.arange(min(most + 1.0, EXACT_PAIRS))
        if most > EXACT_PAIRS:
            count = int(np.log(most / EXACT_PAIRS) / RELATIVE_BLOCK_WIDTH) + 2
            back = np.append(back, np.unique(np.ceil(np.geomspace(EXACT_PAIRS, most, count))))
        twins = most - back
        logs, _ = log_masses(twins[:EXACT_PAIRS][::-1], users * self.pairs, users * self.shape)
        blocks = np.diff(self._more_pairs(users, twins[EXACT_PAIRS:]), append=1.0)
        chances = np.append(np.exp(logs)[::-1], blocks[: twins.size - logs.size] + 4.0 * UNIT)
        # betainc is stats.nbinom.sf without its checks, which take longer than the computation.
        some = chances > NEGLIGIBLE_PROBABILITY
        others = betainc(room - 2.0 * twins[some] + 1.0, 2.0 * self.size * users, self.ratio)
        rest = self._more_pairs(users, float(most)) + chances[~some].sum()
        return float(chances[some] @ others + rest)

    def _more_pairs(self, users: float, pairs: Any) -> Any:
        """Return the probability of more than ``pairs`` pairs, of a multiple of all users."""
        if self.shape == np.inf:
            return gammainc(pairs + 1.0, users * self.pairs)
        share = self.pairs / (self.shape + self.pairs)
        return betainc(pairs + 1.0, users * self.shape, share)

    def anybody(self, k: int, users: int | None = None) -> float:
        """Return a bound of the probability that any user's messages do not fit."""
        return OVERFLOW_FACTOR * (self.smallest if users is None else users) * self.overflow(k)


def check_sizes(slots: int, share: float) -> None:
    """Raise `InputError` for an impossible number of slots or share of users."""
    if not (2 <= slots <= MAX_SLOTS and slots == int(slots)):
        raise InputError(
            f"an envelope has 2 to {MAX_SLOTS:,} slots, a whole number (got slots={slots})"
        )
    if not 0.0 < share <= 1.0:
        raise InputError(f"the share who take part must lie in (0, 1] (got share={share})")


_Fits = Callable[[float], SignedDummiesParameters | None]


def _deviation(ratio: float, size: float = 1.0) -> float:
    """Return the standard deviation of the difference of two negative binomial numbers."""
    return float(np.sqrt(2.0 * size * ratio) / (1.0 - ratio))


def _ratio(deviation: float, size: float) -> float:
    """Return the ratio of such numbers from the standard deviation of their difference."""
    less = size / deviation**2
    return float(1.0 / (1.0 + less + np.sqrt(less * (2.0 + less))))


@dataclass(frozen=True)
class Target:
    """The target of the search.

    Attributes
    ----------
    eps, aim
        Central budget, and the natural log of the delta of the noise.
    room
        Natural log of the largest probability that some user's messages do not fit.
    k, smallest
        Numbers of cells, and of users who contribute noise.
    """

    eps: float
    aim: float
    room: float
    k: int
    smallest: int

    def crowded(self, made: SignedDummiesParameters) -> float:
        """Return the log of the overflow probability minus its largest value."""
        over = made.anybody(self.k)
        return float(np.log(over)) - self.room if over else -np.inf

    @lru_cache(maxsize=64)  # noqa: B019 (it takes tens of milliseconds, and arguments recur)
    def missed(self, made: SignedDummiesParameters) -> float:
        """Return the log of delta minus its target."""
        return self.short(made).log_delta(self.eps) - self.aim

    def short(self, made: SignedDummiesParameters) -> SignedNoise:
        """Return the noise with laws no longer than the target delta needs."""
        tail = max(made.noise.tail, SEARCH_TAIL_SHARE * float(np.exp(self.aim)))
        return replace(made.noise, tail=tail)

    def least(self, pairs: float) -> float | None:
        """Return the least ratio of geometric numbers for a number of pairs, or None."""
        return _least_ratio(pairs, self.eps, self.aim)

    def with_pairs(self, pairs: float, slots: int) -> SignedDummiesParameters | None:
        """Return least geometric noise for a number of pairs; None if it does not fit."""
        if (ratio := self.least(pairs)) is None:
            return None
        made = SignedDummiesParameters(ratio, pairs, PAIRS_SHAPE, slots, self.smallest)
        return made if self.crowded(made) <= 0.0 else None

    def fullest(self, deviation: float, size: float, slots: int) -> SignedDummiesParameters | None:
        """Return parameters with as many pairs as fit; None if they are too few.

        Parameters
        ----------
        deviation, size
            Standard deviation of the noise, and size of its numbers.
        slots
            Number of messages in an envelope.
        """
        ratio = _ratio(deviation, size)

        def made(pairs: float) -> SignedDummiesParameters:
            return SignedDummiesParameters(ratio, pairs, PAIRS_SHAPE, slots, self.smallest, size)

        if self.crowded(made(MAX_PAIRS)) <= 0.0:
            return made(MAX_PAIRS)
        if self.crowded(made(MIN_PAIRS)) > 0.0:
            return None
        few = least_noise(lambda x: self.crowded(made(1.0 / x)), 0.0, 1.0 / MIN_PAIRS)
        return made(1.0 / few)


@lru_cache(maxsize=4096)  # the same pairs are tried for every length, and every number of users
def _least_ratio(pairs: float, eps: float, aim: float) -> float | None:
    high = min(64.0 / eps, MAX_ODDS)

    def of(odds: float) -> float:
        return SignedNoise(odds / (1.0 + odds), pairs).log_delta(eps)

    return None if of(high) > aim else 1.0 / (1.0 + 1.0 / least_noise(of, aim, high))


def best_noise(target: Target, slots: int | None) -> SignedDummiesParameters | None:
    """Return the parameters with the least noise; None if nothing fits.

    Geometric numbers are tried first, and then those of other sizes.

    Parameters
    ----------
    target
        The target to keep.
    slots
        Number of messages in an envelope. None stands for the first of some lengths with which
        geometric noise is at most a tenth above the least.
    """
    # For any number of pairs, the ratio is at least about exp(-eps / 2).
    ideal, best = _deviation(np.exp(-0.5 * target.eps)), None
    length = slots or LENGTHS[-1]
    for length in (slots,) if slots else LENGTHS:
        fits = partial(target.with_pairs, slots=length)
        rough = _fitting(fits, min(0.5 * target.smallest / target.k * length, MAX_PAIRS))
        if rough is None:
            continue
        best = rough
        # The noise with more pairs than fit is a lower estimate of the noise with those that fit.
        less = target.least(rough.pairs * PAIRS_STEP)
        if less is not None and _deviation(less) <= TOLERATED_ERROR_FACTOR * ideal:
            best = _most_pairs(fits, rough)
            if best.deviation <= TOLERATED_ERROR_FACTOR * ideal:
                break
    else:
        if best is not None:
            length = best.slots
            best = _most_pairs(partial(target.with_pairs, slots=length), best)
    starts = ideal * START_FACTORS if best is None else np.array([best.deviation])
    found = _Sizes(target, length, np.log(starts).tolist()).quietest()
    known = [made for made in (best, found) if made is not None]
    return min(known, key=lambda made: made.deviation, default=None)


@dataclass
class _Sizes:
    """Search for the size of the numbers with the least noise, with as many pairs as fit.

    Attributes
    ----------
    target, slots
        As for `best_noise`.
    starts
        Logs of deviations; the search begins at the first one that keeps the target.
    """

    target: Target
    slots: int
    starts: list[float]

    def __post_init__(self) -> None:
        # Slope of the excess over the log of the deviation, initially that of a normal law.
        self._slope = 8.0 * self.target.aim
        self._levels = dict[float, float]()

    def _made(self, place: float, level: float) -> SignedDummiesParameters | None:
        size = 1.0 + float(np.exp(place))
        made = self.target.fullest(float(np.exp(level)), size, self.slots)
        return made if made and self.target.short(made).entries <= MAX_TABLE_ENTRIES else None

    def _level(self, place: float) -> float:
        """Return an estimate of the log of the least deviation; inf if the target fails."""
        if not MIN_LOG_EXCESS <= place <= MAX_LOG_EXCESS:
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
        if excess > 0.0:  # It is noisier than the best; a rough value suffices.
            return level - excess / self._slope if len(starts) == 1 else np.inf
        slope = self._slope
        for _ in range(MAX_SECANTS):
            # With much noise few pairs fit, and the excess may grow with the noise.
            step = -excess / slope if slope < 0.0 else -MAX_LOG_STEP
            step = min(max(step, -MAX_LOG_STEP), MAX_LOG_STEP)
            if abs(step) < LOG_DEVIATION_XTOL or (made := self._made(place, level + step)) is None:
                break
            level, before, excess = level + step, excess, self.target.missed(made)
            slope = (excess - before) / step
        if slope < 0.0:
            self._slope = slope
        return level - excess / self._slope

    def quietest(self) -> SignedDummiesParameters | None:
        """Return parameters with nearly the least noise; None if none are found."""
        place = float(FIRST_LOG_EXCESS)
        while len(self.starts) > 1 and self._level(place) == np.inf and place < MAX_LOG_EXCESS:
            place += LOG_EXCESS_STEP
        step = float(LOG_EXCESS_STEP)
        for by in (step, -step):
            while self._level(place + by) < self._level(place):
                place += by
        for _ in range(MAX_HALVINGS):  # Next to sizes that cannot keep the target.
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
        """Return parameters near that deviation that keep the target by the whole law."""
        for more in DEVIATION_XTOL * 2.0 ** np.arange(-1.0, 14.0):
            made = self._made(place, level + more)
            if made is None or self.target.missed(made) > 0.0:
                continue
            # The grid of ratios of the whole law is coarser, so delta may be slightly larger.
            if made.noise.log_delta(self.target.eps) <= self.target.aim:
                return made
        return None


def _fitting(found: _Fits, most: float) -> SignedDummiesParameters | None:
    """Return parameters with nearly the largest number of pairs that fit."""
    best, pairs = None, MIN_PAIRS
    while pairs < most:
        made = found(pairs)
        if made is None and best is not None:
            break
        best, pairs = made or best, pairs * PAIRS_STEP
    return best


def _most_pairs(found: _Fits, best: SignedDummiesParameters) -> SignedDummiesParameters:
    """Return parameters with the largest number of pairs, which means the least noise."""
    low, high = best.pairs, min(best.pairs * PAIRS_STEP, MAX_PAIRS)
    while high > low * (1.0 + PAIRS_XTOL):
        middle = float(np.sqrt(low * high))
        if (made := found(middle)) is None:
            high = middle
        else:
            best, low = made, middle
    return best
