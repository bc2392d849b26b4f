"""The Slurm profile and the rules agree, according to Snakemake itself."""

import json
import re
import sys
from pathlib import Path

import pytest
import yaml
from waiting import run
from workflow.conftest import make_clone

ROOT = Path(__file__).parents[2]
PROFILE = yaml.safe_load((ROOT / "profiles/slurm/config.yaml").read_text())


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    """Return the rules that run a script, by name."""
    clone = make_clone(tmp_path_factory.mktemp("rules") / "clone")
    clone.write_configuration()
    script = Path(__file__).with_name("list_rules.py")
    listed = run([sys.executable, str(script)], seconds=120, cwd=clone.path)
    assert listed.returncode == 0, listed.stderr
    return {name: rule for name, rule in json.loads(listed.stdout).items() if rule["script"]}


def test_every_submitted_rule_states_memory_and_run_time(rules):
    submitted = {name: rule for name, rule in rules.items() if not rule["local"]}
    assert {"crop_checkins", "account_privacy", "release_histograms"} <= set(submitted)
    assert set(rules) - set(submitted) == {"fetch_file", "collect_privacy"}
    for name, rule in submitted.items():
        assert {"mem_mb", "runtime"} <= set(rule["resources"]), name


def test_groups_are_of_rules_that_exist(rules):
    assert set(PROFILE["groups"]) <= set(rules)
    assert set(PROFILE["group-components"]) <= set(PROFILE["groups"].values())


@pytest.mark.workflow
def test_the_groups_can_be_planned(tmp_path):
    """Snakemake refuses a group that depends on itself through a job outside it."""
    clone = make_clone(tmp_path / "clone")
    planned = clone.run("--workflow-profile=profiles/slurm", "--dry-run", "all")
    assert "release_histograms" in planned.stdout


def test_every_figure_and_every_stage_before_the_grid_is_in_a_group(rules):
    figures = {name for name, rule in rules.items() if "/figures/" in rule["output"]}
    assert {"draw_comparison", "draw_checkins"} <= figures
    assert {rules[name]["group"] for name in figures} == {"figures"}
    # A stage outside the group between two of its members would make the group impossible to run.
    grouped = {"lay_checkins", "crop_checkins", "sample_users", "grid_checkins"}
    assert grouped <= set(PROFILE["groups"])


def test_the_picture_of_the_pipeline_has_rules_that_exist(rules):
    picture = (ROOT / "docs/figures/pipeline.svg").read_text()
    drawn = set(re.findall(r"<text .*>(\w+)</text>", picture))
    assert {"crop_checkins", "account_privacy", "draw_comparison"} <= drawn <= set(rules)
