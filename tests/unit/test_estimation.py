"""Projection, iterative Bayesian update and total variation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from shuffledp.estimation import (
    iterative_bayesian_update,
    project_simplex,
    total_variation,
)
from shuffledp.krr import invert, probabilities, randomise

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
