"""The order of all bounds, and the inverse problems: epsilon, calibration, planning."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from effort import examples, long
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffledp.accounting.bound_registry import BOUNDS, get_bound
from shuffledp.accounting.curve import largest_eps0
from shuffledp.accounting.planner import Plan, complete
from shuffledp.accounting.setting import LARGEST_EPS0, Setting
from shuffledp.errors import InputError

SETTINGS = [
    Setting(10_000, 16, 1.0),
    Setting(2000, 3, 0.4),
    Setting(1000, 408, 4.0),
    Setting(500, 2, 2.0),
    Setting(100_000, 10, 2.0),
    Setting(3000, 10, 1.0, rounds=4),
]
LOG_TARGET = float(np.log(1e-6))
# Each of these takes seconds.
SLOW_BOUNDS = ("fourier", "basic-composition", "advanced-composition", "kov-composition")


def _compared(bound):
    """Yield a bound with its settings; all but a quick first one are for `make test-slow`."""
    usable = [setting for setting in SETTINGS if not bound.why_not(setting, LOG_TARGET)]
    for number, setting in enumerate(usable):
        slow = number > 0 or bound.name in SLOW_BOUNDS
        yield long(bound, setting) if slow else pytest.param(bound, setting)


GUARANTEES = [
    case
    for bound in BOUNDS.values()
    if bound.guarantee and bound.name != "upper"
    for case in _compared(bound)
]
LOWER = [
    (get_bound(name), setting)
    for name in ("single-bin", "variation-ratio")
    for setting in SETTINGS
    if not get_bound(name).why_not(setting)
]
TWO_CELLS = Setting(900, 2, 0.45, count=300)
MANY_CELLS = Setting(1100, 5, 0.45, count=300)
SEVERAL_ROUNDS = Setting(1100, 5, 0.45, rounds=3)


def calibrated(bound, eps, log_delta, setting):
    def curve(eps0):
        return bound.curve(replace(setting, eps0=eps0))

    return largest_eps0(eps, log_delta, curve, setting.rounds)


def _name(value):
    return getattr(value, "name", None)


@cache
def certified_eps(side, setting):
    return BOUNDS[side].curve(setting).epsilon(LOG_TARGET).only


@pytest.mark.parametrize(("bound", "setting"), GUARANTEES, ids=_name)
def test_the_certified_pair_is_below_every_other_guarantee(bound, setting):
    eps = bound.curve(setting).epsilon(LOG_TARGET).only
    assert certified_eps("lower", setting) <= eps * (1 + 1e-9)
    if bound.kind == "upper":
        assert certified_eps("upper", setting) <= eps * (1 + 1e-9)
    assert eps <= setting.budget


@pytest.mark.parametrize(("bound", "setting"), LOWER, ids=_name)
def test_lower_bounds_are_below_the_certified_upper(bound, setting):
    for eps in (0.0, 0.1 * setting.eps0, 0.5 * setting.eps0):
        assert (
            bound.curve(setting).log_delta(eps).only
            <= BOUNDS["upper"].curve(setting).log_delta(eps).only + 1e-9
        )


@pytest.mark.parametrize("bound", BOUNDS.values(), ids=_name)
def test_every_bound_is_monotone_and_inverts_itself(bound):
    usable = (s for s in (TWO_CELLS, MANY_CELLS, SEVERAL_ROUNDS) if not bound.why_not(s, -20.0))
    setting = next(usable)
    if bound.formulas.log_delta is None:
        eps = bound.curve(setting).epsilon(np.array([-40.0, -20.0, -10.0, -5.0])).only
        assert (np.diff(eps) <= 0).all()
        assert (eps > 0).all()
        return
    eps = np.array([0.02, 0.1, 0.2, 0.4])
    values = bound.curve(setting).log_delta(eps).only
    assert (np.diff(values[np.isfinite(values)]) <= 1e-9).all()
    assert (values <= 0.0).all()
    target = values[1]
    if np.isfinite(target) and target < -0.1 and bound.formulas.epsilon is None:
        assert bound.curve(setting).epsilon(target).only == pytest.approx(0.1, rel=1e-4)


@given(
    n=st.integers(2, 10**6),
    k=st.integers(2, 2000),
    eps0=st.floats(0.01, 6),
    log_delta=st.floats(-60, -1),
)
@settings(max_examples=examples(25))
def test_certified_epsilon_meets_its_target_and_is_not_wasteful(n, k, eps0, log_delta):
    setting = Setting(n, k, eps0)
    upper = BOUNDS["upper"]
    eps = upper.curve(setting).epsilon(log_delta).only
    assert 0 <= eps <= eps0
    assert upper.curve(setting).log_delta(eps).only <= log_delta
    if 0 < eps < eps0:
        assert upper.curve(setting).log_delta(eps * (1 - 1e-6)).only > log_delta
    assert BOUNDS["lower"].curve(setting).epsilon(log_delta).only <= eps


@given(n=st.integers(10, 10**6), k=st.integers(2, 500), eps=st.floats(0.01, 3))
@settings(max_examples=examples(20))
def test_calibration_meets_its_target(n, k, eps):
    log_delta = float(np.log(1e-7))
    upper = BOUNDS["upper"]
    eps0 = calibrated(upper, eps, log_delta, Setting(n, k))
    assert eps0 >= eps
    assert upper.curve(Setting(n, k, eps0)).log_delta(eps).only <= log_delta
    if eps0 < LARGEST_EPS0:
        assert upper.curve(Setting(n, k, eps0 * (1 + 1e-6))).log_delta(eps).only > log_delta


@pytest.mark.parametrize("rate", [1.0, 0.5])
@pytest.mark.parametrize(("n", "k", "eps", "rounds"), [(20, 4, 0.5, 3), (12, 2, 0.2, 2)])
def test_calibration_over_rounds_returns_a_budget_that_was_evaluated(n, k, eps, rounds, rate):
    asked = []
    setting = Setting(n, k, rounds=rounds, sampling_rate=rate)

    def curve_at(eps0):
        curve = BOUNDS["upper"].curve(replace(setting, eps0=eps0))

        def log_delta(eps):
            asked.append((eps0, curve.upper(eps)))
            return asked[-1][1]

        return replace(curve, upper=log_delta)

    target = float(np.log(0.01))
    largest = largest_eps0(eps, target, curve_at, rounds)
    assert eps / rounds < largest < LARGEST_EPS0
    assert dict(asked)[largest] <= target
    assert curve_at(largest * (1 + 1e-4)).log_delta(eps).upper > target
    assert len(asked) <= 20


@pytest.mark.parametrize("rounds", [1, 2])
def test_epsilon_of_sampled_rounds_meets_its_target(rounds):
    bound = BOUNDS["upper"]
    setting, target = Setting(12, 4, 1.0, rounds, sampling_rate=0.5), float(np.log(0.01))
    eps = bound.curve(setting).epsilon(target).only
    assert 0.0 < eps < setting.budget
    assert bound.curve(setting).log_delta(eps).only <= target
    assert bound.curve(setting).log_delta(eps * (1 - 1e-6)).only > target


def test_sampling_is_for_guarantees():
    setting = Setting(12, 4, 1.0)
    for name, bound in BOUNDS.items():
        half = replace(setting, sampling_rate=0.5, count=3 if bound.uses_count else None)
        if not bound.guarantee:
            with pytest.raises(InputError, match=f"{name} is no guarantee: with sampling, use"):
                bound.curve(half)
    drawn = BOUNDS["upper"].curve(replace(setting, sampling_rate=0.5)).log_delta(0.3)
    assert drawn.lower is None
    # With all others taking part the target would leak less.
    assert drawn.upper >= np.log(0.5) + BOUNDS["lower"].curve(setting).log_delta(0.3).lower
    with pytest.raises(InputError, match="sampling rate"):
        replace(setting, sampling_rate=1.5)


def test_ends_of_the_inverse_problems():
    setting = Setting(1000, 10, 1.0)
    upper = BOUNDS["upper"]
    assert upper.curve(setting).epsilon(0.0).only == 0.0
    assert upper.curve(setting).epsilon(-np.inf).only == setting.eps0
    assert upper.curve(setting).log_delta(1.0).only == -np.inf
    for rounds in (1, 2):
        many = Setting(1000, 10, rounds=rounds)
        assert calibrated(upper, 0.5, 0.0, many) == LARGEST_EPS0
        assert calibrated(upper, 0.5, -np.inf, many) == pytest.approx(0.5 / rounds)
    # Two users hide nobody at this delta: eps / rounds needs no shuffler.
    assert calibrated(upper, 0.5, -300.0, Setting(2, 10, rounds=2)) == pytest.approx(0.25, rel=1e-3)


ONE_ROUND = {"n": 50_000, "k": 30, "eps0": 3.0, "eps": 0.3, "log_delta": float(np.log(1e-8))}
FEW_USERS = {"n": 60, "k": 4, "eps0": 1.0, "eps": 0.9, "log_delta": float(np.log(0.01))}


@pytest.mark.parametrize("missing", ["n", "k", "eps0", "eps", "log_delta"])
@pytest.mark.parametrize(
    ("parameters", "others"),
    [
        (ONE_ROUND, {}),
        (FEW_USERS, {"rounds": 3}),
        long(FEW_USERS, {"rounds": 3, "sampling_rate": 0.5}),
    ],
)
def test_the_planner_finds_the_missing_parameter(missing, parameters, others):
    plan = complete(Plan(**(parameters | {missing: None}), other_fields=others))

    def log_delta(**changed):
        values = vars(plan) | changed
        setting = Setting(values["n"], values["k"], values["eps0"], **others)
        return BOUNDS["upper"].curve(setting).log_delta(values["eps"]).only

    assert log_delta() <= plan.log_delta
    if missing == "n":
        assert log_delta(n=plan.n - 1) > plan.log_delta
    if missing == "k":
        assert plan.k == 2 or log_delta(k=plan.k - 1) > plan.log_delta


def test_the_planner_needs_exactly_one_missing_parameter():
    with pytest.raises(InputError, match="exactly one"):
        complete(Plan(10, 3, 1.0, None, None))
    with pytest.raises(InputError, match="exactly one"):
        complete(Plan(10, 3, 1.0, 0.5, -3.0))
    with pytest.raises(InputError, match="no n"):
        complete(Plan(None, 3, 20.0, 1e-9, -300.0))


def test_a_target_that_no_positive_eps0_meets_is_refused():
    with pytest.raises(InputError, match="no positive eps0"):
        complete(Plan(1000, 5, None, 0.0, -46.0))
