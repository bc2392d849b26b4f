"""What delta for one check-in is worth to a person who has several, and to one who gives one."""

from collections.abc import Iterator, Sequence
from decimal import ROUND_CEILING, Context
from functools import cache
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.setting import Setting, group_privacy
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.tables import UNITS

# Beyond this eps nothing is hidden, and numbers of check-ins end there; unknown ones end at most.
MOST_EPS: Final = 20.0
_MOST_CHECKINS: Final = 1_000


def units_table(
    n: int, k: int, per_user: Integers, budgets: Sequence[float], delta: float
) -> pd.DataFrame:
    """Certified eps of a person by the number of check-ins that the person has.

    Parameters
    ----------
    n
        Number of check-ins.
    k
        Number of cells.
    per_user
        Check-ins of every user, shape ``(users,)``; empty if it is not known whose they are.
    budgets
        Local budgets eps0.
    delta
        In ``(0, 1)``.

    Returns
    -------
    Columns of `pipeline.tables.UNITS`, two rows for 1, 2, 5, 10, ... check-ins of a person. With
    ``unit`` checkin all n check-ins are collected, and eps holds for all those of the person. With
    ``unit`` user each user gives one, and n is the number of users: if it is not known, as if
    everybody had so many check-ins. They end with the first eps above 20, with the busiest user,
    or, if not known, with 1,000.
    """
    target = float(np.log(delta))
    most = int(per_user.max()) if per_user.size else min(n, _MOST_CHECKINS)
    rows = []

    @cache  # one check-in of one user, and users whose number is known: the same again
    def certified(setting: Setting) -> float:
        return float(BOUNDS["upper"].curve(setting).epsilon(target).promised)

    for eps0 in budgets:
        for m in _numbers(most):
            users = per_user.size or n // m
            eps = certified(group_privacy(Setting(n, k, eps0), m))
            one = certified(Setting(users, k, eps0))
            rows += [("checkin", m, n, k, eps0, eps), ("user", m, users, k, eps0, one)]
            if eps > MOST_EPS:
                break
    return pd.DataFrame(rows, columns=UNITS.names[:-1]).assign(delta=delta)


def _numbers(most: int) -> Iterator[int]:
    """Yield 1, 2, 5, 10, ... below the largest number, and this."""
    ladder = (step * 10**power for power in range(len(str(most))) for step in (1, 2, 5))
    yield from (m for m in ladder if m < most)
    yield most


def users_table(per_user: Integers) -> pd.DataFrame:
    """How many users have how many check-ins: columns ``checkins`` and ``users``."""
    checkins, users = np.unique(per_user, return_counts=True)
    return pd.DataFrame({"checkins": checkins, "users": users})


def units_findings(table: pd.DataFrame, users: pd.DataFrame, title: str) -> str:
    """Say what the run's eps hides, and what a person has, a line for each eps0.

    Parameters
    ----------
    table, users
        As `units_table` and `users_table` give them.
    title
        Names the region.

    Returns
    -------
    The eps of one check-in, of all those of a person who has a few (the median user's number or
    the next in the table; 10 where it is not known), and, where users are known, of a person if
    each user gives one. Rounded up.
    """
    known = not users.empty
    every = np.repeat(users["checkins"], users["users"])
    few = np.median(every) if known else 10
    lines = []
    for eps0, rows in table.groupby("eps0"):
        own = rows[rows["unit"] == "checkin"].set_index("checkins")["eps"]
        m = own.index[min(int(np.searchsorted(own.index, few)), own.size - 1)]
        line = (
            f"{title}, eps0 = {eps0:g}, delta = {table['delta'].iloc[0]:g}: eps is "
            f"{_up(own.iloc[0])} for one check-in, {_up(own[m])} for all {m} of a person who has "
            "so many"
        )
        if known:
            one = rows[rows["unit"] == "user"].iloc[0]
            line += f"; {_up(one['eps'])} for a person if each of {one['n']:,} users gives one"
        lines.append(line)
    return "\n".join(lines)


def _up(eps: float) -> str:
    return f"{Context(prec=3, rounding=ROUND_CEILING).create_decimal(repr(float(eps))):f}"
