"""Paper D's figures 6 to 8, and what becomes of its estimators if budgets and records depend.

Records are drawn once for each point, the noise anew in each repetition. It comes from the closed
law of a group's sum: two Gamma variables for Laplace noise, two binomial ones for binary reports.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
import pandas as pd
from scipy.special import expit

from shuffledp.numerics.arrays import Floats
from shuffledp.papers.paper_d.algorithms import frequency, mean
from shuffledp.papers.paper_d.algorithms.combination import (
    bias,
    combine,
    precision_weights,
    share_weights,
    variance,
)
from shuffledp.personalised.groups import BudgetGroups
from shuffledp.papers.paper_d.published import mu_gdp
from shuffledp.pipeline.streams import stream

logger = logging.getLogger(__name__)

N: Final = 10_000
REPETITIONS: Final = 1_000
# Paper D's defaults: conservative, moderate and liberal users.
SHARES: Final = (0.54, 0.37, 0.09)
BUDGETS: Final = (0.1, 0.5, 1.0)
RANGE: Final = (20.0, 80.0)
CENTRE: Final = 50.0
# Paper D does not say: the range is three of these on either side.
DEVIATION: Final = 10.0
DENSITY: Final = 0.3
BAND: Final = (0.05, 0.95)

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
    """One estimator at one point: who reports with which budget, and each group's weight.

    Attributes
    ----------
    name
        In tables.
    groups
        Budgets as they are used; of all users, also of those whose weight is 0.
    weights
        Of each group.
    tagged
        Whether a report must tell its budget: users are then mixed with their own group alone.
    """

    name: str
    groups: BudgetGroups
    weights: Floats
    tagged: bool = False

    @property
    def reporting(self) -> BudgetGroups:
        """Those whose reports are used."""
        used = self.weights > 0.0
        return BudgetGroups(self.groups.values[used], self.groups.counts[used])


def population(share: float = SHARES[0], budget: float = BUDGETS[0]) -> BudgetGroups:
    """Paper D's users; the share of conservative ones, or their budget, may be another.

    The liberal users' share is fixed, the moderate users are the rest.
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
    """Ways to estimate a mean; the first is paper D's Algorithm 2."""
    precise = precision_weights(_mean_variances(groups))
    return [
        Series(AS_PUBLISHED, groups, share_weights(groups)),
        Series(BY_PRECISION, groups, precise, tagged=True),
        Series(SMALLEST, _at_smallest(groups), share_weights(groups)),
        Series(DROPPED, groups, _without_first(share_weights, groups)),
    ]


def frequency_series(groups: BudgetGroups) -> list[Series]:
    """Ways to estimate a frequency; the first is paper D's Algorithm 3."""
    precise = precision_weights(frequency.variances(groups))
    return [
        Series(AS_PUBLISHED, groups, frequency.pooled_weights(groups)),
        Series(BY_SHARE, groups, share_weights(groups), tagged=True),
        Series(BY_PRECISION, groups, precise, tagged=True),
        Series(SMALLEST, _at_smallest(groups), share_weights(groups)),
        Series(DROPPED, groups, _without_first(frequency.pooled_weights, groups)),
    ]


def _mean_variances(groups: BudgetGroups) -> Floats:
    return mean.variances(groups, RANGE[1] - RANGE[0])


def _mean_estimates(one: Series, values: Floats, rng: np.random.Generator) -> Floats:
    """Estimates of each repetition; the sum of n Laplace variables is a difference of Gammas."""
    shape, n = (REPETITIONS, one.groups.counts.size), one.groups.counts
    noise = rng.standard_gamma(n, shape) - rng.standard_gamma(n, shape)
    reported = values + (RANGE[1] - RANGE[0]) / one.groups.values * noise / n
    return combine(reported, one.weights)


def _frequency_estimates(one: Series, values: Floats, rng: np.random.Generator) -> Floats:
    shape, n = (REPETITIONS, one.groups.counts.size), one.groups.counts
    ones = np.rint(values * n).astype(np.int64)
    reported = rng.binomial(ones, expit(one.groups.values), shape)
    reported += rng.binomial(n - ones, expit(-one.groups.values), shape)
    return frequency.by_group(reported / n, one.groups, one.weights)


