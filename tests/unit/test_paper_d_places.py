"""Bias and variance of histograms from users with personal budgets, by enumeration."""

import itertools

import numpy as np
import pandas as pd
import pytest

from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.errors import InputError
from shuffledp.papers.paper_d import places
from shuffledp.papers.paper_d.algorithms import combination, frequency, histogram
from shuffledp.papers.paper_d.figures import place_panels
from shuffledp.personalised.groups import BudgetGroups
from shuffledp.personalised.krr_reports import personalised_log_delta

LOG_DELTA = np.log(1e-6)
# Users of budget 0 report noise.
MIXED = BudgetGroups(np.array([0.0, 0.5, 2.0]), np.array([1, 2, 2]))
RECORDS = np.array([1, 0, 0, 2, 1])
GROUP = np.repeat(np.arange(3), MIXED.counts)
K = 3
HELD = np.array([np.bincount(RECORDS[g == GROUP], minlength=K) for g in range(3)])


def exact_law(estimate):
    """Return the exact mean and variance of an estimate, over all reports of `RECORDS`."""
    values, chances = [], []
    for reports in itertools.product(range(K), repeat=RECORDS.size):
        chance, seen = 1.0, np.zeros((3, K))
        for report, record, group in zip(reports, RECORDS, GROUP, strict=True):
            budget = MIXED.values[group]
            p, q = probabilities(budget, K) if budget else (1.0 / K, 1.0 / K)
            chance *= p if report == record else q
            seen[group, report] += 1
        chances.append(chance)
        values.append(estimate(seen))
    mean = np.array(chances) @ np.array(values)
    return mean, np.array(chances) @ (np.array(values) - mean) ** 2


