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
PROFILE = yaml.safe_load((ROOT / "workflow/profiles/slurm/config.yaml").read_text())


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    """Return the rules that run a script, by name."""
    clone = make_clone(tmp_path_factory.mktemp("rules") / "clone")
    clone.write_configuration()
    script = Path(__file__).with_name("list_rules.py")
    listed = run([sys.executable, str(script)], seconds=120, cwd=clone.path)
    assert listed.returncode == 0, listed.stderr
    return {name: rule for name, rule in json.loads(listed.stdout).items() if rule["script"]}


def test_every_submitted_rule_states_memory_and_run_time_and_is_measured(rules):
    submitted = {name: rule for name, rule in rules.items() if not rule["local"]}
    assert {"crop_checkins", "account_privacy", "release_histograms"} <= set(submitted)
    assert set(rules) - set(submitted) == {"fetch_file", "collect_privacy"}
    for name, rule in submitted.items():
        assert {"mem_mb", "runtime"} <= set(rule["resources"]), name
        assert rule["benchmark"].startswith(f"results/benchmarks/{name}."), name


def test_groups_are_of_rules_that_exist(rules):
    assert set(PROFILE["groups"]) <= set(rules)
    assert set(PROFILE["group-components"]) <= set(PROFILE["groups"].values())


@pytest.mark.workflow
@pytest.mark.parametrize("target", ["all", "page"])
def test_the_groups_can_be_planned(tmp_path, target):
    """Snakemake refuses a group that depends on itself through a job outside it."""
    clone = make_clone(tmp_path / "clone")
    planned = clone.run("--workflow-profile=workflow/profiles/slurm", "--dry-run", target)
    assert "release_histograms" in planned.stdout


def test_every_figure_and_every_stage_before_the_grid_is_in_a_group(rules):
    figures = {name for name, rule in rules.items() if "/figures/" in rule["output"]}
    assert {"draw_comparison", "draw_checkins"} <= figures
    assert {rules[name]["group"] for name in figures} == {"figures"}
    # A stage outside the group between two of its members would make the group impossible to run.
    grouped = {"lay_checkins", "crop_checkins", "sample_users", "grid_checkins"}
    assert grouped <= set(PROFILE["groups"])


def test_actions_and_packages_of_hosted_checks_are_pinned():
    """Actions are pinned by commit and packages by hash, and the token is not left in the clone."""
    files = sorted((ROOT / ".github/workflows").iterdir())
    assert [path.name for path in files] == ["ci.yml", "nightly.yml", "weekly.yml"]
    for text in map(Path.read_text, files):
        actions = re.findall(r"uses: (\S+)", text)
        assert actions
        assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in actions)
        steps = [step for job in yaml.safe_load(text)["jobs"].values() for step in job["steps"]]
        clones = [step for step in steps if "checkout" in step.get("uses", "")]
        assert clones
        assert all(step.get("with", {}).get("persist-credentials") is False for step in clones)
    installed = re.findall(r"pip install .*", (ROOT / ".ci/run").read_text())
    assert all("--require-hashes" in line for line in installed)


def test_the_picture_of_the_pipeline_has_rules_that_exist(rules):
    picture = (ROOT / "docs/figures/pipeline.svg").read_text()
    drawn = set(re.findall(r"<text .*>(\w+)</text>", picture))
    assert {"crop_checkins", "account_privacy", "draw_comparison"} <= drawn <= set(rules)


def test_the_base_image_of_the_container_is_pinned():
    (base,) = re.findall("^FROM (.+)$", (ROOT / "Containerfile").read_text(), re.MULTILINE)
    assert re.fullmatch(r"docker\.io/library/debian:[\w-]+@sha256:[0-9a-f]{64}", base)


def test_files_that_the_container_copies_are_sent_to_its_builder():
    copied = re.findall(r"^COPY (\S+) ", (ROOT / "Containerfile").read_text(), flags=re.MULTILINE)
    sent = (ROOT / ".dockerignore").read_text().splitlines()
    assert copied
    assert sent[1:] == ["*", *(f"!{name}" for name in copied)]
