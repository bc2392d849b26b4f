"""Hockey-stick divergence of independent rounds, by convolution of their privacy losses.

The loss distributions are convolved by FFT. Before that they are tilted, that is, multiplied by
``exp(lam loss)`` and normalised, with lam at the saddle point of the given eps; the result is
tilted back. The rounding error of the FFT, about 1e-13 of the total mass, is then relative to
Chernoff's bound on delta instead of to 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from shuffledp.accounting.laws.multinomial import LogInterval
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
    pooled_down,
)
from shuffledp.numerics.arrays import UNIT, Floats

# Loss distributions on a common grid, and the number of rounds (>= 1) with each distribution.
Rounds = Sequence[tuple[LossDistribution, int]]
# Depths of truncation windows beyond the default are multiples of this number.
DEPTH_INCREMENT = 24.0
# Largest size of a transform for the lower end; it takes about a second.
MAX_TRANSFORM_POINTS = 4_000_000
# Largest number of Newton steps in the search for the tilt, and its relative tolerance.
MAX_TILT_STEPS, TILT_XTOL = 200, 1e-4
# Number of losses that are pooled for this search, if there are at least so many.
POOL_SIZE, MIN_SIZE_TO_POOL = 8, 4096
# Chernoff's bound usually exceeds the log of a hockey-stick divergence by less than this.
LOG_CHERNOFF_EXCESS = 8.0


class _TiltedRounds:
    """Finite losses of several rounds, tilted such that the mean of their sum is eps.

    Attributes
    ----------
    largest_sum
        The largest possible sum of finite losses.
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
        self.largest_sum = sum(
            count * float(losses[-1])
            for count, losses in zip(self.counts, self.losses, strict=True)
        )
        # The tilt for the largest sum itself would be infinite.
        below = eps < self.largest_sum
        self.lam = self._tilt(min(eps, self.largest_sum * (1.0 - 1e-9))) if below else 0.0
        self.log_moments = [
            float(logsumexp(log_mass + self.lam * losses))
            for losses, log_mass in zip(self.losses, self.log_mass, strict=True)
        ]

    def _tilt(self, mean: float) -> float:
        """Return the tilt, which Newton's method finds.

        Bounds are valid for every tilt; they are tightest if the tilted mean is close to ``mean``.
        """
        lam, low, high = 0.0, 0.0, np.inf
        pooled = list(map(_pooled, self.losses, self.log_mass))
        first_step = 64.0 / max(float(losses[-1]) for losses in self.losses)
        for _ in range(MAX_TILT_STEPS):
            above, slope = self._excess(pooled, lam, mean)
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

    def _excess(
        self, laws: list[tuple[Floats, Floats]], lam: float, mean: float
    ) -> tuple[float, float]:
        """Return the tilted mean of the sum minus the target mean, and the tilted variance."""
        above, variance = -mean, 0.0
        for count, (losses, log_mass) in zip(self.counts, laws, strict=True):
            exponents = log_mass + lam * losses
            weights = np.exp(exponents - exponents.max())
            weights /= weights.sum()
            centre = float(weights @ losses)
            above += count * centre
            variance += count * float(weights @ (losses - centre) ** 2)
        return above, variance

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
            # to 0 is negligible compared with exp(LOG_TAIL).
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


def _pooled(losses: Floats, log_mass: Floats) -> tuple[Floats, Floats]:
    """Return about the same law with fewer losses, which is enough to find a tilt."""
    if losses.size < MIN_SIZE_TO_POOL:
        return losses, log_mass
    starts = np.arange(0, losses.size, POOL_SIZE)
    largest = np.maximum.reduceat(log_mass, starts)
    weights = np.exp(log_mass - np.repeat(largest, POOL_SIZE)[: losses.size])
    total = np.add.reduceat(weights, starts)
    return np.add.reduceat(weights * losses, starts) / total, largest + np.log(total)


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
    """Return Chernoff's upper bound on the contribution of finite losses to the log divergence.

    Parameters are those of `log_hockey_stick`.
    """
    if not all(law.mass.any() for law, _ in rounds):
        return -np.inf
    tilted = _TiltedRounds(rounds, eps)
    if eps >= tilted.largest_sum:
        return -np.inf
    return min(tilted.log_moment - tilted.lam * eps, 0.0)


