"""Bounds for every eps0-LDP randomiser, against exact laws of randomisers and of the clones."""

from fractions import Fraction
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import exact
from oracle.test_randomisers import worst_delta

from shuffledp.accounting.krr import upper_log_delta
from shuffledp.accounting.setting import Setting
from shuffledp.papers.literature import clones


def close(log_value, rational):
    """Return whether exp(log_value) is the rational within a relative 1e-9."""
    return abs(float(log_value) - log(rational)) < 1e-9


@pytest.mark.parametrize("n", [1, 2, 5, 12, 30])
@pytest.mark.parametrize(("E", "e"), exact.RATIOS)
def test_clones_are_the_enumerated_divergence_rounded_up(n, E, e):
    truth = exact.clones_delta(n, E, e)
    got = float(clones.clones_log_delta(log(e), Setting(n, 2, log(E))))
    assert got >= log(truth)
    assert close(got, truth)


@pytest.mark.parametrize("n", [1, 2, 7, 20])
@pytest.mark.parametrize("k", [3, 4, 12])
@pytest.mark.parametrize(("E", "e"), exact.RATIOS)
def test_variation_ratio_is_the_enumerated_divergence_rounded_down(n, k, E, e):
    truth = exact.variation_ratio_delta(n, k, E, e)
    got = float(clones.variation_ratio_log_delta(log(e), Setting(n, k, log(E))))
    assert got <= log(truth)
    assert close(got, truth)


# --- Every randomiser ---------------------------------------------------------------------------


@st.composite
def randomisers(draw):
    """Draw an eps0-LDP table: likelihoods from 1 to E, rotated so that all rows have one sum."""
    E = draw(
        st.sampled_from([Fraction(3, 2), Fraction(2), Fraction(4), Fraction(12), Fraction(50)])
    )
    inputs = draw(st.integers(2, 3))
    outputs = 1 if inputs == 3 else draw(st.integers(1, 2))
    corners = st.sampled_from([Fraction(1), E])
    inside = st.integers(0, 12).map(lambda j: 1 + (E - 1) * Fraction(j, 12))
    likelihood = draw(st.sampled_from([corners, inside]))
    table = [[draw(likelihood) for _ in range(outputs)] for _ in range(inputs)]
    base = [Fraction(draw(st.integers(1, 9))) for _ in range(outputs)]
    rows = [
        [base[y] * table[(x + c) % inputs][y] for c in range(inputs) for y in range(outputs)]
        for x in range(inputs)
    ]
    return E, [[p / sum(row) for p in row] for row in rows]


@given(randomisers(), st.integers(1, 4), st.integers(0, 19))
@settings(max_examples=60, deadline=None)
def test_two_rr_bounds_every_randomiser_and_every_data_set(randomiser, n, share):
    E, rows = randomiser
    e = 1 + (E - 1) * Fraction(share, 20)
    bound = exact.upper_delta(n, 2, E, e)
    assert worst_delta(rows, n, e) <= bound
    assert close(clones.generic_log_delta(log(e), Setting(n, 9, log(E))), bound)


@given(st.floats(0.01, 8), st.floats(0, 0.99), st.integers(1, 20_000))
@settings(max_examples=40, deadline=None)
def test_generic_is_never_above_clones_and_never_below_krr(eps0, share, n):
    eps = share * eps0
    generic = clones.generic_log_delta(eps, Setting(n, 2, eps0))
    slack = 1e-9 * max(1.0, -float(generic))  # both are rounded
    assert generic <= clones.clones_log_delta(eps, Setting(n, 2, eps0)) + slack
    for k in (3, 20):
        assert upper_log_delta(eps, Setting(n, k, eps0)) <= generic + slack
