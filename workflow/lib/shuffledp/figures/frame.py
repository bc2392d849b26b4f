"""The frame of a map: limits, proportions, labels and scale."""

from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FixedLocator, MaxNLocator, ScalarFormatter
from matplotlib.transforms import ScaledTranslation

from shuffledp.numerics.arrays import Floats

BENEATH: Final = -34.0  # points: from a map's lower edge to what stands below its label
_KM_PER_DEGREE: Final = 111.32  # along the equator
_STEPS: Final = (1, 2, 5, 10)
_EDGE: Final = 0.08  # of a map's width: half a label
_MARGIN: Final = 0.05  # of the cells' width and height


def frame(axes: Axes, corners: Floats, *, margin: bool, ordinate: bool) -> None:
    """Set limits, true proportions at the middle latitude, and labels with their unit.

    Parameters
    ----------
    axes
        Of the map.
    corners
        Vertices of the cells in degrees, shape ``(k, vertices, 2)``.
    margin
        Whether there is something round the cells to see.
    ordinate
        Whether latitudes are written.
    """
    beyond = margin * _MARGIN * np.ptp(corners, axis=(0, 1))
    west, south = corners.min(axis=(0, 1)) - beyond
    east, north = corners.max(axis=(0, 1)) + beyond
    axes.set(xlim=(west, east), ylim=(south, north))
    axes.set_aspect(1.0 / np.cos(np.radians((south + north) / 2.0)))
    axes.set_xlabel("longitude (degrees east)")
    axes.xaxis.set_major_locator(FixedLocator(_inner_ticks(west, east)))
    axes.yaxis.set_major_locator(MaxNLocator(3, steps=_STEPS))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(ScalarFormatter(useOffset=False))
    if ordinate:
        axes.set_ylabel("latitude (degrees north)")
    else:
        axes.tick_params(labelleft=False)
    axes.spines[["top", "right"]].set_visible(True)


def _inner_ticks(low: float, high: float) -> list[float]:
    """Two round numbers or more away from the edges, where the next map's labels begin."""
    edge = _EDGE * (high - low)
    low, high = low + edge, high - edge
    # It returns one more at either end.
    ticks = MaxNLocator(3, steps=_STEPS, min_n_ticks=2).tick_values(low, high)
    return [float(tick) for tick in ticks if low <= tick <= high]


def scale_bar(axes: Axes) -> None:
    """Draw north, and below the map 1, 2 or 5 times a power of ten, some quarter of the width."""
    (west, east), (south, north) = axes.get_xlim(), axes.get_ylim()
    per_degree = _KM_PER_DEGREE * np.cos(np.radians((south + north) / 2.0))
    wanted = 0.25 * (east - west) * per_degree
    decade = 10.0 ** np.floor(np.log10(wanted))
    length = decade * max(step for step in (1, 2, 5) if step * decade <= wanted)
    label = f"{length:g} km" if length >= 1 else f"{1000 * length:g} m"
    share = length / per_degree / (east - west)
    figure = axes.get_figure()
    assert figure is not None
    corner = axes.transAxes + ScaledTranslation(-6.0 / 72.0, -2.0 / 72.0, figure.dpi_scale_trans)
    axes.annotate(
        "N",
        (1.0, 1.0),
        (0.0, -15.0),
        xycoords=corner,
        textcoords="offset points",
        ha="center",
        va="center",
        fontsize=6,
        arrowprops={"arrowstyle": "->", "lw": 0.8, "shrinkA": 0, "shrinkB": 0},
        path_effects=[withStroke(linewidth=1.4, foreground="white")],
    )
    row = axes.transAxes + ScaledTranslation(0.0, BENEATH / 72.0, figure.dpi_scale_trans)
    axes.annotate(
        "",
        (0.0, 0.0),
        (share, 0.0),
        xycoords=row,
        arrowprops={
            "arrowstyle": "|-|,widthA=0.25,widthB=0.25",
            "lw": 1,
            "shrinkA": 0,
            "shrinkB": 0,
        },
        annotation_clip=False,
    )
    axes.annotate(
        label,
        (share, 0.0),
        (4, 0),
        xycoords=row,
        textcoords="offset points",
        ha="left",
        va="center",
        fontsize=7,
        annotation_clip=False,
    )
