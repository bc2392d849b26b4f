"""Regions are boxes or outlines, and everything else is refused."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shuffledp.data.regions import Box, Region, region_from_config

SQUARE = [[[2.0, 48.0], [3.0, 48.0], [3.0, 49.0], [2.0, 49.0], [2.0, 48.0]]]
HOLE = [[2.4, 48.4], [2.4, 48.6], [2.6, 48.6], [2.6, 48.4], [2.4, 48.4]]
POINT = {"type": "Feature", "properties": {}, "geometry": {"type": "Point", "coordinates": [2, 48]}}


def polygon(coordinates):
    return {"type": "Polygon", "coordinates": coordinates}


def feature(geometry):
    return {"type": "Feature", "properties": None, "geometry": geometry}


def collection(*features):
    return {"type": "FeatureCollection", "features": list(features)}


def outlined(tmp_path, document) -> Region:
    path = tmp_path / "outline.geojson"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return region_from_config("ville", {"outline": str(path)})


def inside(region, *points):
    latitude, longitude = np.array(points, dtype=float).T
    return region.contains(latitude, longitude).tolist()


def test_box_includes_its_borders():
    region = region_from_config("r", {"box": {"south": 1, "north": 2, "west": 3.0, "east": 4.0}})
    assert region == Region("r", Box(1, 2, 3.0, 4.0))
    corners = [(1, 3), (1, 4), (2, 3), (2, 4), (1.5, 3.5)]
    assert inside(region, *corners) == [True] * 5
    beyond = [(np.nextafter(1, 0), 3), (1, np.nextafter(4, 5)), (3.5, 1.5), (math.nan, 3)]
    assert inside(region, *beyond) == [False] * 4


@given(
    south=st.floats(-90, 90),
    north=st.floats(-90, 90),
    west=st.floats(-180, 180),
    east=st.floats(-180, 180),
)
def test_any_box_is_either_refused_or_in_order(south, north, west, east):
    if south < north and west < east:
        region = Region("r", Box(south, north, west, east))
        assert inside(region, (south, west), (north, east)) == [True, True]
    else:
        with pytest.raises(ValueError, match=r"box\.(south|west) must be below box\.(north|east)"):
            Box(south, north, west, east)


BOX_KEYS = "box must have the keys south, north, west and east"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"title": "Ville"}, r"must have .*, got neither"),
        ({"box": {}, "outline": "x"}, r"must have .*, got both"),
        ({"outline": "none.geojson"}, r"outline: .*none\.geojson cannot be read"),
        *(({"box": box}, BOX_KEYS) for box in ([48, 49, 2, 3], {"south": 1}, None, {"top": 1})),
    ],
)
def test_a_region_has_either_a_box_or_an_outline(spec, message):
    with pytest.raises(ValueError, match=rf"regions\.ville.*{message}"):
        region_from_config("ville", spec)


@pytest.mark.parametrize(
    "document",
    [
        polygon([*SQUARE, HOLE]),
        {"type": "MultiPolygon", "coordinates": [[*SQUARE, HOLE]]},
        feature(polygon([*SQUARE, HOLE])),
        collection(POINT, feature(None), feature(polygon([*SQUARE, HOLE]))),
        {"type": "GeometryCollection", "geometries": [polygon([*SQUARE, HOLE])]},
    ],
)
def test_outlines(tmp_path, document):
    region = outlined(tmp_path, document)
    assert region.name == "ville"
    assert region.box == Box(south=48, north=49, west=2, east=3)
    points = [(48.1, 2.1), (48, 2.5), (49, 3), (48.4, 2.5), (48.5, 2.5), (47.9, 2.5)]
    assert inside(region, *points) == [True, True, True, True, False, False]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ('{"a": 1}', "is not GeoJSON: it has no type"),
        (POINT, r"contains no Polygon or MultiPolygon \(it has Point\)"),
        ({"type": "FeatureCollection"}, "it is malformed .*features"),
        (polygon([[[2, 48], [3, 49], [3, 48], [2, 49], [2, 48]]]), "Self-intersection"),
        (polygon([[[6e5, 5e6], [7e5, 5e6], [7e5, 6e6], [6e5, 5e6]]]), "box.south must be a number"),
    ],
)
def test_wrong_outlines(tmp_path, document, message):
    with pytest.raises(ValueError, match=message) as caught:
        outlined(tmp_path, document)
    assert str(caught.value).startswith("regions.ville.")


def _rectangle(west, east):
    return [[west, -19], [east, -19], [east, -16], [west, -16], [west, -19]]


@pytest.mark.parametrize(
    "document",
    [
        # RFC 7946 cuts shapes at the meridian; the last document is what many programs write.
        {"type": "MultiPolygon", "coordinates": [[_rectangle(177, 180)], [_rectangle(-180, -178)]]},
        collection(
            feature(polygon([_rectangle(177, 180)])), feature(polygon([_rectangle(-180, -178)]))
        ),
        polygon([_rectangle(177, -178)]),
    ],
)
def test_an_outline_across_the_180th_meridian_is_refused(tmp_path, document):
    with pytest.raises(ValueError, match="180th meridian, split it into two regions") as caught:
        outlined(tmp_path, document)
    assert str(caught.value).startswith("regions.ville.outline: ")
