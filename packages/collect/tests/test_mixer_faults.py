"""The mixer's server killed, without room, without its store, closed under load."""

import json
import os
import random
import subprocess
import sys
import threading
from contextlib import closing
from http.client import HTTPException
from pathlib import Path

import collection_parts as parts
import pytest
from faults.test_disks import NAMESPACE, mounts  # noqa: F401 - a fixture
from shuffledp_collect.batch import close_round, read_batch
from shuffledp_collect.mixer import Store
from waiting import run, run_python, wait_until

pytestmark = pytest.mark.faults
KILLS = 20


class Clients:
    """Threads that send envelopes again until they are counted; some hang up before the answer."""

    def __init__(self, port, path, envelopes, threads=8):
        self.port, self.path = port, path
        self.counted, self.closed, self.others = set(), set(), set()
        self.unheard, self._going = 0, True
        self._waiting, self._lock = list(envelopes), threading.Lock()
        self._source = random.Random(11)
        self._threads = [threading.Thread(target=self._work) for _ in range(threads)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._going = False  # after an error; else they have ended
        self.join()

    def join(self):
        for thread in self._threads:
            thread.join(300)
            assert not thread.is_alive()

    def _work(self):
        while True:
            with self._lock:
                if not self._waiting or not self._going:
                    return
                envelope = self._waiting.pop()
                hangs_up = self._source.random() < 0.2
            while self._going and not self._answered(envelope, hangs_up):
                hangs_up = False
                threading.Event().wait(0.05)

    def _answered(self, envelope, hangs_up):
        try:
            status, _ = parts.post(self.port, self.path, envelope, 0.001 if hangs_up else 30.0)
        except (OSError, HTTPException):
            with self._lock:
                self.unheard += 1
            return False
        with self._lock:
            kept = {204: self.counted, 410: self.closed}.get(status)
            if kept is None:
                self.others.add(status)
                return False
            kept.add(envelope)
            return True


def prepared(folder, people):
    """Return a campaign without noise, its envelopes, and a store and a port for its mixer."""
    made = parts.without_noise(people=people)
    tokens = parts.tokens_of(made, people)
    path = parts.store_file(folder / "store", made, tokens)
    return made, parts.random_envelopes(made, tokens), path, parts.free_port()


def test_a_mixer_that_is_killed_under_load(tmp_path):
    """Every envelope that was answered 204 is in the batch exactly once."""
    made, envelopes, path, port = prepared(tmp_path, 2000)
    source = random.Random(1)
    with Clients(port, parts.path_of(made), envelopes) as clients:
        for _ in range(KILLS):
            with parts.Mixer(path, port=port) as mixer:
                aim = len(clients.counted) + source.randrange(5, made.people // KILLS - 20)
                wait_until(lambda aim=aim: len(clients.counted) >= aim, "answers")
                mixer.kill()
                before = set(clients.counted)
                with closing(Store(path)) as store:
                    held = list(store.messages())
                    assert len(held) == store.respondents * made.laws.slots
                assert set(parts.bodies(before)) <= set(held) and len(set(held)) == len(held)
        with parts.Mixer(path, port=port):
            clients.join()
    assert clients.counted == set(envelopes)
    assert clients.unheard > KILLS and not clients.closed
    with closing(Store(path)) as store:
        batch = close_round(store, tmp_path / "batch")
    assert batch.respondents == made.people
    assert sorted(parts.messages_of(batch)) == sorted(parts.bodies(envelopes))


def close_by_command(path, output):
    return run_python("-m", "shuffledp_collect", "mixer", "close", path, "--output", output)


def test_a_close_under_load(tmp_path):
    made, envelopes, path, port = prepared(tmp_path, 1500)
    with (
        parts.Mixer(path, port=port),
        Clients(port, parts.path_of(made), envelopes) as clients,
    ):
        wait_until(lambda: len(clients.counted) >= 100, "answers")
        done = close_by_command(path, tmp_path / "batch")
        assert done.returncode == 0, done.stderr
        clients.join()
        assert clients.counted | clients.closed == set(envelopes)
        assert clients.closed, "who came too late is told so"
        assert clients.others <= {503}
        batch = read_batch(tmp_path / "batch", made)
        assert batch.respondents == len(clients.counted)
        assert sorted(parts.messages_of(batch)) == sorted(parts.bodies(clients.counted))


def test_a_store_that_is_away_and_back(tmp_path):
    made, envelopes, path, port = prepared(tmp_path, 1000)
    with (
        parts.Mixer(path, port=port) as mixer,
        Clients(port, parts.path_of(made), envelopes) as clients,
    ):
        for _ in range(5):
            before, clients.others = len(clients.counted), set()
            wait_until(lambda aim=before + 50: len(clients.counted) >= aim, "answers")
            path.rename(tmp_path / "elsewhere")
            wait_until(lambda: 503 in clients.others, "an error to a device")
            if (tmp_path / "store").exists():
                raise AssertionError("a store was made anew")
            (tmp_path / "elsewhere").rename(path)
        clients.join()
        assert clients.counted == set(envelopes) and clients.others <= {503}
        mixer.stop()
        assert mixer.printed.count(b"\n") == 1, mixer.printed
    with closing(Store(path)) as store:
        batch = close_round(store, tmp_path / "batch")
    assert sorted(parts.messages_of(batch)) == sorted(parts.bodies(envelopes))


def test_a_mixer_without_room(tmp_path, mounts):  # noqa: F811 - the fixture
    """On a disk that fills up while it takes envelopes, and while it closes."""
    (tmp_path / "disk").mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    script = [sys.executable, str(Path(__file__)), str(tmp_path / "disk")]
    done = run([*NAMESPACE, *script], seconds=600, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["refused"] == 503 and found["counted before"] > 10
    assert found["closing"] == 2 and "\n" not in found["said"].strip(), found
    assert "No space left" in found["said"] or "full" in found["said"], found
    assert found["left"] == []
    assert found["missing"] == found["twice"] == 0


def without_room(disk):
    """In a mount namespace: a disk for about half of the envelopes, then more room."""

    def mount(options):
        subprocess.run(["mount", *options, "tmpfs", str(disk)], check=True, timeout=60)

    def used():
        return sum(file.stat().st_size for file in disk.iterdir()) // 1024

    mount(["-t", "tmpfs", "-o", "size=60m"])
    made, envelopes, path, _ = prepared(disk, 1000)
    mount(["-o", f"remount,size={used() + 80}k"])
    found, there = {}, parts.path_of(made)
    counted = []
    with parts.Mixer(path) as mixer:
        for each in envelopes:
            status, _ = parts.post(mixer.port, there, each)
            if status != 204:
                break
            counted.append(each)
        found |= {"refused": status, "counted before": len(counted)}
        mount(["-o", "remount,size=60m"])
        for each in envelopes:
            assert parts.post(mixer.port, there, each)[0] == 204
    # Room for the store alone, then for the batch as well.
    mount(["-o", f"remount,size={used() + 100}k"])
    done = close_by_command(path, disk / "batch")
    found |= {"closing": done.returncode, "said": done.stderr}
    found["left"] = [str(left) for left in disk.glob("*batch*")]
    mount(["-o", "remount,size=60m"])
    done = close_by_command(path, disk / "batch")
    assert done.returncode == 0, done.stderr
    taken = parts.messages_of(read_batch(disk / "batch", made))
    found["missing"] = len(set(parts.bodies(envelopes)) - set(taken))
    found["twice"] = len(taken) - len(set(taken))
    print(json.dumps(found))


if __name__ == "__main__":
    without_room(Path(sys.argv[1]))
