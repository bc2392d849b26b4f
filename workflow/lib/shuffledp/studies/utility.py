"""How far the releases are from the truth: community-level and individual-specific utility."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from shuffledp.studies.sampling import sample_counts

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_KEYS = ["n", "eps0", "eps", "log10_delta", "calibration", "mechanism", "repetition"]


def _truth(releases: pd.DataFrame, counts: Integers, seed: int, region: str, grid: str) -> Floats:
    shares = {n: sample_counts(counts, n, seed, region, grid) / n for n in releases["n"].unique()}
    truth = np.empty(len(releases))
    for n, rows in releases.groupby("n").indices.items():
        truth[rows] = shares[n][releases["cell"].to_numpy()[rows]]
    return truth


def utility_tables(
    releases: pd.DataFrame, counts: Integers, *, seed: int, region: str, grid: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Community-level and individual-specific utility (paper A, section V-A).

    Parameters
    ----------
    releases
        Columns of `shuffledp.tables.RELEASES`, whole releases.
    counts
        The histogram that the samples were drawn from.
    seed, region, grid
        As for the releases: they name the samples.

    Returns
    -------
    Total variation distance of each release to its sample's histogram (columns of
    `shuffledp.tables.UTILITY`), and for the largest n the absolute error of every cell as a share
    of n (columns of `shuffledp.tables.INDIVIDUAL`).
    """
    releases = releases.assign(
        error=np.abs(releases["estimate"] - _truth(releases, counts, seed, region, grid))
    )
    distances = releases.groupby(_KEYS, sort=False, dropna=False, observed=True)["error"].sum()
    community = (0.5 * distances).rename("tv_distance").reset_index()
    community["delta"] = 10.0 ** community["log10_delta"]
    individual = releases[releases["n"] == releases["n"].max()]
    return community, individual.drop(columns="estimate")
