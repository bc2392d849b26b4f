"""Smallest certified central eps, at a common delta, of users with personal local budgets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from shuffledp.accounting.composition import compose
from shuffledp.accounting.curve import UpperCurve
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers
from shuffledp.personalised import krr_reports, noisy_reports
from shuffledp.personalised.groups import BudgetGroups

# Largest number of ranges for k-RR. Users with more distinct budgets are divided into ranges, and
# each range gets the eps of its largest budget.
_RANGES = 8
# Largest number of distinct budgets of others. Budgets are rounded up if there are more.
_MAX_ROUNDED_BUDGETS = 11 * _RANGES
# For Laplace and normal noise, where a larger budget need not have a larger eps: the largest number
# of budgets that each get an eps of their own, and of ranges if there are more.
_MAX_SINGLE_BUDGETS = 64


@dataclass(frozen=True)
class Reports:
    """A kind of reports with personal budgets.

    ``curve`` is a function ``(groups, group, target_log_delta, first)`` that returns an upper bound
    on delta for users of the groups ``first`` (by default ``group``) to ``group``. It holds for
    every eps; truncation may depend on ``target_log_delta``. ``ordered`` says whether delta never
    decreases when the target's budget, or that of another user, increases.
    """

    curve: Callable[..., UpperCurve]
    ordered: bool


KINDS: Final = ("krr", "binary", "laplace", "gaussian")


def reports(kind: str, k: int | None = None) -> Reports:
    """Return the kind of reports with a name in `KINDS`; only ``krr`` needs k, the number of cells.

    Budgets are local eps; for ``gaussian`` they are mu, the length of the records' interval in
    standard deviations of the noise. Raises `InputError` if the name or k is invalid.
    """
    if kind not in KINDS:
        raise InputError(f"mechanism must be one of {', '.join(KINDS)}, got {kind!r}")
    if (kind == "krr") != (k is not None):
        raise InputError(f"k, the number of cells, is required for krr and only for krr, got k={k}")
    if kind == "laplace":
        return Reports(noisy_reports.laplace_curve, ordered=False)
    if kind == "gaussian":
        return Reports(noisy_reports.gaussian_curve, ordered=False)
    cells = Setting(1, 2 if k is None else k).k  # raises InputError for other values
    return Reports(partial(krr_reports.curve, k=cells), ordered=True)


def epsilon(log_delta: float, groups: BudgetGroups, group: int, how: Reports) -> float:
    """Return the smallest certified central eps of the users of a group.

    The relative tolerance is 1e-5. The value is rounded up and at most the eps of a single report
    without other users. ``groups`` has all users in order of budget.
    """
    return float(how.curve(groups, group, log_delta).epsilon(log_delta).promised)


@dataclass(frozen=True)
class RangeEpsilon:
    """The certified central eps of each of a number of users with budgets from low to high."""

    low: float
    high: float
    users: int
    eps: float


def _rounded_up(groups: BudgetGroups) -> BudgetGroups:
    """Round budgets up to at most `_MAX_ROUNDED_BUDGETS` distinct values."""
    if groups.values.size <= _MAX_ROUNDED_BUDGETS:
        return groups
    index = _ranges_of_equal_size(groups, _MAX_ROUNDED_BUDGETS)
    ends = np.flatnonzero(np.append(np.diff(index) > 0, True))
    counts = np.add.reduceat(groups.counts, np.append(0, ends[:-1] + 1))
    return BudgetGroups(groups.values[ends], counts)


def _ranges_of_equal_size(groups: BudgetGroups, ranges: int) -> Integers:
    """Return the index of each group's range; ranges have similar numbers of users."""
    before = np.cumsum(groups.counts) - groups.counts
    return np.asarray(before * ranges // groups.counts.sum())


def _range_index(groups: BudgetGroups, how: Reports) -> Integers:
    """Return the index of each group's range; if there are few groups, each is its own range."""
    values = groups.values
    if values.size <= (_RANGES if how.ordered else _MAX_SINGLE_BUDGETS):
        return np.arange(values.size)
    if how.ordered:
        return _ranges_of_equal_size(groups, _RANGES)
    # Ranges of equal width in the log of the budget; range 0 is the budget 0.
    positive = np.log(values[values > 0.0])
    index = np.zeros(values.size, np.int64)
    position = (positive - positive[0]) / np.ptp(positive) * (_MAX_SINGLE_BUDGETS - 1)
    index[values > 0.0] = 1 + np.minimum(position, _MAX_SINGLE_BUDGETS - 2).astype(np.int64)
    return index


def number_of_ranges(groups: BudgetGroups, how: Reports) -> int:
    """Return the number of results of `own_epsilons`."""
    return int(np.unique(_range_index(groups, how)).size)


def own_epsilons(
    log_delta: float, groups: BudgetGroups, how: Reports, rounds: int = 1
) -> Iterator[RangeEpsilon]:
    """Yield the certified central eps of all users, in order of budget.

    Each user reports once in each round, with fresh randomness. There is one result for each budget
    or, if there are many, for each range of budgets, with an eps that holds for all its users. For
    ordered reports there are eight ranges with similar numbers of users; otherwise there are up to
    64 ranges with similar budgets.
    """
    range_index = _range_index(groups, how)
    all_groups = _rounded_up(groups) if how.ordered else groups
    for index in np.unique(range_index):
        members = np.flatnonzero(range_index == index)
        low, high = float(groups.values[members[0]]), float(groups.values[members[-1]])
        # Rounding keeps the largest budget of each range.
        group, first = (int(np.searchsorted(all_groups.values, budget)) for budget in (high, low))
        target_log_delta = log_delta - float(np.log(rounds))
        curve = compose(how.curve(all_groups, group, target_log_delta, first), rounds)
        yield RangeEpsilon(
            low, high, int(groups.counts[members].sum()), float(curve.epsilon(log_delta).promised)
        )
