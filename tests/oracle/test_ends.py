"""Certified ends of randomisers whose eps0 is computed, where rounding could make them false.

Random small matrices and unary encodings, at eps down to the last digit of eps0, against brute
force over all data sets. Floats are treated as exact rationals, and rows are divided by their exact
sums; exp(eps) is enclosed by rationals to 80 digits. Nothing is compared up to a tolerance.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from math import inf, isfinite, nextafter

import numpy as np
import pytest

from oracle.test_randomisers import merged, unary_rows, worst_delta
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.matrix import MatrixRandomiser
from shuffledp.mechanisms.randomiser import Randomiser
from shuffledp.mechanisms.unary_encoding import UnaryEncoding

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
    k, reports = [(2, 2), (2, 3), (3, 3), (3, 4)][rng.integers(4)]
    rows = rng.dirichlet(np.ones(reports), k)
    kind = rng.choice(["plain", "plain", "zeros", "the same", "extreme", "near"])
    if kind == "zeros":
        rows[rng.integers(k), rng.integers(1, reports)] = 0.0
        rows[rng.integers(k), rng.integers(1, reports)] = 0.0
        rows[:, ~rows.any(axis=0)] = 0.1
    elif kind == "the same":
        rows[0] = rows[-1]
    elif kind == "extreme":
        rows[rng.integers(k), rng.integers(reports)] = 10.0 ** rng.uniform(-9.0, -2.0)
    elif kind == "near":
        rows = rows[:1] * (1.0 + 10.0 ** rng.uniform(-15.0, -4.0) * rng.normal(size=rows.shape))
    rows = rows / rows.sum(axis=1, keepdims=True)
    if rng.integers(3) == 0:  # sums of 1 within 1e-9
        rows *= 1.0 + rng.uniform(-9e-10, 9e-10, (k, 1))
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


SEEDS = [
    *range(24),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(24, 200)),
]


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
