"""Several stores of a round that are closed into one batch."""

import itertools
from collections import Counter
from contextlib import ExitStack, closing

import numpy as np
import pytest
from collection_parts import (
    campaign,
    messages_of,
    path_of,
    post,
    random_envelopes,
    serving,
    store_file,
    tokens_of,
)
from scipy.stats import chi2
from shuffledp.cli import main as command
from shuffledp.collection.batch import close_round, read_batch
from shuffledp.collection.messages import TOKEN
from shuffledp.collection.mixer import Answer, Store
from shuffledp.collection.shards import Shard, Shards, draw_turns
from shuffledp.errors import InputError

PEOPLE, SHARDS = 60, 3


@pytest.fixture
def shards(tmp_path):
    """Paths of stores that have enough people together and not by themselves, and envelopes."""
    made = campaign(at_least=PEOPLE - 5)
    tokens = tokens_of(made, PEOPLE)
    envelopes = random_envelopes(made, tokens)
    paths = [tmp_path / f"store-{index}" for index in range(SHARDS)]
    for index, path in enumerate(paths):
        with closing(Store(store_file(path, made, tokens[index::SHARDS]))) as store:
            assert set(store.take(envelopes[index::SHARDS])) == {Answer.COUNTED}
    return made, paths, envelopes


def close(paths, folder):
    with ExitStack() as opened:
        stores = [opened.enter_context(closing(Shard(path))) for path in paths]
        return close_round(Shards(stores), folder)


def state_of(path):
    with closing(Store(path)) as store:
        return store.taking


def test_all_messages_are_in_one_batch_once(shards, tmp_path, capsys):
    made, paths, envelopes = shards
    words = ["mixer", "close", *map(str, paths), "--output", str(tmp_path / "batch")]
    assert command([*words, "--format", "json"]) == 0
    assert f'"respondents": {PEOPLE}' in capsys.readouterr().out
    batch = read_batch(tmp_path / "batch", made)
    taken = messages_of(batch)
    assert batch.messages == len(taken) == len(set(taken)) > PEOPLE
    assert {each[TOKEN:] for each in envelopes} <= set(taken)
    content = b"".join(path.read_bytes() for path in paths)
    assert not any(each in content for each in taken)
    # Nothing is left of the turns, which tell from which shard a message came.
    with closing(Shard(paths[0])) as store:
        assert list(store.turns()) == []
    # Dummies of one draw, not of one by each; a right one fails in one of 1e9 runs.
    below = np.array([int(text, 16) / 2.0**128 for text in made.laws.mixer.thresholds])
    masses = np.diff(below, prepend=0.0, append=1.0)
    values = made.laws.mixer.first + np.arange(masses.size)
    mean, square = masses @ values, masses @ values**2
    deviation = np.sqrt(made.cells * (square - mean**2))
    assert abs(batch.messages - PEOPLE - made.cells * mean) < 7.0 * deviation
    assert 3 * mean * made.cells - made.cells * mean > 14.0 * deviation
    # Again it is found, in any order.
    assert close(paths[::-1], tmp_path / "batch") == batch
    with pytest.raises(InputError, match="was written"):
        close(paths, tmp_path / "other")


def test_the_order_is_drawn_once(shards):
    _, paths, _ = shards
    orders = []
    for order in (paths, paths[::-1]):
        with ExitStack() as opened:
            group = Shards([opened.enter_context(closing(Shard(path))) for path in order])
            group.draw()
            orders += [list(group.messages()), list(group.messages())]
    assert orders[0] == orders[1] == orders[2] == orders[3]


def test_a_token_is_of_one_shard(shards):
    made, paths, envelopes = shards
    late = random_envelopes(made, [envelopes[0][:TOKEN]])[0]
    for path, known, other in zip(paths, [True, False, False], [409, 403, 403], strict=True):
        with serving(path) as port:
            status, _ = post(port, path_of(made), envelopes[0])
            assert status == (204 if known else 403)
            assert post(port, path_of(made), late)[0] == other


