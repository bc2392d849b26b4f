"""Tell users apart by their identifiers, and bound how many of their records count."""

import logging
import re
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.files import replacing
from shuffledp.pipeline.streams import stream
from shuffledp.pipeline.tables import CHECKED, PACKED, reading

logger = logging.getLogger(__name__)

_SHORT_INTEGER: Final = re.compile(rb"0|-?[1-9][0-9]{0,17}")
_END_OF_SHORT: Final = 10**18
_FIRST_NUMBER: Final = 2 * 10**18  # of the first user in the table; above all short integers
_MISSING: Final = -(2**63)


class UserNumbers:
    """Assign numbers to users by their identifiers, without collisions.

    Fingerprints could collide, and two users who share m records are protected half as well.
    Integers of up to 18 digits are their own numbers; all other identifiers are kept in a table,
    about 200 bytes each, and numbered in the order in which they are first seen.
    """

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def number(self, identifiers: Any) -> tuple[Integers, NDArray[np.bool_]]:
        """Return the number of the user of each record, and which records have one.

        `identifiers` are a result of `values.to_identifier`, or several in one chunked array.
        """
        if isinstance(identifiers, pa.ChunkedArray):
            parts = [self.number(chunk) for chunk in identifiers.chunks]
            numbers = np.concatenate([part[0] for part in parts] or [np.empty(0, np.int64)])
            return numbers, numbers != _MISSING
        if pa.types.is_integer(identifiers.type):
            known = identifiers.is_valid().to_numpy(zero_copy_only=False)
            numbers = pc.fill_null(identifiers, 0).to_numpy()
            long = known & ((numbers >= _END_OF_SHORT) | (numbers <= -_END_OF_SHORT))
            numbers = np.where(known, numbers, _MISSING)
            if long.any():
                values, index = np.unique(numbers[long], return_inverse=True)
                numbers[long] = np.array([self._number(b"%d" % value) for value in values])[index]
            return numbers, known
        table = self._table(identifiers.dictionary)
        missing = len(identifiers.dictionary)  # a missing identifier gets the last entry
        index = identifiers.indices.fill_null(missing).to_numpy(zero_copy_only=False)
        numbers = table[index]
        return numbers, numbers != _MISSING

    def _table(self, texts: Any) -> Integers:
        """Return the number of each text of a dictionary, and that of a missing identifier."""
        short = pc.match_substring_regex(texts, rf"^({_SHORT_INTEGER.pattern.decode()})$")
        if pc.all(short).as_py() is not False:  # None if there are no texts
            integers = pc.fill_null(pc.cast(pc.cast(texts, pa.string()), pa.int64()), _MISSING)
            return np.append(integers.to_numpy(), _MISSING)
        numbers = [_MISSING if text is None else self._number(text) for text in texts.to_pylist()]
        return np.array([*numbers, _MISSING], dtype=np.int64)

    def _number(self, text: bytes) -> int:
        if _SHORT_INTEGER.fullmatch(text):
            return int(text)
        return self._numbers.setdefault(text, _FIRST_NUMBER + len(self._numbers))


def bounded_records(
    user: Integers,
    place: Integers,
    priority: Any,
    records_per_user: int,
    *,
    distinct: bool,
    group: Integers | None = None,
) -> Integers:
    """Return which records count, at most m of each user: those with the smallest priorities.

    If the priorities are in random order, the records of a user that count are a uniform sample,
    which depends on no other user.

    `user`, `place` (the cell) and `priority` have shape ``(records,)``; `records_per_user` is m. If
    `distinct`, a user counts at most once in each cell, with the smallest priority there. If there
    are several histograms, `group` is the index of each record's histogram, m bounds the records of
    a user in each, and cells of different histograms have different numbers. The result has the
    indices of the records, ordered by user, group and priority.
    """
    group = np.zeros_like(user) if group is None else group
    index = np.arange(user.size)
    if distinct:
        index = np.lexsort((priority, place, user))
        index = index[_starts(user[index], place[index])]
    index = index[np.lexsort((priority[index], group[index], user[index]))]
    starts = np.flatnonzero(_starts(user[index], group[index]))
    rank = np.arange(index.size) - np.repeat(starts, np.diff(np.append(starts, index.size)))
    return np.asarray(index[rank < records_per_user])


def _starts(*keys: Integers) -> Any:
    """Return a mask of the positions where sorted keys begin a new combination of values."""
    first = np.ones(keys[0].size, dtype=bool)
    first[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return first


def one_per_user(checkins: Path, destination: Path, *, seed: int, region: str) -> int:
    """Keep one check-in of each user, chosen uniformly, and return the number of users.

    `checkins` is a Parquet file written by `shuffledp.data.checkins.crop_checkins`. The
    destination has the same columns and metadata, in the order of the source, and appears only if
    everything succeeds. Rows without a user are dropped, and their number is logged. Seed and name
    of the region determine the choice. Raises `InputError` if no row has a user.
    """
    named, dropped = _read_named(checkins)
    # In random order, the first row of each user is uniform among the user's rows.
    order = stream(seed, "one check-in per user", region).permutation(named.num_rows)
    users = named["user"].to_numpy()[order]
    first = np.sort(order[np.unique(users, return_index=True)[1]])
    with replacing(destination) as temporary:
        pq.write_table(named.take(pa.array(first)), temporary, **PACKED)
    logger.info(
        f"{region}: {first.size:,} users of {named.num_rows:,} check-ins; {dropped:,} without a "
        "user dropped"
    )
    return int(first.size)


def shuffle_checkins(checkins: Path, destination: Path, *, seed: int, region: str) -> None:
    """Write the check-ins of all users in random order, so that the first m of a user are random.

    `bounded_records` selects among these rows, once their cells are known. Parameters and errors
    are those of `one_per_user`.
    """
    named, dropped = _read_named(checkins)
    order = stream(seed, "check-ins per user", region).permutation(named.num_rows)
    with replacing(destination) as temporary:
        pq.write_table(named.take(pa.array(order)), temporary, **PACKED)
    logger.info(
        f"{region}: {named.num_rows:,} check-ins of users; {dropped:,} without a user dropped"
    )


def _read_named(checkins: Path) -> tuple[Any, int]:
    """Return the check-ins that have a user, and the number of those that have none."""
    with reading(checkins):
        rows = pq.read_table(checkins, **CHECKED)
    named = rows.filter(pc.is_valid(rows["user"]))
    if not named.num_rows:
        raise InputError(
            f"{checkins} has no users: set columns.user of the source's layout, or unit: checkin"
        )
    return named, rows.num_rows - named.num_rows
