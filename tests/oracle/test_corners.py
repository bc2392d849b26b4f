"""Certified ends where floats are short of digits, against mpmath, balls and exact rationals."""

from decimal import Decimal
from fractions import Fraction
from math import comb, inf, nextafter, sqrt

import numpy as np
import pytest
from effort import examples, long
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import erfc, exp, expm1, log, log1p, mp, mpf
from mpmath import sqrt as root

from oracle import enumerated, high_precision
from shuffledp import Setting, epsilon, log_delta, mechanism, queries
from shuffledp.accounting.additive import GeometricNoise
from shuffledp.accounting.conventions import log_of_delta
from shuffledp.accounting.rounds.privacy_loss import LossDistribution
from shuffledp.accounting.rounds.sums import log_hockey_stick
from shuffledp.mechanisms.discrete_laplace import DiscreteLaplaceParameters
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.mechanisms.target_calibration import Released, calibrated
from shuffledp.numerics.arrays import quotient_down, sum_up


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(400):
        yield


def normal_tail(x):
    return erfc(x / root(mpf(2))) / 2


def gaussian_delta(eps, mu):
    """Return delta of mu-GDP at any eps, also a negative one."""
    return normal_tail(eps / mu - mu / 2) - exp(eps) * normal_tail(eps / mu + mu / 2)


@pytest.mark.parametrize("sigma", [1.2, 1.0])
def test_the_lower_end_of_a_large_eps_is_finite(sigma):
    rounds = 1_000_000
    ends = epsilon(
        1e-6, Setting(1000, 5, rounds=rounds, mechanism=mechanism("gaussian", sigma=sigma))
    )
    mu = root(mpf(2) * rounds) / mpf(sigma)
    below, above = mpf(0), 2 * mu * mu
    for _ in range(120):
        middle = (below + above) / 2
        missed = gaussian_delta(middle, mu) > mpf(1e-6)
        below, above = (middle, above) if missed else (below, middle)
    assert ends.lower <= above <= mpf(ends.upper) * (1 + mpf(10) ** -20)
    assert ends.lower >= 0.999 * min(float(above), 1e6)


@pytest.mark.parametrize(
    "mu", [1e-3, long(1e-6), long(1e-7), long(1e-8), 1e-10, 1e-12, 1e-14, long(1e-17)]
)
def test_tiny_noise_composes_with_tiny_budgets(mu):
    sigma = sqrt(2.0) / mu
    exact_mu = root(mpf(2)) / mpf(sigma)
    for ratio in (0.1, 1.0, 10.0, 100.0):
        eps0 = mu * ratio
        noise = Setting(1, 2, mechanism=mechanism("gaussian", sigma=sigma))
        truthful = 1 / (1 + exp(-mpf(eps0)))
        for eps in (0.0, 5e-324, 1e-9 * mu, 0.3 * mu):
            ends = log_delta(eps, [noise, Setting(1, 2, eps0=eps0)])
            delta = truthful * gaussian_delta(mpf(eps) - mpf(eps0), exact_mu)
            delta += (1 - truthful) * gaussian_delta(mpf(eps) + mpf(eps0), exact_mu)
            assert ends.lower <= log(delta) <= ends.upper
            assert mu < 1e-12 or ends.upper - log(delta) < 0.01


@pytest.mark.parametrize("eps0", [1e-200, 1e-55, 1e-3, 2.0, 20.0, 150.0, 299.7, 300.0])
@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_one_round_of_two_cells(n, eps0):
    setting = Setting(n, 2, eps0=eps0)
    spacing = float(np.spacing(eps0))
    shares = (1e-17, 1e-9, 1e-3, 0.03, 0.148, 0.3, 0.5, 0.7, 0.999)
    near = [eps0 - steps * spacing for steps in (1, 2, 5, 50, 1000, 1e5, 1e9)]
    with ctx.workprec(1400):
        laws = [enumerated.reporting(row) for row in enumerated.krr(2, arb(eps0).exp())]
        for eps in (0.0, 5e-324, *(eps0 * share for share in shares), *near):
            ends = log_delta(eps, setting)
            truth = enumerated.worst(laws, [laws] * (n - 1), eps).log()
            assert ends.lower <= truth <= ends.upper <= 0.0


@given(
    share=st.floats(1e-300, 1.0) | st.floats(0.9, 1.0),
    rounds=st.integers(1, 10**6),
    other=st.sampled_from([0.0, 1e-200, 0.25, nextafter(1.0, 0.0)]),
)
@settings(max_examples=examples(60))
def test_the_probability_of_an_infinite_loss(share, rounds, other):
    laws = [
        (LossDistribution(1.0, 0, np.zeros(1), p), count)
        for p, count in ((share, rounds), (other, 1))
    ]
    ends = log_hockey_stick(laws, 0.0)
    if share == 1.0:
        assert ends.low <= 0.0 <= ends.high
        return
    exact = log(-expm1(rounds * log1p(-mpf(share)) + log1p(-mpf(other))))
    assert ends.low <= exact <= ends.high


