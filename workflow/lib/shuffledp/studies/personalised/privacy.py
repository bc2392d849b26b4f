"""What the ways to estimate a frequency keep private: binary reports, at delta = 1e-6."""

from functools import cache
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.accounting.one_round.personalised import (
    BudgetGroups,
    mu_gdp,
    personalised_log_delta,
)
from shuffledp.accounting.registry import BOUNDS
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.personalised.descent import gdp_epsilon
from shuffledp.studies.personalised.estimates import (
    BUDGET_POINTS,
    SHARE_POINTS,
    frequency_series,
    population,
)

DELTA: Final = 1e-6
_LOG_DELTA: Final = float(np.log(DELTA))
COLUMNS: Final = (
    *("varied", "value", "estimator", "tagged", "delta", "eps_upper", "eps_published"),
)
_CELLS: Final = 2  # binary RR is 2-RR
# Relative: how near a search comes, and by how much it then rounds up.
_NEAR, _STEP = 1e-3, 1e-4
_MOST_SECANTS: Final = 20


def certified_epsilon(groups: BudgetGroups, tagged: bool) -> float:
    """Smallest eps, to some 1e-4 of itself and rounded up, that all users have at delta = 1e-6.

    Parameters
    ----------
    groups
        Budgets of all who report.
    tagged
        Whether a report tells its budget. A user is then hidden among those of the same budget
        alone, and the least private group decides.
    """
    values, counts = tuple(groups.values.tolist()), tuple(groups.counts.tolist())
    if not tagged:
        return _epsilon(values, counts)
    largest = 0.0
    for value, count in sorted(zip(values, counts, strict=True), reverse=True):
        if largest == 0.0 or _log_delta(largest, (value,), (count,)) > _LOG_DELTA:
            largest = _epsilon((value,), (count,))
    return largest


def _log_delta(eps: float, values: tuple[float, ...], counts: tuple[int, ...]) -> float:
    if len(set(values)) == 1:  # sharper, as at k = 2 the worst data set is known
        setting = Setting(sum(counts), _CELLS, values[0])
        return float(BOUNDS["upper"].log_delta(eps, setting))
    groups = BudgetGroups(np.array(values), np.array(counts))
    return float(personalised_log_delta(eps, groups, _CELLS))


@cache  # sweeps come back to the same groups
def _epsilon(values: tuple[float, ...], counts: tuple[int, ...]) -> float:
    """By secants in log eps; the certified delta is smooth there, and each value is costly."""
    groups = BudgetGroups(np.array(values), np.array(counts))
    budget = float(groups.values.max())
    mu = mu_gdp(groups)
    # Half of what mu-GDP says is near at small budgets.
    guess = min(0.5 * gdp_epsilon(mu, DELTA), 0.9 * budget)
    old, new = np.log(guess), np.log(0.95 * guess)
    old_excess = _log_delta(np.exp(old), values, counts) - _LOG_DELTA
    for _ in range(_MOST_SECANTS):
        excess = _log_delta(np.exp(new), values, counts) - _LOG_DELTA
        old, new, old_excess = new, new - excess * (new - old) / (excess - old_excess), excess
        if abs(new - old) < _NEAR:
            break
    eps = float(np.exp(new))
    while _log_delta(eps, values, counts) > _LOG_DELTA:
        eps *= 1.0 + _STEP
    return eps


def privacy_table() -> pd.DataFrame:
    """Certified eps of every way to estimate a frequency, along the sweeps of figure 8.

    Returns
    -------
    Columns `COLUMNS`; ``varied``, ``value`` and ``estimator`` as in `estimates.estimate_table`.
    ``eps_published`` is that of paper D's Corollary 2 for those who report: approximate, no
    guarantee.
    """
    rows = [
        (
            *(varied, value, one.name, one.tagged, DELTA),
            certified_epsilon(one.reporting, one.tagged),
            gdp_epsilon(mu_gdp(one.reporting), DELTA),
        )
        for varied, points in (("share", SHARE_POINTS), ("budget", BUDGET_POINTS))
        for value in points
        for one in frequency_series(population(**{varied: value}))
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))
