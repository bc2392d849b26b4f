"""Parts of figures with maps of a grid: axes, coloured and hatched cells, legends and layout."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NotRequired, TypedDict, Unpack

import geopandas as gpd
import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import Collection, PathCollection
from matplotlib.colors import Colormap, ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path as Outline
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, ScalarFormatter
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from shuffledp.data.grid import windows_of
from shuffledp.figures.basemap import (
    backdrop,
    draw_names,
    draw_over,
    draw_under,
    simplify_districts,
)
from shuffledp.figures.cell_shapes import CellShapes
from shuffledp.figures.style import FULL_WIDTH, new_figure
from shuffledp.numerics.arrays import Floats
from shuffledp.pipeline.tables import read_tables

PLAIN_NUMBERS: Final = FuncFormatter(
    lambda count, _: f"{count:,.10g}".replace("-", "\N{MINUS SIGN}")
)
# Large counts are dark; even the lightest colour stands out from paper and land.
COUNT_COLOURS: Final = ListedColormap(
    mpl.colormaps["YlGnBu"](np.linspace(0.16, 1.0, 256)), "counts"
)
_MAX_COLUMNS: Final = 3  # panels in a row
# Inches.
_LINE_HEIGHT: Final = 0.155
_LEFT_MARGIN: Final = 0.62  # room for latitudes
_PANEL_GAP: Final = 0.13
_BELOW_PANEL: Final = 0.68  # room for longitudes, scale bar and attribution
_COLOUR_BAR: Final = 0.62  # height of the colour bar with its labels
_RASTERISE_FROM: Final = 20_000  # cells; vector files of more polygons are unwieldy

_BELOW_LABELS: Final = -34.0  # points from a map's lower edge to the scale bar below its labels
_KM_PER_DEGREE: Final = 111.32  # along the equator
_TICK_STEPS: Final = (1, 2, 5, 10)
_TICK_MARGIN: Final = 0.08  # share of a map's width that half a label takes
_MAP_MARGIN: Final = 0.05  # share of the cells' width and height


class MapFiles(TypedDict):
    """Files of the grid and, where there are any, of a base map and an outline."""

    cells: Path
    basemap: NotRequired[Path | None]
    outline: NotRequired[Path | None]


@dataclass(frozen=True)
class MapContext:
    """A grid with its surroundings, and the title of the figure.

    `cells` needs ``name`` where cells are named, ``count`` where true counts are drawn, and
    ``geometry`` (WGS 84 degrees) unless the shapes were read separately. `layers` are the base map
    and outline from `shuffledp.figures.basemap.backdrop`, none by default. `unit` is that of the
    guarantee (`shuffledp.pipeline.units.unit_in_words`). `window` selects the counts that the map
    shows from a histogram over several windows of time. With `margin`, the map shows surroundings
    of the cells, as it does with any layers.
    """

    cells: pd.DataFrame
    title: str
    layers: gpd.GeoDataFrame = field(default_factory=backdrop)
    unit: str = "one check-in"
    window: slice = field(default_factory=lambda: slice(None))
    margin: bool = False

    @classmethod
    def read(
        cls, title: str, unit: str, *, whole: bool = False, **files: Unpack[MapFiles]
    ) -> "MapContext":
        """Read grid and surroundings from their files.

        If there are several windows of time, the map shows the one with the most records or, with
        `whole`, the sum of all.
        """
        layers = backdrop(files.get("basemap"), files.get("outline"))
        cells, window = read_tables([files["cells"]], ["name", "count"]), slice(None)
        windows = windows_of(files["cells"])
        if len(windows) > 1:
            k = len(cells) // len(windows)
            counts = cells["count"].to_numpy().reshape(-1, k)
            busiest = int(counts.sum(axis=1).argmax())
            window = slice(busiest * k, (busiest + 1) * k)
            cells = cells.iloc[window].reset_index(drop=True)
            if whole:
                cells = cells.assign(count=counts.sum(axis=0))
            else:
                title = f"{title}\nThe busiest window: {windows[busiest]}"
        context = cls(cells, title, layers, unit, window)
        # Set the cached property, because these cells have no geometry.
        vars(context)["shapes"] = CellShapes.read(files["cells"], window)
        return context

    @cached_property
    def shapes(self) -> CellShapes:
        """Outlines of the cells."""
        return CellShapes.from_polygons(self.cells["geometry"].to_numpy())

    @cached_property
    def visible_layers(self) -> gpd.GeoDataFrame:
        """The layers, without details that are too small to see at the width of the grid."""
        west, _, east, _ = self.shapes.bounds
        return simplify_districts(self.layers, east - west)


# --- Axes of one map ---------------------------------------------------------------------


def draw_base_map(axes: Axes, place: MapContext, *, ordinate: bool) -> None:
    """Draw everything on a map except the cells, with labels of latitudes if `ordinate`.

    The aspect ratio is right at the middle latitude.
    """
    draw_under(axes, place.visible_layers)
    draw_over(axes, place.visible_layers)
    west, south, east, north = place.shapes.bounds
    margin = place.margin or not place.visible_layers.empty
    beside, beyond = (margin * _MAP_MARGIN * each for each in (east - west, north - south))
    west, south, east, north = west - beside, south - beyond, east + beside, north + beyond
    axes.set(xlim=(west, east), ylim=(south, north))
    axes.set_aspect(1.0 / np.cos(np.radians((south + north) / 2.0)))
    axes.set_xlabel("longitude (degrees east)")
    axes.xaxis.set_major_locator(FixedLocator(_inner_ticks(west, east)))
    axes.yaxis.set_major_locator(MaxNLocator(3, steps=_TICK_STEPS))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(ScalarFormatter(useOffset=False))
    if ordinate:
        axes.set_ylabel("latitude (degrees north)")
    else:
        axes.tick_params(labelleft=False)
    axes.spines[["top", "right"]].set_visible(True)
    draw_scale_bar(axes)


def _inner_ticks(low: float, high: float) -> list[float]:
    """Return two or more round numbers, away from the edges and so from the next map's labels."""
    edge = _TICK_MARGIN * (high - low)
    low, high = low + edge, high - edge
    # MaxNLocator adds one tick beyond either end.
    ticks = MaxNLocator(3, steps=_TICK_STEPS, min_n_ticks=2).tick_values(low, high)
    return [float(tick) for tick in ticks if low <= tick <= high]