@pytest.mark.parametrize("name", ["by-precision", "by-share", "together", "without-conservative"])
def test_every_estimate_has_the_mean_and_variance_of_its_closed_form(name):
    (series,) = [one for one in places.histogram_series(MIXED, K) if one.name == name]
    mean, variance = exact_law(series.estimate)
    expected_mean, expected_variance = series.moments(HELD)
    np.testing.assert_allclose(mean, expected_mean, rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(variance, expected_variance, rtol=1e-10)
    assert mean.sum() == pytest.approx(1.0)


def test_only_weights_by_share_are_unbiased_whatever_the_data():
    """The truth here leaves out users of budget 0, who cannot be estimated."""
    truth = HELD[1:].sum(axis=0) / MIXED.counts[1:].sum()
    biased = {}
    for series in places.histogram_series(MIXED, K):
        mean, _ = series.moments(HELD)
        biased[series.name] = np.abs(mean - truth).max() > 0.05
    assert biased == {
        "by-precision": True,
        "by-share": False,
        "together": True,
        "without-conservative": True,
    }


def test_two_cells_are_binary_reports():
    """k-RR of two cells is Algorithm 3 of paper D, so all closed forms agree."""
    two = BudgetGroups(np.array([0.1, 0.5, 1.0]), np.array([54, 37, 9]))
    shares = np.array([[0.3, 0.7], [0.6, 0.4], [0.9, 0.1]])
    each = histogram.variances(shares, two)
    np.testing.assert_allclose(each[:, 1], frequency.variances(two), rtol=1e-12)
    weights = histogram.pooled_weights(two, 2)
    np.testing.assert_allclose(weights, frequency.pooled_weights(two), rtol=1e-12)
    spread = histogram.pooled_variance(shares, two)
    np.testing.assert_allclose(spread, combination.variance(weights, each), rtol=1e-12)
    assert float(histogram.pooled([60, 40], two)[1]) == pytest.approx(
        float(frequency.pooled(40, two))
    )


def test_weights_of_least_variance_do_not_depend_on_the_data():
    positive = BudgetGroups(np.array([0.5, 2.0]), np.array([20, 10]))
    weights = histogram.least_variance_weights(positive, K)
    for shares in (np.eye(3)[:2], np.full((2, 3), 1.0 / 3.0)):
        each = histogram.variances(shares, positive).sum(axis=1)
        np.testing.assert_allclose(weights, combination.precision_weights(each), rtol=1e-12)
        assert combination.variance(weights, each) == pytest.approx(1.0 / np.sum(1.0 / each))


# --- Privacy --------------------------------------------------------------------------------------

FEW = BudgetGroups(np.array([0.0, 2.0, 4.0]), np.array([100, 300, 100]))


def test_reports_that_tell_their_budget_have_the_eps_of_the_least_private_group():
    eps = places.certified_epsilon(FEW, True, 12, LOG_DELTA)
    assert eps == BOUNDS["upper"].curve(Setting(100, 12, 4.0)).epsilon(LOG_DELTA).upper
    # Here the single user of the smaller budget decides, not the many of the larger one.
    alone = BudgetGroups(np.array([1.0, 2.0]), np.array([1, 2000]))
    assert places.certified_epsilon(alone, True, 12, LOG_DELTA) == pytest.approx(1.0, rel=1e-4)


def test_reports_shuffled_together_have_the_eps_of_all():
    eps = places.certified_epsilon(FEW, False, 12, LOG_DELTA)
    assert personalised_log_delta(eps, FEW, 12) <= LOG_DELTA
    assert personalised_log_delta(0.9999 * eps, FEW, 12) > LOG_DELTA
    assert eps < 0.7 * places.certified_epsilon(FEW, True, 12, LOG_DELTA)


# --- The study ------------------------------------------------------------------------------------

BUDGETS = [{"eps": 4, "share": 0.1}, {"eps": 2, "share": 0.6}, {"eps": 3, "share": 0.3}]
COUNTS = np.array([0, 400, 50, 800, 250, 500])
NAMES = {"seed": 1, "region": "town", "grid": "shape"}


def test_groups_have_their_shares_in_order_of_budget():
    groups = places.budget_groups(BUDGETS, 1999)
    assert groups.values.tolist() == [2.0, 3.0, 4.0]
    assert groups.counts.tolist() == [1199, 600, 200]
    assert places.budget_groups(3, 7).counts.tolist() == [7]
    with pytest.raises(
        InputError, match=r"budgets: a share of 0\.1 \(eps: 4\) is less than one of 4 users:"
    ):
        places.budget_groups(BUDGETS, 4)


def test_every_record_has_one_budget():
    groups = places.budget_groups(BUDGETS, 2000)
    for placement in (places.AT_RANDOM, places.FROM_SOUTH):
        held = places.place_groups(COUNTS, groups, placement, **NAMES)
        assert held.min() >= 0
        assert held.sum(axis=0).tolist() == COUNTS.tolist()
        assert held.sum(axis=1).tolist() == [1200, 600, 200]
    assert held.tolist() == [
        [0, 400, 50, 750, 0, 0],
        [0, 0, 0, 50, 250, 300],
        [0, 0, 0, 0, 0, 200],
    ]


@pytest.fixture(scope="module")
def table():
    return places.places_table(COUNTS, BUDGETS, 1e-6, 400, **NAMES)


def test_simulation_agrees_with_what_is_expected(table):
    assert tuple(table.columns) == places.COLUMNS
    raw = table[table["estimator"] == "raw"]
    # Five standard errors from the quartiles of a normal law, and 1 % for what is not normal.
    error = 5.0 * (raw["p75"] - raw["p25"]) / 1.349 / 20.0
    off = (raw["tv_distance"] - raw["expected_tv_distance"]).abs()
    assert (off < error + 0.01 * raw["expected_tv_distance"]).all()
    # Only weights by share have no larger error if cells depend on budgets.
    expected = raw.set_index(["placement", "series"])["expected_tv_distance"]
    ratio = expected["from-south"] / expected["at-random"]
    assert ratio.pop("by-share") == pytest.approx(1.0, abs=0.05)
    assert ratio.size == 3
    assert ratio.min() > 2.0


def test_alternatives_have_the_same_certified_eps(table):
    others = table[(table["placement"] == "any") & (table["estimator"] == "raw")]
    own = table.drop_duplicates("series").set_index("series")["eps_upper"]
    assert own["by-share"] == own["by-precision"]
    for row in others[others["matched_to"] != "smallest-budget"].itertuples():
        assert row.eps_upper == own[row.matched_to]
    for row in others[others["series"] == "krr"].itertuples():
        curve = BOUNDS["upper"].curve(Setting(2000, 6, row.local_eps0))
        log_delta = curve.log_delta(row.eps_upper).upper
        assert log_delta == pytest.approx(LOG_DELTA, abs=1e-6)
        assert log_delta <= LOG_DELTA
    smallest = others[(others["series"] == "krr") & (others["matched_to"] == "smallest-budget")]
    assert smallest["local_eps0"].tolist() == pytest.approx([2.0])


def test_panels_show_the_table(table):
    drawn = place_panels(table, "Town", "one check-in")
    assert "0.6 at 2, 0.3 at 3, 0.1 at 4" in drawn.get_suptitle()
    panels = itertools.product(("raw", "projected"), ("at-random", "from-south"))
    for axes, (estimator, placement) in zip(drawn.axes, panels, strict=True):
        rows = table[table["estimator"] == estimator]
        krr, gaussian, *marks = axes.lines
        for line, name in ((krr, "krr"), (gaussian, "gaussian")):
            own = rows[rows["series"] == name].sort_values("eps_upper")
            np.testing.assert_array_equal(line.get_ydata(), own["tv_distance"])
        own = rows[rows["placement"] == placement].set_index("series")
        assert len(marks) == len(own) == 4
        for line, name in zip(marks, own.index, strict=True):
            assert line.get_ydata().tolist() == [own.loc[name, "tv_distance"]]
            assert line.get_xdata().tolist() == [own.loc[name, "eps_upper"]]


@pytest.mark.parametrize("budgets", [3, [{"eps": 0, "share": 0.5}, {"eps": 3, "share": 0.5}]])
def test_a_single_budget_and_a_budget_of_zero_are_accepted(budgets):
    table = places.places_table(COUNTS // 10, budgets, 1e-6, 2, **NAMES)
    assert np.isfinite(table[["tv_distance", "eps_upper", "p25", "p75"]]).all().all()
    names = set(table[table["placement"] == "from-south"]["series"])
    assert ("without-conservative" in names) == isinstance(budgets, list)
    assert ("smallest-budget" in set(table["matched_to"])) == (budgets == 3)
    if budgets == 3:  # then all series are equal
        raw = table[(table["placement"] == "at-random") & (table["estimator"] == "raw")]
        assert raw["tv_distance"].tolist() == pytest.approx([raw["tv_distance"].iloc[0]] * 3)
        assert raw["eps_upper"].nunique() == 1
    (key,) = place_panels(table, "Town", "one check-in").legends
    (unbiased,) = [text.get_text() for text in key.get_texts() if "unbiased" in text.get_text()]
    assert ("except for users of budget 0" in unbiased) == isinstance(budgets, list)


# --- Budgets of a file ----------------------------------------------------------------------------


def file_of(held, budgets):
    """Return a file's table of budgets, given the users of each budget and cell."""
    group, cell = np.nonzero(held)
    columns = {"budget": np.array(budgets)[group], "cell": cell, "count": held[group, cell]}
    return pd.DataFrame(columns).sample(frac=1, random_state=1)


CHOSEN = np.array([[0, 300, 0, 500, 100, 0], [0, 100, 50, 200, 100, 250], [0, 0, 0, 100, 50, 250]])


def test_everyone_keeps_the_budget_of_the_file():
    users = places.assign_budgets(COUNTS, file_of(CHOSEN, [2.0, 3.0, 4.0]), **NAMES)
    assert users.description == "0.45 at 2, 0.35 at 3, 0.2 at 4"
    assert list(users.placements) == [places.AS_CHOSEN, places.AT_RANDOM]
    np.testing.assert_array_equal(users.placements[places.AS_CHOSEN], CHOSEN)
    mixed = users.placements[places.AT_RANDOM]
    assert mixed.sum(axis=0).tolist() == COUNTS.tolist()
    assert mixed.sum(axis=1).tolist() == CHOSEN.sum(axis=1).tolist()
    assert (mixed != CHOSEN).any()


def test_the_table_says_which_estimate_is_unbiased():
    table = places.places_table(COUNTS, file_of(CHOSEN, [2.0, 3.0, 4.0]), 1e-6, 400, **NAMES)
    raw = table[table["estimator"] == "raw"].set_index(["placement", "series"])
    chosen = raw.loc["as-chosen"]
    assert chosen["bias"]["by-share"] == 0.0
    assert chosen["bias"].drop("by-share").min() > 0.05
    assert (raw.loc["any"]["bias"] == 0.0).all()
    # The simulation has the means from which the bias is computed.
    error = 5.0 * (chosen["p75"] - chosen["p25"]) / 1.349 / 20.0
    off = (chosen["tv_distance"] - chosen["expected_tv_distance"]).abs()
    assert (off < error + 0.01 * chosen["expected_tv_distance"]).all()
    titles = [axes.get_title(loc="left") for axes in place_panels(table, "Town", "one user").axes]
    assert titles[:2] == ["raw estimates, budgets as chosen", "raw estimates, budgets at random"]


def test_budgets_of_other_users_are_refused():
    with pytest.raises(InputError, match="region town, grid shape: the table of budgets must have"):
        places.assign_budgets(COUNTS + 1, file_of(CHOSEN, [2.0, 3.0, 4.0]), **NAMES)


def test_up_to_25_budgets_stay_as_they_are():
    budgets = np.linspace(0.1, 7.3, 25)
    rounded, note = places.rounded_down(budgets, np.ones(25, np.int64))
    np.testing.assert_array_equal(rounded, budgets)
    assert note == ""


@pytest.mark.parametrize(
    ("budgets", "step"),
    [
        (np.linspace(0.0, 20.0, 1000), 1),
        (np.linspace(2.0, 6.0, 401), 0.2),
        (np.round(np.linspace(0.01, 1.0, 100), 2), 0.05),
        (1e-9 * np.arange(1.0, 101.0), 5e-9),
        (np.append(np.arange(26) * 1e-9, 15.0), 2e-9),
    ],
)
def test_more_budgets_are_rounded_down_to_steps(budgets, step):
    rng = np.random.default_rng(2)
    users = rng.integers(1, 9, budgets.size)
    rounded, note = places.rounded_down(budgets, users)
    assert note.endswith(
        f"; {budgets.size:,} different budgets, rounded down to multiples of {step:g}"
    )
    assert np.unique(rounded).size <= 25
    assert (rounded <= budgets).all()
    # Others lose less than a step, and multiples of the step stay as they are.
    kept = budgets < rounded.max()
    assert (budgets - rounded < step)[kept].all()
    multiple = np.isin(budgets, np.arange(30_000) / round(1.0 / step))
    assert (rounded == budgets)[kept & multiple].all()
    # At least one user in 25 shares the largest budget.
    with_largest = users[rounded == rounded.max()].sum()
    assert with_largest >= users.sum() / 25


def test_budgets_that_are_all_zero_are_refused():
    with pytest.raises(InputError, match="all be 0"):
        places.places_table(COUNTS, 0, 1e-6, 2, **NAMES)
