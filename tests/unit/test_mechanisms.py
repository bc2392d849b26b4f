"""Tests that every mechanism passes; the analytic Gaussian against high precision."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from effort import long
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.high_precision import gaussian_log_delta

from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.catalogue import (
    CATALOGUE,
    DISTRIBUTION,
    POSTERIOR,
    UNBIASED,
    get_estimator,
)
from shuffledp.mechanisms.estimators import total_variation
from shuffledp.mechanisms.gaussian import (
    HISTOGRAM_SENSITIVITY,
    CentralGaussian,
    DiffprivlibRequest,
    GaussianParameters,
    classical_sigma,
    gaussian_sigma,
    published_sigma,
)
from shuffledp.mechanisms.local import ShuffledRandomiser
from shuffledp.mechanisms.protocol import Budget
from shuffledp.mechanisms.recommendation import recommended
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.mechanisms.target_calibration import calibrations

EPS, LOG_DELTA = 0.5, float(np.log(1e-6))
DEEP = float(np.log(1e-13))  # here NumPy draws the Gaussian noise, much faster than diffprivlib
COUNTS = np.array([0, 30, 500, 70, 900, 10, 1, 1200, 600, 330, 250, 109])
N, K = int(COUNTS.sum()), COUNTS.size
SHARES = COUNTS / N

every_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS)
SERIES = [(m.name, e.name) for m in CATALOGUE.values() for e in m.estimators]


@cache
def calibrated(mechanism, log_delta=LOG_DELTA, k=K):
    return mechanism.calibrate(EPS, log_delta, Setting(N, k))


def observed(mechanism, repetitions, seed=1):
    return mechanism.observe(
        COUNTS, calibrated(mechanism), np.random.default_rng(seed), repetitions
    )


# --- the protocol --------------------------------------------------------------------------------


@every_mechanism
def test_more_repetitions_begin_with_the_same_ones(mechanism):
    few, more = observed(mechanism, 2), observed(mechanism, 7)
    assert more.shape == (7, K)
    assert more.dtype == np.float64
    np.testing.assert_array_equal(more[:2], few)
    assert len(np.unique(more, axis=0)) == 7


def test_the_noise_of_rounds_composes_to_their_budget():
    once, often = (
        CentralGaussian().calibrate(EPS, LOG_DELTA, Setting(N, K, 2.0, rounds)) for rounds in (1, 9)
    )
    assert often.sigma == pytest.approx(3 * once.sigma, rel=1e-15)


@pytest.mark.parametrize(("mechanism", "name"), SERIES)
def test_a_row_of_an_estimate_depends_on_that_row_alone(mechanism, name):
    mechanism = MECHANISMS[mechanism]
    parameters, estimate = calibrated(mechanism), mechanism.estimators[name]
    rows = observed(mechanism, 5)
    together = estimate(rows, N, parameters)
    assert together.shape == rows.shape
    for row, estimated in zip(rows, together, strict=True):
        np.testing.assert_array_equal(estimate(row[None], N, parameters)[0], estimated)


@pytest.mark.parametrize(("mechanism", "name"), SERIES)
def test_projected_estimates_are_distributions(mechanism, name):
    mechanism, estimator = MECHANISMS[mechanism], get_estimator(mechanism, name)
    estimates = mechanism.estimators[name](observed(mechanism, 20), N, calibrated(mechanism))
    if name == POSTERIOR:
        counts = N * estimates
        assert counts.min() >= 0.0
        np.testing.assert_allclose(counts, np.rint(counts), atol=1e-9)
    elif not estimator.look.filled:
        assert estimates.min() >= 0.0
        np.testing.assert_allclose(estimates.sum(axis=-1), 1.0, rtol=1e-12)
    elif estimator.counterpart is not None:
        assert estimates.min() < 0.0  # there are cells without users


# Drawing reports user by user takes seconds, so those mechanisms are left to `make test-slow`.
@pytest.mark.parametrize(
    "mechanism",
    [
        pytest.param(each, id=name, marks=[pytest.mark.slow] * isinstance(each, ShuffledRandomiser))
        for name, each in MECHANISMS.items()
    ],
)
def test_the_raw_estimator_is_unbiased_and_has_the_stated_variance(mechanism):
    repetitions = 20_000
    parameters = calibrated(mechanism, DEEP)
    rows = mechanism.observe(COUNTS, parameters, np.random.default_rng(3), repetitions)
    estimates = mechanism.estimators[UNBIASED](rows, N, parameters)
    variance = mechanism.variance(SHARES, N, parameters)
    assert variance.shape == SHARES.shape
    # One of 12 normal means exceeds 5.5 standard errors with probability 5e-7.
    z = (estimates.mean(axis=0) - SHARES) / np.sqrt(variance / repetitions)
    assert np.abs(z).max() < 5.5
    # The fourth moment gives the standard error of the variance.
    squares = (estimates - SHARES) ** 2
    z = (squares.mean(axis=0) - variance) / (squares.std(axis=0) / np.sqrt(repetitions))
    assert np.abs(z).max() < 5.5
    # The test would notice 5 % more variance.
    z = (squares.mean(axis=0) - 1.05 * variance) / (squares.std(axis=0) / np.sqrt(repetitions))
    assert np.abs(z).max() > 4.0


def _contributions(mechanism, parameters):
    """Return the rows that one user, honest or not, may add to the analyst's view."""
    rng, alone = np.random.default_rng(5), np.eye(K, dtype=int)
    if mechanism.name in ("user-dummies", "mixdump"):
        everything = replace(parameters, dummies=parameters.chances)
        (number,) = {int(row.sum()) for row in mechanism.observe(alone[0], everything, rng, 9)}
        return np.arange(number + 1)[:, None] * np.eye(K)[0]
    if mechanism.per_user(N, K, parameters).local_eps0 == np.inf:
        return np.eye(K)
    return np.concatenate([mechanism.observe(alone[x], parameters, rng, 60) for x in (0, 1)])


