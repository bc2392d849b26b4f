"""Mean excess of a sum of atoms, against exact rationals and the evaluator for k-RR."""

from fractions import Fraction
from itertools import combinations_with_replacement
from math import factorial, log, prod

import numpy as np
import pytest
from effort import examples, long
from hypothesis import given, settings
from hypothesis import strategies as st

from shuffledp.accounting import pairs
from shuffledp.accounting.blanket.atoms import Atoms, excess, log_saddle_point
from shuffledp.accounting.blanket.mean_excess import log_mean_excess_high, log_mean_excess_low
from shuffledp.accounting.setting import Setting, probabilities


def both_ends(atoms, n):
    return log_mean_excess_low(atoms, n), log_mean_excess_high(atoms, n)


def exact_mean_excess(values, masses, n):
    """Return ``(1/n) E[(G_1 + ... + G_n)_+]`` exactly; the missing mass has value 0."""
    values, masses = [*values, Fraction(0)], [*masses, 1 - sum(masses)]
    total = Fraction(0)
    for draw in combinations_with_replacement(range(len(values)), n):
        counts = [draw.count(i) for i in set(draw)]
        orders = factorial(n) // prod(map(factorial, counts))
        weight = orders * prod(masses[i] for i in draw)
        total += weight * max(sum(values[i] for i in draw), Fraction(0))
    return total / n


rationals = st.builds(Fraction, st.integers(-60, 60), st.integers(1, 23))
laws = st.lists(st.tuples(rationals, st.integers(1, 50)), min_size=1, max_size=4)


@given(law=laws, rest=st.integers(0, 50), n=st.integers(1, 6))
@settings(max_examples=examples(60), deadline=None)
def test_both_ends_enclose_exact_rationals(law, rest, n):
    size = sum(weight for _, weight in law) + rest
    values = [value for value, _ in law]
    masses = [Fraction(weight, size) for _, weight in law]
    exact = exact_mean_excess(values, masses, n)
    atoms = Atoms(np.array(values, np.float64), np.array(masses, np.float64), 1.0)
    low, high = both_ends(atoms, n)
    if exact == 0:
        assert low == high == -np.inf
        return
    true = log(exact.numerator) - log(exact.denominator)
    assert low <= true + 1e-14 * abs(true)
    assert high >= true - 1e-14 * abs(true)
    assert high - low < 1e-3


def weak_adversary(setting, eps):
    """Return the atoms of `pairs.weak_adversary`."""
    eps0, k = setting.eps0, setting.k
    _, q = probabilities(eps0, k)
    values = excess([eps0, 0.0, 0.0], [0.0, eps0, 0.0], eps)
    return Atoms(values, np.array([q, q, (k - 2) * q]), 16.0 + 2.0 * (eps0 + eps))


@pytest.mark.parametrize(
    ("n", "k", "eps0", "eps", "above", "below"),
    [
        (1, 3, 1.0, 0.3, 1e-6, 1e-4),
        (50, 3, 1.0, 0.5, 1e-6, 1e-4),
        (1_000, 16, 1.0, 0.0, 2e-5, 1e-4),
        (1_000, 4, 1.0, 0.99, 2e-5, 1e-3),  # delta = 1e-312
        (10_000, 64, 4.0, 0.27, 2e-5, 1e-4),
        (100_000, 408, 4.0, 0.0379, 2e-5, 1e-4),
        (100_000, 408, 12.0, 11.0, 2e-5, 1e-3),  # one value is 60,000 times the others
        (100_000, 408, 4.0, 0.23, 2e-5, 1e-3),  # delta = 1e-98
        long(100_000, 408, 4.0, 0.39, 2e-5, 4e-3),  # delta = 1e-280
    ],
)
def test_agrees_with_the_evaluator_for_krr(n, k, eps0, eps, above, below):
    setting = Setting(n, k, eps0)
    reference = pairs.hockey_stick(pairs.weak_adversary(setting), eps)
    low, high = both_ends(weak_adversary(setting, eps), n)
    assert reference.high - below < low <= reference.high
    assert reference.low <= high < reference.low + above


def test_four_thousand_atoms_are_enclosed():
    """The lower end pools the atoms of a normal density, the upper end splits them."""
    z = np.linspace(-6.0, 6.0, 4001)
    masses = np.exp(-0.5 * z * z)
    masses /= masses.sum() * (1.0 + 1e-14)
    low, high = both_ends(Atoms(z - 0.05, masses, 64.0), 10_000)
    # A normal law of mean -5 and deviation 1, in hundreds: phi(5) - 5 Phi(-5), over 100.
    true = np.log(5.346_166_9e-8 / 100.0)
    assert low < true < high
    assert high - low < 0.2


def test_without_positive_values_the_mean_excess_is_zero():
    atoms = Atoms(np.array([-1.0, 0.0]), np.array([0.5, 0.25]), 1.0)
    assert log_mean_excess_high(atoms, 10) == -np.inf
    assert log_saddle_point(atoms, 10) == -np.inf


@pytest.mark.parametrize("gap", [1.0, 1e-6, 1e-13])
def test_the_excess_keeps_its_digits_next_to_zero(gap):
    assert excess(3.0, 0.0, 3.0 - gap) == pytest.approx(np.exp(3.0) * -np.expm1(-gap), rel=3e-3)
    assert excess(-np.inf, 0.5, 1.0) == pytest.approx(-np.exp(1.5))
    assert excess(0.5, -np.inf, 1.0) == pytest.approx(np.exp(0.5))
    assert excess(-np.inf, -np.inf, 1.0) == 0.0
