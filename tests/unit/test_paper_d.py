"""What paper D's recomputed figure must show."""

import numpy as np
import pytest
from scipy.stats import binom, multinomial, multivariate_normal, norm
from shuffledp.accounting.one_round.certified import weak_adversary_log_delta
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.matrix import MatrixRandomiser
from shuffledp.papers.paper_d import curves as paper_d
from shuffledp.papers.paper_d import published
from shuffledp.papers.paper_d.curves import normal_distances
from shuffledp.papers.paper_d.estimates import BUDGET_LAWS
from shuffledp.papers.paper_d.published import mu_gdp
from shuffledp.personalised import budgets
from shuffledp.personalised.groups import BudgetGroups
from shuffledp.personalised.krr import personalised_log_delta

LOG_DELTA = -np.log(1000.0)


@pytest.mark.parametrize("law", BUDGET_LAWS)
def test_budgets_are_drawn_once_and_repeated(law):
    once, more = paper_d.budget_groups(law, 1_000), paper_d.budget_groups(law, 30_000)
    assert once.counts.sum() == 1_000
    assert more.counts.sum() == 30_000
    assert (more.values == once.values).all()
    assert once.values.min() >= BUDGET_LAWS[law].low
    assert once.values.max() == pytest.approx(min(BUDGET_LAWS[law].high, once.values.max()))
    assert np.allclose(once.values / 0.05, np.round(once.values / 0.05))
    middle = 1.0 if "2" in law or "3" in law else 0.5
    assert once.values @ once.counts / 1_000 == pytest.approx(middle, abs=0.1)


@pytest.mark.parametrize("law", ["Uniform 1", "Gauss 3"])
def test_bounds_are_in_order(law):
    groups = paper_d.budget_groups(law, 1_000)
    bounds = paper_d.bounds_on_epsilon(groups, LOG_DELTA, 0.1)
    exact = bounds[paper_d.PERSONALISED]
    assert float(personalised_log_delta(exact, groups, paper_d.K)) == pytest.approx(
        LOG_DELTA, abs=3e-4
    )
    assert exact < bounds[paper_d.CLONES]
    assert exact < 0.9 * bounds[paper_d.LARGEST]
    # A wrong start leads to the same place.
    again = paper_d.bounds_on_epsilon(groups, LOG_DELTA, 0.03)
    assert again[paper_d.PERSONALISED] == pytest.approx(exact, rel=3e-5)


def test_mu_gdp_by_its_formula():
    groups = BudgetGroups(np.array([0.5, 1.5]), np.array([400, 600]))
    eps = published.mu_gdp_epsilon(LOG_DELTA, groups)
    # The target, of budget 1.5, is left out of the sum.
    mu = np.sqrt(2.0 / (400.0 / (1.0 + np.exp(0.5)) + 599.0 / (1.0 + np.exp(1.5))))
    delta = norm.cdf(mu / 2 - eps / mu) - np.exp(eps) * norm.cdf(-mu / 2 - eps / mu)
    assert delta == pytest.approx(1e-3, rel=1e-6)


def test_mu_gdp_is_no_use_at_small_budgets():
    """Uniform 1: twice what all users at the largest budget have, certified."""
    bounds = paper_d.bounds_on_epsilon(paper_d.budget_groups("Uniform 1", 1_000), LOG_DELTA, 0.1)
    assert bounds[paper_d.MU_GDP] > 2.0 * bounds[paper_d.LARGEST]
    assert bounds[paper_d.MU_GDP] > 2.0 * bounds[paper_d.PERSONALISED]


def test_equal_budgets_are_the_ordinary_bound():
    groups = BudgetGroups(np.array([1.0]), np.array([1_000]))
    bounds = paper_d.bounds_on_epsilon(groups, LOG_DELTA, 0.1)
    exact = bounds[paper_d.PERSONALISED]
    assert float(weak_adversary_log_delta(exact, Setting(1_000, 2, 1.0))) == pytest.approx(
        LOG_DELTA, abs=3e-4
    )
    assert bounds[paper_d.LARGEST] == pytest.approx(exact, rel=3e-5)


def test_figure_says_what_is_assumed():
    assert "Assumed: binary reports (k = 2)" in paper_d.FIGURES["figure-4"].caption


# --- Figures 2 and 3 ------------------------------------------------------------------------------


def brute_tradeoff(alpha):
    """Ten rounds of randomised response: reject the sums of losses that are the least likely."""
    share = 1.0 / (1.0 + np.exp(-(10**-0.5)))
    counts = np.arange(11)
    null, other = binom.pmf(counts, 10, 1.0 - share), binom.pmf(counts, 10, share)
    rejected = np.concatenate([[0.0], np.cumsum(null[::-1])])
    accepted = np.concatenate([[1.0], 1.0 - np.cumsum(other[::-1])])
    return np.interp(alpha, rejected, accepted)


