"""Certified ends of every randomiser against brute force in exact rationals over small data sets.

Here a randomiser is a stochastic matrix built from its definition, report by report; the package
uses only which reports support each of three records.
"""

from collections import defaultdict
from fractions import Fraction
from functools import cache, partial
from itertools import combinations_with_replacement, permutations
from math import log

import numpy as np
import pytest

from oracle import enumerated
from oracle.exact import hockey_stick
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms import hadamard, local_hashing, subset_selection, unary_encoding
from shuffledp.mechanisms.matrix import MatrixRandomiser

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
@pytest.mark.parametrize(
    "e",
    [
        Fraction(5, 4),
        pytest.param(Fraction(1), marks=pytest.mark.slow),
        pytest.param(Fraction(9, 4), marks=pytest.mark.slow),
    ],
)
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
