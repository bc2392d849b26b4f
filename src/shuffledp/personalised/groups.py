"""Groups of users with equal budgets."""

from __future__ import annotations  # so that help() shows ArrayLike, not its definition

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from shuffledp.accounting.setting import LARGEST_EPS0, SMALLEST_EPS0, Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats, Integers


@dataclass(frozen=True)
class BudgetGroups:
    """The users, grouped by their local budget.

    ``values`` are the budgets of the groups, at least 0; with a budget of 0, a report carries no
    information. ``counts`` are the numbers of users in the groups, at least 1.
    """

    values: Floats
    counts: Integers

    @classmethod
    def of(cls, budgets: ArrayLike | BudgetGroups) -> BudgetGroups:
        """Group the budgets of users, one number per user, or check existing groups.

        Raises `InputError` if there is no user, a budget is neither 0 nor from 1e-200 to 300, or a
        count is not positive.
        """
        if isinstance(budgets, cls):
            groups = cls(np.asarray(budgets.values, np.float64), np.asarray(budgets.counts))
        else:
            groups = cls(*np.unique(np.asarray(budgets, np.float64), return_counts=True))
        allowed = (groups.values >= SMALLEST_EPS0) & (groups.values <= LARGEST_EPS0)
        wrong = groups.values[~(allowed | (groups.values == 0.0))]
        if wrong.size:
            raise InputError(
                f"budgets must be 0, or from {SMALLEST_EPS0:g} to {LARGEST_EPS0:g}, got {wrong[0]}"
            )
        if groups.values.size == 0 or groups.values.shape != groups.counts.shape:
            raise InputError(
                f"budgets must contain at least one user, and a count per group, got "
                f"{groups.values.size} values, {groups.counts.size} counts"
            )
        if groups.counts.min() < 1:
            raise InputError(f"counts must be at least 1, got {groups.counts.min()}")
        return groups

    @classmethod
    def of_counts(cls, values: ArrayLike, counts: ArrayLike) -> BudgetGroups:
        """Return groups from budgets and numbers of users; raise `InputError` like `of`."""
        distinct, index = np.unique(np.asarray(values, np.float64), return_inverse=True)
        totals = np.zeros(distinct.size, np.int64)
        np.add.at(totals, index.ravel(), np.asarray(counts, np.int64))
        return cls.of(cls(distinct, totals))

    def setting(self, eps0: float, k: int) -> Setting:
        """Return the setting in which all these users have the budget ``eps0``."""
        return Setting(int(self.counts.sum()), k, float(eps0))

    def without(self, group: int) -> BudgetGroups:
        """Return the groups without one user of a group."""
        counts = self.counts.copy()
        counts[group] -= 1
        return BudgetGroups(self.values[counts > 0], counts[counts > 0])


def split_target(
    budgets: ArrayLike | BudgetGroups, target: int | None
) -> tuple[float, BudgetGroups, BudgetGroups]:
    """Return the target's budget, the groups of all users, and the groups of the others.

    ``target`` is the index of a user or of a group; None stands for a user with the largest budget.
    Raises `InputError` like `BudgetGroups.of`, and if the index does not exist.
    """
    groups = BudgetGroups.of(budgets)
    values = groups.values if isinstance(budgets, BudgetGroups) else np.asarray(budgets, np.float64)
    if target is None:
        target = int(np.argmax(values))
    if not 0 <= target < values.size:
        raise InputError(
            f"target must be the index of a user or group, 0..{values.size - 1}, got {target}"
        )
    budget = float(values[target])
    return budget, groups, groups.without(int(np.flatnonzero(groups.values == budget)[0]))
