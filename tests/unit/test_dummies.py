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
from scipy import signal, stats
from shuffledp import queries
from shuffledp.accounting import pairs, signed
from shuffledp.accounting.calibrate import smallest_integer, smallest_noise
from shuffledp.accounting.discrete_gaussian import DiscreteGaussianNoise
from shuffledp.accounting.geometric import BothNoises, geometric_log_delta
from shuffledp.accounting.setting import Setting
from shuffledp.accounting.signed import SignedNoise
from shuffledp.errors import InputError
from shuffledp.mechanisms.discrete_laplace import (
    DiscreteLaplace,
    DiscreteLaplaceParameters,
    draw_noise,
    noise_moments,
)
from shuffledp.mechanisms.protocol import expected_distance
from shuffledp.mechanisms.shuffler_dummies import (
    MAX_NU,
    ShufflerDummies,
    ShufflerDummiesParameters,
)
from shuffledp.mechanisms.signed_dummies import SignedDummies, SignedDummiesParameters
from shuffledp.mechanisms.target_calibration import Released, read_parameters
from shuffledp.mechanisms.two_servers import (
    GaussianServersParameters,
    TwoServers,
    draw_gaussian,
)
from shuffledp.mechanisms.user_dummies import UserDummies, UserDummiesParameters
from waiting import run_python

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
    chances, dummies = parameters.chances, parameters.dummies
    share_without = (chances - dummies) / chances
    return pairs.hockey_stick(pairs.dummies(n * chances, k, parameters.rate, share_without), eps)


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
    """Compare with sums over how often a round's loss is -eps, 0 and eps."""
    calibrated = DiscreteLaplace().calibrate(eps, log(delta), Setting(100, 5, 1.0, rounds)).eps
    assert calibrated > eps / rounds

    def composed(step):
        theta = exp(-step / 2)
        one = np.array([theta**2, 2 * theta, 1]) / (1 + theta) ** 2
        law = np.ones(1)
        for _ in range(rounds):
            law = np.convolve(law, one)
        losses = step * np.arange(-rounds, rounds + 1)
        above = losses > eps
        return float(law[above] @ -np.expm1(eps - losses[above]))

    assert composed(calibrated) <= delta * (1 + 1e-12)
    assert composed(calibrated * (1 + 1e-6)) > delta


def test_calibrated_dummies_keep_the_target_over_all_rounds():
    target, setting = np.log(0.05), Setting(20, 2, 1.0, 2)
    calibrated = UserDummies().calibrate(1.0, target, setting)
    assert UserDummies().curve(calibrated, setting).log_delta(1.0).upper <= target
    assert (
        calibrated.dummies
        > 1.2 * UserDummies().calibrate(1.0, target, setting.single_round).dummies
    )


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
    assert ends.low <= log_of(delta) <= ends.high
    assert ends.high - ends.low < 1e-11
    assert UserDummies().curve(parameters, Setting(n, k)).log_delta(eps).upper == min(
        ends.high, 0.0
    )


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
    assert ends.low <= delta <= ends.high
    assert ends.high - ends.low < 1e-10


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


def test_several_chances_have_the_variance_they_say():
    mechanism, counts = UserDummies(), np.array([5, 0, 15, 30])
    parameters = UserDummiesParameters(2.7, 3)
    seen = mechanism.observe(counts, parameters, np.random.default_rng(1), 20_000)
    assert (seen >= counts).all()
    assert seen.sum(axis=1).max() <= 4 * 50
    assert seen.sum(axis=1).mean() == pytest.approx(50 * 3.7, rel=1e-3)
    estimates = mechanism.estimators["raw"](seen, 50, parameters)
    variance = mechanism.variance(counts / 50, 50, parameters)
    np.testing.assert_allclose(estimates.mean(axis=0), counts / 50, atol=5 * 0.1 / np.sqrt(20_000))
    np.testing.assert_allclose(estimates.var(axis=0), variance, rtol=0.05)


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
    ends = geometric_log_delta(log(e), -2.0 * log(theta), nu)
    for delta in both_directions(law, n, k, e):
        # The tail that the enumeration leaves out changes delta by at most its mass.
        assert exp(ends.high) == pytest.approx(float(delta), abs=(1 + float(e)) * missing + 1e-12)
    assert missing < (1e-5 if k == 2 else 3e-3)


