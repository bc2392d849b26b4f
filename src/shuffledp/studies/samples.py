"""Draw samples of check-ins without replacement (paper A, section V-D).

The samples are a stage of the pipeline: privacy, releases and utility all read the same ones.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.accounting.contributions import ONE_RECORD, Contributions
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.streams import stream
from shuffledp.pipeline.tables import read_metadata, read_tables

_MIN_SIZE: Final = 2  # also in the configuration's schema
_MAX_TOTAL: Final = 10**9  # NumPy samples without replacement only from fewer check-ins


def sample_sizes(sizes: Sequence[int | str], total: int, place: str) -> list[int]:
    """Return the configured sizes as numbers, in increasing order.

    The size ``all`` is the total number of check-ins. It is an `InputError`, which names the place,
    if a size exceeds the total, or the total is below 2.
    """
    if total < _MIN_SIZE:
        raise InputError(
            f"{place}: shuffling needs at least {_MIN_SIZE} participants, got {total}: make the "
            "region larger, or remove it"
        )
    resolved = {total if size == "all" else int(size) for size in sizes}
    if max(resolved) > total:
        raise InputError(
            f"{place}: n must be at most {total}, the number of participants, got "
            f"{max(resolved)}: lower n in the configuration, or write 'all'"
        )
    return sorted(resolved)


def sample_counts(counts: Integers, n: int, seed: int, region: str, grid: str) -> Integers:
    """Return the histogram of ``n`` check-ins drawn without replacement.

    It is ``counts`` itself, shape ``(k,)``, if n is the number of all check-ins. A smaller n is an
    `InputError` if there are 1,000,000,000 check-ins or more. The random stream is named by seed,
    region, grid and n.
    """
    total = int(counts.sum())
    if n == total:
        return counts
    if total >= _MAX_TOTAL:
        raise InputError(
            f"region {region}, grid {grid}: n must be 'all' if there are {_MAX_TOTAL:,} check-ins "
            f"or more, got n={n} of {total:,}"
        )
    rng = stream(seed, "sample", region, grid, n)
    return np.asarray(rng.multivariate_hypergeometric(counts, n, method="marginals"))


def sample_table(
    counts: Integers, sizes: Sequence[int | str], *, seed: int, region: str, grid: str
) -> pd.DataFrame:
    """Return a histogram of sampled check-ins for every sample size.

    `sample_sizes` and `sample_counts` explain the arguments and errors. The table has the columns
    of `pipeline.tables.SAMPLES`, sizes increasing.
    """
    numbers = sample_sizes(sizes, int(counts.sum()), f"region {region}, grid {grid}")
    samples = {n: sample_counts(counts, n, seed, region, grid) for n in numbers}
    cells = np.arange(counts.size)
    parts = [pd.DataFrame({"n": n, "cell": cells, "count": part}) for n, part in samples.items()]
    return pd.concat(parts, ignore_index=True)


def read_contributions(source: Path) -> Contributions:
    """Return the bound on each user's records in the data that a Parquet file was made from.

    The metadata of `data.grid.grid_checkins` state it and are passed on from file to file. If
    they do not, one record is protected: a check-in, or the single record that counts for a user.
    """
    metadata = read_metadata(source)
    if "records_per_user" not in metadata:
        return ONE_RECORD
    m, distinct = (json.loads(metadata[key]) for key in ("records_per_user", "distinct"))
    return Contributions("user", m, distinct)


def read_samples(source: Path) -> Mapping[int, Integers]:
    """Return the histograms in a file by increasing sample size, shape ``(k,)`` each.

    It is an `InputError` if the file is damaged, or a sample does not have the stated number of
    users.
    """
    table = read_tables([source])
    samples = {}
    for n in sorted(table["n"].unique().tolist()):
        rows = table[table["n"] == n].sort_values("cell")
        counts = rows["count"].to_numpy()
        complete = np.array_equal(rows["cell"], np.arange(counts.size)) and counts.min() >= 0
        if not (complete and int(counts.sum()) == n):
            raise InputError(
                f"{source} is damaged (the sample for n={n} does not have {n} users): delete it "
                "and run again to make it"
            )
        samples[int(n)] = counts
    return samples
