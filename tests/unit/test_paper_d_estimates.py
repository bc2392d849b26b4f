"""Bias and variance of means and frequencies from users with personal budgets.

Monte Carlo tolerances are five standard errors; seeds are fixed.
"""

import itertools

import numpy as np
import pytest

from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.papers.paper_d import estimates
from shuffledp.papers.paper_d.algorithms import combination, frequency, mean
from shuffledp.papers.paper_d.estimates import SWEEPS, estimate_table
from shuffledp.personalised import budgets
from shuffledp.personalised.groups import BudgetGroups

GROUPS = BudgetGroups(np.array([0.1, 0.5, 1.0]), np.array([3, 2, 1]))
BUDGETS = np.repeat(GROUPS.values, GROUPS.counts)
RECORDS = np.array([0, 0, 1, 1, 0, 1])
ERRORS = 5.0


def exact_law(estimate):
    """Return the exact mean and variance of an estimate, over all reports of `RECORDS`."""
    truthful = np.exp(BUDGETS) / (1.0 + np.exp(BUDGETS))
    values, chances = [], []
    for reports in itertools.product((0, 1), repeat=RECORDS.size):
        same = np.array(reports) == RECORDS
        chances.append(np.prod(np.where(same, truthful, 1.0 - truthful)))
        values.append(float(estimate(np.array(reports))))
    average = np.dot(chances, values)
    return average, np.dot(chances, (np.array(values) - average) ** 2)


def group_means(reports, budgets, groups):
    """Return the mean report of each budget."""
    return np.array([np.asarray(reports)[budgets == value].mean() for value in groups.values])


def by_group(weights):
    return lambda reports: frequency.by_group(
        group_means(reports, BUDGETS, GROUPS), GROUPS, weights
    )


POOLED = frequency.pooled_weights(GROUPS)
BY_SHARE = combination.share_weights(GROUPS)
BY_PRECISION = combination.precision_weights(frequency.variances(GROUPS))


@pytest.mark.parametrize(
    ("weights", "estimate"),
    [
        (POOLED, lambda reports: frequency.pooled(reports.sum(), GROUPS)),
        (BY_SHARE, by_group(BY_SHARE)),
        (BY_PRECISION, by_group(BY_PRECISION)),
    ],
)
def test_frequency_has_the_bias_and_variance_of_its_closed_forms(weights, estimate):
    average, variance = exact_law(estimate)
    shares = group_means(RECORDS, BUDGETS, GROUPS)
    assert average - RECORDS.mean() == pytest.approx(
        combination.bias(weights, shares, GROUPS), abs=1e-12
    )
    assert variance == pytest.approx(
        combination.variance(weights, frequency.variances(GROUPS)), rel=1e-10
    )


def test_only_weights_by_share_are_unbiased_whatever_the_data():
    shares = group_means(RECORDS, BUDGETS, GROUPS)
    assert combination.bias(BY_SHARE, shares, GROUPS) == pytest.approx(0, abs=1e-15)
    # A third of the users with the smallest budget hold a 1, and two thirds of the others.
    assert combination.bias(POOLED, shares, GROUPS) > 0.1
    alike = np.full(3, 0.3)
    for weights in (POOLED, BY_PRECISION):
        assert combination.bias(weights, alike, GROUPS) == pytest.approx(0.0, abs=1e-15)


def test_inverse_variance_is_the_least_variance():
    for variances in (frequency.variances(GROUPS), mean.variances(GROUPS, 60.0)):
        best = combination.variance(combination.precision_weights(variances), variances)
        assert best == pytest.approx(1.0 / np.sum(1.0 / variances))
        assert best < combination.variance(BY_SHARE, variances)
        assert best < combination.variance(POOLED, variances)


