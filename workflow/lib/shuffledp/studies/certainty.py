"""What a release shows of single cells: errors, standard errors, where somebody is likely."""

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.selection import STANDARD_ERRORS
from shuffledp.pipeline.tables import CERTAINTY

_RELEASED: Final = ["n", "eps0", "calibration", "eps", "log10_delta", "mechanism"]
_PLACED: Final = ["repetition", "cell"]


def certainty_table(
    releases: pd.DataFrame, samples: Mapping[int, Integers], *, region: str, grid: str
) -> pd.DataFrame:
    """Put the truth beside every estimate, and what whoever holds the release alone can tell.

    Parameters
    ----------
    releases
        Columns of `pipeline.tables.RELEASES`: whole releases, with their unbiased estimates.
    samples
        What was released: users per cell by sample size, shape ``(k,)`` each.
    region, grid
        Names, for the columns of that name.

    Returns
    -------
    Columns of `pipeline.tables.CERTAINTY`, a row for each of ``releases``, in another order.
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
    groups = releases.groupby(_RELEASED, sort=False, dropna=False)
    parts = [_certain(rows, samples).assign(region=region, grid=grid) for _, rows in groups]
    table: pd.DataFrame = pd.concat([part[CERTAINTY.names] for part in parts], ignore_index=True)
    return table


def _certain(rows: pd.DataFrame, samples: Mapping[int, Integers]) -> pd.DataFrame:
    """As `certainty_table`, for the repetitions of one mechanism with the same parameters."""
    n, name = int(rows["n"].iloc[0]), str(rows["mechanism"].iloc[0])
    counts = samples[n]
    unbiased = rows[rows["standard_error"].notna()].sort_values(_PLACED)
    repetitions = np.sort(rows["repetition"].unique())
    cells = np.arange(counts.size)
    if not (
        np.array_equal(unbiased["repetition"], np.repeat(repetitions, counts.size))
        and np.array_equal(unbiased["cell"], np.tile(cells, repetitions.size))
    ):
        raise InputError(
            f"releases must hold one unbiased estimate of {name} for each of {counts.size} cells "
            f"at n={n}"
        )
    known = unbiased["estimate"] > STANDARD_ERRORS * unbiased["standard_error"]
    first = counts.size * np.searchsorted(repetitions, rows["repetition"])
    table = rows.assign(
        known=known.to_numpy()[first + rows["cell"]], count=counts[rows["cell"]]
    ).reset_index(drop=True)
    for column in ("estimate", "standard_error"):
        table[column] *= n
    table["error"] = table["estimate"] - table["count"]
    return table
