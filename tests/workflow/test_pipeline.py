"""The pipeline is complete and reproducible, and repeats only what a change requires."""

import re

import pandas as pd
import pyarrow.parquet as pq
import pytest
import yaml

from shuffledp.pipeline.tables import read_metadata
from workflow.conftest import ROOT, copy, nothing_to_do

pytestmark = pytest.mark.workflow
TABLES = ["checkins", "grids", "samples", "privacy", "releases", "utility"]


def _planned(result):
    """Return the number of jobs of each rule in a dry run."""
    table = result.stdout.partition("Job stats:")[2].partition("total")[0]
    return {name: int(count) for name, count in re.findall(r"^(\w+)\s+(\d+)$", table, re.M)}


def _backwards(config):
    """Return the same configuration with its keys in reverse order."""
    if not isinstance(config, dict):
        return config
    return {key: _backwards(config[key]) for key in reversed(config)}


STEMS = (
    "comparison",
    "checkins.town.shape",
    "distances.town.shape.matched",
    "mechanisms.town.shape",
)


def says_what_it_holds(results):
    """Check that every column has a unit and every file says whether it is true data."""
    marks = {}
    for path in sorted(results.rglob("*.parquet")):
        schema = pq.read_schema(path)
        for field in schema:
            words = field.metadata or {}
            assert words.get(b"unit") and words.get(b"description"), (path, field.name)
        marks[path.relative_to(results).as_posix()] = schema.metadata[b"contents"].decode()
    for name, mark in marks.items():
        released = name.startswith("releases/")
        assert mark == ("simulated release" if released else "true data"), name
    assert set(marks.values()) == {"true data", "simulated release"}
    for path in sorted((results / "figures").iterdir()):
        assert b"contents: true data" in path.read_bytes(), path


@pytest.mark.slow
def test_same_bytes_for_any_number_of_cores_and_idle_the_second_time(whole, tmp_path):
    clone = copy(whole, tmp_path / "copy of é")
    before = clone.outputs(*TABLES, "figures")
    names = set(before)
    assert {"results/privacy/town.shape.parquet", "results/utility/town.shape.parquet"} <= names
    drawn = {f"results/figures/{stem}.{kind}" for stem in STEMS for kind in ("png", "pdf", "svg")}
    assert drawn <= names
    assert not [name for name in names if "/." in name], "no partial file is left"
    assert nothing_to_do(clone.run())
    again = {name for name in names if not name.startswith("results/figures/")} | drawn
    for name in again:
        (clone.path / name).unlink()
    clone.config = _backwards(clone.config)
    clone.run("--forceall", *again, cores=1)
    after = clone.outputs(*TABLES, "figures")
    assert set(after) == names
    assert [name for name in names if after[name] != before[name]] == []
    # A run without targets makes every missing table, because a killed run may have lost any.
    for lost in ["samples/town.shape.parquet", "releases/town.shape.eps0-1.parquet"]:
        (clone.path / "results" / lost).unlink()
        assert not nothing_to_do(clone.run("--dry-run"))
        clone.run(f"results/{lost}")
    assert nothing_to_do(clone.run("--dry-run"))

    privacy = pd.read_parquet(clone.path / "results/privacy/town.shape.parquet")
    assert list(privacy.columns) == ["n", "k", "eps0", "eps", "bound", "delta", "log10_delta"]
    assert set(privacy["bound"]) == {"single-bin", "single-bin-as-printed", "lower", "upper"}
    assert (privacy["k"] == 12).all()
    wide = privacy.pivot(index=["n", "eps0", "eps"], columns="bound", values="log10_delta")
    assert (wide["single-bin"] <= wide["upper"]).all()
    assert (wide["lower"] <= wide["upper"]).all()
    utility = pd.read_parquet(clone.path / "results/utility/town.shape.parquet")
    assert utility["tv_distance"].between(0, 10).all()
    assert set(utility["calibration"]) == {
        *("none", "matched", "delta-hat", "as-published", "target")
    }
    for path in (clone.path / "results/releases").iterdir():
        assert "whoever knows it can remove the noise" in read_metadata(path)["notice"]
    says_what_it_holds(clone.path / "results")
    individual = pd.read_csv(clone.path / "results/utility/town.shape.individual.eps0-1.csv")
    assert "own-delta" in set(individual["calibration"])
    # The figure over n includes the sample of all check-ins.
    labels = (clone.path / "results/figures/distances.town.shape.matched.svg").read_text()
    checkins = len(pd.read_parquet(clone.path / "results/checkins/town.parquet"))
    assert "n = 400" in labels and f"n = {checkins:,}" in labels


@pytest.mark.slow
def test_only_what_depends_on_a_changed_value_is_run_again(finished, tmp_path):
    targets = ["results/utility/town.shape.parquet", "results/privacy/town.shape.parquet"]
    clone = copy(finished, tmp_path / "copy of é")
    clone.config["eps0"] = [1, 2, 2.5]
    assert _planned(clone.run("--dry-run", *targets)) == {
        "account_privacy": 1,
        "collect_privacy": 1,
        "release_histograms": 1,
        "summarise_utility": 1,
    }
    clone.config["eps0"] = [1, 2]
    assert nothing_to_do(clone.run("--dry-run", *targets))


