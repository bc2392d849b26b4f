"""Paper D's figures 6 to 8: estimates by Algorithms 2 and 3, and the privacy of the reports.

A further sweep shows the bias of the estimators if records depend on budgets. Records are drawn
once for each point, the noise in each repetition. The noise of a group's sum is drawn from its law:
two Gamma variables for Laplace noise, two binomial ones for binary reports. `BUDGET_LAWS` is the
paper's Table 3, from which figures 4 and 5 draw budgets.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
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

    Attributes
    ----------
    kind
        ``uniform`` or ``normal``.
    first, second
        Ends of the uniform law, or mean and standard deviation of the normal law.
    low, high
        Range to which budgets are clipped.
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

    Values outside the range are moved to its nearest end, as the paper says. The paper does not say
    whether the second number of N(m, s) is the standard deviation, which is used here, or the
    variance, as N(mu, sigma^2) in the caption suggests.

    Parameters
    ----------
    name
        A key of `BUDGET_LAWS`.
    n
        Number of users, at least 1.
    rng
        Random number generator.

    Raises
    ------
    InputError
        If the name is not a key of `BUDGET_LAWS`, or n is not positive.
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
RANGE: Final = (20.0, 80.0)
CENTRE: Final = 50.0
# Standard deviation of the records, not stated in paper D: the range is +- 3 of them.
DEVIATION: Final = 10.0
DENSITY: Final = 0.3
QUANTILES: Final = (0.05, 0.95)

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

    Attributes
    ----------
    name
        Name in tables.
    groups
        Budgets that all users report with, including groups of weight 0.
    weights
        Weight of each group.
    tagged
        Whether reports tell their budget. Users are then hidden only among their own group.
    """

    name: str
    groups: BudgetGroups
    weights: Floats
    tagged: bool = False

    @property
    def reporting(self) -> BudgetGroups:
        """Return the groups whose reports are used."""
        used = self.weights > 0.0
        return BudgetGroups(self.groups.values[used], self.groups.counts[used])


def population(share: float = SHARES[0], budget: float = BUDGETS[0]) -> BudgetGroups:
    """Return paper D's users, with another share or budget of the conservative ones if passed.

    The share of liberal users is fixed; all other users are moderate.
    """
    conservative, liberal = round(share * N), round(SHARES[2] * N)
    counts = np.array([conservative, N - conservative - liberal, liberal])
    return BudgetGroups(np.array([budget, *BUDGETS[1:]]), counts)


def _at_smallest(groups: BudgetGroups) -> BudgetGroups:
    return BudgetGroups(np.full_like(groups.values, groups.values.min()), groups.counts)


def _without_first(weights: Callable[[BudgetGroups], Floats], groups: BudgetGroups) -> Floats:
    others = BudgetGroups(groups.values[1:], groups.counts[1:])
    return np.concatenate([[0.0], weights(others)])


def mean_series(groups: BudgetGroups) -> list[Series]:
    """Return the estimators of a mean; the first is paper D's Algorithm 2."""
    by_precision = precision_weights(_mean_variances(groups))
    return [
        Series(AS_PUBLISHED, groups, share_weights(groups)),
        Series(BY_PRECISION, groups, by_precision, tagged=True),
        Series(SMALLEST, _at_smallest(groups), share_weights(groups)),
        Series(DROPPED, groups, _without_first(share_weights, groups)),
    ]


def frequency_series(groups: BudgetGroups) -> list[Series]:
    """Return the estimators of a frequency; the first is paper D's Algorithm 3."""
    by_precision = precision_weights(frequency.variances(groups))
    return [
        Series(AS_PUBLISHED, groups, frequency.pooled_weights(groups)),
        Series(BY_SHARE, groups, share_weights(groups), tagged=True),
        Series(BY_PRECISION, groups, by_precision, tagged=True),
        Series(SMALLEST, _at_smallest(groups), share_weights(groups)),
        Series(DROPPED, groups, _without_first(frequency.pooled_weights, groups)),
    ]


def _mean_variances(groups: BudgetGroups) -> Floats:
    return mean.variances(groups, RANGE[1] - RANGE[0])


def _mean_estimates(series: Series, values: Floats, rng: np.random.Generator) -> Floats:
    """Simulate estimates; a sum of n Laplace variables is a difference of two Gamma variables."""
    shape, n = (REPETITIONS, series.groups.counts.size), series.groups.counts
    noise = rng.standard_gamma(n, shape) - rng.standard_gamma(n, shape)
    reported = values + (RANGE[1] - RANGE[0]) / series.groups.values * noise / n
    return combine(reported, series.weights)


