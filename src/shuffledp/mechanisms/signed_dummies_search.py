"""Parameters of signed dummies: the overflow of envelopes, and the search for the least noise.

`signed_dummies` describes the mechanism. A user's messages fill one envelope with a fixed number of
slots; overflow is the event that they do not fit.
`shuffledp.accounting.signed` computes the exact delta of the messages of all envelopes together.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, Final

import numpy as np
from scipy.special import betainc, gammainc

from shuffledp.accounting.calibrate import smallest_noise
from shuffledp.accounting.signed import SignedNoise, log_masses
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT

OVERFLOW_FACTOR: Final = 1.01  # covers rounding errors of SciPy's functions
# Shape of the law of the number of pairs. The Poisson law (infinite shape) needs the smallest
# envelopes. A negative binomial law adds as much noise with half the messages, but needed more
# slots in every setting that was tried.
PAIRS_SHAPE: Final = np.inf
# Search for a cell's mean number of pairs: smallest number, factor of each step, largest number
# (more pairs hardly reduce the noise), and relative tolerance.
MIN_PAIRS, PAIRS_STEP, MAX_PAIRS = 4.0, 1.5, 2.0**20
PAIRS_XTOL: Final = 1e-3
# Search for the log of size - 1: start, step, smallest and largest value. With a larger size the
# messages come in more and smaller clumps, and the ratio is smaller, so that more pairs fit.
# Candidates with tables of more than `MAX_TABLE_ENTRIES` would be too slow and are skipped.
FIRST_LOG_EXCESS, LOG_EXCESS_STEP, MIN_LOG_EXCESS, MAX_LOG_EXCESS = np.log([0.05, 2.0, 0.005, 15.0])
MAX_TABLE_ENTRIES: Final = 2**18
# Probability that truncated laws leave out in the search, relative to delta.
SEARCH_TAIL_SHARE: Final = 1e-9
# If no geometric noise fits, the search starts at these multiples of the least noise.
START_FACTORS: Final = 1.1 ** np.arange(1.0, 9.0)
DEVIATION_XTOL: Final = 1e-5  # relative tolerance of the result
# Secant steps to the least noise of a size, in the log of its deviation: largest number, largest
# length and tolerance.
MAX_SECANTS, MAX_LOG_STEP, LOG_DEVIATION_XTOL = 8, 0.05, 1e-4
# How often the step in size is halved if a neighbouring size cannot meet the target.
MAX_HALVINGS: Final = 2
# Largest odds of a ratio, for which the ratio is still a float below 1.
MAX_ODDS: Final = 1e12
# The overflow probability is a sum over a user's number of pairs. The `EXACT_PAIRS` largest numbers
# that fit are summed one by one, the others in blocks, whose width is relative to the distance from
# the largest. Numbers and blocks with a negligible probability count as overflow.
EXACT_PAIRS, RELATIVE_BLOCK_WIDTH, NEGLIGIBLE_PROBABILITY = 2**12, 1e-3, 1e-40
# Limits within which the laws can be summed: pairs of a cell, their ratio to the shape, slots of an
# envelope, the size, and the smallest positive parameter.
MAX_PAIRS_PER_CELL, MAX_PAIRS_PER_SHAPE, MAX_SLOTS = 1e9, 1e4, 2**24
MAX_SIZE, SMALLEST_PARAMETER = 1e3, 1e-200
# Numbers of slots that are tried, and the largest accepted ratio of the error to the least error.
ENVELOPE_LENGTHS: Final = (64, 80, 100, 128, 160, 200, 256, 320, 400, 512, 640, 800, 1024)
TOLERATED_ERROR_FACTOR: Final = 1.1


@dataclass(frozen=True)
class SignedDummiesParameters:
    """Law of the dummies, length of an envelope, and smallest number of honest users.

    The laws are those of one cell, summed over ``smallest`` users.

    Attributes
    ----------
    ratio
        Ratio q in (0, 1) of the negative binomial numbers of plus and minus messages.
    pairs
        Mean number of pairs, positive.
    shape
        Shape of the negative binomial number of pairs; inf for a Poisson number.
    slots
        Number of messages in an envelope, including the true one and blanks.
    smallest
        Number M of honest users who must take part for the guarantee to hold.
    size
        Size of the negative binomial numbers of plus and minus messages, positive; 1 if geometric.
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
                f"least {SMALLEST_PARAMETER:g} and a positive shape, got ratio={self.ratio}, "
                f"pairs={self.pairs}, shape={self.shape}"
            )
        if not 1.0 / MAX_SIZE <= self.size <= MAX_SIZE:
            raise InputError(
                f"the size of signed dummies must be from {1.0 / MAX_SIZE:g} to "
                f"{MAX_SIZE:g}, got size={self.size}"
            )
        if self.pairs > MAX_PAIRS_PER_CELL or self.pairs > MAX_PAIRS_PER_SHAPE * self.shape:
            raise InputError(
                f"signed dummies have at most {MAX_PAIRS_PER_CELL:g} pairs in a cell, and at most "
                f"{MAX_PAIRS_PER_SHAPE:g} times their shape, got pairs={self.pairs}, "
                f"shape={self.shape}"
            )
        check_sizes(self.slots, 1.0)
        if self.smallest < 1:
            raise InputError(
                f"smallest, a number of users, must be at least 1, got smallest={self.smallest}"
            )

    @cached_property
    def noise(self) -> SignedNoise:
        """Noise in a cell if ``smallest`` users take part."""
        return SignedNoise(self.ratio, self.pairs, self.shape, self.size)

    @property
    def deviation(self) -> float:
        """Standard deviation of a cell's count if ``smallest`` users take part."""
        return _deviation(self.ratio, self.size)

    def overflow(self, k: int) -> float:
        """Return the probability that a user's messages for k cells do not fit."""
        free_slots, users = self.slots - 1, k / self.smallest
        max_pairs = free_slots // 2
        # Numbers of pairs that fit, in descending order; far below the largest, one of each block.
        below_most = np.arange(min(max_pairs + 1.0, EXACT_PAIRS))
        if max_pairs > EXACT_PAIRS:
            count = int(np.log(max_pairs / EXACT_PAIRS) / RELATIVE_BLOCK_WIDTH) + 2
            below_most = np.append(
                below_most, np.unique(np.ceil(np.geomspace(EXACT_PAIRS, max_pairs, count)))
            )
        fitting = max_pairs - below_most
        logs, _ = log_masses(fitting[:EXACT_PAIRS][::-1], users * self.pairs, users * self.shape)
        blocks = np.diff(self._more_pairs(users, fitting[EXACT_PAIRS:]), append=1.0)
        masses = np.append(np.exp(logs)[::-1], blocks[: fitting.size - logs.size] + 4.0 * UNIT)
        likely = masses > NEGLIGIBLE_PROBABILITY
        # Probability that the plus and minus messages exceed the remaining slots. This is
        # stats.nbinom.sf without argument checks, which take longer than the computation.
        others = betainc(
            free_slots - 2.0 * fitting[likely] + 1.0, 2.0 * self.size * users, self.ratio
        )
        rest = self._more_pairs(users, float(max_pairs)) + masses[~likely].sum()
        return float(masses[likely] @ others + rest)

    def _more_pairs(self, users: float, pairs: Any) -> Any:
        """Return the probability of more than ``pairs`` pairs; ``users`` multiplies the noise."""
        if self.shape == np.inf:
            return gammainc(pairs + 1.0, users * self.pairs)
        share = self.pairs / (self.shape + self.pairs)
        return betainc(pairs + 1.0, users * self.shape, share)

    def any_overflow_probability(self, k: int, users: int | None = None) -> float:
        """Bound the probability that any of ``users`` envelopes (default `smallest`) overflows."""
        return OVERFLOW_FACTOR * (self.smallest if users is None else users) * self.overflow(k)


