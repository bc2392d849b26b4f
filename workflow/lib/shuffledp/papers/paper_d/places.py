"""Histograms of a real place from users with budgets of their own, beside what else they could do.

Who has which budget (`holders`) is settled once; the noise is drawn anew in each repetition.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.special import erf

from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms import krr
from shuffledp.mechanisms.catalogue import UNBIASED
from shuffledp.mechanisms.estimators import project_simplex, total_variation
from shuffledp.mechanisms.gaussian import CentralGaussian
from shuffledp.mechanisms.krr import KRandomisedResponse
from shuffledp.mechanisms.protocol import Mechanism
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.papers.paper_d.algorithms import histogram
from shuffledp.papers.paper_d.algorithms.combination import combine, share_weights, variance
from shuffledp.personalised.budgets import epsilon, reports
from shuffledp.personalised.groups import BudgetGroups
from shuffledp.papers.paper_d.estimates import BY_PRECISION, BY_SHARE, DROPPED, SMALLEST
from shuffledp.papers.paper_d.holders import Budgets, holders
from shuffledp.pipeline.streams import stream

TOGETHER: Final = "together"
# Of what does not depend on who has which budget.
ANY: Final = "any"
# Everyone at one budget, and a curator's noise: names of mechanisms.
ONE_BUDGET: Final = "krr"
CURATOR: Final = "gaussian"
_AT_ONE: Final[Mapping[str, Mechanism[Any]]] = MappingProxyType(
    {ONE_BUDGET: KRandomisedResponse(), CURATOR: CentralGaussian()}
)
QUARTILES: Final = (0.25, 0.75)
# Of a bias; beyond them is what sums lose by rounding.
_DIGITS: Final = 12

COLUMNS: Final = (
    *("placement", "series", "matched_to", "tagged", "budgets", "n", "k", "delta", "eps_upper"),
    *("local_eps0", "estimator", "repetitions"),
    *("tv_distance", "p25", "p75", "expected_tv_distance", "bias"),
)


@dataclass(frozen=True)
class Way:
    """A way to estimate the histogram from users with budgets of their own.

    Attributes
    ----------
    name
        In tables.
    first
        The first group that reports; 0 if all do.
    reporting
        Budgets of those who report.
    weights
        Of the groups that report and tell their budget; None if the reports are shuffled together.
    """

    name: str
    first: int
    reporting: BudgetGroups
    weights: Floats | None = None

    @property
    def tagged(self) -> bool:
        """Whether reports tell their budget."""
        return self.weights is not None

    def estimate(self, reported: Integers) -> Floats:
        """Shares of the cells, shape ``(..., k)``, from every group's reports ``(..., g, k)``."""
        reported = reported[..., self.first :, :]
        if self.weights is None:
            return histogram.pooled(reported.sum(axis=-2), self.reporting)
        return histogram.by_group(reported, self.reporting, self.weights)

    def law(self, held: Integers) -> tuple[Floats, Floats]:
        """Mean and variance of the estimate of each cell, given every group's users ``(g, k)``."""
        shares = held[self.first :] / self.reporting.counts[:, np.newaxis]
        if self.weights is None:
            weights = histogram.pooled_weights(self.reporting, held.shape[-1])
            spread = histogram.pooled_variance(shares, self.reporting)
        else:
            weights = self.weights
            spread = variance(weights, histogram.variances(shares, self.reporting))
        return combine(shares.T, weights), spread


def ways(groups: BudgetGroups, k: int) -> list[Way]:
    """Ways to estimate a histogram of k cells with the users' own budgets.

    Raises
    ------
    InputError
        If all budgets are 0.
    """
    found = [
        Way(BY_PRECISION, 0, groups, histogram.least_variance_weights(groups, k)),
        Way(BY_SHARE, 0, groups, share_weights(groups)),
        Way(TOGETHER, 0, groups),
    ]
    if groups.values.size > 1:
        found.append(Way(DROPPED, 1, BudgetGroups(groups.values[1:], groups.counts[1:])))
    return found


def certified_epsilon(groups: BudgetGroups, tagged: bool, k: int, log_delta: float) -> float:
    """Eps that all users have at a natural log of delta, rounded up.

    Parameters
    ----------
    groups
        Budgets of all who report, in order.
    tagged
        Whether a report tells its budget. A user is then hidden among those of the same budget
        alone, and the least private group decides. Else a user is hidden among all.
    k, log_delta
        Number of cells; natural log of delta.

    Returns
    -------
    Of equal budgets by the bound ``upper``, of unequal ones by
    `personalised.krr.personalised_log_delta`, which is a little looser.
    """
    if not tagged and groups.values.size > 1:
        return epsilon(log_delta, groups, groups.values.size - 1, reports("krr", k))
    return max(
        BOUNDS["upper"].curve(Setting(count, k, value)).epsilon(log_delta).promised
        if value > 0.0
        else 0.0
        for value, count in zip(groups.values.tolist(), groups.counts.tolist(), strict=True)
    )


