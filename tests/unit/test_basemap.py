"""Base maps are read, refused if unusable, and drawn."""

import json
from pathlib import Path

import numpy as np
import pytest
import shapely
from matplotlib.figure import Figure
from town import town_cells

from shuffledp.figures import map_panels, maps
from shuffledp.figures.map_panels import MapContext

SHIPPED = Path(__file__).parents[2] / "resources" / "basemaps"


def square(west, south, side):
    east, north = west + side, south + side
    return [[west, south], [east, south], [east, north], [west, north], [west, south]]


def feature(form, coordinates, **properties):
    geometry = {"type": form, "coordinates": coordinates}
    return {"type": "Feature", "properties": properties, "geometry": geometry}


def written(folder, *features):
    path = folder / "map.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


RIVER = feature("LineString", [[2.0, 60.02], [2.04, 60.025]], attribution="Sea: nobody")


@pytest.fixture
def cells():
    return town_cells(count=np.zeros(12, dtype=int))


def two_panels(cells, layers) -> Figure:
    shares = np.full(12, 1 / 12)
    return maps.estimate_maps(
        MapContext(cells, "T", layers), {"Original": shares, "Other": shares}, 24
    )


@pytest.mark.parametrize(
    ("city", "source"),
    [
        ("san_francisco", "DataSF, Planning Neighborhoods (PDDL)"),
        ("paris", "Ville de Paris (ODbL)"),
    ],
)
def test_shipped_maps_name_their_source(city, source):
    (attribution,) = set(map_panels.backdrop(SHIPPED / f"{city}.geojson")["attribution"]) - {""}
    assert attribution.endswith(source)


def test_properties_are_optional_and_heights_are_left_out(tmp_path):
    ring = [[*point, 7.0] for point in square(0, 0, 1)]
    odd = feature("Polygon", [ring], name=None, attribution=["a", {"b": 1}], kind=3)
    nameless_place = feature("Point", [2.0, 60.0])  # nothing to show
    layers = map_panels.backdrop(written(tmp_path, odd, nameless_place, RIVER))
    assert layers[["kind", "name"]].values.tolist() == [["district", ""], ["river", ""]]
    assert not layers.geometry.has_z.any()
    assert layers.crs == "EPSG:4326"


def test_an_outline_is_drawn_whole(tmp_path, cells):
    # Points and lines in the file do not belong to the region.
    part = feature("Polygon", [square(2.0, 60.0, 0.03)])["geometry"]
    several = feature("Point", [2.0, 60.0]) | {
        "geometry": {"type": "GeometryCollection", "geometries": [part, RIVER["geometry"]]}
    }
    path = written(tmp_path, several, feature("Point", [2.0, 60.0]))
    figure = two_panels(cells, map_panels.backdrop(outline=path))
    (line,) = (c for c in figure.axes[0].collections if c.get_zorder() == 2)
    (segment,) = line.get_segments()
    assert shapely.Polygon(segment).equals(shapely.Polygon(square(2.0, 60.0, 0.03)))
