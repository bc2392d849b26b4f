"""Exact-rational oracles for shuffled k-randomised response.

Everything is a ``fractions.Fraction``: parameters are ``E = exp(eps0)`` and ``e = exp(eps)``
themselves, so nothing is rounded. The laws are built from the mechanism (users one after the
other, or the blanket decomposition with its hidden bits), never from the formulae of the package;
the formulae are here only to be compared with the laws. Nothing is imported from the package.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from math import comb, factorial, lcm, prod
from typing import TypeVar

Histogram = tuple[int, ...]
View = tuple[tuple[int, ...], Histogram]
Outcome = TypeVar("Outcome", bound=Hashable)

ZERO = Fraction(0)
ONE = Fraction(1)
# Pairs of exp(eps0) and exp(eps) at which the package is compared with rationals.
RATIOS = [
    (Fraction(3, 2), Fraction(5, 4)),
    (Fraction(3), Fraction(3, 2)),
    (Fraction(20), Fraction(11)),
    (Fraction(55), Fraction(11, 10)),
    (Fraction(3), Fraction(1)),
]


def reports(k: int, E: Fraction) -> tuple[Fraction, Fraction]:
    """Return k-RR's probabilities (p of the truth, q of each other report)."""
    return E / (E + k - 1), 1 / (E + k - 1)


