"""Composition of rounds that differ: each by its own curve, pair or loss (docs/rounds.md)."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import fsum

import numpy as np

from shuffledp.accounting import calibrate
from shuffledp.accounting.curve import Curve, LogDelta, lost, of_near_laws
from shuffledp.accounting.rounds.outcome_bundles import DEPTH
from shuffledp.accounting.rounds.privacy_loss import LARGEST_GRID
from shuffledp.accounting.rounds.profile import loss_of_curve
from shuffledp.accounting.rounds.sums import (
    Rounds,
    coarse_enough,
    deep_enough,
    log_chernoff,
    log_hockey_stick,
)
from shuffledp.accounting.rounds.tradeoff import gdp_curve
from shuffledp.accounting.setting import LARGEST_EPS0
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT, quotient_down, sum_up

History = Sequence[tuple[Curve, int]]
# Steps of the grid per mean standard deviation of a round's loss; rounding down is of first order.
_RESOLUTION, _FINER = 64.0, 8.0
# A log of delta below which windows may end, so that each round by itself may be better.
_FAR = -300.0


def composed(rounds: History) -> Curve:
    """Delta over eps after rounds with fresh randomness, also chosen in view of earlier ones.

    The upper end is the least of what holds: the composition of the rounds' losses, or each round
    by itself; of rounds of Gaussian noise alone it is exact. The lower end is that of data sets
    that some rounds attain, or of one round: whoever sees all rounds sees some of them.

    Parameters
    ----------
    rounds
        Curves of one round with an upper end, and how many rounds have each, at least 1.

    Raises
    ------
    InputError
        If a curve has no upper end.
    """
    for curve, count in rounds:
        if curve.upper is None:
            raise InputError(f"without an upper end nothing composes (got rounds={count})")
    rounds = [(_cached(curve), count) for curve, count in _normal_ones_merged(rounds)]
    if len(rounds) == 1 and rounds[0][1] == 1:
        return rounds[0][0]
    budget = sum_up((count, curve.budget) for curve, count in rounds)
    if any(_promises_nothing(curve) for curve, _ in rounds):
        return lost(budget)
    return _Composition(rounds, budget).curve()


def _upper(curve: Curve) -> LogDelta:
    assert curve.upper is not None
    return curve.upper


def _cached(curve: Curve) -> Curve:
    return replace(curve, upper=cache(_upper(curve)))


def _promises_nothing(curve: Curve) -> bool:
    """Not even next to the budget."""
    upper = _upper(curve)
    return upper(0.0) >= 0.0 and upper(min(0.999 * curve.budget, LARGEST_EPS0)) >= 0.0


def _normal_ones_merged(rounds: History) -> History:
    squares = [count * curve.mu**2 for curve, count in rounds if curve.mu is not None]
    if not squares:
        return rounds
    others = [(curve, count) for curve, count in rounds if curve.mu is None]
    return [(gdp_curve(float(np.sqrt(fsum(squares)))), 1), *others]


class _Composition:
    """Losses of the rounds on one grid.

    Parameters
    ----------
    rounds
        As for `composed`.
    budget
        Eps from which on delta is 0.
    """

    def __init__(self, rounds: History, budget: float) -> None:
        self._rounds, self._budget = rounds, budget
        self._counts = [count for _, count in rounds]
        self._losses = [
            loss_of_curve(curve) if curve.loss is None else curve.loss() for curve, _ in rounds
        ]
        self._of, self._down = cache(self._upper_laws), cache(self._lower_laws)
        apart = fsum(
            count * loss.apart for loss, count in zip(self._losses, self._counts, strict=True)
        )
        self._together = of_near_laws(self._of_losses, float(np.log(apart)) if apart else -np.inf)

    def _of_losses(self, eps: float) -> float:
        return deep_enough(self._of, eps, max(loss.share for loss in self._losses))

    @property
    def _step(self) -> float:
        """A power of 2, so that its multiples are floats."""
        counts = np.array(self._counts, np.float64)
        squares = np.array([loss.deviation for loss in self._losses]) ** 2
        width = float(np.sqrt(counts @ squares / counts.sum())) / _RESOLUTION
        least = max(loss.largest for loss in self._losses) / LARGEST_GRID
        return float(2.0 ** np.floor(np.log2(max(width, least))))

    def _upper_laws(self, depth: float) -> Rounds:
        from tqdm import tqdm

        step = None if len(self._losses) == 1 else self._step
        rows = zip(self._losses, self._counts, strict=True)
        return [
            (law, count)
            for loss, count in tqdm(
                rows,
                desc="rounds",
                total=len(self._losses),
                delay=2.0,
                leave=False,
                disable=True if len(self._losses) == 1 else None,
            )
            for law in loss.up(step, depth)
        ]

    def _lower_laws(self, variant: int) -> Rounds:
        """Of the rounds whose data sets are known; where there are several, one of them."""
        step = self._step / _FINER
        return [
            (law, count)
            for loss, count in zip(self._losses, self._counts, strict=True)
            if loss.down
            for law in loss.down[min(variant, len(loss.down) - 1)](step)
        ]

    def upper(self, eps: float) -> float:
        """Log of delta, rounded up."""
        if eps >= self._budget:
            return -np.inf
        high = self._together(eps)
        if high < _FAR or len(self._losses) == 1:
            high = min(high, self._one_by_one(eps))
        return min(high, 0.0)

    def _one_by_one(self, eps: float) -> float:
        """Each round keeps an eps of its own, and their deltas add up."""
        parts = [
            curve.budget if self._budget < np.inf else loss.deviation
            for (curve, _), loss in zip(self._rounds, self._losses, strict=True)
        ]
        # Their sum, rounded, is at most eps.
        share = eps / fsum(np.multiply(parts, self._counts)) * (1.0 - 8.0 * UNIT)
        if len(parts) == 1:
            parts, share = [1.0], quotient_down(eps, self._counts[0])
        found = [
            float(np.log(count)) + _upper(curve)(share * part)
            for (curve, count), part in zip(self._rounds, parts, strict=True)
        ]
        total = float(np.logaddexp.reduce(found))
        return total + UNIT * (8.0 + len(found)) * (1.0 + abs(total)) if len(found) > 1 else total

    def lower(self, eps: float) -> float:
        """Log of delta of some data sets, rounded down."""
        if eps >= self._budget:
            return -np.inf
        found = [-np.inf]
        for variant in range(max(len(loss.down) for loss in self._losses)):
            laws = coarse_enough(self._down(variant), eps)
            found.append(log_hockey_stick(laws, eps).low)
        for (curve, _), loss in zip(self._rounds, self._losses, strict=True):
            if curve.lower is not None and not loss.down:
                found.append(float(curve.lower(eps)))
        return min(max(found), 0.0)

    def curve(self) -> Curve:
        """Both ends."""

        def lead(eps: float) -> float:
            return -np.inf if eps >= self._budget else log_chernoff(self._of(DEPTH), eps)

        known = any(loss.down for loss in self._losses) or any(
            curve.lower is not None for curve, _ in self._rounds
        )
        # Of a curve the last point lies beyond the reach by up to an eighth of it.
        horizon = 1.125 * fsum(
            count * min(curve.budget, curve.horizon) for curve, count in self._rounds
        )
        return Curve(
            self._budget,
            upper=self.upper,
            lower=self.lower if known else None,
            lead=lead,
            xtol=calibrate.COARSE_XTOL,
            horizon=horizon,
        )
