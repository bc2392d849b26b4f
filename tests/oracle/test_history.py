"""Ledgers of different rounds, against exact rationals for every choice of records."""

from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import product
from math import exp, inf, log

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle.test_ends import is_at_least
from oracle.test_profile import (
    E,
    delta_of,
    of_both,
    of_rows,
    of_shuffler_dummies,
    of_user_dummies,
)
from oracle.test_randomisers import MADE_UP, krr_rows
from shuffledp.accounting.accountant import curve
from shuffledp.accounting.additive import GeometricNoise
from shuffledp.accounting.composition import compose_rounds
from shuffledp.accounting.curve import UpperCurve
from shuffledp.accounting.rounds.outcome_bundles import DEFAULT_DEPTH
from shuffledp.accounting.rounds.sums import log_hockey_stick
from shuffledp.accounting.rounds.tradeoff import gdp_loss, gdp_upper_log_delta
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.discrete_laplace import DiscreteLaplace, DiscreteLaplaceParameters
from shuffledp.mechanisms.gaussian import CentralGaussian, GaussianParameters
from shuffledp.mechanisms.matrix import MatrixRandomiser
from shuffledp.mechanisms.shuffler_dummies import ShufflerDummies, ShufflerDummiesParameters
from shuffledp.mechanisms.target_calibration import Released
from shuffledp.mechanisms.user_dummies import UserDummies, UserDummiesParameters
from shuffledp.papers.literature.theorems import kov_log_delta

THETA, RATE = Fraction(3, 5), Fraction(3, 4)
# Budgets are rounded up, so that delta is at least that of the ratio.
EPS0 = float(np.nextafter(log(E), inf))
NOISE = DiscreteLaplaceParameters(float(np.nextafter(-2.0 * log(THETA), inf)))


def of_discrete_laplace():
    """Return the law of whether each of two cells is above the centre of the noise."""
    more, less = 1 / (1 + THETA), THETA / (1 + THETA)
    bit = ((more, less), (less, more))
    return {of_both(bit, bit)}


