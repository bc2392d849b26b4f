"""Certified eps of users with personal budgets."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from shuffledp.accounting.composition import compose
from shuffledp.accounting.curve import UpperCurve
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Integers
from shuffledp.personalised import gaussian, krr, laplace
from shuffledp.personalised.groups import BudgetGroups

# With more distinct budgets, users are divided into this many parts. Each part gets the eps of its
# largest budget.
_PARTS = 8
# With more distinct budgets, those of others are rounded up to this many values, which is safe.
_MAX_ROUNDED_BUDGETS = 11 * _PARTS
# For Laplace and normal noise a larger budget need not be worse. Up to this many budgets are
# treated one by one.
_MAX_SINGLE_BUDGETS = 64


class CurveOf(Protocol):
    """Function that returns a curve for the users of a group, or of a range of groups."""

    def __call__(
        self, groups: BudgetGroups, group: int, target_log_delta: float, first: int | None = None
    ) -> UpperCurve:
        """Return the curve for groups ``first`` to ``group``.

        Truncation may depend on ``target_log_delta``; the curve is an upper bound for every eps.
        """
        ...


@dataclass(frozen=True)
class Reports:
    """A randomiser of reports with personal budgets.

    Attributes
    ----------
    name, about
        Name and description for tables and help.
    curve
        Function that returns the curve for a group of users.
    ordered
        Whether delta grows with the target's budget and with the budgets of others.
    """

    name: str
    about: str
    curve: CurveOf
    ordered: bool


KINDS: Final = ("krr", "binary", "laplace", "gaussian")


def reports(kind: str, k: int | None = None) -> Reports:
    """Return the reports with a name in `KINDS`; ``krr`` needs k, the number of cells.

    The budget of ``gaussian`` is mu, the length of the records' interval in standard deviations.

    Raises
    ------
    InputError
        If the name is unknown, or k is missing, out of range, or given for other reports than krr.
    """
    if kind not in KINDS:
        raise InputError(f"mechanism must be one of {', '.join(KINDS)} (got {kind!r})")
    if (kind == "krr") != (k is not None):
        raise InputError(
            f"k, the number of cells, is required for krr and only for krr (got k={k})"
        )
    if kind == "laplace":
        return Reports(kind, "a number of a known range plus Laplace noise", _laplace, False)
    if kind == "gaussian":
        return Reports(kind, "a number of a known range plus normal noise", gaussian.curve, False)
    about = "yes or no, by randomised response" if k is None else f"one of {k} cells, by k-RR"
    cells = Setting(1, 2 if k is None else k).k  # raises InputError for other values
    return Reports(kind, about, _krr(cells), True)


def _laplace(
    groups: BudgetGroups, group: int, target_log_delta: float, first: int | None = None
) -> UpperCurve:
    del target_log_delta
    return laplace.curve(groups, group, first)


def _krr(k: int) -> CurveOf:
    def curve(
        groups: BudgetGroups, group: int, target_log_delta: float, first: int | None = None
    ) -> UpperCurve:
        del target_log_delta, first  # the largest budget is the worst
        return krr.curve(groups, group, k)

    return curve


def epsilon(log_delta: float, groups: BudgetGroups, group: int, how: Reports) -> float:
    """Return the smallest certified eps of the users of a group at a log delta.

    The relative tolerance is 1e-5. The value is rounded up and at most the eps of a single report
    without other users.

    Parameters
    ----------
    log_delta
        Natural log of delta, below 0.
    groups, group
        All users, in order of budget, and the group of the target.
    how
        Kind of the reports.
    """
    return float(how.curve(groups, group, log_delta).epsilon(log_delta).promised)


@dataclass(frozen=True)
class RangeEpsilon:
    """The certified eps of users with budgets in a range.

    Attributes
    ----------
    low, high
        Smallest and largest budget of the range.
    users
        Number of users in the range.
    eps
        Certified eps of each of them.
    """

    low: float
    high: float
    users: int
    eps: float


def _rounded_up(groups: BudgetGroups) -> BudgetGroups:
    """Round budgets up to at most `_MAX_ROUNDED_BUDGETS` distinct values."""
    if groups.values.size <= _MAX_ROUNDED_BUDGETS:
        return groups
    part = _part_of(groups, _MAX_ROUNDED_BUDGETS)
    ends = np.flatnonzero(np.append(np.diff(part) > 0, True))
    counts = np.add.reduceat(groups.counts, np.append(0, ends[:-1] + 1))
    return BudgetGroups(groups.values[ends], counts)


def _part_of(groups: BudgetGroups, parts: int) -> Integers:
    """Return the part of each group in order of budget; parts have similar numbers of users."""
    before = np.cumsum(groups.counts) - groups.counts
    return np.asarray(before * parts // groups.counts.sum())


def _similar_parts(groups: BudgetGroups, parts: int) -> Integers:
    """Return the part of each group; parts have equal widths in the log of the budget."""
    values = groups.values
    positive = np.log(values[values > 0.0])
    part = np.zeros(values.size, np.int64)
    share = (positive - positive[0]) / np.ptp(positive)
    part[values > 0.0] = 1 + np.minimum(share * (parts - 1), parts - 2).astype(np.int64)
    return part


def _parts(groups: BudgetGroups, how: Reports) -> Integers:
    size = groups.values.size
    if size <= (_PARTS if how.ordered else _MAX_SINGLE_BUDGETS):
        return np.arange(size)
    return _part_of(groups, _PARTS) if how.ordered else _similar_parts(groups, _MAX_SINGLE_BUDGETS)


def number_of_parts(groups: BudgetGroups, how: Reports) -> int:
    """Return the number of results of `own_epsilons`."""
    return int(np.unique(_parts(groups, how)).size)


def own_epsilons(
    log_delta: float, groups: BudgetGroups, how: Reports, rounds: int = 1
) -> Iterator[RangeEpsilon]:
    """Yield the certified eps of all users at a log delta, in order of budget.

    Parameters
    ----------
    log_delta
        Natural log of delta, at most 0.
    groups
        All users, in order of budget (`BudgetGroups.of`).
    how
        Kind of the reports.
    rounds
        Number of reports of each user, with fresh randomness.

    Yields
    ------
    One result for each budget or, if there are many, for each part of the users, with an eps that
    holds for all of them. For ordered reports there are eight parts with similar numbers of users;
    otherwise there are up to 64 parts with similar budgets.

    Raises
    ------
    InputError
        If rounds is below 1.
    """
    if rounds < 1:
        raise InputError(f"rounds must be an integer >= 1 (got {rounds})")
    part = _parts(groups, how)
    all_groups = _rounded_up(groups) if how.ordered else groups
    for each in np.unique(part):
        members = np.flatnonzero(part == each)
        low, high = float(groups.values[members[0]]), float(groups.values[members[-1]])
        # The largest budget of a part is among the rounded budgets.
        group, first = (int(np.searchsorted(all_groups.values, budget)) for budget in (high, low))
        target_log_delta = log_delta - float(np.log(rounds))
        curve = compose(how.curve(all_groups, group, target_log_delta, first), rounds)
        yield RangeEpsilon(
            low, high, int(groups.counts[members].sum()), float(curve.epsilon(log_delta).promised)
        )
