"""Check a certificate of differential privacy by ball arithmetic: no float is trusted.

The claims, and how each delta is found, are in `shuffledp.verification.deltas`. Nothing here is
shared with the accountant.
"""

import math
from typing import Any

from flint import arb, ctx

from shuffledp.verification.deltas import (
    Job,
    Mechanism,
    RefusedError,
    TooLongError,
    alike,
    blanket,
    hidden,
    mixed,
    two_cells,
)

LIMIT = 20_000_000  # inner terms: some 10 s
NEIGHBOURS = "replacement of one report"


def demand(true: bool, reason: str) -> None:
    """Refuse a malformed certificate."""
    if not true:
        raise RefusedError(f"malformed certificate: {reason}")


def whole(value: Any, low: int, name: str) -> int:
    """A whole number, at least low."""
    demand(type(value) is int and value >= low, f"{name} must be a whole number >= {low}")
    return int(value)


def number(value: Any, name: str) -> float:
    """A finite number that is exactly a double."""
    demand(type(value) in (int, float), f"{name} must be a number")
    demand(abs(value) < 2**53 if type(value) is int else math.isfinite(value), f"{name} too large")
    return float(value)


def part(mapping: Any, key: str, kind: type) -> Any:
    """mapping[key], which must be there and of that type."""
    demand(isinstance(mapping, dict) and key in mapping, f"{key} is missing")
    demand(type(mapping[key]) is kind, f"{key} must be a {kind.__name__}")
    return mapping[key]


def log_delta(end: dict[str, Any], name: str) -> float | None:
    """The claim of one end; None means that delta is 0."""
    demand("log_delta" in end, f"{name}.log_delta is missing")
    return None if end["log_delta"] is None else number(end["log_delta"], f"{name}.log_delta")


def read_others(lower: dict[str, Any], n: int, k: int) -> dict[str, int]:
    """The data set of the lower end."""
    given = part(lower, "others", dict)
    demand(set(given) == {"x0", "x1", "x2"}, "others must have x0, x1 and x2")
    others = {name: whole(given[name], 0, f"others.{name}") for name in ("x0", "x1", "x2")}
    demand(sum(others.values()) == n - 1, f"others must add up to n-1 = {n - 1}")
    demand(k > 2 or others["x2"] == 0, "with k = 2 there is no third cell")
    return others


def read_blocks(upper: dict[str, Any], n: int) -> list[tuple[int, int]]:
    """The blocks of counts: one after the other, from 0 to n-1."""
    blocks, following = [], 0
    for block in part(upper, "blocks", list):
        demand(type(block) is list and len(block) == 2, "a block must be [first, last]")
        first, last = (whole(end, 0, "the end of a block") for end in block)
        demand(first == following, f"gap or overlap: a block starts at {first}, not {following}")
        demand(last >= first, f"block [{first}, {last}] is empty")
        blocks.append((first, last))
        following = last + 1
    demand(following == n, f"the blocks end at {following - 1}, not at n-1 = {n - 1}")
    return blocks


def lower_job(n: int, mech: Mechanism, others: dict[str, int]) -> Job:
    """The delta of the data set named."""
    if mech.k == 2:
        return two_cells(n, others["x0"], mech)
    held = [name for name, count in others.items() if count > 0]
    return alike(n, mech, held[0]) if len(held) == 1 else mixed(n, mech, others)


def upper_jobs(n: int, mech: Mechanism, upper: dict[str, Any]) -> dict[str, Job]:
    """Deltas, by name, the greatest of which no data set exceeds."""
    argument = part(upper, "argument", str)
    if argument == "blanket":
        return {"blanket": blanket(n, mech)}
    if argument == "hidden":
        demand(mech.k == 3 and n >= 2, 'argument "hidden" is for k = 3 and n >= 2')
        jobs = {f"hidden user in {cell}": hidden(n, mech, cell) for cell in ("x0", "x1")}
        return jobs | {"all others in x2": alike(n, mech, "x2")}
    demand(argument == "counts", f"unknown argument {argument!r}")
    demand(mech.k == 2, 'argument "counts" is for k = 2')
    jobs = {}
    for first, last in read_blocks(upper, n):
        left = n - (last - first)
        jobs[f"{first} of {left - 1} others in x0"] = two_cells(left, first, mech)
    return jobs


def precision(eps0: float, eps: float) -> int:
    """96 bits, and as many again as may cancel: eps or eps0 - eps small, or E large."""
    least = min(x for x in (eps0, eps, eps0 - eps, 1.0) if x > 0)
    return 96 + math.ceil(6 * eps0 - math.log2(least))


def verify(certificate: dict[str, Any], limit: int = LIMIT) -> None:
    """Return if every claim is proven; else raise RefusedError, or TooLongError above the limit."""
    demand(part(certificate, "certificate", int) == 1, "certificate must be 1")
    part(certificate, "shuffledp", str)
    demand(part(certificate, "neighbours", str) == NEIGHBOURS, f"neighbours must be {NEIGHBOURS!r}")
    n, k = whole(certificate.get("n"), 1, "n"), whole(certificate.get("k"), 2, "k")
    eps0, eps = number(certificate.get("eps0"), "eps0"), number(certificate.get("eps"), "eps")
    demand(0 <= eps0 <= 350 and eps >= 0, "eps0 must be from 0 to 350, and eps at least 0")
    lower, upper = part(certificate, "lower", dict), part(certificate, "upper", dict)
    low, high = log_delta(lower, "lower"), log_delta(upper, "upper")
    demand(low is None or (high is not None and low <= high), "lower is above upper")
    others = None if low is None else read_others(lower, n, k)
    if max(n, k) > 10**15:
        raise TooLongError(f"n = {n}, k = {k}: more than 10^15")
    if eps >= eps0:
        if low is not None:
            raise RefusedError("lower: delta is 0, for eps >= eps0")
        return
    if high is None:
        raise RefusedError("upper: delta is not 0, for eps < eps0")
    with ctx.workprec(precision(eps0, eps)):
        mech = Mechanism(k, eps0, eps)
        jobs = upper_jobs(n, mech, upper)
        if high >= 0.0:
            # No delta is above 1, which needs no sum (and a sum cannot tell 1 from 1 - 1e-99).
            jobs = {}
        data_set = None if others is None else lower_job(n, mech, others)
        terms = sum(job.terms for job in jobs.values()) + (data_set.terms if data_set else 0)
        if terms > limit:
            raise TooLongError(f"about {terms} terms, more than {limit}")
        if data_set is not None and not arb(low).exp() <= data_set.run():
            raise RefusedError(f"lower: the delta of {others} is not shown to be >= exp({low})")
        for name, job in jobs.items():
            if not job.run() <= arb(high).exp():
                raise RefusedError(f"upper: delta ({name}) is not shown to be <= exp({high})")
