"""The analyst: opens a batch once and adds noise before anything is kept.

Parts may be opened on many machines. What they leave for the sum is sealed for the same key, so
that it is no more readable than the batch. The key is destroyed when the counts are written: a
second opening would draw other noise.
"""

import io
import json
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from shuffledp.collection.batch import Batch, read_batch
from shuffledp.collection.campaign import Campaign, canonical
from shuffledp.collection.messages import PLAIN, info, suite
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.files import replacing

# Beginning of a sealed message, random: by it a repeated one is found.
_MARK: Final = 16
_SHARES: Final = 16
_FOREIGN: Final = -1
_LARGEST: Final = 2**31 - 1  # of no cell


@dataclass(frozen=True)
class Opened:
    """Counts of a round, with the analyst's noise where the mechanism has it.

    Attributes
    ----------
    campaign
        Name of it.
    number
        Of the round.
    respondents
        How many there were.
    counts
        Plus less minus messages of each cell, the servers' noise included, shape ``(k,)``.
    foreign, repeated, out_of_range
        Messages that were not counted: not sealed for this round, a second time, of no cell.
    """

    campaign: str
    number: int
    respondents: int
    counts: Integers
    foreign: int
    repeated: int
    out_of_range: int

    @property
    def text(self) -> bytes:
        """Canonical JSON."""
        return canonical(
            {
                "campaign": self.campaign,
                "round": self.number,
                "respondents": self.respondents,
                "counts": [int(count) for count in self.counts],
                "foreign": self.foreign,
                "repeated": self.repeated,
                "out_of_range": self.out_of_range,
            }
        )


@dataclass(frozen=True)
class _Part:
    """Marks of messages, and what they say; `_FOREIGN` for one that cannot be opened."""

    marks: NDArray[np.void]
    words: NDArray[np.int32]

    @property
    def beginning(self) -> NDArray[np.uint8]:
        """In which share of all each message is."""
        return self.marks.view(np.uint8).reshape(-1, _MARK)[:, 0] % _SHARES


def read_key(path: Path) -> bytes:
    """A private key, as `campaign new` writes it.

    Raises
    ------
    InputError
        If it is none.
    """
    try:
        found = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except OSError as error:
        raise InputError(
            f"key {path} cannot be read ({error.strerror}): it is destroyed when a round is opened"
        ) from error
    except ValueError:
        found = b""
    if len(found) != 32:
        raise InputError(f"{path} is no key of a round")
    return found


def open_batch(
    campaign: Campaign, folder: Path, key: Path, output: Path, workers: int | None = None
) -> Opened:
    """Open a batch, write its counts and destroy the key.

    Parameters
    ----------
    campaign
        That it must be of.
    folder
        The batch.
    key
        File of the round's private key.
    output
        Of the counts; must not exist.
    workers
        Processes that open parts; by default one a core.

    Returns
    -------
    What was written.

    Raises
    ------
    InputError
        If batch, key and campaign are not of one round, or it was opened.
    """
    batch = read_batch(folder, campaign)
    if output.exists():
        # Whoever was interrupted before the key was destroyed would have it still.
        if key.exists() and read_opened(output, campaign).number == batch.number:
            check_key(campaign, batch, read_key(key))
            destroy(key)
        raise InputError(f"{output} is there already: a round is opened once")
    private = read_key(key)
    check_key(campaign, batch, private)
    opening = partial(open_part, campaign, batch, private)
    names = sorted(batch.parts)
    most = workers or len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(max(1, min(most, len(names)))) as pool:
        found = pool.map(opening, names)
        bar = tqdm(found, "parts", len(names), delay=2.0, leave=False, disable=None)
        return count_parts(campaign, batch, dict(zip(names, bar, strict=True)), key, output)


def count_parts(
    campaign: Campaign, batch: Batch, parts: Mapping[str, bytes], key: Path, output: Path
) -> Opened:
    """Count what was found in all parts, add the analyst's noise, write this and destroy the key.

    Parameters
    ----------
    campaign, batch
        As of `open_part`.
    parts
        What `open_part` returned, by the names of all parts.
    key, output
        Files, as of `open_batch`.

    Raises
    ------
    InputError
        If one is not what was found in that part, the batch is cut, or nothing in it is of the
        round: the key is kept for the right one.
    """
    if set(parts) != set(batch.parts):
        raise InputError(f"the batch has {len(batch.parts)} parts (got {len(parts)})")
    private = read_key(key)
    check_key(campaign, batch, private)
    unpacked = [_unpacked(campaign, batch, private, *each) for each in parts.items()]
    if (found := sum(part.words.size for part in unpacked)) != batch.messages:
        raise InputError(f"the batch has {batch.messages} messages (got {found})")
    opened = _counted(campaign, batch, unpacked)
    if opened.foreign == batch.messages:
        raise InputError(f"batch {batch.folder} has no message that was sealed for this round")
    with replacing(output) as path:
        path.touch(0o600)
        path.write_bytes(opened.text)
    destroy(key)
    return opened


