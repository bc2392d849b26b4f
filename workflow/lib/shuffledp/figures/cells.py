"""Cells of a grid on maps: coloured, hatched, and maps of them side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import geopandas as gpd
import numpy as np
import shapely
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path as Outline
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from shuffledp.arrays import Floats
from shuffledp.figures.basemap import attribute, draw_names, draw_over, draw_under
from shuffledp.figures.frame import frame, scale_bar
from shuffledp.figures.style import FULL_WIDTH, new_figure

WHOLE: Final = FuncFormatter(lambda count, _: f"{count:,.0f}")
_COUNTS: Final = "cividis"
_ACROSS: Final = 3  # panels in a row
_RASTERISE_FROM: Final = 20_000  # polygons: beyond, vector files become unwieldy


@dataclass(frozen=True)
class Fill:
    """How cells off the colour scale are drawn."""

    face: str
    edge: str
    hatch: str


def corners_of(cells: gpd.GeoDataFrame) -> Floats:
    """Vertices of the cells in degrees, ``(k, vertices, 2)``: a grid's cells are all alike."""
    points: Floats = shapely.get_coordinates(cells.geometry.to_numpy())
    return points.reshape(len(cells), -1, 2)


def coloured(
    axes: Axes,
    corners: Floats,
    values: Floats,
    shown: NDArray[np.bool_],
    norm: Normalize,
    colours: str = _COUNTS,
) -> PolyCollection:
    """Colour the cells that are shown by their values; by default with the colours of counts."""
    heat = PolyCollection(
        list(corners[shown]),
        array=values[shown],
        cmap=colours,
        norm=norm,
        edgecolors="face",
        linewidths=0.2,
        rasterized=len(values) > _RASTERISE_FROM,
    )
    axes.add_collection(heat)
    return heat


def hatched(axes: Axes, corners: Floats, mask: NDArray[np.bool_], fill: Fill) -> None:
    """Hatch the cells of a mask that has some."""
    # One path of them all: a hatch costs much per path and next to nothing per cell. The
    # limits are known, and a patch would have them looked for in every cell.
    axes.add_artist(
        PathPatch(
            Outline.make_compound_path_from_polys(corners[mask]),
            facecolor=fill.face,
            edgecolor=fill.edge,
            hatch=fill.hatch,
            linewidth=0.0,
            rasterized=len(mask) > _RASTERISE_FROM,
        )
    )


def key(figure: Figure, fills: Sequence[tuple[Fill, str]]) -> None:
    """Legend of the cells that the colour bar does not hold, with what each fill says; or none."""
    handles = [
        Patch(facecolor=o.face, edgecolor=o.edge, hatch=o.hatch, linewidth=0.4, label=label)
        for o, label in fills
    ]
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=2, handlelength=1.6)


def height_of(corners: Floats, panels: int, extra: float) -> float:
    """Inches that panels side by side over the full width need, and ``extra`` for the rest."""
    width, height = np.ptp(corners, axis=(0, 1))
    latitude = np.radians(corners[..., 1].mean())
    proportion = height / (width * np.cos(latitude))
    return float(np.clip((FULL_WIDTH - 0.7) / panels * proportion, 0.8, 8.0)) + extra


def surround(axes: Axes, layers: gpd.GeoDataFrame) -> None:
    """Draw what lies round the cells, under and over them."""
    draw_under(axes, layers)
    draw_over(axes, layers)


def map_panels(
    corners: Floats, layers: gpd.GeoDataFrame, titles: Sequence[str], extra: float
) -> tuple[Figure, list[Axes]]:
    """Maps side by side whose cells are still to be drawn, over the full width of a page.

    Parameters
    ----------
    corners
        As `corners_of` returns them.
    layers
        Base map and outline, legible. Districts are named in the first panel.
    titles
        Of the panels, of one or two lines.
    extra
        Inches of height for what is not a map.
    """
    # Four stand two by two: three and one would leave most of a row empty.
    columns = 2 if len(titles) == 4 else min(len(titles), _ACROSS)
    rows = -(-len(titles) // columns)
    figure = new_figure(rows * height_of(corners, columns, 0.3) + extra)
    places = np.atleast_1d(figure.subplots(rows, columns)).ravel().tolist()
    panels, unused = places[: len(titles)], places[len(titles) :]
    for axes in unused:
        axes.remove()
    for axes, title in zip(panels, titles, strict=True):
        surround(axes, layers)
        frame(axes, corners, margin=not layers.empty, ordinate=axes in places[::columns])
        axes.set_title(title, loc="left")
    scale_bar(panels[0])
    draw_names(panels[0], layers, (FULL_WIDTH - 0.7) / columns)
    attribute(panels[-1], layers)
    return figure, panels
