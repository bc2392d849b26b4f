"""Cells of a grid on maps: coloured, hatched, and maps of them side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import geopandas as gpd
import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import Collection, PathCollection, PolyCollection
from matplotlib.colors import Colormap, ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path as Outline
from matplotlib.ticker import FuncFormatter
from numpy.typing import NDArray

from shuffledp.figures.basemap import attribute, draw_names, draw_over, draw_under
from shuffledp.figures.context import MapContext
from shuffledp.figures.frame import frame, scale_bar
from shuffledp.figures.style import FULL_WIDTH, new_figure
from shuffledp.numerics.arrays import Floats

PLAIN: Final = FuncFormatter(lambda count, _: f"{count:,.10g}".replace("-", "\N{MINUS SIGN}"))
# Many are dark on white; the lightest stand out from paper and land.
COUNTS: Final = ListedColormap(mpl.colormaps["YlGnBu"](np.linspace(0.16, 1.0, 256)), "counts")
_ACROSS: Final = 3  # panels in a row
# Inches.
_LINE: Final = 0.155
_LEFT: Final = 0.62  # latitudes
_GAP: Final = 0.13
_BELOW: Final = 0.68  # longitudes, scale bar and attribution
_BAR: Final = 0.62  # colour bar with its labels
_RASTERISE_FROM: Final = 20_000  # polygons: beyond, vector files become unwieldy


def is_fine(cells: int) -> bool:
    """Return whether a grid has so many cells that vector files hold them as pixels."""
    return cells > _RASTERISE_FROM


@dataclass(frozen=True)
class Fill:
    """How cells off the colour scale are drawn."""

    face: str
    edge: str
    hatch: str


def coloured(
    axes: Axes,
    corners: Floats,
    values: Floats,
    shown: NDArray[np.bool_],
    norm: Normalize,
    colours: str | Colormap = COUNTS,
) -> Collection:
    """Colour the cells that are shown by their values; by default with the colours of counts.

    Parameters
    ----------
    axes
        Of the map; is drawn on.
    corners
        Vertices of the cells in degrees, ``(k, vertices, 2)``.
    values
        One for each cell, ``(k,)``.
    shown
        Which cells are drawn, ``(k,)``.
    norm
        From values to colours.
    colours
        A colour map of Matplotlib, or its name.
    """
    look: dict[str, Any] = {"cmap": colours, "norm": norm, "edgecolors": "face", "linewidths": 0.2}
    heat: Collection
    if is_fine(len(values)):
        paths, kept = _by_colour(corners[shown], values[shown], norm, colours)
        heat = PathCollection(paths, array=kept, rasterized=True, **look)
    else:
        heat = PolyCollection(list(corners[shown]), array=values[shown], **look)
    axes.add_collection(heat)
    return heat


def _by_colour(
    corners: Floats, values: Floats, norm: Normalize, colours: str | Colormap
) -> tuple[list[Outline], Floats]:
    """Join the cells of each colour into one path; return the paths with a value of each.

    A path for each cell would take a kilobyte, several times over while a figure is saved.
    """
    rgba = ScalarMappable(norm, colours).to_rgba(values, bytes=True)
    _, first, shade = np.unique(rgba.view(np.uint32), return_index=True, return_inverse=True)
    joined = [
        Outline.make_compound_path_from_polys(corners[shade.ravel() == number, :-1])
        for number in range(first.size)
    ]
    return joined, values[first]


def hatched(axes: Axes, corners: Floats, mask: NDArray[np.bool_], fill: Fill) -> None:
    """Hatch the cells of a mask.

    Parameters
    ----------
    axes
        Of the map; is drawn on.
    corners
        Vertices of the cells in degrees, ``(k, vertices, 2)``.
    mask
        Which cells, ``(k,)``.
    fill
        Face, edge and hatch.
    """
    look = {"facecolor": fill.face, "edgecolor": fill.edge, "hatch": fill.hatch, "linewidth": 0.0}
    _one_patch(axes, corners[mask], len(mask), **look)


def marked(axes: Axes, corners: Floats, mask: NDArray[np.bool_]) -> None:
    """Mark the cells of a mask with a triangle that points down.

    Parameters
    ----------
    axes
        Of the map; is drawn on.
    corners
        Vertices of the cells in degrees, ``(k, vertices, 2)``.
    mask
        Which cells, ``(k,)``.
    """
    middle = corners[mask, :-1].mean(axis=1, keepdims=True)
    size = np.ptp(corners[mask], axis=1, keepdims=True)
    triangle = np.array([[-0.18, 0.15], [0.18, 0.15], [0.0, -0.15], [-0.18, 0.15]])
    look = {"facecolor": "black", "edgecolor": "white", "linewidth": 0.3}
    _one_patch(axes, middle + triangle * size, len(mask), **look)


def _one_patch(axes: Axes, shapes: Floats, cells: int, **look: Any) -> None:
    # One path of them all: a hatch costs much per path and next to nothing per cell. The
    # limits are known, and a patch would have them looked for in every cell.
    path = Outline.make_compound_path_from_polys(shapes)
    axes.add_artist(PathPatch(path, rasterized=is_fine(cells), **look))


def key_of(fills: Sequence[tuple[Fill, str]]) -> list[Patch]:
    """Entries of a legend for cells that the colour bar does not hold, with what each says."""
    return [
        Patch(facecolor=o.face, edgecolor=o.edge, hatch=o.hatch, linewidth=0.4, label=label)
        for o, label in fills
    ]


def height_of(corners: Floats, width: float) -> float:
    """Inches that a map of that width needs, within limits."""
    degrees = np.ptp(corners, axis=(0, 1))
    latitude = np.radians(corners[..., 1].mean())
    return float(np.clip(width * degrees[1] / (degrees[0] * np.cos(latitude)), 0.8, 8.0))


def surround(axes: Axes, layers: gpd.GeoDataFrame) -> None:
    """Draw what lies round the cells, under and over them."""
    draw_under(axes, layers)
    draw_over(axes, layers)


def map_panels(
    place: MapContext,
    titles: Sequence[str],
    key: Sequence[Artist],
    key_lines: int,
    named: bool = True,
) -> tuple[Figure, list[Axes], Axes]:
    """Maps side by side whose cells are still to be drawn, over the full width of a page.

    They are placed by hand. Matplotlib's layout does not foresee how maps shrink to their
    proportions: titles would overlap, and PNG and PDF would differ.

    Parameters
    ----------
    place
        The grid, and the title of the figure.
    titles
        Of the panels.
    key, key_lines
        Entries of the legend, if any, and how many lines they are.
    named
        Whether the first panel names districts.

    Returns
    -------
    The figure, the panels and a place for the colour bar.
    """
    corners, layers = place.corners, place.around
    # Four stand two by two: three and one would leave most of a row empty.
    columns = 2 if len(titles) == 4 else min(len(titles), _ACROSS)
    rows = -(-len(titles) // columns)
    pitch = (FULL_WIDTH - _LEFT) / columns
    width = pitch - _GAP
    height = height_of(corners, width)
    above = _LINE * _lines(*titles) + 0.08
    head = _LINE * _lines(place.title) + 0.12
    foot = _BAR + (_LINE * key_lines + 0.15 if key else 0.0)
    total = head + rows * (above + height + _BELOW) + foot
    figure = new_figure(total)
    figure.set_layout_engine("none")
    figure.suptitle(place.title, y=1.0 - 0.08 / total, va="top")

    def axes_at(left: float, low: float, wide: float, high: float) -> Axes:
        return figure.add_axes((left / FULL_WIDTH, low / total, wide / FULL_WIDTH, high / total))

    panels = []
    for index, panel in enumerate(titles):
        row, column = divmod(index, columns)
        low = total - head - (row + 1) * (above + height) - row * _BELOW
        axes = axes_at(_LEFT + column * pitch, low, width, height)
        surround(axes, layers)
        frame(axes, corners, margin=not layers.empty, ordinate=column == 0)
        axes.set_title(panel, loc="left")
        panels.append(axes)
        scale_bar(axes)
    if named:
        draw_names(panels[0], layers, width)
    attribute(panels[-1], layers)
    if key:
        figure.legend(handles=list(key), loc="lower center", ncols=2, handlelength=1.6)
    return figure, panels, axes_at(0.25 * FULL_WIDTH, foot - 0.18, 0.55 * FULL_WIDTH, 0.1)


def _lines(*titles: str) -> int:
    return max(1 + title.count("\n") for title in titles)
