"""Check certificates of differential privacy in ball arithmetic.

A certificate claims a lower and an upper bound on delta at one eps, called its ends. The modules
`deltas`, `noise_deltas` and `rounds` define the claims and compute each delta in balls, intervals
that contain the exact value. The package shares no code with the accountant.
"""

import json
import math
import stat
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from flint import arb, ctx

from shuffledp.verification.deltas import (
    Job,
    RandomisedResponse,
    RefusedError,
    TooLongError,
    among_dummies,
    blanket,
    hidden,
    many_cells,
    one_cell,
    two_cells,
)
from shuffledp.verification.noise_deltas import (
    LEVEL,
    both_gaussians,
    both_noises,
    gaussian,
    geometric,
)
from shuffledp.verification.rounds import MIN_LOG_DELTA, Grid, composed

# Twice the size of the largest certificate, one with `certificate.MAX_BLOCKS` blocks of counts.
MAX_FILE_BYTES = 2**20
MAX_TERMS = 20_000_000  # inner terms of about 100 bits: half a minute
MAX_BLOCKS = 20_000
MAX_MASSES = 1_000
MAX_EPS = 300.0
MIN_STEP = 1e-200  # smallest step of a grid of losses; indices of eps and eps0 do not overflow
NEIGHBOURS = "replacement of one record"
# Keys of every certificate; each kind has others in addition.
COMMON_KEYS = {"certificate", "shuffledp", "neighbours", "n", "k", "eps", "lower", "upper"}


@dataclass(frozen=True)
class Claim:
    """The statement that a certificate proves: bounds on delta of n users and k cells at eps.

    ``low`` and ``high`` are natural logarithms of the bounds, None for a delta of 0. Of the other
    fields, ``eps0`` and ``rounds`` describe k-RR, ``dummies`` and ``chances`` true reports among
    users' dummies, and ``mechanism``, ``parameters`` and ``view`` what one party sees.
    """

    n: int
    k: int
    eps: float
    low: float | None
    high: float | None
    eps0: float | None = None
    rounds: int = 1
    dummies: float | None = None
    chances: int | None = None
    mechanism: str | None = None
    parameters: str | None = None
    view: str | None = None


# --- Untrusted files: size, types and keys --------------------------------------------------------


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; refuse duplicate keys, because parsers keep different ones of them."""
    unique = dict(pairs)
    if len(unique) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise RefusedError(f"malformed certificate: the key {shortened(repeated)} occurs twice")
    return unique


def shortened(value: object) -> str:
    """Return the `repr` of a value, cut so that a message stays on one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def read(source: Path) -> Any:
    """Return the parsed JSON of a file.

    Raises `TooLongError` if the file is too large or not a regular one (a device or pipe may be
    endless), and `RefusedError` if it is not JSON, or an object has a key twice.
    """
    file_status = source.stat()
    if not stat.S_ISREG(file_status.st_mode):
        raise TooLongError("it is not a regular file")
    with source.open("rb") as file:
        # The file may grow while it is read.
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise TooLongError(f"it has more than {MAX_FILE_BYTES:,} bytes")
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_unique_keys)
    except RecursionError:
        raise RefusedError("malformed certificate: brackets are nested too deeply") from None
    except ValueError:
        raise RefusedError("it is not JSON") from None


def demand(condition: bool, reason: str) -> None:
    """Raise `RefusedError` with a reason unless a condition holds."""
    if not condition:
        raise RefusedError(f"malformed certificate: {reason}")


def check_keys(mapping: dict[str, Any], keys: set[str], name: str) -> None:
    """Refuse unknown keys, whose values a reader might believe although they are not checked."""
    unknown = sorted(set(mapping) - keys)
    demand(not unknown, f"{name} has an unknown key {shortened(unknown[0] if unknown else None)}")


def integer(value: Any, low: int, name: str) -> int:
    """Return a value, which must be an integer of at least `low`."""
    valid = type(value) is int and value >= low
    demand(valid, f"{name} must be an integer >= {low}, got {shortened(value)}")
    return int(value)


