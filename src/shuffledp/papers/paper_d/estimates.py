"""Simulate paper D's figures 6 to 8: estimates by Algorithms 2 and 3, and the reports' privacy.

Users are conservative, moderate or liberal: three groups with budgets that increase in this order.
A sweep varies one parameter of the conservative group along the points of an axis. The sweep
``dependence``, which is not in the paper, shows the bias of estimators if records depend on
budgets. Numerical records are drawn once for each point, and the numbers of ones are fixed. Each
repetition draws the sum of a group's reports directly: with two Gamma variables for Laplace noise,
two binomial ones for binary reports.
`BUDGET_LAWS` is the paper's Table 3, from which figures 4 and 5 draw budgets.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import pandas as pd
from scipy.special import expit

from shuffledp.errors import InputError
from shuffledp.numerics.arrays import Floats
from shuffledp.papers.paper_d import published
from shuffledp.papers.paper_d.algorithms import frequency, mean
from shuffledp.papers.paper_d.algorithms.combination import (
    bias,
    combine,
    precision_weights,
    share_weights,
    variance,
)
from shuffledp.papers.paper_d.published import mu_gdp
from shuffledp.personalised import budgets
from shuffledp.personalised.groups import BudgetGroups
from shuffledp.pipeline.streams import stream

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class BudgetLaw:
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
    """Draw n budgets from a law of paper D's Table 3.

    Values outside the law's range are clipped, as in the paper. The paper does not say whether the
    second number of N(m, s) is the standard deviation, which is used here, or the variance, as
    N(mu, sigma^2) in the caption suggests. A name that is not a key of `BUDGET_LAWS`, or an n below
    1, is an `InputError`.
    """
    if name not in BUDGET_LAWS:
        raise InputError(f"name must be one of {sorted(BUDGET_LAWS)}, got {name!r}")
    if n < 1:
        raise InputError(f"n must be an integer >= 1, got n={n}")
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

SHARE_POINTS: Final = (0.01, 0.1, 0.2, 0.3, 0.4, 0.5)
BUDGET_POINTS: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
_DENSITY_POINTS: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5)
_SHIFT_POINTS: Final = (-12.0, -8.0, -4.0, 0.0, 4.0, 8.0, 12.0)


@dataclass(frozen=True)
class Series:
    """One estimator at one point of a sweep: budgets and weights of the groups.

    ``groups`` has the budgets that all users report with, including groups of weight 0. If
    ``tagged``, reports reveal their budget; users are then hidden only among their own group.
    Tables contain the name.
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


def _at_smallest_budget(groups: BudgetGroups) -> BudgetGroups:
    return BudgetGroups(np.full_like(groups.values, groups.values.min()), groups.counts)


def _without_first(weights: Callable[[BudgetGroups], Floats], groups: BudgetGroups) -> Floats:
    """Return weight 0 for the first group, and for the others their weights without it."""
    others = BudgetGroups(groups.values[1:], groups.counts[1:])
    return np.concatenate([[0.0], weights(others)])


def mean_series(groups: BudgetGroups) -> list[Series]:
    """Return the estimators of a mean; the first is paper D's Algorithm 2."""
    by_precision = precision_weights(_mean_variances(groups))
    return [
        Series(AS_PUBLISHED, groups, share_weights(groups)),
        Series(BY_PRECISION, groups, by_precision, tagged=True),
        Series(SMALLEST, _at_smallest_budget(groups), share_weights(groups)),
        Series(DROPPED, groups, _without_first(share_weights, groups)),
    ]


def frequency_series(groups: BudgetGroups) -> list[Series]:
    """Return the estimators of a frequency; the first is paper D's Algorithm 3."""
    by_precision = precision_weights(frequency.variances(groups))
    return [
        Series(AS_PUBLISHED, groups, frequency.pooled_weights(groups)),
        Series(BY_SHARE, groups, share_weights(groups), tagged=True),
        Series(BY_PRECISION, groups, by_precision, tagged=True),
        Series(SMALLEST, _at_smallest_budget(groups), share_weights(groups)),
        Series(DROPPED, groups, _without_first(frequency.pooled_weights, groups)),
    ]


def _mean_variances(groups: BudgetGroups) -> Floats:
    return mean.variances(groups, RANGE[1] - RANGE[0])


