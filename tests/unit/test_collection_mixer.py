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

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from collection_parts import (
    Mixer,
    campaign,
    free_port,
    key_file,
    messages_of,
    path_of,
    post,
    private,
    random_envelopes,
    serving,
    store_file,
    tokens_of,
)
from cryptography.exceptions import InvalidTag
from effort import examples
from scipy.stats import chisquare, spearmanr
from shuffledp.cli import main
from shuffledp.collection import batch as batch_module
from shuffledp.collection import device, server
from shuffledp.collection.analyst import open_batch, read_opened
from shuffledp.collection.batch import close_round, read_batch
from shuffledp.collection.campaign import canonical
from shuffledp.collection.device import Device, make_envelope
from shuffledp.collection.messages import (
    SEALED,
    TOKEN,
    info,
    plus,
    seal,
    suite,
    token,
    token_hash,
)
from shuffledp.collection.mixer import Answer, Store
from shuffledp.errors import InputError

PEOPLE = 40


@pytest.fixture
def made():
    return campaign()


@pytest.fixture
def tokens(made):
    return tokens_of(made, PEOPLE)


@pytest.fixture
def path(tmp_path, made, tokens):
    return store_file(tmp_path / "store", made, tokens)


@pytest.fixture
def filled(made, tokens, path):
    """A store with an envelope of each token."""
    store = Store(path)
    envelopes = random_envelopes(made, tokens)
    assert set(store.take(envelopes)) == {Answer.COUNTED}
    with closing(store):
        yield store, envelopes


def bodies(envelopes):
    return [
        each[start : start + SEALED]
        for each in envelopes
        for start in range(TOKEN, len(each), SEALED)
    ]


# --- Nothing kept --------------------------------------------------------------------------


def test_no_byte_of_a_store_tells_the_order_of_arrival(tmp_path):
    made = campaign()
    tokens = tokens_of(made, made.people)
    store = Store(store_file(tmp_path / "store", made, tokens))
    envelopes = random_envelopes(made, tokens)
    for start in range(0, len(envelopes), 20):
        store.take(envelopes[start : start + 20])
    files = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    store.close()
    assert files.pop("store-journal", b"") == b""
    assert list(files) == ["store"]
    sent = [each[TOKEN:] for each in envelopes]
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
    made = campaign()
    store = Store(store_file(tmp_path / "store", made, tokens_of(made, 1)))
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
    taken, sent = messages_of(batch), bodies(envelopes)
    assert set(sent) <= set(taken) and len(set(taken)) == batch.messages
    assert spearmanr(np.arange(len(sent)), [taken.index(each) for each in sent]).pvalue > 1e-6
    files = [file.read_bytes() for file in tmp_path.iterdir() if file.is_file()]
    emptying = journals[-6:]
    for text in [*files, *emptying]:
        assert not any(each[:8] in text for each in taken)
    # A ticket's holder cannot find by the store which message is whose.
    with closing(sqlite3.connect(tmp_path / "store")) as reader:
        assert {row[0] for row in reader.execute("SELECT code FROM tokens")} == {b"\xff" * 32}
    assert store.take(envelopes[:1]) == [Answer.COUNTED]


def test_a_server_keeps_and_says_no_address_and_no_time(tmp_path, made, tokens, path):
    """Known addresses and times, and what it printed and has: byte by byte."""
    envelopes = random_envelopes(made, tokens)
    sources = [f"127.0.{i}.{200 - i}" for i in range(8)]
    begun = time.time()
    with Mixer(path) as mixer:
        for source, each in zip(sources, envelopes, strict=False):
            with socket.socket() as client:
                client.bind((source, 0))
                client.connect(("127.0.0.1", mixer.port))
                head = f"POST {path_of(made)} HTTP/1.0\r\nContent-Length: {len(each)}\r\n\r\n"
                client.sendall(head.encode() + each)
                assert client.recv(100).startswith(b"HTTP/1.1 204")
        post(mixer.port, "/v1/x/y", b"x")
        post(mixer.port, path_of(made), b"x" * 10**6)
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
        if b"part-" not in text and len(text) < 5000:  # random bytes have any number
            for second in seconds:
                assert second.to_bytes(4, "big") not in text


# --- Interrupted ---------------------------------------------------------------------------


class Stopped(BaseException):
    """As if the process had ended here."""


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
    "parts are written": lambda patched, store: patched.setattr(batch_module, "canonical", _stop),
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
        assert messages_of(batch) == drawn and set(bodies(envelopes)) <= set(drawn)
        assert again.size == 0
        assert again.written == hashlib.sha256(manifest_of(batch).read_bytes()).digest()
        with pytest.raises(InputError, match="was written"):
            close_round(again, tmp_path / "other")
        assert close_round(again, tmp_path / "batch") == batch
    assert not any(each in path.read_bytes() for each in drawn)


