"""Base maps, drawn: land, water, district lines and names under and over the cells of a map."""

from pathlib import Path as FilePath
from typing import Final, NamedTuple

import geopandas as gpd
import numpy as np
import shapely
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.patheffects import withStroke

from shuffledp.figures.frame import BENEATH
from shuffledp.figures.glyphs import missing_glyphs
from shuffledp.geography.geojson import Shape, read_basemap
from shuffledp.geography.regions import read_outline
from shuffledp.numerics.arrays import Floats

_LAND: Final = "#F5F3EE"
_PARK: Final = "#DCE8CF"
_WATER: Final = "#C3DAE8"
_RIVER: Final = "#6FB0DC"
_HALO: Final = "white"
_INK: Final = "0.1"
_NAME_SIZE: Final = 5.0  # points
_GLYPH: Final = 0.65  # mean width of a character, as a share of its size
_ALONG: Final = (0.35, 0.65)  # of a river: where its name is written

_FINEST: Final = 0.008  # of a map's width: what is smaller cannot be seen in a column

_WGS84: Final = 4326
DISTRICTS: Final = ("district", "park")  # a park is the district that its cells lie in


def backdrop(basemap: FilePath | None = None, outline: FilePath | None = None) -> gpd.GeoDataFrame:
    """Read what a map of a region has beside its cells: its base map, and then its outline.

    Parameters
    ----------
    basemap, outline
        GeoJSON files, if there are any: as of `read_basemap`, and polygons.

    Returns
    -------
    Columns ``kind`` (as of `read_basemap`, and ``outline``), ``name``, ``attribution`` and
    ``geometry`` (WGS 84 degrees).

    Raises
    ------
    InputError
        As `read_basemap`.
    """
    shapes = read_basemap(basemap) if basemap is not None else []
    if outline is not None:
        nameless = {"kind": "outline", "name": "", "attribution": ""}
        shapes.append(Shape(read_outline(outline), nameless))
    columns = {
        key: [shape.properties[key] for shape in shapes] for key in ("kind", "name", "attribution")
    }
    return gpd.GeoDataFrame(columns, geometry=[shape.geometry for shape in shapes], crs=_WGS84)


def legible(layers: gpd.GeoDataFrame, width: float) -> gpd.GeoDataFrame:
    """Leave out of districts what would be a blot on a map of that width in degrees: piers.

    Neighbours keep their common borders.
    """
    districts = layers["kind"].isin(DISTRICTS)
    kept = layers.copy()
    kept.loc[districts, "geometry"] = shapely.coverage_simplify(
        layers.geometry[districts].to_numpy(), _FINEST * width
    )
    return kept


def draw_under(axes: Axes, layers: gpd.GeoDataFrame) -> None:
    """Fill water and land, in the order of the file: below everything else."""
    colours = {"district": _LAND, "park": _PARK, "water": _WATER}
    areas = layers[layers["kind"].isin(colours)]
    for kind, area in zip(areas["kind"], areas.geometry, strict=True):
        # Holes run the other way round, and so stay empty.
        rings = shapely.get_rings(shapely.get_parts(shapely.orient_polygons(area)))
        path = Path.make_compound_path(
            *(Path(shapely.get_coordinates(ring), closed=True) for ring in rings)
        )
        axes.add_artist(PathPatch(path, facecolor=colours[kind], linewidth=0.0, zorder=0))


def draw_over(axes: Axes, layers: gpd.GeoDataFrame) -> None:
    """Draw the borders of districts and water, rivers and the outline over the cells.

    Dark lines with a light rim show on cells of any colour, and are so thin that they hide none.
    """
    borders = layers[layers["kind"].isin([*DISTRICTS, "water"])].boundary
    _lines(axes, borders, _INK, 0.35, _HALO, 0.9)
    _lines(axes, layers[layers["kind"] == "river"].geometry, _RIVER, 2.0, _HALO, 2.8)
    _lines(axes, layers[layers["kind"] == "outline"].boundary, _INK, 0.9, _HALO, 1.9)


def _lines(
    axes: Axes, lines: gpd.GeoSeries, colour: str, width: float, rim: str, rim_width: float
) -> None:
    if lines.empty:
        return
    # Neighbours share borders: each is drawn once.
    merged = shapely.get_parts(shapely.line_merge(lines.union_all()))
    axes.add_collection(
        LineCollection(
            [shapely.get_coordinates(line) for line in merged],
            colors=colour,
            linewidths=width,
            path_effects=[withStroke(linewidth=rim_width, foreground=rim)],
            zorder=2,
        )
    )