def _mean_estimates(series: Series, group_means: Floats, rng: np.random.Generator) -> Floats:
    """Simulate estimates; a sum of n Laplace variables is the difference of two Gamma variables."""
    shape, n = (REPETITIONS, series.groups.counts.size), series.groups.counts
    noise = rng.standard_gamma(n, shape) - rng.standard_gamma(n, shape)
    reported = group_means + (RANGE[1] - RANGE[0]) / series.groups.values * noise / n
    return combine(reported, series.weights)


def _frequency_estimates(series: Series, group_means: Floats, rng: np.random.Generator) -> Floats:
    shape, n = (REPETITIONS, series.groups.counts.size), series.groups.counts
    ones = np.rint(group_means * n).astype(np.int64)
    reported = rng.binomial(ones, expit(series.groups.values), shape)
    reported += rng.binomial(n - ones, expit(-series.groups.values), shape)
    return frequency.by_group(reported / n, series.groups, series.weights)


Estimates = Callable[[Series, Floats, np.random.Generator], Floats]
Variances = Callable[[BudgetGroups], Floats]


def _series_rows(
    point: Mapping[str, object],
    all_series: Sequence[Series],
    group_means: Floats,
    model: tuple[Estimates, Variances],
    seed: int,
) -> Iterator[dict[str, object]]:
    """Yield a row of the table for each series at one point of a sweep.

    ``group_means`` are the mean records of the groups. ``model`` has the functions that simulate
    the estimates of a series, and return the variance of each group's estimate.
    """
    simulate, variances = model
    for series in all_series:
        rng = stream(seed, "paper D", *point.values(), series.name)
        simulated = simulate(series, group_means, rng)
        low, high = np.quantile(simulated, QUANTILES)
        groups = series.groups
        yield {
            **point,
            "estimator": series.name,
            "tagged": series.tagged,
            "repetitions": REPETITIONS,
            "n": int(groups.counts.sum()),
            "truth": float(groups.counts @ group_means / groups.counts.sum()),
            "mean": simulated.mean(),
            "p05": low,
            "p95": high,
            "deviation": simulated.std(ddof=1),
            "expected_bias": bias(series.weights, group_means, groups),
            "expected_deviation": variance(series.weights, variances(groups)) ** 0.5,
            "mu": mu_gdp(series.reporting),
        }


def _draw_records(
    groups: BudgetGroups, shift: float, rng: np.random.Generator
) -> tuple[Floats, int]:
    """Draw numerical records; return the mean of each group, and the number of clipped records.

    The mean of conservative users is shifted by ``shift``, and that of the other users in the
    opposite direction, so that the mean of all users remains `CENTRE`.
    """
    others = int(groups.counts[1:].sum())
    shifts = np.array([shift, *[-shift * groups.counts[0] / others] * 2])
    drawn = rng.normal(np.repeat(CENTRE + shifts, groups.counts), DEVIATION)
    records, outside = mean.clip(drawn, *RANGE)
    ends = np.cumsum(groups.counts)
    sums = np.diff(np.concatenate([[0.0], np.cumsum(records)[ends - 1]]))
    return sums / groups.counts, outside


def _ones_by_group(groups: BudgetGroups, density: float) -> Floats:
    """Return the share of ones in each group: ``density`` if conservative, `DENSITY` overall."""
    ones = round(density * int(groups.counts[0]))
    others = (DENSITY * N - ones) / groups.counts[1:].sum()
    return np.concatenate([[ones], np.rint(others * groups.counts[1:])]) / groups.counts


def _mean_rows(
    figure: str, varied: str, points: Sequence[float], seed: int
) -> Iterator[dict[str, object]]:
    """Yield the rows of a sweep in which the mean of numerical records is estimated."""
    clipped = 0
    for value in points:
        groups = population(**({varied: value} if varied != "shift" else {}))
        rng = stream(seed, "paper D, records", figure, value)
        group_means, outside = _draw_records(groups, value if varied == "shift" else 0.0, rng)
        clipped += outside
        point = {"figure": figure, "varied": varied, "value": value, "clipped": outside}
        model = (_mean_estimates, _mean_variances)
        yield from _series_rows(point, mean_series(groups), group_means, model, seed)
    logger.info(
        "%s: clipped %d of %d records to the range %g..%g",
        *(figure, clipped, N * len(points), *RANGE),
    )


