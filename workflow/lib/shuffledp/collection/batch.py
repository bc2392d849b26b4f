"""A batch: the permuted messages of a round in parquet parts, with a manifest."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from tqdm import tqdm

from shuffledp.collection.campaign import Campaign, canonical
from shuffledp.collection.messages import SEALED
from shuffledp.collection.mixer import Store
from shuffledp.collection.shards import Shards
from shuffledp.errors import InputError
from shuffledp.pipeline.files import file_sha256, replacing

PART: Final = 1_000_000  # messages
_MANIFEST: Final = "manifest.json"
_NAME: Final = re.compile(r"part-\d{5,9}\.parquet")
_LARGEST_MANIFEST: Final = 2**24
_COLUMN: Final = "message"
# Random bytes: no dictionary, no compression.
_BARE: Final[Mapping[str, Any]] = {
    "compression": "none", "use_dictionary": False, "write_page_checksum": True
}  # fmt: skip
_SCHEMA: Final = pa.schema([pa.field(_COLUMN, pa.binary(SEALED), nullable=False)])
_VERSION: Final = 1


@dataclass(frozen=True)
class Batch:
    """What a mixer hands to the analyst.

    Attributes
    ----------
    folder
        Where it lies.
    campaign
        Name of it.
    number
        Of the round.
    respondents
        How many envelopes were counted.
    messages
        How many there are, the mixer's dummies included.
    parts
        SHA-256 of each file, by its name.
    """

    folder: Path
    campaign: str
    number: int
    respondents: int
    messages: int
    parts: Mapping[str, str]

    def part(self, name: str) -> NDArray[np.void]:
        """Sealed messages of a part, shape ``(messages,)``, of 52 bytes each.

        Raises
        ------
        InputError
            If it is not the file of the manifest.
        """
        path = self.folder / name
        try:
            if file_sha256(path) != self.parts[name]:
                raise InputError(f"{path} is damaged, or of another batch: ask the mixer for it")
            with pq.ParquetFile(path, page_checksum_verification=True) as stream:
                schema, rows = stream.schema_arrow.remove_metadata(), stream.metadata.num_rows
                # A few bytes may say that they are as many messages as fill a memory.
                if schema != _SCHEMA or rows > min(PART, path.stat().st_size // SEALED):
                    raise InputError(f"{path} is no part of a batch")
                column = stream.read().column(_COLUMN).combine_chunks()
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{path} cannot be read ({error})") from error
        found = np.frombuffer(
            column.buffers()[1],
            dtype=np.dtype((np.void, SEALED)),
            count=len(column),
            offset=column.offset * SEALED,
        )
        return found


def read_batch(folder: Path, campaign: Campaign) -> Batch:
    """Read the manifest of a batch.

    Raises
    ------
    InputError
        If it is none, is of another campaign, has fewer respondents than the promise needs, or as
        many messages as these cannot have sent.
    """
    path = folder / _MANIFEST
    try:
        with path.open("rb") as stream:
            text = stream.read(_LARGEST_MANIFEST)
        found = json.loads(text)
        made = Batch(
            folder,
            found["campaign"],
            found["round"],
            found["respondents"],
            found["messages"],
            dict(found["parts"]),
        )
        kinds = [type(made.number), type(made.respondents), type(made.messages)]
        named = all(_NAME.fullmatch(name) for name in made.parts)
        whole = kinds == [int] * 3 and named and _written(made) == text
    except OSError as error:
        raise InputError(f"batch {folder} has no manifest ({error.strerror})") from error
    except (ValueError, KeyError, TypeError, RecursionError):
        whole = False
    if not whole:
        raise InputError(f"{path} is no manifest of this version, or altered")
    if made.campaign != campaign.name:
        raise InputError(f"batch {folder} is of another campaign")
    campaign.key(made.number)
    if made.respondents < campaign.at_least:
        raise InputError(
            f"batch {folder} has {made.respondents} respondents, and the promise needs "
            f"{campaign.at_least}"
        )
    if made.respondents > campaign.people:
        raise InputError(f"batch {folder} has more respondents than there are tickets")
    mixer, sent = campaign.laws.mixer, made.respondents * campaign.laws.slots
    dummies = (0, 0) if mixer is None else (mixer.first, mixer.largest)
    if not dummies[0] <= (made.messages - sent) / campaign.cells <= dummies[1]:
        raise InputError(
            f"batch {folder} has {made.messages} messages, which {made.respondents} respondents "
            "cannot have sent: respondents or messages are missing, or too many"
        )
    return made


def close_round(store: Store | Shards, folder: Path) -> Batch:
    """Close a round: draw the mixer's dummies, write the batch, then delete what was taken.

    Begun anew after any interruption it writes the same batch, or finds it, and goes on: dummies
    drawn twice for the same reports would average out.

    Parameters
    ----------
    store
        Of the round, or all its shards.
    folder
        Where the batch shall lie; may not exist, unless it is this batch.

    Raises
    ------
    InputError
        If too few responded, the batch was written elsewhere, or there is another such folder.
    OSError
        If the disk does not take it.
    """
    if folder.exists() and store.taking:
        raise InputError(f"{folder} is there already")
    if store.written is not None:
        store.empty(store.written)  # if it was interrupted
        if folder.exists():
            batch = read_batch(folder, store.campaign)
            if _digest(batch) == store.written:
                return batch
        raise InputError(f"the batch of {store.path} was written, and its messages are deleted")
    store.draw()
    batch = _found(store, folder) if folder.exists() else _write(store, folder)
    store.empty(_digest(batch))
    return batch


def _digest(batch: Batch) -> bytes:
    return hashlib.sha256(_written(batch)).digest()


def _found(store: Store | Shards, folder: Path) -> Batch:
    """The batch in a folder, if it is what would be written."""
    batch, messages = read_batch(folder, store.campaign), store.messages()
    whole = (batch.number, batch.messages) == (store.number, store.size)
    for name in sorted(batch.parts):
        part = batch.part(name).tobytes()
        whole &= part == b"".join(islice(messages, len(part) // SEALED))
    if not whole:
        raise InputError(f"{folder} is there already, with another batch")
    return batch


def _write(store: Store | Shards, folder: Path) -> Batch:
    with replacing(folder) as made:
        parts = dict(_write_parts(made, store.messages(), store.size))
        batch = Batch(
            folder,
            store.campaign.name,
            store.number,
            store.respondents,
            store.size,
            parts,
        )
        with replacing(made / _MANIFEST) as path:
            path.write_bytes(_written(batch))
    return batch


def _write_parts(folder: Path, messages: Iterable[bytes], size: int) -> Iterator[tuple[str, str]]:
    taken = iter(messages)
    with tqdm(total=size, desc="messages", unit="", delay=2.0, disable=None) as bar:
        for number in range(-(-size // PART)):
            some = list(islice(taken, PART))
            name = f"part-{number:05d}.parquet"
            table = pa.table([pa.array(some, pa.binary(SEALED))], schema=_SCHEMA)
            with replacing(folder / name) as path:
                pq.write_table(table, path, **_BARE)
            bar.update(len(some))
            yield name, file_sha256(folder / name)


def _written(batch: Batch) -> bytes:
    document: dict[str, Any] = {
        "version": _VERSION,
        "campaign": batch.campaign,
        "round": batch.number,
        "respondents": batch.respondents,
        "messages": batch.messages,
        "parts": dict(batch.parts),
    }
    return canonical(document)
