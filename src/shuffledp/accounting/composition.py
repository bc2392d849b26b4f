"""Composition of privacy profiles: the joint guarantee of several rounds (docs/rounds.md).

Each round uses fresh randomness. Rounds may differ and may be chosen adaptively.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from math import fsum

import numpy as np
from scipy.special import logsumexp

from shuffledp.accounting import calibrate
from shuffledp.accounting.curve import (
    SearchHints,
    UpperCurve,
    pure_dp_curve,
)
from shuffledp.accounting.laws.binomial import log_pmf
from shuffledp.accounting.pairs import Pair, symmetric_form
from shuffledp.accounting.rounds.outcome_bundles import DEFAULT_DEPTH
from shuffledp.accounting.rounds.privacy_loss import MAX_GRID_STEPS
from shuffledp.accounting.rounds.profile import loss_of_curve
from shuffledp.accounting.rounds.sums import (
    Rounds,
    coarsened_for_transform,
    finite_log_hockey_stick,
    log_chernoff,
    log_hockey_stick,
    upper_log_hockey_stick,
)
from shuffledp.accounting.rounds.tradeoff import gdp_curve, gdp_to_log_delta
from shuffledp.accounting.setting import LARGEST_EPS0, Setting
from shuffledp.numerics.arrays import UNIT, quotient_down, sum_up

# Curves of single rounds, and the number of rounds (>= 1) with each curve.
CountedCurves = Sequence[tuple[UpperCurve, int]]
# Grid steps per standard deviation of a round's loss (root mean square over the rounds). The upper
# end of a single loss has that loss's own step instead.
STEPS_PER_DEVIATION = 64.0
# The grid of the lower end is finer by this factor, because rounding down has an error of first
# order where outcomes are few, or by the second factor if there are more than this many kinds of
# rounds, for which it would take too long.
LOWER_GRID_REFINEMENT, REFINEMENT_OF_MANY_KINDS, MAX_FEW_KINDS = 8.0, 2.0, 8
# Below this log delta, basic composition is tried as well: truncation windows may leave out so much
# that the sum of the rounds' deltas is a better bound.
BASIC_COMPOSITION_BELOW = -300.0


def compose(curve: UpperCurve, rounds: int) -> UpperCurve:
    """Return the joint curve of ``rounds`` (>= 1) rounds with the same curve.

    ``curve.composable.repeated`` is used if present; otherwise, see `compose_rounds`.
    """
    if rounds == 1:
        return curve
    if curve.composable.repeated is not None:
        return curve.composable.repeated(rounds)
    return compose_rounds([(curve, rounds)])


def compose_rounds(rounds: CountedCurves) -> UpperCurve:
    """Return the joint curve of rounds that may differ.

    The upper end is delta of the composed privacy losses. Basic composition replaces it where it
    gives less; for several distinct losses it is only tried below ``BASIC_COMPOSITION_BELOW``. The
    upper end is exact if all rounds are mu-GDP. For the lower end, the losses of explicit data sets
    are composed, for the rounds that have them. The result is the maximum of this and of the lower
    ends of the other rounds, because whoever sees all rounds also sees each of them.

    If the curve of some round is trivial, the result is that of pure DP with the sum of the
    budgets, without a lower end.
    """
    rounds = [
        (replace(curve, upper=cache(curve.upper)), count)
        for curve, count in _gaussian_rounds_merged(rounds)
    ]
    if len(rounds) == 1 and rounds[0][1] == 1:
        return rounds[0][0]
    budget = sum_up((count, curve.budget) for curve, count in rounds)
    if any(_is_trivial(curve) for curve, _ in rounds):
        return pure_dp_curve(budget)
    return _Composition(rounds, budget).curve()


def _is_trivial(curve: UpperCurve) -> bool:
    """Return whether a curve yields no loss distribution.

    It has no loss of its own, and delta is 1 at eps = 0 and just below the budget (or at
    `LARGEST_EPS0`).
    """
    if curve.composable.loss is not None:
        return False
    largest = min(0.999 * curve.budget, LARGEST_EPS0)
    return curve.upper(0.0) >= 0.0 and curve.upper(largest) >= 0.0


def _gaussian_rounds_merged(rounds: CountedCurves) -> CountedCurves:
    """Return the rounds with all mu-GDP rounds replaced by one, since squares of mu add up.

    This adds 2.5 units of rounding to the error of mu, and `Composable.repeated` adds 2; together
    they are below the 8 that `gdp_curve` allows for.
    """
    values = [(curve.composable.mu, count) for curve, count in rounds]
    squares = [count * (mu * mu) for mu, count in values if mu is not None]
    if not squares:
        return rounds
    others = [(curve, count) for curve, count in rounds if curve.composable.mu is None]
    return [(gdp_curve(float(np.sqrt(fsum(squares)))), 1), *others]


class _Composition:
    """Composition of the rounds' privacy losses on a common grid; delta is 0 if eps >= budget."""

    def __init__(self, rounds: CountedCurves, budget: float) -> None:
        self._rounds, self._budget = rounds, budget
        self._counts = [count for _, count in rounds]
        self._losses = [
            loss_of_curve(curve) if curve.composable.loss is None else curve.composable.loss()
            for curve, _ in rounds
        ]
        self._upper_laws = cache(self._compute_upper_laws)
        self._lower_laws = cache(self._compute_lower_laws)

    @property
    def _depth(self) -> float:
        """Minus the log of the probability that the first truncation may leave out at each end.

        With several kinds of rounds a second truncation takes long, so the first is deeper and
        nearly always enough.
        """
        return DEFAULT_DEPTH if len(self._losses) == 1 else 1.5 * DEFAULT_DEPTH

    @property
    def _step(self) -> float:
        """Distance between grid points; a power of 2, so that its multiples are exact floats."""
        counts = np.array(self._counts, np.float64)
        squares = np.array([loss.deviation for loss in self._losses]) ** 2
        width = float(np.sqrt(counts @ squares / counts.sum())) / STEPS_PER_DEVIATION
        min_step = max(loss.largest for loss in self._losses) / MAX_GRID_STEPS
        return float(2.0 ** np.floor(np.log2(max(width, min_step))))

    def _compute_upper_laws(self, depth: float) -> Rounds:
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

    def _compute_lower_laws(self, variant: int) -> Rounds:
        """Return the loss distributions of explicit data sets, for the rounds that have them.

        If a round has several such data sets, ``variant`` selects one of them.
        """
        few = len(self._losses) <= MAX_FEW_KINDS
        step = self._step / (LOWER_GRID_REFINEMENT if few else REFINEMENT_OF_MANY_KINDS)
        return [
            (law, count)
            for loss, count in zip(self._losses, self._counts, strict=True)
            if loss.down
            for law in loss.down[min(variant, len(loss.down) - 1)](step)
        ]

    def _upper(self, eps: float) -> float:
        if eps >= self._budget:
            return -np.inf
        log_left_out_share = max(loss.log_left_out_share for loss in self._losses)
        high = upper_log_hockey_stick(self._upper_laws, eps, log_left_out_share, self._depth)
        if high < BASIC_COMPOSITION_BELOW or self._sum_may_be_below(high, eps):
            high = min(high, self._sum_of_deltas(eps))
        return min(high, 0.0)

    def _sum_may_be_below(self, high: float, eps: float) -> bool:
        """Return whether `_sum_of_deltas`, which may be smaller than ``high``, is worth its time.

        For rounds of several kinds it is not. For one kind, the sum is about ``count`` times delta
        of one round on the grid, which rounding at most doubles; so the sum is not below ``high``
        if half of this is above. If one round has several laws, there is no such estimate.
        """
        laws = self._upper_laws(self._depth)
        if len(self._losses) > 1:
            return False
        if len(laws) > 1:
            return True
        law, count = laws[0]
        once = finite_log_hockey_stick([(law, 1)], quotient_down(eps, count)).low
        return bool(np.log(count / 2.0) + once <= high)

    def _sum_of_deltas(self, eps: float) -> float:
        """Return log delta by basic composition: eps is divided among the rounds, deltas add up."""
        weights = [
            curve.budget if self._budget < np.inf else loss.deviation
            for (curve, _), loss in zip(self._rounds, self._losses, strict=True)
        ]
        # The factor ensures that the rounds' values of eps, as floats, add up to at most eps.
        eps_per_weight = eps / fsum(np.multiply(weights, self._counts)) * (1.0 - 8.0 * UNIT)
        if len(weights) == 1:
            weights, eps_per_weight = [1.0], quotient_down(eps, self._counts[0])
        logs = [
            float(np.log(count)) + curve.upper(eps_per_weight * weight)
            for (curve, count), weight in zip(self._rounds, weights, strict=True)
        ]
        total = float(np.logaddexp.reduce(logs))
        return total + UNIT * (8.0 + len(logs)) * (1.0 + abs(total)) if len(logs) > 1 else total

    def _lower(self, eps: float) -> float:
        if eps >= self._budget:
            return -np.inf
        ends = [-np.inf]
        for variant in range(max(len(loss.down) for loss in self._losses)):
            laws = coarsened_for_transform(self._lower_laws(variant), eps)
            ends.append(log_hockey_stick(laws, eps).low)
        for (curve, _), loss in zip(self._rounds, self._losses, strict=True):
            if curve.lower is not None and not loss.down:
                ends.append(float(curve.lower(eps)))
        return min(max(ends), 0.0)

    def curve(self) -> UpperCurve:
        """Return the curve of all rounds together."""

        @cache
        def estimate(eps: float) -> float:
            if eps >= self._budget:
                return -np.inf
            return log_chernoff(self._upper_laws(self._depth), eps)

        has_lower_end = any(loss.down for loss in self._losses) or any(
            curve.lower is not None for curve, _ in self._rounds
        )
        # The last point of a loss that was derived from a curve may lie one grid step beyond the
        # horizon of the curve. A single loss has a grid of its own, with at least eight steps up to
        # the horizon, so that one step is at most last / 8.
        step = self._step if len(self._losses) > 1 else 0.0
        horizons = [min(curve.budget, curve.horizon) for curve, _ in self._rounds]
        horizon = fsum(
            count * (last + max(step, last / 8.0))
            for last, count in zip(horizons, self._counts, strict=True)
        )
        return UpperCurve(
            self._budget,
            upper=self._upper,
            lower=self._lower if has_lower_end else None,
            horizon=horizon,
            hints=SearchHints(estimate=estimate, xtol=calibrate.COARSE_XTOL),
        )


def central_limit(
    pair: Callable[[Setting], Pair], eps: float, setting: Setting, rate: float = 1.0
) -> float:
    """Return the central-limit approximation of log delta of all rounds.

    It is a cheap starting point for expensive searches, and neither an upper nor a lower bound.
    The dominating pair of one round must have a symmetric form. Each user takes part in a round
    with probability ``rate``; the sampling and response rates of ``setting`` are ignored.
    """
    if eps >= setting.budget:
        return -np.inf
    users = max(round(rate * setting.n), 1)
    deviation = symmetric_form(pair(replace(setting, n=users, rounds=1, count=None))).deviation
    if rate == 1.0:
        return float(gdp_to_log_delta(eps, deviation * np.sqrt(setting.rounds)))
    # The target takes part in a binomial number of rounds, whose far tails are left out.
    mean, half_width = rate * setting.rounds, 12.0 * np.sqrt(rate * setting.rounds) + 60.0
    first, last = max(np.floor(mean - half_width), 1.0), min(mean + half_width, setting.rounds)
    rounds = np.arange(first, last + 1.0)
    log_mass = log_pmf(rounds, setting.rounds, rate)
    return float(logsumexp(log_mass + gdp_to_log_delta(eps, deviation * np.sqrt(rounds))))
