"""Poisson sampling of users before a round: what is certified for replacement neighbours.

The published amplification of paper B (Zhu and Wang's theorem) is for adding or removing a user;
for replacement it is no guarantee (`shuffledp.accounting.rounds.renyi.subsampled_rdp`). What
always holds is the bound against an adversary who even sees who took part.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, lru_cache
from itertools import pairwise

import numpy as np
from scipy.special import logsumexp

from shuffledp.accounting.bound import Bound
from shuffledp.accounting.laws.binomial import log_cdf_ends, log_sf_ends
from shuffledp.accounting.pairs import Pair
from shuffledp.accounting.rounds import composition
from shuffledp.accounting.rounds.privacy_loss import (
    UNDERFLOW,
    LossDistribution,
    default_step,
    rounded_up,
)
from shuffledp.accounting.setting import Setting
from shuffledp.arrays import UNIT
from shuffledp.errors import InputError

# Numbers of participants are refined until this share of delta (a log) is lost, or so often.
_LOST, _MOST = -4.6, 100
# Relative width of the ranges of participants that a sampled round of several distinguishes.
_WIDTH = 0.02


def subsampled_log_delta(bound: Bound, eps: float, setting: Setting, rate: float) -> float:
    """Log delta when each user takes part with probability ``rate``, independently, rounded up.

    The target's choice matters only if the target takes part, so
    ``delta = rate * E[delta(eps; 1 + Bin(n - 1, rate))]``: convexity of the hockey-stick divergence
    over what is revealed. The expectation is bounded above on an ascending partition of the number
    of participants, with the delta of each part's smallest number; over rounds by the composition
    of such a mixture, or by the sum of the rounds.

    Parameters
    ----------
    bound
        An upper bound on delta that falls with n.
    eps, setting
        As for the bound; ``setting.n`` is the number of users before sampling.
    rate
        In ``(0, 1]``; 1 is no sampling. In each of several rounds the users are drawn afresh.

    Raises
    ------
    InputError
        If the rate is out of range, or with several rounds for a bound without a dominating pair.
    """
    if not 0.0 < rate <= 1.0:
        raise InputError(f"sampling rate must lie in (0, 1] (got {rate})")
    if rate == 1.0:
        return float(bound.log_delta(eps, setting))
    if not bound.guarantee:
        raise InputError(f"{bound.name} is no guarantee: with sampling only those are certified")
    if setting.rounds > 1:
        if bound.dominating_pair is None:
            raise InputError(f"{bound.name} takes a sampling rate for one round only")
        return _composed_log_delta(bound, eps, setting, rate)
    return _one_round_log_delta(bound, eps, setting, rate)


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


def _one_round_log_delta(bound: Bound, eps: float, setting: Setting, rate: float) -> float:
    from tqdm import tqdm

    # One delta for each of up to some hundred numbers of participants: far out, seconds.
    with tqdm(desc="numbers of participants", delay=2.0, leave=False, disable=None) as bar:
        return _mixed_log_delta(bound, eps, setting, rate, bar.update)


def _mixed_log_delta(
    bound: Bound, eps: float, setting: Setting, rate: float, done: Callable[[], object]
) -> float:
    others = setting.n - 1

    @cache
    def log_delta(participants: int) -> float:
        """With so many others; where the bound says nothing about so few, delta is at most 1."""
        if participants > others:
            return -np.inf
        done()
        smaller = replace(setting, n=participants + 1, count=None)
        silent = bound.why_not(smaller) is not None
        return 0.0 if silent else min(float(bound.log_delta(eps, smaller)), 0.0)

    deviation = np.sqrt(others * rate * (1.0 - rate)) + 1.0
    first = others * rate + deviation * np.linspace(-40.0, 8.0, 13)
    starts = sorted({0, *np.clip(np.floor(first), 0, others).astype(int).tolist()})
    while True:
        ranges = list(pairwise([*starts, others + 1]))
        masses = [_log_range(start, stop, others, rate) for start, stop in ranges]
        terms = [mass + log_delta(start) for mass, (start, _) in zip(masses, ranges, strict=True)]
        total = float(logsumexp(terms))
        lost = [
            term
            if log_delta(stop) == -np.inf
            else term + _log_less(log_delta(stop) - log_delta(start))
            for term, (start, stop) in zip(terms, ranges, strict=True)
        ]
        coarse = [
            (start + stop) // 2
            for loss, (start, stop) in zip(lost, ranges, strict=True)
            if stop - start > 1 and loss > total + _LOST - np.log(len(ranges))
        ]
        if not coarse or len(starts) >= _MOST:
            return min(float(np.log(rate)) + total, 0.0)
        starts = sorted({*starts, *coarse})


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


@lru_cache(maxsize=4)
def _sampled_round(
    pair: Callable[[Setting], Pair], setting: Setting, rate: float, depth: float
) -> LossDistribution:
    """Loss of one sampled round against an adversary who sees who took part.

    With probability ``1 - rate`` the target is not in it, and the loss is zero. Otherwise
    ``1 + Bin(n - 1, rate)`` users report. Their numbers are taken in ranges. A range counts as its
    smallest number: more reports hide more.
    """
    others = setting.n - 1

    def of(participants: int) -> Pair:
        return pair(replace(setting, n=1 + participants, count=None))

    step = default_step(of(round(others * rate)))
    starts = _ranges(others, rate, depth)
    laws = [rounded_up(of(start), step, depth) for start in starts]
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


def _composed_log_delta(bound: Bound, eps: float, setting: Setting, rate: float) -> float:
    """By the mixture's own composition, or each round by itself, whichever is less."""
    if eps >= setting.budget:
        return -np.inf
    pair, rounds, once = bound.dominating_pair, setting.rounds, replace(setting, rounds=1)
    assert pair is not None
    mixture = composition.deep_enough(
        lambda depth: _sampled_round(pair, once, rate, depth), eps, rounds
    )
    high = min(mixture, 0.0)
    # About what the rounds by themselves would give tells whether to look closely.
    mean = replace(once, n=1 + round(rate * (once.n - 1)))
    if bound.why_not(mean) is None:
        about = np.log(rounds) + np.log(rate) + float(bound.log_delta(eps / rounds, mean))
        if about > high:
            return high
    return min(high, float(np.log(rounds)) + _one_round_log_delta(bound, eps / rounds, once, rate))
