"""Hexagons and polygons of a file cover their region, and locate every point as others do."""

import geopandas as gpd
import h3
import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from unit.layers import written

from shuffledp.data.cells import all_hexagons, cropping_region, make_cells
from shuffledp.data.regions import Box, Region, region_from_config
from shuffledp.data.values import to_identifier
from shuffledp.errors import InputError

PARIS = Region("paris", Box(south=48.8286, north=48.8798, west=2.2855, east=2.3909))


@pytest.fixture(scope="module")
def holed(tmp_path_factory):
    """A ring, the square in its hole, and a multipolygon that touches the ring."""
    ring = shapely.Polygon(
        [(0, 0), (6, 0), (6, 6), (0, 6)], holes=[[(2, 2), (4, 2), (4, 4), (2, 4)]]
    )
    parts = shapely.MultiPolygon([shapely.box(6, 0, 8, 2), shapely.box(7, 3, 8, 6)])
    names = {"code": ["c0", "c1", "c2"], "label": ["cell 0", "cell 1", "cell 2"]}
    table = gpd.GeoDataFrame(names, geometry=[ring, shapely.box(2, 2, 4, 4), parts], crs=4326)
    return written(tmp_path_factory.mktemp("cells"), table, "geojson")


def random_points(box, n, seed=0):
    random = np.random.default_rng(seed)
    return random.uniform(box.south, box.north, n), random.uniform(box.west, box.east, n)


def lowest_by_join(cells, latitude, longitude):
    """Return the lowest cell that each point intersects, by a spatial join of geopandas."""
    points = gpd.GeoDataFrame(geometry=gpd.points_from_xy(longitude, latitude), crs="EPSG:4326")
    joined = gpd.sjoin(points, cells.table[["cell", "geometry"]], predicate="intersects")
    return joined.groupby(level=0)["cell"].min().reindex(points.index, fill_value=-1).to_numpy()


def test_points_are_in_the_same_polygons_as_by_a_spatial_join(holed):
    cells = make_cells(Region("r", Box(-1, 7, -1, 9)), {"cells": {"path": str(holed)}})
    latitude, longitude = random_points(Box(-1, 7, -1, 9), 100_000)
    # Some lie on borders and corners.
    latitude[::7], longitude[::5] = np.round(latitude[::7]), np.round(longitude[::5])
    found = cells.locate(latitude, longitude)
    assert_array_equal(found, lowest_by_join(cells, latitude, longitude))
    assert set(found) == {-1, 0, 1, 2}


@pytest.mark.parametrize("resolution", [7, 9])
def test_points_are_in_the_hexagons_that_h3_says(resolution):
    cells = make_cells(PARIS, {"h3": resolution})
    wider = Box(south=48.8, north=48.9, west=2.25, east=2.42)
    latitude, longitude = random_points(wider, 100_000)
    names = np.append(cells.table["id"].to_numpy(), "")[cells.locate(latitude, longitude)]
    expected = [
        h3.latlng_to_cell(lat, lng, resolution)
        for lat, lng in zip(latitude.tolist(), longitude.tolist(), strict=True)
    ]
    kept = set(cells.table["id"])
    assert_array_equal(names, [name if name in kept else "" for name in expected])


@settings(max_examples=50, deadline=None)
@given(
    south=st.floats(-90, 89), west=st.floats(-180, 170), height=st.floats(0.5, 40),
    width=st.floats(0.5, 90),
)  # fmt: skip
@example(south=42, west=-141, height=41, width=89)
@example(south=-86.6, west=-12.9, height=23.2, width=89.5)
@example(south=84, west=0, height=6, width=80)
def test_hexagons_are_those_with_their_centre_in_the_box(south, west, height, width):
    box = Box(south=south, north=min(south + height, 90), west=west, east=min(west + width, 180))
    inside = box.contains(CENTRES[:, 0], CENTRES[:, 1])
    expected = sorted(cell for cell, kept in zip(EVERY_HEXAGON, inside, strict=True) if kept)
    try:
        cells = make_cells(Region("r", box), {"h3": 3})
    except InputError as error:
        assert len(expected) < 2 or "180th meridian" in str(error)
        return
    assert cells.table["id"].tolist() == expected


EVERY_HEXAGON = [cell for parent in h3.get_res0_cells() for cell in h3.cell_to_children(parent, 3)]
CENTRES = np.array([h3.cell_to_latlng(cell) for cell in EVERY_HEXAGON])


@pytest.mark.parametrize(("ids", "column", "numbers"), [
    (["0", "02", "x"], ["2.0", "002", "0", " x", "X", "2e0", "NA", "", None],
     [1, 1, 0, 2, -1, -1, -1, -1, -1]),
    ([1, 2.5, 7], [1, 7, 2], [0, 2, -1]),
    ([1, 2.5, 7], [2.5, 7.0, None], [1, 2, -1]),
])  # fmt: skip
def test_polygons_are_found_by_every_spelling_of_their_ids(tmp_path, ids, column, numbers):
    squares = shapely.box(np.arange(3), 0, np.arange(1, 4), 1)
    path = written(tmp_path, gpd.GeoDataFrame({"code": ids}, geometry=squares, crs=4326), "geojson")
    cells = make_cells(Region("r", Box(0, 1, 0, 3)), {"cells": {"path": path, "id": "code"}})
    assert cells.numbers(to_identifier(pa.array(column))[0]).tolist() == numbers


