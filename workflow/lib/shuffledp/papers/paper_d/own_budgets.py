"""What the ways to estimate a mean or a frequency keep private, at delta = 1e-6."""

from functools import cache
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.papers.paper_d import published
from shuffledp.personalised import budgets
from shuffledp.personalised.groups import BudgetGroups
from shuffledp.papers.paper_d.estimates import private_series

DELTA: Final = 1e-6
_LOG_DELTA: Final = float(np.log(DELTA))
COLUMNS: Final = (
    *("varied", "value", "estimator", "tagged", "delta", "eps_upper", "eps_published"),
)


def certified_epsilon(groups: BudgetGroups, kind: str, *, tagged: bool) -> float:
    """Smallest eps, to some 1e-5 of itself and rounded up, that all users have at delta = 1e-6.

    Parameters
    ----------
    groups
        Budgets of all who report.
    kind
        How they do: ``binary`` or ``laplace``.
    tagged
        Whether a report tells its budget. A user is then hidden among those of the same budget
        alone, and the least private group decides.
    """
    values, counts = groups.values.tolist(), groups.counts.tolist()
    if not tagged:
        return _epsilon(tuple(values), tuple(counts), kind)
    return max(
        _epsilon((value,), (count,), kind) for value, count in zip(values, counts, strict=True)
    )


@cache  # sweeps come back to the same groups
def _epsilon(values: tuple[float, ...], counts: tuple[int, ...], kind: str) -> float:
    """The largest eps of all groups; of a group that needs less only this is worked out."""
    groups, how = BudgetGroups.of_counts(values, counts), budgets.reports(kind)
    largest = 0.0
    for group in range(groups.values.size - 1, -1, -1):
        curve = how.curve(groups, group, _LOG_DELTA)
        if largest == 0.0 or curve.log_delta(largest).promised > _LOG_DELTA:
            largest = budgets.epsilon(_LOG_DELTA, groups, group, how)
    return largest


def privacy_table(figure: str) -> pd.DataFrame:
    """Certified eps of every way to estimate, along the sweeps of a figure.

    Parameters
    ----------
    figure
        A name that `estimates.private_series` knows.

    Returns
    -------
    Columns `COLUMNS`; ``varied``, ``value`` and ``estimator`` as in `estimates.estimate_table`.
    ``eps_published`` is that of paper D's corollaries for those who report: approximate, no
    guarantee.
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
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _merged(groups: BudgetGroups) -> BudgetGroups:
    """In order of budget, equal ones together."""
    return BudgetGroups.of_counts(groups.values, groups.counts)
