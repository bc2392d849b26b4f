"""The mixer's store of a round: each counted envelope is on disk, once, and without its sender.

A store is an SQLite file. New messages take random places, and the messages that were there move to
the end, so that all orders are equally likely at any time. Rows have one length and are overwritten
in place, so that the bytes of the file do not reveal the order of arrival either. The store holds
the hash of each token and, once it was used, HMAC(token, nonce): the device that sends the same
envelope again is recognised, and the store does not link a token to messages. The journal holds the
pages that one transaction replaces, and is truncated when it ends.
"""

import hmac
import json
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import Final

from shuffledp.errors import InputError
from shuffledp.pipeline.files import replacing
from tqdm import tqdm

from shuffledp_collect.campaign import Campaign, parse_campaign
from shuffledp_collect.messages import HEAD, SEALED, TOKEN, plus, seal, token_hash

_TABLES: Final = """
CREATE TABLE about (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE tokens (hash BLOB PRIMARY KEY, code BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE messages (place INTEGER PRIMARY KEY, sealed BLOB NOT NULL);
"""
_FORMAT: Final = 3
# States of a store, in this order: it takes envelopes; it takes no more, and holds the dummies; the
# batch is written and the messages are deleted.
_OPEN, _CLOSED, _WRITTEN = range(3)
_CACHE_MIB: Final = 64  # per connection
_UNUSED: Final = bytes(32)  # code of an unused token
_DUMMIES_TOGETHER: Final = 4096
_RANDOM: Final = secrets.SystemRandom()


class Answer(Enum):
    """Answer to an envelope; the value is the HTTP status code."""

    COUNTED = 204
    WRONG = 400
    UNKNOWN = 403
    USED = 409
    CLOSED = 410


WORDS: Final = {
    Answer.WRONG: "an envelope of this campaign has another length",
    Answer.UNKNOWN: "the token is not valid in this round",
    Answer.USED: "the token was used with another envelope",
    Answer.CLOSED: "the round is closed",
}


class StoreError(OSError):
    """The store cannot be written; nothing was counted."""


def make_store(path: Path, campaign: Campaign, number: int, hashes: Iterable[bytes]) -> None:
    """Make the store of a round, with a copy of the campaign and the hashes of the tokens.

    Raises `InputError` if the file exists, there is no such round, or there are more tokens than
    tickets, and `OSError` if the file cannot be written.
    """
    campaign.key(number)
    if path.exists():
        raise InputError(f"{path} already exists: a store is made once")
    tokens = sorted(hashes)
    if len(tokens) > campaign.people:
        raise InputError(f"the campaign has {campaign.people} tickets, got {len(tokens)} tokens")
    with replacing(path) as temporary:
        temporary.touch(0o600)
        store = sqlite3.connect(temporary)
        try:
            store.executescript(_TABLES)
            about = {
                "format": _FORMAT,
                "campaign": campaign.text,
                "round": number,
                "state": _OPEN,
                "respondents": 0,
            }
            with store:
                store.executemany("INSERT INTO about VALUES (?, ?)", about.items())
                rows = ((token, _UNUSED) for token in tokens)
                store.executemany("INSERT INTO tokens VALUES (?, ?)", rows)
        finally:
            store.close()


def _identity(path: Path) -> tuple[int, int]:
    """Return device and inode, by which a file is known when another one has taken its name."""
    status = path.stat()
    return status.st_dev, status.st_ino


