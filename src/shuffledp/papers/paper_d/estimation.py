"""Simulate paper D's figures 6 to 8: estimates by Algorithms 2 and 3, and the reports' privacy.

Users are conservative, moderate or liberal: three groups with budgets that increase in this order.
A sweep varies the share or the budget of the conservative group. Numerical records are drawn once
for each point, and the numbers of ones are fixed. Each repetition draws the sum of a group's
reports directly: with two Gamma variables for Laplace noise, two binomial ones for binary reports.
`BUDGET_LAWS` is the paper's Table 3, from which figures 4 and 5 draw budgets.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit

from shuffledp.numerics.arrays import Floats
from shuffledp.papers.paper_d.group_estimates import (
    bias,
    cell_variances,
    estimate_cells,
    mean_variances,
    pooled_weights,
    precision_weights,
    share_weights,
    weight_factors,
)
from shuffledp.papers.paper_d.published import mu_gdp, mu_gdp_epsilon
from shuffledp.personalised import budgets
from shuffledp.personalised.groups import BudgetGroups
from shuffledp.pipeline.streams import stream

logger = logging.getLogger(__name__)


class BudgetLaw(NamedTuple):
    """One row of paper D's Table 3: a law of budgets, clipped to ``low..high``.

    The kind is ``uniform`` or ``normal``; ``first`` and ``second`` are the ends of the uniform law,
    or mean and standard deviation of the normal law.
    """

    kind: str
    first: float
    second: float
    low: float
    high: float


BUDGET_LAWS: Final = {
    "Uniform 1": BudgetLaw("uniform", 0.05, 1.0, 0.05, 1.0),
    "Uniform 2": BudgetLaw("uniform", 0.01, 2.0, 0.01, 2.0),
    "Gauss 1": BudgetLaw("normal", 0.5, 0.2, 0.05, 1.0),
    "Gauss 2": BudgetLaw("normal", 1.0, 0.2, 0.01, 2.0),
    "Gauss 3": BudgetLaw("normal", 1.0, 0.5, 0.01, 2.0),
}


def sample_budgets(name: str, n: int, rng: np.random.Generator) -> Floats:
    """Draw n budgets from a law of paper D's Table 3, with values outside its range clipped.

    The paper does not say whether the second number of N(m, s) is the standard deviation, which is
    used here, or the variance, as N(mu, sigma^2) in the caption suggests.
    """
    law = BUDGET_LAWS[name]
    draw = rng.uniform if law.kind == "uniform" else rng.normal
    return np.clip(draw(law.first, law.second, size=n), law.low, law.high)


N: Final = 10_000
REPETITIONS: Final = 1_000
# Paper D's defaults for conservative, moderate and liberal users.
SHARES: Final = (0.54, 0.37, 0.09)
BUDGETS: Final = (0.1, 0.5, 1.0)
# Range and mean of the numerical records.
RANGE: Final = (20.0, 80.0)
CENTRE: Final = 50.0
# Their standard deviation, which paper D does not state; RANGE is the mean +- 3 deviations.
DEVIATION: Final = 10.0
DENSITY: Final = 0.3  # share of ones among the binary records
QUANTILES: Final = (0.05, 0.95)
DELTA: Final = 1e-6
_LOG_DELTA: Final = float(np.log(DELTA))

# Names of the estimators in tables.
AS_PUBLISHED: Final = "as-published"
BY_SHARE: Final = "by-share"
BY_PRECISION: Final = "by-precision"
SMALLEST: Final = "smallest-budget"
DROPPED: Final = "without-conservative"

COLUMNS: Final = (
    *("figure", "varied", "value", "estimator", "tagged", "repetitions", "n", "clipped"),
    *("truth", "mean", "p05", "p95", "deviation", "expected_bias", "expected_deviation", "mu"),
)
PRIVACY_COLUMNS: Final = (
    *("varied", "value", "estimator", "tagged", "delta", "eps_upper", "eps_published"),
)


@dataclass(frozen=True)
class Series:
    """One estimator at one point of a sweep: budgets and weights of the groups.

    ``groups`` has the budgets that all users report with, including groups of weight 0. If
    ``tagged``, reports reveal their budget; users are then hidden only among their own group.
    """

    name: str
    groups: BudgetGroups
    weights: Floats
    tagged: bool = False

    @property
    def reporting(self) -> BudgetGroups:
        """Return the groups whose reports have positive weight."""
        used = self.weights > 0.0
        return BudgetGroups(self.groups.values[used], self.groups.counts[used])


def population(share: float = SHARES[0], budget: float = BUDGETS[0]) -> BudgetGroups:
    """Return the budgets of N users, given the share and the budget of the conservative ones.

    The share of liberal users is `SHARES[2]`; all other users are moderate.
    """
    conservative, liberal = round(share * N), round(SHARES[2] * N)
    counts = np.array([conservative, N - conservative - liberal, liberal])
    return BudgetGroups(np.array([budget, *BUDGETS[1:]]), counts)


# --- Means of numerical records (Algorithm 2), frequencies of binary ones (Algorithm 3) -----------


def clip(records: Floats) -> tuple[Floats, int]:
    """Return the records clipped to `RANGE`, and the number of records outside it."""
    outside = int(np.count_nonzero((records < RANGE[0]) | (records > RANGE[1])))
    return np.clip(records, *RANGE), outside


def _numerical_records(groups: BudgetGroups, rng: np.random.Generator) -> tuple[Floats, int]:
    """Draw numerical records; return the mean of each group, and the number of clipped records."""
    records, outside = clip(rng.normal(np.full(N, CENTRE), DEVIATION))
    sums = np.diff(np.cumsum(records)[np.cumsum(groups.counts) - 1], prepend=0.0)
    return sums / groups.counts, outside


def _binary_records(groups: BudgetGroups, rng: np.random.Generator) -> tuple[Floats, int]:
    """Return the share of ones in each group, which is `DENSITY` but for rounding."""
    del rng
    ones = round(DENSITY * int(groups.counts[0]))
    others = (DENSITY * N - ones) / groups.counts[1:].sum()
    return np.concatenate([[ones], np.rint(others * groups.counts[1:])]) / groups.counts, 0


def _mean_estimates(series: Series, group_means: Floats, rng: np.random.Generator) -> Floats:
    """Simulate estimates; a sum of n Laplace variables is the difference of two Gamma variables."""
    shape, n = (REPETITIONS, series.groups.counts.size), series.groups.counts
    noise = rng.standard_gamma(n, shape) - rng.standard_gamma(n, shape)
    reported = group_means + (RANGE[1] - RANGE[0]) / series.groups.values * noise / n
    return np.asarray(reported @ series.weights)


def _frequency_estimates(series: Series, group_means: Floats, rng: np.random.Generator) -> Floats:
    shape, n = (REPETITIONS, series.groups.counts.size), series.groups.counts
    ones = np.rint(group_means * n).astype(np.int64)
    reported = rng.binomial(ones, expit(series.groups.values), shape)
    reported += rng.binomial(n - ones, expit(-series.groups.values), shape)
    counts = np.stack([n - reported, reported], axis=-1)
    factors = weight_factors(series.weights, series.groups, 2)
    return np.asarray(estimate_cells(counts, series.groups, factors)[..., 1])


@dataclass(frozen=True)
class Experiment:
    """Experiment of a sweep: the quantity that is estimated, its data, and its simulation.

    ``published_weights`` are those of the paper's estimator, and ``reports`` the name of the kind
    of reports in `shuffledp.personalised.budgets`. ``own_by_share`` says whether the estimator by
    share differs from the paper's.
    """

    reports: str
    records: Callable[[BudgetGroups, np.random.Generator], tuple[Floats, int]]
    estimates: Callable[[Series, Floats, np.random.Generator], Floats]
    variances: Callable[[BudgetGroups], Floats]
    published_weights: Callable[[BudgetGroups], Floats]
    own_by_share: bool

    def series(self, groups: BudgetGroups) -> list[Series]:
        """Return the estimators; the first is paper D's."""
        others = BudgetGroups(groups.values[1:], groups.counts[1:])
        without_first = np.concatenate([[0.0], self.published_weights(others)])
        alike = BudgetGroups(np.full_like(groups.values, groups.values.min()), groups.counts)
        by_share = Series(BY_SHARE, groups, share_weights(groups), tagged=True)
        by_precision = precision_weights(self.variances(groups))
        return [
            Series(AS_PUBLISHED, groups, self.published_weights(groups)),
            *([by_share] if self.own_by_share else []),
            Series(BY_PRECISION, groups, by_precision, tagged=True),
            Series(SMALLEST, alike, share_weights(groups)),
            Series(DROPPED, groups, without_first),
        ]


