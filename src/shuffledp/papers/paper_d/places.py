"""Release histograms of a place from users with personal budgets, and measure the errors.

Users of equal budget form a group. `assign_budgets` fixes how many users of each group are in each
cell; only the noise is drawn anew in each repetition. For comparison, k-RR with one budget for all
users and Gaussian noise by a curator are calibrated to the same certified eps.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.special import erf

from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms import randomised_response
from shuffledp.mechanisms.catalogue import UNBIASED
from shuffledp.mechanisms.estimators import project_simplex, total_variation
from shuffledp.mechanisms.gaussian import CentralGaussian
from shuffledp.mechanisms.protocol import Mechanism
from shuffledp.mechanisms.randomised_response import KRandomisedResponse
from shuffledp.numerics.arrays import Floats, Integers
from shuffledp.papers.paper_d.estimation import BY_PRECISION, BY_SHARE, DROPPED, SMALLEST
from shuffledp.papers.paper_d.group_estimates import (
    cell_moments,
    cell_variances,
    estimate_cells,
    pooled_factors,
    precision_weights,
    share_weights,
    weight_factors,
)
from shuffledp.personalised.budgets import epsilon, reports
from shuffledp.personalised.groups import BudgetGroups
from shuffledp.pipeline.streams import stream
from shuffledp.studies.samples import sample_counts

# --- Who has which budget -------------------------------------------------------------------------

AT_RANDOM: Final = "at-random"
FROM_SOUTH: Final = "from-south"
AS_CHOSEN: Final = "as-chosen"
# If there are more different budgets, they are rounded: reports that reveal their budget would
# otherwise be hidden among too few others.
MAX_BUDGETS: Final = 25
# Numbers of rounding steps per unit of budget, in the order of the search: 1, 2, 5, 10, ...
_STEPS: Final = [first * 10**power for power in range(10) for first in (1, 2, 5)]

Budgets = float | Sequence[Mapping[str, float]]


@dataclass(frozen=True)
class BudgetAssignment:
    """Numbers of users by budget and cell, for one or several placements of the budgets.

    ``groups`` has the budgets of all users. ``placements`` has the number of users of each group
    per cell, shape ``(g, k)``, by name of the placement; the sum over the groups is the same for
    all placements. ``rounding`` describes how budgets were rounded, and is empty if they were not.
    """

    groups: BudgetGroups
    placements: Mapping[str, Integers]
    rounding: str = ""

    @property
    def description(self) -> str:
        """Return the shares and budgets as text: ``0.54 at 2, 0.46 at 4``."""
        shares = self.groups.counts / self.groups.counts.sum()
        pairs = zip(shares.tolist(), self.groups.values.tolist(), strict=True)
        return ", ".join(f"{share:.3g} at {value:g}" for share, value in pairs) + self.rounding


def assign_budgets(
    counts: Integers, budgets: Budgets | pd.DataFrame, *, seed: int, region: str, grid: str
) -> BudgetAssignment:
    """Assign budgets to the users of a place.

    The counts are users per cell, shape ``(k,)``, row-major from the south-west. `budgets` are one
    budget for all users or mappings with ``eps`` and ``share``, placed at random and from the south
    (users of the smallest budget are the southernmost), or a table of `pipeline.tables.BUDGETS`
    with the budgets that users chose, `rounded_down` and placed as chosen and at random. Seed,
    region and grid name the random streams. Raises `InputError` if a share is less than one user,
    or table and counts differ in users per cell.
    """

    def at_random(groups: BudgetGroups) -> Integers:
        """Draw the users of one group after the other without replacement."""
        rest, samples = counts, []
        for budget, count in zip(groups.values.tolist(), groups.counts.tolist(), strict=True):
            samples.append(sample_counts(rest, count, seed, region, f"{grid}, budget {budget:g}"))
            rest = rest - samples[-1]
        return np.stack(samples)

    if not isinstance(budgets, pd.DataFrame):
        groups = _groups_of_shares(budgets, int(counts.sum()))
        reached = np.minimum(np.cumsum(counts), np.cumsum(groups.counts)[:, np.newaxis])
        from_south = np.diff(np.diff(reached, prepend=0, axis=0), prepend=0, axis=1)
        placements = {AT_RANDOM: at_random(groups), FROM_SOUTH: np.asarray(from_south)}
        return BudgetAssignment(groups, placements)
    users = budgets["count"].to_numpy()
    values, rounding = rounded_down(budgets["budget"].to_numpy(), users)
    distinct, group = np.unique(values, return_inverse=True)
    as_chosen = np.zeros((distinct.size, counts.size), np.int64)
    np.add.at(as_chosen, (group, budgets["cell"].to_numpy()), users)
    if not np.array_equal(as_chosen.sum(axis=0), counts):
        raise InputError(
            f"region {region}, grid {grid}: the table of budgets must have the same users per cell "
            "as the counts: delete both tables and run again"
        )
    groups = BudgetGroups.of_counts(distinct, as_chosen.sum(axis=1))
    placements = {AS_CHOSEN: as_chosen, AT_RANDOM: at_random(groups)}
    return BudgetAssignment(groups, placements, rounding)


def _groups_of_shares(budgets: Budgets, n: int) -> BudgetGroups:
    """Return groups of n users in order of budget, by their shares, which sum to 1."""
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


def rounded_down(budgets: Floats, users: Integers) -> tuple[Floats, str]:
    """Round budgets down so that at most `MAX_BUDGETS` different ones remain.

    Lower budgets weaken nobody's privacy: they reveal less of their users and hide others better.
    First the largest budgets are lowered to a common value that one in `MAX_BUDGETS` users has: a
    few users with larger budgets would hardly hide each other. Then all budgets are rounded down to
    multiples of the finest step among 1, 1/2, 1/5, ... that leaves few enough. The budgets are from
    0 to 20, and ``users`` has the number of users with each. The second result is a description of
    the rounding, empty if there was none.
    """
    n_different = np.unique(budgets).size
    if n_different <= MAX_BUDGETS:
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
    return lower, f"; {n_different:,} different budgets, rounded down to multiples of {1 / steps:g}"


def _floor(values: Floats, steps: int) -> Floats:
    """Return the largest multiple of 1/steps that is <= each value, despite rounding errors."""
    whole = np.floor(values * steps)
    whole -= whole / steps > values
    whole += (whole + 1.0) / steps <= values
    return np.asarray(whole / steps)


# --- Estimators -----------------------------------------------------------------------------------

TOGETHER: Final = "together"


@dataclass(frozen=True)
class HistogramSeries:
    """An estimator of the histogram: each group's budget and factor, 0 if it does not report.

    If ``tagged``, reports reveal their budget; else all reports are shuffled together. Tables
    contain the name.
    """

    name: str
    groups: BudgetGroups
    factors: Floats
    tagged: bool = False

    @property
    def reporting(self) -> BudgetGroups:
        """Return the budgets of the users who report."""
        used = self.factors > 0.0
        return BudgetGroups(self.groups.values[used], self.groups.counts[used])


def histogram_series(groups: BudgetGroups, k: int) -> list[HistogramSeries]:
    """Return the estimators of a histogram of k cells; all budgets 0 are an `InputError`."""
    weights = {
        BY_PRECISION: precision_weights(cell_variances(groups, k)),
        BY_SHARE: share_weights(groups),
    }
    all_series = [
        HistogramSeries(name, groups, weight_factors(each, groups, k), tagged=True)
        for name, each in weights.items()
    ]
    all_series.append(HistogramSeries(TOGETHER, groups, pooled_factors(groups, k)))
    if groups.values.size > 1:
        others = pooled_factors(BudgetGroups(groups.values[1:], groups.counts[1:]), k)
        all_series.append(HistogramSeries(DROPPED, groups, np.append(0.0, others)))
    return all_series


def certified_epsilon(groups: BudgetGroups, tagged: bool, k: int, log_delta: float) -> float:
    """Return an eps that holds for every user at a natural log of delta, rounded up.

    The groups are all users who report, in increasing order of budget. If reports are tagged with
    their budget, a user is hidden only among users of the same budget, with the eps of the bound
    ``upper``, and the result is the eps of the least private group.
    """
    if not tagged and groups.values.size > 1:
        return epsilon(log_delta, groups, groups.values.size - 1, reports("krr", k))
    return max(
        BOUNDS["upper"].curve(Setting(count, k, value)).epsilon(log_delta).promised
        if value > 0.0
        else 0.0
        for value, count in zip(groups.values.tolist(), groups.counts.tolist(), strict=True)
    )


# --- Errors ---------------------------------------------------------------------------------------

ANY: Final = "any"  # placement in rows that do not depend on who has which budget
# Mechanisms that are compared: all users at one budget, and a curator's noise.
_COMPARED: Final[Mapping[str, Mechanism[Any]]] = {
    "krr": KRandomisedResponse(),
    "gaussian": CentralGaussian(),
}
QUARTILES: Final = (0.25, 0.75)
_BIAS_DECIMALS: Final = 12  # further digits are rounding errors of sums

COLUMNS: Final = (
    *("placement", "series", "matched_to", "tagged", "budgets", "n", "k", "delta", "eps_upper"),
    *("local_eps0", "estimator", "repetitions"),
    *("tv_distance", "p25", "p75", "expected_tv_distance", "bias"),
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

    The eps of all users is certified at this delta. See `assign_budgets` for the other arguments
    and errors. The columns are `COLUMNS`, with mean and quartiles of the total variation distance
    over the repetitions, for the ``raw`` estimate and its projection to the simplex
    (``projected``). ``expected_tv_distance`` is that of the raw estimate, given who has which
    budget, and ``bias`` is the distance of its mean from the truth. Only `BY_SHARE` has bias 0 for
    all data, if no budget is 0. ``krr`` with one budget for all users, and a curator's ``gaussian``
    noise, are calibrated to the certified eps of each series but `BY_SHARE`, named in
    ``matched_to``, and to that of all users at the smallest budget (`SMALLEST`), unless this is 0.
    """
    n, k, log_delta = int(counts.sum()), counts.size, float(np.log(delta))
    assignment = assign_budgets(counts, budgets, seed=seed, region=region, grid=grid)
    truth, groups = counts / n, assignment.groups
    all_series = histogram_series(groups, k)
    eps = {
        series.name: certified_epsilon(series.reporting, series.tagged, k, log_delta)
        for series in all_series
        if series.name != BY_SHARE
    }
    series_eps = eps | {BY_SHARE: eps[BY_PRECISION]}  # both use the same reports
    rows: list[dict[str, Any]] = []
    for placement, users in assignment.placements.items():
        rng = stream(seed, "budgets", region, grid, placement)
        reported = _reports(users, groups, repetitions, rng)
        for series in all_series:
            labels = {"placement": placement, "series": series.name, "tagged": series.tagged}
            shares = users / groups.counts[:, np.newaxis]
            mean, variances = cell_moments(shares, groups, series.factors)
            expected = _expected_distance(mean, variances, truth)
            bias = float(total_variation(mean, truth).round(_BIAS_DECIMALS))
            estimates = estimate_cells(reported, groups, series.factors)
            measured = _distance_rows(estimates, truth, expected, bias)
            rows += [labels | {"eps_upper": series_eps[series.name]} | row for row in measured]
    if groups.values[0] > 0.0:
        at_smallest = BudgetGroups(groups.values[:1], np.array([n]))
        eps[SMALLEST] = certified_epsilon(at_smallest, False, k, log_delta)
    positive = ((matched_to, value) for matched_to, value in eps.items() if value > 0.0)
    for (matched_to, value), (name, mechanism) in product(positive, _COMPARED.items()):
        parameters = mechanism.calibrate(value, log_delta, Setting(n, k))
        rng = stream(seed, "budgets", region, grid, name, matched_to)
        observed = mechanism.observe(counts, parameters, rng, repetitions)
        raw = mechanism.estimators[UNBIASED](observed, n, parameters)
        expected = float(mechanism.expected_distance(truth, n, parameters))
        local_eps0 = mechanism.per_user(n, k, parameters).local_eps0
        labels = {"placement": ANY, "series": name, "matched_to": matched_to, "tagged": False}
        privacy = {"eps_upper": value, "local_eps0": local_eps0}
        rows += [labels | privacy | row for row in _distance_rows(raw, truth, expected, 0.0)]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.assign(
        budgets=assignment.description, n=n, k=k, delta=delta, repetitions=repetitions
    )


def _reports(
    placement: Integers, groups: BudgetGroups, repetitions: int, rng: np.random.Generator
) -> Integers:
    """Draw histograms of every group's reports, shape ``(repetitions, g, k)``."""
    k = placement.shape[-1]
    drawn = [
        randomised_response.randomise(users, value, rng, repetitions)
        if value > 0.0
        else rng.multinomial(users.sum(), np.full(k, 1.0 / k), repetitions)
        for users, value in zip(placement, groups.values.tolist(), strict=True)
    ]
    return np.stack(drawn, axis=1)


def _distance_rows(
    raw: Floats, truth: Floats, expected: float, bias: float
) -> Iterator[dict[str, Any]]:
    """Yield a row with the distances from the truth for the raw and for the projected estimates."""
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


def _expected_distance(mean: Floats, variances: Floats, truth: Floats) -> float:
    """Return the expected total variation distance of normal estimates, which may be biased."""
    bias, deviation = mean - truth, np.sqrt(variances)
    noise = np.sqrt(2.0 / np.pi) * deviation * np.exp(-0.5 * (bias / deviation) ** 2)
    return float(0.5 * (noise + bias * erf(bias / deviation / np.sqrt(2.0))).sum())
