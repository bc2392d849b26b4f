"""Select the rows of tables at one calibration."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.errors import InputError
from shuffledp.pipeline.tables import read_tables

DELTA_HAT: Final = "delta-hat"  # calibration to paper A's delta-hat, which is not a guarantee
TARGET: Final = "target"  # calibration of each mechanism to a target (eps, delta)
OWN_DELTA: Final = "own-delta"  # calibration of one cell to paper A's delta(x0), likewise
# A cell counts as occupied if its estimate exceeds this many standard errors; intervals reach as
# far to each side.
STANDARD_ERRORS: Final = 2.0
_LOG10_TOLERANCE: Final = 1e-9  # tables have targets that went through a natural logarithm


def at_target(table: pd.DataFrame, target_delta: float) -> pd.DataFrame:
    """Return the rows calibrated to the target delta; the others come from a sweep of eps.

    Raises
    ------
    InputError
        If there are none.
    """
    offset = np.abs(table["log10_delta"] - np.log10(target_delta))
    rows: pd.DataFrame = table[(table["calibration"] == "matched") & (offset < _LOG10_TOLERANCE)]
    if rows.empty:
        raise InputError(
            f"target_delta must be one the table was made for (got {target_delta:g}): no matched "
            "release has that delta"
        )
    return rows


def at_targets(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows where each mechanism is calibrated to a target by itself."""
    return table[table["calibration"] == TARGET].reset_index(drop=True)


def calibrated(table: pd.DataFrame, calibration: str, target_delta: float) -> pd.DataFrame:
    """Return the releases whose noise follows from eps0, and the others at one calibration.

    The order of the rows is kept; it is that of the mechanisms in the configuration.

    Parameters
    ----------
    table
        Utility, individual or release table.
    calibration
        ``matched`` (at the target delta), ``delta-hat``, or a calibration of some mechanism.
    target_delta
        The delta for ``matched``; other calibrations do not use it.

    Raises
    ------
    InputError
        If the table has no release of that calibration.
    """
    if calibration == "matched":
        others = at_target(table, target_delta)
    else:
        others = table[table["calibration"] == calibration]
        if others.empty:
            known = ", ".join(sorted(set(table["calibration"]) - {"none"}))
            raise InputError(f"calibration must be one of {known} (got {calibration!r})")
    kept = (table["calibration"] == "none") | table.index.isin(others.index)
    return table[kept].reset_index(drop=True)


def read_calibrated(
    releases: Path, calibration: str, target_delta: float, **equal: float | str
) -> Iterator[pd.DataFrame]:
    """Read the first repetition of the rows that `calibrated` returns, release by release.

    Parameters
    ----------
    releases
        Parquet file with the columns of `tables.RELEASES`, for one eps0 or for targets.
    calibration, target_delta
        The same as for `calibrated`.
    equal
        Further conditions, as for `tables.read_tables`.

    Yields
    ------
    All estimates of one mechanism with the same parameters, in the order of the file. One release
    at a time is in memory.
    """
    names = ["n", "calibration", "eps", "log10_delta", "mechanism"]
    every = read_tables([releases], columns=names, repetition=0, cell=0, **equal)
    for _, row in calibrated(every, calibration, target_delta).drop_duplicates().iterrows():
        # Where the noise follows from eps0 there is neither eps nor delta.
        one = {name: row[name] for name in names if pd.notna(row[name])}
        yield read_tables([releases], repetition=0, **(equal | one))
