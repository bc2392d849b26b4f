"""Deltas of few users by enumeration, in balls: every data set, both directions, every outcome.

A user's law maps what the analyst counts (a tuple of counts) to its probability. Nothing here is
shared with the package.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, pairwise, permutations, product
from math import comb, prod
from typing import TypeVar

import numpy as np
from flint import arb, ctx

from oracle.exact import compositions

Law = dict[tuple[int, ...], arb]
Number = TypeVar("Number", arb, Fraction)
BITS = 160


def unit(size: int, place: int) -> tuple[int, ...]:
    return tuple(int(j == place) for j in range(size))


def reporting(row: Sequence[arb]) -> Law:
    return {unit(len(row), j): p for j, p in enumerate(row) if p != 0}


def joined(one: Law, two: Law) -> Law:
    # Counts are encoded as digits of one number, which takes a third of the time.
    base = 1 + max(map(max, one)) + max(map(max, two))
    size = len(next(iter(one)))
    left, right = (
        [(sum(count * base**j for j, count in enumerate(key)), p) for key, p in law.items()]
        for law in (one, two)
    )
    found: dict[int, arb] = {}
    for a, p in left:
        for b, q in right:
            both = a + b
            found[both] = found[both] + p * q if both in found else p * q
    return {tuple(key // base**j % base for j in range(size)): p for key, p in found.items()}


def mixed(share: arb, one: Law, two: Law) -> Law:
    law = {key: share * p for key, p in one.items()}
    for key, p in two.items():
        law[key] = law.get(key, arb(0)) + (1 - share) * p
    return law


def absent(law: Law, rate: arb) -> Law:
    """Return the law of a user who reports with this probability, and otherwise not at all."""
    nothing = (0,) * len(next(iter(law)))
    return mixed(rate, law, {nothing: arb(1)})


def among_dummies(law: Law, mean: arb, chances: int) -> Law:
    size = len(next(iter(law)))
    one = mixed(mean / chances, reporting([arb(1) / size] * size), {(0,) * size: arb(1)})
    for _ in range(chances):
        law = joined(law, one)
    return law


def stick(pair: Sequence[tuple[arb, arb]], eps: float, rounds: int = 1) -> arb:
    """Return the hockey-stick divergence of independent copies of two laws."""
    e, total = arb(eps).exp(), arb(0)
    if rounds == 1:
        return sum(((p - e * q).max(arb(0)) for p, q in pair), total)
    for counts in compositions(rounds, len(pair)):
        p, q, left = arb(1), arb(1), rounds
        for (a, b), times in zip(pair, counts, strict=True):
            if times:
                ways = comb(left, times)
                p, q, left = p * a**times * ways, q * b**times * ways, left - times
        total += (p - e * q).max(arb(0))
    return total


def worst(
    targets: Sequence[Law], others: Sequence[Sequence[Law]], eps: float, rounds: int = 1
) -> arb:
    """Return the largest delta over all data sets.

    ``targets`` has the target's law by record, ``others`` those of each other user. Users who are
    the same object are interchangeable.
    """
    alike = all(each is others[0] for each in others)
    records = range(len(targets))
    choose: Callable[..., Iterator[tuple[int, ...]]] = (
        (lambda: combinations_with_replacement(records, len(others)))
        if alike
        else (lambda: product(records, repeat=len(others)))
    )
    found = arb(0)
    for held in choose():
        crowd: Law = {(0,) * len(next(iter(targets[0]))): arb(1)}
        for user, record in zip(others, held, strict=True):
            crowd = joined(crowd, user[record])
        laws = [joined(crowd, target) for target in targets]
        for one, two in permutations(laws, 2):
            keys = one.keys() | two.keys()
            pair = [(one.get(key, arb(0)), two.get(key, arb(0))) for key in keys]
            found = found.max(stick(pair, eps, rounds))
    return found


# ---------------------------------------------------------------- randomisers, by definition


def random_rows(random: np.random.Generator) -> np.ndarray:
    """Draw a matrix, perhaps with zeros, or rows that are equal, nearly equal or extreme."""
    k, reports = [(2, 2), (2, 3), (3, 3), (3, 4)][random.integers(4)]
    rows = random.dirichlet(np.ones(reports), k)
    kind = random.choice(["plain", "plain", "zeros", "the same", "extreme", "near"])
    if kind == "zeros":
        rows[random.integers(k), random.integers(1, reports)] = 0.0
        rows[random.integers(k), random.integers(1, reports)] = 0.0
        rows[:, ~rows.any(axis=0)] = 0.1
    elif kind == "the same":
        rows[0] = rows[-1]
    elif kind == "extreme":
        rows[random.integers(k), random.integers(reports)] = 10.0 ** random.uniform(-9.0, -2.0)
    elif kind == "near":
        rows = rows[:1] * (1 + 10.0 ** random.uniform(-15.0, -4.0) * random.normal(size=rows.shape))
    rows = rows / rows.sum(axis=1, keepdims=True)
    if random.integers(3) == 0:  # sums of 1 within 1e-9
        rows *= 1.0 + random.uniform(-9e-10, 9e-10, (k, 1))
    return rows


# The following take and return balls or fractions; E is exp(eps0).


def krr(k: int, E: Number) -> list[list[Number]]:
    return [[(E if x == y else E**0) / (E + k - 1) for y in range(k)] for x in range(k)]


def supporting(supports: Sequence[Sequence[int]], k: int, E: Number) -> list[list[Number]]:
    """Return rows whose reports are E times as likely if they support the record."""
    rows = []
    for x in range(k):
        row = [E if x in held else E**0 for held in supports]
        rows.append([entry / sum(row) for entry in row])
    return rows


def subsets(k: int, size: int, E: Number) -> list[list[Number]]:
    return supporting(list(combinations(range(k), size)), k, E)


def hashing(k: int, g: int, E: Number) -> list[list[Number]]:
    functions = product(range(g), repeat=k)
    return supporting(
        [[x for x in range(k) if h[x] == y] for h in functions for y in range(g)], k, E
    )


def hadamard(k: int, E: Number) -> list[list[Number]]:
    """Return rows of reports that support the records with 1 in a column of Sylvester's matrix."""
    columns = range(1 << k.bit_length())  # above k: the first row is all ones
    return supporting(
        [[x for x in range(k) if (x + 1 & y).bit_count() % 2 == 0] for y in columns], k, E
    )


