"""Select the rows of tables at one calibration.

A release's calibration says what its noise was chosen for: ``matched``, the (eps, delta) certified
for k-RR with the same eps0; ``target``, a configured (eps, delta); ``delta-hat`` and ``own-delta``,
values of paper A (docs/papers.md) that are no guarantees; ``none``, noise that follows from eps0.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.errors import InputError
from shuffledp.pipeline.tables import read_tables

TARGET: Final = "target"
OWN_DELTA: Final = "own-delta"  # paper A's delta(x0) of a single cell x0
# A cell counts as occupied if its estimate exceeds this many standard errors, which is also the
# half-width of intervals.
STANDARD_ERRORS: Final = 2.0
_LOG10_TOLERANCE: Final = 1e-9  # rounding errors of targets converted from natural logarithms


def at_target(table: pd.DataFrame, target_delta: float) -> pd.DataFrame:
    """Return the ``matched`` rows at the target delta, without those of the sweep over eps.

    Raises `InputError` if there are none.
    """
    offset = np.abs(table["log10_delta"] - np.log10(target_delta))
    rows: pd.DataFrame = table[(table["calibration"] == "matched") & (offset < _LOG10_TOLERANCE)]
    if rows.empty:
        raise InputError(
            f"no matched release has target_delta={target_delta:g}: choose a delta for which the "
            "table was made"
        )
    return rows


def at_targets(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows where each mechanism is calibrated to a configured target (eps, delta)."""
    return table[table["calibration"] == TARGET].reset_index(drop=True)


def usual_target(summary: pd.DataFrame, estimator: str) -> pd.DataFrame:
    """Return the rows of an estimator at the largest n and the target eps closest to 1.

    `summary` has the errors of all mechanisms at all targets, with columns ``calibration``,
    ``estimator``, ``n`` and ``eps``.
    """
    rows = at_targets(summary)
    rows = rows[(rows["estimator"] == estimator) & (rows["n"] == rows["n"].max())]
    closest = rows["eps"].iloc[np.abs(np.log(rows["eps"])).argmin()]
    chosen: pd.DataFrame = rows[rows["eps"] == closest]
    return chosen


def read_target(
    rows: pd.DataFrame, releases: Mapping[str, Path], names: Sequence[str], estimator: str
) -> pd.DataFrame:
    """Read the first release of each of the named mechanisms at a target.

    `rows` have one n and eps, as `usual_target` returns them. `releases` has the Parquet file of
    each mechanism under ``releases_`` and its name.
    """
    n, eps = int(rows["n"].iloc[0]), float(rows["eps"].iloc[0])
    parts = [
        read_tables([releases[f"releases_{name}"]], n=n, eps=eps, repetition=0, estimator=estimator)
        for name in names
    ]
    return pd.concat(parts, ignore_index=True)


def calibrated(table: pd.DataFrame, calibration: str, target_delta: float) -> pd.DataFrame:
    """Return the releases with one calibration, and those whose noise follows from eps0.

    The table has errors (utility or individual) or releases. Its rows keep their order, which is
    that of the mechanisms in the configuration. Only ``matched`` releases have a target delta.
    Raises `InputError` if the table has no release of that calibration.
    """
    if calibration == "matched":
        others = at_target(table, target_delta)
    else:
        others = table[table["calibration"] == calibration]
        if others.empty:
            available = ", ".join(sorted(set(table["calibration"]) - {"none"}))
            raise InputError(f"calibration must be one of {available}, got {calibration!r}")
    kept = (table["calibration"] == "none") | table.index.isin(others.index)
    return table[kept].reset_index(drop=True)


def read_calibrated(
    releases: Path, calibration: str, target_delta: float, **equal: float | str
) -> Iterator[pd.DataFrame]:
    """Read the first repetition of the rows that `calibrated` selects, release by release.

    The file has the columns of `tables.RELEASES`, for one eps0 or for targets; `equal` has further
    conditions, as for `tables.read_tables`. Each table has all estimates of one mechanism with the
    same parameters, in the order of the file. One release at a time is in memory.
    """
    names = ["n", "calibration", "eps", "log10_delta", "mechanism"]
    first_cells = read_tables([releases], columns=names, repetition=0, cell=0, **equal)
    for _, row in calibrated(first_cells, calibration, target_delta).drop_duplicates().iterrows():
        # Where the noise follows from eps0 there is neither eps nor delta.
        release = {name: row[name] for name in names if pd.notna(row[name])}
        yield read_tables([releases], repetition=0, **(equal | release))