def _frequency_estimates(series: Series, values: Floats, rng: np.random.Generator) -> Floats:
    shape, n = (REPETITIONS, series.groups.counts.size), series.groups.counts
    ones = np.rint(values * n).astype(np.int64)
    reported = rng.binomial(ones, expit(series.groups.values), shape)
    reported += rng.binomial(n - ones, expit(-series.groups.values), shape)
    return frequency.by_group(reported / n, series.groups, series.weights)


Estimates = Callable[[Series, Floats, np.random.Generator], Floats]
Variances = Callable[[BudgetGroups], Floats]


def _rows(
    point: Mapping[str, object],
    all_series: Sequence[Series],
    values: Floats,
    laws: tuple[Estimates, Variances],
    seed: int,
) -> Iterator[dict[str, object]]:
    """Yield a row for each series at one point; ``values`` are the groups' mean records."""
    estimates, variances = laws
    for one in all_series:
        rng = stream(seed, "paper D", *point.values(), one.name)
        simulated = estimates(one, values, rng)
        low, high = np.quantile(simulated, QUANTILES)
        yield {
            **point,
            "estimator": one.name,
            "tagged": one.tagged,
            "repetitions": REPETITIONS,
            "n": int(one.groups.counts.sum()),
            "truth": float(one.groups.counts @ values / one.groups.counts.sum()),
            "mean": simulated.mean(),
            "p05": low,
            "p95": high,
            "deviation": simulated.std(ddof=1),
            "expected_bias": bias(one.weights, values, one.groups),
            "expected_deviation": variance(one.weights, variances(one.groups)) ** 0.5,
            "mu": mu_gdp(one.reporting),
        }


def _numbers(
    groups: BudgetGroups, shift: float, rng: np.random.Generator, centre: float = CENTRE
) -> tuple[Floats, int]:
    """Draw records; return the mean of each group, and the number of clipped records.

    The mean of conservative users is shifted by ``shift``, and that of the other users such that
    the mean of all users stays.
    """
    others = int(groups.counts[1:].sum())
    shifts = np.array([shift, *[-shift * groups.counts[0] / others] * 2])
    drawn = rng.normal(np.repeat(centre + shifts, groups.counts), DEVIATION)
    records, outside = mean.clip(drawn, *RANGE)
    ends = np.cumsum(groups.counts)
    sums = np.diff(np.concatenate([[0.0], np.cumsum(records)[ends - 1]]))
    return sums / groups.counts, outside


def _bits(groups: BudgetGroups, density: float) -> Floats:
    """Return the share of ones in each group: ``density`` if conservative, `DENSITY` overall."""
    ones = round(density * int(groups.counts[0]))
    others = (DENSITY * N - ones) / groups.counts[1:].sum()
    return np.concatenate([[ones], np.rint(others * groups.counts[1:])]) / groups.counts


def _means(
    figure: str, varied: str, points: Sequence[float], seed: int
) -> Iterator[dict[str, object]]:
    clipped = 0
    for value in points:
        groups = population(**({varied: value} if varied != "shift" else {}))
        rng = stream(seed, "paper D, records", figure, value)
        values, outside = _numbers(groups, value if varied == "shift" else 0.0, rng)
        clipped += outside
        point = {"figure": figure, "varied": varied, "value": value, "clipped": outside}
        laws = (_mean_estimates, _mean_variances)
        yield from _rows(point, mean_series(groups), values, laws, seed)
    logger.info(
        "%s: clipped %d of %d records to the range %g..%g",
        *(figure, clipped, N * len(points), *RANGE),
    )


def _frequencies(
    figure: str, varied: str, points: Sequence[float], seed: int
) -> Iterator[dict[str, object]]:
    for value in points:
        groups = population(**({varied: value} if varied != "density" else {}))
        values = _bits(groups, value if varied == "density" else DENSITY)
        point = {"figure": figure, "varied": varied, "value": value, "clipped": 0}
        laws = (_frequency_estimates, frequency.variances)
        yield from _rows(point, frequency_series(groups), values, laws, seed)


_Rows = Callable[[str, str, Sequence[float], int], Iterator[dict[str, object]]]

