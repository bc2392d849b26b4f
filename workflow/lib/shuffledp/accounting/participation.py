"""Privacy of settings in which some users do not take part, or collude with the analyst.

Users may be sampled in each round, or drop out. The bounds here hold even against an adversary who
sees who took part. The published amplification of paper B (Zhu and Wang's theorem) is about adding
or removing a user, and is no guarantee for replacement
(`shuffledp.papers.literature.renyi.subsampled_rdp`).
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
from shuffledp.accounting.laws.binomial import log_cdf_ends, log_sf_ends
from shuffledp.accounting.pairs import Pair
from shuffledp.accounting.rounds.privacy_loss import (
    UNDERFLOW,
    LossDistribution,
    default_step,
    rounded_up,
)
from shuffledp.accounting.rounds.sums import upper_log_hockey_stick
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT, quotient_down

# Ranges of participants are refined until they increase delta by at most this share (a log), or
# until there are this many ranges.
LOG_LOSS_TOLERANCE, MAX_RANGES = -4.6, 100
# For smaller log delta, the tolerance is the same share of the log instead. Delta may then be too
# large by a factor of at most two.
LOG_DELTA_OF_RELATIVE_TOLERANCE = -100.0
# Relative width of the ranges of participants in a sampled round that composes.
RELATIVE_RANGE_WIDTH = 0.02

C = TypeVar("C", Curve, UpperCurve)


def with_participation(curve_of: Callable[[Setting], C], setting: Setting) -> C:
    """Return the curve of a setting in which users may collude, be sampled or drop out.

    Colluding users hide nobody, so the honest users form a setting of their own. If users take part
    at random, the target's record matters only if the target takes part:
    ``delta = rate * E[delta(eps; 1 + Bin(n - 1, rate))]``, by convexity of the hockey-stick
    divergence in what is revealed. The expectation is bounded above by dividing the number of
    participants into ranges, each with the delta of its smallest number. For several rounds the
    bound is the composition of that mixture, or the sum of the rounds' deltas. With dropouts, delta
    is that of a user who responds.

    Parameters
    ----------
    curve_of
        Function that returns the curve of a setting in which all users are honest and take part;
        delta falls with n.
    setting
        The setting with colluding, sampled or dropping users.

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
        # `sampled` is for a user who may have dropped out; this is for one who responds.
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
            # One number of participants instead of about fifty.
            estimate=participants.log_delta_of_mean if pair is None else estimate,
            setting_estimate=None if pair is None else estimate,
        ),
    )


def _log_range(start: int, stop: int, others: int, rate: float) -> float:
    """Return log of ``Pr[start <= Bin(others, rate) < stop]``, rounded up, from the nearer tail."""
    if start >= others * rate:
        near, far = log_sf_ends(start, others, rate).high, log_sf_ends(stop, others, rate).low
    else:
        near = log_cdf_ends(stop - 1, others, rate).high
        far = log_cdf_ends(start - 1, others, rate).low
    if near == -np.inf:
        return float(near)
    share = -np.expm1(min(float(far - near), 0.0)) + 8.0 * UNIT
    return float(near) + float(np.log(min(share, 1.0))) + 8.0 * UNIT * (1.0 + abs(float(near)))


def _log_one_minus_exp(difference: float) -> float:
    """Return ``log(1 - exp(difference))``, -inf if that is not positive."""
    return float(np.log(-np.expm1(difference))) if difference < 0.0 else -np.inf


def _range_starts(others: int, rate: float, depth: float) -> list[int]:
    """Return the smallest numbers of ranges of participants.

    The probability of a number below the first range is at most exp(-depth), by Bernstein's
    inequality.
    """
    reach = depth / 3.0 + np.sqrt(depth**2 / 9.0 + 2.0 * others * rate * (1.0 - rate) * depth)
    first, last = max(int(others * rate - reach), 0), min(int(others * rate + reach) + 1, others)
    starts = [first]
    while (following := starts[-1] + max(1, int(RELATIVE_RANGE_WIDTH * starts[-1]))) <= last:
        starts.append(following)
    return starts


