"""The hockey-stick divergence of a sum of independent privacy losses.

The laws are convolved by FFT. They are first tilted by ``exp(lambda loss)``, with lambda at the
saddle point of the given eps, and the result is tilted back. The rounding of the Fourier transform,
about 1e-13 of the total mass, is then relative to Chernoff's bound on delta instead of to 1.
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
from shuffledp.accounting.rounds.outcome_bundles import DEEPEST, DEPTH
from shuffledp.accounting.rounds.privacy_loss import (
    LOG_LEFT_OUT_SHARE,
    LossDistribution,
    pooled_down,
)
from shuffledp.numerics.arrays import UNIT, Floats

# Laws on a common grid, and the number of independent losses with each law.
Rounds = Sequence[tuple[LossDistribution, int]]
# Depths of windows are multiples of this number.
DEPTH_INCREMENT = 24.0
# Largest transform for the lower end, which takes about a second.
MAX_TRANSFORM_POINTS = 4_000_000
# Largest number of steps of the search for a tilt, and its relative tolerance.
MAX_TILT_STEPS, TILT_XTOL = 200, 1e-4
# Chernoff's bound exceeds the log of a hockey-stick divergence by about this much at most.
LOG_CHERNOFF_EXCESS = 8.0


class _TiltedRounds:
    """Finite losses of several rounds, tilted such that their sum has a given mean.

    Attributes
    ----------
    furthest
        The largest possible sum.
    lam
        The tilt, at least 0.
    log_moments
        ``log E[exp(lam L)]`` of each law.
    """

    def __init__(self, rounds: Rounds, eps: float) -> None:
        self.rounds = rounds
        self.used = [law.mass > 0.0 for law, _ in rounds]
        self.losses = [law.losses[used] for (law, _), used in zip(rounds, self.used, strict=True)]
        self.log_mass = [
            np.log(law.mass[used]) for (law, _), used in zip(rounds, self.used, strict=True)
        ]
        self.counts = [count for _, count in rounds]
        self.furthest = sum(
            count * float(losses[-1])
            for count, losses in zip(self.counts, self.losses, strict=True)
        )
        self.lam, self.log_moments = 0.0, [0.0] * len(self.counts)
        if eps < self.furthest:
            # The tilt for the largest sum itself would be infinite.
            self._find_tilt(min(eps, self.furthest * (1.0 - 1e-9)))

    def _find_tilt(self, mean: float) -> None:
        """Set the tilt approximately, by Newton's method.

        Every tilt gives a valid result; the best one gives the most precise result.
        """
        lam, low, high = 0.0, 0.0, np.inf
        first_step = 64.0 / max(float(losses[-1]) for losses in self.losses)
        for _ in range(MAX_TILT_STEPS):
            above, slope = self._excess(lam, mean)
            if above >= 0.0 and lam == 0.0:
                break
            low, high = (lam, high) if above < 0.0 else (low, lam)
            # If losses are rare, a Newton step may be far too long.
            limit = min(high, 8.0 * lam + first_step)
            following = lam - above / slope if slope > 0.0 else limit
            if not low < following < limit:
                following = 0.5 * (low + high) if high < np.inf else limit
            converged, lam = abs(following - lam) <= TILT_XTOL * following, following
            if converged:
                break
        self.lam = float(lam)
        self.log_moments = [
            float(logsumexp(log_mass + lam * losses))
            for losses, log_mass in zip(self.losses, self.log_mass, strict=True)
        ]

    def _excess(self, lam: float, mean: float) -> tuple[float, float]:
        """Return the sum's mean under a tilt minus the target mean, and its variance."""
        above, variance = -mean, 0.0
        for count, losses, log_mass in zip(self.counts, self.losses, self.log_mass, strict=True):
            exponents = log_mass + lam * losses
            weights = np.exp(exponents - exponents.max())
            weights /= weights.sum()
            centre = float(weights @ losses)
            above += count * centre
            variance += count * float(weights @ (losses - centre) ** 2)
        return above, variance

    @property
    def log_moment(self) -> float:
        """``log E[exp(lam L)]`` of the whole sum."""
        return float(np.dot(self.counts, self.log_moments))

    @property
    def masses(self) -> list[Floats]:
        """Probabilities of the grid points under the tilted laws."""
        masses = []
        for (law, _), used, losses, log_mass, log_moment in zip(
            self.rounds, self.used, self.losses, self.log_mass, self.log_moments, strict=True
        ):
            tilted = np.zeros_like(law.mass)
            tilted[used] = np.exp(log_mass + self.lam * losses - log_moment)
            # Denormal numbers would invalidate the transform's error bound. The mass that is set
            # to 0 is negligible relative to the tail.
            tilted[tilted < 1e-100] = 0.0
            masses.append(tilted)
        return masses

    @property
    def units(self) -> float:
        """Error of the log of the tilted divergence, from masses and exponents."""
        return float(
            sum(
                count
                * (
                    law.mass_error
                    + 4.0 * UNIT * (_exponents(losses, log_mass, self.lam) + abs(moment) + 8.0)
                )
                for (law, count), losses, log_mass, moment in zip(
                    self.rounds, self.losses, self.log_mass, self.log_moments, strict=True
                )
            )
        )


def _exponents(losses: Floats, log_mass: Floats, lam: float) -> float:
    return float(np.abs(log_mass).max()) + lam * float(np.abs(losses[[0, -1]]).max())