def log_hockey_stick(rounds: Rounds, eps: float) -> LogInterval:
    """Enclose the log of the hockey-stick divergence of independent rounds.

    The interval accounts for the rounding error of the FFT, the mass that it truncates, and the
    ``loss_error`` and ``mass_error`` of the distributions, which bound the changes of eps and of
    log delta per round. The probability of an infinite loss is added separately.
    """
    infinite = _log_infinite(rounds)
    if not all(law.mass.any() for law, _ in rounds):
        return infinite
    step = rounds[0][0].step
    tilted = _TiltedRounds(rounds, eps)
    # Rounding of a sum of losses, and of its distance from eps.
    loss_error = 8.0 * UNIT * (min(tilted.largest_sum, 1.0) + eps)
    loss_error += sum(count * law.loss_error for law, count in rounds)
    if eps - loss_error >= tilted.largest_sum:
        return infinite
    lam, log_moment, masses = tilted.lam, tilted.log_moment, tilted.masses
    offset, convolved = convolve(list(zip(masses, tilted.counts, strict=True)))
    start = sum(count * law.start for law, count in rounds)
    index = start + offset + np.arange(convolved.size, dtype=np.float64)
    fft_error = 0.0
    for mass, count in zip(masses, tilted.counts, strict=True):
        norm = float(np.linalg.norm(mass)) * np.sqrt(np.ceil(mass.size / convolved.size))
        fft_error += transform_error(convolved.size, count, norm)
    # Largest weight exp(-lam x) (1 - exp(-x)) over all distances x, also outside the window.
    max_weight = (lam / (1.0 + lam)) ** lam / (1.0 + lam)
    outside = 2.0 * float(np.exp(LOG_TAIL)) * max_weight * float(sum(tilted.counts) > 1)
    relative = tilted.log_error + len(rounds) * UNIT * abs(log_moment)

    def end_at(eps: float, sign: float) -> float:
        """Return the log divergence at eps, plus (sign 1) or minus (sign -1) its error.

        eps may be negative.
        """
        distance = step * index - eps
        above = distance > 0.0
        weights = np.exp(-lam * distance[above]) * -np.expm1(-distance[above])
        value = float(np.sum(weights * convolved[above]))
        error = float(np.linalg.norm(weights)) * fft_error + outside
        log_infinite = infinite.high if sign > 0.0 else infinite.low
        end = value + sign * error
        if end <= 0.0:
            return log_infinite
        log_end, scale = float(np.log(end)), log_moment - lam * eps
        rounding = 8.0 * UNIT * (abs(log_end) + abs(scale) + 8.0)
        total = log_end + scale + sign * (relative + rounding)
        return float(np.logaddexp(total, log_infinite))

    return LogInterval(end_at(eps + loss_error, -1.0), end_at(eps - loss_error, 1.0))


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
        finite = [(replace(law, infinite=0.0), count) for law, count in rounds]
        # Chernoff's bound predicts the necessary depth without a transform.
        inside = log_chernoff(finite, eps) - LOG_CHERNOFF_EXCESS
        # A pair may have infinite losses at every depth, so the search ends if their probability
        # stops falling. A probability of 1 means that the depth is too small.
        deepest = depth >= MAX_DEPTH or previous <= infinite < 0.0
        if predicted or infinite <= inside + log_left_out_share or deepest:
            inside = log_hockey_stick(finite, eps).high
        missing_depth = infinite - inside - log_left_out_share
        if infinite == -np.inf or missing_depth <= 0.0 or deepest:
            return float(np.logaddexp(inside, infinite))
        needed = 2.0 * depth if inside == -np.inf else depth + missing_depth
        depth, predicted = min(DEPTH_INCREMENT * np.ceil(needed / DEPTH_INCREMENT), MAX_DEPTH), True
        previous = infinite


def coarsened_for_transform(rounds: Rounds, eps: float) -> Rounds:
    """Return the rounds, rounded down to a coarser grid if their FFT would be too large."""
    tilted = _TiltedRounds(rounds, eps)
    if eps >= tilted.largest_sum:
        return rounds
    low, high = sum_window(list(zip(tilted.masses, tilted.counts, strict=True)))
    factor = float(np.ceil((high - low) / MAX_TRANSFORM_POINTS))
    if factor <= 1.0:
        return rounds
    result = []
    for (law, count), losses in zip(rounds, tilted.losses, strict=True):
        mass, errors = law.mass[law.mass > 0.0], (law.mass_error, law.loss_error)
        result.append((pooled_down(losses, mass, law.infinite, factor * law.step, errors), count))
    return result