def number(value: Any, name: str) -> float:
    """Return a value, which must be a finite number that a double represents exactly."""
    demand(type(value) in (int, float), f"{name} must be a number, got {shortened(value)}")
    demand(
        abs(value) < 2**53 if type(value) is int else math.isfinite(value),
        f"{name} must be finite, and below 2^53 if it is an integer, got {shortened(value)}",
    )
    return float(value)


def member(mapping: Any, key: str, kind: type) -> Any:
    """Return mapping[key], which must exist and have exactly the type `kind`."""
    demand(isinstance(mapping, dict) and key in mapping, f"{key} is missing")
    demand(type(mapping[key]) is kind, f"{key} must be a {kind.__name__}")
    return mapping[key]


def log_delta(end: dict[str, Any], name: str) -> float | None:
    """Return the claimed natural logarithm of delta of one end, None for a delta of 0."""
    demand("log_delta" in end, f"{name}.log_delta is missing")
    return None if end["log_delta"] is None else number(end["log_delta"], f"{name}.log_delta")


class Statement(NamedTuple):
    """Fields of every certificate: sizes, eps, both ends and the log deltas that they claim."""

    n: int
    k: int
    eps: float
    lower: dict[str, Any]
    upper: dict[str, Any]
    low: float | None
    high: float | None


def read_statement(
    certificate: dict[str, Any],
    keys: set[str],
    lower_keys: Collection[str] = (),
    upper_keys: Collection[str] = (),
    max_eps: float = math.inf,
) -> Statement:
    """Return what all certificates have, checked; `keys` of this kind are accepted as well.

    Raises `TooLongError` for sizes beyond the precision of balls.
    """
    check_keys(certificate, COMMON_KEYS | keys, "it")
    n, k = integer(certificate.get("n"), 1, "n"), integer(certificate.get("k"), 2, "k")
    eps = number(certificate.get("eps"), "eps")
    demand(0 <= eps <= max_eps, f"eps must be from 0 to {max_eps:g}, got {eps}")
    require_size("n", n)
    require_size("k", k)
    lower, upper = member(certificate, "lower", dict), member(certificate, "upper", dict)
    low, high = log_delta(lower, "lower"), log_delta(upper, "upper")
    check_keys(lower, {"log_delta", *lower_keys}, "lower")
    check_keys(upper, {"log_delta", *upper_keys}, "upper")
    demand(low is None or (high is not None and low <= high), "lower is above upper")
    return Statement(n, k, eps, lower, upper, low, high)


def require_size(name: str, size: int) -> None:
    """Raise `TooLongError` for a size beyond the precision of balls."""
    if size > 10**15:
        raise TooLongError(f"{name} = {shortened(size)} is more than 10^15")


def read_eps0(certificate: dict[str, Any]) -> float:
    """Return eps0 of a certificate, checked."""
    eps0 = number(certificate.get("eps0"), "eps0")
    demand(0 <= eps0 <= MAX_EPS, f"eps0 must be from 0 to {MAX_EPS:g}, got {eps0}")
    return eps0


# --- One round of k-RR ----------------------------------------------------------------------------


def read_others(lower: dict[str, Any], n: int, k: int) -> dict[str, int]:
    """Return the data set of the lower end: the numbers of other users who hold x0, x1 and x2."""
    counts = member(lower, "others", dict)
    demand(set(counts) == {"x0", "x1", "x2"}, "others must have the keys x0, x1 and x2")
    others = {name: integer(counts[name], 0, f"others.{name}") for name in ("x0", "x1", "x2")}
    demand(sum(others.values()) == n - 1, f"others must add up to n-1 = {n - 1}")
    demand(k > 2 or others["x2"] == 0, "with k = 2 there is no third cell")
    return others


