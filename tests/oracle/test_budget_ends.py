"""Deltas next to the budget of all rounds, where they vanish, against exact rationals."""

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from shuffledp import queries
from shuffledp.accounting.additive import GeometricNoise
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.discrete_laplace import DiscreteLaplaceParameters
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.mechanisms.target_calibration import Released, calibrated
from shuffledp.numerics.arrays import quotient_down, sum_up

FLOATS = st.floats(1e-200, 300.0)


def exact_noise(eps: float, budget: float, rounds: int) -> arb:
    """Return log delta of two-sided geometric noise on two cells over rounds, in balls.

    Each of the 2 * rounds noisy cells has a loss of plus or minus half the budget.
    """
    with ctx.workprec(4000):
        half = arb(budget) / 2
        up = 1 / (1 + (-half).exp())
        total = arb(0)
        for net in range(1, rounds + 1):
            if Fraction(budget) * net > Fraction(eps):
                ways = arb(comb(2 * rounds, rounds + net))
                mass = ways * up ** (rounds + net) * (1 - up) ** (rounds - net)
                total += mass * (1 - (arb(eps) - net * arb(budget)).exp())
        return total.log() if total > 0 else arb("-inf")


@given(st.lists(st.tuples(st.integers(1, 10**6), FLOATS), min_size=1, max_size=5))
def test_a_sum_is_rounded_up_to_the_next_float(terms):
    exact = sum(count * Fraction(value) for count, value in terms)
    total = sum_up(terms)
    assert Fraction(total) >= exact
    assert Fraction(float(np.nextafter(total, 0.0))) < exact


@given(FLOATS, st.integers(1, 10**6))
def test_a_quotient_is_rounded_down(value, count):
    quotient = quotient_down(value, count)
    assert Fraction(quotient) * count <= Fraction(value)
    assert Fraction(float(np.nextafter(quotient, np.inf))) * count > Fraction(value)


@given(FLOATS, st.integers(1, 10**6))
def test_a_setting_has_the_budget_of_its_rounds_rounded_up(eps0, rounds):
    budget = Setting(10, 3, eps0, rounds).budget
    exact = rounds * Fraction(eps0)
    assert Fraction(budget) >= exact > Fraction(float(np.nextafter(budget, 0.0)))


@pytest.mark.parametrize(
    ("setting", "eps", "truth"),
    [
        (Setting(1, 2, 0.7, rounds=3), 2.0999999999999996, 6.6e-17),
        (Setting(2, 3, 281.8771917354847, rounds=999_999), 281876909.85829294, 2.7e-8),
    ],
)
def test_delta_is_positive_up_to_the_exact_budget_of_all_rounds(setting, eps, truth):
    assert queries.delta(eps, setting).upper >= truth
    assert queries.delta(setting.budget, setting).upper == 0.0


def test_a_ledger_has_the_exact_sum_of_its_budgets():
    # The exact sum of 0.1, 0.2 and 0.3 is above the float 0.6.
    ledger = [Setting(1, 2, eps0) for eps0 in (0.1, 0.2, 0.3)]
    assert queries.delta(0.6, ledger).upper > 0.0
    assert queries.delta(0.6000000000000001, ledger).upper == 0.0


@given(st.floats(1e-6, 20.0), st.integers(2, 30), st.floats(0.0, 1.1))
def test_noise_over_rounds_is_exact_and_never_below_the_truth(budget, rounds, share):
    eps = share * rounds * budget
    ends = GeometricNoise(budget).curve(rounds).upper(eps)
    with ctx.workprec(4000):
        truth = exact_noise(eps, budget, rounds)
        if ends == -np.inf:
            assert Fraction(eps) >= rounds * Fraction(budget)
        else:
            assert arb(ends) >= truth
            assert arb(ends) - truth <= 1e-11 * (1.0 + abs(ends))


@pytest.mark.parametrize("rounds", [2, 3, 7, 52])
def test_noise_next_to_its_budget_keeps_its_digits(rounds):
    budget = 1.0 / 3.0
    eps = float(np.nextafter(rounds * budget, 0.0))
    ends = GeometricNoise(budget).curve(rounds).upper(eps)
    with ctx.workprec(4000):
        truth = exact_noise(eps, budget, rounds)
        if Fraction(eps) < rounds * Fraction(budget):
            assert 0 <= arb(ends) - truth <= 1e-11 * abs(ends)


def test_a_calibrated_budget_of_rounds_is_not_rounded_up():
    # The float 5 / 3 exceeds a third of 5, so three such rounds are not (5, 0)-DP.
    setting = Setting(1000, 10, rounds=3)
    parameters = calibrated(MECHANISMS["discrete-laplace"], 5.0, float(np.log(1e-20)), setting)
    with ctx.workprec(4000):
        assert not exact_noise(5.0, parameters.eps, 3) > arb(1e-20).log()


def test_rounds_that_fill_their_budget_have_delta_zero():
    how = Released(MECHANISMS["discrete-laplace"], DiscreteLaplaceParameters(4.0))
    setting = Setting(1000, 10, rounds=2, mechanism=how)
    assert queries.delta(8.0, setting).upper == 0.0
