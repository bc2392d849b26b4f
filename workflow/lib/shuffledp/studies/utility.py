"""How far releases are off, over their repetitions: community-level utility (paper A, V-A)."""

from typing import Final

import numpy as np
import pandas as pd

from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.catalogue import CATALOGUE, UNBIASED, get_estimator

# Of a mechanism at a point and n, the same for all its releases there.
_OFFERED: Final = ["parameters", "local_eps0", "messages", "reason"]
_SERIES: Final = [
    "n", "eps0", "eps", "delta", "log10_delta", "calibration", "mechanism", "estimator",
]  # fmt: skip
# Of a whole run.
_CROWD: Final = ["colluding", "response_rate"]
_PREDICTED: Final = ["expected_tv_distance", "expected_cell_error"]

COLUMNS = (
    "region", "unit", *_SERIES, *_CROWD, "tv_distance", "p10", "p90", "expected_tv_distance",
    "cell_error", "cell_error_p10", "cell_error_p90", "expected_cell_error", *_OFFERED, "trust",
)  # fmt: skip


def utility_summary(utility: pd.DataFrame, region: str, unit: str) -> pd.DataFrame:
    """Describe the errors of each series over the repetitions, with what the mechanism asks for.

    Parameters
    ----------
    utility
        Columns of `pipeline.tables.UTILITY`.
    region, unit
        Title of the region, and what delta protects there in words: ``one check-in``.

    Returns
    -------
    Columns `COLUMNS`, of the estimators that are compared. Means over the repetitions, with their
    10 and 90 % quantiles; ``trust`` is who must be trusted with what. An infinite ``local_eps0``:
    a user's messages reveal all.
    """
    pairs = pd.MultiIndex.from_frame(utility[["mechanism", "estimator"]])
    compared = [pair for pair in pairs.unique() if get_estimator(*pair).like is not None]
    groups = utility[pairs.isin(compared)].groupby(_SERIES, sort=False, dropna=False)
    parts: list[pd.DataFrame | pd.Series[float]] = [
        groups[[*_PREDICTED, *_OFFERED, *_CROWD]].first()
    ]
    for column, prefix in [("tv_distance", ""), ("cell_error", "cell_error_")]:
        parts.append(groups[column].mean())
        for name, share in [("p10", 0.1), ("p90", 0.9)]:
            parts.append(groups[column].quantile(share).rename(prefix + name))
    table = pd.concat(parts, axis="columns").reset_index()
    trust = [CATALOGUE[name].trust for name in table["mechanism"]]
    return table.assign(region=region, unit=unit, trust=trust)[list(COLUMNS)]


def target_findings(summary: pd.DataFrame, *, brief: bool = False) -> str:
    """Write the expected errors at the largest n as a table, the most accurate mechanism first.

    Expected ones, for the noise of a few releases would reorder mechanisms that are nearly alike.

    Parameters
    ----------
    summary
        Rows of `utility_summary` at targets (`pipeline.selection.at_targets`), of one region.
    brief
        Name who must be trusted without saying with what.

    Returns
    -------
    A line that says what is counted, and one for each mechanism: of its unbiased estimate the
    total variation distance (and error of a cell in users) for each eps, messages per user at the
    largest eps and the local eps0 of these (none: they reveal all), and who must be trusted. A
    dash: it cannot meet the target.
    """
    n, most = summary["n"].max(), summary["eps"].max()
    shown = summary[(summary["n"] == n) & (summary["estimator"] == UNBIASED)]
    met = shown["reason"].isna()
    errors = [
        f"{distance:.5f} ({error:.2f})" if possible else "-"
        for distance, error, possible in zip(
            shown["expected_tv_distance"], shown["expected_cell_error"], met, strict=True
        )
    ]
    columns = [f"eps = {eps:g}" for eps in sorted(shown["eps"].unique())]
    table = shown.assign(errors=errors, column="eps = " + shown["eps"].map("{:g}".format)).pivot(
        index="mechanism", columns="column", values="errors"
    )[columns]
    last = shown[shown["eps"] == most].sort_values("expected_tv_distance").set_index("mechanism")
    table = table.loc[last.index]
    table["messages"] = last["messages"].map("{:.2f}".format, na_action="ignore").fillna("-")
    own = last["local_eps0"].map("{:.2f}".format).where(np.isfinite(last["local_eps0"]), "none")
    table["local eps0"] = own.where(last["reason"].isna(), "-")
    table["trusted"] = last["trust"].str.partition(",")[0] if brief else last["trust"]
    table.index = pd.Index([CATALOGUE[name].label for name in table.index])
    table.columns.name = None
    region, delta = shown["region"].iloc[0], shown["delta"].iloc[0]
    colluding, response_rate = shown[_CROWD].iloc[0]
    crowd = Setting(n, 2, colluding=colluding, response_rate=response_rate).participation_text
    padded = table.apply(lambda column: column.str.ljust(column.str.len().max()))
    with pd.option_context("display.max_colwidth", None):
        text = padded.to_string(justify="left")
    unit = shown["unit"].iloc[0].removeprefix("one ")
    return (
        f"{region}, n = {n:,}{crowd}, delta = {delta:g}: expected total variation distance (error "
        f"of a cell, {unit}s)\n" + "\n".join(line.rstrip() for line in text.splitlines())
    )
