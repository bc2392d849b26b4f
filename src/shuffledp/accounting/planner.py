"""Planning of a k-RR collection: four of n, k, eps0, eps and delta determine the fifth."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from shuffledp.accounting.calibrate import smallest_integer
from shuffledp.accounting.curve import UpperCurve, largest_eps0
from shuffledp.accounting.krr import upper_curve
from shuffledp.accounting.setting import LARGEST_K, LARGEST_N, Setting
from shuffledp.errors import InputError
from shuffledp.numerics.arrays import scalar


@dataclass(frozen=True)
class Plan:
    """A k-RR collection and its certified (eps, delta); the value to be determined is None.

    Attributes
    ----------
    n, k
        Numbers of users and cells.
    eps0, eps
        Local budget, and central budget of all rounds.
    log_delta
        Natural log of delta.
    other_fields
        Other fields of the `Setting`: rounds, sampling_rate, colluding, response_rate.
    """

    n: int | None
    k: int | None
    eps0: float | None
    eps: float | None
    log_delta: float | None
    other_fields: Mapping[str, Any] = field(default_factory=dict)

    def setting(self, **missing: Any) -> Setting:
        """Return the setting, with ``missing`` in place of values that are None."""
        values = {name: getattr(self, name) for name in ("n", "k", "eps0")}
        return Setting(**{**values, **missing}, **self.other_fields)


def complete(plan: Plan) -> Plan:
    """Return the plan with its missing value filled in, so that it meets (eps, delta).

    The value is the smallest n, k, eps or delta, or the largest eps0, at which the certified upper
    end meets the target, rounded in the safe direction. Raises `InputError` if there is none, or if
    not exactly one value is missing.
    """
    values = {name: getattr(plan, name) for name in ("n", "k", "eps0", "eps", "log_delta")}
    missing = [name for name, value in values.items() if value is None]
    if len(missing) != 1:
        names = ", ".join(name.replace("log_", "") for name in missing) or "none"
        raise InputError(f"leave out exactly one of n, k, eps0, eps, delta (left out: {names})")
    (name,) = missing
    if plan.eps is not None:
        given_eps = scalar("eps", plan.eps)
        if not 0.0 <= given_eps < np.inf:
            raise InputError(f"eps must be at least 0 and finite, got eps={plan.eps}")
        plan = replace(plan, eps=given_eps)

    min_users = plan.other_fields.get("colluding", 0) + 1
    # The setting checks the values; any valid value serves in place of the missing one.
    placeholders = {"n": min_users, "k": 2, "eps0": 1.0}
    setting = plan.setting(**({name: placeholders[name]} if name in placeholders else {}))
    if name == "eps":
        return replace(plan, eps=upper_curve(setting).epsilon(plan.log_delta or 0.0).promised)
    assert plan.eps is not None
    if name == "log_delta":
        return replace(plan, log_delta=upper_curve(setting).log_delta(plan.eps).promised)
    assert plan.log_delta is not None
    eps, target = plan.eps, plan.log_delta

    def curve_with(value: float) -> UpperCurve:
        return upper_curve(plan.setting(**{name: value}))

    def smallest(low: int, high: int) -> int:
        def seems_to_meet(value: int) -> bool:
            curve = curve_with(value)
            return (curve.hints.setting_estimate or curve.upper)(eps) <= target

        def meets(value: int) -> bool:
            curve = curve_with(value)
            return curve.surely_below(eps, target) or curve.log_delta(eps).promised <= target

        start = smallest_integer(seems_to_meet, low, high) or high
        value = smallest_integer(meets, low, high, start)
        if value is None:
            raise InputError(
                f"no {name} up to {high:,} meets the target: use a larger eps or delta, or a "
                "smaller eps0"
            )
        return value

    if name == "n":
        return replace(plan, n=smallest(min_users, LARGEST_N))
    if name == "k":
        return replace(plan, k=smallest(2, LARGEST_K))
    return replace(plan, eps0=largest_eps0(eps, target, curve_with, setting.rounds))
