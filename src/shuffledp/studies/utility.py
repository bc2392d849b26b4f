"""Summarise the errors of releases (paper A, section V-A), and a whole run, as tables and text."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.accounting.conventions import log_of_delta
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.catalogue import CATALOGUE, POSTERIOR, UNBIASED, get_estimator
from shuffledp.mechanisms.estimators import total_variation
from shuffledp.mechanisms.protocol import Calibration
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.selection import TARGET, at_targets, calibrated
from shuffledp.pipeline.units import counted, has_bound
from shuffledp.studies.releases import releases

# --- Estimates of one mechanism on grids with smaller and smaller cells ---------------------------

CELL_SIZES_MECHANISM: Final = "two-servers"  # recommended without a curator (docs/choosing.md)
CELL_SIZES_EPS: Final = 1.0
CLIPPED: Final = "clipped"  # the unbiased estimate with 0 in place of negative shares


def cell_sizes_table(
    histograms: Mapping[str, Integers], delta: float, repetitions: int, *, seed: int, region: str
) -> pd.DataFrame:
    """Return the mean distance of each estimate to the true histogram, grid by grid.

    `CELL_SIZES_MECHANISM`, calibrated to `CELL_SIZES_EPS` at `delta`, makes `repetitions`
    independent releases of the true counts of each grid, shape ``(k,)``. Seed and region name the
    random streams.

    The rows are in ascending order of k. Their columns are ``region``, ``grid``, ``n``, ``k``,
    ``empty`` (share of empty cells), ``eps``, ``delta``, ``mechanism``, ``estimator``,
    ``repetitions``, ``tv_distance`` (mean) and ``standard_error`` (of the mean; NaN for one
    repetition). Estimators are those of the mechanism, and `CLIPPED`.
    """
    mechanism, log_delta, rows = MECHANISMS[CELL_SIZES_MECHANISM], log_of_delta(delta), []
    for grid, counts in sorted(histograms.items(), key=lambda item: item[1].size):
        n, truth = int(counts.sum()), counts / counts.sum()
        parameters = mechanism.calibrate(CELL_SIZES_EPS, log_delta, Setting(n, counts.size))
        calibration = Calibration(
            TARGET, CELL_SIZES_EPS, log_delta, f"eps={CELL_SIZES_EPS:g}, {delta=:g}", parameters
        )
        labels = ("cell sizes", region, grid)
        estimates = {
            release.estimator: release.estimates
            for release in releases(
                mechanism, counts, [calibration], repetitions,
                seed=seed, labels=labels, estimate=POSTERIOR,
            )
        }  # fmt: skip
        raw = estimates.pop(UNBIASED)
        ordered = {UNBIASED: raw, CLIPPED: np.maximum(raw, 0.0), **estimates}
        for estimator, shares in ordered.items():
            distances = pd.Series(total_variation(shares, truth))
            rows.append(
                {
                    "region": region,
                    "grid": grid,
                    "n": n,
                    "k": counts.size,
                    "empty": float((counts == 0).mean()),
                    "eps": CELL_SIZES_EPS,
                    "delta": delta,
                    "mechanism": CELL_SIZES_MECHANISM,
                    "estimator": estimator,
                    "repetitions": repetitions,
                    "tv_distance": distances.mean(),
                    "standard_error": distances.sem(),
                }
            )
    return pd.DataFrame(rows)


def cell_sizes_findings(table: pd.DataFrame, title: str) -> str:
    """Return the distances of a `cell_sizes_table` as text, a line for each grid."""
    first = table.iloc[0]
    shown = table.pivot(index="k", columns="estimator", values="tv_distance")
    shown = shown[list(table["estimator"].unique())].map("{:.4f}".format)
    shown.insert(0, "empty", table.groupby("k")["empty"].first().map("{:.0%}".format))
    shown.insert(0, "cells", [f"{k:,}" for k in shown.index])
    return (
        f"{title}, n = {first['n']:,}, {CATALOGUE[first['mechanism']].label}, eps = "
        f"{first['eps']:g}, delta = {first['delta']:g}: mean total\nvariation distance of "
        f"{first['repetitions']} releases\n\n{shown.to_string(index=False)}"
    )


# --- Errors of all mechanisms over repetitions ----------------------------------------------------

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


# --- Comparison of mechanisms at equal certified privacy ------------------------------------------

COMPARISON_COLUMNS = (
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

    The columns are `COMPARISON_COLUMNS`, with a row for each estimator of each mechanism (a
    series), eps0 and n. ``estimate`` is the estimator of the reference to which the series is
    compared, ``raw`` or ``projected``; ``eps`` is the common eps at the target delta; ``p10`` and
    ``p90`` are quantiles of the distance over the repetitions; ``ratio`` is the mean distance
    divided by the reference's, with its standard error (NaN for a single repetition): mechanisms
    have independent noise, so the relative variances of the two means add up.
    """
    parts = []
    for region, table in utility_by_region.items():
        rows = calibrated(table, "matched", target_delta)
        reference = reference_by_region[region]
        part = _compare_series(rows, reference)
        parts.append(part.assign(region=region, unit=unit_by_region[region], reference=reference))
    return pd.concat(parts, ignore_index=True)[list(COMPARISON_COLUMNS)]


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


