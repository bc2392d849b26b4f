"""Poisson sampling of users before a round: what is certified for replacement neighbours.

The published amplification of paper B (Zhu and Wang's theorem) is for adding or removing a user;
for replacement it is no guarantee (`shuffledp.accounting.renyi.subsampled_rdp`). What always holds
is the bound against an adversary who even sees who took part.
"""

import numpy as np
from scipy.special import logsumexp

from shuffledp.accounting.binomial import log_cdf, log_sf
from shuffledp.accounting.bound import Bound, Setting
from shuffledp.errors import InputError

_STEPS = 24
_DEVIATIONS = 40.0


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
        In ``(0, 1]``; 1 is no sampling.

    Raises
    ------
    InputError
        If the rate is out of range, or with more than one round.
    """
    if not 0.0 < rate <= 1.0:
        raise InputError(f"sampling rate must lie in (0, 1] (got {rate})")
    if rate == 1.0:
        return float(bound.log_delta(eps, setting))
    if not bound.guarantee:
        raise InputError(f"{bound.name} is no guarantee: with sampling only those are certified")
    if setting.rounds > 1:
        raise InputError("a sampling rate is supported for one round only")
    others = setting.n - 1
    deviation = np.sqrt(others * rate * (1.0 - rate)) + 1.0
    edges = others * rate + deviation * np.linspace(-_DEVIATIONS, 4.0, _STEPS)
    starts = np.unique(np.clip(np.append(0.0, np.floor(edges)), 0, others).astype(np.int64))
    terms = []
    for start, stop in zip(starts, [*starts[1:], None], strict=True):
        below = 0.0 if stop is None else float(log_cdf(stop - 1, others, rate))
        # Pr[start <= participants < stop] by the smaller of its two one-sided bounds.
        mass = min(below, float(log_sf(start, others, rate)))
        smaller = Setting(int(start) + 1, setting.k, setting.eps0)
        # Where the bound says nothing about so few participants, delta is at most 1.
        silent = bound.why_not(smaller, np.nan) is not None
        terms.append(mass + (0.0 if silent else min(bound.log_delta(eps, smaller), 0.0)))
    return float(min(np.log(rate) + logsumexp(terms), 0.0))