@given(
    eps=st.floats(0.0, 20.0),
    budget=st.floats(1e-9, 20.0),
    nu=st.integers(0, 10**6) | st.just(np.inf),
)
@settings(max_examples=examples(200))
def test_the_ends_enclose_the_closed_form(eps, budget, nu):
    ends = geometric_log_delta(eps, budget, nu)
    with mpmath.workdps(60):
        theta = mpmath.exp(-mpmath.mpf(budget) / 2)
        centre = theta ** mpmath.mpf(nu)
        whole = 1 + theta - theta * centre
        gap = max(1 - mpmath.exp(mpmath.mpf(eps) - mpmath.mpf(budget)), 0)
        delta = centre * (1 - theta) / whole + (1 - centre) * gap / whole**2
        value = mpmath.log(delta) if delta else -mpmath.inf
        assert ends.low <= value <= ends.high
    assert ends.low == -np.inf or ends.high - ends.low < 1e-11 * max(1.0, abs(ends.high))


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
    moments = noise_moments(budget, nu)
    assert moments.mean == pytest.approx(mean, rel=1e-10, abs=1e-12)
    assert moments.variance == pytest.approx(law @ (z - mean) ** 2, rel=1e-10)
    assert moments.absolute_error == pytest.approx(law @ np.abs(z - mean), rel=1e-10)
    drawn = draw_noise(40_000, budget, np.random.default_rng(4), nu)
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
    both = BothNoises(-2.0 * log(theta), nu)
    np.testing.assert_allclose(
        np.exp(both.log_law(-3)[:20]), [float(h[z]) for z in range(-3, 17)], rtol=1e-12
    )
    beyond = 1.0 - float(sum(h.values()))  # the tail of one cell
    delta = exp(both.log_delta(eps))
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
    drawn = draw_gaussian(40_000, DiscreteGaussianNoise(sigma, nu), np.random.default_rng(4))
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
    assert parameters.moments.mean == pytest.approx(nu + mean, rel=1e-10)
    assert n**2 * TwoServers().variance(np.full(k, 0.2), n, parameters)[0] == pytest.approx(
        both @ (places - mean) ** 2, rel=1e-10
    )
    distance = 0.5 * k * (both @ np.abs(places - mean)) / n
    shares = np.full(k, 0.2)
    assert TwoServers().expected_distance(shares, n, parameters) == pytest.approx(distance)
    assert TwoServers().per_user(n, k, parameters).messages == pytest.approx(
        1.0 + k * (nu + mean) / n
    )


def test_gaussian_servers_estimate_without_bias():
    counts, parameters = np.array([0, 3, 400, 50]), GaussianServersParameters(2.0, 2)
    mechanism, n, repetitions = TwoServers(), 453, 20_000
    rows = mechanism.observe(counts, parameters, np.random.default_rng(5), repetitions)
    estimates = mechanism.estimators["raw"](rows, n, parameters)
    variance = mechanism.variance(counts / n, n, parameters)
    z = (estimates.mean(axis=0) - counts / n) / np.sqrt(variance / repetitions)
    assert np.abs(z).max() < 5.0
    assert estimates.var(axis=0) == pytest.approx(variance, rel=0.05)


@pytest.mark.parametrize(
    ("rounds", "shape", "error"),
    [
        (1, "discrete Laplace", 3.96),
        (6, "discrete Laplace", 24.0),
        (7, "discrete Gaussian", 27.1),
        (12, "discrete Gaussian", 35.5),
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sigma=0.05, nu=3", "sigma of discrete Gaussian noise must be from 0.1 to 10000 counts"),
        ("sigma=2, nu=-1", "nu, the centre of the noise, must be an integer >= 0"),
        ("sigma=2", "parameters of two-servers lack nu"),
        ("sigma=2, nu=1.5", "nu of two-servers must be an integer, got 1.5"),
        ("sigma=2, eps=1, nu=3", "must be eps, nu, or sigma, nu, each once"),
        ("width=2", r"must be eps, nu, or sigma, nu, each once, as in eps=1, got width=2"),
    ],
)
def test_wrong_parameters_of_gaussian_servers_are_refused(text, words):
    with pytest.raises(InputError, match=words):
        read_parameters(TwoServers(), text)
    assert read_parameters(TwoServers(), "nu=3, sigma=2") == GaussianServersParameters(2.0, 3)


