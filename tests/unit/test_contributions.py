"""A bound on the records of each user: which count, what is promised, and what says so."""

import json
from collections import Counter
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shuffledp import Setting
from shuffledp.accounting.contributions import ONE_RECORD, Contributions, group_curve
from shuffledp.accounting.conventions import log_of_delta
from shuffledp.accounting.krr import upper_curve
from shuffledp.data.grid import count_checkins
from shuffledp.data.regions import region_from_config
from shuffledp.data.users import bounded_records, shuffle_checkins
from shuffledp.errors import InputError
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.mechanisms.target_calibration import calibrated, read_parameters
from shuffledp.pipeline.tables import SAMPLES, write_table
from shuffledp.studies.individual import own_delta_summary
from shuffledp.studies.privacy import privacy_curves, privacy_table
from shuffledp.studies.releases import BudgetSweep, TargetSweep, matched_budgets, release_sweep
from shuffledp.studies.samples import read_contributions
from shuffledp.studies.utility import run_summary, target_findings, utility_summary

COUNTS = np.array([700, 300, 120, 60, 20, 0])
N, K = int(COUNTS.sum()), COUNTS.size
TARGET = 1e-6
REGION = region_from_config("x", {"box": {"south": 0.0, "north": 1.0, "west": 0.0, "east": 1.0}})
BOUND = Contributions("user", 3)
UNIT = "one user, at most 3 check-ins"


# --- Which records count ------------------------------------------------------------------------


def by_hand(users, places, m, distinct):
    """Return the indices that count if records come in order of their priority."""
    counted_records, seen = [], Counter()
    for index, (user, place) in enumerate(zip(users, places, strict=True)):
        if seen[user] < m and not (distinct and seen[user, place]):
            counted_records.append(index)
            seen[user] += 1
            seen[user, place] += 1
    return counted_records


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("distinct", [False, True])
def test_the_first_records_of_each_user_count(m, distinct):
    rng = np.random.default_rng(5)
    for _ in range(200):
        size = int(rng.integers(0, 12))
        users, places = rng.integers(0, 3, size), rng.integers(0, 4, size)
        kept = bounded_records(users, places, np.arange(size), m, distinct=distinct)
        assert sorted(kept) == by_hand(users, places, m, distinct)


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("distinct", [False, True])
def test_a_user_moves_the_histogram_by_no_more_than_the_sensitivity(m, distinct):
    """All tables of one user in three cells, mixed among the records of others."""
    others = np.array([[1, 0], [2, 1], [1, 0], [2, 2], [1, 1]])
    priority = np.random.default_rng(2).permutation(20)

    def histogram(own):
        user = np.concatenate([others[:, 0], np.full(len(own), 7)])
        place = np.concatenate([others[:, 1], np.array(own, np.int64)])
        kept = bounded_records(user, place, priority[: user.size], m, distinct=distinct)
        return np.bincount(place[kept], minlength=4)

    tables = [own for size in range(4) for own in product(range(4), repeat=size)]
    found = {tuple(histogram(own)) for own in tables}
    moves = [np.subtract(a, b) for a in found for b in found]
    bound = Contributions("user", m, distinct)
    assert max(np.abs(move).sum() for move in moves) == bound.replacement_l1
    assert max((move**2).sum() for move in moves) == bound.replacement_l2_squared


def write(path, users, latitudes):
    rows = len(users)
    table = pa.table(
        {
            "user": pa.array(users, pa.int64()),
            "latitude": pa.array(latitudes, pa.float64()),
            "longitude": np.full(rows, 0.5),
        }
    )
    pq.write_table(table.replace_schema_metadata({"source_sha256": "ab"}), path)
    return table


def test_shuffled_check_ins_are_those_of_users_in_a_seeded_order(tmp_path, caplog):
    source, path = tmp_path / "in.parquet", tmp_path / "out.parquet"
    users = [7, None, 3, 7, None, 11, 3, 7]
    table = write(source, users, np.linspace(0.1, 0.9, 8))

    def shuffled(seed, region="x"):
        shuffle_checkins(source, path, seed=seed, region=region)
        return pq.read_table(path)

    with caplog.at_level("INFO"):
        first = shuffled(1)
    assert first.equals(shuffled(1))
    assert pq.read_schema(path).metadata[b"source_sha256"] == b"ab"
    assert first.sort_by("latitude").equals(table.filter(table["user"].is_valid()))
    orders = {tuple(shuffled(1, region)["latitude"].to_pylist()) for region in "abcdef"}
    assert len(orders) > 1
    assert "6 check-ins of users; 2 without a user dropped" in caplog.text
    write(source, [None], [0.5])
    with pytest.raises(InputError, match=r"has no users: set columns\.user"):
        shuffled(1)


