"""Dummies and geometric noise, against exact rationals, direct sums and simulation."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement
from math import exp, log

import mpmath
import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import exact
from scipy import stats

from shuffledp.accounting.additive import GaussianNoise, GeometricNoise
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.discrete_laplace import (
    DiscreteLaplace,
    DiscreteLaplaceParameters,
)
from shuffledp.mechanisms.mixdump import Mixdump
from shuffledp.mechanisms.shuffler_dummies import (
    ShufflerDummies,
    ShufflerDummiesParameters,
)
from shuffledp.mechanisms.two_servers import (
    GaussianServersParameters,
    TwoServers,
)
from shuffledp.mechanisms.user_dummies import UserDummies, UserDummiesParameters

TARGET = log(1e-6)


def precisely(eps):
    """Return exp(eps) to 60 digits."""
    with mpmath.workdps(60):
        return Fraction(mpmath.nstr(mpmath.exp(mpmath.mpf(eps)), 60))


def log_of(value):
    """Return the log of a fraction to 60 digits."""
    with mpmath.workdps(60):
        return mpmath.log(mpmath.mpf(value.numerator) / value.denominator)


def user_ends(n, k, parameters, eps):
    return UserDummies().curve(parameters, Setting(n, k)).log_delta(eps)


def both_directions(law, n, k, e):
    """Yield the deltas of every data set of n users, in both directions."""
    for others in combinations_with_replacement(range(k), n - 1):
        first, second = law([0, *others]), law([1, *others])
        yield exact.hockey_stick(first, second, e)
        yield exact.hockey_stick(second, first, e)


def assert_drawn_from(drawn, values, law):
    """Compare the counts of likely values, and of all others together, with their law."""
    likely = law > 5e-3
    counted = np.array([(drawn == value).sum() for value in values[likely]])
    counted = np.append(counted, drawn.size - counted.sum())
    expected = np.append(law[likely], 1.0 - law[likely].sum()) * drawn.size
    if expected[-1] < 5.0:
        counted, expected = counted[:-1], expected[:-1] / expected[:-1].sum() * counted[:-1].sum()
    assert stats.chisquare(counted, expected).pvalue > 1e-5


# --- rounds -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("eps", "delta", "rounds"), [(1.0, 1e-6, 2), (1.0, 1e-3, 7), (3.0, 1e-9, 40)]
)
def test_rounds_of_discrete_laplace_keep_the_budget_and_waste_nothing(eps, delta, rounds):
    mechanism, setting = DiscreteLaplace(), Setting(100, 5, rounds=rounds)
    kept = mechanism.calibrate(eps, log(delta), setting)
    assert kept.eps > eps / rounds
    more = DiscreteLaplaceParameters(kept.eps * (1 + 1e-6))
    reached = [mechanism.curve(each, setting).log_delta(eps).upper for each in (kept, more)]
    assert reached[0] <= log(delta) < reached[1]


@pytest.mark.parametrize("mechanism", [UserDummies(), Mixdump()])
def test_calibrated_dummies_keep_the_target_over_all_rounds(mechanism):
    target, setting = np.log(0.05), Setting(20, 4, rounds=2)
    calibrated = mechanism.calibrate(1.0, target, setting)
    assert mechanism.curve(calibrated, setting).log_delta(1.0).upper <= target
    once = mechanism.calibrate(1.0, target, setting.single_round)
    assert mechanism.curve(once, setting).log_delta(1.0).upper > target


# --- dummies by users-----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "k", "dummies", "chances"),
    [(1, 2, 0.5, 1), (2, 2, 1.0, 1), (2, 3, 0.3, 1), (3, 2, 1.25, 2), (2, 3, 1.5, 2), (3, 3, 1, 1)],
)
@pytest.mark.parametrize("eps", [0.0, 0.4, 1.7])
def test_dummies_by_users_are_exact_for_every_data_set(n, k, dummies, chances, eps):
    parameters, e = UserDummiesParameters(dummies, chances), precisely(eps)
    rate = Fraction(dummies) / chances

    def law(records):
        return exact.dummies_law(records, k, rate, chances)

    deltas = set(both_directions(law, n, k, e))
    assert len(deltas) == 1  # whatever the others hold
    (delta,) = deltas
    assert delta == exact.dummies_delta(n * chances, rate / k, e)
    ends = user_ends(n, k, parameters, eps)
    assert ends.lower <= log_of(delta) <= ends.upper
    assert ends.upper - ends.lower < 1e-11


@given(
    n=st.integers(1, 5),
    chances=st.integers(1, 3),
    k=st.integers(2, 500),
    part=st.floats(1e-6, 1.0) | st.floats(0.0, 1e-9).map(lambda x: 1.0 - x),
    eps=st.floats(0.0, 12.0),
)
@settings(max_examples=examples(100), deadline=None)
def test_the_ends_enclose_the_exact_delta(n, chances, k, part, eps):
    parameters = UserDummiesParameters(part * chances, chances)
    q = Fraction(parameters.dummies) / chances / k
    delta = log_of(exact.dummies_delta(n * chances, q, precisely(eps)))
    ends = user_ends(n, k, parameters, eps)
    assert ends.lower <= delta <= ends.upper
    assert ends.upper - ends.lower < 1e-10


@pytest.mark.parametrize(("n", "k"), [(1, 408), (50, 2), (300, 40), (100_000, 408)])
def test_users_send_no_more_dummies_than_needed(n, k):
    mechanism = UserDummies()
    calibrated = mechanism.calibrate(0.5, TARGET, Setting(n, k))
    assert mechanism.curve(calibrated, Setting(n, k)).log_delta(0.5).upper <= TARGET
    fewer = UserDummiesParameters(calibrated.dummies * (1 - 1e-8), calibrated.chances)
    assert mechanism.curve(fewer, Setting(n, k)).log_delta(0.5).upper > TARGET
    if calibrated.chances > 1:
        sure = UserDummiesParameters(calibrated.chances - 1, calibrated.chances - 1)
        assert mechanism.curve(sure, Setting(n, k)).log_delta(0.5).upper > TARGET


# --- geometric noise -----------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "k"), [(1, 2), (3, 2), (2, 3)])
@pytest.mark.parametrize("nu", [0, 1, 3, np.inf])
@pytest.mark.parametrize("e", [Fraction(1), Fraction(3), Fraction(9), Fraction(12)])
def test_geometric_noise_is_exact_for_every_data_set(n, k, nu, e):
    theta, far = Fraction(1, 3), 14 if k == 2 else 7
    noise = exact.geometric_law(theta, -far if nu == np.inf else -nu, far)
    if nu == np.inf:
        noise = {z: (1 - theta) / (1 + theta) * theta ** abs(z) for z in noise}

    def law(records):
        return exact.noisy_law(records, k, noise)

    missing = 1.0 - float(sum(noise.values()) ** k)
    ends = GeometricNoise(-2.0 * log(theta), nu=nu).curve().log_delta(log(e))
    for delta in both_directions(law, n, k, e):
        # The tail that the enumeration leaves out changes delta by at most its mass.
        assert exp(ends.upper) == pytest.approx(float(delta), abs=(1 + float(e)) * missing + 1e-12)
    assert missing < (1e-5 if k == 2 else 3e-3)


@given(
    eps=st.floats(0.0, 20.0),
    budget=st.floats(1e-9, 20.0),
    nu=st.integers(0, 10**6) | st.just(np.inf),
)
@settings(max_examples=examples(200))
def test_the_ends_enclose_the_closed_form(eps, budget, nu):
    ends = GeometricNoise(budget, nu=nu).curve().log_delta(eps)
    with mpmath.workdps(60):
        theta = mpmath.exp(-mpmath.mpf(budget) / 2)
        centre = theta ** mpmath.mpf(nu)
        whole = 1 + theta - theta * centre
        gap = max(1 - mpmath.exp(mpmath.mpf(eps) - mpmath.mpf(budget)), 0)
        delta = centre * (1 - theta) / whole + (1 - centre) * gap / whole**2
        value = mpmath.log(delta) if delta else -mpmath.inf
        assert ends.lower <= value <= ends.upper
    assert ends.lower == -np.inf or ends.upper - ends.lower < 1e-11 * max(1.0, abs(ends.upper))


def test_pure_dp_is_pure():
    mechanism = DiscreteLaplace()
    parameters = mechanism.calibrate(0.7, -np.inf, Setting(100, 5))
    assert mechanism.curve(parameters, Setting(100, 5)).log_delta(0.7).upper == -np.inf
    assert mechanism.curve(parameters, Setting(100, 5)).log_delta(0.69).upper > -6.0
    assert mechanism.calibrate(1.0, -np.inf, Setting(100, 5, 1.0, rounds=4)).eps == 0.25


@pytest.mark.parametrize("log_delta", [log(0.5), TARGET, -300.0, -1e5])
@pytest.mark.parametrize("eps", [1e-4, 0.5, 3.0])
def test_the_shuffler_adds_no_more_dummies_than_needed(eps, log_delta):
    mechanism = ShufflerDummies()
    calibrated = mechanism.calibrate(eps, log_delta, Setting(100, 5))
    assert calibrated.eps == eps
    assert mechanism.curve(calibrated, Setting(100, 5)).log_delta(eps).upper <= log_delta
    if calibrated.nu > 0:
        fewer = ShufflerDummiesParameters(eps, calibrated.nu - 1)
        assert mechanism.curve(fewer, Setting(100, 5)).log_delta(eps).upper > log_delta


@pytest.mark.parametrize("nu", [0, 1, 5, np.inf])
@pytest.mark.parametrize("budget", [0.05, 1.0, 4.0])
def test_noise_has_its_law_and_its_moments(budget, nu):
    theta = np.exp(-budget / 2)
    low = -nu if nu < np.inf else -int(100 / budget)
    z = np.arange(low, int(100 / budget))
    law = theta ** np.abs(z)
    law /= law.sum()
    if nu < np.inf:
        z = z + nu
    mean = law @ z
    noise = GeometricNoise(budget, nu=nu)
    assert noise.mean == pytest.approx(mean, rel=1e-10, abs=1e-12)
    assert noise.variance == pytest.approx(law @ (z - mean) ** 2, rel=1e-10)
    assert noise.absolute_error == pytest.approx(law @ np.abs(z - mean), rel=1e-10)
    drawn = noise.draw(40_000, np.random.default_rng(4))
    assert_drawn_from(drawn, z, law)
    assert nu == np.inf or drawn.min() >= 0


# --- by two servers -----------------------------------------------------------------------------


def both_noises(theta, nu, reach):
    """Return the law of a cell's noise, exact up to the tail beyond `reach`."""
    first = [theta ** abs(j - nu) for j in range(reach)]
    total = (1 + theta - theta ** (nu + 1)) / (1 - theta) * (1 + theta) / (1 - theta)
    return {
        z: sum(x * theta ** abs(z - j) for j, x in enumerate(first)) / total
        for z in range(-reach, reach + 1)
    }


