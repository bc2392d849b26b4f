"""Results appear whole, are flushed before they get their name, and never collide between nodes."""

import errno
import os
import platform
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from shuffledp.pipeline.files import replacing


def test_two_writers_use_different_temporary_names(tmp_path):
    """Names contain the node and random digits: two nodes may use the same process id."""
    with replacing(tmp_path / "a.csv") as one, replacing(tmp_path / "a.csv") as other:
        assert one != other
        for path in (one, other):
            node, number, chance = path.name.removeprefix(".").removesuffix(".a.csv").rsplit(".", 2)
            assert platform.node().startswith(node)
            assert int(number) == os.getpid()
            assert len(bytes.fromhex(chance)) >= 4
            path.write_text(path.name)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_remains_of_killed_processes_are_removed_when_a_file_is_made_again(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    node = platform.node()[:20]
    abandoned = [f".{node}.{gone.pid}.{digits}.a.csv" for digits in ("00c0ffee", "11c0ffee")]
    kept = [
        f".{node}.{os.getpid()}.00c0ffee.a.csv",
        ".elsewhere.2.00c0ffee.a.csv",
        f".{node}.{gone.pid}.00c0ffee.b.csv",
        f"{node}.{gone.pid}.00c0ffee.a.csv",
    ]
    (tmp_path / abandoned[0]).mkdir()
    for name in [*abandoned[1:], *kept]:
        (tmp_path / name).write_text(name)
    with replacing(tmp_path / "a.csv") as temporary:
        temporary.write_text("1")
    assert {path.name for path in tmp_path.iterdir()} == {"a.csv", *kept}


def test_content_and_name_are_flushed_to_the_disk(tmp_path, monkeypatch):
    """The content is flushed before the file gets its name, the folder afterwards."""
    flushed = []

    def observed(descriptor, flush=os.fsync):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        flushed.append((path, (tmp_path / "a.csv").exists()))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", observed)
    with replacing(tmp_path / "a.csv") as temporary:
        temporary.write_text("1")
    assert flushed == [(temporary, False), (tmp_path, True)]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSPC])
def test_a_file_system_that_cannot_flush_folders_is_accepted(tmp_path, monkeypatch, number):
    def refused(descriptor):
        if Path(f"/proc/self/fd/{descriptor}").readlink() == tmp_path:
            raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refused)
    expected = nullcontext() if number == errno.EINVAL else pytest.raises(OSError, match="space")
    with expected, replacing(tmp_path / "a.csv") as temporary:
        temporary.write_text("1")
    assert (tmp_path / "a.csv").read_text() == "1"
