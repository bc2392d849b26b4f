"""The machine's clock set while the pipeline runs: for machines that nobody else uses."""

import os
import subprocess
import time
from contextlib import contextmanager

import pytest

from faults.test_runs import DAY, FOLDERS, TARGET, YEARS, started

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(
        os.environ.get("SHUFFLEDP_SET_CLOCK") != "1" or os.geteuid() != 0,
        reason="sets the clock of the whole machine: needs SHUFFLEDP_SET_CLOCK=1 and root",
    ),
]


@contextmanager
def clock_set_by(seconds):
    """The clock is wrong inside, and right again to some milliseconds afterwards."""
    true = time.time() - time.monotonic()  # the monotonic clock is nobody's to set
    time.clock_settime(time.CLOCK_REALTIME, true + time.monotonic() + seconds)
    try:
        yield
    finally:
        time.clock_settime(time.CLOCK_REALTIME, true + time.monotonic())


@pytest.mark.parametrize(
    "seconds", [-10.0, -DAY, -YEARS, DAY], ids=["-10 s", "-1 d", "-10 y", "+1 d"]
)
def test_the_clock_set_while_the_pipeline_runs(clone, fault, seconds):
    """The run ends well or names the clock; once that is right it ends with the same bytes."""
    clone.run(TARGET)
    undisturbed = clone.outputs(*FOLDERS)
    for folder in FOLDERS:
        subprocess.run(["rm", "-rf", f"results/{folder}"], cwd=clone.path, check=True)
    with fault("clock set back" if seconds < 0 else "clock set forward"):
        run = started(clone)
        while not (clone.path / "results" / "checkins").exists():
            assert run.poll() is None, run.communicate()[0]
            time.sleep(0.02)
        with clock_set_by(seconds):
            printed = run.communicate(timeout=120)[0]
        assert run.returncode == 0 or "clock skew" in printed, printed
        made = clone.outputs(*FOLDERS)
        assert made == {name: undisturbed[name] for name in made}
        clone.run("--rerun-incomplete", TARGET)
        assert clone.outputs(*FOLDERS) == undisturbed
