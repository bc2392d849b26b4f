"""Bias and variance of estimates from users with personal budgets, and their figures.

Monte Carlo tolerances are five standard errors; seeds are fixed.
"""

import itertools

import numpy as np
import pytest

from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.setting import Setting, probabilities
from shuffledp.errors import InputError
from shuffledp.papers.paper_d import estimation, places
from shuffledp.papers.paper_d.experiment_figures import place_panels
from shuffledp.papers.paper_d.group_estimates import (
    cell_moments,
    estimate_cells,
)
from shuffledp.papers.recomputed_figures import draw_estimates
from shuffledp.personalised.groups import BudgetGroups

ERRORS = 5.0
GROUPS = BudgetGroups(np.array([0.1, 0.5, 1.0]), np.array([3, 2, 1]))
# Users of budget 0 report noise.
MIXED = BudgetGroups(np.array([0.0, 0.5, 2.0]), np.array([1, 2, 2]))


@pytest.mark.parametrize("published", [True, False])
def test_frequencies_have_the_mean_and_variance_of_their_closed_form(published):
    """Enumerate all reports; Algorithm 3's estimate is (ones - expected false ones) / signal."""
    truth = [p for p, _ in (probabilities(each, 2) for each in GROUPS.values)]
    users = [(g, i < ONES[g]) for g, count in enumerate(GROUPS.counts) for i in range(count)]
    false = sum(count * (1.0 - p) for count, p in zip(GROUPS.counts, truth, strict=True))
    weights = pooled_weights(GROUPS) if published else share_weights(GROUPS)
    mean = second = 0.0
    for reports in itertools.product((0, 1), repeat=len(users)):
        chance, seen = 1.0, np.zeros(3)
        for report, (group, record) in zip(reports, users, strict=True):
            chance *= truth[group] if report == record else 1.0 - truth[group]
            seen[group] += report
        if published:
            estimate = (seen.sum() - false) / (GROUPS.counts.sum() - 2.0 * false)
        else:
            unbiased = [
                (ones / n - (1.0 - p)) / (2.0 * p - 1.0)
                for ones, n, p in zip(seen, GROUPS.counts, truth, strict=True)
            ]
            estimate = weights @ unbiased
        mean, second = mean + chance * estimate, second + chance * estimate**2
    expected = ONES.sum() / GROUPS.counts.sum() + bias(weights, ONES / GROUPS.counts, GROUPS)
    assert mean == pytest.approx(expected, rel=1e-12)
    assert second - mean**2 == pytest.approx(weights**2 @ frequency_variances(GROUPS), rel=1e-10)
    assert (abs(mean - 0.5) > 0.05) == published


# --- Figures 6 to 8 -------------------------------------------------------------------------------


@pytest.mark.parametrize("figure", estimation.FIGURES)
def test_simulation_agrees_with_the_closed_forms(figure):
    table = estimation.estimate_table(figure, 20220506)
    off = (table["mean"] - table["truth"] - table["expected_bias"]) / table["expected_deviation"]
    assert (off.abs() * table["repetitions"] ** 0.5 < ERRORS).all()
    # The estimates are nearly normal.
    ratio = table["deviation"] / table["expected_deviation"]
    assert ((ratio - 1.0).abs() * (2.0 * table["repetitions"]) ** 0.5 < ERRORS).all()
    assert ((table["p05"] < table["mean"]) & (table["mean"] < table["p95"])).all()
    by_name = dict(iter(table.groupby("estimator")))
    published = by_name[estimation.AS_PUBLISHED]
    assert published["expected_bias"].abs().max() < 1e-12
    smallest = by_name[estimation.SMALLEST]["expected_deviation"].to_numpy()
    assert (published["expected_deviation"].to_numpy() < smallest).all()


FEW = BudgetGroups(np.array([0.1, 1.0]), np.array([400, 100]))


def test_certified_eps_of_binary_meets_delta():
    eps = estimation.certified_epsilon(FEW, "binary", tagged=False)
    curve = budgets.reports("binary").curve(FEW, 1, LOG_DELTA)
    assert curve.log_delta(eps).upper <= LOG_DELTA < curve.log_delta(0.9997 * eps).upper
    # Reports that tell their budget have the privacy of the least private group.
    tagged = estimation.certified_epsilon(FEW, "binary", tagged=True)
    alone = BOUNDS["upper"].curve(Setting(100, 2, 1.0)).epsilon(LOG_DELTA).upper
    assert alone <= tagged <= 1.0003 * alone
    assert tagged > 1.4 * eps


