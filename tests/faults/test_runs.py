"""Two runs in one folder, and files whose times say that the clock was set back or forward."""

import os
import signal
import subprocess
import sys
import time

import pytest

from faults.printed import has_our_traceback

pytestmark = pytest.mark.faults
TARGET = "results/privacy/town.shape.parquet"
GRID = "results/grids/town.shape.parquet"
FOLDERS = ["checkins", "grids", "privacy"]
DAY = 86_400.0
YEARS = 10 * 365 * DAY


def started(clone, *arguments):
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *arguments, TARGET]
    return subprocess.Popen(
        command,
        cwd=clone.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def test_two_runs_at_once(clone, fault):
    """One does the work; the other is turned away, saying why, or comes when all is done."""
    clone.run(TARGET)
    undisturbed = clone.outputs(*FOLDERS)
    for pause in (0.0, 2.0):
        with fault("two runs in one folder"):
            for folder in FOLDERS:
                subprocess.run(["rm", "-rf", f"results/{folder}"], cwd=clone.path, check=True)
            first = started(clone)
            time.sleep(pause)
            second = started(clone)
            printed = [run.communicate(timeout=600)[0] for run in (first, second)]
            codes = [first.returncode, second.returncode]
            assert 0 in codes, printed
            for code, text in zip(codes, printed, strict=True):
                assert code == 0 or "Directory cannot be locked" in text, text
            assert not any((clone.path / ".snakemake" / "locks").glob("*"))
            assert clone.outputs(*FOLDERS) == undisturbed


def test_two_runs_that_ignore_the_lock(clone, fault):
    """With --nolock jobs run twice at once; results are whole all the same."""
    clone.run(TARGET)
    undisturbed = clone.outputs(*FOLDERS)
    with fault("two runs without lock"):
        for folder in FOLDERS:
            subprocess.run(["rm", "-rf", f"results/{folder}"], cwd=clone.path, check=True)
        runs = [started(clone, "--nolock", "--rerun-incomplete") for _ in range(2)]
        printed = [run.communicate(timeout=600)[0] for run in runs]
        assert not any(map(has_our_traceback, printed)), printed
        if any(run.returncode for run in runs):
            clone.run("--rerun-incomplete", TARGET)
        assert clone.outputs(*FOLDERS) == undisturbed


def test_an_interrupted_run_cleans_up_after_itself(clone, fault):
    """Control-C and a batch system's SIGTERM: no lock is left, and the next run goes on."""
    clone.run(TARGET)
    undisturbed = clone.outputs(*FOLDERS)
    for number in (signal.SIGINT, signal.SIGTERM):
        with fault(f"{signal.Signals(number).name} of snakemake"):
            for folder in FOLDERS:
                subprocess.run(["rm", "-rf", f"results/{folder}"], cwd=clone.path, check=True)
            run = started(clone)
            while not (clone.path / "results" / "checkins").exists() and run.poll() is None:
                time.sleep(0.02)
            run.send_signal(number)
            run.communicate(timeout=600)
            assert not any((clone.path / ".snakemake" / "locks").glob("*"))
            clone.run("--rerun-incomplete", TARGET)
            assert clone.outputs(*FOLDERS) == undisturbed


def shift(paths, seconds):
    now = time.time()
    for path in paths:
        os.utime(path, (now + seconds, now + seconds))


def results(clone):
    return [path for path in (clone.path / "results").rglob("*") if path.is_file()]


def test_times_of_files_change_no_result(clone, fault):
    """As after a clock set back or forward: results stay the same bytes, and none stays stale."""
    data = clone.path / "check-ins.txt"
    shift([data], DAY)
    with fault("input from the future"):
        refused = clone.run(GRID, check=False)
        assert refused.returncode == 1
        assert "clock skew" in refused.stdout + refused.stderr
        assert clone.outputs("checkins", "grids") == {}
        shift([data], 0.0)
        clone.run(GRID)
        undisturbed = clone.outputs("checkins", "grids")
    for kind, seconds in (("results from the future", YEARS), ("results from the past", -YEARS)):
        with fault(kind):
            shift(results(clone), seconds)
            clone.run(GRID)
            assert clone.outputs("checkins", "grids") == undisturbed
    with fault("other input, time set back"):
        # Dated before the results, as by a clock set back or a copy that keeps times.
        text = data.read_text().splitlines()
        data.write_text("\n".join(text[:2000]) + "\n")
        shift(results(clone), 0.0)
        shift([data], -YEARS)
        clone.run(GRID, "--forcerun", "crop_checkins")
        changed = clone.outputs("checkins", "grids")
        assert changed != undisturbed
        clone.run(GRID, "--forceall")
        assert clone.outputs("checkins", "grids") == changed
