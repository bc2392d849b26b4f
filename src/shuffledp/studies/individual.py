"""Compute the errors of releases in single cells: paper A's individual-specific utility (V-A).

A cell is called known if its unbiased estimate exceeds `STANDARD_ERRORS` standard errors: at least
one user is then very likely in it.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri

from shuffledp.accounting.bound_registry import BOUNDS
from shuffledp.accounting.contributions import ONE_RECORD, Contributions, log_group_factor
from shuffledp.accounting.setting import Setting
from shuffledp.errors import InputError
from shuffledp.mechanisms.catalogue import DELTA_HAT, UNBIASED, get_estimator
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.numerics.arrays import Integers, quotient_down
from shuffledp.pipeline.selection import OWN_DELTA, STANDARD_ERRORS, at_target
from shuffledp.pipeline.tables import CERTAINTY, GROUP_ROWS

_SERIES: Final = ["calibration", "mechanism", "estimator"]
_CELL_KEYS: Final = ["n", "eps0", *_SERIES, "cell"]
# Mean and quantiles of the absolute value of a standard normal variable.
_NORMAL_MEAN: Final = float(np.sqrt(2.0 / np.pi))
_NORMAL_P10, _NORMAL_P90 = (float(ndtri(0.5 + 0.5 * share)) for share in (0.1, 0.9))


def individual_cells(k: int, every: int | None) -> range:
    """Return the cells to summarise: every, 2 every, ..., below k, the number of cells.

    They are numbered row by row from 0 in the south-west. None stands for k / 20, rounded down but
    at least 1. A step that selects no cell is an `InputError`.
    """
    every = max(1, k // 20) if every is None else every
    if not 0 < every < k:
        raise InputError(
            f"individual_every must be from 1 to k - 1 = {k - 1} for this grid, got {every}"
        )
    return range(every, k, every)


def individual_summary(
    releases: pd.DataFrame, counts: Integers, every: int | None, target_delta: float
) -> pd.DataFrame:
    """Return the absolute errors of single cells, as shares of n (paper A, Table VI).

    `releases` have the columns of `pipeline.tables.RELEASES`, for one n and eps0, and `counts` is
    the true histogram, shape ``(k,)``. Only the cells that `individual_cells` selects are used; see
    there for `every` and its errors. Matched mechanisms have the target delta; a table without it
    is an `InputError`.

    The columns are ``n, eps0, calibration, mechanism, estimator, cell, eps, log10_delta,
    repetitions, mean, p10, p90``; mean and quantiles are over the repetitions. Series that are not
    at equal privacy come first; comparable estimators are next to each other. With calibration
    ``none`` the error depends on the privacy parameters only through eps0.
    """
    picked = releases[releases["cell"].isin(individual_cells(counts.size, every))]
    truth = (counts / counts.sum())[picked["cell"]]
    rows = picked.assign(error=np.abs(picked["estimate"] - truth))
    # Delta-hat is one delta for all cells; `own_delta_summary` has one for each cell instead.
    others = rows[~rows["calibration"].isin(["matched", DELTA_HAT])]
    rows = pd.concat([others, at_target(rows, target_delta)])
    compared = []
    for (calibration, mechanism, estimator), part in rows.groupby(_SERIES, sort=False):
        counterpart = get_estimator(str(mechanism), str(estimator)).counterpart
        equal_privacy = calibration in ("none", "matched")
        # At unequal privacy only the raw estimate is shown.
        if counterpart == "raw" or (counterpart is not None and equal_privacy):
            compared.append((equal_privacy, counterpart != "raw", part))
    ordered = sorted(compared, key=lambda series: series[:2])
    return pd.concat([_describe(part) for *_, part in ordered], ignore_index=True)


def own_delta_summary(
    summary: pd.DataFrame, counts: Integers, contributions: Contributions = ONE_RECORD
) -> pd.DataFrame:
    """Return the errors of single cells, each at its own delta (paper A, section V-A).

    For each cell x0 the mechanism is calibrated to the eps of the comparison and the delta(x0) that
    paper A assigns to a user in x0: the divergence of that one count, in the larger of its two
    directions and with the misprint corrected. It is NOT a guarantee for the histogram.

    Cells and eps at equal privacy are those of `summary`, a result of `individual_summary`.
    `counts` is the true histogram, shape ``(k,)``, and `contributions` the bound on the records of
    the unit of the comparison. Delta(x0) of several records of one user follows from that of one as
    in `shuffledp.accounting.contributions.group_log_delta`.

    The result has the same columns for the raw estimates of the matched mechanisms, with
    calibration ``own-delta``. Errors are not simulated (``repetitions`` is 0): they are the mean
    and quantiles of the absolute value of a normal variable with the estimate's variance.
    """
    n, shares = int(counts.sum()), counts / counts.sum()
    matched = summary[summary["calibration"] == "matched"]
    eps, eps0 = float(matched["eps"].iloc[0]), float(matched["eps0"].iloc[0])
    setting, cells = Setting(n, counts.size, eps0), np.sort(summary["cell"].unique())
    # The other users in x0: all but the target, who is taken to be alone if the cell is empty.
    records = contributions.records_per_user
    share = quotient_down(eps, records)
    log_deltas = BOUNDS["single-bin"].log_deltas_over_counts(
        share, setting, np.maximum(counts[cells] - 1, 0)
    ) + log_group_factor(share, records)
    rows = []
    for name in matched["mechanism"].unique():
        mechanism = MECHANISMS[name]
        for cell, log_delta in zip(cells, log_deltas, strict=True):
            parameters = mechanism.calibrate(eps, float(log_delta), setting, contributions)
            deviation = float(np.sqrt(mechanism.variance(shares, n, parameters)[cell]))
            errors = (deviation * _NORMAL_MEAN, deviation * _NORMAL_P10, deviation * _NORMAL_P90)
            keys = (n, eps0, OWN_DELTA, name, UNBIASED, cell)
            rows.append((*keys, eps, log_delta / np.log(10.0), 0, *errors))
    return pd.DataFrame(rows, columns=summary.columns)


def _describe(rows: pd.DataFrame) -> pd.DataFrame:
    by_cell = rows.groupby(_CELL_KEYS, sort=True)
    errors = by_cell["error"]
    table = by_cell[["eps", "log10_delta"]].first()
    table = table.assign(repetitions=errors.size(), mean=errors.mean())
    return table.assign(p10=errors.quantile(0.1), p90=errors.quantile(0.9)).reset_index()


# --- Standard errors, and cells very likely occupied ----------------------------------------------

_RELEASE_KEYS: Final = ["n", "eps0", "calibration", "eps", "log10_delta", "mechanism"]
_DRAWS: Final = ["repetition", "cell"]


def confidence_tables(
    releases: pd.DataFrame, samples: Mapping[int, Integers], *, region: str, grid: str
) -> Iterator[pd.DataFrame]:
    """Compare every estimate with the true count, and mark known cells.

    `releases` have the columns of `pipeline.tables.RELEASES`. It is an `InputError` if a release
    does not have one unbiased estimate for each cell. `samples` are true histograms: users per cell
    by sample size, shape ``(k,)`` each. `region` and `grid` are the values of the columns with
    these names.

    The tables have the columns of `pipeline.tables.CERTAINTY` and at most `GROUP_ROWS` rows.
    Together they have one row for each row of `releases`, in another order. ``count`` is the true
    number; ``estimate``, ``error`` (estimate - count) and ``standard_error`` are in records. Biased
    estimates have no standard error; use that of the unbiased estimate of the same release, which
    also decides ``known`` for all estimates of the release. One in 30 to 44 empty cells is wrongly
    called known.
    """
    release = releases.groupby(_RELEASE_KEYS, sort=False, dropna=False).ngroup().to_numpy()
    for number in range(release.max(initial=-1) + 1):
        positions = np.flatnonzero(release == number)
        n = int(releases["n"].iloc[positions[0]])
        counts, repetitions = samples[n], np.unique(releases["repetition"].iloc[positions])
        known = _known(releases, positions, repetitions, counts)
        for start in range(0, positions.size, GROUP_ROWS):
            table = releases.iloc[positions[start : start + GROUP_ROWS]].reset_index(drop=True)
            first = counts.size * np.searchsorted(repetitions, table["repetition"])
            table = table.assign(
                region=region,
                grid=grid,
                known=known[first + table["cell"]],
                count=counts[table["cell"]],
            )
            for column in ("estimate", "standard_error"):
                table[column] *= n
            table["error"] = table["estimate"] - table["count"]
            yield table[CERTAINTY.names]


def _known(
    releases: pd.DataFrame, positions: Integers, repetitions: Integers, counts: Integers
) -> NDArray[np.bool_]:
    """Return which cells are known, in order of repetition and cell, for the rows of a release."""
    unbiased = positions[releases["standard_error"].notna().to_numpy()[positions]]
    rows = releases[[*_DRAWS, "estimate", "standard_error"]].iloc[unbiased].sort_values(_DRAWS)
    if not (
        np.array_equal(rows["repetition"], np.repeat(repetitions, counts.size))
        and np.array_equal(rows["cell"], np.tile(np.arange(counts.size), repetitions.size))
    ):
        n, name = releases[["n", "mechanism"]].iloc[positions[0]]
        raise InputError(
            f"releases must have one unbiased estimate of {name} for each of {counts.size} cells "
            f"at n={n}: make the release tables again"
        )
    return (rows["estimate"] > STANDARD_ERRORS * rows["standard_error"]).to_numpy()
