"""Secrets in an address are refused, or shown nowhere."""

import base64
import logging
import pickle

import pytest
from unit.http_server import Answer, FileServer
from unit.test_configuration import CITIES, DEFAULT, DEFAULTS, SCHEMA

from shuffledp.data.download import DownloadError, fetch
from shuffledp.errors import InputError
from shuffledp.pipeline.address import Address, file_name, masked, masked_addresses
from shuffledp.pipeline.configuration import check_configuration
from shuffledp.pipeline.schema import check_schema

SECRET = "c0ffee"
SIGNED = f"https://example.org/a/checkins.txt.gz?expires=1&signature={SECRET}"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (SIGNED, "https://example.org/a/checkins.txt.gz?..."),
        (f"https://me:{SECRET}@example.org/a", "https://...@example.org/a"),
        (f"ftp://{SECRET}@example.org", "ftp://...@example.org"),
        (f"failed with url: /a?x={SECRET} (Caused by 1)", "failed with url: /a?... (Caused by 1)"),
        ("nothing to hide, is there? No: a@b.org", "nothing to hide, is there? No: a@b.org"),
    ],
)  # fmt: skip
def test_an_address_is_shown_without_secrets(text, shown):
    assert masked(text) == shown


def test_a_configuration_is_shown_without_queries():
    config = {"sources": {"a": {"url": SIGNED, "path": "b?c"}}, "n": [1, "all"]}
    shown = masked_addresses(config)
    assert shown["sources"]["a"] == {"url": masked(SIGNED), "path": "b?c"}
    assert shown["n"] == [1, "all"]
    assert config["sources"]["a"]["url"] == SIGNED


def test_snakemake_records_no_query_but_notices_its_change():
    one, other = Address(SIGNED), Address(SIGNED + "0")
    assert SECRET not in repr(one)
    assert repr(one) != repr(other)
    assert pickle.loads(pickle.dumps(one)) == SIGNED


def test_the_file_name_comes_from_the_path_alone():
    assert file_name(SIGNED) == "checkins.txt.gz"
    assert file_name("https://example.org/get?file=a/b") == "get"
    assert file_name("https://example.org/a/?b") == ""


def source(url):
    return {
        "sources": DEFAULT["sources"] | {"a": {"kind": "download", "url": url, "layout": "snap"}}
    }


def images(url):
    return {"personalised": {"mnist": {"images": {"url": url}, "labels": {"path": "b"}}}}


QUERY = f"?signature={SECRET}"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (source(f"https://me:{SECRET}@example.org/checkins.txt"), "netrc"),
        (source(f"https://{SECRET}@example.org/checkins.txt"), "netrc"),
        (images(f"https://:{SECRET}@example.org/checkins.txt"), "must not contain a user name or"),
        (source(f"https://example.org/{QUERY}"), "url"),
        (source(f"https://example.org/a b{QUERY}"), "url"),
        (source(f"https://example.org/a,b{QUERY}"), "url"),
        (source(f"ftp://me:{SECRET}@example.org/a{QUERY}"), "url"),
    ],
)
def test_the_refusal_of_an_address_does_not_repeat_its_secret(keys, message):
    config = DEFAULTS | DEFAULT | keys
    with pytest.raises(InputError, match=message) as refused:
        check_schema(config, SCHEMA)
        check_configuration(config, CITIES)
    assert SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "answers",
    [
        [Answer(404)],
        [Answer(500)] * 2,
        [Answer(cut=3)] * 2,
        [Answer(200, b"<html>", {"Content-Type": "text/html"})],
        [Answer(200, b"other")],
        None,
    ],
    ids=["404", "500", "break", "page", "checksum", "refused connection"],
)
def test_a_download_shows_its_query_nowhere(tmp_path, caplog, answers):
    caplog.set_level(logging.DEBUG, logger="shuffledp")
    server = FileServer(b"content", answers or [])
    with server:
        url = server.url(f"a.gz{QUERY}")
        if answers is None:
            server.stop()
        with pytest.raises(DownloadError) as refused:
            fetch(url, tmp_path / "a.gz", checksum="md5:" + "0" * 32, retries=1, backoff=0.0)
        assert bool(server.requests) == (answers is not None)
    assert SECRET not in str(refused.value) + caplog.text
    assert "?..." in str(refused.value)
    assert all(SECRET not in path.read_text() for path in tmp_path.iterdir())


def test_name_and_password_come_from_netrc(tmp_path, monkeypatch):
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login me password {SECRET}\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with FileServer(b"content") as server:
        fetch(server.url("a.gz"), tmp_path / "a.gz", checksum=None)
        sent = server.requests[-1]["Authorization"]
    assert base64.b64decode(sent.removeprefix("Basic ")).decode() == f"me:{SECRET}"