@pytest.mark.slow
def test_a_user_as_the_unit_counts_users(clone):
    lines = (clone.path / "check-ins.txt").read_text().splitlines()
    nobody = [line.replace(line.split("\t")[0], "", 1) for line in lines[:300]]
    (clone.path / "check-ins.txt").write_text("\n".join(nobody + lines[300:]) + "\n")
    clone.config |= {"unit": "user", "eps0": [1]}
    clone.config["regions"]["town"]["n"] = [50, "all"]
    tables = ["results/grids/town.shape.parquet", "results/privacy/town.shape.parquet"]
    clone.run(*tables, "results/figures/privacy.town.shape.svg")
    everyone = pd.read_parquet(clone.path / "results/checkins/town.parquet")
    users = everyone["user"].nunique()
    missing = int(everyone["user"].isna().sum())
    assert 0 < users < len(everyone) - missing
    assert missing > 0
    assert pd.read_parquet(clone.path / tables[0])["count"].sum() == users
    assert set(pd.read_parquet(clone.path / tables[1])["n"]) == {50, users}
    log = (clone.path / "results/logs/sample_users.town.log").read_text()
    assert f"{missing:,} without a user dropped" in log
    first = next((clone.path / "results/privacy").glob("town.shape.eps0-*.parquet"))
    assert read_metadata(first)["unit"] == '"user"'
    figure = (clone.path / "results/figures/privacy.town.shape.svg").read_text()
    assert f"n = {users:,} users" in figure


@pytest.mark.slow
def test_several_check_ins_of_each_user_count(clone):
    clone.config |= {"unit": "user", "records_per_user": 2, "eps0": [1]}
    town = clone.config["regions"]["town"]
    distinct = {**town, "title": "Distinct", "distinct": True, "n": ["all"]}
    clone.config["regions"] = {"town": {**town, "n": [50, "all"]}, "distinct": distinct}
    places = ["town.shape", "distinct.shape"]
    tables = [
        f"results/{stage}/{place}.parquet"
        for stage in ("grids", "privacy", "utility")
        for place in places
    ]
    figure = "results/figures/privacy.town.shape.svg"
    clone.run(*tables, figure, "results/utility/town.shape.csv")
    everyone = pd.read_parquet(clone.path / "results/checkins/town.parquet")
    expected = int(everyone.groupby("user").size().clip(upper=2).sum())
    grids = [pd.read_parquet(clone.path / table) for table in tables[:2]]
    assert everyone["user"].nunique() < grids[1]["count"].sum() <= grids[0]["count"].sum()
    assert grids[0]["count"].sum() == expected
    for table in tables:
        metadata = read_metadata(clone.path / table)
        assert metadata["records_per_user"] == "2"
        assert metadata["distinct"] == str("distinct." in table).lower()
    assert set(pd.read_parquet(clone.path / tables[2])["n"]) == {50, expected}
    summary = pd.read_csv(clone.path / "results/utility/town.shape.csv")
    assert set(summary["unit"]) == {"one user, at most 2 check-ins"}
    assert "unit: one user, at most 2 check-ins" in (clone.path / figure).read_text()


@pytest.mark.slow
def test_grids_are_compared_at_the_targets_by_the_mechanisms_of_the_region(clone):
    grids = {"shape": {"shape": [3, 4]}, "fine": {"shape": [6, 8]}}
    own = {"n": [400], "mechanisms": ["gaussian", "krr"], "grids": grids}
    clone.config["regions"]["town"] |= own
    mechanisms = ["two-servers", "krr", "gaussian"]
    clone.config |= {"eps0": [1], "targets": {"eps": [1], "delta": 1e-6, "mechanisms": mechanisms}}
    figures = {grid: f"results/figures/mechanisms.town.{grid}.svg" for grid in grids}
    compared = "results/utility/comparison.csv"
    clone.run(*figures.values(), compared)
    assert set(pd.read_csv(clone.path / compared)["region"]) == {"town, grid shape"}
    for grid, figure in figures.items():
        assert f"town, grid {grid}: every mechanism" in (clone.path / figure).read_text()
        rows = pd.read_csv(clone.path / f"results/utility/town.{grid}.csv")
        assert set(rows[rows["calibration"] == "target"]["mechanism"]) == {"gaussian", "krr"}


def test_default_configuration_plans_everything(clone):
    default = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
    clone.config = default
    planned = _planned(clone.run("--dry-run"))
    assert planned["account_privacy"] == planned["judge_cells"] == 4
    assert planned["release_histograms"] == 4 + 2 * len(default["targets"]["mechanisms"])
    assert planned["summarise_utility"] == planned["draw_checkins"] == 2
    assert planned["draw_comparison"] == 1