def places_table(
    counts: Integers,
    budgets: Budgets | pd.DataFrame,
    delta: float,
    repetitions: int,
    *,
    seed: int,
    region: str,
    grid: str,
) -> pd.DataFrame:
    """Release a histogram in every way, and measure how far the estimates are off.

    Parameters
    ----------
    counts
        Users per cell, shape ``(k,)``.
    budgets
        As `holders`: one for all, groups, or what the users chose.
    delta
        At which eps is certified, for all users together.
    repetitions
        Independent releases.
    seed, region, grid
        Name the random streams.

    Returns
    -------
    Columns `COLUMNS`. Means and quartiles of the total variation distance over the repetitions, of
    the estimate as it is (``raw``) and on the simplex (``projected``); ``expected_tv_distance`` is
    of the raw one, given who has which budget, and ``bias`` is how far its mean is off. That is 0
    whatever the budgets say of the cells only for `BY_SHARE`, and if no budget is 0. `ONE_BUDGET`
    and `CURATOR` are calibrated to the certified eps of the series ``matched_to``, or of all users
    at the smallest budget (`SMALLEST`, if that is not 0). An infinite ``local_eps0``: the
    curator sees all.

    Raises
    ------
    InputError
        As `holders` and `ways`.
    """
    n, k, log_delta = int(counts.sum()), counts.size, float(np.log(delta))
    users = holders(counts, budgets, seed=seed, region=region, grid=grid)
    truth, groups = counts / n, users.groups
    every = ways(groups, k)
    eps = {
        way.name: certified_epsilon(way.reporting, way.tagged, k, log_delta)
        for way in every
        if way.name != BY_SHARE
    }
    own = eps | {BY_SHARE: eps[BY_PRECISION]}  # the reports are the same
    rows: list[dict[str, Any]] = []
    for placement, held in users.placements.items():
        rng = stream(seed, "budgets", region, grid, placement)
        reported = _reports(held, groups, repetitions, rng)
        for way in every:
            place = {"placement": placement, "series": way.name, "tagged": way.tagged}
            mean, spread = way.law(held)
            expected = _expected_distance(mean, spread, truth)
            bias = float(total_variation(mean, truth).round(_DIGITS))
            found = _measured(way.estimate(reported), truth, expected, bias)
            rows += [place | {"eps_upper": own[way.name]} | row for row in found]
    if groups.values[0] > 0.0:
        everyone = BudgetGroups(groups.values[:1], np.array([n]))
        eps[SMALLEST] = certified_epsilon(everyone, False, k, log_delta)
    at_one = [
        (name, matched_to, value, _AT_ONE[name].calibrate(value, log_delta, Setting(n, k)))
        for matched_to, value in eps.items()
        for name in (ONE_BUDGET, CURATOR)
        if value > 0.0
    ]
    for name, matched_to, value, parameters in at_one:
        mechanism = _AT_ONE[name]
        rng = stream(seed, "budgets", region, grid, name, matched_to)
        seen = mechanism.observe(counts, parameters, rng, repetitions)
        raw = mechanism.estimators[UNBIASED](seen, n, parameters)
        expected = float(mechanism.expected_distance(truth, n, parameters))
        local = {"eps_upper": value, "local_eps0": mechanism.per_user(n, k, parameters).local_eps0}
        place = {"placement": ANY, "series": name, "matched_to": matched_to, "tagged": False}
        rows += [place | local | row for row in _measured(raw, truth, expected, 0.0)]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.assign(budgets=users.words, n=n, k=k, delta=delta, repetitions=repetitions)


def _reports(
    held: Integers, groups: BudgetGroups, repetitions: int, rng: np.random.Generator
) -> Integers:
    """Histograms of every group's reports, shape ``(repetitions, g, k)``."""
    k = held.shape[-1]
    found = [
        krr.randomise(users, value, rng, repetitions)
        if value > 0.0
        else rng.multinomial(users.sum(), np.full(k, 1.0 / k), repetitions)
        for users, value in zip(held, groups.values.tolist(), strict=True)
    ]
    return np.stack(found, axis=1)


def _measured(raw: Floats, truth: Floats, expected: float, bias: float) -> Iterator[dict[str, Any]]:
    """A row for each estimator."""
    for name, estimates in (("raw", raw), ("projected", project_simplex(raw))):
        distances = total_variation(estimates, truth)
        low, high = np.quantile(distances, QUARTILES)
        yield {
            "estimator": name,
            "tv_distance": distances.mean(),
            "p25": low,
            "p75": high,
            "expected_tv_distance": expected if name == "raw" else np.nan,
            "bias": bias if name == "raw" else np.nan,
        }


def _expected_distance(mean: Floats, spread: Floats, truth: Floats) -> float:
    """Half the sum of the mean absolute errors of nearly normal estimates, biased or not."""
    bias, deviation = mean - truth, np.sqrt(spread)
    noise = np.sqrt(2.0 / np.pi) * deviation * np.exp(-0.5 * (bias / deviation) ** 2)
    return float(0.5 * (noise + bias * erf(bias / deviation / np.sqrt(2.0))).sum())