def _frequency_rows(
    figure: str, varied: str, points: Sequence[float], seed: int
) -> Iterator[dict[str, object]]:
    """Yield the rows of a sweep in which the frequency of ones is estimated."""
    for value in points:
        groups = population(**({varied: value} if varied != "density" else {}))
        group_means = _ones_by_group(groups, value if varied == "density" else DENSITY)
        point = {"figure": figure, "varied": varied, "value": value, "clipped": 0}
        model = (_frequency_estimates, frequency.variances)
        yield from _series_rows(point, frequency_series(groups), group_means, model, seed)


_SweepRows = Callable[[str, str, Sequence[float], int], Iterator[dict[str, object]]]

# For each figure: the function that simulates the sweep, the varied parameter and its values.
SWEEPS: Final[Mapping[str, Sequence[tuple[_SweepRows, str, Sequence[float]]]]] = {
    "figure-6": [(_mean_rows, "share", SHARE_POINTS)],
    "figure-7": [(_mean_rows, "budget", BUDGET_POINTS)],
    "figure-8": [
        (_frequency_rows, "share", SHARE_POINTS),
        (_frequency_rows, "budget", BUDGET_POINTS),
    ],
    "dependence": [
        (_frequency_rows, "density", _DENSITY_POINTS),
        (_mean_rows, "shift", _SHIFT_POINTS),
    ],
}


def estimate_table(figure: str, seed: int) -> pd.DataFrame:
    """Simulate the estimates of every series along the sweeps of a figure.

    The figure is a key of `SWEEPS`: paper D's figures 6 (means over the share of conservative
    users), 7 (means over their budget) and 8 (frequencies over both), or ``dependence`` (over how
    much the records of conservative users differ from others, with a fixed mean of all users). The
    seed is that of the random streams.

    The columns are `COLUMNS`. ``mean``, quantiles and ``deviation`` summarise `REPETITIONS`
    simulated estimates; ``expected_bias`` and ``expected_deviation`` are exact, given the records.
    ``mu`` is from paper D's Corollary 1 or 2 for the users who report: an approximation, no
    guarantee.
    """
    rows = [
        row
        for compute, varied, points in SWEEPS[figure]
        for row in compute(figure, varied, points, seed)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


# --- Privacy of the reports -----------------------------------------------------------------------

DELTA: Final = 1e-6
_LOG_DELTA: Final = float(np.log(DELTA))
PRIVACY_COLUMNS: Final = (
    *("varied", "value", "estimator", "tagged", "delta", "eps_upper", "eps_published"),
)


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
    groups, report_kind = BudgetGroups.of_counts(values, counts), budgets.reports(kind)
    largest = 0.0
    for group in range(groups.values.size - 1, -1, -1):
        curve = report_kind.curve(groups, group, _LOG_DELTA)
        if largest == 0.0 or curve.log_delta(largest).promised > _LOG_DELTA:
            largest = budgets.epsilon(_LOG_DELTA, groups, group, report_kind)
    return largest


def privacy_table(figure: str) -> pd.DataFrame:
    """Return the certified eps of every series along the sweeps of figure 6, 7 or 8.

    The columns are `PRIVACY_COLUMNS`; ``varied``, ``value`` and ``estimator`` are as in
    `estimate_table`. ``eps_published`` is that of paper D's corollaries for the users who report:
    an approximation, no guarantee.
    """
    is_mean = SWEEPS[figure][0][0] is _mean_rows
    kind, all_series = ("laplace", mean_series) if is_mean else ("binary", frequency_series)
    rows = []
    for _, varied, points in SWEEPS[figure]:
        for value in points:
            for series in all_series(population(**{varied: value})):
                users = series.reporting
                # In order of budget, with equal budgets merged.
                merged = BudgetGroups.of_counts(users.values, users.counts)
                rows.append(
                    (
                        *(varied, value, series.name, series.tagged, DELTA),
                        certified_epsilon(users, kind, tagged=series.tagged),
                        published.mu_gdp_epsilon(_LOG_DELTA, merged),
                    )
                )
    return pd.DataFrame(rows, columns=list(PRIVACY_COLUMNS))