def _log_infinite(rounds: Rounds) -> float:
    """Return the log of the probability that a loss is infinite."""
    with np.errstate(divide="ignore"):
        log_all_finite = sum(count * float(np.log1p(-law.infinite)) for law, count in rounds)
        return float(np.log(-np.expm1(log_all_finite)))


def log_chernoff(rounds: Rounds, eps: float) -> float:
    """Return Chernoff's bound on the log of the divergence without infinite losses.

    Parameters as for `log_hockey_stick`.
    """
    if not all(law.mass.any() for law, _ in rounds):
        return -np.inf
    tilted = _TiltedRounds(rounds, eps)
    if eps >= tilted.furthest:
        return -np.inf
    return min(tilted.log_moment - tilted.lam * eps, 0.0)


def log_hockey_stick(rounds: Rounds, eps: float) -> LogInterval:
    """Enclose the log of the hockey-stick divergence of independent rounds.

    The interval accounts for the rounding of the transform, the mass outside its window, and the
    stated errors of the loss distributions: an error of all losses changes eps by at most that much
    per round, and a relative error of the masses of P and Q changes log delta by at most that much
    per round. The probability of an infinite loss is added separately.

    Parameters
    ----------
    rounds
        Laws on a common grid, and the number of rounds (>= 1) with each law.
    eps
        Central budget of all rounds, at least 0.
    """
    infinite = _log_infinite(rounds)
    if not all(law.mass.any() for law, _ in rounds):
        return LogInterval(infinite, infinite)
    step = rounds[0][0].step
    loss_error = sum(count * law.loss_error for law, count in rounds) + 8.0 * UNIT * (1.0 + eps)
    tilted = _TiltedRounds(rounds, eps)
    if eps - loss_error >= tilted.furthest:
        return LogInterval(infinite, infinite)
    lam, log_moment, masses = tilted.lam, tilted.log_moment, tilted.masses
    offset, convolved = convolve(list(zip(masses, tilted.counts, strict=True)))
    start = sum(count * law.start for law, count in rounds)
    index = start + offset + np.arange(convolved.size, dtype=np.float64)
    transform = 0.0
    for mass, count in zip(masses, tilted.counts, strict=True):
        norm = float(np.linalg.norm(mass)) * np.sqrt(np.ceil(mass.size / convolved.size))
        transform += transform_error(convolved.size, count, norm)
    # No sum, even outside the window, has more than the largest weight over all distances.
    max_weight = (lam / (1.0 + lam)) ** lam / (1.0 + lam)
    outside = 2.0 * float(np.exp(LOG_TAIL)) * max_weight * float(sum(tilted.counts) > 1)
    relative = tilted.units + len(rounds) * UNIT * abs(log_moment)

    def at(eps: float, sign: float) -> float:
        """Return the log of the divergence at an eps with the errors added or subtracted."""
        distance = step * index - eps
        above = distance > 0.0
        weights = np.exp(-lam * distance[above]) * -np.expm1(-distance[above])
        value = float(np.sum(weights * convolved[above]))
        error = float(np.linalg.norm(weights)) * transform + outside
        scale = log_moment - lam * eps
        with np.errstate(divide="ignore"):
            end = np.log(max(value, 0.0) + error) if sign > 0 else np.log(max(value - error, 0.0))
        end += scale + sign * (relative + 8.0 * UNIT * (abs(scale) + 8.0))
        return float(np.logaddexp(end, infinite))

    return LogInterval(at(eps + loss_error, -1.0), at(max(eps - loss_error, 0.0), 1.0))


def deep_enough(
    rounds_at: Callable[[float], Rounds], eps: float, share: float = LOG_LEFT_OUT_SHARE
) -> float:
    """Return the upper end of the log of the hockey-stick divergence of independent rounds.

    Parameters
    ----------
    rounds_at
        Function that returns dominating laws of the rounds for a depth of windows. The depth is
        increased until the mass left out is a negligible share of the result, or stops falling.
    eps
        See `log_hockey_stick`.
    share
        Log of the largest share of the result that windows may leave out.
    """
    depth, guessed, before = DEPTH, False, np.inf
    while True:
        rounds = rounds_at(depth)
        infinite = _log_infinite(rounds)
        finite = [(replace(law, infinite=0.0), count) for law, count in rounds]
        # Chernoff's bound estimates the necessary depth without a transform.
        inside = log_chernoff(finite, eps) - LOG_CHERNOFF_EXCESS
        # Infinite losses may remain at any depth, so the search ends if their probability stops
        # falling. A probability of 1 means that the windows are too shallow.
        deepest = depth >= DEEPEST or before <= infinite < 0.0
        if guessed or infinite <= inside + share or deepest:
            inside = log_hockey_stick(finite, eps).high
        missing_depth = infinite - inside - share
        if infinite == -np.inf or missing_depth <= 0.0 or deepest:
            return float(np.logaddexp(inside, infinite))
        needed = 2.0 * depth if inside == -np.inf else depth + missing_depth
        depth, guessed = min(DEPTH_INCREMENT * np.ceil(needed / DEPTH_INCREMENT), DEEPEST), True
        before = infinite


def coarse_enough(rounds: Rounds, eps: float) -> Rounds:
    """Return the laws, rounded down to a coarser grid if their transform would be too large."""
    tilted = _TiltedRounds(rounds, eps)
    if eps >= tilted.furthest:
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
