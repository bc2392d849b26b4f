"""Planning a collection: of n, k, eps0, eps and delta, find the one that is missing."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.setting import LARGEST_K, LARGEST_N, Setting
from shuffledp.errors import InputError


@dataclass(frozen=True)
class Plan:
    """A collection whose certified privacy is (eps, delta); at most one value is None.

    Attributes
    ----------
    n, k
        Users and cells.
    eps0, eps
        Local budget on the device and the central budget it comes to.
    log_delta
        Natural log of delta.
    """

    n: int | None
    k: int | None
    eps0: float | None
    eps: float | None
    log_delta: float | None


def _smallest(meets: Callable[[int], bool], low: int, high: int, name: str) -> int:
    """Smallest integer that meets a condition which holds from some integer on."""
    # Doubling first: values far beyond the answer have the smallest deltas, which cost most.
    last = low
    while not meets(last):
        if last == high:
            raise InputError(f"no {name} up to {high:,} meets the target; relax eps, delta or eps0")
        low, last = last + 1, min(2 * last, high)
    high = last
    while low < high:
        middle = (low + high) // 2
        if meets(middle):
            high = middle
        else:
            low = middle + 1
    return low


def complete(plan: Plan) -> Plan:
    """Find the one missing value such that the certified ``upper`` meets (eps, delta).

    The smallest n or k, the largest eps0, the smallest eps or delta; rounded to the safe side.

    Raises
    ------
    InputError
        If not exactly one value is missing, one is out of range, or no value meets the target.
    """
    values = vars(plan)
    missing = [name for name, value in values.items() if value is None]
    if len(missing) != 1:
        names = ", ".join(name.replace("log_", "") for name in missing) or "none"
        raise InputError(f"leave out exactly one of n, k, eps0, eps, delta (left out: {names})")
    (name,) = missing
    given = {name: value for name, value in values.items() if value is not None}
    if not 0.0 <= given.get("eps", 0.0) < np.inf:
        raise InputError(f"eps must be at least 0 and finite (got eps={plan.eps})")

    upper = BOUNDS["upper"]

    def at(**changed: Any) -> tuple[float, Setting]:
        v = {"n": 1, "k": 2, "eps0": 1.0, "eps": 0.0, **given, **changed}
        return v["eps"], Setting(v["n"], v["k"], v["eps0"])

    at()  # checks what is given; any value does for what is not
    if name == "log_delta":
        return replace(plan, log_delta=float(upper.log_delta(*at())))
    assert plan.log_delta is not None
    target = plan.log_delta

    def meets(**changed: Any) -> bool:
        where = at(**changed)
        return upper.surely_below(target, *where) or bool(upper.log_delta(*where) <= target)

    if name == "n":
        return replace(plan, n=_smallest(lambda n: meets(n=n), 1, LARGEST_N, "n"))
    if name == "k":
        return replace(plan, k=_smallest(lambda k: meets(k=k), 2, LARGEST_K, "k"))
    if name == "eps":
        return replace(plan, eps=float(upper.epsilon(target, at()[1])))
    eps, setting = at()
    return replace(plan, eps0=upper.eps0(eps, target, setting))