def test_ten_rounds_are_a_sum_of_binomial_losses():
    alpha = np.linspace(0.0, 1.0, 57)
    np.testing.assert_allclose(paper_d.composed_tradeoff(alpha), brute_tradeoff(alpha), atol=1e-12)


def test_eps_of_ten_rounds_is_as_printed():
    eps = paper_d.composed_epsilon()
    assert f"{eps:.4f}" == "2.8897"
    alpha = np.geomspace(1e-6, 1.0, 20_001)
    exact = paper_d.composed_tradeoff(alpha)
    for factor, safe in ((1.0, True), (0.999, False)):
        line = 1.0 - paper_d.DELTA - np.exp(factor * eps) * alpha
        assert (exact >= line - 1e-12).all() == safe


def test_a_delta_draws_a_curve_towards_the_origin():
    alpha = np.linspace(0.0, 1.0, 101)
    inner = paper_d.gaussian_tradeoff(alpha, 1.0)
    outer = paper_d.compressed(0.9 * alpha, 1.0, 0.1)
    np.testing.assert_allclose(outer, 0.9 * inner, atol=1e-12)
    assert paper_d.compressed(np.array([0.95]), 1.0, 0.1) == 0.0
    assert paper_d.gaussian_tradeoff(np.array([0.1]), 1.0) == pytest.approx(
        norm.cdf(norm.isf(0.1) - 1.0)
    )


@pytest.mark.parametrize("figure", ["figure-2", "figure-3"])
def test_tradeoff_curves_fall_and_stay_below_no_loss(figure):
    for _, rows in paper_d.FIGURES[figure].compute().groupby(["panel", "curve"]):
        assert (rows["y"].diff().dropna() <= 1e-15).all()
        assert (rows["y"] <= 1.0 - rows["x"] + 1e-15).all()
        assert len(rows) == 401


# --- Eq. (15) -------------------------------------------------------------------------------------


def brute_distances(n, eps0):
    """Both distances from a table of all counts and SciPy's bivariate distribution function."""
    others, share = n - 1, (1 - 1 / n) / (1 + np.exp(eps0))
    law = multinomial(others, [share, share, 1 - 2 * share])
    mean = np.full(2, others * share)
    normal = multivariate_normal(mean, others * (share * np.eye(2) - share**2))
    first, second = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    third = others - first - second
    counts = np.stack([first, second, np.maximum(third, 0)], axis=-1)
    pmf = np.where(third >= 0, law.pmf(counts), 0.0)

    def mass(low, high):
        corners = [
            normal.cdf(np.stack([first + a, second + b], axis=-1))
            for a, b in ((high, high), (high, low), (low, high), (low, low))
        ]
        return corners[0] - corners[1] - corners[2] + corners[3]

    total = 0.5 * np.abs(pmf - mass(-0.5, 0.5)).sum()
    outside = 0.5 * (1.0 - mass(-0.5, 0.5).sum())
    return np.abs(pmf - mass(0.0, 0.5)).max(), total + outside


@pytest.mark.parametrize(("n", "eps0"), [(5, 1.0), (20, 0.1), (50, 0.1)])
def test_distances_from_the_normal_law(n, eps0):
    assert normal_distances(n, eps0) == pytest.approx(brute_distances(n, eps0), abs=1e-6)


def test_equation_15_is_not_what_it_says():
    """Printed .0206, and falling like 1/n; the total variation distance does so like 1/sqrt(n)."""
    assert {n for n in range(40, 60) if f"{normal_distances(n, 0.1)[0]:.4f}" == "0.0206"} == {
        49,
        50,
    }
    few, many = normal_distances(50, 0.1), normal_distances(800, 0.1)
    assert 12 < few[0] / many[0] < 20
    assert 3.5 < few[1] / many[1] < 4.5


def test_mu_is_the_distance_of_two_normal_laws():
    """Theorem 2, from the covariance of the others' reports, user by user."""
    budgets = np.array([0.0, 0.3, 1.0, 2.5, 4.0])
    covariance = np.zeros((2, 2))
    for eps in budgets[:-1]:
        p = 1.0 / (1.0 + np.exp(eps))
        covariance += np.diag([p, p]) - p * p
    step = np.array([-1.0, 1.0])
    expected = np.sqrt(step @ np.linalg.solve(covariance, step))
    assert mu_gdp(budgets) == pytest.approx(expected, rel=1e-12)