Estimates = Callable[[Series, Floats, np.random.Generator], Floats]
Variances = Callable[[BudgetGroups], Floats]


def _rows(
    place: Mapping[str, object],
    every: Sequence[Series],
    values: Floats,
    laws: tuple[Estimates, Variances],
    seed: int,
) -> Iterator[dict[str, object]]:
    """A row for each series, at one point; ``values`` are the means of the groups' records."""
    estimates, variances = laws
    for one in every:
        rng = stream(seed, "paper D", *place.values(), one.name)
        found = estimates(one, values, rng)
        low, high = np.quantile(found, BAND)
        yield {
            **place,
            "estimator": one.name,
            "tagged": one.tagged,
            "repetitions": REPETITIONS,
            "n": int(one.groups.counts.sum()),
            "truth": float(one.groups.counts @ values / one.groups.counts.sum()),
            "mean": found.mean(),
            "p05": low,
            "p95": high,
            "deviation": found.std(ddof=1),
            "expected_bias": bias(one.weights, values, one.groups),
            "expected_deviation": variance(one.weights, variances(one.groups)) ** 0.5,
            "mu": mu_gdp(one.reporting),
        }


def _numbers(
    groups: BudgetGroups, shift: float, rng: np.random.Generator, centre: float = CENTRE
) -> tuple[Floats, int]:
    """Means of the groups' records, and how many records were clipped.

    Those of conservative users have another mean by ``shift``; the others' makes up for it.
    """
    others = int(groups.counts[1:].sum())
    shifts = np.array([shift, *[-shift * groups.counts[0] / others] * 2])
    drawn = rng.normal(np.repeat(centre + shifts, groups.counts), DEVIATION)
    records, outside = mean.clip(drawn, *RANGE)
    ends = np.cumsum(groups.counts)
    sums = np.diff(np.concatenate([[0.0], np.cumsum(records)[ends - 1]]))
    return sums / groups.counts, outside


def _bits(groups: BudgetGroups, density: float) -> Floats:
    """Share of ones in each group: ``density`` of the conservative users, `DENSITY` of all."""
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
        place = {"figure": figure, "varied": varied, "value": value, "clipped": outside}
        laws = (_mean_estimates, _mean_variances)
        yield from _rows(place, mean_series(groups), values, laws, seed)
    logger.info(
        "%s: %d of %d records were outside %g..%g and were clipped",
        *(figure, clipped, N * len(points), *RANGE),
    )


def _frequencies(
    figure: str, varied: str, points: Sequence[float], seed: int
) -> Iterator[dict[str, object]]:
    for value in points:
        groups = population(**({varied: value} if varied != "density" else {}))
        values = _bits(groups, value if varied == "density" else DENSITY)
        place = {"figure": figure, "varied": varied, "value": value, "clipped": 0}
        laws = (_frequency_estimates, frequency.variances)
        yield from _rows(place, frequency_series(groups), values, laws, seed)


_Rows = Callable[[str, str, Sequence[float], int], Iterator[dict[str, object]]]

# Of each figure: what is estimated, what is varied, and at which values.
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
    """How users report (`accounting.personal.KINDS`), and each series along a figure's sweeps.

    Parameters
    ----------
    figure
        ``figure-6``, ``figure-7`` or ``figure-8``.
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
    """Estimates of every series along the sweeps of a figure, with what is expected of them.

    Parameters
    ----------
    figure
        A key of `SWEEPS`: paper D's figures 6 (means over the share of conservative users), 7
        (over their budget), 8 (frequencies over both), or ``dependence`` (conservative users have
        other records than the rest; the mean of all stays).
    seed
        Of the run.

    Returns
    -------
    Columns `COLUMNS`. ``mean``, quantiles and ``deviation`` are of `REPETITIONS` simulated
    estimates; ``expected_bias`` and ``expected_deviation`` are exact, given the records. ``mu`` is
    paper D's Corollary 1 or 2 for those who report: approximate, no guarantee.
    """
    rows = [
        row
        for compute, varied, points in SWEEPS[figure]
        for row in compute(figure, varied, points, seed)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))
