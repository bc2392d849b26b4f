"""Runs of the tiny pipeline that last long enough to be disturbed."""

import os
import signal
import subprocess
import sys

from workflow.conftest import make_clone

from hpc.daemons import wait_until

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
# The first check comes early because these jobs last seconds.
SLURM = [
    "--workflow-profile=workflow/profiles/slurm",
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


class Background:
    """Snakemake, while the test goes on."""

    def __init__(self, clone, *arguments):
        self.log = clone.path / "run.log"
        command = [sys.executable, "-m", "snakemake", *arguments]
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
