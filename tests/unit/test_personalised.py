"""Personal budgets of k-RR, against the mechanism in exact rationals and equal budgets."""

from fractions import Fraction
from itertools import combinations_with_replacement
from math import exp, log

import numpy as np
import pytest
from effort import long
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import exact, high_precision

from shuffledp.accounting import pairs
from shuffledp.accounting.krr import lower_log_delta
from shuffledp.accounting.laws.poisson_binomial import poisson_binomial
from shuffledp.accounting.pairs import hockey_stick
from shuffledp.accounting.rounds.tradeoff import gdp_to_log_delta
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.papers.paper_d.curves import (
    personalised_clones_log_delta,
)
from shuffledp.papers.paper_d.estimation import BUDGET_LAWS, sample_budgets
from shuffledp.papers.paper_d.published import mu_gdp
from shuffledp.personalised import krr_reports
from shuffledp.personalised.groups import BudgetGroups
from shuffledp.personalised.krr_reports import personalised_log_delta


def mechanism_delta(ratios, target, others, k, e, weak):
    """Return the target's delta; the weak view also reveals who of the others randomised."""
    order = [ratios[target], *ratios[:target], *ratios[target + 1 :]]
    revealed = range(1, len(order)) if weak else ()
    laws = [exact.view_law([record, *others], k, order, revealed) for record in (0, 1)]
    return exact.hockey_stick(*laws, e)


POWERS = [Fraction(1), Fraction(3, 2), Fraction(2), Fraction(5), Fraction(40)]


@st.composite
def settings_of_users(draw, most=4):
    ratios = draw(st.lists(st.sampled_from(POWERS), min_size=1, max_size=most))
    target = draw(st.integers(0, len(ratios) - 1))
    if ratios[target] == 1:
        ratios[target] = Fraction(3)
    share = Fraction(draw(st.integers(0, 9)), 10)
    return ratios, target, 1 + (ratios[target] - 1) * share


@given(settings_of_users(), st.integers(2, 3))
@settings(max_examples=50, deadline=None)
def test_weak_view_of_the_mechanism_is_met_exactly(users, k):
    ratios, target, e = users
    truth = mechanism_delta(ratios, target, [k - 1] * (len(ratios) - 1), k, e, weak=True)
    got = float(personalised_log_delta(log(e), [log(E) for E in ratios], k, target))
    if truth == 0:
        assert exp(got) < 1e-15
    else:
        assert got >= log(truth) - 1e-13
        assert abs(got - log(truth)) < 1e-9


@given(settings_of_users(most=3), st.integers(2, 3))
@settings(max_examples=25, deadline=None)
def test_no_data_set_leaks_more(users, k):
    ratios, target, e = users
    bound = exp(personalised_log_delta(log(e), [log(E) for E in ratios], k, target))
    for others in combinations_with_replacement(range(k), len(ratios) - 1):
        truth = mechanism_delta(ratios, target, others, k, e, weak=False)
        assert float(truth) <= bound * (1 + 1e-12)


# A local budget is 0 or at least 1e-200.
@given(
    st.lists(st.just(0.0) | st.floats(1e-200, 6), min_size=2, max_size=40),
    st.integers(2, 30),
    st.floats(0, 0.99),
)
@settings(max_examples=60, deadline=None)
def test_the_largest_budget_is_the_worst_target(budgets, k, share):
    eps = share * max(budgets)
    whole = personalised_log_delta(eps, budgets, k)
    each = [personalised_log_delta(eps, budgets, k, user) for user in range(len(budgets))]
    # Both are rounded up by at most 1e-9 of the logarithm.
    slack = 2e-9 * max(1.0, -float(whole)) if np.isfinite(whole) else 0.0
    assert max(each) == pytest.approx(float(whole), abs=slack)
    assert np.all(np.array(each) <= whole + slack)


EQUAL = [
    (1, 5, 1.0, 0.2),
    (100, 1000, 20.0, 10.0),
    (1000, 3, 0.001, 0.0005),
    (1000, 408, 4.0, 0.0),
    (10_000, 16, 1.0, 0.0186),
    (100_000, 408, 4.0, 0.05),
    (1_000_000, 2, 1.0, 0.005),
    long(1_000_000, 408, 4.0, 0.02),
]


