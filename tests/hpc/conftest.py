"""Fixtures of these tests: a Slurm of their own, and the tables of a local run."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from needs import needs
from workflow.conftest import TABLES, finished  # noqa: F401 - a fixture

from hpc.runs import tables
from hpc.slurm_site import SlurmSite, machine_to_ourselves, obstacle


def _skip_without_slurm(*, accounting: bool) -> None:
    # Needed are permission, root, Debian's packages and no other Slurm; .ci/run provides them.
    if reason := obstacle(accounting=accounting):
        pytest.skip(needs("accounting" if accounting else "slurm", reason))


@contextmanager
def _site(*, accounting: bool) -> Iterator[SlurmSite]:
    _skip_without_slurm(accounting=accounting)
    # The path is short because the name of a socket has at most 107 bytes.
    with machine_to_ourselves(), tempfile.TemporaryDirectory(prefix="slurm-") as folder:
        site = SlurmSite(Path(folder), accounting=accounting)
        try:
            site.start()
            yield site
        finally:
            site.stop()


@pytest.fixture(scope="module")
def slurm():
    with _site(accounting=False) as site:
        yield site


@pytest.fixture(scope="module")
def accounted_slurm():
    with _site(accounting=True) as site:
        yield site


@pytest.fixture(scope="session")
def undisturbed(request):
    """Return the tables of a local run."""
    _skip_without_slurm(accounting=False)
    results = tables(request.getfixturevalue("finished"))
    assert set(TABLES) <= set(results)
    return results
