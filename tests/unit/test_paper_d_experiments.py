"""Bias and variance of estimates from users with personal budgets, and their figures.

Monte Carlo tolerances are five standard errors; seeds are fixed.
"""

import itertools

import numpy as np
import pytest

from shuffledp.accounting.setting import probabilities
from shuffledp.papers.paper_d import estimation
from shuffledp.papers.paper_d.estimation import (
    bias,
    frequency_variances,
    pooled_weights,
    share_weights,
)
from shuffledp.personalised.groups import BudgetGroups

ERRORS = 5.0
GROUPS = BudgetGroups(np.array([0.1, 0.5, 1.0]), np.array([3, 2, 1]))
ONES = np.array([3, 0, 0])


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
