"""A Slurm for the tests of this folder."""

import tempfile
from pathlib import Path

import pytest

from hpc.slurm_site import SlurmSite, machine_to_ourselves, obstacle


@pytest.fixture(scope="module")
def slurm():
    if reason := obstacle():
        pytest.skip(f"no Slurm on this machine: {reason}")
    # A short path: the name of a socket has at most 107 bytes.
    with machine_to_ourselves(), tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        site = SlurmSite(Path(folder))
        try:
            site.start()
            yield site
        finally:
            site.stop()