# The setting of a round, and its laws for every data set and neighbour.
ROUNDS = {
    "k-RR, 3 cells": (Setting(3, 3, EPS0), lambda: of_rows(krr_rows(3), 3)),
    "k-RR, 2 cells": (Setting(3, 2, EPS0), lambda: of_rows(krr_rows(2), 3)),
    "dummies by users": (
        Setting(3, 2, mechanism=Released(UserDummies(), UserDummiesParameters(0.75, 1))),
        lambda: of_user_dummies(3, 2, RATE),
    ),
    "dummies by the shuffler": (
        Setting(
            2,
            2,
            mechanism=Released(ShufflerDummies(), ShufflerDummiesParameters(-2.0 * log(THETA), 2)),
        ),
        lambda: of_shuffler_dummies(2, 2, THETA, 2, far=45),
    ),
    "discrete Laplace": (
        Setting(2, 2, mechanism=Released(DiscreteLaplace(), NOISE)),
        of_discrete_laplace,
    ),
    "a matrix": (
        Setting(2, 2, mechanism=MatrixRandomiser(np.array(MADE_UP[:2], np.float64))),
        lambda: of_rows(MADE_UP[:2], 2),
    ),
}
SHARES = [Fraction(1), Fraction(3, 2), Fraction(5, 2), Fraction(7, 2)]
# The upper end may exceed the truth, since the weak adversary sees more than the histogram.
HISTORIES = [
    (("k-RR, 2 cells", "dummies by users"), 1.3),
    (("dummies by users", "discrete Laplace"), 1.01),
    (("k-RR, 3 cells", "discrete Laplace"), 2.0),
    pytest.param(("dummies by users", "dummies by the shuffler"), 1.01, marks=pytest.mark.slow),
    pytest.param(("k-RR, 2 cells", "dummies by the shuffler"), 1.3, marks=pytest.mark.slow),
    pytest.param(("a matrix", "k-RR, 3 cells", "discrete Laplace"), 3.0, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("names", "most"), HISTORIES)
def test_rounds_that_differ_are_enclosed(names, most):
    ledger = curve([ROUNDS[name][0] for name in names])
    laws = [reduce(of_both, chosen) for chosen in product(*(ROUNDS[name][1]() for name in names))]
    for e in SHARES:
        worst = max(delta_of(law, e) for law in laws)
        ends = ledger.log_delta(max(float(np.nextafter(log(e), 0.0)), 0.0))
        assert is_at_least(ends.upper, worst), (e, ends, float(worst))
        assert exp(ends.upper) <= most * float(worst)
        lower = ledger.log_delta(float(np.nextafter(log(e), 9.0))).lower
        assert exp(lower) <= float(worst) * (1 + 1e-8)
        assert lower > log(worst) - 1.5


@pytest.mark.parametrize("name", ["k-RR, 3 cells", "k-RR, 2 cells", "discrete Laplace"])
def test_a_ledger_of_equal_rows_is_a_setting_over_rounds(name):
    setting, _ = ROUNDS[name]
    ledger = [setting, replace(setting, rounds=2), setting]
    assert curve(ledger).log_delta(0.9) == curve(replace(setting, rounds=4)).log_delta(0.9)


@settings(max_examples=examples(5))
@given(
    st.lists(st.tuples(st.sampled_from(sorted(ROUNDS)), st.integers(1, 3)), min_size=2, max_size=4),
    st.floats(0.0, 3.0),
    st.randoms(use_true_random=False),
)
def test_the_order_of_rows_does_not_matter_and_every_row_adds(rows, eps, random):
    ledger = [replace(ROUNDS[name][0], rounds=rounds) for name, rounds in rows]
    whole = curve(ledger).log_delta(eps)
    mixed = curve(random.sample(ledger, len(ledger))).log_delta(eps)
    assert mixed.upper == pytest.approx(whole.upper, rel=1e-9, abs=1e-12)
    part = curve(ledger[:-1]).log_delta(eps * (1.0 + 1e-3))
    assert part.upper <= whole.upper + 1e-3
    assert whole.lower is None or whole.lower <= whole.upper


def test_rounds_of_gaussian_noise_are_exact():
    rounds = [
        Setting(100, 4, rounds=count, mechanism=Released(CentralGaussian(), GaussianParameters(s)))
        for s, count in [(10.0, 3), (20.0, 5), (7.0, 1)]
    ]
    mu = float(np.sqrt(2.0 * (3 / 100 + 5 / 400 + 1 / 49)))
    for eps in (0.1, 1.0):
        ends, truth = curve(rounds).log_delta(eps), gdp_upper_log_delta(eps, mu)
        assert ends.upper == pytest.approx(truth, rel=1e-9)
        assert ends.lower == pytest.approx(truth, rel=1e-9)
        assert ends.lower < ends.upper


@pytest.mark.parametrize(("mu", "rounds"), [(0.3, 4), (2.0, 9), (1e-3, 1)])
def test_the_loss_of_gaussian_noise_encloses_its_rounds(mu, rounds):
    loss, whole = gdp_loss(mu), mu * rounds**0.5
    (up,) = loss.up(None, DEFAULT_DEPTH)
    (down,) = loss.down[0](mu / 1000)
    for eps in (0.0, 0.5 * whole, 3.0 * whole):
        truth = gdp_upper_log_delta(eps, whole)
        assert truth - 1e-9 <= log_hockey_stick([(up, rounds)], eps).high <= truth + 1e-3
        assert truth - 1e-2 <= log_hockey_stick([(down, rounds)], eps).low <= truth + 1e-9


@pytest.mark.parametrize(("budget", "nu"), [(0.7, 5), (0.01, 900), (4.0, 0), (1.0, inf)])
def test_the_loss_of_geometric_noise_is_that_of_one_round_and_of_several(budget, nu):
    once = compose_rounds([(UpperCurve(inf, upper=lambda eps: -1.0), 1)])
    assert once.upper(0.0) == -1.0
    noise = GeometricNoise(budget, nu=nu)
    loss = noise.cell_losses.loss()
    for eps in (0.0, 0.3 * budget, 0.9 * budget):
        truth = noise.curve().log_delta(eps)
        for step in (None, budget / 77.0):
            ends = log_hockey_stick([(law, 1) for law in loss.up(step, DEFAULT_DEPTH)], eps).high
            assert truth.lower - 1e-9 <= ends <= truth.upper + (1e-9 if step is None else 2e-2)
        ends = log_hockey_stick([(law, 1) for law in loss.down[0](budget / 777.0)], eps).low
        assert truth.lower - 2e-2 <= ends <= truth.upper
        if nu == inf:
            several = log_hockey_stick([(law, 9) for law in loss.up(None, DEFAULT_DEPTH)], eps)
            truth = float(kov_log_delta(eps, 0.5 * budget, -inf, 18))
            assert several.high == pytest.approx(truth, rel=1e-9)


def test_the_loss_of_two_cells_is_that_of_one_round():
    noise = GeometricNoise(0.5, nu=30, servers=2)
    loss, log_delta = noise.cell_losses.loss(), noise.curve().upper
    for eps in (0.0, 0.2, 0.45):
        laws = [(law, 1) for law in loss.up(None, DEFAULT_DEPTH)]
        assert log_delta(eps) - 1e-9 <= log_hockey_stick(laws, eps).high <= log_delta(eps) + 1e-2


def test_wrong_ledgers_are_refused():
    with pytest.raises(InputError, match="from 1 to 1,000,000 rounds, got 0"):
        curve([])
    with pytest.raises(InputError, match="from 1 to 1,000,000 rounds, got 1,000,001"):
        curve([Setting(10, 3, 1.0, rounds=10**6), Setting(11, 3, 1.0)])
    with pytest.raises(InputError, match=r"at most 1,000 distinct rounds, got 1,001"):
        curve([Setting(10 + i, 3, 1.0) for i in range(1001)])
    with pytest.raises(InputError, match="certified curve only, got bound=upper"):
        curve([Setting(10, 3, 1.0), Setting(11, 3, 1.0)], "upper")
    with pytest.raises(InputError, match="response rate applies to one round"):
        curve([Setting(10, 3, 1.0, response_rate=0.5), Setting(11, 3, 1.0)])


def test_one_round_without_privacy_makes_the_ledger_infinite():
    nothing = UpperCurve(2.0, upper=lambda eps: -inf if eps >= 2.0 else 0.0)
    composed = compose_rounds([(nothing, 1), (replace(nothing, budget=3.0), 2)])
    assert composed.log_delta([7.9, 8.0]).upper.tolist() == [0.0, -inf]