@pytest.mark.parametrize(
    ("theta", "nu", "eps"),
    [("1/2", 3, 0.3), ("1/2", 0, 0.3), ("3/10", 2, 0.0), ("1/2", 12, 1.0), ("3/10", 1, 2.0)],
)
def test_the_public_view_has_the_delta_of_both_noises(theta, nu, eps):
    theta, e = Fraction(theta), Fraction(np.exp(eps))
    h = both_noises(theta, nu, reach := 45)
    cells = range(1 - reach, reach + 1)
    exact_delta = float(
        sum(max(h[a - 1] * h[b] - e * h[a] * h[b - 1], 0) for a in cells for b in cells)
    )
    both = GeometricNoise(-2.0 * log(theta), nu=nu, servers=2)
    weights = np.exp(both.log_weight(np.arange(-3.0, 17.0)))
    law = np.array([float(h[z]) for z in range(-3, 17)])
    np.testing.assert_allclose(weights / weights.sum(), law / law.sum(), rtol=1e-12)
    beyond = 1.0 - float(sum(h.values()))  # the tail of one cell
    delta = exp(both.curve().upper(eps))
    assert exact_delta * (1 - 1e-12) <= delta <= exact_delta * (1 + 1e-9) + 2 * beyond


def test_each_view_composes_over_rounds():
    mechanism, parameters = TwoServers(), ShufflerDummiesParameters(0.5, 60)
    views = mechanism.views(parameters, Setting(1000, 5, rounds=4))
    ends = {view: curve.epsilon(TARGET).upper for view, curve in views.items()}
    assert ends["public"] < ends["shuffler"] <= 2.0 < ends["both"]


