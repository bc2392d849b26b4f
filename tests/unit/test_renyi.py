"""Rényi bounds against exact sums, ball arithmetic and each other."""

from collections.abc import Iterator
from itertools import product
from math import comb, exp, log

import flint
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import binom

from shuffledp.accounting.laws.binomial import Floats
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.papers.literature import renyi


@pytest.fixture(autouse=True)
def _digits() -> Iterator[None]:
    with flint.ctx.workdps(80):
        yield


def exact_pair(order: float, eps0: float, n: int) -> tuple[float, float]:
    """Return both directions of the special pair's Rényi divergence, summed in ball arithmetic.

    The counts are Bin(n, p) and Bin(n-1, p) + Bern(1-p); no likelihood ratio is used.
    """
    E = flint.arb(eps0).exp()
    p = 1 / (E + 1)
    others = [comb(n - 1, x) * p**x * (1 - p) ** (n - 1 - x) for x in range(n)]
    equal = [comb(n, x) * p**x * (1 - p) ** (n - x) for x in range(n + 1)]
    zero = flint.arb(0)
    flipped = [
        p * (others[x] if x < n else zero) + (1 - p) * (others[x - 1] if x else zero)
        for x in range(n + 1)
    ]
    order = flint.arb(order)
    forward = sum((a**order * b ** (1 - order) for a, b in zip(flipped, equal, strict=True)), zero)
    backward = sum((b**order * a ** (1 - order) for a, b in zip(flipped, equal, strict=True)), zero)
    return tuple(float(side.log() / (order - 1)) for side in (forward, backward))


def first_upper(order: int, eps0: float, n: int, shortfall: float = 0.5) -> float:
    """Evaluate Theorem 3.1 in ball arithmetic, without the cap at eps0."""
    E, share = flint.arb(eps0).exp(), flint.arb(shortfall)
    m = flint.arb(((1 - share) * (n - 1) / E).floor()) + 1
    total = 1 + comb(order, 2) * (E - 1) ** 2 / (m * E)
    for i in range(3, order + 1):
        half = flint.arb(i) / 2
        proxy = (E**2 - 1) ** 2 / (2 * E**2 * m)
        total += comb(order, i) * i * half.gamma() * proxy**half
    total += (flint.arb(eps0) * order - share**2 * (n - 1) / (2 * E)).exp()
    return float(total.log() / (order - 1))


def lower_expansion(order: int, eps0: float, n: int) -> float:
    """Evaluate Theorem 3.4, the expansion in central moments, in ball arithmetic."""
    E = flint.arb(eps0).exp()
    p = 1 / (E + 1)
    law = [comb(n, x) * p**x * (1 - p) ** (n - x) for x in range(n + 1)]
    total = 1 + comb(order, 2) * (E - 1) ** 2 / (n * E)
    for i in range(3, order + 1):
        moment = sum((w * (x - n * p) ** i for x, w in enumerate(law)), flint.arb(0))
        total += comb(order, i) * ((E**2 - 1) / (n * E)) ** i * moment
    return float(total.log() / (order - 1))


# --- the special pair and the lower bound -------------------------------------------------------


@pytest.mark.parametrize("n", [2, 7, 60])
@pytest.mark.parametrize("eps0", [0.01, 0.5, 2.0, 6.0, 20.0])
def test_special_pair_equals_the_sum(n: int, eps0: float) -> None:
    for order in (1.1, 2.0, 3.0, 5.5, 20.0, 300.0, 5000.0):
        exact = exact_pair(order, eps0, n)
        assert renyi.special_pair_renyi(order, Setting(n, 2, eps0)) == pytest.approx(
            max(exact), rel=1e-10
        )


@pytest.mark.parametrize(("n", "eps0"), [(5, 0.3), (40, 1.0), (40, 4.0), (300, 0.05)])
def test_lower_bound_equals_its_expansion(n: int, eps0: float) -> None:
    for order in (2, 3, 4, 11, 40):
        assert renyi.shuffled_rdp_lower(order, Setting(n, 2, eps0)) == pytest.approx(
            lower_expansion(order, eps0, n), rel=1e-10
        )