def test_hexagons_are_found_by_every_spelling_of_their_ids():
    cells = make_cells(PARIS, {"h3": 8})
    index = cells.table["id"][5]
    spellings = [index, index.upper(), f"0{index}", str(int(index, 16)), "x"]
    assert cells.numbers(to_identifier(pa.array(spellings))[0]).tolist() == [5, 5, 5, 5, -1]
    assert cells.numbers(to_identifier(pa.array([int(index, 16)]))[0]).tolist() == [5]


@pytest.mark.parametrize("resolution", [0, 3, 9, 15])
def test_all_hexagons_of_the_earth_are_numbered_and_found_without_a_list(resolution):
    cells = all_hexagons(resolution)
    expected = EVERY_HEXAGON
    if resolution != 3:
        expected = [h3.latlng_to_cell(*centre, resolution) for centre in CENTRES]
    latitude, longitude = np.array([h3.cell_to_latlng(cell) for cell in expected]).T
    numbers = cells.locate(latitude, longitude)
    assert numbers.min() >= 0 and numbers.max() < len(cells)
    assert len(set(numbers.tolist())) == len(set(expected))
    assert cells.total == h3.get_num_cells(resolution)
    rows = cells.rows(numbers[::40])
    assert rows["id"].tolist() == expected[::40]
    assert rows["cell"].tolist() == numbers[::40].tolist()
    identifiers = [*expected[::40], "8", "zz", h3.latlng_to_cell(0, 0, (resolution + 1) % 16)]
    found = cells.numbers(to_identifier(pa.array(identifiers))[0])
    assert found.tolist() == [*numbers[::40].tolist(), -1, -1, -1]


def test_hexagons_across_the_180th_meridian_are_cut_there():
    cells = all_hexagons(4)
    centres = CENTRES[np.abs(CENTRES[:, 0]) < 80]
    latitude, longitude = centres[:, 0], np.where(centres[:, 1] < 0, -179.99, 179.99)
    rows = cells.rows(cells.locate(latitude, longitude))
    assert rows.geometry.is_valid.all()
    assert rows.geom_type.isin(["Polygon", "MultiPolygon"]).all()
    widths = rows.geometry.explode().bounds
    assert (widths["maxx"] - widths["minx"]).max() < 20
    sizes = rows.geometry.to_crs(6933).area
    own = np.array([h3.cell_area(cell, "m^2") for cell in rows["id"]])
    assert np.allclose(sizes, own, rtol=0.02)


def test_polygons_that_only_touch_the_region_are_left_out(holed):
    region = Region("r", Box(south=0, north=6, west=0, east=6))
    assert len(make_cells(region, {"cells": {"path": str(holed)}})) == 2


def test_a_region_without_box_and_outline_is_that_of_its_polygons(holed):
    region = region_from_config("r", {"grids": {"districts": {"cells": {"path": str(holed)}}}})
    assert region.box == Box(south=0, north=6, west=0, east=8)
    with pytest.raises(InputError, match="must have either box or outline, unless a grid has"):
        region_from_config("r", {"grids": {"coarse": {"shape": [2, 2]}}})


def test_check_ins_of_hexagons_and_polygons_beyond_the_box_are_kept(holed):
    spec = {
        "box": {"south": 1, "north": 2, "west": 1, "east": 2},
        "grids": {"coarse": {"shape": [2, 2]}},
    }
    assert cropping_region("r", spec).box == Box(south=1, north=2, west=1, east=2)
    spec["grids"]["districts"] = {"cells": {"path": str(holed)}}
    with pytest.raises(InputError, match=r"but 1 found in .* for r"):
        cropping_region("r", spec)
    spec["box"] |= {"north": 3, "east": 3}
    assert cropping_region("r", spec).box == Box(south=0, north=6, west=0, east=6)


@pytest.mark.parametrize(
    ("region", "spec", "message"),
    [
        (PARIS, {"h3": 16}, r"h3 must be a resolution from 0 to 15, got 16"),
        (PARIS, {"h3": 14}, "h3: 14 gives paris about .* cells, more than 1,000,000"),
        (Region("wide", Box(0, 1, 0, 91)), {"h3": 1}, "at most 90 degrees of longitude wide"),
        (Region("fiji", Box(-19, -16, 177, 180)), {"h3": 3}, "across the 180th meridian"),
    ],
)  # fmt: skip
def test_wrong_hexagons(region, spec, message):
    with pytest.raises(InputError, match=message):
        make_cells(region, spec)