def read_blocks(upper: dict[str, Any], n: int) -> list[tuple[int, int]]:
    """Return the blocks of counts, which must partition 0 to n-1 in order."""
    blocks, expected = [], 0
    listed = member(upper, "blocks", list)
    if len(listed) > MAX_BLOCKS:
        raise TooLongError(f"{len(listed)} blocks are more than {MAX_BLOCKS}")
    for block in listed:
        demand(type(block) is list and len(block) == 2, "a block must be [first, last]")
        first, last = (integer(end, 0, "the end of a block") for end in block)
        start = f"a block starts at {shortened(first)}, not {expected}"
        demand(first == expected, f"gap or overlap: {start}")
        demand(last >= first, f"block [{first}, {shortened(last)}] is empty")
        blocks.append((first, last))
        expected = last + 1
    demand(expected == n, f"the blocks end at {shortened(expected - 1)}, not at n-1 = {n - 1}")
    return blocks


def lower_job(n: int, mech: RandomisedResponse, others: dict[str, int]) -> Job:
    """Return the job for the delta of the data set with these numbers of other users per cell."""
    if mech.k == 2:
        return two_cells(n, others["x0"], mech)
    held = [name for name, count in others.items() if count > 0]
    return one_cell(n, mech, held[0]) if len(held) == 1 else many_cells(n, mech, others)


def upper_jobs(n: int, mech: RandomisedResponse, upper: dict[str, Any]) -> dict[str, Job]:
    """Return named jobs; the largest of their deltas is an upper bound for every data set."""
    argument = member(upper, "argument", str)
    listed = {"blocks"} if argument == "counts" else set()
    check_keys(upper, {"log_delta", "argument"} | listed, "upper")
    if argument == "blanket":
        return {"blanket": blanket(n, mech)}
    if argument == "hidden":
        demand(mech.k == 3 and n >= 2, 'argument "hidden" is for k = 3 and n >= 2')
        jobs = {f"hidden user in {cell}": hidden(n, mech, cell) for cell in ("x0", "x1")}
        return jobs | {"all others in x2": one_cell(n, mech, "x2")}
    demand(argument == "counts", f"unknown argument {shortened(argument)}")
    demand(mech.k == 2, 'argument "counts" is for k = 2')
    jobs = {}
    for first, last in read_blocks(upper, n):
        left = n - (last - first)
        jobs[f"{first} of {left - 1} others in x0"] = two_cells(left, first, mech)
    return jobs


def precision(eps0: float, eps: float) -> int:
    """Return the precision of balls in bits, larger if eps or eps0 - eps is small or eps0 large."""
    smallest = min(x for x in (eps0, eps, eps0 - eps, 1.0) if x > 0)
    return 96 + math.ceil(6 * eps0 - math.log2(smallest))


def require_time(jobs: list[Job], limit: int) -> None:
    """Raise `TooLongError` if jobs have too many terms, weighted by the cost of the precision."""
    terms = sum(job.terms for job in jobs) * (1.0 + (ctx.prec / 2000.0) ** 2)
    if terms > limit:
        raise TooLongError(f"about {terms:.3g} terms would take too long: more than {limit:,}")


def prove(jobs: dict[str, Job], high: float) -> None:
    """Raise `RefusedError` unless every delta of the jobs is proven to be at most exp(high)."""
    for name, job in jobs.items():
        if not job.run() <= arb(high).exp():
            raise RefusedError(f"upper: delta ({name}) is not shown to be <= exp({high})")


def verify_round(certificate: dict[str, Any], limit: int) -> Claim:
    """Check a certificate of one round of shuffled k-RR."""
    n, k, eps, lower, upper, low, high = read_statement(
        certificate, {"eps0"}, {"others"}, {"argument", "blocks"}
    )
    eps0 = read_eps0(certificate)
    others = None if low is None else read_others(lower, n, k)
    claim = Claim(n, k, eps, low, high, eps0=eps0)
    if eps >= eps0:
        if low is not None:
            raise RefusedError("lower: delta is 0, for eps >= eps0")
        return claim
    if high is None:
        raise RefusedError("upper: delta is not 0, for eps < eps0")
    with ctx.workprec(precision(eps0, eps)):
        mech = RandomisedResponse(k, eps0, eps)
        jobs = upper_jobs(n, mech, upper)
        if high >= 0.0:
            # No delta exceeds 1, which needs no sum (and a sum cannot tell 1 from 1 - 1e-99).
            jobs = {}
        data_set = None if others is None else lower_job(n, mech, others)
        require_time([*jobs.values(), *([data_set] if data_set else [])], limit)
        if low is not None and data_set is not None and not arb(low).exp() <= data_set.run():
            raise RefusedError(f"lower: the delta of {others} is not shown to be >= exp({low})")
        prove(jobs, high)
    return claim


