"""Users with budgets of their own: Laplace reports, many budgets, and what the command prints."""

import itertools
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from shuffledp.accounting import personal
from shuffledp.accounting.laws.decoys import log_mean_over_decoys
from shuffledp.accounting.laws.mixture import RandomTrials
from shuffledp.accounting.one_round import personalised
from shuffledp.accounting.one_round.certified import upper_log_delta
from shuffledp.accounting.one_round.laplace import laplace_log_delta
from shuffledp.accounting.one_round.personalised import BudgetGroups, personalised_log_delta
from shuffledp.accounting.setting import Setting
from shuffledp.cli import main
from shuffledp.errors import InputError

THREE = BudgetGroups(np.array([0.1, 0.5, 1.0]), np.array([540, 370, 90]))
FEW = BudgetGroups(np.array([0.5, 1.0]), np.array([60, 20]))
LOG_DELTA = math.log(1e-6)


# --- the number of decoys ------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    n=st.integers(1, 3000),
    share=st.floats(0.001, 0.999),
    fall=st.floats(0.0, 2.0),
    power=st.sampled_from([0.5, 1.0]),
)
def test_the_mean_over_decoys_is_never_too_small(n, share, fall, power):
    """Against the sum over a binomial law, for curves that fall as they may."""

    def log_delta(m):
        return -fall * (m - 1.0) ** power

    others = RandomTrials(np.array([np.log(share / (1.0 - share))]), np.array([n]))
    found = log_mean_over_decoys(others, log_delta, log_delta, 16)
    m = np.arange(n + 1)
    truth = np.logaddexp.reduce(binom.logpmf(m, n, share) + log_delta(m + 1.0))
    # SciPy's law is right to some 1e-10 of its logarithm.
    slack = 1e-10 * (1.0 + abs(truth))
    assert found >= truth - slack
    # Blocks of half a standard deviation, but where the first one holds what is far out.
    if fall * np.sqrt(n) < 1.0:
        assert found <= truth + 0.6 * fall * np.sqrt(n * share * (1.0 - share)) + 0.1


@pytest.mark.parametrize("k", [2, 3, 408])
@pytest.mark.parametrize("eps", [0.003, 0.05, 0.3])
def test_blocks_of_uniform_reports_are_just_above_the_exact_sum(monkeypatch, k, eps):
    groups = BudgetGroups(THREE.values, 5 * THREE.counts)
    exact = float(personalised_log_delta(eps, groups, k))
    monkeypatch.setattr(personalised, "_MOST_TERMS", 0.0)
    assert exact <= float(personalised_log_delta(eps, groups, k)) <= exact + 4e-3 * abs(exact)


# --- Laplace reports -----------------------------------------------------------------------------


def binned(budget, record, edges):
    """Chances of a Laplace report's bins: what they show is less than what the report shows."""
    z = budget * (edges - record)
    cdf = np.where(z < 0.0, 0.5 * np.exp(np.minimum(z, 0.0)), 1.0 - 0.5 * np.exp(-np.abs(z)))
    return np.diff(np.concatenate([[0.0], cdf, [1.0]]))


def shuffled_delta(eps, budgets, records, changed, edges):
    """Delta of the multiset of binned reports, the first user's record changed."""

    def law(first):
        rows = [binned(budgets[0], first, edges)]
        rows += [binned(b, r, edges) for b, r in zip(budgets[1:], records[1:], strict=True)]
        joint = rows[0]
        for row in rows[1:]:
            joint = np.multiply.outer(joint, row)
        return sum(np.transpose(joint, order) for order in itertools.permutations(range(len(rows))))

    excess = law(records[0]) - math.exp(eps) * law(changed)
    return np.maximum(excess, 0.0).sum() / math.factorial(len(budgets))


@pytest.mark.parametrize(
    "budgets",
    [
        (1.0, 1.0),
        (2.0, 0.5),
        (0.5, 2.0),
        (4.0, 4.0),
        (3.0, 1.0, 2.0),
        (1.0, 1.0, 1.0),
        (5.0, 0.1),
        (2.0, 1.0, 0.5, 2.0),
    ],
)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_no_data_set_of_laplace_reports_leaks_more(budgets, share):
    eps = share * budgets[0]
    bound = math.exp(laplace_log_delta(eps, budgets[0], BudgetGroups.of(budgets[1:])))
    edges = np.linspace(-2.5, 2.5, {2: 81, 3: 27, 4: 11}[len(budgets)])
    worst = 0.0
    for others in itertools.product((-0.5, 0.0, 0.5), repeat=len(budgets) - 1):
        for records in itertools.permutations((-0.5, 0.1, 0.5), 2):
            data = (records[0], *others)
            worst = max(worst, shuffled_delta(eps, budgets, data, records[1], edges))
    assert worst <= bound * (1.0 + 1e-9)
    # Bins are coarse, and the others few: still the bound is not idle.
    assert worst >= 0.2 * bound