# --- signed dummies ------------------------------------------------------------------------------


def test_more_users_than_promised_get_more_privacy():
    mechanism, parameters = SignedDummies(), SignedDummiesParameters(0.6, 300.0, np.inf, 200, 1000)
    promised = mechanism.curve(parameters, Setting(1250, 20))
    for eps in (0.5, 1.0, 1.5):
        fewer, enough, more, many = (
            mechanism.achieved(parameters, Setting(n, 20)).log_delta(eps).upper
            for n in (999, 1000, 1001, 1250)
        )
        assert 0.0 == fewer > enough == promised.log_delta(eps).upper > more > many
    for n, rounds, eps in ((1250, 3, 2.0), (1250, 50, 9.0), (10_000, 2, 1.0)):
        several = Setting(n, 20, rounds=rounds)
        exact, least = (
            curve(parameters, several) for curve in (mechanism.achieved, mechanism.curve)
        )
        assert exact.log_delta(eps).upper <= least.log_delta(eps).upper
    # Ten times the users in two rounds: their noise shows.
    assert exact.log_delta(1.0).upper < least.log_delta(1.0).upper - 0.5
    # If the table would be too large, the promised curve is used.
    wide = SignedDummiesParameters(0.999, 1e6, np.inf, 10**6, 1000)
    achieved = mechanism.achieved(wide, Setting(1250, 20)).log_delta(0.01).upper
    assert achieved == mechanism.curve(wide, Setting(1250, 20)).log_delta(0.01).upper


@pytest.mark.parametrize(("n", "rounds"), [(1000, 1), (1000, 2), (1300, 1), (1300, 2)])
def test_overflow_of_envelopes_never_lets_delta_grow_with_eps(n, rounds):
    """The overflow counts exp(eps) times: once delta at eps = 12 was 400 times that at 1."""
    parameters = SignedDummiesParameters(0.633, 1616.0, np.inf, 160, 1000)
    curve = SignedDummies().achieved(parameters, Setting(n, 20, rounds=rounds))
    log_delta = curve.log_delta(np.linspace(0.0, 16.0, 321)).upper
    assert (np.diff(log_delta) <= 1e-6).all()
    assert log_delta[-1] < log(1e-7)
    # A ledger of rounds with different numbers of users counts the extra noise too.
    released = Released(SignedDummies(), parameters)
    ledger = [Setting(number, 20, mechanism=released) for number in (1000, n + 1)]
    equal = queries.epsilon(1e-5, replace(ledger[0], rounds=2)).upper
    assert queries.epsilon(1e-5, ledger).upper < 1.02 * equal  # interpolated


# The errors were computed by a separate script that sums the laws of two cells directly.
@pytest.mark.parametrize(
    ("n", "k", "slots", "error"),
    [(123_094, 408, 56, 3.330), (123_094, 408, 71, 3.170), (11_190, 192, 80, 3.466)],
)
def test_signed_dummies_of_two_cities(n, k, slots, error):
    mechanism, setting = SignedDummies(slots, 0.9), Setting(n, k)
    calibrated = mechanism.calibrate(1.0, TARGET, setting)
    cell = n * np.sqrt(mechanism.variance(np.full(k, 1 / k), n, calibrated)[0])
    assert cell == pytest.approx(error, rel=0.01)
    assert mechanism.curve(calibrated, setting).log_delta(1.0).upper <= TARGET
    weaker = replace(calibrated, ratio=calibrated.ratio * 0.9999)
    assert mechanism.curve(weaker, setting).log_delta(1.0).upper > TARGET + np.log(0.99)
    # Geometric numbers with the same deviation do not keep the promise.
    precision = calibrated.deviation**-2.0
    ratio = 1.0 + precision - np.sqrt(precision * (2.0 + precision))
    same = replace(calibrated, size=1.0, ratio=ratio)
    assert same.deviation == pytest.approx(calibrated.deviation, rel=1e-12)
    assert mechanism.curve(same, setting).log_delta(1.0).upper > TARGET + 0.1
    # Fewer users than promised have no guarantee.
    few = Setting(calibrated.smallest - 1, k)
    assert mechanism.curve(calibrated, few).log_delta(1.0).upper == 0.0


