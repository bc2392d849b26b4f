"""A run killed at a random moment does not change the bytes of the next run's results."""

import os
import shutil
import signal

import numpy as np
import pytest
from background import Background, Stop
from waiting import session, wait_until
from workflow.conftest import nothing_to_do

from faults.runs import RUN, TARGET, tables

pytestmark = pytest.mark.faults
# What is killed, how many times, and the options of the run.
TRIALS = [
    pytest.param("whole group", 4, [], id="whole group"),
    pytest.param("whole group", 3, ["--forceall"], id="whole group, forced run"),
    pytest.param("snakemake alone", 4, [], id="snakemake alone"),
    pytest.param("one job", 2, [], id="one job"),
]
# Patterns of file events; the number of such an event is a moment of the run.
EVENTS = {
    "whole group": r" results/|/\.snakemake/(locks|incomplete|metadata)/",
    "snakemake alone": r" results/|/\.snakemake/(locks|incomplete|metadata)/",
    "one job": r"^job ",
}
LOCKED = "Directory cannot be locked"


def events_of_a_run(clone, folder, pattern, *arguments):
    stop = Stop(folder, pattern, number=0)
    with Background(clone, *arguments, stop=stop) as run:
        assert run.finished() == 0, run.printed()
    return stop.events()


def kill(run, victim):
    """Kill the victim at the event where the run has stopped."""
    stopped = run.wait_for_stop()
    if victim == "whole group":
        run.kill()
    elif victim == "snakemake alone":
        run.process.kill()
        run.stop.go_on()  # the orphaned jobs finish their work
    else:
        os.kill(stopped, signal.SIGKILL)
        assert run.finished() == 1  # Snakemake says which job failed


def recover(clone, victim, printed, targets):
    """Follow the documentation, and check that Snakemake's own messages advise the same."""
    locked = any((clone.path / ".snakemake" / "locks").glob("*"))
    if victim == "one job":
        assert "Error in rule" in printed
        assert "Traceback" not in printed
        assert not locked, "a run that ended by itself leaves no lock"
    if locked:
        message = clone.refusal(*targets)
        assert LOCKED in message, message
        assert "--unlock" in message, message
        clone.run("--unlock")
    clone.run(*targets)


@pytest.mark.parametrize(("victim", "times", "options"), TRIALS)
def test_killed_at_a_random_moment(clone, tmp_path, victim, times, options):
    clone.config["eps0"] = [1]  # one job of each kind: more jobs add no other moments
    # Only what a run is asked for is complete at its end, so each table of every stage is named.
    targets = sorted(clone.plan(TARGET))
    arguments = [*RUN, *targets, *options]
    random = np.random.default_rng(20)
    if options:
        clone.run(TARGET)
    first = tables(clone)
    events = events_of_a_run(clone, tmp_path / "all", EVENTS[victim], *arguments)
    undisturbed = tables(clone)
    assert targets == sorted(undisturbed)
    assert first in ({}, undisturbed)
    for number in random.integers(1, events, size=times, endpoint=True):
        if not options:  # as if there had been no earlier run
            shutil.rmtree(clone.path / "results", ignore_errors=True)
            shutil.rmtree(clone.path / ".snakemake", ignore_errors=True)
        stop = Stop(tmp_path / f"before {number}", EVENTS[victim], number)
        with Background(clone, *arguments, stop=stop) as run:
            kill(run, victim)
            recover(clone, victim, run.printed(), targets)
            wait_until(lambda: not session(run.process.pid), "end of the orphans", 600)
            after = tables(clone)
            assert {n: data for n, data in after.items() if "/." not in n} == undisturbed
            names = tuple("." + path.rpartition("/")[2] for path in targets)
            hidden = [path for path in after if "/." in path]
            assert all(path.endswith(names) for path in hidden), hidden
    assert nothing_to_do(clone.run("--dry-run", *targets))
