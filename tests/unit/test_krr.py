"""k-RR's channel against its exact mean and covariance."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from shuffledp.accounting.setting import probabilities
from shuffledp.mechanisms.randomised_response import invert, randomise


def exact_moments(counts, eps0):
    """Return mean and covariance of the shuffled histogram, a sum of one-hot reports."""
    k = len(counts)
    p, q = probabilities(eps0, k)
    channel = np.full((k, k), q) + np.eye(k) * (p - q)
    mean = counts @ channel
    covariance = sum(
        c * (np.diag(row) - np.outer(row, row)) for c, row in zip(counts, channel, strict=True)
    )
    return mean, covariance


def test_sampled_releases_have_the_exact_mean_and_covariance():
    counts, eps0, repetitions = np.array([500, 120, 30, 0, 1]), 1.2, 40_000
    sample = randomise(counts, eps0, np.random.default_rng(7), repetitions)
    mean, covariance = exact_moments(counts, eps0)
    # Each coordinate mean is normal with known variance: 5.5 standard errors is 4e-8 per test.
    z = (sample.mean(axis=0) - mean) / np.sqrt(np.diag(covariance) / repetitions)
    assert np.abs(z).max() < 5.5
    # The whole vector: the rows of the covariance sum to zero, so leave one cell out.
    d = sample.mean(axis=0)[:-1] - mean[:-1]
    distance = repetitions * d @ np.linalg.solve(covariance[:-1, :-1], d)
    assert stats.chi2.sf(distance, df=counts.size - 1) > 1e-7
    # Entries of a sample covariance have standard error sqrt((c_ij^2 + c_ii c_jj) / repetitions).
    error = np.sqrt(covariance**2 + np.outer(np.diag(covariance), np.diag(covariance)))
    gap = np.abs(np.cov(sample.T) - covariance) / (error / np.sqrt(repetitions))
    assert gap.max() < 5.5


@given(
    counts=st.lists(st.integers(0, 10**9), min_size=2, max_size=30).filter(any),
    eps0=st.floats(0.05, 20),
)
def test_inversion_undoes_the_expected_histogram(counts, eps0):
    mean, _ = exact_moments(np.array(counts, dtype=float), eps0)
    assert invert(mean, eps0) == pytest.approx(np.array(counts) / sum(counts), abs=1e-9)


@given(
    counts=st.lists(st.integers(0, 5000), min_size=2, max_size=30),
    eps0=st.floats(0.01, 20),
    seed=st.integers(0, 1000),
)
def test_every_report_is_counted_once(counts, eps0, seed):
    releases = randomise(counts, eps0, np.random.default_rng(seed), 3)
    assert (releases >= 0).all()
    assert releases.sum(axis=1).tolist() == [sum(counts)] * 3


@pytest.mark.parametrize(("eps0", "k"), [(1.0, 1), (0.0, 3), (-1.0, 3), (np.nan, 3), (np.inf, 3)])
def test_impossible_channels_are_refused(eps0, k):
    with pytest.raises(ValueError, match=r"eps0|k must"):
        probabilities(eps0, k)
