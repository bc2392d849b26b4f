"""The profile on a real Slurm gives the bytes of a local run."""

import tempfile
from pathlib import Path

import pytest
from needs import needs
from workflow.conftest import TABLES, make_clone, nothing_to_do

from hpc.slurm_site import SlurmSite, machine_to_ourselves, obstacle

pytestmark = [pytest.mark.workflow, pytest.mark.slow]
FOLDERS = ("checkins", "grids", "privacy", "releases", "utility")
# These jobs last seconds, and each check in vain delays the next by 10 s: the first comes early.
# The last option is the one that docs/hpc.md gives for a site without accounting.
OPTIONS = [
    "--workflow-profile=profiles/slurm",
    "--slurm-init-seconds-before-status-checks=9",
    "--slurm-status-command=squeue",
]


@pytest.fixture(scope="module")
def slurm():
    # Needed are permission, root, Debian's packages and no other Slurm; .ci/run provides them.
    if reason := obstacle():
        pytest.skip(needs("slurm", reason))
    # The path is short because the name of a socket has at most 107 bytes.
    with machine_to_ourselves(), tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        site = SlurmSite(Path(folder))
        try:
            site.start()
            yield site
        finally:
            site.stop()


def test_tables_are_those_of_a_local_run(slurm, finished, tmp_path):
    clone = make_clone(tmp_path / "clone of é")
    clone.environment = slurm.environment()
    arrays = "--slurm-array-jobs=release_histograms,account_privacy"
    result = clone.run(*OPTIONS, arrays, *TABLES, cores=1)
    assert "Group job prepare" in result.stderr
    assert "Submitted array job" in result.stderr
    assert clone.outputs(*FOLDERS) == finished.outputs(*FOLDERS)
    assert nothing_to_do(clone.run("--dry-run", *TABLES))
