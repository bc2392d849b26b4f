"""The analytic Gaussian against high precision, and where diffprivlib goes wrong."""

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from shuffledp.central import (
    HISTOGRAM_SENSITIVITY,
    diffprivlib_release,
    diffprivlib_sigma,
    gaussian_log_delta,
    gaussian_release,
    gaussian_sigma,
    geometric_release,
    james_stein,
    soft_threshold,
)


def exact_log_delta(eps, sigma, sensitivity):
    with flint.ctx.workdps(900):
        eps, sigma, d = flint.arb(eps), flint.arb(sigma), flint.arb(sensitivity)
        a, b = d / (2 * sigma) - eps * sigma / d, -d / (2 * sigma) - eps * sigma / d
        root = flint.arb(2).sqrt()
        return float((((-a / root).erfc() - eps.exp() * (-b / root).erfc()) / 2).log())


@given(
    eps=st.floats(1e-3, 8),
    log_delta=st.floats(-600, -0.1),
    sensitivity=st.sampled_from([1.0, HISTOGRAM_SENSITIVITY]),
)
@settings(max_examples=60, deadline=None)
def test_sigma_is_sufficient_and_not_more(eps, log_delta, sensitivity):
    sigma = gaussian_sigma(eps, log_delta, sensitivity)
    assert exact_log_delta(eps, sigma, sensitivity) <= log_delta
    assert exact_log_delta(eps, sigma * (1 - 1e-8), sensitivity) > log_delta
    assert gaussian_log_delta(eps, sigma, sensitivity) == pytest.approx(
        exact_log_delta(eps, sigma, sensitivity), abs=1e-8, rel=1e-10
    )


def test_deep_tails_where_diffprivlib_stops():
    # docs/accounting.md: right values by 80-digit arithmetic.
    assert gaussian_sigma(1.0, np.log(1e-20), 1.0) == pytest.approx(8.8382, abs=5e-5)
    assert gaussian_sigma(1.0, np.log(1e-40), 1.0) == pytest.approx(12.9600, abs=5e-5)
    assert diffprivlib_sigma(1.0, 1e-20, 1.0) == pytest.approx(8.2434, abs=5e-5)
    assert diffprivlib_sigma(1.0, 1e-40, 1.0) == diffprivlib_sigma(1.0, 1e-20, 1.0)
    assert diffprivlib_sigma(4.0, 1e-20, 1.0) == pytest.approx(2.1517, abs=5e-5)


@pytest.mark.parametrize("eps", [0.01, 0.5, 2.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-11])
def test_diffprivlib_agrees_where_we_use_it(eps, delta):
    ours = gaussian_sigma(eps, np.log(delta), HISTOGRAM_SENSITIVITY)
    assert diffprivlib_sigma(eps, delta, HISTOGRAM_SENSITIVITY) == pytest.approx(ours, rel=1e-6)


@pytest.mark.parametrize("log_delta", [np.log(1e-6), -800.0])
def test_release_has_the_calibrated_noise(log_delta):
    counts = np.zeros(2000)
    noise = gaussian_release(counts, 0.5, log_delta, np.random.default_rng(5), 5)
    sigma = gaussian_sigma(0.5, log_delta)
    assert noise.shape == (5, 2000)
    assert stats.kstest(noise.ravel() / sigma, "norm").pvalue > 1e-6


def test_release_is_reproducible_and_follows_the_generator():
    args = (np.arange(5), 4.0, 1e-20)
    first = diffprivlib_release(*args, np.random.default_rng(1), 2, 1.0)
    again = diffprivlib_release(*args, np.random.default_rng(1), 2, 1.0)
    other = diffprivlib_release(*args, np.random.default_rng(2), 2, 1.0)
    assert (first == again).all()
    assert (first != other).all()


@pytest.mark.parametrize(
    ("eps", "log_delta"), [(0.0, -1.0), (-1.0, -1.0), (1.0, 0.0), (1.0, -np.inf), (1.0, np.nan)]
)
def test_impossible_targets_are_refused(eps, log_delta):
    with pytest.raises(ValueError, match="must"):
        gaussian_sigma(eps, log_delta)


def test_geometric_noise_has_the_exact_law():
    eps, draws = 0.8, 200_000
    noise = geometric_release(np.zeros(draws, dtype=int), eps, np.random.default_rng(2))[0]
    z = np.arange(-6, 7)
    ratio = np.exp(-eps / 2)
    law = (1 - ratio) / (1 + ratio) * ratio ** np.abs(z)
    observed = [(noise == value).sum() for value in z] + [(np.abs(noise) > 6).sum()]
    expected = np.append(law, 1 - law.sum()) * draws
    assert stats.chisquare(observed, expected).pvalue > 1e-6
    # Two cells move by one each: the likelihood ratio of neighbours is exp(eps) at most.
    assert (law[1:] / law[:-1]).max() ** 2 == pytest.approx(np.exp(eps))
    with pytest.raises(ValueError, match="eps"):
        geometric_release([1, 2], 0.0, np.random.default_rng(0))


def test_denoising_by_hand():
    # |y|^2 = 25, k = 4, sigma = 2: factor 1 - 2 * 4 / 25.
    assert james_stein([3.0, 4.0, 0.0, 0.0], 2.0) == pytest.approx([2.04, 2.72, 0.0, 0.0])
    assert james_stein([0.1, 0.0, 0.0, 0.0], 2.0).tolist() == [0.0] * 4
    threshold = np.sqrt(2 * np.log(4))
    expected = [5 - threshold, 0.0, 0.0, threshold - 3]
    assert soft_threshold([5.0, 1.0, -1.0, -3.0], 1.0) == pytest.approx(expected)


def test_denoising_helps_where_it_should():
    rng = np.random.default_rng(8)
    truth = np.zeros(500)
    truth[:10] = 40.0
    noisy = truth + rng.normal(0.0, 3.0, size=(50, 500))
    raw, shrunk, thresholded = (
        ((estimate - truth) ** 2).sum(axis=-1).mean()
        for estimate in (noisy, james_stein(noisy, 3.0), soft_threshold(noisy, 3.0))
    )
    assert shrunk < raw
    assert thresholded < 0.5 * raw