# --- Places ---------------------------------------------------------------------------------------

BUDGETS = [{"eps": 4, "share": 0.1}, {"eps": 2, "share": 0.6}, {"eps": 3, "share": 0.3}]
COUNTS = np.array([0, 400, 50, 800, 250, 500])
NAMES = {"seed": 1, "region": "town", "grid": "shape"}
CHOSEN = np.array([[0, 300, 0, 500, 100, 0], [0, 100, 50, 200, 100, 250], [0, 0, 0, 100, 50, 250]])


def table_of(held, values):
    """Return a file's table of budgets, given the users of each budget and cell."""
    group, cell = np.nonzero(held)
    columns = {"budget": np.array(values)[group], "cell": cell, "count": held[group, cell]}
    return pd.DataFrame(columns).sample(frac=1, random_state=1)


def test_certified_eps_of_cells_meets_delta():
    few = BudgetGroups(np.array([0.0, 2.0, 4.0]), np.array([100, 300, 100]))
    tagged = places.certified_epsilon(few, True, 12, LOG_DELTA)
    assert tagged == BOUNDS["upper"].curve(Setting(100, 12, 4.0)).epsilon(LOG_DELTA).upper
    # Here the single user of the smaller budget decides, not the many of the larger one.
    alone = BudgetGroups(np.array([1.0, 2.0]), np.array([1, 2000]))
    assert places.certified_epsilon(alone, True, 12, LOG_DELTA) == pytest.approx(1.0, rel=1e-4)
    eps = places.certified_epsilon(few, False, 12, LOG_DELTA)
    assert personalised_log_delta(eps, few, 12) <= LOG_DELTA
    assert personalised_log_delta(0.9999 * eps, few, 12) > LOG_DELTA
    assert eps < 0.7 * tagged


def test_shares_of_users_are_placed_at_random_and_from_the_south():
    users = places.assign_budgets(COUNTS, BUDGETS, **NAMES)
    assert users.groups.values.tolist() == [2.0, 3.0, 4.0]
    for held in users.placements.values():
        assert held.min() >= 0
        assert held.sum(axis=0).tolist() == COUNTS.tolist()
        assert held.sum(axis=1).tolist() == [1200, 600, 200]
    assert users.placements[places.FROM_SOUTH].tolist() == [
        [0, 400, 50, 750, 0, 0],
        [0, 0, 0, 50, 250, 300],
        [0, 0, 0, 0, 0, 200],
    ]
    with pytest.raises(InputError, match=r"a share of 0\.1 \(eps: 4\) is less than one of 4 users"):
        places.assign_budgets(np.array([3, 1]), BUDGETS, **NAMES)


@pytest.mark.parametrize("chosen", [False, True])
def test_simulation_agrees_with_what_is_expected(chosen):
    budgets_of_users = table_of(CHOSEN, [2.0, 3.0, 4.0]) if chosen else BUDGETS
    table = places.places_table(COUNTS, budgets_of_users, 1e-6, 400, **NAMES)
    assert tuple(table.columns) == places.COLUMNS
    raw = table[table["estimator"] == "raw"].set_index(["placement", "series"])
    # Five standard errors from the quartiles of a normal law, and 1 % for what is not normal.
    error = 5.0 * (raw["p75"] - raw["p25"]) / 1.349 / 20.0
    off = (raw["tv_distance"] - raw["expected_tv_distance"]).abs()
    assert (off < error + 0.01 * raw["expected_tv_distance"]).all()
    # Only weights by share are unbiased if cells depend on budgets.
    dependent = raw.loc["as-chosen" if chosen else "from-south"]
    assert dependent["bias"]["by-share"] == 0.0
    assert dependent["bias"].drop("by-share").min() > 0.05
    assert (raw.loc["any"]["bias"] == 0.0).all()
    titles = [axes.get_title(loc="left") for axes in place_panels(table, "Town", "one user").axes]
    shown = ["as chosen", "at random"] if chosen else ["at random", "grow from south to north"]
    assert titles[:2] == [f"raw estimates, budgets {each}" for each in shown]
