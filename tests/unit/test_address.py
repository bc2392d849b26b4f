"""Secrets in an address are refused, or shown nowhere."""

import base64
import logging
import pickle

import pytest
from shuffledp.errors import InputError
from shuffledp.geography.download import DownloadError, fetch
from shuffledp.pipeline.address import Address, file_name, masked, masked_addresses
from shuffledp.pipeline.configuration import check_configuration
from shuffledp.pipeline.schema import check_schema
from unit.http_server import Answer, FileServer
from unit.test_configuration import CITIES, DEFAULT, DEFAULTS, SCHEMA

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
def test_what_is_shown_of_an_address(text, shown):
    assert masked(text) == shown


def test_a_configuration_is_shown_without_queries():
    config = {"sources": {"a": {"url": SIGNED, "path": "b?c"}}, "n": [1, "all"]}
    shown = masked_addresses(config)
    assert shown["sources"]["a"] == {"url": masked(SIGNED), "path": "b?c"}
    assert shown["n"] == [1, "all"]
    assert config["sources"]["a"]["url"] == SIGNED


def test_snakemake_keeps_no_query_of_a_parameter_but_sees_that_it_changes():
    one, other = Address(SIGNED), Address(SIGNED + "0")
    assert SECRET not in repr(one)
    assert repr(one) != repr(other)
    assert pickle.loads(pickle.dumps(one)) == SIGNED


def test_a_file_is_called_after_its_path_alone():
    assert file_name(SIGNED) == "checkins.txt.gz"
    assert file_name("https://example.org/get?file=a/b") == "get"
    assert file_name("https://example.org/a/?b") == ""


def refusal(**keys):
    """The message with which the default configuration with other keys is refused."""
    config = DEFAULTS | DEFAULT | keys
    with pytest.raises(InputError) as refused:
        check_schema(config, SCHEMA)
        check_configuration(config, CITIES)
    return str(refused.value)


def download(url):
    return {**DEFAULT["sources"], "mine": {"kind": "download", "url": url, "layout": "snap"}}


@pytest.mark.parametrize("user", [f"me:{SECRET}@", f"{SECRET}@", f":{SECRET}@"])
@pytest.mark.parametrize("key", ["sources", "mnist"])
def test_a_password_in_an_address_is_refused_and_not_repeated(user, key):
    url = f"https://{user}example.org/checkins.txt"
    if key == "sources":
        message = refusal(sources=download(url))
    else:
        message = refusal(personalised={"mnist": {"images": {"url": url}, "labels": {"path": "b"}}})
    assert "must not name a user or a password" in message
    assert "netrc" in message
    assert SECRET not in message
    assert "\n" not in message


def test_no_message_about_an_address_repeats_its_query():
    for url in [
        f"https://example.org/?signature={SECRET}",
        f"https://example.org/a b?signature={SECRET}",
        f"https://example.org/a,b?signature={SECRET}",
        f"ftp://me:{SECRET}@example.org/a?signature={SECRET}",
    ]:
        assert SECRET not in refusal(sources=download(url))


@pytest.mark.parametrize(
    "answers",
    [
        [Answer(404)],
        [Answer(500)] * 2,
        [Answer(cut=3)] * 2,
        [Answer(200, b"<html>", {"Content-Type": "text/html"})],
        [Answer(200, b"other")],
    ],
    ids=["404", "500", "break", "page", "checksum"],
)
def test_a_download_shows_its_query_nowhere(tmp_path, caplog, answers):
    caplog.set_level(logging.DEBUG, logger="shuffledp")
    with FileServer(b"content", answers) as server:
        url = f"{server.url('a.gz')}?signature={SECRET}"
        with pytest.raises(DownloadError) as refused:
            fetch(url, tmp_path / "a.gz", checksum="md5:" + "0" * 32, retries=1, backoff=0.0)
        assert server.requests
    assert SECRET not in str(refused.value) + caplog.text
    assert "?..." in str(refused.value)
    assert all(SECRET not in path.read_text() for path in tmp_path.iterdir())


def test_a_refused_connection_shows_no_query(tmp_path, caplog):
    with FileServer(b"content") as server:
        url = f"{server.url('a.gz')}?signature={SECRET}"
    with pytest.raises(DownloadError) as refused:
        fetch(url, tmp_path / "a.gz", checksum=None, retries=1, backoff=0.0, timeout=5.0)
    assert SECRET not in str(refused.value) + caplog.text


def test_name_and_password_come_from_netrc(tmp_path, monkeypatch):
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login me password {SECRET}\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with FileServer(b"content") as server:
        fetch(server.url("a.gz"), tmp_path / "a.gz", checksum=None)
        sent = server.requests[-1]["Authorization"]
    assert base64.b64decode(sent.removeprefix("Basic ")).decode() == f"me:{SECRET}"
