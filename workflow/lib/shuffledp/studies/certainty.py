"""What a release shows of single cells: errors, standard errors, and where somebody is for sure."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from shuffledp.accounting.setting import Setting
from shuffledp.arrays import Integers
from shuffledp.errors import InputError
from shuffledp.mechanisms.protocol import Budget
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.selection import STANDARD_ERRORS
from shuffledp.tables import CERTAINTY

_RELEASED: Final = ["n", "eps0", "calibration", "eps", "log10_delta", "mechanism"]
_PLACED: Final = ["repetition", "cell"]


def certainty_table(
    releases: pd.DataFrame, samples: Mapping[int, Integers], *, region: str, grid: str
) -> pd.DataFrame:
    """Put the truth beside every estimate, and what whoever holds the release alone can tell.

    Parameters
    ----------
    releases
        Columns of `shuffledp.tables.RELEASES`: whole releases, with their unbiased estimates.
    samples
        What was released: users per cell by sample size, shape ``(k,)`` each.
    region, grid
        Names, for the columns of that name.

    Returns
    -------
    Columns of `shuffledp.tables.CERTAINTY`, a row for each of ``releases``, in another order.
    ``count`` is the truth; ``estimate``, ``error`` (estimate - count) and ``standard_error`` are in
    users. The standard error is `Mechanism.variance` at the unbiased estimate, below 0 taken for 0:
    no truth is needed. It is missing for other estimates. They are biased, so that an interval
    round them would miss the truth too often: take that of the unbiased one of the same release.
    ``known``, alike for all estimates of a release, says that the unbiased one exceeds
    `STANDARD_ERRORS` standard errors. A cell where nobody is does so, too, once in some 44.

    Raises
    ------
    InputError
        If a release has not one unbiased estimate for each cell.
    """
    groups = releases.groupby(_RELEASED, sort=False, dropna=False)
    table = pd.concat([_certain(rows, samples) for _, rows in groups], ignore_index=True)
    return table.assign(region=region, grid=grid).reindex(columns=CERTAINTY.names)


def _certain(rows: pd.DataFrame, samples: Mapping[int, Integers]) -> pd.DataFrame:
    """As `certainty_table`, for the repetitions of one mechanism with the same parameters."""
    n, name = int(rows["n"].iloc[0]), str(rows["mechanism"].iloc[0])
    counts, mechanism = samples[n], MECHANISMS[name]
    unbiased = mechanism.estimators[0].name
    shares = rows[rows["estimator"] == unbiased].pivot(
        index="repetition", columns="cell", values="estimate"
    )
    if not np.array_equal(shares.columns, np.arange(counts.size)) or shares.isna().any(axis=None):
        raise InputError(
            f"releases must hold one {unbiased} estimate of {name} for each of {counts.size} cells "
            f"at n={n}"
        )
    plausible = shares.clip(0.0, 1.0).to_numpy()
    deviations = n * np.sqrt(mechanism.variance(plausible, n, _parameters(rows, counts.size)))
    every = pd.DataFrame(
        {
            "repetition": np.repeat(shares.index, counts.size),
            "cell": np.tile(shares.columns, len(shares)),
            "standard_error": deviations.ravel(),
            "known": (n * shares.to_numpy() > STANDARD_ERRORS * deviations).ravel(),
        }
    )
    table = rows.merge(every, on=_PLACED, how="left", validate="m:1")
    table["count"] = counts[table["cell"]]
    table["estimate"] *= n
    table["error"] = table["estimate"] - table["count"]
    table["standard_error"] = table["standard_error"].where(table["estimator"] == unbiased)
    return table


def _parameters(rows: pd.DataFrame, k: int) -> Any:
    """What the mechanism was released with: it follows from the columns."""
    first = rows.iloc[0]
    mechanism, calibration = MECHANISMS[first["mechanism"]], first["calibration"]
    setting = Setting(int(first["n"]), k, float(first["eps0"]))
    if calibration == "none" or calibration in mechanism.own_calibrations:
        own = mechanism.calibrations(setting, [])
        return next(each.parameters for each in own if each.name == calibration)
    log_delta = float(first["log10_delta"] * np.log(10.0))
    return mechanism.parameters(setting, Budget(float(first["eps"]), log_delta, "", calibration))
