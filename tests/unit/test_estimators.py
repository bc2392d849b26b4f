"""Projection, maximum likelihood and total variation."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from shuffledp.errors import InputError
from shuffledp.mechanisms.estimators import (
    maximum_likelihood,
    project_simplex,
    total_variation,
)

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


def most_likely_by_support(reports, eps0):
    """Maximise the likelihood exactly by trying every set of positive cells."""
    odds = Fraction(float(np.expm1(eps0)))
    for size in range(1, len(reports) + 1):
        for support in combinations(range(len(reports)), size):
            slope = Fraction(sum(reports[i] for i in support)) / (size + odds)
            # Equal slopes on the support, and shares that sum to 1.
            if slope > 0 and all(
                reports[i] >= slope if i in support else reports[i] <= slope
                for i in range(len(reports))
            ):
                shares = [max((count / slope - 1) / odds, 0) for count in map(Fraction, reports)]
                assert sum(shares) == 1
                return np.array(shares, float)
    pytest.fail("no support satisfies the optimality conditions")


@pytest.mark.parametrize("eps0", [1e-9, 1e-4, 0.3, 1.0, 8.0, 40.0])
@pytest.mark.parametrize(
    "reports",
    [
        [7, 5], [5, 5], [0, 9], [0, 0, 4], [5, 3, 0], [4, 4, 4], [6, 6, 2, 2, 0],
        [100_000_001, 100_000_000, 99_999_999], [1, 0, 0, 1, 1, 0],
    ],
)  # fmt: skip
def test_maximum_likelihood_is_exact_for_ties_zeros_and_tiny_budgets(reports, eps0):
    exact = most_likely_by_support(reports, eps0)
    np.testing.assert_allclose(maximum_likelihood(reports, eps0), exact, rtol=1e-13, atol=1e-15)


shapes = st.lists(st.integers(1, 3), max_size=2).flatmap(
    lambda rows: st.integers(2, 6).map(lambda k: (*rows, k))
)
histograms = shapes.flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(0, 50) | st.integers(0, 10**6))
).filter(lambda reports: reports.sum(axis=-1).all())


@given(histograms, st.floats(1e-3, 12.0))
def test_maximum_likelihood_of_many_histograms_is_exact(reports, eps0):
    estimate = maximum_likelihood(reports, eps0)
    for place in np.ndindex(reports.shape[:-1]):
        exact = most_likely_by_support(reports[place].tolist(), eps0)
        np.testing.assert_allclose(estimate[place], exact, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(("reports", "eps0"), [([5], 1.0), ([5, 3], 0.0), ([5, 3], np.inf)])
def test_maximum_likelihood_refuses_what_krr_does_not_take(reports, eps0):
    with pytest.raises(InputError):
        maximum_likelihood(reports, eps0)


def test_total_variation():
    assert total_variation([1.0, 0.0], [0.0, 1.0]) == 1.0
    assert total_variation([[0.5, 0.5], [0.9, 0.1]], [0.5, 0.5]) == pytest.approx([0.0, 0.4])
