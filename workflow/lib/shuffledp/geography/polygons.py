"""Stand-in until the reader of polygon files lands."""

from pathlib import Path

import geopandas as gpd

from shuffledp.geography.geojson import read_shapes


def read_polygons(
    path: Path, *, name: str | None = None, identifier: str | None = None
) -> gpd.GeoDataFrame:
    shapes = [
        s
        for s in read_shapes(path, "cells")
        if s.geometry.geom_type in ("Polygon", "MultiPolygon")
        and s.properties.get("kind", "district") == "district"
    ]
    ids = [str(s.properties[identifier]) if identifier else str(i) for i, s in enumerate(shapes, 1)]
    names = [str(s.properties.get(name or "name", i)) for i, s in zip(ids, shapes)]
    return gpd.GeoDataFrame(
        {"id": ids, "name": names}, geometry=[s.geometry for s in shapes], crs=4326
    )