def verify_dummies(certificate: dict[str, Any], limit: int) -> Claim:
    """Check a certificate of true reports among users' uniform dummies, for any data set."""
    n, k, eps, _, _, low, high = read_statement(
        certificate, {"dummies", "chances"}, max_eps=MAX_EPS
    )
    dummies = number(certificate.get("dummies"), "dummies")
    chances = integer(certificate.get("chances"), 1, "chances")
    require_size("n * chances", n * chances)
    demand(0.0 < dummies <= chances, f"dummies must be in (0, chances], got {dummies}")
    rate = dummies / chances
    demand(rate > 1e-100, f"dummies / chances must exceed 1e-100, got {rate}")
    if high is None:
        raise RefusedError("upper: delta is never 0 among dummies")
    cancelled = 3 * eps - math.log2(eps if 0 < eps < 1 else 1) - math.log2(rate)
    with ctx.workprec(128 + math.ceil(cancelled)):
        job = among_dummies(n * chances, k, arb(dummies) / chances, eps)
        require_time([job], limit)
        delta = job.run()
        if low is not None and not arb(low).exp() <= delta:
            raise RefusedError(f"lower: delta is not shown to be >= exp({low})")
        if high < 0.0 and not delta <= arb(high).exp():
            raise RefusedError(f"upper: delta is not shown to be <= exp({high})")
    return Claim(n, k, eps, low, high, dummies=dummies, chances=chances)


def read_grid(upper: dict[str, Any]) -> Grid:
    """Return the grid of privacy losses of an upper end, checked."""
    step, infinite = number(upper.get("step"), "step"), number(upper.get("infinite"), "infinite")
    demand(step >= MIN_STEP, f"step must be at least {MIN_STEP:g}, got {step}")
    demand(0.0 <= infinite < 1.0, f"infinite must be at least 0 and below 1, got {infinite}")
    masses, previous = [], 0
    listed = member(upper, "masses", list)
    if len(listed) > MAX_MASSES:
        raise TooLongError(f"{len(listed)} masses are more than {MAX_MASSES}")
    for entry in listed:
        demand(type(entry) is list and len(entry) == 2, "a mass must be [index, probability]")
        index, mass = integer(entry[0], previous + 1, "an index"), number(entry[1], "a probability")
        demand(index < 2**53 and mass > 0.0, "an index must be below 2^53, a probability positive")
        masses.append((index, mass))
        previous = index
    demand(len(masses) > 0, "there is no mass")
    return Grid(step, masses, infinite)


def verify_rounds(certificate: dict[str, Any], limit: int) -> Claim:
    """Check a certificate of several rounds of shuffled k-RR, whose lower end is 0."""
    n, k, eps, _, upper, low, high = read_statement(
        certificate, {"eps0", "rounds"}, upper_keys={"step", "masses", "infinite"}
    )
    rounds = integer(certificate.get("rounds"), 1, "rounds")
    demand(rounds <= 10**9, "rounds must be at most 10^9")
    eps0 = read_eps0(certificate)
    demand(eps0 > 0 and eps <= rounds * eps0, "eps0 must be positive, eps at most rounds * eps0")
    demand(low is None, "the lower end of several rounds must be null")
    grid = read_grid(upper)
    if high is None:
        raise RefusedError("upper: delta is not shown to be 0 over several rounds")
    with ctx.workprec(grid.precision(eps0, eps, high)):
        jobs, total = composed(grid, n, k, eps0, eps, rounds)
        require_time([*(job for _, job in jobs), total], limit)
        for profile, job in jobs:
            if not job.run() <= profile:
                raise RefusedError("upper: the grid is not shown to dominate one round")
        if high < 0.0:
            prove({"grid": total}, high)
    return Claim(n, k, eps, None, high, eps0=eps0, rounds=rounds)


