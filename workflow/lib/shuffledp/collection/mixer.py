"""The mixer's store of a round: what was answered is on disk, once, and without its sender.

A store is an SQLite file. New messages take random places among all, and who stood there moves to
the end: at any time all orders are as likely, and read in the order of places they are permuted.
Rows are of one length and overwritten where they lie, so that the bytes of the file tell no order
either. Of a token there is its hash, and once it was used a code of the envelope that only who has
the token can make: the same envelope is told from another, and a store does not say which messages
came with it. A journal has what one transaction replaces, and is cut at its end.
"""

import hmac
import json
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from tqdm import tqdm

from shuffledp.collection.campaign import Campaign, parse_campaign
from shuffledp.collection.messages import SEALED, TOKEN, plus, seal, token_hash
from shuffledp.errors import InputError

_TABLES: Final = """
CREATE TABLE about (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE tokens (hash BLOB PRIMARY KEY, code BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE messages (place INTEGER PRIMARY KEY, sealed BLOB NOT NULL);
CREATE TABLE turns (part INTEGER PRIMARY KEY, shards BLOB NOT NULL);
"""
_FORMAT: Final = 2
# States of a store, in this order: it takes envelopes; it takes no more; dummies are among the
# messages; the batch is written and the messages are deleted.
OPEN, CLOSED, _DRAWN, _WRITTEN = range(4)
_CACHE: Final = 64  # MiB of a connection
# Codes of a token that is unused, and of one that was counted in a batch that is written.
_UNUSED, _COUNTED = bytes(32), b"\xff" * 32
_TOGETHER: Final = 4096  # dummies
RANDOM: Final = secrets.SystemRandom()


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
        If there is such a file, no such round, or more tokens than tickets.
    OSError
        If it cannot be written.
    """
    from shuffledp.pipeline.files import replacing

    campaign.key(number)
    if path.exists():
        raise InputError(f"{path} is there already: a store is made once")
    tokens = sorted(hashes)
    if len(tokens) > campaign.people:
        raise InputError(
            f"the campaign has tickets for {campaign.people} people (got {len(tokens)} tokens)"
        )
    with replacing(path) as made:
        made.touch(0o600)
        store = sqlite3.connect(made)
        try:
            store.executescript(_TABLES)
            about = {
                "format": _FORMAT,
                "campaign": campaign.text,
                "round": number,
                "state": OPEN,
                "respondents": 0,
            }
            with store:
                store.executemany("INSERT INTO about VALUES (?, ?)", about.items())
                rows = ((token, _UNUSED) for token in tokens)
                store.executemany("INSERT INTO tokens VALUES (?, ?)", rows)
        finally:
            store.close()


def check_respondents(campaign: Campaign, respondents: int) -> None:
    """Refuse to close a round of too few.

    Raises
    ------
    InputError
        If there are fewer than the campaign needs.
    """
    if respondents < campaign.at_least:
        raise InputError(
            f"{respondents} people responded, and the promise needs {campaign.at_least}: the round "
            "stays open"
        )


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
                "journal_mode=TRUNCATE",
                "synchronous=FULL",
                # Pages of what is deleted are overwritten.
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
        self._bodies: list[bytes] = []

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
            if self._value("state") != OPEN:
                # What was counted before is, and the answer may have been lost.
                return [self._take(each, closed=True) for each in envelopes]
            self._bodies = []
            answers = [self._take(each) for each in envelopes]
            if self._bodies:
                self._set("respondents", self.respondents + len(self._bodies))
                self._add(b"".join(self._bodies))
            return answers

    def _take(self, envelope: bytes, *, closed: bool = False) -> Answer:
        if len(envelope) != TOKEN + SEALED * self.campaign.laws.slots:
            return Answer.WRONG
        token, body = envelope[:TOKEN], envelope[TOKEN:]
        code = hmac.digest(token, body, sha256)
        known = token_hash(token)
        found = self._store.execute("SELECT code FROM tokens WHERE hash = ?", (known,)).fetchone()
        if found is None:
            return Answer.UNKNOWN
        if found[0] != _UNUSED:
            same = found[0] == _COUNTED or hmac.compare_digest(found[0], code)
            return Answer.COUNTED if same else Answer.USED
        if closed:
            return Answer.CLOSED
        self._store.execute("UPDATE tokens SET code = ? WHERE hash = ?", (code, known))
        self._bodies.append(body)
        return Answer.COUNTED

    def _add(self, sealed: bytes) -> None:
        """Put messages, one after the other, at random places among all.

        Of places that are all as likely for those before, and independent of these, it makes such.
        Each statement is one step, so that the thread that serves is not asked between rows.
        """
        old, new = self.size, self.size + len(sealed) // SEALED
        places = RANDOM.sample(range(new), new - old)
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
        (found,) = self._store.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return int(found)

    def _set(self, name: str, value: int) -> None:
        self._store.execute("UPDATE about SET value = ? WHERE name = ?", (value, name))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction, and none if the file is not the one that was opened."""
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
    def taking(self) -> bool:
        """Whether it takes envelopes."""
        return self._value("state") == OPEN

    @property
    def written(self) -> bytes | None:
        """What `empty` was told: SHA-256 of the batch that was written."""
        found = self._late("batch")
        return None if found is None else bytes(found)

    def _late(self, name: str) -> Any:
        """A value that a store has from some time on, or None."""
        row = self._store.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    def draw(self) -> None:
        """Take no more envelopes, and add the mixer's dummies, drawn once whatever happens after.

        Raises
        ------
        InputError
            If there are fewer respondents than the campaign needs.
        StoreError
            As `take`.
        """
        with self._writing():
            if self._value("state") == OPEN:
                check_respondents(self.campaign, self.respondents)
                self._set("state", CLOSED)
        self._add_dummies()

    def _add_dummies(self, more: Callable[[], object] | None = None) -> None:
        """In the transaction that adds the dummies, `more` is done where it is one of shards."""
        with self._writing():
            if (self._late("shards") is None) != (more is None):
                raise InputError(f"{self.path} is closed with other stores: name all of them")
            if self._value("state") == CLOSED:
                for some in self._dummies():
                    self._add(b"".join(seal(self.campaign, self.number, some)))
                if more is not None:
                    more()
                self._set("state", _DRAWN)

    def _dummies(self) -> Iterator[list[bytes]]:
        if self.campaign.laws.mixer is None:
            return
        drawn = list[bytes]()
        for cell in tqdm(range(self.campaign.cells), "dummies of cells", delay=2.0, disable=None):
            drawn += [plus(cell)] * self.campaign.laws.mixer.draw()
            if len(drawn) >= _TOGETHER:
                yield drawn
                drawn = []
        yield drawn

    @property
    def size(self) -> int:
        """Messages of the batch, dummies included."""
        (found,) = self._store.execute("SELECT 1 + ifnull(max(place), -1) FROM messages").fetchone()
        return int(found)

    def messages(self) -> Iterator[bytes]:
        """All messages in the order of their places, the same each time."""
        for (sealed,) in self._store.execute("SELECT sealed FROM messages ORDER BY place"):
            yield sealed

    def empty(self, batch: bytes) -> None:
        """Delete the messages, and which envelope was a token's; what was begun is finished.

        They are overwritten where they lie, without a journal: it would have a copy of them.
        Whatever interrupts this, rows of one length stay rows.

        Parameters
        ----------
        batch
            SHA-256 of the batch that was written.

        Raises
        ------
        StoreError
            As `take`.
        """
        with self._writing():
            self._set("state", _WRITTEN)
            self._store.execute("INSERT OR IGNORE INTO about VALUES ('batch', ?)", (batch,))
        self._store.execute("PRAGMA journal_mode=OFF")
        with self._writing():
            self._store.execute("UPDATE messages SET sealed = zeroblob(?)", (SEALED,))
            self._store.execute("UPDATE turns SET shards = zeroblob(length(shards))")
            self._store.execute("UPDATE tokens SET code = ? WHERE code != ?", (_COUNTED, _UNUSED))
        self._store.execute("PRAGMA journal_mode=TRUNCATE")
        self._store.execute("PRAGMA secure_delete=OFF")  # of what is zero
        with self._writing():
            self._store.execute("DELETE FROM messages")
            self._store.execute("DELETE FROM turns")
        self._store.execute("PRAGMA secure_delete=ON")
        self._store.execute("VACUUM")
