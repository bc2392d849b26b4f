"""Poisson sampling of users before a round: what is certified for replacement neighbours.

The published amplification of paper B (Zhu and Wang's theorem) is for adding or removing a user;
for replacement it is no guarantee (`shuffledp.accounting.rounds.renyi.subsampled_rdp`). What
always holds is the bound against an adversary who even sees who took part.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy.special import logsumexp

from shuffledp.accounting.bound import Bound
from shuffledp.accounting.laws.binomial import log_cdf, log_sf
from shuffledp.accounting.pairs import Pair
from shuffledp.accounting.rounds import composition
from shuffledp.accounting.rounds.privacy_loss import LossDistribution, default_step, rounded_up
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError

_STEPS = 24
_DEVIATIONS = 40.0
# Chance, per round, that fewer users take part than is counted on: counts as an infinite loss.
_FEWER = 1e-20
# Floating point, per round: of eps and of log delta, as in `composition`.
_ROUNDING = 2e-11


def subsampled_log_delta(bound: Bound, eps: float, setting: Setting, rate: float) -> float:
    """Log delta when each user takes part with probability ``rate``, independently, rounded up.

    The target's choice matters only if the target takes part, so
    ``delta = rate * E[delta(eps; 1 + Bin(n - 1, rate))]``: convexity of the hockey-stick divergence
    over what is revealed. The expectation is bounded above on an ascending partition of the number
    of participants, with the delta of each part's smallest number.

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
        return _composed_log_delta(bound.dominating_pair, eps, setting, rate)
    return _one_round_log_delta(bound, eps, setting, rate)


def _one_round_log_delta(bound: Bound, eps: float, setting: Setting, rate: float) -> float:
    others = setting.n - 1
    deviation = np.sqrt(others * rate * (1.0 - rate)) + 1.0
    edges = others * rate + deviation * np.linspace(-_DEVIATIONS, 4.0, _STEPS)
    starts = np.unique(np.clip(np.append(0.0, np.floor(edges)), 0, others).astype(np.int64))
    terms = []
    for start, stop in zip(starts, [*starts[1:], None], strict=True):
        below = 0.0 if stop is None else float(log_cdf(stop - 1, others, rate))
        # Pr[start <= participants < stop] by the smaller of its two one-sided bounds.
        mass = min(below, float(log_sf(start, others, rate)))
        smaller = replace(setting, n=int(start) + 1, count=None)
        # Where the bound says nothing about so few participants, delta is at most 1.
        silent = bound.why_not(smaller) is not None
        terms.append(mass + (0.0 if silent else min(bound.log_delta(eps, smaller), 0.0)))
    return float(min(np.log(rate) + logsumexp(terms), 0.0))


def _fewest(others: int, rate: float) -> int:
    """Largest number that ``Bin(others, rate)`` falls below with chance `_FEWER` at most."""
    low, high = 0, others
    while low < high:
        middle = (low + high + 1) // 2
        if log_cdf(middle - 1, others, rate) <= np.log(_FEWER):
            low = middle
        else:
            high = middle - 1
    return low


@lru_cache(maxsize=4)
def _sampled_round(
    pair: Callable[[Setting], Pair], setting: Setting, rate: float
) -> LossDistribution:
    """Loss of one sampled round against an adversary who sees who took part.

    With probability ``1 - rate`` the target is not in it, and the loss is zero. Otherwise
    ``1 + Bin(n - 1, rate)`` users report; what more than the fewest of them see is a
    post-processing of what the fewest see.
    """
    fewest = pair(replace(setting, n=1 + _fewest(setting.n - 1, rate), count=None))
    loss = rounded_up(fewest, default_step(fewest))
    mass = rate * loss.mass
    mass[-loss.start] += 1.0 - rate
    return replace(loss, mass=mass, infinite=rate * (loss.infinite + _FEWER))


def _composed_log_delta(
    pair: Callable[[Setting], Pair], eps: float, setting: Setting, rate: float
) -> float:
    if eps >= setting.budget:
        return -np.inf
    loss = _sampled_round(pair, setting, rate)
    rounding = setting.rounds * _ROUNDING
    inside = composition.log_hockey_stick(loss, max(eps - rounding, 0.0), setting.rounds)
    return min(inside.high + rounding, 0.0)
