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
import pyarrow.parquet as pq
import shapely
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.collections import Collection, LineCollection, PathCollection
from matplotlib.colors import Colormap, ListedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path as Outline
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, ScalarFormatter
from matplotlib.transforms import ScaledTranslation
from numpy.typing import NDArray

from shuffledp.data.grid import windows_of
from shuffledp.data.layers import Shape
from shuffledp.data.regions import read_basemap, read_outline
from shuffledp.figures.style import FULL_WIDTH, missing_glyphs, new_figure
from shuffledp.numerics.arrays import Bools, Floats, Integers
from shuffledp.pipeline.tables import CHECKED, read_tables, reading

# --- Base maps: land and water under the cells; borders, rivers and names over them ---------------

_LAND: Final = "#F5F3EE"
_PARK: Final = "#DCE8CF"
_WATER: Final = "#C3DAE8"
_RIVER: Final = "#6FB0DC"
_HALO: Final = "white"
_INK: Final = "0.1"
_NAME_SIZE: Final = 6.0  # points
_NAME_GLYPH_WIDTH: Final = 0.65  # mean width of a character, as a share of the font size
_RIVER_NAME: Final = (0.35, 0.65)  # part of a river's length along which its name is written
_MIN_DETAIL: Final = 0.008  # share of a map's width; smaller details cannot be seen

_WGS84: Final = 4326
DISTRICT_KINDS: Final = ("district", "park")  # kinds of areas that give the cells in them a name


def backdrop(basemap: Path | None = None, outline: Path | None = None) -> gpd.GeoDataFrame:
    """Read the shapes of a region's base map, followed by the region's outline.

    The columns are ``kind`` (a kind listed in `read_basemap`, or ``outline``), ``name``,
    ``attribution`` and ``geometry`` (WGS 84 degrees).
    """
    shapes = read_basemap(basemap) if basemap is not None else []
    if outline is not None:
        nameless = {"kind": "outline", "name": "", "attribution": ""}
        shapes.append(Shape(read_outline(outline), nameless))
    columns = {
        key: [shape.properties[key] for shape in shapes] for key in ("kind", "name", "attribution")
    }
    return gpd.GeoDataFrame(columns, geometry=[shape.geometry for shape in shapes], crs=_WGS84)


def simplify_districts(layers: gpd.GeoDataFrame, width: float) -> gpd.GeoDataFrame:
    """Remove details of districts that are too small to see, such as piers.

    `width` is the width of the map in degrees. Neighbouring districts keep their common borders.
    """
    districts = layers["kind"].isin(DISTRICT_KINDS)
    kept = layers.copy()
    kept.loc[districts, "geometry"] = shapely.coverage_simplify(
        layers.geometry[districts].to_numpy(), _MIN_DETAIL * width
    )
    return kept


def draw_under(axes: Axes, layers: gpd.GeoDataFrame) -> None:
    """Fill districts, parks and water under everything else, in the order of the file."""
    colours = {"district": _LAND, "park": _PARK, "water": _WATER}
    areas = layers[layers["kind"].isin(colours)]
    for kind, area in zip(areas["kind"], areas.geometry, strict=True):
        # Holes have the opposite orientation and so remain empty.
        rings = shapely.get_rings(shapely.get_parts(shapely.orient_polygons(area)))
        path = Outline.make_compound_path(
            *(Outline(shapely.get_coordinates(ring), closed=True) for ring in rings)
        )
        axes.add_artist(PathPatch(path, facecolor=colours[kind], linewidth=0.0, zorder=0))


def draw_over(axes: Axes, layers: gpd.GeoDataFrame) -> None:
    """Draw borders of districts and water, rivers and the outline over the cells.

    Dark lines with a light halo are visible on any colour. They are thin enough to hide no cell.
    """
    borders = layers[layers["kind"].isin([*DISTRICT_KINDS, "water"])].boundary
    _draw_lines(axes, borders, _INK, 0.35, 0.9)
    _draw_lines(axes, layers[layers["kind"] == "river"].geometry, _RIVER, 2.0, 2.8)
    _draw_lines(axes, layers[layers["kind"] == "outline"].boundary, _INK, 0.9, 1.9)