@pytest.mark.parametrize(("slots", "share"), [(1, 0.9), (2.5, 0.9), (80, 0.0), (80, 1.1)])
def test_impossible_envelopes_are_refused(slots, share):
    with pytest.raises(InputError, match=r"slots|share"):
        SignedDummies(slots, share)


@pytest.mark.parametrize(
    "change",
    [{"pairs": 1e12}, {"shape": 1e-9}, {"slots": 10**12}, {"ratio": 1.0}, {"size": 0.0}],
)
def test_laws_too_large_to_sum_are_refused(change):
    with pytest.raises(InputError, match=r"signed dummies|slots"):
        replace(SignedDummiesParameters(0.5, 10.0, 3.0, 80, 100), **change)


def test_calibration_for_many_users_and_few_cells_is_quick():
    """The search for the number of pairs must stop well below the 1e10 that would fit."""
    calibrated = SignedDummies().calibrate(1.0, TARGET, Setting(10**8, 2))
    assert calibrated.pairs <= 2**20
    assert calibrated.deviation < 1.01 * np.sqrt(2.0 * np.exp(-0.5)) / -np.expm1(-0.5)


def test_noise_of_another_size_has_the_stated_variance_and_distance():
    parameters = SignedDummiesParameters(0.7, 30.0, np.inf, 120, 50, 1.7)
    mechanism, counts = SignedDummies(), np.full(20, 3)
    seen = mechanism.observe(counts, parameters, np.random.default_rng(8), 20_000) - counts
    shares = counts / counts.sum()
    variance = 60**2 * mechanism.variance(shares, 60, parameters)[0]
    assert variance == pytest.approx(60 / 50 * 2 * 1.7 * 0.7 / 0.3**2, rel=1e-12)
    for sample, expected in [
        (seen**2, variance),
        (abs(seen), 2 * 60 / 20 * mechanism.expected_distance(shares, 60, parameters)),
    ]:
        # 5.5 standard errors are less than 3 % of the expected value.
        error = sample.std() / np.sqrt(sample.size)
        assert abs(sample.mean() - expected) < 5.5 * error < 0.03 * expected


def test_overflow_over_rounds_counts_at_the_total_eps():
    mechanism, setting = SignedDummies(80), Setting(123_094, 408, rounds=3)
    calibrated = mechanism.calibrate(3.0, TARGET, setting)
    assert mechanism.curve(calibrated, setting).log_delta(3.0).upper <= TARGET
    over = 3 * calibrated.smallest * calibrated.overflow(408) * (1.0 + exp(3.0))
    assert 0.05 * exp(TARGET) < over < 0.1 * exp(TARGET)


def test_envelopes_that_are_too_short_are_refused():
    with pytest.raises(InputError, match="more slots"):
        SignedDummies(20).calibrate(1.0, TARGET, Setting(123_094, 408))
    with pytest.raises(InputError, match=r"more slots.* in each round"):
        SignedDummies(20).calibrate(1.0, TARGET, Setting(123_094, 408, rounds=3))


