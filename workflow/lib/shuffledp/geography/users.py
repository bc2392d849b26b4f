"""One check-in per user: what makes the user, not the check-in, the unit of privacy."""

import logging
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shuffledp.errors import InputError
from shuffledp.files import replacing
from shuffledp.streams import stream

logger = logging.getLogger(__name__)


def one_per_user(checkins: Path, destination: Path, *, seed: int, region: str) -> int:
    """Keep one check-in of each user, chosen uniformly among those in the region.

    Parameters
    ----------
    checkins
        Parquet file of `shuffledp.geography.checkins.crop_checkins`.
    destination
        Same columns and metadata, in the order of the source. It appears only if all went well.
    seed
        With the region's name it gives the choice: the same seed keeps the same check-ins.
    region
        Name of the region.

    Returns
    -------
    The number of users. Rows without a user are dropped; the log says how many.

    Raises
    ------
    InputError
        If no row names its user.
    """
    rows = pq.read_table(checkins)
    named = rows.filter(pc.is_valid(rows["user"]))
    if not named.num_rows:
        raise InputError(
            f"{checkins} names no user: map a column of the source to `user`, or set unit: checkin"
        )
    # The first of each user's rows in random order is uniform among them.
    order = stream(seed, "one check-in per user", region).permutation(named.num_rows)
    users = named["user"].to_numpy()[order]
    first = order[np.unique(users, return_index=True)[1]]
    kept = named.take(pa.array(np.sort(first))).replace_schema_metadata(rows.schema.metadata)
    with replacing(destination) as temporary:
        pq.write_table(kept, temporary, compression="zstd")
    logger.info(
        "%s: %s users of %s check-ins; %s without a user dropped",
        region,
        *(f"{n:,}" for n in (kept.num_rows, named.num_rows, rows.num_rows - named.num_rows)),
    )
    return int(kept.num_rows)
