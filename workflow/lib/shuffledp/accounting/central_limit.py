"""Where dear searches begin: the log of delta if the loss of all rounds together were normal."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from shuffledp.accounting.laws.binomial import log_pmf
from shuffledp.accounting.pairs import Pair, symmetric_form
from shuffledp.accounting.rounds.tradeoff import gdp_to_log_delta
from shuffledp.accounting.setting import Setting


def central_limit(
    pair: Callable[[Setting], Pair], eps: float, setting: Setting, rate: float = 1.0
) -> float:
    """About the natural log of delta, at once; it may be too small and is no bound.

    Parameters
    ----------
    pair
        Dominating pair of one round, whose two laws mirror each other.
    eps
        Total over the rounds, at least 0.
    setting
        Users before sampling, cells, budget and rounds.
    rate
        Probability in ``(0, 1]`` with which each user takes part in a round.
    """
    if eps >= setting.budget:
        return -np.inf
    users = max(round(rate * setting.n), 1)
    deviation = symmetric_form(pair(replace(setting, n=users, rounds=1, count=None))).deviation
    if rate == 1.0:
        return float(gdp_to_log_delta(eps, deviation * np.sqrt(setting.rounds)))
    # The target takes part in a random number of rounds; far from its mean lies nothing.
    mean, reach = rate * setting.rounds, 12.0 * np.sqrt(rate * setting.rounds) + 60.0
    taken = np.arange(max(np.floor(mean - reach), 1.0), min(mean + reach, setting.rounds) + 1.0)
    chances = log_pmf(taken, setting.rounds, rate)
    return float(logsumexp(chances + gdp_to_log_delta(eps, deviation * np.sqrt(taken))))
