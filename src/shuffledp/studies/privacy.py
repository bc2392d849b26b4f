"""Compute delta by every configured bound (paper A, eq. 10).

The privacy is that of shuffled k-RR: n users in k cells, each with local budget eps0. Some bounds
depend on the number of other users in the target's cell, which the tables call a count.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Final

import numpy as np
import pandas as pd
from tqdm import tqdm

from shuffledp.accounting.bound import Bound
from shuffledp.accounting.bound_registry import get_bound
from shuffledp.accounting.contributions import group_curve, group_log_delta
from shuffledp.accounting.conventions import log_of_delta
from shuffledp.accounting.curve import LogDelta, UpperCurve
from shuffledp.accounting.setting import Setting
from shuffledp.numerics.arrays import Floats, Integers

# Each count takes up to 0.1 s at n = 1e9, and large histograms have thousands of distinct counts:
# with more than the first number, twice the second are evaluated.
MAX_COUNTS, COUNTS_OF_A_STAGE = 500, 50
MIN_DELTA: Final = 1e-12  # delta at the end of a curve, unless the target requires a smaller one
_INITIAL_POINTS: Final = 17
# In log delta: the largest distance of a curve from the straight line between its points that is
# not visible, and the largest fall between two points of a guarantee, which is drawn as steps.
_MAX_BEND: Final = 0.015 * float(np.log(10.0))
_MAX_FALL: Final = 1.0
_MIN_SPACING: Final = 1.0 / 512.0  # smallest distance between points, as a share of the axis

Row = tuple[Setting, float, str, float]  # setting, eps, name of the bound, natural log of delta


def other_counts(counts: Integers) -> Integers:
    """Return the distinct numbers of other users in occupied cells, ascending."""
    return np.unique(counts[counts > 0]) - 1


def log_delta_of_worst_count(bound: Bound, eps: float, setting: Setting, counts: Integers) -> float:
    """Return the largest log delta over ascending counts.

    Of more than `MAX_COUNTS`, only some from the smallest to the largest and then some around the
    worst of these are evaluated, and the maximum may be too small by an order of magnitude.
    """
    if counts.size <= MAX_COUNTS:
        return float(bound.log_deltas_over_counts(eps, setting, counts).max())
    first, last, worst = 0, counts.size - 1, -np.inf
    for _ in range(2):
        at = np.unique(np.linspace(first, last, COUNTS_OF_A_STAGE).astype(np.int64))
        found = bound.log_deltas_over_counts(eps, setting, counts[at])
        best = int(found.argmax())
        first, last = int(at[max(best - 1, 0)]), int(at[min(best + 1, at.size - 1)])
        worst = max(worst, float(found[best]))
    return worst


def _log_delta(bound: Bound, setting: Setting, counts: Integers, records: int) -> LogDelta:
    """Return log delta over eps, the largest over the counts if the bound depends on them.

    With several records per user it is that of group privacy. A lower bound for one record is one
    for users as well, because a user may have one record only.
    """

    def log_delta(eps: float) -> float:
        if not bound.uses_count:
            return bound.curve(setting).log_delta(eps).only
        return log_delta_of_worst_count(bound, eps, setting, counts)

    return log_delta if bound.kind == "lower" else group_log_delta(log_delta, records)


def _epsilon(bound: Bound, setting: Setting, log_delta: float, records: int) -> float:
    """Return the eps at which a bound on the records of one user meets a target."""
    curve = bound.curve(setting)
    if isinstance(curve, UpperCurve):
        curve = group_curve(curve, records)
    return curve.epsilon(log_delta).only


def privacy_table(
    samples: Mapping[int, Integers],
    eps0: float,
    eps: Sequence[float],
    bounds: Sequence[str],
    records_per_user: int = 1,
) -> pd.DataFrame:
    """Return delta of shuffled k-RR by each bound, for samples of a histogram.

    Guarantees hold for every data set, as (eps, delta)-DP for replacement of `records_per_user`
    records at once, those of one user. Bounds that depend on one cell's count are maximised over
    the occupied cells of the sample (`log_delta_of_worst_count`); other bounds do not depend on the
    data.

    `samples` are users per cell by sample size, shape ``(k,)`` each; delta is evaluated at each of
    `eps`. Bounds are named as in the registry, and it is an `InputError` if one is not there. A
    bound has no rows for a setting to which it does not apply. The columns are those of
    `pipeline.tables.PRIVACY`.
    """
    rows: list[Row] = []
    for n, counts in tqdm(samples.items(), desc="n", disable=None):
        setting = Setting(n, counts.size, eps0)
        others = other_counts(counts)
        for bound in _applicable(bounds, setting, others):
            log_delta = _log_delta(bound, setting, others, records_per_user)
            rows += [(setting, e, bound.name, log_delta(e)) for e in eps]
    return table_of_deltas(rows)


def privacy_curves(
    counts: Integers,
    budgets: Sequence[float],
    bounds: Sequence[str],
    target_delta: float,
    records_per_user: int = 1,
) -> pd.DataFrame:
    """Return delta over eps, from eps = 0 to where every guarantee is below 1e-12.

    The histogram `counts` has shape ``(k,)``, and `budgets` are local budgets eps0; for bounds,
    errors and `records_per_user` see `privacy_table`. The table includes the eps that `upper`
    certifies at the target delta. For a target below 1e-10, curves end at a hundredth of it instead
    of 1e-12. The columns are those of `pipeline.tables.PRIVACY`, eps increasing. The last point of
    a curve is its first with delta below that limit.
    """
    min_log_delta = float(np.log(min(MIN_DELTA, 0.01 * target_delta)))
    others = other_counts(counts)
    rows: list[Row] = []
    for eps0 in budgets:
        setting = Setting(int(counts.sum()), counts.size, eps0)
        applicable = _applicable(bounds, setting, others)
        upper = get_bound("upper")
        ends = [
            _epsilon(bound, setting, min_log_delta, records_per_user)
            for bound in {b.name: b for b in (upper, *applicable)}.values()
            if bound.guarantee and bound.why_not(setting, min_log_delta) is None
        ]
        target = _epsilon(upper, setting, log_of_delta(target_delta), records_per_user)
        eps = np.union1d(np.linspace(0.0, max(ends), _INITIAL_POINTS), target)
        rows += [
            (setting, e, bound.name, value)
            for bound in applicable
            for e, value in _refined(
                _log_delta(bound, setting, others, records_per_user),
                eps,
                min_log_delta,
                guarantee=bound.guarantee,
            )
        ]
    return table_of_deltas(rows)


def _refined(
    log_delta: LogDelta, eps: Floats, min_log_delta: float, *, guarantee: bool
) -> Iterator[tuple[float, float]]:
    """Yield eps and log delta up to the first below the limit, denser where the curve bends."""
    value = cache(log_delta)

    def bent(left: float, middle: float, right: float) -> bool:
        a, b, c = (max(value(e), min_log_delta) for e in (left, middle, right))
        return abs(b - 0.5 * (a + c)) > _MAX_BEND or (guarantee and a - c > _MAX_FALL)

    last, *ahead = eps.tolist()
    yield last, value(last)
    while ahead and value(last) >= min_log_delta:
        middle = 0.5 * (last + ahead[0])
        if ahead[0] - last > _MIN_SPACING * eps[-1] and bent(last, middle, ahead[0]):
            ahead.insert(0, middle)
        else:
            last = ahead.pop(0)
            yield last, value(last)


def _applicable(bounds: Sequence[str], setting: Setting, others: Integers) -> list[Bound]:
    with_count = replace(setting, count=int(others[0]))
    candidates = map(get_bound, bounds)
    return [b for b in candidates if b.why_not(with_count if b.uses_count else setting) is None]


def table_of_deltas(rows: Sequence[Row]) -> pd.DataFrame:
    """Return rows as a table with the columns of `pipeline.tables.PRIVACY`."""
    table = pd.DataFrame(
        [(s.n, s.k, s.eps0, eps, bound, log_delta) for s, eps, bound, log_delta in rows],
        columns=["n", "k", "eps0", "eps", "bound", "log_delta"],
    )
    log_delta = table.pop("log_delta")
    return table.assign(delta=np.exp(log_delta), log10_delta=log_delta / np.log(10.0))
