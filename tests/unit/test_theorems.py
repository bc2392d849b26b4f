"""Composition theorems against exact enumeration and against each other."""

from fractions import Fraction
from itertools import product
from math import exp, expm1, inf, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from shuffledp.accounting.laws.binomial import log_pmf
from shuffledp.papers.literature import theorems


def enumerated(e: Fraction, E: Fraction, delta: Fraction, rounds: int) -> Fraction:
    """Return delta at eps = log e by enumerating the dominating mechanism of Kairouz et al.

    In each round the outcome reveals the record with probability delta, and otherwise is one bit,
    right with odds E.
    """
    p = {
        "away": delta,
        "right": (1 - delta) * E / (1 + E),
        "wrong": (1 - delta) / (1 + E),
        "other": Fraction(0),
    }
    mirrored = {"away": "other", "right": "wrong", "wrong": "right", "other": "away"}
    total = Fraction(0)
    for outcome in product(p, repeat=rounds):
        first = second = Fraction(1)
        for symbol in outcome:
            first *= p[symbol]
            second *= p[mirrored[symbol]]
        total += max(first - e * second, Fraction(0))
    return total


@pytest.mark.parametrize("rounds", [1, 2, 3, 5])
@pytest.mark.parametrize("delta", [Fraction(0), Fraction(1, 50)])
def test_optimal_composition_equals_enumeration(rounds: int, delta: Fraction) -> None:
    step_log_delta = log(delta) if delta else -inf
    for E, share in product((Fraction(11, 10), Fraction(3)), (0, 1, 2, 3)):
        e = 1 + (E**rounds - 1) * Fraction(share, 4)
        exact = enumerated(e, E, delta, rounds)
        got = float(theorems.kov_log_delta(log(e), log(E), step_log_delta, rounds))
        assert got == pytest.approx(log(exact), abs=1e-12)


def test_window_of_many_rounds_loses_nothing() -> None:
    """For 100,000 rounds a window replaces the sum over every count."""
    rounds, step_eps = 100_000, 0.004
    j = np.arange(rounds + 1.0)
    p = 1 / (1 + exp(-step_eps))
    for eps in (0.1, 5.0, 50.0, 300.0):
        used = j[(2 * j - rounds) * step_eps > eps]
        gain = np.log(-np.expm1(eps - (2 * used - rounds) * step_eps))
        full = logsumexp(log_pmf(used, rounds, p) + gain)
        got = theorems.kov_log_delta(eps, step_eps, -inf, rounds)
        assert got == pytest.approx(full, rel=1e-12)


def test_values_by_hand() -> None:
    step = (0.1, log(1e-6), 100)
    assert theorems.basic_epsilon(log(1e-3), *step) == pytest.approx(10.0, rel=1e-15)
    assert theorems.basic_epsilon(log(0.9e-4), *step) == inf
    # slack 1e-3 - 1e-4: .1 sqrt(200 log(1/9e-4)) + 10 (e^.1 - 1)
    expected = 0.1 * sqrt(200 * log(1 / 9e-4)) + 10 * expm1(0.1)
    assert theorems.advanced_epsilon(log(1e-3), *step) == pytest.approx(expected, rel=1e-13)
    assert theorems.advanced_epsilon(log(1e-4), *step) == inf
    assert theorems.advanced_log_delta(expected, *step) == pytest.approx(log(1e-3), rel=1e-12)
    # One round of a pure mechanism: (E - e)/(E + 1).
    assert theorems.kov_log_delta(log(2), log(3), -inf, 1) == pytest.approx(log(1 / 4), rel=1e-13)


@given(
    step_eps=st.floats(1e-4, 3.0),
    step_log_delta=st.floats(-800.0, -3.0),
    rounds=st.integers(1, 3000),
    gap=st.floats(0.01, 300.0),
)
def test_optimal_is_never_above_the_others(
    step_eps: float, step_log_delta: float, rounds: int, gap: float
) -> None:
    step = (step_eps, step_log_delta, rounds)
    log_delta = min(step_log_delta + log(rounds) + gap, 0.0)
    best = float(theorems.kov_epsilon(log_delta, *step))
    assert 0 <= best <= rounds * step_eps
    assert best <= theorems.basic_epsilon(log_delta, *step) * (1 + 1e-12)
    assert best <= theorems.advanced_epsilon(log_delta, *step) * (1 + 1e-12)
    assert theorems.kov_log_delta(best, *step) <= log_delta
    assert theorems.kov_log_delta(best, *step) <= (theorems.advanced_log_delta(best, *step) + 1e-12)