def unary(k: int, p: Number, q: Number) -> list[list[Number]]:
    def chance(x: int, bits: Sequence[int]) -> Number:
        ones = [p if cell == x else q for cell in range(k)]
        return prod(one if bit else 1 - one for one, bit in zip(ones, bits, strict=True))

    return [[chance(x, bits) for bits in product((0, 1), repeat=k)] for x in range(k)]


def binned(cdf: Callable[[arb], arb], ends: Sequence[float]) -> Law:
    """Return the law of the bin of a report; binning never increases delta."""
    below = [arb(0), *(cdf(arb(end)) for end in ends), arb(1)]
    return reporting([high - low for low, high in pairwise(below)])


def laplace(budget: float, record: float) -> Callable[[arb], arb]:
    def cdf(y: arb) -> arb:
        z = (y - record) * budget
        return z.exp() / 2 if z < 0 else 1 - (-z).exp() / 2

    return cdf


def normal(mu: float, record: float) -> Callable[[arb], arb]:
    return lambda y: (1 + ((y - record) * mu / arb(2).sqrt()).erf()) / 2


def geometric(eps: float, nu: int | None, reach: int) -> Mapping[int, arb]:
    """Return theta^|z| from -nu (None: unbounded) to reach, where theta = exp(-eps/2)."""
    theta = (-arb(eps) / 2).exp()
    odds = theta / (1 - theta)
    mass = 1 + 2 * odds if nu is None else 1 + odds + odds * (1 - theta**nu)
    low = -reach if nu is None else -min(nu, reach)
    return {z: theta ** abs(z) / mass for z in range(low, reach + 1)}


def discrete_gaussian(sigma: float, nu: int | None, reach: int) -> Mapping[int, arb]:
    """Return exp(-z^2 / (2 sigma^2)) from -nu (None: unbounded) to reach, normalised."""
    rate = 1 / (2 * arb(sigma) ** 2)
    low, far = -reach if nu is None else -min(nu, reach), int(40.0 * sigma) + 10
    lowest = -far if nu is None else -min(nu, far)
    # The terms beyond 40 standard deviations are far below the precision of the balls.
    mass = sum((((-rate) * z**2).exp() for z in range(lowest, far + 1)), arb(0, 1e-300))
    return {z: (-rate * z**2).exp() / mass for z in range(low, reach + 1)}


def summed(
    one: Mapping[int, arb], two: Mapping[int, arb], some: range, left: arb
) -> dict[int, arb]:
    """Return balls around the law of the sum of two noises, of which mass ``left`` is missing."""
    beyond = arb(0).union(left)
    return {z: sum((p * two[z - j] for j, p in one.items() if z - j in two), beyond) for z in some}


def noisy_pair(noise: Mapping[int, arb], ends: bool) -> list[tuple[arb, arb]]:
    """Return the pair of laws of two noisy counts, a record in the first against the second.

    ``ends``: whether no noise is below the smallest given.
    """
    low, high = min(noise), max(noise)
    zero = arb(0)
    # If the noise continues beyond, outcomes with only one known probability are left out.
    counts = range(low if ends else low + 1, high + 1)
    return [
        (noise.get(a - 1, zero) * noise[b], noise[a] * noise.get(b - 1, zero))
        for a in counts
        for b in counts
    ]


def gaussian(eps: float, sigma: float) -> arb:
    """Return delta of two Gaussians sqrt(2) apart; deep in the tail the ball is trivial."""
    with ctx.workprec(8 * BITS):
        root = arb(2).sqrt()
        mu = root / sigma
        x = eps / mu - mu / 2
        return ((x / root).erfc() - arb(eps).exp() * ((x + mu) / root).erfc()) / 2


def dummies_pair(chances: int, k: int, rate: arb) -> list[tuple[arb, arb]]:
    """Return the pair of laws of the dummies (B0, B1) and one true report."""
    law, q = {(0, 0): arb(1)}, rate / k
    for _ in range(chances):
        law = joined(law, {(1, 0): q, (0, 1): q, (0, 0): 1 - 2 * q})
    first, second = (joined(law, {unit(2, cell): arb(1)}) for cell in (0, 1))
    keys = first.keys() | second.keys()
    return [(first.get(key, arb(0)), second.get(key, arb(0))) for key in keys]
