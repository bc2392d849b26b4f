"""Compare the accuracy of mechanisms at equal certified privacy."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from shuffledp.mechanisms.catalogue import get_estimator
from shuffledp.pipeline.selection import calibrated

COLUMNS = (
    "region", "unit", "estimate", "mechanism", "estimator", "eps0", "n", "eps",
    "tv_distance", "p10", "p90", "reference", "ratio", "standard_error",
)  # fmt: skip


def comparison_summary(
    utility_by_region: Mapping[str, pd.DataFrame],
    unit_by_region: Mapping[str, str],
    target_delta: float,
    reference_by_region: Mapping[str, str],
) -> pd.DataFrame:
    """Return mean total variation distances at equal privacy, and ratios to a reference.

    Each region, by its title, has a table with the columns of `pipeline.tables.UTILITY`, a unit of
    the guarantee (see `pipeline.units.unit_in_words`), and a reference, the name of the mechanism
    with which the others are compared. It is an `InputError` if a table has no matched release at
    the target delta. All mechanisms have this delta; eps follows from n and eps0.

    The columns are `COLUMNS`, with a row for each estimator of each mechanism (a series), eps0 and
    n. ``estimate`` is the estimator of the reference to which the series is compared, ``raw`` or
    ``projected``; ``eps`` is the common eps at the target delta; ``p10`` and ``p90`` are quantiles
    of the distance over the repetitions; ``ratio`` is the mean distance divided by the reference's,
    with its standard error (NaN for a single repetition): mechanisms have independent noise, so the
    relative variances of the two means add up.
    """
    parts = []
    for region, table in utility_by_region.items():
        rows = calibrated(table, "matched", target_delta)
        reference = reference_by_region[region]
        part = _compare_series(rows, reference)
        parts.append(part.assign(region=region, unit=unit_by_region[region], reference=reference))
    return pd.concat(parts, ignore_index=True)[list(COLUMNS)]


def findings(summary: pd.DataFrame) -> str:
    """Return two tables as text: ratios of distances to the reference's, and their differences.

    Each table has a line for each region and series other than the reference, and a column for each
    eps0 with the value at the largest n and, in brackets, at the smallest. (A mean over n would
    depend on the configured values of n.) All distances fall with n, so a difference may shrink
    while the ratio grows. The text is empty if nothing was compared.
    """
    rows = summary[summary["mechanism"] != summary["reference"]].dropna(subset="ratio")
    if rows.empty:
        return ""
    distance = rows["tv_distance"]
    rows = rows.assign(difference=distance - distance / rows["ratio"])
    return (
        f"{_trend_table(rows, 'ratio', '.2f')}\n\nDifferences instead of ratios of the distances:"
        f"\n\n{_trend_table(rows, 'difference', '.4f')}"
    )


def _trend_table(rows: pd.DataFrame, column: str, form: str) -> str:
    """Return a column at the largest n and, if different, at the smallest n as a text table."""
    keys = ["region", "mechanism", "estimator", "eps0"]
    series = rows.sort_values("n").groupby(keys, sort=False)[["n", column]]
    ends = pd.concat([series.first(), series.last()], axis="columns")
    ends = ends.reindex(rows.groupby(keys, sort=False).size().index)
    cells = pd.Series([_trend(form, *row) for row in ends.to_numpy()], ends.index)
    table = cells.unstack("eps0", fill_value="").sort_index(axis="columns")
    lines = [f"{region}, {get_estimator(*series).label}" for region, *series in table.index]
    heads = [f"eps0 = {eps0:g}" for eps0 in table.columns]
    return pd.DataFrame(table.to_numpy(), lines, heads).to_string()


def _trend(form: str, min_n: float, first: float, max_n: float, last: float) -> str:
    start = f" ({first:{form}} at {min_n:,.0f})" if min_n < max_n else ""
    return f"{last:{form}} at n = {max_n:,.0f}{start}"


def _compare_series(rows: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Compare each series of one region with the matching series of the reference."""
    keys = ["eps0", "n"]
    eps = rows.dropna(subset="eps").groupby(keys)["eps"].first()
    groups = {
        (str(mechanism), str(estimator)): _describe(part, keys)
        for (mechanism, estimator), part in rows.groupby(["mechanism", "estimator"], sort=False)
    }
    parts = []
    for (mechanism, estimator), numbers in groups.items():
        counterpart = get_estimator(mechanism, estimator).counterpart
        base = groups.get((reference, str(counterpart)))
        if counterpart is None or base is None:
            continue
        part = numbers[["tv_distance", "p10", "p90"]].copy()
        part["ratio"] = numbers["tv_distance"] / base["tv_distance"]
        part["standard_error"] = part["ratio"] * np.hypot(numbers["relative"], base["relative"])
        if mechanism == reference and estimator == counterpart:
            part[["ratio", "standard_error"]] = 1.0, 0.0
        part["eps"] = eps
        part = part.reset_index()
        parts.append(part.assign(estimate=counterpart, mechanism=mechanism, estimator=estimator))
    return pd.concat(parts, ignore_index=True)


def _describe(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Return mean, quantiles and relative standard error of a series' distances."""
    distances = rows.groupby(keys)["tv_distance"]
    mean = distances.mean()
    return pd.DataFrame(
        {
            "tv_distance": mean,
            "p10": distances.quantile(0.1),
            "p90": distances.quantile(0.9),
            "relative": distances.sem() / mean,
        }
    )
