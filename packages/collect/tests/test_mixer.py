"""The mixer attacked: what gets in, what is kept, and what an interruption leaves."""

import hashlib
import json
import os
import random
import re
import signal
import socket
import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace

import collection_parts as parts
import numpy as np
import pytest
from cryptography.exceptions import InvalidTag
from effort import examples
from scipy.stats import chisquare, spearmanr
from shuffledp.errors import InputError
from shuffledp_collect import batch as batch_module
from shuffledp_collect import device, server
from shuffledp_collect.analyst import open_batch, read_opened
from shuffledp_collect.batch import close_round, read_batch
from shuffledp_collect.campaign import canonical
from shuffledp_collect.cli import main
from shuffledp_collect.device import Device, make_envelope
from shuffledp_collect.messages import (
    HEAD,
    SEALED,
    TOKEN,
    info,
    plus,
    seal,
    suite,
    token,
    token_hash,
)
from shuffledp_collect.mixer import Answer, Store

PEOPLE = 40


@pytest.fixture
def made():
    return parts.campaign()


@pytest.fixture
def tokens(made):
    return parts.tokens_of(made, PEOPLE)


@pytest.fixture
def path(tmp_path, made, tokens):
    return parts.store_file(tmp_path / "store", made, tokens)


@pytest.fixture
def filled(made, tokens, path):
    """A store with an envelope of each token."""
    store = Store(path)
    envelopes = parts.random_envelopes(made, tokens)
    assert set(store.take(envelopes)) == {Answer.COUNTED}
    with closing(store):
        yield store, envelopes


# --- Nothing kept --------------------------------------------------------------------------


def test_no_byte_of_a_store_tells_the_order_of_arrival(tmp_path):
    made = parts.campaign()
    tokens = parts.tokens_of(made, made.people)
    store = Store(parts.store_file(tmp_path / "store", made, tokens))
    envelopes = parts.random_envelopes(made, tokens)
    for start in range(0, len(envelopes), 20):
        store.take(envelopes[start : start + 20])
    files = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    store.close()
    assert files.pop("store-journal", b"") == b""
    assert list(files) == ["store"]
    sent = [each[HEAD:] for each in envelopes]
    at = np.array([files["store"].find(each) for each in sent])
    assert at.min() > 0
    # Rows lie in their pages by their places: only these are random.
    with closing(sqlite3.connect(tmp_path / "store")) as reader:
        places = {row[1]: row[0] for row in reader.execute("SELECT place, sealed FROM messages")}
    place, pages = np.array([places[each] for each in sent]), at // 4096
    for page in set(pages):
        inside = pages == page
        assert np.array_equal(np.argsort(place[inside]), np.argsort(-at[inside]))
    assert sorted(places.values()) == list(range(len(sent)))
    arrived = np.arange(len(sent))
    for found in (at, place):
        assert spearmanr(arrived, found).pvalue > 1e-6
    # Nor do tokens: which were used last lies where it lay.
    used = np.array([files["store"].find(token_hash(each)) for each in tokens])
    assert spearmanr(arrived, used).pvalue > 1e-6
    assert not any(each in files["store"] for each in tokens)


def test_every_order_of_a_few_messages_is_as_likely(tmp_path):
    """Also of two transactions: the second moves those of the first."""
    made = parts.campaign()
    store = Store(parts.store_file(tmp_path / "store", made, parts.tokens_of(made, 1)))
    marks = [bytes([i]) * SEALED for i in range(4)]
    seen = dict.fromkeys(range(24), 0)
    orders = {}
    for _ in range(examples(24 * 40)):
        store._store.execute("BEGIN")
        store._add(b"".join(marks[:1]))
        store._add(b"".join(marks[1:3]))
        store._add(b"".join(marks[3:]))
        order = tuple(store.messages())
        store._store.execute("ROLLBACK")
        assert sorted(order) == marks
        seen[orders.setdefault(order, len(orders))] += 1
    store.close()
    assert chisquare(list(seen.values())).pvalue > 1e-6


