"""Certified ends of every randomiser against brute force in exact rationals over small data sets.

Here a randomiser is a stochastic matrix built from its definition, report by report; the package
uses only which reports support each of three records. In the second part rounding could make the
ends of random small matrices and unary encodings false, at eps down to the last digit of eps0.
There, floats are treated as exact rationals, and rows are divided by their exact sums; exp(eps) is
enclosed by rationals to 80 digits. Nothing is compared up to a tolerance.
"""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import cache, partial
from itertools import combinations_with_replacement, permutations
from math import inf, isfinite, log, nextafter

import numpy as np
import pytest
from effort import long

from oracle import enumerated
from oracle.enumerated import random_rows
from oracle.exact import hockey_stick
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms import hadamard, local_hashing, subset_selection, unary_encoding
from shuffledp.mechanisms.matrix import MatrixRandomiser
from shuffledp.mechanisms.randomiser import Randomiser
from shuffledp.mechanisms.unary_encoding import UnaryEncoding

E = Fraction(3)
EPS0 = log(3)


def ends(eps, n, randomiser):
    """Return both certified ends of log delta."""
    return randomiser.curve(Setting(n, randomiser.k, mechanism=randomiser)).log_delta(eps)


krr_rows, subset_rows, hashing_rows, hadamard_rows = (
    partial(rows, E=E)
    for rows in (enumerated.krr, enumerated.subsets, enumerated.hashing, enumerated.hadamard)
)
unary_rows = enumerated.unary
MADE_UP = [
    [Fraction(v, 40) for v in row] for row in ([20, 10, 6, 4], [5, 15, 10, 10], [10, 8, 10, 12])
]


def merged(rows):
    """Merge reports with proportional columns, which carry the same information."""
    columns = defaultdict(lambda: [Fraction(0)] * len(rows))
    for column in zip(*rows, strict=True):
        key = tuple(entry / sum(column) for entry in column)
        columns[key] = [a + b for a, b in zip(columns[key], column, strict=True)]
    return tuple(zip(*columns.values(), strict=True))


@cache
def shuffled_law(records, rows):
    """Return the law of the counts of reports of the given records."""
    if not records:
        return {(0,) * len(rows[0]): Fraction(1)}
    law = defaultdict(Fraction)
    for counts, weight in shuffled_law(records[:-1], rows).items():
        for report, chance in enumerate(rows[records[-1]]):
            after = (*counts[:report], counts[report] + 1, *counts[report + 1 :])
            law[after] += weight * chance
    return dict(law)


def worst_delta(rows, n, e):
    """Largest delta over all data sets of n users and all replacements of one record."""
    rows = merged(rows)
    worst = Fraction(0)
    for others in combinations_with_replacement(range(len(rows)), n - 1):
        for x, y in permutations(range(len(rows)), 2):
            P, Q = shuffled_law((*others, x), rows), shuffled_law((*others, y), rows)
            worst = max(worst, hockey_stick(P, Q, e))
    return worst


