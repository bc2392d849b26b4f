"""Delta of a threshold against the exact divergence of all outputs, by enumeration in rationals."""

from fractions import Fraction
from itertools import product
from math import exp, log

import numpy as np
import pytest
from effort import long

from oracle.test_levels import changes
from shuffledp.accounting.contributions import Contributions
from shuffledp.accounting.thresholds import minus_log_hidden, smallest_threshold, threshold_delta


def law(count, threshold, theta, reach):
    """Return the probabilities of hidden, released as T, ..., as T + reach, and as more."""
    if count == 0:
        return [Fraction(1)] + [Fraction(0)] * (reach + 2)
    weight = (1 - theta) / (1 + theta)
    released = [weight * theta ** abs(threshold + i - count) for i in range(reach + 1)]
    # Beyond the reach, all counts below it have the same likelihood ratio at every output.
    beyond = theta ** (threshold + reach + 1 - count) / (1 + theta)
    return [1 - sum(released) - beyond, *released, beyond]


def outputs(count, other, threshold, theta):
    """Return pairs of probabilities of all outputs of a cell, those of one ratio added up."""
    reach = max(count, other)
    laws = (law(each, threshold, theta, reach) for each in (count, other))
    found = {}
    for p, q in zip(*laws, strict=True):
        ratio = p / q if q else None
        a, b = found.get(ratio, (0, 0))
        found[ratio] = (a + p, b + q)
    return list(found.values())


def divergences(one, other, threshold, theta, factor):
    """Return the hockey-stick divergences of the outputs of two data sets, both ways."""
    pairs = [(Fraction(1), Fraction(1))]
    for count, changed in zip(one, other, strict=True):
        if count != changed:
            pairs = [
                (p * a, q * b)
                for (p, q), (a, b) in product(pairs, outputs(count, changed, threshold, theta))
            ]
    there = sum((max(p - factor * q, Fraction(0)) for p, q in pairs), Fraction(0))
    return there, sum((max(q - factor * p, Fraction(0)) for p, q in pairs), Fraction(0))


def additions(cells, m, distinct):
    return [each.tolist() for each in changes(cells, m, distinct) if each.any()]


@pytest.mark.parametrize("settings", [60, long(1_000)])
def test_delta_is_that_of_all_outputs_of_all_neighbours(settings):
    """Never too small, and attained by a neighbour; three cells, some of them empty."""
    random = np.random.default_rng(1)
    for _ in range(settings):
        m, distinct = int(random.integers(1, 4)), bool(random.random() < 0.3)
        theta = Fraction(int(random.integers(1, 10)), 10)
        scale = -1.0 / log(theta)
        contributions = Contributions("user", m, distinct)
        asked = float(10.0 ** random.uniform(-4, -0.5))
        found = smallest_threshold(asked, scale, contributions)
        assert found.delta <= asked
        # exp(eps) for eps = m / b is exactly theta^-m
        factor, largest = theta**-m, Fraction(0)
        start = random.choice([0, 0, 1, found.least, found.least + 1], 3).tolist()
        for before in ([0, 0, 0], start):
            for added in additions(3, m, distinct):
                after = [a + b for a, b in zip(before, added, strict=True)]
                there, back = divergences(after, before, found.least, theta, factor)
                assert back == 0
                largest = max(largest, there)
        assert largest <= found.delta * (1 + 1e-15)
        assert float(largest) == pytest.approx(found.delta, rel=1e-9)
        if found.least > m + 1:
            smaller = threshold_delta(found.least - 1, scale, contributions)
            unexplained = any(
                minus_log_hidden(a, found.least - 1, scale) * scale > a * (1 - 1e-9)
                for a in range(1, m + 1)
            )
            assert smaller > asked or unexplained


def test_replacing_a_unit_has_twice_eps_and_the_same_delta():
    theta, m = Fraction(1, 3), 2
    found = smallest_threshold(1e-3, 1 / log(3), Contributions("user", m))
    users = [[0, 0, 0], *additions(3, m, distinct=False)]
    for others in ([0, 0, 0], [1, 0, 9]):
        for one, other in product(users, users):
            data = [[a + b for a, b in zip(others, user, strict=True)] for user in (one, other)]
            there, back = divergences(*data, found.least, theta, theta ** (-2 * m))
            assert max(there, back) <= found.delta * (1 + 1e-15)


def test_all_records_in_one_new_cell_may_be_worst():
    """With m = 4 and eps = 4, they have more than five times the delta of four single ones."""
    scale, m = 1.0, 4
    threshold = 20
    alone = -np.expm1(-minus_log_hidden(m, threshold, scale))
    singles = -np.expm1(-m * minus_log_hidden(1, threshold, scale))
    assert alone > 5 * singles
    assert threshold_delta(threshold, scale, Contributions("user", m)) == pytest.approx(alone)
    distinct = Contributions("user", m, distinct=True)
    assert threshold_delta(threshold, scale, distinct) == pytest.approx(singles)


def test_windows_with_limits_of_their_own_add_up():
    one, four = (Contributions("user", 2, windows=w) for w in (1, 4))
    single, several = (threshold_delta(15, 1.5, each) for each in (one, four))
    assert several == pytest.approx(1 - (1 - single) ** 4)


@pytest.mark.parametrize("scale", [0.05, 1.0, 300.0])
def test_probabilities_of_release_are_those_of_the_law(scale):
    z = np.arange(-20_000, 20_001)
    weight = np.exp(-np.abs(z) / scale)
    for records, threshold in ((1, 2), (3, 3), (5, 2), (1, 400)):
        hidden = weight[records + z < threshold].sum() / weight.sum()
        released = weight[records + z >= threshold].sum() / weight.sum()
        expected = -log(hidden) if hidden < 0.5 else -np.log1p(-released)
        assert minus_log_hidden(records, threshold, scale) == pytest.approx(expected, rel=1e-9)
    assert exp(-minus_log_hidden(1, 10**6, scale)) <= 1.0
