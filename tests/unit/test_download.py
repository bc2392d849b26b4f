"""Downloads survive a real server on the loopback interface that breaks, lies and stalls."""

import errno
import hashlib
import logging
import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from http_server import Answer, FileServer
from waiting import run_python, wait_until

from shuffledp.data.download import DownloadError, fetch

CONTENT = bytes(range(256)) * 4096  # 1 MiB
OTHER = bytes(reversed(range(256))) * 4096
SHA256 = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
MD5 = "md5:" + hashlib.md5(CONTENT).hexdigest()
QUICK = {"backoff": 0.001, "timeout": 5.0}
CUT = 300_000


@pytest.fixture
def target(tmp_path):
    return tmp_path / "new" / "checkins.txt.gz"


def assert_only(target: Path, content: bytes) -> None:
    assert target.read_bytes() == content
    assert [path.name for path in target.parent.iterdir()] == [target.name]


def files_left(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir()) if target.parent.exists() else []


@contextmanager
def broken_then_fetched(target, answer, checksum, content=CONTENT, match=None, **server):
    """Yield the server of a download that failed, and then download all of `CONTENT` from it."""
    with FileServer(content, [answer], **server) as it:
        with pytest.raises(DownloadError, match=match):
            fetch(it.url(), target, checksum=checksum, retries=0, **QUICK)
        yield it
        fetch(it.url(), target, checksum=checksum, **QUICK)
    assert_only(target, CONTENT)


@pytest.mark.parametrize("checksum", [SHA256, MD5, SHA256.upper().replace("SHA", "sha")])
def test_a_download_is_verified_and_not_repeated(target, checksum):
    with FileServer(CONTENT) as server:
        for _ in range(2):
            fetch(server.url(), target, checksum=checksum, **QUICK)
        assert len(server.requests) == 1
    assert_only(target, CONTENT)


WEAK = {"ETag": 'W/"one"'}


@pytest.mark.parametrize(
    ("server", "checksum", "range_", "condition"),
    [
        ({}, SHA256, f"bytes={CUT}-", '"one"'),
        ({"ranges": False}, SHA256, f"bytes={CUT}-", '"one"'),
        ({"validators": WEAK}, SHA256, f"bytes={CUT}-", None),
        ({"validators": {}}, None, None, None),
    ],
    ids=["continued", "ranges ignored", "weak tag", "neither validator nor checksum"],
)
def test_a_broken_download_continues_only_where_that_is_safe(
    target, server, checksum, range_, condition
):
    with FileServer(CONTENT, [Answer(cut=CUT)], **server) as it:
        fetch(it.url(), target, checksum=checksum, **QUICK)
        assert it.requests[1].get("Range") == range_
        assert it.requests[1].get("If-Range") == condition
    assert_only(target, CONTENT)


@pytest.mark.parametrize("part", [CONTENT, CONTENT + b"more"], ids=["complete", "too long"])
def test_a_part_as_long_as_the_file_is_checked(target, part):
    with broken_then_fetched(target, Answer(cut=CUT), SHA256) as server:
        target.with_name(target.name + ".part").write_bytes(part)
    assert part != CONTENT or len(server.requests) == 2


def test_a_part_of_unknown_origin_is_discarded(target):
    target.parent.mkdir()
    target.with_name(target.name + ".part").write_bytes(OTHER[:CUT])
    with FileServer(CONTENT) as server:
        fetch(server.url(), target, checksum=SHA256, **QUICK)
        assert "Range" not in server.requests[0]
    assert_only(target, CONTENT)


def test_a_file_with_another_checksum_is_replaced_once_the_download_succeeds(target):
    target.parent.mkdir()
    target.write_bytes(OTHER)
    with broken_then_fetched(target, Answer(404), SHA256):
        assert_only(target, OTHER)


def test_without_checksum_the_obtained_one_is_logged(target, caplog):
    with FileServer(CONTENT) as server, caplog.at_level(logging.WARNING):
        fetch(server.url(), target, checksum=None, **QUICK)
        assert SHA256 in caplog.text
        fetch(server.url(), target, checksum=None, **QUICK)
        assert len(server.requests) == 1


def test_a_break_that_only_the_checksum_reveals(target):
    asked = {"match": f"the {CUT} bytes fetched have checksum", "stated_length": False}
    with broken_then_fetched(target, Answer(cut=CUT), SHA256, **asked):
        assert files_left(target) == []


