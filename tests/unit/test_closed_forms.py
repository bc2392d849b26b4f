"""Closed-form bounds against exact values, hand-computed values and their own domains."""

from itertools import product
from math import exp, inf, log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import high_precision

from shuffledp.accounting.setting import Setting
from shuffledp.papers.literature import closed_forms as cf


@pytest.mark.parametrize(
    ("bound", "log_delta", "setting", "by_hand"),
    [
        # 12 * 0.4 * sqrt(log(1e6) / 10^6)
        (cf.erlingsson_epsilon, log(1e-6), Setting(10**6, 2, 0.4), 4.8 * sqrt(log(1e6) * 1e-6)),
        # E = 3: (E-1)/(E+1) = 1/2; n = 4800 makes 8 sqrt(3 L / n) = 8 sqrt(L) / 40 and 8E/n = 1/200
        (
            cf.clones_closed_form_epsilon,
            log(1e-4),
            Setting(4800, 2, log(3.0)),
            log(1.0 + 0.5 * (0.2 * sqrt(log(4e4)) + 0.005)),
        ),
        # E = 2, k = 3: c = (n-1)/4 = 5000; eps = sqrt(14 log(2e6) / 5000)
        (cf.balle_krr_epsilon, log(1e-6), Setting(20001, 3, log(2.0)), sqrt(14 * log(2e6) / 5000)),
        # delta = 1 leaves log 2: sqrt(14 log 2 / 5000) = 0.0440 > 27/5000, and c = 40 gives 27/40
        (cf.balle_krr_epsilon, 0.0, Setting(161, 3, log(2.0)), 27 / 40),
    ],
)
def test_closed_forms_by_hand(bound, log_delta, setting, by_hand):
    assert bound(log_delta, setting) == pytest.approx(by_hand, rel=1e-13)


@pytest.mark.parametrize(
    ("name", "log_delta", "setting", "word"),
    [
        ("erlingsson", log(1e-6), Setting(10**6, 2, 0.5), "1/2"),
        ("clones_closed_form", -20.0, Setting(10**4, 2, 6.0), "users"),
        ("balle_krr", -20.0, Setting(1000, 10, 1.0), "eps <= 1"),
        ("balle_krr", -20.0, Setting(10**6, 2, 1.0, 3), "one round"),
    ],
)
def test_a_bound_outside_its_domain_is_infinite_and_says_why(name, log_delta, setting, word):
    assert word in getattr(cf, f"{name}_domain")(setting, log_delta)
    assert getattr(cf, f"{name}_epsilon")(log_delta, setting) == inf


@pytest.mark.parametrize("inequality", ["hoeffding", "bennett"])
def test_blanket_bounds_are_above_the_exact_value(inequality):
    informative = 0
    grid = product((2, 5, 12), (2, 3, 10, 100), (0.1, 1.0, 3.0, 6.0), (0.02, 0.3, 0.7, 0.99))
    for n, k, eps0, share in grid:
        eps = share * eps0
        exact = float(high_precision.upper_log_delta(n, k, eps0, eps))
        own, general, two = (
            float(
                cf.blanket_log_delta(eps, Setting(n, cells, eps0), inequality, any_randomiser=any_)
            )
            for cells, any_ in ((k, False), (2, True), (2, False))
        )
        assert exact <= min(own, general, two) + 1e-12
        informative += own < 0
    assert informative > 60  # most of the grid must not hide behind the cap at delta = 1


@given(
    eps0=st.floats(0.01, 6.0),
    log_n=st.floats(7.0, 20.0),
    k=st.integers(2, 400),
    log_delta=st.floats(-900.0, -1.0),
)
def test_inverse_closed_forms_agree(eps0, log_n, k, log_delta):
    setting = Setting(int(exp(log_n)), k, eps0)
    pairs = (
        (cf.erlingsson_epsilon, cf.erlingsson_log_delta),
        (cf.clones_closed_form_epsilon, cf.clones_closed_form_log_delta),
        (cf.balle_krr_epsilon, cf.balle_krr_log_delta),
    )
    for epsilon, bound in pairs:
        eps = float(epsilon(log_delta, setting))
        if eps < eps0:
            assert bound(eps * (1 + 1e-12), setting) <= log_delta * (1 - 1e-9)
            assert bound(eps * 0.99, setting) > log_delta
