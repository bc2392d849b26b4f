"""Measure the speed of a collection's roles against their targets and alternatives.

``make bench`` runs it. The mixer's server is a process on one core that receives envelopes over 512
connections at once; each of its answers means that the envelope is on disk. Seconds are processor
time (user and system) unless a row says clock; the difference is the disk's share.
"""

import argparse
import os
import resource
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from shuffledp_collect.analyst import open_messages
from shuffledp_collect.batch import close_round, read_batch
from shuffledp_collect.campaign import Campaign, make_campaign
from shuffledp_collect.laws import Laws
from shuffledp_collect.messages import HEAD, SEALED, info, plus, seal, suite, token_hash
from shuffledp_collect.mixer import Store, make_store

KEY = X25519PrivateKey.generate()
SERVE = """
import sys
from pathlib import Path
from shuffledp_collect import server
server._MAX_MESSAGES_TOGETHER = int(sys.argv[2])
server.serve([Path(sys.argv[1])], 0, lambda address: print(address, flush=True))
"""


def campaign(people: int, slots: int | None = None) -> Campaign:
    """Return a campaign of 1,000 cells; with slots, nobody adds dummies."""
    made = make_campaign(
        *("A benchmark", "Where?", 1000, "0" * 64, [KEY.public_key().public_bytes_raw()]),
        "http://127.0.0.1:1",
        **{"eps": 1.0, "delta": 1e-6, "at_least": min(people, 50_000)},
        people=people,
    )
    return made if slots is None else replace(made, laws=Laws(slots))


def show(what: str, value: float, unit: str, limit: float | None = None, most: bool = True) -> None:
    """Print a row with its limit."""
    good = limit is None or (value <= limit if most else value >= limit)
    verdict = "" if limit is None else f"  (limit {limit:g} {unit}: {'ok' if good else 'MISSED'})"
    print(f"  {what:<58}{value:12,.2f} {unit}{verdict}", flush=True)


def mixer(folder: Path, envelopes: int, connections: int, together: int) -> tuple[float, float]:
    """Return envelopes per second of the server's processor, and of the clock."""
    made = campaign(envelopes, 65)
    tokens = [os.urandom(16) for _ in range(envelopes)]
    store = folder / f"store-{together}"
    make_store(store, made, 1, [token_hash(each) for each in tokens])
    length = HEAD + 65 * SEALED
    head = f"POST /v1/{made.name}/1 HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
    command = [sys.executable, "-c", SERVE, str(store), str(together)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        os.sched_setaffinity(server.pid, {min(os.sched_getaffinity(0))})
        port = int(server.stdout.readline().rpartition(":")[2])

        def send(mine: list[bytes]) -> None:
            with socket.create_connection(("127.0.0.1", port)) as client:
                for token in mine:
                    client.sendall(head.encode() + token + os.urandom(HEAD - 16 + 65 * SEALED))
                    answer = client.recv(4096)
                    assert answer.startswith(b"HTTP/1.1 204"), answer

        def used() -> float:
            words = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
            return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

        threads = [
            threading.Thread(target=send, args=(tokens[i::connections],))
            for i in range(connections)
        ]
        before, start = used(), time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = envelopes / (used() - before), envelopes / (time.perf_counter() - start)
        server.terminate()
    with closing(Store(store)) as counted:
        assert counted.respondents == envelopes
    return found


def close(folder: Path, messages: int) -> None:
    """Close a round of random messages, in a process of its own."""
    slots = 65
    people = -(-messages // slots)
    made = campaign(people, slots)
    path, batch = folder / "large", folder / "batch"
    make_store(path, made, 1, [token_hash(os.urandom(16)) for _ in range(1000)])
    with closing(sqlite3.connect(path)) as store:
        store.execute("PRAGMA synchronous=OFF")
        with store:
            store.execute(
                "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?) "
                "INSERT INTO messages SELECT i, randomblob(?) FROM n",
                (people * slots, SEALED),
            )
            store.execute("UPDATE about SET value = ? WHERE name = 'respondents'", (people,))
    child = os.fork()
    start = time.perf_counter()
    if child == 0:
        close_round(Store(path), batch)
        os._exit(0)
    _, status, spent = os.wait4(child, 0)
    seconds = time.perf_counter() - start
    assert status == 0
    limits = (90.0, 1500.0) if messages <= 10**7 else (None, None)
    show(f"close of {people * slots:,} messages", spent.ru_utime + spent.ru_stime, "s")
    show("the same, by the clock", seconds, "s", limits[0])
    show("its peak memory", spent.ru_maxrss / 1024, "MB", limits[1])
    show("its batch, each message", batch.stat().st_size / (people * slots), "bytes")


def analyst(folder: Path, messages: int) -> None:
    """Open messages, beside the cipher alone."""
    made = campaign(messages)
    path = folder / "small"
    tokens = [os.urandom(16) for _ in range(messages)]
    make_store(path, made, 1, [token_hash(each) for each in tokens])
    sealed = seal(made, 1, [plus(1)] * messages)
    with closing(Store(path)) as store:
        store.take([a + bytes(16) + b for a, b in zip(tokens, sealed, strict=True)])
        start = time.process_time()
        store.draw()
        each = (time.process_time() - start) / (store.size - messages)
        show("seal and add a dummy of the mixer", each * 1e6, "µs")
        close_round(store, folder / "opened")
    batch = read_batch(folder / "opened", made)
    bound, start = info(made, 1), time.process_time()
    open_messages(KEY.private_bytes_raw(), bound, batch.sealed())
    ours, start = batch.messages / (time.process_time() - start), time.process_time()
    for message in sealed:
        suite().decrypt(message, KEY, info=bound)
    bare = messages / (time.process_time() - start)
    show("messages opened in a second of a core", ours, "/s", 15_000, most=False)
    show("the cipher alone", bare, "/s")
    print(f"  {'ratio':<58}{ours / bare:12.2f} x")


def main() -> None:
    """Measure all roles."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=float, default=1e7, help="of a close (default 1e7)")
    parser.add_argument("--envelopes", type=int, default=8000, help="sent to the mixer")
    parser.add_argument("--only", choices=["mixer", "close", "analyst"])
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=".", prefix=".collection-"))
    try:
        if options.only in (None, "mixer"):
            print("Mixer, envelopes of 65 messages, each on disk when it is answered")
            busy, clock = mixer(folder, options.envelopes, 512, 2**16)
            show("envelopes in a second of a core", busy, "/s", 500, most=False)
            show("the same, by the clock", clock, "/s")
            one, slow = mixer(folder, options.envelopes // 10, 64, 1)
            show("a transaction for each", one, "/s")
            show("the same, by the clock", slow, "/s")
            print(f"  {'ratio by the clock':<58}{clock / slow:12.1f} x")
        if options.only in (None, "close"):
            print("Mixer, close")
            close(folder, int(options.messages))
        if options.only in (None, "analyst"):
            print("Analyst")
            analyst(folder, 40_000)
    finally:
        shutil.rmtree(folder)
    print("Peak memory of this process: ", end="")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