# For each figure: the estimated quantity, the varied parameter and its values.
SWEEPS: Final[Mapping[str, Sequence[tuple[_Rows, str, Sequence[float]]]]] = MappingProxyType(
    {
        "figure-6": [(_means, "share", SHARE_POINTS)],
        "figure-7": [(_means, "budget", BUDGET_POINTS)],
        "figure-8": [
            (_frequencies, "share", SHARE_POINTS),
            (_frequencies, "budget", BUDGET_POINTS),
        ],
        "dependence": [
            (_frequencies, "density", _DENSITY_POINTS),
            (_means, "shift", _SHIFT_POINTS),
        ],
    }
)


def private_series(figure: str) -> tuple[str, list[tuple[str, float, Series]]]:
    """Return how users report, and each series along a figure's sweeps.

    Parameters
    ----------
    figure
        ``figure-6``, ``figure-7`` or ``figure-8``.

    Returns
    -------
    ``laplace`` or ``binary`` (`personalised.budgets.reports`); and the varied parameter, its value
    and the series.
    """
    means = SWEEPS[figure][0][0] is _means
    series = mean_series if means else frequency_series
    return "laplace" if means else "binary", [
        (varied, value, one)
        for _, varied, points in SWEEPS[figure]
        for value in points
        for one in series(population(**{varied: value}))
    ]


def estimate_table(figure: str, seed: int) -> pd.DataFrame:
    """Simulate the estimates of every series along the sweeps of a figure.

    Parameters
    ----------
    figure
        A key of `SWEEPS`: paper D's figures 6 (means over the share of conservative users), 7
        (means over their budget) and 8 (frequencies over both), or ``dependence`` (conservative
        users have other records than the rest; the mean of all users stays).
    seed
        Seed of the run.

    Returns
    -------
    Columns `COLUMNS`. ``mean``, quantiles and ``deviation`` summarise `REPETITIONS` simulated
    estimates; ``expected_bias`` and ``expected_deviation`` are exact, given the records. ``mu`` is
    paper D's Corollary 1 or 2 for the users who report: an approximation, no guarantee.
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
    """Return the smallest eps of all users at delta = 1e-6, rounded up, to a relative 1e-5.

    Parameters
    ----------
    groups
        Budgets of all users who report.
    kind
        Kind of report: ``binary`` or ``laplace``.
    tagged
        Whether reports tell their budget. A user is then hidden only among users of the same
        budget, and the least private group decides.
    """
    values, counts = groups.values.tolist(), groups.counts.tolist()
    if not tagged:
        return _epsilon(tuple(values), tuple(counts), kind)
    return max(
        _epsilon((value,), (count,), kind) for value, count in zip(values, counts, strict=True)
    )


@cache  # the same groups occur in several sweeps
def _epsilon(values: tuple[float, ...], counts: tuple[int, ...], kind: str) -> float:
    """Return the largest eps of all groups, skipping the search for a group that needs less."""
    groups, report_kind = BudgetGroups.of_counts(values, counts), budgets.reports(kind)
    largest = 0.0
    for group in range(groups.values.size - 1, -1, -1):
        curve = report_kind.curve(groups, group, _LOG_DELTA)
        if largest == 0.0 or curve.log_delta(largest).promised > _LOG_DELTA:
            largest = budgets.epsilon(_LOG_DELTA, groups, group, report_kind)
    return largest


def privacy_table(figure: str) -> pd.DataFrame:
    """Return the certified eps of every series along the sweeps of a figure.

    Parameters
    ----------
    figure
        See `private_series`.

    Returns
    -------
    Columns `PRIVACY_COLUMNS`; ``varied``, ``value`` and ``estimator`` as in `estimate_table`.
    ``eps_published`` is that of paper D's corollaries for the users who report: an approximation,
    no guarantee.
    """
    kind, series = private_series(figure)
    rows = [
        (
            *(varied, value, one.name, one.tagged, DELTA),
            certified_epsilon(one.reporting, kind, tagged=one.tagged),
            published.mu_gdp_epsilon(_LOG_DELTA, _merged(one.reporting)),
        )
        for varied, value, one in series
    ]
    return pd.DataFrame(rows, columns=list(PRIVACY_COLUMNS))


def _merged(groups: BudgetGroups) -> BudgetGroups:
    """Return the groups in order of budget, with equal budgets merged."""
    return BudgetGroups.of_counts(groups.values, groups.counts)
