"""How far the releases are from the truth: community-level and individual-specific utility."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.arrays import Integers
from shuffledp.errors import InputError
from shuffledp.mechanisms.registry import get_estimator
from shuffledp.selection import at_target

_KEYS: Final = [
    "n", "eps0", "eps", "log10_delta", "calibration", "mechanism", "estimator", "repetition",
]  # fmt: skip
_CELL_KEYS: Final = ["n", "eps0", "calibration", "mechanism", "estimator", "cell"]


def _with_errors(
    parts: Iterable[pd.DataFrame], samples: Mapping[int, Integers]
) -> Iterator[pd.DataFrame]:
    """Put the absolute error, as a share of n, beside every estimate."""
    for releases in parts:
        truth = np.empty(len(releases))
        for n in map(int, releases["n"].unique()):
            rows = releases["n"].to_numpy() == n
            truth[rows] = (samples[n] / n)[releases["cell"].to_numpy()[rows]]
        yield releases.assign(error=np.abs(releases["estimate"] - truth))


def community_utility(
    parts: Iterable[pd.DataFrame], samples: Mapping[int, Integers]
) -> pd.DataFrame:
    """Total variation distance of each release to its sample's histogram (paper A, section V-A).

    Parameters
    ----------
    parts
        Columns of `shuffledp.tables.RELEASES`, every part made of whole releases.
    samples
        What was released: users per cell by sample size, shape ``(k,)`` each.

    Returns
    -------
    Columns of `shuffledp.tables.UTILITY`.
    """
    sums = [
        releases.groupby(_KEYS, sort=False, dropna=False, observed=True)["error"].sum()
        for releases in _with_errors(parts, samples)
    ]
    distances = [(0.5 * part).rename("tv_distance").reset_index() for part in sums]
    community = pd.concat(distances, ignore_index=True)
    community["delta"] = 10.0 ** community["log10_delta"]
    return community


def individual_utility(
    parts: Iterable[pd.DataFrame], samples: Mapping[int, Integers]
) -> Iterator[pd.DataFrame]:
    """Absolute error of every cell as a share of n, at the largest n (paper A, section V-A).

    Parameters as for `community_utility`.

    Yields
    ------
    Columns of `shuffledp.tables.INDIVIDUAL`.
    """
    sized = (releases[releases["n"] == max(samples)] for releases in parts)
    for releases in _with_errors(sized, samples):
        yield releases.drop(columns="estimate")


def individual_summary(
    individual: pd.DataFrame, every: int | None, eps0: float, target_delta: float
) -> pd.DataFrame:
    """Absolute error of single cells over the repetitions, as shares of n (paper A, Table VI).

    Parameters
    ----------
    individual
        Columns of `shuffledp.tables.INDIVIDUAL`.
    every
        Cells ``every, 2 every, ...`` below k are taken, counted from 0 in the south-west; None is
        a twentieth of k.
    eps0
        Local budget.
    target_delta
        Of the matched mechanisms.

    Returns
    -------
    Columns ``n, eps0, calibration, mechanism, estimator, cell, eps, log10_delta, repetitions, mean,
    p10, p90``, of the estimators that are compared; like beside like, what is not at equal privacy
    first. Calibration ``none``: the error follows from eps0.

    Raises
    ------
    InputError
        If the table has no such eps0 or target delta, or ``every`` leaves no cell.
    """
    rows = individual[individual["eps0"] == eps0]
    if rows.empty:
        raise InputError(
            f"eps0 must be one of the table's, {sorted(set(individual['eps0']))} (got {eps0:g})"
        )
    k = int(rows["cell"].max()) + 1
    every = max(1, k // 20) if every is None else every
    if not 0 < every < k:
        raise InputError(
            f"individual_every must lie between 1 and k - 1 = {k - 1} for this grid (got {every})"
        )
    rows = pd.concat([rows[rows["calibration"] != "matched"], at_target(rows, target_delta)])
    rows = rows[(rows["cell"] > 0) & (rows["cell"] % every == 0)]
    series = rows[["calibration", "mechanism", "estimator"]].drop_duplicates()
    found = []
    for calibration, mechanism, estimator in series.itertuples(index=False):
        like = get_estimator(mechanism, estimator).like
        unequal = calibration not in ("none", "matched")
        # Of what is not at equal privacy the raw estimate is enough.
        if like is not None and not (unequal and like != "raw"):
            found.append((not unequal, like != "raw", calibration, mechanism, estimator))
    return pd.concat(
        [
            _describe(
                rows[
                    (rows["calibration"] == calibration)
                    & (rows["mechanism"] == mechanism)
                    & (rows["estimator"] == estimator)
                ]
            )
            for *_, calibration, mechanism, estimator in sorted(found, key=lambda key: key[:2])
        ],
        ignore_index=True,
    )


def _describe(rows: pd.DataFrame) -> pd.DataFrame:
    """Summarise the repetitions of one series cell by cell."""
    by_cell = rows.groupby(_CELL_KEYS, sort=True)
    errors = by_cell["error"]
    numbers = {
        "repetitions": errors.size(),
        "mean": errors.mean(),
        "p10": errors.quantile(0.1),
        "p90": errors.quantile(0.9),
    }
    return by_cell[["eps", "log10_delta"]].first().assign(**numbers).reset_index()
