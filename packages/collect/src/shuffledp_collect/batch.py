"""A batch: the messages of a round for the analyst, in one file.

The file has a line of canonical JSON, then the sealed messages of 52 bytes each, sorted by their
bytes. Sealed messages are uniformly random, so that their order says nothing about who sent them.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from shuffledp.errors import InputError
from shuffledp.pipeline.files import file_sha256, replacing

from shuffledp_collect.campaign import Campaign, canonical
from shuffledp_collect.messages import SEALED
from shuffledp_collect.mixer import Store
from shuffledp_collect.tables import range_of_sum

_VERSION: Final = 2
_MAX_HEADER_BYTES: Final = 1000
# Probability, on each side, that an honest mixer's dummies are refused.
DUMMIES_MISSED: Final = 1e-12


@dataclass(frozen=True)
class Batch:
    """A batch of a round, which the mixer hands to the analyst.

    ``path`` is the file, ``campaign`` the name of the campaign and ``number`` that of the round.
    ``respondents`` is the number of envelopes that were counted, and ``messages`` that of messages,
    the mixer's dummies included.
    """

    path: Path
    campaign: str
    number: int
    respondents: int
    messages: int

    @property
    def header(self) -> bytes:
        """The first line of the file."""
        document = {
            "version": _VERSION,
            "campaign": self.campaign,
            "round": self.number,
            "respondents": self.respondents,
            "messages": self.messages,
        }
        return canonical(document) + b"\n"

    def sealed(self) -> NDArray[np.void]:
        """Read the sealed messages, shape ``(messages,)``, of 52 bytes each."""
        return np.fromfile(self.path, np.dtype((np.void, SEALED)), offset=len(self.header))


def read_batch(path: Path, campaign: Campaign, sha256: str | None = None) -> Batch:
    """Read the header of a batch, and check the size of the batch against the promise.

    If mixer and analyst agreed on a checksum, it is compared. Raises `InputError` if the file is
    not a batch of the campaign or has another checksum, if the respondents are fewer than promised
    or more than the tickets, or if the number of messages is outside the 1e-12 quantiles of the
    dummies' law.
    """
    try:
        with path.open("rb") as stream:
            line = stream.readline(_MAX_HEADER_BYTES)
        size = path.stat().st_size
        actual = None if sha256 is None else file_sha256(path)
    except OSError as error:
        raise InputError(f"batch {path} cannot be read ({error.strerror})") from error
    if sha256 is not None and actual != sha256.strip().lower():
        raise InputError(f"batch {path} has the checksum {actual}, expected {sha256}")
    batch = _parsed_header(path, line)
    if batch is None or size != len(line) + batch.messages * SEALED:
        raise InputError(f"{path} is not a batch of this version, or it was altered")
    if batch.campaign != campaign.name:
        raise InputError(f"batch {path} belongs to another campaign")
    campaign.key(batch.number)
    if not campaign.at_least <= batch.respondents <= campaign.people:
        raise InputError(
            f"batch {path} must have {campaign.at_least} to {campaign.people} respondents, got "
            f"{batch.respondents}"
        )
    low, high = _dummies_range(campaign)
    dummies = batch.messages - batch.respondents * campaign.laws.slots
    if not low <= dummies <= high:
        raise InputError(
            f"batch {path} has {dummies:,} messages beside those of {batch.respondents:,} "
            f"respondents; the mixer's dummies must be {low:,.0f} to {high:,.0f}: messages are "
            "missing or were added"
        )
    return batch


def _parsed_header(path: Path, line: bytes) -> Batch | None:
    try:
        found = json.loads(line)
        batch = Batch(
            path, found["campaign"], found["round"], found["respondents"], found["messages"]
        )
        types = [type(batch.number), type(batch.respondents), type(batch.messages)]
        return batch if types == [int] * 3 and batch.header == line else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _dummies_range(campaign: Campaign) -> tuple[float, float]:
    """Return ends of the mixer's total number of dummies; a cheat adds none, or too few."""
    if campaign.laws.mixer is None:
        return 0.0, 0.0
    return range_of_sum(campaign.laws.mixer, campaign.cells, DUMMIES_MISSED)


def close_round(store: Store, path: Path) -> Batch:
    """Close a round: draw the mixer's dummies, write the batch, then delete the messages.

    After an interruption, the next call writes the same batch or finds it, and continues. Dummies
    that were drawn twice for the same reports would average out. The file may exist only if it is
    this batch. Raises `InputError` if too few people responded, the batch was written elsewhere, or
    there is another file, and `OSError` if the file cannot be written.
    """
    if path.exists() and store.taking:
        raise InputError(f"{path} already exists")
    if store.written is None:
        store.draw()
        store.empty(_write(store, path))
    else:
        store.empty(store.written)  # complete an interrupted deletion
        if not path.exists() or bytes.fromhex(file_sha256(path)) != store.written:
            raise InputError(f"the batch of {store.path} was written before, to another file")
    return read_batch(path, store.campaign)


def _write(store: Store, path: Path) -> bytes:
    """Write a batch unless it is there; return its SHA-256."""
    messages: NDArray[Any] = np.fromiter(store.messages(), np.dtype((np.void, SEALED)), store.size)
    messages.sort()
    campaign, respondents = store.campaign.name, store.respondents
    batch = Batch(path, campaign, store.number, respondents, messages.size)
    content = messages.view(np.uint8).data
    digest = hashlib.sha256(batch.header)
    digest.update(content)
    if not path.exists():
        with replacing(path) as temporary, temporary.open("wb") as stream:
            stream.write(batch.header)
            stream.write(content)
    elif file_sha256(path) != digest.hexdigest():
        raise InputError(f"{path} already exists, with other content")
    return digest.digest()
