"""Hockey-stick divergence of independent rounds, by convolution of their privacy losses.

The loss distributions are convolved by FFT. Before that they are tilted, that is, multiplied by
``exp(lam loss)`` and normalised, with lam at the saddle point of the given eps; the result is
tilted back. The rounding error of the FFT, about 1e-13 of the total mass, is then relative to
Chernoff's bound on delta instead of to 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from shuffledp.accounting.laws.multinomial import ZERO, LogInterval
from shuffledp.accounting.rounds.convolution import (
    LOG_TAIL,
    convolve,
    sum_window,
    transform_error,
)
from shuffledp.accounting.rounds.outcome_bundles import DEFAULT_DEPTH, MAX_DEPTH
from shuffledp.accounting.rounds.privacy_loss import (
    LOG_LEFT_OUT_SHARE,
    LossDistribution,
    split_down,
)
from shuffledp.numerics.arrays import UNIT, Floats, log_sum_exp

# Loss distributions on a common grid, and the number of rounds (>= 1) with each distribution.
Rounds = Sequence[tuple[LossDistribution, int]]
# Depths of truncation windows beyond the default are multiples of this number.
DEPTH_INCREMENT = 24.0
# Largest size of a transform for the lower end; it takes about a second.
MAX_TRANSFORM_POINTS = 4_000_000
# Largest number of Newton steps in the search for the tilt, and its relative tolerance.
MAX_TILT_STEPS, TILT_XTOL = 200, 1e-4
# Relative error of a divergence that is negligible.
NEGLIGIBLE_ERROR = 1e-10
# Chernoff's bound usually exceeds the log of a hockey-stick divergence by less than this.
LOG_CHERNOFF_EXCESS = 8.0


def _largest_sum(rounds: Rounds) -> float:
    """Return the largest possible sum of finite losses."""
    return sum(count * float(law.support[1][-1]) for law, count in rounds)


def _tilt(rounds: Rounds, eps: float) -> float:
    """Return a tilt, at least 0, for which the mean of the sum is about eps, by Newton's method.

    Bounds are valid for every tilt; they are tightest if the tilted mean is eps. The tilt for the
    largest sum itself would be infinite; from there on the result is 0.
    """
    largest_sum = _largest_sum(rounds)
    if eps >= largest_sum:
        return 0.0
    mean = min(eps, largest_sum * (1.0 - 1e-9))
    lam, low, high = 0.0, 0.0, np.inf
    first_step = 64.0 / max(float(law.support[1][-1]) for law, _ in rounds)
    for _ in range(MAX_TILT_STEPS):
        above, slope = _excess(rounds, lam, mean)
        if above >= 0.0 and lam == 0.0:
            break
        low, high = (lam, high) if above < 0.0 else (low, lam)
        # If large losses are rare, a Newton step may be far too long.
        limit = min(high, 8.0 * lam + first_step)
        following = lam - above / slope if slope > 0.0 else limit
        if not low < following < limit:
            following = 0.5 * (low + high) if high < np.inf else limit
        converged, lam = abs(following - lam) <= TILT_XTOL * following, following
        if converged:
            break
    return float(lam)


def _excess(rounds: Rounds, lam: float, mean: float) -> tuple[float, float]:
    """Return the tilted mean of the sum minus the target mean, and the tilted variance."""
    above, variance = -mean, 0.0
    for law, count in rounds:
        losses, log_mass = law.pooled
        exponents = log_mass + lam * losses
        weights = np.exp(exponents - exponents.max())
        weights /= weights.sum()
        centre = float(weights @ losses)
        above += count * centre
        variance += count * float(weights @ (losses - centre) ** 2)
    return above, variance


class _TiltedRounds:
    """Finite losses of several rounds, tilted such that the mean of their sum is eps.

    Attributes
    ----------
    lam
        The tilt, at least 0.
    log_moments
        ``log E[exp(lam L)]`` of each distribution, for a finite loss L.
    """

    def __init__(self, rounds: Rounds, eps: float) -> None:
        self.rounds = rounds
        support = [law.support for law, _ in rounds]
        self.used, self.losses, self.log_mass = map(list, zip(*support, strict=True))
        self.counts = [count for _, count in rounds]
        self.lam = _tilt(rounds, eps)
        self.log_moments = [
            float(log_sum_exp(log_mass + self.lam * losses))
            for losses, log_mass in zip(self.losses, self.log_mass, strict=True)
        ]

    @property
    def log_moment(self) -> float:
        """``log E[exp(lam L)]`` for the sum L of all losses."""
        return float(np.dot(self.counts, self.log_moments))

    @property
    def masses(self) -> list[Floats]:
        """Probabilities of the grid points under each tilted distribution."""
        masses = []
        for (law, _), used, losses, log_mass, log_moment in zip(
            self.rounds, self.used, self.losses, self.log_mass, self.log_moments, strict=True
        ):
            tilted = np.zeros_like(law.mass)
            tilted[used] = np.exp(log_mass + self.lam * losses - log_moment)
            # Subnormal numbers would invalidate the error bound of the FFT. The mass that is set
            # to 0 is negligible compared with this bound.
            tilted[tilted < 1e-100] = 0.0
            masses.append(tilted)
        return masses

    @property
    def log_error(self) -> float:
        """Upper bound on the error of the log divergence from errors of masses and exponents."""
        return float(
            sum(
                count
                * (
                    law.mass_error
                    + 4.0 * UNIT * (_max_exponent(losses, log_mass, self.lam) + abs(moment) + 8.0)
                )
                for (law, count), losses, log_mass, moment in zip(
                    self.rounds, self.losses, self.log_mass, self.log_moments, strict=True
                )
            )
        )


def _max_exponent(losses: Floats, log_mass: Floats, lam: float) -> float:
    """Return an upper bound on ``|log_mass + lam losses|``."""
    return float(np.abs(log_mass).max()) + lam * float(np.abs(losses[[0, -1]]).max())


def _log_infinite(rounds: Rounds) -> LogInterval:
    """Enclose the log of the probability that the loss of any round is infinite."""
    with np.errstate(divide="ignore"):
        log_all_finite = sum(count * float(np.log1p(-law.infinite)) for law, count in rounds)
    if log_all_finite == 0.0:
        return LogInterval(-np.inf, -np.inf)
    # Each form keeps its digits where it is used. The absolute error of the result is at most the
    # relative error of the sum, plus rounding.
    if log_all_finite < -1.0:
        value = float(np.log1p(-np.exp(log_all_finite)))
    else:
        value = float(np.log(-np.expm1(log_all_finite)))
    error = UNIT * (len(rounds) + 16.0 + 8.0 * abs(value))
    return LogInterval(value - error, min(value + error, 0.0))


def log_chernoff(rounds: Rounds, eps: float) -> float:
    """Return about Chernoff's upper bound on the log divergence, without infinite losses.

    It is a prediction, no bound, because it uses pooled losses. Parameters are those of
    `log_hockey_stick`.
    """
    if not all(law.mass.any() for law, _ in rounds) or eps >= _largest_sum(rounds):
        return -np.inf
    lam = _tilt(rounds, eps)
    moments = (
        count * float(log_sum_exp(law.pooled[1] + lam * law.pooled[0])) for law, count in rounds
    )
    return min(sum(moments) - lam * eps, 0.0)


def log_hockey_stick(rounds: Rounds, eps: float) -> LogInterval:
    """Enclose the log of the hockey-stick divergence of independent rounds.

    The interval accounts for the rounding error of the FFT, the mass that it truncates, and the
    ``loss_error`` and ``mass_error`` of the distributions, which bound the changes of eps and of
    log delta per round. The probability of an infinite loss is added separately.
    """
    finite, infinite = finite_log_hockey_stick(rounds, eps), _log_infinite(rounds)
    return LogInterval(
        float(np.logaddexp(finite.low, infinite.low)),
        float(np.logaddexp(finite.high, infinite.high)),
    )


def finite_log_hockey_stick(rounds: Rounds, eps: float) -> LogInterval:
    """Enclose the contribution of finite losses to `log_hockey_stick`."""
    if not all(law.mass.any() for law, _ in rounds):
        return ZERO
    # Rounding of a sum of losses, and of its distance from eps.
    largest_sum = _largest_sum(rounds)
    loss_error = 8.0 * UNIT * (min(largest_sum, 1.0) + eps)
    loss_error += sum(count * law.loss_error for law, count in rounds)
    if eps - loss_error >= largest_sum:
        return ZERO
    # One transform serves for all eps up to the next multiple of half a standard deviation.
    spacing = 0.5 * float(np.sqrt(_excess(rounds, 0.0, 0.0)[1]))
    nearby = _transform(tuple(rounds), spacing * np.floor(eps / spacing) if spacing > 0.0 else eps)
    exact = nearby if nearby.is_precise(eps) else _transform(tuple(rounds), eps)
    return LogInterval(exact.end_at(eps + loss_error, -1.0), exact.end_at(eps - loss_error, 1.0))


@dataclass(frozen=True)
class _Transform:
    """Probabilities of tilted sums, and bounds on their errors.

    Attributes
    ----------
    sums, mass
        Possible sums of losses in ascending order, and their probabilities after tilting.
    lam, log_moment
        The tilt, and the log of the factor by which tilting divided the probabilities.
    fft_error, outside
        Bounds on the errors of ``mass`` (Euclidean norm) and from sums outside the window.
    log_error
        Bound on the error of the log divergence from other rounding errors.
    """

    sums: Floats
    mass: Floats
    lam: float
    log_moment: float
    fft_error: float
    outside: float
    log_error: float

    def _divergence(self, eps: float) -> tuple[float, float]:
        """Return the divergence in units of the tilt's factor at eps, and its error."""
        distance = self.sums[np.searchsorted(self.sums, eps, side="right") :] - eps
        weights = np.exp(-self.lam * distance) * -np.expm1(-distance)
        value = float(np.sum(weights * self.mass[self.mass.size - distance.size :]))
        return value, float(np.linalg.norm(weights)) * self.fft_error + self.outside

    def is_precise(self, eps: float) -> bool:
        """Return whether the FFT's error is negligible at eps."""
        value, error = self._divergence(eps)
        return error <= NEGLIGIBLE_ERROR * value

    def end_at(self, eps: float, sign: float) -> float:
        """Return the log divergence at eps, plus (sign 1) or minus (sign -1) its error.

        eps may be negative.
        """
        value, error = self._divergence(eps)
        end = value + sign * error
        if end <= 0.0:
            return -np.inf
        log_end, scale = float(np.log(end)), self.log_moment - self.lam * eps
        rounding = 8.0 * UNIT * (abs(log_end) + abs(scale) + 8.0)
        return log_end + scale + sign * (self.log_error + rounding)