def hockey_stick(
    P: Mapping[Outcome, Fraction], Q: Mapping[Outcome, Fraction], e: Fraction
) -> Fraction:
    """Return sum over outcomes of (P - e Q)_+, the smallest delta for (log e, delta)-DP of P||Q."""
    # One common denominator takes a tenth of the time, since integers are added.
    shared = lcm(*(chance.denominator for law in (P, Q) for chance in law.values()))
    total, (above, below) = 0, e.as_integer_ratio()
    for x, p in P.items():
        q = Q.get(x, ZERO)
        gap = below * p.numerator * (shared // p.denominator)
        gap -= above * q.numerator * (shared // q.denominator)
        total += max(gap, 0)
    return Fraction(total, shared * below)


def _add_one(histogram: Histogram, cell: int) -> Histogram:
    return (*histogram[:cell], histogram[cell] + 1, *histogram[cell + 1 :])


@cache
def _integer_law(records: tuple[int, ...], k: int, truth: int, other: int) -> dict[Histogram, int]:
    """Return the law of the histogram times (truth + (k-1) other)^n."""
    if not records:
        return {(0,) * k: 1}
    law: dict[Histogram, int] = defaultdict(int)
    for histogram, weight in _integer_law(records[:-1], k, truth, other).items():
        for cell in range(k):
            law[_add_one(histogram, cell)] += weight * (truth if cell == records[-1] else other)
    return dict(law)


def histogram_law(records: Sequence[int], k: int, E: Fraction) -> dict[Histogram, Fraction]:
    """Return the exact law of the shuffled histogram of the given records (cells 0..k-1)."""
    a, b = E.numerator, E.denominator
    total = (a + (k - 1) * b) ** len(records)
    # Sorted, so that data sets sharing a beginning share the work.
    law = _integer_law(tuple(sorted(records)), k, a, b)
    return {histogram: Fraction(weight, total) for histogram, weight in law.items()}


def delta_of_dataset(others: Sequence[int], k: int, E: Fraction, e: Fraction) -> Fraction:
    """Return the hockey-stick of P||Q, the target holding cell 0 under P and cell 1 under Q."""
    return hockey_stick(histogram_law([0, *others], k, E), histogram_law([1, *others], k, E), e)


def delta_backward(others: Sequence[int], k: int, E: Fraction, e: Fraction) -> Fraction:
    """Return the hockey-stick of Q||P for the pair of `delta_of_dataset`."""
    return hockey_stick(histogram_law([1, *others], k, E), histogram_law([0, *others], k, E), e)


def compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yield every tuple of `parts` non-negative integers adding up to `total`."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in compositions(total - first, parts - 1):
            yield (first, *rest)


def records_of(counts: Sequence[int]) -> list[int]:
    return [cell for cell, count in enumerate(counts) for _ in range(count)]


@cache
def worst_delta(n: int, k: int, E: Fraction, e: Fraction) -> tuple[Fraction, Histogram]:
    """Return the largest delta over all pairs of neighbours, and counts of the others reaching it.

    Names of cells carry no meaning, so the pair is (0, 1) and the counts of the other cells come
    in decreasing order. Feasible for n <= 7 and k <= 5.
    """
    best = (Fraction(-1), (0,) * k)
    for counts in compositions(n - 1, k):
        if list(counts[2:]) != sorted(counts[2:], reverse=True):
            continue
        others = records_of(counts)
        delta = max(delta_of_dataset(others, k, E, e), delta_backward(others, k, E, e))
        best = max(best, (delta, counts))
    return best


def view_law(
    records: Sequence[int], k: int, ratios: Sequence[Fraction], revealed: Collection[int]
) -> dict[View, Fraction]:
    """Return the law of (who randomised among the revealed users, shuffled histogram).

    ``ratios`` has exp(eps0) of each user.

    A user tells the truth with probability 1 - gamma, gamma = k/(E+k-1), and otherwise draws
    uniformly from all k cells: the blanket decomposition of k-RR. An adversary who knows the
    others' records sees this view. For tiny n: there are 2^len(revealed) vectors of bits.
    """
    law: dict[View, Fraction] = {((), (0,) * k): ONE}
    for user, (record, E) in enumerate(zip(records, ratios, strict=True)):
        gamma = k / (E + k - 1)
        step: dict[View, Fraction] = defaultdict(lambda: ZERO)
        for (bits, histogram), weight in law.items():
            truth_bits = (*bits, 0) if user in revealed else bits
            blanket_bits = (*bits, 1) if user in revealed else bits
            step[truth_bits, _add_one(histogram, record)] += weight * (1 - gamma)
            for cell in range(k):
                step[blanket_bits, _add_one(histogram, cell)] += weight * gamma / k
        law = dict(step)
    return law


def _seen_delta(
    others: Sequence[int], k: int, E: Fraction, e: Fraction, revealed: Collection[int]
) -> Fraction:
    ratios = [E] * (len(others) + 1)
    laws = [view_law([record, *others], k, ratios, revealed) for record in (0, 1)]
    return hockey_stick(laws[0], laws[1], e)


def weak_view_delta(others: Sequence[int], k: int, E: Fraction, e: Fraction) -> Fraction:
    """Return delta when the adversary also sees which of the others randomised (tiny n)."""
    return _seen_delta(others, k, E, e, range(1, len(others) + 1))


def strong_view_delta(others: Sequence[int], k: int, E: Fraction, e: Fraction) -> Fraction:
    """Return delta when the adversary sees who randomised, the target included (tiny n)."""
    return _seen_delta(others, k, E, e, range(len(others) + 1))


def one_hidden_delta(hidden: int, n: int, E: Fraction, e: Fraction) -> Fraction:
    """Return delta for k = 3 if one sees who randomised, except for one other user.

    That user holds the cell `hidden`, and all further users hold the third cell.
    """
    return _seen_delta([hidden] + [2] * (n - 2), 3, E, e, range(2, n))


def weak_pair(
    n: int, k: int, E: Fraction
) -> tuple[dict[Histogram, Fraction], dict[Histogram, Fraction]]:
    """Return the laws of what the weak adversary sees: counts of n1, n2, n3 and truthful reports.

    The first three count the uniform reports and the target's in x0, in x1 and elsewhere.
    """
    q = 1 / (E + k - 1)
    P, Q = {}, {}
    for counts in compositions(n, 4):
        weight = _multinomial(counts, (q, q, (k - 2) * q, (E - 1) * q)) / n
        uniform = sum(counts[:3])
        P[counts] = weight * ((E - 1) * counts[0] + uniform)
        Q[counts] = weight * ((E - 1) * counts[1] + uniform)
    return P, Q


def upper_delta(n: int, k: int, E: Fraction, e: Fraction) -> Fraction:
    """Return (1/n) E[((E-1)(n1 - e n2) - (e-1) m)_+] by enumeration of (n1, n2, n3); n <= 30."""
    q = 1 / (E + k - 1)
    total = ZERO
    for n1, n2, n3, truthful in compositions(n, 4):
        excess = (E - 1) * (n1 - e * n2) - (e - 1) * (n1 + n2 + n3)
        if excess > 0:
            total += excess * _multinomial((n1, n2, n3, truthful), (q, q, (k - 2) * q, (E - 1) * q))
    return total / n


def _multinomial(counts: Sequence[int], cells: Sequence[Fraction]) -> Fraction:
    ways = factorial(sum(counts))
    for count in counts:
        ways //= factorial(count)
    return ways * prod((p**c for p, c in zip(cells, counts, strict=True)), start=ONE)


Atoms = Sequence[tuple[Fraction, Fraction]]


def mean_positive_part(n: int, atoms: Atoms) -> Fraction:
    """Return (1/n) E[(G_1+...+G_n)_+] for i.i.d. G with the given (probability, value) atoms."""
    if sum(p for p, _ in atoms) != 1:
        raise ValueError(f"the atoms' probabilities must add up to 1, got {atoms}")
    cells = [p for p, _ in atoms]
    total = ZERO
    for counts in compositions(n, len(atoms)):
        value = sum((c * g for c, (_, g) in zip(counts, atoms, strict=True)), ZERO)
        if value > 0:
            total += value * _multinomial(counts, cells)
    return total / n


DATASETS = ("third", "same", "other")


def _cell_of(dataset: str, k: int) -> int:
    cells = {"same": 0, "other": 1} | ({"third": 2} if k >= 3 else {})
    if dataset not in cells:
        raise ValueError(f"dataset must be one of {sorted(cells)} for k={k}, got {dataset!r}")
    return cells[dataset]


def lower_delta(n: int, k: int, E: Fraction, e: Fraction, dataset: str) -> Fraction:
    """Return delta, from the mechanism's law, when the others all hold the same cell.

    `dataset` is "third" (cell 2), "same" (cell 0, as the target under P) or "other" (cell 1).
    """
    return delta_of_dataset([_cell_of(dataset, k)] * (n - 1), k, E, e)


def lower_atoms(k: int, E: Fraction, e: Fraction, dataset: str) -> Atoms:
    """Return the atoms of G for a data set whose others all hold the same cell."""
    q = 1 / (E + k - 1)
    match _cell_of(dataset, k):
        case 0:
            return [(E * q, 1 - e / E), (q, 1 - e * E), ((k - 2) * q, 1 - e)]
        case 1:
            return [(q, E - e), (E * q, 1 / E - e), ((k - 2) * q, 1 - e)]
        case _:
            return [(q, E - e), (q, 1 - e * E), ((k - 3) * q, 1 - e), (E * q, (1 - e) / E)]


def _binomial(n: int, p: Fraction) -> list[Fraction]:
    return [comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(n + 1)]


def bin_laws(n: int, k: int, m: int, E: Fraction) -> tuple[list[Fraction], list[Fraction]]:
    """Return the laws over 0..n of the count of bin x0 if the target holds x0, and x1."""
    p, q = reports(k, E)
    others = [ZERO] * (n + 1)
    for i, a in enumerate(_binomial(m, p)):
        for j, b in enumerate(_binomial(n - 1 - m, q)):
            others[i + j] += a * b
    before = [ZERO, *others[:-1]]
    P, Q = ([r * f1 + (1 - r) * f0 for f1, f0 in zip(before, others, strict=True)] for r in (p, q))
    return P, Q


def single_bin(n: int, k: int, m: int, E: Fraction, e: Fraction, direction: str) -> Fraction:
    """Return the hockey-stick of the count of bin x0 alone, m of the others holding x0.

    `direction` is "forward" for P||Q (P: the target holds x0) or "backward" for Q||P.
    """
    P, Q = bin_laws(n, k, m, E)
    pair = {"forward": (P, Q), "backward": (Q, P)}[direction]
    return hockey_stick(dict(enumerate(pair[0])), dict(enumerate(pair[1])), e)


def loss_as_printed(s: int, n: int, k: int, m: int, E: Fraction) -> Fraction:
    """Return exp(v_s) of paper A, Theorem IV.1, letter by letter (m is n_x0)."""
    kappa1 = E * (E + k - 2) / (k - 1)
    kappa2 = (k - 1) / (E + k - 2)
    numerator = denominator = ZERO
    for r in range(s + 1):
        if r < s:
            numerator += (s - r) * comb(m, r) * comb(n - 1 - m, s - 1 - r) * kappa1**r
        denominator += comb(m, r) * comb(n - m, s - r) * kappa1**r
    return kappa2 + (E - kappa2) / (n - m) * numerator / denominator


def single_bin_as_printed(n: int, k: int, m: int, E: Fraction, e: Fraction) -> Fraction:
    """Return paper A's Theorem IV.1 as printed, with the law of M(x0) from the mechanism."""
    P, _ = bin_laws(n, k, m, E)
    losses = [loss_as_printed(s, n, k, m, E) for s in range(n + 1)]
    return sum((p * (1 - e / v) for p, v in zip(P, losses, strict=True) if v > e), ZERO)


def strong_adversary(n: int, k: int, E: Fraction, e: Fraction) -> Fraction:
    """Return the hockey-stick of (N1+1, N2) against (N1, N2+1), (N1, N2) trinomial with q, q.

    This is the strong adversary's delta given that the target told the truth; his own delta,
    `strong_view_delta`, is 1 - gamma times as large.
    """
    return dummies_delta(n - 1, reports(k, E)[1], e)


def _decoy_laws(
    n: int, decoy: Fraction, target: Mapping[tuple[int, int], Fraction]
) -> tuple[dict[tuple[int, int], Fraction], dict[tuple[int, int], Fraction]]:
    """Return the laws of (A + d0, C - A + d1) and of (A + d1, C - A + d0).

    C ~ Bin(n-1, decoy), A ~ Bin(C, 1/2), and (d0, d1) has the law `target`.
    """
    laws: tuple[dict[tuple[int, int], Fraction], ...] = (
        defaultdict(lambda: ZERO),
        defaultdict(lambda: ZERO),
    )
    half = Fraction(1, 2)
    for c, weight in enumerate(_binomial(n - 1, decoy)):
        for (a, share), ((d0, d1), chance) in product(
            enumerate(_binomial(c, half)), target.items()
        ):
            laws[0][a + d0, c - a + d1] += weight * share * chance
            laws[1][a + d1, c - a + d0] += weight * share * chance
    return dict(laws[0]), dict(laws[1])


def clones_delta(n: int, E: Fraction, e: Fraction) -> Fraction:
    """Return the clones bound for any eps0-LDP randomiser: C ~ Bin(n-1, 1/E), D ~ Bern(E/(E+1))."""
    P, Q = _decoy_laws(n, 1 / E, {(1, 0): E / (E + 1), (0, 1): 1 / (E + 1)})
    return hockey_stick(P, Q, e)


def variation_ratio_delta(n: int, k: int, E: Fraction, e: Fraction) -> Fraction:
    """Return the variation-ratio value with k-RR parameters: C ~ Bin(n-1, 2q), target (p, q).

    The target shows up in the first cell with probability p, in the second with q, and nowhere
    otherwise. This is the law of two cells of the histogram of data set "third", hence a lower
    bound.
    """
    p, q = reports(k, E)
    P, Q = _decoy_laws(n, 2 * q, {(1, 0): p, (0, 1): q, (0, 0): 1 - p - q})
    return hockey_stick(P, Q, e)


# --- Dummies and noise on true counts ------------------------------------------------------------


def dummies_law(
    records: Sequence[int], k: int, rate: Fraction, chances: int
) -> dict[Histogram, Fraction]:
    law = {(0,) * k: ONE}
    for record in records:
        law = {_add_one(histogram, record): p for histogram, p in law.items()}
        for _ in range(chances):
            after: dict[Histogram, Fraction] = defaultdict(Fraction)
            for histogram, p in law.items():
                after[histogram] += p * (1 - rate)
                for cell in range(k):
                    after[_add_one(histogram, cell)] += p * rate / k
            law = after
    return law


def dummies_delta(trials: int, q: Fraction, e: Fraction) -> Fraction:
    """Return the hockey-stick of (1 + B0, B1) against (B0, 1 + B1), trinomial with q and q."""
    law = {counts: _multinomial(counts, (q, q, 1 - 2 * q)) for counts in compositions(trials, 3)}
    P = {(b0 + 1, b1): p for (b0, b1, _), p in law.items()}
    Q = {(b0, b1 + 1): p for (b0, b1, _), p in law.items()}
    return hockey_stick(P, Q, e)


def noisy_law(
    records: Sequence[int], k: int, noise: Mapping[int, Fraction]
) -> dict[Histogram, Fraction]:
    """Return the law of true counts and the same noise on every cell, independently."""
    counts = [records.count(cell) for cell in range(k)]
    return {
        tuple(c + z for c, z in zip(counts, drawn, strict=True)): prod(
            (noise[z] for z in drawn), start=ONE
        )
        for drawn in product(noise, repeat=k)
    }


def geometric_law(theta: Fraction, low: int, high: int) -> dict[int, Fraction]:
    """Return theta^|z| on low..high, normalised to its whole mass from low on: tails are missing.

    Without truncation below, give low far out: then they are missing there, too.
    """
    mass = (1 + theta - theta ** (1 - low)) / (1 - theta)
    return {z: theta ** abs(z) / mass for z in range(low, high + 1)}
