"""The analyst: opens a batch once, and adds noise before a count is kept.

The key of the round is destroyed when the counts are written: a second opening would draw other
noise, and the mean of both would reveal more than was promised.
"""

import json
import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.files import replacing
from tqdm import tqdm

from shuffledp_collect.batch import Batch, read_batch
from shuffledp_collect.campaign import Campaign, canonical
from shuffledp_collect.messages import PLAIN, info, suite

_CHUNK: Final = 50_000  # messages that a process opens at a time
_FOREIGN: Final = -1


@dataclass(frozen=True)
class Opened:
    """Counts of a round, with the noise of both servers.

    Attributes
    ----------
    campaign
        Name of the campaign.
    number
        Number of the round.
    respondents
        Number of respondents.
    counts
        Plus messages less minus messages of each cell, noise included, shape ``(k,)``.
    foreign, repeated, out_of_range
        Messages that were not counted: not sealed for this round, repeated, or of no cell.
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
        """The content of the file, as canonical JSON."""
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


def read_key(path: Path) -> bytes:
    """Read a private key that `campaign new` wrote.

    Raises `InputError` if the file cannot be read or is not a key.
    """
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except OSError as error:
        raise InputError(
            f"key {path} cannot be read ({error.strerror}): opening a round destroys its key"
        ) from error
    except ValueError:
        key = b""
    if len(key) != 32:
        raise InputError(f"{path} is not the key of a round")
    return key


def open_batch(
    campaign: Campaign,
    path: Path,
    key: Path,
    output: Path,
    workers: int | None = None,
    sha256: str | None = None,
) -> Opened:
    """Open a batch, write its counts and destroy the key.

    `path` is the batch, which must belong to the campaign, `key` the file of the round's private
    key, and `output` the file of the counts, which must not exist. There are `workers` processes,
    by default one per core. `sha256` is the checksum of the batch that mixer and analyst agreed on,
    or None. Raises `InputError` if batch, key and campaign do not belong together, the batch was
    altered, or it was opened before. The key is then kept.
    """
    batch = read_batch(path, campaign, sha256)
    if output.exists():
        # An interruption after the counts were written may have left the key.
        if key.exists() and read_opened(output, campaign).number == batch.number:
            _check_key(campaign, batch, read_key(key))
            destroy(key)
        raise InputError(f"{output} already exists: a round is opened once")
    private = read_key(key)
    _check_key(campaign, batch, private)
    opened = _counted(campaign, batch, private, workers or len(os.sched_getaffinity(0)))
    with replacing(output) as temporary:
        temporary.touch(0o600)
        temporary.write_bytes(opened.text)
    destroy(key)
    return opened


def destroy(key: Path) -> None:
    """Overwrite and remove a file; copies, and traces on the disk, are not reached."""
    with key.open("r+b") as stream:
        stream.write(bytes(key.stat().st_size))
        stream.flush()
        os.fsync(stream.fileno())
    key.unlink()


def _check_key(campaign: Campaign, batch: Batch, private: bytes) -> None:
    if _private_key(private).public_key().public_bytes_raw() != campaign.key(batch.number):
        raise InputError(f"the key does not belong to round {batch.number}")


def _private_key(raw: bytes) -> Any:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(raw)


def open_messages(private: bytes, bound: bytes, sealed: NDArray[np.void]) -> NDArray[np.int64]:
    """Return the number in each message, or a negative one if it cannot be opened.

    `bound` is the context that messages must be sealed for, from `messages.info`.
    """
    from cryptography.exceptions import InvalidTag

    key, decrypt = _private_key(private), suite().decrypt
    words = np.empty(sealed.size, np.int64)
    for i, message in enumerate(sealed.tolist()):
        try:
            plain = decrypt(message, key, info=bound)
        except InvalidTag:
            plain = b""
        words[i] = int.from_bytes(plain, "big") if len(plain) == PLAIN else _FOREIGN
    return words


def _counted(campaign: Campaign, batch: Batch, private: bytes, workers: int) -> Opened:
    sealed = batch.sealed()
    # A mixer that repeats a message could recognise it in the map: each is counted once.
    distinct = np.unique(sealed)
    words = _opened(distinct, private, info(campaign, batch.number), workers)
    ours = words != _FOREIGN
    if not ours.any():
        raise InputError(f"batch {batch.path} has no message that was sealed for this round")
    cells, minus = np.divmod(words - 1, 2)
    valid = (words > 0) & (cells < campaign.cells)
    counts = np.zeros(campaign.cells, np.int64)
    np.add.at(counts, cells[valid], 1 - 2 * minus[valid])
    if (noise := campaign.laws.analyst) is not None:
        counts += np.array([noise.draw() for _ in range(campaign.cells)])
    return Opened(
        batch.campaign,
        batch.number,
        batch.respondents,
        counts,
        foreign=int((~ours).sum()),
        repeated=int(sealed.size - distinct.size),
        out_of_range=int((ours & (words != 0) & ~valid).sum()),
    )


def _opened(
    sealed: NDArray[np.void], private: bytes, bound: bytes, workers: int
) -> NDArray[np.int64]:
    chunks = [sealed[start : start + _CHUNK] for start in range(0, sealed.size, _CHUNK)]
    opening = partial(open_messages, private, bound)
    with ExitStack() as stack:
        each: Iterable[NDArray[np.int64]] = map(opening, chunks)
        if min(workers, len(chunks)) > 1:
            each = stack.enter_context(ProcessPoolExecutor(workers)).map(opening, chunks)
        bar = tqdm(each, "messages", len(chunks), delay=2.0, leave=False, disable=None)
        return np.concatenate(list(bar))


def read_opened(path: Path, campaign: Campaign) -> Opened:
    """Read the counts that `open_batch` wrote.

    Raises `InputError` if the file is not one of counts, was altered, or belongs to another
    campaign.
    """
    try:
        text = path.read_bytes()
        found = json.loads(text)
        opened = Opened(
            found["campaign"],
            found["round"],
            found["respondents"],
            np.array(found["counts"], np.int64),
            found["foreign"],
            found["repeated"],
            found["out_of_range"],
        )
        numbers = [opened.number, opened.respondents]
        numbers += [opened.foreign, opened.repeated, opened.out_of_range]
        valid = all(type(each) is int and each >= 0 for each in numbers)
        valid = valid and opened.text == text and opened.counts.shape == (campaign.cells,)
    except OSError as error:
        raise InputError(f"counts {path} cannot be read ({error.strerror})") from error
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError):
        valid = False
    if not valid:
        raise InputError(f"{path} has no counts of this campaign, or they were altered")
    if opened.campaign != campaign.name:
        raise InputError(f"{path} has counts of another campaign")
    campaign.key(opened.number)
    return opened
