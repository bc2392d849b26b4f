"""Community-level worst-case delta (paper A, eq. 10) beside the certified pair."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pandas as pd
from tqdm import tqdm

from shuffledp.accounting.one_round import certified, single_bin
from shuffledp.accounting.setting import Setting
from shuffledp.arrays import Integers
from shuffledp.studies.sampling import sample_counts, sample_sizes

# Each takes up to 0.1 s at n = 1e9, and a large histogram has thousands.
MOST_COUNTS: Final = 500


def _worst(counts: Integers) -> Integers:
    """Distinct numbers of other users in the occupied cells (the target itself not counted)."""
    distinct = np.unique(counts[counts > 0]) - 1
    if distinct.size <= MOST_COUNTS:
        return distinct
    return distinct[np.linspace(0, distinct.size - 1, MOST_COUNTS).astype(np.int64)]


def _rows(
    counts: Integers, k: int, eps0: float, eps: Sequence[float]
) -> Iterator[tuple[float, str, float]]:
    setting = Setting(int(counts.sum()), k, eps0)
    others = _worst(counts)
    for e in eps:
        yield e, "single-bin", single_bin.log_delta(e, setting, others).max()
        printed = single_bin.log_delta_as_printed(e, setting, others).max()
        yield e, "single-bin-as-printed", printed
        yield e, "lower", float(certified.lower_log_delta(e, setting))
        yield e, "upper", float(certified.upper_log_delta(e, setting))


def privacy_table(
    counts: Integers,
    sizes: Sequence[int | str],
    eps0: float,
    eps: Sequence[float],
    *,
    seed: int,
    region: str,
    grid: str,
) -> pd.DataFrame:
    """Privacy of shuffled k-RR on samples of a histogram.

    Only ``upper`` is a guarantee: (eps, delta)-DP for replacement of one check-in, for every data
    set. ``single-bin`` and ``single-bin-as-printed`` are maximised over the occupied cells of the
    sample (both directions for the former); where they hold more than 500 different counts, over
    500 of these from the smallest to the largest, which may lose a power of ten. ``lower`` and
    ``upper`` depend on no data.

    Parameters
    ----------
    counts
        Check-ins per cell, shape ``(k,)``.
    sizes
        Numbers of users, or ``all``.
    eps0, eps
        Local budget; central budgets to evaluate delta at.
    seed, region, grid
        Name the samples drawn.

    Returns
    -------
    Columns ``n, k, eps0, eps, bound, delta, log10_delta``.
    """
    k = counts.size
    rows = []
    for n in tqdm(
        sample_sizes(sizes, int(counts.sum()), f"region {region}, grid {grid}"),
        desc="n",
        disable=None,
    ):
        sample = sample_counts(counts, n, seed, region, grid)
        rows += [(n, k, eps0, *row) for row in _rows(sample, k, eps0, eps)]
    table = pd.DataFrame(rows, columns=["n", "k", "eps0", "eps", "bound", "log_delta"])
    table["delta"] = np.exp(table["log_delta"])
    table["log10_delta"] = table["log_delta"] / np.log(10.0)
    return table.drop(columns="log_delta")
