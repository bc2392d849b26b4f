"""Runs of the tiny pipeline under Slurm, and where they stop to be disturbed."""

from pathlib import Path

from background import Stop
from workflow.conftest import make_clone

FOLDERS = ("checkins", "grids", "privacy", "releases", "utility")
GRIDS = "results/grids/town.shape.parquet"
RELEASED = "results/releases/town.shape.eps0-1.parquet"
RELEASE = "release_histograms"
# The first check comes early: these jobs last seconds, and each vain check delays the next by 10 s.
SLURM = [
    "--workflow-profile=workflow/profiles/slurm",
    "--slurm-init-seconds-before-status-checks=9",
]


def town(path):
    return make_clone(path / "clone of é")


def tables(clone):
    """Bytes of every finished table (a killed job may leave a hidden partial file)."""
    found = clone.outputs(*FOLDERS)
    return {name: data for name, data in found.items() if "/." not in name}


def half_way(folder):
    """A stop of the release job that is about to give its table its name."""
    return Stop(folder / "stop", "job os.rename results/releases/")


def job_of(process):
    """Slurm's number of the job that a process belongs to."""
    variables = Path(f"/proc/{process}/environ").read_bytes().decode().split("\0")
    return dict(variable.partition("=")[::2] for variable in variables)["SLURM_JOB_ID"]