@pytest.mark.parametrize(
    ("ratio", "pairs", "shape", "eps"),
    [(0.3, 4391.4, 1e4, 0.93), (0.9, 2e5, 1e9, 0.02), (0.5, 3e3, np.inf, 0.7), (0.8, 50.0, 0.5, 1)],
)
def test_pairs_of_any_spread_against_their_whole_law(ratio, pairs, shape, eps):
    """Once the largest values of a negative binomial law of large shape were left out."""
    law = stats.poisson(pairs) if shape == np.inf else stats.nbinom(shape, shape / (shape + pairs))
    last = law.mean() + 14.0 * law.std() + 80.0 * (1.0 + pairs / shape) + 40.0 / (1.0 - ratio)
    weights = signal.lfilter([1.0], [1.0, -(ratio**2)], law.pmf(np.arange(last)))
    weights = np.append(0.0, weights[weights > 1e-60])
    masses = np.append((1.0 - ratio) * weights[1:], ratio / (1.0 + ratio))
    ratios = np.append(ratio * weights[:-1] / weights[1:], 1.0 / ratio)
    order = np.argsort(ratios)
    masses, ratios = masses[order], ratios[order]
    first, second = (
        np.append(np.cumsum(law[::-1])[::-1], 0.0) for law in (masses * ratios, masses)
    )
    start = np.searchsorted(ratios, np.exp(eps) * ratios)
    direct = masses @ (first[start] - np.exp(eps) * ratios * second[start])
    delta = exp(SignedNoise(ratio, pairs, shape).log_delta(eps))
    assert direct * (1.0 - 1e-6) <= delta <= direct * (1.0 + 1e-6)


@pytest.mark.parametrize(
    "name", ["MAX_UNSPLIT_RATIOS", "MAX_WINDOW", "MAX_TABLE_ENTRIES", "ENTRIES_AT_ONCE"]
)
@pytest.mark.parametrize(("shape", "size"), [(np.inf, 1.0), (30.0, 1.0), (np.inf, 1.4)])
def test_shorter_sums_never_give_a_smaller_delta(monkeypatch, name, shape, size):
    noise = SignedNoise(0.7, 500.0, shape, size)
    exact = [noise.log_delta(eps) for eps in (0.1, 0.8, 1.2)]
    monkeypatch.setattr(signed, name, 4000 if name == "MAX_WINDOW" and shape < np.inf else 300)
    shorter = [replace(noise, tail=0.9e-40).log_delta(eps) for eps in (0.1, 0.8, 1.2)]
    for whole, pooled in zip(exact, shorter, strict=True):
        assert whole - 1e-9 <= pooled
        if name in ("MAX_UNSPLIT_RATIOS", "ENTRIES_AT_ONCE"):
            assert pooled <= whole + 1e-2


def test_a_table_that_would_be_too_large_is_refused():
    with pytest.raises(InputError, match=r"size below 1 need a table .* smaller ratio"):
        SignedNoise(1.0 - 1e-6, 10.0, np.inf, 0.5).log_delta(1.0)


@pytest.mark.parametrize("times", [1.0, 1.5])
@pytest.mark.parametrize(("ratio", "pairs"), [(1e-8, 1e-8), (1e-3, 1e-9), (1e-2, 1e-12)])
def test_with_hardly_any_noise_delta_is_nearly_one(ratio, pairs, times):
    """Probabilities underflow here; delta was NaN once."""
    log_delta = SignedNoise(ratio, pairs).scaled(times).log_delta(0.5)
    # Otherwise one of the two cells has a message of noise.
    assert np.log1p(-3.0 * times * (ratio + pairs)) <= log_delta <= 0.0


@pytest.mark.parametrize(
    "noise",
    [
        SignedNoise(1e-192, 1e-184, 0.03, 1.3),
        SignedNoise(1e-188, 1e-190, np.inf, 2.0),
        SignedNoise(0.4, 3.4, 4e7, 909.0),
        SignedNoise(1.0 - 1e-12, 1e9, 1e5),
        SignedNoise(0.5, 3.0),
    ],
)
def test_laws_of_extreme_parameters_have_a_delta(noise):
    """Table entries underflow and exp(eps) overflows here; delta was NaN once."""
    log_deltas = [noise.log_delta(eps) for eps in (0.5, 3.0, 699.0, 701.0, 2000.0)]
    assert sorted(log_deltas, reverse=True) == log_deltas
    assert log_deltas[-1] > -np.inf


