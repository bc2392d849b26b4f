"""Samples, privacy, releases, utility, comparison: each number's value and dependencies."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from town import COUNTS, release_tables

from shuffledp.accounting.bound_registry import get_bound
from shuffledp.accounting.conventions import log_of_delta
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.catalogue import CATALOGUE
from shuffledp.mechanisms.gaussian import gaussian_sigma
from shuffledp.mechanisms.randomised_response import KRandomisedResponse
from shuffledp.pipeline.selection import calibrated, read_calibrated
from shuffledp.pipeline.tables import (
    PRIVACY,
    RELEASES,
    SAMPLES,
    UTILITY,
    write_table,
)
from shuffledp.studies.individual import individual_summary, own_delta_summary
from shuffledp.studies.privacy import other_counts, privacy_curves, privacy_table
from shuffledp.studies.releases import BudgetSweep, matched_budgets
from shuffledp.studies.samples import read_samples, sample_sizes, sample_table
from shuffledp.studies.utility import COMPARISON_COLUMNS, comparison_summary

SAMPLE = np.array([0, 2, 26, 3, 45, 0, 0, 60, 30, 16, 12, 6])
SETTING = Setting(400, 12, 4.0)
TARGET = 1e-3
KEYS = [
    "n", "eps0", "eps", "log10_delta", "calibration", "mechanism", "estimator", "repetition",
    "cell",
]  # fmt: skip


class Twin(KRandomisedResponse):
    name = "twin"


@pytest.fixture
def twin(monkeypatch):
    entry = replace(CATALOGUE["krr"], name="twin", label="Twin", class_path=f"{__name__}.Twin")
    monkeypatch.setitem(CATALOGUE, "twin", entry)


def releases_and_utility(eps0=4.0, eps=(0.5,), **changes):
    """Return releases and their utility."""
    asked = {"samples": {400: COUNTS}, "mechanisms": ["gaussian", "krr"], "repetitions": 3}
    releases, utility = release_tables(BudgetSweep(eps0, eps, TARGET), **asked | changes)
    assert sorted(releases.columns) == sorted(RELEASES.names)
    assert sorted(utility.columns) == sorted(UTILITY.names)
    return releases, utility


def released(**changes):
    return releases_and_utility(**changes)[0]


def single_bin_log_delta(eps, others):
    """Return log delta of one cell's count, given the number of other users in the cell."""
    setting = replace(SETTING, count=int(others))
    return float(get_bound("single-bin").curve(setting).log_delta(eps).only)


# --- samples -------------------------------------------------------------------------------------


def test_a_sample_depends_on_its_own_size_only(tmp_path):
    names = {"seed": 1, "region": "town", "grid": "3x4"}
    both = sample_table(COUNTS, ["all", 200], **names)
    assert both["n"].drop_duplicates().tolist() == [200, 400]
    for n, rows in both.groupby("n"):
        assert rows["count"].sum() == n
        assert (rows["count"].to_numpy() <= COUNTS).all()
    more = sample_table(COUNTS, [300, 200, 100], **names)
    pd.testing.assert_frame_equal(
        more[more["n"] == 200].reset_index(drop=True), both[both["n"] == 200]
    )
    for other in ({"seed": 2}, {"region": "city"}, {"grid": "4x3"}):
        changed = sample_table(COUNTS, [200], **names | other)["count"]
        assert (changed.to_numpy() != both.loc[both["n"] == 200, "count"].to_numpy()).any()
    write_table(both.sample(frac=1.0, random_state=0), SAMPLES, tmp_path / "s.parquet", {})
    read = read_samples(tmp_path / "s.parquet")
    assert list(read) == [200, 400]
    np.testing.assert_array_equal(read[400], COUNTS)


def test_a_sample_cannot_exceed_the_data():
    assert sample_sizes(["all", 5, 400], 400, "here") == [5, 400]
    with pytest.raises(InputError, match=r"here: n must be at most 400.*got 401"):
        sample_sizes([401], 400, "here")


def test_a_sample_of_one_user_is_refused():
    with pytest.raises(InputError, match=r"here: shuffling needs at least 2 participants, got 1"):
        sample_sizes(["all"], 1, "here")
    assert sample_sizes(["all"], 2, "here") == [2]


