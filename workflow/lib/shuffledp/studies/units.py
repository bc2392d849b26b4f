"""Compute eps for a person with several check-ins, and for one who reports a single one."""

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

MAX_EPS: Final = 20.0  # the table ends here; a larger eps hides nothing
_MAX_UNKNOWN_CHECKINS: Final = 1_000  # where the table ends if check-ins per user are unknown


def units_table(
    n: int, k: int, per_user: Integers, budgets: Sequence[float], delta: float
) -> pd.DataFrame:
    """Return certified eps of a person by the person's number of check-ins.

    Parameters
    ----------
    n
        Number of check-ins.
    k
        Number of cells.
    per_user
        Check-ins of every user, shape ``(users,)``; empty if users are unknown.
    budgets
        Local budgets eps0.
    delta
        In ``(0, 1)``.

    Returns
    -------
    Columns of `pipeline.tables.UNITS`, two rows for 1, 2, 5, 10, ... check-ins of a person. With
    ``unit`` checkin all n check-ins are collected, and eps holds for all those of the person. With
    ``unit`` user each user reports one, and n is the number of users; if unknown, it is computed as
    if everybody had that number of check-ins. The table ends with the first eps above 20, with the
    largest number of check-ins of a user or, if unknown, with 1,000.
    """
    target = float(np.log(delta))
    most = int(per_user.max()) if per_user.size else min(n, _MAX_UNKNOWN_CHECKINS)
    rows = []

    @cache  # settings recur for one check-in, and if the number of users is known
    def certified(setting: Setting) -> float:
        return float(BOUNDS["upper"].curve(setting).epsilon(target).promised)

    for eps0 in budgets:
        for m in _numbers(most):
            users = per_user.size or n // m
            eps = certified(group_privacy(Setting(n, k, eps0), m))
            one = certified(Setting(users, k, eps0))
            rows += [("checkin", m, n, k, eps0, eps), ("user", m, users, k, eps0, one)]
            if eps > MAX_EPS:
                break
    return pd.DataFrame(rows, columns=UNITS.names[:-1]).assign(delta=delta)


def _numbers(most: int) -> Iterator[int]:
    """Yield 1, 2, 5, 10, ... below the largest number, then the largest."""
    ladder = (step * 10**power for power in range(len(str(most))) for step in (1, 2, 5))
    yield from (m for m in ladder if m < most)
    yield most


def users_table(per_user: Integers) -> pd.DataFrame:
    """Return the number of users for each number of check-ins: columns checkins and users."""
    checkins, users = np.unique(per_user, return_counts=True)
    return pd.DataFrame({"checkins": checkins, "users": users})


def units_findings(table: pd.DataFrame, users: pd.DataFrame, title: str) -> str:
    """Return lines for each eps0: eps of one check-in, and eps of a person.

    Parameters
    ----------
    table, users
        Results of `units_table` and `users_table`.
    title
        Name of the region.

    Returns
    -------
    The eps of one check-in; of all check-ins of a person with a typical number (the median or the
    next number in the table; 10 if users are unknown); and, if users are known, of a person if each
    user reports one. All are rounded up.
    """
    known = not users.empty
    every = np.repeat(users["checkins"], users["users"])
    typical = np.median(every) if known else 10
    lines = []
    for eps0, rows in table.groupby("eps0"):
        own = rows[rows["unit"] == "checkin"].set_index("checkins")["eps"]
        m = own.index[min(int(np.searchsorted(own.index, typical)), own.size - 1)]
        line = (
            f"{title}, eps0 = {eps0:g}, delta = {table['delta'].iloc[0]:g}: eps is "
            f"{_up(own.iloc[0])} for one check-in, {_up(own[m])} for a person with {m} check-ins"
        )
        if known:
            one = rows[rows["unit"] == "user"].iloc[0]
            line += f"; {_up(one['eps'])} for a person if each of {one['n']:,} users reports one"
        lines.append(line)
    return "\n".join(lines)


def _up(eps: float) -> str:
    return f"{Context(prec=3, rounding=ROUND_CEILING).create_decimal(repr(float(eps))):f}"