def gaussian_law(sigma, nu):
    """Return the values of a cell's noise, at least -nu, and their probabilities."""
    z = np.arange(-min(nu, 40 * sigma + 10), 40 * sigma + 10)
    law = np.exp(-0.5 * (z / sigma) ** 2)
    return z, law / law.sum()


@pytest.mark.parametrize("nu", [0, 1, 5, np.inf])
@pytest.mark.parametrize("sigma", [0.3, 1.0, 7.5])
def test_gaussian_noise_is_drawn_from_its_law(sigma, nu):
    z, law = gaussian_law(sigma, nu)
    noise = GaussianNoise(sigma, nu=nu)
    drawn = noise.draw(40_000, np.random.default_rng(4)) - noise.centre
    assert_drawn_from(drawn, z, law)
    assert drawn.min() >= -nu


@pytest.mark.parametrize(("sigma", "nu"), [(0.3, 0), (1.0, 2), (7.5, 3), (7.5, 60)])
def test_gaussian_servers_have_the_moments_of_their_laws(sigma, nu):
    z, law = gaussian_law(sigma, nu)
    y, noise = gaussian_law(sigma, np.inf)
    both = np.convolve(law, noise)
    places = np.arange(both.size) + z[0] + y[0]
    mean = float(both @ places)
    parameters, n, k = GaussianServersParameters(sigma, nu), 1000, 5
    assert parameters.noise().mean == pytest.approx(nu + mean, rel=1e-10)
    assert n**2 * TwoServers().variance(np.full(k, 0.2), n, parameters)[0] == pytest.approx(
        both @ (places - mean) ** 2, rel=1e-10
    )
    distance = 0.5 * k * (both @ np.abs(places - mean)) / n
    shares = np.full(k, 0.2)
    assert TwoServers().expected_distance(shares, n, parameters) == pytest.approx(distance)
    assert TwoServers().per_user(n, k, parameters).messages == pytest.approx(
        1.0 + k * (nu + mean) / n
    )