# --- The text that is printed at the end of a run -------------------------------------------------


def run_summary(
    made: Collection[str],
    folder: str,
    places: Mapping[str, str],
    target_delta: float,
    protected: Mapping[str, str] | None = None,
) -> str:
    """Return the main tables of a run as text, and where its figures are.

    `made` are the paths, in the run's `folder`, of the files that the run was asked to make; other
    files are not mentioned. `places` has the title of each region by ``REGION.GRID``, as in file
    names, and `protected` the unit of the guarantee in words by place, by default one check-in
    everywhere. The target delta is that of the comparison at equal privacy.
    """

    def path_if_made(name: str) -> Path | None:
        path = Path(folder, name)
        return path if str(path) in made else None

    lines = []
    if any(path_if_made(f"utility/{place}.csv") for place in places):
        lines.append("\nA run protects one check-in, not a person, unless its unit is user.")
    for place, title in places.items():
        unit = (protected or {}).get(place, "")
        if has_bound(unit) and path_if_made(f"utility/{place}.csv"):
            lines.append(
                f"\n{title}: what follows protects {unit}, replaced by as many others.\n"
                "The number of their check-ins is not protected."
            )
    comparison = path_if_made("utility/comparison.csv")
    if comparison and (table := findings(pd.read_csv(comparison))):
        lines.append(
            "\nTotal variation distance to the true histogram at equal privacy (delta = "
            f"{target_delta:g}), as a multiple of\nthe reference mechanism's, at the largest n "
            f"(and at the smallest). From {comparison}.\n\n{table}\n"
        )
    summaries = [path for place in places if (path := path_if_made(f"utility/{place}.csv"))]
    targets = [at_targets(pd.read_csv(path)) for path in summaries]
    if any(len(table) for table in targets):
        lines.append("\nEvery mechanism calibrated to the same certified (eps, delta):\n")
        lines += [f"{target_findings(table, brief=True)}\n" for table in targets]
    for place, title in places.items():
        if path := path_if_made(f"utility/{place.partition('.')[0]}.cell-sizes.csv"):
            lines.append(f"\n{cell_sizes_findings(pd.read_csv(path), title)}\n")
    figures = Path(folder, "figures")
    drawn = [path for path in map(Path, made) if path.parent == figures and path.suffix == ".png"]
    if drawn:
        main = path_if_made("figures/comparison.png")
        first = f"; the main one is {main}" if main else ""
        lines.append(f"Figures: {len(drawn)} in {figures}/, as PNG, PDF and SVG{first}.")
    if path := path_if_made("reproduction/summary.md"):
        lines.append(f"The papers' numbers, recomputed: {path}")
    return "".join(f"{line}\n" for line in lines)
