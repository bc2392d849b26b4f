"""Planning a collection: of n, k, eps0, eps and delta, find the one that is missing."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from shuffledp.accounting.bound import Bound
from shuffledp.accounting.calibrate import smallest_whole
from shuffledp.accounting.incomplete import EVERYBODY, Crowd, incomplete
from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.sampled import sampled
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
    rounds
        How often the same users report; eps and delta are those of all rounds together.
    sampling_rate
        Probability with which each user takes part in a round (docs/rounds.md).
    crowd
        Who of the n users colludes or drops out.
    """

    n: int | None
    k: int | None
    eps0: float | None
    eps: float | None
    log_delta: float | None
    rounds: int = 1
    sampling_rate: float = 1.0
    crowd: Crowd = EVERYBODY


def circumstantial(bound: Bound, sampling_rate: float, crowd: Crowd) -> Bound:
    """Bound where users are drawn, or some collude or drop out; settings count all users.

    Raises
    ------
    InputError
        As `sampled` and `incomplete`, and for a draw with dropouts.
    """
    if sampling_rate < 1.0 and crowd.response < 1.0:
        raise InputError(
            "a sampling rate and a response rate together are not accounted for: give one of them "
            f"(got {sampling_rate:g} and {crowd.response:g})"
        )
    return incomplete(sampled(bound, sampling_rate), crowd)


def complete(plan: Plan) -> Plan:
    """Find the one missing value such that the certified ``upper`` meets (eps, delta).

    The smallest n or k, the largest eps0, the smallest eps or delta; rounded to the safe side.

    Raises
    ------
    InputError
        If not exactly one value is missing, one is out of range, or no value meets the target.
    """
    values = {field: getattr(plan, field) for field in ("n", "k", "eps0", "eps", "log_delta")}
    missing = [name for name, value in values.items() if value is None]
    if len(missing) != 1:
        names = ", ".join(name.replace("log_", "") for name in missing) or "none"
        raise InputError(f"leave out exactly one of n, k, eps0, eps, delta (left out: {names})")
    (name,) = missing
    given = {name: value for name, value in values.items() if value is not None}
    if not 0.0 <= given.get("eps", 0.0) < np.inf:
        raise InputError(f"eps must be at least 0 and finite (got eps={plan.eps})")

    upper = circumstantial(BOUNDS["upper"], plan.sampling_rate, plan.crowd)
    fewest = plan.crowd.colluding + 1

    def at(**changed: Any) -> tuple[float, Setting]:
        v = {"n": fewest, "k": 2, "eps0": 1.0, "eps": 0.0, **given, **changed}
        return v["eps"], Setting(v["n"], v["k"], v["eps0"], plan.rounds)

    # Checks what is given; any value does for what is not.
    plan.crowd.honest(at()[1].n)
    if name == "log_delta":
        return replace(plan, log_delta=float(upper.log_delta(*at())))
    assert plan.log_delta is not None
    target = plan.log_delta

    def smallest(low: int, high: int) -> int:
        assert upper.lead is not None
        lead = upper.lead

        def seems(value: int) -> bool:
            return lead(*at(**{name: value})) <= target

        def meets(value: int) -> bool:
            where = at(**{name: value})
            return upper.surely_below(target, *where) or bool(upper.log_delta(*where) <= target)

        found = smallest_whole(meets, low, high, smallest_whole(seems, low, high) or high)
        if found is None:
            raise InputError(f"no {name} up to {high:,} meets the target; relax eps, delta or eps0")
        return found

    if name == "n":
        return replace(plan, n=smallest(fewest, LARGEST_N))
    if name == "k":
        return replace(plan, k=smallest(2, LARGEST_K))
    if name == "eps":
        return replace(plan, eps=float(upper.epsilon(target, at()[1])))
    eps, setting = at()
    return replace(plan, eps0=upper.eps0(eps, target, setting))