@pytest.mark.parametrize(("k", "dummies", "rounds"), [(3, 1e-8, 10), (10, 0.01, 50), (4, 0.5, 3)])
def test_dummies_of_a_single_user_over_rounds(k, dummies, rounds):
    setting = Setting(
        1, k, rounds=rounds, mechanism=mechanism("user-dummies", dummies=dummies, chances=1)
    )
    # The histogram hides the record only if the dummy falls into the neighbour's cell, each round.
    assert log_delta(0.0, setting).upper >= log1p(-((mpf(dummies) / k) ** rounds))


def test_a_budget_larger_than_the_largest_float():
    twice = Setting(5, 3, rounds=2, mechanism=mechanism("discrete-laplace", eps=1.5e308))
    assert log_delta(1e300, twice).upper == 0.0
    assert twice.budget == inf


@given(st.floats(5e-324, 1.0))
@settings(max_examples=examples(200))
def test_the_log_of_delta_is_rounded_down(delta):
    value = log_of_delta(Decimal(delta))
    exact = log(mpf(delta))
    assert value <= exact <= nextafter(value, 1.0)


@pytest.mark.parametrize("eps0", [11.625, 19.0, 39.9, 60.0, 300.0])
@pytest.mark.parametrize("name", ["rappor", "oue"])
def test_a_single_report_of_a_large_local_budget(name, eps0):
    setting = Setting(1, 2, mechanism=mechanism(name, eps0=eps0))
    ratio = exp(mpf(eps0))
    q = 1 / (1 + root(ratio)) if name == "rappor" else 1 / (1 + ratio)
    p = q * ratio / (1 - q + q * ratio)
    for eps in (0.0, 0.5 * eps0, 0.9 * eps0, eps0 - 1e-6, nextafter(eps0, 0.0)):
        # Reports: (1, 0), (0, 1), and both or none, whose probabilities do not differ.
        delta = p * (1 - q) - exp(mpf(eps)) * q * (1 - p)
        ends = log_delta(eps, setting)
        assert ends.lower <= log(delta) <= ends.upper
        assert eps0 > 20.0 or ends.upper - log(delta) < 0.01


# --- Deltas next to the budget of all rounds, where they vanish, in exact rationals ---------------

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


def test_a_round_beside_another_is_never_below_itself():
    """Rounding of the mean of joined outcomes once made the upper end too small by 2e-7."""
    setting = Setting(111, 293, eps0=0.9776108267870488)
    eps = 0.993 * setting.eps0
    high = log_delta(eps, [setting, Setting(10_000, 3, eps0=0.005)]).upper
    truth = high_precision.upper_log_delta(setting.n, setting.k, setting.eps0, eps)
    assert truth <= high <= truth + 0.01


@pytest.mark.parametrize(
    ("loud", "quiet", "eps"),
    [
        (Setting(10, 3, eps0=8), Setting(10**9, 100, eps0=0.1), 4.0),
        (Setting(100, 10, eps0=4), Setting(10**10, 10, eps0=0.01), 2.0),
        (Setting(100, 10, eps0=4), Setting(10**10, 2, eps0=1e-12), 2.0),
    ],
)
def test_rounds_of_very_different_losses_are_composed(loud, quiet, eps):
    """These once took hours, or memory that no machine has."""
    both, alone = log_delta(eps, [loud, quiet]), log_delta(eps, loud)
    assert alone.lower <= both.upper
    assert both.lower <= alone.upper + 1e-3
    assert both.upper - both.lower < 0.02


def test_two_cells_of_a_tiny_budget_and_many_users_are_composed():
    once = Setting(10**10, 2, eps0=1e-12)
    one, two = log_delta(0.0, once), log_delta(0.0, Setting(10**10, 2, eps0=1e-12, rounds=2))
    assert one.lower <= two.upper <= one.upper + np.log(2.0)
    assert log_delta(6e-13, Setting(10**10, 2, eps0=1e-12, rounds=2)).upper < -1e6


def test_rounds_that_fill_their_budget_have_delta_zero():
    how = Released(MECHANISMS["discrete-laplace"], DiscreteLaplaceParameters(4.0))
    setting = Setting(1000, 10, rounds=2, mechanism=how)
    assert queries.delta(8.0, setting).upper == 0.0
