"""Trade-off functions against exact tests, and Gaussian DP against ball arithmetic."""

from fractions import Fraction
from math import log

import numpy as np
import pytest
from effort import examples, long
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import exact
from oracle.high_precision import gaussian_log_delta
from scipy.special import ndtr, ndtri

from shuffledp import epsilon, mechanism
from shuffledp.accounting.composition import compose, compose_rounds
from shuffledp.accounting.krr import upper_log_delta
from shuffledp.accounting.rounds.tradeoff import (
    gdp_curve,
    gdp_to_log_delta,
    gdp_upper_log_delta,
    tradeoff,
)
from shuffledp.accounting.setting import Setting
from shuffledp.numerics.arrays import UNIT


@given(st.floats(-5, 1.3), st.floats(0, 40))
@settings(max_examples=examples(150))
def test_gaussian_delta_keeps_its_digits(log10_mu, depth):
    mu = 10.0**log10_mu
    eps = depth * mu  # in standard deviations
    reference = float(gaussian_log_delta(eps, 1.0, mu))
    assert abs(gdp_to_log_delta(eps, mu) - reference) < 1e-12 * max(1.0, abs(reference))


def test_gaussian_delta_at_its_ends():
    assert gdp_to_log_delta(1.0, 0.0) == -np.inf
    assert gdp_to_log_delta(1.0, np.inf) == 0.0
    deep = gdp_to_log_delta([10.0, 100.0, 1000.0], 0.01)
    assert np.all(np.isfinite(deep))
    # To leading order -log delta is (eps/mu)^2 / 2; delta itself is below all floats.
    assert deep == pytest.approx(-np.array([5e5, 5e7, 5e9]), rel=1e-3)
    with pytest.raises(ValueError, match=r"mu=-1\.0"):
        gdp_to_log_delta(1.0, -1.0)
    with pytest.raises(ValueError, match=r"eps=-1\.0"):
        gdp_to_log_delta(-1.0, 1.0)


def test_tradeoff_of_a_gaussian_curve_is_the_gaussians():
    # Every supporting line of the trade-off curve is one (eps, delta) of the curve.
    mu, eps = 1.3, np.linspace(0.0, 9.0, 2001)
    alpha = np.linspace(0.0, 1.0, 101)
    implied = tradeoff(alpha, eps, gdp_to_log_delta(eps, mu))
    true = ndtr(-ndtri(alpha) - mu)
    assert np.all(implied <= true + 1e-15)
    assert implied[1:-1] == pytest.approx(true[1:-1], abs=1e-5)  # eps in steps of 0.0045


def neyman_pearson(P, Q):
    """Return the corners (alpha, beta) of the true trade-off curve between two exact laws."""
    ratio = {x: (Q.get(x, Fraction(0)) / p if p else None) for x, p in P.items()}
    rejected = sorted((x for x in ratio if ratio[x] is not None), key=ratio.get, reverse=True)
    corners, alpha, beta = [(Fraction(0), Fraction(1))], Fraction(0), Fraction(1)
    for x in rejected:
        alpha, beta = alpha + P[x], beta - Q.get(x, Fraction(0))
        corners.append((alpha, beta))
    return corners


@pytest.mark.parametrize(
    ("n", "k", "E"), [long(4, 3, Fraction(4)), (6, 2, Fraction(3)), (5, 4, Fraction(8))]
)
def test_certified_curve_lies_below_every_test_of_a_data_set(n, k, E):
    eps = np.linspace(0.0, log(E), 200)
    log_delta = upper_log_delta(eps, Setting(n, k, log(E)))
    for others in ([0] * (n - 1), [1] * (n - 1), [k - 1] * (n - 1)):
        P = exact.histogram_law([0, *others], k, E)
        Q = exact.histogram_law([1, *others], k, E)
        for alpha, beta in neyman_pearson(P, Q):
            assert tradeoff(float(alpha), eps, log_delta) <= float(beta) + 1e-12


