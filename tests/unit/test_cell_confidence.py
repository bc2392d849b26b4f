"""The standard errors that a release states agree with the spread of simulated releases."""

import numpy as np
import pandas as pd
import pytest
from town import PLACE, release_tables

from shuffledp.errors import InputError
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.pipeline.selection import calibrated
from shuffledp.pipeline.tables import CERTAINTY
from shuffledp.studies.individual import confidence_tables
from shuffledp.studies.releases import BudgetSweep

COUNTS = np.array([0, 30, 500, 70, 900, 10, 1, 1200, 600, 330, 250, 109])
N, K = int(COUNTS.sum()), COUNTS.size
TARGET = 1e-6


def released(mechanisms, repetitions, samples=None):
    sweep = BudgetSweep(3.0, [], TARGET)
    return release_tables(sweep, samples or {N: COUNTS}, mechanisms, repetitions)[0]


def judged(table, samples=None):
    parts = confidence_tables(table, samples or {N: COUNTS}, **PLACE)
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def few():
    return released(["gaussian", "krr"], 3)


# One mechanism for each law of noise; local randomisers take seconds to calibrate.
QUICK = ["gaussian", "krr", "discrete-laplace", "user-dummies", "shuffler-dummies"]
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in MECHANISMS if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_the_standard_error_is_the_spread_and_two_of_them_cover_the_truth(name):
    repetitions = 600
    releases = released([name], repetitions)
    at_target = releases if name == "krr" else calibrated(releases, "matched", TARGET)
    table = judged(at_target)
    raw = table[table["estimator"] == "raw"]
    assert len(raw) == repetitions * K
    cells = raw.groupby("cell")
    spread, stated = cells["estimate"].var(), (raw["standard_error"] ** 2).groupby(raw["cell"])
    np.testing.assert_allclose(stated.mean(), spread, rtol=0.25)
    assert stated.mean().sum() == pytest.approx(spread.sum(), rel=0.08)
    inside = raw["error"].abs() <= 2 * raw["standard_error"]
    assert 0.935 < inside.mean() < 0.97
    assert inside.groupby(raw["cell"]).mean().min() > 0.90
    known = cells["known"].mean()
    assert known[7] == 1.0
    assert known[0] < 0.06, "an empty cell is known by chance once in 30 to 44 releases"


def test_errors_and_intervals_are_in_users_and_need_no_truth(few):
    table = judged(few)
    assert table.columns.tolist() == CERTAINTY.names
    assert (table["error"] == table["estimate"] - table["count"]).all()
    np.testing.assert_array_equal(table["count"], COUNTS[table["cell"]])
    keys = ["calibration", "mechanism", "estimator", "repetition", "cell"]
    beside = few.merge(table, on=[*keys, "n", "eps0", "eps"], validate="1:1")
    np.testing.assert_allclose(beside["estimate_y"], N * beside["estimate_x"], rtol=1e-15)
    moved = judged(few, samples={N: COUNTS[::-1]})
    shown = [*keys, "estimate", "standard_error", "known"]
    pd.testing.assert_frame_equal(moved[shown], table[shown])


def test_only_an_unbiased_estimate_has_a_standard_error_and_decides_what_is_known(few):
    table = judged(few).set_index(["calibration", "mechanism", "repetition", "cell"])
    assert table["standard_error"].notna().equals(table["estimator"] == "raw")
    raw = table[table["estimator"] == "raw"]
    assert raw["known"].equals(raw["estimate"] > 2 * raw["standard_error"])
    assert 0 < raw["known"].mean() < 1
    for estimator in ("projected", "maximum-likelihood", "uncorrected"):
        other = table[table["estimator"] == estimator]
        assert not other.empty
        assert other["known"].equals(raw["known"].loc[other.index])


def test_half_a_release_is_refused(few):
    for part in (few[few["cell"] != 5], few.drop(index=few.index[0])):
        with pytest.raises(InputError, match="one unbiased estimate of gaussian for each of 12"):
            judged(part)