class Named(NamedTuple):
    """A name on a map, and the two points that it is written along: as far apart as there is room.

    ``kind`` as `read_basemap` has it; ``ends`` are degrees from west to east, shape ``(2, 2)``.
    """

    kind: str
    name: str
    ends: Floats


def named_places(
    layers: gpd.GeoDataFrame, window: tuple[float, float, float, float]
) -> list[Named]:
    """Names of districts, the largest first, and then of rivers and places, where they have room.

    Parameters
    ----------
    layers
        As `backdrop` returns them.
    window
        West, south, east and north end of the map in degrees.
    """
    west, _, east, _ = window
    named = layers[layers["name"] != ""]
    seen = shapely.clip_by_rect(named.geometry.to_numpy(), *window)
    order = np.argsort(-shapely.area(seen), kind="stable")
    found = []
    for kind, name, shape in zip(
        named["kind"].iloc[order], named["name"].iloc[order], seen[order], strict=True
    ):
        if shape.is_empty:
            continue
        if kind == "river":
            longest = max(shapely.get_parts(shape), key=shapely.length)
            points = shapely.line_interpolate_point(longest, _ALONG, normalized=True)
            ends = shapely.get_coordinates(points)
        elif kind == "place":
            room = min(shape.x - west, east - shape.x)
            ends = np.array([[shape.x - room, shape.y], [shape.x + room, shape.y]])
        else:
            # At half its height a text is widest: a chord of the district has to hold it.
            middle = shape.representative_point()
            chord = shapely.LineString([(west, middle.y), (east, middle.y)])
            parts = shapely.get_parts(shape.intersection(chord))
            nearest = min(parts, key=lambda part: part.distance(middle))
            ends = shapely.get_coordinates(nearest)[[0, -1]]
        found.append(Named(str(kind), str(name), ends[np.argsort(ends[:, 0])]))
    return found


def draw_names(axes: Axes, layers: gpd.GeoDataFrame, width: float) -> None:
    """Name what has room for its name, and leaves room for the names before it.

    Parameters
    ----------
    axes
        Its limits are set.
    layers
        As `backdrop` returns them.
    width
        Of the axes in inches, about.
    """
    (west, east), (south, north) = axes.get_xlim(), axes.get_ylim()
    degrees = (east - west) / width * np.array([1.0, np.cos(np.radians((south + north) / 2.0))])
    # Middles and half widths, in inches; first those of the arrow to the north.
    corner = np.array([east, north]) / degrees - 6.0 / 72.0
    taken = [np.array([*corner - [0.0, down / 72.0], 8.0 / 72.0]) for down in (0.0, 5.0, 10.0)]
    for kind, name, ends in named_places(layers, (west, south, east, north)):
        across, up = np.diff(ends, axis=0)[0] / degrees  # inches
        long = len(name) * _GLYPH * _NAME_SIZE / 72.0
        if missing_glyphs(name) or np.hypot(across, up) < long:
            continue
        x, y = ends.mean(axis=0)
        box = np.array([*(np.array([x, y]) / degrees), long / 2.0])
        if kind == "place" and any(_meet(box, other) for other in taken):
            continue
        taken.append(box)
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


def _meet(one: Floats, other: Floats) -> bool:
    """Whether two names would be nearer than a sign, or a third of a line."""
    across, up = np.abs(one - other)[:2] - [one[2] + other[2], _NAME_SIZE / 72.0]
    return bool(across < _GLYPH * _NAME_SIZE / 72.0 and up < _NAME_SIZE / 216.0)


def attribute(axes: Axes, layers: gpd.GeoDataFrame) -> None:
    """Print the attributions of a base map below the right corner of a map, if it has any."""
    words = "; ".join(dict.fromkeys(each for each in layers["attribution"] if each))
    if words:
        axes.annotate(
            words,
            (1.0, 0.0),
            (0.0, BENEATH - 8.0),
            xycoords="axes fraction",
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=5.0,
            parse_math=False,
        )


def districts_at(layers: gpd.GeoDataFrame, points: Floats) -> list[str]:
    """Name the district that each point lies in.

    Parameters
    ----------
    layers
        As `backdrop` returns them.
    points
        Degrees, shape ``(number, 2)``.

    Returns
    -------
    An empty text where no district is, where it has no name, or one that cannot be written.
    """
    names = [""] * len(points)
    districts = layers[layers["kind"].isin(DISTRICTS)]
    for name, area in zip(districts["name"], districts.geometry, strict=True):
        if not missing_glyphs(name):
            for index in np.flatnonzero(shapely.intersects_xy(area, points)):
                names[index] = names[index] or name
    return names