def test_one_laplace_report_alone_has_its_own_divergence():
    """Without others: P(y < c) - exp(eps) Q(y < c) at the point where the loss is eps."""
    nobody = BudgetGroups(np.zeros(0), np.zeros(0, np.int64))
    for budget, eps in ((1.0, 0.2), (3.0, 1.0), (0.1, 0.05)):
        cut = -eps / (2.0 * budget)
        left = 1.0 - 0.5 * math.exp(-budget * (cut + 0.5))
        truth = left - math.exp(eps) * 0.5 * math.exp(budget * (cut - 0.5))
        found = math.exp(laplace_log_delta(eps, budget, nobody))
        assert truth <= found <= truth * (1.0 + 2e-3)


def test_laplace_reports_hide_nothing_from_their_own_budget_on():
    assert laplace_log_delta(1.0, 1.0, THREE) == -np.inf
    # Users of a larger budget are none of the decoys, those of budget 0 neither.
    alone = laplace_log_delta(0.05, 0.1, BudgetGroups(np.zeros(0), np.zeros(0, np.int64)))
    bold = laplace_log_delta(0.05, 0.1, BudgetGroups.of([0.0, 1.0, 1.0]))
    assert bold == pytest.approx(alone, abs=1e-9)


# --- everybody's eps -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "k", "groups", "target"),
    [
        ("krr", 408, THREE, LOG_DELTA),
        ("binary", None, THREE, LOG_DELTA),
        ("laplace", None, FEW, math.log(1e-3)),
    ],
)
def test_own_eps_keeps_its_promise_and_wastes_little(kind, k, groups, target):
    how = personal.reports(kind, k)
    found = list(personal.own_epsilons(target, groups, how))
    assert [one.high for one in found] == groups.values.tolist()
    assert [one.users for one in found] == groups.counts.tolist()
    for group, one in enumerate(found):
        assert one.eps < one.high
        assert how.log_delta(one.eps, groups, group) <= target
        assert how.log_delta(one.eps * (1.0 - 1e-4), groups, group) > target
    assert sorted(one.eps for one in found) == [one.eps for one in found]


def test_users_who_are_alike_have_the_ordinary_bound():
    alike = BudgetGroups(np.array([1.0]), np.array([1000]))
    for kind, k in (("krr", 16), ("binary", None)):
        how = personal.reports(kind, k)
        bound = float(upper_log_delta(0.1, Setting(1000, k or 2, 1.0)))
        assert how.log_delta(0.1, alike, 0) == pytest.approx(bound, rel=1e-9)


def test_many_budgets_are_rounded_up_and_never_down():
    rng = np.random.default_rng(3)
    many = BudgetGroups.of(rng.uniform(0.05, 1.0, 4000))
    how = personal.reports("krr", 16)
    found = list(personal.own_epsilons(LOG_DELTA, many, how))
    assert len(found) == personal.number_of_parts(many, how) == 8
    assert [one.users for one in found] == [500] * 8
    for one in found[::3]:
        group = int(np.searchsorted(many.values, one.high))
        # The law of all 4,000 budgets as they are.
        assert float(personalised_log_delta(one.eps, many, 16, group)) <= LOG_DELTA
        assert float(personalised_log_delta(one.eps * 0.995, many, 16, group)) > LOG_DELTA


def test_a_budget_of_0_needs_no_decoys():
    groups = BudgetGroups.of([0.0, 0.0, 1.0, 1.0])
    for kind, k in (("krr", 4), ("laplace", None)):
        found = list(personal.own_epsilons(LOG_DELTA, groups, personal.reports(kind, k)))
        assert found[0].eps == 0.0
        assert 0.0 < found[1].eps <= 1.0


