"""The workflow as a module of another one: from a clone, and deployed from a git host."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from needs import needs
from unit.http_server import FileServer

from shuffledp.data.embedded import lay_checkins
from workflow.conftest import ROOT, Clone, make_clone

pytestmark = pytest.mark.workflow

TABLES = ["results/grids/town.shape.parquet", "results/privacy/town.shape.parquet"]
LAID = "results/laid/embedded/paris.txt.gz"
FIGURE = "results/figures/privacy.town.shape.png"
ADDRESS = "https://github.com/someone/shuffledp"
SNAKEDEPLOY = shutil.which(
    "snakedeploy", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}"
)

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

DEPLOYED = """
module shuffledp:
    snakefile: github("someone/shuffledp", path="workflow/Snakefile", tag="v1")
    config: config

use rule * from shuffledp
"""

MODULE = """
module version_{number}:
    snakefile: {snakefile!r}
    config: config

use rule * from version_{number} as version_{number}_*
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


def _call(command, folder, environment):
    subprocess.run(command, cwd=folder, env={**os.environ, **environment}, check=True, timeout=120)


@pytest.fixture
def plain(finished, tmp_path):
    """Return the tables of a run in a clone itself, and the check-ins that it lays for the city."""
    laid = tmp_path / "laid.txt.gz"
    lay_checkins(ROOT / "resources" / "cell_counts" / "paris.csv", laid, seed=3)
    return {**_bytes(finished.path, *TABLES), LAID: laid.read_bytes()}


@pytest.fixture
def user(clone):
    """Return a user's folder around the clone, with a configuration but no workflow yet."""
    (clone.path.parent / "config").mkdir()
    return Clone(clone.path.parent, clone.config)


@pytest.fixture
def host(clone, tmp_path):
    """Return an environment in which git finds the clone, tagged v1, at ADDRESS."""
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
        _call(["git", *arguments], clone.path, environment)
    return environment


@pytest.mark.slow
def test_a_module_gives_the_bytes_of_a_plain_run_in_the_users_folder(clone, user, plain):
    (user.path / "Snakefile").write_text(RENAMED.format(clone=clone.path))
    user.config = {"shuffledp": clone.config, "other": {"key": "the user's own value"}}
    files_before = sorted(clone.path.iterdir())
    targets = [f"cities/{name}" for name in (*TABLES, LAID, FIGURE)]
    summary = user.run("copy", *targets).stdout
    assert "Figures: 1 in cities/results/figures/, as PNG, PDF and SVG.\n" in summary
    assert "shuffledp.onsuccess()" in (ROOT / "docs" / "module.md").read_text()
    assert _bytes(user.path / "cities", *TABLES, LAID) == plain
    assert (user.path / "copied.parquet").read_bytes() == plain[TABLES[1]]
    assert sorted(clone.path.iterdir()) == files_before, "nothing is written into the clone"


EXPORT = """
rule export:
    output: "cities/made.txt"
    shell: "cp check-ins.txt {output}"
"""


@pytest.mark.slow
def test_a_source_may_be_made_by_another_rule(clone, user):
    (user.path / "Snakefile").write_text(RENAMED.format(clone=clone.path) + EXPORT)
    user.config = {"shuffledp": clone.config}
    clone.config["sources"]["tiny"]["path"] = "made.txt"
    planned = user.run("--dry-run", f"cities/{TABLES[0]}")
    assert "rule export" in planned.stdout
    assert "there is no" not in planned.stdout + planned.stderr
    clone.config["sources"]["tiny"]["path"] = "absent.txt"
    missing = user.path / "cities" / "absent.txt"
    words = user.refusal("--dry-run", f"cities/{TABLES[0]}")
    assert f"sources.tiny.path: there is no {missing}" in words


def _refusal(user, *snakefiles):
    modules = [MODULE.format(number=i, snakefile=str(file)) for i, file in enumerate(snakefiles)]
    (user.path / "Snakefile").write_text('configfile: "config/config.yaml"\n' + "".join(modules))
    return user.refusal("--dry-run")


def test_two_versions_in_one_workflow_are_refused(clone, user, tmp_path):
    # A library is imported only once, so the jobs of one version would run the other's code.
    another = make_clone(tmp_path / "another")
    words = _refusal(user, clone.path / "Snakefile", another.path / "Snakefile")
    assert "two versions of shuffledp in one workflow" in words


def test_a_bare_address_is_refused(clone, user):
    rules = clone.path / "workflow" / "rules" / "library.smk"
    with FileServer(rules.read_bytes()) as server:
        assert "must be the path of a clone's Snakefile" in _refusal(user, server.url("Snakefile"))


@pytest.fixture
def deployed(clone, host, tmp_path):
    """Return a separate folder that takes the workflow from the host."""
    path = tmp_path / "deployed"
    for folder in ("config", "workflow"):
        (path / folder).mkdir(parents=True)
    (path / "workflow" / "Snakefile").write_text(f'configfile: "config/config.yaml"\n{DEPLOYED}')
    return Clone(path, clone.config, host)


@pytest.mark.faults
def test_a_module_from_a_git_host_gives_the_bytes_of_a_plain_run(deployed, plain):
    deployed.run(*TABLES, LAID, FIGURE)
    assert _bytes(deployed.path, *TABLES, LAID) == plain
    deployed.run(FIGURE, "--report", "report.html")
    report = (deployed.path / "report.html").read_text()
    assert "Delta of shuffled k-ary randomised response" in report, "the figure's caption"
    assert "only the bound named" in report, "the report's introduction"
    planned = deployed.run("--dry-run").stdout
    assert "rule default" in planned
    assert "lay_checkins" not in planned, "finished files are not made again"


@pytest.mark.skipif(SNAKEDEPLOY is None, reason=needs("snakedeploy", "not installed"))
def test_snakedeploy_writes_that_module(deployed, plain, host, tmp_path):
    shutil.rmtree(deployed.path)
    command = [SNAKEDEPLOY, "deploy-workflow", ADDRESS, str(deployed.path), "--tag", "v1"]
    _call(command, tmp_path, host)
    snakefile = (deployed.path / "workflow" / "Snakefile").read_text()
    for statement in DEPLOYED.split("\n\n"):
        assert "".join(statement.split()) in "".join(snakefile.split())
    assert (deployed.path / "config" / "README.md").exists()
    deployed.run(LAID)
    assert _bytes(deployed.path, LAID) == {LAID: plain[LAID]}
