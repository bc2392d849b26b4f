"""How far the releases are from the truth: community-level and individual-specific utility."""

from collections.abc import Iterable, Iterator

import numpy as np
import pandas as pd

from shuffledp.arrays import Floats, Integers
from shuffledp.studies.sampling import sample_counts

_KEYS = ["n", "eps0", "eps", "log10_delta", "calibration", "mechanism", "repetition"]


def _with_errors(
    parts: Iterable[pd.DataFrame], counts: Integers, seed: int, region: str, grid: str
) -> Iterator[pd.DataFrame]:
    """Put the absolute error, as a share of n, beside every estimate."""
    shares: dict[int, Floats] = {}
    for releases in parts:
        truth = np.empty(len(releases))
        for n in map(int, releases["n"].unique()):
            if n not in shares:
                shares[n] = sample_counts(counts, n, seed, region, grid) / n
            rows = releases["n"].to_numpy() == n
            truth[rows] = shares[n][releases["cell"].to_numpy()[rows]]
        yield releases.assign(error=np.abs(releases["estimate"] - truth))


def community_utility(
    parts: Iterable[pd.DataFrame], counts: Integers, *, seed: int, region: str, grid: str
) -> pd.DataFrame:
    """Total variation distance of each release to its sample's histogram (paper A, section V-A).

    Parameters
    ----------
    parts
        Columns of `shuffledp.tables.RELEASES`, every part made of whole releases.
    counts
        The histogram that the samples were drawn from.
    seed, region, grid
        As for the releases: they name the samples.

    Returns
    -------
    Columns of `shuffledp.tables.UTILITY`.
    """
    sums = [
        releases.groupby(_KEYS, sort=False, dropna=False, observed=True)["error"].sum()
        for releases in _with_errors(parts, counts, seed, region, grid)
    ]
    distances = [(0.5 * part).rename("tv_distance").reset_index() for part in sums]
    community = pd.concat(distances, ignore_index=True)
    community["delta"] = 10.0 ** community["log10_delta"]
    return community


def individual_utility(
    parts: Iterable[pd.DataFrame], counts: Integers, n: int, *, seed: int, region: str, grid: str
) -> Iterator[pd.DataFrame]:
    """Absolute error of every cell as a share of n (paper A, section V-A), of one sample size.

    Parameters
    ----------
    parts, counts, seed, region, grid
        As for `community_utility`.
    n
        The sample size.

    Yields
    ------
    Columns of `shuffledp.tables.INDIVIDUAL`.
    """
    sized = (releases[releases["n"] == n] for releases in parts)
    for releases in _with_errors(sized, counts, seed, region, grid):
        yield releases.drop(columns="estimate")
