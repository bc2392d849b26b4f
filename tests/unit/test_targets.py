"""Mechanisms calibrated to targets: measured and expected errors, and their summary."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from effort import long
from town import release_tables

from shuffledp import compare
from shuffledp.accounting.conventions import log_of_delta
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.catalogue import CATALOGUE, Look
from shuffledp.mechanisms.randomised_response import KRandomisedResponse
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.mechanisms.target_calibration import (
    calibrate_to_target,
    format_parameters,
    read_parameters,
)
from shuffledp.pipeline.tables import UTILITY, read_tables, write_csv, write_table
from shuffledp.publishing.statement import round_up
from shuffledp.studies.releases import TargetSweep
from shuffledp.studies.utility import (
    COLUMNS,
    target_findings,
    utility_summary,
)

SAMPLES = {
    200: np.array([0, 20, 5, 75, 60, 40]),
    400: np.array([0, 40, 10, 150, 120, 80]),
}
DELTA = 1e-4
DOCS = Path(__file__).parents[2] / "docs"
PARTICIPATION = {"colluding": 50, "response_rate": 0.7}


class Unable(KRandomisedResponse):
    """k-RR that finds no parameters for few users."""

    name = "unable"

    def _calibrate_record(self, eps, log_delta, setting):
        if setting.n < 300:
            raise InputError(f"n must be at least 300, got n={setting.n}")
        return super()._calibrate_record(eps, log_delta, setting)


@pytest.fixture
def unable(monkeypatch):
    entry = CATALOGUE["krr"]
    estimators = tuple(
        replace(each, look=Look("#CC79A7", "v", each.look.filled)) for each in entry.estimators
    )
    entry = replace(entry, name="unable", label="unable", estimators=estimators)
    monkeypatch.setitem(CATALOGUE, "unable", replace(entry, class_path=f"{__name__}.Unable"))


def releases_and_utility(
    mechanism, eps=(0.5, 1.0), delta=DELTA, colluding=0, response_rate=1.0, **changes
):
    """Return releases and their utility."""
    sweep = TargetSweep(eps, delta, colluding, response_rate)
    asked = {"samples": SAMPLES, "mechanisms": [mechanism], "repetitions": 3} | changes
    releases, utility = release_tables(sweep, **asked)
    assert list(utility.columns) and set(utility.columns) == set(UTILITY.names)
    return releases, utility


def measured(mechanism, **changes):
    return releases_and_utility(mechanism, **changes)[1]


def test_releases_state_their_standard_errors():
    releases, utility = releases_and_utility("gaussian", eps=[1.0], repetitions=2)
    biased = releases["estimator"] != "raw"
    assert releases["standard_error"].isna().equals(biased)
    estimates = releases[~biased & (releases["repetition"] == 0)]
    first = utility[(utility["estimator"] == "raw") & (utility["repetition"] == 0)]
    for n, counts in SAMPLES.items():
        rows = estimates[estimates["n"] == n]
        assert list(rows["cell"]) == list(range(6))
        distance = 0.5 * np.abs(rows["estimate"].to_numpy() - counts / n).sum()
        assert [distance] == pytest.approx(first[first["n"] == n]["tv_distance"].tolist())
        sigma = float(first[first["n"] == n]["parameters"].iloc[0].removeprefix("sigma="))
        assert n * rows["standard_error"].to_numpy() == pytest.approx(sigma)


def summed(*mechanisms):
    table = pd.concat([measured(name) for name in mechanisms], ignore_index=True)
    return utility_summary(table, "Town", "one check-in")


@pytest.mark.parametrize("mechanism", ["gaussian", "krr"])
def test_measured_errors_agree_with_expected_ones(mechanism):
    table = measured(mechanism, repetitions=1000)
    raw = table[table["estimator"] == "raw"]
    for (n, eps), rows in raw.groupby(["n", "eps"]):
        counts = SAMPLES[n]
        calibrated = calibrate_to_target(
            MECHANISMS[mechanism], eps, log_of_delta(DELTA), Setting(n, 6), counts / n
        )
        assert set(rows["expected_cell_error"]) == {calibrated.cell_sd}
        assert set(rows["expected_tv_distance"]) == {calibrated.tv_distance}
        assert set(rows["parameters"]) == {format_parameters(calibrated.parameters)}
        # 1000 releases of 6 cells: the relative standard error is about 0.01.
        mean_square = np.sqrt((rows["cell_error"] ** 2).mean())
        assert mean_square == pytest.approx(calibrated.cell_sd, rel=0.05)
        assert rows["tv_distance"].mean() == pytest.approx(calibrated.tv_distance, rel=0.05)
    others = table[table["estimator"] != "raw"]
    assert others["expected_tv_distance"].isna().all()
    summary = utility_summary(table, "Town", "one check-in")
    assert "uncorrected" not in set(summary["estimator"])  # no fair comparison


@pytest.mark.parametrize("mechanism", ["krr", "discrete-laplace"])
def test_expected_errors_hold_with_dropouts_and_colluders(mechanism):
    asked = {"samples": {200: SAMPLES[200]}, "eps": [1.0], **PARTICIPATION}
    table = measured(mechanism, repetitions=300, **asked)
    raw = table[table["estimator"] == "raw"]
    (cell_error,), (distance,) = (
        set(raw[f"expected_{column}"]) for column in ("cell_error", "tv_distance")
    )
    # 300 releases of 6 cells: the relative standard error is about 0.02.
    assert np.sqrt((raw["cell_error"] ** 2).mean()) == pytest.approx(cell_error, rel=0.1)
    # The expected distance assumes normal noise, which geometric noise is not.
    assert raw["tv_distance"].mean() == pytest.approx(distance, rel=0.1)


@pytest.mark.usefixtures("unable")
def test_a_mechanism_that_cannot_meet_a_target_has_a_row_that_says_why(tmp_path):
    write_table(measured("unable"), UTILITY, tmp_path / "targets.parquet", {})
    table = read_tables([tmp_path / "targets.parquet"])
    few = table[table["n"] == 200]
    assert list(few["eps"]) == [0.5, 1.0]
    assert set(few["reason"]) == {"n must be at least 300, got n=200"}
    assert few[["tv_distance", "cell_error", "messages"]].isna().all(axis=None)
    assert table[table["n"] == 400]["reason"].isna().all()


@pytest.mark.usefixtures("unable")
def test_the_summary_describes_every_series(tmp_path):
    summary = summed("gaussian", "krr", "unable")
    assert list(summary.columns) == list(COLUMNS)
    keys = ["n", "eps", "mechanism", "estimator"]
    assert not summary.duplicated(keys).any()
    table = measured("krr")
    rows = table[(table["n"] == 400) & (table["eps"] == 0.5) & (table["estimator"] == "raw")]
    (row,) = summary.query("n == 400 and eps == 0.5 and mechanism == 'krr' and estimator == 'raw'"
                           ).to_dict("records")  # fmt: skip
    assert row["tv_distance"] == pytest.approx(rows["tv_distance"].mean())
    assert row["cell_error_p90"] == pytest.approx(rows["cell_error"].quantile(0.9))
    assert row["trust"] == CATALOGUE["krr"].trust
    assert (row["region"], row["unit"], row["messages"]) == ("Town", "one check-in", 1.0)
    failed = summary[summary["reason"].notna()]
    assert set(failed["n"]) == {200}
    assert set(failed["mechanism"]) == {"unable"}
    assert failed["tv_distance"].isna().all()
    write_csv(summary, tmp_path / "summary.csv")
    assert target_findings(pd.read_csv(tmp_path / "summary.csv")) == target_findings(summary)


@pytest.mark.parametrize("rounds", [1, pytest.param(12, marks=pytest.mark.slow), long(52)])
def test_errors_of_maps_that_repeat_are_those_of_the_pages(rounds):
    names = ["discrete-laplace", "gaussian", "two-servers", "user-dummies", "krr"]
    setting = Setting(20_000, 200, rounds=rounds)
    entries = {}
    for name in names:
        (row,) = compare(1.0, 1e-8, setting, mechanisms=[name]).mechanisms
        moved = round_up(10.0 * row.calibration.per_user.moved_by_one, 3)
        error = f"{row.calibration.cell_sd:#.3g}".removesuffix(".")
        entries[name] = f"{error} ({moved})"
        if name == "two-servers":
            shape = "discrete Laplace" if rounds < 7 else "discrete Gaussian"
            assert row.calibration.shape == shape
    page = (DOCS / "choosing.md").read_text()
    assert f"| {rounds} | {' | '.join(entries.values())} |" in page


def test_formatted_parameters_can_be_read_again():
    shares, setting = np.full(12, 1 / 12), Setting(20_000, 12)
    gaussian = MECHANISMS["two-servers"].calibrate(1.0, np.log(1e-6), replace(setting, rounds=20))
    assert read_parameters(MECHANISMS["two-servers"], format_parameters(gaussian)) == gaussian
    for name in ("gaussian", "krr", "user-dummies", "two-servers", "local-hashing"):
        parameters = calibrate_to_target(
            MECHANISMS[name], 1.0, np.log(1e-6), setting, shares
        ).parameters
        words = format_parameters(parameters)
        assert format_parameters(read_parameters(MECHANISMS[name], words)) == words