def test_claims_beside_echoes():
    """Docs/papers.md, claim (iii): how many times Liu et al.'s eps is that of mu-GDP."""
    ratios = []
    for law in BUDGET_LAWS:
        for n in (paper_d.N_USERS[0], paper_d.N_USERS[-1]):
            groups = paper_d.budget_groups(law, n)
            echoes = published.echoes_epsilon(-np.log(n), groups)
            ratios.append(echoes / published.mu_gdp_epsilon(-np.log(n), groups))
    assert round(min(ratios), 1) == 2.8
    assert round(max(ratios), 1) == 5.3


def test_the_law_of_the_budgets_matters():
    """Docs/papers.md, claim (iv): mu-GDP is 3 % apart, the exact eps of binary reports 13 %."""
    bounds_by_law = [
        paper_d.bounds_on_epsilon(paper_d.budget_groups(law, 1_000), LOG_DELTA, 0.1)
        for law in ("Uniform 2", "Gauss 2")
    ]
    mu = [one[paper_d.MU_GDP] for one in bounds_by_law]
    exact = [one[paper_d.PERSONALISED] for one in bounds_by_law]
    assert round(100 * (mu[1] / mu[0] - 1)) == 3
    assert round(100 * (exact[0] / exact[1] - 1)) == 13


@pytest.mark.slow
def test_corollaries_beside_what_is_certified():
    """Docs/papers.md, Corollaries 1 and 2: eps of the groups of figures 6 to 8, delta = 1e-6."""
    groups, log_delta = BudgetGroups.of_counts([0.1, 0.5, 1.0], [5400, 3700, 900]), np.log(1e-6)
    assert round(published.mu_gdp_epsilon(log_delta, groups), 3) == 0.078
    for kind, expected in (("laplace", 0.061), ("binary", 0.033)):
        how = budgets.reports(kind)
        assert round(budgets.epsilon(log_delta, groups, 2, how), 3) == expected


def _law(first, others, d):
    """Law of how many reports show record 0 and record 1, shape ``(n + 1, n + 1)``."""
    law = np.array([[1.0]])
    for record in (first, *others):
        wider = np.zeros(np.add(law.shape, 1))
        wider[:-1, :-1] += (1.0 - d) * law
        (wider[1:, :-1] if record == 0 else wider[:-1, 1:])[...] += d * law
        law = wider
    return law


@pytest.mark.parametrize("n", [2, 5, 40])
def test_a_record_that_is_shown_is_not_hidden_by_the_others(n):
    """Lemma 2 of paper D: eps_i = 0, the record shown with probability delta_i."""
    d = 0.1
    others = [0] * (n - 1)
    distance = np.abs(_law(0, others, d) - _law(1, others, d)).sum() / 2.0
    assert distance == pytest.approx(d, rel=1e-12)
    shown = MatrixRandomiser([[d, 0.0, 1.0 - d], [0.0, d, 1.0 - d]])
    ends = shown.curve(Setting(n, 2)).log_delta(0.0)
    assert np.log(d) - 1e-4 < ends.lower <= np.log(d) <= ends.upper < np.log(d) + 1e-4
    # (10) and (11): the target's own part, exchanged; what is added to it is the same in both.
    own = {(1, 0, 0): (1.0 - d) / 2.0, (0, 1, 0): (1.0 - d) / 2.0, (0, 0, 1): d}
    assert {(b, a, c): mass for (a, b, c), mass in own.items()} == own


def test_theorem_3_fails_for_every_constant():
    """Its lower bound on the type II error passes the truth, 1 - alpha - delta_i."""
    d, alpha = 0.1, 0.5
    for constant in (0.0, 1.0, 100.0):
        for n in 10.0 ** np.arange(2, 12):
            lost, mu = constant / np.sqrt(n - 1), 2.0 / np.sqrt((n - 1) * (1.0 - d))
            normal = norm.cdf(norm.ppf(1.0 - min(alpha + lost, 1.0)) - mu)
            promised = d * (1.0 - alpha) + (1.0 - d) * (normal - lost)
        assert promised > 1.0 - alpha - d + 0.09


def test_a_mixture_has_a_smaller_tradeoff_than_the_average_at_one_alpha():
    """(18) and (19) of paper D: half hidden, half open; the case is seen."""
    alpha = np.linspace(0.0, 1.0, 101)
    split = np.linspace(0.0, 1.0, 1001)  # type I error where nothing is told
    best = [min(0.5 * (1.0 - split[split <= 2.0 * a])) for a in alpha]
    np.testing.assert_allclose(best, np.maximum(0.0, 0.5 - alpha), atol=1e-12)
    assert (0.5 * (1.0 - alpha[1:-1]) > np.array(best)[1:-1]).all()
