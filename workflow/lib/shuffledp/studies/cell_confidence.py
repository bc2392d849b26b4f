"""What a release shows of single cells: errors, standard errors, where somebody is likely."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.selection import STANDARD_ERRORS
from shuffledp.pipeline.tables import CERTAINTY, GROUP_ROWS

_RELEASED: Final = ["n", "eps0", "calibration", "eps", "log10_delta", "mechanism"]
_PLACED: Final = ["repetition", "cell"]


def confidence_tables(
    releases: pd.DataFrame, samples: Mapping[int, Integers], *, region: str, grid: str
) -> Iterator[pd.DataFrame]:
    """Put the truth beside every estimate, and what whoever holds the release alone can tell.

    Parameters
    ----------
    releases
        Columns of `pipeline.tables.RELEASES`: whole releases, with their unbiased estimates.
    samples
        What was released: users per cell by sample size, shape ``(k,)`` each.
    region, grid
        Names, for the columns of that name.

    Yields
    ------
    Columns of `pipeline.tables.CERTAINTY`, at most a million rows at a time; in all a row for each
    of ``releases``, in another order.
    ``count`` is the truth; ``estimate``, ``error`` (estimate - count) and ``standard_error`` are in
    records. The standard error is missing where the estimate is biased: take that of the unbiased
    one of the same release.
    ``known``, alike for all estimates of a release, says that the unbiased one exceeds
    `STANDARD_ERRORS` standard errors. A cell where nobody is does so, too, once in 30 to 44.

    Raises
    ------
    InputError
        If a release has not one unbiased estimate for each cell.
    """
    release = releases.groupby(_RELEASED, sort=False, dropna=False).ngroup().to_numpy()
    for number in range(release.max(initial=-1) + 1):
        places = np.flatnonzero(release == number)
        n = int(releases["n"].iloc[places[0]])
        counts, repetitions = samples[n], np.unique(releases["repetition"].iloc[places])
        known = _known(releases, places, repetitions, counts)
        for start in range(0, places.size, GROUP_ROWS):
            table = releases.iloc[places[start : start + GROUP_ROWS]].reset_index(drop=True)
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
    releases: pd.DataFrame, places: Integers, repetitions: Integers, counts: Integers
) -> NDArray[np.bool_]:
    """Return which cells are known, by repetition and cell, from the rows of one mechanism."""
    unbiased = places[releases["standard_error"].notna().to_numpy()[places]]
    rows = releases[[*_PLACED, "estimate", "standard_error"]].iloc[unbiased].sort_values(_PLACED)
    if not (
        np.array_equal(rows["repetition"], np.repeat(repetitions, counts.size))
        and np.array_equal(rows["cell"], np.tile(np.arange(counts.size), repetitions.size))
    ):
        n, name = releases[["n", "mechanism"]].iloc[places[0]]
        raise InputError(
            f"releases must hold one unbiased estimate of {name} for each of {counts.size} cells "
            f"at n={n}"
        )
    return (rows["estimate"] > STANDARD_ERRORS * rows["standard_error"]).to_numpy()