class Store:
    """A store that `make_store` wrote, for use in one thread.

    Raises `InputError` if the file is not a store, and `StoreError` if the file cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._opened = _identity(path)
            self._store = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode=rw", uri=True, timeout=10.0
            )
            self._store.isolation_level = None
            for pragma in (
                "journal_mode=TRUNCATE",
                "synchronous=FULL",
                # Overwrite deleted content.
                "secure_delete=ON",
                "temp_store=MEMORY",
                f"cache_size=-{_CACHE_MIB * 1024}",
            ):
                self._store.execute(f"PRAGMA {pragma}")
            about = dict(self._store.execute("SELECT name, value FROM about"))
        except FileNotFoundError as error:
            raise InputError(f"there is no store {path}") from error
        except (sqlite3.OperationalError, OSError) as error:
            raise StoreError(f"store {path} cannot be opened: {error}") from error
        except sqlite3.DatabaseError as error:
            raise InputError(f"{path} is not a store ({error})") from error
        if about.get("format") != _FORMAT:
            raise InputError(f"{path} is a store of another version")
        self.campaign = parse_campaign(about["campaign"])
        self.number = int(about["round"])
        self._bodies: list[bytes] = []

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    def take(self, envelopes: Sequence[bytes]) -> list[Answer]:
        """Count envelopes in one transaction; they are on disk when this returns.

        Raises `StoreError` if they cannot be written, or the file was moved: none was counted.
        """
        with self._writing():
            closed = self._value("state") != _OPEN
            self._bodies = []
            answers = [self._take(each, closed=closed) for each in envelopes]
            if self._bodies:
                self._set("respondents", self.respondents + len(self._bodies))
                self._add(b"".join(self._bodies))
            return answers

    def _take(self, envelope: bytes, *, closed: bool) -> Answer:
        if len(envelope) != HEAD + SEALED * self.campaign.laws.slots:
            return Answer.WRONG
        token, nonce, body = envelope[:TOKEN], envelope[TOKEN:HEAD], envelope[HEAD:]
        code = hmac.digest(token, nonce, sha256)
        known = token_hash(token)
        row = self._store.execute("SELECT code FROM tokens WHERE hash = ?", (known,)).fetchone()
        if row is None:
            return Answer.UNKNOWN
        if hmac.compare_digest(row[0], code):
            return Answer.COUNTED
        if closed:
            # Whether the token was used is told only to the sender who knows the nonce.
            return Answer.CLOSED
        if row[0] != _UNUSED:
            return Answer.USED
        self._store.execute("UPDATE tokens SET code = ? WHERE hash = ?", (code, known))
        self._bodies.append(body)
        return Answer.COUNTED

    def _add(self, sealed: bytes) -> None:
        """Put concatenated messages at random places among all.

        If all orders of the messages before are equally likely, so are all orders afterwards. Each
        statement is a single step, which does not wait for the serving thread between rows.
        """
        old, new = self.size, self.size + len(sealed) // SEALED
        places = _RANDOM.sample(range(new), new - old)
        taken = set(places)
        left = [place for place in range(old, new) if place not in taken]
        moved = dict(zip(left, (place for place in places if place < old), strict=True))
        self._store.execute(
            "INSERT INTO messages SELECT value, zeroblob(?) FROM json_each(?)",
            (SEALED, json.dumps(list(range(old, new)))),
        )
        self._store.execute(
            "REPLACE INTO messages SELECT CAST(key AS INTEGER), "
            "(SELECT sealed FROM messages WHERE place = value) FROM json_each(?)",
            (json.dumps(moved),),
        )
        self._store.execute(
            f"REPLACE INTO messages SELECT value, substr(?, 1 + {SEALED} * key, {SEALED}) "
            "FROM json_each(?)",
            (sealed, json.dumps(places)),
        )

    def _value(self, name: str) -> int:
        (value,) = self._store.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return int(value)

    def _set(self, name: str, value: int) -> None:
        self._store.execute("UPDATE about SET value = ? WHERE name = ?", (value, name))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Run one transaction; fail if another file took the name of the store."""
        try:
            self._store.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._store.execute("COMMIT")
            except BaseException:
                if self._store.in_transaction:
                    self._store.execute("ROLLBACK")
                raise
            if _identity(self.path) != self._opened:
                raise FileNotFoundError("another file has its name")
        except (sqlite3.DatabaseError, OSError) as error:
            raise StoreError(f"store {self.path}: {error}") from error

    @property
    def respondents(self) -> int:
        """Number of envelopes that were counted."""
        return self._value("respondents")

    @property
    def taking(self) -> bool:
        """Whether the store takes envelopes."""
        return self._value("state") == _OPEN

    @property
    def written(self) -> bytes | None:
        """SHA-256 of the batch that was written, as passed to `empty`, or None."""
        row = self._store.execute("SELECT value FROM about WHERE name = 'batch'").fetchone()
        return None if row is None else bytes(row[0])

    def draw(self) -> None:
        """Take no more envelopes and add the mixer's dummies, which are drawn only once.

        Raises `InputError` if there are fewer respondents than the campaign needs, and `StoreError`
        if the store cannot be written.
        """
        with self._writing():
            if self._value("state") != _OPEN:
                return
            if self.respondents < self.campaign.at_least:
                raise InputError(
                    f"the promise needs at least {self.campaign.at_least} respondents, got "
                    f"{self.respondents}: the round stays open"
                )
            for messages in self._dummies():
                self._add(b"".join(seal(self.campaign, self.number, messages)))
            self._set("state", _CLOSED)

    def _dummies(self) -> Iterator[list[bytes]]:
        if self.campaign.laws.mixer is None:
            return
        drawn = list[bytes]()
        for cell in tqdm(range(self.campaign.cells), "cells with dummies", delay=2.0, disable=None):
            drawn += [plus(cell)] * self.campaign.laws.mixer.draw()
            if len(drawn) >= _DUMMIES_TOGETHER:
                yield drawn
                drawn = []
        yield drawn

    @property
    def size(self) -> int:
        """Number of messages, dummies included."""
        (size,) = self._store.execute("SELECT 1 + ifnull(max(place), -1) FROM messages").fetchone()
        return int(size)

    def messages(self) -> Iterator[bytes]:
        """Yield all messages in the order of their places."""
        for (sealed,) in self._store.execute("SELECT sealed FROM messages ORDER BY place"):
            yield sealed

    def empty(self, batch: bytes) -> None:
        """Delete the messages, given the SHA-256 of the batch that was written.

        An interrupted deletion is completed by the next call. Messages are overwritten in place and
        without a journal, which would hold a copy of them. An interruption leaves rows of the same
        length. Raises `StoreError` if the store cannot be written.
        """
        with self._writing():
            self._set("state", _WRITTEN)
            self._store.execute("INSERT OR IGNORE INTO about VALUES ('batch', ?)", (batch,))
        self._store.execute("PRAGMA journal_mode=OFF")
        with self._writing():
            self._store.execute("UPDATE messages SET sealed = zeroblob(?)", (SEALED,))
        self._store.execute("PRAGMA journal_mode=TRUNCATE")
        self._store.execute("PRAGMA secure_delete=OFF")  # the content is zero
        with self._writing():
            self._store.execute("DELETE FROM messages")
        self._store.execute("PRAGMA secure_delete=ON")
        self._store.execute("VACUUM")
