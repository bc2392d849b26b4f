"""Parts of a collection for tests: a campaign, a store with its tokens, a mixer's server."""

import http.client
import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from shuffledp.collection.campaign import make_campaign
from shuffledp.collection.messages import SEALED, token, token_hash
from shuffledp.collection.mixer import make_store


@cache
def private(number):
    """The private key of a round, the same within a run of tests."""
    return X25519PrivateKey.generate()


@cache
def campaign(mechanism="two-servers", **given):
    """A small one; `rounds` is how many there are."""
    rounds = given.pop("rounds", 1)
    chosen = {"eps": 2.0, "delta": 1e-3, "at_least": 30, "people": 400} | given
    keys = [private(i).public_key().public_bytes_raw() for i in range(1, rounds + 1)]
    cells = chosen.pop("cells", 5)
    return make_campaign(
        *("A place", "Where?", cells, "0" * 64, keys, "http://127.0.0.1:1"),
        mechanism=mechanism,
        **chosen,
    )


def tokens_of(made, people, number=1):
    return [token(made, number, os.urandom(16)) for _ in range(people)]


def store_file(path, made, tokens, number=1):
    make_store(path, made, number, [token_hash(each) for each in tokens])
    return path


def random_envelopes(made, tokens):
    """Of messages that nobody can open: the mixer does not look into them."""
    return [each + os.urandom(SEALED * made.laws.slots) for each in tokens]


def key_file(path, number=1):
    path.write_text(private(number).private_bytes_raw().hex())
    return path


def messages_of(batch):
    """All sealed messages of a batch, in their order."""
    return [bytes(each) for name in sorted(batch.parts) for each in batch.part(name).tolist()]


class Mixer:
    """`shuffledp mixer serve` as a process; ``printed`` is what it wrote when it has ended."""

    def __init__(self, *stores, port=0, **options):
        words = ["mixer", "serve", *map(str, stores), "--port", str(port)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "shuffledp", *words],
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
        """As Ctrl-C does; the return code."""
        self.process.terminate()
        return self._ended()

    def _ended(self):
        if not self.process.stdout.closed:
            self.printed += self.process.stdout.read()
            self.process.stdout.close()
        return self.process.wait(timeout=60)

    def memory(self):
        """The most bytes it had, by the kernel."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        (line,) = (line for line in text.splitlines() if line.startswith("VmHWM"))
        return 1024 * int(line.split()[1])


@contextmanager
def serving(*stores):
    """The server in a thread of this process; gives its port."""
    import uvicorn
    from shuffledp.collection import server

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
    thread = threading.Thread(target=server.serve, args=(stores, "127.0.0.1", 0, say))
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
