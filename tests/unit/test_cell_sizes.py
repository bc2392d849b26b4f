"""Estimates from the same noisy counts on finer and finer grids: table, text and figure."""

import gzip

import numpy as np
import pandas as pd
import pytest
from real_data import GOWALLA, needs_gowalla

from shuffledp.studies.cell_sizes import cell_sizes_table

NAMES = {"seed": 5, "region": "town"}
# San Francisco's box of config/config.yaml: south, north, west and east.
SOUTH, NORTH, WEST, EAST = 37.7228, 37.7946, -122.5153, -122.3789
# Distances that were measured independently, by estimator, for these numbers of cells.
MEASURED = {
    408: {"raw": 0.0048, "clipped": 0.0043, "projected": 0.0043, "posterior": 0.0045},
    1_632: {"raw": 0.0195, "clipped": 0.0148, "projected": 0.0138, "posterior": 0.0135},
    6_528: {"raw": 0.0782, "clipped": 0.0500, "projected": 0.0389, "posterior": 0.0332},
    26_112: {"raw": 0.3106, "clipped": 0.1741, "projected": 0.0938, "posterior": 0.0684},
}
EMPTY = {408: 0.15, 1_632: 0.40, 6_528: 0.66, 26_112: 0.84}


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


@needs_gowalla
def test_real_distances_are_those_that_were_measured_independently():
    with gzip.open(GOWALLA / "san_francisco_points.csv.gz") as file:
        points = pd.read_csv(file)
    histograms = {}
    for factor in (1, 2, 4, 8):
        rows = np.linspace(SOUTH, NORTH, 17 * factor + 1)
        columns = np.linspace(WEST, EAST, 24 * factor + 1)
        counts, *_ = np.histogram2d(points["latitude"], points["longitude"], [rows, columns])
        histograms[f"grid-{factor}"] = counts.ravel().astype(np.int64)
    table = cell_sizes_table(histograms, 1e-6, 6, **NAMES)
    for k, measured in MEASURED.items():
        rows = table[table["k"] == k].set_index("estimator")
        assert rows["n"].iloc[0] == 123_094
        assert rows["empty"].iloc[0] == pytest.approx(EMPTY[k], abs=0.005)
        for estimator, expected in measured.items():
            found = rows.loc[estimator]
            # Both are means of a few releases.
            spread = found["standard_error"] * np.sqrt(found["repetitions"])
            rounding = 0.00005
            assert abs(found["tv_distance"] - expected) < 4.0 * spread + rounding
            assert found["tv_distance"] == pytest.approx(expected, rel=0.06)