@pytest.mark.parametrize(("distinct", "counts"), [(False, [3, 1]), (True, [2, 2])])
def test_check_ins_outside_the_cells_do_not_use_up_the_bound(tmp_path, distinct, counts):
    path = tmp_path / "shuffled.parquet"
    # User 1 is outside twice, then twice in the south and once in the north; user 2 in both.
    write(path, [1, 1, 1, 1, 1, 2, 2], [2.0, 2.0, 0.1, 0.1, 0.9, 0.9, 0.1])
    spec = {"shape": [2, 1]}
    cells, tally = count_checkins(REGION, spec, path, records_per_user=2, distinct=distinct)
    assert cells["count"].tolist() == counts
    assert str(tally) == "4 check-ins counted, 2 outside the grid, 1 beyond the bound per user"
    everything, tally = count_checkins(REGION, spec, path)
    assert everything["count"].tolist() == [3, 2]
    assert str(tally) == "5 check-ins counted, 2 outside the grid"


def test_the_check_ins_that_count_are_a_uniform_sample(tmp_path):
    source, path = tmp_path / "in.parquet", tmp_path / "out.parquet"
    write(source, [1] * 5, [0.1, 0.3, 0.5, 0.7, 0.9])
    tries, chosen = 200, np.zeros(5)
    for seed in range(tries):
        shuffle_checkins(source, path, seed=seed, region="x")
        cells, _ = count_checkins(REGION, {"shape": [5, 1]}, path, records_per_user=2)
        chosen += cells["count"].to_numpy()
    # Of 10 equally likely pairs; four degrees of freedom: above 24 once in ten thousand.
    expected = 0.4 * tries
    assert ((chosen - expected) ** 2 / (expected * 0.75)).sum() < 24


# --- What is promised ---------------------------------------------------------------------------


def test_tables_of_privacy_hold_for_all_records_of_a_user():
    setting, bounds = Setting(N, K, 4.0), ["upper", "lower", "single-bin-as-printed"]
    table = privacy_table({N: COUNTS}, 4.0, [0.5, 2.0], bounds, 3).set_index(["bound", "eps"])
    one = privacy_table({N: COUNTS}, 4.0, [0.5, 2.0], bounds).set_index(["bound", "eps"])
    for eps in (0.5, 2.0):
        expected = group_curve(upper_curve(setting), 3).upper(eps)
        assert np.log(10) * table["log10_delta"]["upper", eps] == pytest.approx(expected)
        assert table["delta"]["upper", eps] > one["delta"]["upper", eps]
        # A user with one record is among those who are protected.
        assert table["delta"]["lower", eps] == one["delta"]["lower", eps]
        assert table["delta"]["single-bin-as-printed", eps] > 0.0
    curves = privacy_curves(COUNTS, [4.0], ["upper"], TARGET, 3)
    assert curves["delta"].iloc[-1] < 1e-12 <= curves["delta"].iloc[-2]
    eps = group_curve(upper_curve(setting), 3).epsilon(log_of_delta(TARGET)).promised
    assert eps in set(curves["eps"])


NAMES = ["gaussian", "krr", "discrete-laplace", "shuffler-dummies"]


@pytest.fixture(scope="module")
def utility():
    sweep = TargetSweep([1.0], TARGET, contributions=BOUND)
    parts = release_sweep({N: COUNTS}, sweep, 2, NAMES, seed=1, region="r", grid="g")
    return pd.concat([part for _, part in parts])


def test_promises_at_targets_hold_for_all_records_of_a_user(utility):
    released = utility[["mechanism", "parameters"]].drop_duplicates()
    assert set(released["mechanism"]) == set(NAMES)
    for name, parameters in released.itertuples(index=False, name=None):
        mechanism, setting = MECHANISMS[name], Setting(N, K)
        noise = read_parameters(mechanism, parameters)
        assert mechanism.curve(noise, setting, BOUND).upper(1.0) <= log_of_delta(TARGET)
        # What protects a user protects a record by more; what protects a record, no user.
        assert mechanism.curve(noise, setting).upper(1.0) < log_of_delta(TARGET)
        for_record = calibrated(mechanism, 1.0, log_of_delta(TARGET), setting)
        assert mechanism.curve(for_record, setting, BOUND).upper(1.0) > log_of_delta(TARGET)