def draw_scale_bar(axes: Axes) -> None:
    """Draw a scale bar of a round length and a north arrow below the map.

    The length is 1, 2 or 5 times a power of ten, at most a quarter of the map's width.
    """
    (west, east), (south, north) = axes.get_xlim(), axes.get_ylim()
    per_degree = _KM_PER_DEGREE * np.cos(np.radians((south + north) / 2.0))
    longest = 0.25 * (east - west) * per_degree
    decade = 10.0 ** np.floor(np.log10(longest))
    length = decade * max(step for step in (1, 2, 5) if step * decade <= longest)
    label = f"{length:g} km" if length >= 1 else f"{1000 * length:g} m"
    share = length / per_degree / (east - west)
    figure = axes.get_figure()
    assert figure is not None
    row = axes.transAxes + ScaledTranslation(0.0, _BELOW_LABELS / 72.0, figure.dpi_scale_trans)
    bracket = "|-|,widthA=0.25,widthB=0.25"
    axes.annotate(
        "",
        (0.0, 0.0),
        (share, 0.0),
        xycoords=row,
        arrowprops={"arrowstyle": bracket, "lw": 1, "shrinkA": 0, "shrinkB": 0},
        annotation_clip=False,
    )
    look: dict[str, Any] = {"textcoords": "offset points", "va": "center", "annotation_clip": False}
    axes.annotate(label, (share, 0.0), (4, 0), xycoords=row, ha="left", fontsize=7, **look)
    # Beside the longest label of a length: on the map, the arrow might cover cells.
    beside = row + ScaledTranslation(44.0 / 72.0, 7.0 / 72.0, figure.dpi_scale_trans)
    axes.annotate(
        "N",
        (share, 0.0),
        (0.0, -14.0),
        xycoords=beside,
        ha="center",
        fontsize=6,
        arrowprops={"arrowstyle": "->", "lw": 0.8, "shrinkA": 0, "shrinkB": 0},
        **look,
    )


