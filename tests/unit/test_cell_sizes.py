"""Estimates from the same noisy counts on finer and finer grids."""

import numpy as np
import pytest

from shuffledp.studies.utility import cell_sizes_table

NAMES = {"seed": 5, "region": "town"}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    fine = np.where(rng.random(400) < 0.7, 0, rng.geometric(0.05, 400))
    return cell_sizes_table({"fine": fine, "coarse": fine.reshape(20, 20).sum(0)}, 1e-6, 4, **NAMES)


def test_grids_are_in_the_order_of_their_sizes_with_four_estimates_each(table):
    assert list(table["k"]) == [20] * 4 + [400] * 4
    assert list(table["grid"].unique()) == ["coarse", "fine"]
    assert list(table["estimator"][:4]) == ["raw", "clipped", "projected", "posterior"]
    assert table["n"].nunique() == 1
    fine = table[table["k"] == 400].set_index("estimator")
    assert 0.6 < fine["empty"].iloc[0] < 0.8
    assert fine["tv_distance"].is_monotonic_decreasing
    assert (table["standard_error"] > 0).all()
