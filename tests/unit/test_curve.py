"""Curves with known formulae, the arguments of a Setting, and participation."""

from dataclasses import replace
from math import exp, inf, log

import numpy as np
import pytest

from shuffledp import mechanism, queries
from shuffledp.accounting.accountant import curve as certified
from shuffledp.accounting.composition import compose
from shuffledp.accounting.curve import (
    Composable,
    Curve,
    Interval,
    SearchHints,
    UpperCurve,
    exp_down,
    exp_up,
)
from shuffledp.accounting.participation import with_participation
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.matrix import MatrixRandomiser

BUDGET = 2.0


def two_rr(eps, eps0=BUDGET):
    """Return log delta of one 2-RR report: ``(e^eps0 - e^eps) / (e^eps0 + 1)``."""
    return log((exp(eps0) - exp(eps)) / (exp(eps0) + 1.0)) if eps < eps0 else -inf


ONE = UpperCurve(BUDGET, upper=two_rr, lower=lambda eps: two_rr(eps) - 0.1)


def test_delta_keeps_its_shape_and_both_ends():
    assert ONE.log_delta(0.5) == Interval(two_rr(0.5) - 0.1, two_rr(0.5))
    assert type(ONE.log_delta(0.5).upper) is float
    many = ONE.log_delta([[0.0, 0.5], [1.0, 3.0]])
    assert many.upper.shape == many.lower.shape == (2, 2)
    assert many.upper[1, 1] == many.lower[1, 1] == -inf
    assert replace(ONE, lower=None).log_delta(0.5).lower is None
    with pytest.raises(InputError, match="eps must be at least 0"):
        ONE.log_delta([0.1, -0.1])
    with pytest.raises(InputError, match="eps must be"):
        ONE.log_delta(float("nan"))


@pytest.mark.parametrize("shift", [None, -3.0, 0.0, 3.0])
def test_eps_inverts_both_ends_even_if_the_lead_is_wrong(shift):
    estimate = None if shift is None else (lambda eps: two_rr(eps) + shift)
    curve = replace(ONE, hints=SearchHints(estimate=estimate))
    for eps in (0.9, 1.0, 1.9):
        ends = curve.epsilon(two_rr(eps))
        assert ends.upper == pytest.approx(eps, rel=1e-9)
        assert two_rr(ends.upper) <= two_rr(eps)
        # The lower end reaches the target sooner, and is rounded down.
        assert ends.lower < ends.upper
        assert two_rr(ends.lower) - 0.1 >= two_rr(eps)
    assert curve.epsilon([0.0, -inf]).upper.tolist() == [0.0, BUDGET]
    with pytest.raises(InputError, match="delta"):
        curve.epsilon(0.1)


def test_without_a_budget_eps_is_finite_or_infinite():
    falls = UpperCurve(inf, upper=lambda eps: -eps)
    assert falls.epsilon(-300.0).upper == pytest.approx(300.0, rel=1e-9)
    stays = UpperCurve(inf, upper=lambda eps: max(-eps, -5.0))
    assert stays.epsilon([-4.0, -6.0]).upper == pytest.approx([4.0, inf], rel=1e-9)
    stops = UpperCurve(inf, upper=lambda eps: max(-eps, -5.0), horizon=5.0)
    assert stops.epsilon([-4.0, -5.0, -6.0]).upper == pytest.approx([4.0, 5.0, inf], rel=1e-9)


def test_composition_uses_the_known_rounds_or_the_curve():
    assert compose(ONE, 1) is ONE
    known = UpperCurve(6.0, upper=lambda eps: -eps)
    three = Composable(repeated=lambda rounds: known if rounds == 3 else ONE)
    assert compose(replace(ONE, composable=three), 3) is known
    twice = compose(ONE, 2)
    assert twice.budget == 2 * BUDGET
    # Two rounds leak at least as much as one, and at most the sum of the budgets.
    assert twice.log_delta(0.5).lower == ONE.log_delta(0.5).lower
    assert twice.log_delta(2 * BUDGET).upper == -inf
    p = exp(BUDGET) / (1 + exp(BUDGET))
    for eps in (0.0, 0.5, 2.5):
        true = max(p**2 - exp(eps) * (1 - p) ** 2, 0.0)
        true += 2 * p * (1 - p) * max(1 - exp(eps), 0.0)
        assert log(true) <= twice.log_delta(eps).upper <= log(1.03 * true)


def test_exponentials_are_rounded_outwards():
    assert exp_up(-inf) == exp_down(-inf) == 0.0
    assert exp_up(-1000.0) == 5e-324
    assert exp_down(-1000.0) == 0.0
    assert exp_up(0.0) == 1.0
    logs = np.array([-700.0, -3.0, -1e-3])
    assert (exp_down(logs) < np.exp(logs)).all()
    assert (exp_up(logs) > np.exp(logs)).all()
    ends = Interval(None, -3.0).exp()
    assert (ends.lower, ends.upper) == (None, exp_up(-3.0))


