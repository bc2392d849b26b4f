"""The sharper ``upper`` at k = 3, against the law of the view with one hidden user."""

from itertools import product
from math import exp, expm1, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def direct_delta(hidden, n, eps, eps0):
    """Sum the view with one hidden user over all counts."""
    E, e = exp(eps0), exp(eps)
    q = 1 / (E + 2)
    p, gamma = E * q, 3 * q
    u = [p if cell == hidden else q for cell in range(3)]
    # law[M] is that of the histogram of M blanket reports, built one report at a time.
    law = {(0, 0, 0): 1.0}
    told = {0: law}
    for size in range(1, n - 1):
        law = {
            counts: sum(
                told[size - 1].get(tuple(c - (j == i) for j, c in enumerate(counts)), 0.0) / 3
                for i in range(3)
            )
            for counts in product(range(size + 1), repeat=3)
            if sum(counts) == size
        }
        told[size] = law
    delta = 0.0
    for size, law in told.items():
        weight = np.exp(exact_log_binomial(size, n - 2, gamma))
        P, Q = {}, {}
        for (h, x), r, s in product(law.items(), range(3), range(3)):
            key = tuple(c + (j == r) + (j == s) for j, c in enumerate(h))
            P[key] = P.get(key, 0.0) + x * u[s] * (p if r == 0 else q)
            Q[key] = Q.get(key, 0.0) + x * u[s] * (p if r == 1 else q)
        delta += weight * sum(max(P[key] - e * Q[key], 0.0) for key in P)
    return delta


def exact_log_binomial(x, n, p):
    from math import comb

    return log(comb(n, x)) + x * log(p) + (n - x) * log(1 - p)


@given(
    n=st.integers(2, 14),
    eps0=st.floats(0.1, 4),
    share=st.floats(0.0, 0.97),
    hidden=st.integers(0, 1),
)
@settings(max_examples=25, deadline=None)
def test_bound_is_never_below_the_hidden_view_nor_far_above(n, eps0, share, hidden):
    eps = share * eps0
    truth = direct_delta(hidden, n, eps, eps0)
    setting = Setting(n, 3, eps0)
    weak = weak_log_delta(eps, setting)
    loss = log_reduction(eps, setting, forward=hidden == 0)
    claimed = exp(weak) * -expm1(loss - weak)
    # The direct sum in floats may be off by 1e-13.
    assert claimed >= truth * (1 - 1e-12) - 1e-15
    if abs(exp(eps) / (-1 if hidden == 0 else 1)) < 7:
        assert claimed <= truth * (1 + 1e-6) + exp(weak) * 3e-9


@pytest.mark.parametrize("eps0", [0.3, 1.15, 2.0])
def test_upper_stays_above_lower_and_below_the_weak_adversary(eps0):
    for n, eps in product((10, 200, 2000), (0.0, 0.05 * eps0, 0.5 * eps0, 0.999999 * eps0)):
        setting = Setting(n, 3, eps0)
        upper = float(krr.upper_log_delta(eps, setting))
        assert krr.lower_log_delta(eps, setting) <= upper
        assert upper <= weak_log_delta(eps, setting)


def test_gain_closes_a_third_of_the_interval_at_a_thousand_users():
    at = (0.159, Setting(1000, 3, 1.15))
    weak, lower = weak_log_delta(*at), krr.lower_log_delta(*at)
    assert krr.upper_log_delta(*at) - lower < 0.8 * (weak - lower)
