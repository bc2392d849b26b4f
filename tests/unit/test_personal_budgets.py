"""Users with personal budgets: decoys, Laplace and Gaussian reports, everybody's eps, command."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, norm

from shuffledp.accounting.conventions import log_of_delta
from shuffledp.accounting.laws.mixture import RandomTrials
from shuffledp.accounting.rounds.tradeoff import (
    gdp_epsilon,
    gdp_to_log_delta,
    gdp_upper_log_delta,
)
from shuffledp.cli import main
from shuffledp.papers.paper_d import published
from shuffledp.personalised import budgets, krr_reports, noisy_reports
from shuffledp.personalised.decoys import log_mean_over_decoys
from shuffledp.personalised.groups import BudgetGroups
from shuffledp.personalised.krr_reports import personalised_log_delta
from shuffledp.queries import personal_budgets

THREE = BudgetGroups(np.array([0.1, 0.5, 1.0]), np.array([540, 370, 90]))
FEW = BudgetGroups(np.array([0.5, 1.0]), np.array([60, 20]))
LOG_DELTA = log_of_delta(1e-6)


# --- the number of decoys ------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    n=st.integers(1, 3000),
    share=st.floats(0.001, 0.999),
    fall=st.floats(0.0, 2.0),
    power=st.sampled_from([0.5, 1.0]),
)
def test_the_mean_over_decoys_is_never_too_small(n, share, fall, power):
    """Compare with the sum over a binomial law, for curves of the admissible shapes."""

    def log_delta(m):
        return -fall * (m - 1.0) ** power

    others = RandomTrials(np.array([np.log(share / (1.0 - share))]), np.array([n]))
    bound = log_mean_over_decoys(others, log_delta, log_delta, 16)
    m = np.arange(n + 1)
    truth = np.logaddexp.reduce(binom.logpmf(m, n, share) + log_delta(m + 1.0))
    # SciPy's law is accurate to a relative 1e-10 of its logarithm.
    slack = 1e-10 * (1.0 + abs(truth))
    assert bound >= truth - slack
    # Blocks are half a standard deviation wide, except the first, which holds the far tail.
    if fall * np.sqrt(n) < 1.0:
        assert bound <= truth + 0.6 * fall * np.sqrt(n * share * (1.0 - share)) + 0.1


@pytest.mark.parametrize("k", [2, 3, 408])
@pytest.mark.parametrize("eps", [0.003, 0.05, 0.3])
def test_blocks_of_uniform_reports_are_just_above_the_exact_sum(monkeypatch, k, eps):
    groups = BudgetGroups(THREE.values, 5 * THREE.counts)
    exact = float(personalised_log_delta(eps, groups, k))
    monkeypatch.setattr(krr_reports, "MAX_TERMS", 0.0)
    assert exact <= float(personalised_log_delta(eps, groups, k)) <= exact + 4e-3 * abs(exact)


def among(budget, others):
    """Return the groups of a target and others, and the index of the target's group."""
    values = np.append(others.values, budget)
    everybody = BudgetGroups.of_counts(values, np.append(others.counts, 1))
    return everybody, int(np.searchsorted(everybody.values, budget))


def laplace_log_delta(eps, budget, others):
    return noisy_reports.laplace_curve(*among(budget, others)).log_delta(eps).upper


def gaussian_log_delta(eps, mu, others, aim):
    return noisy_reports.gaussian_curve(*among(mu, others), aim).log_delta(eps).upper


# --- Laplace and Gaussian reports ----------------------------------------------------------------


def test_one_laplace_report_alone_has_its_own_divergence():
    """Delta is P(y < c) - exp(eps) Q(y < c), where the loss at c is eps."""
    nobody = BudgetGroups(np.zeros(0), np.zeros(0, np.int64))
    for budget, eps in ((1.0, 0.2), (3.0, 1.0), (0.1, 0.05)):
        cut = -eps / (2.0 * budget)
        left = 1.0 - 0.5 * math.exp(-budget * (cut + 0.5))
        truth = left - math.exp(eps) * 0.5 * math.exp(budget * (cut - 0.5))
        log_delta = math.exp(laplace_log_delta(eps, budget, nobody))
        assert truth <= log_delta <= truth * (1.0 + 2e-3)