@every_mechanism
def test_one_user_moves_a_cell_by_the_stated_amount(mechanism):
    parameters, others = calibrated(mechanism), COUNTS - np.eye(K, dtype=int)[1]
    seen = mechanism.observe(others, parameters, np.random.default_rng(6))
    added = _contributions(mechanism, parameters)
    estimates = N * mechanism.estimators[UNBIASED](seen + added, N, parameters)[:, 0]
    silent = estimates[added[:, 0] == 0.0]
    np.testing.assert_allclose(silent, silent[0], rtol=1e-9)
    moved = np.abs(estimates - silent[0]).max()
    assert moved == pytest.approx(mechanism.per_user(N, K, parameters).moved_by_one, rel=1e-9)


@every_mechanism
@pytest.mark.parametrize(("eps", "delta"), [(0.5, 1e-6), long(1.0, 1e-11)])
def test_calibration_keeps_the_promise_and_wastes_nothing(mechanism, eps, delta):
    target = float(np.log(delta))
    enough, less = (
        mechanism.calibrate(share * eps, target, Setting(N, K)) for share in (1.0, 1.05)
    )
    assert mechanism.curve(enough, Setting(N, K)).log_delta(eps).upper <= target
    # A target that is 5 % weaker leads to less error, but misses the promise.
    assert mechanism.curve(less, Setting(N, K)).log_delta(eps).upper > target
    assert (mechanism.variance(SHARES, N, less) < mechanism.variance(SHARES, N, enough)).all()


@every_mechanism
def test_matched_parameters_keep_the_budgets_privacy(mechanism):
    setting = Setting(N, K, 3.0)
    log_delta = float(BOUNDS["upper"].curve(setting).log_delta(EPS).only)
    budget = Budget(EPS, log_delta, "eps=0.5")
    first, *own = calibrations(mechanism, setting, [budget])
    assert mechanism.curve(first.parameters, Setting(N, K)).log_delta(EPS).upper <= log_delta
    assert first.name == ("matched" if mechanism.entry.matched else "none")
    assert {each.name for each in own} == set(mechanism.entry.own_calibrations)


