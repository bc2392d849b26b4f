"""Runs do not disturb each other, and regions may have values and targets of their own."""

import re

import pandas as pd
import pytest

from shuffledp.pipeline.selection import at_targets
from shuffledp.studies.utility import findings, target_findings
from workflow.conftest import TABLES, copy, nothing_to_do

pytestmark = pytest.mark.workflow


@pytest.mark.slow
def test_two_runs_do_not_disturb_each_other(finished, tmp_path):
    clone = copy(finished, tmp_path / "copy of é")
    before = clone.outputs("checkins", "grids", "samples", "privacy")
    targets = ["grids/town.shape.parquet", "privacy/town.shape.parquet"]
    first = dict(clone.config)
    second = {**first, "run": "other", "eps0": [1], "eps": [0.25]}
    clone.config = second
    other = [f"results/other/{name}" for name in targets]
    clone.run(*other)
    assert set(pd.read_parquet(clone.path / other[1])["eps"]) == {0.25}
    for config, folder in [(first, "results"), (second, "results/other")]:
        clone.config = config
        assert nothing_to_do(clone.run(*(f"{folder}/{name}" for name in targets)))
    assert clone.outputs("checkins", "grids", "samples", "privacy") == before


@pytest.mark.slow
def test_a_run_summarises_its_results_at_the_end(whole, tmp_path):
    clone = copy(whole, tmp_path / "copy of é")
    table, figures = "results/utility/comparison.csv", "results/figures/"
    targets = "results/utility/town.shape.csv"
    summary = clone.run("--force", table, targets, f"{figures}comparison.png").stdout
    assert summary.index("one check-in, not a person") < summary.index(f"From {table}.\n\n")
    assert f"From {table}.\n\n" in summary
    assert findings(pd.read_csv(clone.path / table)) in summary
    assert target_findings(at_targets(pd.read_csv(clone.path / targets)), brief=True) in summary
    assert f"Figures: 1 in {figures}, as PNG, PDF and SVG; the main one is {figures}comp" in summary
    assert summary.count("as a multiple of") == 1, "once, not in every job"
    # The summary leaves out existing results that the run was not asked for.
    summary = clone.run("--force", f"{figures}privacy.town.shape.png").stdout
    assert f"Figures: 1 in {figures}, as PNG, PDF and SVG.\n" in summary
    assert "as a multiple of" not in summary
    assert "calibrated to" not in summary


@pytest.mark.slow
def test_regions_have_values_of_their_own_and_a_target_and_can_be_left_out(clone):
    town = clone.config["regions"]["town"]
    own = {"eps0": [1.5], "eps": [0.3], "repetitions": 2, "unit": "user",
           "mechanisms": ["krr", "gaussian"], "bounds": ["upper"], "n": [50]}  # fmt: skip
    clone.config["regions"] = {"town": town, "village": {**town, **own}, "ruin": {**town}}
    (clone.path / "over.yaml").write_text("regions:\n  ruin: null\n")
    overlay = ["--configfile", "config/config.yaml", "over.yaml", "--"]
    planned = clone.run("--dry-run", *overlay).stdout
    assert "village" in planned
    assert "ruin" not in planned

    planned = clone.run("--dry-run", *overlay, "village").stdout
    assert "distances.village.shape" in planned and "town.shape" not in planned
    stems = ["utility/village.shape.parquet", "privacy/village.shape.parquet",
             "figures/distances.village.shape.matched.svg"]  # fmt: skip
    targets = [f"results/{stem}" for stem in stems]
    clone.run(*overlay, *targets)
    results = clone.path / "results"
    assert not (results / "checkins" / "town.parquet").exists(), "only what was asked for"
    utility = pd.read_parquet(results / "utility" / "village.shape.parquet")
    assert set(utility["eps0"]) == {1.5}
    assert set(utility["repetition"]) == {0, 1}
    matched = utility[utility["calibration"] == "matched"]
    assert 0.3 in set(matched["eps"])
    privacy = pd.read_parquet(results / "privacy" / "village.shape.parquet")
    assert set(privacy["bound"]) == {"upper"}
    assert set(privacy["n"]) == {50}
    users = pd.read_parquet(results / "users" / "village.parquet")
    assert users["user"].is_unique
    assert pd.read_parquet(results / "grids" / "village.shape.parquet")["count"].sum() == len(users)
    figure = results / "figures" / "distances.village.shape.matched.svg"
    assert "number of users n" in figure.read_text()
    assert nothing_to_do(clone.run(*overlay, *targets))


def test_a_plan_has_memory_by_the_cells_of_a_grid_and_budgets_with_all_digits(clone):
    clone.config["regions"]["town"]["grids"]["fine"] = {"shape": [1000, 1000]}
    clone.config["eps0"] = [1, 1.23456789, 1.2345678]
    targets = [f"utility/town.{grid}.certainty.eps0-1.parquet" for grid in ("shape", "fine")]
    targets = [f"results/{name}" for name in (*targets, "privacy/town.shape.parquet")]
    printed = clone.run("--dry-run", *targets).stdout
    assert re.search(r"account_privacy +3\n", printed), printed
    assert "town.shape.eps0-1.23456789.parquet" in printed
    jobs = re.findall(
        r"^rule (\w+):\n(?:    .*\n)*?    wildcards: .*grid=(\w+).*\n(?:    .*\n)*?.*mem_mb=(\d+)",
        printed,
        re.MULTILINE,
    )
    memory = {(rule, grid): int(megabytes) for rule, grid, megabytes in jobs}
    for rule in ("grid_checkins", "draw_samples", "release_histograms", "judge_cells"):
        assert memory[rule, "shape"] < 2100
        assert memory[rule, "shape"] + 150 < memory[rule, "fine"] < 6000


@pytest.mark.slow
def test_a_run_that_drops_releases_deletes_them_when_nothing_reads_them(clone, finished):
    clone.config["releases"] = "drop"
    clone.run(*TABLES)
    assert not list((clone.path / "results" / "releases").glob("*.parquet"))
    for path in TABLES:
        assert (clone.path / path).read_bytes() == (finished.path / path).read_bytes()
    assert nothing_to_do(clone.run("--dry-run", *TABLES))
