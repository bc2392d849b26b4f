"""Disks that are full or read-only lead to a message, and to whole results or none."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from needs import needs
from shuffledp.geography.checkins import SNAP, crop_checkins
from shuffledp.geography.regions import Box, Region
from shuffledp.pipeline.jobs import job
from shuffledp.pipeline.tables import PRIVACY, write_table
from unit.http_server import FileServer
from waiting import run
from workflow.conftest import checkin_lines

from faults.printed import has_our_traceback
from faults.runs import TARGET, tables

NAMESPACE = ["unshare", "--map-root-user", "--mount"]


def _may_mount(folder):
    try:
        done = subprocess.run(
            [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", str(folder)],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    except OSError as error:
        return str(error)
    return done.stderr.strip() if done.returncode else None


@pytest.fixture
def mounts(tmp_path):
    reason = _may_mount(tmp_path)
    if reason:  # containers often forbid mounts, and nothing else can fill up like a disk
        pytest.skip(needs("machine", f"no mounts in a namespace here: {reason}"))


def inputs(folder):
    folder.mkdir()
    (folder / "in.txt").write_text("\n".join(checkin_lines(12_000)) + "\n")
    region = Region("world", Box(-90, 90, -180, 180))
    crop_checkins(
        folder / "in.txt", SNAP, region, folder / "cropped.parquet",
        max_malformed_share=0, metadata={},
    )  # fmt: skip
    random = np.random.default_rng(1)
    numbers = {field.name: random.random(20_000) for field in PRIVACY}
    table = pd.DataFrame(numbers | {"n": 2, "k": 3, "bound": "upper"})
    write_table(table, PRIVACY, folder / "table.parquet", {})
    (folder / "counts.csv").write_text("south,west,north,east,count\n48,2,48.1,2.1,9000\n")
    return folder


def test_full_disk(tmp_path, mounts):
    """Write each kind of result to disks from 4 to 256 KiB and to one that is large enough."""
    worker = Path(__file__).with_name("full_disk.py")
    place = tmp_path / "place"
    place.mkdir()
    content = np.random.default_rng(2).bytes(150_000)
    with FileServer(content) as server:
        done = run(
            [*NAMESPACE, sys.executable, str(worker), str(place), str(inputs(tmp_path / "in")),
             server.url()],
            seconds=900,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    outcomes = json.loads(done.stdout)
    whole = {o["task"]: o["sha256"] for o in outcomes if o["kilobytes"] == 100_000}
    assert None not in whole.values()
    failed = set()
    for outcome in outcomes:
        if outcome["code"] == 0:
            assert outcome["sha256"] == whole[outcome["task"]], outcome
            continue
        failed.add(outcome["task"])
        assert outcome["sha256"] is None, outcome
        assert "No space left on device" in outcome["log"], outcome
        # A download keeps what it has, to continue from there.
        left = [name for name in outcome["left"] if ".part" not in name and ".lock" not in name]
        assert left == [] or outcome["task"] == "fetch", outcome
    assert failed == set(whole), "each task met a disk that was too small for it"


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
