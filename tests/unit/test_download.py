"""A download is complete, verified and kept; an address with a secret is refused and not shown."""

import hashlib
import logging

import pytest
from http_server import FileServer

from shuffledp.data.download import check_address, fetch
from shuffledp.errors import InputError
from shuffledp.pipeline.schema import holds_secret

CONTENT = bytes(range(256)) * 4096  # 1 MiB
SHA256 = "sha256:" + hashlib.sha256(CONTENT).hexdigest()
MD5 = "md5:" + hashlib.md5(CONTENT).hexdigest()


def download(server, folder, checksum, path="checkins.txt.gz"):
    target = folder / "new" / "checkins.txt.gz"
    fetch(server.url(path), target, cache=folder / "cache", checksum=checksum)
    return target


@pytest.mark.parametrize("checksum", [SHA256, MD5])
def test_a_download_is_verified_and_kept_in_the_cache(tmp_path, checksum):
    with FileServer(CONTENT) as server:
        for _ in range(2):
            target = download(server, tmp_path, checksum)
            assert target.read_bytes() == CONTENT
            target.unlink()
        assert len(server.requests) == 1


def test_without_checksum_the_obtained_one_is_logged(tmp_path, caplog):
    with FileServer(CONTENT) as server, caplog.at_level(logging.WARNING):
        download(server, tmp_path, None)
    assert SHA256 in caplog.text


def test_a_wrong_checksum_shows_the_expected_and_the_obtained_one(tmp_path):
    with FileServer(CONTENT) as server, pytest.raises(InputError) as refused:
        download(server, tmp_path, "sha256:" + "0" * 64)
    assert "0" * 64 in str(refused.value)
    assert SHA256.removeprefix("sha256:") in str(refused.value)
    assert files(tmp_path) == []


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize("checksum", [None, SHA256])
def test_a_broken_connection_leaves_no_part_under_any_name(tmp_path, checksum):
    with FileServer(CONTENT, cut=300_000) as server:
        with pytest.raises(InputError, match=r"checkins\.txt\.gz cannot be fetched"):
            download(server, tmp_path, checksum)
        assert files(tmp_path) == []
        server.cut = None
        assert download(server, tmp_path, checksum).read_bytes() == CONTENT


def test_a_signed_address_to_which_the_server_redirects_is_not_shown(tmp_path, capfd, caplog):
    caplog.set_level(logging.DEBUG)
    with FileServer(CONTENT) as server:
        server.failures = [lambda path: server.url("b.gz?signature=c0ffee"), 403]
        with pytest.raises(InputError, match="403") as refused:
            download(server, tmp_path, SHA256)
        assert server.requests[-1] == "/b.gz?signature=c0ffee"
    ours = [each.getMessage() for each in caplog.records if each.name.startswith("shuffledp")]
    assert "c0ffee" not in "".join([str(refused.value), *ours, *capfd.readouterr()])


KEYS = ["token", "access_token", "apikey", "key", "Key-Pair-Id", "AWSAccessKeyId", "sv=1;sig"]
KEYS += ["X-Amz-Signature", "X-Amz-Credential", "auth", "pwd", "password", "client_secret"]
KEYS += ["%74oken"]


@pytest.mark.parametrize(
    "text",
    [
        *("https://me:word@example.org/a.gz", "ftp://word@example.org"),
        *(f"https://example.org/a.gz?n=1&{key}=word" for key in KEYS),
        "https://example.org/a.gz#access_token=word",
    ],
)
def test_an_address_that_holds_a_secret_is_recognised(text):
    assert holds_secret(text)


@pytest.mark.parametrize(
    "text",
    [
        "https://snap.stanford.edu/data/loc-gowalla_totalCheckins.txt.gz",
        "https://example.org/get?file=a/b&year=2010&author=me&design=2&keyword=x&page=3",
        "https://example.org/by/me@home.csv",
        "data/token=1/key.csv",
    ],
)
def test_other_addresses_and_paths_hold_none(text):
    assert not holds_secret(text)


@pytest.mark.parametrize(
    "url",
    [
        *("https://[x/a", "https://x/a/..", "https://example.org/", "https://example.org/a b"),
        *("https://example.org/a,b", "https://me:se/cret@example.org/a"),
    ],
)
def test_an_incomplete_address_or_an_unsafe_file_name_is_refused(url):
    with pytest.raises(InputError, match=r"^(must be an address|ends in)") as refused:
        check_address(url)
    assert "cret" not in str(refused.value)