@pytest.mark.parametrize(
    ("rounds", "shape", "error"),
    [
        (6, "discrete Laplace", 24.0),
        (7, "discrete Gaussian", 27.1),
        (52, "discrete Gaussian", 74.0),
    ],
)
def test_the_number_of_rounds_determines_the_shape(rounds, shape, error):
    mechanism, setting, target = TwoServers(), Setting(20_000, 200, rounds=rounds), log(1e-8)
    parameters = mechanism.calibrate(1.0, target, setting)
    assert mechanism.shapes[type(parameters)] == shape
    variance = mechanism.variance(np.full(200, 0.005), 20_000, parameters)
    assert 0.99 * error < 20_000 * float(np.sqrt(variance[0])) <= error
    views = {"analyst": mechanism.curve(parameters, setting)} | mechanism.views(parameters, setting)
    deltas = {view: curve.log_delta(1.0).promised for view, curve in views.items()}
    assert deltas["public"] <= deltas["shuffler"] < deltas["analyst"] <= target
    assert deltas["both"] == 0.0
    if shape == "discrete Gaussian":
        fewer = replace(parameters, nu=parameters.nu - 1)
        assert mechanism.curve(fewer, setting).log_delta(1.0).promised > target


@pytest.mark.parametrize(
    ("eps", "log_delta", "rounds", "shape"),
    [
        (1e-3, log(1e-8), 12, "discrete Laplace"),  # sigma would be too large
        (60.0, log(1e-3), 2, "discrete Laplace"),  # sigma would be too small
        (5.0, -700.0, 12, "discrete Laplace"),  # delta is too small
        (0.1, log(1e-3), 1, "discrete Gaussian"),
        (3.0, -500.0, 400, "discrete Gaussian"),
    ],
)
def test_calibration_at_the_ends_of_the_range_of_gaussian_noise(eps, log_delta, rounds, shape):
    setting = Setting(100, 5, rounds=rounds)
    parameters = TwoServers().calibrate(eps, log_delta, setting)
    assert TwoServers.shapes[type(parameters)] == shape
    assert TwoServers().curve(parameters, setting).log_delta(eps).promised <= log_delta


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize("eps", [0.0, -1.0, np.inf, np.nan])
def test_the_eps_of_geometric_noise_must_be_positive_and_finite(eps):
    for make in (
        lambda: DiscreteLaplaceParameters(eps),
        lambda: ShufflerDummiesParameters(eps, 3),
        lambda: DiscreteLaplace().calibrate(eps, TARGET, Setting(10, 2)),
        lambda: ShufflerDummies().calibrate(eps, TARGET, Setting(10, 2)),
    ):
        with pytest.raises(InputError, match=r"eps .*finite.*got eps="):
            make()


@pytest.mark.parametrize(
    ("mechanism", "eps", "log_delta", "n", "message"),
    [
        *((UserDummies(), 1.0, each, 10, "strictly between 0 and 1") for each in (0.0, -np.inf)),
        *((each, 1.0, np.nan, 10, "delta must") for each in (UserDummies(), ShufflerDummies())),
        (ShufflerDummies(), 1.0, -np.inf, 10, "must be larger for dummies by the shuffler"),
        (UserDummies(), 0.0, -60.0, 10**9, "delta must be larger for dummies by users: "),
    ],
)
def test_impossible_targets_are_refused(mechanism, eps, log_delta, n, message):
    with pytest.raises(InputError, match=message):
        mechanism.calibrate(eps, log_delta, Setting(n, 2))


@pytest.mark.parametrize(
    ("n", "k", "sure", "eps", "message"),
    [
        (10**9, 2, 11, 1.0, r"n r, .* must be below"),
        (10, 2, 1, -1.0, "eps must be at least 0"),
        (10, 1, 1, 1.0, "k must be an integer from 2"),
    ],
)
def test_impossible_dummies_are_refused(n, k, sure, eps, message):
    with pytest.raises(InputError, match=message):
        user_ends(n, k, UserDummiesParameters(float(sure), sure), eps)
