"""Users in groups of equal budget."""

from __future__ import annotations  # so that help() shows ArrayLike, not what it stands for

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.setting import LARGEST_EPS0, Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats, Integers


@dataclass(frozen=True)
class BudgetGroups:
    """Users in groups of equal budget.

    Attributes
    ----------
    values
        Budget of each group, at least 0 (0: a user whose report carries nothing).
    counts
        Users in each group, at least 1.
    """

    values: Floats
    counts: Integers

    @classmethod
    def of(cls, budgets: ArrayLike | BudgetGroups) -> BudgetGroups:
        """Group a list of budgets, one per user; groups are returned as they are.

        Raises
        ------
        InputError
            If there is no user, a budget is negative or above 350, or a count is not positive.
        """
        if isinstance(budgets, cls):
            groups = cls(np.asarray(budgets.values, np.float64), np.asarray(budgets.counts))
        else:
            groups = cls(*np.unique(np.asarray(budgets, np.float64), return_counts=True))
        wrong = groups.values[~((groups.values >= 0.0) & (groups.values <= LARGEST_EPS0))]
        if wrong.size:
            raise InputError(
                f"budgets must be at least 0 and at most {LARGEST_EPS0:g} (got {wrong[0]})"
            )
        if groups.values.size == 0 or groups.values.shape != groups.counts.shape:
            raise InputError(
                f"budgets must name at least one user, and a count per group (got "
                f"{groups.values.size} values, {groups.counts.size} counts)"
            )
        if groups.counts.min() < 1:
            raise InputError(f"counts must be at least 1 (got {groups.counts.min()})")
        return groups

    @classmethod
    def of_counts(cls, values: ArrayLike, counts: ArrayLike) -> BudgetGroups:
        """Group budgets that are given with how many users have each, in order of budget.

        Raises as `of`.
        """
        distinct, place = np.unique(np.asarray(values, np.float64), return_inverse=True)
        many = np.zeros(distinct.size, np.int64)
        np.add.at(many, place.ravel(), np.asarray(counts, np.int64))
        return cls.of(cls(distinct, many))

    def setting(self, eps0: float, k: int) -> Setting:
        """As many users, all with one budget."""
        return Setting(int(self.counts.sum()), k, float(eps0))

    def without(self, group: int) -> BudgetGroups:
        """Return the others of one user of the given group."""
        counts = self.counts.copy()
        counts[group] -= 1
        return BudgetGroups(self.values[counts > 0], counts[counts > 0])


def among(
    budgets: ArrayLike | BudgetGroups, target: int | None
) -> tuple[float, BudgetGroups, BudgetGroups]:
    """Budget of the target, everybody, and the other users.

    Parameters
    ----------
    budgets
        One per user, or groups of users.
    target
        Index of a user, or of a group of which the target is one; by default who has the largest.

    Raises
    ------
    InputError
        As `BudgetGroups.of`, and if there is no such index.
    """
    groups = BudgetGroups.of(budgets)
    given = groups.values if isinstance(budgets, BudgetGroups) else np.asarray(budgets, np.float64)
    if target is None:
        target = int(np.argmax(given))
    if not 0 <= target < given.size:
        raise InputError(
            f"target must be the index of a user or group, 0..{given.size - 1} (got {target})"
        )
    budget = float(given[target])
    return budget, groups, groups.without(int(np.flatnonzero(groups.values == budget)[0]))
