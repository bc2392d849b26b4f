"""Who has which budget in a place: groups with shares, or what people chose."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.personalised.groups import BudgetGroups
from shuffledp.studies.samples import sample_counts

AT_RANDOM: Final = "at-random"
FROM_SOUTH: Final = "from-south"
AS_CHOSEN: Final = "as-chosen"
MOST_BUDGETS: Final = 25
"""More different budgets are rounded down: reports that tell theirs would hide among too few."""

# In a budget of 1. The finest are as small as the smallest budget.
_STEPS: Final = [first * 10**power for power in range(10) for first in (1, 2, 5)]

Budgets = float | Sequence[Mapping[str, float]]


@dataclass(frozen=True)
class Holders:
    """Users by budget and cell.

    Attributes
    ----------
    groups
        Of all users.
    placements
        By name, users of each group per cell, shape ``(g, k)``. The sum over groups is the same.
    rounding
        In words, how budgets were rounded; empty if they were not.
    """

    groups: BudgetGroups
    placements: Mapping[str, Integers]
    rounding: str = ""

    @property
    def words(self) -> str:
        """Shares and budgets: ``0.54 at 2, 0.46 at 4``."""
        groups = self.groups
        shares = groups.counts / groups.counts.sum()
        pairs = zip(shares.tolist(), groups.values.tolist(), strict=True)
        return ", ".join(f"{share:.3g} at {value:g}" for share, value in pairs) + self.rounding


def holders(
    counts: Integers, budgets: Budgets | pd.DataFrame, *, seed: int, region: str, grid: str
) -> Holders:
    """Give the users of a place their budgets.

    Parameters
    ----------
    counts
        Users per cell, shape ``(k,)``, row-major from the south-west.
    budgets
        One for all or groups, as `budget_groups`: at random and from the south. Or what they chose,
        a table of `pipeline.tables.BUDGETS`: as chosen, and the same budgets at random. More than
        `MOST_BUDGETS` different ones are rounded down, as `rounded_down`.
    seed, region, grid
        Name the samples.

    Raises
    ------
    InputError
        As `budget_groups` and `placed`; if the table is not of the users who were counted.
    """
    place_users = partial(placed, counts, seed=seed, region=region, grid=grid)
    if not isinstance(budgets, pd.DataFrame):
        groups = budget_groups(budgets, int(counts.sum()))
        both = (AT_RANDOM, FROM_SOUTH)
        return Holders(groups, {name: place_users(groups, name) for name in both})
    many = budgets["count"].to_numpy()
    values, rounding = rounded_down(budgets["budget"].to_numpy(), many)
    distinct, place = np.unique(values, return_inverse=True)
    held = np.zeros((distinct.size, counts.size), np.int64)
    np.add.at(held, (place, budgets["cell"].to_numpy()), many)
    if not np.array_equal(held.sum(axis=0), counts):
        raise InputError(
            f"region {region}, grid {grid}: the table of budgets is not of the users who were "
            "counted: delete both and run again, they will be made anew"
        )
    groups = BudgetGroups.of_counts(distinct, held.sum(axis=1))
    mixed = place_users(groups, AT_RANDOM)
    return Holders(groups, {AS_CHOSEN: held, AT_RANDOM: mixed}, rounding)


def rounded_down(budgets: Floats, many: Integers) -> tuple[Floats, str]:
    """Round budgets down to the finest steps of 1, 1/2, 1/5, 1/10... that leave few of them.

    A report with a smaller budget tells less than its user agreed to, and hides others better. So
    nobody's privacy suffers. The boldest users come first: the largest budget is lowered until one
    in `MOST_BUDGETS` users has it, for a few bold ones would hide nobody. No other budget falls by
    more than a step. `MOST_BUDGETS` or fewer different budgets stay as they are.

    Parameters
    ----------
    budgets
        From 0 to 20, shape ``(m,)``.
    many
        Users of each, shape ``(m,)``.

    Returns
    -------
    Budgets, shape ``(m,)``, and what was done in words, empty if nothing was.
    """
    different = np.unique(budgets).size
    if different <= MOST_BUDGETS:
        return budgets, ""
    descending = np.argsort(-budgets, kind="stable")
    bold = np.searchsorted(np.cumsum(many[descending]), many.sum() / MOST_BUDGETS)
    capped = np.minimum(budgets, budgets[descending[bold]])
    steps, lower = 1, _floor(capped, 1)
    for finer in _STEPS:
        finest = _floor(capped, finer)
        if np.unique(finest).size > MOST_BUDGETS:
            break
        steps, lower = finer, finest
    return lower, f"; {different:,} different budgets, rounded down to multiples of {1 / steps:g}"


def _floor(values: Floats, steps: int) -> Floats:
    """Largest multiple of 1/steps that is not above: floats are compared, not their quotients."""
    whole = np.floor(values * steps)
    whole -= whole / steps > values
    whole += (whole + 1.0) / steps <= values
    return np.asarray(whole / steps)


def budget_groups(budgets: Budgets, n: int) -> BudgetGroups:
    """Groups of n users by their shares, in order of budget.

    Parameters
    ----------
    budgets
        One for all, or mappings with ``eps`` and ``share``, the shares' sum being 1.
    n
        Number of users.

    Raises
    ------
    InputError
        If a share is less than one user.
    """
    if isinstance(budgets, float | int):
        budgets = [{"eps": budgets, "share": 1.0}]
    ordered = sorted(budgets, key=lambda group: group["eps"])
    until = np.cumsum([group["share"] for group in ordered])
    counts = np.diff(np.rint(until / until[-1] * n).astype(np.int64), prepend=0)
    for group, count in zip(ordered, counts, strict=True):
        if count < 1:
            raise InputError(
                f"budgets: a share of {group['share']:g} (eps: {group['eps']:g}) is no user of "
                f"{n}: make it larger, or leave the group out"
            )
    return BudgetGroups.of_counts([group["eps"] for group in ordered], counts)


def placed(
    counts: Integers, groups: BudgetGroups, placement: str, *, seed: int, region: str, grid: str
) -> Integers:
    """Users of each group per cell, shape ``(g, k)``; the sum over groups is ``counts``.

    Parameters
    ----------
    counts
        Users per cell, shape ``(k,)``, row-major from the south-west.
    groups
        Of all of them.
    placement
        `AT_RANDOM`: each group is a sample without replacement. `FROM_SOUTH`: the users of the
        smallest budget are the southernmost, and so on.
    seed, region, grid
        Name the samples.

    Raises
    ------
    InputError
        As `samples.sample_counts`.
    """
    if placement == FROM_SOUTH:
        until = np.minimum(np.cumsum(counts), np.cumsum(groups.counts)[:, np.newaxis])
        return np.asarray(np.diff(np.diff(until, prepend=0, axis=0), prepend=0, axis=1))
    rest, found = counts, []
    for budget, count in zip(groups.values.tolist(), groups.counts.tolist(), strict=True):
        place = f"{grid}, budget {budget:g}"
        found.append(sample_counts(rest, count, seed, region, place))
        rest = rest - found[-1]
    return np.stack(found)