def destroy(key: Path) -> None:
    """Overwrite and remove a file; copies, and what a disk keeps of it, are not reached."""
    with key.open("r+b") as stream:
        stream.write(bytes(key.stat().st_size))
        stream.flush()
        os.fsync(stream.fileno())
    key.unlink()


def check_key(campaign: Campaign, batch: Batch, private: bytes) -> None:
    """Refuse a private key that is not of the batch's round.

    Parameters
    ----------
    campaign, batch
        As of `open_part`.
    private
        32 bytes.

    Raises
    ------
    InputError
        If so.
    """
    if _private(private).public_key().public_bytes_raw() != campaign.key(batch.number):
        raise InputError(f"the key is not that of round {batch.number}")


def _private(raw: bytes) -> Any:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(raw)


def open_part(campaign: Campaign, batch: Batch, private: bytes, name: str) -> bytes:
    """Open a part; what comes out is sealed for the same key.

    Parameters
    ----------
    campaign, batch
        That it is of.
    private
        The round's key.
    name
        Of the part.

    Raises
    ------
    InputError
        If the file is not that of the manifest.
    """
    from cryptography.exceptions import InvalidTag

    key, bound, opener = _private(private), info(campaign, batch.number), suite().decrypt
    sealed = batch.part(name)
    words = np.empty(sealed.size, np.int32)
    for i, message in enumerate(sealed.tolist()):
        try:
            plain = opener(message, key, info=bound)
        except InvalidTag:
            plain = b""
        word = int.from_bytes(plain, "big") if len(plain) == PLAIN else _FOREIGN
        words[i] = min(word, _LARGEST)
    packed = io.BytesIO()
    marks = np.frombuffer(sealed.tobytes(), np.uint8).reshape(-1, sealed.itemsize)[:, :_MARK]
    np.savez(packed, marks=marks, words=words)
    return bytes(suite().encrypt(packed.getvalue(), key.public_key(), info=_opened(bound, name)))


def _opened(bound: bytes, name: str) -> bytes:
    return bound + b" opened " + name.encode()


def _unpacked(campaign: Campaign, batch: Batch, private: bytes, name: str, sealed: bytes) -> _Part:
    from cryptography.exceptions import InvalidTag

    bound = _opened(info(campaign, batch.number), name)
    try:
        found = np.load(io.BytesIO(suite().decrypt(sealed, _private(private), info=bound)))
    except InvalidTag:
        raise InputError(f"what was opened of {name} is damaged: open it again") from None
    marks = np.ascontiguousarray(found["marks"]).view(np.dtype((np.void, _MARK))).ravel()
    return _Part(marks, found["words"])


def _counted(campaign: Campaign, batch: Batch, parts: Iterable[_Part]) -> Opened:
    parts, counts = list(parts), np.zeros(campaign.cells, np.int64)
    foreign = repeated = out_of_range = 0
    # A mixer that repeats somebody's message would see in the map whose it was. Marks are random:
    # those of one beginning are a share of all, so that memory is not needed for all at once.
    for beginning in range(_SHARES):
        chosen = [part.beginning == beginning for part in parts]
        words = _joined([part.words[mine] for part, mine in zip(parts, chosen, strict=True)])
        marks = _joined([part.marks[mine] for part, mine in zip(parts, chosen, strict=True)])
        ours = words != _FOREIGN
        _, first = np.unique(marks[ours], return_index=True)
        single = words[ours][first]
        cells, minus = np.divmod(single - 1, 2)
        valid = (single > 0) & (cells < campaign.cells)
        np.add.at(counts, cells[valid], 1 - 2 * minus[valid])
        foreign += int((~ours).sum())
        repeated += int(ours.sum() - first.size)
        out_of_range += int(((single != 0) & ~valid).sum())
    if (noise := campaign.laws.analyst) is not None:
        counts += np.array([noise.draw() for _ in range(campaign.cells)])
    return Opened(
        batch.campaign,
        batch.number,
        batch.respondents,
        counts,
        foreign,
        repeated,
        out_of_range,
    )


def _joined(arrays: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(arrays) if arrays else np.empty(0, np.int64)


def read_opened(path: Path, campaign: Campaign) -> Opened:
    """Read the counts that `open_batch` wrote.

    Raises
    ------
    InputError
        If they are none, or of another campaign.
    """
    try:
        text = path.read_bytes()
        found = json.loads(text)
        counts = np.array(found["counts"], np.int64)
        made = Opened(
            found["campaign"],
            found["round"],
            found["respondents"],
            counts,
            found["foreign"],
            found["repeated"],
            found["out_of_range"],
        )
        numbers = [made.number, made.respondents, made.foreign, made.repeated, made.out_of_range]
        plain = all(type(each) is int and each >= 0 for each in numbers)
        whole = plain and made.text == text and counts.shape == (campaign.cells,)
    except OSError as error:
        raise InputError(f"counts {path} cannot be read ({error.strerror})") from error
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        whole = False
    if not whole:
        raise InputError(f"{path} has no counts of this campaign, or they were altered")
    if made.campaign != campaign.name:
        raise InputError(f"{path} has counts of another campaign")
    campaign.key(made.number)
    return made
