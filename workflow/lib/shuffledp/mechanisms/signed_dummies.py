"""True reports among signed dummies of the users: noise that the analyst subtracts from itself.

Every user sends the true cell with sign plus and, for every cell, plus messages, minus messages and
pairs of both: over M users geometric numbers of the first two, and pairs that hide how they match.
Messages are sealed for the analyst, and all envelopes have one length: the mixer learns nothing
from it. `shuffledp.accounting.signed` has the law and the exact delta.

Other shapes were tried, at n = 123,094, k = 408, delta = 1e-6, M = 0.9 n. Negative binomial numbers
of size 1.1 or 1.2 in place of the geometric ones help where an envelope is hardly long enough: at
eps = 1 the error is 3.41 in place of none at 60 slots, 3.30 in place of 3.47 at 64, 3.21 in place
of 3.25 at 71, and within half a per cent at 80; at eps = 2 size 1.2 helps nowhere from 40 to 64
slots. Of plus messages alone, without pairs, Poisson ones are best: `user_dummies`, 6.53.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from shuffledp.accounting.calibrate import least_noise
from shuffledp.accounting.curve import Curve, of_near_laws, smaller
from shuffledp.accounting.geometric import check_budget
from shuffledp.accounting.setting import Setting
from shuffledp.accounting.signed import SignedNoise
from shuffledp.errors import InputError
from shuffledp.mechanisms.estimators import noisy_shares, raw_and_projected
from shuffledp.mechanisms.protocol import Mechanism, lost
from shuffledp.numerics.arrays import Floats

# Of delta, what messages may cost that do not fit into their envelope.
_OVERFLOW: Final = 1e-2
# Law of the pairs: Poisson's needs the smallest envelopes. A negative binomial one has as much
# noise of half the messages, but was best in none of the settings tried.
_SHAPE: Final = np.inf
# Mean numbers of a cell's pairs among which one is sought, each so many times the one before, up to
# those that fill the envelopes, or so many that more would hardly leave less noise.
_FEWEST, _STEP, _MOST = 4.0, 1.5, 2.0**20
_XTOL: Final = 1e-3
# Pairs of a cell and what they are of their shape, and messages of an envelope: laws are summed.
_LARGEST, _LARGEST_SPREAD, _LARGEST_ENVELOPE = 1e9, 1e5, 2**24
# Lengths of envelopes that are tried, and how far above the least the error may be.
_LENGTHS: Final = (64, 80, 100, 128, 160, 200, 256, 320, 400, 512, 640, 800, 1024)
_NEAR: Final = 1.1


@dataclass(frozen=True)
class SignedDummiesParameters:
    """Law of a user's dummies, the length of an envelope and how many users the promise needs.

    Attributes
    ----------
    ratio
        q in (0, 1), of the geometric numbers of plus and of minus messages in a cell.
    pairs
        Mean number of pairs in a cell, positive. Both are of ``smallest`` users together.
    shape
        Of the negative binomial law of the pairs; inf for a Poisson law.
    slots
        Messages of an envelope, the true one and blanks included.
    smallest
        M: fewest honest users who take part.

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

    def __post_init__(self) -> None:
        if not (0.0 < self.ratio < 1.0 and 0.0 < self.pairs < np.inf and self.shape > 0.0):
            raise InputError(
                f"signed dummies need a ratio in (0, 1) and positive pairs and shape (got "
                f"ratio={self.ratio}, pairs={self.pairs}, shape={self.shape})"
            )
        if self.pairs > _LARGEST or self.pairs > _LARGEST_SPREAD * self.shape:
            raise InputError(
                f"signed dummies have at most {_LARGEST:g} pairs in a cell, and at most "
                f"{_LARGEST_SPREAD:g} times their shape (got pairs={self.pairs}, "
                f"shape={self.shape})"
            )
        _check_sizes(self.slots, 1.0)
        if self.smallest < 1:
            raise InputError(f"the promise needs at least one user (got {self.smallest})")

    @cached_property
    def noise(self) -> SignedNoise:
        """Of a cell, by the smallest number of users."""
        return SignedNoise(self.ratio, self.pairs, self.shape)

    @property
    def deviation(self) -> float:
        """Standard deviation of a cell's number with the smallest number of users."""
        return _deviation(self.ratio)

    def overflow(self, k: int) -> float:
        """Chance that a user's messages over k cells do not fit into the envelope."""
        room = self.slots - 1
        twins = np.arange(room // 2 + 1)
        more = stats.nbinom.sf(room - 2 * twins, 2.0 * k / self.smallest, 1.0 - self.ratio)
        # Functions of the laws: to make one of them takes longer.
        law: Any = (stats.poisson, (k * self.pairs / self.smallest,))
        if self.shape < np.inf:
            share = self.shape / (self.shape + self.pairs)
            law = (stats.nbinom, (k * self.shape / self.smallest, share))
        of, given = law
        return float(of.pmf(twins, *given) @ more + of.sf(twins[-1], *given))


def _deviation(ratio: float) -> float:
    """Of the difference of two geometric numbers."""
    return float(np.sqrt(2.0 * ratio) / (1.0 - ratio))


def _check_sizes(slots: int, share: float) -> None:
    if not (2 <= slots <= _LARGEST_ENVELOPE and slots == int(slots)):
        raise InputError(
            f"an envelope has 2 to {_LARGEST_ENVELOPE:,} slots, a whole number (got slots={slots})"
        )
    if not 0.0 < share <= 1.0:
        raise InputError(f"the share who take part must lie in (0, 1] (got share={share})")


@dataclass(frozen=True)
class SignedDummies(Mechanism[SignedDummiesParameters]):
    """Users report the truth and signed dummies; see `Mechanism`.

    Attributes
    ----------
    slots
        Messages of an envelope; by default the first of some lengths with which the error is at
        most a tenth above the least of all.
    share
        Smallest part of the users that takes part: the promise holds from there on.
    """

    slots: int | None = None
    share: float = 0.9
    name = "signed-dummies"
    form = SignedDummiesParameters
    estimators = raw_and_projected(noisy_shares)

    def __post_init__(self) -> None:
        _check_sizes(2 if self.slots is None else self.slots, self.share)

    def sized(self, slots: int | None, share: float | None) -> "SignedDummies":
        """With envelopes of other length, for another part of the users."""
        return SignedDummies(
            self.slots if slots is None else slots, self.share if share is None else share
        )

    def curve(self, parameters: SignedDummiesParameters, setting: Setting) -> Curve:
        """Exact for the smallest number of users, rounded up; with more it holds as well.

        What does not fit into an envelope is drawn anew: it moves the law of all messages by at
        most its chance, that of both records.
        """
        return self._curve(parameters, setting, parameters.smallest)

    def achieved(self, parameters: SignedDummiesParameters, setting: Setting) -> Curve:
        """Of the noise of all n, rounded up, where its law is short enough to be summed."""
        promised = self._curve(parameters, setting, parameters.smallest)
        if setting.n <= parameters.smallest:
            return promised
        once = self._curve(parameters, setting.once, setting.n)
        # By the curve alone: over rounds that of the fewest, by its losses, may be the smaller one.
        return smaller(promised, replace(once, loss=None).compose(setting.rounds))

    def _curve(self, parameters: SignedDummiesParameters, setting: Setting, users: int) -> Curve:
        """By the noise of so many users, all honest; the others' only hides more."""
        noise = parameters.noise
        if users > parameters.smallest:
            noise = noise.of_more(users / parameters.smallest)
        if setting.n < parameters.smallest or not noise.known:
            return lost()
        # More than the library's rounding.
        over = 2.0 * users * parameters.overflow(setting.k)

        # Of data sets that attain it only what all messages show is known.
        once = Curve(
            np.inf,
            upper=of_near_laws(noise.log_delta, float(np.log(over)) if over else -np.inf),
            loss=lambda: replace(parameters.noise.loss, down=(), apart=over),
        )
        return once.compose(setting.rounds)

    def calibrate(self, eps: float, log_delta: float, setting: Setting) -> SignedDummiesParameters:
        """Least noise for these envelopes: as many pairs as fit, then the smallest ratio."""
        check_budget(eps)
        if not -np.inf < log_delta < 0.0:
            raise InputError(
                f"delta must lie strictly between 0 and 1 for signed dummies (got log "
                f"delta={log_delta}); pure DP needs another mechanism"
            )
        smallest = max(int(np.floor(self.share * setting.n)), 1)
        aim = log_delta + float(np.log1p(-_OVERFLOW))
        room = _OVERFLOW * float(np.exp(log_delta - np.logaddexp(0.0, eps)))

        @cache
        def least(pairs: float) -> float | None:
            """The least ratio for so many pairs; None if none will do."""
            high = 64.0 / eps

            def of(odds: float) -> float:
                return SignedNoise(odds / (1.0 + odds), pairs).log_delta(eps)

            return None if of(high) > aim else 1.0 / (1.0 + 1.0 / least_noise(of, aim, high))

        def found(pairs: float, slots: int) -> SignedDummiesParameters | None:
            """With the least noise for so many pairs; None if that does not fit."""
            if (ratio := least(pairs)) is None:
                return None
            made = SignedDummiesParameters(ratio, pairs, _SHAPE, slots, smallest)
            return made if 2.0 * smallest * made.overflow(setting.k) <= room else None

        # Whatever the pairs, a ratio of exp(-eps / 2) is needed, but for delta.
        near, best = _NEAR * _deviation(np.exp(-0.5 * eps)), None
        for slots in (self.slots,) if self.slots else _LENGTHS:
            fits = partial(found, slots=slots)
            rough = _fitting(fits, min(0.5 * smallest / setting.k * slots, _MOST))
            if rough is None:
                continue
            best = rough
            # More pairs than fit would leave less noise than those that do.
            less = least(rough.pairs * _STEP)
            if less is not None and _deviation(less) <= near:
                best = _most_pairs(fits, rough)
                if best.deviation <= near:
                    return best
        if best is None:
            raise InputError(
                f"signed dummies need more slots, or more users, for this promise (got "
                f"slots={slots}, n={setting.n}, k={setting.k}, eps={eps}, log delta={log_delta})"
            )
        return _most_pairs(partial(found, slots=best.slots), best)

    def observe(
        self,
        counts: ArrayLike,
        parameters: SignedDummiesParameters,
        rng: np.random.Generator,
        repetitions: int = 1,
    ) -> Floats:
        """Plus less minus messages of each cell: the pairs leave it, and tell nothing of it."""
        counts = np.asarray(counts, dtype=np.int64)
        size, keep = counts.sum() / parameters.smallest, 1.0 - parameters.ratio
        noise = [
            rng.negative_binomial(size, keep, counts.size)
            - rng.negative_binomial(size, keep, counts.size)
            for _ in range(repetitions)
        ]
        return np.asarray(counts + np.stack(noise), dtype=np.float64)

    def variance(self, shares: ArrayLike, n: float, parameters: SignedDummiesParameters) -> Floats:
        """Variance of each share, the same for all: that of two negative binomial numbers."""
        variance = n / parameters.smallest * parameters.deviation**2
        return np.full(np.shape(shares), variance / n**2)

    def expected_distance(
        self, shares: ArrayLike, n: float, parameters: SignedDummiesParameters
    ) -> Floats:
        """From the exact mean absolute difference of the two numbers."""
        law = stats.nbinom(n / parameters.smallest, 1.0 - parameters.ratio)
        below = law.cdf(np.arange(np.ceil(law.isf(1e-17)) + 1.0))
        error = 2.0 * float(below @ (1.0 - below))
        return np.full(np.shape(shares)[:-1], 0.5 * np.shape(shares)[-1] * error / n)

    def moved_by_one(self, k: int, parameters: SignedDummiesParameters) -> float:
        """A full envelope of messages of the cell with one sign, plus or minus."""
        del k
        return float(parameters.slots)

    def messages(self, n: int, k: int, parameters: SignedDummiesParameters) -> float:
        """The true one and the dummies; blanks fill the envelope up to its slots."""
        del n
        q = parameters.ratio
        cell = 2.0 * q / (1.0 - q) + 2.0 * parameters.pairs
        return 1.0 + k * cell / parameters.smallest


_Fits = Callable[[float], SignedDummiesParameters | None]


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
