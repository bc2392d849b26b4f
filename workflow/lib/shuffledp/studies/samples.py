"""Which users take part: a sample of check-ins without replacement (paper A, section V-D).

The samples are a stage of their own: privacy, releases and utility all read the same ones.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.streams import stream
from shuffledp.pipeline.tables import read_tables

_FEWEST: Final = 2  # as for the sizes in the configuration
_MOST: Final = 10**9  # NumPy draws from fewer only


def sample_sizes(sizes: Sequence[int | str], total: int, place: str) -> list[int]:
    """Resolve the configured sizes, in increasing order.

    Parameters
    ----------
    sizes
        Numbers of check-ins, at least 2, or ``all`` for every one; at least one of them.
    total
        Number of check-ins there are.
    place
        Region and grid, named in errors.

    Raises
    ------
    InputError
        If a size exceeds the number of check-ins there are, or these are fewer than two.
    """
    if total < _FEWEST:
        raise InputError(
            f"{place}: only {total} takes part, and there is nobody to shuffle with: n must be at "
            f"least {_FEWEST}; make the region larger, or leave it out"
        )
    resolved = {total if size == "all" else int(size) for size in sizes}
    if max(resolved) > total:
        raise InputError(
            f"{place}: n: {max(resolved)} asked for, but only {total} take part; "
            f"lower n in the config, or write 'all'"
        )
    return sorted(resolved)


def sample_counts(counts: Integers, n: int, seed: int, region: str, grid: str) -> Integers:
    """Histogram of ``n`` check-ins drawn without replacement.

    Parameters
    ----------
    counts
        Check-ins per cell, shape ``(k,)``.
    n
        How many to draw, at most all of them.
    seed, region, grid
        With n they name the stream.

    Returns
    -------
    Shape ``(k,)``; of all check-ins ``counts`` itself.

    Raises
    ------
    InputError
        If fewer than all are wanted of 1,000,000,000 check-ins or more.
    """
    total = int(counts.sum())
    if n == total:
        return counts
    if total >= _MOST:
        raise InputError(
            f"region {region}, grid {grid}: n: {n} of {total:,} check-ins cannot be drawn; of "
            f"{_MOST:,} or more there is only 'all'"
        )
    rng = stream(seed, "sample", region, grid, n)
    return np.asarray(rng.multivariate_hypergeometric(counts, n, method="marginals"))


def sample_table(
    counts: Integers, sizes: Sequence[int | str], *, seed: int, region: str, grid: str
) -> pd.DataFrame:
    """Histograms of the users who take part, for every sample size.

    Parameters
    ----------
    counts
        Check-ins per cell, shape ``(k,)``.
    sizes
        Numbers of users, or ``all``.
    seed, region, grid
        Name the samples drawn: each depends on these and on its size alone.

    Returns
    -------
    Columns of `pipeline.tables.SAMPLES`, sizes increasing.

    Raises
    ------
    InputError
        As `sample_sizes` and `sample_counts`.
    """
    total = int(counts.sum())
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "n": n,
                    "cell": np.arange(counts.size),
                    "count": sample_counts(counts, n, seed, region, grid),
                }
            )
            for n in sample_sizes(sizes, total, f"region {region}, grid {grid}")
        ],
        ignore_index=True,
    )


def read_samples(source: Path) -> Mapping[int, Integers]:
    """Histograms by sample size, sizes increasing, shape ``(k,)`` each.

    Raises
    ------
    InputError
        If the file is damaged, or a sample does not hold as many users as it should.
    """
    table = read_tables([source])
    samples = {}
    for n in sorted(table["n"].unique().tolist()):
        rows = table[table["n"] == n].sort_values("cell")
        counts = rows["count"].to_numpy()
        whole = np.array_equal(rows["cell"], np.arange(counts.size)) and counts.min() >= 0
        if not (whole and int(counts.sum()) == n):
            raise InputError(
                f"{source} is damaged (the sample of n={n} does not hold {n} users): delete it and "
                "run again, it will be made anew"
            )
        samples[int(n)] = counts
    return samples
