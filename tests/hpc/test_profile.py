"""What the Slurm profile promises about the rules, checked without a scheduler."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
PROFILE = yaml.safe_load((ROOT / "workflow/profiles/slurm/config.yaml").read_text())


def rules():
    """Text of every rule that runs a script, by its name."""
    found = {}
    for path in sorted((ROOT / "workflow" / "rules").glob("*.smk")):
        blocks = re.split(r"^rule (\w+):$", path.read_text(), flags=re.MULTILINE)
        found |= dict(zip(blocks[1::2], blocks[2::2], strict=True))
    return {name: text for name, text in found.items() if "    script:\n" in text}


def test_every_submitted_rule_states_memory_and_run_time_and_is_measured():
    submitted = {name: text for name, text in rules().items() if "localrule: True" not in text}
    assert {"crop_checkins", "account_privacy", "release_histograms"} <= set(submitted)
    for name, text in submitted.items():
        assert re.search(r"mem_mb=escalating\(\d+\)", text), name
        assert re.search(r"runtime=escalating\(\d+\)", text), name
        assert f'"results/benchmarks/{name}' in text, name


def test_groups_are_of_rules_that_exist():
    assert set(PROFILE["groups"]) <= set(rules())
    assert set(PROFILE["group-components"]) <= set(PROFILE["groups"].values())


def test_the_container_is_built_from_the_lock_and_python_it_was_made_for():
    container = (ROOT / "Containerfile").read_text()
    # Debian 12 has Python 3.11.
    assert re.findall(r"^FROM (\S+)$", container, flags=re.MULTILINE) == [
        "docker.io/library/debian:bookworm-slim"
    ]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11"
    sources = re.findall(r"^COPY (\S+) ", container, flags=re.MULTILINE)
    assert sources == ["requirements.lock"]
    context = (ROOT / ".dockerignore").read_text().splitlines()
    assert context[1:] == ["*", *(f"!{source}" for source in sources)]


def test_every_figure_and_every_stage_before_the_grid_is_in_a_group():
    # A stage outside the group would lie between its members, and the group could not be run.
    grouped = {name for name in rules() if name.startswith("draw_")} | {
        "lay_checkins",
        "crop_checkins",
        "sample_users",
        "grid_checkins",
    }
    assert grouped <= set(PROFILE["groups"])
