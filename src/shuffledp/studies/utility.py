"""Summarise the errors of releases over repetitions: paper A's community-level utility (V-A)."""

from typing import Final

import numpy as np
import pandas as pd

from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.catalogue import CATALOGUE, UNBIASED, get_estimator
from shuffledp.pipeline.units import counted, has_bound

# Columns with one value for all releases of a mechanism at one point and n.
_COSTS: Final = ["parameters", "local_eps0", "messages", "reason"]
_SERIES: Final = [
    "n", "eps0", "eps", "delta", "log10_delta", "calibration", "mechanism", "estimator",
]  # fmt: skip
# Columns with one value for a whole run.
_PARTICIPATION: Final = ["colluding", "response_rate"]
_PREDICTED: Final = ["expected_tv_distance", "expected_cell_error"]

COLUMNS = (
    "region", "unit", *_SERIES, *_PARTICIPATION, "tv_distance", "p10", "p90",
    "expected_tv_distance", "cell_error", "cell_error_p10", "cell_error_p90", "expected_cell_error",
    *_COSTS, "trust",
)  # fmt: skip


def utility_summary(utility: pd.DataFrame, region: str, unit: str) -> pd.DataFrame:
    """Return the mean errors of each estimator at each calibration, with the mechanism's costs.

    ``utility`` has the columns of `pipeline.tables.UTILITY`; ``region`` is a title, and ``unit`` is
    that of the guarantee (`pipeline.units.unit_in_words`). The result has the columns `COLUMNS`
    for the estimators that are compared: means over the repetitions with 10 % and 90 % quantiles;
    ``trust`` says who must be trusted with what. An infinite ``local_eps0`` means that a user's
    messages reveal the record.
    """
    pairs = pd.MultiIndex.from_frame(utility[["mechanism", "estimator"]])
    compared = [pair for pair in pairs.unique() if get_estimator(*pair).counterpart is not None]
    groups = utility[pairs.isin(compared)].groupby(_SERIES, sort=False, dropna=False)
    parts: list[pd.DataFrame | pd.Series[float]] = [
        groups[[*_PREDICTED, *_COSTS, *_PARTICIPATION]].first()
    ]
    for column, prefix in [("tv_distance", ""), ("cell_error", "cell_error_")]:
        parts.append(groups[column].mean())
        for name, share in [("p10", 0.1), ("p90", 0.9)]:
            parts.append(groups[column].quantile(share).rename(prefix + name))
    table = pd.concat(parts, axis="columns").reset_index()
    trust = [CATALOGUE[name].trust for name in table["mechanism"]]
    return table.assign(region=region, unit=unit, trust=trust)[list(COLUMNS)]


def target_findings(summary: pd.DataFrame, *, brief: bool = False) -> str:
    """Return a table of expected errors at the largest n as text, most accurate mechanism first.

    Unlike errors measured in a few releases, expected errors order similar mechanisms reliably.
    `summary` has rows of `utility_summary` at targets (`pipeline.selection.at_targets`), for one
    region.

    A line for each mechanism, below a heading, has for each eps the total variation distance of the
    unbiased estimate and, in brackets, the root mean square error of a cell's count; at the largest
    eps, messages per user and their local eps0 (``none`` if they reveal the record); and who must
    be trusted, but, if `brief`, not with what. A dash means that the mechanism cannot meet the
    target.
    """
    n, max_eps = summary["n"].max(), summary["eps"].max()
    shown = summary[(summary["n"] == n) & (summary["estimator"] == UNBIASED)]
    calibrated = shown["reason"].isna()
    errors = [
        f"{distance:.5f} ({error:.2f})" if possible else "-"
        for distance, error, possible in zip(
            shown["expected_tv_distance"], shown["expected_cell_error"], calibrated, strict=True
        )
    ]
    columns = [f"eps = {eps:g}" for eps in sorted(shown["eps"].unique())]
    table = shown.assign(errors=errors, column="eps = " + shown["eps"].map("{:g}".format)).pivot(
        index="mechanism", columns="column", values="errors"
    )[columns]
    last = shown[shown["eps"] == max_eps].sort_values("expected_tv_distance").set_index("mechanism")
    table = table.loc[last.index]
    table["messages"] = last["messages"].map("{:.2f}".format, na_action="ignore").fillna("-")
    local = last["local_eps0"].map("{:.2f}".format).where(np.isfinite(last["local_eps0"]), "none")
    table["local eps0"] = local.where(last["reason"].isna(), "-")
    table["trusted"] = last["trust"].str.partition(",")[0] if brief else last["trust"]
    table.index = pd.Index([CATALOGUE[name].label for name in table.index])
    table.columns.name = None
    region, delta = shown["region"].iloc[0], shown["delta"].iloc[0]
    colluding, response_rate = shown[_PARTICIPATION].iloc[0]
    participation = Setting(
        n, 2, colluding=colluding, response_rate=response_rate
    ).participation_text
    padded = table.apply(lambda column: column.str.ljust(column.str.len().max()))
    with pd.option_context("display.max_colwidth", None):
        text = padded.to_string(justify="left")
    unit = shown["unit"].iloc[0]
    promise = f"; per {unit.removeprefix('one ')}" if has_bound(unit) else ""
    return (
        f"{region}, n = {n:,}{participation}, delta = {delta:g}: expected total variation distance "
        f"in one round (error of a cell, {counted(unit)}s{promise})\n"
        + "\n".join(line.rstrip() for line in text.splitlines())
    )
