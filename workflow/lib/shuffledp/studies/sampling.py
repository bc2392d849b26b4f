"""Which users take part: a sample of check-ins without replacement (paper A, section V-D)."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from shuffledp.arrays import Integers
from shuffledp.errors import InputError
from shuffledp.streams import stream

_MOST: Final = 10**9  # NumPy draws from fewer only


def sample_sizes(sizes: Sequence[int | str], total: int, place: str) -> list[int]:
    """Resolve the configured sizes, ``all`` being every check-in, in increasing order.

    Raises
    ------
    InputError
        If a size exceeds the number of check-ins there are.
    """
    resolved = {total if size == "all" else int(size) for size in sizes}
    if max(resolved) > total:
        raise InputError(
            f"{place}: n: {max(resolved)} asked for, but only {total} take part; "
            f"lower n in the config, or write 'all'"
        )
    return sorted(resolved)


def sample_counts(counts: Integers, n: int, seed: int, region: str, grid: str) -> Integers:
    """Histogram of ``n`` check-ins drawn without replacement; the same for every stage of a run.

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