def test_echoes_by_their_formula():
    budgets = np.repeat(THREE.values, 20 * THREE.counts)

    def shape(e):
        return -np.expm1(-e) / e

    expected = sum(
        np.mean(shape(budgets) / shape(e) * np.exp(-np.maximum(e, budgets)))
        for e in budgets[:-1:40]
    )
    groups = BudgetGroups(THREE.values, 20 * THREE.counts)
    found = personal.echoes_epsilon(LOG_DELTA, groups)
    term = math.log(4e6)
    # One in forty of the users; the last group's lack of the target is nothing beside 20,000.
    echoes = 40.0 * expected
    ratio = (math.e - 1.0) / (math.e + 1.0)
    eps = math.log(1.0 + ratio * (8.0 * math.sqrt(term / echoes) + 8.0 / echoes))
    assert found == pytest.approx(eps, rel=1e-3)
    assert personal.echoes_epsilon(LOG_DELTA, THREE) is not None
    few = BudgetGroups(THREE.values, np.array([50, 30, 10]))
    assert personal.echoes_epsilon(LOG_DELTA, few) is None


def test_approximate_local_privacy_adds_what_the_theorem_says():
    pure = personal.approximate_epsilon(LOG_DELTA, THREE, 0.0)
    for total in (1e-9, 1e-7):
        eps = personal.approximate_epsilon(LOG_DELTA, THREE, total)
        added = (math.exp(eps) + 1.0) * (1.0 + math.exp(-1.0) / 2.0) * total
        left = personal.approximate_epsilon(math.log(1e-6 - added), THREE, 0.0)
        assert eps == pytest.approx(left, rel=1e-6)
        assert eps > pure
    assert personal.approximate_epsilon(LOG_DELTA, THREE, 1e-6) is None


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
    how = personal.reports(mechanism, 16 if cells else None)
    own = list(personal.own_epsilons(LOG_DELTA, FEW, how))
    assert [(row["users"], row["budget_high"], row["eps"]) for row in rows[:2]] == [
        (one.users, one.high, one.eps) for one in own
    ]
    everybody = next(row for row in rows if row["what"] == "everybody")
    assert everybody["eps"] == max(one.eps for one in own)
    assert everybody["users"] == 80
    assert [row["what"] for row in rows if not row["guarantee"]] == [
        "all at the smallest",
        *(["echoes (Liu et al.)"] if mechanism == "laplace" else []),
        "mu-GDP (Chen et al.)",
    ]


def test_the_command_reads_parquet_and_one_row_a_user(tmp_path, capsys):
    import pandas as pd

    source = tmp_path / "budgets.parquet"
    pd.DataFrame({"eps": np.repeat(THREE.values, THREE.counts)}).to_parquet(source)
    rows = answer(capsys, "--budgets", str(source), "--k", "16", "--delta", "1e-8")
    assert [row["users"] for row in rows[:3]] == [540, 370, 90]
    assert {row["delta"] for row in rows} == {1e-8}


def test_approximate_reports_have_one_certified_row(tmp_path, capsys):
    source = tmp_path / "budgets.csv"
    source.write_text("eps,count,delta\n0.1,540,1e-12\n0.5,370,0\n1,90,1e-11\n")
    certified, published = answer(capsys, "--budgets", str(source))
    total = 540e-12 + 90e-11
    assert certified["eps"] == personal.approximate_epsilon(LOG_DELTA, THREE, total)
    assert certified["mechanism"] == "any randomisers"
    assert published["eps"] == pytest.approx(personal.mu_gdp_epsilon(LOG_DELTA, THREE), rel=1e-6)
    source.write_text("eps,count,delta\n1,1000,1e-5\n")
    certified, _ = answer(capsys, "--budgets", str(source))
    assert certified["eps"] is None
    assert not certified["guarantee"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("count\n3\n", "no column eps"),
        ("eps\n-1\n", "every eps must be a number"),
        ("eps\nnan\n", "every eps must be a number"),
        ("eps,count\n1,1.5\n", "whole number"),
        ("eps,count\n1,0\n", "nobody"),
        ("eps\n", "nobody"),
        ("eps,delta\n1,1\n", "every delta must be a number"),
        ("eps\n400\n", "eps <= 350"),
    ],
)
def test_budgets_that_cannot_be_used_are_refused(tmp_path, capsys, text, message):
    source = tmp_path / "budgets.csv"
    source.write_text(text)
    assert main(["personalised", "--budgets", str(source), "--k", "4"]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_what_a_mechanism_needs_is_said():
    with pytest.raises(InputError, match="krr needs it"):
        personal.reports("krr")
    with pytest.raises(InputError, match="belongs to krr"):
        personal.reports("laplace", 4)
    with pytest.raises(InputError, match="one of krr, binary, laplace"):
        personal.reports("gaussian")
    many = BudgetGroups.of(np.linspace(0.1, 1.0, 100))
    with pytest.raises(InputError, match="at most 64 different budgets"):
        list(personal.own_epsilons(LOG_DELTA, many, personal.reports("laplace")))
