"""One user with several records: sensitivities and group privacy, compared with brute force."""

from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, product
from math import exp, factorial, log, sqrt

import numpy as np
import pytest
from scipy.stats import norm

from oracle import exact
from oracle.test_levels import changes
from shuffledp import Setting
from shuffledp.accounting.contributions import (
    Contributions,
    group_curve,
    group_log_delta,
    log_group_factor,
    one_record_target,
)
from shuffledp.accounting.krr import upper_curve
from shuffledp.mechanisms.discrete_laplace import DiscreteLaplaceParameters
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.mechanisms.shuffler_dummies import ShufflerDummiesParameters


def neighbours(k, m, distinct, *, same):
    """Yield what every replacement of one user adds to the histogram."""
    for before, after in product(changes(k, m, distinct), repeat=2):
        if not same or before.sum() == after.sum():
            yield after - before


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("distinct", [False, True])
@pytest.mark.parametrize("same", [False, True])
def test_the_sensitivities_are_the_largest_over_all_replacements(m, distinct, same):
    moves = list(neighbours(2 * m, m, distinct, same=same))
    bound = Contributions("user", m, distinct)
    assert max(np.abs(move).sum() for move in moves) == bound.replacement_l1
    assert max((move**2).sum() for move in moves) == bound.replacement_l2_squared


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("distinct", [False, True])
def test_gaussian_noise_has_the_delta_of_the_worst_replacement(m, distinct):
    bound, setting = Contributions("user", m, distinct), Setting(50, 2 * m)
    gaussian = MECHANISMS["gaussian"]
    parameters = gaussian.calibrate(0.7, log(1e-4), setting, bound)
    curve = gaussian.curve(parameters, setting, bound)
    distances = {
        sqrt((move**2).sum()) for move in neighbours(2 * m, m, distinct, same=True) if move.any()
    }
    for eps in (0.1, 0.7, 2.0):
        deltas = [
            norm.cdf(mu / 2 - eps / mu) - exp(eps) * norm.cdf(-mu / 2 - eps / mu)
            for mu in (distance / parameters.sigma for distance in distances)
        ]
        assert exp(curve.upper(eps)) == pytest.approx(max(deltas), rel=1e-9)
        assert exp(curve.upper(eps)) >= max(deltas) * (1 - 1e-12)
    assert log(1e-4) - 1e-6 < curve.upper(0.7) <= log(1e-4)


def worst_delta(n, k, m, law, e):
    """Return the largest delta over the others' records and both tables of the user."""
    worst = Fraction(0)
    for others in combinations_with_replacement(range(k), n - m):
        own = list(combinations_with_replacement(range(k), m))
        laws = [law([*records, *others]) for records in own]
        worst = max(worst, *(exact.hockey_stick(P, Q, e) for P in laws for Q in laws if P is not Q))
    return worst


@pytest.mark.parametrize(
    ("n", "k", "m"), [(4, 2, 2), (5, 2, 2), (6, 2, 3), (4, 3, 2), (5, 3, 2), (3, 3, 3)]
)
@pytest.mark.parametrize("E", [Fraction(2), Fraction(7)])
def test_group_privacy_covers_shuffled_reports(n, k, m, E):
    setting = Setting(n, k, log(E))
    one = upper_curve(setting)
    for e in (Fraction(1), Fraction(11, 10), Fraction(3, 2), E, E ** (m - 1)):
        true = worst_delta(n, k, m, lambda records: exact.histogram_law(records, k, E), e)
        assert log(true) <= group_curve(one, m).upper(log(e)) <= 0.0
        # The bound for one record would be too small.
        assert one.upper(log(e)) < log(true)


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("nu", [1, None])
def test_group_privacy_covers_noise_on_counts(m, nu):
    theta, k = Fraction(1, 3), 2
    name, parameters = "discrete-laplace", DiscreteLaplaceParameters(-2.0 * log(theta))
    if nu is not None:
        name = "shuffler-dummies"
        parameters = ShufflerDummiesParameters(-2.0 * log(theta), nu)
    bound = Contributions("user", m)
    curve = MECHANISMS[name].curve(parameters, Setting(m, k), bound)
    noise = exact.geometric_law(theta, -14 if nu is None else -nu, 14)
    noise = {z: Fraction(p) for z, p in noise.items()}
    for e in (Fraction(1), Fraction(3), Fraction(20), 1 / theta ** (2 * m) - 1):
        law = {
            records: exact.noisy_law(records, k, noise)
            for records in combinations_with_replacement(range(k), m)
        }
        # A replacement of fewer records is one of them all.
        true = max(exact.hockey_stick(P, Q, e) for P in law.values() for Q in law.values())
        assert true > 0
        assert log(true) <= curve.upper(log(e)) <= 0.0
    if nu is None:
        assert curve.upper(curve.budget) == -np.inf
        # Calibration is exact: the scale is the L1 sensitivity over eps.
        calibrated = MECHANISMS[name].calibrate(1.2, log(1e-6), Setting(9, k), bound)
        assert calibrated.eps == pytest.approx(2.0 * 1.2 / bound.replacement_l1, rel=1e-15)
        assert Fraction(calibrated.eps) * m <= Fraction(1.2)


@pytest.mark.parametrize("m", [2, 3, 10, 1000])
@pytest.mark.parametrize("eps", [0.0, 1e-12, 1e-3, 0.3, 5.0])
def test_the_factor_of_group_privacy_is_rounded_up(m, eps):
    # Rationals that are no more than 1e-60 below the powers.
    power = sum((Fraction(eps) ** i / factorial(i) for i in range(1, 120)), Fraction(1))
    power = Fraction(int(power * 10**60), 10**60)
    total, term = 0, 10**60
    for _ in range(m):
        total += term
        term = int(term * power)
    digits = log(total // 10**30) - 30 * log(10)
    assert digits - 1e-13 * abs(digits) <= log_group_factor(eps, m)
    assert log_group_factor(eps, m) == pytest.approx(digits, rel=1e-12)


@pytest.mark.parametrize("m", [1, 2, 7])
@pytest.mark.parametrize("eps", [0.05, 1.0, 30.0])
@pytest.mark.parametrize("bound", [log(1e-6), -700.0])
def test_a_target_of_one_record_keeps_that_of_the_user(m, eps, bound):
    share, target = one_record_target(eps, bound, m)
    assert Fraction(share) * m <= Fraction(eps)
    assert group_log_delta(lambda _: target, m)(eps) <= bound
    assert group_log_delta(lambda _: target, m)(eps) == pytest.approx(bound, rel=1e-12)


@pytest.mark.parametrize("name", ["krr", "gaussian", "discrete-laplace", "shuffler-dummies"])
def test_calibrated_mechanisms_keep_the_target_of_the_user(name):
    mechanism, setting, target = MECHANISMS[name], Setting(2_000, 12), log(1e-6)
    curves = []
    for m in (1, 2, 5):
        bound = Contributions("user", m)
        parameters = mechanism.calibrate(1.0, target, setting, bound)
        curves.append(mechanism.curve(parameters, setting).upper(0.1))
        assert mechanism.curve(parameters, setting, bound).upper(1.0) <= target
    assert all(more < fewer for fewer, more in pairwise(curves))