def test_curve_of_the_weak_view_is_its_neyman_pearson_curve():
    # Two users, k = 2: with all breakpoints of eps among the points nothing is lost.
    E, views = Fraction(3), []
    for record in (0, 1):
        views.append(exact.view_law([record, 0], 2, [E, E], [1]))
    corners = neyman_pearson(*views)
    losses = {views[0][x] / views[1][x] for x in views[0]}
    eps = np.array([*sorted(log(r) for r in losses if r >= 1), 0.0])
    log_delta = upper_log_delta(eps, Setting(2, 2, log(E)))
    alpha = np.array([float(a) for a, _ in corners])
    beta = np.array([float(b) for _, b in corners])
    assert tradeoff(alpha, eps, log_delta) == pytest.approx(beta, abs=1e-8)


@given(
    st.lists(st.tuples(st.floats(0, 5), st.floats(-40, 0)), min_size=1, max_size=6),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_tradeoff_is_a_tradeoff_function(points, alpha, other):
    eps, log_delta = np.array(points).T
    f = tradeoff([alpha, other, 0.5 * (alpha + other)], eps, log_delta)
    assert np.all((f >= 0.0) & (f <= 1.0 - np.array([alpha, other, 0.5 * (alpha + other)]) + 1e-15))
    assert f[2] <= 0.5 * (f[0] + f[1]) + 1e-12  # convex
    assert (f[0] - f[1]) * (alpha - other) <= 1e-12  # decreasing
    # It is its own inverse: f(f(alpha)) <= alpha, up to rounding magnified by the slope
    assert tradeoff(f[0], eps, log_delta) <= alpha + 1e-12 * np.exp(eps.max())
    # Each point that it was made from still holds.
    assert np.all(f[0] >= 1.0 - np.exp(log_delta) - np.exp(eps) * alpha - 1e-12 * np.exp(eps))


def settings_of_normal_noise(number):
    """Yield eps and mu: deltas from nearly 1 to 1e-100000, mu from 1e-300, eps up to 5e11."""
    random = np.random.default_rng(5)
    yield from ((5e-324, 1e-3), (0.0, 1.0), (0.0, 1e-200), (5e11, 1e6), (5e11 + 3e6, 1e6))
    yield from ((1.0, 0.0269), (2.0, 2.7), (8.0, 40.0), (1e-3, 1e-3 / 37.0))
    for _ in range(number):
        mu = 10.0 ** random.choice([random.uniform(-300.0, 0.0), random.uniform(-2.0, 5.5)])
        out = random.choice([random.uniform(-6.0, 6.0), 10.0 ** random.uniform(0.0, 2.6)])
        yield max(mu * (out + 0.5 * mu), 0.0), mu


@pytest.mark.parametrize("number", [60, long(3_000)])
def test_the_upper_end_of_normal_noise_is_never_below_the_truth(number):
    for eps, mu in settings_of_normal_noise(number):
        truth, upper = gaussian_log_delta(eps, 1.0, mu), gdp_upper_log_delta(eps, mu)
        furthest = eps / mu + mu / 2.0 + 2.0
        assert arb(upper) >= truth or upper == 0.0, (eps, mu)
        loose = 1e-15 * (furthest**2 + float(abs(truth).upper()))
        assert upper <= float(truth.upper()) + 2.5e-12 + 3.0 * loose, (eps, mu)
    assert gdp_upper_log_delta(1.0, 0.0) == -np.inf
    assert gdp_upper_log_delta(1e200, 1e-200) < -1e299  # the log overflows


@given(st.lists(st.tuples(st.floats(1e-3, 1e3), st.integers(1, 10**6)), min_size=1, max_size=4))
def test_the_mu_of_composed_gaussians_is_as_accurate_as_their_curve_requires(rounds):
    sensitivity = float(np.sqrt(2.0))
    curves = [(compose(gdp_curve(sensitivity / sigma), count), 1) for sigma, count in rounds]
    mu = compose_rounds(curves).composable.mu
    exact_square = sum(count * 2 / Fraction(sigma) ** 2 for sigma, count in rounds)
    assert abs(Fraction(mu) ** 2 / exact_square - 1) <= 2 * 8 * UNIT


@pytest.mark.parametrize("sigma", [1e-200, 1e-300])
def test_noise_that_is_hardly_any_has_no_eps_and_no_warning(sigma):
    """Warnings are errors in tests: the square of a huge number must not overflow aloud."""
    setting = Setting(100, 100, mechanism=mechanism("gaussian", sigma=sigma), rounds=2)
    assert epsilon(1e-6, setting).upper == np.inf