def noise_job(certificate: dict[str, Any], eps: float, level: float) -> Job:
    """Return the job for the delta of one view of a mechanism, for checked n and k."""
    name, view = member(certificate, "mechanism", str), member(certificate, "view", str)
    parameters = member(certificate, "parameters", dict)
    views = {"shuffler-dummies": ("analyst", "public")}
    accepted = views.get(name, ("analyst", "shuffler", "public"))
    demand(view in accepted, f"view must be one of {', '.join(accepted)}, got {shortened(view)}")
    if name == "two-servers" and "sigma" in parameters:
        check_keys(parameters, {"sigma", "nu"}, "parameters")
        sigma, centre = number(parameters["sigma"], "sigma"), integer(parameters.get("nu"), 0, "nu")
        demand(1e-2 <= sigma <= 1e6, "sigma must be from 1e-2 to 1e6")
        demand(centre < 2**53, "nu is too large")
        if view == "public":
            return both_gaussians(sigma, centre, eps, level)
        return gaussian(sigma, centre if view == "analyst" else None, eps, level)
    if name in ("shuffler-dummies", "two-servers"):
        check_keys(parameters, {"eps", "nu"}, "parameters")
        noise, nu = number(parameters.get("eps"), "eps of the noise"), parameters.get("nu")
        centre = integer(nu, 0, "nu")
        demand(1e-9 <= noise <= MAX_EPS, "eps of the noise must be from 1e-9 to 300")
        demand(centre < 2**53, "nu is too large")
        if view == "analyst" or name == "shuffler-dummies":
            return geometric(noise, centre, eps)
        # The sum of both noises has at most the delta of one of them, which is 0 for these eps.
        if view == "shuffler" or eps >= noise:
            return geometric(noise, None, eps)
        return both_noises(noise, centre, eps, level)
    raise RefusedError(f"unknown mechanism {shortened(name)}")


def verify_noise(certificate: dict[str, Any], limit: int) -> Claim:
    """Check a certificate of noise of servers, whose lower end is 0."""
    n, k, eps, _, _, low, high = read_statement(
        certificate, {"mechanism", "parameters", "view"}, max_eps=MAX_EPS
    )
    demand(low is None, "the lower end of a view must be null")
    level = LEVEL + eps - (0.0 if high is None else max(min(high, 0.0), MIN_LOG_DELTA))
    job = noise_job(certificate, eps, level)
    bits = math.ceil(level / math.log(2.0) + 64.0)
    if eps > 0:
        bits += math.ceil(max(-math.log2(eps), 0.0))
    with ctx.workprec(64 + bits):
        require_time([job], limit)
        if high is None:
            if not job.run() <= 0:
                raise RefusedError("upper: delta is not shown to be 0")
        elif high < 0.0:
            prove({certificate["view"]: job}, high)
    parameters = ", ".join(f"{name}={value}" for name, value in certificate["parameters"].items())
    shown = {key: certificate[key] for key in ("mechanism", "view")}
    return Claim(n, k, eps, None, high, parameters=parameters, **shown)


KINDS: dict[int, Callable[[dict[str, Any], int], Claim]] = {
    1: verify_round,
    2: verify_dummies,
    3: verify_rounds,
    4: verify_noise,
}


def verify(certificate: Any, limit: int = MAX_TERMS) -> Claim:
    """Check a certificate and return the claim that it proves.

    Raises `RefusedError` if the certificate is malformed or its claim is not proven, and
    `TooLongError` if the check would need more than `limit` terms.
    """
    kind = member(certificate, "certificate", int)
    demand(kind in KINDS, f"certificate must be one of {', '.join(map(str, KINDS))}")
    member(certificate, "shuffledp", str)
    demand(
        member(certificate, "neighbours", str) == NEIGHBOURS, f"neighbours must be {NEIGHBOURS!r}"
    )
    return KINDS[kind](certificate, limit)