def test_a_killed_process_leaves_no_file_and_the_next_one_continues(target):
    code = (
        "import sys; from pathlib import Path; from shuffledp.data.download import fetch; "
        "fetch(sys.argv[1], Path(sys.argv[2]), checksum=None)"
    )
    with FileServer(CONTENT, [Answer(cut=CUT, stall=600)]) as server:
        command = [sys.executable, "-c", code, server.url(), str(target)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(command, env=environment)
        part = target.with_name(target.name + ".part")
        wait_until(lambda: part.exists() and part.stat().st_size, "first bytes")
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
        assert not target.exists()
        obtained = part.stat().st_size
        assert 0 < obtained <= CUT
        fetch(server.url(), target, checksum=None, **QUICK)
        assert server.requests[1]["Range"] == f"bytes={obtained}-"
    assert_only(target, CONTENT)


@pytest.mark.parametrize("validators", [{"ETag": '"one"'}, {"Last-Modified": "yesterday"}])
def test_file_that_changed_meanwhile_is_fetched_from_the_start(target, validators):
    cut, options = Answer(cut=CUT), {"validators": validators}
    with broken_then_fetched(target, cut, None, OTHER, **options) as server:
        server.content = CONTENT
        server.validators = {name: value + "2" for name, value in validators.items()}


def test_the_tag_reveals_a_server_that_ignores_if_range(target):
    with broken_then_fetched(target, Answer(cut=CUT), None, OTHER) as server:
        server.content = CONTENT
        # The condition still holds for this server, but the answer has another tag.
        server.answers = [Answer(headers={"ETag": '"two"'})]


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_server_errors_are_tried_again(target, status):
    with FileServer(CONTENT, [Answer(status), Answer(status)]) as server:
        fetch(server.url(), target, checksum=SHA256, **QUICK)
        assert len(server.requests) == 3
    assert_only(target, CONTENT)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_refusals_fail_at_once(target, status):
    with FileServer(CONTENT, [Answer(status)]) as server:
        with pytest.raises(DownloadError, match=rf"checkins\.txt\.gz .* {status} "):
            fetch(server.url(), target, checksum=SHA256, **QUICK)
        assert len(server.requests) == 1
    assert files_left(target) == []


def test_wrong_checksum_shows_both_and_leaves_nothing(target):
    expected = "sha256:" + "0" * 64
    with FileServer(CONTENT) as server:
        with pytest.raises(DownloadError) as caught:
            fetch(server.url(), target, checksum=expected, **QUICK)
        assert len(server.requests) == 1
    assert expected in str(caught.value)
    assert f"set its checksum to {SHA256}" in str(caught.value)
    assert files_left(target) == []


@pytest.mark.parametrize("checksum", [None, SHA256])
@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "application/octet-stream"])
def test_web_page_instead_of_the_file_is_refused(target, checksum, content_type):
    page = b"\n<!DOCTYPE html><html><body>Down for maintenance</body></html>"
    refused = pytest.raises(DownloadError, match="a web page instead of the file")
    with FileServer(page, content_type=content_type) as server, refused:
        fetch(server.url(), target, checksum=checksum, **QUICK)
    assert files_left(target) == []


def test_web_page_under_its_own_name_is_fetched(target):
    page = b"<html></html>"
    with FileServer(page, content_type="text/html") as server:
        fetch(server.url("page.html"), target, checksum=None, **QUICK)
    assert_only(target, page)


def test_redirection_is_followed(target):
    with FileServer(CONTENT) as server:
        server.answers = [Answer(302, headers={"Location": server.url("elsewhere")})]
        fetch(server.url(), target, checksum=SHA256, **QUICK)
    assert_only(target, CONTENT)


@pytest.mark.parametrize(
    "checksum", ["8ebd5ed2dd376d8982987c49429cb9f9", "md5:12", "sha1:" + "0" * 40]
)
def test_badly_written_checksum(target, checksum):
    with pytest.raises(ValueError, match="checksum must be md5: followed by 32"):
        fetch("http://127.0.0.1:9/x", target, checksum=checksum)


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/x", "/home/x", ""])
def test_address_that_is_not_http(target, url):
    with pytest.raises(DownloadError, match="not an http or https address"):
        fetch(url, target, checksum=None)


def test_full_disk_is_reported_and_not_retried(target):
    # A limit on the size of files stands in for a full disk: both make write() fail.
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (CUT, CUT))

    code = (
        "import sys; from pathlib import Path; "
        "from shuffledp.data.download import fetch, DownloadError\n"
        "try: fetch(sys.argv[1], Path(sys.argv[2]), checksum=None)\n"
        "except DownloadError as error: print(error)"
    )
    with FileServer(CONTENT) as server:
        done = run_python("-c", code, server.url(), target, preexec_fn=limit)
        assert len(server.requests) == 1
    assert f".part cannot be written ({os.strerror(errno.EFBIG)})" in done.stdout
    assert not target.exists()
