"""Closed-form bounds against exact values, hand-computed values and their own domains."""

from collections.abc import Callable, Iterator
from itertools import product
from math import exp, inf, log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracle import high_precision

from shuffledp.accounting.laws.binomial import Floats
from shuffledp.accounting.setting import Setting
from shuffledp.papers.literature import closed_forms as cf

INEQUALITIES: tuple[cf.Inequality, ...] = ("hoeffding", "bennett")


def blanket(
    inequality: cf.Inequality, eps: float, eps0: float, n: int, k: int | None = None
) -> float:
    """Return the blanket bound of k-RR, or of any randomiser if k is None."""
    setting = Setting(n, k or 2, eps0)
    return float(cf.blanket_log_delta(eps, setting, inequality, any_randomiser=k is None))


def test_erlingsson_by_hand() -> None:
    # 12 * 0.4 * sqrt(log(1e6) / 10^6) = 4.8 * 0.003716922... ; log(1e6) = 13.815510557964274
    assert cf.erlingsson_epsilon(log(1e-6), Setting(10**6, 2, 0.4)) == pytest.approx(
        4.8 * sqrt(13.815510557964274e-6), rel=1e-14
    )


def test_clones_by_hand() -> None:
    # E = 3: (E-1)/(E+1) = 1/2; n = 4800 makes 8 sqrt(3 L / n) = 8 sqrt(L) / 40 and 8E/n = 1/200
    L = log(4e4)
    assert cf.clones_closed_form_epsilon(log(1e-4), Setting(4800, 2, log(3.0))) == pytest.approx(
        log(1.0 + 0.5 * (0.2 * sqrt(L) + 0.005)), rel=1e-13
    )


def test_balle_krr_by_hand() -> None:
    # E = 2, k = 3: c = (n-1)/4 = 5000; eps = sqrt(14 log(2e6) / 5000)
    assert cf.balle_krr_epsilon(log(1e-6), Setting(20001, 3, log(2.0))) == pytest.approx(
        sqrt(14 * log(2e6) / 5000), rel=1e-13
    )
    # delta = 1 leaves log 2: sqrt(14 log 2 / 5000) = 0.0440 > 27/5000, and c = 40 gives 27/40
    assert cf.balle_krr_epsilon(0.0, Setting(161, 3, log(2.0))) == pytest.approx(27 / 40, rel=1e-13)


@pytest.mark.parametrize(
    ("domain", "bound", "log_delta", "setting", "word"),
    [
        (cf.erlingsson_domain, cf.erlingsson_epsilon, log(1e-6), Setting(10**6, 2, 0.5), "1/2"),
        (
            cf.clones_closed_form_domain,
            cf.clones_closed_form_epsilon,
            -20.0,
            Setting(10**4, 2, 6.0),
            "users",
        ),
        (cf.balle_krr_domain, cf.balle_krr_epsilon, -20.0, Setting(1000, 10, 1.0), "eps <= 1"),
        (cf.balle_krr_domain, cf.balle_krr_epsilon, -20.0, Setting(10**6, 2, 1.0, 3), "one round"),
    ],
)
def test_a_bound_outside_its_domain_is_infinite_and_says_why(
    domain: Callable[..., str | None],
    bound: Callable[..., Floats],
    log_delta: float,
    setting: Setting,
    word: str,
) -> None:
    reason = domain(setting, log_delta)
    assert reason is not None and word in reason
    assert bound(log_delta, setting) == inf


def grid() -> Iterator[tuple[int, int, float, float]]:
    yield from product((2, 5, 12), (2, 3, 10, 100), (0.1, 1.0, 3.0, 6.0), (0.02, 0.3, 0.7, 0.99))


@pytest.mark.parametrize("inequality", INEQUALITIES)
def test_blanket_bounds_are_above_the_exact_value(
    inequality: cf.Inequality,
) -> None:
    informative = 0
    for n, k, eps0, share in grid():
        eps = share * eps0
        exact = float(high_precision.upper_log_delta(n, k, eps0, eps))
        own = blanket(inequality, eps, eps0, n, k)
        general = blanket(inequality, eps, eps0, n)
        assert exact <= own + 1e-12
        assert exact <= general + 1e-12
        assert exact <= blanket(inequality, eps, eps0, n, 2) + 1e-12
        informative += own < 0
    assert informative > 60  # most of the grid must not hide behind the cap at delta = 1


@given(
    eps0=st.floats(0.01, 6.0),
    log_n=st.floats(7.0, 20.0),
    k=st.integers(2, 400),
    log_delta=st.floats(-900.0, -1.0),
)
def test_inverse_closed_forms_agree(eps0: float, log_n: float, k: int, log_delta: float) -> None:
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