def test_a_folder_with_another_batch_is_no_batch(tmp_path, made, filled):
    store, _ = filled
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="is there already"):
        close_round(store, tmp_path / "empty")
    assert store.taking
    store.draw()
    with pytest.raises(InputError, match="has no manifest"):
        close_round(store, tmp_path / "empty")
    other = store_file(tmp_path / "s", made, tokens := tokens_of(made, PEOPLE))
    with closing(Store(other)) as second:
        second.take(random_envelopes(made, tokens))
        close_round(second, tmp_path / "theirs")
    with pytest.raises(InputError, match="with another batch"):
        close_round(store, tmp_path / "theirs")
    assert store.size > PEOPLE
    close_round(store, tmp_path / "batch")


def test_more_tokens_than_tickets_are_refused(tmp_path, made):
    with pytest.raises(InputError, match="tickets for 400 people"):
        store_file(tmp_path / "many", made, tokens_of(made, 401))


# --- Nobody gets in ------------------------------------------------------------------------


def test_who_gets_in_and_what_the_others_are_told(tmp_path, made, tokens, path):
    first, second = random_envelopes(made, tokens[:2])
    other = first[:TOKEN] + second[TOKEN:]
    guessed = bytes(TOKEN) + first[TOKEN:]
    there = path_of(made)
    with serving(path) as port:
        for body, status in (
            (first, 204),
            (first, 204),
            (other, 409),
            (guessed, 403),
            (first[:-1], 400),
            (b"", 400),
            (first + b"x", 413),
        ):
            got, words = post(port, there, body)
            assert got == status
            assert words.count("\n") == (status != 204) and len(words) < 80, words
        for where in (
            *(
                path_of(made, odd)
                for odd in (2, 0, -1, "01", "1.0", "+1", "%31", "%31%00", "%D9%A1")
            ),
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
            got, words = post(port, where, second)
            assert got in (404, 405), (where, got, words)
            assert words.count("\n") <= 1
        assert post(port, there, second)[0] == 204
    with closing(Store(path)) as store:
        assert store.respondents == 2 and store.size == 2 * made.laws.slots


def test_a_thousand_mutated_envelopes(tmp_path):
    """By changed, cut, lengthened and repeated bytes: only those that are counted are."""
    made = campaign("user-dummies")
    tokens = tokens_of(made, 50)
    store = Store(store_file(tmp_path / "store", made, tokens))
    envelopes, source = random_envelopes(made, tokens), random.Random(7)
    store.take(envelopes[:25])
    mutants = [mutated(source.choice(envelopes), source) for _ in range(1000)]
    known = set(envelopes)
    answers = store.take(mutants)
    fresh = {}
    for mutant, answer in zip(mutants, answers, strict=True):
        token = mutant[:TOKEN]
        if len(mutant) != len(envelopes[0]):
            assert answer is Answer.WRONG
        elif token not in tokens:
            assert answer is Answer.UNKNOWN
        elif token in tokens[:25]:
            assert answer is (Answer.COUNTED if mutant in known else Answer.USED)
        else:
            # The first of an unused token is its holder's: nobody else has it.
            counted = fresh.setdefault(token, mutant) == mutant
            assert answer is (Answer.COUNTED if counted else Answer.USED)
    assert store.respondents == 25 + len(fresh)
    assert set(store.messages()) == set(bodies(envelopes[:25])) | set(bodies(fresh.values()))
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
    made, count = campaign("user-dummies"), examples(1000)
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
    tokens = tokens_of(made, people + 3)
    store = Store(store_file(tmp_path / "store", made, tokens))
    joined = [b"".join(each) for each in honest]
    joined += [b"".join(odd[i * slots : (i + 1) * slots]) for i in range(people)]
    store.take([token + body for token, body in zip(tokens, joined, strict=True)])
    close_round(store, tmp_path / "batch")
    store.close()
    opened = open_batch(made, tmp_path / "batch", key_file(tmp_path / "key"), tmp_path / "c", 1)
    assert opened.counts.tolist() == [0, 3 * slots, 0, 0, 0]
    assert opened.foreign == len(odd)


def test_a_mixer_that_repeats_a_message_is_not_counted_twice(tmp_path):
    made = campaign("user-dummies")
    tokens = tokens_of(made, 30)
    store = Store(store_file(tmp_path / "store", made, tokens))
    victim = seal(made, 1, [plus(2)])[0]
    slots = made.laws.slots
    store.take([token + victim * slots for token in tokens])
    close_round(store, tmp_path / "batch")
    store.close()
    opened = open_batch(made, tmp_path / "batch", key_file(tmp_path / "key"), tmp_path / "c", 1)
    assert opened.counts.tolist() == [0, 0, 1, 0, 0]
    assert opened.repeated == 30 * slots - 1


def half(port, made, text):
    """A client that sends half a request and stays."""
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(text)
    return client


def test_slow_clients_are_let_go_and_stop_nobody(tmp_path, monkeypatch, made, tokens, path):
    monkeypatch.setattr(server, "_SECONDS_TO_SEND", 0.6)
    monkeypatch.setattr(server, "_SECONDS_OF_CONNECTION", 0.9)
    envelopes = random_envelopes(made, tokens)
    head = f"POST {path_of(made)} HTTP/1.1\r\nHost: x\r\nContent-Length: "
    known = f"{head}{len(envelopes[0])}\r\n\r\n".encode() + envelopes[0][:9]
    elsewhere = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n"
    with serving(path) as port:
        texts = [b"", b"POST /v1", head.encode(), known, elsewhere]
        slow = [half(port, made, texts[i % len(texts)]) for i in range(64)]
        begun = time.perf_counter()
        assert post(port, path_of(made), envelopes[1], timeout=5)[0] == 204
        assert time.perf_counter() - begun < 0.5
        said = b""
        for client in slow:
            client.settimeout(10)
            said += everything(client)
        assert said.count(b"408 Request Timeout") == 13, said[:500]
        assert post(port, path_of(made), envelopes[0], timeout=5)[0] == 204


def test_what_is_no_request_gets_a_line_and_is_not_told_of(capfd, made, tokens, path):
    first, second = random_envelopes(made, tokens[:2])
    head = f"POST {path_of(made)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n".encode()
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
    with serving(path) as port:
        for text in odd:
            said = everything(half(port, made, text))
            assert re.match(rb"HTTP/1.1 40[04] ", said) or said == b"", (text[:60], said)
        upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\n" + length + b"\r\n\r\n"
        with half(port, made, head.replace(b"Connection: close\r\n", upgrade) + second) as client:
            assert client.recv(100).startswith(b"HTTP/1.1 204")
    with closing(Store(path)) as store:
        assert store.respondents == 1
    assert capfd.readouterr() == ("", "")


def everything(client):
    """What a connection still says, until the other side has closed it."""
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
    """As long as the client sends, up to 1 GB; the slow twin measures the server's memory."""
    with serving(path) as port:
        assert sent_of(port, path_of(made) if where == "here" else "/x", chunked, 2**30) < 2**26


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
    envelope = random_envelopes(made, tokens[:1])[0]
    with Mixer(path) as mixer:
        assert post(mixer.port, path_of(made), envelope)[0] == 204
        before = mixer.memory()
        for chunked in (True, False):
            for where in (path_of(made), "/v1/a/1", "/x"):
                for _ in range(3):
                    sent_of(mixer.port, where, chunked, 2**30)
        assert mixer.memory() - before < 2**25
        assert mixer.stop() == -signal.SIGTERM


# --- A batch that was tampered with --------------------------------------------------------


@pytest.fixture
def batch(tmp_path, made, tokens, monkeypatch):
    """Of real messages, in parts of 25."""
    monkeypatch.setattr(batch_module, "PART", 25)
    store = Store(store_file(tmp_path / "honest", made, tokens))
    store.take([token + seal(made, 1, [plus(1)])[0] for token in tokens])
    with closing(store):
        return close_round(store, tmp_path / "batch")


SCHEMA = pa.schema([pa.field("message", pa.binary(SEALED), nullable=False)])


def manifest_of(batch):
    return batch.folder / "manifest.json"


def manifest(batch, **changes):
    """Alter a manifest, keeping it canonical."""
    path = manifest_of(batch)
    path.write_bytes(canonical(json.loads(path.read_bytes()) | changes))


def replaced(batch, name, table):
    """A part of other content, of which the manifest knows."""
    pq.write_table(table, batch.folder / name)
    digest = hashlib.sha256((batch.folder / name).read_bytes()).hexdigest()
    manifest(batch, parts={**batch.parts, name: digest})


def refusal(tmp_path, made, batch, key=None):
    """One line of a refused batch, which leaves the key; and exit 2."""
    (tmp_path / "campaign.json").write_bytes(made.text)
    key = key or key_file(tmp_path / "key")
    words = ["open", str(batch.folder), "--campaign", str(tmp_path / "campaign.json")]
    words += ["--key", str(key), "--output", str(tmp_path / "counts"), "--workers", "1"]
    assert main(words) == 2
    assert key.exists() and not (tmp_path / "counts").exists()


CHANGES = [
    {"respondents": 29},
    {"respondents": 401},
    {"respondents": "40"},
    {"respondents": 40.0},
    {"respondents": True},
    {"respondents": None},
    {"round": 1.0},
    {"round": True},
    {"round": 2},
    {"messages": 1},
    {"messages": 10**7},
    {"messages": "60"},
    {"parts": []},
    {"parts": {}},
    {"parts": {"..": "0" * 64}},
    {"parts": {"": "0" * 64}},
    {"parts": {"../part-00000.parquet": "0" * 64}},
    {"parts": {"part-00000.parquet": "0" * 64}},
    {"campaign": "0" * 64},
    {"version": 2},
    {"more": 1},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_an_altered_manifest(tmp_path, capsys, made, batch, change):
    manifest(batch, **change)
    refusal(tmp_path, made, batch)
    assert one_line(capsys)


def one_line(capsys):
    printed = capsys.readouterr()
    return printed.out == "" and re.fullmatch(r"shuffledp: [^\n]+\n", printed.err)


def cut(batch, made, folder):
    name = sorted(batch.parts)[0]
    (batch.folder / name).write_bytes((batch.folder / name).read_bytes()[:-1])


def lost(batch, made, folder):
    (batch.folder / sorted(batch.parts)[0]).unlink()


def dropped(batch, made, folder):
    manifest(batch, parts=dict(sorted(batch.parts.items())[1:]))


def repeated(batch, made, folder):
    first = sorted(batch.parts)[0]
    (batch.folder / "part-00099.parquet").write_bytes((batch.folder / first).read_bytes())
    manifest(batch, parts={**batch.parts, "part-00099.parquet": batch.parts[first]})


def swapped(batch, made, folder):
    first, second = sorted(batch.parts)[:2]
    manifest(batch, parts={**batch.parts, first: batch.parts[second]})


def another_column(batch, made, folder):
    replaced(batch, sorted(batch.parts)[0], pa.table({"message": ["x"] * 25}))


def empty_values(batch, made, folder):
    column = pa.array([None] * 25, pa.binary(SEALED))
    replaced(batch, sorted(batch.parts)[0], pa.table({"message": column}))


def bomb(batch, made, folder):
    """A few bytes that say they are millions of messages."""
    column = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(2_000_000, np.int32)), pa.array([bytes(SEALED)], pa.binary(SEALED))
    )
    replaced(batch, sorted(batch.parts)[0], pa.table({"message": column}))


