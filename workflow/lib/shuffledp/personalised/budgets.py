"""What users who choose their own budgets get: each budget's eps, and everybody's."""

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

# With more budgets, users get the eps of the largest in their part.
_PARTS = 8
# With more, those of other users are rounded up to so many: nobody's delta is smaller then.
_LEVELS = 11 * _PARTS
# Reports with noise have no such order: up to so many budgets are worked out one by one.
_MOST_WORKED_OUT = 64


class CurveOf(Protocol):
    """Delta over eps of users of a group, or of all from a first group on to that."""

    def __call__(
        self, groups: BudgetGroups, group: int, aim: float, first: int | None = None
    ) -> UpperCurve:
        """Last but one the natural log of the delta that is aimed at.

        What is left out may depend on it. The curve holds for any.
        """
        ...


@dataclass(frozen=True)
class Reports:
    """How users report.

    Attributes
    ----------
    name, about
        For tables and help.
    curve
        Delta over eps of a user of the given group.
    ordered
        Whether a larger budget is never the safer one, and others' larger budgets never help.
    """

    name: str
    about: str
    curve: CurveOf
    ordered: bool


KINDS: Final = ("krr", "binary", "laplace", "gaussian")


def reports(kind: str, k: int | None = None) -> Reports:
    """How users report, by name: one of `KINDS`; ``krr`` needs k, the number of cells.

    The budget of ``gaussian`` is mu, the length of the records' interval in standard deviations.

    Raises
    ------
    InputError
        If there is no such kind, or k is missing, out of range, or given where it has no meaning.
    """
    if kind not in KINDS:
        raise InputError(f"mechanism must be one of {', '.join(KINDS)} (got {kind!r})")
    if (kind == "krr") != (k is not None):
        raise InputError("k, the number of cells, belongs to krr, and krr needs it")
    if kind == "laplace":
        return Reports(kind, "a number of a known range plus Laplace noise", _laplace, False)
    if kind == "gaussian":
        return Reports(kind, "a number of a known range plus normal noise", gaussian.curve, False)
    about = "yes or no, by randomised response" if k is None else f"one of {k} cells, by k-RR"
    cells = Setting(1, 2 if k is None else k).k  # which refuses what is no number of cells
    return Reports(kind, about, _krr(cells), True)


def _laplace(groups: BudgetGroups, group: int, aim: float, first: int | None = None) -> UpperCurve:
    del aim
    return laplace.curve(groups, group, first)


def _krr(k: int) -> CurveOf:
    def curve(groups: BudgetGroups, group: int, aim: float, first: int | None = None) -> UpperCurve:
        del aim, first  # the largest budget is the worst
        return krr.curve(groups, group, k)

    return curve


def epsilon(log_delta: float, groups: BudgetGroups, group: int, how: Reports) -> float:
    """Smallest eps, to 1e-5 of itself, that the users of a group have at a natural log of delta.

    Rounded up; at least 0, and at most what a report alone has.

    Parameters
    ----------
    log_delta
        Below 0.
    groups, group
        Everybody, in order of their budgets; whose record changes.
    how
        Kind of the reports.
    """
    return float(how.curve(groups, group, log_delta).epsilon(log_delta).promised)


@dataclass(frozen=True)
class Own:
    """What users get whose budgets lie between two.

    Attributes
    ----------
    low, high
        Smallest and largest of their budgets.
    users
        How many they are.
    eps
        Of each of them, certified.
    """

    low: float
    high: float
    users: int
    eps: float


def _rounded_up(groups: BudgetGroups) -> BudgetGroups:
    """At most as many different budgets as there are levels, none of them smaller."""
    if groups.values.size <= _LEVELS:
        return groups
    part = _part_of(groups, _LEVELS)
    ends = np.flatnonzero(np.append(np.diff(part) > 0, True))
    counts = np.add.reduceat(groups.counts, np.append(0, ends[:-1] + 1))
    return BudgetGroups(groups.values[ends], counts)


def _part_of(groups: BudgetGroups, parts: int) -> Integers:
    """Part of each group, in order of budget, with about as many users in each part."""
    before = np.cumsum(groups.counts) - groups.counts
    return np.asarray(before * parts // groups.counts.sum())


def _alike(groups: BudgetGroups, parts: int) -> Integers:
    """Part of each group, at most so many, so that budgets of a part have nearly one ratio."""
    values = groups.values
    positive = np.log(values[values > 0.0])
    found = np.zeros(values.size, np.int64)
    share = (positive - positive[0]) / np.ptp(positive)
    found[values > 0.0] = 1 + np.minimum(share * (parts - 1), parts - 2).astype(np.int64)
    return found


def _parts(groups: BudgetGroups, how: Reports) -> Integers:
    size = groups.values.size
    if size <= (_PARTS if how.ordered else _MOST_WORKED_OUT):
        return np.arange(size)
    return _part_of(groups, _PARTS) if how.ordered else _alike(groups, _MOST_WORKED_OUT)


def number_of_parts(groups: BudgetGroups, how: Reports) -> int:
    """How many answers `own_epsilons` gives."""
    return int(np.unique(_parts(groups, how)).size)


def own_epsilons(
    log_delta: float, groups: BudgetGroups, how: Reports, rounds: int = 1
) -> Iterator[Own]:
    """Eps of every user at a natural log of delta, by budget, smallest first.

    Parameters
    ----------
    log_delta
        At most 0.
    groups
        Everybody, in order of budget (`BudgetGroups.of`).
    how
        What they report with.
    rounds
        How often each of them reports, with fresh randomness.

    Yields
    ------
    One for each budget; where there are many, one for each part of the users, in order of budget,
    with an eps that holds for all of them. Where the largest budget is the worst, parts are eight,
    of as many users each; else up to 64, of budgets that are nearly alike.

    Raises
    ------
    InputError
        If rounds is below 1.
    """
    if rounds < 1:
        raise InputError(f"rounds must be at least 1 (got rounds={rounds})")
    part = _parts(groups, how)
    everybody = _rounded_up(groups) if how.ordered else groups
    for each in np.unique(part):
        members = np.flatnonzero(part == each)
        low, high = float(groups.values[members[0]]), float(groups.values[members[-1]])
        # Where others are rounded up, the largest budget of a part is one of the levels.
        group, first = (int(np.searchsorted(everybody.values, one)) for one in (high, low))
        aim = log_delta - float(np.log(rounds))
        curve = compose(how.curve(everybody, group, aim, first), rounds)
        yield Own(
            low, high, int(groups.counts[members].sum()), float(curve.epsilon(log_delta).promised)
        )
