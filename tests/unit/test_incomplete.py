"""Colluders, dropouts, and k-RR among dummies.

The audits in tests/oracle compare all of them with every data set of a few users.
"""

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import exp, log

import numpy as np
import pytest
from effort import long
from oracle import exact

from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.curve import UpperCurve, largest_eps0
from shuffledp.accounting.krr import upper_log_delta
from shuffledp.accounting.one_round.dummies import (
    krr_among_dummies_log_delta,
    loss_among_dummies,
)
from shuffledp.accounting.participation import with_participation
from shuffledp.accounting.rounds.sums import upper_log_hockey_stick
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.mixdump import Mixdump, MixdumpParameters
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.mechanisms.target_calibration import calibrated

E, EPS = Fraction(3), log(1.5)
MODERATE = Fraction(3, 2)


def incomplete(log_delta, setting):
    """Return log delta with participation, given log delta as a function of the participants."""
    curve = with_participation(
        lambda s: UpperCurve(s.budget, upper=lambda _: log_delta(s.n)), setting
    )
    return curve.log_delta(EPS).upper


def over_decoys(n, k, rate):
    """Sum ``Pr[M = m] E[(G_1 + ... + G_m)_+] / m`` over the number M of uniform reports."""
    p, q = exact.reports(k, E)
    gamma = k * q
    decoys = {1: Fraction(1)}
    for chance in [gamma] * (n - 1) + [rate] * n:
        after = defaultdict(Fraction)
        for m, mass in decoys.items():
            after[m] += mass * (1 - chance)
            after[m + 1] += mass * chance
        decoys = after
    values = [p - MODERATE * q, q - MODERATE * p, *[q - MODERATE * q] * (k - 2)]
    atoms = [(Fraction(1, k), k * value) for value in values]
    return sum(mass * exact.mean_positive_part(m, atoms) for m, mass in decoys.items())


@pytest.mark.parametrize(("n", "k"), [(1, 2), (2, 2), (3, 2), (2, 3), (3, 3), (2, 4)])
@pytest.mark.parametrize("rate", [Fraction(1, 4), Fraction(3, 4), Fraction(1)])
def test_krr_among_dummies_is_the_mean_over_decoys_rounded_up(n, k, rate):
    delta = exp(krr_among_dummies_log_delta(EPS, Setting(n, k, log(3.0)), float(rate)))
    exact_delta = float(over_decoys(n, k, rate))
    assert exact_delta * (1 - 1e-12) <= delta == pytest.approx(exact_delta, rel=1e-9)


@pytest.mark.parametrize("dummies", [0.0, 0.5, 1.25, 2.0])
def test_mixdump_keeps_eps0_against_one_who_sees_all_messages(dummies):
    parameters = MixdumpParameters(log(3.0), dummies)
    assert dummies <= parameters.chances < dummies + 1
    ((view, both),) = Mixdump().views(parameters, Setting(3, 2)).items()
    assert view == "both" and both.epsilon(log(1e-6)).upper == parameters.eps0


@pytest.mark.parametrize(("n", "k", "eps"), [(1000, 20, 1.0), (1000, 1000, 1.0), (60, 4, 0.3)])
def test_mixdump_has_less_error_than_krr_with_as_few_dummies_as_possible(n, k, eps):
    mechanism, target, setting = Mixdump(), log(1e-6), Setting(n, k)
    alone, mixed = (MECHANISMS[name].calibrate(eps, target, setting) for name in ("krr", "mixdump"))
    assert alone.eps0 < mixed.eps0 <= alone.eps0 + 1.0
    uniform = np.full(k, 1.0 / k)
    better, krr_alone = (
        each.variance(uniform, n, parameters).mean()
        for each, parameters in ((mechanism, mixed), (MECHANISMS["krr"], alone))
    )
    assert better < krr_alone

    def reached(dummies):
        parameters = MixdumpParameters(mixed.eps0, dummies)
        return mechanism.curve(parameters, setting).log_delta(eps).upper

    assert reached(mixed.dummies) <= target < reached(mixed.dummies * (1 - 1e-8))
    # One chance fewer, always taken, would miss the target.
    assert mixed.chances == 1 or reached(mixed.chances - 1) > target


def test_without_dummies_the_bound_is_that_of_krr():
    setting = Setting(1000, 4, 2.0)
    few = krr_among_dummies_log_delta([0.1, 0.5], setting, 1e-12)
    none = krr_among_dummies_log_delta([0.1, 0.5], setting, 0.0)
    np.testing.assert_allclose(few, none, rtol=1e-7)
    np.testing.assert_array_equal(none, upper_log_delta([0.1, 0.5], setting))
    assert (krr_among_dummies_log_delta([0.1, 0.5], setting, 1.5, 3) < none).all()
    assert krr_among_dummies_log_delta(2.0, setting, 0.5) == -np.inf


