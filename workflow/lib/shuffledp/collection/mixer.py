"""The mixer's store of a round: what was answered is on disk, once, and without its sender.

A store is an SQLite file. Messages stand under fresh random keys of 128 bits in tables without row
numbers, so that they lie in the order of these; read in that order they are permuted. Of a token
there is its hash, and once it was used a code of the envelope that only who has the token can make:
the same envelope is told from another, and a store does not say which messages came with it.
"""

import hmac
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import Final

from tqdm import tqdm

from shuffledp.collection.campaign import Campaign, parse_campaign
from shuffledp.collection.messages import SEALED, TOKEN, plus, seal, token_hash
from shuffledp.errors import InputError

_KEY: Final = 16
_TABLES: Final = """
CREATE TABLE about (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE tokens (hash BLOB PRIMARY KEY, code BLOB) WITHOUT ROWID;
CREATE TABLE messages (key BLOB PRIMARY KEY, sealed BLOB NOT NULL) WITHOUT ROWID;
"""
_FORMAT: Final = 1
# States of a store, in this order: it takes envelopes; it takes no more; dummies are among the
# messages; the batch is written and the messages are deleted.
_OPEN, _CLOSED, _DRAWN, _WRITTEN = range(4)
_CACHE: Final = 64  # MiB of a connection


class Answer(Enum):
    """To an envelope; the value is the status of HTTP."""

    COUNTED = 204
    WRONG = 400
    UNKNOWN = 403
    USED = 409
    CLOSED = 410


WORDS: Final = {
    Answer.WRONG: "an envelope of this campaign has another length",
    Answer.UNKNOWN: "the token is not of this round",
    Answer.USED: "the token was used with another envelope",
    Answer.CLOSED: "the round is closed",
}


class StoreError(OSError):
    """The store does not take what it should: nothing was counted."""


def make_store(path: Path, campaign: Campaign, number: int, hashes: Iterable[bytes]) -> None:
    """Make the store of a round.

    Parameters
    ----------
    path
        Must not exist.
    campaign
        Is kept in it.
    number
        Of the round.
    hashes
        Of the tokens, 32 bytes each.

    Raises
    ------
    InputError
        If there is such a file, or no such round.
    OSError
        If it cannot be written.
    """
    from shuffledp.pipeline.files import replacing

    campaign.key(number)
    if path.exists():
        raise InputError(f"{path} is there already: a store is made once")
    with replacing(path) as made:
        made.touch(0o600)
        store = sqlite3.connect(made)
        try:
            # Pages of what is deleted are overwritten.
            store.executescript(f"PRAGMA journal_mode=DELETE; PRAGMA secure_delete=ON; {_TABLES}")
            about = {
                "format": _FORMAT,
                "campaign": campaign.text,
                "round": number,
                "state": _OPEN,
                "respondents": 0,
            }
            with store:
                store.executemany("INSERT INTO about VALUES (?, ?)", about.items())
                store.executemany("INSERT INTO tokens VALUES (?, NULL)", ((h,) for h in hashes))
            store.execute("PRAGMA journal_mode=WAL")
        finally:
            store.close()


@dataclass(frozen=True)
class _File:
    """Which file a connection has open: one of the same name may have taken its place."""

    device: int
    inode: int


def _file(path: Path) -> _File:
    found = path.stat()
    return _File(found.st_dev, found.st_ino)


