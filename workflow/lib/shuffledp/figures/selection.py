"""Rows of the tables that a figure shows."""

import numpy as np
import pandas as pd

from shuffledp.figures.style import power

CALIBRATIONS = ("matched", "as-published")
_TOLERANCE = 1e-9  # of log10 delta: the target went through a natural logarithm


def at_target(table: pd.DataFrame, target_delta: float) -> pd.DataFrame:
    """Take the rows calibrated to the target delta; the others come from a sweep of eps.

    Raises
    ------
    ValueError
        If there are none.
    """
    offset = np.abs(table["log10_delta"] - np.log10(target_delta))
    rows: pd.DataFrame = table[(table["calibration"] == "matched") & (offset < _TOLERANCE)]
    if rows.empty:
        raise ValueError(
            f"target_delta must be one the table was made for (got {target_delta:g}): no matched "
            "release has that delta"
        )
    return rows


def calibrated(table: pd.DataFrame, calibration: str, target_delta: float) -> pd.DataFrame:
    """Take the shuffle model's rows and the Gaussian's of one calibration.

    Parameters
    ----------
    table
        Utility, individual or release table.
    calibration
        ``matched`` (at the target delta) or ``as-published``.
    target_delta
        Unused for ``as-published``.

    Raises
    ------
    ValueError
        For another calibration, or if the table has no Gaussian of it.
    """
    if calibration not in CALIBRATIONS:
        raise ValueError(
            f"calibration must be one of {', '.join(CALIBRATIONS)} (got {calibration!r})"
        )
    if calibration == "matched":
        gaussian = at_target(table, target_delta)
    else:
        gaussian = table[table["calibration"] == calibration]
        if gaussian.empty:
            raise ValueError("calibration: the table has no Gaussian 'as-published'")
    return pd.concat([table[table["calibration"] == "none"], gaussian], ignore_index=True)


def calibration_words(calibration: str, target_delta: float) -> str:
    """Say in a title what the Gaussian was calibrated to."""
    if calibration == "matched":
        return (
            r"Equal privacy: the Gaussian has the ($\epsilon$, $\delta$) certified for the shuffle "
            rf"model at $\delta={power(target_delta)}$ (sensitivity $\sqrt{{2}}$)"
        )
    return (
        r"NOT equal privacy, calibration as published: $\epsilon=\epsilon_0$, where the shuffle "
        "model's $\\delta$ is 0;\n"
        r"Gaussian $\sigma$ as diffprivlib returns it for $\delta=10^{-20}$, sensitivity 1"
    )
