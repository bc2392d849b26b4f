"""Paper B's simplified bounds against exact rationals and by hand."""

from fractions import Fraction
from itertools import product
from math import comb, log

import numpy as np
import pytest
from scipy.stats import multinomial
from shuffledp.papers.literature.renyi import shuffled_rdp_upper, special_pair_renyi
from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.setting import Setting
from shuffledp.papers.paper_b.simplified import corollary_3_2, corollary_3_5, remark_3


def exact_ratio(order, E, n):
    """``E[(P/Q)^order]`` under Q in rationals: 2-RR, all users equal, against one user flipped."""
    p = Fraction(1, E + 1)
    total = Fraction(0)
    for x in range(n + 1):
        equal = comb(n, x) * p**x * (1 - p) ** (n - x)
        fewer = comb(n - 1, x) * p**x * (1 - p) ** (n - 1 - x) if x < n else Fraction(0)
        more = comb(n - 1, x - 1) * p ** (x - 1) * (1 - p) ** (n - x) if x else Fraction(0)
        flipped = p * fewer + (1 - p) * more
        total += flipped**order * equal ** (1 - order)
    return total


@pytest.mark.parametrize(("E", "n"), [(2, 5), (3, 40), (20, 12)])
def test_corollary_3_5_is_below_the_pair_it_is_about(E, n):
    for order in (2, 3, 4, 7):
        exact = log(exact_ratio(order, E, n)) / (order - 1)
        bound = float(corollary_3_5(order, Setting(n, 2, log(E))))
        assert bound <= exact * (1 + 1e-12)
        if order == 2:
            assert bound == pytest.approx(exact, rel=1e-12)


def test_no_central_moment_of_the_count_is_negative():
    """Where Corollary 3.5 comes from: no convexity, but p <= 1/2."""
    for n in (1, 2, 5, 9):
        for p in (Fraction(1, 2), Fraction(1, 3), Fraction(1, 9)):
            for i in range(2, 12):
                terms = (
                    comb(n, x) * p**x * (1 - p) ** (n - x) * (x - n * p) ** i for x in range(n + 1)
                )
                assert sum(terms) >= 0


def test_corollary_3_2_by_hand_and_its_condition():
    # l = 2, E = 2: 16 * 32 < n / 9 from n = 4609 on.
    assert float(corollary_3_2(2, Setting(4608, 2, log(2)))) == np.inf
    found = float(corollary_3_2(2, Setting(5000, 2, log(2))))
    assert found == pytest.approx(log(1 + 4 / 5000), rel=1e-12)
    assert found / float(corollary_3_5(2, Setting(5000, 2, log(2)))) == pytest.approx(8, rel=1e-3)


def test_corollary_3_2_follows_from_theorem_3_1_for_many_users_only():
    for n, eps0 in ((10**4, 0.01), (10**5, 0.5), (10**6, 1.0)):
        orders = np.array([2.0, 3.0])
        theorem = shuffled_rdp_upper(orders, Setting(n, 2, eps0))
        found = corollary_3_2(orders, Setting(n, 2, eps0))
        assert np.all(theorem <= found)
        assert np.any(np.isfinite(found))
    few = Setting(145, 2, 1e-4)
    assert corollary_3_2(2, few) < shuffled_rdp_upper(2, few) / 50
    # No violation, for all that.
    assert special_pair_renyi(2, few) < corollary_3_2(2, few)


def test_remark_3_lies_between_the_pair_and_theorem_3_1():
    for n, eps0 in ((300, 0.01), (10**4, 1.0), (10**6, 3.0)):
        orders, setting = np.array([2.0, 8.0, 40.0]), Setting(n, 2, eps0)
        found = remark_3(orders, setting)
        assert np.all(special_pair_renyi(orders, setting) <= found)
        assert np.all(found <= shuffled_rdp_upper(orders, setting) * 1.01)
    # A factor 2 in the leading term, and more where others matter.
    orders, setting = np.array([2.0, 10.0]), Setting(10**6, 2, 3.0)
    ratio = remark_3(orders, setting) / shuffled_rdp_upper(orders, setting)
    assert ratio[0] == pytest.approx(0.52, abs=0.01)
    assert ratio[1] == pytest.approx(0.40, abs=0.01)


def _all_equal_divergence(p, flipped, m, order):
    """Renyi divergence of m reports, one of law ``flipped`` and the others of p, from all of p."""
    counts = np.array([h for h in product(range(m + 1), repeat=p.size) if sum(h) == m])
    law = multinomial.pmf(counts, m, p)
    other = sum(
        flipped[j] * multinomial.pmf(counts - np.eye(p.size, dtype=int)[j], m - 1, p)
        for j in range(p.size)
    )
    return np.log(np.sum(law * (other / law) ** order)) / (order - 1)


@pytest.mark.parametrize("E", [1.5, 2.0, 4.0])
def test_theorem_3_7_bounds_reports_of_three_kinds(E):
    """With a share of .9, and n such that 6 others are left, Theorem 3.1 is 3.7 and no tail."""
    m, share = 6, 0.9
    n = int(np.ceil((m - 1) * E / (1 - share))) + 2
    for order in (2, 3, 6):
        bound = float(shuffled_rdp_upper(order, Setting(n, 3, log(E)), share))
        found = []
        for part in (0.2, 0.7, 0.999):
            a = part / (1 + E)
            p = np.array([a, a * E, 1 - part])
            for kept in (1.0, 0.5):
                flipped = kept * np.array([a * E, a, 1 - part]) + (1 - kept) * p
                found.append(_all_equal_divergence(p, flipped, m, order))
        assert max(found) <= bound
        assert order > 2 or max(found) > 0.99 * bound


def test_clones_are_better_for_one_round():
    for n, eps0 in ((10**4, 0.5), (10**4, 3.0), (10**6, 1.0), (10**6, 4.0)):
        setting = Setting(n, 2, eps0)
        clones, renyi = (
            BOUNDS[b].curve(setting).epsilon(log(1e-6)).only for b in ("clones", "renyi")
        )
        assert clones < renyi / 1.5
