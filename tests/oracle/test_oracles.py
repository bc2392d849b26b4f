"""The oracles against each other, known numbers, and paper A."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest
from flint import arb, ctx

from . import exact, high_precision

# (n, k, E, e): near eps = 0, in the middle and near eps0; small and large eps0.
SMALL = [
    (n, k, Fraction(E), Fraction(e))
    for n, k in [(2, 3), (3, 2), (4, 3), (5, 4), (6, 3), (4, 5)]
    for E, e in [("3/2", "11/10"), ("3/2", "7/5"), ("4", "3/2"), ("55", "2"), ("55", "50")]
]


def datasets(k: int) -> tuple[str, ...]:
    return exact.DATASETS if k >= 3 else ("same", "other")


def assert_same_delta(log_delta: arb, expected: Fraction) -> None:
    """Assert that the ball is delta's logarithm to 40 digits of delta."""
    assert high_precision.relative_error(expected, log_delta) < 1e-40


# --- laws of the mechanism ---------------------------------------------------------------------


@pytest.mark.parametrize("records", [[0], [0, 1, 1], [0, 2, 1, 2, 2]])
def test_histogram_law_is_a_law_and_the_same_from_the_blanket_decomposition(
    records: list[int],
) -> None:
    E = Fraction(7, 2)
    law = exact.histogram_law(records, 3, E)
    assert sum(law.values()) == 1
    assert {((), h): p for h, p in law.items()} == exact.view_law(
        records, 3, [E] * len(records), ()
    )


def test_worst_delta_searches_the_same_maximum_as_brute_force_over_all_records() -> None:
    n, k, E, e = 4, 3, Fraction(3, 2), Fraction(7, 5)
    brute = max(
        exact.hockey_stick(
            exact.histogram_law([x0, *others], k, E), exact.histogram_law([x1, *others], k, E), e
        )
        for x0, x1 in [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)]
        for others in product(range(k), repeat=n - 1)
    )
    assert exact.worst_delta(n, k, E, e)[0] == brute


# --- the upper and the lower value ---------------------------------------------------------------


@pytest.mark.parametrize("others", [[], [0], [2], [0, 1], [0, 0, 2], [1, 2, 2], [0, 1, 2]])
@pytest.mark.parametrize("e", [Fraction(1), Fraction(3, 2), Fraction(3)])
def test_upper_is_the_weak_adversary_whatever_the_others_hold(
    others: list[int], e: Fraction
) -> None:
    E = Fraction(4)
    for k in (2, 3):
        if max(others, default=0) < k:
            view = exact.weak_view_delta(others, k, E, e)
            assert view == exact.upper_delta(len(others) + 1, k, E, e)


@pytest.mark.parametrize(("n", "k", "E", "e"), SMALL)
def test_atoms_of_the_named_datasets_are_the_law_of_the_mechanism(
    n: int, k: int, E: Fraction, e: Fraction
) -> None:
    for dataset in datasets(k):
        law = exact.lower_delta(n, k, E, e, dataset)
        assert law == exact.mean_positive_part(n, exact.lower_atoms(k, E, e, dataset))


@pytest.mark.parametrize("others", [[0], [2, 2], [0, 1, 2]])
def test_strong_adversary_is_the_full_view_given_a_truthful_target(others: list[int]) -> None:
    k, E, e = 3, Fraction(4), Fraction(3, 2)
    truthful = 1 - k / (E + k - 1)
    pair = exact.strong_adversary(len(others) + 1, k, E, e)
    assert exact.strong_view_delta(others, k, E, e) == truthful * pair


# --- high precision ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "k", "eps0", "eps"),
    [
        (1, 3, "1", "0.5"),
        (20, 2, "2", "0.1"),
        (20, 4, "1", "0.9"),
        (30, 10, "0.49", "0.25"),
        (12, 5, "1", "0"),
    ],
)
def test_upper_and_lower_agree_with_exact_rationals(n: int, k: int, eps0: str, eps: str) -> None:
    E, e = high_precision.rational_exp(eps0), high_precision.rational_exp(eps)
    assert_same_delta(
        high_precision.upper_log_delta(n, k, eps0, eps), exact.upper_delta(n, k, E, e)
    )
    for dataset in datasets(k):
        assert_same_delta(
            high_precision.lower_log_delta(n, k, eps0, eps, dataset),
            exact.mean_positive_part(n, exact.lower_atoms(k, E, e, dataset)),
        )


@pytest.mark.parametrize("eps", ["0.05", "0.4", "1"])
def test_one_bin_agrees_with_exact_rationals(eps: str) -> None:
    n, k, m, eps0 = 40, 10, 30, "2"
    E, e = high_precision.rational_exp(eps0), high_precision.rational_exp(eps)
    for direction in ("forward", "backward"):
        expected = exact.single_bin(n, k, m, E, e, direction)
        log_delta = high_precision.single_bin_log_delta(n, k, m, eps0, eps, direction)
        if expected:
            assert_same_delta(log_delta, expected)
        else:
            assert log_delta == arb("-inf")


@pytest.mark.parametrize("tail_bits", [1, 4, 10, 30, 80])
@pytest.mark.parametrize(("n", "k", "eps0", "eps"), [(400, 16, "1", "0.05"), (400, 4, "3", "2.9")])
def test_what_a_narrow_window_leaves_out_is_in_the_ball(
    n: int, k: int, eps0: str, eps: str, tail_bits: int
) -> None:
    def balls(bits: int) -> list[arb]:
        upper = high_precision.upper_ball(n, k, eps0, eps, bits)
        return [upper, high_precision.lower_ball(n, k, eps0, eps, "third", bits)]

    with ctx.workprec(384):
        for narrow, wide in zip(balls(tail_bits), balls(300), strict=True):
            assert narrow.contains(wide)
            assert narrow.rel_accuracy_bits() < 200 < wide.rel_accuracy_bits()
