"""Histograms of a real place from users with personal budgets, compared with one budget for all.

`holders` decides once which user has which budget; the noise is drawn in each repetition.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.special import erf

from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms import krr
from shuffledp.mechanisms.catalogue import UNBIASED
from shuffledp.mechanisms.estimators import project_simplex, total_variation
from shuffledp.mechanisms.gaussian import CentralGaussian
from shuffledp.mechanisms.krr import KRandomisedResponse
from shuffledp.mechanisms.protocol import Mechanism
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.papers.paper_d.algorithms import histogram
from shuffledp.papers.paper_d.algorithms.combination import combine, share_weights, variance
from shuffledp.papers.paper_d.estimates import BY_PRECISION, BY_SHARE, DROPPED, SMALLEST
from shuffledp.personalised.budgets import epsilon, reports
from shuffledp.personalised.groups import BudgetGroups
from shuffledp.pipeline.streams import stream
from shuffledp.studies.samples import sample_counts

AT_RANDOM: Final = "at-random"
FROM_SOUTH: Final = "from-south"
AS_CHOSEN: Final = "as-chosen"
# If there are more different budgets, they are rounded down: reports that tell their budget would
# otherwise be hidden among too few others.
MAX_BUDGETS: Final = 25

# Numbers of steps in a budget of 1. The finest step is as small as the smallest budget.
_STEPS: Final = [first * 10**power for power in range(10) for first in (1, 2, 5)]

Budgets = float | Sequence[Mapping[str, float]]


@dataclass(frozen=True)
class Holders:
    """Users by budget and cell.

    Attributes
    ----------
    groups
        Budgets of all users.
    placements
        Number of users of each group per cell, shape ``(g, k)``, by the placement's name. The sum
        over the groups is the same for all placements.
    rounding
        Description of how budgets were rounded; empty if they were not.
    """

    groups: BudgetGroups
    placements: Mapping[str, Integers]
    rounding: str = ""

    @property
    def description(self) -> str:
        """Return the shares and budgets as text: ``0.54 at 2, 0.46 at 4``."""
        groups = self.groups
        shares = groups.counts / groups.counts.sum()
        pairs = zip(shares.tolist(), groups.values.tolist(), strict=True)
        return ", ".join(f"{share:.3g} at {value:g}" for share, value in pairs) + self.rounding


def holders(
    counts: Integers, budgets: Budgets | pd.DataFrame, *, seed: int, region: str, grid: str
) -> Holders:
    """Assign budgets to the users of a place.

    Parameters
    ----------
    counts
        Users per cell, shape ``(k,)``, row-major from the south-west.
    budgets
        One budget for all users, or groups as for `budget_groups`: placed at random and from the
        south. Or the budgets that users chose, a table of `pipeline.tables.BUDGETS`: placed as
        chosen and at random. More than `MAX_BUDGETS` different budgets are rounded down by
        `rounded_down`.
    seed, region, grid
        Seed and names of the random streams.

    Raises
    ------
    InputError
        See `budget_groups` and `placed`; or if the table has other users than the counts.
    """
    place_users = partial(placed, counts, seed=seed, region=region, grid=grid)
    if not isinstance(budgets, pd.DataFrame):
        groups = budget_groups(budgets, int(counts.sum()))
        both = (AT_RANDOM, FROM_SOUTH)
        return Holders(groups, {name: place_users(groups, name) for name in both})
    users = budgets["count"].to_numpy()
    values, rounding = rounded_down(budgets["budget"].to_numpy(), users)
    distinct, place = np.unique(values, return_inverse=True)
    held = np.zeros((distinct.size, counts.size), np.int64)
    np.add.at(held, (place, budgets["cell"].to_numpy()), users)
    if not np.array_equal(held.sum(axis=0), counts):
        raise InputError(
            f"region {region}, grid {grid}: the table of budgets is not of the users in the "
            "counts: delete both tables and run again"
        )
    groups = BudgetGroups.of_counts(distinct, held.sum(axis=1))
    at_random = place_users(groups, AT_RANDOM)
    return Holders(groups, {AS_CHOSEN: held, AT_RANDOM: at_random}, rounding)


def rounded_down(budgets: Floats, users: Integers) -> tuple[Floats, str]:
    """Round budgets down to the finest step among 1, 1/2, 1/5, 1/10... that leaves few values.

    A report with a smaller budget tells less than its user agreed to, and hides others better, so
    nobody's privacy suffers. First the largest budgets are lowered until one in `MAX_BUDGETS` users
    has the largest one, because a few users with larger budgets would hide nobody. No other budget
    is lowered by more than a step. Up to `MAX_BUDGETS` different budgets stay unchanged.

    Parameters
    ----------
    budgets
        From 0 to 20, shape ``(m,)``.
    users
        Number of users with each budget, shape ``(m,)``.

    Returns
    -------
    Budgets, shape ``(m,)``, and a description of the rounding, empty if there was none.
    """
    different = np.unique(budgets).size
    if different <= MAX_BUDGETS:
        return budgets, ""
    descending = np.argsort(-budgets, kind="stable")
    largest = np.searchsorted(np.cumsum(users[descending]), users.sum() / MAX_BUDGETS)
    capped = np.minimum(budgets, budgets[descending[largest]])
    steps, lower = 1, _floor(capped, 1)
    for finer in _STEPS:
        finest = _floor(capped, finer)
        if np.unique(finest).size > MAX_BUDGETS:
            break
        steps, lower = finer, finest
    return lower, f"; {different:,} different budgets, rounded down to multiples of {1 / steps:g}"


def _floor(values: Floats, steps: int) -> Floats:
    """Return the largest multiple of 1/steps that is <= a value, correct despite rounding."""
    whole = np.floor(values * steps)
    whole -= whole / steps > values
    whole += (whole + 1.0) / steps <= values
    return np.asarray(whole / steps)


def budget_groups(budgets: Budgets, n: int) -> BudgetGroups:
    """Return groups of n users by their shares, in order of budget.

    Parameters
    ----------
    budgets
        One budget for all users, or mappings with ``eps`` and ``share``; the shares sum to 1.
    n
        Number of users.

    Raises
    ------
    InputError
        If a share amounts to less than one user.
    """
    if isinstance(budgets, float | int):
        budgets = [{"eps": budgets, "share": 1.0}]
    ordered = sorted(budgets, key=lambda group: group["eps"])
    cumulative = np.cumsum([group["share"] for group in ordered])
    counts = np.diff(np.rint(cumulative / cumulative[-1] * n).astype(np.int64), prepend=0)
    for group, count in zip(ordered, counts, strict=True):
        if count < 1:
            raise InputError(
                f"budgets: a share of {group['share']:g} (eps: {group['eps']:g}) is less than one "
                f"of {n} users: increase it or remove the group"
            )
    return BudgetGroups.of_counts([group["eps"] for group in ordered], counts)


def placed(
    counts: Integers, groups: BudgetGroups, placement: str, *, seed: int, region: str, grid: str
) -> Integers:
    """Return the users of each group per cell, shape ``(g, k)``; the groups sum to ``counts``.

    Parameters
    ----------
    counts
        Users per cell, shape ``(k,)``, row-major from the south-west.
    groups
        Budgets of all users.
    placement
        `AT_RANDOM`: each group is a sample without replacement. `FROM_SOUTH`: the users of the
        smallest budget are the southernmost, and so on.
    seed, region, grid
        Seed and names of the random streams.

    Raises
    ------
    InputError
        See `studies.samples.sample_counts`.
    """
    if placement == FROM_SOUTH:
        cumulative = np.minimum(np.cumsum(counts), np.cumsum(groups.counts)[:, np.newaxis])
        return np.asarray(np.diff(np.diff(cumulative, prepend=0, axis=0), prepend=0, axis=1))
    rest, samples = counts, []
    for budget, count in zip(groups.values.tolist(), groups.counts.tolist(), strict=True):
        place = f"{grid}, budget {budget:g}"
        samples.append(sample_counts(rest, count, seed, region, place))
        rest = rest - samples[-1]
    return np.stack(samples)


# --- Releases -------------------------------------------------------------------------------------

TOGETHER: Final = "together"
# Placement of rows that do not depend on who has which budget.
ANY: Final = "any"
# Mechanisms that are compared: all users at one budget, and a curator's noise.
ONE_BUDGET: Final = "krr"
CURATOR: Final = "gaussian"
_COMPARED: Final[Mapping[str, Mechanism[Any]]] = MappingProxyType(
    {ONE_BUDGET: KRandomisedResponse(), CURATOR: CentralGaussian()}
)
QUARTILES: Final = (0.25, 0.75)
_BIAS_DECIMALS: Final = 12  # further digits are rounding errors of sums

COLUMNS: Final = (
    *("placement", "series", "matched_to", "tagged", "budgets", "n", "k", "delta", "eps_upper"),
    *("local_eps0", "estimator", "repetitions"),
    *("tv_distance", "p25", "p75", "expected_tv_distance", "bias"),
)


@dataclass(frozen=True)
class Series:
    """An estimator of the histogram from users with personal budgets.

    Attributes
    ----------
    name
        Name in tables.
    first
        First group that reports; 0 if all groups report.
    reporting
        Budgets of the users who report.
    weights
        Weights of the groups that report, if reports tell their budget; None if all reports are
        shuffled together.
    """

    name: str
    first: int
    reporting: BudgetGroups
    weights: Floats | None = None

    @property
    def tagged(self) -> bool:
        """Return whether reports tell their budget."""
        return self.weights is not None

    def estimate(self, reported: Integers) -> Floats:
        """Return shares of the cells, ``(..., k)``, from every group's reports, ``(..., g, k)``."""
        reported = reported[..., self.first :, :]
        if self.weights is None:
            return histogram.pooled(reported.sum(axis=-2), self.reporting)
        return histogram.by_group(reported, self.reporting, self.weights)

    def law(self, held: Integers) -> tuple[Floats, Floats]:
        """Return mean and variance of each cell's estimate, given the groups' users ``(g, k)``."""
        shares = held[self.first :] / self.reporting.counts[:, np.newaxis]
        if self.weights is None:
            weights = histogram.pooled_weights(self.reporting, held.shape[-1])
            spread = histogram.pooled_variance(shares, self.reporting)
        else:
            weights = self.weights
            spread = variance(weights, histogram.variances(shares, self.reporting))
        return combine(shares.T, weights), spread


