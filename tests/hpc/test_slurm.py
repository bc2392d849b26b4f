"""The Slurm profile on a real Slurm: the same bytes as a local run, whatever is killed half-way."""

import pytest

from hpc.daemons import wait_until
from hpc.runs import GRIDS, RELEASE, SLURM, TABLES, UTILITY, Background, half_way, tables, town

# One worker runs them all: there is one Slurm.
pytestmark = [pytest.mark.workflow, pytest.mark.xdist_group("slurm")]

# What docs/hpc.md says of such a site.
WITHOUT_ACCOUNTING = [*SLURM, "--slurm-status-command=squeue"]


@pytest.fixture
def gridded(tmp_path):
    """A clone where what is left to do are the jobs that get killed."""
    clone = town(tmp_path)
    clone.run(GRIDS)
    return clone


def test_tables_are_those_of_a_local_run(slurm, undisturbed, tmp_path):
    clone = town(tmp_path)
    result = clone.run(
        *WITHOUT_ACCOUNTING, f"--slurm-array-jobs={RELEASE},account_privacy", *TABLES, cores=1
    )
    assert "Group job prepare" in result.stderr
    assert "Submitted array job" in result.stderr
    assert tables(clone) == undisturbed
    again = clone.run("--dry-run", *TABLES)
    assert "Nothing to be done" in again.stdout + again.stderr


def test_a_cancelled_job_is_an_error_and_is_made_good(slurm, undisturbed, gridded):
    run = Background(gridded, *WITHOUT_ACCOUNTING, "--retries=0", UTILITY)
    slurm.cancel(half_way(gridded, slurm, run))
    assert run.process.wait(timeout=300) == 1
    assert "SLURM status is: 'CANCELLED'" in run.log.read_text()
    assert UTILITY not in tables(gridded)
    gridded.run(*WITHOUT_ACCOUNTING, UTILITY, cores=1)
    made = tables(gridded)
    assert made == {name: undisturbed[name] for name in made}
    assert UTILITY in made


def test_a_killed_scheduler_loses_nothing(slurm, undisturbed, gridded):
    run = Background(gridded, *WITHOUT_ACCOUNTING, UTILITY)
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
    gridded.run(*WITHOUT_ACCOUNTING, UTILITY, cores=1)
    made = tables(gridded)
    assert made == {name: undisturbed[name] for name in made}
    assert UTILITY in made
