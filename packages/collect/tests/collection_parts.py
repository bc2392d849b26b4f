"""Parts of a collection for tests: a campaign, a store with its tokens, a mixer's server."""

import http.client
import os
import socket
import subprocess
import sys
import threading
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from shuffledp_collect.analyst import open_batch
from shuffledp_collect.batch import close_round
from shuffledp_collect.campaign import make_campaign
from shuffledp_collect.laws import Laws
from shuffledp_collect.messages import HEAD, SEALED, TOKEN, token, token_hash
from shuffledp_collect.mixer import Answer, Store, make_store


@cache
def private(number):
    """The private key of a round, the same within a run of tests."""
    return X25519PrivateKey.generate()


@cache
def campaign(mechanism="two-servers", **given):
    """A small campaign; `rounds` is their number."""
    rounds = given.pop("rounds", 1)
    chosen = {"eps": 2.0, "delta": 1e-3, "at_least": 30, "people": 400} | given
    keys = [private(i).public_key().public_bytes_raw() for i in range(1, rounds + 1)]
    cells = chosen.pop("cells", 5)
    return make_campaign(
        *("A place", "Where?", cells, "0" * 64, keys, "http://127.0.0.1:1"),
        mechanism=mechanism,
        **chosen,
    )


def without_noise(**given):
    """A campaign whose envelopes have six messages, and to which nobody adds dummies."""
    return replace(campaign(**given), laws=Laws(6))


def tokens_of(made, people, number=1):
    return [token(made, number, os.urandom(16)) for _ in range(people)]


def store_file(path, made, tokens, number=1):
    make_store(path, made, number, [token_hash(each) for each in tokens])
    return path


def random_envelopes(made, tokens):
    """Envelopes with messages that nobody can open: the mixer does not look into them."""
    return [each + os.urandom(HEAD - TOKEN + SEALED * made.laws.slots) for each in tokens]


def bodies(envelopes):
    """The sealed messages of envelopes."""
    return [
        each[start : start + SEALED]
        for each in envelopes
        for start in range(HEAD, len(each), SEALED)
    ]


def key_file(path, number=1):
    path.write_text(private(number).private_bytes_raw().hex())
    return path


def closed(folder, made, envelopes):
    """Return the batch of a round that took these envelopes."""
    path = store_file(folder / "store", made, {each[:TOKEN] for each in envelopes})
    with closing(Store(path)) as store:
        assert set(store.take(envelopes)) == {Answer.COUNTED}
        return close_round(store, folder / "batch")


def opened(folder, made, batch, workers=1):
    """Return the counts of a batch, after opening it with the key of round 1."""
    key = key_file(folder / "key")
    return open_batch(made, batch.path, key, folder / "counts", workers)


def messages_of(batch):
    """All sealed messages of a batch, in order."""
    return batch.sealed().tolist()


class Mixer:
    """The mixer's server as a process; ``printed`` is its output when it has ended."""

    def __init__(self, *stores, port=0, **options):
        words = ["mixer", "serve", *map(str, stores), "--port", str(port)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "shuffledp_collect", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            **options,
        )
        self.printed = self.process.stdout.readline()
        assert self.printed.startswith(b"http://"), self.printed + self.process.stdout.read()
        self.port = int(self.printed.split()[0].rpartition(b":")[2])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()

    def kill(self):
        self.process.kill()
        self._ended()

    def stop(self):
        """Stop the server; return its exit code."""
        self.process.terminate()
        return self._ended()

    def _ended(self):
        if not self.process.stdout.closed:
            self.printed += self.process.stdout.read()
            self.process.stdout.close()
        return self.process.wait(timeout=60)

    def memory(self):
        """Peak memory in bytes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = (line for line in text.splitlines() if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])


@contextmanager
def serving(*stores):
    """Run the server in a thread of this process; give its port."""
    import uvicorn
    from shuffledp_collect import server

    ends, ready = [], threading.Event()
    told = []

    class Kept(uvicorn.Server):
        def __init__(self, config):
            super().__init__(config)
            ends.append(self)

        def install_signal_handlers(self):
            pass

    def say(address):
        told.append(int(address.rpartition(":")[2]))
        ready.set()

    original, uvicorn.Server = uvicorn.Server, Kept
    thread = threading.Thread(target=server.serve, args=(stores, 0, say))
    thread.start()
    try:
        assert ready.wait(60)
        yield told[0]
    finally:
        uvicorn.Server = original
        ends[0].should_exit = True
        thread.join(60)


def post(port, path, body, timeout=60.0, headers=()):
    """Status and words of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("POST", path, body, dict(headers))
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def path_of(made, number=1):
    return f"/v1/{made.name}/{number}"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]
