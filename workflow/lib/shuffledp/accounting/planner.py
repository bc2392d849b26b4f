"""Planning a collection: of n, k, eps0, eps and delta, find the one that is missing."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shuffledp.accounting.calibrate import smallest_whole
from shuffledp.accounting.curve import Curve, largest_eps0
from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.setting import LARGEST_K, LARGEST_N, Setting
from shuffledp.errors import InputError


@dataclass(frozen=True)
class Plan:
    """A collection by k-RR whose certified privacy is (eps, delta); at most one value is None.

    Attributes
    ----------
    n, k
        Users and cells.
    eps0, eps
        Local budget on the device and the central budget it comes to, over all rounds.
    log_delta
        Natural log of delta.
    others
        What else a `Setting` says, by its names: rounds, sampling_rate, colluding, response_rate.
    """

    n: int | None
    k: int | None
    eps0: float | None
    eps: float | None
    log_delta: float | None
    others: Mapping[str, Any] = field(default_factory=dict)

    def setting(self, **missing: Any) -> Setting:
        """The collection, with what is missing."""
        known = {name: getattr(self, name) for name in ("n", "k", "eps0")}
        return Setting(**{**known, **missing}, **self.others)


def complete(plan: Plan) -> Plan:
    """Find the one missing value such that the certified ``upper`` meets (eps, delta).

    The smallest n or k, the largest eps0, the smallest eps or delta; rounded to the safe side.

    Raises
    ------
    InputError
        If not exactly one value is missing, one is out of range, or no value meets the target.
    """
    values = {name: getattr(plan, name) for name in ("n", "k", "eps0", "eps", "log_delta")}
    missing = [name for name, value in values.items() if value is None]
    if len(missing) != 1:
        names = ", ".join(name.replace("log_", "") for name in missing) or "none"
        raise InputError(f"leave out exactly one of n, k, eps0, eps, delta (left out: {names})")
    (name,) = missing
    if plan.eps is not None and not 0.0 <= plan.eps < np.inf:
        raise InputError(f"eps must be at least 0 and finite (got eps={plan.eps})")

    fewest = plan.others.get("colluding", 0) + 1
    upper = BOUNDS["upper"]
    # Checks what is given; any value does for what is not.
    some = {"n": fewest, "k": 2, "eps0": 1.0}
    setting = plan.setting(**({name: some[name]} if name in some else {}))
    if name == "eps":
        return replace(plan, eps=upper.curve(setting).epsilon(plan.log_delta or 0.0).promised)
    assert plan.eps is not None
    if name == "log_delta":
        return replace(plan, log_delta=upper.curve(setting).log_delta(plan.eps).promised)
    assert plan.log_delta is not None
    eps, target = plan.eps, plan.log_delta

    def of(value: float) -> Curve:
        return upper.curve(plan.setting(**{name: value}))

    def smallest(low: int, high: int) -> int:
        def seems(value: int) -> bool:
            scout = of(value).scout
            assert scout is not None
            return scout(eps) <= target

        def meets(value: int) -> bool:
            curve = of(value)
            return curve.surely_below(eps, target) or curve.log_delta(eps).promised <= target

        found = smallest_whole(meets, low, high, smallest_whole(seems, low, high) or high)
        if found is None:
            raise InputError(f"no {name} up to {high:,} meets the target; relax eps, delta or eps0")
        return found

    if name == "n":
        return replace(plan, n=smallest(fewest, LARGEST_N))
    if name == "k":
        return replace(plan, k=smallest(2, LARGEST_K))
    return replace(plan, eps0=largest_eps0(eps, target, of, setting.rounds))
