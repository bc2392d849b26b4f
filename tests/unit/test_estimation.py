"""Projection, iterative Bayesian update and total variation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, poisson
from shuffledp.accounting.setting import probabilities
from shuffledp.mechanisms.estimation import (
    iterative_bayesian_update,
    james_stein,
    project_simplex,
    soft_threshold,
    total_variation,
)
from shuffledp.mechanisms.krr import invert, randomise

vectors = st.lists(st.floats(-5, 5), min_size=2, max_size=12).map(np.array)


@given(vectors)
def test_projection_is_the_nearest_distribution(v):
    projected = project_simplex(v)
    assert projected.min() >= 0
    assert projected.sum() == pytest.approx(1.0)
    # Optimality (Karush-Kuhn-Tucker): v - x is one constant where x > 0 and not above it elsewhere.
    gap = v - projected
    level = gap[projected > 0].max()
    assert gap[projected > 0] == pytest.approx(level, abs=1e-9)
    assert (gap <= level + 1e-9).all()


def test_projection_keeps_distributions_and_works_by_row():
    rows = np.array([[0.2, 0.3, 0.5], [2.0, 0.0, 0.0], [-1.0, 0.5, 0.5]])
    expected = np.array([[0.2, 0.3, 0.5], [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
    assert project_simplex(rows) == pytest.approx(expected)
    with pytest.raises(ValueError, match="finite"):
        project_simplex([np.nan, 1.0])


def test_bayesian_update_maximises_the_likelihood():
    reports, eps0 = np.array([420, 260, 170, 150]), 1.0
    p, q = probabilities(eps0, 4)
    estimate = iterative_bayesian_update(reports, eps0, tolerance=1e-13)
    channel = np.full((4, 4), q) + np.eye(4) * (p - q)
    # Karush-Kuhn-Tucker: the likelihood's slope is n where the estimate is positive, not above
    # it elsewhere; by concavity that is the maximum.
    slope = channel @ (reports / (estimate @ channel))
    assert slope[estimate > 1e-6] == pytest.approx(reports.sum(), rel=1e-6)
    assert slope.max() <= reports.sum() * (1 + 1e-6)


def test_bayesian_update_equals_inversion_inside_the_simplex():
    counts, eps0 = np.array([4000, 3000, 2000]), 2.0
    reports = randomise(counts, eps0, np.random.default_rng(0))
    inverted = invert(reports, eps0)
    assert inverted.min() > 0
    estimate = iterative_bayesian_update(reports, eps0, tolerance=1e-13)
    assert estimate == pytest.approx(inverted, abs=1e-9)


def test_total_variation():
    assert total_variation([1.0, 0.0], [0.0, 1.0]) == 1.0
    assert total_variation([[0.5, 0.5], [0.9, 0.1]], [0.5, 0.5]) == pytest.approx([0.0, 0.4])


@pytest.mark.parametrize("length", [0.0, 3.0, 20.0])
def test_james_stein_has_its_closed_risk(length):
    """``k - (k-2)^2 E[1 / (k - 2 + 2 N)]``, N Poisson of mean |truth|^2 / 2 (noise 1)."""
    k, truth = 10, np.zeros(10)
    truth[3] = length
    noisy = truth + np.random.default_rng(5).normal(size=(40_000, k))
    squares = ((james_stein(2.0 * noisy, 2.0) / 2.0 - truth) ** 2).sum(axis=-1)
    number = np.arange(600)
    mean = poisson.pmf(number, length**2 / 2) @ (1.0 / (k - 2 + 2 * number))
    expected = k - (k - 2) ** 2 * mean
    assert squares.mean() == pytest.approx(expected, abs=5 * squares.std() / 200)
    assert expected < k


def test_soft_threshold_by_hand_and_on_noise_alone():
    level = 2.0 * np.sqrt(2.0 * np.log(4))
    found = soft_threshold([[0.0, 1.0, -10.0, 10.0]], 2.0)
    assert found[0] == pytest.approx([0.0, 0.0, level - 10.0, 10.0 - level])
    noise = np.random.default_rng(6).normal(size=(100_000, 4))
    t = np.sqrt(2.0 * np.log(4))
    expected = 2.0 * ((1.0 + t * t) * norm.sf(t) - t * norm.pdf(t))
    assert (soft_threshold(noise, 1.0) ** 2).mean() == pytest.approx(expected, rel=0.03)
