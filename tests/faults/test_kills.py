"""A run killed at a random moment does not change the bytes of the next run's results."""

import os
import shutil
import signal

import numpy as np
import pytest
from background import Background, Stop
from waiting import session, wait_until
from workflow.conftest import nothing_to_do

pytestmark = pytest.mark.faults
TARGET = "results/privacy/town.shape.parquet"
# Logs differ between runs, results do not.
LOGS = "results/logs/"
# What is killed, and the file events of which each is a moment of the run.
EVENTS = {
    "whole group": r" results/|/\.snakemake/(locks|incomplete|metadata)/",
    "one job": r"^job ",
}
LOCKED = "Directory cannot be locked"


def tables(clone):
    """Return the bytes of every result by its path, including files that a job left behind."""
    results = clone.outputs(".")
    return {path: content for path, content in results.items() if not path.startswith(LOGS)}


def recover(clone, printed, targets):
    """Follow the documentation, and check that Snakemake's own messages advise the same."""
    if any((clone.path / ".snakemake" / "locks").glob("*")):
        message = clone.refusal(*targets)
        assert LOCKED in message, message
        assert "--unlock" in message, message
        clone.run("--unlock")
    else:
        assert "Error in rule" in printed and "Traceback" not in printed
    clone.run(*targets)


@pytest.mark.parametrize("victim", EVENTS)
def test_killed_at_a_random_moment(clone, tmp_path, victim):
    clone.config["eps0"] = [1]  # one job of each kind: more jobs add no other moments
    # Only what a run is asked for is complete at its end, so each table of every stage is named.
    targets = sorted(clone.plan(TARGET))
    arguments = ["--cores", "2", *targets]
    counting = Stop(tmp_path / "all", EVENTS[victim], number=0)
    with Background(clone, *arguments, stop=counting) as run:
        assert run.finished() == 0, run.printed()
    undisturbed = tables(clone)
    assert targets == sorted(undisturbed)
    events = np.arange(counting.events()) + 1
    for number in np.random.default_rng(20).choice(events, size=3, replace=False):
        for folder in ("results", ".snakemake"):  # as if there had been no earlier run
            shutil.rmtree(clone.path / folder, ignore_errors=True)
        stop = Stop(tmp_path / f"before {number}", EVENTS[victim], number)
        with Background(clone, *arguments, stop=stop) as run:
            stopped = run.wait_for_stop()
            if victim == "whole group":
                run.kill()
            else:
                os.kill(stopped, signal.SIGKILL)
                assert run.finished() == 1  # Snakemake says which job failed
            recover(clone, run.printed(), targets)
            wait_until(lambda: not session(run.process.pid), "end of the orphans", 600)
        after = tables(clone)
        assert {n: data for n, data in after.items() if "/." not in n} == undisturbed
        names = tuple("." + path.rpartition("/")[2] for path in targets)
        hidden = [path for path in after if "/." in path]
        assert all(path.endswith(names) for path in hidden), hidden
    assert nothing_to_do(clone.run("--dry-run", *targets))
