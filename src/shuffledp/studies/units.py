"""Compute the eps of a person with several check-ins, and of one who reports only one of them."""

from collections.abc import Iterator, Sequence
from decimal import ROUND_CEILING, Context
from functools import cache
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.accounting.conventions import log_of_delta
from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.setting import Setting, group_privacy
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.tables import UNITS

MAX_EPS: Final = 20.0  # the table ends at the first larger eps, which protects nobody
_MAX_UNKNOWN_CHECKINS: Final = 1_000  # end of the table if check-ins per user are unknown


def units_table(
    n: int, k: int, per_user: Integers, budgets: Sequence[float], delta: float
) -> pd.DataFrame:
    """Return the certified eps of a person for increasing numbers of their check-ins.

    There are n check-ins in k cells; `per_user` has those of every user, shape ``(users,)``, and is
    empty if users are unknown. `budgets` are local budgets eps0, and every eps has this delta, in
    ``(0, 1)``.

    The columns are those of `pipeline.tables.UNITS`, with two rows for each of 1, 2, 3, 4, 6, 10,
    16, 25, ... check-ins of a person, five numbers in each decade. With ``unit`` checkin all n
    check-ins are collected, and eps protects all check-ins of the person (group privacy). With
    ``unit`` user each user reports one check-in, and the column ``n`` is the number of users; if
    that is unknown, all users are assumed to have as many check-ins as the person. The table ends
    at the first eps above 20, at the largest number of check-ins of a user or, if that is unknown,
    at 1,000.
    """
    target = log_of_delta(delta)
    largest = int(per_user.max()) if per_user.size else min(n, _MAX_UNKNOWN_CHECKINS)
    rows = []

    @cache  # if the number of users is known, the setting with one report each recurs
    def certified(setting: Setting) -> float:
        return float(BOUNDS["upper"].curve(setting).epsilon(target).promised)

    for eps0 in budgets:
        for m in _numbers(largest):
            users = per_user.size or n // m
            eps = certified(group_privacy(Setting(n, k, eps0), m))
            eps_of_one = certified(Setting(users, k, eps0))
            rows += [("checkin", m, n, k, eps0, eps), ("user", m, users, k, eps0, eps_of_one)]
            if eps > MAX_EPS:
                break
    return pd.DataFrame(rows, columns=UNITS.names[:-1]).assign(delta=delta)


def _numbers(largest: int) -> Iterator[int]:
    """Yield 1, 2, 3, 4, 6, 10, 16, 25, ... up to the largest number, which is always included."""
    ladder = dict.fromkeys(round(10.0 ** (step / 5)) for step in range(5 * len(str(largest))))
    yield from (m for m in ladder if m < largest)
    yield largest


def users_table(per_user: Integers) -> pd.DataFrame:
    """Return the number of users for each number of check-ins: columns checkins and users."""
    checkins, users = np.unique(per_user, return_counts=True)
    return pd.DataFrame({"checkins": checkins, "users": users})


def units_findings(table: pd.DataFrame, users: pd.DataFrame, title: str) -> str:
    """Return a line for each eps0 that compares the eps of one check-in and of a person.

    The line has the eps of one check-in; the eps of a person with a typical number of check-ins
    (the median, or the next number in the table; 10 if users are unknown); and, if users are known,
    the eps of a person if each user reports one. All are rounded up. The tables are results of
    `units_table` and `users_table`, and the title is the name of the region.
    """
    users_known = not users.empty
    per_user = np.repeat(users["checkins"], users["users"])
    typical = np.median(per_user) if users_known else 10
    lines = []
    for eps0, rows in table.groupby("eps0"):
        by_number = rows[rows["unit"] == "checkin"].set_index("checkins")["eps"]
        numbers = by_number.index
        m = numbers[min(int(np.searchsorted(numbers, typical)), numbers.size - 1)]
        line = (
            f"{title}, eps0 = {eps0:g}, delta = {table['delta'].iloc[0]:g}: eps is "
            f"{_rounded_up(by_number.iloc[0])} for one check-in, "
            f"{_rounded_up(by_number[m])} for a person with {m} check-ins"
        )
        if users_known:
            user = rows[rows["unit"] == "user"].iloc[0]
            one_each = _rounded_up(user["eps"])
            line += f"; {one_each} for a person if each of {user['n']:,} users reports one"
        lines.append(line)
    return "\n".join(lines)


def _rounded_up(eps: float) -> str:
    """Return eps with three significant digits, rounded up."""
    return f"{Context(prec=3, rounding=ROUND_CEILING).create_decimal(repr(float(eps))):f}"
