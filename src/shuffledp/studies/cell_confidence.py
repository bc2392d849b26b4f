"""Compute errors and standard errors of single cells, and mark cells very likely occupied.

A cell is called known if its unbiased estimate exceeds `STANDARD_ERRORS` standard errors: at least
one user is then very likely in it.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.selection import STANDARD_ERRORS
from shuffledp.pipeline.tables import CERTAINTY, GROUP_ROWS

_RELEASE_KEYS: Final = ["n", "eps0", "calibration", "eps", "log10_delta", "mechanism"]
_CELL_KEYS: Final = ["repetition", "cell"]


def confidence_tables(
    releases: pd.DataFrame, samples: Mapping[int, Integers], *, region: str, grid: str
) -> Iterator[pd.DataFrame]:
    """Compare every estimate with the true count, and mark known cells.

    `releases` have the columns of `pipeline.tables.RELEASES`. It is an `InputError` if a release
    does not have one unbiased estimate for each cell. `samples` are true histograms: users per cell
    by sample size, shape ``(k,)`` each. `region` and `grid` are the values of the columns with
    these names.

    The tables have the columns of `pipeline.tables.CERTAINTY` and at most `GROUP_ROWS` rows.
    Together they have one row for each row of `releases`, in another order. ``count`` is the true
    number; ``estimate``, ``error`` (estimate - count) and ``standard_error`` are in records. Biased
    estimates have no standard error; use that of the unbiased estimate of the same release, which
    also decides ``known`` for all estimates of the release. One in 30 to 44 empty cells is wrongly
    called known.
    """
    release = releases.groupby(_RELEASE_KEYS, sort=False, dropna=False).ngroup().to_numpy()
    for number in range(release.max(initial=-1) + 1):
        positions = np.flatnonzero(release == number)
        n = int(releases["n"].iloc[positions[0]])
        counts, repetitions = samples[n], np.unique(releases["repetition"].iloc[positions])
        known = _known(releases, positions, repetitions, counts)
        for start in range(0, positions.size, GROUP_ROWS):
            table = releases.iloc[positions[start : start + GROUP_ROWS]].reset_index(drop=True)
            first = counts.size * np.searchsorted(repetitions, table["repetition"])
            table = table.assign(
                region=region,
                grid=grid,
                known=known[first + table["cell"]],
                count=counts[table["cell"]],
            )
            for column in ("estimate", "standard_error"):
                table[column] *= n
            table["error"] = table["estimate"] - table["count"]
            yield table[CERTAINTY.names]


def _known(
    releases: pd.DataFrame, positions: Integers, repetitions: Integers, counts: Integers
) -> NDArray[np.bool_]:
    """Return which cells are known, in order of repetition and cell, for the rows of a release."""
    unbiased = positions[releases["standard_error"].notna().to_numpy()[positions]]
    rows = (
        releases[[*_CELL_KEYS, "estimate", "standard_error"]].iloc[unbiased].sort_values(_CELL_KEYS)
    )
    if not (
        np.array_equal(rows["repetition"], np.repeat(repetitions, counts.size))
        and np.array_equal(rows["cell"], np.tile(np.arange(counts.size), repetitions.size))
    ):
        n, name = releases[["n", "mechanism"]].iloc[positions[0]]
        raise InputError(
            f"releases must have one unbiased estimate of {name} for each of {counts.size} cells "
            f"at n={n}: make the release tables again"
        )
    return (rows["estimate"] > STANDARD_ERRORS * rows["standard_error"]).to_numpy()
