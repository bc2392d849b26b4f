"""Whole numbers of two-way tables against a general optimiser."""

import numpy as np
import pytest
import scipy
from effort import long

from shuffledp.publishing.two_way import whole_table


def closest_table(estimates, rows, columns):
    """Return the closest non-negative table with nearly these sums, by least squares."""
    r, c = estimates.shape
    sums = np.vstack([np.kron(np.eye(r), np.ones(c)), np.kron(np.ones(r), np.eye(c))])
    weight = 1e4
    matrix = np.vstack([np.eye(r * c), weight * sums])
    wanted = np.concatenate([estimates.ravel(), weight * np.array([*rows, *columns])])
    return scipy.optimize.nnls(matrix, wanted)[0].reshape(r, c)


@pytest.mark.parametrize("tables", [25, long(400)])
def test_numbers_keep_their_sums_and_are_the_closest_rounded(tables):
    random = np.random.default_rng(6)
    for _ in range(tables):
        shape = random.integers(1, 6, 2)
        truth = random.poisson(random.choice([0.5, 4.0]), shape)
        rows, columns = truth.sum(axis=1), truth.sum(axis=0)
        estimates = truth + random.laplace(0, random.choice([0.3, 5.0]), shape)
        found = whole_table(estimates, rows, columns)
        assert found.dtype == np.int64
        assert found.min() >= 0
        assert found.sum(axis=1).tolist() == rows.tolist()
        assert found.sum(axis=0).tolist() == columns.tolist()
        assert abs(found - closest_table(estimates, rows, columns)).max() < 1.01


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_odd_tables_have_their_sums(scale):
    random = np.random.default_rng(7)
    for rows, columns in (
        ([0, 0], [0, 0, 0]),
        ([9, 0, 0], [3, 3, 3]),
        ([1_000_000, 1], [1, 999_999, 1]),
        ([5], [5]),
    ):
        estimates = random.normal(0, scale, (len(rows), len(columns)))
        found = whole_table(estimates, np.array(rows), np.array(columns))
        assert found.sum(axis=1).tolist() == rows
        assert found.sum(axis=0).tolist() == columns


def test_departures_of_a_sparse_table_are_not_inflated():
    """Rounding up negative estimates of many empty pairs would add hundreds of trips to a place."""
    random = np.random.default_rng(8)
    truth = np.zeros((60, 60), int)
    truth[:4, :4] = 500
    estimates = truth + random.laplace(0, 3, truth.shape)
    rows = np.maximum(np.rint(truth.sum(axis=1) + random.laplace(0, 5, 60)), 0).astype(int)
    columns = rows[random.permutation(60)]
    found = whole_table(estimates, rows, columns)
    assert abs(found.sum(axis=1) - truth.sum(axis=1)).max() < 60
