"""The sharper ``upper`` at k = 3, against the law of the view with one hidden user."""

from math import log

import numpy as np
import pytest

from oracle import exact
from shuffledp.accounting import krr, pairs
from shuffledp.accounting.laws.multinomial import tilted_shares
from shuffledp.accounting.one_round import hidden_user
from shuffledp.accounting.pairs import hockey_stick
from shuffledp.accounting.setting import Setting


def log_reduction(eps, setting, *, forward):
    shares = tilted_shares(pairs.weak_adversary(setting).weighted_sum(eps))
    return hidden_user.log_reduction(eps, setting, shares, forward=forward)


def weak_log_delta(eps, setting):
    return hockey_stick(pairs.weak_adversary(setting), eps).high


@pytest.mark.parametrize("n", [2, 3, 4, 6])
@pytest.mark.parametrize(("E", "e"), exact.RATIOS)
@pytest.mark.parametrize("hidden", [0, 1])
def test_loss_is_the_difference_of_the_two_views(n, E, e, hidden):
    difference = exact.upper_delta(n, 3, E, e) - exact.one_hidden_delta(hidden, n, E, e)
    loss = log_reduction(log(e), Setting(n, 3, log(E)), forward=hidden == 0)
    if difference == 0:
        assert loss == -np.inf
    else:
        # The windows hold everything here, so only rounding is subtracted.
        assert log(difference) - 2e-9 < loss < log(difference)


def test_gain_closes_a_third_of_the_interval_at_a_thousand_users():
    at = (0.159, Setting(1000, 3, 1.15))
    weak, lower = weak_log_delta(*at), krr.lower_log_delta(*at)
    assert krr.upper_log_delta(*at) - lower < 0.8 * (weak - lower)
