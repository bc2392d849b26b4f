"""Compare the estimates of one mechanism on grids with smaller and smaller cells."""

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.accounting.conventions import log_of_delta
from shuffledp.accounting.setting import Setting
from shuffledp.mechanisms.catalogue import CATALOGUE, POSTERIOR, UNBIASED
from shuffledp.mechanisms.estimators import total_variation
from shuffledp.mechanisms.protocol import Calibration
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.numerics.arrays import Integers
from shuffledp.pipeline.selection import TARGET
from shuffledp.studies.releases import releases

MECHANISM: Final = "two-servers"  # the one that docs/choosing.md recommends without a curator
EPS: Final = 1.0
CLIPPED: Final = "clipped"  # the unbiased estimate with 0 in place of negative shares


def cell_sizes_table(
    histograms: Mapping[str, Integers], delta: float, repetitions: int, *, seed: int, region: str
) -> pd.DataFrame:
    """Return the mean distance of each estimate to the true histogram, grid by grid.

    `MECHANISM`, calibrated to `EPS` at `delta`, makes `repetitions` independent releases of the
    true counts of each grid, shape ``(k,)``. Seed and region name the random streams.

    The rows are in ascending order of k. Their columns are ``region``, ``grid``, ``n``, ``k``,
    ``empty`` (share of empty cells), ``eps``, ``delta``, ``mechanism``, ``estimator``,
    ``repetitions``, ``tv_distance`` (mean) and ``standard_error`` (of the mean; NaN for one
    repetition). Estimators are those of the mechanism, and `CLIPPED`.
    """
    mechanism, log_delta, rows = MECHANISMS[MECHANISM], log_of_delta(delta), []
    for grid, counts in sorted(histograms.items(), key=lambda item: item[1].size):
        n, truth = int(counts.sum()), counts / counts.sum()
        parameters = mechanism.calibrate(EPS, log_delta, Setting(n, counts.size))
        calibration = Calibration(TARGET, EPS, log_delta, f"eps={EPS:g}, {delta=:g}", parameters)
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
                    "eps": EPS,
                    "delta": delta,
                    "mechanism": MECHANISM,
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
