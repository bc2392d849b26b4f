"""The answer to paper A's question: accuracy at equal certified privacy."""

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
    """Mean total variation distances at equal privacy, like with like, and their ratios.

    Parameters
    ----------
    utility_by_region
        Title to a table with the columns of `pipeline.tables.UTILITY`.
    unit_by_region
        Title to what delta protects there, in words: ``one check-in``.
    target_delta
        The delta all mechanisms have; eps follows from n and eps0.
    reference_by_region
        Title to the mechanism that the others are compared with.

    Returns
    -------
    Columns `COLUMNS`. ``estimate`` is the reference's estimator that a series is fairly compared
    with, ``raw`` or ``projected``; ``eps`` where all have the target delta; ``p10`` and ``p90`` of
    the distance over the repetitions; ``ratio`` of mean distances to the reference's, with its
    standard error (NaN for a single repetition). The mechanisms' noise is independent, so the
    relative variances of the means add.

    Raises
    ------
    InputError
        If a table has no matched release at the target delta.
    """
    parts = []
    for region, table in utility_by_region.items():
        rows = calibrated(table, "matched", target_delta)
        reference = reference_by_region[region]
        part = _compared(rows, reference)
        parts.append(part.assign(region=region, unit=unit_by_region[region], reference=reference))
    return pd.concat(parts, ignore_index=True)[list(COLUMNS)]


def findings(summary: pd.DataFrame) -> str:
    """Write the ratios of `comparison_summary` as a table, and the differences as another.

    Parameters
    ----------
    summary
        Its rows. The reference itself is left out: its ratio is 1.

    Returns
    -------
    A line for each region and series, a column for each eps0: at the largest n (at the smallest);
    empty if nothing was compared. A mean over n would say which n are listed, for both change with
    n. A difference may shrink where the ratio grows: all distances fall with n.
    """
    rows = summary[summary["mechanism"] != summary["reference"]].dropna(subset="ratio")
    if rows.empty:
        return ""
    own = rows["tv_distance"]
    rows = rows.assign(difference=own - own / rows["ratio"])
    return (
        f"{_ends(rows, 'ratio', '.2f')}\n\nThe same as a difference of the distances:\n\n"
        f"{_ends(rows, 'difference', '.4f')}"
    )


def _ends(rows: pd.DataFrame, column: str, form: str) -> str:
    """A column at the largest n and, if there is another, at the smallest, as a table."""
    keys = ["region", "mechanism", "estimator", "eps0"]
    series = rows.sort_values("n").groupby(keys, sort=False)[["n", column]]
    ends = pd.concat([series.first(), series.last()], axis="columns")
    ends = ends.reindex(rows.groupby(keys, sort=False).size().index)
    cells = pd.Series([_trend(form, *row) for row in ends.to_numpy()], ends.index)
    table = cells.unstack("eps0", fill_value="").sort_index(axis="columns")
    lines = [f"{region}, {get_estimator(*series).label}" for region, *series in table.index]
    heads = [f"eps0 = {eps0:g}" for eps0 in table.columns]
    return pd.DataFrame(table.to_numpy(), lines, heads).to_string()


def _trend(form: str, least: float, first: float, most: float, last: float) -> str:
    start = f" ({first:{form}} at {least:,.0f})" if least < most else ""
    return f"{last:{form}} at n = {most:,.0f}{start}"


def _compared(rows: pd.DataFrame, reference: str) -> pd.DataFrame:
    """Compare every series of one region that has a like with the reference's."""
    keys = ["eps0", "n"]
    eps = rows.dropna(subset="eps").groupby(keys)["eps"].first()
    groups = {
        (str(mechanism), str(estimator)): _describe(part, keys)
        for (mechanism, estimator), part in rows.groupby(["mechanism", "estimator"], sort=False)
    }
    parts = []
    for (mechanism, estimator), numbers in groups.items():
        like = get_estimator(mechanism, estimator).like
        base = groups.get((reference, str(like)))
        if like is None or base is None:
            continue
        part = numbers[["tv_distance", "p10", "p90"]].copy()
        part["ratio"] = numbers["tv_distance"] / base["tv_distance"]
        part["standard_error"] = part["ratio"] * np.hypot(numbers["relative"], base["relative"])
        if mechanism == reference and estimator == like:
            part[["ratio", "standard_error"]] = 1.0, 0.0
        part["eps"] = eps
        part = part.reset_index()
        parts.append(part.assign(estimate=like, mechanism=mechanism, estimator=estimator))
    return pd.concat(parts, ignore_index=True)


def _describe(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """Describe the distances of one series over the repetitions."""
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
