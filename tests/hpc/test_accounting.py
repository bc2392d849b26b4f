"""The Slurm profile works at a site with accounts, partitions and sacct."""

import pytest
import yaml
from background import Background

from hpc.runs import RELEASED, SLURM, half_way, released, town
from hpc.slurm_site import manage

pytestmark = [pytest.mark.workflow, pytest.mark.slow]

ACCOUNT = "my_project"
PARTITION = "short"


@pytest.fixture(scope="module")
def site(accounted_slurm, tmp_path_factory):
    """Return the options of a site's own profile, whose account has an unusual name."""
    manage("add", "account", ACCOUNT, "Description=test", "Organization=test")
    manage("add", "user", "root", f"Account={ACCOUNT}")
    profile = tmp_path_factory.mktemp("profiles") / "site"
    profile.mkdir()
    resources = {"slurm_account": ACCOUNT, "slurm_partition": PARTITION}
    (profile / "config.yaml").write_text(yaml.safe_dump({"default-resources": resources}))
    return [f"--profile={profile}", *SLURM]


def test_jobs_run_under_the_account_of_the_site_and_maintenance_delays_them(
    accounted_slurm, site, undisturbed, tmp_path
):
    """Snakemake waits for a controller and a database that do not answer."""
    clone = town(tmp_path)
    stop = half_way(tmp_path)
    with Background(clone, *site, "--verbose", RELEASED, stop=stop) as run:
        run.wait_for_stop()
        database = accounted_slurm.database
        accounted_slurm.stop_controller()
        database.stop_daemon()
        run.wait_for(lambda: "could not check status" in run.printed(), "unanswered question")
        database.start_daemon()
        accounted_slurm.start_controller()
        stop.go_on()
        assert run.finished() == 0, run.printed()
    assert released(clone, undisturbed)
    rows = accounted_slurm.lines("sacct", "comment%40,account,partition,state", "--allocations")
    jobs = {comment: tuple(rest) for comment, *rest in map(str.split, rows)}
    assert any(name.startswith("rule_release_histograms") for name in jobs)
    assert set(jobs.values()) == {(ACCOUNT, PARTITION, "COMPLETED")}
