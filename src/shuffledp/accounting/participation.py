"""Privacy of settings in which some users do not take part, or collude with the analyst.

Users may be sampled in each round, or drop out. The bounds hold even against an adversary who sees
who took part. Neighbours differ in the replacement of one record. (The amplification by sampling
that paper B cites, from Zhu and Wang, is for adding or removing a user; see
`shuffledp.papers.literature.renyi.subsampled_rdp`.)
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import TypeVar

import numpy as np
from scipy.special import logsumexp

from shuffledp.accounting.composition import central_limit
from shuffledp.accounting.curve import (
    Curve,
    NotApplicableError,
    SearchHints,
    UpperCurve,
    require_upper,
)
from shuffledp.accounting.laws.binomial import log_cdf_ends, log_tail_ends
from shuffledp.accounting.pairs import Pair
from shuffledp.accounting.rounds.privacy_loss import (
    UNDERFLOW,
    LossDistribution,
    default_step,
    mixed,
    rounded_up,
)
from shuffledp.accounting.rounds.sums import upper_log_hockey_stick
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT, quotient_down

# Numbers of participants are grouped into ranges, which increases delta. Ranges are divided until
# the log of the relative increase is at most this, or until there are this many ranges.
LOG_INCREASE_TOLERANCE, MAX_RANGES = -4.6, 100
# Below this log delta, the tolerated increase is proportional to |log delta|, up to doubling delta.
LOG_DELTA_OF_RELATIVE_TOLERANCE = -100.0
# Relative width of these ranges where sampled rounds are composed.
RELATIVE_RANGE_WIDTH = 0.02

C = TypeVar("C", Curve, UpperCurve)


def with_participation(curve_of: Callable[[Setting], C], setting: Setting) -> C:
    """Return the curve of a setting in which users may collude, be sampled or drop out.

    The analyst can remove the reports of colluding users, so n becomes the number of honest users.
    If each user takes part with probability ``rate``, an adversary who sees who took part has
    ``delta(eps) = rate * E[delta(eps; 1 + Bin(n - 1, rate))]``, where ``delta(eps; m)`` is for m
    users who all take part: the target's record matters only if the target takes part. For an upper
    bound on the expectation, numbers of participants are grouped into ranges, each with the delta
    of its smallest number. For several rounds the bound is the minimum of the composition of this
    mixture and of the sum of the rounds' deltas. With dropouts, delta is that of a user who
    responds, so the factor ``rate`` is absent.

    Parameters
    ----------
    curve_of
        Function that returns the curve of a setting in which all users are honest and take part;
        its delta must fall with n.
    setting
        The setting with colluding or sampled users, or with dropouts.

    Returns
    -------
    The curve, which has only an upper end if users are sampled or drop out.

    Raises
    ------
    InputError
        If users are sampled or drop out, and there is no upper end or, for several rounds, no
        dominating pair.
    """
    honest = setting.honest
    if honest.participation_rate == 1.0:
        return curve_of(honest)
    everybody = replace(honest, sampling_rate=1.0, response_rate=1.0)
    full = require_upper(curve_of(everybody))
    if setting.rounds > 1 and full.composable.pair is None:
        raise InputError(
            "with sampling or dropouts, several rounds need a bound with a dominating pair, got "
            f"rounds={setting.rounds}: use rounds=1, or sampling_rate=1 and response_rate=1"
        )
    rate, pair = honest.participation_rate, full.composable.pair
    participants = _RandomParticipants(curve_of, everybody, rate)

    def sampled(eps: float) -> float:
        if setting.rounds == 1:
            return participants.log_delta(eps)
        return participants.composed_log_delta(eps)

    def responding(eps: float) -> float:
        value, log_response = sampled(eps), float(np.log(rate))
        # `sampled` has the factor `rate`, which does not apply to a user who responds.
        slack = 64.0 * UNIT * (1.0 + abs(value) + abs(log_response)) if value > -np.inf else 0.0
        return min(value - log_response + slack, 0.0)

    def estimate(eps: float) -> float:
        if setting.response_rate < 1.0:
            return central_limit(participants.pair, eps, participants.mean_round)
        return central_limit(participants.pair, eps, everybody, rate)

    return UpperCurve(
        full.budget,
        upper=sampled if setting.response_rate == 1.0 else responding,
        horizon=full.horizon,
        hints=SearchHints(
            # This evaluates one number of participants instead of about fifty.
            estimate=participants.log_delta_of_mean if pair is None else estimate,
            setting_estimate=None if pair is None else estimate,
        ),
    )


def _log_range(start: int, stop: int, others: int, rate: float) -> float:
    """Return ``log Pr[start <= Bin(others, rate) < stop]``, rounded up."""
    if start >= others * rate:
        near, far = log_tail_ends(start, others, rate).high, log_tail_ends(stop, others, rate).low
    else:
        near = log_cdf_ends(stop - 1, others, rate).high
        far = log_cdf_ends(start - 1, others, rate).low
    if near == -np.inf:
        return float(near)
    share = -np.expm1(min(float(far - near), 0.0)) + 8.0 * UNIT
    return float(near) + float(np.log(min(share, 1.0))) + 8.0 * UNIT * (1.0 + abs(float(near)))


def _log_one_minus_exp(difference: float) -> float:
    """Return ``log(1 - exp(difference))``, or -inf if ``difference >= 0``."""
    return float(np.log(-np.expm1(difference))) if difference < 0.0 else -np.inf


def _range_starts(others: int, rate: float, depth: float) -> list[int]:
    """Return the smallest number of other participants in each range.

    The probability of a number below the first range is at most ``exp(-depth)``, by Bernstein's
    inequality.
    """
    mean = others * rate
    half_width = depth / 3.0 + np.sqrt(depth**2 / 9.0 + 2.0 * mean * (1.0 - rate) * depth)
    first, last = max(int(mean - half_width), 0), min(int(mean + half_width) + 1, others)
    starts = [first]
    while (following := starts[-1] + max(1, int(RELATIVE_RANGE_WIDTH * starts[-1]))) <= last:
        starts.append(following)
    return starts


class _RandomParticipants:
    """A setting in which each user takes part in each round independently, with probability rate.

    ``curve_of`` returns the curve of a setting in which all users take part.
    """

    def __init__(self, curve_of: Callable[[Setting], Curve], setting: Setting, rate: float) -> None:
        self._curve_of, self._setting, self._rate = curve_of, setting, rate
        self._once = replace(setting, rounds=1)
        self._round = cache(self._sampled_round)

    @property
    def mean_round(self) -> Setting:
        """One round with the mean number of participants, given that the target takes part."""
        return self._round_with(round((self._setting.n - 1) * self._rate))

    def _round_with(self, others: int) -> Setting:
        return replace(self._once, n=1 + others, count=None)

    def pair(self, setting: Setting) -> Pair:
        """Return the dominating pair of a setting, which must have one."""
        pair = self._curve_of(setting).composable.pair
        assert pair is not None
        return pair

    def _upper(self, eps: float, others: int) -> float:
        """Return log delta for a number of other users; 0 if the bound does not apply to it."""
        try:
            upper = require_upper(self._curve_of(self._round_with(others))).upper
        except NotApplicableError:
            return 0.0
        return min(float(upper(eps)), 0.0)

    def log_delta_of_mean(self, eps: float) -> float:
        """Return log delta of one round with the mean number of participants."""
        return self._upper(eps, self.mean_round.n - 1)

    def log_delta(self, eps: float) -> float:
        """Return the natural log of delta of one round, rounded up."""
        from tqdm import tqdm

        # Evaluating up to about 100 numbers of participants may take seconds.
        with tqdm(desc="numbers of participants", delay=2.0, leave=False, disable=None) as bar:
            return self._mixed_log_delta(eps, bar.update)

    def _mixed_log_delta(self, eps: float, report_progress: Callable[[], object]) -> float:
        others, rate = self._setting.n - 1, self._rate

        @cache
        def log_delta(participants: int) -> float:
            if participants > others:
                return -np.inf
            report_progress()
            return self._upper(eps, participants)

        deviation = np.sqrt(others * rate * (1.0 - rate)) + 1.0
        first = others * rate + deviation * np.linspace(-40.0, 8.0, 13)
        starts = sorted({0, *np.clip(np.floor(first), 0, others).astype(int).tolist()})
        while True:
            ranges = list(pairwise([*starts, others + 1]))
            masses = [_log_range(start, stop, others, rate) for start, stop in ranges]
            terms = [m + log_delta(start) for m, (start, _) in zip(masses, ranges, strict=True)]
            total = float(logsumexp(terms))
            tolerated = total + min(
                LOG_INCREASE_TOLERANCE + np.log(max(total / LOG_DELTA_OF_RELATIVE_TOLERANCE, 1.0)),
                0.0,
            )
            # Upper bounds on how much each range increases delta.
            increases = [
                term
                if log_delta(stop) == -np.inf
                else term + _log_one_minus_exp(log_delta(stop) - log_delta(start))
                for term, (start, stop) in zip(terms, ranges, strict=True)
            ]
            midpoints = [
                (start + stop) // 2
                for increase, (start, stop) in zip(increases, ranges, strict=True)
                if stop - start > 1 and increase > tolerated - np.log(len(ranges))
            ]
            if not midpoints or len(starts) >= MAX_RANGES:
                if total == -np.inf:
                    return total
                # Rounding errors: a few units per term of the sum, and a few relative to the logs.
                log_rate = float(np.log(rate))
                slack = UNIT * (8.0 * len(starts) + 16.0 + 8.0 * (abs(total) + abs(log_rate)))
                return min(log_rate + total + slack, 0.0)
            starts = sorted({*starts, *midpoints})

    def _sampled_round(self, depth: float) -> LossDistribution:
        """Return the loss of one sampled round against an adversary who sees who took part.

        With probability ``1 - rate`` the target does not take part, and the loss is zero. Otherwise
        ``1 + Bin(n - 1, rate)`` users report. The numbers are grouped into ranges, each of which is
        replaced by its smallest number, because delta falls with the number of reports.
        """
        others, rate = self._setting.n - 1, self._rate

        def pair(participants: int) -> Pair:
            return self.pair(self._round_with(participants))

        step = default_step(pair(round(others * rate)))
        starts = _range_starts(others, rate, depth)
        laws = [rounded_up(pair(start), step, depth) for start in starts]
        # Numbers below the first range are rare and counted as infinite loss.
        rare, *shares = (
            rate * float(np.exp(_log_range(low, high, others, rate)))
            for low, high in pairwise([0, *starts, others + 1])
        )
        law = mixed(laws, shares, rare + UNDERFLOW, UNIT * (len(laws) + 2000.0))
        law.mass[-law.start] += 1.0 - rate
        return law

    def composed_log_delta(self, eps: float) -> float:
        """Return log delta of all rounds: the smaller of composition and the sum of deltas."""
        if eps >= self._setting.budget:
            return -np.inf
        rounds = self._setting.rounds
        high = min(upper_log_hockey_stick(lambda depth: [(self._round(depth), rounds)], eps), 0.0)
        # The sum of deltas is computed only if a cheap estimate of it is smaller.
        others = self.mean_round.n - 1
        eps_per_round = quotient_down(eps, rounds)
        estimate = np.log(rounds) + np.log(self._rate) + self._upper(eps_per_round, others)
        if estimate > high:
            return high
        return min(high, float(np.log(rounds)) + self.log_delta(eps_per_round))