@pytest.mark.parametrize(
    "damage", [cut, lost, dropped, repeated, swapped, another_column, empty_values, bomb]
)
def test_a_damaged_batch(tmp_path, capsys, made, batch, damage):
    damage(batch, made, tmp_path)
    refusal(tmp_path, made, batch)
    assert one_line(capsys)


def test_wrong_keys(tmp_path, capsys, made, batch):
    for text in ("", "00", "zz" * 32, "00" * 32, private(2).private_bytes_raw().hex()):
        (tmp_path / "wrong").write_text(text)
        refusal(tmp_path, made, batch, tmp_path / "wrong")
        assert one_line(capsys)


def test_parts_of_two_campaigns(tmp_path, made, batch, tokens):
    """With a manifest that fits they are opened: what is of the other is foreign."""
    other = campaign(eps=1.9)
    name = sorted(batch.parts)[0]
    theirs = seal(other, 1, [plus(1)] * 25)
    replaced(batch, name, pa.table([pa.array(theirs, pa.binary(SEALED))], schema=SCHEMA))
    opened = open_batch(made, batch.folder, key_file(tmp_path / "key"), tmp_path / "c", 1)
    assert opened.foreign == 25


@pytest.mark.parametrize("part", ["some", "all"])
def test_messages_of_another_round(tmp_path, capsys, made, batch, part):
    """Of one key: a round is part of what a message is bound to. Where all are, the key is kept."""
    rounds = replace(made, rounds=made.rounds * 2)
    for name in sorted(batch.parts)[: 1 if part == "some" else None]:
        theirs = seal(rounds, 2, [plus(1)] * batch.part(name).size)
        replaced(batch, name, pa.table([pa.array(theirs, pa.binary(SEALED))], schema=SCHEMA))
        batch = replace(batch, parts=json.loads(manifest_of(batch).read_bytes())["parts"])
    if part == "all":
        refusal(tmp_path, made, batch)
        assert one_line(capsys)
    else:
        opened = open_batch(made, batch.folder, key_file(tmp_path / "key"), tmp_path / "c", 1)
        assert opened.foreign == 25
    # The same messages, bound to this campaign and the other round.
    (bound,) = seal(rounds, 2, [plus(1)])
    key = private(1)
    assert suite().decrypt(bound, key, info=info(rounds, 2)) == plus(1)
    for other in (info(rounds, 1), info(made, 1)):
        with pytest.raises(InvalidTag):
            suite().decrypt(bound, key, info=other)


