"""The workflow as a module of another one: from a clone, and deployed from a git host."""

import os
import subprocess

import pytest

from shuffledp.data.embedded import lay_checkins
from workflow.conftest import ROOT, Clone

pytestmark = pytest.mark.workflow

TABLES = ["results/grids/town.shape.parquet", "results/privacy/town.shape.parquet"]
LAID = "results/laid/embedded/paris.txt.gz"
FIGURE = "results/figures/privacy.town.shape.png"
ADDRESS = "https://github.com/someone/shuffledp"

RENAMED = """
configfile: "config/config.yaml"

module shuffledp:
    snakefile: "{clone}/Snakefile"
    prefix: "cities"
    config: config["shuffledp"]

use rule * from shuffledp as shuffledp_*

rule copy:
    default_target: True
    input: expand(rules.shuffledp_collect_privacy.output, region="town", grid="shape")
    output: "copied.parquet"
    shell: "cp {{input}} {{output}}"

onsuccess:
    shuffledp.onsuccess()
"""

# What `snakedeploy deploy-workflow` writes.
DEPLOYED = """
configfile: "config/config.yaml"

module shuffledp:
    snakefile: github("someone/shuffledp", path="workflow/Snakefile", tag="v1")
    config: config

use rule * from shuffledp
"""


@pytest.fixture
def clone(clone):
    """Add a city whose counts ship with the workflow, and name the check-ins for any folder."""
    clone.config["sources"]["tiny"]["path"] = str(clone.path / "check-ins.txt")
    clone.config["sources"]["embedded"] = {"kind": "embedded"}
    clone.config["regions"]["paris"] = {
        **clone.config["regions"]["town"],
        "source": "embedded",
        "box": {"south": 48.8286, "north": 48.8798, "west": 2.2855, "east": 2.3909},
    }
    return clone


def _bytes(folder, *names):
    return {name: (folder / name).read_bytes() for name in names}


@pytest.fixture
def plain(finished, tmp_path):
    """Return the tables of a run in a clone itself, and the check-ins that it lays for the city."""
    laid = tmp_path / "laid.txt.gz"
    lay_checkins(ROOT / "resources" / "cell_counts" / "paris.csv", laid, seed=3)
    return {**_bytes(finished.path, *TABLES), LAID: laid.read_bytes()}


@pytest.mark.slow
def test_a_module_gives_the_bytes_of_a_plain_run_in_the_users_folder(clone, plain):
    user = Clone(clone.path.parent, {"shuffledp": clone.config})
    (user.path / "config").mkdir()
    (user.path / "Snakefile").write_text(RENAMED.format(clone=clone.path))
    files_before = sorted(clone.path.iterdir())
    targets = [f"cities/{name}" for name in (*TABLES, LAID, FIGURE)]
    summary = user.run("copy", *targets).stdout
    assert "Figures: 1 in cities/results/figures/, as PNG, PDF and SVG.\n" in summary
    assert _bytes(user.path / "cities", *TABLES, LAID) == plain
    assert (user.path / "copied.parquet").read_bytes() == plain[TABLES[1]]
    assert sorted(clone.path.iterdir()) == files_before, "nothing is written into the clone"


def test_another_version_of_the_package_is_refused(clone):
    project = clone.path / "pyproject.toml"
    project.write_text(project.read_text().replace('version = "', 'version = "9', 1))
    words = clone.refusal("--dry-run")
    assert "this workflow needs shuffledp 9" in words
    assert "pip install 'shuffledp[pipeline]==9" in words


@pytest.fixture
def deployed(clone, tmp_path):
    """Return a separate folder that takes the workflow from a git host, which is a local clone."""
    identity = {f"GIT_{who}_NAME": "a" for who in ("AUTHOR", "COMMITTER")}
    identity |= {f"GIT_{who}_EMAIL": "a@example.org" for who in ("AUTHOR", "COMMITTER")}
    environment = {
        **identity,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{clone.path}.insteadOf",
        "GIT_CONFIG_VALUE_0": ADDRESS,
        "GITHUB_TOKEN": "",  # a token would change the address, so that git would not replace it
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "First"], ["tag", "v1"]):
        command = ["git", *arguments]
        subprocess.run(command, cwd=clone.path, env=os.environ | environment, check=True)
    path = tmp_path / "deployed"
    for folder in ("config", "workflow"):
        (path / folder).mkdir(parents=True)
    (path / "workflow" / "Snakefile").write_text(DEPLOYED)
    return Clone(path, clone.config, environment)


@pytest.mark.slow
def test_a_module_from_a_git_host_gives_the_bytes_of_a_plain_run(deployed, plain):
    deployed.run(*TABLES, LAID, FIGURE)
    assert _bytes(deployed.path, *TABLES, LAID) == plain
    planned = deployed.run("--dry-run").stdout
    assert "rule default" in planned
    assert "lay_checkins" not in planned, "finished files are not made again"