def _draw_lines(
    axes: Axes, lines: gpd.GeoSeries, colour: str, width: float, halo_width: float
) -> None:
    if lines.empty:
        return
    # Neighbours share borders; each border is drawn once.
    merged = shapely.get_parts(shapely.line_merge(lines.union_all()))
    coordinates = [shapely.get_coordinates(line) for line in merged]
    halo = [withStroke(linewidth=halo_width, foreground=_HALO)]
    look: dict[str, Any] = {"colors": colour, "linewidths": width, "path_effects": halo}
    axes.add_collection(LineCollection(coordinates, zorder=2, **look))


def named_places(
    layers: gpd.GeoDataFrame, window: tuple[float, float, float, float]
) -> list[tuple[str, str, Floats]]:
    """Return kind, name and line of areas, the largest first, then of rivers and places.

    A name can be written along its line, of which the ends are given in degrees, the western one
    first, shape ``(2, 2)``. `window` has the west, south, east and north limits of the map.
    """
    west, _, east, _ = window
    named = layers[layers["name"] != ""]
    clipped = shapely.clip_by_rect(named.geometry.to_numpy(), *window)
    order = np.argsort(-shapely.area(clipped), kind="stable")
    places = []
    for kind, name, shape in zip(
        named["kind"].iloc[order], named["name"].iloc[order], clipped[order], strict=True
    ):
        if shape.is_empty:
            continue
        if kind == "river":
            longest = max(shapely.get_parts(shape), key=shapely.length)
            points = shapely.line_interpolate_point(longest, _RIVER_NAME, normalized=True)
            ends = shapely.get_coordinates(points)
        elif kind == "place":
            room = min(shape.x - west, east - shape.x)
            ends = np.array([[shape.x - room, shape.y], [shape.x + room, shape.y]])
        else:
            # The text must fit on the chord of the district at the latitude of the text.
            middle = shape.representative_point()
            chord = shapely.LineString([(west, middle.y), (east, middle.y)])
            parts = shapely.get_parts(shape.intersection(chord))
            nearest = min(parts, key=lambda part: part.distance(middle))
            ends = shapely.get_coordinates(nearest)[[0, -1]]
        places.append((str(kind), str(name), ends[np.argsort(ends[:, 0])]))
    return places


def draw_names(axes: Axes, layers: gpd.GeoDataFrame, width: float) -> None:
    """Write the names that fit into their areas and do not overlap names written before.

    The limits of the axes must be set. `width` is their approximate width in inches.
    """
    (west, east), (south, north) = axes.get_xlim(), axes.get_ylim()
    degrees_per_inch = (
        (east - west) / width * np.array([1.0, np.cos(np.radians((south + north) / 2.0))])
    )
    occupied = list[Floats]()  # middle and half width of each text in inches
    for kind, name, ends in named_places(layers, (west, south, east, north)):
        across, up = np.diff(ends, axis=0)[0] / degrees_per_inch
        length = len(name) * _NAME_GLYPH_WIDTH * _NAME_SIZE / 72.0
        if missing_glyphs(name) or np.hypot(across, up) < length:
            continue
        x, y = ends.mean(axis=0)
        box = np.array([*(np.array([x, y]) / degrees_per_inch), length / 2.0])
        if any(_overlap(box, other) for other in occupied):
            continue
        occupied.append(box)
        axes.text(
            x,
            y,
            name,
            fontsize=_NAME_SIZE,
            fontstyle="italic" if kind == "river" else "normal",
            rotation=np.degrees(np.arctan2(up, across)),
            rotation_mode="anchor",
            ha="center",
            va="center",
            color=_INK,
            parse_math=False,
            path_effects=[withStroke(linewidth=1.4, foreground=_HALO)],
            zorder=3,
        )


def _overlap(one: Floats, other: Floats) -> bool:
    """Return whether two names are less than a character (across) and a third of a line apart."""
    across, up = np.abs(one - other)[:2] - [one[2] + other[2], _NAME_SIZE / 72.0]
    return bool(across < _NAME_GLYPH_WIDTH * _NAME_SIZE / 72.0 and up < _NAME_SIZE / 216.0)


# --- Numbers, colours and sizes of all maps -------------------------------------------------------

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


# --- Outlines of cells as arrays, which need far less memory than polygons ------------------------

