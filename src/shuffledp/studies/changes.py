"""Compare the counts of consecutive windows of time."""

from typing import Final

import numpy as np
import pandas as pd

from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.pipeline.selection import STANDARD_ERRORS

COLUMNS: Final = (
    "id", "name", "before", "after", "true_change", "change", "standard_error", "low", "high",
)  # fmt: skip


def change_table(
    cells: pd.DataFrame, counts: Integers, estimates: Floats, errors: Floats
) -> pd.DataFrame:
    """Return the change of each cell's count from each window of time to the next.

    `cells` have the columns ``window``, ``id`` and ``name``: k cells for each window, window by
    window. True counts, unbiased estimates of one release and their standard errors are in records,
    in the order of `cells`.

    The columns are `COLUMNS`; ``low`` and ``high`` are two standard errors from ``change``.
    Estimates from randomised responses are correlated, which increases the standard error of a
    change by at most a factor of sqrt(1 + 2 / (m - 1)), for m cells of all windows together (for
    k-RR: a report's covariance of two cells is -p q, with q = (1 - p) / (m - 1), and its variance
    at least p (1 - p)). The factor is always included; with independent noise it is not needed.
    """
    windows = list(dict.fromkeys(cells["window"]))
    shape = (len(windows), -1)
    variances = (errors**2).reshape(shape)
    correlated = 1.0 + 2.0 / (len(cells) - 1)
    standard_error = np.sqrt(correlated * (variances[:-1] + variances[1:]))
    change = np.diff(estimates.reshape(shape), axis=0)
    first = cells.iloc[: len(cells) // len(windows)]
    pairs = len(windows) - 1
    return pd.DataFrame(
        {
            "id": np.tile(first["id"], pairs),
            "name": np.tile(first["name"], pairs),
            "before": np.repeat(windows[:-1], len(first)),
            "after": np.repeat(windows[1:], len(first)),
            "true_change": np.diff(counts.reshape(shape), axis=0).ravel(),
            "change": change.ravel(),
            "standard_error": standard_error.ravel(),
            "low": (change - STANDARD_ERRORS * standard_error).ravel(),
            "high": (change + STANDARD_ERRORS * standard_error).ravel(),
        },
        columns=list(COLUMNS),
    )