SMALL = r"""
import re
import resource
from pathlib import Path
import numpy as np
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.signed_dummies import SignedDummies, SignedDummiesParameters
resource.setrlimit(resource.RLIMIT_AS, (3 * 10**9, 3 * 10**9))
try:
    SignedDummies().calibrate(1e-6, np.log(1e-6), Setting(100_000, 68_336))
except InputError as error:
    print("slots" in str(error))
many = SignedDummiesParameters(0.99, 1e9, 1e9, 10**6, 100_000)
print(SignedDummies().curve(many, Setting(100_000, 2)).log_delta(0.1).upper < -20.0)
wide = SignedDummiesParameters(1.0 - 1e-8, 1e9, 1e9, 10**6, 1000)
print(500.0 * SignedDummies().expected_distance(np.full(2, 0.5), 1000, wide))
# The peak of this process alone: ru_maxrss starts from that of the one which started it.
(peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
print(int(peak) < 500_000)
"""


def test_small_budgets_and_many_pairs_take_little_memory():
    """Arrays as long as 1 / eps or the number of pairs once took up to 22 GB."""
    ran = run_python("-c", SMALL)
    assert ran.returncode == 0, ran.stderr
    fits, below, distance, little = ran.stdout.split()
    assert (fits, below, little) == ("True", "True", "True")
    # Half of the mean absolute difference of two geometric numbers, 2 q / (1 - q^2).
    assert float(distance) == pytest.approx(0.5 * 1e8, rel=1e-4)


@pytest.mark.parametrize(
    ("n", "k", "eps", "delta", "slots", "error"),
    [
        (65_557, 32, 0.7, 1e-6, 50, 5.45),
        (45_319, 13, 0.7, 1e-9, 71, 5.44),
        (1000, 2, 1.0, 1e-6, 120, 3.04),
    ],
)
def test_the_size_parameter_is_searched_finely(n, k, eps, delta, slots, error):
    """Trying only a few sizes gave up to a fifteenth more error."""
    mechanism, setting = SignedDummies(slots), Setting(n, k)
    calibrated = mechanism.calibrate(eps, np.log(delta), setting)
    assert n * np.sqrt(mechanism.variance(np.full(k, 1 / k), n, calibrated)[0]) <= error
    assert mechanism.curve(calibrated, setting).log_delta(eps).upper <= np.log(delta)


@pytest.mark.parametrize("shape", [np.inf, 300.0])
def test_overflow_of_a_long_envelope(shape):
    """Compare blocks of pairs with the sum over their whole law."""
    parameters = SignedDummiesParameters(0.9998, 3e5, shape, 20_001, 100, 1.5)
    law = stats.poisson(6e3) if shape == np.inf else stats.nbinom(6.0, 300.0 / (300.0 + 3e5))
    twins = np.arange(10_001)
    more = stats.nbinom(2.0 * 1.5 * 0.02, 0.0002).sf(20_000 - 2 * twins)
    direct = law.pmf(twins) @ more + law.sf(10_000)
    assert direct * (1.0 - 1e-9) <= parameters.overflow(2) <= direct * (1.0 + 1e-2)


# --- error and messages --------------------------------------------------------------------------

# Variance in counts, extra messages and expected distance at delta = 1e-6, computed independently.
CITIES = {"San Francisco": (100_000, 408), "Paris": (10_000, 192)}
COSTS = [
    ("San Francisco", 0.5, DiscreteLaplace(), 31.834, 0.0, 0.00918),
    ("San Francisco", 0.5, UserDummies(), 135.904, 0.5552, 0.01898),
    ("Paris", 0.5, UserDummies(), 135.5, 2.6118, 0.08873),
    ("San Francisco", 1.0, ShufflerDummies(), 7.836, 0.102, 0.00456),
    ("San Francisco", 1.0, TwoServers(), 15.671, 0.102, 0.006443),
    ("San Francisco", 1.0, UserDummies(), 42.634, 0.1740, 0.01063),
    ("Paris", 1.0, ShufflerDummies(), 7.836, 0.480, 0.02144),
]


