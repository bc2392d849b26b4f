"""Base maps are read, refused if unusable, and drawn."""

import json
from pathlib import Path

import numpy as np
import pytest
import shapely
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from town import town_cells

from shuffledp.figures import basemap, maps
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


SEA = feature("Polygon", [square(1.0, 59.0, 2.0)], kind="water", attribution="Sea: nobody")
LAND = feature(
    "MultiPolygon",
    [[square(2.0, 60.0, 0.02), square(2.005, 60.005, 0.005)], [square(2.03, 60.0, 0.005)]],
    name="Hole",
)
RIVER = feature("LineString", [[2.0, 60.02], [2.04, 60.025]], attribution="Sea: nobody")


@pytest.fixture
def cells():
    return town_cells(count=np.zeros(12, dtype=int))


def two_panels(cells, layers) -> Figure:
    shares = np.full(12, 1 / 12)
    return maps.estimate_maps(
        MapContext(cells, "T", layers), {"Original": shares, "Other": shares}, 24
    )


def written_in(axes):
    return [text.get_text() for text in axes.texts]


@pytest.mark.parametrize(
    ("city", "kinds", "source"),
    [
        (
            "san_francisco",
            {"district": 35, "park": 2, "place": 2, "water": 1},
            "DataSF, Planning Neighborhoods (PDDL)",
        ),
        ("paris", {"district": 20, "place": 9, "river": 1}, "Ville de Paris (ODbL)"),
    ],
)
def test_shipped_maps_name_their_source(city, kinds, source):
    layers = basemap.backdrop(SHIPPED / f"{city}.geojson")
    assert layers["kind"].value_counts().to_dict() == kinds
    (attribution,) = set(layers["attribution"]) - {""}
    assert attribution.endswith(source)
    assert f"`{city}.geojson`" in (SHIPPED / "README.md").read_text()


def test_properties_are_optional_and_heights_are_left_out(tmp_path):
    ring = [[*point, 7.0] for point in square(0, 0, 1)]
    odd = feature("Polygon", [ring], name=None, attribution=["a", {"b": 1}], kind=3)
    nameless_place = feature("Point", [2.0, 60.0])  # nothing to show
    layers = basemap.backdrop(written(tmp_path, odd, nameless_place, RIVER))
    assert layers[["kind", "name"]].values.tolist() == [["district", ""], ["river", ""]]
    assert not layers.geometry.has_z.any()
    assert layers.crs == "EPSG:4326"


def drawn(layers):
    figure = Figure(figsize=(6, 6))
    axes = figure.subplots()
    axes.set(xlim=(1.99, 2.05), ylim=(59.99, 60.05))
    basemap.draw_under(axes, layers)
    return figure, axes


def colour_at(figure, axes, longitude, latitude):
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    x, y = axes.transData.transform((longitude, latitude))
    return np.asarray(canvas.buffer_rgba())[-round(y), round(x), :3] / 255


def test_land_lies_on_water_holes_stay_open_and_a_park_is_green(tmp_path):
    """The district has two parts and a hole."""
    park = feature("Polygon", [square(2.04, 60.0, 0.005)], name="Wood", kind="park")
    figure, axes = drawn(basemap.backdrop(written(tmp_path, SEA, LAND, park)))
    red, green, blue = colour_at(figure, axes, 2.0425, 60.0025)
    assert green > red > blue
    land, water = colour_at(figure, axes, 2.015, 60.015), colour_at(figure, axes, 2.045, 60.04)
    assert not np.allclose(land, water, atol=0.05)
    np.testing.assert_array_equal(colour_at(figure, axes, 2.0325, 60.0025), land)
    np.testing.assert_array_equal(colour_at(figure, axes, 2.0075, 60.0075), water)
    grey = [np.dot((0.3, 0.59, 0.11), each) for each in (land, water)]
    assert grey[0] - grey[1] > 0.08, "land is lighter than water without colours, too"


def test_lines_are_over_the_cells_of_every_panel(tmp_path, cells):
    figure = two_panels(cells, basemap.backdrop(written(tmp_path, SEA, LAND, RIVER)))
    for axes in figure.axes[:2]:
        lines = [c for c in axes.collections if c.get_zorder() == 2]
        river = [s for c in lines for s in c.get_segments() if len(s) == 2]
        np.testing.assert_array_equal(river, [RIVER["geometry"]["coordinates"]])
        assert max(c.get_zorder() for c in axes.collections if c not in lines) < 2
        assert axes.get_xlim() == pytest.approx((1.998, 2.042)), "a margin round the cells"
    assert [written_in(axes).count("Sea: nobody") for axes in figure.axes[:2]] == [0, 1]
    assert ["Hole" in written_in(axes) for axes in figure.axes[:2]] == [True, False]


def test_an_outline_is_drawn_whole(tmp_path, cells):
    # Points and lines in the file do not belong to the region.
    part = feature("Polygon", [square(2.0, 60.0, 0.03)])["geometry"]
    several = feature("Point", [2.0, 60.0]) | {
        "geometry": {"type": "GeometryCollection", "geometries": [part, RIVER["geometry"]]}
    }
    path = written(tmp_path, several, feature("Point", [2.0, 60.0]))
    figure = two_panels(cells, basemap.backdrop(outline=path))
    (line,) = (c for c in figure.axes[0].collections if c.get_zorder() == 2)
    (drawn,) = line.get_segments()
    assert shapely.Polygon(drawn).equals(shapely.Polygon(square(2.0, 60.0, 0.03)))


def boxes(figure):
    """Return the boxes of maps with their texts, colour bar, title and legend."""
    figure.draw_without_rendering()
    (title,) = (text for text in figure.texts if text.get_text() == figure.get_suptitle())
    return [each.get_tightbbox() for each in (*figure.axes, *figure.legends, title)]
