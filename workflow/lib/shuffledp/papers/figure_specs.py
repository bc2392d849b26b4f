"""What a recomputed figure of a paper is: a tidy table of curves, and how to read it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

Kind = Literal["exact", "upper", "lower", "approximate", "as printed"]
KINDS: tuple[Kind, ...] = ("exact", "upper", "lower", "approximate", "as printed")
# What a figure may draw of a guarantee between two points, where nothing was computed.
Between = Literal["points", "next", "delta over eps", "eps over delta"]
COLUMNS = ("panel", "curve", "kind", "x", "y")


@dataclass(frozen=True, kw_only=True)
class FigureText:
    """What a figure of curves says, and its scales.

    Attributes
    ----------
    title
        One line above the panels, with paper and figure.
    x_label, y_label
        Axis labels, with units where there are any.
    caption
        What is to be seen, every parameter, and which of them the paper does not state.
    x_scale, y_scale
        ``log`` or ``linear``.
    between
        What a guarantee proves between its points: nothing (``points``); up to each point what it
        says there (``next``), as of what does not fall with x; or what any delta over eps obeys.
    """

    title: str
    x_label: str
    y_label: str
    caption: str
    x_scale: str = "log"
    y_scale: str = "log"
    between: Between = "points"

    @staticmethod
    def read(metadata: Mapping[str, Any]) -> "FigureText":
        """Take it from the metadata of the curves, among other keys."""
        return FigureText(**{field.name: metadata[field.name] for field in fields(FigureText)})

    def metadata(self) -> dict[str, str]:
        """The same as a dictionary, for the file of the curves."""
        return {field.name: getattr(self, field.name) for field in fields(FigureText)}


@dataclass(frozen=True, kw_only=True)
class FigureSpec(FigureText):
    """One figure: what it says, and how to compute its curves.

    Attributes
    ----------
    compute
        Returns the curves, columns `COLUMNS`; rows of a curve in drawing order.
    """

    compute: Callable[[], pd.DataFrame]


def curve(panel: str, name: str, kind: Kind, x: ArrayLike, y: ArrayLike) -> pd.DataFrame:
    """One curve as rows of a tidy table.

    Parameters
    ----------
    panel
        Title of the panel that it belongs to.
    name
        Legend entry; equal names look alike in all panels.
    kind
        What the curve is: ``upper`` and ``lower`` bounds, ``exact``, ``approximate`` (neither is
        known), or a formula ``as printed`` that is wrong.
    x, y
        Of one shape (n,). Points that are not finite are left out.
    """
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    keep = np.isfinite(x) & np.isfinite(y)
    return pd.DataFrame({"panel": panel, "curve": name, "kind": kind, "x": x[keep], "y": y[keep]})


def curves(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """All curves of a figure in one table, in drawing order."""
    return pd.concat(list(parts), ignore_index=True)