def test_the_order_of_messages_and_parts_does_not_matter(tmp_path, made, batch):
    names = sorted(batch.parts)
    turned = {a: batch.parts[b] for a, b in zip(names, names[::-1], strict=True)}
    held = [(batch.folder / name).read_bytes() for name in names]
    for name, text in zip(names, held[::-1], strict=True):
        (batch.folder / name).write_bytes(text)
    manifest(batch, parts=turned)
    opened = open_batch(made, batch.folder, key_file(tmp_path / "key"), tmp_path / "c", 1)
    assert opened.foreign == opened.repeated == 0


def test_an_opening_that_was_interrupted_leaves_no_key(tmp_path, monkeypatch, made, batch):
    """A second opening would draw other noise for the same counts."""
    key, output = key_file(tmp_path / "key"), tmp_path / "counts"

    def stop(_):
        raise Stopped

    with monkeypatch.context() as patched:
        patched.setattr("shuffledp.collection.analyst.destroy", stop)
        with pytest.raises(Stopped):
            open_batch(made, batch.folder, key, output, 1)
    assert key.exists()
    text = output.read_bytes()
    with pytest.raises(InputError, match="a round is opened once"):
        open_batch(made, batch.folder, key, output, 1)
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


def test_what_respondents_altered_a_manifest_tells(made, batch):
    """Only as far as the dummies cannot explain it: docs/security.md says so."""
    mixer = made.laws.mixer
    lowest = batch.messages - made.cells * mixer.largest
    for respondents, told in ((batch.messages + 1, True), (lowest - 1, True), (41, False)):
        if respondents < made.at_least:
            continue
        manifest(batch, respondents=respondents)
        if told:
            with pytest.raises(InputError, match="cannot have sent"):
                read_batch(batch.folder, made)
        else:
            read_batch(batch.folder, made)