def draw_attribution(axes: Axes, layers: gpd.GeoDataFrame) -> None:
    """Print the attributions of a base map, if any, below the right corner of a map."""
    attributions = "; ".join(dict.fromkeys(each for each in layers["attribution"] if each))
    if attributions:
        axes.annotate(
            attributions,
            (1.0, 0.0),
            (0.0, _BELOW_LABELS - 15.0),  # below the arrow of the scale bar
            xycoords="axes fraction",
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=6.0,
            parse_math=False,
        )


# --- Cells -------------------------------------------------------------------------------


def is_fine(cells: int) -> bool:
    """Return whether a grid has so many cells that vector files contain them as pixels."""
    return cells > _RASTERISE_FROM


@dataclass(frozen=True)
class Fill:
    """Look of cells that are not on the colour scale; `line` is the width of their borders."""

    face: str
    edge: str
    hatch: str
    line: float = 0.0


def draw_values(
    axes: Axes,
    shapes: CellShapes,
    values: Floats,
    shown: NDArray[np.bool_],
    norm: Normalize,
    colours: str | Colormap = COUNT_COLOURS,
) -> Collection:
    """Colour the cells of the mask `shown` by their values, shape ``(k,)`` each."""
    look: dict[str, Any] = {"cmap": colours, "norm": norm, "edgecolors": "face", "linewidths": 0.2}
    collection: Collection
    if is_fine(len(values)):
        paths, array = _join_by_colour(shapes, values, shown, norm, colours)
        collection = PathCollection(paths, array=array, rasterized=True, **look)
    else:
        collection = PathCollection(shapes.outlines(shown), array=values[shown], **look)
    axes.add_collection(collection)
    return collection


def _join_by_colour(
    shapes: CellShapes,
    values: Floats,
    shown: NDArray[np.bool_],
    norm: Normalize,
    colours: str | Colormap,
) -> tuple[list[Outline], Floats]:
    """Return a path for each colour that joins its cells, and the value of one of these cells.

    Separate paths would take a kilobyte per cell, several times over while a figure is saved.
    """
    rgba = ScalarMappable(norm, colours).to_rgba(values[shown], bytes=True)
    _, first, colour = np.unique(rgba.view(np.uint32), return_index=True, return_inverse=True)
    colour_of_cell = np.full(len(values), -1)
    colour_of_cell[shown] = colour.ravel()
    paths = [shapes.outline(colour_of_cell == number) for number in range(first.size)]
    return paths, values[shown][first]


def draw_hatch(axes: Axes, shapes: CellShapes, mask: NDArray[np.bool_], fill: Fill) -> None:
    """Hatch the cells of a mask ``(k,)``."""
    line = 0.0 if is_fine(len(mask)) else fill.line
    look = {"facecolor": fill.face, "edgecolor": fill.edge, "hatch": fill.hatch, "linewidth": line}
    _add_patch(axes, shapes.outline(mask), len(mask), **look)


def draw_triangles(
    axes: Axes, shapes: CellShapes, mask: NDArray[np.bool_], *, up: bool = False
) -> None:
    """Mark the cells of a mask ``(k,)`` with a triangle that points down or `up`."""
    middle, size = shapes.middles[mask, None], shapes.sizes[mask, None]
    triangle = np.array([[-0.18, 0.15], [0.18, 0.15], [0.0, -0.15], [-0.18, 0.15]])
    if up:
        triangle = triangle * [1.0, -1.0]
    look = {"facecolor": "black", "edgecolor": "white", "linewidth": 0.3}
    path = Outline.make_compound_path_from_polys(middle + triangle * size)
    _add_patch(axes, path, len(mask), **look)