@pytest.mark.parametrize("eps0", [0.01, 1.0, 6.0, 10.0, 14.0])
def test_windows_lose_nothing(eps0: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare windows on a coarse lattice with the sum over every count."""
    n = 150_000
    orders = np.array([1.1, 2.0, 20.0, 300.0, 5000.0, 1e5])
    windowed = renyi.special_pair_renyi(orders, Setting(n, 2, eps0))
    monkeypatch.setattr(renyi, "_MAX_EXACT_N", n)
    assert windowed == pytest.approx(
        renyi.special_pair_renyi(orders, Setting(n, 2, eps0)), rel=1e-10
    )


# --- upper bounds -------------------------------------------------------------------------------


@pytest.mark.parametrize("shortfall", [0.03, 0.3, 0.5, 0.9])
def test_any_share_of_chernoffs_bound_gives_an_upper_bound(shortfall: float) -> None:
    """Remark 3 of paper B: bound and tail exceed the exact divergence and the binomial."""
    for n, eps0 in ((10, 0.1), (300, 0.5), (10**4, 1.5), (10**6, 3.0)):
        setting = Setting(n, 2, eps0)
        bound = renyi.shuffled_rdp_upper([2, 8, 61], setting, shortfall)
        if shortfall == 0.5:  # that of Theorem 3.1
            np.testing.assert_array_equal(renyi.shuffled_rdp_upper([2, 8, 61], setting), bound)
        for order, value in zip((2, 8, 61), bound, strict=True):
            expected = min(first_upper(order, eps0, n, shortfall), eps0)
            assert value == pytest.approx(expected, rel=1e-11)
        assert np.all(renyi.special_pair_renyi([2, 8, 61], setting) <= bound)
        mean = (n - 1) * exp(-eps0)
        few = binom.cdf((1 - shortfall) * mean, n - 1, exp(-eps0))
        assert few <= exp(-(shortfall**2) * mean / 2)
    with pytest.raises(InputError, match="shortfall must lie strictly between 0 and 1"):
        renyi.shuffled_rdp_upper(2, Setting(100, 2, 1.0), 1.0)


@given(
    order=st.integers(2, 3000),
    eps0=st.floats(1e-3, 12.0),
    log_n=st.floats(1.0, 20.7),
)
def test_lower_below_exact_below_upper(order: int, eps0: float, log_n: float) -> None:
    n = int(exp(log_n))
    lower, exact, first, second = (
        float(bound(order, Setting(n, 2, eps0)))
        for bound in (
            renyi.shuffled_rdp_lower,
            renyi.special_pair_renyi,
            renyi.shuffled_rdp_upper,
            renyi.shuffled_rdp_upper_simple,
        )
    )
    assert 0 < lower <= exact * (1 + 1e-9)
    assert exact <= first * (1 + 1e-9)
    assert exact <= second * (1 + 1e-9)
    assert max(first, second) <= eps0


# --- conversion ---------------------------------------------------------------------------------


def test_conversion_by_hand() -> None:
    # One order: l = 2, RDP 0.3, delta = 1e-3: 0.3 + log(1000) + log(1/2) - log 2
    assert renyi.rdp_to_dp([2], [0.3], log(1e-3)) == pytest.approx(0.3 + log(250.0), rel=1e-14)
    assert renyi.rdp_to_log_delta([2], [0.3], 0.3 + log(250.0)) == pytest.approx(-log(1000.0))


def test_conversion_is_an_upper_bound_for_the_gaussian() -> None:
    """The Gaussian mechanism with sigma = 1 has RDP l/2 and a known delta."""
    orders = renyi.default_orders()
    for eps in (0.5, 1.0, 4.0, 8.0):
        exact = log(ndtr(0.5 - eps) - exp(eps) * ndtr(-0.5 - eps))
        bound = renyi.rdp_to_log_delta(orders, orders / 2, eps)
        assert exact <= bound <= exact + 4
        assert renyi.rdp_to_dp(orders, orders / 2, bound) == pytest.approx(eps, rel=1e-12)


@given(log_delta=st.floats(-2000.0, -0.01), scale=st.floats(1e-8, 10.0))
def test_conversions_are_inverse_and_monotone(log_delta: float, scale: float) -> None:
    orders = renyi.default_orders()
    rdp = scale * orders
    eps = float(renyi.rdp_to_dp(orders, rdp, log_delta))
    assert eps >= 0
    back = float(renyi.rdp_to_log_delta(orders, rdp, eps))
    assert back <= log_delta + 1e-9 * abs(log_delta)
    if eps > 0:
        assert back == pytest.approx(log_delta, rel=1e-9, abs=1e-9)
    assert renyi.rdp_to_dp(orders, rdp, log_delta - 1) >= eps
    assert renyi.rdp_to_log_delta(orders, rdp, eps + 0.1) <= back


# --- composition and subsampling ----------------------------------------------------------------


def quadratic(orders: Floats) -> Floats:
    return 0.01 * orders


def test_subsampling_by_hand() -> None:
    # l = 2, r = 1/4: (3/4)(5/4) + e^{.02}/16;  l = 3, r = 1/2: (1/4)(2) + 3/8 e^{.02} + 3/8 e^{.06}
    assert renyi.subsampled_rdp(2, 0.25, quadratic) == pytest.approx(
        log(15 / 16 + exp(0.02) / 16), rel=1e-13
    )
    # 1/2 log(1.2713...) exceeds the unsampled 0.03, which subsampling cannot do: capped.
    assert renyi.subsampled_rdp(3, 0.5, quadratic) == 0.03
    assert renyi.subsampled_rdp(3, 0.01, quadratic) == pytest.approx(
        log(0.99**2 * 1.02 + 3 * 1e-4 * 0.99 * exp(0.02) + 3e-6 * exp(0.06)) / 2, rel=1e-9
    )


def test_subsampling_is_above_a_mechanism_it_covers() -> None:
    """Randomised response on whether a record is present, for added or removed records."""
    a, b = np.array([0.75, 0.25]), np.array([0.25, 0.75])

    def divergence(order: float, p: Floats, q: Floats) -> float:
        return float(np.log(np.sum(p**order * q ** (1 - order))) / (order - 1))

    def unsampled(j: Floats) -> Floats:
        return np.array([max(divergence(o, a, b), divergence(o, b, a)) for o in j])

    for rate, order in product((0.01, 0.1, 0.5, 0.9), (2.0, 3.0, 8.0)):
        mixed = (1 - rate) * b + rate * a
        bound = renyi.subsampled_rdp(order, rate, unsampled)
        assert bound >= max(divergence(order, mixed, b), divergence(order, b, mixed)) - 1e-12


def test_second_upper_bound_by_hand() -> None:
    # E = 2, n = 8003: m = 2001, tail exp(3 log 2 - 500) negligible: (9/2001) / 2
    assert renyi.shuffled_rdp_upper_simple(3, Setting(8003, 2, log(2.0))) == pytest.approx(
        9 / 4002, rel=1e-13
    )
