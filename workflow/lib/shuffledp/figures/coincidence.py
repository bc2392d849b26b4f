"""Curves that lie under one another: a reader must be told, not left to look for them."""

import textwrap
from itertools import combinations
from typing import Final

import numpy as np
import pandas as pd

from shuffledp.numerics.arrays import Floats

_WIDTH: Final = 0.01  # of the panel's height: about that of a line
_LETTERS: Final = 118  # of a line of text


def coincidence_words(table: pd.DataFrame, x_scale: str, y_scale: str) -> str:
    """Say which curves are nowhere further apart than a line's width, in any panel.

    Parameters
    ----------
    table
        Columns ``panel, curve, x, y``.
    x_scale, y_scale
        ``linear`` or ``log``.

    Returns
    -------
    Lines of text, empty if every curve can be seen by itself.
    """
    drawn = table.assign(x=_scaled(table["x"], x_scale), y=_scaled(table["y"], y_scale))
    drawn = drawn[np.isfinite(drawn["x"]) & np.isfinite(drawn["y"])]
    apart: dict[tuple[str, str], float] = {}
    for _, panel in drawn.groupby("panel"):
        height = float(np.ptp(panel["y"])) or 1.0
        curves = {str(name): rows for name, rows in panel.groupby("curve", sort=False)}
        for pair in combinations(curves, 2):
            found = _distance(*(curves[name] for name in pair))
            if found is not None:
                apart[pair] = max(apart.get(pair, 0.0), found / height)
    alike = {frozenset(pair) for pair, distance in apart.items() if distance < _WIDTH}
    groups: list[list[str]] = []
    for name in map(str, table["curve"].unique()):
        met = (g for g in groups if all(frozenset((other, name)) in alike for other in g))
        group = next(met, None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    lines = [
        f"Nowhere further apart than a line is wide: {'; '.join(group)}."
        for group in groups
        if len(group) > 1
    ]
    return "\n".join(textwrap.fill(line, _LETTERS) for line in lines)


def _scaled(values: pd.Series, scale: str) -> Floats:
    if scale != "log":
        return values.to_numpy(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.log(values.to_numpy(np.float64)))


def _distance(first: pd.DataFrame, second: pd.DataFrame) -> float | None:
    """Largest difference in y where both have an x; None if nowhere."""
    first, second = first.sort_values("x"), second.sort_values("x")
    low, high = max(first["x"].min(), second["x"].min()), min(first["x"].max(), second["x"].max())
    x = np.union1d(first["x"], second["x"])
    x = x[(x >= low) & (x <= high)]
    if x.size < 2:
        return None
    y = [np.interp(x, rows["x"], rows["y"]) for rows in (first, second)]
    return float(np.abs(y[0] - y[1]).max())