def test_the_upper_end_has_precedence_and_a_lower_end_is_never_promised():
    assert (Interval(1.0, 2.0).only, Interval(1.0, None).only) == (2.0, 1.0)
    assert Interval(1.0, 2.0).promised == 2.0
    with pytest.raises(InputError, match="an upper bound is needed"):
        _ = Interval(1.0, None).promised


# --- Setting --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"n": 10**11}, "to 10,000,000,000, got n=100000000000"),
        ({"eps0": 400.0}, "eps0 must be at most 300, got eps0=400.0"),
        ({"eps0": 1e-201}, "at least 1e-200"),
        ({"count": 100}, "count, .*, must lie in 0..n-1 = 0..99, got count=100"),
        ({"response_rate": float("nan")}, r"response rate must lie in \(0, 1\], got nan"),
        ({"sampling_rate": 0.5, "response_rate": 0.25}, "cannot be combined, got 0.5 and 0.25"),
        ({"response_rate": 0.5, "rounds": 2}, "applies to one round only, got rounds=2: for sev"),
        ({"rounds": 1_000_001}, "from 1 to 1,000,000, got"),
        ({"colluding": -1}, "colluding must be an integer >= 0, got colluding=-1"),
        ({"colluding": 100}, "the target is honest, got colluding=100, n=100"),
        ({"dummies": -0.5}, "dummies, .*, must be at least 0 and below 10,000,000,000, got dum"),
        (
            {"mechanism": mechanism("gaussian", sigma=1.0)},
            "eps0 applies to k-RR only, got eps0=1.0",
        ),
    ],
)
def test_a_setting_out_of_range_is_refused(wrong, words):
    with pytest.raises(InputError, match=words) as error:
        Setting(**({"n": 100, "k": 3, "eps0": 1.0} | wrong))
    assert "\n" not in str(error.value)


# --- Mechanisms and participation -----------------------------------------------------------------


def test_a_randomiser_is_a_mechanism_of_the_accountant():
    randomiser = MatrixRandomiser(np.array([[0.75, 0.25], [0.25, 0.75]]))
    setting = Setting(30, 2, mechanism=randomiser)
    of_matrix = certified(setting).log_delta(0.2)
    assert of_matrix == randomiser.curve(Setting(30, 2)).log_delta(0.2)
    fewer = certified(replace(setting, n=40, colluding=10)).log_delta(0.2)
    assert fewer == of_matrix
    with pytest.raises(InputError, match="certified bound does not depend on count"):
        certified(replace(setting, count=3))


@pytest.mark.parametrize("rate", [{"sampling_rate": 0.5}, {"response_rate": 0.5}])
def test_participation_keeps_budget_and_horizon(rate):
    setting = Setting(6, 2, **rate)
    curve = with_participation(lambda s: replace(ONE, lower=None), setting)
    assert (curve.budget, curve.horizon) == (ONE.budget, ONE.horizon)
    assert curve.log_delta(BUDGET).upper == -inf
    share = rate.get("sampling_rate", 1.0)
    assert curve.log_delta(0.5).upper == pytest.approx(two_rr(0.5) + log(share), rel=1e-9)
    stays = UpperCurve(inf, upper=lambda eps: max(-eps, -5.0), horizon=5.0)
    assert with_participation(lambda s: stays, setting).epsilon(-6.0).upper == inf
    with pytest.raises(InputError, match="an upper bound is needed"):
        with_participation(lambda s: Curve(BUDGET, lower=ONE.lower), setting)


def test_an_array_of_eps_has_the_deltas_of_its_elements():
    setting = Setting(n=2_000, k=30, eps0=4.0)
    eps = np.array([[0.0, 3.9, 0.5, 0.5], [4.0, 2.0, 1.9999, 5.0]])
    deltas = queries.delta(eps, setting)
    for place, value in np.ndenumerate(eps):
        alone = queries.delta(float(value), setting)
        assert (deltas.lower[place], deltas.upper[place]) == (alone.lower, alone.upper)


def test_no_nan_leaves_a_curve():
    curve = UpperCurve(1.0, upper=lambda eps: np.nan, lower=lambda eps: np.nan)
    ends = curve.log_delta(0.5)
    assert (ends.lower, ends.upper) == (-np.inf, 0.0)
    curve = UpperCurve(7.0, upper=lambda _: 0.0, hints=SearchHints(inverse=lambda _: np.nan))
    assert curve.epsilon(-1.0).upper == 7.0