def test_users_of_budget_0_report_noise_and_do_not_count():
    mixed = BudgetGroups(np.array([0.0, 1.0]), np.array([5, 5]))
    for weights in (
        combination.share_weights(mixed),
        frequency.pooled_weights(mixed),
        combination.precision_weights(frequency.variances(mixed)),
        combination.precision_weights(mean.variances(mixed, 60.0)),
    ):
        assert weights.tolist() == [0.0, 1.0]
    assert combination.combine([np.nan, 50.0], combination.share_weights(mixed)) == 50.0
    expected = float(mixed.counts @ [0.5, 0.3 + 0.4 / (1.0 + np.exp(-1.0))])
    assert frequency.pooled(expected, mixed) == pytest.approx(0.7)


def test_clipping_is_counted():
    clipped, outside = mean.clip([10.0, 20.0, 50.0, 80.0, 1e9, -np.inf], 20.0, 80.0)
    assert clipped.tolist() == [20.0, 20.0, 50.0, 80.0, 80.0, 20.0]
    assert outside == 3


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mean.clip([np.nan], 20.0, 80.0), "got nan"),
        (lambda: mean.clip([1.0], 80.0, 20.0), r"got 80\.0\.\.20\.0"),
        (lambda: combination.share_weights(BudgetGroups(np.zeros(1), np.ones(1, int))), "all be 0"),
        (lambda: frequency.pooled(1, BudgetGroups(np.zeros(1), np.ones(1, int))), "all be 0"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


# --- The figures' tables --------------------------------------------------------------------------


@pytest.fixture(scope="module", params=SWEEPS)
def table(request):
    return estimate_table(request.param, 20220506)


def test_simulation_agrees_with_the_closed_forms(table):
    assert tuple(table.columns) == estimates.COLUMNS
    off = (table["mean"] - table["truth"] - table["expected_bias"]) / table["expected_deviation"]
    assert (off.abs() * table["repetitions"] ** 0.5 < ERRORS).all()
    # The estimates are nearly normal.
    ratio = table["deviation"] / table["expected_deviation"]
    assert ((ratio - 1.0).abs() * (2.0 * table["repetitions"]) ** 0.5 < ERRORS).all()
    assert (table["p05"] < table["mean"]).all()
    assert (table["mean"] < table["p95"]).all()


def test_tables_say_what_the_figures_show(table):
    figure = table["figure"].iloc[0]
    published = table[table["estimator"] == estimates.AS_PUBLISHED]
    if figure == "dependence":
        frequencies = published[published["varied"] == "density"]
        biased = frequencies["value"] != estimates.DENSITY
        assert (frequencies["expected_bias"].abs() > 0.03)[biased].all()
        unbiased = table[table["estimator"].isin([estimates.BY_SHARE, estimates.SMALLEST])]
        assert unbiased["expected_bias"].abs().max() < 1e-12
        assert published[published["varied"] == "shift"]["expected_bias"].abs().max() < 1e-12
        assert published[published["varied"] == "shift"]["clipped"].min() > 0
    else:
        assert published["expected_bias"].abs().max() < 1e-12
        smallest = table[table["estimator"] == estimates.SMALLEST]
        assert (
            published["expected_deviation"].to_numpy() < smallest["expected_deviation"].to_numpy()
        ).all()
    assert set(table["n"]) == {10_000}


FEW = BudgetGroups(np.array([0.1, 1.0]), np.array([400, 100]))


def test_certified_eps_meets_delta_with_little_to_spare():
    eps = estimates.certified_epsilon(FEW, "binary", tagged=False)
    curve = budgets.reports("binary").curve(FEW, 1, np.log(1e-6))
    assert curve.log_delta(eps).upper <= np.log(1e-6)
    assert curve.log_delta(0.9997 * eps).upper > np.log(1e-6)


def test_reports_that_tell_their_budget_have_the_privacy_of_the_least_private_group():
    eps = estimates.certified_epsilon(FEW, "binary", tagged=True)
    alone = BOUNDS["upper"].curve(Setting(100, 2, 1.0)).epsilon(np.log(1e-6)).upper
    assert alone <= eps <= 1.0003 * alone
    assert eps > 1.4 * estimates.certified_epsilon(FEW, "binary", tagged=False)