_WKB_HEADER: Final = 13  # bytes before the vertices of a polygon with one ring


@dataclass(frozen=True)
class CellShapes:
    """Outlines of k cells, each of one or more closed rings.

    `points` are the vertices of all rings, x = longitude and y = latitude in degrees, shape
    ``(vertices, 2)``; the last vertex of a ring is its first. `starts` has the index of the first
    vertex of each ring, then the number of all vertices, shape ``(rings + 1,)``. `cell_of_ring` is
    the number of the cell of each ring, ascending, shape ``(rings,)``. `middles` has a point inside
    each cell, shape ``(k, 2)``.
    """

    points: Floats
    starts: Integers
    cell_of_ring: Integers
    middles: Floats

    @classmethod
    def from_polygons(cls, polygons: Any) -> "CellShapes":
        """Return the outlines of an array of polygons and multipolygons."""
        parts, cell_of_part = shapely.get_parts(polygons, return_index=True)
        rings, part_of_ring = shapely.get_rings(parts, return_index=True)
        sizes = shapely.get_num_coordinates(rings)
        middles = shapely.centroid(polygons)
        outside = ~shapely.contains(polygons, middles)
        middles[outside] = shapely.point_on_surface(polygons[outside])
        return cls(
            shapely.get_coordinates(rings),
            np.concatenate([[0], np.cumsum(sizes)]),
            cell_of_part[part_of_ring],
            shapely.get_coordinates(middles),
        )

    @classmethod
    def read(cls, cells: Path, rows: slice | None = None) -> "CellShapes":
        """Read the outlines of cells that `shuffledp.data.grid.grid_checkins` wrote.

        Rectangles are read as arrays, because polygons would need five times the memory.
        """
        with reading(cells):
            rectangles = "row" in pq.read_schema(cells).names
            column = pq.read_table(cells, columns=["geometry"], **CHECKED)["geometry"]
        column = column.to_numpy()[rows or slice(None)]
        if not rectangles:
            return cls.from_polygons(shapely.from_wkb(column))
        # In well-known binary each rectangle is a header and five vertices.
        flat = np.array(column, dtype=bytes).view(np.uint8).reshape(len(column), -1)
        points = flat[:, _WKB_HEADER:].copy().view("<f8").reshape(len(column), 5, 2)
        return cls(
            points.reshape(-1, 2),
            np.arange(len(column) + 1) * 5,
            np.arange(len(column)),
            points[:, :-1].mean(axis=1),
        )

    def __len__(self) -> int:
        return len(self.middles)

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """West, south, east and north limits of all cells in degrees."""
        (west, south), (east, north) = self.points.min(axis=0), self.points.max(axis=0)
        return float(west), float(south), float(east), float(north)

    @property
    def sizes(self) -> Floats:
        """Width and height of each cell in degrees, shape ``(k, 2)``."""
        first = np.searchsorted(self.cell_of_ring, np.arange(len(self)))
        starts = self.starts[first]
        largest = np.maximum.reduceat(self.points, starts)
        smallest = np.minimum.reduceat(self.points, starts)
        extent: Floats = largest - smallest
        return extent

    def outline(self, mask: Bools) -> Outline:
        """Return one path that joins all cells of a mask of shape ``(k,)``."""
        kept = np.repeat(mask[self.cell_of_ring], np.diff(self.starts))
        return Outline(self.points[kept], self._codes()[kept])

    def outlines(self, mask: Bools) -> list[Outline]:
        """Return a path for each cell of a mask of shape ``(k,)``."""
        codes = self._codes()
        ends = self.starts[np.searchsorted(self.cell_of_ring, np.arange(len(self) + 1))]
        return [
            Outline(self.points[ends[i] : ends[i + 1]], codes[ends[i] : ends[i + 1]])
            for i in np.flatnonzero(mask)
        ]

    def _codes(self) -> NDArray[np.uint8]:
        codes = np.full(len(self.points), Outline.LINETO, dtype=np.uint8)
        codes[self.starts[:-1]] = Outline.MOVETO
        codes[self.starts[1:] - 1] = Outline.CLOSEPOLY
        return codes


# --- A grid with its surroundings -----------------------------------------------------------------


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
    and outline from `shuffledp.figures.map_panels.backdrop`, none by default. `unit` is that of the
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
