"""Select check-ins of each user, so that the user becomes the unit of privacy."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.files import replacing
from shuffledp.pipeline.streams import stream
from shuffledp.pipeline.tables import CHECKED, PACKED, reading

logger = logging.getLogger(__name__)


def one_per_user(checkins: Path, destination: Path, *, seed: int, region: str) -> int:
    """Keep one check-in of each user, chosen uniformly, and return the number of users.

    `checkins` is a Parquet file written by `shuffledp.data.checkins.crop_checkins`. The
    destination has the same columns and metadata, in the order of the source, and appears only if
    everything succeeds. Rows without a user are dropped, and their number is logged. Seed and name
    of the region determine the choice. Raises `InputError` if no row has a user.
    """
    rows, named = _read_named(checkins)
    # In random order, the first row of each user is uniform among the user's rows.
    order = stream(seed, "one check-in per user", region).permutation(named.num_rows)
    users = named["user"].to_numpy()[order]
    first = np.sort(order[np.unique(users, return_index=True)[1]])
    kept = named.take(pa.array(first))
    _write(kept, rows, destination)
    dropped = rows.num_rows - named.num_rows
    logger.info(
        f"{region}: {kept.num_rows:,} users of {named.num_rows:,} check-ins; {dropped:,} without "
        "a user dropped"
    )
    return int(kept.num_rows)


def shuffle_checkins(checkins: Path, destination: Path, *, seed: int, region: str) -> None:
    """Write the check-ins of all users in random order, so that the first m of a user are random.

    `bounded_records` selects among these rows, once their cells are known. Parameters and errors
    are those of `one_per_user`.
    """
    rows, named = _read_named(checkins)
    order = stream(seed, "check-ins per user", region).permutation(named.num_rows)
    _write(named.take(pa.array(order)), rows, destination)
    dropped = rows.num_rows - named.num_rows
    logger.info(
        f"{region}: {named.num_rows:,} check-ins of users; {dropped:,} without a user dropped"
    )


def _write(kept: Any, rows: Any, destination: Path) -> None:
    """Write the rows that are kept with the metadata of all rows."""
    with replacing(destination) as temporary:
        pq.write_table(kept.replace_schema_metadata(rows.schema.metadata), temporary, **PACKED)


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


def _read_named(checkins: Path) -> tuple[Any, Any]:
    """Return all check-ins, and those that have a user."""
    with reading(checkins):
        rows = pq.read_table(checkins, **CHECKED)
    named = rows.filter(pc.is_valid(rows["user"]))
    if not named.num_rows:
        raise InputError(
            f"{checkins} has no users: set columns.user of the source's layout, or unit: checkin"
        )
    return rows, named