class _RandomParticipants:
    """A setting in which users take part independently with the same probability.

    Parameters
    ----------
    curve_of
        Function that returns the curve of a setting in which all users take part.
    setting
        The setting with all users.
    rate
        Probability in ``(0, 1)``; users are sampled again in each round.
    """

    def __init__(self, curve_of: Callable[[Setting], Curve], setting: Setting, rate: float) -> None:
        self._curve_of, self._setting, self._rate = curve_of, setting, rate
        self._once = replace(setting, rounds=1)
        self._round = cache(self._sampled_round)

    @property
    def mean_round(self) -> Setting:
        """One round of the mean number of participants, given that the target takes part."""
        return self._round_with(round((self._setting.n - 1) * self._rate))

    def _round_with(self, others: int) -> Setting:
        return replace(self._once, n=1 + others, count=None)

    def pair(self, setting: Setting) -> Pair:
        """Return the dominating pair of a setting; `with_participation` checks that it exists."""
        pair = self._curve_of(setting).composable.pair
        assert pair is not None
        return pair

    def _upper(self, eps: float, others: int) -> float:
        """Return log delta with this many others, 0 if the bound does not apply to so few."""
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

        # Up to about a hundred numbers of participants are evaluated, which may take seconds.
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
                LOG_LOSS_TOLERANCE + np.log(max(total / LOG_DELTA_OF_RELATIVE_TOLERANCE, 1.0)), 0.0
            )
            losses = [
                term
                if log_delta(stop) == -np.inf
                else term + _log_one_minus_exp(log_delta(stop) - log_delta(start))
                for term, (start, stop) in zip(terms, ranges, strict=True)
            ]
            midpoints = [
                (start + stop) // 2
                for loss, (start, stop) in zip(losses, ranges, strict=True)
                if stop - start > 1 and loss > tolerated - np.log(len(ranges))
            ]
            if not midpoints or len(starts) >= MAX_RANGES:
                if total == -np.inf:
                    return total
                # Rounding of the sum: a unit per term, and a few units of the logarithms' sizes.
                slack = UNIT * (8.0 * len(starts) + 16.0 + 8.0 * abs(total))
                return min(float(np.log(rate)) + total + slack, 0.0)
            starts = sorted({*starts, *midpoints})

    def _sampled_round(self, depth: float) -> LossDistribution:
        """Return the loss of one sampled round against an adversary who sees who took part.

        With probability ``1 - rate`` the target does not take part, and the loss is zero. Otherwise
        ``1 + Bin(n - 1, rate)`` users report. Their numbers are grouped into ranges, each of which
        is replaced by its smallest number, because more reports hide more.
        """
        others, rate = self._setting.n - 1, self._rate

        def pair(participants: int) -> Pair:
            return self.pair(self._round_with(participants))

        step = default_step(pair(round(others * rate)))
        starts = _range_starts(others, rate, depth)
        laws = [rounded_up(pair(start), step, depth) for start in starts]
        start = min(law.start for law in laws)
        total = np.zeros(max(law.start + law.mass.size for law in laws) - start)
        # Numbers below the first range are so rare that they are counted as infinite loss, like
        # outcomes outside the windows.
        infinite = rate * float(np.exp(_log_range(0, starts[0], others, rate))) + UNDERFLOW
        mass_error = max(law.mass_error for law in laws) + UNIT * (len(laws) + 2000.0)
        for law, (low, high) in zip(laws, pairwise([*starts, others + 1]), strict=True):
            share = rate * float(np.exp(_log_range(low, high, others, rate)))
            total[law.start - start :][: law.mass.size] += share * law.mass
            infinite += share * law.infinite
        total[-start] += 1.0 - rate
        loss_error = max(law.loss_error for law in laws)
        return LossDistribution(step, start, total, infinite, mass_error, loss_error)

    def composed_log_delta(self, eps: float) -> float:
        """Return log delta of all rounds: by composition, or as the sum of the rounds' deltas."""
        if eps >= self._setting.budget:
            return -np.inf
        rounds = self._setting.rounds
        high = min(upper_log_hockey_stick(lambda depth: [(self._round(depth), rounds)], eps), 0.0)
        # A cheap estimate of the sum of deltas decides whether it is worth computing.
        others = self.mean_round.n - 1
        share = quotient_down(eps, rounds)
        estimate = np.log(rounds) + np.log(self._rate) + self._upper(share, others)
        if estimate > high:
            return high
        return min(high, float(np.log(rounds)) + self.log_delta(share))