@pytest.mark.parametrize(("city", "eps", "mechanism", "variance", "messages", "distance"), COSTS)
def test_error_and_messages_of_two_cities(city, eps, mechanism, variance, messages, distance):
    n, k = CITIES[city]
    parameters = mechanism.calibrate(eps, TARGET, Setting(n, k))
    shares = np.full(k, 1 / k)
    per_cell = mechanism.variance(shares, n, parameters)
    np.testing.assert_allclose(per_cell * n**2, variance, rtol=1e-3)
    assert mechanism.per_user(n, k, parameters).messages == pytest.approx(1 + messages, rel=1e-3)
    # The references assume normal errors.
    assert expected_distance(per_cell) == pytest.approx(distance, rel=5e-3)
    assert mechanism.per_user(n, k, parameters).local_eps0 == np.inf


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dummies", "chances", "words"),
    [
        (
            1.5,
            1,
            r"dummies, .* must lie in \[1e-100 chances, chances\], got dummies=1.5, chances=1",
        ),
        (0.0, 1, r"dummies, .* must lie"),
        (np.nan, 2, r"dummies, .* must lie"),
        (0.5, 0, r"chances, .* must be an integer >= 1, got chances=0"),
        (0.5, 1.5, r"chances, .* must be an integer"),
    ],
)
def test_impossible_dummies_by_users_are_refused(dummies, chances, words):
    with pytest.raises(InputError, match=words):
        UserDummiesParameters(dummies, chances)


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


@pytest.mark.parametrize("nu", [-1, 2.5, np.nan, np.inf, MAX_NU + 2])
def test_the_centre_must_be_a_whole_number_of_dummies(nu):
    with pytest.raises(InputError, match=r"nu.* must be an integer"):
        ShufflerDummiesParameters(1.0, nu)


def test_impossible_targets_are_refused():
    users, shuffler = UserDummies(), ShufflerDummies()
    for log_delta in (0.0, -np.inf, np.nan):
        with pytest.raises(InputError, match="strictly between 0 and 1"):
            users.calibrate(1.0, log_delta, Setting(10, 2))
    for mechanism in (users, shuffler):
        with pytest.raises(InputError, match="delta must"):
            mechanism.calibrate(1.0, np.nan, Setting(10, 2))
    with pytest.raises(InputError, match="delta must be larger for dummies by users: "):
        users.calibrate(0.0, -60.0, Setting(10**9, 2))
    with pytest.raises(InputError, match="delta must be larger for dummies by the shuffler"):
        shuffler.calibrate(1.0, -np.inf, Setting(10, 2))
    with pytest.raises(InputError, match=r"n r, .* must be below"):
        users.curve(UserDummiesParameters(11.0, 11), Setting(10**9, 2)).log_delta(1.0)
    with pytest.raises(InputError, match="eps must be at least 0"):
        users.curve(UserDummiesParameters(1.0, 1), Setting(10, 2)).log_delta(-1.0)
    with pytest.raises(InputError, match="k must be an integer from 2"):
        users.curve(UserDummiesParameters(1.0, 1), Setting(10, 1)).log_delta(1.0)


# --- searches ------------------------------------------------------------------------------------


@given(
    least=st.integers(0, 20),
    size=st.integers(0, 3000),
    where=st.integers(0, 3100),
    start=st.none() | st.floats(0.0, 1.0),
)
def test_the_smallest_integer_number_was_tried(least, size, where, start):
    tried = []

    def meets(number):
        assert least <= number <= least + size
        tried.append(number)
        return number >= where

    begin = None if start is None else least + round(start * size)
    answer = smallest_integer(meets, least, least + size, begin)
    assert answer == (None if where > least + size else max(where, least))
    assert answer is None or answer in tried
    assert len(tried) <= (26 if start is None else 40)


@pytest.mark.parametrize("high", [2.0, 2.1, 1e6])
def test_the_least_noise_was_tried(high):
    tried = []

    def log_delta(x):
        tried.append(x)
        return -x

    answer = smallest_noise(log_delta, -2.0, high)
    assert answer in tried or answer == high
    assert answer == pytest.approx(2.0, rel=2e-9)
    assert answer >= 2.0
