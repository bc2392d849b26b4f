"""A mixer's process that is killed: the light twins of faults/test_collection_kills.py."""

import multiprocessing
import os
import random
import signal
import sys
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from collection_parts import campaign, messages_of, random_envelopes, store_file, tokens_of
from effort import long
from shuffledp.collection.batch import close_round
from shuffledp.collection.messages import TOKEN
from shuffledp.collection.mixer import Answer, Store
from shuffledp.collection.shards import Shard, Shards

FORK = multiprocessing.get_context("fork")


def in_a_process(task, *arguments):
    """How a process ended that did a task: 0, or minus the signal that killed it."""
    child = FORK.Process(target=task, args=arguments)
    child.start()
    child.join(120)
    assert not child.is_alive()
    return child.exitcode


def die():
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def stores_of(paths):
    """A store, or several as one."""
    with ExitStack() as opened:
        if len(paths) == 1:
            yield opened.enter_context(closing(Store(paths[0])))
        else:
            yield Shards([opened.enter_context(closing(Shard(path))) for path in paths])


def first_of(store):
    return store._stores[0] if isinstance(store, Shards) else store


def count_events(paths, folder, counter, deadly):
    """Close a round; be killed at an event: steps of the database, or something with a file."""

    def event(*_):
        counter.value += 1
        if counter.value == deadly:
            die()

    with stores_of(paths) as store:
        for each in store._stores if isinstance(store, Shards) else [store]:
            each._store.set_progress_handler(event, 40)
        sys.addaudithook(lambda name, _: event() if name in ("open", "os.rename") else None)
        close_round(store, folder)


@pytest.fixture
def filled(tmp_path, shards):
    """Stores, none of which could be closed alone where they are shards, and what they took."""
    made = campaign(cells=40, at_least=100)
    tokens = tokens_of(made, 150)
    envelopes = random_envelopes(made, tokens)
    paths = [tmp_path / f"store-{index}" for index in range(shards)]
    for index, path in enumerate(paths):
        with closing(Store(store_file(path, made, tokens[index::shards]))) as store:
            assert set(store.take(envelopes[index::shards])) == {Answer.COUNTED}
    return paths, envelopes


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("kills", [2, long(20)])
def test_a_close_that_is_killed_at_any_moment_is_done_again(tmp_path, filled, shards, kills):
    """The same batch bytes once one was written, and dummies that are drawn once."""
    paths, envelopes = filled
    counter, source = FORK.Value("q", 0), random.Random(5)
    whole = {path: path.read_bytes() for path in paths}
    # Once here, so that no process counts imports that a later one does without.
    with stores_of(paths) as store:
        close_round(store, tmp_path / "imported")
    for path, content in whole.items():
        path.write_bytes(content)
    assert in_a_process(count_events, paths, tmp_path / "first", counter, 0) == 0
    events = counter.value
    assert events > 100
    sent = {each[TOKEN:] for each in envelopes}
    drawn_at = set()
    for kill in range(kills):
        for path, content in whole.items():
            path.write_bytes(content)
        folder = tmp_path / f"batch-{kill}"
        deadly = 1 + (events * kill + source.randrange(events)) // kills
        before = None
        for another in (deadly, source.randrange(1, events), 0):
            counter.value = 0
            source.shuffle(paths)
            in_a_process(count_events, paths, folder, counter, another)
            with stores_of(paths) as store:
                if store.written is None and first_of(store)._value("state") == 2:
                    now = list(store.messages())
                    assert before is None or now == before, "dummies were drawn again"
                    before = now
                    drawn_at.add(kill)
        with stores_of(paths) as store:
            batch = close_round(store, folder)
            assert store.size == 0 and store.written
        taken = messages_of(batch)
        assert batch.respondents == len(envelopes)
        assert before is None or taken == before
        assert len(set(taken)) == len(taken) and sent <= set(taken)
        content = b"".join(map(Path.read_bytes, paths))
        assert not any(each in content for each in taken)
        left = {file.name for file in tmp_path.glob("store*")} - {path.name for path in paths}
        assert left <= {f"{path.name}-journal" for path in paths}
    # Moments lie evenly over the events; two or three of twenty follow the dummies.
    assert len(drawn_at) >= kills // 20, f"{len(drawn_at)} kills after the dummies were drawn"


def empty_until_rows_go(path):
    with closing(Store(path)) as store:
        store._store.set_trace_callback(lambda words: die() if "DELETE FROM m" in words else None)
        store.empty(bytes(32))


@pytest.mark.parametrize("shards", [3])
def test_messages_and_turns_are_overwritten_where_they_lie(filled, shards):
    """Turns tell from which shard a message came, and so whose it may be."""
    paths, _ = filled
    with stores_of(paths) as store:
        store.draw()
        taken, turns = list(store.messages()), bytes(first_of(store).turns())[:1024]
    assert len(turns) > 300 and turns in paths[0].read_bytes()
    assert in_a_process(empty_until_rows_go, paths[0]) == -signal.SIGKILL
    content = paths[0].read_bytes()
    assert turns not in content and turns[:100] not in content
    assert not any(each in content for each in taken)


def take_all(path, envelopes, answers):
    with closing(Store(path)) as store:
        for start in range(0, len(envelopes), 3):
            assert set(store.take(envelopes[start : start + 3])) == {Answer.COUNTED}
            answers.value = start + 3


def test_what_was_answered_is_there_once_after_kills(tmp_path):
    made = campaign("user-dummies")
    tokens = tokens_of(made, 60)
    envelopes = random_envelopes(made, tokens)
    path = store_file(tmp_path / "store", made, tokens)
    answers = FORK.Value("q", 0)
    for answered in range(0, 60, 15):
        child = FORK.Process(target=take_all, args=(path, envelopes, answers))
        answers.value = -1
        child.start()
        while answers.value < answered:
            pass
        child.kill()
        child.join()
        with closing(Store(path)) as store:
            there = set(store.messages())
            assert len(there) == store.size == store.respondents * made.laws.slots
            counted = envelopes[: max(answers.value, 0)]
            assert all(each[TOKEN : TOKEN + 52] in there for each in counted)
    with closing(Store(path)) as store:
        assert set(store.take(envelopes)) == {Answer.COUNTED}
        batch = close_round(store, tmp_path / "batch")
    assert batch.respondents == 60
    assert len(set(messages_of(batch))) == batch.messages == 60 * made.laws.slots