MEANS: Final = Experiment(
    reports="laplace",
    records=_numerical_records,
    estimates=_mean_estimates,
    variances=partial(mean_variances, width=RANGE[1] - RANGE[0]),
    published_weights=share_weights,
    own_by_share=False,
)
FREQUENCIES: Final = Experiment(
    reports="binary",
    records=_binary_records,
    estimates=_frequency_estimates,
    variances=partial(cell_variances, k=2),
    published_weights=partial(pooled_weights, k=2),
    own_by_share=True,
)
# Parameter of the conservative users that a sweep varies, and its values.
SWEEPS: Final = {
    "share": (0.01, 0.1, 0.2, 0.3, 0.4, 0.5),
    "budget": (0.05, 0.1, 0.2, 0.3, 0.4, 0.5),
}
# The experiment and the sweeps of each figure.
FIGURES: Final[Mapping[str, tuple[Experiment, tuple[str, ...]]]] = {
    "figure-6": (MEANS, ("share",)),
    "figure-7": (MEANS, ("budget",)),
    "figure-8": (FREQUENCIES, ("share", "budget")),
}


def _points(figure: str) -> Iterator[tuple[str, float, BudgetGroups]]:
    """Yield the varied parameter, its value and the users of each point of a figure."""
    for varied in FIGURES[figure][1]:
        for value in SWEEPS[varied]:
            yield varied, value, population(**{varied: value})