# --- releases ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        {"eps": [0.25, 0.5, 1.0]},
        {"mechanisms": ["twin", "krr", "gaussian"]},
        {"repetitions": 5},
        {"samples": {200: SAMPLE, 400: COUNTS}},
    ],
    ids=lambda more: next(iter(more)),
)
@pytest.mark.usefixtures("twin")
def test_asking_for_more_changes_no_other_number(more):
    before, after = released(), released(**more)
    assert len(after) > len(before)
    assert not after.duplicated(KEYS).any()
    # All earlier rows are still there with the same digits.
    kept = before.merge(after, on=KEYS, how="left", suffixes=("", "_after"), validate="1:1")
    np.testing.assert_array_equal(kept["estimate_after"], kept["estimate"])


@pytest.mark.parametrize(
    "other", [{"seed": 8}, {"region": "city"}, {"grid": "4x3"}], ids=lambda other: next(iter(other))
)
def test_seed_region_and_grid_choose_the_random_stream(other):
    before, after = released(), released(**other)
    pd.testing.assert_frame_equal(before[KEYS], after[KEYS])
    assert (before["estimate"] != after["estimate"]).mean() > 0.9


def test_every_series_has_its_own_random_stream():
    """Series that share their noise could not be compared."""
    table = released(samples={200: COUNTS // 2, 400: COUNTS}, eps=[0.5, 0.6])
    raw = table[(table["estimator"] == "raw") & (table["cell"] == 0)]
    assert raw["estimate"].nunique() > 0.8 * len(raw)


def test_budgets_are_points_of_the_certified_curve():
    swept, target = matched_budgets(SETTING, [0.5], [TARGET])
    upper = get_bound("upper").curve(SETTING)
    assert (swept.eps, swept.label, target.label) == (0.5, "eps=0.5", "delta=0.001")
    assert swept.log_delta == float(upper.log_delta(0.5).only)
    assert target.log_delta == pytest.approx(log_of_delta(TARGET))
    assert float(upper.log_delta(target.eps).only) <= target.log_delta


def test_delta_hat_is_the_largest_of_one_cell_and_has_the_eps_of_the_comparison():
    table = released()
    rows = table[table["calibration"] == "delta-hat"]
    assert set(rows["mechanism"]) == {"gaussian"}
    (eps,), (log10_delta,) = rows["eps"].unique(), rows["log10_delta"].unique()
    assert eps == get_bound("upper").curve(SETTING).epsilon(log_of_delta(TARGET)).only
    largest = max(single_bin_log_delta(eps, count) for count in COUNTS[COUNTS > 0] - 1)
    assert log10_delta == pytest.approx(largest / np.log(10.0), rel=1e-12)
    assert log10_delta < np.log10(TARGET)  # it claims more than holds
    noise = (rows["estimate"] - COUNTS[rows["cell"]] / 400)[rows["estimator"] == "raw"]
    sigma = gaussian_sigma(eps, largest) / 400
    assert 0.5 * sigma < noise.std() < 1.5 * sigma


# --- privacy -------------------------------------------------------------------------------------


def test_bounds_that_look_at_one_cell_are_maximised_over_the_occupied_ones():
    table = privacy_table({400: COUNTS}, 4.0, [0.5, 1.0], ["single-bin", "upper"])
    assert sorted(table.columns) == sorted(PRIVACY.names)
    log_deltas = table.set_index(["bound", "eps"])["log10_delta"] * np.log(10.0)
    for eps in (0.5, 1.0):
        each = [single_bin_log_delta(eps, count) for count in COUNTS[COUNTS > 0] - 1]
        assert len(set(each)) > 1
        assert log_deltas["single-bin", eps] == pytest.approx(max(each), rel=1e-12)
        upper = float(get_bound("upper").curve(SETTING).log_delta(eps).only)
        assert log_deltas["upper", eps] == pytest.approx(upper, rel=1e-12)


def test_the_targets_own_report_is_not_counted_among_the_others():
    assert other_counts(np.array([0, 3, 3, 1, 10])).tolist() == [0, 2, 9]


def test_curves_go_from_0_to_where_the_loosest_guarantee_ends():
    table = privacy_curves(COUNTS, [4.0], ["upper", "lower", "clones"], TARGET)
    assert sorted(table.columns) == sorted(PRIVACY.names)
    for name, curve in table.groupby("bound", sort=False):
        eps, log10_delta = curve["eps"].to_numpy(), curve["log10_delta"].to_numpy()
        assert eps[0] == 0.0 and (np.diff(eps) > 0.0).all()
        for e, value in zip(eps, log10_delta, strict=True):
            expected = float(get_bound(name).curve(SETTING).log_delta(e).only) / np.log(10.0)
            assert value == pytest.approx(expected, rel=1e-12)
        assert (log10_delta[:-1] >= -12.0).all()
    assert (
        table["eps"].max() == get_bound("clones").curve(SETTING).epsilon(log_of_delta(1e-12)).only
    )
    assert get_bound("upper").curve(SETTING).epsilon(log_of_delta(TARGET)).only in set(table["eps"])


# --- utility -------------------------------------------------------------------------------------


@pytest.mark.parametrize("calibration", ["matched", "delta-hat"])
def test_calibrated_releases_can_be_read_one_by_one(tmp_path, calibration):
    table = released(samples={200: COUNTS // 2, 400: COUNTS}, eps=[0.2, 0.5])
    path = tmp_path / "releases.parquet"
    write_table(table, RELEASES, path, {})
    parts = list(read_calibrated(path, calibration, TARGET, n=400))
    firsts = table[(table["repetition"] == 0) & (table["n"] == 400)]
    expected = calibrated(firsts, calibration, TARGET)[RELEASES.names]
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), expected)
    assert [part["mechanism"].nunique() for part in parts] == [1] * len(parts)
    assert len(parts) == len(expected[["mechanism", "eps"]].drop_duplicates())


def test_utility_is_the_total_variation_distance_to_the_sample():
    samples = {200: SAMPLE, 400: COUNTS}
    table, utility = releases_and_utility(samples=samples, repetitions=2)
    keys = KEYS[:-1]
    truth = [samples[n][cell] / n for n, cell in table[["n", "cell"]].itertuples(index=False)]
    table["expected"] = 0.5 * np.abs(table["estimate"] - truth)
    expected = table.groupby(keys, dropna=False)["expected"].sum().reset_index()
    beside = utility.merge(expected, on=keys, validate="1:1")
    assert len(beside) == len(utility) == len(expected)
    np.testing.assert_allclose(beside["tv_distance"], beside["expected"], rtol=1e-12)


def test_the_error_of_a_cell_at_its_own_delta_is_that_of_its_gaussian():
    summary = individual_summary(released(), COUNTS, 1, TARGET)
    assert "delta-hat" not in set(summary["calibration"])
    own = own_delta_summary(summary, COUNTS).set_index("cell")
    assert list(own.reset_index()[summary.columns].columns) == list(summary.columns)
    assert set(own.index) == set(summary["cell"]) == set(range(1, 12))
    assert (own["calibration"] == "own-delta").all() and (own["mechanism"] == "gaussian").all()
    eps = summary[summary["calibration"] == "matched"]["eps"].iloc[0]
    for cell, others in [(1, 2), (2, 49), (6, 0)]:  # nobody is in cell 6
        log_delta = single_bin_log_delta(eps, others)
        assert own.loc[cell, "log10_delta"] == pytest.approx(log_delta / np.log(10.0))
        sigma = gaussian_sigma(eps, log_delta)
        drawn = np.abs(np.random.default_rng(1).normal(0.0, sigma / 400, 100_000))
        summarised = own.loc[cell, ["mean", "p10", "p90"]].to_numpy(float)
        expected = [drawn.mean(), *np.quantile(drawn, [0.1, 0.9])]
        np.testing.assert_allclose(summarised, expected, rtol=0.03)


# --- comparison ----------------------------------------------------------------------------------


def by_hand(distances):
    """Return a utility table, given distances by (mechanism, estimator)."""
    rows = [
        (mechanism, estimator, repetition, distance)
        for (mechanism, estimator), values in distances.items()
        for repetition, distance in enumerate(values)
    ]
    table = pd.DataFrame(rows, columns=["mechanism", "estimator", "repetition", "tv_distance"])
    matched = table["mechanism"] == "gaussian"
    return table.assign(
        n=100,
        eps0=4.0,
        eps=np.where(matched, 0.3, np.nan),
        log10_delta=np.where(matched, -3.0, np.nan),
        delta=np.where(matched, TARGET, np.nan),
        calibration=np.where(matched, "matched", "none"),
    )


HAND = {
    ("gaussian", "raw"): [1.0, 3.0],
    ("gaussian", "projected"): [0.5, 0.5],
    ("krr", "raw"): [3.0, 5.0],
    ("krr", "projected"): [1.0, 2.0],
    ("krr", "maximum-likelihood"): [0.25, 0.75],
    ("krr", "uncorrected"): [9.0, 9.0],
}


def summed(table, reference):
    summary = comparison_summary({"City": table}, {"City": "one user"}, TARGET, {"City": reference})
    assert list(summary.columns) == list(COMPARISON_COLUMNS)
    assert set(summary["reference"]) == {reference}
    assert set(summary["unit"]) == {"one user"}
    return summary.set_index(["mechanism", "estimator"])


def test_ratios_and_their_errors_by_hand():
    summary = summed(by_hand(HAND), "gaussian")
    assert "uncorrected" not in summary.index.get_level_values("estimator")
    assert summary["estimate"].to_dict() == {
        ("krr", "raw"): "raw",
        ("krr", "projected"): "projected",
        ("krr", "maximum-likelihood"): "projected",
        ("gaussian", "raw"): "raw",
        ("gaussian", "projected"): "projected",
    }
    raw = summary.loc["krr", "raw"]
    # The means are 4 and 2 with standard errors of 1, so the ratio errs by 2 sqrt(1/16 + 1/4).
    assert (raw["tv_distance"], raw["ratio"], raw["eps"]) == (4.0, 2.0, 0.3)
    assert raw["standard_error"] == pytest.approx(np.sqrt(1.25), rel=1e-12)
    assert (raw["p10"], raw["p90"]) == pytest.approx((3.2, 4.8), rel=1e-12)
    # Both means are 1/2, with standard errors 1/4 and 0.
    likely = summary.loc["krr", "maximum-likelihood"]
    assert (likely["ratio"], likely["standard_error"]) == pytest.approx((1.0, 0.5), rel=1e-12)
    assert summary.loc["krr", "projected"]["ratio"] == pytest.approx(3.0, rel=1e-12)
    own = summary.loc["gaussian"][["ratio", "standard_error"]]
    assert (own == [1.0, 0.0]).all(axis=None)


def test_a_comparison_needs_the_matched_target():
    with pytest.raises(InputError, match="target_delta"):
        comparison_summary({"A": by_hand(HAND)}, {"A": "one user"}, 1e-5, {"A": "gaussian"})


# --- selection -----------------------------------------------------------------------------------


def test_calibrated_selects_one_calibration_and_local_mechanisms():
    samples = {200: SAMPLE, 400: COUNTS}
    tables = [released(eps0=eps0, samples=samples, repetitions=2) for eps0 in (2.0, 4.0)]
    table = pd.concat(tables, ignore_index=True)
    matched = calibrated(table, "matched", TARGET)
    assert set(matched["calibration"]) == {"none", "matched"}
    at = matched[matched["calibration"] == "matched"]
    np.testing.assert_allclose(at["log10_delta"], np.log10(TARGET), atol=1e-9)
    np.testing.assert_allclose(at["delta"], TARGET, rtol=1e-9)
    # 4 series of k-RR, 2 of the Gaussian, 2 budgets, 2 sizes, 2 repetitions, 12 cells
    assert len(matched) == (4 + 2) * 2 * 2 * 2 * 12
    published = calibrated(table, "as-published", TARGET)
    assert set(published["calibration"]) == {"none", "as-published"}
    with pytest.raises(InputError, match=r"target_delta.*1e-05"):
        calibrated(table, "matched", 1e-5)
    with pytest.raises(InputError, match="as-published"):
        calibrated(matched, "as-published", TARGET)
    with pytest.raises(InputError, match=r"calibration must be one of.*'equal'"):
        calibrated(table, "equal", TARGET)