def histogram_series(groups: BudgetGroups, k: int) -> list[Series]:
    """Return the estimators of a histogram of k cells for users with personal budgets.

    Raises
    ------
    InputError
        If all budgets are 0.
    """
    every = [
        Series(BY_PRECISION, 0, groups, histogram.least_variance_weights(groups, k)),
        Series(BY_SHARE, 0, groups, share_weights(groups)),
        Series(TOGETHER, 0, groups),
    ]
    if groups.values.size > 1:
        every.append(Series(DROPPED, 1, BudgetGroups(groups.values[1:], groups.counts[1:])))
    return every


def certified_epsilon(groups: BudgetGroups, tagged: bool, k: int, log_delta: float) -> float:
    """Return the eps of all users at a natural log of delta, rounded up.

    Parameters
    ----------
    groups
        Budgets of all users who report, in increasing order.
    tagged
        Whether reports tell their budget. A user is then hidden only among users of the same
        budget, and the least private group decides. Otherwise a user is hidden among all.
    k, log_delta
        Number of cells; natural log of delta.

    Returns
    -------
    Eps by the bound ``upper`` for equal budgets, and for unequal ones by
    `personalised.krr.personalised_log_delta`, which is slightly looser.
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
    """Release a histogram with every estimator, and measure the errors.

    Parameters
    ----------
    counts
        Users per cell, shape ``(k,)``.
    budgets
        See `holders`: one budget for all, groups, or the budgets that users chose.
    delta
        Delta at which eps is certified, for all users together.
    repetitions
        Number of independent releases.
    seed, region, grid
        Seed and names of the random streams.

    Returns
    -------
    Columns `COLUMNS`. Means and quartiles of the total variation distance over the repetitions, for
    the ``raw`` estimate and for its projection to the simplex (``projected``).
    ``expected_tv_distance`` is that of the raw estimate, given who has which budget, and ``bias``
    is the distance of its mean from the truth. The bias is 0 for all data only for `BY_SHARE`, and
    only if no budget is 0. `ONE_BUDGET` and `CURATOR` are calibrated to the certified eps of the
    series ``matched_to``, or of all users at the smallest budget (`SMALLEST`, if that is not 0).
    ``local_eps0`` is infinite for the curator, who sees the true records.

    Raises
    ------
    InputError
        See `holders` and `histogram_series`.
    """
    n, k, log_delta = int(counts.sum()), counts.size, float(np.log(delta))
    users = holders(counts, budgets, seed=seed, region=region, grid=grid)
    truth, groups = counts / n, users.groups
    all_series = histogram_series(groups, k)
    eps = {
        one.name: certified_epsilon(one.reporting, one.tagged, k, log_delta)
        for one in all_series
        if one.name != BY_SHARE
    }
    eps_of = eps | {BY_SHARE: eps[BY_PRECISION]}  # both use the same reports
    rows: list[dict[str, Any]] = []
    for placement, held in users.placements.items():
        rng = stream(seed, "budgets", region, grid, placement)
        reported = _reports(held, groups, repetitions, rng)
        for one in all_series:
            labels = {"placement": placement, "series": one.name, "tagged": one.tagged}
            mean, spread = one.law(held)
            expected = _expected_distance(mean, spread, truth)
            bias = float(total_variation(mean, truth).round(_BIAS_DECIMALS))
            measured = _measured(one.estimate(reported), truth, expected, bias)
            rows += [labels | {"eps_upper": eps_of[one.name]} | row for row in measured]
    if groups.values[0] > 0.0:
        at_smallest = BudgetGroups(groups.values[:1], np.array([n]))
        eps[SMALLEST] = certified_epsilon(at_smallest, False, k, log_delta)
    compared = [
        (name, matched_to, value, _COMPARED[name].calibrate(value, log_delta, Setting(n, k)))
        for matched_to, value in eps.items()
        for name in (ONE_BUDGET, CURATOR)
        if value > 0.0
    ]
    for name, matched_to, value, parameters in compared:
        mechanism = _COMPARED[name]
        rng = stream(seed, "budgets", region, grid, name, matched_to)
        seen = mechanism.observe(counts, parameters, rng, repetitions)
        raw = mechanism.estimators[UNBIASED](seen, n, parameters)
        expected = float(mechanism.expected_distance(truth, n, parameters))
        privacy = {
            "eps_upper": value,
            "local_eps0": mechanism.per_user(n, k, parameters).local_eps0,
        }
        labels = {"placement": ANY, "series": name, "matched_to": matched_to, "tagged": False}
        rows += [labels | privacy | row for row in _measured(raw, truth, expected, 0.0)]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.assign(budgets=users.description, n=n, k=k, delta=delta, repetitions=repetitions)


def _reports(
    held: Integers, groups: BudgetGroups, repetitions: int, rng: np.random.Generator
) -> Integers:
    """Draw histograms of every group's reports, shape ``(repetitions, g, k)``."""
    k = held.shape[-1]
    reports = [
        krr.randomise(users, value, rng, repetitions)
        if value > 0.0
        else rng.multinomial(users.sum(), np.full(k, 1.0 / k), repetitions)
        for users, value in zip(held, groups.values.tolist(), strict=True)
    ]
    return np.stack(reports, axis=1)


def _measured(raw: Floats, truth: Floats, expected: float, bias: float) -> Iterator[dict[str, Any]]:
    """Yield a row for the raw and for the projected estimates."""
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
    """Return half the sum of the mean absolute errors of normal estimates that may be biased."""
    bias, deviation = mean - truth, np.sqrt(spread)
    noise = np.sqrt(2.0 / np.pi) * deviation * np.exp(-0.5 * (bias / deviation) ** 2)
    return float(0.5 * (noise + bias * erf(bias / deviation / np.sqrt(2.0))).sum())