def check_sizes(slots: int, share: float) -> None:
    """Raise `InputError` if the number of slots or the share of users is out of range."""
    if not (2 <= slots <= MAX_SLOTS and slots == int(slots)):
        raise InputError(
            f"slots of an envelope must be an integer from 2 to {MAX_SLOTS:,}, got slots={slots}"
        )
    if not 0.0 < share <= 1.0:
        raise InputError(f"the share of users who take part must lie in (0, 1], got share={share}")


# Function from a number of pairs to parameters; None if pairs do not fit or the target is missed.
_FromPairs = Callable[[float], SignedDummiesParameters | None]


def _deviation(ratio: float, size: float = 1.0) -> float:
    """Return the standard deviation of the difference of two negative binomial numbers."""
    return float(np.sqrt(2.0 * size * ratio) / (1.0 - ratio))


def _ratio(deviation: float, size: float) -> float:
    """Return the ratio for which the difference has this standard deviation."""
    x = size / deviation**2
    return float(1.0 / (1.0 + x + np.sqrt(x * (2.0 + x))))


@dataclass(frozen=True)
class Target:
    """Target of the search for parameters.

    Attributes
    ----------
    eps, log_delta
        Central budget, and natural log of the largest accepted delta of the noise.
    log_overflow
        Natural log of the largest accepted probability that any user's envelope overflows.
    k, smallest
        Number of cells, and number of honest users who contribute noise.
    """

    eps: float
    log_delta: float
    log_overflow: float
    k: int
    smallest: int

    def overflow_excess(self, candidate: SignedDummiesParameters) -> float:
        """Return how far the log of the overflow probability exceeds its limit."""
        over = candidate.any_overflow_probability(self.k)
        return float(np.log(over)) - self.log_overflow if over else -np.inf

    @lru_cache(maxsize=64)  # noqa: B019 (a call takes tens of milliseconds, and arguments recur)
    def log_delta_excess(self, candidate: SignedDummiesParameters) -> float:
        """Return how far log delta exceeds the target."""
        return self.truncated_noise(candidate).log_delta(self.eps) - self.log_delta

    def truncated_noise(self, candidate: SignedDummiesParameters) -> SignedNoise:
        """Return the noise with laws truncated to the accuracy that the target needs."""
        tail = max(candidate.noise.tail, SEARCH_TAIL_SHARE * float(np.exp(self.log_delta)))
        return replace(candidate.noise, tail=tail)

    def least_ratio(self, pairs: float) -> float | None:
        """Return the least ratio of geometric noise that meets the target; None if none does."""
        return _least_ratio(pairs, self.eps, self.log_delta)

    def with_pairs(self, pairs: float, slots: int) -> SignedDummiesParameters | None:
        """Return parameters with the least geometric noise; None if no noise meets the target."""
        if (ratio := self.least_ratio(pairs)) is None:
            return None
        candidate = SignedDummiesParameters(ratio, pairs, PAIRS_SHAPE, slots, self.smallest)
        return candidate if self.overflow_excess(candidate) <= 0.0 else None

    def with_most_pairs(
        self, deviation: float, size: float, slots: int
    ) -> SignedDummiesParameters | None:
        """Return parameters with as many pairs as fit; None if fewer than `MIN_PAIRS` fit."""
        ratio = _ratio(deviation, size)

        def candidate(pairs: float) -> SignedDummiesParameters:
            return SignedDummiesParameters(ratio, pairs, PAIRS_SHAPE, slots, self.smallest, size)

        if self.overflow_excess(candidate(MAX_PAIRS)) <= 0.0:
            return candidate(MAX_PAIRS)
        if self.overflow_excess(candidate(MIN_PAIRS)) > 0.0:
            return None
        inverse = smallest_noise(
            lambda x: self.overflow_excess(candidate(1.0 / x)), 0.0, 1.0 / MIN_PAIRS
        )
        return candidate(1.0 / inverse)


