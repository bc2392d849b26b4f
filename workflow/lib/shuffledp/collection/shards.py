"""Shards of a round: stores of different tokens, one a process, closed into one batch.

A token is of one shard, and the others do not know it: it is used once. Each shard has its messages
in a random order, and turns that are drawn once say from which the batch takes the next. Whatever
interrupts this, each step is found done or done again:

1. every shard learns of which group it is, and takes no more envelopes;
2. the first draws dummies and turns;
3. the batch is written, whole or not at all;
4. every shard learns of the batch, and deletes its messages.
"""

import heapq
import json
import secrets
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from shuffledp.collection.mixer import CLOSED, OPEN, RANDOM, Store, check_respondents
from shuffledp.errors import InputError

_MOST: Final = 256  # a turn is a byte
_TURNS: Final = 1024  # of a row: it lies in one page, and is overwritten there


class Shard(Store):
    """A store that is closed with others."""

    @property
    def place(self) -> tuple[str, int, int] | None:
        """What `join` was told, or None."""
        found = self._late("shards")
        return None if found is None else tuple(json.loads(found))

    def hashes(self) -> Iterator[bytes]:
        """Of all tokens, in their order."""
        for (found,) in self._store.execute("SELECT hash FROM tokens ORDER BY hash"):
            yield found

    def join(self, group: str, index: int, number: int) -> None:
        """Take no more envelopes.

        Parameters
        ----------
        group
            Names the shards of a round.
        index, number
            Which of how many this is.

        Raises
        ------
        InputError
            If it takes none any more.
        StoreError
            As `take`.
        """
        with self._writing():
            if self._value("state") != OPEN:
                raise InputError(f"{self.path} is closed already")
            words = json.dumps([group, index, number])
            self._store.execute("INSERT INTO about VALUES ('shards', ?)", (words,))
            self._set("state", CLOSED)

    def draw_for(self, others: Sequence[int]) -> None:
        """Add the mixer's dummies and draw turns, once whatever happens after.

        Parameters
        ----------
        others
            Messages of each other shard.

        Raises
        ------
        StoreError
            As `take`.
        """
        self._add_dummies(
            lambda: self._store.executemany(
                "INSERT INTO turns VALUES (?, ?)", enumerate(draw_turns([self.size, *others]))
            )
        )

    def turns(self) -> Iterator[int]:
        """From which shard each message of the batch is, the same each time."""
        for (some,) in self._store.execute("SELECT shards FROM turns ORDER BY part"):
            yield from some


def draw_turns(sizes: Sequence[int]) -> Iterator[bytes]:
    """Numbers of shards in a random order of all their messages, each in a byte.

    Of messages in random orders, taken by these turns, all orders are as likely.

    Parameters
    ----------
    sizes
        Messages of each.
    """
    left, whole = list(sizes), sum(sizes)
    for end in range(whole, 0, -_TURNS):
        some = bytearray()
        for remaining in range(end, max(end - _TURNS, 0), -1):
            at, shard = RANDOM.randrange(remaining), 0
            while at >= left[shard]:
                at, shard = at - left[shard], shard + 1
            left[shard] -= 1
            some.append(shard)
        yield bytes(some)


class Shards:
    """Some stores of a round, closed as one `shuffledp.collection.mixer.Store` is.

    Parameters
    ----------
    stores
        Two or more; those that were begun to be closed together must be named together again.

    Raises
    ------
    InputError
        If they are no such shards.
    """

    def __init__(self, stores: Sequence[Shard]) -> None:
        rounds = {(each.campaign.name, each.number) for each in stores}
        if len(rounds) > 1:
            raise InputError("the stores are of different rounds")
        if len({each.path.resolve() for each in stores}) < len(stores):
            raise InputError("a store is named twice")
        if len(stores) > _MOST:
            raise InputError(f"a round has at most {_MOST} shards (got {len(stores)})")
        self.path, self.campaign, self.number = stores[0].path, stores[0].campaign, stores[0].number
        placed = {each.path: each.place for each in stores if each.place is not None}
        groups = {(group, number) for group, _, number in placed.values()}
        if len(groups) > 1 or any(number != len(stores) for _, number in groups):
            raise InputError(
                f"{next(iter(placed))} is closed with other stores: name all of them, and no more"
            )
        self._group = next((group for group, _ in groups), secrets.token_hex(16))
        taken = {index: path for path, (_, index, _) in placed.items()}
        # In an order that who closes them at the same time has, too: the first is joined by one.
        unplaced = [each for each in stores if each.path not in placed]
        others = iter(sorted(unplaced, key=lambda each: each.path.resolve()))
        by_path = {each.path: each for each in stores}
        self._stores = [
            by_path[taken[index]] if index in taken else next(others)
            for index in range(len(stores))
        ]

    @property
    def taking(self) -> bool:
        """Whether one of them takes envelopes."""
        return any(each.taking for each in self._stores)

    @property
    def written(self) -> bytes | None:
        """SHA-256 of the batch, if it was written."""
        return next((found for each in self._stores if (found := each.written) is not None), None)

    @property
    def respondents(self) -> int:
        """Envelopes that were counted."""
        return sum(each.respondents for each in self._stores)

    @property
    def size(self) -> int:
        """Messages of the batch, dummies included."""
        return sum(each.size for each in self._stores)

    def draw(self) -> None:
        """Take no more envelopes, and add the mixer's dummies to the first.

        Raises
        ------
        InputError
            If there are fewer respondents than the campaign needs, a token is of two shards, or
            there are more than tickets.
        StoreError
            If a disk does not take it.
        """
        if any(each.place is None for each in self._stores):
            tokens = 1
            for before, after in pairwise(heapq.merge(*(each.hashes() for each in self._stores))):
                tokens += 1
                if before == after:
                    raise InputError("two of the stores have a token in common")
            if tokens > self.campaign.people:
                raise InputError(
                    f"the campaign has tickets for {self.campaign.people} people (the stores have "
                    f"{tokens} tokens)"
                )
            # There may only be more when they are closed.
            check_respondents(self.campaign, self.respondents)
            for index, each in enumerate(self._stores):
                if each.place is None:
                    each.join(self._group, index, len(self._stores))
        first, *others = self._stores
        first.draw_for([each.size for each in others])

    def messages(self) -> Iterator[bytes]:
        """All messages in a random order, the same each time."""
        sources = [each.messages() for each in self._stores]
        for turn in self._stores[0].turns():
            yield next(sources[turn])

    def empty(self, batch: bytes) -> None:
        """As of a store."""
        for each in self._stores:
            each.empty(batch)
