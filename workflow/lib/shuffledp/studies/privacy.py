"""Delta of every configured bound on the samples of a histogram (paper A, eq. 10, and others)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd
from tqdm import tqdm

from shuffledp.accounting.bound import Bound
from shuffledp.accounting.registry import get_bound
from shuffledp.accounting.setting import Setting
from shuffledp.arrays import Integers

# Each takes up to 0.1 s at n = 1e9, and a large histogram has thousands.
MOST_COUNTS: Final = 500


def other_counts(counts: Integers) -> Integers:
    """Distinct numbers of other users in the occupied cells (the target itself not counted)."""
    distinct = np.unique(counts[counts > 0]) - 1
    if distinct.size <= MOST_COUNTS:
        return distinct
    return distinct[np.linspace(0, distinct.size - 1, MOST_COUNTS).astype(np.int64)]


def _log_deltas(
    bound: Bound, eps: Sequence[float], setting: Setting, counts: Integers
) -> Iterator[float]:
    """One for each eps; of a bound that looks at one cell's count, the largest over the counts."""
    for e in eps:
        if bound.over_counts is None:
            yield float(bound.log_delta(e, setting))
        else:
            yield float(bound.over_counts(e, setting, counts).max())


def privacy_table(
    samples: Mapping[int, Integers], eps0: float, eps: Sequence[float], bounds: Sequence[str]
) -> pd.DataFrame:
    """Privacy of shuffled k-RR on samples of a histogram.

    A bound is a guarantee, (eps, delta)-DP for replacement of one check-in for every data set, if
    its kind says so. Bounds that look at one cell's count are maximised over the occupied cells of
    the sample; where they hold more than 500 different counts, over 500 of these from the smallest
    to the largest, which may lose a power of ten. Other bounds depend on no data.

    Parameters
    ----------
    samples
        Users per cell by sample size, shape ``(k,)`` each.
    eps0, eps
        Local budget; central budgets to evaluate delta at.
    bounds
        Names in the registry. Where one says nothing about a setting it has no rows.

    Returns
    -------
    Columns of `shuffledp.tables.PRIVACY`.

    Raises
    ------
    InputError
        If there is no such bound.
    """
    rows = []
    for n, counts in tqdm(samples.items(), desc="n", disable=None):
        setting = Setting(n, counts.size, eps0)
        others = other_counts(counts)
        for bound in map(get_bound, bounds):
            probe = replace(setting, count=int(others[0])) if bound.uses_count else setting
            if bound.why_not(probe) is None:
                values = _log_deltas(bound, eps, setting, others)
                rows += [
                    (n, counts.size, eps0, e, bound.name, value)
                    for e, value in zip(eps, values, strict=True)
                ]
    table = pd.DataFrame(rows, columns=["n", "k", "eps0", "eps", "bound", "log_delta"])
    table["delta"] = np.exp(table["log_delta"])
    table["log10_delta"] = table["log_delta"] / np.log(10.0)
    return table.drop(columns="log_delta")
