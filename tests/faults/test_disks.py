"""Disks that are full or read-only lead to a message, and to whole results or none."""

import hashlib
import subprocess
import sys

import numpy as np
import pytest
from needs import needs
from shuffledp.pipeline.jobs import job
from waiting import run

from faults.runs import TARGET, has_our_traceback, tables

NAMESPACE = ["unshare", "--map-root-user", "--mount"]


@pytest.fixture
def mounts(tmp_path):
    try:
        tried = run([*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], 300)
        reason = tried.stderr.strip() if tried.returncode else ""
    except OSError as error:
        reason = str(error)
    if reason:  # containers often forbid mounts, and nothing else can fill up like a disk
        pytest.skip(needs("machine", f"no mounts in a namespace here: {reason}"))


TMPFS = "mount -t tmpfs -o {} tmpfs results"
# The arguments are two commands: one mounts the disk, the other repairs it. The results of the
# second run follow a line SECOND.
SESSION = """
mkdir -p results
eval "$1"
{python} -m snakemake --cores 2 {target} 2>&1 && echo UNEXPECTED
find results -name '*.parquet' -exec sha256sum {{}} + | sort -k 2
eval "$2"
echo SECOND
{python} -m snakemake --cores 2 {target} >second 2>&1 || cat second
find results -name '*.parquet' -exec sha256sum {{}} + | sort -k 2
"""


def disturbed(clone, harm, remedy):
    """Run in a namespace before and after the remedy, and return what each run printed."""
    script = SESSION.format(python=sys.executable, target=TARGET)
    command = [*NAMESPACE, "sh", "-c", script, "sh", harm, remedy]
    done = run(command, seconds=900, cwd=clone.path)
    first, _, second = done.stdout.partition("SECOND\n")
    return first, [line.split(maxsplit=1) for line in second.splitlines()], done.stderr


@pytest.mark.faults
@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (TMPFS.format("size={size}k"), "No space left"),
        (TMPFS.format("ro"), "Read-only file system"),
    ],
    ids=["full disk", "read-only"],
)
def test_a_run_without_room_is_completed_when_there_is_room(clone, mounts, harm, message):
    clone.run(TARGET)
    undisturbed = tables(clone)
    assert set(undisturbed) == set(clone.plan(TARGET))
    subprocess.run(["rm", "-rf", "results", ".snakemake"], cwd=clone.path, check=True, timeout=300)
    for size in (24, 56) if "{size}" in harm else (0,):
        remedy = "mount -o remount,rw,size=100m results"
        first, second, errors = disturbed(clone, harm.format(size=size), remedy)
        assert "UNEXPECTED" not in first, first
        assert message in first, first
        assert not has_our_traceback(first), first
        assert {path for _, path in second} == set(undisturbed), (second, errors)
        for digest, path in second:
            assert digest == hashlib.sha256(undisturbed[path]).hexdigest(), path


@pytest.mark.parametrize("log", ["log", "absent/log"])
def test_job_without_memory_and_log(tmp_path, capfd, log):
    with pytest.raises(SystemExit), job(str(tmp_path / log)):
        np.ones((10**8, 10**8))
    printed = capfd.readouterr().err
    assert "Traceback" not in printed
    expected = "out of memory" if log == "log" else "No such file or directory"
    assert expected in printed
