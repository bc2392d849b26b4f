"""Figures, simplified bounds and headline numbers of paper B."""

from fractions import Fraction
from itertools import product
from math import comb, log
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import log_ndtr
from scipy.stats import binom, multinomial

from shuffledp.accounting import krr
from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.setting import Setting
from shuffledp.papers import paper_b
from shuffledp.papers.literature.renyi import shuffled_rdp_upper, special_pair_renyi
from shuffledp.papers.literature.theorems import advanced_epsilon, kov_epsilon
from shuffledp.papers.paper_b import corollary_3_2, corollary_3_5, remark_3
from shuffledp.papers.verdicts import read_published

ORDERS = np.unique(np.round(np.geomspace(2.0, 16384.0, 120)))
PUBLISHED = Path(__file__).parents[2] / "resources" / "published_values.csv"


def test_divergence_of_the_special_pair_lies_between_the_theorems() -> None:
    table = paper_b.rdp_against_order()
    keys = ["panel", "x"]
    divergences = table.pivot_table(index=keys, columns="curve", values="y", sort=False)
    pair = divergences["special pair of 2-RR, exact, larger direction"]
    assert (divergences["Girgis et al., Theorem 3.4"] <= pair * (1 + 1e-9)).all()
    for upper in (paper_b.THEOREM_3_1, "Girgis et al., Theorem 3.3", paper_b.ERLINGSSON):
        assert (pair <= divergences[upper]).all()


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the eps of mu-GDP at delta."""

    def excess(eps: float) -> float:
        first = np.exp(log_ndtr(mu / 2 - eps / mu))
        return float(first - np.exp(eps + log_ndtr(-mu / 2 - eps / mu)) - delta)

    return float(brentq(excess, 0.0, 20.0))


def clones_epsilons(setting: Setting, counts: np.ndarray, rate: float = 1.0) -> np.ndarray:
    """Return the eps of numeric clones composed by two theorems, and of their closed form."""
    numeric, closed = paper_b.numeric_clones_epsilon, paper_b.closed_clones_epsilon
    pairs = [(numeric, kov_epsilon), (numeric, advanced_epsilon), (closed, kov_epsilon)]
    return np.array([paper_b.composed_dp(*pair, setting, counts, rate)[0] for pair in pairs])


def test_headline_of_composition() -> None:
    setting, counts = Setting(1_000_000, 2, 0.5), np.array([1e5])
    n, eps0 = setting.n, setting.eps0
    eps = float(paper_b.composed_renyi(shuffled_rdp_upper(ORDERS, setting), ORDERS, counts)[0])
    assert eps == pytest.approx(1.640, abs=5e-4)
    factors = clones_epsilons(setting, counts) / eps
    assert factors == pytest.approx([4.47, 5.48, 21.3], rel=2e-3)
    upper = float(paper_b.certified_composition(setting, counts, "upper")[0])
    lower = float(paper_b.certified_composition(setting, counts, "lower")[0])
    assert lower < upper
    assert upper == pytest.approx(0.905, abs=5e-4)
    assert eps / upper == pytest.approx(1.8, abs=0.05)
    assert factors[0] * eps / upper == pytest.approx(8.1, abs=0.05)
    # Over so many rounds the loss is nearly Gaussian, with the variance of the special pair.
    mu = np.expm1(eps0) * np.sqrt(counts[0] / (n * np.exp(eps0)))
    assert lower == pytest.approx(gaussian_epsilon(mu, 1e-8), rel=5e-3)
    # The upper end has the variance of the weak adversary's pair.
    weak = np.expm1(eps0) * np.sqrt(2.0 * counts[0] / (n * (np.exp(eps0) + 1.0)))
    assert upper == pytest.approx(gaussian_epsilon(weak, 1e-8), rel=5e-3)


def test_headline_of_sampling() -> None:
    counts, all_users = np.array([1e4]), Setting(1_000_000, 2, 3.0)
    eps = float(paper_b.sampled_renyi(all_users, 1e-3, counts)[0])
    setting = paper_b.mean_sample(all_users, 1e-3)
    assert eps == pytest.approx(1.016, abs=2e-3)
    factors = clones_epsilons(setting, counts, 1e-3) / eps
    assert factors == pytest.approx([3.49, 4.22, 12.0], rel=5e-3)
    assert paper_b.closed_clones_epsilon(np.log(1e-8), setting) == 3.0


def test_rounds_gained_by_sampling() -> None:
    """The gain is 17 at the rounds stated for clones, but 6.6 at those for Theorem 3.1."""
    row = next(one for one in read_published(PUBLISHED) if one.quantity.startswith("rounds gained"))
    answer = paper_b.interactions(row)
    more = float(answer.as_printed or 0)
    assert row.agrees(answer.as_printed)
    assert more == pytest.approx(17.5, abs=0.1)
    assert "the factor is 6.6, below" in answer.note
    all_users = Setting(1_000_000, 2, 3.0)
    setting = paper_b.mean_sample(all_users, 1e-3)

    counts = np.array([1e4, np.round(1e4 * more)])
    few, many = paper_b.sampled_renyi(all_users, 1e-3, counts)
    assert many == pytest.approx(clones_epsilons(setting, counts[:1], 1e-3)[0], rel=2e-3)
    fewer = np.round(counts[:1] / 6.6)
    assert few == pytest.approx(clones_epsilons(setting, fewer, 1e-3)[0], rel=1e-2)


@pytest.mark.slow
def test_a_known_sample_averages_over_the_rounds_with_the_target() -> None:
    eps0, n, rate, count = 1.0, 2000, 0.3, 8
    eps = paper_b.known_sample_epsilon(Setting(n, 2, eps0, count), rate)
    j = np.arange(1, count + 1)

    def mean(participants: int) -> float:
        settings = [Setting(participants, 2, eps0, int(one)) for one in j]
        log_delta = [krr.dominating_log_delta(eps, one) for one in settings]
        return float(binom.pmf(j, count, rate) @ np.exp(log_delta))

    # It lies between the means for the mean number of participants and for three deviations fewer.
    typical = 1 + round(rate * (n - 1))
    assert mean(typical) < 1e-8 < mean(typical - round(3 * (n * rate * (1 - rate)) ** 0.5))


# --- Simplified bounds ---------------------------------------------------------------------------


def exact_ratio(order, E, n):
    """Return ``E[(P/Q)^order]`` under Q exactly, where Q is 2-RR of equal users and P flips one."""
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
def test_corollary_3_5_is_below_its_pair(E, n):
    for order in (2, 3, 4, 7):
        exact = log(exact_ratio(order, E, n)) / (order - 1)
        bound = float(corollary_3_5(order, Setting(n, 2, log(E))))
        assert bound <= exact * (1 + 1e-12)
        if order == 2:
            assert bound == pytest.approx(exact, rel=1e-12)


def test_corollary_3_2_by_hand_and_its_condition():
    # l = 2, E = 2: 16 * 32 < n / 9 from n = 4609 on.
    assert float(corollary_3_2(2, Setting(4608, 2, log(2)))) == np.inf
    bound = float(corollary_3_2(2, Setting(5000, 2, log(2))))
    assert bound == pytest.approx(log(1 + 4 / 5000), rel=1e-12)
    assert bound / float(corollary_3_5(2, Setting(5000, 2, log(2)))) == pytest.approx(8, rel=1e-3)


def test_remark_3_lies_between_the_pair_and_theorem_3_1():
    for n, eps0 in ((300, 0.01), (10**4, 1.0), (10**6, 3.0)):
        orders, setting = np.array([2.0, 8.0, 40.0]), Setting(n, 2, eps0)
        bound = remark_3(orders, setting)
        assert np.all(special_pair_renyi(orders, setting) <= bound)
        assert np.all(bound <= shuffled_rdp_upper(orders, setting) * 1.01)
    # It saves a factor 2 in the leading term, and more where others matter.
    orders, setting = np.array([2.0, 10.0]), Setting(10**6, 2, 3.0)
    ratio = remark_3(orders, setting) / shuffled_rdp_upper(orders, setting)
    assert ratio[0] == pytest.approx(0.52, abs=0.01)
    assert ratio[1] == pytest.approx(0.40, abs=0.01)


def _all_equal_divergence(p, flipped, m, order):
    """Return the Rényi divergence of m reports from p if one of them has law ``flipped``."""
    counts = np.array([h for h in product(range(m + 1), repeat=p.size) if sum(h) == m])
    law = multinomial.pmf(counts, m, p)
    other = sum(
        flipped[j] * multinomial.pmf(counts - np.eye(p.size, dtype=int)[j], m - 1, p)
        for j in range(p.size)
    )
    return np.log(np.sum(law * (other / law) ** order)) / (order - 1)


@pytest.mark.parametrize("E", [1.5, 2.0, 4.0])
def test_theorem_3_7_bounds_reports_of_three_kinds(E):
    """With shortfall .9 and n such that 6 others are left, Theorem 3.1 is 3.7 without a tail."""
    m, share = 6, 0.9
    n = int(np.ceil((m - 1) * E / (1 - share))) + 2
    for order in (2, 3, 6):
        bound = float(shuffled_rdp_upper(order, Setting(n, 3, log(E)), share))
        divergences = []
        for part in (0.2, 0.7, 0.999):
            a = part / (1 + E)
            p = np.array([a, a * E, 1 - part])
            for kept in (1.0, 0.5):
                flipped = kept * np.array([a * E, a, 1 - part]) + (1 - kept) * p
                divergences.append(_all_equal_divergence(p, flipped, m, order))
        assert max(divergences) <= bound
        assert order > 2 or max(divergences) > 0.99 * bound


def test_no_central_moment_of_the_count_is_negative():
    """For p <= 1/2 this proves Corollary 3.5 without convexity."""
    for n in (1, 2, 5, 9):
        for p in (Fraction(1, 2), Fraction(1, 3), Fraction(1, 9)):
            for i in range(2, 12):
                terms = (
                    comb(n, x) * p**x * (1 - p) ** (n - x) * (x - n * p) ** i for x in range(n + 1)
                )
                assert sum(terms) >= 0


def test_clones_are_better_for_one_round():
    for n, eps0 in ((10**4, 0.5), (10**4, 3.0), (10**6, 1.0), (10**6, 4.0)):
        setting = Setting(n, 2, eps0)
        clones, renyi = (
            BOUNDS[b].curve(setting).epsilon(log(1e-6)).only for b in ("clones", "renyi")
        )
        assert clones < renyi / 1.5