@pytest.mark.parametrize("name", ["upper", "lower", "renyi"])
@pytest.mark.parametrize("rounds", [1, 2])
def test_every_bound_counts_only_honest_users(name, rounds):
    bound, honest = BOUNDS[name], Setting(50, 5, 1.0, rounds)
    with_colluders = bound.curve(Setting(60, 5, 1.0, rounds, colluding=10))
    assert with_colluders.log_delta(0.3) == bound.curve(honest).log_delta(0.3)
    if rounds == 1:
        assert with_colluders.epsilon(log(1e-4)) == bound.curve(honest).epsilon(log(1e-4))


def test_with_dropouts_a_bound_is_the_mean_over_the_number_of_responses():
    setting = Setting(30, 5, 1.0, colluding=4, response_rate=0.5)

    def log_delta(users):
        return float(upper_log_delta(0.3, Setting(users, 5, 1.0)))

    def curve_at(eps0):
        return BOUNDS["upper"].curve(replace(setting, eps0=eps0))

    assert curve_at(1.0).log_delta(0.3).upper == incomplete(log_delta, setting)
    # Calibration by the same bound meets the target and wastes little.
    reached = curve_at(largest_eps0(0.3, log(1e-2), curve_at)).log_delta(0.3).upper
    assert log(1e-2) - 1e-3 < reached <= log(1e-2)
    with pytest.raises(InputError, match="one round only"):
        replace(setting, rounds=2)
    with pytest.raises(InputError, match="lower is no guarantee"):
        BOUNDS["lower"].curve(setting)


def test_the_upper_bound_uses_the_fewest_chances_of_a_dummy():
    setting = Setting(300, 5, 1.0)
    among = replace(setting, dummies=1.5)
    log_delta = BOUNDS["upper"].curve(among).log_delta(0.2).upper
    assert log_delta == krr_among_dummies_log_delta(0.2, setting, 1.5, 2)
    with pytest.raises(InputError, match="clones does not apply: it does not cover dummies"):
        BOUNDS["clones"].curve(among)
    with pytest.raises(InputError, match="per user, must be at least 0"):
        replace(setting, dummies=-1.0)


@pytest.mark.parametrize("name", ["krr", "user-dummies", "mixdump", "shuffler-dummies"])
def test_calibrated_mechanisms_keep_the_target_among_colluders_and_dropouts(name):
    mechanism, n, k, target = MECHANISMS[name], 60, 4, log(1e-2)
    setting = Setting(n, k, colluding=10, response_rate=0.8)
    parameters = calibrated(mechanism, 0.5, target, setting)

    def reached(parameters):
        curve = with_participation(partial(mechanism.curve, parameters), setting)
        return curve.log_delta(0.5).upper

    if name == "shuffler-dummies":  # its dummies do not depend on the number of users
        assert parameters == mechanism.calibrate(0.5, target, Setting(n, k))
    else:
        assert target - 0.05 < reached(parameters) <= target
        # Calibrating for the mean number of participants would miss the target.
        mean = mechanism.calibrate(0.5, target, Setting(40, k))
        assert reached(mean) > target
    only = calibrated(mechanism, 0.5, target, Setting(n, k, colluding=10))
    assert only == mechanism.calibrate(0.5, target, Setting(50, k))


def test_a_tiny_delta_needs_few_numbers_of_participants():
    """Losing half of a tiny delta hardly changes its logarithm."""
    asked = []

    def curve_of(setting):
        def upper(eps):
            asked.append(setting.n)
            return -4e-3 * setting.n * eps

        return UpperCurve(setting.eps0, upper=upper)

    n, rate = 2_700_000, 0.449
    upper = with_participation(curve_of, Setting(n, 4, 3.6, sampling_rate=rate)).upper(1.0)
    # The mean of exp(-c (1 + Bin(n - 1, rate))), in closed form.
    truth = log(rate) - 4e-3 + (n - 1) * np.log1p(rate * np.expm1(-4e-3))
    assert truth <= upper <= truth + log(2.0)
    assert len(asked) < 100


@pytest.mark.parametrize(
    ("n", "k", "eps0", "dummies"),
    [(1, 3, 1.0, 0.5), (20, 5, 2.0, 0.5), long(300, 2, 2.0, 1.5), long(700, 20, 3.0, 0.75)],
)
def test_the_loss_of_krr_among_dummies_dominates_its_round_closely(n, k, eps0, dummies):
    """Compare its hockey-stick divergence with delta summed over all numbers of decoys."""
    setting = Setting(n, k, eps0, dummies=dummies)

    def of_curve():
        raise AssertionError("no delta here is that small")

    loss = loss_among_dummies(setting, of_curve)
    for eps in (0.0, min(loss.deviation, 0.3 * eps0), min(3.0 * loss.deviation, 0.6 * eps0)):
        bound = upper_log_hockey_stick(
            lambda depth: [(law, 1) for law in loss.up(None, depth)], eps
        )
        truth = float(krr_among_dummies_log_delta(eps, setting, dummies, 2 if dummies > 1 else 1))
        assert truth <= bound <= truth + 5e-3 * max(1.0, -truth)