def test_laplace_hide_nothing_from_their_own_budget_on():
    assert laplace_log_delta(1.0, 1.0, THREE) == -np.inf
    # Neither users with a larger budget nor those with budget 0 are decoys.
    alone = laplace_log_delta(0.05, 0.1, BudgetGroups(np.zeros(0), np.zeros(0, np.int64)))
    bold = laplace_log_delta(0.05, 0.1, BudgetGroups.of([0.0, 1.0, 1.0]))
    assert bold == pytest.approx(alone, abs=1e-9)


def densities(mu, nu, y, records):
    """Return densities of a Gaussian report for two records, and of the decoys' law."""
    first, second = (norm.pdf(y, x, 1.0 / mu) for x in records)
    blanket = np.minimum(norm.pdf(y, -0.5, 1.0 / nu), norm.pdf(y, 0.5, 1.0 / nu))
    return first, second, blanket / (2.0 * norm.cdf(-nu / 2.0))


def potential(mu, nu, eps, t, records):
    """Return ``E(G - t)_+`` by a sum over a fine grid."""
    y, step = np.linspace(-0.5 - 12.0 / nu, 0.5 + 12.0 / nu, 80_001, retstep=True)
    first, second, blanket = densities(mu, nu, y, records)
    return step * np.maximum(first - math.exp(eps) * second - t * blanket, 0.0).sum()


def most_spread(mu, nu, nodes, eps, t):
    """Bound how much moving ratios to the ends of their intervals adds to ``E(G - t)_+``.

    Means are kept, so it adds nothing where G - t keeps its sign, and elsewhere at most a quarter
    of the range.
    """
    first, second, blanket = densities(mu, nu, nodes, (-0.5, 0.5))
    near, further = second / blanket, first / blanket
    # Beyond the reach, where ratios may overflow, no mass is left.
    masses = 0.5 * np.diff(norm.cdf(nu * (nodes + 0.5))) / norm.cdf(-nu / 2.0)
    added = 0.0
    for one, other in ((near, further), (further, near)):
        low = np.minimum(one[:-1], one[1:]) - math.exp(eps) * np.maximum(other[:-1], other[1:])
        high = np.maximum(one[:-1], one[1:]) - math.exp(eps) * np.minimum(other[:-1], other[1:])
        kinks = (low < t) & (high > t)
        added += 0.25 * ((high - low) * masses)[kinks].sum()
    return added


@settings(max_examples=60)
@given(
    mu=st.floats(0.05, 4.0),
    share=st.one_of(st.just(1.0), st.floats(0.1, 1.0)),
    eps=st.floats(0.0, 3.0),
    t=st.floats(-6.0, 3.0),
    records=st.tuples(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5)),
)
def test_the_ends_of_the_interval_are_the_worst_records(mu, share, eps, t, records):
    nu = share * mu
    ends = potential(mu, nu, eps, t, (-0.5, 0.5))
    assert potential(mu, nu, eps, t, records) <= ends + 1e-8
    # The tail that is cut off has a chance below 1e-9 and counts with the value 0.
    nodes = noisy_reports._nodes(mu, nu, 1e300, -14.0)
    atoms = noisy_reports._gaussian_target(mu, nu, nodes).atoms(eps)
    of_nodes = atoms.masses @ np.maximum(atoms.values - t, 0.0) - t * (t < 0.0) * (
        1.0 - atoms.masses.sum()
    )
    assert ends - 1e-6 <= of_nodes <= ends + most_spread(mu, nu, nodes, eps, t) + 1e-6


@pytest.mark.parametrize("aim", [0.0, LOG_DELTA])
def test_gaussian_reports_without_decoys_have_their_own_delta(aim):
    nobody = BudgetGroups(np.zeros(0), np.zeros(0, np.int64))
    for mu, eps in ((0.1, 0.05), (1.0, 3.0), (3.0, 2.0)):
        alone = float(gdp_to_log_delta(eps, mu))
        assert gaussian_log_delta(eps, mu, nobody, aim) == pytest.approx(alone, abs=1e-9)
        # Neither users with less noise nor those who report nothing are decoys.
        others = BudgetGroups.of([0.0, 1.1 * mu, 1.1 * mu])
        assert gaussian_log_delta(eps, mu, others, aim) == pytest.approx(alone, abs=1e-9)


@pytest.mark.parametrize("mu", [1e-9, 0.3, 26.0])
@pytest.mark.filterwarnings("error")
def test_gaussian_reports_at_the_ends_of_floats(mu):
    others = BudgetGroups(np.array([0.5 * mu, mu]), np.array([3, 3]))
    for eps, aim in ((0.0, 0.0), (0.01, -600.0), (300.0, -600.0)):
        alone = gdp_upper_log_delta(eps, mu)
        assert gaussian_log_delta(eps, mu, others, aim) <= alone