class Store:
    """A store that exists; of one thread.

    Parameters
    ----------
    path
        As `make_store` made it.

    Raises
    ------
    InputError
        If it is no store.
    StoreError
        If it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._opened = _file(path)
            self._store = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode=rw", uri=True, timeout=10.0
            )
            self._store.isolation_level = None
            for pragma in (
                "synchronous=FULL",
                "secure_delete=ON",
                "temp_store=MEMORY",
                f"cache_size=-{_CACHE * 1024}",
            ):
                self._store.execute(f"PRAGMA {pragma}")
            about = dict(self._store.execute("SELECT name, value FROM about"))
        except FileNotFoundError as error:
            raise InputError(f"there is no store {path}") from error
        except (sqlite3.OperationalError, OSError) as error:
            raise StoreError(f"store {path} cannot be opened: {error}") from error
        except sqlite3.DatabaseError as error:
            raise InputError(f"{path} is no store ({error})") from error
        if about.get("format") != _FORMAT:
            raise InputError(f"{path} is a store of another version")
        self.campaign = parse_campaign(about["campaign"])
        self.number = int(about["round"])

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()

    def take(self, envelopes: Sequence[bytes]) -> list[Answer]:
        """Count envelopes, all of them in one transaction: when it returns they are on disk.

        Raises
        ------
        StoreError
            If the disk does not take them, or the store is not where it was: none was counted.
        """
        with self._writing():
            if self._value("state") != _OPEN:
                # What was counted before is, and the answer may have been lost.
                return [self._take(each, closed=True) for each in envelopes]
            answers = [self._take(each) for each in envelopes]
            if self._fresh:
                self._set("respondents", self.respondents + self._fresh)
            return answers

    _fresh = 0

    def _take(self, envelope: bytes, *, closed: bool = False) -> Answer:
        if len(envelope) != TOKEN + SEALED * self.campaign.laws.slots:
            return Answer.WRONG
        token, body = envelope[:TOKEN], envelope[TOKEN:]
        code = hmac.digest(token, body, sha256)
        known = token_hash(token)
        found = self._store.execute("SELECT code FROM tokens WHERE hash = ?", (known,)).fetchone()
        if found is None:
            return Answer.UNKNOWN
        if found[0] is not None:
            return Answer.COUNTED if hmac.compare_digest(found[0], code) else Answer.USED
        if closed:
            return Answer.CLOSED
        self._store.execute("UPDATE tokens SET code = ? WHERE hash = ?", (code, known))
        self._add(body[start : start + SEALED] for start in range(0, len(body), SEALED))
        self._fresh += 1
        return Answer.COUNTED

    def _add(self, messages: Iterable[bytes]) -> None:
        rows = ((os.urandom(_KEY), message) for message in messages)
        self._store.executemany("INSERT INTO messages VALUES (?, ?)", rows)

    def _value(self, name: str) -> int:
        (found,) = self._store.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return int(found)

    def _set(self, name: str, value: int) -> None:
        self._store.execute("UPDATE about SET value = ? WHERE name = ?", (value, name))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction, and none if the file is not the one that was opened."""
        self._fresh = 0
        try:
            self._store.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._store.execute("COMMIT")
            except BaseException:
                if self._store.in_transaction:
                    self._store.execute("ROLLBACK")
                raise
            if _file(self.path) != self._opened:
                raise FileNotFoundError("another file has its name")
        except (sqlite3.DatabaseError, OSError) as error:
            raise StoreError(f"store {self.path}: {error}") from error

    @property
    def respondents(self) -> int:
        """Envelopes that were counted."""
        return self._value("respondents")

    @property
    def written(self) -> bool:
        """Whether the batch was written and the messages are deleted."""
        return self._value("state") == _WRITTEN

    def draw(self) -> None:
        """Take no more envelopes, and add the mixer's dummies, drawn once whatever happens after.

        Raises
        ------
        InputError
            If there are fewer respondents than the campaign needs.
        StoreError
            As `take`.
        """
        campaign = self.campaign
        with self._writing():
            if self._value("state") == _OPEN:
                if self.respondents < campaign.at_least:
                    raise InputError(
                        f"{self.respondents} people responded, and the promise needs "
                        f"{campaign.at_least}: the round stays open"
                    )
                self._set("state", _CLOSED)
        with self._writing():
            if self._value("state") == _CLOSED:
                if campaign.laws.mixer is not None:
                    for cell in tqdm(
                        range(campaign.cells), "dummies of cells", delay=2.0, disable=None
                    ):
                        dummies = [plus(cell)] * campaign.laws.mixer.draw()
                        self._add(seal(campaign, self.number, dummies))
                self._set("state", _DRAWN)

    @property
    def size(self) -> int:
        """Messages of the batch, dummies included."""
        return int(self._store.execute("SELECT count(*) FROM messages").fetchone()[0])

    def messages(self) -> Iterator[bytes]:
        """All messages in the order of their random keys, the same each time."""
        for (sealed,) in self._store.execute("SELECT sealed FROM messages ORDER BY key"):
            yield sealed

    def empty(self) -> None:
        """Delete the messages, and what a log has of them."""
        with self._writing():
            self._set("state", _WRITTEN)
            self._store.execute("DELETE FROM messages")
        self._store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._store.execute("VACUUM")
        self._store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
