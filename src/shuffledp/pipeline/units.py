"""The unit that a guarantee protects and the records that are counted, in words."""

from collections.abc import Mapping
from typing import Any


def unit_in_words(spec: Mapping[str, Any]) -> str:
    """Return the unit of a region's guarantee, as figures and tables show it.

    `spec` is a region of `shuffledp.pipeline.configuration.effective_regions`. The result is ``one
    check-in``, ``one user`` (of whom one check-in counts), or the user with a bound, such as ``one
    user, at most 3 check-ins`` or ``one user, at most 3 check-ins in different cells``.
    """
    if spec["unit"] == "checkin":
        return "one check-in"
    m, distinct = int(spec["records_per_user"]), bool(spec["distinct"])
    if m == 1:
        return "one user"
    return f"one user, at most {m} check-ins{' in different cells' if distinct else ''}"


def has_bound(unit: str) -> bool:
    """Return whether a unit is a user of whom several check-ins may count."""
    return "at most" in unit


def counted(unit: str) -> str:
    """Return what is counted, ``check-in`` or ``user``, for a unit in words.

    A user of whom one check-in counts is counted as a user.
    """
    return "check-in" if "check-in" in unit else unit.removeprefix("one ")


def replaced(unit: str) -> str:
    """Return what neighbouring data sets differ in: ``one record``, or all records of a user."""
    if not has_bound(unit):
        return "one record"
    bound = unit.partition(", ")[2]
    return f"all records of one user ({bound}) by as many others"