@lru_cache(maxsize=4)
def _transform(rounds: tuple[tuple[LossDistribution, int], ...], eps: float) -> _Transform:
    """Return the transform with the tilt for eps."""
    tilted = _TiltedRounds(rounds, eps)
    lam, masses = tilted.lam, tilted.masses
    offset, convolved = convolve(list(zip(masses, tilted.counts, strict=True)))
    start = sum(count * law.start for law, count in rounds)
    fft_error = 0.0
    for mass, count in zip(masses, tilted.counts, strict=True):
        norm = float(np.linalg.norm(mass)) * np.sqrt(np.ceil(mass.size / convolved.size))
        fft_error += transform_error(convolved.size, count, norm)
    # Largest weight exp(-lam x) (1 - exp(-x)) over all distances x, also outside the window.
    max_weight = (lam / (1.0 + lam)) ** lam / (1.0 + lam)
    return _Transform(
        rounds[0][0].step * (start + offset + np.arange(convolved.size, dtype=np.float64)),
        convolved,
        lam,
        tilted.log_moment,
        fft_error,
        2.0 * float(np.exp(LOG_TAIL)) * max_weight * float(sum(tilted.counts) > 1),
        tilted.log_error + len(rounds) * UNIT * abs(tilted.log_moment),
    )


def upper_log_hockey_stick(
    rounds_at: Callable[[float], Rounds],
    eps: float,
    log_left_out_share: float = LOG_LEFT_OUT_SHARE,
    depth: float = DEFAULT_DEPTH,
) -> float:
    """Return an upper bound on the log hockey-stick divergence of independent rounds.

    Parameters
    ----------
    rounds_at
        Function that returns dominating loss distributions for a depth: truncation omits a
        probability of about ``exp(-depth)``. The depth grows until the mass left out is a
        negligible share of the result, or stops falling.
    eps
        Central budget of all rounds, at least 0.
    log_left_out_share
        Log of the largest share of the result that truncated outcomes may contribute.
    depth
        First depth that is tried.
    """
    predicted, previous = False, np.inf
    while True:
        rounds = rounds_at(depth)
        infinite = _log_infinite(rounds).high
        # Chernoff's bound predicts the necessary depth without a transform.
        inside = log_chernoff(rounds, eps) - LOG_CHERNOFF_EXCESS
        # A pair may have infinite losses at every depth, so the search ends if their probability
        # stops falling. A probability of 1 means that the depth is too small.
        deepest = depth >= MAX_DEPTH or previous <= infinite < 0.0
        if predicted or infinite <= inside + log_left_out_share or deepest:
            inside = finite_log_hockey_stick(rounds, eps).high
        missing_depth = infinite - inside - log_left_out_share
        if infinite == -np.inf or missing_depth <= 0.0 or deepest:
            return float(np.logaddexp(inside, infinite))
        needed = 2.0 * depth if inside == -np.inf else depth + missing_depth
        depth, predicted = min(DEPTH_INCREMENT * np.ceil(needed / DEPTH_INCREMENT), MAX_DEPTH), True
        previous = infinite


def coarsened_for_transform(rounds: Rounds, eps: float) -> Rounds:
    """Return the rounds, rounded down to a coarser grid if their FFT would be too large."""
    if eps >= _largest_sum(rounds):
        return rounds
    tilted = _TiltedRounds(rounds, eps)
    low, high = sum_window(list(zip(tilted.masses, tilted.counts, strict=True)))
    factor = float(np.ceil((high - low) / MAX_TRANSFORM_POINTS))
    if factor <= 1.0:
        return rounds
    result = []
    for (law, count), losses in zip(rounds, tilted.losses, strict=True):
        mass, errors = law.mass[law.mass > 0.0], (law.mass_error, law.loss_error)
        result.append((split_down(losses, mass, law.infinite, factor * law.step, errors), count))
    return result
