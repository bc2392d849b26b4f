"""Downloads survive connections that break and servers that fail in several ways in a row."""

import gzip
import hashlib
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from unit.http_server import Answer, FileServer

from shuffledp.data.download import DownloadError, fetch, fetch_cached

CONTENT = gzip.compress(np.random.default_rng(5).bytes(200_000), mtime=0)
SHA256 = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
QUICK = {"backoff": 0.0, "timeout": 5.0}
# Seconds: a stalled server outlasts every test, a sound one answers within PATIENCE.
STALL = 600.0
PATIENCE = 1.0
PAGE = b"<!DOCTYPE html><html><body>502 Bad Gateway</body></html>"


@pytest.mark.parametrize("ranges", [True, False], ids=["honoured", "ignored"])
def test_breaks_at_byte_after_byte(tmp_path, ranges):
    """With ranges the attempts add up; without them the last attempt fetches everything."""
    random = np.random.default_rng(7)
    for trial in range(20):
        target = tmp_path / str(trial) / "checkins.txt.gz"
        breaks = [Answer(cut=int(c)) for c in random.integers(0, len(CONTENT) // 5, 5)]
        total = sum(answer.cut for answer in breaks)
        with FileServer(CONTENT, breaks, ranges=ranges) as server:
            fetch(server.url(), target, checksum=SHA256, **QUICK)
            assert target.read_bytes() == CONTENT
            last = server.requests[-1].get("Range")
            assert last == (f"bytes={total}-" if total else None) or not ranges


def _mishap(random):
    page = {"Content-Type": "text/html"}
    return [
        ("500", Answer(500)),
        ("503 with a page", Answer(503, PAGE, page)),
        ("break", Answer(cut=int(random.integers(len(CONTENT))))),
        ("stall", Answer(cut=int(random.integers(len(CONTENT))), stall=STALL)),
        ("page as 200", Answer(200, PAGE, page)),
        ("page as a file", Answer(200, PAGE)),
        ("wrong bytes", Answer(200, random.bytes(int(random.integers(1, 5000))))),
        ("nothing", Answer(200)),
        ("not found", Answer(404)),
    ][int(random.integers(9))]


@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in (10, 20, 30, 40, 50))]
)
def test_mishaps_in_a_row(tmp_path, first):
    """After up to four random mishaps a sound server gives the right bytes in the end."""
    for seed in range(first, first + 10):
        random = np.random.default_rng(seed)
        names, answers = zip(*(_mishap(random) for _ in range(random.integers(1, 5))), strict=True)
        target = tmp_path / str(seed) / "checkins.txt.gz"
        server = FileServer(CONTENT, list(answers), ranges=bool(random.random() < 0.5))
        with server:
            for _ in range(len(answers) + 1):
                try:
                    fetch(server.url(), target, checksum=SHA256, backoff=0.0, timeout=PATIENCE)
                    break
                except DownloadError as error:
                    assert server.url() in str(error), names
                    assert not target.exists(), names
            assert target.read_bytes() == CONTENT, names
            assert [path.name for path in target.parent.iterdir()] == [target.name], names


def test_two_sources_of_one_address_are_fetched_at_once(tmp_path):
    """Two sources may share an address: one job downloads the file, and both get it."""
    # The silence lets the other job arrive; if it arrives later, it finds the finished file.
    with (
        FileServer(CONTENT, [Answer(cut=9000, stall=2)]) as server,
        ThreadPoolExecutor(2) as jobs,
    ):
        targets = [tmp_path / name / "checkins.txt.gz" for name in "ab"]
        fetch_both = partial(fetch_cached, server.url(), cache=tmp_path / "c", checksum=SHA256)
        list(jobs.map(fetch_both, targets))
        assert [target.read_bytes() == CONTENT for target in targets] == [True, True]
        # One job continued after the break; the other found the file.
        assert [request.get("Range") for request in server.requests] == [None, "bytes=9000-"]
        assert [path for path in (tmp_path / "c").iterdir() if "part" in path.name] == []


def test_stalls_end_in_time(tmp_path):
    target = tmp_path / "checkins.txt.gz"
    with FileServer(CONTENT, [Answer(cut=0, stall=STALL)] * 9) as it:
        start = time.monotonic()
        with pytest.raises(DownloadError, match=r"in 3 attempts .* run again to resume"):
            fetch(it.url(), target, checksum=SHA256, retries=2, backoff=0.0, timeout=0.2)
        assert time.monotonic() - start < STALL, "none of the three waited for the server"
        assert len(it.requests) == 3
    assert not target.exists()
