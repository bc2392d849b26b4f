"""Two runs in one folder, interrupted runs, and files dated in the past or the future."""

import os
import signal
import time

import pytest
from background import Background, Stop

from faults.runs import RUN, TARGET, first_named, tables

pytestmark = pytest.mark.faults
GRID = "results/grids/town.shape.parquet"
DAY = 86_400.0
YEARS = 10 * 365 * DAY


def locks(clone):
    return list((clone.path / ".snakemake" / "locks").glob("*"))


def test_two_runs_at_once(clone, undisturbed, tmp_path):
    """The second run is refused with the reason; the first does the work."""
    with Background(clone, *RUN, stop=Stop(tmp_path / "stop", first_named(clone))) as first:
        first.wait_for_stop()
        assert "Directory cannot be locked" in clone.refusal(TARGET)
        first.stop.go_on()
        assert first.finished() == 0, first.printed()
        assert not locks(clone)
        assert tables(clone) == undisturbed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_cleans_up_after_itself(clone, undisturbed, tmp_path, number):
    """After Control-C or a batch system's SIGTERM no lock is left, and the next run continues."""
    with Background(clone, *RUN, stop=Stop(tmp_path / "stop", first_named(clone))) as run:
        run.wait_for_stop()
        run.process.send_signal(number)
        run.stop.go_on()
        run.finished()
        assert not locks(clone)
        clone.run(TARGET)
        assert tables(clone) == undisturbed


def shift(paths, seconds):
    now = time.time()
    for path in paths:
        os.utime(path, (now + seconds, now + seconds))


def results(clone):
    return [path for path in (clone.path / "results").rglob("*") if path.is_file()]


def test_times_of_files_change_no_result(clone):
    """After the clock was set back or forward, results have the same bytes and none is stale."""
    data = clone.path / "check-ins.txt"
    shift([data], DAY)
    assert "clock skew" in clone.refusal(GRID)
    assert tables(clone) == {}
    shift([data], 0.0)
    clone.run(GRID)
    undisturbed = tables(clone)
    for seconds in (YEARS, -YEARS):
        shift(results(clone), seconds)
        clone.run(GRID)
        assert tables(clone) == undisturbed
    # The source is older than the results, as after a copy that keeps the files' times.
    text = data.read_text().splitlines()
    data.write_text("\n".join(text[:2000]) + "\n")
    shift(results(clone), 0.0)
    shift([data], -YEARS)
    clone.run(GRID, "--forcerun", "crop_checkins")
    changed = tables(clone)
    assert changed != undisturbed
    clone.run(GRID, "--forceall")
    assert tables(clone) == changed