@lru_cache(maxsize=4096)  # the same numbers of pairs are tried for all slots and users
def _least_ratio(pairs: float, eps: float, log_delta: float) -> float | None:
    high = min(64.0 / eps, MAX_ODDS)

    def log_delta_of(odds: float) -> float:
        return SignedNoise(odds / (1.0 + odds), pairs).log_delta(eps)

    if log_delta_of(high) > log_delta:
        return None
    return 1.0 / (1.0 + 1.0 / smallest_noise(log_delta_of, log_delta, high))


def best_noise(target: Target, slots: int | None) -> SignedDummiesParameters | None:
    """Return the parameters with the least noise; None if none meet the target.

    Geometric numbers of messages (size 1) are tried first, and then larger sizes. By default, the
    number of slots is the first of `ENVELOPE_LENGTHS` with which the error of geometric noise is at
    most a tenth above the least.
    """
    # For any number of pairs, the ratio is at least about exp(-eps / 2).
    least_deviation, best = _deviation(np.exp(-0.5 * target.eps)), None
    length = slots or ENVELOPE_LENGTHS[-1]
    for length in (slots,) if slots else ENVELOPE_LENGTHS:
        from_pairs = partial(target.with_pairs, slots=length)
        rough = _roughly_most_pairs(
            from_pairs, min(0.5 * target.smallest / target.k * length, MAX_PAIRS)
        )
        if rough is None:
            continue
        best = rough
        # The noise with more pairs than fit is a lower bound on the noise with as many as fit.
        ratio = target.least_ratio(rough.pairs * PAIRS_STEP)
        if ratio is not None and _deviation(ratio) <= TOLERATED_ERROR_FACTOR * least_deviation:
            best = _most_pairs(from_pairs, rough)
            if best.deviation <= TOLERATED_ERROR_FACTOR * least_deviation:
                break
    else:
        if best is not None:
            length = best.slots
            best = _most_pairs(partial(target.with_pairs, slots=length), best)
    starts = least_deviation * START_FACTORS if best is None else np.array([best.deviation])
    other = _SizeSearch(target, length, np.log(starts).tolist()).best()
    candidates = [candidate for candidate in (best, other) if candidate is not None]
    return min(candidates, key=lambda candidate: candidate.deviation, default=None)


