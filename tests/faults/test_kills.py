"""Runs that are killed at random moments, and the next run's results byte for byte."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.faults
TARGETS = ["results/privacy/town.shape.parquet"]
FOLDERS = ["checkins", "grids", "privacy"]
TRIALS = [("whole group", 7), ("snakemake alone", 7), ("one job", 6)]
LOCKED = "Directory cannot be locked"


def session(leader):
    """Processes of a session with their command lines, read from /proc."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(state[3]) == leader and state[0] != "Z":
                found[int(folder.name)] = (folder / "cmdline").read_bytes().decode()
        except OSError:
            continue  # it has ended meanwhile
    return found


def started(clone, output):
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *TARGETS]
    return subprocess.Popen(
        command, cwd=clone.path, start_new_session=True, stdout=output, stderr=output
    )


def kill(process, victim, random):
    """Kill what is to be killed; False if there was nothing left to kill."""
    if victim == "one job":
        jobs = [pid for pid, command in session(process.pid).items() if "scripts/tmp" in command]
        if not jobs:
            return False
        try:
            os.kill(jobs[int(random.integers(len(jobs)))], signal.SIGKILL)
        except ProcessLookupError:
            return False
    elif process.poll() is not None:
        return False
    elif victim == "whole group":
        for pid in session(process.pid):
            os.kill(pid, signal.SIGKILL)
    else:
        process.kill()
    return True


def broken_run(clone, victim, duration, random):
    """Start from nothing and kill at a random moment; return what was printed."""
    while True:
        shutil.rmtree(clone.path / "results", ignore_errors=True)
        shutil.rmtree(clone.path / ".snakemake", ignore_errors=True)
        with (clone.path / "printed").open("w") as output:
            process = started(clone, output)
            deadline = time.monotonic() + random.uniform(0.3, 0.95 * duration)
            while time.monotonic() < deadline and process.poll() is None:
                time.sleep(0.02)
            killed = kill(process, victim, random)
            # Jobs killed with -9 are awaited by Snakemake; orphans finish what they do.
            if not killed or victim == "one job":
                process.wait(timeout=300)
        if killed and (victim != "one job" or process.returncode):
            process.wait(timeout=60)
            return process, (clone.path / "printed").read_text()


def recover(clone, victim, printed):
    """Do what the documentation tells a user to do, and see that Snakemake says so itself."""
    locked = any((clone.path / ".snakemake" / "locks").glob("*"))
    if victim == "one job":
        assert "Error in rule" in printed
        assert "Traceback" not in printed
        assert not locked, "a run that ended by itself leaves no lock"
    if locked:
        # Without --rerun-incomplete Snakemake may first name the incomplete files, and that option.
        refused = clone.run("--rerun-incomplete", *TARGETS, check=False)
        told = refused.stdout + refused.stderr
        assert refused.returncode != 0
        assert LOCKED in told, told
        assert "--unlock" in told, told
        clone.run("--unlock")
    clone.run("--rerun-incomplete", *TARGETS)


def test_killed_at_a_random_moment(clone, fault):
    begin = time.monotonic()
    clone.run(*TARGETS)
    duration = time.monotonic() - begin
    undisturbed = clone.outputs(*FOLDERS)
    random = np.random.default_rng(20)
    for victim in [victim for victim, times in TRIALS for _ in range(times)]:
        with fault(f"SIGKILL of {victim}"):
            process, printed = broken_run(clone, victim, duration, random)
            recover(clone, victim, printed)
            while session(process.pid):
                time.sleep(0.1)
            after = clone.outputs(*FOLDERS)
            assert {n: data for n, data in after.items() if "/." not in n} == undisturbed
            hidden = [name.rpartition("/")[2] for name in after if "/." in name]
            assert all(re.match(r"\.\d+\.town", name) for name in hidden), hidden
    idle = clone.run("--dry-run", *TARGETS)
    assert "Nothing to be done" in idle.stdout + idle.stderr