@every_mechanism
@pytest.mark.parametrize(("k", "repetitions"), [(12, 4000), long(100, 600)])
def test_expected_distance_agrees_with_simulation(mechanism, k, repetitions):
    rng = np.random.default_rng(8)
    counts = rng.multinomial(N, rng.dirichlet(np.full(k, 0.5)))
    parameters = calibrated(mechanism, DEEP, k)
    rows = mechanism.observe(counts, parameters, rng, repetitions)
    estimates = mechanism.estimators[UNBIASED](rows, N, parameters)
    simulated = total_variation(estimates, counts / N).mean()
    # The means are known to 0.4 %; the count of reports in a cell is nearly normal.
    expected = mechanism.expected_distance(counts / N, N, parameters)
    assert float(expected) == pytest.approx(simulated, rel=0.02)


@pytest.mark.parametrize("name", ["local-hashing", "unary-encoding"])
@pytest.mark.parametrize(
    ("n", "k", "eps", "expected"),
    [
        (10_000, 192, 0.5, 288.520),
        (10_000, 192, 1.0, 120.462),
        pytest.param(100_000, 408, 0.5, 489.311, marks=pytest.mark.slow),
        pytest.param(100_000, 408, 1.0, 234.628, marks=pytest.mark.slow),
    ],
)
def test_the_best_member_of_a_family_is_found(name, n, k, eps, expected):
    """The reference tried only some values of g, so ours may be a little better."""
    parameters = MECHANISMS[name].calibrate(eps, LOG_DELTA, Setting(n, k))
    variance = n * n * MECHANISMS[name].variance(np.full(k, 1.0 / k), n, parameters).mean()
    assert 0.995 * expected < variance < 1.0005 * expected


# --- catalogue -----------------------------------------------------------------------------------


def test_names_and_labels_are_unique():
    assert [m.name for m in CATALOGUE.values()] == list(CATALOGUE)
    assert len({m.label for m in CATALOGUE.values()}) == len(CATALOGUE)
    labels = [get_estimator(*series).label for series in SERIES]
    assert len(set(labels)) == len(labels)
    assert len(set(SERIES)) == len(SERIES)


@pytest.mark.parametrize("name", CATALOGUE)
def test_every_entry_has_a_raw_and_a_projected_estimate(name):
    raw, projected, *others = CATALOGUE[name].estimators
    assert (raw.name, raw.counterpart, raw.look.filled) == (UNBIASED, UNBIASED, True)
    assert (projected.name, projected.counterpart, projected.look.filled) == (
        DISTRIBUTION, DISTRIBUTION, False,
    )  # fmt: skip
    assert {each.counterpart for each in others} <= {UNBIASED, DISTRIBUTION, None}
    assert CATALOGUE[name].trust


@pytest.mark.parametrize("name", CATALOGUE)
def test_catalogue_and_classes_agree(name):
    entry, mechanism = CATALOGUE[name], MECHANISMS[name]
    assert f"{type(mechanism).__module__}.{type(mechanism).__name__}" == entry.class_path
    assert mechanism.name == name
    assert mechanism.entry is entry
    assert list(mechanism.estimators) == [each.name for each in entry.estimators]


# --- the Gaussian --------------------------------------------------------------------------------


@given(
    eps=st.floats(1e-3, 8),
    log_delta=st.floats(-600, -0.1),
    sensitivity=st.sampled_from([1.0, HISTOGRAM_SENSITIVITY]),
)
@settings(max_examples=60, deadline=None)
def test_sigma_is_sufficient_and_not_more(eps, log_delta, sensitivity):
    sigma = gaussian_sigma(eps, log_delta, sensitivity)
    assert gaussian_log_delta(eps, sigma, sensitivity) <= log_delta
    assert gaussian_log_delta(eps, sigma * (1 - 1e-8), sensitivity) > log_delta


@given(eps=st.floats(1e-3, 1), log_delta=st.floats(-600, -0.1), sensitivity=st.floats(0.1, 3))
@settings(max_examples=40, deadline=None)
def test_classical_sigma_is_sufficient_up_to_1(eps, log_delta, sensitivity):
    sigma = float(classical_sigma(eps, float(np.exp(log_delta)), sensitivity))
    assert gaussian_log_delta(eps, sigma, sensitivity) <= log_delta


