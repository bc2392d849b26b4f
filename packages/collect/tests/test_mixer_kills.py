"""A mixer's process that is killed: the light twins of test_mixer_faults.py."""

import multiprocessing
import os
import random
import signal
import sys
from contextlib import closing

import collection_parts as parts
import pytest
from effort import long
from shuffledp_collect.batch import close_round
from shuffledp_collect.messages import HEAD
from shuffledp_collect.mixer import Answer, Store

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


def count_events(path, folder, counter, deadly):
    """Close a round; be killed at an event: steps of the database, or something with a file."""

    def event(*_):
        counter.value += 1
        if counter.value == deadly:
            die()

    with closing(Store(path)) as store:
        store._store.set_progress_handler(event, 40)
        sys.addaudithook(lambda name, _: event() if name in ("open", "os.rename") else None)
        close_round(store, folder)


@pytest.mark.parametrize("kills", [2, long(20)])
def test_a_close_that_is_killed_at_any_moment_is_done_again(tmp_path, kills):
    """The same batch bytes once one was written, and dummies that are drawn once."""
    made = parts.campaign(cells=40, at_least=100)
    tokens = parts.tokens_of(made, 150)
    envelopes = parts.random_envelopes(made, tokens)
    path = parts.store_file(tmp_path / "store", made, tokens)
    with closing(Store(path)) as store:
        assert set(store.take(envelopes)) == {Answer.COUNTED}
    counter, source, whole = FORK.Value("q", 0), random.Random(5), path.read_bytes()
    # Once here, so that no process counts imports that a later one does without.
    with closing(Store(path)) as store:
        close_round(store, tmp_path / "imported")
    path.write_bytes(whole)
    assert in_a_process(count_events, path, tmp_path / "first", counter, 0) == 0
    events = counter.value
    assert events > 100
    sent = set(parts.bodies(envelopes))
    drawn_at = set()
    for kill in range(kills):
        path.write_bytes(whole)
        file = tmp_path / f"batch-{kill}"
        deadly = 1 + (events * kill + source.randrange(events)) // kills
        before = None
        for another in (deadly, source.randrange(1, events), 0):
            counter.value = 0
            in_a_process(count_events, path, file, counter, another)
            with closing(Store(path)) as store:
                if store.written is None and not store.taking:
                    now = sorted(store.messages())
                    assert before is None or now == before, "dummies were drawn again"
                    before = now
                    drawn_at.add(kill)
        with closing(Store(path)) as store:
            batch = close_round(store, file)
            assert store.size == 0 and store.written
        taken = parts.messages_of(batch)
        assert batch.respondents == len(envelopes)
        assert before is None or taken == before
        assert len(set(taken)) == len(taken) and sent <= set(taken)
        content = path.read_bytes()
        assert not any(each in content for each in taken)
        assert {file.name for file in tmp_path.glob("store*")} <= {"store", "store-journal"}
    # Moments lie evenly over the events; two or three of twenty follow the dummies.
    assert len(drawn_at) >= kills // 20, f"{len(drawn_at)} kills after the dummies were drawn"


def empty_until_rows_go(path):
    with closing(Store(path)) as store:
        store._store.set_trace_callback(lambda words: die() if "DELETE FROM m" in words else None)
        store.empty(bytes(32))


def test_messages_are_overwritten_in_place(tmp_path):
    made = parts.campaign(cells=40, at_least=100)
    tokens = parts.tokens_of(made, 150)
    path = parts.store_file(tmp_path / "store", made, tokens)
    with closing(Store(path)) as store:
        store.take(parts.random_envelopes(made, tokens))
        store.draw()
        taken = list(store.messages())
    assert in_a_process(empty_until_rows_go, path) == -signal.SIGKILL
    content = path.read_bytes()
    assert not any(each in content for each in taken)


def take_all(path, envelopes, answers):
    with closing(Store(path)) as store:
        for start in range(0, len(envelopes), 3):
            assert set(store.take(envelopes[start : start + 3])) == {Answer.COUNTED}
            answers.value = start + 3


def test_what_was_answered_is_there_once_after_kills(tmp_path):
    made = parts.without_noise()
    tokens = parts.tokens_of(made, 60)
    envelopes = parts.random_envelopes(made, tokens)
    path = parts.store_file(tmp_path / "store", made, tokens)
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
            assert all(each[HEAD : HEAD + 52] in there for each in counted)
    with closing(Store(path)) as store:
        assert set(store.take(envelopes)) == {Answer.COUNTED}
        batch = close_round(store, tmp_path / "batch")
    assert batch.respondents == 60
    assert len(set(parts.messages_of(batch))) == batch.messages == 60 * made.laws.slots
