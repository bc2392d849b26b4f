"""Select one check-in per user, so that the user becomes the unit, and count check-ins per user."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shuffledp.errors import InputError
from shuffledp.geography.cells import make_cells
from shuffledp.geography.regions import Region
from shuffledp.geography.sources import BUDGET
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.files import replacing
from shuffledp.pipeline.streams import stream
from shuffledp.pipeline.tables import CHECKED, PACKED, reading

logger = logging.getLogger(__name__)


def one_per_user(checkins: Path, destination: Path, *, seed: int, region: str) -> int:
    """Keep one check-in of each user, chosen uniformly among those in the region.

    Parameters
    ----------
    checkins
        Parquet file written by `shuffledp.geography.checkins.crop_checkins`.
    destination
        Same columns and metadata, in the order of the source. The file appears only if everything
        succeeds. A user with several budgets gets the smallest one, which keeps all of them.
    seed, region
        Seed and name of the region, which determine the choice.

    Returns
    -------
    The number of users. Rows without a user are dropped; their number is logged.

    Raises
    ------
    InputError
        If no row has a user.
    """
    with reading(checkins):
        rows = pq.read_table(checkins, **CHECKED)
    named = rows.filter(pc.is_valid(rows["user"]))
    if not named.num_rows:
        raise InputError(
            f"{checkins} has no users: set columns.user of the source's layout, or unit: checkin"
        )
    # In random order, the first row of each user is uniform among the user's rows.
    order = stream(seed, "one check-in per user", region).permutation(named.num_rows)
    users = named["user"].to_numpy()[order]
    first = np.sort(order[np.unique(users, return_index=True)[1]])
    kept = named.take(pa.array(first))
    if BUDGET in kept.column_names:
        kept = _with_smallest_budgets(kept, named, region)
    kept = kept.replace_schema_metadata(rows.schema.metadata)
    with replacing(destination) as temporary:
        pq.write_table(kept, temporary, **PACKED)
    logger.info(
        "%s: %s users of %s check-ins; %s without a user dropped",
        region,
        *(f"{n:,}" for n in (kept.num_rows, named.num_rows, rows.num_rows - named.num_rows)),
    )
    return int(kept.num_rows)


def _with_smallest_budgets(kept: Any, named: Any, region: str) -> Any:
    """Return the rows `kept` with the smallest budget of the same user in `named`."""
    by_user = named.group_by("user").aggregate([(BUDGET, "min"), (BUDGET, "max")])
    users_with_several = pc.sum(
        pc.not_equal(by_user[f"{BUDGET}_min"], by_user[f"{BUDGET}_max"])
    ).as_py()
    if users_with_several:
        logger.warning(
            "%s: %s users have several budgets; the smallest one is used",
            region,
            f"{users_with_several:,}",
        )
    position = pc.index_in(kept["user"], by_user["user"])
    smallest = by_user[f"{BUDGET}_min"].take(position)
    index = kept.schema.get_field_index(BUDGET)
    return kept.set_column(index, kept.schema.field(index), smallest)


def checkins_per_user(
    checkins: Path, region: Region, spec: Mapping[str, Any]
) -> tuple[int, Integers]:
    """Count the check-ins in the cells of a grid, in total and for each user.

    Parameters
    ----------
    checkins
        As for `one_per_user`.
    region, spec
        As for `shuffledp.geography.cells.make_cells`.

    Returns
    -------
    The total, and the number for every user who has a check-in there, shape ``(users,)``. Rows
    without a user are only in the total.
    """
    cells = make_cells(region, spec)
    total, users = 0, [np.empty(0, np.int64)]
    with reading(checkins), pq.ParquetFile(checkins, **CHECKED) as file:
        for batch in file.iter_batches(columns=["user", "latitude", "longitude"]):
            cell = cells.locate(batch["latitude"].to_numpy(), batch["longitude"].to_numpy())
            inside = batch.filter(pa.array(cell >= 0))
            total += inside.num_rows
            users.append(inside["user"].drop_null().to_numpy())
    return total, np.unique(np.concatenate(users), return_counts=True)[1]