# --- Devices -------------------------------------------------------------------------------


def test_a_device_sends_the_same_until_it_is_counted(tmp_path):
    """Nobody answers; the store is away; the answer was lost; the round is closed."""
    port = free_port()
    made = replace(campaign(), address=f"http://127.0.0.1:{port}")
    tickets = [os.urandom(16) for _ in range(3)]
    path = store_file(tmp_path / "store", made, [token(made, 1, each) for each in tickets])
    first, second, late = (Device(tmp_path / name) for name in ("first", "second", "late"))
    for ticket, each in zip(tickets, (first, second, late), strict=True):
        each.report(made, 1, ticket, 2)
    (waiting,) = (tmp_path / "first").iterdir()
    envelope = waiting.read_bytes()
    with pytest.raises(OSError, match="nobody answers"):
        first.send(made, 1, patience=0.0)
    with Mixer(path, port=port):
        path.rename(tmp_path / "away")
        with pytest.raises(OSError, match="cannot take it now"):
            first.send(made, 1, patience=0.0)
        assert waiting.read_bytes() == envelope and not path.exists()
        again = threading.Thread(target=first.send, args=(made, 1))
        again.start()  # it sends on until the store is back
        (tmp_path / "away").rename(path)
        again.join(120)
        assert [file.suffix for file in (tmp_path / "first").iterdir()] == [".counted"]
        # Counted, and the device never heard of it.
        (lost,) = (tmp_path / "second").iterdir()
        assert post(port, path_of(made), lost.read_bytes())[0] == 204
        second.send(made, 1)
        with closing(Store(path)) as store:
            assert store.respondents == 2 and store.size == 2
            store._set("state", 1)  # closed; there are too few for a batch
        with pytest.raises(InputError, match="the round is closed"):
            late.send(made, 1)


def test_the_place_of_a_message_in_an_envelope_says_nothing(monkeypatch):
    """A mixer that knew it could keep the records and drop the dummies."""
    made, marks = campaign("user-dummies"), [bytes([i]) * SEALED for i in range(6)]
    monkeypatch.setattr(device, "seal", lambda *_: list(marks))
    seen = np.zeros(6)
    for _ in range(600):
        envelope = make_envelope(made, 1, bytes(16), 1)
        sent = bodies([envelope])
        assert sorted(sent) == marks
        seen[sent.index(marks[0])] += 1
    assert chisquare(seen).pvalue > 1e-6