def test_costs_are_those_of_a_user_with_all_records(utility):
    rows = utility.groupby("mechanism").first()
    eps0 = read_parameters(MECHANISMS["krr"], rows["parameters"]["krr"]).eps0
    assert rows["local_eps0"]["krr"] == pytest.approx(3.0 * eps0)
    assert rows["local_eps0"]["krr"] >= 3.0 * eps0
    assert rows["messages"]["krr"] == 3.0


def test_mechanisms_are_matched_at_the_privacy_of_a_user():
    setting = Setting(N, K, 4.0)
    (budget,) = matched_budgets(setting, [], [TARGET], 3)
    certified = group_curve(upper_curve(setting), 3).epsilon(log_of_delta(TARGET)).promised
    assert budget.eps == certified
    sweep = BudgetSweep(4.0, [0.5], TARGET, BOUND)
    points = list(sweep.points([MECHANISMS["gaussian"]], COUNTS))
    names = [point.calibration.name for point in points]
    assert names == ["matched", "matched", "delta-hat", "as-published"]
    at_target = points[1].calibration
    assert at_target.eps == certified
    curve = MECHANISMS["gaussian"].curve(at_target.parameters, setting, BOUND)
    assert log_of_delta(TARGET) - 1e-6 < curve.upper(certified) <= log_of_delta(TARGET)
    # Delta-hat is the single-bin divergence of several records, which is below the guarantee.
    assert points[2].calibration.log_delta < at_target.log_delta


def test_own_deltas_are_those_of_several_records():
    rows = {"n": N, "eps0": 4.0, "calibration": "matched", "mechanism": "gaussian"}
    rows |= {"estimator": "raw", "cell": [1, 2], "eps": 1.0, "log10_delta": -6.0}
    rows |= {"repetitions": 1, "mean": 0.0, "p10": 0.0, "p90": 0.0}
    summary = pd.DataFrame(rows)
    one, three = (own_delta_summary(summary, COUNTS, each) for each in (ONE_RECORD, BOUND))
    assert (three["log10_delta"] > one["log10_delta"]).all()
    assert (three["mean"] != one["mean"]).all()


@pytest.mark.parametrize("more", [{"colluding": 2}, {"response_rate": 0.5}])
def test_several_records_of_colluders_and_dropouts_are_refused(more):
    with pytest.raises(InputError, match="need records_per_user=1, got records_per_user=3"):
        calibrated(MECHANISMS["krr"], 1.0, log_of_delta(TARGET), Setting(N, K, **more), BOUND)


def test_the_bound_is_read_from_the_file_that_it_describes(tmp_path):
    table = pd.DataFrame({"n": 2, "cell": [0, 1], "count": [1, 1]})
    metadata = {"records_per_user": json.dumps(3), "distinct": json.dumps(True)}
    write_table(table, SAMPLES, tmp_path / "bounded.parquet", metadata)
    write_table(table, SAMPLES, tmp_path / "plain.parquet", {})
    assert read_contributions(tmp_path / "bounded.parquet") == Contributions("user", 3, True)
    assert read_contributions(tmp_path / "plain.parquet") is ONE_RECORD


# --- What says so -------------------------------------------------------------------------------


def test_the_summary_of_a_run_says_that_the_promise_is_per_user(utility, tmp_path):
    summary = utility_summary(utility, "Town", UNIT)
    assert "(error of a cell, check-ins; per user, at most 3 check-ins)" in target_findings(summary)
    (tmp_path / "utility").mkdir()
    made = tmp_path / "utility/town.shape.csv"
    summary.to_csv(made, index=False)
    arguments = [str(made)], str(tmp_path), {"town.shape": "Town"}, TARGET
    said = run_summary(*arguments, {"town.shape": UNIT})
    assert f"Town: what follows protects {UNIT}, replaced by as many others." in said
    assert "what follows" not in run_summary(*arguments, {"town.shape": "one user"})