def test_after_a_close_nothing_of_it_is_in_the_store(tmp_path, made, tokens, filled):
    store, envelopes = filled
    journals = []
    store._store.set_trace_callback(
        lambda _: journals.append((tmp_path / "store-journal").read_bytes())
    )
    batch = close_round(store, tmp_path / "batch")
    store._store.set_trace_callback(None)
    taken, sent = parts.messages_of(batch), parts.bodies(envelopes)
    assert set(sent) <= set(taken) and len(set(taken)) == batch.messages
    assert taken == sorted(taken)
    files = [file.read_bytes() for file in tmp_path.glob("store*")]
    emptying = journals[-6:]
    for text in [*files, *emptying]:
        assert not any(each[:8] in text for each in taken)
    assert store.take(envelopes[:1]) == [Answer.COUNTED]


def test_a_server_keeps_and_says_no_address_and_no_time(tmp_path, made, tokens, path):
    """Known addresses and times, and what it printed and has: byte by byte."""
    envelopes = parts.random_envelopes(made, tokens)
    sources = [f"127.0.{i}.{200 - i}" for i in range(8)]
    begun = time.time()
    with parts.Mixer(path) as mixer:
        for source, each in zip(sources, envelopes, strict=False):
            with socket.socket() as client:
                client.bind((source, 0))
                client.connect(("127.0.0.1", mixer.port))
                head = f"POST {parts.path_of(made)} HTTP/1.0\r\nContent-Length: {len(each)}\r\n\r\n"
                client.sendall(head.encode() + each)
                assert client.recv(100).startswith(b"HTTP/1.1 204")
        parts.post(mixer.port, "/v1/x/y", b"x")
        parts.post(mixer.port, parts.path_of(made), b"x" * 10**6)
        assert mixer.stop() == -signal.SIGTERM
    printed = mixer.printed.decode()
    assert printed.count("\n") == 1, printed
    texts = [printed.encode(), *(file.read_bytes() for file in tmp_path.iterdir())]
    with closing(Store(path)) as store:
        store.take(envelopes)
        close_round(store, tmp_path / "batch")
    texts += [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert len(texts) >= 5  # the server's words; store and journal, before and after; the batch
    seconds = range(int(begun), int(time.time()) + 2)
    day = time.strftime("%Y-%m-%d", time.gmtime(begun))
    for text in texts:
        assert not any(each in text for each in tokens)
        for source in sources:
            assert source.encode() not in text and socket.inet_aton(source) not in text
        assert day.encode() not in text
        assert not any(str(second).encode() in text for second in seconds)
        if len(text) < 5000:  # random bytes have any number
            for second in seconds:
                assert second.to_bytes(4, "big") not in text


# --- Interrupted ---------------------------------------------------------------------------


class Stopped(BaseException):
    """Stands for the end of the process."""


def _stop(*_):
    raise Stopped


def _wipe(store):
    """The store stops where the messages would be overwritten: it is known that they may be."""

    def authorise(action, *words):
        overwrites = (action, *words[:2]) == (sqlite3.SQLITE_UPDATE, "messages", "sealed")
        return sqlite3.SQLITE_DENY if overwrites else sqlite3.SQLITE_OK

    store._store.set_authorizer(authorise)


STEPS = {
    "dummies are drawn": lambda patched, store: patched.setattr(store, "messages", _stop),
    "the file is written": lambda patched, store: patched.setattr(batch_module, "replacing", _stop),
    "the batch is whole": lambda patched, store: patched.setattr(store, "empty", _stop),
    "the store says so": lambda patched, store: _wipe(store),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_close_that_is_interrupted_goes_on(tmp_path, monkeypatch, filled, path, step):
    store, envelopes = filled
    store.draw()
    drawn = list(store.messages())
    with monkeypatch.context() as patched:
        STEPS[step](patched, store)
        with pytest.raises((Stopped, OSError)):
            close_round(store, tmp_path / "batch")
    whole = (tmp_path / "batch").exists()
    assert whole == (step in ("the batch is whole", "the store says so"))
    store.close()
    with closing(Store(path)) as again:
        batch = close_round(again, tmp_path / "batch")
        assert parts.messages_of(batch) == sorted(drawn)
        assert set(parts.bodies(envelopes)) <= set(drawn)
        assert again.size == 0
        assert again.written == hashlib.sha256(batch.path.read_bytes()).digest()
        with pytest.raises(InputError, match="was written"):
            close_round(again, tmp_path / "other")
        assert close_round(again, tmp_path / "batch") == batch
    assert not any(each in path.read_bytes() for each in drawn)


def test_another_file_is_not_overwritten(tmp_path, filled):
    store, _ = filled
    (tmp_path / "other").write_bytes(b"x")
    with pytest.raises(InputError, match="already exists"):
        close_round(store, tmp_path / "other")
    assert store.taking
    store.draw()
    with pytest.raises(InputError, match="with other content"):
        close_round(store, tmp_path / "other")
    assert store.size > PEOPLE
    close_round(store, tmp_path / "batch")


def test_more_tokens_than_tickets_are_refused(tmp_path, made):
    with pytest.raises(InputError, match="has 400 tickets, got 401 tokens"):
        parts.store_file(tmp_path / "many", made, parts.tokens_of(made, 401))


# --- Nobody gets in ------------------------------------------------------------------------


def test_who_gets_in_and_what_the_others_are_told(tmp_path, made, tokens, path):
    first, second = parts.random_envelopes(made, tokens[:2])
    other = first[:TOKEN] + second[TOKEN:]
    guessed = bytes(TOKEN) + first[TOKEN:]
    there = parts.path_of(made)
    with parts.serving(path) as port:
        for body, status in (
            (first, 204),
            (first, 204),
            (other, 409),
            (guessed, 403),
            (first[:-1], 400),
            (b"", 400),
            (first + b"x", 413),
        ):
            got, words = parts.post(port, there, body)
            assert got == status
            assert words.count("\n") == (status != 204) and len(words) < 80, words
        odd = (2, 0, -1, "01", "1.0", "+1", "%31", "%31%00", "%D9%A1")
        for where in (
            *(parts.path_of(made, number) for number in odd),
            there.upper(),
            there.replace(made.name, made.name[::-1]),
            there.replace(made.name, "0" * 64),
            there + "/",
            there + "/../1",
            "/" + there,
            "/v1//1",
            f"/v1/../v1/{made.name}/1",
            f"/v1/{made.name}%2f1",
            "/v1/..%2f..%2fetc%2fpasswd/1",
            f"/v1/{made.name}/1;a=b",
            "/",
        ):
            got, words = parts.post(port, where, second)
            assert got in (404, 405), (where, got, words)
            assert words.count("\n") <= 1
        assert parts.post(port, there, second)[0] == 204
    with closing(Store(path)) as store:
        assert store.respondents == 2 and store.size == 2 * made.laws.slots


def test_a_thousand_mutated_envelopes(tmp_path):
    """By changed, cut, lengthened and repeated bytes: only those that are counted are."""
    made = parts.without_noise()
    tokens = parts.tokens_of(made, 50)
    store = Store(parts.store_file(tmp_path / "store", made, tokens))
    envelopes, source = parts.random_envelopes(made, tokens), random.Random(7)
    store.take(envelopes[:25])
    mutants = [mutated(source.choice(envelopes), source) for _ in range(1000)]
    known = {each[:HEAD] for each in envelopes}
    answers = store.take(mutants)
    fresh = {}
    for mutant, answer in zip(mutants, answers, strict=True):
        token = mutant[:TOKEN]
        if len(mutant) != len(envelopes[0]):
            assert answer is Answer.WRONG
        elif token not in tokens:
            assert answer is Answer.UNKNOWN
        elif token in tokens[:25]:
            assert answer is (Answer.COUNTED if mutant[:HEAD] in known else Answer.USED)
        else:
            # The first of an unused token is its holder's: nobody else has it.
            counted = fresh.setdefault(token, mutant)[:HEAD] == mutant[:HEAD]
            assert answer is (Answer.COUNTED if counted else Answer.USED)
    assert store.respondents == 25 + len(fresh)
    assert set(store.messages()) == {*parts.bodies(envelopes[:25]), *parts.bodies(fresh.values())}
    store.close()


def mutated(text, source):
    text = bytearray(text)
    kind = source.randrange(5)
    at = source.choice([source.randrange(TOKEN), source.randrange(len(text))])
    if kind < 2:
        text[at] ^= 1 << source.randrange(8)
    elif kind == 2:
        del text[at : at + source.choice([1, 16, SEALED])]
    elif kind == 3:
        text[at:at] = source.randbytes(source.choice([1, 16, SEALED]))
    else:
        start = source.randrange(0, len(text) - SEALED)
        text[at : at + SEALED] = text[start : start + len(text[at : at + SEALED])]
    return bytes(text)


def test_a_thousand_mutated_messages(tmp_path):
    """None is counted, none stops the analyst: also with points of low order."""
    made, count = parts.without_noise(), examples(1000)
    slots, source = made.laws.slots, random.Random(3)
    people = max(made.at_least, -(-count // slots))
    honest = [seal(made, 1, [plus(1)] * slots) for _ in range(3)]
    odd = []
    for _ in range(count - 64):
        text = bytearray(source.choice(source.choice(honest)))
        text[source.randrange(SEALED)] ^= 1 << source.randrange(8)
        odd.append(bytes(text))
    tail = honest[0][0][32:]
    odd += [bytes([i]) + bytes(31) + tail for i in range(32)]
    odd += [bytes([255 - i]) + b"\xff" * 31 + tail for i in range(32)]
    odd += [bytes(SEALED)] * (people * slots - len(odd))
    joined = [b"".join(each) for each in honest]
    joined += [b"".join(odd[i * slots : (i + 1) * slots]) for i in range(people)]
    tokens = parts.tokens_of(made, people + 3)
    sent = [token + bytes(16) + body for token, body in zip(tokens, joined, strict=True)]
    counted = parts.opened(tmp_path, made, parts.closed(tmp_path, made, sent))
    assert counted.counts.tolist() == [0, 3 * slots, 0, 0, 0]
    assert counted.foreign == len(set(odd))


def half(port, text):
    """A client that sends half a request and stays."""
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(text)
    return client


def test_slow_clients_are_let_go_and_stop_nobody(tmp_path, monkeypatch, made, tokens, path):
    monkeypatch.setattr(server, "_SECONDS_TO_SEND", 0.6)
    monkeypatch.setattr(server, "_SECONDS_OF_CONNECTION", 0.9)
    envelopes = parts.random_envelopes(made, tokens)
    head = f"POST {parts.path_of(made)} HTTP/1.1\r\nHost: x\r\nContent-Length: "
    known = f"{head}{len(envelopes[0])}\r\n\r\n".encode() + envelopes[0][:9]
    elsewhere = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n"
    with parts.serving(path) as port:
        texts = [b"", b"POST /v1", head.encode(), known, elsewhere]
        slow = [half(port, texts[i % len(texts)]) for i in range(64)]
        begun = time.perf_counter()
        assert parts.post(port, parts.path_of(made), envelopes[1], timeout=5)[0] == 204
        assert time.perf_counter() - begun < 0.5
        said = b""
        for client in slow:
            client.settimeout(10)
            said += everything(client)
        assert said.count(b"408 Request Timeout") == 13, said[:500]
        assert parts.post(port, parts.path_of(made), envelopes[0], timeout=5)[0] == 204


def test_what_is_no_request_gets_a_line_and_is_not_told_of(capfd, made, tokens, path):
    first, second = parts.random_envelopes(made, tokens[:2])
    head = f"POST {parts.path_of(made)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n".encode()
    length = f"Content-Length: {len(first)}".encode()
    source = random.Random(9)
    odd = [
        b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 10**6 + b"\r\n\r\n",
        head + length + b"\r\nContent-Length: 5\r\n\r\n" + first,
        head + b"Content-Length: -5\r\n\r\n" + first,
        head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        head.replace(b"POST ", b"POST http://x") + length + b"\r\n\r\n" + first,
        b"\x16\x03\x01" + source.randbytes(200),
        b"POST /\xff HTTP/1.1\r\nHost: \xff\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    ]
    with parts.serving(path) as port:
        for text in odd:
            said = everything(half(port, text))
            assert re.match(rb"HTTP/1.1 40[04] ", said) or said == b"", (text[:60], said)
        upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\n" + length + b"\r\n\r\n"
        with half(port, head.replace(b"Connection: close\r\n", upgrade) + second) as client:
            assert client.recv(100).startswith(b"HTTP/1.1 204")
    with closing(Store(path)) as store:
        assert store.respondents == 1
    assert capfd.readouterr() == ("", "")


def everything(client):
    """Return what a connection receives until the other side closes it."""
    found = b""
    with client:
        try:
            while more := client.recv(65536):
                found += more
        except ConnectionResetError:
            pass
    return found


@pytest.mark.parametrize("where", ["here", "elsewhere"])
@pytest.mark.parametrize("chunked", [True, False])
def test_a_body_without_end_is_not_read(made, path, chunked, where):
    """The client sends up to 1 GB; the slow twin measures the server's memory."""
    with parts.serving(path) as port:
        asked = parts.path_of(made) if where == "here" else "/x"
        assert sent_of(port, asked, chunked, 2**30) < 2**26


def sent_of(port, path, chunked, size):
    """Bytes of a body that a server takes before it hangs up."""
    block = bytes(2**16)
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    sent = 0
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\n{length}\r\n\r\n".encode())
        try:
            while sent < size:
                client.sendall(b"10000\r\n" + block + b"\r\n" if chunked else block)
                sent += len(block)
        except (BrokenPipeError, ConnectionResetError):
            pass
    return sent


@pytest.mark.slow
def test_memory_of_a_server_under_bodies_of_a_gigabyte(made, tokens, path):
    envelope = parts.random_envelopes(made, tokens[:1])[0]
    with parts.Mixer(path) as mixer:
        assert parts.post(mixer.port, parts.path_of(made), envelope)[0] == 204
        before = mixer.memory()
        for chunked in (True, False):
            for where in (parts.path_of(made), "/v1/a/1", "/x"):
                for _ in range(3):
                    sent_of(mixer.port, where, chunked, 2**30)
        assert mixer.memory() - before < 2**25
        assert mixer.stop() == -signal.SIGTERM


# --- A batch that was tampered with --------------------------------------------------------


@pytest.fixture
def batch(tmp_path, made, tokens):
    """A batch of real messages."""
    sealed = seal(made, 1, [plus(1)] * PEOPLE)
    sent = [token + bytes(16) + body for token, body in zip(tokens, sealed, strict=True)]
    return parts.closed(tmp_path, made, sent)


def altered(batch, sealed=None, **changes):
    """Write a batch with other messages or another header."""
    header = json.loads(batch.header) | changes
    sealed = parts.messages_of(batch) if sealed is None else sealed
    batch.path.write_bytes(canonical(header) + b"\n" + b"".join(sealed))


def refusal(tmp_path, capsys, made, batch, key=None, *more):
    """The message of a refused batch, which leaves the key."""
    (tmp_path / "campaign.json").write_bytes(made.text)
    key = key or parts.key_file(tmp_path / "key")
    words = ["open", str(batch.path), "--campaign", str(tmp_path / "campaign.json"), *more]
    words += ["--key", str(key), "--output", str(tmp_path / "counts"), "--workers", "1"]
    assert main(words) == 2
    assert key.exists() and not (tmp_path / "counts").exists()
    printed = capsys.readouterr()
    assert printed.out == "" and re.fullmatch(r"shuffledp-collect: [^\n]+\n", printed.err)
    return printed.err


CHANGES = [
    *({"respondents": value} for value in (29, 401, "40", 40.0, True, None)),
    *({"round": value} for value in (1.0, True, 2)),
    *({"messages": value} for value in (1, 10**7, "60")),
    *({"campaign": "0" * 64}, {"version": 1}, {"more": 1}),
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_an_altered_header(tmp_path, capsys, made, batch, change):
    altered(batch, **change)
    refusal(tmp_path, capsys, made, batch)


@pytest.mark.parametrize("content", [b"", b"\n", b"{}\n", b"[" * 10**6, b"\xff" * 2000])
def test_what_is_not_a_batch(tmp_path, capsys, made, batch, content):
    for text in (content, batch.path.read_bytes()[:-1], batch.path.read_bytes() + b"x"):
        batch.path.write_bytes(text)
        refusal(tmp_path, capsys, made, batch)


def test_totals_that_the_dummies_cannot_explain(tmp_path, capsys):
    """One victim, messages of the mixer's own for all others, and no dummies."""
    made = parts.campaign(cells=40, at_least=100)
    batch = parts.closed(tmp_path, made, parts.random_envelopes(made, parts.tokens_of(made, 100)))
    alone = [seal(made, 1, [plus(1)])[0], *seal(made, 1, [plus(2)] * 99)]
    low, high = batch_module._dummies_range(made)
    mean = made.cells * made.laws.mixer.masses @ made.laws.mixer.values
    assert low < mean < high < 1.5 * mean
    more = [os.urandom(SEALED) for _ in range(int(high) + 1)]
    for dummies in ([], more[: int(low)], more):
        altered(batch, alone + dummies, messages=100 + len(dummies))
        assert "dummies must be" in refusal(tmp_path, capsys, made, batch)
    altered(batch, alone + more[: int(low) + 1], messages=101 + int(low))
    read_batch(batch.path, made)


def test_wrong_keys(tmp_path, capsys, made, batch):
    for text in ("", "00", "zz" * 32, "00" * 32, parts.private(2).private_bytes_raw().hex()):
        (tmp_path / "wrong").write_text(text)
        refusal(tmp_path, capsys, made, batch, tmp_path / "wrong")


def test_the_checksum_that_the_mixer_told(tmp_path, capsys, made, batch):
    told = hashlib.sha256(batch.path.read_bytes()).hexdigest()
    messages = parts.messages_of(batch)
    altered(batch, [seal(made, 1, [plus(2)])[0], *messages[1:]])
    error = refusal(tmp_path, capsys, made, batch, None, "--sha256", told)
    assert f"expected {told}" in error
    altered(batch, messages)
    counted = open_batch(made, batch.path, tmp_path / "key", tmp_path / "c", 1, told.upper())
    assert counted.foreign == 0


@pytest.mark.parametrize("foreign", [25, None])
def test_messages_of_another_round_or_campaign(tmp_path, capsys, made, batch, foreign):
    """Sealed for the same key and another context; if all messages are, the key is kept."""
    rounds = replace(made, rounds=made.rounds * 2)
    messages = parts.messages_of(batch)
    foreign = len(messages) if foreign is None else foreign
    other = seal(parts.campaign(eps=1.9), 1, [plus(1)] * (foreign - 1))
    theirs = [*seal(rounds, 2, [plus(1)]), *other]
    altered(batch, theirs + messages[foreign:])
    if foreign == len(messages):
        refusal(tmp_path, capsys, made, batch)
    else:
        assert parts.opened(tmp_path, made, batch).foreign == foreign
    # The round is part of the context.
    (bound,), key = seal(rounds, 2, [plus(1)]), parts.private(1)
    assert suite().decrypt(bound, key, info=info(rounds, 2)) == plus(1)
    for other in (info(rounds, 1), info(made, 1)):
        with pytest.raises(InvalidTag):
            suite().decrypt(bound, key, info=other)


def test_many_messages_are_opened_by_several_processes(tmp_path, monkeypatch, made, batch):
    monkeypatch.setattr("shuffledp_collect.analyst._CHUNK", 7)
    counted = parts.opened(tmp_path, made, batch, workers=2)
    assert (counted.foreign, counted.repeated, counted.out_of_range) == (0, 0, 0)


def test_an_opening_that_was_interrupted_leaves_no_key(tmp_path, monkeypatch, made, batch):
    """A second opening would draw other noise for the same counts."""
    key, output = parts.key_file(tmp_path / "key"), tmp_path / "counts"
    with monkeypatch.context() as patched:
        patched.setattr("shuffledp_collect.analyst.destroy", _stop)
        with pytest.raises(Stopped):
            open_batch(made, batch.path, key, output, 1)
    assert key.exists()
    text = output.read_bytes()
    with pytest.raises(InputError, match="a round is opened once"):
        open_batch(made, batch.path, key, output, 1)
    assert output.read_bytes() == text and not key.exists()


@pytest.mark.parametrize("name", ["round", "respondents", "foreign", "repeated", "out_of_range"])
@pytest.mark.parametrize("value", ["1", 1.0, True, None, -1, [1]], ids=str)
def test_altered_counts(tmp_path, made, name, value):
    counts = {"campaign": made.name, "round": 1, "respondents": 40, "counts": [1] * made.cells}
    counts |= {"foreign": 0, "repeated": 0, "out_of_range": 0}
    (tmp_path / "counts").write_bytes(canonical(counts))
    assert read_opened(tmp_path / "counts", made).respondents == 40
    (tmp_path / "counts").write_bytes(canonical(counts | {name: value}))
    with pytest.raises(InputError, match="has no counts"):
        read_opened(tmp_path / "counts", made)


# --- Devices -------------------------------------------------------------------------------


def test_a_device_sends_the_same_until_it_is_counted(tmp_path):
    """Nobody answers; the store is away; the answer was lost; the round is closed."""
    port = parts.free_port()
    made = replace(parts.campaign(), address=f"http://127.0.0.1:{port}")
    tickets = [os.urandom(16) for _ in range(3)]
    path = parts.store_file(tmp_path / "store", made, [token(made, 1, each) for each in tickets])
    first, second, late = (Device(tmp_path / name) for name in ("first", "second", "late"))
    for ticket, each in zip(tickets, (first, second, late), strict=True):
        each.report(made, 1, ticket, 2)
    (waiting,) = (tmp_path / "first").iterdir()
    envelope = waiting.read_bytes()
    with pytest.raises(OSError, match="nobody answers"):
        first.send(made, 1, patience=0.0)
    with parts.Mixer(path, port=port):
        path.rename(tmp_path / "away")
        with pytest.raises(OSError, match="cannot take the envelope now"):
            first.send(made, 1, patience=0.0)
        assert waiting.read_bytes() == envelope and not path.exists()
        again = threading.Thread(target=first.send, args=(made, 1))
        again.start()  # it sends on until the store is back
        (tmp_path / "away").rename(path)
        again.join(120)
        assert [file.suffix for file in (tmp_path / "first").iterdir()] == [".counted"]
        # Counted, and the device never heard of it.
        (lost,) = (tmp_path / "second").iterdir()
        assert parts.post(port, parts.path_of(made), lost.read_bytes())[0] == 204
        second.send(made, 1)
        with closing(Store(path)) as store:
            assert store.respondents == 2 and store.size == 2
            store._set("state", 1)  # closed; there are too few for a batch
        with pytest.raises(InputError, match="the round is closed"):
            late.send(made, 1)


def test_the_place_of_a_message_in_an_envelope_says_nothing(monkeypatch):
    """A mixer that knew it could keep the records and drop the dummies."""
    made, marks = parts.without_noise(), [bytes([i]) * SEALED for i in range(6)]
    monkeypatch.setattr(device, "seal", lambda *_: list(marks))
    seen = np.zeros(6)
    for _ in range(600):
        envelope = make_envelope(made, 1, bytes(16), 1)
        sent = parts.bodies([envelope])
        assert sorted(sent) == marks
        seen[sent.index(marks[0])] += 1
    assert chisquare(seen).pvalue > 1e-6