# --- Tables ---------------------------------------------------------------------------------------


def estimate_table(figure: str, seed: int) -> pd.DataFrame:
    """Simulate the estimates of every series along the sweeps of a figure, a key of `FIGURES`.

    The columns are `COLUMNS`. ``mean``, quantiles and ``deviation`` summarise `REPETITIONS`
    simulated estimates; ``expected_bias`` and ``expected_deviation`` are exact, given the records.
    ``mu`` is from paper D's Corollary 1 or 2 for the users who report: an approximation, no
    guarantee. The seed is that of the random streams.
    """
    experiment, rows = FIGURES[figure][0], []
    for varied, value, groups in _points(figure):
        rng = stream(seed, "paper D, records", figure, value)
        group_means, outside = experiment.records(groups, rng)
        point = {"figure": figure, "varied": varied, "value": value, "clipped": outside}
        for series in experiment.series(groups):
            rng = stream(seed, "paper D", *point.values(), series.name)
            simulated = experiment.estimates(series, group_means, rng)
            low, high = np.quantile(simulated, QUANTILES)
            variances = experiment.variances(series.groups)
            rows.append(
                {
                    **point,
                    "estimator": series.name,
                    "tagged": series.tagged,
                    "repetitions": REPETITIONS,
                    "n": N,
                    "truth": float(series.groups.counts @ group_means / N),
                    "mean": simulated.mean(),
                    "p05": low,
                    "p95": high,
                    "deviation": simulated.std(ddof=1),
                    "expected_bias": bias(series.weights, group_means, series.groups),
                    "expected_deviation": (series.weights**2 @ variances) ** 0.5,
                    "mu": mu_gdp(series.reporting),
                }
            )
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    clipped = int(table.drop_duplicates(["varied", "value"])["clipped"].sum())
    logger.info("%s: clipped %d records to the range %g..%g", figure, clipped, *RANGE)
    return table


def certified_epsilon(groups: BudgetGroups, kind: str, *, tagged: bool) -> float:
    """Return an eps that holds for every user at delta = 1e-6, rounded up, to a relative 1e-5.

    The groups are all users who report, and the kind of report is ``binary`` or ``laplace``. If
    reports are tagged with their budget, a user is hidden only among users of the same budget, and
    the result is the eps of the least private group.
    """
    values, counts = groups.values.tolist(), groups.counts.tolist()
    if not tagged:
        return _epsilon(tuple(values), tuple(counts), kind)
    return max(
        _epsilon((value,), (count,), kind) for value, count in zip(values, counts, strict=True)
    )


@cache  # the same groups occur in several sweeps
def _epsilon(values: tuple[float, ...], counts: tuple[int, ...], kind: str) -> float:
    """Return the largest eps of all groups; groups with a smaller eps need no search."""
    groups, how, log_delta = (
        BudgetGroups.of_counts(values, counts),
        budgets.reports(kind),
        _LOG_DELTA,
    )
    largest = 0.0
    for group in reversed(range(groups.values.size)):
        curve = how.curve(groups, group, log_delta)
        if largest == 0.0 or curve.log_delta(largest).promised > log_delta:
            largest = budgets.epsilon(log_delta, groups, group, how)
    return largest


def privacy_table(figure: str) -> pd.DataFrame:
    """Return the certified eps of every series along the sweeps of a figure.

    The columns are `PRIVACY_COLUMNS`; ``varied``, ``value`` and ``estimator`` are as in
    `estimate_table`. ``eps_published`` is that of paper D's corollaries for the users who report:
    an approximation, no guarantee.
    """
    experiment, rows = FIGURES[figure][0], []
    for varied, value, groups in _points(figure):
        for series in experiment.series(groups):
            users = series.reporting
            # In order of budget, with equal budgets merged.
            merged = BudgetGroups.of_counts(users.values, users.counts)
            eps = certified_epsilon(users, experiment.reports, tagged=series.tagged)
            published = mu_gdp_epsilon(_LOG_DELTA, merged)
            rows.append((varied, value, series.name, series.tagged, DELTA, eps, published))
    return pd.DataFrame(rows, columns=list(PRIVACY_COLUMNS))
