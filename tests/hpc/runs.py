"""Runs of the tiny pipeline under Slurm, and the moment at which tests disturb them."""

import shutil
from pathlib import Path

from background import Stop
from workflow.conftest import copy, make_clone

FOLDERS = ("checkins", "grids", "privacy", "releases", "utility")
RELEASED = "results/releases/town.shape.eps0-1.parquet"
RELEASE = "release_histograms"
# These jobs last seconds, and each check in vain delays the next by 10 s: the first comes early.
SLURM = [
    "--workflow-profile=workflow/profiles/slurm",
    "--slurm-init-seconds-before-status-checks=9",
]


def town(path):
    return make_clone(path / "clone of é")


def sampled(finished, path):
    """Return a copy of a finished run without its releases and what is made of them."""
    clone = copy(finished, path / "clone of é")
    for folder in ("releases", "utility"):
        shutil.rmtree(clone.path / "results" / folder)
    return clone


def tables(clone):
    """Return the bytes of every finished table; a killed job may leave a hidden partial file."""
    results = clone.outputs(*FOLDERS)
    return {name: data for name, data in results.items() if "/." not in name}


def released(clone, undisturbed):
    """Return whether the releases were made and every table has the bytes of a local run."""
    results = tables(clone)
    return RELEASED in results and results.items() <= undisturbed.items()


def half_way(folder):
    """Return a stop at the moment when the release job is about to name its table."""
    return Stop(folder / "stop", "job os.rename results/releases/")


def job_of(process):
    """Return Slurm's number of the job that a process belongs to."""
    variables = Path(f"/proc/{process}/environ").read_bytes().decode().split("\0")
    return dict(variable.partition("=")[::2] for variable in variables)["SLURM_JOB_ID"]
