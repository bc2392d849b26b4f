"""A full disk leads to a message, and to whole results or none."""

import hashlib
import re
import subprocess
import sys

import pytest
from needs import needs
from waiting import run

from faults.test_kills import TARGET, tables

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


# A run on a disk of $1 kilobytes, and one after it has grown, whose results follow a line SECOND.
SESSION = """
mkdir -p results
mount -t tmpfs -o size=$1k tmpfs results
{python} -m snakemake --cores 2 {target} 2>&1 && echo UNEXPECTED
mount -o remount,rw,size=100m results
echo SECOND
{python} -m snakemake --cores 2 {target} >second 2>&1 || cat second
find results -name '*.parquet' -exec sha256sum {{}} + | sort -k 2
"""


@pytest.mark.faults
def test_a_run_without_room_is_completed_when_there_is_room(clone, mounts):
    clone.run(TARGET)
    undisturbed = tables(clone)
    assert set(undisturbed) == set(clone.plan(TARGET))
    script = SESSION.format(python=sys.executable, target=TARGET)
    for size in ("24", "56"):
        subprocess.run(["rm", "-rf", "results", ".snakemake"], cwd=clone.path, check=True)
        command = [*NAMESPACE, "sh", "-c", script, "sh", size]
        done = run(command, seconds=900, cwd=clone.path)
        first, _, second = done.stdout.partition("SECOND\n")
        assert "UNEXPECTED" not in first, first
        assert "No space left" in first, first
        assert not re.search(r'File "[^"]*shuffledp/', first), first
        digests = {path: digest for digest, path in map(str.split, second.splitlines())}
        expected = {path: hashlib.sha256(data).hexdigest() for path, data in undisturbed.items()}
        assert digests == expected, done.stderr
