"""The profile on a real Slurm gives the bytes of a local run, whatever is killed half-way."""

import pytest
from background import Background
from workflow.conftest import TABLES, nothing_to_do

from hpc.runs import RELEASE, RELEASED, SLURM, half_way, job_of, released, sampled, tables, town

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

# Options that docs/hpc.md gives for a site without accounting.
WITHOUT_ACCOUNTING = [*SLURM, "--slurm-status-command=squeue"]


@pytest.fixture
def clone(slurm, tmp_path):
    clone = town(tmp_path)
    clone.environment = slurm.environment_without_accounting()
    return clone


@pytest.fixture
def sampled_clone(slurm, finished, tmp_path):
    """Return a clone in which only the job that gets killed remains to be done."""
    clone = sampled(finished, tmp_path)
    clone.environment = slurm.environment_without_accounting()
    return clone


def test_tables_are_those_of_a_local_run(undisturbed, clone):
    result = clone.run(
        *WITHOUT_ACCOUNTING, f"--slurm-array-jobs={RELEASE},account_privacy", *TABLES, cores=1
    )
    assert "Group job prepare" in result.stderr
    assert "Submitted array job" in result.stderr
    assert tables(clone) == undisturbed
    assert nothing_to_do(clone.run("--dry-run", *TABLES))


def test_a_cancelled_job_is_an_error_and_the_next_run_repeats_it(
    slurm, undisturbed, sampled_clone, tmp_path
):
    options = [*WITHOUT_ACCOUNTING, "--retries=0"]
    with Background(sampled_clone, *options, RELEASED, stop=half_way(tmp_path)) as run:
        slurm.cancel(job_of(run.wait_for_stop()))
        assert run.finished() == 1
    assert "SLURM status is: 'CANCELLED'" in run.printed()
    assert RELEASED not in tables(sampled_clone)
    sampled_clone.run(*WITHOUT_ACCOUNTING, RELEASED, cores=1)
    assert released(sampled_clone, undisturbed)


def test_a_killed_scheduler_loses_nothing(slurm, undisturbed, sampled_clone, tmp_path):
    with Background(sampled_clone, *WITHOUT_ACCOUNTING, RELEASED, stop=half_way(tmp_path)) as run:
        job = job_of(run.wait_for_stop())
        slurm.wait_until_saved(job)
        run.kill()
    slurm.kill_controller()
    slurm.start_controller()
    assert job in slurm.lines("squeue", "%i", "--states=all"), "the new controller knows it"
    slurm.cancel(*slurm.jobs())  # the jobs outlive Snakemake
    slurm.wait_until_idle()
    assert RELEASED not in tables(sampled_clone)
    sampled_clone.run("--unlock")
    sampled_clone.run(*WITHOUT_ACCOUNTING, RELEASED, cores=1)
    assert released(sampled_clone, undisturbed)
