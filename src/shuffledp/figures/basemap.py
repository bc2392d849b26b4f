"""Draw base maps: land and water under the cells; borders, rivers and names over them."""

from pathlib import Path as FilePath
from typing import Final

import geopandas as gpd
import numpy as np
import shapely
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.patheffects import withStroke

from shuffledp.data.layers import Shape
from shuffledp.data.regions import read_basemap, read_outline
from shuffledp.figures.style import missing_glyphs
from shuffledp.numerics.arrays import Floats

_LAND: Final = "#F5F3EE"
_PARK: Final = "#DCE8CF"
_WATER: Final = "#C3DAE8"
_RIVER: Final = "#6FB0DC"
_HALO: Final = "white"
_INK: Final = "0.1"
_NAME_SIZE: Final = 6.0  # points
_GLYPH_WIDTH: Final = 0.65  # mean width of a character, as a share of the font size
_RIVER_NAME: Final = (0.35, 0.65)  # part of a river's length along which its name is written
_MIN_DETAIL: Final = 0.008  # share of a map's width; smaller details cannot be seen

_WGS84: Final = 4326
DISTRICT_KINDS: Final = ("district", "park")  # kinds of areas that give the cells in them a name


def backdrop(basemap: FilePath | None = None, outline: FilePath | None = None) -> gpd.GeoDataFrame:
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
        path = Path.make_compound_path(
            *(Path(shapely.get_coordinates(ring), closed=True) for ring in rings)
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
    axes.add_collection(
        LineCollection(
            [shapely.get_coordinates(line) for line in merged],
            colors=colour,
            linewidths=width,
            path_effects=[withStroke(linewidth=halo_width, foreground=_HALO)],
            zorder=2,
        )
    )


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
        length = len(name) * _GLYPH_WIDTH * _NAME_SIZE / 72.0
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
    return bool(across < _GLYPH_WIDTH * _NAME_SIZE / 72.0 and up < _NAME_SIZE / 216.0)