@dataclass
class _SizeSearch:
    """Search for the size of the negative binomial numbers with the least noise.

    For each size, the number of pairs is the largest that fits. A ``position`` is the log of
    size - 1, and a ``level`` is the log of the standard deviation.

    Attributes
    ----------
    target, slots
        See `best_noise`.
    starts
        Levels; the search begins at the first one that meets the target.
    """

    target: Target
    slots: int
    starts: list[float]

    def __post_init__(self) -> None:
        # Slope of log delta as a function of the level, initially about that of normal noise.
        self._slope = 8.0 * self.target.log_delta
        self._levels = dict[float, float]()

    def _candidate(self, position: float, level: float) -> SignedDummiesParameters | None:
        size = 1.0 + float(np.exp(position))
        candidate = self.target.with_most_pairs(float(np.exp(level)), size, self.slots)
        return (
            candidate
            if candidate and self.target.truncated_noise(candidate).entries <= MAX_TABLE_ENTRIES
            else None
        )

    def _level(self, position: float) -> float:
        """Estimate the least level of a size that meets the target; inf if there is none."""
        if not MIN_LOG_EXCESS <= position <= MAX_LOG_EXCESS:
            return np.inf
        if position not in self._levels:
            self._levels[position] = self._least_level(position)
        return self._levels[position]

    def _least_level(self, position: float) -> float:
        """Estimate the least level by secant steps."""
        best = min(self._levels.values(), default=np.inf)
        starts = self.starts if best == np.inf else [best]
        level, excess = np.inf, np.inf
        for level in starts:
            candidate = self._candidate(position, level)
            excess = self.target.log_delta_excess(candidate) if candidate else np.inf
            if excess <= 0.0 and candidate:
                break
        if excess > 0.0:  # this size needs more noise than the best, so a rough value suffices
            return level - excess / self._slope if len(starts) == 1 else np.inf
        slope = self._slope
        for _ in range(MAX_SECANTS):
            # With much noise only few pairs fit, so delta may increase with the noise.
            step = -excess / slope if slope < 0.0 else -MAX_LOG_STEP
            step = min(max(step, -MAX_LOG_STEP), MAX_LOG_STEP)
            if (
                abs(step) < LOG_DEVIATION_XTOL
                or (candidate := self._candidate(position, level + step)) is None
            ):
                break
            level, before, excess = level + step, excess, self.target.log_delta_excess(candidate)
            slope = (excess - before) / step
        if slope < 0.0:
            self._slope = slope
        return level - excess / self._slope

    def best(self) -> SignedDummiesParameters | None:
        """Return parameters with nearly the least noise; None if none meet the target."""
        position = float(FIRST_LOG_EXCESS)
        while (
            len(self.starts) > 1 and self._level(position) == np.inf and position < MAX_LOG_EXCESS
        ):
            position += LOG_EXCESS_STEP
        step = float(LOG_EXCESS_STEP)
        for by in (step, -step):
            while self._level(position + by) < self._level(position):
                position += by
        for _ in range(MAX_HALVINGS):  # while a neighbouring size cannot meet the target
            if max(self._level(position - step), self._level(position + step)) < np.inf:
                break
            step *= 0.5
            position = min((position - step, position, position + step), key=self._level)
        left, here, right = (self._level(position + by) for by in (-step, 0.0, step))
        if left + right < np.inf and left + right > 2.0 * here:
            # Move to the vertex of the parabola through the three points.
            position += 0.5 * step * (left - right) / (left - 2.0 * here + right)
        level = self._level(position)
        return None if level == np.inf else self._validated(position, level)

    def _validated(self, position: float, level: float) -> SignedDummiesParameters | None:
        """Return parameters near this level for which the untruncated laws meet the target."""
        for increase in DEVIATION_XTOL * 2.0 ** np.arange(-1.0, 14.0):
            candidate = self._candidate(position, level + increase)
            if candidate is None or self.target.log_delta_excess(candidate) > 0.0:
                continue
            # Untruncated laws use a coarser grid of losses, so their delta may be slightly larger.
            if candidate.noise.log_delta(self.target.eps) <= self.target.log_delta:
                return candidate
        return None


def _roughly_most_pairs(from_pairs: _FromPairs, limit: float) -> SignedDummiesParameters | None:
    """Return parameters whose number of pairs is within `PAIRS_STEP` of the largest that fits."""
    best, pairs = None, MIN_PAIRS
    while pairs < limit:
        candidate = from_pairs(pairs)
        if candidate is None and best is not None:
            break
        best, pairs = candidate or best, pairs * PAIRS_STEP
    return best


def _most_pairs(from_pairs: _FromPairs, best: SignedDummiesParameters) -> SignedDummiesParameters:
    """Return parameters with the largest number of pairs that fits, which have the least noise."""
    low, high = best.pairs, min(best.pairs * PAIRS_STEP, MAX_PAIRS)
    while high > low * (1.0 + PAIRS_XTOL):
        middle = float(np.sqrt(low * high))
        if (candidate := from_pairs(middle)) is None:
            high = middle
        else:
            best, low = candidate, middle
    return best
