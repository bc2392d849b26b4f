"""Shapes by which the cells and areas of a map are drawn."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import shapely

from shuffledp.numerics.arrays import Integers

_CIRCLE_SHARE: Final = 0.012  # largest radius of a point, relative to the extent of all


def as_polygons(shapes: Any) -> Any:
    """Return polygons as they are, and points as circles that hardly overlap.

    `shapes` are geometries in degrees without missing ones; the result is an array of them.
    """
    shapes = np.asarray(shapes)
    kinds = shapely.get_type_id(shapes)
    if not (kinds == shapely.GeometryType.POINT).all():
        return shapes
    x, y = shapely.get_x(shapes), shapely.get_y(shapes)
    narrow = np.cos(np.radians(np.clip(y.mean(), -85.0, 85.0)))  # of a degree of longitude
    extent = max(np.ptp(x) * narrow, np.ptp(y), 1e-3)
    flat = shapely.points(x * narrow, y)
    near = shapely.STRtree(flat).query_nearest(flat, exclusive=True, all_matches=False)
    distance = shapely.distance(flat[near[0]], flat[near[1]])
    half = 0.5 * float(np.median(distance)) if distance.size else extent
    radius = np.clip(half, 0.2 * _CIRCLE_SHARE * extent, _CIRCLE_SHARE * extent)
    circles = shapely.buffer(flat, radius, quad_segs=6)
    return shapely.transform(circles, lambda xy: xy / [narrow, 1.0])


def lines_between(geometry: Any, begin: Integers, end: Integers) -> Any:
    """Return straight lines, each from the middle of one shape to that of another.

    `begin` and `end` are the numbers of the shapes. A line is missing if one of the two shapes has
    no geometry.
    """
    middles = shapely.centroid(np.asarray(geometry))
    known = ~shapely.is_missing(middles)
    xy = np.zeros((len(middles), 2))
    xy[known] = shapely.get_coordinates(middles[known])
    lines = shapely.linestrings(np.stack([xy[begin], xy[end]], axis=1))
    lines[~(known[begin] & known[end])] = None
    return lines


def nearest_land(points: Any) -> Any:
    """Return for each point the land that is nearer to it than to any other point.

    It ends a little beyond the convex hull of all points, which are different geometries in
    degrees, at least two.
    """
    xy = shapely.get_coordinates(points)
    narrow = np.cos(np.radians(np.clip(xy[:, 1].mean(), -85.0, 85.0)))  # of a degree of longitude
    flat = shapely.multipoints(xy * [narrow, 1.0])
    extent = np.ptp(shapely.get_coordinates(flat), axis=0).max()
    reach = shapely.buffer(shapely.convex_hull(flat), 2.0 * _CIRCLE_SHARE * extent)
    land = shapely.get_parts(shapely.voronoi_polygons(flat, extend_to=reach))
    owner, number = shapely.STRtree(land).query(shapely.get_parts(flat), predicate="intersects")
    land = land[number[np.unique(owner, return_index=True)[1]]]
    land = shapely.intersection(land, reach)
    return shapely.transform(land, lambda xy: xy / [narrow, 1.0])


def joined(shapes: Any, group: Integers, groups: int) -> Sequence[Any]:
    """Return the union of the shapes of each group, None for a group without any."""
    shapes = np.asarray(shapes)
    drawn = ~shapely.is_missing(shapes)
    return [
        shapely.union_all(shapes[drawn & (group == number)], grid_size=1e-9)
        if (drawn & (group == number)).any()
        else None
        for number in range(groups)
    ]