def test_no_shard_is_closed_without_the_others(shards, tmp_path):
    made, paths, envelopes = shards
    with closing(Store(paths[0])) as store, pytest.raises(InputError, match="stays open"):
        close_round(store, tmp_path / "batch")
    with pytest.raises(InputError, match="40 people responded"):
        close(paths[:2], tmp_path / "batch")
    assert all(map(state_of, paths))
    # Killed when two of three had learned of it.
    with ExitStack() as opened:
        stores = [opened.enter_context(closing(Shard(path))) for path in paths]
        stores[1].join("a group", 0, SHARDS)
        stores[2].join("a group", 1, SHARDS)
        late = random_envelopes(made, [envelopes[1][:TOKEN]])
        assert stores[1].take([envelopes[1], *late]) == [Answer.COUNTED, Answer.USED]
    for some in ([paths[1]], [paths[2]], paths[1:], [paths[2], paths[0]]):
        with pytest.raises(InputError, match="name all of them"):
            if len(some) == 1:
                with closing(Store(some[0])) as store:
                    close_round(store, tmp_path / "batch")
            else:
                close(some, tmp_path / "batch")
    batch = close(paths, tmp_path / "batch")
    assert batch.respondents == PEOPLE
    with closing(Shard(paths[1])) as first, closing(Shard(paths[0])) as last:
        assert (first.place, last.place) == (("a group", 0, SHARDS), ("a group", 2, SHARDS))


def test_who_closes_at_the_same_time_leaves_them_to_one(shards, tmp_path):
    """Both begin with the same store, whatever order they name."""
    _, paths, _ = shards
    with ExitStack() as opened:
        one, two = (
            [opened.enter_context(closing(Shard(path))) for path in order]
            for order in (paths, paths[::-1])
        )
        first, second = Shards(one), Shards(two)
        one[0].join(first._group, 0, SHARDS)
        with pytest.raises(InputError, match=f"{paths[0]} is closed already"):
            for index, each in enumerate(second._stores):
                each.join(second._group, index, SHARDS)
        assert [each.place is None for each in one] == [False, True, True]
    assert close(paths, tmp_path / "batch").respondents == PEOPLE


def test_other_stores_are_refused(shards, tmp_path):
    made, paths, envelopes = shards
    with pytest.raises(InputError, match="named twice"):
        close([*paths, paths[0]], tmp_path / "batch")
    doubled = store_file(tmp_path / "doubled", made, [each[:TOKEN] for each in envelopes[:2]])
    with pytest.raises(InputError, match="a token in common"):
        close([*paths, doubled], tmp_path / "batch")
    many = store_file(tmp_path / "many", made, tokens_of(made, made.people))
    with pytest.raises(InputError, match=f"{made.people + PEOPLE} tokens"):
        close([*paths, many], tmp_path / "batch")
    rounds = campaign(at_least=PEOPLE - 5, rounds=2)
    other = store_file(tmp_path / "other", rounds, tokens_of(rounds, 3))
    with pytest.raises(InputError, match="different rounds"):
        close([*paths, other], tmp_path / "batch")
    assert all(map(state_of, paths)) and not (tmp_path / "batch").exists()


def test_all_orders_are_as_likely():
    """A right draw fails in one of 1e9 runs."""
    sizes, times = [2, 1, 1], 6_000
    seen = Counter(b"".join(draw_turns(sizes)) for _ in range(times))
    orders = set(itertools.permutations([0, 0, 1, 2]))
    assert set(seen) == {bytes(order) for order in orders} and len(orders) == 12
    counts = np.array(list(seen.values()))
    assert ((counts - times / 12) ** 2 / (times / 12)).sum() < chi2.isf(1e-9, 11)
    rows = list(draw_turns([1500, 1000]))
    assert [len(row) for row in rows] == [1024, 1024, 452]
    assert Counter(b"".join(rows)) == {0: 1500, 1: 1000}
