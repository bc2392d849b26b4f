"""The Slurm profile on a real Slurm: the same bytes as a local run, whatever is killed half-way."""

import os
import signal
import subprocess
import sys

import pytest
from workflow.conftest import make_clone

from hpc.slurm_site import wait_until

# One worker runs them all: there is one Slurm.
pytestmark = [pytest.mark.workflow, pytest.mark.xdist_group("slurm")]

FOLDERS = ("checkins", "grids", "privacy", "releases", "utility")
GRIDS = "results/grids/town.shape.parquet"
UTILITY = "results/utility/town.shape.parquet"
TABLES = [
    UTILITY,
    "results/privacy/town.shape.parquet",
    "results/utility/comparison.csv",
    "results/utility/town.shape.individual.eps0-1.csv",
]
RELEASE = "release_histograms"
# The last two are what docs/hpc.md says of a site without accounting; the first check comes early
# because these jobs last seconds.
SLURM = [
    "--workflow-profile=workflow/profiles/slurm",
    "--slurm-status-command=squeue",
    "--slurm-init-seconds-before-status-checks=4",
]


def town(path):
    """A clone whose release jobs last long enough to be killed."""
    clone = make_clone(path / "clone of é")
    clone.config["repetitions"] = 200
    return clone


def tables(clone):
    """Bytes of every finished table (a killed job may leave a hidden partial file)."""
    found = clone.outputs(*FOLDERS)
    return {name: data for name, data in found.items() if "/." not in name}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Tables of a local run."""
    clone = town(tmp_path_factory.mktemp("local"))
    clone.run(*TABLES)
    return tables(clone)


@pytest.fixture
def gridded(tmp_path):
    """A clone where what is left to do are the jobs that get killed."""
    clone = town(tmp_path)
    clone.run(GRIDS)
    return clone


class Background:
    """Snakemake on Slurm, while the test goes on."""

    def __init__(self, clone, *arguments):
        self.log = clone.path / "run.log"
        command = [sys.executable, "-m", "snakemake", *SLURM, *arguments]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, cwd=clone.path, stdout=log, stderr=log, start_new_session=True
            )

    def wait_for(self, condition, what):
        def reached():
            assert self.process.poll() is None, self.log.read_text()
            return condition()

        wait_until(reached, what, seconds=300)

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def job_of(slurm, rule):
    """Slurm's number of a running job of the rule, or None."""
    for line in slurm.lines("squeue", "%i %k", "--states=RUNNING"):
        number, _, comment = line.partition(" ")
        if comment.startswith(f"rule_{rule}"):
            return number
    return None


def half_way(clone, slurm, run):
    """Wait until a release job is past Snakemake's start and in the rule's own code."""
    logs = clone.path / "results" / "logs"
    found = []

    def running():
        if any(logs.glob(f"{RELEASE}*")) and (job := job_of(slurm, RELEASE)):
            found.append(job)
        return bool(found)

    run.wait_for(running, "running job")
    return found[0]


def test_tables_are_those_of_a_local_run(slurm, undisturbed, tmp_path):
    clone = town(tmp_path)
    result = clone.run(*SLURM, f"--slurm-array-jobs={RELEASE},account_privacy", *TABLES, cores=1)
    assert "Group job prepare" in result.stderr
    assert "Submitted array job" in result.stderr
    assert tables(clone) == undisturbed
    assert set(TABLES) <= set(undisturbed)
    again = clone.run("--dry-run", *TABLES)
    assert "Nothing to be done" in again.stdout + again.stderr


def test_a_cancelled_job_is_an_error_and_is_made_good(slurm, undisturbed, gridded):
    run = Background(gridded, "--retries=0", UTILITY)
    slurm.cancel(half_way(gridded, slurm, run))
    assert run.process.wait(timeout=300) == 1
    assert "SLURM status is: 'CANCELLED'" in run.log.read_text()
    assert UTILITY not in tables(gridded)
    gridded.run(*SLURM, UTILITY, cores=1)
    made = tables(gridded)
    assert made == {name: undisturbed[name] for name in made}
    assert UTILITY in made


def test_a_killed_scheduler_loses_nothing(slurm, undisturbed, gridded):
    run = Background(gridded, UTILITY)
    job = half_way(gridded, slurm, run)
    run.kill()
    slurm.kill_controller()
    slurm.start_controller()
    assert job in slurm.lines("squeue", "%i", "--states=all"), "the new controller knows it"
    if left := slurm.jobs():  # they live on without Snakemake
        slurm.cancel(*left)
    wait_until(lambda: not slurm.jobs(), "end of the jobs that were left")
    assert UTILITY not in tables(gridded)
    gridded.run("--unlock")
    gridded.run(*SLURM, UTILITY, cores=1)
    made = tables(gridded)
    assert made == {name: undisturbed[name] for name in made}
    assert UTILITY in made