# --- everybody's eps -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "k", "groups", "target"),
    [
        ("krr", 408, THREE, LOG_DELTA),
        ("binary", None, THREE, LOG_DELTA),
        ("laplace", None, FEW, math.log(1e-3)),
        ("gaussian", None, BudgetGroups(FEW.values, np.array([6, 2])), math.log(1e-2)),
    ],
)
def test_own_eps_keeps_its_promise_and_wastes_little(kind, k, groups, target):
    how = budgets.reports(kind, k)
    groups_eps = list(budgets.own_epsilons(target, groups, how))
    assert [one.high for one in groups_eps] == groups.values.tolist()
    assert [one.users for one in groups_eps] == groups.counts.tolist()
    for group, one in enumerate(groups_eps):
        curve = how.curve(groups, group, target)
        assert one.eps < (gdp_epsilon(one.high, target) if kind == "gaussian" else one.high)
        assert curve.log_delta(one.eps).upper <= target
        assert curve.log_delta(one.eps * (1.0 - 1e-4)).upper > target
    assert sorted(one.eps for one in groups_eps) == [one.eps for one in groups_eps]


def test_many_budgets_are_rounded_up_and_never_down():
    rng = np.random.default_rng(3)
    many = BudgetGroups.of(rng.uniform(0.05, 1.0, 4000))
    how = budgets.reports("krr", 16)
    groups_eps = list(budgets.own_epsilons(LOG_DELTA, many, how))
    assert len(groups_eps) == budgets.number_of_ranges(many, how) == 8
    assert [one.users for one in groups_eps] == [500] * 8
    for one in groups_eps[::3]:
        group = int(np.searchsorted(many.values, one.high))
        # Compare with the law of all 4,000 budgets.
        assert float(personalised_log_delta(one.eps, many, 16, group)) <= LOG_DELTA
        assert float(personalised_log_delta(one.eps * 0.995, many, 16, group)) > LOG_DELTA


@pytest.mark.parametrize(("kind", "low", "high"), [("laplace", 0.7, 1.0), ("gaussian", 0.6, 0.8)])
def test_a_curve_of_several_budgets_holds_for_each(kind, low, high):
    """The largest budget need not be the worst: smaller ones have fewer decoys."""
    own = np.linspace(low, high, 4)
    groups = BudgetGroups(np.array([0.2, *own, 2.0]), np.array([200, 30, 30, 30, 30, 50]))
    how = budgets.reports(kind)
    whole = how.curve(groups, 4, LOG_DELTA, 1)
    for eps in (0.02, 0.2):
        each = [how.curve(groups, group, LOG_DELTA).log_delta(eps).upper for group in range(1, 5)]
        assert max(each) <= whole.log_delta(eps).upper


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "k"), [("krr", 8), ("laplace", None)])
def test_rounds_cost_more_than_one_and_less_than_the_sum(kind, k):
    groups = BudgetGroups(np.array([0.5, 1.0]), np.array([300, 100]))
    how = budgets.reports(kind, k)
    once, often = (
        [one.eps for one in budgets.own_epsilons(LOG_DELTA, groups, how, rounds)]
        for rounds in (1, 4)
    )
    for one, four in zip(once, often, strict=True):
        # A small eps grows like the square root of the rounds.
        assert 1.8 * one < four < 2.3 * one


def test_approximate_local_privacy_adds_the_delta_of_the_theorem():
    pure = published.approximate_epsilon(LOG_DELTA, THREE, 0.0)
    for total in (1e-9, 1e-7):
        eps = published.approximate_epsilon(LOG_DELTA, THREE, total)
        added = (math.exp(eps) + 1.0) * (1.0 + math.exp(-1.0) / 2.0) * total
        left = published.approximate_epsilon(math.log(1e-6 - added), THREE, 0.0)
        assert eps == pytest.approx(left, rel=1e-6)
        assert eps > pure
    assert published.approximate_epsilon(LOG_DELTA, THREE, 1e-6) is None


# --- the command ---------------------------------------------------------------------------------


