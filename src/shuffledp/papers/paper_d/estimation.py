"""Simulate paper D's Algorithms 2 and 3 (figures 6 to 8), and compute their bias and variance.

Users are conservative, moderate or liberal: three groups with budgets that increase in this order.
A sweep varies the share or the budget of the conservative group. Every estimator is a weighted sum
``sum_g w_g t_g``, where ``t_g`` is an unbiased estimate of the mean of group g. If ``w_g`` is the
group's share ``f_g`` of the n users, it is unbiased for all data; with other weights only if the
groups have equal means, that is, if records do not depend on budgets.

In Algorithm 2 user i reports the record plus ``Lap(D / eps_i)``, where D is the width of the
records' range. In Algorithm 3 user i reports a bit truthfully with probability ``q_i + s_i``, where
``q_i = 1/(e^eps_i+1)`` and ``s_i = (e^eps_i-1)/(e^eps_i+1)``. Its reports do not reveal their
budget, so that its weights are proportional to ``n_g s_g`` (`pooled_weights`). No estimate from
such reports is unbiased for all data, unless all budgets are equal: the mean of any of them is a
symmetric polynomial in the users' probabilities of reporting 1, affine in each. To be the sum of
the records, it must have degree 1, but then a record's weight is proportional to s_i. If reports
reveal their budget, any weights are possible, and a user is hidden only among users of the same
budget.

`BUDGET_LAWS` is the paper's Table 3, from which figures 4 and 5 draw budgets.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit

from shuffledp.numerics.arrays import Floats
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


# --- Weights, bias and variance -------------------------------------------------------------------


def share_weights(groups: BudgetGroups) -> Floats:
    """Return the groups' shares of the users: weights that are unbiased for all data."""
    return np.asarray(groups.counts / groups.counts.sum())


def precision_weights(variances: Floats) -> Floats:
    """Return the weights of least variance, inverse to the variances of the groups' estimates."""
    return np.asarray((1.0 / variances) / (1.0 / variances).sum())


def pooled_weights(groups: BudgetGroups) -> Floats:
    """Return the groups' weights in Algorithm 3: ``n_g s_g``, scaled to sum to 1."""
    signal = groups.counts * np.tanh(groups.values / 2.0)
    return np.asarray(signal / signal.sum())


def bias(weights: Floats, group_means: Floats, groups: BudgetGroups) -> float:
    """Return the bias ``sum_g (w_g - f_g) v_g``, where ``v_g`` is the mean record of group g."""
    return float((weights - share_weights(groups)) @ group_means)


def mean_variances(groups: BudgetGroups) -> Floats:
    """Return the variance of each group's mean Laplace report, given its records in `RANGE`."""
    return np.asarray(2.0 * ((RANGE[1] - RANGE[0]) / groups.values) ** 2 / groups.counts)


def frequency_variances(groups: BudgetGroups) -> Floats:
    """Return the variance of each group's estimated share of ones; it is the same for all data."""
    false, slope = expit(-groups.values), np.tanh(groups.values / 2.0)
    return np.asarray(false * (1.0 - false) / (groups.counts * slope**2))


# --- Means of numerical records (Algorithm 2), frequencies of binary ones (Algorithm 3) -----------

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

# Names of the estimators in tables.
AS_PUBLISHED: Final = "as-published"
BY_SHARE: Final = "by-share"
BY_PRECISION: Final = "by-precision"
SMALLEST: Final = "smallest-budget"
DROPPED: Final = "without-conservative"


class Series(NamedTuple):
    """An estimator at a point of a sweep: the budgets that all report with, and the weights."""

    name: str
    groups: BudgetGroups
    weights: Floats


def population(share: float = SHARES[0], budget: float = BUDGETS[0]) -> BudgetGroups:
    """Return the budgets of N users, given the share and the budget of the conservative ones.

    The share of liberal users is `SHARES[2]`; all other users are moderate.
    """
    conservative, liberal = round(share * N), round(SHARES[2] * N)
    counts = np.array([conservative, N - conservative - liberal, liberal])
    return BudgetGroups(np.array([budget, *BUDGETS[1:]]), counts)


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
    """Simulate estimates from the number of ones that each group reports."""
    n, budgets = series.groups.counts, series.groups.values
    shape = (REPETITIONS, n.size)
    ones = np.rint(group_means * n).astype(np.int64)
    reported = rng.binomial(ones, expit(budgets), shape)
    reported += rng.binomial(n - ones, expit(-budgets), shape)
    estimates = (reported / n - expit(-budgets)) / np.tanh(budgets / 2.0)
    return np.asarray(estimates @ series.weights)


@dataclass(frozen=True)
class Experiment:
    """The quantity that a sweep estimates: its data, simulation and variances.

    ``published_weights`` are those of the paper's estimator; ``own_by_share`` says whether the
    estimator by share differs from it.
    """

    records: Callable[[BudgetGroups, np.random.Generator], tuple[Floats, int]]
    estimates: Callable[[Series, Floats, np.random.Generator], Floats]
    variances: Callable[[BudgetGroups], Floats]
    published_weights: Callable[[BudgetGroups], Floats]
    own_by_share: bool

    def series(self, groups: BudgetGroups) -> list[Series]:
        """Return the estimators; the first is paper D's."""
        others = BudgetGroups(groups.values[1:], groups.counts[1:])
        alike = BudgetGroups(np.full_like(groups.values, groups.values.min()), groups.counts)
        by_share = Series(BY_SHARE, groups, share_weights(groups))
        return [
            Series(AS_PUBLISHED, groups, self.published_weights(groups)),
            *([by_share] if self.own_by_share else []),
            Series(BY_PRECISION, groups, precision_weights(self.variances(groups))),
            Series(SMALLEST, alike, share_weights(groups)),
            Series(DROPPED, groups, np.append(0.0, self.published_weights(others))),
        ]


MEANS: Final = Experiment(
    _numerical_records, _mean_estimates, mean_variances, share_weights, own_by_share=False
)
FREQUENCIES: Final = Experiment(
    _binary_records, _frequency_estimates, frequency_variances, pooled_weights, own_by_share=True
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


def estimate_table(figure: str, seed: int) -> pd.DataFrame:
    """Simulate the estimates of every series along the sweeps of a figure, a key of `FIGURES`.

    ``mean``, quantiles and ``deviation`` summarise `REPETITIONS` simulated estimates;
    ``expected_bias`` and ``expected_deviation`` are exact, given the records. The seed is that of
    the random streams.
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
                    "repetitions": REPETITIONS,
                    "n": N,
                    "truth": float(series.groups.counts @ group_means / N),
                    "mean": simulated.mean(),
                    "p05": low,
                    "p95": high,
                    "deviation": simulated.std(ddof=1),
                    "expected_bias": bias(series.weights, group_means, series.groups),
                    "expected_deviation": (series.weights**2 @ variances) ** 0.5,
                }
            )
    table = pd.DataFrame(rows)
    clipped = int(table.drop_duplicates(["varied", "value"])["clipped"].sum())
    logger.info("%s: clipped %d records to the range %g..%g", figure, clipped, *RANGE)
    return table
