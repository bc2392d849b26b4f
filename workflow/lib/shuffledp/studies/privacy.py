"""Delta of every configured bound on the samples of a histogram (paper A, eq. 10, and others)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np
import pandas as pd
from tqdm import tqdm

from shuffledp.accounting.bound import Bound
from shuffledp.accounting.registry import get_bound
from shuffledp.accounting.setting import Setting
from shuffledp.numerics.arrays import Floats, Integers

# Each takes up to 0.1 s at n = 1e9, and a large histogram has thousands.
MOST_COUNTS: Final = 500
LEAST_DELTA: Final = 1e-12  # of curves, or a hundredth of the target if that is less
_POINTS: Final = 17
_BENT: Final = 0.015 * float(np.log(10.0))  # of log delta, between neighbours: more is seen
_STEEP: Final = 1.0  # fall of log delta between points of a guarantee, whose steps are seen else
_CLOSE: Final = 1.0 / 512.0  # of the axis: neighbours are no closer

_Row = tuple[Setting, float, Bound, float]  # with eps and the natural log of delta


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
        if not bound.uses_count:
            yield bound.curve(setting).log_delta(e).only
        else:
            yield float(bound.log_deltas_over_counts(e, setting, counts).max())


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
    Columns of `pipeline.tables.PRIVACY`.

    Raises
    ------
    InputError
        If there is no such bound.
    """
    rows: list[_Row] = []
    for n, counts in tqdm(samples.items(), desc="n", disable=None):
        setting = Setting(n, counts.size, eps0)
        others = other_counts(counts)
        for bound in _applicable(bounds, setting, others):
            values = _log_deltas(bound, eps, setting, others)
            rows += [(setting, e, bound, value) for e, value in zip(eps, values, strict=True)]
    return _table(rows)


def privacy_curves(
    counts: Integers, budgets: Sequence[float], bounds: Sequence[str], target_delta: float
) -> pd.DataFrame:
    """Delta over eps where it is of use: from eps = 0 to where every guarantee is below 1e-12.

    Parameters
    ----------
    counts
        Histogram, shape ``(k,)``.
    budgets
        Local budgets eps0.
    bounds
        Names in the registry, as for `privacy_table`.
    target_delta
        One eps is that of `upper` at this delta. Below a target of 1e-10 curves go down to a
        hundredth of it.

    Returns
    -------
    Columns of `pipeline.tables.PRIVACY`, eps increasing. A bound ends with its first delta below
    the least one.

    Raises
    ------
    InputError
        If there is no such bound.
    """
    least = float(np.log(min(LEAST_DELTA, 0.01 * target_delta)))
    others = other_counts(counts)
    rows: list[_Row] = []
    for eps0 in budgets:
        setting = Setting(int(counts.sum()), counts.size, eps0)
        applicable = _applicable(bounds, setting, others)
        upper = get_bound("upper")
        ends = [
            bound.curve(setting).epsilon(least).only
            for bound in {each.name: each for each in (upper, *applicable)}.values()
            if bound.guarantee and bound.why_not(setting, least) is None
        ]
        target = upper.curve(setting).epsilon(float(np.log(target_delta))).promised
        eps = np.union1d(np.linspace(0.0, max(ends), _POINTS), target)
        rows += [
            (setting, e, bound, value)
            for bound in applicable
            for e, value in _falling(bound, eps, setting, others, least)
        ]
    return _table(rows)


def _falling(
    bound: Bound, eps: Floats, setting: Setting, others: Integers, least: float
) -> Iterator[tuple[float, float]]:
    """Points of a curve down to its first log delta below the least, more where it bends."""

    @cache
    def value(e: float) -> float:
        return next(_log_deltas(bound, [e], setting, others))

    def bent(left: float, middle: float, right: float) -> bool:
        a, b, c = (max(value(e), least) for e in (left, middle, right))
        return abs(b - 0.5 * (a + c)) > _BENT or (bound.guarantee and a - c > _STEEP)

    last, *ahead = eps.tolist()
    yield last, value(last)
    while ahead and value(last) >= least:
        middle = 0.5 * (last + ahead[0])
        if ahead[0] - last > _CLOSE * eps[-1] and bent(last, middle, ahead[0]):
            ahead.insert(0, middle)
        else:
            last = ahead.pop(0)
            yield last, value(last)


def _applicable(bounds: Sequence[str], setting: Setting, others: Integers) -> list[Bound]:
    """Those that say something about a setting."""
    counted = replace(setting, count=int(others[0]))
    found = map(get_bound, bounds)
    return [b for b in found if b.why_not(counted if b.uses_count else setting) is None]


def _table(rows: Sequence[_Row]) -> pd.DataFrame:
    """Columns of `pipeline.tables.PRIVACY`."""
    table = pd.DataFrame(
        [(s.n, s.k, s.eps0, eps, bound.name, value) for s, eps, bound, value in rows],
        columns=["n", "k", "eps0", "eps", "bound", "log_delta"],
    )
    table["delta"] = np.exp(table["log_delta"])
    table["log10_delta"] = table["log_delta"] / np.log(10.0)
    return table.drop(columns="log_delta")