CASES = {
    "k-RR": (subset_selection.SubsetSelection(4, EPS0, 1), krr_rows(4), 5),
    "k-RR, two cells": (subset_selection.SubsetSelection(2, EPS0, 1), krr_rows(2), 5),
    "subsets of 2 of 4": (subset_selection.SubsetSelection(4, EPS0, 2), subset_rows(4, 2), 4),
    "subsets of 2 of 3": (subset_selection.SubsetSelection(3, EPS0, 2), subset_rows(3, 2), 5),
    "OUE": (unary_encoding.optimised(3, EPS0), unary_rows(3, Fraction(1, 2), 1 / (E + 1)), 4),
    "OUE, two cells": (
        unary_encoding.optimised(2, EPS0), unary_rows(2, Fraction(1, 2), 1 / (E + 1)), 5,
    ),
    "unary, p and q": (
        unary_encoding.UnaryEncoding(3, log(5), 0.375),
        unary_rows(3, Fraction(3, 4), Fraction(3, 8)),
        4,
    ),
    "binary hashing": (local_hashing.LocalHashing(3, EPS0, 2), hashing_rows(3, 2), 4),
    "hashing, two cells": (local_hashing.LocalHashing(2, EPS0, 3), hashing_rows(2, 3), 5),
    "OLH": (local_hashing.optimised(3, EPS0), hashing_rows(3, 4), 4),
    "Hadamard": (hadamard.HadamardResponse(3, EPS0), hadamard_rows(3), 5),
    "Hadamard, 4 of 7": (hadamard.HadamardResponse(4, EPS0), hadamard_rows(4), 3),
    "made up": (MatrixRandomiser(np.array(MADE_UP, np.float64)), MADE_UP, 5),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("randomiser", "rows", "n"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("e", [Fraction(1), Fraction(5, 4), Fraction(9, 4)])
def test_the_worst_data_set_is_enclosed(randomiser, rows, n, e):
    interval = ends(log(e), n, randomiser)
    worst = worst_delta(rows, n, e)
    if worst == 0:
        assert interval.lower == -np.inf
        return
    true = log(worst)
    assert interval.lower <= true + 1e-12
    assert interval.upper >= true - 1e-12
    # Neither end is trivial: the local delta is far above.
    local = max(
        sum(max(a - e * b, Fraction(0)) for a, b in zip(rows[x], rows[y], strict=True))
        for x, y in permutations(range(len(rows)), 2)
    )
    assert interval.upper < log(local)
    assert interval.lower > true - 2.0


@pytest.mark.parametrize(("randomiser", "rows", "n"), CASES.values(), ids=CASES)
def test_the_stated_budget_is_that_of_the_matrix(randomiser, rows, n):
    del n
    largest = max(max(column) / min(column) for column in zip(*rows, strict=True))
    assert randomiser.eps0 == pytest.approx(log(largest), rel=1e-14)


# --- Ends next to the last digit of a computed eps0 -----------------------------------------------

DIGITS = Context(prec=80, Emax=10**9, Emin=-(10**9))
Rows = list[list[Fraction]]


def enclosed_exp(eps: float) -> tuple[Fraction, Fraction]:
    middle = Fraction(DIGITS.exp(Decimal(eps)))
    return middle * (1 - Fraction(1, 10**78)), middle * (1 + Fraction(1, 10**78))


def is_at_least(log_value: float, value: Fraction) -> bool:
    """Return whether ``exp(log_value) >= value`` within a relative 1e-78."""
    if value == 0:
        return True
    return log_value != -inf and enclosed_exp(log_value)[1] >= value


def is_at_most(log_value: float, value: Fraction) -> bool:
    return log_value == -inf or enclosed_exp(log_value)[0] <= value


@dataclass(frozen=True)
class Case:
    """A randomiser with its matrix, the number of users and eps."""

    randomiser: Randomiser
    rows: Rows
    n: int
    eps: float


def exact_rows(given: np.ndarray) -> Rows:
    rows = [[Fraction(float(entry)) for entry in row] for row in given]
    return [[entry / sum(row) for entry in row] for row in rows]


def draw_matrix(rng: np.random.Generator) -> tuple[Randomiser, Rows]:
    rows = random_rows(rng)
    return MatrixRandomiser(rows), exact_rows(rows)


def draw_unary(rng: np.random.Generator) -> tuple[Randomiser, Rows]:
    q, eps0 = float(rng.uniform()), float(10.0 ** rng.uniform(-12.0, 1.0))
    k, share = int(rng.integers(2, 4)), Fraction(q)
    ratio = Fraction(DIGITS.exp(Decimal(eps0)))
    p = share * ratio / (1 - share + share * ratio)
    return UnaryEncoding(k, eps0, q), unary_rows(k, p, share)


def true_budget(rows: Rows) -> Decimal:
    """Return the largest log-ratio of positive entries of a column."""
    positive = [[entry for entry in column if entry] for column in zip(*rows, strict=True)]
    ratio = max(max(column) / min(column) for column in positive)
    quotient = DIGITS.divide(Decimal(ratio.numerator), Decimal(ratio.denominator))
    return DIGITS.ln(quotient)


def draw_eps(rng: np.random.Generator, budget: float) -> float:
    """Draw an eps, mostly next to the budget, on either side."""
    kind = rng.integers(6)
    if kind == 0:
        return float(rng.choice([0.0, 0.5 * budget, 1.5 * budget]))
    if kind == 1:
        return budget
    if kind == 2:
        return nextafter(budget, rng.choice([0.0, inf]))
    return budget * (1.0 - 10.0 ** rng.uniform(-16.0, -1.0))


def case(seed: int, draw: Callable[[np.random.Generator], tuple[Randomiser, Rows]]) -> Case:
    rng = np.random.default_rng(seed)
    randomiser, rows = draw(rng)
    eps = draw_eps(rng, float(true_budget(rows)))
    most = 4 if len(merged(rows)[0]) <= 4 else 3
    return Case(randomiser, rows, int(rng.integers(1, most + 1)), max(eps, 0.0))


SEEDS = [*range(24), *map(long, range(24, 200))]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("draw", [draw_matrix, draw_unary])
@pytest.mark.parametrize("seed", SEEDS)
def test_both_ends_hold_to_the_last_digit(seed, draw):
    asked = case(seed, draw)
    setting = Setting(asked.n, asked.randomiser.k, mechanism=asked.randomiser)
    ends = asked.randomiser.curve(setting).log_delta(asked.eps)
    below, above = enclosed_exp(asked.eps)
    assert is_at_least(ends.upper, worst_delta(asked.rows, asked.n, above))
    assert is_at_most(ends.lower, worst_delta(asked.rows, asked.n, below))


@pytest.mark.parametrize("seed", range(200))
def test_a_computed_budget_is_rounded_up(seed):
    randomiser, rows = draw_matrix(np.random.default_rng(seed))
    true = true_budget(rows)
    assert Decimal(randomiser.horizon) >= true
    assert Decimal(randomiser.horizon) <= true * Decimal("1.00000001") + Decimal("1e-13")
    assert isfinite(randomiser.eps0) == all(min(row) > 0 for row in rows)