def _add_patch(axes: Axes, path: Outline, cells: int, **look: Any) -> None:
    # One path joins all shapes, because hatching is slow for each path but not for each cell.
    # add_patch, unlike add_artist, would derive limits, which are set elsewhere, from every cell.
    axes.add_artist(PathPatch(path, rasterized=is_fine(cells), **look))


def fill_legend(fills: Sequence[tuple[Fill, str]]) -> list[Patch]:
    """Return legend entries of cells that are not on the colour scale, with their labels."""
    return [
        Patch(facecolor=f.face, edgecolor=f.edge, hatch=f.hatch, linewidth=0.4, label=label)
        for f, label in fills
    ]


# --- Layout ------------------------------------------------------------------------------


def map_height(shapes: CellShapes, width: float) -> float:
    """Return the height of a map in inches, between 0.8 and 8, for its width in inches."""
    west, south, east, north = shapes.bounds
    latitude = np.radians((south + north) / 2.0)
    return float(np.clip(width * (north - south) / ((east - west) * np.cos(latitude)), 0.8, 8.0))


def map_panels(
    place: MapContext, titles: Sequence[str], legend: Sequence[Artist], *, named: bool = True
) -> tuple[Figure, list[Axes], Axes]:
    """Return a figure with maps side by side, their axes without cells, and axes for a colour bar.

    The panels are placed explicitly. Matplotlib's layout ignores that maps shrink to keep their
    aspect ratio: titles would overlap, and PNG and PDF would differ. `legend` takes one line;
    the first panel shows the names on the base map if `named`.
    """
    layers = place.visible_layers
    # Four panels are two by two: three and one would leave most of a row empty.
    columns = 2 if len(titles) == 4 else min(len(titles), _MAX_COLUMNS)
    rows = -(-len(titles) // columns)
    pitch = (FULL_WIDTH - _LEFT_MARGIN) / columns
    width = pitch - _PANEL_GAP
    height = map_height(place.shapes, width)
    above = _LINE_HEIGHT * _count_lines(*titles) + 0.08
    head = _LINE_HEIGHT * _count_lines(place.title) + 0.12
    foot = _COLOUR_BAR + (_LINE_HEIGHT + 0.15 if legend else 0.0)
    total = head + rows * (above + height + _BELOW_PANEL) + foot
    figure = new_figure(total)
    figure.set_layout_engine("none")
    figure.suptitle(place.title, y=1.0 - 0.08 / total, va="top")

    def axes_at(left: float, low: float, wide: float, high: float) -> Axes:
        return figure.add_axes((left / FULL_WIDTH, low / total, wide / FULL_WIDTH, high / total))

    panels = []
    for index, title in enumerate(titles):
        row, column = divmod(index, columns)
        low = total - head - (row + 1) * (above + height) - row * _BELOW_PANEL
        axes = axes_at(_LEFT_MARGIN + column * pitch, low, width, height)
        draw_base_map(axes, place, ordinate=column == 0)
        axes.set_title(title, loc="left")
        panels.append(axes)
    if named:
        draw_names(panels[0], layers, width)
    draw_attribution(panels[-1], layers)
    if legend:
        figure.legend(handles=list(legend), loc="lower center", ncols=2, handlelength=1.6)
    return figure, panels, axes_at(0.25 * FULL_WIDTH, foot - 0.18, 0.55 * FULL_WIDTH, 0.1)


def add_colour_bar(
    bar: Axes, collection: Collection, label: str, *, extend: str = "neither"
) -> None:
    """Draw the horizontal colour bar of a collection of cells; `extend` is as in matplotlib."""
    bar.figure.colorbar(
        collection,
        cax=bar,
        orientation="horizontal",
        format=PLAIN_NUMBERS,
        label=label,
        extend=extend,
    )


def _count_lines(*titles: str) -> int:
    return max(1 + title.count("\n") for title in titles)
