"""Users who take part by chance: drawn for each round, or dropping out; and those who collude.

What always holds is the bound against an adversary who even sees who took part. The published
amplification of paper B (Zhu and Wang's theorem) is for adding or removing a user; for replacement
it is no guarantee (`shuffledp.accounting.literature.renyi.subsampled_rdp`).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
from scipy.special import logsumexp

from shuffledp.accounting.central_limit import central_limit
from shuffledp.accounting.curve import Curve, NotApplicableError
from shuffledp.accounting.laws.binomial import log_cdf_ends, log_sf_ends
from shuffledp.accounting.pairs import Pair
from shuffledp.accounting.rounds.privacy_loss import (
    UNDERFLOW,
    LossDistribution,
    default_step,
    rounded_up,
)
from shuffledp.accounting.rounds.sums import deep_enough
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import UNIT, quotient_down

# Numbers of participants are refined until this share of delta (a log) is lost, or so often. Of
# the log of a smaller delta than this one's as small a share is lost, and at most half of delta.
_LOST, _MOST, _LOG_SMALL = -4.6, 100, -100.0
# Relative width of the ranges of participants that a sampled round of several distinguishes.
_WIDTH = 0.02

Curves = Callable[[Setting], Curve]


def of_crowd(of_everybody: Curves, setting: Setting) -> Curve:
    """Delta over eps of a setting, some of whose users collude or do not take part.

    Colluders hide nobody: the others are a setting of their own. Where users take part by chance,
    the target's choice matters only if the target does, so ``delta = rate * E[delta(eps; 1 +
    Bin(n - 1, rate))]``: convexity of the hockey-stick divergence over what is revealed. The
    expectation is bounded above on an ascending partition of the number of participants, with the
    delta of each part's smallest number; over rounds by the composition of such a mixture, or by
    the sum of the rounds. Who drops out is not the target: delta is that of a user who responds.

    Parameters
    ----------
    of_everybody
        The curve of a setting whose users are honest and all take part; delta falls with n.
    setting
        Whom it is asked for.

    Returns
    -------
    With a draw or dropouts an upper end only.

    Raises
    ------
    InputError
        If there is no upper end to draw from, or, for several rounds, no dominating pair.
    """
    honest = setting.honest
    if honest.part == 1.0:
        return of_everybody(honest)
    everybody = replace(honest, sampling_rate=1.0, response_rate=1.0)
    some = of_everybody(everybody)
    if some.upper is None or (setting.rounds > 1 and some.pair is None):
        raise InputError(
            f"users are drawn, or drop out: an upper end is needed, and for several rounds a "
            f"dominating pair (got {setting.rounds} rounds)"
        )
    rate, pair = honest.part, some.pair
    draws = _Draws(of_everybody, everybody, rate)

    def drawn(eps: float) -> float:
        return draws.log_delta(eps) if setting.rounds == 1 else draws.composed_log_delta(eps)

    def responding(eps: float) -> float:
        found, log_response = drawn(eps), float(np.log(rate))
        # That is for a user who may have dropped out, too.
        slack = 64.0 * UNIT * (1.0 + abs(found) + abs(log_response)) if found > -np.inf else 0.0
        return min(found - log_response + slack, 0.0)

    def pair_of(other: Setting) -> Pair:
        found = of_everybody(other).pair
        assert found is not None
        return found

    def normal(eps: float) -> float:
        if setting.response_rate < 1.0:
            return central_limit(pair_of, eps, draws.of_mean)
        return central_limit(pair_of, eps, everybody, rate)

    return Curve(
        budget=some.budget,
        upper=drawn if setting.response_rate == 1.0 else responding,
        # One number of participants in place of some fifty.
        lead=draws.log_delta_of_mean if pair is None else normal,
        scout=None if pair is None else normal,
        horizon=some.horizon,
    )


def _log_range(start: int, stop: int, others: int, rate: float) -> float:
    """Log of ``Pr[start <= Bin(others, rate) < stop]``, rounded up, from the nearer tail."""
    if start >= others * rate:
        near, far = log_sf_ends(start, others, rate).high, log_sf_ends(stop, others, rate).low
    else:
        near = log_cdf_ends(stop - 1, others, rate).high
        far = log_cdf_ends(start - 1, others, rate).low
    if near == -np.inf:
        return float(near)
    share = -np.expm1(min(float(far - near), 0.0)) + 8.0 * UNIT
    return float(near) + float(np.log(min(share, 1.0))) + 8.0 * UNIT * (1.0 + abs(float(near)))


def _log_less(difference: float) -> float:
    """``log(1 - exp(difference))``, -inf where that is not positive."""
    return float(np.log(-np.expm1(difference))) if difference < 0.0 else -np.inf


def _ranges(others: int, rate: float, depth: float) -> list[int]:
    """First members of ranges of participants; fewer than the first take part by exp(-depth)."""
    reach = depth / 3.0 + np.sqrt(depth**2 / 9.0 + 2.0 * others * rate * (1.0 - rate) * depth)
    first, last = max(int(others * rate - reach), 0), min(int(others * rate + reach) + 1, others)
    starts = [first]
    while (following := starts[-1] + max(1, int(_WIDTH * starts[-1]))) <= last:
        starts.append(following)
    return starts


class _Draws:
    """Of each setting's users every one takes part with a probability, independently.

    Parameters
    ----------
    curves
        Of settings whose users all take part.
    setting
        Before anybody is drawn.
    rate
        In ``(0, 1)``; over several rounds the users are drawn afresh.
    """

    def __init__(self, curves: Curves, setting: Setting, rate: float) -> None:
        self._curves, self._setting, self._rate = curves, setting, rate
        self._once = replace(setting, rounds=1)
        self._round = cache(self._sampled_round)

    @property
    def of_mean(self) -> Setting:
        """One round of the mean number of those who take part, if the target does."""
        return self._of(round((self._setting.n - 1) * self._rate))

    def _of(self, others: int) -> Setting:
        return replace(self._once, n=1 + others, count=None)

    def _upper(self, eps: float, others: int) -> float:
        """With so many others; where the bound says nothing about so few, delta is at most 1."""
        try:
            upper = self._curves(self._of(others)).upper
        except NotApplicableError:
            return 0.0
        assert upper is not None
        return min(float(upper(eps)), 0.0)

    def log_delta_of_mean(self, eps: float) -> float:
        """About the log of delta of one round: that of the mean number of those who take part."""
        return self._upper(eps, self.of_mean.n - 1)

    def log_delta(self, eps: float) -> float:
        """Natural log of delta of one round, rounded up."""
        from tqdm import tqdm

        # One delta for each of up to some hundred numbers of participants: far out, seconds.
        with tqdm(desc="numbers of participants", delay=2.0, leave=False, disable=None) as bar:
            return self._mixed_log_delta(eps, bar.update)

    def _mixed_log_delta(self, eps: float, done: Callable[[], object]) -> float:
        others, rate = self._setting.n - 1, self._rate

        @cache
        def log_delta(participants: int) -> float:
            if participants > others:
                return -np.inf
            done()
            return self._upper(eps, participants)

        deviation = np.sqrt(others * rate * (1.0 - rate)) + 1.0
        first = others * rate + deviation * np.linspace(-40.0, 8.0, 13)
        starts = sorted({0, *np.clip(np.floor(first), 0, others).astype(int).tolist()})
        while True:
            ranges = list(pairwise([*starts, others + 1]))
            masses = [_log_range(start, stop, others, rate) for start, stop in ranges]
            terms = [m + log_delta(start) for m, (start, _) in zip(masses, ranges, strict=True)]
            total = float(logsumexp(terms))
            least = total + min(_LOST + np.log(max(total / _LOG_SMALL, 1.0)), 0.0)
            lost = [
                term
                if log_delta(stop) == -np.inf
                else term + _log_less(log_delta(stop) - log_delta(start))
                for term, (start, stop) in zip(terms, ranges, strict=True)
            ]
            coarse = [
                (start + stop) // 2
                for loss, (start, stop) in zip(lost, ranges, strict=True)
                if stop - start > 1 and loss > least - np.log(len(ranges))
            ]
            if not coarse or len(starts) >= _MOST:
                if total == -np.inf:
                    return total
                # The sum's own rounding: a unit a term, and some of the logarithms' sizes.
                slack = UNIT * (8.0 * len(starts) + 16.0 + 8.0 * abs(total))
                return min(float(np.log(rate)) + total + slack, 0.0)
            starts = sorted({*starts, *coarse})

    def _sampled_round(self, depth: float) -> LossDistribution:
        """Loss of one sampled round against an adversary who sees who took part.

        With probability ``1 - rate`` the target is not in it, and the loss is zero. Otherwise
        ``1 + Bin(n - 1, rate)`` users report. Their numbers are taken in ranges. A range counts as
        its smallest number: more reports hide more.
        """
        others, rate = self._setting.n - 1, self._rate

        def pair(participants: int) -> Pair:
            found = self._curves(self._of(participants)).pair
            assert found is not None
            return found

        step = default_step(pair(round(others * rate)))
        starts = _ranges(others, rate, depth)
        laws = [rounded_up(pair(start), step, depth) for start in starts]
        start = min(law.start for law in laws)
        total = np.zeros(max(law.start + law.mass.size for law in laws) - start)
        # Fewer take part so rarely that it counts as an infinite loss, like what windows leave out.
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
        """By the mixture's own composition, or each round by itself, whichever is less."""
        if eps >= self._setting.budget:
            return -np.inf
        rounds = self._setting.rounds
        high = min(deep_enough(lambda depth: [(self._round(depth), rounds)], eps), 0.0)
        # About what the rounds by themselves would give tells whether to look closely.
        others = self.of_mean.n - 1
        share = quotient_down(eps, rounds)
        about = np.log(rounds) + np.log(self._rate) + self._upper(share, others)
        if about > high:
            return high
        return min(high, float(np.log(rounds)) + self.log_delta(share))