@pytest.mark.parametrize(("n", "k", "eps0", "eps"), EQUAL)
def test_equal_budgets_are_the_weak_adversary(monkeypatch, n, k, eps0, eps):
    monkeypatch.setattr(krr_reports, "MAX_TERMS", np.inf)  # the exact sum
    reference = hockey_stick(pairs.weak_adversary(Setting(n, k, eps0)), eps).high
    groups = BudgetGroups(np.array([eps0]), np.array([n]))
    got = float(personalised_log_delta(eps, groups, k))
    # The allowance for rounding grows with the number of users.
    size = max(1.0, -reference / 690) * (1.0 + 1e-5 * n)
    assert abs(got - reference) < 1e-9 * size
    # Many small groups of the same users take another path than a binomial law.
    if n <= 100_000:
        parts = BudgetGroups(np.full(-(-n // 50), eps0), np.append(np.full((n - 1) // 50, 50), 0))
        parts.counts[-1] = n - parts.counts[:-1].sum()
        assert abs(float(personalised_log_delta(eps, parts, k)) - reference) < 1e-9 * size


@pytest.mark.parametrize(
    ("n", "k", "eps0", "share"),
    [
        (2715, 24, 29.0, 1 - 1e-6),
        (15, 2, 31.4, 1 - 1e-6),
        (3, 2, 0.02, 1 - 1e-6),
        (60, 7309, 0.016, 1 - 1e-6),
    ],
)
def test_digits_survive_large_budgets_and_an_eps_close_to_them(n, k, eps0, share):
    eps = share * eps0
    reference = float(high_precision.upper_log_delta(n, k, eps0, eps))
    groups = BudgetGroups(np.array([eps0]), np.array([n]))
    got = float(personalised_log_delta(eps, groups, k))
    assert 0.0 <= got - reference < 1e-9 * max(1.0, -reference / 690)


def test_delta_far_below_floating_point():
    budgets = BudgetGroups(np.array([0.1, 1.0, 3.0]), np.array([4_000, 4_000, 2_000]))
    deep = personalised_log_delta([1.0, 2.0, 2.9], budgets, 16)
    assert np.all(np.isfinite(deep))
    assert np.all(np.diff(deep) < 0.0)
    assert deep[-1] < -1000.0
    assert personalised_log_delta(3.0, budgets, 16) == -np.inf


def test_a_user_with_a_lower_budget_protects_the_others():
    before = np.array([0.5] * 300 + [2.0] * 200)
    after = before.copy()
    after[400:450] = 0.0  # reports that carry nothing
    for k in (2, 3, 20):
        assert np.all(
            personalised_log_delta([0.05, 0.5], after, k)
            < personalised_log_delta([0.05, 0.5], before, k)
        )


# --- Paper D ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("E", "e"),
    [(Fraction(3), Fraction(3, 2)), (Fraction(20), Fraction(11)), (Fraction(3), Fraction(1))],
)
def test_clones_with_equal_budgets_are_the_clones(E, e):
    truth = exact.clones_delta(12, E, e)
    got = float(personalised_clones_log_delta(log(e), [log(E)] * 12))
    assert 0.0 <= got - log(truth) < 1e-9


@given(settings_of_users(most=3))
@settings(max_examples=30, deadline=None)
def test_clones_hold_for_two_rr_of_any_budgets(users):
    # 2-RR satisfies the condition 1/(E_i+1) >= 1/(2 E_i) of the docstring.
    ratios, target, e = users
    budgets = [log(E) for E in ratios]
    bound = exp(personalised_clones_log_delta(log(e), budgets, target))
    assert bound <= exp(personalised_clones_log_delta(log(e), budgets)) * (1 + 1e-8) or target != (
        ratios.index(max(ratios))
    )
    for others in combinations_with_replacement(range(2), len(ratios) - 1):
        truth = mechanism_delta(ratios, target, others, 2, e, weak=False)
        assert float(truth) <= bound * (1 + 1e-12)


@pytest.mark.slow
def test_clones_are_no_guarantee_for_krr_with_unequal_budgets():
    # Uniform reports of k-RR spread over k cells, clones over two.
    ratios = [Fraction(40), Fraction(1), Fraction(3)]
    truth = mechanism_delta(ratios, 0, [2, 2], 3, Fraction(1), weak=False)
    budgets = [log(E) for E in ratios]
    assert truth == Fraction(39, 70)
    assert exp(personalised_clones_log_delta(0.0, budgets, 0)) == pytest.approx(39 / 82, rel=1e-9)
    assert exp(personalised_log_delta(0.0, budgets, 3, 0)) >= float(truth)
    # For a million users, too, it is a hundredth of the exact weak view.
    many = BudgetGroups(np.array([0.5, 1.0, 4.0]), np.array([540_000, 370_000, 90_000]))
    weak = personalised_log_delta(0.01, many, 16)
    assert personalised_clones_log_delta(0.01, many) < weak - np.log(100.0)


def test_mu_of_paper_d_is_no_bound():
    budgets = np.full(1000, 4.0)
    mu = mu_gdp(budgets)
    assert mu == pytest.approx(np.sqrt(2.0 * (1.0 + np.exp(4.0)) / 999.0), rel=1e-14)
    # mu-GDP reaches delta = 1e-6 at eps = 1.449; some data set of 2-RR needs 1.691.
    assert gdp_to_log_delta(1.449377, mu) == pytest.approx(np.log(1e-6), abs=1e-5)
    assert lower_log_delta(1.6910, Setting(1000, 2, 4.0)) >= np.log(1e-6)
    assert lower_log_delta(1.4494, Setting(1000, 2, 4.0)) > gdp_to_log_delta(1.4494, mu) + 1.0
    assert mu_gdp([1.0]) == np.inf
    assert mu_gdp([0.0, 1.0, 2.0], 0) > mu_gdp([0.0, 1.0, 2.0], 2)  # the target is left out


@pytest.mark.parametrize("name", sorted(BUDGET_LAWS))
def test_budgets_follow_table_3(name):
    low, high, mean = {
        "Uniform 1": (0.05, 1.0, 0.525),
        "Uniform 2": (0.01, 2.0, 1.005),
        # Gauss 1 is clipped at -2.25 and 2.5 deviations, which moves its mean by .0005; the other
        # normal laws are clipped symmetrically.
        "Gauss 1": (0.05, 1.0, 0.5005),
        "Gauss 2": (0.01, 2.0, 1.0),
        "Gauss 3": (0.01, 2.0, 1.0),
    }[name]
    draws = sample_budgets(name, 40_000, np.random.default_rng(5))
    assert draws.min() >= low
    assert draws.max() <= high
    assert draws.mean() == pytest.approx(mean, abs=4 * 0.58 / 200)  # 4 standard errors
    assert np.array_equal(draws, sample_budgets(name, 40_000, np.random.default_rng(5)))
    clipped = np.count_nonzero((draws == low) | (draws == high)) / draws.size
    # The normal tails beyond the range.
    expected = {"Gauss 1": 0.0184, "Gauss 3": 0.0466}.get(name, 0.0)
    assert clipped == pytest.approx(expected, abs=0.005)


# --- Poisson-binomial law -----------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 64), st.integers(1, 90)), min_size=1, max_size=8))
@settings(max_examples=50, deadline=None)
def test_law_of_the_sum_is_exact_and_accounts_for_what_it_drops(groups):
    counts = np.array([count for _, count in groups])
    # Probabilities are multiples of 1/64, so the law times 64^total is an integer.
    truth = [1]
    for part, count in groups:
        for _ in range(count):
            staying, moving = [*truth, 0], [0, *truth]
            truth = [a * (64 - part) + b * part for a, b in zip(staying, moving, strict=True)]
    total = 64 ** int(counts.sum())
    p = np.array([part for part, _ in groups]) / 64.0
    window = poisson_binomial(p, counts, 1.0 - p)
    inside = truth[window.start : window.start + window.mass.size]
    assert len(inside) == window.mass.size
    # Trimmed partial sums may show below 1e-20.
    assert window.mass == pytest.approx([weight / total for weight in inside], rel=1e-11, abs=1e-20)
    left_out = (total - sum(inside)) / total
    assert left_out <= window.missing * (1.0 + 1e-9)  # a sum of floats, rounded
    assert window.missing < 1e-20


def test_a_negative_eps_is_refused():
    with pytest.raises(InputError, match="eps=-1"):
        personalised_log_delta(-1.0, [1.0, 2.0], 3)