def test_classical_sigma_is_too_small_at_10():
    """Definition V.1 of paper A states no range of eps; its own experiments go up to 6."""
    sigma = float(classical_sigma(10.0, 1e-6, 1.0))
    assert float(gaussian_log_delta(10.0, sigma, 1.0).exp()) == pytest.approx(1.9e-6, rel=0.03)
    for eps in (0.1, 1.0, 4.0, 6.0):
        sigma = float(classical_sigma(eps, 1e-6, 1.0))
        assert gaussian_log_delta(eps, sigma, 1.0) <= LOG_DELTA


def test_deep_tails_where_diffprivlib_stops():
    # The right values are those of 80-digit arithmetic in docs/accounting.md.
    assert gaussian_sigma(1.0, np.log(1e-20), 1.0) == pytest.approx(8.8382, abs=5e-5)
    assert gaussian_sigma(1.0, np.log(1e-40), 1.0) == pytest.approx(12.9600, abs=5e-5)
    theirs = DiffprivlibRequest(1.0, 1e-20, 1.0).sigma
    assert theirs == pytest.approx(8.2434, abs=5e-5)
    assert DiffprivlibRequest(1.0, 1e-40, 1.0).sigma == theirs
    assert published_sigma(4.0) == pytest.approx(2.1517, abs=5e-5)


@pytest.mark.parametrize("eps", [0.01, 0.5, 2.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-11])
def test_diffprivlib_agrees_where_we_use_it(eps, delta):
    ours = gaussian_sigma(eps, np.log(delta), HISTOGRAM_SENSITIVITY)
    theirs = DiffprivlibRequest(eps, delta, HISTOGRAM_SENSITIVITY).sigma
    assert theirs == pytest.approx(ours, rel=1e-6)


def test_diffprivlib_draws_the_noise_only_where_it_is_enough():
    """A request that would give less noise than calibrated is ignored."""
    gaussian, sigma = CentralGaussian(), gaussian_sigma(4.0, np.log(1e-30))
    request = DiffprivlibRequest(4.0, 1e-30, HISTOGRAM_SENSITIVITY)
    assert request.sigma < 0.9 * sigma
    ours, asked = (
        gaussian.observe(COUNTS, GaussianParameters(sigma, r), np.random.default_rng(2), 3)
        for r in (None, request)
    )
    np.testing.assert_array_equal(asked, ours)
    granted = GaussianParameters(request.sigma, request)
    theirs = gaussian.observe(COUNTS, granted, np.random.default_rng(2), 3)
    assert (theirs != ours).all()
    # Our vectorised draws equal the single draws of the library.
    library = request.mechanism(int(np.random.default_rng(2).integers(2**32)))
    drawn = [library.randomise(float(count)) for _ in range(3) for count in COUNTS]
    np.testing.assert_array_equal(theirs.ravel(), drawn)
    assert gaussian.calibrate(4.0, np.log(1e-30), Setting(N, K)).request is None


def test_the_published_calibration_uses_eps0_whatever_the_budgets():
    (published,) = calibrations(CentralGaussian(), Setting(N, K, 4.0), [])
    assert (published.name, published.eps, published.label) == ("as-published", 4.0, "")
    assert published.log_delta == pytest.approx(np.log(1e-20))
    assert published.parameters.sigma == published_sigma(4.0)


def test_the_least_trusting_mechanism_is_recommended():
    """Required trust and the users' work count before the error."""
    names = ["gaussian", "krr", "user-dummies", "two-servers", "discrete-laplace"]
    errors = [4.0, 9.0, 6.0, 7.0, np.nan]
    rows = pd.DataFrame({"mechanism": names, "expected_cell_error": errors})
    rows["reason"] = [None] * 4 + ["too few"]
    left = rows
    for expected in ("two-servers", "user-dummies", "krr", "gaussian", None):
        assert recommended(left) == expected
        left = left[left["mechanism"] != expected]