def answer(capsys, *words):
    main(["personalised", *words, "--format", "json"])
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "mechanism", ["krr", "binary", pytest.param("laplace", marks=pytest.mark.slow)]
)
def test_the_command_prints_what_the_library_says(tmp_path, capsys, mechanism):
    source = tmp_path / "budgets.csv"
    source.write_text("eps,count\n1,20\n0.5,50\n0.5,10\n")
    cells = ["--k", "16"] if mechanism == "krr" else []
    rows = answer(capsys, "--budgets", str(source), "--mechanism", mechanism, *cells)
    how = budgets.reports(mechanism, 16 if cells else None)
    own = list(budgets.own_epsilons(LOG_DELTA, FEW, how))
    assert [(row["users"], row["budget_high"], row["eps"]) for row in rows[:2]] == [
        (one.users, one.high, one.eps) for one in own
    ]
    everybody = next(row for row in rows if row["what"] == "everybody")
    assert everybody["eps"] == max(one.eps for one in own)
    assert everybody["users"] == 80
    assert [row["what"] for row in rows if not row["guarantee"]] == [
        "if all had the largest",
        "if all had the smallest",
        *(["echoes (Liu et al.)"] if mechanism == "laplace" else []),
        "mu-GDP (Chen et al.)",
    ]


def test_approximate_reports_have_a_single_certified_row(tmp_path, capsys):
    source = tmp_path / "budgets.csv"
    source.write_text("eps,count,delta\n0.1,540,1e-12\n0.5,370,0\n1,90,1e-11\n")
    certified, as_printed = answer(capsys, "--budgets", str(source))
    total = 540e-12 + 90e-11
    assert certified["eps"] == published.approximate_epsilon(LOG_DELTA, THREE, total)
    assert certified["mechanism"] == "any randomisers"
    assert as_printed["eps"] == pytest.approx(published.mu_gdp_epsilon(LOG_DELTA, THREE), rel=1e-6)
    source.write_text("eps,count,delta\n1,1000,1e-5\n")
    certified, _ = answer(capsys, "--budgets", str(source))
    assert certified["eps"] is None
    assert not certified["guarantee"]


def test_gaussian_reports_are_calibrated_to_eps_and_delta(tmp_path, capsys):
    source = tmp_path / "budgets.csv"
    source.write_text("eps,count,delta\n1,2,1e-3\n0,5,0\n1,2,1e-3\n")
    rows = answer(capsys, "--budgets", str(source), "--mechanism", "gaussian", "--delta", "0.01")
    by_name = {row["what"]: row for row in rows[1:]}
    silent, one = rows[0], rows[1]
    assert (silent["users"], silent["budget_high"], silent["eps"]) == (5, 0.0, 0.0)
    assert silent["sigma"] is None
    assert (one["users"], one["budget_high"]) == (4, 1.0)
    # A single report is (1, 0.001)-LDP.
    mu = 1.0 / one["sigma"]
    assert gdp_to_log_delta(1.0, mu) == pytest.approx(math.log(1e-3), rel=1e-8)
    groups = BudgetGroups(np.array([0.0, mu]), np.array([5, 4]))
    how = budgets.reports("gaussian")
    assert by_name["everybody"]["eps"] == one["eps"]
    assert how.curve(groups, 1, math.log(0.01)).log_delta(one["eps"]).upper <= math.log(0.01)
    alone = by_name["not shuffled"]["eps"]
    assert gdp_to_log_delta(alone, mu) == pytest.approx(math.log(0.01), rel=1e-8)
    assert by_name["if all had the largest"]["eps"] < one["eps"] < alone < 1.0
    # The deltas of four users leave part of the .01, so clones promise something, but less.
    clones = by_name["any randomisers"]
    assert clones["eps"] is None or clones["eps"] > one["eps"]
    assert next(row["what"] for row in rows if not row["guarantee"]) == "if all had the largest"


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("count\n3\n", "--k 4", "no column eps"),
        ("eps\n-1\n", "--k 4", "line 2: eps must be a number"),
        ("eps\n1\n", "--mechanism gaussian", "need delta > 0 for each user with eps > 0"),
        ("eps,delta\n0,0\n0.5,0\n", "--mechanism gaussian", "got eps=0.5 and delta=0"),
    ],
)
def test_budgets_that_cannot_be_used_are_refused(tmp_path, capsys, text, options, message):
    source = tmp_path / "budgets.csv"
    source.write_text(text)
    assert main(["personalised", "--budgets", str(source), *options.split()]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_budgets_of_0_and_the_largest_ones_are_answered(recwarn):
    still = personal_budgets(1e-6, [0.0, 1.0], k=4, rounds=2)
    assert still[0].eps == 0.0
    largest = personal_budgets(1e-6, [300.0, 300.0], k=3)
    assert largest[0].eps == pytest.approx(300.0)
    assert not recwarn.list
